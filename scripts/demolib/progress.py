"""What is being done, how fast, and how long everything will still take.

At a terminal one line that is kept up to date; elsewhere a line now and then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

REFRESH_SECONDS = 0.2
# Where every line stays.
LINE_SECONDS = 5
BAR_WIDTH = 10


@dataclass
class Step:
    """One thing to do. `seconds` is what it should take."""

    name: str
    seconds: float
    # Transactions per second just now.
    tps: float | None = None
    # How it ended.
    result: str = "done"
    failure: str | None = None


class Progress:
    """Goes through the steps in their order. A context: leaves a clean line behind, however it is left."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.out = sys.stderr
        self.live = self.out.isatty() and os.environ.get("TERM") != "dumb"
        self.colour = self.live and not os.environ.get("NO_COLOR")
        self._at = -1
        self._began = time.monotonic()
        self._running = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)
        self._name_width = max(len(step.name) for step in steps)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_exc) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with self._lock:
            if self.live and self._running:
                self._write("\r\x1b[K")
            self._running = False

    @contextlib.contextmanager
    def step(self) -> Iterator[Step]:
        """The next step; it is over when the block is."""
        with self._lock:
            self._at += 1
            self._began = time.monotonic()
            self._running = True
            step = self.steps[self._at]
            if not self.live:
                self._write(f"[{self._at + 1}/{len(self.steps)}] {step.name} (about {self._left()} s left)\n")
        yield step
        with self._lock:
            self._running = False
            if self.live:
                mark = self._paint("31", "  --") if step.failure else self._paint("32", "  ok")
                line = f"  {mark}  {step.name.ljust(self._name_width)}  {self._ended(step)}"
                self._write(f"\r\x1b[K{line.rstrip()}\n")
            else:
                self._write(f"      {self._ended(step)}\n")

    def _ended(self, step: Step) -> str:
        if step.failure:
            return f"FAILED: {step.failure}"
        return step.result.rjust(11) if self.live else step.result

    def _refresh(self) -> None:
        while not self._closed.wait(REFRESH_SECONDS if self.live else LINE_SECONDS):
            with self._lock:
                if self._running:
                    self._show(self.steps[self._at])

    def _show(self, step: Step) -> None:
        tps = "" if step.tps is None else f"{step.tps:,.0f} TPS"
        if not self.live:
            self._write(f"      {tps + ', ' if tps else ''}about {self._left()} s left\n")
            return
        share = min(1.0, (time.monotonic() - self._began) / step.seconds)
        bar = "#" * round(share * BAR_WIDTH)
        text = f"  {'run':>4}  {step.name.ljust(self._name_width)}  {tps.rjust(11)}"
        tail = f"  [{bar.ljust(BAR_WIDTH, '.')}]  {self._left()} s left"
        columns = shutil.get_terminal_size().columns
        if len(text) + len(tail) >= columns:
            tail = f"  {self._left()} s left"
        self._write("\r\x1b[K" + (text + tail)[: columns - 1])

    def _left(self) -> int:
        elapsed = time.monotonic() - self._began
        now = max(0.0, self.steps[self._at].seconds - elapsed)
        return round(now + sum(step.seconds for step in self.steps[self._at + 1 :]))

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()
