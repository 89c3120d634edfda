"""What the demonstration needs of the machine: programs, ports, files, a folder."""

from __future__ import annotations

import contextlib
import glob
import os
import random
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

import pgthrow
import targets

# 1,000 connections, in pgbench as in pgweir, and what else they have open.
OPEN_FILES_MIN = 1300

# Below those that the kernel gives to outgoing connections, of which thousands come and go here.
PORTS = range(15000, 32000)
PORT_ATTEMPTS_MAX = 100

# A server that was killed while it wrote may leave a file behind a first removal.
REMOVE_SECONDS_MAX = 10


class MachineError(Exception):
    """Something is missing; the message says how to get it."""


def pgweir_binary(checkout: str) -> str:
    """PGWEIR_BIN, or where `cargo build --release` puts it."""
    built = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "pgweir")
    path = os.environ.get("PGWEIR_BIN") or os.path.join(checkout, built)
    if not os.access(path, os.X_OK):
        raise MachineError(f"{path} is missing: build it with `make demo` or `cargo build --release -p pgweir`")
    return path


def newest_postgresql() -> tuple[str, int]:
    """Folder of the server's programs, and major version."""
    folders = glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin")
    on_path = shutil.which("postgres")
    if on_path:
        folders.append(os.path.dirname(os.path.realpath(on_path)))
    found = []
    for folder in folders:
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in ("postgres", "initdb")):
            result = subprocess.run(
                [os.path.join(folder, "postgres"), "-V"], capture_output=True, text=True, check=False
            )
            # "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"; betas are passed over
            words = result.stdout.split()
            if len(words) > 2 and words[2].split(".")[0].isdigit():
                found.append((int(words[2].split(".")[0]), folder))
    if not found:
        raise MachineError("no PostgreSQL found; install it with scripts/setup")
    version, folder = max(found)
    return folder, version


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def raise_open_files() -> None:
    """Raises the soft limit, which pgbench, PostgreSQL and pgweir inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES_MIN:
        raise MachineError(f"1,000 clients need {OPEN_FILES_MIN} open files, and the limit is {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_MIN:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES_MIN, hard))


def free_port() -> int:
    for port in random.sample(PORTS, PORT_ATTEMPTS_MAX):
        with contextlib.suppress(OSError), socket.socket() as attempt:
            attempt.bind((targets.HOST, port))
            return port
    raise MachineError(f"no free port found between {PORTS[0]} and {PORTS[-1]}")


@contextlib.contextmanager
def work_folder() -> Iterator[str]:
    """A folder for everything, gone afterwards."""
    path = tempfile.mkdtemp(prefix="pgweir-demo-")
    try:
        os.chmod(path, 0o755)
        pgthrow.give_to_server_user(path)
        yield path
    finally:
        deadline = time.monotonic() + REMOVE_SECONDS_MAX
        while os.path.exists(path) and time.monotonic() < deadline:
            shutil.rmtree(path, ignore_errors=True)
            time.sleep(0.02)


def fill(cluster: pgthrow.Cluster, scale: int) -> None:
    cluster.psql(f"create database {targets.DATABASE}")
    command = [pgthrow.client_program("pgbench"), "-i", "-q", "-s", str(scale)]
    command += ["-h", cluster.socket_dir, "-p", str(cluster.port), "-U", targets.USER, targets.DATABASE]
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise MachineError(f"pgbench could not fill its tables: {result.stderr.strip()[-500:]}")


def alive(pid: int) -> bool:
    """Is this child of ours running? It is left for its owner to reap."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
