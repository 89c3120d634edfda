"""A pooler in front of a cluster, configured from dicts, in a temporary folder of its own.

    with Pooler(cluster, mode="transaction", settings={"default_pool_size": 2}) as pooler:
        with pooler.connect() as c:
            c.rows("select 1")
        pooler.console("show pools")

Which pooler: pgweir, the program named by PGWEIR_BIN or target/release/pgweir.
To prove a test where something else must do the same, PGWEIR_TEST_POOLER is
`pgbouncer`, or `direct`: then there is no pooler at all, clients reach
PostgreSQL itself, and a test that asks for a console or a log is skipped.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pgthrow
import pytest

from . import ports, wire
from .waiting import eventually

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# Time from the start of the process until its port and its console answer, and for it to end, in seconds.
START_SECONDS_MAX = 10
STOP_SECONDS_MAX = 10

# The users that the default auth_file knows; the shared clusters have roles of the same names and passwords.
PASSWORDS = {"postgres": "postgres-pw", "alice": "alice-pw", "bob": "bob-pw", "stats": "stats-pw"}


def kind() -> str:
    """What the tests run against: "pgweir", "pgbouncer" or "direct"."""
    return os.environ.get("PGWEIR_TEST_POOLER", "pgweir")


def settings_of_the_run() -> dict[str, object]:
    """Settings that every pooler of this run gets, unless its test names them: `PGWEIR_TEST_INI="NAME = VALUE, ..."`."""
    lines = os.environ.get("PGWEIR_TEST_INI", "").split(",")
    return dict((part.strip() for part in line.split("=", 1)) for line in lines if "=" in line)


@functools.cache
def pgbouncer() -> tuple[str, tuple[int, ...]]:
    """The PgBouncer of the cache, which is fetched where it is not there yet, and its version."""
    output = lambda *command: subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: E731
    path = output(os.path.join(CHECKOUT, "scripts", "pgbouncer126")).strip()
    version = re.search(r"PgBouncer (\d+)\.(\d+)", output(path, "--version"))
    return path, tuple(int(number) for number in version.groups())


def program(which: str | None = None) -> list[str]:
    """The command of that pooler, or of the one named, without arguments."""
    if (which or kind()) == "pgbouncer":
        path, version = pgbouncer()
        if which and version < (1, 26):
            pytest.skip("no PgBouncer 1.26 is to be had")
        return [path]
    return [os.environ.get("PGWEIR_BIN") or os.path.join(CHECKOUT, "target", "release", "pgweir")]


class Pooler:
    """One pooler process with its folder: ini, userlist, log, pid file, Unix-domain socket."""

    def __init__(
        self,
        cluster=None,
        mode: str = "transaction",
        databases: dict[str, str] | None = None,
        users: dict[str, str] | None = None,
        settings: dict[str, object] | None = None,
        userlist: dict[str, str] | None = None,
        open_files_max: int | None = None,
        arguments: tuple[str, ...] = (),
        which: str | None = None,
        peers: dict[int, str] | None = None,
        under: tuple[str, ...] = (),
    ):
        self.cluster = cluster
        self.dir = tempfile.mkdtemp(prefix="pooler-")
        pgthrow.give_to_server_user(self.dir)
        os.chmod(self.dir, 0o755)
        self.port = cluster.port if kind() == "direct" else ports.take()
        self.host = "127.0.0.1"
        self.ini_path = os.path.join(self.dir, "pooler.ini")
        self.log_path = os.path.join(self.dir, "log")
        self.stderr_path = os.path.join(self.dir, "stderr")
        self.pid_path = os.path.join(self.dir, "pid")
        self.userlist_path = os.path.join(self.dir, "userlist.txt")
        self.open_files_max = open_files_max
        self.arguments = arguments
        self.which = which
        self.under = under
        self.process: subprocess.Popen | None = None
        self.predecessors: list[subprocess.Popen] = []
        self._stopped_by_test = False
        self._finished = False
        if databases is None:
            databases = {"*": self.server()}
        self.databases, self.users, self.peers = databases, users or {}, peers or {}
        self.settings: dict[str, object] = {
            "listen_addr": self.host,
            "listen_port": self.port,
            "unix_socket_dir": self.dir,
            "pool_mode": mode,
            "auth_type": "trust",
            "auth_file": self.userlist_path,
            "admin_users": "postgres",
            "stats_users": "stats",
            "logfile": self.log_path,
            "pidfile": self.pid_path,
            "max_client_conn": 200,
            "ignore_startup_parameters": "extra_float_digits,options",
            "server_tls_sslmode": "disable",
        }
        if (which or kind()) == "pgweir":
            self.settings.update(settings_of_the_run())
        self.settings.update(settings or {})
        self.write_userlist(PASSWORDS if userlist is None else userlist)
        self.write_ini()

    # -- files

    def server(self, **more: object) -> str:
        """The value of a [databases] entry that leads to the cluster."""
        entry = {"host": self.cluster.host, "port": self.cluster.port, **more} if self.cluster else more
        return " ".join(f"{k}={v}" for k, v in entry.items() if v is not None)

    def write_ini(self) -> None:
        """Writes the dicts out; takes effect at the start or at the next reload."""
        lines = ["[databases]", *(f"{k} = {v}" for k, v in self.databases.items())]
        if self.users:
            lines += ["", "[users]", *(f"{k} = {v}" for k, v in self.users.items())]
        if self.peers:
            lines += ["", "[peers]", *(f"{k} = {v}" for k, v in self.peers.items())]
        lines += ["", "[pgbouncer]", *(f"{k} = {v}" for k, v in self.settings.items() if v is not None), ""]
        self.write_file(self.ini_path, "\n".join(lines))

    def write_userlist(self, secrets: dict[str, str]) -> None:
        quote = lambda s: '"' + s.replace('"', '""') + '"'  # noqa: E731
        self.write_file(self.userlist_path, "".join(f"{quote(u)} {quote(s)}\n" for u, s in secrets.items()))

    def write_file(self, path: str, content: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        pgthrow.give_to_server_user(path)

    def log(self) -> str:
        if kind() == "direct":
            pytest.skip("there is no pooler")
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def stderr(self) -> str:
        with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_log(self, pattern: str, timeout: float = 5.0, after: int = 0) -> str:
        """The first line of the log, from offset `after` on, that has the pattern; waits for it."""

        def found():
            return next((line for line in self.log()[after:].splitlines() if re.search(pattern, line)), None)

        return eventually(found, timeout=timeout, what=lambda: f"log line {pattern!r} in:\n{self.log()[-4000:]}")

    # -- the process

    def __enter__(self) -> Pooler:
        try:
            return self.start()
        except BaseException:
            self.stop_now()
            shutil.rmtree(self.dir, ignore_errors=True)
            raise

    def __exit__(self, *exc) -> None:
        self.finish(failed=exc[0] is not None)

    def spawn(self) -> None:
        """Starts the process and does not wait."""
        command = [*(program(self.which) if self.which else program()), *self.arguments, self.ini_path]
        command = [*self.under, *command]
        if self.open_files_max is not None:
            command = ["prlimit", f"--nofile={self.open_files_max}", *command]
        with open(self.stderr_path, "ab") as err:
            self.process = subprocess.Popen(
                pgthrow.as_server_user(command, die_with_parent="KILL"),
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                cwd=self.dir,
                env={**os.environ, "RUST_BACKTRACE": "1"},
                start_new_session=True,
            )
        self._stopped_by_test = False

    def take_over(self) -> subprocess.Popen:
        """Starts another process with -R, which takes the place of this one; returns the old process, which may go on for a
        while."""
        old, offset = self.process, len(self.log())
        arguments, self.arguments = self.arguments, (*self.arguments, "-R")
        self.spawn()
        self.arguments = arguments

        def has_taken_over():
            if self.process.poll() is not None:
                raise AssertionError(f"-R ended with {self.process.returncode}:\n{self.stderr()}\n{self.log()[offset:]}")
            return "process up: " in self.log()[offset:]

        eventually(has_taken_over, timeout=START_SECONDS_MAX, what=lambda: f"the take-over\n{self.log()[-4000:]}")
        self.predecessors.append(old)
        return old

    def start(self) -> Pooler:
        if kind() == "direct":
            return self
        self.spawn()

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the pooler ended with {self.process.returncode} at its start:\n{self.stderr()}\n{self.log()}"
                )
            with contextlib.suppress(OSError):
                wire.open_socket(self.connect_host(), self.port).close()
                return True

        eventually(ready, timeout=START_SECONDS_MAX, what=lambda: f"the pooler's port\n{self.stderr()}\n{self.log()}")
        return self

    def connect_host(self) -> str:
        return self.host if self.settings.get("listen_addr") else self.dir

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_exit(self, timeout: float = STOP_SECONDS_MAX) -> int:
        """Exit status of the process, which must end by itself in time."""
        self._stopped_by_test = True
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the pooler did not end within {timeout} s") from None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop_now(self) -> None:
        if self.running:
            self.process.kill()
            self.process.wait()

    def finish(self, failed: bool = False) -> None:
        """Ends the process; it must go at once, with status 0, and must never have panicked."""
        if self._finished:
            return
        self._finished = True
        try:
            if self.process is None:
                return
            died = not self.running and not self._stopped_by_test
            if self.running:
                self.signal(signal.SIGQUIT)
                try:
                    self.process.wait(STOP_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    self.stop_now()
                    raise AssertionError("the pooler did not end on SIGQUIT") from None
            if failed:
                print(
                    f"---- log of the pooler, its end ----\n{self.log()[-6000:]}\n---- stderr ----\n{self.stderr()[-3000:]}"
                )
            assert "panicked" not in self.stderr() + self.log(), f"the pooler panicked:\n{self.stderr()[-4000:]}"
            assert not died, f"the pooler ended by itself with {self.process.returncode}:\n{self.stderr()[-4000:]}"
            if not self._stopped_by_test:
                assert self.process.returncode == 0, f"exit status {self.process.returncode}"
            for old in self.predecessors:
                assert old.wait(STOP_SECONDS_MAX) == 0, f"the process whose place was taken ended with {old.returncode}"
        finally:
            self.stop_now()
            for old in self.predecessors:
                if old.poll() is None:
                    old.kill()
                    old.wait()
            shutil.rmtree(self.dir, ignore_errors=True)

    def reload(self) -> None:
        """Writes the ini and sends SIGHUP; returns when the log says that it was taken up or refused."""
        if kind() == "direct":
            pytest.skip("there is no pooler")
        self.write_ini()
        offset = len(self.log())
        self.signal(signal.SIGHUP)
        self.wait_log(r"(?i)SIGHUP|reload|config", after=offset)
        time.sleep(0.1)

    # -- connections

    def connect(self, **named) -> wire.Connection:
        """A client of messages; arguments as wire.Connection's."""
        named.setdefault("host", self.connect_host())
        return wire.Connection(port=self.port, **named)

    def dsn(self, user: str = "postgres", dbname: str = "postgres", **more: object) -> str:
        """libpq connection string over TCP."""
        entry = {"host": self.host, "port": self.port, "user": user, "dbname": dbname, "sslmode": "disable", **more}
        return " ".join(f"{k}={v}" for k, v in entry.items())

    def console(self, command: str, user: str = "postgres", **named) -> list[dict[str, str | None]]:
        """Runs one command on the admin console; the rows as dicts."""
        if kind() == "direct":
            pytest.skip("there is no pooler")
        with self.connect(user=user, database="pgbouncer", **named) as c:
            return as_dicts(c.query(command))

    def pool(self, database: str = "postgres", user: str = "postgres") -> dict[str, str]:
        """The row of SHOW POOLS for this pool; empty counts where there is none."""
        for row in self.console("show pools"):
            if row["database"] == database and row["user"] == user:
                return row
        return dict.fromkeys(
            "cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel "
            "sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us".split(),
            "0",
        )

    def wait_pool(
        self, database: str = "postgres", user: str = "postgres", timeout: float = 5.0, **counts: int
    ) -> dict:
        """Waits until SHOW POOLS has these counts for the pool."""
        last = {}

        def there():
            last.clear()
            last.update(self.pool(database, user))
            return all(int(last[k]) == v for k, v in counts.items()) and last

        return eventually(there, timeout=timeout, what=lambda: f"pool with {counts}; it is {last}")


def resident_bytes(pooler) -> int:
    """Resident memory of the pooler's process; 0 without a pooler."""
    if kind() == "direct":
        return 0
    with open(f"/proc/{pooler.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def as_dicts(messages: list[wire.Message]) -> list[dict[str, str | None]]:
    """Rows as dicts by column name."""
    rows = wire.rows_of(messages)
    names = next(([c[0] for c in m.columns] for m in messages if m.tag == "T"), [])
    return [dict(zip(names, row)) for row in rows]


def server_uid() -> int:
    """User id that poolers and clusters run under."""
    user = pgthrow.server_user()
    return pwd.getpwnam(user).pw_uid if user else os.geteuid()
