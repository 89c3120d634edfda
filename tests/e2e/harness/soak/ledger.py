"""What one client of the soak knows of its rows in table `ledger`: those it was told are committed, and those in doubt."""

from __future__ import annotations

import time

TABLE = "create table ledger (client int, n int, primary key (client, n)); grant all on ledger to public"

# Seconds after which a transaction whose client was never answered has been committed or has gone.
DOUBT_SECONDS_MAX = 30.0


class Lost(AssertionError):
    """The table does not hold what the client was told."""


class Ledger:
    """Rows have numbers that are never used again: the next ones are those behind all that were tried."""

    def __init__(self, client: int):
        self.client = client
        self.next = 1
        # Of the rows that were told to be committed.
        self.count, self.sum = 0, 0
        # First row, number of rows, and when they were sent: committed together, or not at all.
        self.doubts: list[tuple[int, int, float]] = []

    def take(self, count: int = 1) -> int:
        """Numbers for so many rows; the first one."""
        first = self.next
        self.next += count
        return first

    def doubt(self, first: int, count: int = 1) -> None:
        """From now on these rows may be committed."""
        self.doubts.append((first, count, time.monotonic()))

    def told(self) -> None:
        """The server has said that the latest rows in doubt are committed."""
        self._add(*self.doubts.pop()[:2])

    def failed(self) -> None:
        """The server has said that the latest rows in doubt are not committed."""
        self.doubts.pop()

    def _add(self, first: int, count: int) -> None:
        self.count += count
        self.sum += sum(range(first, first + count))

    def check(self, look) -> None:
        """`look` runs a query and returns its rows. Nothing told is lost, nothing else is there."""
        now = time.monotonic()
        for doubt in [doubt for doubt in self.doubts if now - doubt[2] > DOUBT_SECONDS_MAX]:
            self.settle(doubt, look)
        apart = "".join(f" and n not between {first} and {first + count - 1}" for first, count, _ in self.doubts)
        rows = look(f"select count(*), coalesce(sum(n), 0) from ledger where client = {self.client}{apart}")
        if rows != [(str(self.count), str(self.sum))]:
            raise Lost(f"rows and their sum are {rows[0]} instead of {(self.count, self.sum)}; in doubt: {self.doubts}")

    def settle(self, doubt: tuple[int, int, float], look) -> None:
        first, count, _ = doubt
        where = f"client = {self.client} and n between {first} and {first + count - 1}"
        there = int(look(f"select count(*) from ledger where {where}")[0][0])
        if there not in (0, count):
            raise Lost(f"{there} of {count} rows of a transaction are there, from row {first}")
        self.doubts.remove(doubt)
        if there:
            self._add(first, count)
