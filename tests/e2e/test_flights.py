"""Flights: short transactions of several clients outstanding on one server.

Every value that a client reads bears its own number, so that one which gets another's reply knows it. With
`link = adversarial` every class of statements counts as short, so that all that may share a server does.
"""

import random
import re
import subprocess
import threading
import time

import pytest
from pgthrow import client_program

from harness import wire
from harness.waiting import eventually
from harness.wire import Closed, ServerError, error_codes, rows_of

CLIENTS = 12
SHARED = {"default_pool_size": 1, "pipeline_depth": 16, "link": "adversarial"}
# Each read keeps its server at work for this long, so that other clients wait meanwhile.
SLEEPS = "where pg_sleep(0.0005) is not null"
# Where pgbench loads one server.
AUTO = {"default_pool_size": 2, "pipeline_depth": "auto"}


def shared(pooler) -> int:
    """How many flights were sent to a server behind others'."""
    counts = {row["name"]: int(row["count"]) for row in pooler.console("SHOW STATE_STATS")}
    return counts["flights_shared"]


def bound(statement, value) -> tuple[bytes, ...]:
    return (wire.bind("", statement, (value,)), wire.execute(), wire.sync())


def one_read(c, number, step, rng) -> None:
    """A transaction that reads, in one of the forms that clients send; its reply is this client's own."""
    mark = f"client{number}step{step}"
    form = rng.randrange(5)
    if form == 0:
        c.send(wire.query(f"select '{mark}' {SLEEPS}"))
    elif form == 1:
        c.send(wire.parse("", f"select $1::text {SLEEPS}"), *bound("", mark))
    elif form == 2:
        c.send(*bound("own", mark))
    elif form == 3:
        c.send(wire.query(f"select '{mark}', 1/0"))
        assert error_codes(c.read_ready()) == ["22012"]
        return
    else:
        c.send(wire.query(f"select '{mark}' {SLEEPS}"), wire.query(f"select '{mark}'"))
        assert rows_of(c.read_ready()) == [(mark,)]
    messages = c.read_ready()
    assert rows_of(messages) == [(mark,)], messages


def in_threads(work, count=CLIENTS) -> None:
    """Runs `work(number)` in threads; the first failure is this one's."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def prepares(c) -> None:
    """Prepares `own`, and is told what it returns."""
    c.send(wire.parse("own", f"select $1::text {SLEEPS}"), wire.describe("S", "own"), wire.sync())
    assert error_codes(c.read_ready()) == []


def reads(pooler, number, steps) -> None:
    """A client that only reads, so many times."""
    rng = random.Random(number)
    with pooler.connect() as c:
        prepares(c)
        for step in range(steps):
            one_read(c, number, step, rng)


@pytest.mark.parametrize("mode", ("transaction", "statement"))
def test_each_client_gets_its_own_replies(pg, make_pooler, mode):
    """Simple, extended and prepared reads of many clients on one server, with errors among them."""
    pooler = make_pooler(pg, mode=mode, settings=SHARED)
    in_threads(lambda number: reads(pooler, number, 150))
    assert shared(pooler) > 100
    assert pooler.pool()["cl_active"] == "0"


def test_nobody_feels_the_cancels_of_others(pg, make_pooler):
    """Half of the clients cancel at random and vanish at random; the others get all of their rows and no error."""
    pooler = make_pooler(pg, settings=SHARED)
    over = threading.Event()

    def disturbs(number):
        rng = random.Random(number)
        while not over.is_set():
            c = pooler.connect()
            try:
                for step in range(20):
                    c.send(wire.query(f"select '{step}', count(*) from generate_series(1, {rng.choice((10, 200_000))})"))
                    if rng.random() < 0.5:
                        c.cancel()
                    if rng.random() < 0.1:
                        break
                    assert set(error_codes(c.read_ready())) <= {"57014"}
            finally:
                c.drop()

    def work(number):
        if number % 2 == 0:
            return disturbs(number)
        try:
            reads(pooler, number, 150)
        finally:
            finished.append(number)
            if len(finished) == CLIENTS // 2:
                over.set()

    finished = []
    in_threads(work)
    assert shared(pooler) > 100
    with pooler.connect() as c:
        assert c.value("select 'after'") == "after"


def test_a_terminated_server_costs_one_client(pg, make_pooler):
    """pg_terminate_backend() while many share a server: who was being served hears of it, the others go on elsewhere."""
    pooler = make_pooler(pg, settings=SHARED)
    lost = []

    def work(number):
        rng = random.Random(number)
        c = pooler.connect()
        prepares(c)
        for step in range(200):
            try:
                one_read(c, number, step, rng)
            except (Closed, ServerError, ConnectionError, AssertionError) as failure:
                if isinstance(failure, AssertionError) and "57P01" not in str(failure):
                    raise
                lost.append(number)
                c.drop()
                c = pooler.connect()
                prepares(c)
            if number == 0 and step % 50 == 25:
                pg.psql(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where backend_type = 'client backend' and pid <> pg_backend_pid()"
                )
        c.close()

    in_threads(work)
    assert shared(pooler) > 100
    assert len(lost) <= 4, f"{len(lost)} clients were cut off by four terminated servers"


def test_writers_among_readers_lose_nothing(pg15, make_pooler):
    """Transactions of several statements beside flights: each sum is what its client has added."""
    pg15.psql("drop table if exists sums; create table sums (client int primary key, total int)")
    pooler = make_pooler(pg15, settings=SHARED)

    def work(number):
        rng = random.Random(number)
        with pooler.connect() as c:
            prepares(c)
            c.query(f"insert into sums values ({number}, 0)")
            for step in range(60):
                if rng.random() < 0.3:
                    c.query("begin")
                    c.query(f"update sums set total = total + 1 where client = {number}")
                    c.query(f"update sums set total = total + 1 where client = {number}")
                    c.query("commit" if step % 2 else "rollback")
                else:
                    one_read(c, number, step, rng)
                expected[number] = expected.get(number, 0)
            expected[number] = int(c.value(f"select total from sums where client = {number}"))
            assert expected[number] % 2 == 0

    expected = {}
    in_threads(work)
    rows = pg15.psql("select client || ' ' || total from sums order by client").split("\n")
    assert [row.split(" ") for row in rows] == [[str(n), str(expected[n])] for n in range(CLIENTS)]
    assert shared(pooler) > 50


@pytest.mark.parametrize("protocol", ("simple", "extended", "prepared"))
def test_pgbench_shares_servers_by_itself(pg15, make_pooler, protocol):
    """pipeline_depth = auto: the class of pgbench's statement is found to be short, and its clients share servers."""
    pg15.psql("drop database if exists flights")
    pg15.psql("create database flights")
    pooler = make_pooler(pg15, settings=AUTO)
    pgbench = [client_program("pgbench"), "-h", pooler.host, "-p", str(pooler.port), "-U", "postgres"]
    subprocess.run([*pgbench, "-i", "-q", "flights"], check=True, capture_output=True)
    began = time.monotonic()
    while shared(pooler) == 0:
        assert time.monotonic() - began < 60, "no two clients have shared a server"
        done = subprocess.run(
            [*pgbench, "-n", "-S", "-M", protocol, "-c", "24", "-t", "500", "flights"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert re.search(r"number of failed transactions: 0 ", done.stdout), done.stdout


def test_reload_switches_it_off(pg15, make_pooler):
    """pipeline_depth = 1 by RELOAD: what is under way ends, and nobody shares any more."""
    pooler = make_pooler(pg15, settings=SHARED)
    in_threads(lambda number: reads(pooler, number, 60))
    assert shared(pooler) > 0
    pooler.console("SET pipeline_depth = 1")
    eventually(lambda: pooler.pool()["cl_active"] == "0")
    before = shared(pooler)
    in_threads(lambda number: reads(pooler, number, 60))
    assert shared(pooler) == before


CODE = """
create or replace function fl_path() returns text language sql as $$select set_config('search_path', 'evil', false)$$;
create or replace function fl_lock() returns text language sql as $$select pg_advisory_lock(77)::text$$;
create or replace view fl_paths as select fl_path() as x;
create or replace view fl_locks as select fl_lock() as x;
"""
HELD = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"


@pytest.mark.parametrize("form", ("simple", "unnamed", "prepared"))
@pytest.mark.parametrize("view", ("fl_paths", "fl_locks"))
def test_code_that_waits_first_reaches_nobody_else(pg15, make_pooler, form, view):
    """The first waiting client reads a view that changes the session: the next client gets a session without that."""
    pg15.psql(CODE)
    pooler = make_pooler(pg15, settings=SHARED)
    text = f"select x from public.{view}"
    with pooler.connect() as x, pooler.connect() as a, pooler.connect() as b:
        a.send(wire.parse("own", text), wire.describe("S", "own"), wire.sync())
        assert error_codes(a.read_ready()) == []
        eventually(lambda: a.value("select 1") == "1" and not pooler.console("SHOW PINS"))
        x.send(wire.query("select pg_sleep(0.5)"))
        eventually(lambda: pooler.pool()["sv_active"] == "1")
        portal = (wire.execute(), wire.sync())
        a.send(*{
            "simple": (wire.query(text),),
            "unnamed": (wire.parse("", text), wire.bind("", ""), *portal),
            "prepared": (wire.bind("", "own"), *portal),
        }[form])
        assert error_codes(a.read_ready()) == []
        x.read_ready()
        # If it holds a lock, it keeps the only server until it leaves.
        if view == "fl_locks":
            assert a.value(HELD) == "1"
            a.close()
        assert b.value("show search_path") == '"$user", public'
        assert b.value(HELD) == "0"


@pytest.mark.parametrize("ends", ("transaction_timeout", "kill_client", "vanishes", "terminates"))
def test_a_client_that_ends_in_front_costs_the_others_nothing(pg15, make_pooler, ends):
    """The front waits for a lock, and its client goes: those behind it get their rows."""
    pg15.psql("drop table if exists fl_locked; create table fl_locked as select 1 as a")
    settings = SHARED | {"transaction_timeout": 1 if ends == "transaction_timeout" else 0}
    pooler = make_pooler(pg15, settings=settings)
    with pooler.connect() as x, pooler.connect() as a, pooler.connect() as b, wire.Connection(port=pg15.port) as holder:
        front = pooler.connect()
        holder.query("begin; lock table fl_locked in access exclusive mode")
        x.send(wire.query("select pg_sleep(0.8)"))
        time.sleep(0.1)
        front.send(wire.query("select a from fl_locked"))
        time.sleep(0.1)
        for c in (a, b):
            c.send(wire.query("select 'behind'"))
        x.read_ready()
        time.sleep(0.3)
        if ends == "kill_client":
            rows = pooler.console("SHOW CLIENTS")
            port = str(front.socket.getsockname()[1])
            pooler.console("KILL_CLIENT " + next(row["id"] for row in rows if row["port"] == port))
        if ends == "terminates":
            front.close()
        elif ends != "transaction_timeout":
            front.drop()
        for c in (a, b):
            assert rows_of(c.read_ready()) == [("behind",)]
        holder.query("rollback")


# It takes less than the second after which the pooler cancels what stands in front of others and has no client.
PAYS = """
drop table if exists fl_paid cascade; create table fl_paid (n int);
create or replace function fl_pay() returns int language sql as
    $$ insert into fl_paid values (1); select pg_sleep(0.7); select 1 $$;
create or replace view fl_pays as select fl_pay() as n
"""


@pytest.mark.parametrize("form", ("query", "extended"))
def test_a_cancel_of_who_stands_behind_others_undoes_what_its_statement_does(pg15, make_pooler, form):
    """57014 means that the statement had no effect: PostgreSQL must have said so."""
    pg15.psql(PAYS)
    pooler = make_pooler(pg15, settings=SHARED)
    text = "select n from fl_pays"
    with pooler.connect() as x, pooler.connect() as front, pooler.connect() as a, pooler.connect() as b:
        x.query("select 1")
        x.send(wire.query("select pg_sleep(1)"))
        time.sleep(0.1)
        front.send(wire.query("select pg_sleep(2.5)"))
        time.sleep(0.1)
        a.send(wire.query(text) if form == "query" else wire.one_statement(text) + wire.sync())
        time.sleep(0.1)
        b.send(wire.query("select 'behind'"))
        x.read_ready()
        time.sleep(0.2)
        assert shared(pooler) == 2
        a.cancel()
        front.read_ready()
        assert error_codes(a.read_ready()) == ["57014"]
        assert rows_of(b.read_ready()) == [("behind",)]
        assert a.value("select 'after'") == "after"
    assert pg15.psql("select count(*) from fl_paid") == "0"
    pg15.psql("drop view fl_pays; drop function fl_pay(); drop table fl_paid")


TRAPS = """
create or replace function fl_trap() returns text language plpgsql as
    $$ begin return 'fine'; exception when {condition} then return 'cancelled by another'; end $$;
create or replace view fl_trapped as select fl_trap() as t
"""


@pytest.mark.parametrize(
    "condition, flies", [("query_canceled", 0), ("sqlstate '57000'", 0), ("division_by_zero or others", 1)]
)
def test_code_that_traps_a_cancel_stands_behind_nobody(pg15, make_pooler, condition, flies):
    """The cancel of the client in front may come late, and nothing would show that it changed the result."""
    pg15.psql(TRAPS.format(condition=condition))
    pooler = make_pooler(pg15, settings=SHARED)
    with pooler.connect() as x, pooler.connect() as front, pooler.connect() as a:
        x.query("select 1")
        x.send(wire.query("select pg_sleep(0.6)"))
        time.sleep(0.1)
        front.send(wire.query("select pg_sleep(0.8)"))
        time.sleep(0.1)
        a.send(wire.query("select t from fl_trapped"))
        x.read_ready()
        front.read_ready()
        assert rows_of(a.read_ready()) == [("fine",)]
        assert shared(pooler) == flies
    pg15.psql("drop view fl_trapped; drop function fl_trap()")
