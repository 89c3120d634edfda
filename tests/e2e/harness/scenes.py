"""Situations that many tests begin with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import wire
from .pooler import Pooler, kind


def backend_pid(c: wire.Connection) -> str:
    """Process id of the server backend that runs this query."""
    return c.value("select pg_backend_pid()")


@contextlib.contextmanager
def held_server(pooler: Pooler, pid: str | None = None, **named) -> Iterator[wire.Connection]:
    """Another client that keeps a server by a transaction: with `pid`, that very one, or the test is not what it says."""
    with pooler.connect(**named) as holder:
        holder.query("begin")
        got = backend_pid(holder)
        if pid is not None and kind() != "direct":
            assert got == pid, "the pooler did not give out the server that was used last"
        yield holder
        holder.query("rollback")


@contextlib.contextmanager
def elsewhere(pooler: Pooler, c: wire.Connection, pid: str, **named) -> Iterator[None]:
    """While this lasts, `c` gets another server than the one with this process id, which it used until now."""
    with held_server(pooler, pid, **named):
        yield
