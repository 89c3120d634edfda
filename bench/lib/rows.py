"""What is measured: one entry per row of the table."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class IdleRow:
    """Clients that log in, run one query each, and stay."""

    name: str
    says: str
    clients: int


LOAD_ROWS = (
    LoadRow("select-simple", "select by key, simple protocol, 16 clients", 16, ("-S", "-M", "simple"), 0.1),
    LoadRow("select-extended", "the same, extended protocol", 16, ("-S", "-M", "extended"), 0.1),
    LoadRow("select-prepared", "the same, prepared statements", 16, ("-S", "-M", "prepared"), 0.1),
    LoadRow("tpcb-prepared", "TPC-B-like, prepared, 16 clients", 16, ("-M", "prepared"), writes=True),
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
)


def idle_row(clients: int) -> IdleRow:
    return IdleRow("idle", f"{clients:,} idle clients: memory", clients)


ROW_NAMES = tuple(row.name for row in LOAD_ROWS) + ("idle",)
