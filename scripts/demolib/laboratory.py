"""The last part: pgweir's own laboratory, on a throwaway PostgreSQL of its own, with a report that stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

# Half a minute, and a few seconds. More rounds and seconds make better figures; see docs/lab/README.md.
FULL = ("--clients-max", "32", "-T", "1", "--rounds", "2", "--scale", "2")
QUICK = ("--clients", "2,16", "--pool-sizes", "5", "-T", "1", "--rounds", "1", "--scale", "1")

# Conclusions that are shown; the report has them all.
CONCLUSIONS_MAX = 4

# Time to remove its server and database when it is told to end.
END_SECONDS_MAX = 30


class LaboratoryError(Exception):
    """It did not come to an end; the message says why."""


def measure(binary: str, bin_dir: str, reports_dir: str, temporary_dir: str, quick: bool) -> tuple[list[str], str]:
    """Runs `lab connections`, whose progress goes to standard error. Gives its conclusions and the path of its report."""
    try:
        os.makedirs(reports_dir, exist_ok=True)
    except OSError as error:
        raise LaboratoryError(f"no folder for the report: {error}") from error
    folder = os.path.join(reports_dir, time.strftime("connections-%Y%m%d-%H%M%S"))
    command = [binary, "lab", "connections", "--throwaway", "--bin-dir", bin_dir, "-b", "select-only"]
    command += [*(QUICK if quick else FULL), "--output", folder]
    lab = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "TMPDIR": temporary_dir},
    )
    try:
        status = lab.wait()
    finally:
        _end(lab)
    if status != 0:
        raise LaboratoryError(f"pgweir lab connections ended with status {status}")
    try:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            conclusions = json.load(file)["conclusions"]
    except (OSError, ValueError, KeyError) as error:
        raise LaboratoryError(f"its result cannot be read: {error!r}") from error
    return conclusions[:CONCLUSIONS_MAX], os.path.join(folder, "report.html")


def _end(lab: subprocess.Popen) -> None:
    """Has it remove everything, where it has not ended by itself."""
    if lab.poll() is None:
        lab.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            lab.wait(END_SECONDS_MAX)
    if lab.poll() is None:
        lab.kill()
        lab.wait()
