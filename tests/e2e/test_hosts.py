"""Several servers for one database: load_balance_hosts, target_session_attrs, and a fail-over under load."""

import contextlib
import os
import socket
import subprocess
import threading
import time

import pgthrow
import pytest

from harness import ports, wire
from harness.odd_server import carry
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import error_codes

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="target_session_attrs is pgweir's own")


def standby_of(primary: pgthrow.Cluster) -> pgthrow.Cluster:
    """A standby that streams from the primary."""
    standby = pgthrow.Cluster(version=primary.version, port=ports.take())
    program = os.path.join(primary.bin_dir, "pg_basebackup")
    command = [program, "-d", primary.dsn(), "-D", standby.data_dir, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
    subprocess.run(pgthrow.as_server_user(command), cwd=standby.dir, check=True, capture_output=True)
    with open(os.path.join(standby.data_dir, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write(f"port = {standby.port}\nunix_socket_directories = '{standby.socket_dir}'\n")
    return standby.start()


@pytest.fixture
def pair(own_cluster):
    """A primary and its standby, for this test alone."""
    hba = pgthrow.HBA_TRUST + "host replication all 127.0.0.1/32 trust\n"
    primary = own_cluster(settings={"wal_level": "replica", "synchronous_commit": "on"}, hba=hba)
    if not os.path.exists(os.path.join(primary.bin_dir, "pg_basebackup")):
        pytest.skip("pg_basebackup is not installed")
    primary.psql("create table t (id int primary key, port text default current_setting('port'))")
    standby = standby_of(primary)
    eventually(lambda: standby.psql("select count(*) from pg_class where relname = 't'") == "1")
    yield primary, standby
    standby.remove()


def relay(listener: socket.socket, to: pgthrow.Cluster) -> None:
    """Connects whoever comes with the cluster, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            try:
                server = socket.create_connection((to.host, to.port))
            except OSError:
                client.close()
                continue
            for ends in ((client, server), (server, client)):
                ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=carry, args=ends, daemon=True).start()


@pytest.fixture
def hosts(pair):
    """The pair behind one port, as hosts of one entry share it: the primary at 127.0.0.1, the standby at 127.0.0.2."""
    primary, standby = pair
    with socket.create_server(("127.0.0.2", primary.port), backlog=64) as listener:
        threading.Thread(target=relay, args=(listener, standby), daemon=True).start()
        yield primary, standby
        listener.shutdown(socket.SHUT_RDWR)


def entry(cluster, **more) -> str:
    settings = {"host": "127.0.0.1,127.0.0.2", "port": cluster.port, "dbname": "postgres", **more}
    return " ".join(f"{k}={v}" for k, v in settings.items())


def test_each_wish_gets_its_server(hosts, make_pooler):
    primary, standby = hosts
    wishes = {"read-write": "f", "primary": "f", "read-only": "t", "standby": "t", "prefer-standby": "t"}
    databases = {wish: entry(primary, target_session_attrs=wish) for wish in wishes}
    databases["any"] = entry(primary)
    pooler = make_pooler(databases=databases, settings={"default_pool_size": 4})
    for wish, in_recovery in wishes.items():
        for _ in range(2):
            clients = [pooler.connect(database=wish) for _ in range(3)]
            for client in clients:
                client.query("begin")
            assert {c.value("select pg_is_in_recovery()") for c in clients} == {in_recovery}, wish
            for client in clients:
                client.close()
    clients = [pooler.connect(database="any") for _ in range(4)]
    for client in clients:
        client.query("begin")
    assert {c.value("select pg_is_in_recovery()") for c in clients} == {"f", "t"}, "round-robin"
    for client in clients:
        client.close()

    # Without standbys, only prefer-standby is served, by the primary.
    standby.stop()
    with pooler.connect(database="prefer-standby") as client:
        assert client.value("select pg_is_in_recovery()") == "f"
    with pooler.connect(database="standby", login=False) as client:
        client.send(wire.startup({"user": "postgres", "database": "standby"}))
        eventually(lambda: "server is not in hot standby mode" in pooler.log(), timeout=10)
    # It comes back.
    standby.start()
    pooler.console("reconnect")
    eventually(lambda: value_of(pooler, "prefer-standby", "select pg_is_in_recovery()") == "t", timeout=10)


def value_of(pooler, database: str, sql: str) -> str | None:
    with pooler.connect(database=database) as client:
        return client.value(sql)


class Writer(threading.Thread):
    """A client that inserts numbers one after the other, each until it is told that it is there."""

    def __init__(self, pooler, first: int):
        super().__init__(daemon=True)
        self.pooler, self.next, self.first = pooler, first, first
        self.ends = threading.Event()
        self.lost, self.read_only, self.longest = 0, 0, 0.0

    def run(self):
        client = None
        while not self.ends.is_set():
            began = time.monotonic()
            try:
                client = client or self.pooler.connect(database="shop", timeout=30)
                codes = error_codes(client.query(f"insert into t values ({self.next}) on conflict do nothing"))
            except (OSError, wire.Closed, wire.ServerError):
                self.lost, client = self.lost + 1, None
                continue
            self.read_only += codes == ["25006"]
            if codes:
                self.lost, client = self.lost + 1, None
                continue
            self.longest = max(self.longest, time.monotonic() - began)
            self.next += 1
            time.sleep(0.002)


@pytest.mark.parametrize("attrs", ("read-write", "primary"))
def test_fail_over_under_load(hosts, make_pooler, attrs):
    """The primary is killed, the standby promoted: clients wait and go on, and nothing is written that is lost."""
    primary, standby = hosts
    databases = {"shop": entry(primary, target_session_attrs=attrs)}
    pooler = make_pooler(databases=databases, settings={"default_pool_size": 4})
    idle = pooler.connect(database="shop")
    assert idle.value("select port from (select current_setting('port') as port) s") == str(primary.port)
    writers = [Writer(pooler, first=n * 1_000_000) for n in range(6)]
    for writer in writers:
        writer.start()
    time.sleep(1.5)
    # Synchronous, so that what was acknowledged is on the standby.
    primary.psql("alter system set synchronous_standby_names = '*'")
    primary.reload()
    time.sleep(0.5)
    assert all(writer.next > writer.first and writer.lost == 0 for writer in writers)
    primary.stop("immediate")
    time.sleep(1.5)
    before = [writer.next for writer in writers]
    standby.psql("select pg_promote(true)")

    def goes_on():
        return all(writer.next > at + 20 for writer, at in zip(writers, before))

    eventually(goes_on, timeout=15, what=lambda: f"all writers go on; {pooler.log()[-3000:]}")
    for writer in writers:
        writer.ends.set()
    for writer in writers:
        writer.join(30)
    assert sum(writer.read_only for writer in writers) == 0, "no statement ran on the wrong server"
    assert all(writer.lost <= 2 for writer in writers), "only what was under way is lost"
    count = int(standby.psql("select count(*) from t"))
    assert count >= sum(writer.next - writer.first for writer in writers), "nothing acknowledged is lost"
    assert idle.value("select current_setting('port')") == str(standby.port), "an idle client does not notice"
    idle.close()


def test_a_primary_that_turns_read_only(hosts, make_pooler):
    """default_transaction_read_only is switched on at the primary: its servers go, and clients wait for the new one."""
    primary, standby = hosts
    databases = {"shop": entry(primary, target_session_attrs="read-write")}
    pooler = make_pooler(databases=databases, settings={"default_pool_size": 2})
    with pooler.connect(database="shop") as client:
        client.query("insert into t values (1)")
        primary.psql("alter system set default_transaction_read_only = on")
        primary.reload()
        time.sleep(0.3)
        assert error_codes(client.query("insert into t values (2)")) == ["25006"]
        client.send(wire.query("insert into t values (3)"))
        assert client.quiet(1.5), "it waits"
        standby.psql("select pg_promote(true)")
        assert error_codes(client.read_ready(timeout=15)) == []
    assert standby.psql("select id from t order by id").split() == ["1", "3"]


def test_hosts_that_are_down_are_skipped_and_tried_again(pg15, own_cluster, make_pooler):
    """One dead host of two costs clients nothing, in both ways of load_balance_hosts."""
    for balance in ("round-robin", "disable"):
        database = entry(pg15, load_balance_hosts=balance, host="127.0.0.3,127.0.0.1")
        pooler = make_pooler(databases={"shop": database}, settings={"default_pool_size": 8})
        clients = [pooler.connect(database="shop") for _ in range(8)]
        for client in clients:
            client.query("begin")
        for client in clients:
            client.close()
        failed = pooler.log().count(f"connect to 127.0.0.3:{pg15.port} failed")
        assert 1 <= failed <= 4, f"{failed} attempts at the dead host"
