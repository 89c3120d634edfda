"""The accounts when all clients have gone: what the pooler still has, and what its counters say."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from ..waiting import eventually

# Seconds until everything that clients and servers have left behind must be gone.
IDLE_SECONDS_MAX = 30.0

# How much more memory a process may have at the end than at the first rest: a share of it, and kB.
GROWTH_SHARE_MAX = 0.2
GROWTH_KB_MAX = 6 * 1024

# How much a process that nobody takes over may grow between rounds of the same work, in kB. Without a leak it grew by 0 to 90
# in runs of 1.5 to 3 minutes. With one of every 40th piece of 200 bytes to 4 kB it grew by 470, and the accounts of processes
# that have just taken over were as usual.
STEADY_GROWTH_KB_MAX = 256

# Share of a processor that an idle pooler may take, and how long it is watched, in seconds.
IDLE_CPU_SHARE_MAX = 0.25
IDLE_WATCHED_SECONDS = 1.0

# Of SHOW LISTS: the operator, and who asks, are clients.
CLIENT_COUNTS = ("used_clients", "login_clients", "used_servers")


class Account(NamedTuple):
    """One process at rest. Memory in kB, resident."""

    open_files: int
    memory: int
    lists: dict[str, int]


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1])


def heap(pid: int) -> int:
    """What the process has allocated and touched, in kB; the program itself does not count."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"RssAnon:\s+(\d+) kB", file.read())[1])


def processor_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def empty(world) -> None:
    """Waits until no client, server, backend or former process is left."""
    pooler = world.pooler

    def left() -> list:
        clients = [row for row in pooler.console("show clients") if row["database"] != "pgbouncer"]
        servers = pooler.console("show servers")
        # One without a connection is forgotten half a minute later.
        listeners = [row for row in pooler.console("show listeners") if row["server"] or row["channels"] != "0"]
        former = [process.pid for process in pooler.predecessors if process.poll() is None]
        return [what for what in (clients, servers, listeners, former) if what]

    world.operator.order("reconnect")
    eventually(lambda: not left(), IDLE_SECONDS_MAX, 0.2, lambda: f"nothing left: {left()}")
    for row in pooler.console("show pools"):
        counts = {value for key, value in row.items() if key.startswith(("cl_", "sv_"))}
        assert row["database"] == "pgbouncer" or counts == {"0"}, f"SHOW POOLS of an idle pooler: {row}"
    backends = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
    eventually(lambda: world.cluster.psql(backends) == "0", what="no backend left")


def take(world) -> Account:
    """The account of the pooler at rest; every client has gone."""
    empty(world)
    pooler = world.pooler
    state = {row["key"]: row["value"] for row in pooler.console("show state")}
    assert state == {"active": "yes", "paused": "no", "suspended": "no"}, state
    lists = {row["list"]: int(row["items"]) for row in pooler.console("show lists")}
    assert [lists[name] for name in CLIENT_COUNTS] == [2, 0, 0], f"SHOW LISTS of an idle pooler: {lists}"
    check_counters(world)
    used = processor_seconds(pooler.process.pid)
    time.sleep(IDLE_WATCHED_SECONDS)
    used = processor_seconds(pooler.process.pid) - used
    assert used < IDLE_CPU_SHARE_MAX * IDLE_WATCHED_SECONDS, f"an idle pooler takes {used:.2f} s of a processor each second"
    return Account(open_files(pooler.process.pid), memory(pooler.process.pid), lists)


def check_totals(world) -> None:
    """Totals never decrease, also over a take-over."""
    totals = {row["name"]: int(row["value"]) for row in world.pooler.console("show totals") if row["name"].startswith("total_")}
    for name, before in world.totals.items():
        assert totals[name] >= before, f"SHOW TOTALS: {name} went from {before} to {totals[name]}"
    world.totals = totals


def check_counters(world) -> None:
    """What the pooler has counted agrees with what the clients have counted."""
    check_totals(world)
    rows = [row for row in world.pooler.console("show stats") if row["database"].startswith("shop")]
    for ours, name in ((("logins", "logins_begun"), "total_client_login_count"), (("answered", "asked"), "total_query_count")):
        told = sum(int(row[name]) for row in rows)
        low, high = (world.counts[key] for key in ours)
        assert low <= told <= high, f"SHOW STATS: {name} is {told}, and clients counted {low} to {high}"


def compare(first: Account, last: Account) -> None:
    """What grew between two rests of processes that have just taken over."""
    assert last.open_files <= first.open_files, f"{last.open_files} open files at the end, {first.open_files} before"
    allowed = first.memory * (1 + GROWTH_SHARE_MAX) + GROWTH_KB_MAX
    assert last.memory <= allowed, f"{last.memory} kB of memory at the end, {first.memory} kB before"


def growth(heaps: list[int]) -> int:
    """How much more the process has at the rests after the last two rounds than after the second and third one, in kB. The
    first one warms it up, and of two rests the one is taken that shows less of a growth, because the allocator gives pages
    back when it likes."""
    return min(heaps[-2:]) - max(heaps[1:3])


def check_growth(heaps: list[int]) -> None:
    grown = growth(heaps)
    assert grown <= STEADY_GROWTH_KB_MAX, f"a process has grown by {grown} kB between rounds of the same work: {heaps} kB"


def check_log(pooler) -> None:
    """No sign of a defect in the log, nor on standard error."""
    signs = re.findall(r"(?i)^.*(?:\bBUG\b|panicked|invariant|internal error).*$", pooler.log() + pooler.stderr(), re.MULTILINE)
    assert not signs, "\n".join(signs[:10])


def messages(pooler) -> dict[str, int]:
    """How often the log has which warnings and errors; numbers and names of connections are left out."""
    counts: dict[str, int] = {}
    for line in pooler.log().splitlines():
        found = re.search(r"\] (WARNING|ERROR|FATAL) (?:[CS]-\S+: )?(.*)", line)
        if found:
            text = f"{found[1]} {re.sub(r'[0-9]+', 'N', found[2])[:160]}"
            counts[text] = counts.get(text, 0) + 1
    return counts
