"""Replication connections, physical and logical, with PostgreSQL's own programs and by messages."""

import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import pgthrow
import pytest

from harness import ports, wire
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import query, rows_of

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer does some of it otherwise")

HBA = "local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n"

# What an installation may have set, and a walsender could not answer.
HARMFUL = {
    "server_check_query": "select 1",
    "server_check_delay": 0,
    "server_reset_query": "DISCARD ALL",
    "server_reset_query_always": 1,
    "query_timeout": 1,
    "transaction_timeout": 1,
    "idle_transaction_timeout": 1,
    "ignore_startup_parameters": None,
}


@pytest.fixture(scope="module", params=(15, 18), ids=("pg15", "pg18"))
def publisher(request):
    """A cluster that allows replication, and logs what it is asked."""
    cluster = pgthrow.Cluster(
        version=request.param,
        port=ports.take(),
        hba=HBA,
        settings={
            "wal_level": "logical",
            "log_replication_commands": "on",
            "log_statement": "all",
            "log_line_prefix": "%b %a ",
            "max_wal_senders": "12",
        },
    )
    cluster.start()
    cluster.psql(
        "create role alice login replication superuser password 'alice-pw'; create role bob login password 'bob-pw';"
        "create table t (id int primary key, v text); insert into t values (1, 'one'), (2, 'two');"
        "create publication p for table t"
    )
    yield cluster
    cluster.remove()


@pytest.fixture
def folder():
    path = tempfile.mkdtemp(prefix="replication-")
    pgthrow.give_to_server_user(path)
    yield path
    shutil.rmtree(path)


def through(make_pooler, cluster, **settings):
    entry = f"host={cluster.host} port={cluster.port} connect_query='select 1'"
    databases = {name: f"{entry} dbname={name}" for name in ("postgres", "replication")}
    return make_pooler(
        cluster, databases=databases, settings={**HARMFUL, "auth_type": "scram-sha-256", **settings}
    )


def run(cluster, name, *arguments, timeout=60):
    """One of PostgreSQL's programs, as the server's user; it must succeed."""
    command = [os.path.join(cluster.bin_dir, name), *arguments]
    environment = {**os.environ, "PGPASSWORD": "alice-pw"}
    result = subprocess.run(
        pgthrow.as_server_user(command), capture_output=True, text=True, timeout=timeout, env=environment, cwd="/tmp"
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def needs(cluster, name):
    if not os.path.exists(os.path.join(cluster.bin_dir, name)):
        pytest.skip(f"no {name} of this version")


def walker(pooler, mode="database", user="alice", **more):
    return pooler.connect(user=user, password=f"{user}-pw", options={"replication": mode, **more})


def walsenders(cluster) -> int:
    return int(cluster.psql("select count(*) from pg_stat_activity where backend_type = 'walsender'"))


# ---- PostgreSQL's own programs


def test_pg_basebackup(publisher, make_pooler, folder):
    needs(publisher, "pg_basebackup")
    pooler = through(make_pooler, publisher)
    to = os.path.join(folder, "backup")
    address = ["-h", pooler.host, "-p", str(pooler.port), "-U", "alice"]
    run(publisher, "pg_basebackup", *address, "-D", to, "-X", "stream", "-c", "fast", "--no-sync")
    assert os.path.exists(os.path.join(to, "PG_VERSION"))
    run(publisher, "pg_verifybackup", to)
    eventually(lambda: walsenders(publisher) == 0)


def test_pg_receivewal(publisher, make_pooler, folder):
    needs(publisher, "pg_receivewal")
    pooler = through(make_pooler, publisher)
    address = ["-h", pooler.host, "-p", str(pooler.port), "-U", "alice"]
    run(publisher, "pg_receivewal", *address, "--create-slot", "-S", "received")
    end = publisher.psql("insert into t values (10, 'x'); select pg_switch_wal(); select pg_current_wal_lsn()").split()[-1]
    run(publisher, "pg_receivewal", *address, "-S", "received", "-D", folder, "--endpos", end, "--no-loop", "--no-sync")
    assert [name for name in os.listdir(folder) if re.match(r"[0-9A-F]{24}", name)]
    run(publisher, "pg_receivewal", *address, "--drop-slot", "-S", "received")
    publisher.psql("delete from t where id = 10")


def test_pg_recvlogical(publisher, make_pooler):
    needs(publisher, "pg_recvlogical")
    pooler = through(make_pooler, publisher)
    address = ["-h", pooler.host, "-p", str(pooler.port), "-U", "alice", "-d", "postgres", "-S", "logical"]
    run(publisher, "pg_recvlogical", *address, "--create-slot", "-P", "test_decoding")
    command = [os.path.join(publisher.bin_dir, "pg_recvlogical"), *address, "--start", "-f", "-", "--no-loop"]
    stream = subprocess.Popen(
        pgthrow.as_server_user(command, die_with_parent="KILL"),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGPASSWORD": "alice-pw"},
        cwd="/tmp",
    )
    try:
        eventually(lambda: walsenders(publisher) == 1)
        publisher.psql("insert into t values (20, 'decoded'); delete from t where id = 20")
        lines = []
        while not lines or "'decoded'" not in lines[-1]:
            lines.append(stream.stdout.readline())
            assert lines[-1], lines
        # Ctrl-C ends the stream in order: CopyDone on both sides.
        stream.send_signal(signal.SIGINT)
        assert stream.wait(20) == 0
    finally:
        stream.kill()
        stream.wait()
    eventually(lambda: walsenders(publisher) == 0)
    run(publisher, "pg_recvlogical", *address, "--drop-slot")


def test_subscription(publisher, make_pooler, own_cluster):
    """CREATE SUBSCRIPTION through the pooler: the first copy, changes, and its end."""
    pooler = through(make_pooler, publisher)
    subscriber = own_cluster(settings={"wal_level": "logical"})
    subscriber.psql("create table t (id int primary key, v text)")
    conninfo = f"host={pooler.host} port={pooler.port} dbname=postgres user=alice password=alice-pw"
    subscriber.psql(f"create subscription s connection '{conninfo}' publication p")
    rows = lambda: subscriber.psql("select string_agg(v, ',' order by id) from t")  # noqa: E731
    eventually(lambda: rows() == "one,two", timeout=30, what=lambda: pooler.log()[-3000:] + subscriber.log()[-2000:])
    publisher.psql("insert into t values (3, 'three')")
    eventually(lambda: rows() == "one,two,three", timeout=20)
    clients = pooler.console("show clients", user="postgres", password="postgres-pw")
    assert ("logical", "s") in [(c["replication"], c["application_name"]) for c in clients]
    subscriber.psql("drop subscription s")
    publisher.psql("delete from t where id = 3")
    eventually(lambda: walsenders(publisher) == 0)


# ---- by messages


def test_replication_database_runs_ordinary_queries(publisher, make_pooler):
    pooler = through(make_pooler, publisher)
    options = {"DateStyle": "SQL, DMY", "application_name": "walker", "options": "-c search_path=elsewhere"}
    for name in ("walker", "another"):
        with walker(pooler, **{**options, "application_name": name}) as c:
            assert c.parameters["DateStyle"] == "SQL, DMY"
            assert c.parameters["application_name"] == name
            ((_system, _timeline, _position, database),) = rows_of(c.query("IDENTIFY_SYSTEM"))
            assert database == "postgres"
            assert c.value("show search_path") == "elsewhere"
            assert c.value("show datestyle") == "SQL, DMY"
            c.query("begin")
            assert c.value("select v from public.t where id = 1") == "one"
            c.query("commit")
            assert wire.error_codes(c.query("select no_such_column")) == ["42703"]
            assert c.value("select application_name from pg_stat_activity where pid = pg_backend_pid()") == name
    eventually(lambda: walsenders(publisher) == 0)


def test_nothing_of_the_poolers_own_reaches_a_walsender(publisher, make_pooler):
    """No check query, no reset, no restoration, no connect_query, no probe, no reading of the catalog."""
    pooler = through(make_pooler, publisher)
    for mode in ("database", "true"):
        offset = len(publisher.log())
        with walker(pooler, mode, application_name=f"quiet-{mode}") as c:
            assert rows_of(c.query("IDENTIFY_SYSTEM"))
            assert rows_of(c.query("SHOW wal_level")) == [("logical",)]
        eventually(lambda: walsenders(publisher) == 0)
        lines = [line for line in publisher.log()[offset:].splitlines() if line.startswith("walsender ")]
        asked = [line for line in lines if re.search("statement:|received replication command|execute|parse", line)]
        assert asked and all("IDENTIFY_SYSTEM" in line or "SHOW wal_level" in line for line in asked), asked


def test_the_extended_protocol_is_the_servers_to_refuse(publisher, make_pooler):
    pooler = through(make_pooler, publisher)
    with walker(pooler) as c:
        messages = c.extended("select 1")
        assert wire.error_codes(messages) == ["08P01"], wire.tags(messages)
        assert c.value("select 1") == "1"


def test_unprivileged_users_are_told_by_the_server(publisher, make_pooler):
    pooler = through(make_pooler, publisher)
    for _ in range(2):
        with pytest.raises(wire.ServerError) as error:
            walker(pooler, user="bob")
        assert error.value.code == "42501" and re.search("(?i)wal ?sender", str(error.value)), error.value.fields
    pooler.wait_log("WARNING server login failed: FATAL ")
    with pooler.connect(user="bob", password="bob-pw") as c:
        assert c.value("select 1") == "1"


def test_pool_limits_count_replication(publisher, make_pooler):
    pooler = through(
        make_pooler,
        publisher,
        default_pool_size=2,
        transaction_timeout=0,
        idle_transaction_timeout=0,
        server_check_delay=30,
    )
    login = {"user": "alice", "password": "alice-pw"}
    with walker(pooler), pooler.connect(**login) as c, pooler.connect(**login) as other:
        c.query("begin")
        c.value("select 1")
        other.send(query("select 'served'"))
        assert other.quiet(0.5), "the stream and the transaction fill the pool"
        c.query("commit")
        assert rows_of(other.read_ready(timeout=5)) == [("served",)]
        # An idle server gives way to a second stream.
        with walker(pooler) as second:
            assert second.value("select 1") == "1"
            other.send(query("select 'later'"))
            assert other.quiet(0.5)
        assert rows_of(other.read_ready(timeout=10)) == [("later",)]


def test_database_limits_count_replication(publisher, make_pooler):
    limits = {"max_db_connections": 1, "query_wait_timeout": 1, "query_timeout": 0, "client_login_timeout": 5}
    pooler = through(make_pooler, publisher, **limits)
    with walker(pooler) as c:
        assert c.value("select 1") == "1"
        with pytest.raises(wire.ServerError) as error:
            walker(pooler, application_name="second")
        assert "query_wait_timeout" in str(error.value)
    assert eventually(lambda: walsenders(publisher) == 0) is not None


def test_limits_of_users_count_replication(publisher, make_pooler):
    """In both ways: a stream is counted, and is held back by what is counted."""
    limits = {"max_user_connections": 1, "query_wait_timeout": 1, "query_timeout": 0, "client_login_timeout": 5}
    no_limits = {"transaction_timeout": 0, "idle_transaction_timeout": 0, "server_check_delay": 30}
    pooler = through(make_pooler, publisher, **limits, **no_limits)
    alice = {"user": "alice", "password": "alice-pw"}
    with walker(pooler) as stream:
        assert stream.value("select 1") == "1"
        with pytest.raises(wire.ServerError, match="query_wait_timeout"):
            pooler.connect(**alice)
        # Another user has another count.
        with pooler.connect(user="bob", password="bob-pw") as c:
            assert c.value("select 2") == "2"
    eventually(lambda: walsenders(publisher) == 0)
    with pooler.connect(**alice) as c:
        c.query("begin")
        c.value("select 3")
        with pytest.raises(wire.ServerError, match="query_wait_timeout"):
            walker(pooler, application_name="second")
        c.query("commit")
        # An idle server gives way.
        with walker(pooler, application_name="third") as stream:
            assert stream.value("select 4") == "4"


def test_a_stream_ends_with_its_client(publisher, make_pooler):
    """A client that vanishes while its server streams; and time limits are no concern of a stream."""
    pooler = through(make_pooler, publisher)
    with walker(pooler) as c:
        c.query("CREATE_REPLICATION_SLOT vanishes TEMPORARY LOGICAL pgoutput")
        c.send(query("START_REPLICATION SLOT vanishes LOGICAL 0/0 (proto_version '1', publication_names 'p')"))
        c.read_until("W")
        publisher.psql("insert into t values (30, 'streamed')")
        seen = b""
        while b"streamed" not in seen:
            m = c.read(timeout=10)
            assert m.tag == "d"
            seen += m.body
        # Longer than every time limit of the pooler.
        assert keepalive_after(c, 2.5)
        c.drop()
    publisher.psql("delete from t where id = 30")
    eventually(lambda: walsenders(publisher) == 0)
    with walker(pooler) as c:
        assert c.value("select 1") == "1"


def keepalive_after(c, seconds) -> bool:
    """Asks the walsender for a reply after this time."""
    time.sleep(seconds)
    status = b"r" + struct.pack("!QQQQB", 0, 0, 0, 0, 1)
    c.send(wire.copy_data(status))
    while True:
        m = c.read(timeout=10)
        assert m.tag == "d", m
        if m.body[:1] == b"k":
            return True


def test_a_stream_ends_in_order(publisher, make_pooler):
    """CopyDone from the client: the server ends the stream, and the connection takes commands again."""
    pooler = through(make_pooler, publisher)
    with walker(pooler, "true") as c:
        ((_system, _timeline, position, _database),) = rows_of(c.query("IDENTIFY_SYSTEM"))
        c.send(query(f"START_REPLICATION PHYSICAL {position}"))
        c.read_until("W")
        c.send(wire.copy_done())
        c.read_ready(timeout=10)
        assert rows_of(c.query("SHOW wal_level")) == [("logical",)]
    eventually(lambda: walsenders(publisher) == 0)


def test_pools_for_replication_are_forgotten(publisher, make_pooler):
    """Clients choose what such a pool is looked up by: pools must not outlive them."""
    pooler = through(make_pooler, publisher)
    for number in range(40):
        with walker(pooler, application_name=f"walker {number}") as c:
            assert c.value("select 1") == "1"
    admin = {"user": "postgres", "password": "postgres-pw"}

    def pools():
        return int(next(r["items"] for r in pooler.console("show lists", **admin) if r["list"] == "pools"))

    eventually(lambda: pools() <= 4, timeout=5, what=pools)
    assert walsenders(publisher) == 0


def test_replication_by_auth_query(publisher, make_pooler):
    pooler = make_pooler(
        publisher,
        settings={**HARMFUL, "auth_type": "scram-sha-256", "auth_user": "postgres"},
        userlist={"postgres": "postgres-pw"},
    )
    with walker(pooler) as c:
        assert c.value("select current_user") == "alice"


@pytest.mark.parametrize("option", ["-c user=postgres", "--database=template1", "-c replication=true", "-cUSER=postgres"])
def test_options_choose_neither_user_nor_database(publisher, make_pooler, option):
    """In a startup packet the last of two users would count. PostgreSQL gives the same error."""
    pooler = through(make_pooler, publisher)
    for mode in ("database", "true"):
        told = []
        for port in (publisher.port, pooler.port):
            options = {"replication": mode, "options": option}
            with pytest.raises(wire.ServerError) as refused:
                wire.Connection(port, user="alice", password="alice-pw", options=options)
            told.append((refused.value.code, refused.value.fields["M"]))
        assert told[0] == told[1] and told[0][0] == "42704", told
