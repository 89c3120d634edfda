"""What is measured: one entry per row of the table."""

from __future__ import annotations

import os
from dataclasses import dataclass


SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts")


@dataclass(frozen=True)
class LoadRow:
    """A pgbench load. `pgbench` is added to its command line as it stands."""

    name: str
    says: str
    clients: int
    pgbench: tuple[str, ...]
    # Share of transactions whose latency is written down: logging all of a fast load would slow pgbench.
    sampling_rate: float = 1.0
    # Leaves dead rows behind, so the tables are tidied before each run.
    writes: bool = False
    # Nothing counts before: connections are made and caches filled. PostgreSQL needs long for 1,000 of its own.
    warm_up_seconds: int = 1
    # The relay opens a server connection for each of its clients; where that changes the work, it is no lower bound.
    relay_is_bound: bool = True
    # Who cannot do it: what a client has made on one server is not there on the next.
    not_through: tuple[str, ...] = ()
    # Of several scripts, the one whose latency counts, by its position on pgbench's command line.
    latency_of: int | None = None
    # Of pgbench's connections, as libpq spells it.
    sslmode: str = "disable"


@dataclass(frozen=True)
class IdleRow:
    """Clients that log in, run one query each, and stay."""

    name: str
    says: str
    clients: int


def _scripts(*weights: tuple[str, int]) -> tuple[str, ...]:
    """pgbench's options for scripts of this folder with these weights."""
    return tuple(word for name, weight in weights for word in ("-f", f"{os.path.join(SCRIPTS, name)}@{weight}"))


LOAD_ROWS = (
    LoadRow("select-simple", "select by key, simple protocol, 16 clients", 16, ("-S", "-M", "simple"), 0.1),
    LoadRow("select-extended", "the same, extended protocol", 16, ("-S", "-M", "extended"), 0.1),
    LoadRow("select-prepared", "the same, prepared statements", 16, ("-S", "-M", "prepared"), 0.1),
    LoadRow("simple-64", "select by key, simple protocol, 64 clients", 64, ("-S", "-M", "simple", "-j", "2"), 0.1),
    LoadRow("extended-64", "the same, extended protocol", 64, ("-S", "-M", "extended", "-j", "2"), 0.1),
    LoadRow("prepared-64", "the same, prepared statements", 64, ("-S", "-M", "prepared", "-j", "2"), 0.1),
    LoadRow("tpcb-prepared", "TPC-B-like, prepared, 16 clients", 16, ("-M", "prepared"), writes=True),
    LoadRow("tpcb-64", "TPC-B-like, prepared, 64 clients", 64, ("-M", "prepared", "-j", "2"), writes=True),
    LoadRow(
        "mixed",
        "64 clients: 90 short reads to 5 queries of 5 ms and 5 TPC-B-like; latency is that of the short reads",
        64,
        ("-M", "extended", "-j", "2", *_scripts(("by-key.sql", 90), ("five-milliseconds.sql", 5)), "-b", "tpcb-like@5"),
        0.5,
        writes=True,
        latency_of=0,
    ),
    LoadRow(
        "hostile",
        "64 clients: 90 short reads to 10 of a kind that takes 100 ms once in 1,000; latency is that of the former",
        64,
        ("-M", "prepared", "-j", "2", *_scripts(("by-key.sql", 90), ("rarely-slow.sql", 10))),
        0.5,
        latency_of=0,
    ),
    LoadRow(
        "connect",
        "a connection per transaction (-C), 16 clients",
        16,
        ("-S", "-C", "-M", "simple"),
        relay_is_bound=False,
    ),
    LoadRow("one-client", "select, prepared, 1 client", 1, ("-S", "-M", "prepared"), 0.2),
    LoadRow(
        "1000-clients",
        "select, prepared, 1,000 clients",
        1000,
        ("-S", "-M", "prepared", "-j", "2"),
        0.1,
        warm_up_seconds=4,
    ),
    LoadRow(
        "simple-1000",
        "select, simple, 1,000 clients",
        1000,
        ("-S", "-M", "simple", "-j", "2"),
        0.1,
        warm_up_seconds=4,
    ),
    LoadRow(
        "own-settings",
        "select, simple, 64 clients, each with a search_path of its own",
        64,
        ("-M", "simple", "-D", "set=0", "-f", os.path.join(SCRIPTS, "own-search-path.sql")),
        0.1,
        not_through=("pgweir-plain", "pgbouncer"),
        relay_is_bound=False,
    ),
    LoadRow(
        "sql-execute",
        "EXECUTE of a statement prepared in SQL, 32 clients",
        32,
        ("-M", "simple", "-D", "set=0", "-f", os.path.join(SCRIPTS, "execute.sql")),
        0.1,
        not_through=("pgweir-plain", "pgbouncer"),
    ),
)


def idle_row(clients: int) -> IdleRow:
    return IdleRow("idle", f"{clients:,} idle clients: memory", clients)


ROW_NAMES = tuple(row.name for row in LOAD_ROWS) + ("idle",)
