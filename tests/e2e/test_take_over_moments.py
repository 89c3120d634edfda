"""-R at one moment of a conversation each: logins, streams, portals, cursors; and with files that cannot be used."""

from __future__ import annotations

import struct
import subprocess

import pgthrow
import pytest

from harness import ports, wire
from harness.logins import login, refused
from harness.pooler import kind, program
from harness.waiting import eventually

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this"),
]

HBA = """\
local all all trust
host all postgres,looker 127.0.0.1/32 trust
host all,replication all 127.0.0.1/32 scram-sha-256
"""

# Looks a user up when nobody holds lock 7.
SQL = """
create role looker login superuser;
create role alice login superuser replication password 'alice-pw';
create table t (a int primary key);
create publication p for table t;
create function public.find(name text, out text, out text) language sql as $$
    select pg_advisory_xact_lock_shared(7);
    select rolname::text, rolpassword from pg_authid where rolname = name
$$;
"""
LOCK = 7


@pytest.fixture(scope="module")
def cluster():
    cluster = pgthrow.Cluster(version=15, port=ports.take(), hba=HBA, settings={"wal_level": "logical"}).start()
    cluster.psql(SQL)
    yield cluster
    cluster.remove()


@pytest.fixture
def pooler(cluster, make_pooler):
    settings = {"auth_type": "scram-sha-256", "auth_user": "looker", "auth_query": "select * from public.find($1)"}
    return make_pooler(cluster, settings=settings, userlist={"looker": "", "postgres": "postgres-pw"})


def client(pooler, **named) -> wire.Connection:
    return pooler.connect(user="alice", password="alice-pw", **named)


def stranger(pooler) -> wire.Connection:
    """A client that has sent nothing yet."""
    return client(pooler, login=False)


# Each yield is a moment at which another process takes over.


def half_a_startup_packet(pooler):
    with stranger(pooler) as c:
        packet = wire.startup(c.startup_parameters())
        for begin, end in ((0, 3), (3, 11), (11, len(packet))):
            c.send(packet[begin:end])
            yield
        c.finish_login()
        assert c.value("select 1") == "1"


def before_the_startup_packet(pooler):
    with stranger(pooler) as c:
        c.socket.sendall(struct.pack("!II", 8, wire.SSL_REQUEST))
        assert c.socket.recv(1) == b"N"
        yield
        c.login()
        assert c.value("select 1") == "1"


def between_messages_of_scram(pooler):
    with stranger(pooler) as c:
        c.send(wire.startup(c.startup_parameters()))
        c.read_until("R")
        yield
        scram = wire.Scram(b"alice-pw")
        first = scram.first()
        c.send(wire.message("p", wire.cstr("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
        challenge = c.read_until("R")[-1].body[4:]
        yield
        c.send(wire.message("p", scram.final(challenge)))
        scram.verify(c.read_until("R")[-1].body[4:])
        c.finish_login()
        assert c.value("select 1") == "1"
    refused(pooler, user="alice", password="wrong")


def an_auth_query_under_way(pooler):
    cluster = pooler.cluster
    waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    with wire.Connection(host=cluster.socket_dir, port=cluster.port) as holder, stranger(pooler) as c:
        holder.query(f"select pg_advisory_lock({LOCK})")
        c.send(wire.startup(c.startup_parameters()))
        eventually(lambda: cluster.psql(waits) == "1", what="the query")
        yield
        holder.query(f"select pg_advisory_unlock({LOCK})")
        c.finish_login()
        assert c.value("select 1") == "1"


def a_logical_stream(pooler):
    with client(pooler, options={"replication": "database"}) as c:
        c.query("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput")
        c.send(wire.query("START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p')"))
        c.read_until("W")
        for value in (11111, 22222, 33333):
            pooler.cluster.psql(f"insert into t values ({value})")
            while str(value).encode() not in c.read_until("d")[-1].body:
                pass
            yield
        c.send(wire.copy_done())
        assert "E" not in wire.tags(c.read_ready())
    pooler.cluster.psql("truncate t")


def rows_of_copy_out(pooler):
    rows = 150_000
    with client(pooler) as c:
        c.send(wire.query(f"copy (select i, repeat('x', 100) from generate_series(1, {rows}) i) to stdout"))
        seen = [m for m in c.read_until("d") if m.tag == "d"]
        yield
        seen += [m for m in (c.read() for _ in range(1000)) if m.tag == "d"]
        yield
        seen += [m for m in c.read_ready() if m.tag == "d"]
        assert [int(m.body.split(b"\t")[0]) for m in seen] == list(range(1, rows + 1))


def a_suspended_portal(pooler):
    with client(pooler) as c:
        c.query("begin")
        c.send(wire.parse("p", "select generate_series(1, 6)"), wire.bind("portal", "p"), wire.sync())
        c.read_ready()
        seen = []
        for _ in range(3):
            yield
            c.send(wire.execute("portal", 2), wire.sync())
            messages = c.read_ready()
            assert "s" in wire.tags(messages)
            seen += [row for (row,) in wire.rows_of(messages)]
        assert seen == list("123456")
        c.query("commit")


def a_suspended_portal_without_its_sync(pooler):
    with client(pooler) as c:
        c.send(wire.parse("", "select generate_series(1, 6)"), wire.bind(), wire.execute("", 2), wire.flush())
        seen = wire.rows_of(c.read_until("s"))
        yield
        c.send(wire.execute("", 2), wire.flush())
        seen += wire.rows_of(c.read_until("s"))
        yield
        c.send(wire.execute(), wire.sync())
        seen += wire.rows_of(c.read_ready())
        assert [row for (row,) in seen] == list("123456")


def a_cursor_with_hold(pooler):
    with client(pooler) as c:
        c.query("begin; declare held cursor with hold for select generate_series(1, 6)")
        assert c.value("fetch held") == "1"
        c.query("commit")
        for value in "23":
            yield
            with client(pooler) as other:
                assert other.query("fetch held")[0].tag == "E"
            assert c.value("fetch held") == value


def keys_of_scram(pooler):
    """The pooler knows no password of alice's. What her login has left opens her next servers."""
    with client(pooler) as c:
        c.value("select 1")
        for _ in range(2):
            yield
            left = "from pg_stat_activity where usename = 'alice'"
            pooler.cluster.psql(f"select pg_terminate_backend(pid) {left}")
            eventually(lambda: pooler.cluster.psql(f"select count(*) {left}") == "0", what="the end of her servers")
            assert c.value("select 2") == "2"
            login(pooler, user="alice", password="alice-pw")


SCENES = [
    half_a_startup_packet,
    before_the_startup_packet,
    between_messages_of_scram,
    an_auth_query_under_way,
    a_logical_stream,
    rows_of_copy_out,
    a_suspended_portal,
    a_suspended_portal_without_its_sync,
    a_cursor_with_hold,
    keys_of_scram,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_moment(pooler, scene):
    taken = 0
    for _ in scene(pooler):
        old = pooler.take_over()
        taken += 1
        assert old.wait(10) == 0
    assert taken and pooler.log().count("process up: ") == taken + 1


# -- a new process that cannot use its files


def with_a_line_that_is_none(pooler):
    with open(pooler.ini_path, "a", encoding="utf-8") as file:
        file.write("no_such_setting = 1\n")
    return "no_such_setting"


def without_its_rules(pooler):
    pooler.settings.update(auth_type="hba", auth_hba_file=pooler.dir + "/missing")
    pooler.write_ini()
    return "missing"


def with_a_bad_rule(pooler):
    pooler.write_file(pooler.dir + "/hba", "host all all nonsense\n")
    pooler.settings.update(auth_type="hba", auth_hba_file=pooler.dir + "/hba")
    pooler.write_ini()
    return "hba"


@pytest.mark.parametrize("harm", [with_a_line_that_is_none, without_its_rules, with_a_bad_rule], ids=lambda harm: harm.__name__)
def test_the_old_process_goes_on(pooler, harm):
    with client(pooler) as c:
        c.query("begin")
        pid = c.value("select pg_backend_pid()")
        said = harm(pooler)
        command = pgthrow.as_server_user([*program(), "-R", pooler.ini_path])
        second = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert second.returncode == 1 and said in second.stderr
        assert c.value("select pg_backend_pid()") == pid
        login(pooler, user="alice", password="alice-pw")
    with open(pooler.pid_path, encoding="utf-8") as file:
        assert int(file.read()) == pooler.process.pid
