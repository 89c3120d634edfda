"""Attacks by code that reaches a session in a way that no text shows: a table gets the code of another one, a function that
is new is called where an alias could stand, a check of an index computes its expressions.

Every attack runs against a pool of one server, whose pooler has read the catalog before. The victim must find nothing of
what the code has left in the session.
"""

import time

import pytest

from harness import wire
from harness.attacks import looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
FRESH = {"select coalesce(current_setting('am.x', true), '')": "", "show search_path": '"$user", public', LOCKS: "0"}

LEAK = """begin perform set_config('am' || '.x', 'attacker', false); perform set_config('search_path', 'leaked', false);
    perform pg_advisory_lock(7); return true; end"""

SCHEMA = f"""
create function am_sets() returns bool language plpgsql as $${LEAK}$$;
create domain am_domain as text check (public.am_sets());
create table am_source (a am_domain);
create function am_fires() returns trigger language plpgsql as $$begin perform public.am_sets(); return new; end$$;
create table am_fired (a text);
create trigger am_trigger before insert on am_fired for each row execute function am_fires();
create function am_renames() returns void language plpgsql as $$begin alter table am_fired rename to am_quiet; end$$;
create function am_likes() returns void language plpgsql as $$begin create table am_quiet (like am_source); end$$;
create function am_computes(name text) returns void language plpgsql
    as $$begin execute format('create table am_quiet (like %I)', name); end$$;
create function am_selects() returns void language sql as 'select a into am_quiet from am_source where false';
create table am_parent (a text) partition by list (a);
create trigger am_parent_trigger before insert on am_parent for each row execute function am_fires();
create function am_attaches() returns void language plpgsql
    as $$begin alter table am_parent attach partition am_quiet for values in ('x'); end$$;
create function am_rows() returns setof am_source language sql as 'select * from am_source';
"""

# What gives am_quiet the code of another table.
MOVES = {
    "select-into": ["select a into am_quiet from am_source where false"],
    "select-into-of-a-function": ["select * into am_quiet from am_rows() where false"],
    "explain-select-into": ["explain analyze select a into am_quiet from am_source where false"],
    "create-table-as": ["create table am_quiet as select a from am_source where false"],
    "execute": ["prepare p as select a from am_source where false", "create table am_quiet as execute p"],
    "explain-execute": ["prepare p as select a from am_source where false",
                        "explain analyze create table am_quiet as execute p"],
    "rename-in-a-function": ["select am_renames()"],
    "attach-in-a-function": ["create table am_quiet (a text)", "select am_attaches()"],
    "like-in-a-function": ["select am_likes()"],
    "like-in-dynamic-sql": ["select am_computes('am_source')"],
    "select-into-in-a-function": ["select am_selects()"],
}


@pytest.fixture
def database(pg):
    """The cluster with a new database."""
    pg.psql("create database am")
    yield pg
    pg.psql("drop database am with (force)")


def connect(pooler):
    return pooler.connect(user="postgres", database="am")


def has_read(pooler) -> None:
    """Lets the pooler read the catalog."""
    with connect(pooler) as client:
        client.query("select 1")
    time.sleep(0.6)


def run(client, text: str) -> None:
    error = wire.first_error(client.query(text))
    assert not error, (text, error.fields)


def victims_find_nothing(pooler, attacker) -> None:
    """Neither while the attacker is there nor after it has left."""
    with connect(pooler) as victim:
        looks_fresh(victim, FRESH)
    attacker.close()
    next_one_finds(lambda: connect(pooler), FRESH)


@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES)
def test_a_table_gets_code_from_another_one(database, make_pooler, moves):
    """Nothing of the text of the INSERT was known to run code when the catalog was read."""
    database.psql(SCHEMA, dbname="am")
    pooler = one_server(make_pooler, database)
    has_read(pooler)
    with connect(pooler) as client:
        for text in moves:
            run(client, text)
    insert_into_moved(pooler)


def test_a_table_gets_the_type_of_a_parameter(database, make_pooler):
    """The text mentions nothing; the Parse gives the type."""
    database.psql(SCHEMA, dbname="am")
    pooler = one_server(make_pooler, database)
    has_read(pooler)
    oid = int(database.psql("select 'am_domain'::regtype::oid", dbname="am"))
    with connect(pooler) as client:
        text = "create table public.am_quiet as select $1 as a where false"
        client.send(wire.parse("", text, [oid]), wire.bind(values=[b"x"]), wire.execute(), wire.sync())
        assert not wire.first_error(client.read_ready())
    insert_into_moved(pooler)


def insert_into_moved(pooler) -> None:
    # The catalog is read behind the definition, if the pooler knows that it must be.
    time.sleep(0.3)
    has_read(pooler)
    attacker = connect(pooler)
    run(attacker, "insert into am_quiet values ('x')")
    assert attacker.value("select current_setting('am.x', true)") == "attacker", "the attack needs its effect"
    victims_find_nothing(pooler, attacker)


@pytest.mark.parametrize("text", [
    "select distinct on (a) am_leak(a) from am_t",
    "select 1 operator(pg_catalog.+) am_leak(2)",
    "create table am_x as select t.* from am_t t join am_t u on am_leak(t.a) = u.a",
    "create view am_v as select 1; select * from am_t t join am_t u on am_leak(t.a) = u.a",
])
def test_a_new_function_is_called_where_a_name_could_stand(database, make_pooler, text):
    """The function was made after the catalog had been read, and not through the pooler."""
    database.psql("create table am_t (a int); insert into am_t values (1), (2)", dbname="am")
    pooler = one_server(make_pooler, database)
    has_read(pooler)
    leak = LEAK.replace("return true", "return $1")
    database.psql(f"create function am_leak(int) returns int language plpgsql as $${leak}$$", dbname="am")
    attacker = connect(pooler)
    run(attacker, text)
    assert attacker.value("select current_setting('am.x', true)") == "attacker", "the attack needs its effect"
    victims_find_nothing(pooler, attacker)


@pytest.mark.parametrize("text", [
    "select bt_index_check(indexrelid, true) from pg_index where indrelid >= 16384 and indexprs is not null",
    "select bt_index_parent_check(indexrelid, true) from pg_index where indrelid >= 16384 and indexprs is not null",
    "select dblink_build_sql_insert(relname, '1', 1::int2, array['1'], array['2']) from pg_class where relkind = 'v' "
    "and relnamespace = 'public'::regnamespace",
])
def test_an_extension_runs_the_code_of_what_a_value_names(database, make_pooler, text):
    leak = LEAK.replace("return true", "return $1")
    database.psql(f"""create extension amcheck; create extension dblink;
        create function am_leak(int) returns int immutable language plpgsql as $${leak}$$;
        create table am_t (a int); insert into am_t values (1);
        create view am_view as select am_leak(a) as b from am_t;
        create index am_index on am_t (am_leak(a))""", dbname="am")
    pooler = one_server(make_pooler, database)
    has_read(pooler)
    attacker = connect(pooler)
    attacker.query(text)
    assert attacker.value(LOCKS) != "0", "the attack needs its effect"
    victims_find_nothing(pooler, attacker)
