"""The pooler under test: PgBouncer or pgweir in front of a cluster."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import pgthrow  # noqa: E402
from harness import wire  # noqa: E402

START_SECONDS_MAX = 10
STOP_SECONDS_MAX = 10

# What tells of a crash in its log.
CRASH = re.compile(r".*panicked at.*")


class Pooler:
    """A pooler with `settings` of its own; its log lies in `results` when it has ended."""

    def __init__(
        self, program: str, bouncer: bool, cluster: pgthrow.Cluster, results: str, port: int, settings: dict[str, str]
    ):
        self.program, self.bouncer, self.port, self.results = program, bouncer, port, results
        self.user = cluster.superuser
        self.folder = tempfile.mkdtemp(prefix="conformance-")
        os.chmod(self.folder, 0o755)
        pgthrow.give_to_server_user(self.folder)
        self.ini, self.output = os.path.join(self.folder, "pooler.ini"), os.path.join(self.folder, "pooler.log")
        # Roles come and go during the suite: they are looked up.
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_user": cluster.superuser,
            "auth_dbname": "postgres",
            "auth_file": os.path.join(self.folder, "userlist.txt"),
            "admin_users": cluster.superuser,
            "max_client_conn": "400",
            "server_tls_sslmode": "disable",
            "ignore_startup_parameters": "extra_float_digits",
            **settings,
        }
        self.write("userlist.txt", f'"{cluster.superuser}" ""\n')
        databases = f"[databases]\n* = host={cluster.host} port={cluster.port}\n\n[pgbouncer]\n"
        self.write("pooler.ini", databases + "".join(f"{k} = {v}\n" for k, v in lines.items()))

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        pgthrow.give_to_server_user(path)

    def __enter__(self) -> Pooler:
        command = self.program
        if not self.bouncer:
            # Another user runs it, who may not be able to reach the program where it was built.
            command = shutil.copy(self.program, os.path.join(self.folder, "pgweir"))
            os.chmod(command, 0o755)
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                pgthrow.as_server_user([command, self.ini], die_with_parent="KILL"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={**os.environ, "RUST_BACKTRACE": "1"},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                why = f"the pooler did not start:\n{self.log()[-2000:]}"
                self.__exit__()
                raise SystemExit(why)
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_exc) -> None:
        if self.running:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.copy(self.output, self.results)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def crashes(self) -> list[str]:
        """What must not have happened, while it still has to run."""
        ended = [] if self.running else [f"the pooler ended with {self.process.returncode}"]
        return ended + [match.group() for match in CRASH.finditer(self.log())]

    def state_stats(self) -> dict[str, int]:
        """SHOW STATE_STATS of pgweir."""
        if self.bouncer or not self.running:
            return {}
        with wire.Connection(self.port, user=self.user, database="pgbouncer") as console:
            return {name: int(count) for name, count in console.rows("SHOW STATE_STATS")}
