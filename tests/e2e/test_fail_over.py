"""How a server says that it ends (57P01, 57P02), takes nobody yet or any more (57P03), or is read-only (25006): each
alone, with target_session_attrs.

A client with a request or a transaction under way hears the server's own error, or, where the server closes without one,
the pooler's. All others wait, and their next transaction runs on the new primary.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import pgthrow
import pytest

from harness import wire
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import error_codes
from test_hosts import entry, hosts, pair  # noqa: F401

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="target_session_attrs is pgweir's own")

PORT = "select current_setting('port')"
AT_WORK = "select count(*) from pg_stat_activity where query like 'insert%pg_sleep(60)' and state = 'active'"


def primary_only(primary, make_pooler, **settings):
    databases = {"shop": entry(primary, target_session_attrs="read-write"), "one": entry(primary, host=primary.host)}
    return make_pooler(databases=databases, settings={"default_pool_size": 4, "query_wait_timeout": 60, **settings})


class Scene:
    """Clients of a database that wants a primary: one is idle, one in a transaction, one at work."""

    def __init__(self, primary, make_pooler):
        self.primary, self.pooler = primary, primary_only(primary, make_pooler)
        self.idle, self.within, self.at_work = (self.pooler.connect(database="shop") for _ in range(3))
        assert self.idle.value(PORT) == str(primary.port)
        self.within.query("begin; insert into t values (1)")
        self.at_work.send(wire.query("insert into t select 2 from pg_sleep(60)"))
        eventually(lambda: primary.psql(AT_WORK) == "1", what="the query at work")

    def heard(self, client) -> list[tuple[str, str]]:
        """Severity and code of what the client is told before it is closed."""
        messages = client.read_to_end(10)
        assert not [m for m in messages if m.tag in "CZ"], messages
        return [(m.fields["V"], m.fields["C"]) for m in messages if m.tag in "EN"]

    def goes_on_at(self, new) -> None:
        """The idle client asks while there is no primary, and is answered by the new one; whoever comes gets there, too."""
        self.idle.send(wire.query("insert into t values (4)"))
        assert self.idle.quiet(1), "it waits"
        new.psql("select pg_promote(true)")
        assert error_codes(self.idle.read_ready(timeout=20)) == []
        assert self.idle.value(PORT) == str(new.port)
        with self.pooler.connect(database="shop") as client:
            assert client.value(PORT, timeout=20) == str(new.port)
        assert new.psql("select id from t") == "4", "what was under way is undone, and the rest is there"


def test_the_server_is_shut_down(hosts, make_pooler):  # noqa: F811
    """57P01, FATAL: it reaches the clients that have something under way as it is."""
    primary, standby = hosts
    scene = Scene(primary, make_pooler)
    primary.stop("fast")
    assert scene.heard(scene.within) == [("FATAL", "57P01")]
    assert scene.heard(scene.at_work) == [("FATAL", "57P01")]
    scene.goes_on_at(standby)


def test_one_connection_is_terminated(hosts, make_pooler):  # noqa: F811
    """57P01 of one backend: the server is still the primary, and the others notice nothing."""
    primary, _ = hosts
    scene = Scene(primary, make_pooler)
    terminate = "select pg_terminate_backend(pid) from pg_stat_activity where "
    primary.psql(terminate + "state = 'idle in transaction'")
    assert scene.heard(scene.within) == [("FATAL", "57P01")]
    for _ in range(3):
        assert error_codes(scene.idle.query("insert into t values (4) on conflict do nothing", timeout=5)) == []
        assert scene.idle.value(PORT) == str(primary.port)
    scene.at_work.cancel()
    assert error_codes(scene.at_work.read_ready()) == ["57014"]
    # An idle server that ends is replaced before anybody is sent to it.
    others = "pid <> pg_backend_pid() and backend_type = 'client backend'"
    primary.psql(terminate + others)
    ended = "select count(*) = 0 from pg_stat_activity where " + others
    eventually(lambda: primary.psql(ended) == "t", what="the end of all servers")
    assert error_codes(scene.idle.query("insert into t values (5)", timeout=5)) == []


def test_another_backend_crashes(hosts, make_pooler):  # noqa: F811
    """57P02 is a warning, and PostgreSQL closes behind it without an error: the pooler adds the error that ends a request."""
    primary, standby = hosts
    primary.psql("alter system set restart_after_crash = off")
    primary.reload()
    scene = Scene(primary, make_pooler)
    with wire.Connection(host=primary.host, port=primary.port, user="postgres", database="postgres") as other:
        os.kill(int(other.value("select pg_backend_pid()")), signal.SIGKILL)
        said = [m.fields["C"] for m in other.read_to_end(10) if m.tag in "EN"]
        assert said == []
    assert scene.heard(scene.within) == [("WARNING", "57P02"), ("FATAL", "08006")]
    assert scene.heard(scene.at_work) == [("WARNING", "57P02"), ("FATAL", "08006")]
    eventually(lambda: not primary.running, timeout=10, what="the end of the primary")
    scene.goes_on_at(standby)


def says_57p03(cluster) -> bool:
    with contextlib.suppress(OSError, wire.Closed):
        try:
            wire.Connection(host=cluster.host, port=cluster.port, user="postgres", database="postgres").close()
        except wire.ServerError as error:
            return error.code == "57P03"
    return False


def test_the_server_takes_nobody_while_it_shuts_down(hosts, make_pooler):  # noqa: F811
    """57P03 during a smart shutdown: transactions under way end in peace; whoever needs a new connection waits, or, where
    no server has been reached before, gets the server's own error."""
    primary, standby = hosts
    pooler = primary_only(primary, make_pooler)
    with pooler.connect(database="shop") as within, pooler.connect(database="shop") as other:
        within.query("begin; insert into t values (1)")
        os.kill(primary.pid, signal.SIGTERM)
        eventually(lambda: says_57p03(primary), what="57P03")
        other.send(wire.query("insert into t values (2)"))
        assert other.quiet(1.5), "it waits"
        assert "the database system is shutting down" in pooler.log()
        with pytest.raises(wire.ServerError) as error:
            pooler.connect(database="one", user="alice", timeout=10)
        assert error.value.code == "57P03" and "the database system is shutting down" in error.value.fields["M"]
        assert error_codes(within.query("insert into t values (3); commit")) == []
        assert error_codes(other.read_ready(timeout=20)) == [], "the server that is free again is still there"
        primary.stop("fast")
        standby.psql("select pg_promote(true)")
        assert error_codes(within.query("insert into t values (4)", timeout=20)) == []
    assert standby.psql("select id from t order by id").split() == ["1", "2", "3", "4"]


def start_following(old, new) -> None:
    """Starts the old primary as a standby of the new one."""
    with open(os.path.join(old.data_dir, "postgresql.auto.conf"), "a", encoding="utf-8") as file:
        file.write(f"primary_conninfo = 'host={new.host} port={new.port} user=postgres'\n")
    old._write("standby.signal", "")
    old.start()


def test_the_server_starts_and_takes_nobody_yet(hosts, make_pooler):  # noqa: F811
    """57P03 of a server that recovers: clients wait until one of the hosts is a primary that takes them."""
    primary, standby = hosts
    pooler = primary_only(primary, make_pooler)
    with pooler.connect(database="shop") as client:
        assert error_codes(client.query("insert into t values (1)")) == []
        primary.stop("fast")
        # It waits for WAL that nobody sends, and lets nobody in.
        primary._write("standby.signal", "")
        with open(os.path.join(primary.data_dir, "postgresql.auto.conf"), "a", encoding="utf-8") as file:
            file.write("hot_standby = off\n")
        primary._wait_ready = lambda: None
        primary.start()
        eventually(lambda: says_57p03(primary), timeout=10, what="57P03")
        offset = len(pooler.log())
        client.send(wire.query("insert into t values (2)"))
        assert client.quiet(1.5), "it waits"
        pooler.wait_log("the database system is not accepting connections|Hot standby mode is disabled|starting up", after=offset)
        command = [os.path.join(primary.bin_dir, "pg_ctl"), "promote", "-W", "-D", primary.data_dir]
        subprocess.run(pgthrow.as_server_user(command), cwd=primary.dir, check=True, capture_output=True)
        assert error_codes(client.read_ready(timeout=20)) == []
        assert client.value(PORT) == str(primary.port)


def test_the_server_comes_back_as_a_standby(hosts, make_pooler):  # noqa: F811
    """A switch-over: nobody gets 25006 from the old primary, which is found to be read-only before anybody uses it."""
    primary, standby = hosts
    pooler = primary_only(primary, make_pooler)
    with pooler.connect(database="shop") as client:
        # 25006 that the client has wished for itself costs nothing but its statement.
        assert error_codes(client.query("begin read only; insert into t values (1)")) == ["25006"]
        client.query("rollback")
        assert error_codes(client.query("insert into t values (1)", timeout=5)) == []
        primary.stop("fast")
        standby.psql("select pg_promote(true)")
        start_following(primary, standby)
        eventually(lambda: primary.psql("select pg_is_in_recovery()") == "t", timeout=10)
        clients = [pooler.connect(database="shop") for _ in range(3)]
        for number, other in enumerate([client, *clients], start=2):
            assert error_codes(other.query(f"begin; insert into t values ({number})", timeout=20)) == []
        for other in [client, *clients]:
            assert error_codes(other.query("commit")) == []
            other.close()
        pooler.wait_log(f"127.0.0.1:{primary.port} target_session_attrs: session is read-only")
        addresses = {row["addr"] for row in pooler.console("show servers") if row["database"] == "shop"}
        assert addresses == {"127.0.0.2"}
    assert standby.psql("select count(*) from t") == "5"
