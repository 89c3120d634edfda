"""Logins while what the pooler knows of the servers changes: RELOAD, take-over, changed passwords."""

import contextlib
import os
import signal
import struct
import time

import pytest

from harness import ports, wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about pgweir alone")

HBA = """\
local all all trust
host all postgres 127.0.0.1/32 trust
host all looker 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


@pytest.fixture(scope="module")
def secured():
    import pgthrow

    cluster = pgthrow.Cluster(version=15, port=ports.take(), hba=HBA).start()
    cluster.psql("create role looker login superuser")
    yield cluster
    cluster.remove()


@pytest.fixture
def pooler(secured, make_pooler):
    secured.psql("drop role if exists changing; create role changing login password 'first'")
    return make_pooler(
        secured,
        settings={"auth_type": "scram-sha-256", "auth_user": "looker", "server_login_retry": 60, "query_wait_timeout": 5},
        userlist={"looker": "looker-pw"},
    )


def servers_end(cluster):
    cluster.psql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'changing'")
    time.sleep(0.5)


@pytest.mark.parametrize("how", ("reload", "take_over"))
def test_another_host_while_a_server_tries_startup_values(own_cluster, make_pooler, how):
    """The server that tries the values stands still; then all databases are elsewhere."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, databases={"*": f"host=127.0.0.1 port={cluster.port}"}, settings={"default_pool_size": 1})
    with pooler.connect(user="alice") as c:
        pid = int(c.value("select pg_backend_pid()"))
    time.sleep(0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        late = pooler.connect(user="alice", options={"search_path": "never, seen, before"}, login=False)
        late.send(wire.startup(late.startup_parameters()))
        time.sleep(0.5)
        pooler.databases = {"*": f"host=localhost port={cluster.port}"}
        pooler.write_ini()
        getattr(pooler, how)()
        time.sleep(0.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert wire.tags(late.read_until("Z", "E"))[-1] == "Z"
    assert late.value("show search_path") == "never, seen, before"


def test_a_new_password_is_tried_at_once(secured, pooler):
    """Servers have refused the SCRAM keys of the old password; a client with the new one must not hear of it."""
    old = pooler.connect(user="changing", password="first")
    assert old.value("select 1") == "1"
    secured.psql("alter role changing password 'second'")
    servers_end(secured)
    with contextlib.suppress(wire.ServerError, wire.Closed):
        old.query("select 1")
    with pooler.connect(user="changing", password="second") as c:
        assert c.value("select 1") == "1"


def test_an_old_login_that_ends_late_leaves_the_new_password(secured, pooler):
    slow = pooler.connect(user="changing", password="first", login=False)
    slow.send(wire.startup(slow.startup_parameters()))
    slow.read_until("R")
    scram = wire.Scram(b"first")
    first = scram.first()
    slow.send(wire.message("p", wire.cstr("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
    server_first = slow.read_until("R")[-1].body[4:]
    secured.psql("alter role changing password 'second'")
    good = pooler.connect(user="changing", password="second")
    assert good.value("select 1") == "1"
    slow.send(wire.message("p", scram.final(server_first)))
    slow.read_until("Z", "E")
    servers_end(secured)
    assert good.value("select 1") == "1"
