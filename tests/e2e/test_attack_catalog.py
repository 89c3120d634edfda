"""Attacks by objects that run code without being functions: what the catalog tells about them must be read.

No text of these attacks shows what it does. Each attack must first be able to hurt: attacker and victim have the same server.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind
from harness.running_objects import CASES, FUNCTIONS
from harness.wire import rows_of

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create sequence ac_drawn;
create function ac_last() returns bigint language sql as $$select currval('ac_drawn')$$;
create function ac_inserts() returns bigint language plpgsql
    as $$begin insert into ac_log values (1); return currval('ac_drawn'); end$$;
create function ac_fired() returns trigger language plpgsql
    as $$begin new.a := currval('ac_drawn'); return new; end$$;
create table ac_log (a int);
create table ac_default (a bigint default currval('ac_drawn'), b int);
create table ac_trigger (a bigint, b int);
create trigger ac_fires before insert on ac_trigger for each row execute function ac_fired();
create table ac_rule (b int);
create rule ac_rules as on insert to ac_rule do instead insert into ac_log select currval('ac_drawn');
create domain ac_checked as bigint check (value < currval('ac_drawn') + 1000000);
create view ac_view as select currval('ac_drawn') as a;
create view ac_lastval as select lastval() as a;
create view ac_outer as select a from ac_lastval;

create domain ac_domain as text check (set_config('ac' || '.x', 'attacker', false) is not null);
create domain ac_inner as ac_domain;
create type ac_pair as (a ac_domain, b int);
create table ac_plain (a text);
insert into ac_plain values ('x');
create function ac_argument(ac_domain) returns int language plpgsql as 'begin return 1; end';
create function ac_array(ac_domain[]) returns int language plpgsql as 'begin return 1; end';
create function ac_result() returns ac_domain language plpgsql as $$begin return 'x'; end$$;
create view ac_cast as select length((a::ac_domain)::text) as l from ac_plain;
create table ac_nested (a ac_inner);
create table ac_typed (a ac_pair[]);
create table ac_analyzed (a int);
insert into ac_analyzed select generate_series(1, 500);
create statistics ac_statistics on (pg_try_advisory_lock(5)), (a + 1) from ac_analyzed;
create view ac_settings as select * from pg_settings;
create view ac_settings_outer as select * from ac_settings;
create function ac_updates(v text) returns void
    begin atomic update pg_settings set setting = v where name = 'work_mem'; end;

create function ac_makes() returns void language plpgsql set search_path = pg_temp
    as $$begin create table victims as select 'attacker'::text as v; end$$;
create function ac_makes_behind() returns void language sql set search_path = "ac_no_schema", pg_temp
    as $$create table victims as select 'attacker'::text as v$$;
create function ac_plainly() returns void language plpgsql
    as $$begin create table victims as select 'attacker'::text as v; end$$;
create function ac_calls() returns void language plpgsql set search_path = pg_temp
    as $$begin perform public.ac_plainly(); end$$;
"""

CUSTOM = "select coalesce(current_setting('ac.x', true), '')"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
FRESH = {CUSTOM: "", LOCKS: "0", "show work_mem": "4MB"}

SETS = (CUSTOM, "attacker")
TAKES_LOCK = (LOCKS, "1")

# What is done, and what the attacker finds afterwards.
ATTACKS = {
    "domain of an argument": ("select ac_argument('x')", SETS),
    "array of a domain": ("select ac_array('{x}')", SETS),
    "domain of a result": ("select ac_result()", SETS),
    "domain in a view": ("select l from ac_cast", SETS),
    "domain of a domain": ("insert into ac_nested values ('x')", SETS),
    "domain in a row type": ("insert into ac_typed values ('{\"(x,1)\"}')", SETS),
    "statistics": ("analyze ac_analyzed", TAKES_LOCK),
    "statistics of any table": ("analyze", TAKES_LOCK),
    "view of pg_settings": ("update ac_settings set setting = '77MB' where name = 'work_mem'", ("show work_mem", "77MB")),
    "view of a view of pg_settings": ("update ac_settings_outer set setting = '77MB' where name = 'work_mem'",
                                      ("show work_mem", "77MB")),
    "pg_settings in a function": ("select ac_updates('77MB')", ("show work_mem", "77MB")),
}


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with a database that has the objects of the attacks."""
    with database(pg, "ac", SCHEMA) as cluster:
        yield cluster


def connect(pooler):
    return pooler.connect(user="postgres", database="ac")


@pytest.mark.parametrize("name", ATTACKS)
def test_what_an_object_does_to_the_session_reaches_nobody_else(prepared, make_pooler, name):
    text, (question, answer) = ATTACKS[name]
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        error = wire.first_error(attacker.query(text))
        assert not error, error and error.fields
        with connect(pooler) as victim:
            looks_fresh(victim, FRESH)
        assert attacker.value(question) == answer, "the attack needs its effect"
    next_one_finds(lambda: connect(pooler), FRESH)


READS_IN_CHECK = """
create function ac_reads(text) returns bool language plpgsql set datestyle = 'iso' as $$begin return true; end$$;
create domain ac_read as text check (ac_reads(value));
create table ac_reading (a ac_read, b int);
"""


@pytest.mark.parametrize("text", ("select '{x}'::ac_read[], $1::int", "insert into ac_reading values ('x', $1::int)"))
def test_an_unnamed_statement_survives_its_own_analysis(prepared, make_pooler, text):
    """Its Parse runs a check that may set what constants are read under; it does not stand behind itself. Drivers such as lib/pq
    send Parse and Bind in two segments."""
    prepared.psql(READS_IN_CHECK, dbname="ac")
    try:
        pooler = one_server(make_pooler, prepared)
        with connect(pooler) as c:
            for _ in range(3):
                c.send(wire.parse("", text), wire.describe("S"), wire.sync())
                assert not wire.first_error(c.read_ready())
                c.send(wire.bind(values=["5"]), wire.execute(), wire.sync())
                error = wire.first_error(c.read_ready())
                assert not error, error.fields
    finally:
        prepared.psql("drop table ac_reading; drop domain ac_read; drop function ac_reads", dbname="ac")


def test_an_unnamed_statement_survives_the_doubt_about_a_catalog(prepared, make_pooler):
    """Behind a definition, before the catalog has been read again, any Parse may run code."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as c:
        for _ in range(5):
            c.query("create or replace function ac_any(text) returns text language plpgsql as $$begin return $1; end$$")
            c.send(wire.parse("", "select ac_any('x'), $1::int"), wire.describe("S"), wire.sync())
            assert not wire.first_error(c.read_ready())
            c.send(wire.bind(values=["5"]), wire.execute(), wire.sync())
            answer = c.read_ready()
            assert rows_of(answer) == [("x", "5")], wire.first_error(answer).fields
        c.query("drop function ac_any")


@pytest.fixture
def with_objects(pg, request):
    """A database of its own for one case: an operator or a cast makes every statement of its database suspect."""
    case = CASES[request.param]
    if pg.version < case.since:
        pytest.skip(f"PostgreSQL {case.since} has it")
    pg.psql("create database ac_case")
    try:
        pg.psql(FUNCTIONS + case.made_by, dbname="ac_case")
        yield pg, case
    finally:
        pg.psql("drop database ac_case with (force); drop role if exists other_role")


@pytest.mark.parametrize("with_objects", CASES, indirect=True)
def test_whatever_runs_code_is_known(with_objects, make_pooler):
    """Guards against a kind of object that runs code and that the catalog is not asked for."""
    cluster, case = with_objects
    pooler = one_server(make_pooler, cluster)
    connected = {"user": case.user, "database": "ac_case"}
    if case.before:
        with pooler.connect(**connected) as maker:
            error = wire.first_error(maker.query(case.before))
            assert not error, error.fields
        time.sleep(0.5)
        with pooler.connect(**connected) as other:
            other.value("select 1")
        time.sleep(0.5)
    with pooler.connect(**connected) as attacker:
        if "$1" in case.text:
            types = [int(cluster.psql("select 'dom'::regtype::oid", dbname="ac_case"))]
            error = wire.first_error(attacker.extended(case.text, ["x"], types))
        else:
            error = wire.first_error(attacker.query(case.text))
        assert case.fails == bool(error), error and error.fields
        with pooler.connect(**connected) as victim:
            looks_fresh(victim, {LOCKS: "0", "show work_mem": "4MB"})
        assert attacker.value(LOCKS) == "1", "the attack needs its effect"
    next_one_finds(lambda: pooler.connect(**connected), {LOCKS: "0", "show work_mem": "4MB"})


ASKING = [
    "insert into ac_default (b) values (1) returning a", "insert into ac_trigger (b) values (1) returning a",
    "insert into ac_rule values (1)", "select 1::ac_checked", "select a from ac_view", "select a from ac_lastval",
    "select a from ac_outer", "select ac_last()", "select ac_inserts()",
]


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("text", ASKING)
def test_no_object_tells_a_value_that_another_client_has_drawn(prepared, make_pooler, text, extended):
    """Guards against another client's currval() in a row of one's own: a wrong foreign key, and nobody notices."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as other, connect(pooler) as curious:
        curious.value("select 1")
        other.value("select nextval('ac_drawn')")
        assert other.value("select pg_backend_pid()") == curious.value("select pg_backend_pid()"), "one server"
        messages = curious.extended(text) if extended else curious.query(text)
        assert wire.error_codes(messages) == ["55000"], rows_of(messages)


def test_one_finds_ones_own_value_by_a_default(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as c:
        c.query("begin")
        drawn = c.value("select nextval('ac_drawn')")
        assert c.value("insert into ac_default (b) values (1) returning a") == drawn
        assert c.value("select ac_inserts()") == drawn
        c.query("commit")


def test_who_draws_and_asks_in_one_function_is_not_pinned(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as c, connect(pooler) as other:
        assert wire.error_codes(c.query("select ac_inserts()")) == ["55000"]
        assert other.value("select 1") == "1"


def test_a_default_that_asks_is_noticed_when_it_is_made(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as other, connect(pooler) as c:
        with connect(pooler) as maker:
            maker.query("drop table if exists ac_new; create table ac_new (a bigint default currval('ac_drawn'), b int)")
        c.value("select 1")
        time.sleep(1)
        c.value("select 1")
        other.value("select nextval('ac_drawn')")
        messages = c.query("insert into ac_new (b) values (1) returning a")
        assert wire.error_codes(messages) == ["55000"], rows_of(messages)


TEMPORARY = {
    "first": ("select ac_makes()", ""),
    "behind a schema that is not there": ("select ac_makes_behind()", ""),
    "by a function that it calls": ("select ac_calls()", ""),
    "of the database": ("create table victims as select 'attacker'::text as v",
                        "alter database ac set search_path = pg_temp, public"),
}


@pytest.mark.parametrize("name", TEMPORARY)
def test_tables_in_a_search_path_that_no_text_shows_are_temporary(prepared, make_pooler, name):
    """The next client's `victims` must be the lasting table, not the attacker's temporary one."""
    text, before = TEMPORARY[name]
    prepared.psql("drop table if exists victims; create table victims (v text); insert into victims values ('mine')",
                  dbname="ac")
    if before:
        prepared.psql(before)
    try:
        pooler = one_server(make_pooler, prepared)
        with connect(pooler) as attacker:
            error = wire.first_error(attacker.query(text))
            assert not error, error and error.fields
            assert attacker.value("select v from victims") == "attacker", "the attack needs a temporary table"
            with connect(pooler) as victim:
                looks_fresh(victim, {"select v from public.victims": "mine", "select v from victims": "mine"})
        with connect(pooler) as victim:
            assert victim.value("select v from victims") == "mine"
    finally:
        prepared.psql("alter database ac reset search_path")


# How a client asks for pg_temp: at login, and later. PostgreSQL folds names without quotes.
PATHS = {
    "at login": ({"search_path": "PG_TEMP,public"}, "select 1"),
    "set_config": ({}, "select set_config('search_path', ' Pg_TEMP , public', false)"),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_path_to_temporary_objects_is_known_in_any_case(prepared, make_pooler, name):
    """The next client's `orders` must be the lasting table."""
    options, text = PATHS[name]
    prepared.psql("drop table if exists orders; create table orders (v text); insert into orders values ('mine')",
                  dbname="ac")
    pooler = one_server(make_pooler, prepared)
    with pooler.connect(user="postgres", database="ac", options=options) as attacker:
        assert not wire.first_error(attacker.query(text))
        error = wire.first_error(attacker.query("create table orders as select 'attacker'::text as v"))
        assert not error, error and error.fields
        assert attacker.value("select v from orders") == "attacker", "the attack needs a temporary table"
        with connect(pooler) as victim:
            looks_fresh(victim, {"select v from public.orders": "mine", "select v from orders": "mine"})
    with connect(pooler) as victim:
        assert victim.value("select v from orders") == "mine"


@pytest.mark.parametrize("text", [
    "alter role alice in database ac set work_mem = '9MB'", "begin; alter database ac set work_mem = '9MB'; commit",
    "do $$begin execute 'alter role alice in database ac set work_mem = 9216'; end$$"])
def test_new_clients_begin_with_the_settings_of_a_new_session(prepared, make_pooler, text):
    """Guards against a server that is older than the ALTER ROLE, and tells its old value for hours."""
    pooler = make_pooler(prepared, mode="transaction", settings={"default_pool_size": 2})
    try:
        with pooler.connect(user="alice", database="ac") as old, connect(pooler) as operator:
            assert old.value("show work_mem") == "4MB"
            backend = old.value("select pg_backend_pid()")
            assert not wire.first_error(operator.query(text))
            with pooler.connect(user="alice", database="ac") as new:
                assert new.value("show work_mem") == "9MB"
                assert new.value("select pg_backend_pid()") != backend
            assert old.value("show work_mem") == "9MB", "as in differences.md"
    finally:
        prepared.psql("alter database ac reset work_mem; alter role alice in database ac reset work_mem")


def test_nobody_has_the_servers_of_others_replaced(prepared, make_pooler):
    """Any role may change its own settings, and be refused those of others, as often as it likes."""
    pooler = make_pooler(prepared, mode="transaction", settings={"default_pool_size": 1})
    with connect(pooler) as victim, pooler.connect(user="alice", database="ac") as attacker:
        backend = victim.value("select pg_backend_pid()")
        for text, refused in [("alter role alice set work_mem = '9MB'", []), ("alter role alice reset all", []),
                               ("alter role postgres set work_mem = '9MB'", ["42501"]),
                               ("alter role all reset all", ["42501"]), ("alter database ac reset all", ["42501"])]:
            assert wire.error_codes(attacker.query(text)) == refused, text
            assert victim.value("select pg_backend_pid()") == backend, text


def test_every_column_that_may_hold_code_is_accounted_for(pg):
    """Guards against a PostgreSQL version with a new kind of stored code that nobody reads."""
    source = Path(__file__).parents[2] / "crates/core/src/statements/catalog_query.rs"
    listed = set(re.findall(r"`(pg_\w+\.\w+)`", source.read_text(encoding="utf-8")))
    found = set(pg.psql("""select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
        where a.atttypid in ('pg_node_tree'::regtype, 'regproc'::regtype) and c.oid < 16384 and c.relkind = 'r'
        and a.attnum > 0""").split())
    assert found and not found - listed


def test_views_of_postgresqls_own_run_nothing_that_matters(pg):
    """Their rules are not read, except those for writing and that of pg_prepared_statements."""
    source = Path(__file__).parents[2] / "crates/core/src/statements/catalog_query.rs"
    own = re.search(r"p\.oid < 16384 AND \((.*?) OR l\.is_later", source.read_text(encoding="utf-8"), re.S).group(1)
    own = re.sub(r"\\\n\s*", "", own).replace("\\\\", "\\")
    assert "set_config" in own
    found = pg.psql(f"""select distinct r.relname, p.proname from pg_rewrite w join pg_class r on r.oid = w.ev_class
        join pg_proc p on w.ev_action::text like '%:funcid ' || p.oid || ' %'
        where w.oid < 16384 and w.ev_type = '1' and p.oid < 16384 and ({own})""").split()
    assert "pg_prepared_statements|pg_prepared_statement" in found
    found.remove("pg_prepared_statements|pg_prepared_statement")
    assert found in ([], ["pg_stat_replication_slots|pg_stat_get_replication_slot"]), found
