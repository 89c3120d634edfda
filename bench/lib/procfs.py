"""What the kernel says about a process: CPU time and memory, over all its threads."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

TICK_SECONDS = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuReading:
    """CPU time used so far, in seconds, and when it was read (seconds since the epoch)."""

    read_at: float
    # From the scheduler, in nanoseconds; exact to the last time each thread left the CPU or was interrupted.
    total: float
    # Sampled by the timer tick: good for how the total splits, not for the total.
    user: float
    system: float


def read_cpu(pid: int) -> CpuReading:
    total_ns = 0
    exact = True
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            # "Scheduler statistics" in the kernel's documentation: time on the CPU in ns, time waiting, slices.
            total_ns += int(_read(f"/proc/{pid}/task/{thread}/schedstat").split()[0])
        except FileNotFoundError:
            # The thread ended, or this kernel has no schedstat.
            exact = exact and not os.path.exists(f"/proc/{pid}/task/{thread}")
    # Fields after the name, which may hold spaces and brackets: utime and stime are fields 14 and 15 of the line.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    user, system = int(fields[11]) * TICK_SECONDS, int(fields[12]) * TICK_SECONDS
    return CpuReading(time.time(), total_ns / 1e9 if exact else user + system, user, system)


@dataclass(frozen=True)
class MemoryReading:
    """Bytes: all resident pages, and the process's share of those it has in common with others."""

    rss: int
    pss: int


def read_memory(pid: int) -> MemoryReading:
    values = {}
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines()[1:]:
        name, value = line.split(":")
        values[name] = int(value.split()[0]) * 1024
    return MemoryReading(values["Rss"], values["Pss"])


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()
