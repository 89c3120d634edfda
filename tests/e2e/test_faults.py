"""Faults, each with its outcome: PostgreSQL goes away in every way; clients vanish in the middle of everything.

The outcomes: a client that is idle notices nothing; one in a transaction gets the error that PostgreSQL gives; a client
that vanishes leaves no server dirty, no backend busy, and no other client worse off.
"""

import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from pgthrow import PgThrowError, client_program

from conftest import backends
from harness import wire
from harness.logins import is_served
from harness.neighbours import busy_neighbours
from harness.pooler import kind
from harness.scenes import backend_pid
from harness.waiting import Stopwatch, eventually
from harness.wire import bind, error_codes, execute, flush, parse, query, rows_of, sync

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

# What PostgreSQL says to a client whose server goes: admin_shutdown, crash_shutdown, cannot_connect_now; and what a
# pooler says when the server could not say anything any more: connection_failure and its class.
SERVER_GONE = {"57P01", "57P02", "57P03", "08006", "08003", "08001", "08000", "08P01"}


def statement(c, sql, timeout=15):
    """Runs it; the error codes, or "closed" where the connection ended without a word."""
    try:
        c.send(query(sql))
        messages = []
        while True:
            m = c.read(timeout)
            messages.append(m)
            if m.tag == "Z":
                return error_codes(messages)
    except (wire.Closed, ConnectionError):
        return error_codes(messages) or ["closed"]


# ---- PostgreSQL restarts, dies, refuses


@pytest.mark.parametrize("mode", ("fast", "immediate"))
def test_restart_is_not_noticed_by_idle_clients(own_cluster, make_pooler, mode):
    """PostgreSQL restarted: clients that were idle are served afterwards as if nothing had been."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "default_pool_size": 3, "query_wait_timeout": 20})
    clients = [pooler.connect() for _ in range(6)]
    for c in clients:
        c.send(parse("s", "select $1::int"), sync())
        c.read_ready()
    cluster.restart(mode)
    for number, c in enumerate(clients):
        c.send(bind("", "s", [str(number)]), execute(), sync())
        assert rows_of(c.read_ready()) == [(str(number),)]
        c.close()


@pytest.mark.parametrize("mode", ("fast", "immediate"))
def test_restart_in_a_transaction(own_cluster, make_pooler, mode):
    """PostgreSQL restarted: a client in a transaction gets PostgreSQL's own error, and can reconnect at once."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1})
    with pooler.connect() as c:
        c.query("begin")
        c.value("select 1")
        cluster.restart(mode)
        messages = []
        try:
            c.send(query("select 2"))
            messages = c.read_to_end(5)
        except ConnectionError:
            messages = c.read_to_end(5)
        # An immediate shutdown says 57P01 as a warning, where it still can, and closes; the error is the pooler's.
        expected = {"57P01"} if kind() == "pgweir" and mode == "fast" else SERVER_GONE
        codes = error_codes(messages)
        assert codes and codes[0] in expected, messages
        assert not [m for m in messages if m.tag == "D"]
    with pooler.connect() as c:
        assert c.value("select 1", timeout=10) == "1"


def test_restart_during_a_query(own_cluster, make_pooler):
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1})
    with pooler.connect() as c:
        c.send(query("select pg_sleep(30)"))
        # A query that still waits for a server would go to the next one.
        running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(30)' and state = 'active'"
        eventually(lambda: cluster.psql(running) == "1", what="the query at work")
        cluster.stop("fast")
        messages = c.read_to_end(5)
        assert error_codes(messages)[:1] == ["57P01"]
        cluster.start()
    with pooler.connect() as c:
        assert c.value("select 1", timeout=10) == "1"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ("fast", "immediate"))
def test_restart_under_load(own_cluster, make_pooler, mode):
    """PostgreSQL restarted under pgbench: its clients that were in a transaction end with PostgreSQL's error; an idle
    client notices nothing; a new pgbench runs at once."""
    cluster = own_cluster()
    cluster.psql("create database bench")
    pooler = make_pooler(cluster, settings={"default_pool_size": 5, "server_login_retry": 1, "query_wait_timeout": 20})
    pgbench = [client_program("pgbench"), "-h", pooler.host, "-p", str(pooler.port), "-U", "postgres"]
    subprocess.run([*pgbench, "-i", "-q", "bench"], check=True, capture_output=True)
    with pooler.connect(database="bench") as idle:
        assert idle.value("select count(*) from pgbench_branches") == "1"
        load = subprocess.Popen(
            [*pgbench, "-n", "-c", "10", "-j", "10", "-T", "30", "-M", "prepared", "bench"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(1.5)
        cluster.restart(mode)
        _, errors = load.communicate(timeout=60)
        # A thread for each client (-j): prepared statements are made synchronously, and one that waits for a server would
        # keep its neighbours of the same thread from ending their transactions.
        # With fewer servers than clients some may have waited outside any transaction; pgbench goes on with those.
        assert re.search("terminating connection|server closed the connection|connection to server was lost", errors), (
            errors[-2000:]
        )
        assert idle.value("select count(*) from pgbench_branches", timeout=10) == "1"
        result = subprocess.run(
            [*pgbench, "-n", "-c", "10", "-j", "10", "-t", "20", "-M", "prepared", "bench"],
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr


def test_backend_killed(own_cluster, make_pooler):
    """A backend killed -9: PostgreSQL resets itself; its client gets an error, idle clients notice nothing."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "default_pool_size": 2, "query_wait_timeout": 20})
    with pooler.connect() as victim, pooler.connect() as idle:
        assert idle.value("select 1") == "1"
        victim.query("begin")
        pid = int(backend_pid(victim))
        os.kill(pid, signal.SIGKILL)
        assert statement(victim, "select 1")[0] in SERVER_GONE | {"closed"}

        # All backends go, and PostgreSQL recovers; who asks meanwhile may be told so. Afterwards nobody is.
        def recovered():
            try:
                return cluster.psql("select 1") == "1"
            except PgThrowError:
                return False

        eventually(recovered, timeout=15, interval=0.2)
        assert statement(idle, "select 1") == []


def test_postmaster_killed(own_cluster, make_pooler):
    """PostgreSQL killed -9 and started again."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "query_wait_timeout": 30})
    with pooler.connect() as idle, pooler.connect() as busy:
        assert idle.value("select 1") == "1"
        busy.query("begin")
        busy.value("select 1")
        os.kill(cluster.pid, signal.SIGKILL)
        # Its backends see that it is gone, and go.
        eventually(lambda: not processes_in(cluster.data_dir), timeout=10)
        assert statement(busy, "select 1")[0] in SERVER_GONE | {"closed"}
        cluster.stop()
        cluster.start()
        assert idle.value("select 1", timeout=20) == "1"


def processes_in(folder):
    """Whether any process still works in this data directory."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == folder:
                return True
        except OSError:
            pass
    return False


def test_server_down_at_start(own_cluster, make_pooler):
    """PostgreSQL refuses connections when pgweir starts: pgweir runs, clients are told in time, and served later."""
    cluster = own_cluster()
    cluster.stop()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "query_wait_timeout": 2})
    assert pooler.console("show version")
    c = pooler.connect(login=False)
    watch = Stopwatch()
    c.send(wire.startup(c.startup_parameters()), query("select 1"))
    messages = c.read_to_end(10)
    assert wire.first_error(messages).fields["S"] == "FATAL"
    assert watch.seconds < 8
    cluster.start()
    eventually(lambda: is_served(pooler), timeout=10, interval=0.2)


def test_original_error_is_forwarded(own_cluster, make_pooler):
    """The server's reason for refusing reaches the client: here, no pg_hba.conf entry."""
    cluster = own_cluster(hba="local all all trust\nhost all bob 127.0.0.1/32 trust\n")
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "query_wait_timeout": 3})
    with pytest.raises((wire.ServerError, wire.Closed)) as error:
        with pooler.connect(user="alice") as c:
            raise wire.ServerError(wire.first_error(c.query("select 1")))
    assert "no pg_hba.conf entry" in str(error.value)
    with pooler.connect(user="bob") as c:
        assert c.value("select 1") == "1"


def test_server_out_of_connections(own_cluster, make_pooler):
    """PostgreSQL runs out of connections: clients that cannot have a server wait for those that there are."""
    cluster = own_cluster(settings={"max_connections": "8", "superuser_reserved_connections": "2"})
    pooler = make_pooler(cluster, settings={"default_pool_size": 20, "server_login_retry": 1, "query_wait_timeout": 20})
    failures = []
    served = []

    def live(number):
        try:
            with pooler.connect(user="alice", timeout=30) as c:
                for _ in range(5):
                    c.query("begin")
                    assert c.value(f"select {number} from pg_sleep(0.02)") == str(number)
                    c.query("commit")
                served.append(number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    # The first servers exist before the crowd comes.
    with pooler.connect(user="alice") as c:
        assert c.value("select 1") == "1"
        threads = [threading.Thread(target=live, args=(n,)) for n in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert c.value("select 1", timeout=10) == "1"
    assert not failures, failures[0]
    assert len(served) == 20


def test_refused_servers_do_not_kill_waiting_clients(own_cluster, make_pooler):
    """A temporary FATAL at one connect does not end those who wait while other servers work."""
    cluster = own_cluster(settings={"max_connections": "6", "superuser_reserved_connections": "3"})
    pooler = make_pooler(cluster, settings={"default_pool_size": 10, "server_login_retry": 1, "query_wait_timeout": 15})
    holders = []
    for _ in range(3):
        c = pooler.connect(user="alice")
        c.query("begin")
        c.value("select 1")
        holders.append(c)
    waiting = pooler.connect(user="alice")
    waiting.send(query("select 'served'"))
    time.sleep(2)
    holders.pop().close()
    assert rows_of(waiting.read_ready(timeout=10)) == [("served",)]
    for c in (*holders, waiting):
        c.close()


# ---- clients that vanish

WAYS = ("drop", "reset", "close")


def no_query_runs(cluster, marker):
    return backends(cluster, f"state <> 'idle' and query like '%{marker}%'") == 0


def clean(pooler, expected_pool=None):
    """The next client finds a server in order."""
    with pooler.connect(timeout=10) as c:
        assert c.query("select 1")[-1].body == b"I"
        assert wire.tags(c.query("select 'clean'")) == "TDCZ"
        assert wire.tags(c.extended("select 'clean'")) == "12TDCZ"
        assert wire.tags(c.query("rollback")) == "NCZ"


@pytest.fixture
def one_server(pg15, make_pooler):
    """A pool of one server: what a client leaves behind, the next one meets."""
    return make_pooler(pg15, settings={"default_pool_size": 1})


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("way", WAYS)
def test_client_vanishes_in_a_query(pg15, one_server, way):
    """Mid-query: the query is cancelled, the server drained or dropped."""
    c = one_server.connect()
    c.send(query("select pg_sleep(30) /* vanished in a query */"))
    time.sleep(0.2)
    getattr(c, way)()
    clean(one_server)
    eventually(lambda: no_query_runs(pg15, "vanished in a query"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("extended", (False, True))
def test_client_vanishes_in_copy_in(pg15, one_server, way, extended):
    """Mid-COPY in: nothing of it is kept, and no byte of it reaches anybody else."""
    pg15.psql("drop table if exists vanished; create table vanished (a text)")
    for data in (b"", b"whole line\n", b"half a li", b"x" * 300000):
        c = one_server.connect()
        if extended:
            c.send(parse("", "copy vanished from stdin"), bind(), execute(), flush())
        else:
            c.send(query("copy vanished from stdin"))
        c.read_until("G")
        if data:
            c.send(wire.copy_data(data))
        getattr(c, way)()
        clean(one_server)
        # And with a CopyData cut in its middle.
        c = one_server.connect()
        c.send(query("copy vanished from stdin"))
        c.read_until("G")
        c.send(wire.copy_data(b"y" * 1000)[:-500])
        getattr(c, way)()
        clean(one_server)
    eventually(lambda: no_query_runs(pg15, "copy vanished"))
    assert pg15.psql("select count(*) from vanished") == "0"
    pg15.psql("drop table vanished")


@pytest.mark.parametrize("way", WAYS)
def test_client_vanishes_in_copy_out(pg15, one_server, way):
    """Mid-COPY out, with more to come than any buffer holds."""
    for _ in range(2):
        c = one_server.connect()
        c.send(
            query(
                "copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout /* vanished in copy out */"
            )
        )
        c.read_until("d")
        getattr(c, way)()
        clean(one_server)
    eventually(lambda: no_query_runs(pg15, "vanished in copy out"))


@pytest.mark.parametrize("way", WAYS)
def test_client_vanishes_in_a_pipeline(pg15, one_server, way):
    """Mid-pipeline: requests not yet answered, a segment without its Sync, a transaction left open."""
    pieces = (
        (parse("", "select pg_sleep(0.05)") + bind() + execute() + sync()) * 20,
        parse("s", "select 1") + bind("", "s") + execute(),
        parse("s", "select 1") + bind("", "s") + execute() + flush(),
        query("begin") + query("select 1") + parse("", "select 2"),
        query("select 1") * 50,
        query("begin") + query("select 1 / 0") + query("select 1"),
        (parse("", "select 1 / 0") + bind() + execute()) * 5,
    )
    for piece in pieces:
        c = one_server.connect()
        c.send(piece)
        getattr(c, way)()
        clean(one_server)
        c = one_server.connect()
        c.send(piece)
        time.sleep(0.05)
        getattr(c, way)()
        clean(one_server)


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("unread", ["nothing", "a request"])
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_waits_for_replies_and_leaves_is_noticed(one_server, way, unread):
    """It is not read while it waits: its Terminate, or a request, stands unread before the end of its bytes."""
    c = one_server.connect()
    c.send(parse("", "select pg_sleep(30)") + bind() + execute() + sync() + bind() + execute() + sync())
    time.sleep(0.3)
    if unread == "a request":
        c.send(query("select 'unread'"))
        time.sleep(0.1)
    getattr(c, way)()
    watch = Stopwatch()
    clean(one_server)
    assert watch.seconds < 10


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("socket", ["TCP", "Unix-domain"])
@pytest.mark.parametrize("seconds", [0.4, 30])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_behind_a_statement_of_a_client_that_vanishes_runs_behind_it_or_not_at_all(
    pg, make_pooler, way, seconds, socket
):
    """The pooler must not cancel a SET, and let the INSERT behind it run without it."""
    host = pg.host if socket == "TCP" else pg.socket_dir
    pooler = make_pooler(
        pg, databases={"*": f"host={host} port={pg.port}"}, settings={"default_pool_size": 1, "max_client_conn": 50}
    )
    pg.psql("drop table if exists vanished; create table vanished (v text)")
    c = pooler.connect()
    c.send(
        query(f"select set_config('app.tenant', '7', false), pg_sleep({seconds}) /* vanished in front */")
        + query("insert into vanished select 'tenant ' || coalesce(current_setting('app.tenant', true), '')")
    )
    eventually(lambda: not no_query_runs(pg, "vanished in front"))
    getattr(c, way)()
    clean(pooler)
    eventually(lambda: no_query_runs(pg, "vanished"))
    time.sleep(0.2)
    found = pg.psql("select string_agg(v, ',') from vanished")
    assert found == ("tenant 7" if seconds < 1 else ""), found
    pg.psql("drop table vanished")


@pytest.mark.parametrize("way", ("drop", "reset"))
def test_client_vanishes_in_a_message(pg15, one_server, way):
    """A message cut anywhere: the server must not be left in the middle of it."""
    for whole in (
        query("select 'cut' || repeat('x', 10)"),
        query("select 1 /*" + "y" * 200000 + "*/"),
        parse("", "select 1") + bind("", "", ["z" * 100000]) + execute() + sync(),
    ):
        for at in (1, 4, 5, 6, len(whole) // 2, len(whole) - 1):
            c = one_server.connect()
            c.send(whole[:at])
            getattr(c, way)()
            clean(one_server)
    # The same behind a statement that has taken a server.
    for at in (1, 4, 5, 6, 20):
        c = one_server.connect()
        c.query("begin")
        c.query("select 1")
        c.send(query("select 'cut' || repeat('x', 10)")[:at])
        getattr(c, way)()
        clean(one_server)


@pytest.mark.parametrize("way", WAYS)
def test_client_vanishes_in_a_large_row(pg15, one_server, way):
    """Mid-large-row: a row of 50 MB of which the client took a part."""
    c = one_server.connect()
    c.send(query("select repeat('x', 50000000)"))
    c.socket.recv(100000)
    getattr(c, way)()
    clean(one_server)


@pytest.mark.parametrize("way", WAYS)
def test_client_vanishes_in_a_transaction(pg15, one_server, way):
    """Idle in a transaction: rolled back, nothing kept, nobody inherits it."""
    pg15.psql("drop table if exists vanished; create table vanished (a int)")
    for before in (("begin", "insert into vanished values (1)"), ("begin", "select 1 / 0")):
        c = one_server.connect()
        for sql in before:
            c.query(sql)
        getattr(c, way)()
        clean(one_server)
    assert pg15.psql("select count(*) from vanished") == "0"
    pg15.psql("drop table vanished")


@pytest.mark.parametrize("way", (*WAYS, "half a Sync", "kill_client"))
def test_client_vanishes_before_its_sync(pg15, one_server, way):
    """What it has begun without BEGIN is rolled back, too: the pooler's own Sync must not commit it."""
    pg15.psql("drop table if exists unsynced; create table unsynced (a int)")
    c = one_server.connect()
    c.send(parse("", "insert into unsynced values (1)"), bind(""), execute(), flush())
    c.read_until("C")
    if way == "half a Sync":
        c.send(sync()[:3])
        c.drop()
    elif way == "kill_client":
        clients = one_server.console("show clients")
        (row,) = [row for row in clients if row["database"] != "pgbouncer"]
        one_server.console(f"kill_client {row['id']}")
    else:
        getattr(c, way)()
    clean(one_server)
    assert pg15.psql("select count(*) from unsynced") == "0"
    pg15.psql("drop table unsynced")


@pytest.mark.parametrize("way", ("drop", "reset"))
def test_client_vanishes_in_its_login(pg15, make_pooler, way):
    """Mid-login: at every step."""
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256", "max_client_conn": 10})
    for _ in range(15):
        c = pooler.connect(login=False, user="alice")
        getattr(c, way)()
        c = pooler.connect(login=False, user="alice")
        c.send(wire.startup(c.startup_parameters())[:7])
        getattr(c, way)()
        c = pooler.connect(login=False, user="alice")
        c.send(wire.startup(c.startup_parameters()))
        c.read()
        getattr(c, way)()

    def let_in():
        try:
            with pooler.connect(user="alice", password="alice-pw") as c:
                return c.value("select 1") == "1"
        except (wire.ServerError, wire.Closed, ConnectionError):
            return False

    eventually(let_in)


@pytest.mark.parametrize("number", (signal.SIGKILL, signal.SIGINT), ids=("SIGKILL", "SIGINT"))
@pytest.mark.parametrize("protocol", ("simple", "prepared"))
def test_load_generator_is_killed(own_cluster, make_pooler, number, protocol):
    """Ctrl-C or kill -9 in the load generator never hurts the server or another client."""
    cluster = own_cluster()
    cluster.psql("create database bench")
    pooler = make_pooler(cluster, settings={"default_pool_size": 4})
    pgbench = [client_program("pgbench"), "-h", pooler.host, "-p", str(pooler.port), "-U", "postgres"]
    subprocess.run([*pgbench, "-i", "-q", "bench"], check=True, capture_output=True)
    postmaster = cluster.pid
    with busy_neighbours(pooler, database="bench"), pooler.connect(database="bench") as bystander:
        for _ in range(3):
            load = subprocess.Popen(
                [*pgbench, "-n", "-c", "10", "-j", "10", "-T", "30", "-M", protocol, "bench"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Whoever runs the tests in the background of a shell has SIGINT ignored, and so would pgbench.
                preexec_fn=lambda: signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None,
            )
            time.sleep(0.7)
            load.send_signal(number)
            load.wait(10)
            assert bystander.value("select 1", timeout=5) == "1"
            eventually(lambda: backends(cluster, "state like 'idle in transaction%' and query like '%pgbench%'") == 0)
    assert cluster.pid == postmaster and "was terminated by signal" not in cluster.log()
    sums = cluster.psql(
        "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), "
        "(select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)",
        dbname="bench",
    )
    assert sums == "t|t"
    row = pooler.wait_pool(database="bench", cl_active=0, cl_waiting=0, sv_active=0)
    assert int(row["sv_idle"]) <= 4


def test_storm_of_vanishing_clients(pg15, make_pooler):
    """Clients that come and vanish at any moment, for seconds, beside neighbours that check their answers."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 3, "max_client_conn": 150})
    stop = threading.Event()
    failures = []

    def vanish(number):
        bodies = (
            query("select pg_sleep(0.02)"),
            query("begin") + query("select 1"),
            query("copy (select repeat('x', 100) from generate_series(1, 10000)) to stdout"),
            parse("s", "select 1") + bind("", "s") + execute(),
            query("select repeat('x', 1000000)"),
            query("select 1")[:7],
        )
        turn = number
        while not stop.is_set():
            try:
                c = pooler.connect()
                c.send(bodies[turn % len(bodies)])
                if turn % 3:
                    time.sleep(0.003 * (turn % 5))
                getattr(c, WAYS[turn % 3])()
            except (wire.ServerError, wire.Closed, OSError) as error:
                failures.append(error)
            turn += 1

    with busy_neighbours(pooler, count=3):
        threads = [threading.Thread(target=vanish, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        time.sleep(4)
        stop.set()
        for t in threads:
            t.join()
    assert not failures, failures[0]
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0)
    clean(pooler)


# ---- open files run out


def test_open_files_run_out(pg15, make_pooler):
    """EMFILE: clients beyond what the process may open are refused or wait; those inside are served; it recovers."""
    pooler = make_pooler(pg15, settings={"max_client_conn": 500, "default_pool_size": 3}, open_files_max=60)
    with pooler.connect() as inside:
        assert inside.value("select 1") == "1"
        crowd = []
        for _ in range(100):
            try:
                s = socket.create_connection((pooler.host, pooler.port), timeout=1)
                s.sendall(wire.startup({"user": "postgres", "database": "postgres"}))
                crowd.append(s)
            except OSError:
                pass
        for i in range(20):
            assert inside.value(f"select {i}", timeout=5) == str(i)
        assert pooler.running
        # It does not spin while it cannot accept.
        before = cpu_seconds(pooler)
        time.sleep(1)
        assert cpu_seconds(pooler) - before < 0.5
        for s in crowd:
            s.close()

        def let_in():
            try:
                with pooler.connect(timeout=2) as c:
                    return c.value("select 1") == "1"
            except (wire.ServerError, wire.Closed, wire.NoReply, OSError):
                return False

        eventually(let_in, timeout=10)
        assert inside.value("select 'still'") == "still"


def cpu_seconds(pooler):
    with open(f"/proc/{pooler.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_idle_process_does_nothing(pg15, make_pooler):
    """Idle clients and servers cost no processor time."""
    pooler = make_pooler(pg15)
    clients = [pooler.connect() for _ in range(50)]
    for c in clients:
        c.value("select 1")
    before = cpu_seconds(pooler)
    time.sleep(2)
    assert cpu_seconds(pooler) - before < 0.1
    for c in clients:
        c.close()
