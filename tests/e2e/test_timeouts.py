"""Every timeout: what it closes, what it says, and what it must leave alone."""

import os
import signal
import time

import pytest

from conftest import backends
from harness import ports, wire
from harness.logins import is_served
from harness.odd_server import OddServer
from harness.pooler import kind
from harness.scenes import backend_pid, held_server
from harness.silent import DeafHost
from harness.waiting import Stopwatch, eventually
from harness.wire import error_codes, query, rows_of

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")


def ending(c, timeout=8):
    """The last error before the pooler closed this connection."""
    messages = c.read_to_end(timeout)
    return wire.first_error(messages).fields


def test_query_timeout(pg15, make_pooler):
    """query_timeout: the server of a query that takes longer is closed, and its client told."""
    pooler = make_pooler(pg15, settings={"query_timeout": 1, "default_pool_size": 1})
    with pooler.connect() as c:
        pid = backend_pid(c)
        watch = Stopwatch()
        c.send(query("select pg_sleep(8)"))
        assert "query timeout" in ending(c)["M"]
        assert 0.7 < watch.seconds < 5
    pooler.wait_log("S-.*closing because: query timeout")
    # PgBouncer lets the query run on.
    eventually(
        lambda: backends(pg15, f"pid = {pid} and state = 'active'") == 0, timeout=4 if kind() == "pgweir" else 10
    )
    with pooler.connect() as c:
        assert c.value("select 1", timeout=5) == "1"


def test_query_timeout_is_per_query(pg15, make_pooler):
    """query_timeout per query, not per transaction, and not when no query is in flight."""
    pooler = make_pooler(pg15, settings={"query_timeout": 2})
    with pooler.connect() as c:
        c.query("begin")
        for _ in range(4):
            assert c.value("select 1 from pg_sleep(0.5)") == "1"
            time.sleep(0.3)
        time.sleep(2.5)
        assert c.value("select 2") == "2"
        c.query("commit")


def test_idle_transaction_timeout(pg15, make_pooler):
    """idle_transaction_timeout: a transaction without a query in flight for so long is ended."""
    pooler = make_pooler(pg15, settings={"idle_transaction_timeout": 1})
    with pooler.connect() as c:
        c.query("begin")
        pid = backend_pid(c)
        watch = Stopwatch()
        assert "idle transaction timeout" in ending(c)["M"]
        assert 0.7 < watch.seconds < 5
        eventually(lambda: backends(pg15, f"pid = {pid} and state <> 'idle'") == 0)
    pooler.wait_log("S-.*closing because: idle transaction timeout")


def test_idle_transaction_timeout_spares_work(pg15, make_pooler):
    """idle_transaction_timeout must not fire on active work, nor on a client idle outside a transaction."""
    pooler = make_pooler(pg15, settings={"idle_transaction_timeout": 1})
    with pooler.connect() as c:
        c.query("begin")
        assert c.value("select 1 from pg_sleep(2.5)") == "1"
        assert c.value("select 2") == "2"
        c.query("commit")
        time.sleep(2)
        assert c.value("select 3") == "3"


def test_transaction_timeout(pg15, make_pooler):
    """transaction_timeout: the whole transaction is bounded, idle or not."""
    pooler = make_pooler(pg15, settings={"transaction_timeout": 2})
    with pooler.connect() as c:
        c.query("begin")
        watch = Stopwatch()
        ended = None
        for _ in range(50):
            c.send(query("select 1 from pg_sleep(0.1)"))
            messages = []
            try:
                messages = c.read_until("Z", "E")
            except wire.Closed:
                break
            if messages[-1].tag == "E":
                ended = messages[-1].fields["M"]
                break
        assert ended and "transaction timeout" in ended
        assert 1.5 < watch.seconds < 6
    pooler.wait_log("S-.*closing because: transaction timeout")


def test_transaction_timeout_spares_short_ones(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"transaction_timeout": 1})
    with pooler.connect() as c:
        for _ in range(4):
            c.query("begin")
            assert c.value("select 1 from pg_sleep(0.4)") == "1"
            c.query("commit")


def test_client_idle_timeout(pg15, make_pooler):
    """client_idle_timeout: a client that sends nothing for so long is closed; one that works is not."""
    pooler = make_pooler(pg15, settings={"client_idle_timeout": 1})
    with pooler.connect() as idle, pooler.connect() as busy:
        watch = Stopwatch()
        while watch.seconds < 2.5:
            assert busy.value("select 1 from pg_sleep(0.1)") == "1"
        assert "client_idle_timeout" in ending(idle)["M"]
        assert busy.value("select 1 from pg_sleep(2)") == "1"
    pooler.wait_log("C-.*closing because: client_idle_timeout")


def test_timeouts_of_a_user(pg15, make_pooler):
    """[users] overrides: whole seconds, for this user alone."""
    pooler = make_pooler(pg15, users={"alice": "query_timeout=1 idle_transaction_timeout=1 client_idle_timeout=2"})
    with pooler.connect(user="alice") as c, pooler.connect(user="bob") as other:
        other.send(query("select pg_sleep(2)"))
        c.send(query("select pg_sleep(8)"))
        assert "query timeout" in ending(c)["M"]
        assert error_codes(other.read_ready()) == []
    with pooler.connect(user="alice") as c:
        c.query("begin")
        c.value("select 1")
        assert "idle transaction timeout" in ending(c)["M"]
    with pooler.connect(user="alice") as c:
        watch = Stopwatch()
        assert "client_idle_timeout" in ending(c)["M"]
        assert watch.seconds > 1.5


def test_client_login_timeout(pg15, make_pooler):
    """client_login_timeout: a connection that does not log in is closed, whether it said nothing, half, or no password."""
    pooler = make_pooler(pg15, settings={"client_login_timeout": 1, "auth_type": "scram-sha-256", "tcp_defer_accept": 0})
    silent = pooler.connect(login=False)
    half = pooler.connect(login=False)
    half.socket.sendall(wire.startup({"user": "alice"})[:10])
    no_password = pooler.connect(login=False, user="alice")
    no_password.send(wire.startup(no_password.startup_parameters()))
    watch = Stopwatch()
    for c in (silent, half, no_password):
        assert c.closed(8)
    assert 0.5 < watch.seconds < 6
    pooler.wait_log("C-.*closing because: client_login_timeout")
    with pooler.connect(user="alice", password="alice-pw") as c:
        time.sleep(1.5)
        assert c.value("select 1") == "1"


def test_query_wait_timeout_of_a_database(pg15, make_pooler):
    server = f"host={pg15.host} port={pg15.port}"
    pooler = make_pooler(pg15, databases={"shop": f"{server} query_wait_timeout=1 pool_size=1"})
    with held_server(pooler, database="shop"):
        c = pooler.connect(database="shop")
        watch = Stopwatch()
        c.send(query("select 1"))
        assert ending(c)["M"] == "query_wait_timeout"
        assert watch.seconds < 5


def test_server_connect_timeout(pg15, make_pooler):
    """server_connect_timeout: a server that takes the connection and never finishes the login is given up."""
    with OddServer() as deaf:
        pooler = make_pooler(
            pg15,
            databases={"deaf": f"host=127.0.0.1 port={deaf.port}", "*": f"host={pg15.host} port={pg15.port}"},
            settings={"server_connect_timeout": 1, "server_login_retry": 1, "query_wait_timeout": 6},
        )
        c = pooler.connect(login=False, database="deaf")
        c.send(wire.startup(c.startup_parameters()), query("select 1"))
        pooler.wait_log("S-.*closing because: connect timeout", timeout=6)
        with pooler.connect() as other:
            assert other.value("select 1", timeout=3) == "1"
        messages = c.read_to_end(12)
        assert wire.first_error(messages).fields["S"] == "FATAL"


def test_server_login_retry(pg15, make_pooler):
    """After failed connects an attempt every second at most, however many clients wait and whatever server_login_retry is."""
    closed_port = ports.take()
    pooler = make_pooler(
        pg15,
        databases={"down": f"host=127.0.0.1 port={closed_port}"},
        settings={"server_login_retry": 2, "query_wait_timeout": 7},
    )

    def client():
        c = pooler.connect(login=False, database="down")
        c.send(wire.startup(c.startup_parameters()), query("select 1"))
        return c

    # The first may each try, as long as nobody knows that the server is down.
    first = [client() for _ in range(3)]
    pooler.wait_log("S-.*closing because: connect failed")
    time.sleep(0.2)
    before = pooler.log().count("closing because: connect failed")
    assert before <= 3
    watch = Stopwatch()
    later = []
    for _ in range(10):
        later.append(client())
        time.sleep(0.1)
    for c in (*first, *later):
        messages = c.read_to_end(15)
        assert wire.first_error(messages).fields["S"] == "FATAL"
    attempts = pooler.log().count("closing because: connect failed") - before
    seconds_min = 2 if kind() == "pgbouncer" else 0.9
    assert attempts <= 2 + watch.seconds / seconds_min, f"{attempts} attempts in {watch.seconds:.1f} s"


def test_server_comes_back_within_login_retry(own_cluster, make_pooler):
    """Server down: clients wait, and are served when it is up again."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 1, "query_wait_timeout": 30})
    with pooler.connect() as c:
        assert c.value("select 1") == "1"
        cluster.stop()
        c.send(query("select 'back'"))
        time.sleep(2)
        cluster.start()
        assert rows_of(c.read_ready(timeout=15)) == [("back",)]


def test_stopped_server(own_cluster, make_pooler):
    """A server that stops answering: query_timeout frees its client, and the others live."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"query_timeout": 1, "default_pool_size": 3})
    with pooler.connect() as c, pooler.connect() as other:
        pid = int(backend_pid(c))
        c.query("begin")
        assert int(backend_pid(c)) == pid
        os.kill(pid, signal.SIGSTOP)
        try:
            c.send(query("select 1"))
            assert "query timeout" in ending(c)["M"]
            assert other.value("select 1", timeout=5) == "1"
        finally:
            os.kill(pid, signal.SIGCONT)


def test_zero_is_off(pg15, make_pooler):
    """0 means off, not at once."""
    zeros = dict.fromkeys(
        "query_timeout idle_transaction_timeout transaction_timeout client_idle_timeout query_wait_timeout server_idle_timeout "
        "query_wait_notify".split(),
        0,
    )
    pooler = make_pooler(pg15, settings={**zeros, "default_pool_size": 1})
    with pooler.connect() as c, pooler.connect() as waiting:
        pid = backend_pid(c)
        c.query("begin")
        c.value("select 1")
        waiting.send(query("select pg_backend_pid()"))
        time.sleep(1.5)
        assert c.value("select 1 from pg_sleep(0.3)") == "1"
        c.query("commit")
        messages = waiting.read_ready()
        assert wire.tags(messages) == "TDCZ" and rows_of(messages) == [(pid,)]


def test_fractions_of_a_second(pg15, make_pooler):
    """Times in [pgbouncer] are seconds with a fraction."""
    pooler = make_pooler(pg15, settings={"query_timeout": 0.5})
    with pooler.connect() as c:
        assert c.value("select 1 from pg_sleep(0.1)") == "1"
        watch = Stopwatch()
        c.send(query("select pg_sleep(8)"))
        ending(c)
        assert 0.3 < watch.seconds < 3


# ---- limits that count from a BEGIN which no server has seen


pgweir_only = pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer defers no BEGIN")


@pgweir_only
@pytest.mark.parametrize("deferred_begin", (30, 0.3))
@pytest.mark.parametrize("of_user", (False, True), ids=("global", "user"))
def test_idle_transaction_timeout_counts_from_begin(pg15, make_pooler, deferred_begin, of_user):
    """Also where the BEGIN has taken no server, or has gone to one by itself; and client_idle_timeout is another matter."""
    limit = {} if of_user else {"idle_transaction_timeout": 1}
    pooler = make_pooler(
        pg15,
        settings={"deferred_begin": deferred_begin, "client_idle_timeout": 0.2 if deferred_begin == 30 else 0, **limit},
        users={"alice": "idle_transaction_timeout=1"} if of_user else None,
    )
    with pooler.connect(user="alice") as c:
        watch = Stopwatch()
        assert rows_of(c.query("begin")) == []
        error = ending(c)
        assert error["M"] == "idle transaction timeout" and error["C"] == "25P03"
        assert 0.9 < watch.seconds < 3
    pooler.wait_log("closing because: idle transaction timeout")


@pgweir_only
def test_transaction_timeout_counts_from_begin(pg15, make_pooler):
    """The time before the first statement counts, whether or not a server was there."""
    pooler = make_pooler(pg15, settings={"transaction_timeout": 2, "deferred_begin": 30})
    with pooler.connect() as idle, pooler.connect() as late:
        watch = Stopwatch()
        idle.query("begin")
        late.query("begin")
        time.sleep(1.5)
        late.send(query("select pg_sleep(20)"))
        for c in (late, idle):
            error = ending(c)
            assert error["M"] == "transaction timeout" and error["C"] == "25P04"
            assert 1.8 < watch.seconds < 3.4


@pgweir_only
def test_transaction_timeout_counts_while_a_begun_transaction_waits(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"deferred_begin": 30}, users={"bob": "transaction_timeout=1"})
    with pooler.connect(user="bob") as c:
        pooler.console("pause")
        c.query("begin")
        c.send(query("select 1"))
        assert ending(c)["M"] == "transaction timeout"
        pooler.console("resume")


@pgweir_only
def test_a_begun_transaction_is_not_an_idle_client(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"client_idle_timeout": 1, "deferred_begin": 30})
    with pooler.connect() as c:
        c.query("begin")
        time.sleep(2.5)
        assert c.value("select 1") == "1"
        c.query("commit")
        assert ending(c)["M"] == "client_idle_timeout"


# ---- servers that are down


CACHED = "server login has been failing, cached error: "


@pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")
def test_clients_wait_for_a_server_that_goes_down(own_cluster, make_pooler):
    """It is tried every second while somebody waits, whatever server_login_retry says; who logs in then is told at once."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 60, "query_wait_timeout": 30})
    with pooler.connect() as c:
        assert c.value("select 1") == "1"
        cluster.stop()
        c.send(query("select 'back'"))
        pooler.wait_log("S-.*closing because: connect failed")
        with pytest.raises(wire.ServerError) as error:
            pooler.connect(user="alice")
        assert error.value.fields["M"] == f"{CACHED}connect failed (server_login_retry)"
        assert error.value.code == "08001"
        assert c.quiet(2.5)
        cluster.start()
        watch = Stopwatch()
        assert rows_of(c.read_ready(timeout=15)) == [("back",)]
        assert watch.seconds < 2.5
        with pooler.connect(user="alice") as other:
            assert other.value("select 1") == "1"
        cluster.stop()
        c.send(query("select 'too late'"))
    pooler.console("set query_wait_timeout = 1")
    with pooler.connect(login=False) as c:
        c.send(wire.startup(c.startup_parameters()), query("select 1"))
        assert CACHED in str(ending(c))


@pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")
def test_clients_fail_at_once_where_they_are_not_to_wait(own_cluster, make_pooler):
    """server_down_wait = 0: as in PgBouncer; and a server that comes back is found within a second all the same."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"server_login_retry": 60, "server_down_wait": 0})
    with pooler.connect() as c, pooler.connect() as other:
        assert c.value("select 1") == "1"
        cluster.stop()
        for client in (c, other):
            watch = Stopwatch()
            client.send(query("select 1"))
            assert ending(client)["M"] == f"{CACHED}connect failed (server_login_retry)"
            assert watch.seconds < 2
    cluster.start()
    watch = Stopwatch()
    eventually(lambda: is_served(pooler), timeout=5, interval=0.1)
    assert watch.seconds < 3


@pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")
def test_the_servers_own_words_are_passed_on(own_cluster, make_pooler):
    """A server that refuses: its own text and SQLSTATE, at once; later clients hear of it until server_login_retry."""
    cluster = own_cluster()
    pooler = make_pooler(
        cluster,
        databases={"gone": f"host={cluster.host} port={cluster.port} dbname=no_such_database"},
        settings={"server_login_retry": 30},
    )
    for beginning in ("", CACHED):
        with pytest.raises(wire.ServerError) as error:
            pooler.connect(database="gone")
        message = error.value.fields["M"]
        assert message.startswith(f'{beginning}database "no_such_database" does not exist'), message
        assert error.value.code == "3D000"
    assert message.endswith(" (server_login_retry)")


@pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")
def test_the_log_has_the_words_that_a_client_hears(make_pooler):
    """For the first client, too, whose own attempt fails."""
    pooler = make_pooler(databases={"*": "host=127.0.0.1 port=1"}, settings={"server_down_wait": 0})
    for _ in range(2):
        with pytest.raises(wire.ServerError) as error:
            pooler.connect()
        line = pooler.log().rpartition("pooler error: ")[2].splitlines()[0]
        assert line == error.value.fields["M"]


@pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")
def test_a_host_that_swallows_packets(pg15, make_pooler):
    """No answer at all to the first packet: a listening socket whose queue is full drops it on loopback, too."""
    with DeafHost() as host:
        pooler = make_pooler(
            pg15,
            databases={"deaf": f"host=127.0.0.1 port={host.port}", "*": f"host={pg15.host} port={pg15.port}"},
            settings={"server_connect_timeout": 1, "query_wait_timeout": 10},
        )
        watch = Stopwatch()
        c = pooler.connect(login=False, database="deaf")
        c.send(wire.startup(c.startup_parameters()))
        error = ending(c)
        assert error["M"] == f"{CACHED}connect timeout (server_login_retry)"
        assert 0.9 < watch.seconds < 4
        pooler.wait_log("S-.*closing because: connect timeout")
        with pooler.connect() as other:
            assert other.value("select 1", timeout=3) == "1"


def test_query_wait_timeout_of_a_user(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        settings={"query_wait_timeout": 30, "default_pool_size": 1},
        users={"alice": "query_wait_timeout=1"},
    )
    with held_server(pooler, user="alice"), pooler.connect(user="alice") as c:
        watch = Stopwatch()
        c.send(query("select 1"))
        assert "query_wait_timeout" in ending(c)["M"]
        assert 0.7 < watch.seconds < 5


def test_pool_idle_timeout(pg15, make_pooler):
    """It drops a pool that has neither clients nor servers, and closes no server itself."""
    cleaned = "cleaning up idle pool for user postgres on db postgres because: pool idle timeout"
    pooler = make_pooler(pg15, settings={"pool_idle_timeout": 1, "server_idle_timeout": 4})
    with pooler.connect() as c:
        pid = backend_pid(c)
    time.sleep(2.5)
    assert backends(pg15, f"pid = {pid}") == 1
    assert cleaned not in pooler.log()
    eventually(lambda: backends(pg15, f"pid = {pid}") == 0)
    pooler.wait_log(cleaned, timeout=8)
    assert not [row for row in pooler.console("show pools") if row["database"] == "postgres"]


@pytest.mark.parametrize("forced", (False, True))
def test_pool_idle_timeout_heeds_min_pool_size(pg15, make_pooler, forced):
    pooler = make_pooler(
        pg15,
        settings={"pool_idle_timeout": 1, "server_idle_timeout": 1, "min_pool_size": 1},
        databases={"postgres": f"host=127.0.0.1 port={pg15.port}" + (" user=postgres" if forced else "")},
    )
    with pooler.connect() as c:
        pid = backend_pid(c)
    time.sleep(4)
    assert backends(pg15, f"pid = {pid}") == 1
    assert "pool idle timeout" not in pooler.log()


def test_an_unused_pool_says_once_that_it_is_cleaned(pg15, make_pooler):
    """Guards against a line in the log every tenth of a second while a server that was left behind does not end."""
    pooler = make_pooler(pg15, settings={"pool_idle_timeout": 1, "server_idle_timeout": 1, "cancel_wait_timeout": 60})
    with pooler.connect() as c:
        pid = int(backend_pid(c))
        c.send(query("select pg_sleep(60)"))
        eventually(lambda: backends(pg15, f"pid = {pid} and wait_event = 'PgSleep'") == 1)
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(4)
        lines = pooler.log().count("because: pool idle timeout")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert lines <= 1
    pooler.wait_log("cleaning up idle pool for user postgres on db postgres because: pool idle timeout", timeout=8)


@pgweir_only
@pytest.mark.parametrize(
    "limit, sqlstate, version",
    (("idle_in_transaction_session_timeout", "25P03", 15), ("transaction_timeout", "25P04", 18)),
)
def test_limits_of_the_clients_own_count_from_begin(own_cluster, make_pooler, limit, sqlstate, version):
    """No server knew of the transaction, so nobody enforced them."""
    cluster = own_cluster(version=version)
    pooler = make_pooler(cluster, settings={"deferred_begin": 30})
    ends = []
    for port in (cluster.port, pooler.port):
        with wire.Connection(port=port) as c:
            c.query(f"set {limit} = '300ms'")
            c.query("begin")
            error = wire.first_error(c.read_to_end(5))
            ends.append({name: error.fields[name] for name in "SCM"})
    assert ends[0] == ends[1]
    assert ends[0]["C"] == sqlstate
