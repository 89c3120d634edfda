"""What is shown, and how one run of it is measured.

bench/lib/load.py measures more exactly, tells nothing while it runs, and takes
its time. Here a run lasts as long as connecting takes, and then so many seconds.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import load
import pgthrow
import targets
from progress import Step
from rows import LoadRow

DIRECT, POOLED = "direct", "through pgweir"


@dataclass(frozen=True)
class DemoRow:
    """A load, and what it is called where there is little room."""

    short: str
    load: LoadRow
    # Each transaction is a connection of its own.
    logs_in: bool = False

    @property
    def name(self) -> str:
        return self.load.name

    @property
    def clients(self) -> int:
        return self.load.clients


ROWS = (
    DemoRow(
        "short connections",
        # A thread for each client: a thread of pgbench does nothing else while it logs in.
        LoadRow("short", "8 clients that log in anew for each query", 8, ("-S", "-C", "-M", "simple", "-j", "8")),
        logs_in=True,
    ),
    DemoRow("64 clients", LoadRow("64", "64 clients that stay connected", 64, ("-S", "-M", "prepared", "-j", "2"))),
    DemoRow(
        "1,000 clients",
        # New server processes fill their caches with their first statements.
        LoadRow(
            "1000",
            "1,000 clients that stay connected",
            1000,
            ("-S", "-M", "prepared", "-j", "2"),
            warm_up_seconds=3,
        ),
    ),
)

# A pgbench that has made no report after this long is stuck.
CONNECT_SECONDS_MAX = 90
# pgbench is told when to end. Should it not be, or not obey, it ends this much later.
OVERDUE_SECONDS = 30

# "initial connection time = 2345.678 ms", without -C only
CONNECTED_MS = re.compile(r"^initial connection time = ([0-9.]+) ms", re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """One run."""

    tps: float
    # Milliseconds from one result of a client to its next, the login included where each query has one.
    average_ms: float | None
    p99_ms: float | None
    # Milliseconds until all clients were connected; None where each query logs in.
    connected_ms: float | None
    # Server processes that work for clients.
    processes: int | None
    # What they have for themselves alone (private pages and page tables), added up.
    processes_bytes: int | None
    # Resident memory of pgweir; None for direct.
    pooler_bytes: int | None


def measure(
    row: DemoRow, running: targets.Running, seconds: int, cluster: pgthrow.Cluster, work_dir: str, step: Step
) -> Figures:
    """Connects all clients, lets the warm-up and then `seconds` pass. Raises LoadError if anything at all failed."""
    with tempfile.TemporaryDirectory(prefix="pgbench-", dir=work_dir) as log_dir:
        pgthrow.give_to_server_user(log_dir)
        return _measure(row, running, seconds, cluster, log_dir, step)


def _measure(
    row: DemoRow, running: targets.Running, seconds: int, cluster: pgthrow.Cluster, log_dir: str, step: Step
) -> Figures:
    seconds_max = CONNECT_SECONDS_MAX + row.load.warm_up_seconds + seconds + OVERDUE_SECONDS
    command = [pgthrow.client_program("pgbench"), "-n", *row.load.pgbench, "-c", str(row.clients)]
    # The alarm that ends it comes from here, so that connecting does not count.
    command += ["-T", str(seconds_max), "-P", "1", "--progress-timestamp", "-l", f"--log-prefix={log_dir}/log"]
    command += ["-h", targets.HOST, "-p", str(running.port), "-U", targets.USER, targets.DATABASE]
    pgbench = subprocess.Popen(
        pgthrow.as_server_user(command, die_with_parent="KILL"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PGSSLMODE": "disable", "PGGSSENCMODE": "disable", "LC_ALL": "C"},
    )
    reports: list[tuple[float, float]] = []
    errors: list[str] = []
    processes: list[int] = []
    processes_bytes = pooler_bytes = None
    ending = False
    try:
        with (
            _timer(seconds_max + OVERDUE_SECONDS, pgbench.kill),
            _timer(CONNECT_SECONDS_MAX, pgbench.kill) as connecting,
        ):
            for line in pgbench.stderr:
                report = load.PROGRESS.match(line)
                if report is None:
                    if any(word in line.lower() for word in ("error", "aborted", "fatal")):
                        errors.append(line.strip())
                    continue
                if ending:
                    continue
                connecting.cancel()
                step.tps = float(report[2])
                reports.append((float(report[1]), step.tps))
                counted = reports[row.load.warm_up_seconds - 1 :]
                if row.logs_in and counted:
                    processes = max(processes, _server_processes(cluster.pid), key=len)
                if counted and counted[-1][0] - counted[0][0] >= seconds - 0.5:
                    ending = True
                    # Held still: reading the memory of a thousand busy processes takes them many seconds.
                    pgbench.send_signal(signal.SIGSTOP)
                    if not row.logs_in:
                        processes = _server_processes(cluster.pid)
                        processes_bytes = _own_bytes(processes)
                    if running.pid is not None:
                        pooler_bytes = _status_bytes(running.pid, "VmRSS")
                    pgbench.send_signal(signal.SIGALRM)
                    pgbench.send_signal(signal.SIGCONT)
            output = pgbench.stdout.read()
            status = pgbench.wait()
    finally:
        if pgbench.poll() is None:
            pgbench.kill()
            pgbench.wait()

    failed = load.FAILED.search(output)
    if status != 0 or errors or (failed is not None and int(failed[1]) != 0):
        silent = f"no answer within {CONNECT_SECONDS_MAX} s" if status == -signal.SIGKILL and not reports else ""
        first = errors[0].removeprefix("pgbench: error: ") if errors else ""
        raise load.LoadError(first or silent or f"pgbench ended with status {status}")
    counted = reports[row.load.warm_up_seconds - 1 :]
    if len(counted) < 2:
        raise load.LoadError("the machine was too busy for pgbench to report in time")
    began, ended = counted[0][0], counted[-1][0]
    transactions = sum(tps * (at - counted[i][0]) for i, (at, tps) in enumerate(counted[1:]))
    times_us = _times_us(log_dir, began, ended)
    p99_us = load.percentile(times_us, 0.99)
    connected = CONNECTED_MS.search(output)
    return Figures(
        tps=transactions / (ended - began),
        average_ms=sum(times_us) / len(times_us) / 1000 if times_us else None,
        p99_ms=None if p99_us is None else p99_us / 1000,
        connected_ms=float(connected[1]) if connected and not row.logs_in else None,
        processes=len(processes) or None,
        processes_bytes=processes_bytes,
        pooler_bytes=pooler_bytes,
    )


@contextlib.contextmanager
def _timer(seconds: float, action: Callable[[], None]) -> Iterator[threading.Timer]:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()


def _times_us(log_dir: str, began: float, ended: float) -> list[int]:
    """Microseconds from one result of a client to its next, for those that came between these times; sorted.

    A client of pgbench does nothing between its transactions, but log out and in
    with -C. The latency in the log leaves that out, and also how long a result
    waits for pgbench, which a thousand busy server processes keep from running.
    A line is "client transaction latency_us script epoch_s epoch_us".
    """
    times = []
    for path in glob.glob(os.path.join(log_dir, "log.*")):
        last_end_us: dict[str, int] = {}
        with open(path, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if len(fields) < 6:
                    continue
                end_us = int(fields[4]) * 1_000_000 + int(fields[5])
                before_us = last_end_us.get(fields[0])
                last_end_us[fields[0]] = end_us
                if before_us is not None and began <= end_us / 1e6 <= ended:
                    times.append(end_us - before_us)
    return sorted(times)


def _server_processes(postmaster: int) -> list[int]:
    """Those that have a client: "postgres: USER DATABASE ..." is what they call themselves."""
    found = []
    with contextlib.suppress(OSError), open(f"/proc/{postmaster}/task/{postmaster}/children", encoding="ascii") as file:
        for pid in file.read().split():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as line:
                if f"postgres: {targets.USER} {targets.DATABASE} " in line.read():
                    found.append(int(pid))
    return found


def _own_bytes(pids: list[int]) -> int | None:
    """Anonymous pages, those shared with others divided among them, and page tables. None where the kernel hides it."""
    total = 0
    try:
        for pid in pids:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                found = re.search(r"^Pss_Anon:\s+(\d+) kB", file.read(), re.MULTILINE)
            if found is None:
                return None
            total += int(found[1]) * 1024 + (_status_bytes(pid, "VmPTE") or 0)
    except OSError:
        return None
    return total or None


def _status_bytes(pid: int, name: str) -> int | None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        found = re.search(rf"^{name}:\s+(\d+) kB", file.read(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return None
