"""`pgweir lab` as a process whose files, results and remains can be looked at."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from .pooler import PASSWORDS, program
from .waiting import eventually

DATABASE = "pgweir_lab"

# Time for a short measurement, and for one that was told to end, in seconds.
RUN_SECONDS_MAX = 90
END_SECONDS_MAX = 30


class Lab:
    """A folder with `files` for what is temporary and `results` for what stays. A context: all of it is gone after that."""

    def __enter__(self) -> Lab:
        self._folder = tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self._folder.name)
        # The unprivileged user of servers and poolers, or of the lab itself, gets there, too.
        self.folder.chmod(0o777)
        self.files = self.folder / "files"
        self.files.mkdir()
        self.files.chmod(0o777)
        self.results = self.folder / "results"
        return self

    def __exit__(self, *_exc) -> None:
        self._folder.cleanup()

    def start(self, command: str, *arguments, before=(), **environment) -> subprocess.Popen:
        """`before`: a command that runs the lab, such as setpriv with its options."""
        return subprocess.Popen(
            [*before, *program(), "lab", command, *arguments, "--output", str(self.results)],
            env={**os.environ, "TMPDIR": str(self.files), "PGPASSWORD": PASSWORDS["postgres"], **environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str, *arguments, **named) -> tuple[int, str]:
        """Its status, and all that it said."""
        with self.start(command, *arguments, **named) as process:
            output, errors = process.communicate(timeout=RUN_SECONDS_MAX)
        return process.returncode, output + errors

    def interrupted(self, number: signal.Signals, step: str, command: str, *arguments) -> int:
        """Its status after this signal, sent once the progress has come to `step`."""
        with self.start(command, *arguments) as process:
            said = []
            for line in process.stderr:
                said.append(line)
                if step in line:
                    break
            else:
                raise AssertionError(f"it never came to {step!r}: {''.join(said)}")
            time.sleep(0.3)
            process.send_signal(number)
            process.communicate(timeout=END_SECONDS_MAX)
        return process.returncode

    def result(self) -> dict:
        return json.loads((self.results / "result.json").read_text())

    def nothing_is_left(self, cluster=None) -> None:
        """No folder, no process, no database."""
        assert not self.results.exists()
        eventually(lambda: not os.listdir(self.files), what=lambda: str(os.listdir(self.files)))
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                    assert str(self.folder) not in file.read(), f"process {entry} is left"
            except (FileNotFoundError, ProcessLookupError):
                pass
        if cluster:
            assert databases(cluster) == "0"


def databases(cluster) -> str:
    """How many databases of the lab there are."""
    return cluster.psql(f"select count(*) from pg_database where datname = '{DATABASE}'").strip()


def conninfo(cluster, user: str = "postgres") -> str:
    return f"host={cluster.host} port={cluster.port} user={user} dbname=postgres"
