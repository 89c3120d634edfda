"""Pools: their sizes, limits, queues, and what opens and closes servers."""

import collections
import re
import threading
import time

import pytest

from conftest import backends
from harness import wire
from harness.pooler import kind
from harness.scenes import backend_pid, held_server
from harness.waiting import Stopwatch, eventually, holds
from harness.wire import error_codes, query, rows_of

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")


def hold(pooler, **named):
    """A client in a transaction: it keeps a server until it is closed."""
    c = pooler.connect(**named)
    c.query("begin")
    c.value("select 1", timeout=20)
    return c


def first_error(messages):
    return wire.first_error(messages).fields


# ---- pool_size and its like


def test_default_pool_size(pg15, make_pooler):
    """No more servers than default_pool_size; the next client waits and is served when one is free."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 3})
    holders = [hold(pooler) for _ in range(3)]
    c = pooler.connect()
    c.send(query("select 'served'"))
    pooler.wait_pool(cl_waiting=1, cl_active=3, sv_active=3)
    assert c.quiet(0.2)
    assert backends(pg15) == 3
    holders.pop().close()
    assert rows_of(c.read_ready(timeout=3)) == [("served",)]
    for client in (*holders, c):
        client.close()


def test_pool_size_of_a_database_and_of_a_user(pg15, make_pooler):
    """pool_size of [databases] and of [users] override the default."""
    pooler = make_pooler(
        pg15,
        databases={
            "one": f"host={pg15.host} port={pg15.port} dbname=shop pool_size=1",
            "*": f"host={pg15.host} port={pg15.port}",
        },
        users={"alice": "pool_size=2"},
        settings={"default_pool_size": 3},
    )
    for database, user, size in (("one", "postgres", 1), ("warehouse", "postgres", 3), ("warehouse", "alice", 2)):
        holders = [hold(pooler, database=database, user=user) for _ in range(size)]
        c = pooler.connect(database=database, user=user)
        c.send(query("select 1"))
        assert c.quiet(0.3), (database, user)
        for client in (*holders, c):
            client.close()


def test_pools_are_per_database_and_user(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    clients = [hold(pooler, database=d, user=u) for d in ("shop", "warehouse") for u in ("alice", "bob")]
    pools = {(r["database"], r["user"]) for r in pooler.console("show pools")}
    assert {(d, u) for d in ("shop", "warehouse") for u in ("alice", "bob")} <= pools
    for c in clients:
        c.close()


def test_servers_are_shared(pg15, make_pooler):
    """Many clients, few servers: each transaction takes whichever is free."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    clients = [pooler.connect() for _ in range(50)]
    pids = {backend_pid(c) for _ in range(3) for c in clients}
    assert 1 <= len(pids) <= 2
    for c in clients:
        c.close()


def test_reserve_pool(pg15, make_pooler):
    """reserve_pool_size more servers, once a client has waited reserve_pool_timeout."""
    pooler = make_pooler(
        pg15,
        settings={"default_pool_size": 1, "reserve_pool_size": 1, "reserve_pool_timeout": 1, "query_wait_timeout": 20},
    )
    holder = hold(pooler)
    watch = Stopwatch()
    c = pooler.connect()
    assert c.value("select 1", timeout=8) == "1"
    assert 0.7 < watch.seconds < 4
    pooler.wait_log("taking connection from reserve_pool")
    second = hold(pooler)
    third = pooler.connect()
    third.send(query("select 1"))
    assert third.quiet(2)
    for client in (holder, c, second, third):
        client.close()


def test_min_pool_size_without_clients(pg15, make_pooler):
    """min_pool_size kept warm without clients where user and password are known: a forced user."""
    pooler = make_pooler(
        pg15,
        databases={
            "warm": f"host={pg15.host} port={pg15.port} dbname=shop user=alice password=alice-pw min_pool_size=3"
        },
    )
    eventually(lambda: backends(pg15, "datname = 'shop' and usename = 'alice'") == 3, timeout=8, what="three servers")
    pid = pg15.psql("select pid from pg_stat_activity where datname = 'shop' and usename = 'alice' limit 1")
    pg15.psql(f"select pg_terminate_backend({pid})")
    eventually(
        lambda: backends(pg15, f"datname = 'shop' and usename = 'alice' and pid <> {pid}") == 3,
        timeout=8,
        what="three again",
    )
    with pooler.connect(database="warm", user="bob") as c:
        assert c.value("select current_user") == "alice"


def test_min_pool_size_once_a_client_has_come(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"min_pool_size": 4, "default_pool_size": 5})
    with pooler.connect(database="shop", user="alice") as c:
        c.value("select 1")
        eventually(lambda: backends(pg15, "datname = 'shop' and usename = 'alice'") == 4, timeout=8)


def test_lifo_and_round_robin(pg15, make_pooler):
    """Servers are taken last-used first; with server_round_robin the one that rested longest."""
    for round_robin in (0, 1):
        pooler = make_pooler(pg15, settings={"default_pool_size": 3, "server_round_robin": round_robin})
        holders = [hold(pooler) for _ in range(3)]
        for c in holders:
            c.query("commit")
            c.close()
        pooler.wait_pool(sv_idle=3)
        with pooler.connect() as c:
            pids = [backend_pid(c) for _ in range(9)]
        assert len(set(pids)) == (3 if round_robin else 1), pids


# ---- limits on clients


def test_max_client_conn(pg15, make_pooler):
    """max_client_conn: one more is refused with PgBouncer's words, and let in when another leaves."""
    pooler = make_pooler(pg15, settings={"max_client_conn": 5})
    clients = [pooler.connect() for _ in range(5)]
    with pytest.raises((wire.ServerError, wire.Closed)) as refused:
        pooler.connect()
    assert "no more connections allowed" in str(refused.value)
    clients.pop().close()

    def let_in():
        try:
            clients.append(pooler.connect())
            return True
        except (wire.ServerError, wire.Closed, ConnectionError):
            return False

    eventually(let_in)
    for c in clients:
        c.value("select 1")
        c.close()


def test_max_db_client_connections(pg15, make_pooler):
    server = f"host={pg15.host} port={pg15.port}"
    pooler = make_pooler(pg15, databases={"shop": f"{server} max_db_client_connections=2", "*": server})
    clients = [pooler.connect(database="shop") for _ in range(2)]
    with pytest.raises(wire.ServerError) as refused:
        pooler.connect(database="shop")
    assert "max_db_client_connections" in str(refused.value)
    clients.append(pooler.connect(database="warehouse"))
    for c in clients:
        c.close()


def test_max_user_client_connections(pg15, make_pooler):
    pooler = make_pooler(pg15, users={"alice": "max_user_client_connections=2"})
    clients = [pooler.connect(user="alice") for _ in range(2)]
    with pytest.raises(wire.ServerError) as refused:
        pooler.connect(user="alice")
    assert "max_user_client_connections" in str(refused.value)
    clients.append(pooler.connect(user="bob"))
    for c in clients:
        c.close()


# ---- limits on servers, never exceeded


def churn(pooler, targets, seconds, failures):
    """Clients that come, work and go, on these (database, user) pairs."""
    stop = threading.Event()

    def live(number):
        try:
            while not stop.is_set():
                database, user = targets[number % len(targets)]
                with pooler.connect(database=database, user=user, timeout=20) as c:
                    for i in range(5):
                        if number % 3 == 0:
                            c.query("begin")
                        c.value(f"select {i} from pg_sleep(0.003)")
                        if number % 3 == 0:
                            c.query("commit")
                    if number % 4 == 0:
                        c.send(query("select pg_sleep(0.01)"))
                        c.drop()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=live, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    return stop, threads


@pytest.mark.parametrize(
    "limit, settings, users, key",
    (
        ("max_db_connections", {"max_db_connections": 3}, {}, "datname"),
        ("max_user_connections", {"max_user_connections": 3}, {}, "usename"),
        (
            "max_user_connections of a user",
            {},
            {"alice": "max_user_connections=3", "bob": "max_user_connections=3"},
            "usename",
        ),
    ),
)
def test_limits_hold_under_churn(pg15, make_pooler, limit, settings, users, key):
    """max_* never exceeded under churn, and everybody is served."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 10, "query_wait_timeout": 15, **settings}, users=users)
    failures = []
    targets = [(d, u) for d in ("shop", "warehouse") for u in ("alice", "bob")]
    stop, threads = churn(pooler, targets, 4, failures)
    watch = Stopwatch()
    most = collections.Counter()
    with wire.Connection(port=pg15.port, database="postgres") as look:
        while watch.seconds < 4:
            sql = f"select {key}, count(*) from pg_stat_activity where datname in ('shop', 'warehouse') and backend_type = 'client backend' group by 1"
            for name, count in look.rows(sql):
                most[name] = max(most[name], int(count))
            time.sleep(0.01)
    stop.set()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    # A backend told to go takes a moment to leave pg_stat_activity; the limit is on what the pooler holds open.
    assert max(most.values()) <= 4, (limit, most)
    assert len(most) == 2
    # A churn in which the limit was never reached would show nothing.
    assert min(most.values()) >= 2, most


def test_shared_limit_is_fair(pg15, make_pooler):
    """Fairness across pools sharing a cap: an idle server of one pool makes room for a waiting client of another."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 5, "max_db_connections": 2, "query_wait_timeout": 10})
    holders = [hold(pooler, database="shop", user="alice") for _ in range(2)]
    for c in holders:
        c.close()
    with pooler.connect(database="shop", user="bob") as c:
        assert c.value("select current_user", timeout=8) == "bob"


# ---- the queue


def test_query_wait_timeout(pg15, make_pooler):
    """query_wait_timeout: FATAL, PgBouncer's message, the connection closed."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "query_wait_timeout": 1})
    with held_server(pooler):
        c = pooler.connect()
        watch = Stopwatch()
        c.send(query("select 1"))
        messages = c.read_to_end(8)
        assert 0.7 < watch.seconds < 4
        assert first_error(messages)["S"] == "FATAL"
        assert first_error(messages)["M"] == "query_wait_timeout"
        pooler.wait_log("closing because: query_wait_timeout")


def test_query_wait_notify(pg15, make_pooler):
    """After query_wait_notify seconds a waiting client is sent a NOTICE, and is served all the same."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "query_wait_notify": 1, "query_wait_timeout": 20})
    holder = hold(pooler)
    c = pooler.connect()
    watch = Stopwatch()
    c.send(query("select 'served'"))
    notice = c.read(6)
    assert notice.tag == "N" and 0.7 < watch.seconds < 4
    assert "No server connection available in postgres backend, client being queued" in notice.fields["M"]
    holder.close()
    messages = c.read_ready(timeout=3)
    assert wire.tags(messages) == "TDCZ" and rows_of(messages) == [("served",)]
    c.close()


def test_waiting_clients_are_served_in_order(pg15, make_pooler):
    """FIFO within a pool."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    pg15.psql("drop table if exists served; create table served (id serial, who int)")
    holder = hold(pooler)
    waiting = []
    for number in range(12):
        c = pooler.connect()
        c.send(query(f"insert into served (who) values ({number})"))
        pooler.wait_pool(cl_waiting=number + 1)
        waiting.append(c)
    holder.close()
    for c in waiting:
        assert error_codes(c.read_ready()) == []
        c.close()
    assert pg15.psql("select string_agg(who::text, ' ' order by id) from served") == " ".join(str(n) for n in range(12))
    pg15.psql("drop table served")


@pytest.mark.beyond_pgbouncer
def test_client_that_gives_up_waiting(pg15, make_pooler):
    """A client that leaves the queue holds no place in it, and is seen to have left."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    holder = hold(pooler)
    for how in ("drop", "reset"):
        c = pooler.connect()
        c.send(query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        getattr(c, how)()
        pooler.wait_pool(cl_waiting=0)
    holder.close()
    with pooler.connect() as c:
        assert c.value("select 1", timeout=5) == "1"


def test_client_that_says_goodbye_behind_a_query_that_waits(pg15, make_pooler):
    """PostgreSQL reads Terminate when it has done what came before it: so the query keeps its place and runs."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    pg15.psql("create table goodbyes (n int)")
    holder = hold(pooler)
    c = pooler.connect()
    c.send(query("insert into goodbyes values (1)"))
    pooler.wait_pool(cl_waiting=1)
    c.close()
    holder.close()
    eventually(lambda: pg15.psql("select count(*) from goodbyes") == "1", what="the row of the client that has left")
    pooler.wait_pool(cl_waiting=0, cl_active=0)
    pg15.psql("drop table goodbyes")


# ---- the life of a server


def test_server_lifetime(pg15, make_pooler):
    """server_lifetime: an unused server older than it is closed; 0 uses a server once."""
    pooler = make_pooler(pg15, settings={"server_lifetime": 1})
    with pooler.connect() as c:
        pid = backend_pid(c)
        eventually(lambda: backends(pg15, f"pid = {pid}") == 0, timeout=8, what="the old server to be closed")
        assert backend_pid(c) != pid
    pooler.wait_log("closing because: server lifetime over")


def test_server_lifetime_zero(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"server_lifetime": 0})
    with pooler.connect() as c:
        pids = {backend_pid(c) for _ in range(4) if time.sleep(0.3) is None}
        assert len(pids) == 4


def test_server_idle_timeout(pg15, make_pooler):
    """server_idle_timeout: an idle server is closed, one in use is not."""
    pooler = make_pooler(pg15, settings={"server_idle_timeout": 1})
    with pooler.connect() as c, held_server(pooler) as busy:
        pid = backend_pid(c)
        kept = backend_pid(busy)
        eventually(lambda: backends(pg15, f"pid = {pid}") == 0, timeout=8)
        assert backend_pid(busy) == kept
    pooler.wait_log("closing because: server idle timeout")


def test_server_check_query(pg15, make_pooler):
    """server_check_query runs on a server that has rested for server_check_delay."""
    pooler = make_pooler(pg15, settings={"server_check_query": "select 'the check'", "server_check_delay": 0})
    pg15.psql("alter system set log_statement = 'all'")
    pg15.psql("select pg_reload_conf()")
    try:
        time.sleep(0.3)
        with pooler.connect() as c:
            for i in range(3):
                assert c.value(f"select {i}") == str(i)
                time.sleep(0.3)
        assert "select 'the check'" in pg15.log()
    finally:
        pg15.psql("alter system reset log_statement")
        pg15.psql("select pg_reload_conf()")


def test_failing_check_query(pg15, make_pooler):
    """A check query that fails: the client gets an answer, and never the check's error."""
    pg15.psql(
        "drop table if exists check_switch; create table check_switch (a int);"
        "create or replace function check_me() returns int language plpgsql as "
        "$$ begin if exists (select from check_switch) then raise 'check failed'; end if; return 1; end $$"
    )
    pooler = make_pooler(
        pg15, settings={"server_check_query": "select check_me()", "server_check_delay": 0, "default_pool_size": 1}
    )
    with pooler.connect() as c:
        c.value("select 1")
        time.sleep(1)
        pg15.psql("insert into check_switch values (1)")
        c.send(query("select 'answered'"))
        time.sleep(0.5)
        pg15.psql("delete from check_switch")
        assert rows_of(c.read_ready(timeout=20)) == [("answered",)]
    pg15.psql("drop table check_switch; drop function check_me()")


def test_connect_query(pg15, make_pooler):
    """connect_query runs once on each new server, before any client's statement."""
    pg15.psql("drop table if exists connected; create table connected (pid int)")
    pooler = make_pooler(
        pg15,
        databases={
            "q": f"host={pg15.host} port={pg15.port} dbname=postgres pool_size=2 connect_query='insert into connected values (pg_backend_pid())'"
        },
    )
    with pooler.connect(database="q") as c, pooler.connect(database="q") as other:
        c.query("begin")
        other.query("begin")
        pids = {backend_pid(c), backend_pid(other)}
        assert len(pids) == 2
        for client in (c, other):
            client.query("rollback")
        for _ in range(3):
            assert sorted(r[0] for r in other.rows("select pid from connected")) == sorted(pids)
    pg15.psql("drop table connected")


@pytest.mark.beyond_pgbouncer
def test_failing_connect_query(pg15, make_pooler):
    """A connect_query that fails: its error is logged and the server is used, as PgBouncer's manual has it."""
    pooler = make_pooler(
        pg15,
        databases={"q": f"host={pg15.host} port={pg15.port} dbname=postgres connect_query='select nonsense'"},
        settings={"query_wait_timeout": 2, "server_login_retry": 1},
    )
    with pooler.connect(database="q") as c:
        assert c.value("select 'reached'") == "reached"
    pooler.wait_log('ERROR S: error while executing exec_on_query: ERROR: column "nonsense" does not exist')


# ---- databases and users


def test_forced_user(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={"forced": f"host={pg15.host} port={pg15.port} dbname=shop user=alice password=alice-pw pool_size=1"},
    )
    with (
        pooler.connect(database="forced", user="bob") as bob,
        pooler.connect(database="forced", user="postgres") as other,
    ):
        assert (
            bob.value("select current_user || ' ' || session_user || ' ' || current_database()") == "alice alice shop"
        )
        # Clients of different names share the forced user's pool.
        assert backend_pid(bob) == backend_pid(other)


def test_database_under_another_name(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={
            "front": f"host={pg15.host} port={pg15.port} dbname=shop",
            "odd-name.x": f"host={pg15.host} port={pg15.port} dbname=warehouse",
        },
    )
    with pooler.connect(database="front") as c:
        assert c.value("select current_database()") == "shop"
    with pooler.connect(database="odd-name.x") as c:
        assert c.value("select current_database()") == "warehouse"


def test_wildcard_database(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={
            "shop": f"host={pg15.host} port={pg15.port} dbname=warehouse",
            "*": f"host={pg15.host} port={pg15.port}",
        },
    )
    with pooler.connect(database="shop") as c:
        assert c.value("select current_database()") == "warehouse"
    with pooler.connect(database="postgres") as c:
        assert c.value("select current_database()") == "postgres"
    with pooler.connect(database="postgres", user="alice") as c:
        c.query("select 1")
    lines = re.findall(r" C-0x\w+: postgres/postgres@\S+ registered new auto-database: postgres\n", pooler.log())
    assert len(lines) == pooler.log().count("auto-database") == 1, "one line for a database, not for each pool"


def test_database_that_is_not_configured(pg15, make_pooler):
    pooler = make_pooler(pg15, databases={"only": f"host={pg15.host} port={pg15.port} dbname=shop"})
    with pytest.raises(wire.ServerError) as refused:
        pooler.connect(database="other")
    assert refused.value.code in ("3D000", "08P01")
    assert "other" in str(refused.value)


def test_database_that_does_not_exist_on_the_server(pg15, make_pooler):
    """The server's own error reaches the client."""
    pooler = make_pooler(pg15)
    with pytest.raises((wire.ServerError, wire.Closed)) as refused:
        with pooler.connect(database="no_such_database") as c:
            messages = c.query("select 1")
            assert 'database "no_such_database" does not exist' in str(messages)
            raise wire.ServerError(wire.first_error(messages))
    assert 'database "no_such_database" does not exist' in str(refused.value)
    pooler.wait_log('server login failed: FATAL.* database "no_such_database" does not exist')


def test_host_list(pg15, make_pooler):
    """A list of hosts is taken in turn; one that refuses is passed over."""
    pooler = make_pooler(
        pg15,
        databases={
            "both": f"host=127.0.0.1,{pg15.socket_dir} port={pg15.port} dbname=postgres pool_size=4",
            "bad_first": f"host=127.0.0.99,127.0.0.1 port={pg15.port} dbname=postgres pool_size=4",
        },
        settings={"server_login_retry": 1},
    )
    holders = [hold(pooler, database="both") for _ in range(4)]
    kinds = [c.value("select inet_server_addr() is null") for c in holders]
    assert sorted(kinds) == ["f", "f", "t", "t"]
    for c in holders:
        c.close()
    with pooler.connect(database="bad_first", timeout=20) as c:
        assert c.value("select inet_server_addr()", timeout=20) == "127.0.0.1"


def test_host_list_without_load_balancing(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={
            "first": f"host=127.0.0.1,{pg15.socket_dir} port={pg15.port} dbname=postgres load_balance_hosts=disable pool_size=4"
        },
    )
    holders = [hold(pooler, database="first") for _ in range(4)]
    assert [c.value("select inet_server_addr() is null") for c in holders] == ["f"] * 4
    for c in holders:
        c.close()


@pytest.mark.beyond_pgbouncer
def test_host_name(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={"named": f"host=localhost port={pg15.port} dbname=postgres"},
        settings={"server_login_retry": 1},
    )
    with pooler.connect(database="named") as c:
        assert c.value("select 1", timeout=10) == "1"


# ---- session mode


def test_session_mode_keeps_the_server(pg15, make_pooler):
    pooler = make_pooler(pg15, mode="session", settings={"default_pool_size": 2})
    with pooler.connect() as a, pooler.connect() as b:
        pids = [backend_pid(a), backend_pid(b)]
        assert pids[0] != pids[1]
        for _ in range(5):
            assert [backend_pid(a), backend_pid(b)] == pids
        a.query("create temp table kept (a int); set work_mem = '7MB'")
        assert a.value("select count(*) from kept") == "0"
        assert a.value("show work_mem") == "7MB"
        third = pooler.connect()
        third.send(query("select 'served'"))
        assert third.quiet(0.3)
        b.close()
        assert rows_of(third.read_ready(timeout=3)) == [("served",)]
        third.close()


def test_server_reset_query(pg15, make_pooler):
    """server_reset_query runs between two clients of a server in session mode; what it resets is gone."""
    pooler = make_pooler(pg15, mode="session", settings={"default_pool_size": 1})
    with pooler.connect() as c:
        pid = backend_pid(c)
        c.query("set work_mem = '7MB'")
        c.query("prepare by_sql as select 1")
        c.send(wire.parse("by_protocol", "select 1"), wire.sync())
        c.read_ready()
        c.query("select pg_advisory_lock(99)")
        c.query("listen something")
    with pooler.connect() as c:
        assert backend_pid(c) == pid
        assert c.value("show work_mem") != "7MB"
        assert c.value("select count(*) from pg_prepared_statements") == "0"
        assert c.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"
        assert c.value("select count(*) from pg_listening_channels()") == "0"
        c.query("create temp table kept (a int)")
    with pooler.connect() as c:
        assert error_codes(c.query("select * from kept")) == ["42P01"]


def test_server_reset_query_of_ones_own(pg15, make_pooler):
    pooler = make_pooler(
        pg15, mode="session", settings={"default_pool_size": 1, "server_reset_query": "set work_mem = '3MB'"}
    )
    with pooler.connect() as c:
        c.query("set work_mem = '7MB'")
    with pooler.connect() as c:
        assert c.value("show work_mem") == "3MB"


def test_session_mode_rolls_back_what_was_left_open(pg15, make_pooler):
    """A client that leaves in a transaction: nobody inherits it, nothing of it is kept."""
    pg15.psql("drop table if exists left_open; create table left_open (a int)")
    pooler = make_pooler(pg15, mode="session", settings={"default_pool_size": 1})
    for how in ("close", "drop", "reset"):
        c = pooler.connect()
        c.query("begin")
        c.query("insert into left_open values (1)")
        getattr(c, how)()
        with pooler.connect() as other:
            assert other.query("select 1", timeout=5)[-1].body == b"I"
            assert other.value("select count(*) from left_open") == "0"
    pg15.psql("drop table left_open")


# ---- statement mode


@pytest.mark.parametrize(
    "begin", ("begin", "start transaction", "begin; select 1", "BEGIN isolation level serializable")
)
def test_statement_mode_refuses_transactions(pg15, make_pooler, begin):
    """Statement mode refuses multi-statement transactions as PgBouncer does: an error, and the connection closed."""
    pooler = make_pooler(pg15, mode="statement", settings={"default_pool_size": 1})
    c = pooler.connect()
    c.send(query(begin))
    messages = c.read_to_end(5)
    assert first_error(messages)["M"] == "transaction blocks not allowed in statement pooling mode"
    c.drop()
    with pooler.connect() as other:
        assert other.query("select 1", timeout=3)[-1].body == b"I"


def test_statement_mode_shares_between_statements(pg15, make_pooler):
    pooler = make_pooler(pg15, mode="statement", settings={"default_pool_size": 1})
    with pooler.connect() as a, pooler.connect() as b:
        for _ in range(5):
            assert backend_pid(a) == backend_pid(b)
        assert wire.command_tags(a.query("select 1; select 2")) == ["SELECT 1", "SELECT 1"]


# ---- application_name_add_host and other parameters of a server


def test_application_name_add_host(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"application_name_add_host": 1})
    with pooler.connect(options={"application_name": "shopper"}) as c:
        name = c.value("show application_name")
        assert re.fullmatch(r"shopper - 127\.0\.0\.1:\d+", name), name


def test_parameters_follow_the_client(pg15, make_pooler):
    """GUC_REPORT and startup parameters follow the client to each server."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with (
        pooler.connect(options={"application_name": "one", "datestyle": "German", "timezone": "Asia/Tokyo"}) as one,
        pooler.connect(options={"application_name": 'it\'s "two"\\', "client_encoding": "LATIN1"}) as two,
        pooler.connect() as three,
    ):
        for _ in range(3):
            assert one.rows(
                "select current_setting('application_name'), date '2020-02-01', current_setting('timezone')"
            ) == [("one", "01.02.2020", "Asia/Tokyo")]
            assert two.rows("select current_setting('application_name'), current_setting('client_encoding')") == [
                ('it\'s "two"\\', "LATIN1")
            ]
            assert three.rows(
                "select current_setting('application_name'), date '2020-02-01', current_setting('timezone')"
            ) == [("", "2020-02-01", "UTC")]
        one.query("set application_name to 'renamed'")
        assert three.value("show application_name") == ""
        assert one.value("show application_name") == "renamed"


@pytest.mark.beyond_pgbouncer
def test_any_startup_parameter(pg15, make_pooler):
    """Startup parameters that are not reported, and options=-c, hold on whichever server is next."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "ignore_startup_parameters": None})
    with (
        pooler.connect(options={"search_path": "alice, public", "work_mem": "7MB"}) as one,
        pooler.connect(options={"options": "-c statement_timeout=12345 -c search_path=bob"}) as two,
        pooler.connect() as three,
    ):
        for _ in range(2):
            assert one.rows("select current_setting('search_path'), current_setting('work_mem')") == [
                ("alice, public", "7MB")
            ]
            assert two.rows("select current_setting('search_path'), current_setting('statement_timeout')") == [
                ("bob", "12345ms")
            ]
            assert three.rows(
                "select current_setting('search_path'), current_setting('work_mem'), current_setting('statement_timeout')"
            ) == [('"$user", public', "4MB", "0")]


def test_nothing_is_lost_in_a_crowd(pg15, make_pooler):
    """More clients than servers by far, all of them answered, each with its own answer; then all servers idle."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 4, "max_client_conn": 150})
    failures = []

    def live(number):
        try:
            with pooler.connect(timeout=30) as c:
                for i in range(40):
                    assert c.value(f"select {number * 1000 + i}") == str(number * 1000 + i)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=live, args=(n,)) for n in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0)
    assert 1 <= backends(pg15) <= 4
    holds(lambda: pooler.pool()["sv_login"] == "0", 0.3)
