"""Runs the soak: PostgreSQL, the pooler, the clients, the operator, and a rest now and then for the accounts.

    with World(seed=17, folder=certificates) as world:
        world.run(seconds=600)
        world.failures
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import pgthrow

from .. import ports, wire
from ..certificates import Certificates
from ..pooler import PASSWORDS, Pooler
from ..waiting import eventually
from . import accounts
from .clients import DISTURBED, Client
from .ledger import TABLE
from .orders import Operator

CLIENTS = 20

# Rests in a run: the first one is what the last one is compared with.
RESTS = 5

# Rounds without a take-over, at the end, and their share of the run.
ROUNDS = 6
ROUNDS_SHARE = 0.4

# Seconds until all clients have ended their sessions and rest.
REST_SECONDS_MAX = 90.0

# Seconds after a disturbance in which clients may still hear of it.
AFTERMATH_SECONDS = 2.0

INITIAL_SQL = """
create role alice login password '{alice}';
create role bob login password '{bob}';
create database shop;
"""


class World:
    """Everything that a soak is made of. `failures` are what went wrong, in words."""

    def __init__(self, seed: int, quiet: bool = False):
        self.seed, self.quiet = seed, quiet
        self.began = time.monotonic()
        self.failures: list[str] = []
        self.counts = dict.fromkeys(("asked", "answered", "logins", "logins_begun", "lost"), 0)
        self.totals: dict[str, int] = {}
        self.windows: list[list[float]] = []
        self.lock = threading.Lock()
        self._stopped, self._resting = threading.Event(), threading.Event()
        self._rested = 0
        self.folder = tempfile.mkdtemp(prefix="soak-")

    def __enter__(self) -> World:
        try:
            os.chmod(self.folder, 0o755)
            pgthrow.give_to_server_user(self.folder)
            self.certificates = Certificates(self.folder)
            self.shown = self.certificates.copy(self.certificates.server, "shown")
            self.cluster = self.make_cluster()
            self.pooler = self.make_pooler().start()
            self.pooler.take_over()
            self.operator = Operator(self)
            return self
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_exc) -> None:
        self._stopped.set()
        try:
            if self.failures:
                self.keep_log()
            self.pooler.finish()
        except AssertionError as error:
            self.fail(f"at the end: {error}")
        finally:
            self.remove()

    def remove(self) -> None:
        if "cluster" in vars(self):
            self.cluster.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep_log(self) -> None:
        kept = tempfile.mkdtemp(prefix=f"soak-{self.seed}-")
        for path in (self.pooler.log_path, self.pooler.stderr_path, self.cluster.log_path):
            shutil.copy(path, os.path.join(kept, "postgresql.log" if path == self.cluster.log_path else os.path.basename(path)))
        print(f"the logs are in {kept}", flush=True)

    def make_cluster(self) -> pgthrow.Cluster:
        pair = self.certificates.server
        settings = {"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key}
        # What was acknowledged must survive a crash of the server's processes.
        settings |= {"synchronous_commit": "on", "max_connections": "60"}
        cluster = pgthrow.Cluster(version=15, port=ports.take(), settings=settings).start()
        cluster.psql(INITIAL_SQL.format(**PASSWORDS))
        cluster.psql(TABLE, dbname="shop")
        return cluster

    def make_pooler(self) -> Pooler:
        databases = {}
        pooler = Pooler(
            self.cluster,
            databases=databases,
            settings={
                "default_pool_size": 5,
                "client_tls_sslmode": "allow",
                "client_tls_cert_file": self.shown.certificate,
                "client_tls_key_file": self.shown.key,
                "log_connections": 0,
                "log_disconnections": 0,
            },
        )
        databases["shop"] = pooler.server(dbname="shop")
        databases["shop_session"] = pooler.server(dbname="shop", pool_mode="session", pool_size=8)
        pooler.write_ini()
        return pooler

    # -- what clients and operator tell

    def say(self, what: str) -> None:
        if not self.quiet:
            print(f"{time.monotonic() - self.began:8.2f} {what}", file=sys.stderr, flush=True)

    def count(self, what: str, by: int = 1) -> None:
        with self.lock:
            self.counts[what] += by

    def fail(self, what: str) -> None:
        self.say(f"FAILED {what}")
        self.failures.append(f"after {time.monotonic() - self.began:.2f} s: {what}")

    @contextlib.contextmanager
    def disturbing(self) -> Iterator[None]:
        """While this lasts, and a little longer, clients may lose their connections."""
        window = [time.monotonic(), math.inf]
        self.windows.append(window)
        try:
            yield
        finally:
            window[1] = time.monotonic() + AFTERMATH_SECONDS

    def disturbed_since(self, moment: float) -> bool:
        return any(end > moment for _, end in list(self.windows))

    def lost(self, client: Client, error: Exception) -> None:
        """A client has lost its connection, or was refused: for a good reason?"""
        self.count("lost")
        excused = self.disturbed_since(client.well_at) and not isinstance(error, ConnectionRefusedError)
        if isinstance(error, wire.ServerError) and error.code not in DISTURBED:
            excused = False
        if not excused:
            fields = getattr(error, "fields", "")
            self.fail(f"{client.name}, {client.doing}, tls {client.tls}: {error!r} {fields}")

    def stopped(self) -> bool:
        return self._stopped.is_set()

    def resting(self) -> bool:
        return self._resting.is_set()

    def rest_here(self) -> None:
        """A client that has no session waits here for the end of the rest."""
        with self.lock:
            self._rested += 1
        while self.resting() and not self.stopped():
            time.sleep(0.02)
        with self.lock:
            self._rested -= 1

    # -- what the operator needs

    def change_certificate(self, which: int) -> None:
        pair = (self.certificates.server, self.certificates.second)[which]
        self.certificates.copy(pair, "shown")

    def clients_shown(self) -> list[dict]:
        return self.pooler.console("show clients")

    # -- the run

    def run(self, seconds: float, rests: int = RESTS, rounds: int = ROUNDS) -> None:
        """Work for so many seconds, with so many rests, which come in addition, and then rounds without a take-over. Ends
        early at the first failure."""
        clients = [Client(self, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        taken = []
        try:
            of_rounds = seconds * ROUNDS_SHARE if rounds else 0
            for _ in range(rests):
                self.work((seconds - of_rounds) / rests)
                if not self.failures:
                    taken.append(self.rest())
            if len(taken) == rests:
                accounts.compare(taken[0], taken[-1])
            self.operator.steady = True
            heaps = []
            for _ in range(rounds):
                self.work(of_rounds / rounds)
                if not self.failures:
                    heaps.append(self.rest_of_round())
            if rounds and len(heaps) == rounds:
                self.say(f"growth in the rounds: {accounts.growth(heaps)} kB, {heaps}")
                accounts.check_growth(heaps)
        except (AssertionError, wire.Closed, wire.NoReply, wire.ServerError, OSError) as error:
            self.fail(f"the operator: {error!r}")
        self._stopped.set()
        for client in clients:
            client.join(5)
        try:
            accounts.check_log(self.pooler)
        except AssertionError as error:
            self.fail(f"log: {error}")

    def work(self, seconds: float) -> None:
        """The operator gives orders for so many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.failures:
            self.operator.act()
            self.operator.pause_between()

    def all_leave(self) -> None:
        self._resting.set()
        eventually(lambda: self._rested == CLIENTS or self.failures, REST_SECONDS_MAX, what="clients at rest")

    def rest_of_round(self) -> int:
        """All clients leave; what the process has allocated then."""
        self.all_leave()
        accounts.empty(self)
        heap = accounts.heap(self.pooler.process.pid)
        self.say(f"round: {heap} kB; {self.counts}")
        self._resting.clear()
        return heap

    def rest(self) -> accounts.Account:
        """All clients leave, and the accounts are taken, of the process and of one that takes its place."""
        self.all_leave()
        used = accounts.take(self)
        self.pooler.take_over()
        account = accounts.take(self)
        self.say(
            f"rest: {account.open_files} open files ({used.open_files} before a take-over), memory {account.memory} kB"
            f" ({used.memory}); {self.counts}; {account.lists}"
        )
        assert used.open_files <= account.open_files, f"{used.open_files} open files, and after a take-over {account.open_files}"
        self._resting.clear()
        return account
