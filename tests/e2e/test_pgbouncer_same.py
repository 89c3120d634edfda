"""Settings that docs/migrating-from-pgbouncer.md calls the same, beside those that other files compare with PgBouncer."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time

import pytest

from harness import ports, wire
from harness.nameserver import NameServer
from harness.odd_server import carry
from harness.pooler import kind
from harness.side_by_side import first_text, read_some
from harness.silent import DeafHost
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")


@pytest.fixture
def pair(make_pooler):
    """Makes PgBouncer and pgweir with the same files. Both work at the same time, so that a wait is one for both."""

    def make(cluster=None, **named):
        return [make_pooler(cluster, which=which, **named) for which in ("pgbouncer", "pgweir")]

    return make


def text_of_login(pooler, **named) -> str:
    """What a client hears that logs in and runs a statement: the error, or "in"."""
    try:
        with pooler.connect(**named) as c:
            c.send(wire.query("select 1"))
            answer = read_some(c)
            return first_text(answer) if wire.first_error(answer) else "in"
    except wire.ServerError as error:
        return error.fields["M"]


# -- servers


# How often the check query runs: (server_check_delay, seconds between two statements).
CHECKS = {"always": (0, 0), "after a rest": (1, 1.5), "not so soon": (30, 0.5)}


@pytest.mark.parametrize("what", CHECKS)
def test_server_check_delay(pg15, pair, what):
    delay, rest_seconds = CHECKS[what]
    pg15.psql("drop table if exists checked; create table checked (pooler int)")
    ran = []
    settings = {"server_check_delay": delay, "server_check_query": "insert into checked select inet_client_port()"}
    poolers = pair(pg15, settings=settings)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(p.connect()) for p in poolers]
        own = [int(c.value("select inet_client_port()")) for c in clients]
        time.sleep(rest_seconds)
        # It is the same server.
        assert own == [int(c.value("select inet_client_port()")) for c in clients]
        for port in own:
            ran.append(int(pg15.psql(f"select count(*) from checked where pooler = {port}")) > 0)
    pg15.psql("drop table checked")
    assert ran == [what != "not so soon"] * 2


@pytest.mark.parametrize("round_robin", (0, 1))
def test_server_round_robin(pg15, pair, round_robin):
    orders = []
    for p in pair(pg15, settings={"server_round_robin": round_robin}):
        with contextlib.ExitStack() as stack:
            holders = [stack.enter_context(p.connect()) for _ in range(3)]
            for c in holders:
                c.query("begin; select 1")
            for c in holders:
                c.query("commit")
                # They are free in this order.
                p.console("show pools")
        p.wait_pool(sv_idle=3)
        with p.connect() as c:
            pids = [c.value("select pg_backend_pid()") for _ in range(7)]
        first = {pid: number for number, pid in reversed(list(enumerate(pids)))}
        orders.append([first[pid] for pid in pids])
    assert orders == [[0, 1, 2, 0, 1, 2, 0] if round_robin else [0] * 7] * 2


def begin_login(stack, pooler, database):
    """A client that waits for its login."""
    c = stack.enter_context(pooler.connect(database=database, login=False))
    c.send(wire.startup({"user": "postgres", "database": database}))


@pytest.mark.parametrize("answers", (True, False), ids=("takes the connection", "does not answer at all"))
def test_server_connect_timeout(pair, answers):
    """The server sends nothing, or the kernel of its host does not even take the connection."""
    with contextlib.ExitStack() as stack:
        if answers:
            port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        else:
            port = stack.enter_context(DeafHost()).port
        settings = {"server_connect_timeout": 1, "server_login_retry": 60}
        poolers = pair(databases={"silent": f"host=127.0.0.1 port={port}"}, settings=settings)
        for p in poolers:
            begin_login(stack, p, "silent")
        reasons = [re.search(r"because: (.*) \(age=", p.wait_log(" S-.*closing because"))[1] for p in poolers]
    assert reasons == ["connect timeout" if answers else "connect failed", "connect timeout"]


@pytest.mark.parametrize("seconds", (0, 1))
def test_pool_idle_timeout(pg15, pair, seconds):
    poolers = pair(pg15, settings={"pool_idle_timeout": seconds, "server_idle_timeout": 1})
    for p in poolers:
        with p.connect(database="shop", user="alice") as c:
            c.query("select 1")
    for p in poolers:
        p.wait_log("closing because: server idle timeout", timeout=8)
    line = "cleaning up idle pool for user alice on db shop because: pool idle timeout"
    if seconds:
        for p in poolers:
            p.wait_log(line, timeout=8)
    else:
        time.sleep(1.5)
    pools = [[row["database"] for row in p.console("show pools") if row["database"] == "shop"] for p in poolers]
    assert pools == [[] if seconds else ["shop"]] * 2
    assert [line in p.log() for p in poolers] == [bool(seconds)] * 2


# -- clients


# How many of alice's three clients get in: (setting, her key in [users]).
LIMITS = {"of the user": (0, 1), "of both": (1, 2), "0 of the user": (1, 0), "only the setting": (2, None)}


@pytest.mark.parametrize("what", LIMITS)
def test_max_user_client_connections(pg15, pair, what):
    setting, key = LIMITS[what]
    users = {} if key is None else {"alice": f"max_user_client_connections={key}"}
    heard = []
    for p in pair(pg15, settings={"max_user_client_connections": setting}, users=users):
        with contextlib.ExitStack() as stack:
            texts = []
            for _ in range(3):
                try:
                    stack.enter_context(p.connect(user="alice"))
                    texts.append("in")
                except wire.ServerError as error:
                    texts.append(error.fields["M"])
            texts.append(text_of_login(p, user="bob"))
            heard.append(texts)
    assert heard[1] == heard[0]
    assert heard[0].count("in") < 4


# Lines of the log about a session: those of the login, of a server's connection, and of the ends of both.
LINES = re.compile(r"LOG ([CS])-0x[0-9a-f]+: \S+ (login attempt|new connection to server|closing because: [^(]*)")


@pytest.mark.parametrize("ends", (0, 1))
@pytest.mark.parametrize("begins", (0, 1))
def test_log_connections_and_log_disconnections(pg15, pair, begins, ends):
    logged = []
    poolers = pair(pg15, settings={"log_connections": begins, "log_disconnections": ends})
    for p in poolers:
        offset = len(p.log())
        with p.connect(database="shop", user="alice") as c:
            c.query("select 1")
        eventually(lambda p=p: not [row for row in p.console("show clients") if row["user"] == "alice"])
        p.console("reconnect")
        eventually(lambda p=p: not p.console("show servers"))
        mine = [line for line in p.log()[offset:].splitlines() if "shop/alice" in line]
        logged.append(sorted(LINES.search(line).groups() for line in mine if LINES.search(line)))
    assert logged[1] == logged[0]
    assert len(logged[0]) == 2 * begins + 2 * ends


def test_service_name(pair):
    """It means nothing here. PgBouncer knows it on Windows only, and refuses the file elsewhere."""
    theirs, ours = pair(start=False, settings={"service_name": "weir"})
    theirs.spawn()
    assert theirs.wait_exit() == 1
    assert "unknown parameter: pgbouncer/service_name" in theirs.stderr()
    assert "WARNING" in ours.start().wait_log("service_name has no effect")


# -- cancel requests


class SoonDeaf(DeafHost):
    """Leads to a cluster for one connection each of two poolers; then, when it is entered, it is deaf."""

    def leads_to(self, cluster):
        self.socket.listen(2)
        threading.Thread(target=self._relay_two, args=(cluster,), daemon=True).start()

    def _relay_two(self, cluster):
        for _ in range(2):
            client, _ = self.socket.accept()
            server = socket.create_connection((cluster.host, cluster.port))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=carry, args=ends, daemon=True).start()

    def __enter__(self):
        self.socket.listen(0)
        return super().__enter__()


@pytest.mark.parametrize("seconds", (1, 0))
def test_cancel_wait_timeout(pg15, pair, seconds):
    """A request whose server's host does not answer any more ends in time, and cancels nothing; with 0 it waits on."""
    host = SoonDeaf()
    host.leads_to(pg15)
    settings = {"cancel_wait_timeout": seconds, "server_connect_timeout": 30, "default_pool_size": 1}
    poolers = pair(databases={"deaf": f"host=127.0.0.1 port={host.port} dbname=postgres"}, settings=settings)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(p.connect(database="deaf")) for p in poolers]
        for c in clients:
            c.query("select 1")
        stack.enter_context(host)
        for c in clients:
            c.send(wire.query("select pg_sleep(2.8)"))
        time.sleep(0.3)
        requests = [threading.Thread(target=c.cancel, daemon=True) for c in clients]
        for request in requests:
            request.start()
        time.sleep(2)
        waits = [request.is_alive() for request in requests]
        assert [wire.error_codes(c.read_ready()) for c in clients] == [[], []]
    assert waits == [seconds == 0] * 2


# -- names


NAME, ZONE = "db.pool.test", "pool.test"
NOBODY = "nobody.pool.test"


@pytest.fixture
def names():
    """Name servers of this test's own, one for each pooler."""
    server = [NameServer({NAME: ["127.0.0.1"]}, ZONE, f"127.0.{53 + n}.{1 + os.getpid() % 250}") for n in (0, 1)]
    try:
        with server[0], server[1]:
            yield server
    except PermissionError:
        pytest.skip("only root may bind port 53")


def named(pair, cluster, names, **settings):
    """The two poolers, each with a name server."""
    databases = {"shop": f"host={NAME} port={cluster.port}", "none": f"host={NOBODY}"}
    poolers = pair(start=False, databases=databases, settings={"server_login_retry": 1, "dns_max_ttl": 3600, **settings})
    for p, server in zip(poolers, names, strict=True):
        path = os.path.join(p.dir, "resolv.conf")
        p.write_file(path, f"nameserver {server.address}\noptions timeout:1 attempts:1\n")
        p.settings["resolv_conf"] = path
        p.write_ini()
        p.start()
    return poolers


def test_resolv_conf(pg15, pair, names):
    for p, server in zip(named(pair, pg15, names), names, strict=True):
        assert text_of_login(p, database="shop") == "in"
        assert server.count(NAME) == 1


@pytest.mark.parametrize("seconds", (1, 60))
def test_dns_nxdomain_ttl(pg15, pair, names, seconds):
    """How often a name that does not exist is asked for while clients come."""
    poolers = named(pair, pg15, names, dns_nxdomain_ttl=seconds)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            for p in poolers:
                begin_login(stack, p, "none")
            time.sleep(0.8)
        asked = [server.count(NOBODY) for server in names]
    assert [count > 1 for count in asked] == [seconds == 1] * 2, asked
    assert min(asked) > 0


@pytest.mark.parametrize("seconds", (0, 1))
def test_dns_zone_check_period(pg15, pair, names, seconds):
    """A new serial number of the zone has the name looked up again, long before its answer is out of date."""
    poolers = named(pair, pg15, names, dns_zone_check_period=seconds)
    for p in poolers:
        assert text_of_login(p, database="shop") == "in"
    if seconds:
        for server in names:
            eventually(lambda s=server: s.count(ZONE, 6) > 0, timeout=8, what="the serial number is asked for")
    for server in names:
        server.serial += 1
    if seconds:
        for server in names:
            eventually(lambda s=server: s.count(NAME) > 1, timeout=8, what="the name is looked up again")
    else:
        time.sleep(1.5)
        assert [(server.count(ZONE, 6), server.count(NAME)) for server in names] == [(0, 1)] * 2


# -- listening


@pytest.mark.parametrize("reuses", (0, 1))
def test_so_reuseport(pg15, make_pooler, reuses):
    """Whether a second process may listen on the same port."""
    outcomes = []
    for which in ("pgbouncer", "pgweir"):
        port = ports.take()
        settings = {"so_reuseport": reuses, "listen_port": port, "unix_socket_dir": ""}
        first, second = (make_pooler(pg15, settings=settings, start=False, which=which) for _ in range(2))
        first.port = second.port = port
        first.start()
        second.spawn()
        second._stopped_by_test = True
        if reuses:
            eventually(lambda p=second: "process up" in p.log())
            outcomes.append(second.running)
        else:
            outcomes.append(second.process.wait(8))
    assert outcomes[1] == outcomes[0]
    assert outcomes[0] is True if reuses else outcomes[0] != 0
