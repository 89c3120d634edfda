"""Waiting for what must come true, without guessing how long it takes."""

from __future__ import annotations

import subprocess
import time


def eventually(check, timeout: float = 20.0, interval: float = 0.03, what="the condition"):
    """Calls `check` until it returns something true, which is returned; fails with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(interval)


def holds(check, seconds: float, interval: float = 0.03, what="the condition") -> None:
    """Fails unless `check` stays true for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert check(), what() if callable(what) else what
        time.sleep(interval)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self):
        self.start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start


def read_until(stream, words: str) -> str:
    """What a program says up to these words, letter by letter: a question has no line end."""
    said = ""
    while words not in said:
        letter = stream.read(1)
        assert letter, f"it ended without {words!r}: {said}"
        said += letter
    return said


def ended(process: subprocess.Popen, timeout: float = 10.0) -> str:
    """Waits for the end of a program that has little more to say; what it said on standard error."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.stderr.read()
