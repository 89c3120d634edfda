"""Throwaway PostgreSQL clusters: made in a temporary folder, gone afterwards.

    with Cluster(version=15, port=5433) as pg:
        pg.psql("create table t (a int)")
        ... connect to pg.host, pg.port as pg.superuser ...

A cluster listens on loopback and on a Unix-domain socket in its own folder,
and runs as an unprivileged user when the caller is root, because PostgreSQL
refuses root. It is stopped and removed when the `with` block ends, when the
interpreter exits, and on SIGTERM or Ctrl-C; should the interpreter be killed
outright, the server still stops by itself and only its folder is left.

initdb takes a second of CPU time, and copying what it made a tenth of that. So
the first cluster of its kind leaves a copy in the cache, and the others are
copies of that one: they have the same system identifier.

This module knows nothing of poolers. Standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import glob
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SUPERUSER = "postgres"

# Time for initdb's cluster to accept connections, and to shut down, in seconds.
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30

# Durability is of no use to a cluster that is thrown away.
SETTINGS_ALWAYS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
}

INITDB_OPTIONS = ("-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

# A quiet server for measurements: no checkpoint, vacuum or WAL work of its own
# accord while a run is on.
SETTINGS_BENCH = {
    "shared_buffers": "1GB",
    "max_connections": "1200",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "log_checkpoints": "off",
}

# Everyone is let in: a test that wants passwords brings its own lines.
HBA_TRUST = """\
local all all trust
host all all 127.0.0.1/32 trust
host all all ::1/128 trust
"""


class PgThrowError(Exception):
    """A cluster could not be made, or a program that it needs is missing."""


class Cluster:
    """One throwaway cluster. Not started until `start` or the `with` block."""

    def __init__(
        self,
        version: int = 15,
        port: int = 5433,
        settings: dict[str, str] | None = None,
        hba: str = HBA_TRUST,
        bin_dir: str | None = None,
        initial_sql: str = "",
        parent_dir: str | None = None,
    ):
        """`initial_sql` runs in database postgres before the first start."""
        self.version = version
        self.host = "127.0.0.1"
        self.port = port
        self.superuser = SUPERUSER
        self.bin_dir = bin_dir or server_bin_dir(version)
        self.settings = {**SETTINGS_ALWAYS, **(settings or {})}
        self.hba = hba
        self.initial_sql = initial_sql
        # Short on purpose: the path of a Unix-domain socket has at most 107 bytes.
        self.dir = tempfile.mkdtemp(prefix=f"pgthrow{version}-", dir=parent_dir)
        self.data_dir = os.path.join(self.dir, "data")
        self.socket_dir = self.dir
        self.log_path = os.path.join(self.dir, "log")
        self._process: subprocess.Popen | None = None
        give_to_server_user(self.dir)
        os.chmod(self.dir, 0o755)
        _remember(self)

    def __enter__(self) -> Cluster:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_exc) -> None:
        self.remove()

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._process is None:
            raise PgThrowError("the cluster is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Cluster:
        """Starts the server, whose files are made the first time; waits until it accepts connections."""
        if not os.path.exists(os.path.join(self.data_dir, "PG_VERSION")):
            self._make()
        self._launch()
        return self

    def _launch(self, **settings: str) -> None:
        command = [os.path.join(self.bin_dir, "postgres"), "-D", self.data_dir]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = as_server_user(command, die_with_parent="INT")
        with open(self.log_path, "ab") as log:
            # A session of its own: Ctrl-C at the terminal is for the caller, who stops the server in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, start_new_session=True
            )
        self._wait_ready()

    def stop(self, mode: str = "fast") -> None:
        """Stops the server: `smart`, `fast` or `immediate`, as pg_ctl knows them. Nothing if it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal({"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait(STOP_SECONDS_MAX)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def reload(self) -> None:
        """Makes the server read its configuration files again."""
        os.kill(self.pid, signal.SIGHUP)

    def write_hba(self, hba: str) -> None:
        """Replaces pg_hba.conf; takes effect at the next start or `reload`."""
        self.hba = hba
        self._write("pg_hba.conf", hba)

    def remove(self) -> None:
        """Stops the server and removes all that the cluster left on disk."""
        self.stop("immediate")
        shutil.rmtree(self.dir, ignore_errors=True)
        _forget(self)

    def psql(self, sql: str, dbname: str = "postgres") -> str:
        """Runs SQL as the superuser over the Unix-domain socket; returns unaligned rows without headings."""
        result = subprocess.run(
            [client_program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.socket_dsn(dbname)],
            input=sql,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise PgThrowError(f"psql failed: {result.stderr.strip()}")
        return result.stdout.rstrip("\n")

    def dsn(self, dbname: str = "postgres") -> str:
        """libpq connection string over TCP."""
        return f"host={self.host} port={self.port} user={self.superuser} dbname={dbname}"

    def socket_dsn(self, dbname: str = "postgres") -> str:
        """libpq connection string over the Unix-domain socket."""
        return f"host={self.socket_dir} port={self.port} user={self.superuser} dbname={dbname}"

    def log(self) -> str:
        """All the server has logged so far."""
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _make(self) -> None:
        """Makes the data folder, as a copy of another one of this kind if there was one."""
        template = self._template()
        os.makedirs(os.path.dirname(template), exist_ok=True)
        with open(f"{template}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(template):
                self._initdb()
                shutil.rmtree(f"{template}.new", ignore_errors=True)
                _copy(self.data_dir, f"{template}.new")
                os.rename(f"{template}.new", template)
        if not os.path.exists(self.data_dir):
            _copy(template, self.data_dir)
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": self.socket_dir,
            **self.settings,
        }
        with open(os.path.join(self.data_dir, "postgresql.conf"), "a", encoding="utf-8") as file:
            for name, value in settings.items():
                file.write("{} = '{}'\n".format(name, str(value).replace("'", "''")))
        self._write("pg_hba.conf", self.hba)

    def _template(self) -> str:
        """Path of the copy in the cache for clusters of this kind: programs, owner of the files, and what they hold."""
        kind = [self.bin_dir, _version_text(os.path.join(self.bin_dir, "postgres")), *INITDB_OPTIONS, self.initial_sql]
        digest = hashlib.sha256("\0".join(kind).encode()).hexdigest()[:16]
        owner = server_user() or pwd.getpwuid(os.geteuid()).pw_name
        return os.path.join(_checkout(), ".cache", "clusters", f"{self.version}-{owner}-{digest}")

    def _initdb(self) -> None:
        command = [os.path.join(self.bin_dir, "initdb"), "-D", self.data_dir, *INITDB_OPTIONS]
        result = subprocess.run(
            as_server_user(command), cwd=self.dir, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if result.returncode != 0:
            raise PgThrowError(f"initdb failed: {result.stderr.strip() or result.stdout.strip()}")
        if self.initial_sql:
            self._launch(listen_addresses="", port=str(self.port), unix_socket_directories=self.socket_dir, fsync="off")
            self.psql(self.initial_sql)
            self.stop()
            os.remove(self.log_path)

    def _write(self, name: str, text: str) -> None:
        path = os.path.join(self.data_dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        give_to_server_user(path)

    def _wait_ready(self) -> None:
        # The last line of postmaster.pid tells the state; see "postmaster.pid" in PostgreSQL's miscadmin.h.
        pid_file = os.path.join(self.data_dir, "postmaster.pid")
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if not self.running:
                raise PgThrowError(f"PostgreSQL did not start; its log ends:\n{self.log()[-2000:]}")
            try:
                with open(pid_file, encoding="utf-8") as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                lines = []
            if len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready":
                return
            time.sleep(0.02)
        raise PgThrowError(f"PostgreSQL was not ready after {START_SECONDS_MAX} s; its log ends:\n{self.log()[-2000:]}")


def server_bin_dir(version: int) -> str:
    """Folder with initdb and postgres of this major version: installed, or in the cache (PostgreSQL 18)."""
    candidates = [f"/usr/lib/postgresql/{version}/bin", f"/usr/pgsql-{version}/bin"]
    on_path = shutil.which("postgres")
    if on_path:
        candidates.append(os.path.dirname(os.path.realpath(on_path)))
    for folder in candidates:
        if _major_version(os.path.join(folder, "postgres")) == version:
            return folder
    script = os.path.join(_checkout(), "scripts", f"postgresql{version}")
    if os.access(script, os.X_OK):
        result = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
        if result.returncode == 0:
            return result.stdout.strip()
        raise PgThrowError(f"{script} failed")
    raise PgThrowError(f"PostgreSQL {version} not found; run scripts/setup")


def client_program(name: str) -> str:
    """Path of psql, pgbench, ...: from the PATH, or of the newest PostgreSQL installed."""
    found = shutil.which(name)
    # Debian's /usr/bin entry is a wrapper in Perl; the program itself starts faster and keeps its process id.
    installed = sorted(
        glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]), reverse=True
    )
    if installed:
        return installed[0]
    if found:
        return found
    raise PgThrowError(f"{name} not found; run scripts/setup")


def server_user() -> str | None:
    """Whom PostgreSQL and PgBouncer, which refuse root, are run as; None where the caller is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
            return name
        except KeyError:
            continue
    raise PgThrowError("neither user postgres nor user nobody exists, and PostgreSQL refuses root")


def as_server_user(command: list[str], die_with_parent: str | None = None) -> list[str]:
    """The command, run as `server_user`; with `die_with_parent`, that signal is sent to it when the caller dies."""
    user = server_user()
    prefix = []
    if user is not None:
        group = pwd.getpwnam(user).pw_gid
        prefix += [f"--reuid={user}", f"--regid={group}", "--init-groups"]
    if die_with_parent is not None:
        prefix += ["--pdeathsig", die_with_parent]
    return ["setpriv", *prefix, *command] if prefix else command


def give_to_server_user(path: str) -> None:
    """Makes `server_user` the owner of a file or folder, so that servers can use it."""
    user = server_user()
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _checkout() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _copy(source: str, target: str) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


@functools.cache
def _version_text(postgres: str) -> str:
    return subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False).stdout


def _major_version(postgres: str) -> int | None:
    if not os.access(postgres, os.X_OK):
        return None
    words = _version_text(postgres).split()
    # "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "... 18beta1"
    digits = words[2].split(".")[0] if len(words) > 2 else ""
    digits = "".join(character for character in digits[:2] if character.isdigit())
    return int(digits) if digits else None


# Clusters to remove at exit, by any exit.
_alive: list[Cluster] = []


def _remember(cluster: Cluster) -> None:
    if not _alive:
        atexit.register(_remove_all)
        # SIGTERM by default ends the interpreter without running exit handlers.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            # Outside the main thread this is refused: whoever runs that one decides about signals.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _alive.append(cluster)


def _forget(cluster: Cluster) -> None:
    if cluster in _alive:
        _alive.remove(cluster)


def _remove_all() -> None:
    for cluster in list(_alive):
        cluster.remove()
