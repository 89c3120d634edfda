"""-R while something is under way that no client's conversation shows: orders of the console, checks and resets of servers."""

from __future__ import annotations

import struct

import pytest

from harness import wire
from harness.logins import login, refused
from harness.pooler import kind
from harness.tls_client import context_for
from harness.waiting import eventually
from test_take_over_moments import cluster, stranger  # noqa: F401
from test_tls import client_leg

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this"),
]

LOCK = 8
LOCKED = f"select pg_advisory_lock({LOCK})"
FREED = f"select pg_advisory_unlock({LOCK})"
WAITS = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
WAIT = f"select pg_advisory_xact_lock_shared({LOCK})"


@pytest.fixture
def holder(cluster):  # noqa: F811
    """Keeps whoever runs WAIT waiting, until it is told to let go."""
    with wire.Connection(host=cluster.socket_dir, port=cluster.port) as c:
        c.query(LOCKED)
        yield c


def waits(cluster) -> None:  # noqa: F811
    eventually(lambda: cluster.psql(WAITS) == "1", what="somebody who waits")


def take_over(pooler) -> None:
    assert pooler.take_over().wait(10) == 0


def make(make_pooler, cluster, **named):  # noqa: F811
    settings = {"auth_type": "trust", "default_pool_size": 1, **named.pop("settings", {})}
    return make_pooler(cluster, settings=settings, userlist={"postgres": ""}, **named)


# Queries of the pooler's own that wait for the lock: (pool_mode, settings, keys of the database).
OWN_QUERIES = {
    "connect_query": ("transaction", {}, f"connect_query='{WAIT}'"),
    "server_check_query": ("transaction", {"server_check_query": WAIT, "server_check_delay": 0}, ""),
    "server_reset_query": ("session", {"server_reset_query": WAIT}, ""),
}


@pytest.mark.parametrize("which", OWN_QUERIES)
def test_a_query_of_the_poolers_own(cluster, make_pooler, holder, which):  # noqa: F811
    """A client waits for the server that runs it."""
    mode, settings, keys = OWN_QUERIES[which]
    databases = {"*": f"host=127.0.0.1 port={cluster.port} {keys}"}
    pooler = make(make_pooler, cluster, mode=mode, settings=settings, databases=databases)
    if which == "server_check_query":
        holder.query(FREED)
        login(pooler)
        holder.query(LOCKED)
    elif which == "server_reset_query":
        login(pooler)
    with pooler.connect(login=False) as c:
        c.send(wire.startup(c.startup_parameters()), wire.query("select 5"))
        waits(cluster)
        take_over(pooler)
        holder.query(FREED)
        c.finish_login()
        assert wire.rows_of(c.read_ready()) == [("5",)]


def test_wait_close(cluster, make_pooler):  # noqa: F811
    """It goes on, and ends with the last server of before RECONNECT."""
    pooler = make(make_pooler, cluster)
    with pooler.connect() as c, pooler.connect(database="pgbouncer") as boss:
        c.query("begin; select 1")
        boss.query("reconnect")
        boss.send(wire.query("wait_close"))
        assert boss.quiet()
        take_over(pooler)
        assert boss.quiet()
        c.query("commit")
        assert wire.tags(boss.read_ready()) == "CZ"


ORDERS = {
    "disable postgres": "enable postgres",
    "kill postgres": "resume postgres",
    "pause postgres": "resume postgres",
    "pause": "resume",
}


@pytest.mark.parametrize("order", ORDERS)
def test_orders_stay_in_force(cluster, make_pooler, order):  # noqa: F811
    """Until they are taken back in the new process."""
    pooler = make(make_pooler, cluster, databases={"postgres": f"host=127.0.0.1 port={cluster.port}"})
    login(pooler)
    pooler.console(order)
    take_over(pooler)
    if order.startswith("disable"):
        assert "is disabled" in refused(pooler).fields["M"]
        pooler.console(ORDERS[order])
        login(pooler)
        return
    with pooler.connect() as c:
        c.send(wire.query("select 6"))
        assert c.quiet()
        pooler.console(ORDERS[order])
        assert wire.rows_of(c.read_ready()) == [("6",)]


def test_the_console_counts_on(cluster, make_pooler):  # noqa: F811
    """SHOW STATS_TOTALS, and the times of connections."""
    pooler = make(make_pooler, cluster)
    counted = lambda: [row for row in pooler.console("show stats_totals") if row["database"] == "postgres"]  # noqa: E731
    with pooler.connect() as c:
        for _ in range(3):
            c.value("select 1")
        eventually(lambda: counted()[0]["query_count"] == "3", what="the queries")
        before = counted(), shown(pooler, "clients"), shown(pooler, "servers")
        take_over(pooler)
        assert (counted(), shown(pooler, "clients"), shown(pooler, "servers")) == before


COLUMNS = ("user", "state", "addr", "port", "local_port", "connect_time", "request_time", "prepared_statements")


def shown(pooler, what: str) -> list[dict]:
    """What must stay as it is in the rows that are not about the console."""
    rows = [row for row in pooler.console(f"show {what}") if row["database"] == "postgres"]
    assert rows
    return [{name: row[name] for name in COLUMNS} for row in rows]


def test_a_login_by_tls(cluster, make_pooler, certificates):  # noqa: F811
    """Between the messages of SCRAM. The old process encrypts and decrypts until the client has left."""
    settings = {**client_leg(certificates, "require"), "auth_type": "scram-sha-256", "auth_user": "looker"}
    pooler = make_pooler(cluster, settings=settings, userlist={"looker": "", "postgres": "postgres-pw"})
    c = stranger(pooler)
    c.socket.sendall(struct.pack("!ii", 8, wire.SSL_REQUEST))
    assert c.socket.recv(1) == b"S"
    c.socket = context_for().wrap_socket(c.socket)
    c.send(wire.startup(c.startup_parameters()))
    c.read_until("R")
    old = pooler.take_over()
    scram = wire.Scram(b"alice-pw")
    first = scram.first()
    c.send(wire.message("p", wire.cstr("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
    c.send(wire.message("p", scram.final(c.read_until("R")[-1].body[4:])))
    scram.verify(c.read_until("R")[-1].body[4:])
    c.finish_login()
    assert c.value("select 7") == "7"
    assert old.poll() is None
    c.close()
    assert old.wait(10) == 0
