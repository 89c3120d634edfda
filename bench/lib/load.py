"""One pgbench run through one target, and what it cost."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass

import pgthrow
import procfs
from rows import LoadRow
from targets import DATABASE, HOST, USER, Running

REPORT_SECONDS = 1
# After what is measured: clients that leave early slow the others, most of all direct, where each ends a backend.
RUN_OUT_SECONDS = 1
# A run that takes this much longer than it was told to is stuck.
OVERDUE_SECONDS = 60

# "progress: 1763716112.345 s, 20123.4 tps, lat 0.795 ms stddev 0.213, 0 failed"
PROGRESS = re.compile(r"^progress: ([0-9.]+) s, ([0-9.]+) tps, ")
FAILED = re.compile(r"^number of failed transactions: (\d+) ", re.MULTILINE)
CONNECT_MS = re.compile(r"^average connection time = ([0-9.]+) ms", re.MULTILINE)


# pgbench's duration includes connecting, which takes PostgreSQL long where each client gets a backend of its own.
BACKENDS_STARTED_PER_SECOND = 50


class LoadError(Exception):
    """The run had errors, so its numbers mean nothing."""


class TooShort(Exception):
    """Nothing went wrong, but the machine was too busy for pgbench to report in time: the run does not count."""


@dataclass
class LoadResult:
    """Times in microseconds; None where it does not apply."""

    tps: float
    p50_us: float | None
    p99_us: float | None
    connect_us: float | None
    # CPU time of the pooler per transaction.
    cpu_us: float | None
    cpu_user_us: float | None
    cpu_system_us: float | None
    # Of one CPU: 1.0 is one thread always busy.
    cpu_share: float | None


def run_load(row: LoadRow, target: Running, seconds: int, work_dir: str, cpus: set[int] | None) -> LoadResult:
    """Runs pgbench for a warm-up, `seconds` and a run-out; counts only what lies between."""
    log_dir = tempfile.mkdtemp(prefix="pgbench-", dir=work_dir)
    try:
        return _run(row, target, seconds, log_dir, cpus)
    finally:
        shutil.rmtree(log_dir, ignore_errors=True)


def _run(row: LoadRow, target: Running, seconds: int, log_dir: str, cpus: set[int] | None) -> LoadResult:
    connect_seconds = 0 if target.pools else row.clients // BACKENDS_STARTED_PER_SECOND
    total_seconds = connect_seconds + row.warm_up_seconds + seconds + RUN_OUT_SECONDS
    command = [pgthrow.client_program("pgbench"), "-n", *row.pgbench, "-c", str(row.clients), "-T", str(total_seconds)]
    command += ["-P", str(REPORT_SECONDS), "--progress-timestamp"]
    command += ["-l", f"--log-prefix={log_dir}/log", f"--sampling-rate={row.sampling_rate}"]
    command += ["-h", HOST, "-p", str(target.port), "-U", USER, DATABASE]
    if cpus is not None:
        command = ["taskset", "-c", ",".join(map(str, sorted(cpus))), *command]
    pgbench = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGSSLMODE": row.sslmode, "PGGSSENCMODE": "disable", "LC_ALL": "C"},
    )
    watchdog = threading.Timer(total_seconds + OVERDUE_SECONDS, pgbench.kill)
    watchdog.start()
    reports: list[tuple[float, float]] = []
    readings: list[procfs.CpuReading] = []
    errors: list[str] = []
    try:
        # pgbench tells of its progress on standard error, and of its result on standard output when all is over.
        for line in pgbench.stderr:
            progress = PROGRESS.match(line)
            if progress:
                if target.pid is not None:
                    readings.append(procfs.read_cpu(target.pid))
                reports.append((float(progress[1]), float(progress[2])))
            elif "error" in line or "aborted" in line or "fatal" in line.lower():
                errors.append(line.strip())
        output = pgbench.stdout.read()
        status = pgbench.wait()
    finally:
        watchdog.cancel()
        if pgbench.poll() is None:
            pgbench.kill()
            pgbench.wait()

    failed = FAILED.search(output)
    if status != 0 or errors or failed is None or int(failed[1]) != 0:
        raise LoadError("; ".join(errors[:3]) or f"pgbench ended with status {status}: {output.strip()[-300:]}")
    # Counted from the report that ends the warm-up; the first report includes connecting, however long that takes.
    window = slice(row.warm_up_seconds // REPORT_SECONDS - 1, (row.warm_up_seconds + seconds) // REPORT_SECONDS)
    reports, readings = reports[window], readings[window]
    if len(reports) < 2:
        raise TooShort(f"pgbench made {len(reports)} reports after its warm-up of {row.warm_up_seconds} s")

    began, ended = reports[0][0], reports[-1][0]
    transactions = sum(tps * (at - reports[i][0]) for i, (at, tps) in enumerate(reports[1:]))
    tps = transactions / (ended - began)
    latencies = _latencies(log_dir, began, ended, row.latency_of)
    connect = CONNECT_MS.search(output)
    result = LoadResult(
        tps=tps,
        p50_us=percentile(latencies, 0.50),
        p99_us=percentile(latencies, 0.99),
        connect_us=float(connect[1]) * 1000 if connect else None,
        cpu_us=None,
        cpu_user_us=None,
        cpu_system_us=None,
        cpu_share=None,
    )
    if readings:
        # Rates, because a reading comes a little later than the report it belongs to.
        elapsed = readings[-1].read_at - readings[0].read_at
        share = (readings[-1].total - readings[0].total) / elapsed
        user = readings[-1].user - readings[0].user
        system = readings[-1].system - readings[0].system
        result.cpu_share = share
        result.cpu_us = share / tps * 1e6
        result.cpu_user_us = result.cpu_us * user / (user + system) if user + system else None
        result.cpu_system_us = result.cpu_us * system / (user + system) if user + system else None
    return result


def _latencies(log_dir: str, began: float, ended: float, script: int | None) -> list[int]:
    """Latencies in microseconds of the transactions (of this script, if one is named) that ended between these times, sorted.

    A line is "client transaction latency_us script epoch_s epoch_us".
    """
    latencies = []
    for path in glob.glob(os.path.join(log_dir, "log.*")):
        with open(path, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if script is not None and fields[3:4] != [str(script)]:
                    continue
                if len(fields) >= 6 and began <= int(fields[4]) + int(fields[5]) / 1e6 <= ended:
                    latencies.append(int(fields[2]))
    return sorted(latencies)


def percentile(values: list[int], share: float) -> float | None:
    """Nearest rank, of sorted values."""
    if not values:
        return None
    return float(values[min(len(values) - 1, int(share * len(values)))])
