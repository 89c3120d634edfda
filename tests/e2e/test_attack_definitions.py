"""Attacks by definitions: a function is replaced while another client's text runs that calls it, and in ways that hide
when the definition is committed.

The new function sets what a probe shows (work_mem, an advisory lock) and what no probe shows (a setting of a computed
name). Whoever gets the server next must find nothing of it.
"""

import contextlib
import threading
import time

import pytest
from test_attack_catalog import LOCKS

from harness import wire
from harness.attacks import database, looks_fresh
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

HEAD = "create or replace function ad_f() returns int language plpgsql as "
CLEAN = HEAD + "$f$begin return 1; end$f$"
DIRTY = HEAD + ("$f$begin execute 's' || 'et ad.x = ''attacker'''; perform set_config('work_mem', '77MB', false); "
                "perform pg_advisory_lock(77); insert into ad_ran values (1); return 2; end$f$")

# A lock on a table makes a session notice what others have committed.
CALL = "select ad_f() from ad_one"

SCHEMA = f"""
create table ad_ran (a int);
create table ad_one as select 1;
{CLEAN};
create function ad_later() returns int language plpgsql
    as $f$begin perform pg_sleep(0.8); return (select ad_f() from ad_one); end$f$;
"""

FRESH = {"select coalesce(current_setting('ad.x', true), '')": "", "show work_mem": "4MB", LOCKS: "0"}


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with a database that has the function."""
    with database(pg, "ad", SCHEMA) as cluster:
        yield cluster


@pytest.fixture
def pooler(prepared, make_pooler):
    """A pooler with two servers that has read the catalog."""
    prepared.psql(f"truncate ad_ran; {CLEAN}", dbname="ad")
    port = prepared.port
    databases = {"ad": f"host=127.0.0.1 port={port} dbname=ad", "other": f"host=localhost port={port} dbname=ad",
                 "session": f"host=localhost port={port} dbname=ad pool_mode=session"}
    made = make_pooler(prepared, mode="transaction", databases=databases,
                       settings={"default_pool_size": 2, "query_wait_timeout": 2})
    with connect(made) as client:
        eventually(lambda: client.query("select ad_f()") and not made.console("SHOW PINS"))
    return made


def connect(pooler, entry="ad"):
    return pooler.connect(user="postgres", database=entry)


def victims_find_nothing(prepared, pooler, free: int = 2) -> None:
    """On both servers, at the same time. `free` is how many of them nobody may keep; one that is replaced may log in slowly."""
    assert prepared.psql("select count(*) > 0 from ad_ran", dbname="ad") == "t", "the attack needs its effect"

    def looks() -> int:
        with connect(pooler) as one, connect(pooler) as two:
            for victim in (one, two):
                with contextlib.suppress(wire.Closed):
                    victim.query("begin")
            return sum(looks_fresh(victim, FRESH) for victim in (one, two))

    eventually(lambda: looks() >= free, timeout=15, what="servers for the victims")


def runs(client, text):
    """The text in a thread; returns what ends it."""
    thread = threading.Thread(target=client.query, args=(text,))
    thread.start()
    time.sleep(0.3)
    return thread.join


@pytest.mark.parametrize("text", [f"select pg_sleep(0.8); {CALL}", "select ad_later()"])
@pytest.mark.parametrize("definition", [DIRTY, f"begin; {DIRTY}; commit; select pg_sleep(1)", f"begin; {DIRTY}; commit"])
def test_code_is_replaced_while_a_text_runs_that_calls_it(prepared, pooler, text, definition):
    with connect(pooler) as caller, connect(pooler) as maker:
        ends = runs(caller, text)
        maker.query(definition)
        ends()
    victims_find_nothing(prepared, pooler)


def test_code_is_put_back_before_anybody_looks(prepared, pooler):
    with connect(pooler) as caller, connect(pooler) as maker:
        ends = runs(caller, f"select pg_sleep(0.6); {CALL}; select pg_sleep(0.6)")
        maker.query(DIRTY)
        time.sleep(0.6)
        maker.query(CLEAN)
        ends()
    victims_find_nothing(prepared, pooler)


def by_portal(client, between=wire.sync):
    """COMMIT was bound before there was anything to commit."""
    client.query("begin")
    client.send(wire.parse("", "commit and chain"), wire.bind("p"), wire.sync())
    client.read_ready()
    client.query(DIRTY)
    client.send(wire.execute("p"), between())
    client.read_until("C")


def by_portal_without_sync(client):
    by_portal(client, between=wire.flush)


def by_late_execute(client):
    """COMMIT is bound, the catalog is read, and then it runs."""
    client.query("begin")
    client.query(DIRTY)
    client.send(wire.parse("", "commit"), wire.bind(), wire.sync())
    client.read_ready()
    time.sleep(0.7)
    client.send(wire.execute(), wire.flush())
    client.read_until("C")


def by_half_characters(client):
    client.query("set client_encoding = 'SJIS'")
    client.query("begin")
    client.query(DIRTY)
    client.query(b"commit and chain --\x95\x5c")


def by_statement(client):
    client.send(wire.parse("s", DIRTY), wire.sync())
    client.read_ready()
    time.sleep(0.5)
    client.send(wire.bind(statement="s"), wire.execute(), wire.sync())
    client.read_ready()


WAYS = [by_portal, by_portal_without_sync, by_late_execute, by_half_characters, by_statement]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("entry", ["ad", "other", "session"])
def test_a_definition_is_noticed_however_it_is_committed(prepared, pooler, way, entry):
    with connect(pooler, entry) as maker, connect(pooler) as caller:
        way(maker)
        # Whatever the reading tells: the caller's session is its own.
        assert caller.value("select ad_f()") == "2"
        maker.close()
        victims_find_nothing(prepared, pooler, free=1)
        assert caller.value("select coalesce(current_setting('ad.x', true), '-')") in ("attacker", "-", "")
    victims_find_nothing(prepared, pooler)


def test_two_entries_are_known_for_one_database_whatever_the_reader_has_set(prepared, pooler):
    """Guards against an identity of the database that is written as the session of the catalog's reader writes numbers."""
    with connect(pooler, "other") as maker, connect(pooler) as caller:
        assert maker.value("select ad_f()") == caller.value("select ad_f()") == "1"
        # Catalogs are read again for an unknown function if they are older than five seconds.
        time.sleep(5.5)
        assert not wire.first_error(maker.query("set extra_float_digits = -15"))
        assert wire.first_error(maker.query("select nosuch(1)"))
        time.sleep(1)
        assert not wire.first_error(maker.query(DIRTY))
        assert caller.value("select ad_f()") == "2"
    victims_find_nothing(prepared, pooler)


def test_clients_that_call_functions_go_on_while_others_make_some(prepared, pooler):
    """A definition, or one that is refused, takes no server from those who call what was known before."""
    stop = threading.Event()
    done, failures = [], []

    def calls(number):
        with connect(pooler) as client:
            client.query(f"set work_mem = '{number}MB'")
            while not stop.is_set():
                got = (client.value("select ad_f()"), client.value("show work_mem"))
                if got != ("1", f"{number}MB"):
                    failures.append(got)
                done.append(number)

    threads = [threading.Thread(target=calls, args=(n,)) for n in range(11, 17)]
    for thread in threads:
        thread.start()
    try:
        with connect(pooler) as maker, pooler.connect(user="alice", database="ad") as nobody:
            for n in range(10):
                maker.query(f"create or replace function ad_other() returns int language sql as 'select {n}'")
                assert wire.first_error(nobody.query("create view ad_view as select ad_f()"))
                time.sleep(0.1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:3]
    assert set(done) == set(range(11, 17))
    eventually(lambda: not pooler.console("SHOW PINS"))
