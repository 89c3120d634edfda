"""A program at a terminal: keys in, and what it has written; whether it leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

# The alternate screen, the cursor, wrapping of long lines.
ENTERED, LEFT = b"\x1b[?1049h", (b"\x1b[?7h", b"\x1b[?25h", b"\x1b[?1049l")


class Screen:
    """Runs the command at a terminal of this size. A context: the program has ended after that."""

    def __init__(self, command: list[str], columns: int = 120, lines: int = 40, **environment: str):
        self.terminal, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.written = b""
        # The terminal controls the program, so that it is in its foreground.
        self.process = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": "", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_exc) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self.slave)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What is written within that time; it is also in `written`."""
        part, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.terminal], [], [], left)
            if ready:
                part += os.read(self.terminal, 65536)
        self.written += part
        return part

    def wait(self, pattern: str, timeout: float = 10.0) -> str:
        """Reads until the pattern is on a page that has been written since this call; that page, without escapes."""
        text, end = b"", time.monotonic() + timeout
        while time.monotonic() < end:
            text += self.read(0.05)
            for page in reversed(pages(text)):
                if re.search(pattern, page):
                    return page
        raise AssertionError(f"no {pattern!r} on the screen:\n{plain(text)}")

    def ended(self, timeout: float = 10.0) -> int:
        """The exit status; what was written in the meantime is in `written`."""
        end = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        self.read(0.1)
        assert self.process.poll() is not None, f"it goes on:\n{plain(self.written)}"
        return self.process.returncode

    def is_restored(self) -> None:
        """The keyboard is set as before, and the screen, the cursor and wrapping are there again."""
        assert termios.tcgetattr(self.slave) == self.before
        assert ENTERED in self.written
        for escape in LEFT:
            assert self.written.rfind(escape) > self.written.rfind(ENTERED), escape

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def pages(text: bytes) -> list[str]:
    """The whole pages: each begins in the upper left corner and ends with the line of the keys."""
    return [plain(page) for page in text.split(b"\x1b[H")[1:] if b"q quit" in page]


def plain(text: bytes) -> str:
    """Without escapes."""
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text.decode(errors="replace")).replace("\r\n", "\n")
