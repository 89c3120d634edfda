"""Cancel requests: they reach their own query or nothing.

Each test stands for an item of the list of bugs that poolers have had, under "Cancel"; the item is in its docstring.
"""

import os
import signal
import threading
import time

import pytest

from harness import wire
from harness.odd_server import NoCancels
from harness.pooler import kind
from harness.scenes import backend_pid, held_server
from harness.waiting import Stopwatch, eventually
from harness.wire import command_tags, error_codes, query, rows_of

ONE_SERVER = {"default_pool_size": 1}


def running(cluster, marker):
    return int(
        cluster.psql(
            f"select count(*) from pg_stat_activity where state = 'active' and query like '%{marker}%' and pid <> pg_backend_pid()"
        )
    )


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_cancel_of_a_running_query(pg, make_pooler, mode):
    """A cancel request stops its query with 57014, and the connection goes on."""
    pooler = make_pooler(pg, mode=mode)
    with pooler.connect() as c:
        for send in (
            lambda: c.send(query("select pg_sleep(20)")),
            lambda: c.send(wire.one_statement("select pg_sleep(20)"), wire.sync()),
        ):
            watch = Stopwatch()
            send()
            time.sleep(0.3)
            c.cancel()
            messages = c.read_ready()
            assert error_codes(messages) == ["57014"]
            assert wire.first_error(messages).fields["M"] == "canceling statement due to user request"
            assert watch.seconds < 5
            assert c.value("select 1") == "1"


def test_cancel_inside_a_transaction(pg15, make_pooler):
    """The transaction is aborted, as PostgreSQL has it, and the server stays with it."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query("begin")
        c.send(query("select pg_sleep(20)"))
        time.sleep(0.3)
        c.cancel()
        messages = c.read_ready()
        assert error_codes(messages) == ["57014"] and messages[-1].body == b"E"
        assert command_tags(c.query("rollback")) == ["ROLLBACK"]


def test_cancel_during_copy(pg15, make_pooler):
    """A cancel during COPY in and COPY out."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    pg15.psql("drop table if exists cancelled_copy; create table cancelled_copy (a int)")
    with pooler.connect() as c:
        c.send(query("copy cancelled_copy from stdin"))
        assert c.read().tag == "G"
        c.send(wire.copy_data(b"1\n"))
        c.cancel()
        time.sleep(0.3)
        # PostgreSQL notices it when the next data comes.
        c.send(wire.copy_data(b"2\n"), wire.copy_done())
        assert error_codes(c.read_ready()) == ["57014"]
        c.send(query("copy (select pg_sleep(0.01), repeat('x', 1000) from generate_series(1, 100000)) to stdout"))
        assert c.read().tag == "H"
        c.cancel()
        assert error_codes(c.read_ready(timeout=10)) == ["57014"]
        assert c.value("select count(*) from cancelled_copy") == "0"
    pg15.psql("drop table cancelled_copy")


def test_cancel_over_the_other_kind_of_socket(pg15, make_pooler):
    """Cancel over plain TCP for a client on a Unix-domain socket, and the other way round."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pooler = make_pooler(pg15)
    for mine, other in ((pooler.host, pooler.dir), (pooler.dir, pooler.host)):
        with pooler.connect(host=mine) as c:
            c.send(query("select pg_sleep(20)"))
            time.sleep(0.3)
            c.host = other
            c.cancel()
            assert error_codes(c.read_ready(timeout=5)) == ["57014"]


def test_cancel_after_the_query_hits_nobody(pg15, make_pooler):
    """Cancel for client A must never cancel B when A's query has already finished."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for _ in range(5):
            pid = backend_pid(a)
            b.send(query("select pg_sleep(0.4), pg_backend_pid()"))
            time.sleep(0.1)
            a.cancel()
            rows = rows_of(b.read_ready())
            assert kind() == "direct" or rows[0][1] == pid
            assert a.value("select 1") == "1"


def test_cancel_with_a_wrong_key_does_nothing(pg15, make_pooler):
    """A key that no client has, and the right process id with a wrong key."""
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.send(query("select pg_sleep(0.7)"))
        time.sleep(0.2)
        wrong = bytes(b ^ 0xFF for b in c.secret_key)
        for process_id, key in ((c.process_id, wrong), (c.process_id ^ 1, c.secret_key), (0, b"\0\0\0\0")):
            other = wire.open_socket(c.host, c.port)
            other.sendall(wire.cancel_request(process_id, key))
            other.settimeout(5)
            assert other.recv(100) == b""
            other.close()
        assert error_codes(c.read_ready()) == []


def test_keys_are_not_to_be_guessed(pg15, make_pooler):
    """Cancel keys differ from client to client, and are not the server's own."""
    pooler = make_pooler(pg15)
    clients = [pooler.connect() for _ in range(20)]
    keys = {c.secret_key for c in clients}
    assert len(keys) == 20
    for c in clients:
        c.close()


def test_cancel_of_an_idle_client(pg15, make_pooler):
    """A cancel for a client that has no server, nothing having been sent or all being over."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.cancel()
        assert c.value("select 1") == "1"
        c.cancel()
        time.sleep(0.1)
        assert c.value("select 2") == "2"


def test_cancel_of_a_client_idle_in_transaction(pg15, make_pooler):
    """A cancel that finds its server idle in a transaction has no effect on the next statement."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query("begin")
        c.value("select 1")
        c.cancel()
        time.sleep(0.3)
        assert c.value("select 2") == "2"
        c.query("commit")


@pytest.mark.beyond_pgbouncer
def test_cancel_of_a_waiting_client(pg15, make_pooler):
    """Cancel of a waiting client: it is told soon, and its query never runs."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pg15.psql("drop table if exists never_run; create table never_run (a int)")
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "query_wait_timeout": 30})
    with held_server(pooler):
        waiting = pooler.connect()
        waiting.send(query("insert into never_run values (1)"))
        pooler.wait_pool(cl_waiting=1)
        watch = Stopwatch()
        waiting.cancel()
        try:
            messages = waiting.read_until("Z", "E", timeout=5)
            assert error_codes(messages)[:1] in (["57014"], ["08P01"], []), messages
        except wire.Closed:
            pass
        assert watch.seconds < 4
        pooler.wait_pool(cl_waiting=0)
        waiting.drop()
    with pooler.connect() as c:
        assert c.value("select count(*) from never_run") == "0"
    pg15.psql("drop table never_run")


def test_cancel_storm(pg15, make_pooler):
    """Cancel storm does not exhaust the pool, nor harm anybody else."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 3, "max_client_conn": 100})
    with pooler.connect() as c, pooler.connect() as other:
        threads = [threading.Thread(target=c.cancel) for _ in range(60)]
        for t in threads:
            t.start()
        for i in range(50):
            assert other.value(f"select {i}", timeout=5) == str(i)
        for t in threads:
            t.join()
        time.sleep(0.3)
        assert c.value("select 1", timeout=5) == "1"
        c.send(query("select pg_sleep(20)"))
        time.sleep(0.3)
        threads = [threading.Thread(target=c.cancel) for _ in range(30)]
        for t in threads:
            t.start()
        assert error_codes(c.read_ready(timeout=5)) == ["57014"]
        for t in threads:
            t.join()
        assert other.value("select 2", timeout=5) == "2"
        if kind() != "direct":
            pooler.wait_pool(cl_active_cancel_req=0, cl_waiting_cancel_req=0, sv_active_cancel=0, sv_being_canceled=0)


@pytest.mark.parametrize("pool_size", (pytest.param(1, marks=pytest.mark.beyond_pgbouncer), 2))
def test_server_is_not_handed_out_while_a_cancel_is_on_its_way(pg15, make_pooler, pool_size):
    """The server is not reused while a cancel is in flight: a victim of its own cancels, and bystanders that must see none."""
    pooler = make_pooler(pg15, settings={"default_pool_size": pool_size})
    stop = threading.Event()
    failures = []
    cancelled = 0

    def bystander(number):
        try:
            with pooler.connect() as c:
                while not stop.is_set():
                    assert c.value(f"select {number} from pg_sleep(0.002)") == str(number)
                    c.query("begin")
                    c.value("select pg_sleep(0.001)")
                    assert command_tags(c.query("commit")) == ["COMMIT"]
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    def canceller(victim):
        while not stop.is_set():
            try:
                victim.cancel()
            except OSError as error:
                failures.append(error)

    with pooler.connect() as victim:
        threads = [threading.Thread(target=bystander, args=(n,)) for n in range(3)]
        threads += [threading.Thread(target=canceller, args=(victim,)) for _ in range(3)]
        for t in threads:
            t.start()
        watch = Stopwatch()
        while watch.seconds < 3 and not failures:
            messages = victim.query("select pg_sleep(0.003)", timeout=10)
            if messages[0].tag == "E":
                assert error_codes(messages) == ["57014"], messages
                cancelled += 1
        stop.set()
        for t in threads:
            t.join()
    assert not failures, failures[0]
    assert cancelled > 0, "no cancel arrived while its query ran: this run showed nothing"


def test_client_that_leaves_has_its_query_cancelled(pg15, make_pooler):
    """A client gone in the middle of a query: the query does not run on for long, and the server is free."""
    if kind() != "pgweir":
        pytest.skip("PgBouncer closes such a server and lets its query run on")
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for how in ("drop", "reset", "close"):
        c = pooler.connect()
        c.send(query("select pg_sleep(30) /* left alone */"))
        eventually(lambda: running(pg15, "left alone") == 1)
        getattr(c, how)()
        with pooler.connect() as other:
            assert other.value("select 1", timeout=8) == "1"
        eventually(lambda: running(pg15, "left alone") == 0, timeout=5)


def test_cancel_of_a_client_that_has_left(pg15, make_pooler):
    """A cancel that comes after its client has gone finds nothing."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    c = pooler.connect()
    pid = backend_pid(c)
    c.close()
    time.sleep(0.1)
    with pooler.connect() as other:
        other.send(query("select pg_sleep(0.4), pg_backend_pid()"))
        time.sleep(0.1)
        c.cancel()
        rows = rows_of(other.read_ready())
        assert kind() == "direct" or rows[0][1] == pid


def test_the_cancel_connection_is_closed_when_the_signal_has_been_sent(own_cluster, make_pooler):
    """A driver that waits for that, as libpq and asyncpg do, can be sure that nothing it sends later is hit."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, mode="session")
    with pooler.connect() as c:
        c.send(query("select pg_sleep(20)"))
        time.sleep(0.3)
        os.kill(cluster.pid, signal.SIGSTOP)
        thread = threading.Thread(target=c.cancel)
        try:
            thread.start()
            thread.join(0.7)
            assert thread.is_alive(), "closed before PostgreSQL has sent the signal"
        finally:
            os.kill(cluster.pid, signal.SIGCONT)
        thread.join(5)
        assert not thread.is_alive()
        assert error_codes(c.read_ready(timeout=5)) == ["57014"]
        assert c.value("select 1") == "1"


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_cancel_of_a_query_that_suspend_keeps_unread(pg15, make_pooler, mode):
    """A cancel that comes under SUSPEND is for the query that was sent before it, although nobody has read that yet."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pooler = make_pooler(pg15, mode=mode, settings={**ONE_SERVER, "cancel_wait_timeout": 1})
    with pooler.connect() as c, pooler.connect(database="pgbouncer") as console:
        for statement in ("select pg_sleep(20)", "begin; select pg_sleep(20)", "rollback; select pg_sleep(20)"):
            console.query("suspend")
            c.send(query(statement))
            time.sleep(0.2)
            thread = threading.Thread(target=c.cancel)
            thread.start()
            # Longer than cancel_wait_timeout, which counts from RESUME.
            thread.join(1.8)
            assert thread.is_alive(), "closed, and the query has not been cancelled"
            console.query("resume")
            watch = Stopwatch()
            assert error_codes(c.read_ready(timeout=30)) == ["57014"]
            assert watch.seconds < 5
            thread.join(5)
            assert not thread.is_alive()
            assert error_codes(c.query("select 1")) in ([], ["25P02"])
        c.query("rollback")
        # With nothing to cancel, the request ends at RESUME, and what comes behind it is not hit.
        console.query("suspend")
        thread = threading.Thread(target=c.cancel)
        thread.start()
        time.sleep(0.2)
        console.query("resume")
        thread.join(5)
        assert not thread.is_alive()
        assert c.value("select 2 from pg_sleep(0.3)") == "2"


@pytest.mark.slow
def test_cancel_wait_timeout(own_cluster, make_pooler):
    """cancel_wait_timeout: a cancel request that cannot be delivered is given up, and its connection closed."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={**ONE_SERVER, "cancel_wait_timeout": 1, "server_connect_timeout": 2})
    with pooler.connect() as c:
        c.send(query("select pg_sleep(6)"))
        eventually(lambda: running(cluster, "pg_sleep"), what="the query")
        # A stopped postmaster takes connections (its kernel does) and answers none.
        os.kill(cluster.pid, signal.SIGSTOP)
        try:
            watch = Stopwatch()
            c.cancel()
            if kind() == "pgweir":
                assert watch.seconds > 0.9, "the signal has not been sent"
            assert watch.seconds < 8
        finally:
            os.kill(cluster.pid, signal.SIGCONT)
        c.read_ready(timeout=15)
        with pooler.connect() as other:
            assert other.value("select 1", timeout=10) == "1"


@pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer's log says that the request was sent")
def test_the_log_has_the_servers_error_about_a_cancel_request(pg15, make_pooler):
    with NoCancels(pg15) as server:
        pooler = make_pooler(databases={"full": f"host=127.0.0.1 port={server.port} dbname=postgres"})
        with pooler.connect(database="full") as c:
            c.send(query("select pg_sleep(1)"))
            eventually(lambda: running(pg15, "pg_sleep"), what="the query")
            c.cancel()
            pooler.wait_log("WARNING cancel request to S-0x[0-9a-f]+ failed: FATAL: sorry, too many clients already")
            assert error_codes(c.read_ready()) == []
