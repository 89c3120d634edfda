"""What is measured against each other: PostgreSQL direct, and what may stand before it.

Each pooler is started afresh for each run, so that no run inherits memory or
connections from the one before, and all get the same pgbouncer.ini.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pgthrow

HOST = "127.0.0.1"
DATABASE = "bench"
USER = pgthrow.SUPERUSER
POOL_SIZE = 16
READY_SECONDS_MAX = 10
STOP_SECONDS_MAX = 10

# Everything not named here is at its default, in pgweir as in PgBouncer.
INI = """\
[databases]
{database} = host={host} port={server_port} dbname={database}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {userlist}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 10000
max_prepared_statements = 200
log_connections = 0
log_disconnections = 0
"""


class TargetError(Exception):
    """A program to be measured is missing or does not start."""


@dataclass
class Bench:
    """What all targets share: the server's port, a port for poolers, a folder for their files."""

    server_port: int
    pooler_port: int
    work_dir: str
    # default_pool_size of all poolers.
    pool_size: int = POOL_SIZE
    # CPUs that a pooler may use; None leaves it to the scheduler.
    pooler_cpus: set[int] | None = None
    # Who may log in beside USER.
    users: tuple[str, ...] = ()


@dataclass
class Target:
    """One way to PostgreSQL. `command` is empty for direct."""

    name: str
    command: list[str] = field(default_factory=list)
    version: str = ""
    reads_ini: bool = False
    # Lines behind those that all poolers get.
    ini_lines: str = ""

    @property
    def is_direct(self) -> bool:
        return not self.command

    @property
    def pools(self) -> bool:
        """Many clients share few servers; a relay does not."""
        return self.reads_ini

    @contextlib.contextmanager
    def running(self, bench: Bench, wrapper: tuple[str, ...] = ()) -> Iterator[Running]:
        """Starts it, gives its port and process id, stops it. `wrapper` goes before the command (valgrind)."""
        if self.is_direct:
            yield Running(self.name, bench.server_port, None, "", pools=False)
            return
        command = [*wrapper, *self.command]
        if self.reads_ini:
            command.append(write_ini(bench, self.name, self.ini_lines))
        else:
            command += [str(bench.pooler_port), str(bench.server_port)]
        if bench.pooler_cpus is not None:
            command = ["taskset", "-c", ",".join(map(str, sorted(bench.pooler_cpus))), *command]
        log_path = os.path.join(bench.work_dir, f"{self.name}.log")
        with open(log_path, "wb") as log:
            process = subprocess.Popen(
                pgthrow.as_server_user(command, die_with_parent="KILL"),
                cwd=bench.work_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            _wait_listening(self.name, process, bench.pooler_port, log_path, READY_SECONDS_MAX * (6 if wrapper else 1))
            yield Running(self.name, bench.pooler_port, process.pid, log_path, self.pools)
            if process.poll() is not None:
                raise TargetError(f"{self.name} died during the run:\n{_tail(log_path)}")
        finally:
            stop(process)


@dataclass(frozen=True)
class Running:
    """A target that accepts connections. `pid` is None for direct."""

    name: str
    port: int
    pid: int | None
    log_path: str
    # Many clients share few servers.
    pools: bool


def direct() -> Target:
    return Target("direct", version="PostgreSQL alone")


def relay(work_dir: str) -> Target:
    """Compiles bench/relay.c."""
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "relay.c")
    program = os.path.join(work_dir, "relay")
    compiler = shutil.which("cc")
    if compiler is None:
        raise TargetError("cc not found: run scripts/setup, or leave the relay out with --only")
    subprocess.run([compiler, "-O2", "-Wall", "-o", program, source], check=True)
    return Target("relay", [program], "bench/relay.c")


def pgbouncer(path: str | None, checkout: str) -> Target:
    """The PgBouncer given, or the one that scripts/pgbouncer126 puts into the cache."""
    if path is None:
        result = subprocess.run(
            [os.path.join(checkout, "scripts", "pgbouncer126")], stdout=subprocess.PIPE, text=True, check=False
        )
        if result.returncode != 0:
            raise TargetError("PgBouncer could not be had; give one with --pgbouncer, or leave it out with --only")
        path = result.stdout.strip()
    return Target("pgbouncer", [path], _version(path), reads_ini=True)


def pgweir(
    path: str | None, checkout: str, work_dir: str, name: str = "pgweir", ini_lines: str = ""
) -> Target:
    """The binary given, or the release build of this checkout."""
    path = path or os.path.join(checkout, "target", "release", "pgweir")
    if not os.access(path, os.X_OK):
        raise TargetError(
            f"{path} is missing: build it (cargo build --release), name another with --pgweir,"
            " or leave it out (--only pgbouncer,relay,direct)"
        )
    # A copy: the build folder may be closed to the user that poolers run as, and a rebuild must not touch a run.
    copy = os.path.join(work_dir, name)
    shutil.copy(path, copy)
    return Target(name, [copy], _version(copy), reads_ini=True, ini_lines=ini_lines)


def write_ini(bench: Bench, name: str, more: str = "") -> str:
    userlist = os.path.join(bench.work_dir, "userlist.txt")
    with open(userlist, "w", encoding="ascii") as file:
        file.writelines(f'"{user}" ""\n' for user in (USER, *bench.users))
    path = os.path.join(bench.work_dir, f"{name}.ini")
    with open(path, "w", encoding="ascii") as file:
        file.write(
            INI.format(
                database=DATABASE,
                host=HOST,
                server_port=bench.server_port,
                port=bench.pooler_port,
                userlist=userlist,
                pool_size=bench.pool_size,
            )
            + more
        )
    return path


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            print(f"process {process.pid} did not end on SIGTERM within {STOP_SECONDS_MAX} s", file=sys.stderr)
            process.kill()
            process.wait()


def _version(program: str) -> str:
    result = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TargetError(f"{program} does not run: {result.stderr.strip()}")
    return result.stdout.splitlines()[0] if result.stdout else "unknown version"


def _wait_listening(name: str, process: subprocess.Popen, port: int, log_path: str, seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TargetError(f"{name} did not start:\n{_tail(log_path)}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.02)
    raise TargetError(f"{name} does not listen on port {port} after {seconds_max} s:\n{_tail(log_path)}")


def _tail(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-2000:]
