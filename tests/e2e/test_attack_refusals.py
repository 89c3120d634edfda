"""Attacks on what an error proves: a part of the text has run although PostgreSQL's error looks as if none had.

PostgreSQL tells a syntax error in the body of a function as one of the Query; EXECUTE computes its arguments before its
statement is analysed again; a constant that becomes a value of a domain runs its CHECK during analysis.
"""

import pytest

from harness import wire
from harness.attacks import looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create function rf_leak(text) returns boolean language plpgsql
    as $$begin perform set_config('rf' || '.x', 'attacker', false); perform setseed(0.5); return true; end$$;
create domain rf_checked as text check (rf_leak(value));
create type rf_row as (a rf_checked);
create table rf_t (a int);
"""

CUSTOM = "select coalesce(current_setting('rf.x', true), '')"
SET = "select set_config('rf' || '.x', 'attacker', false), setseed(0.5)"
ARGUMENT = "(set_config('rf' || '.x', 'attacker', false) || setseed(0.5)::text)"
GONE = ["create table if not exists rf_gone (a int)", "prepare p(text) as select $1, a from rf_gone", "drop table rf_gone"]

# Queries in a row. The last one fails, and its beginning has run; the last field is its SQLSTATE.
ATTACKS = {
    "do": ([f"{SET}; commit; do $$begin selct 1; end$$"], "42601"),
    "function": ([f"begin; {SET}; commit; create function rf_bad() returns int language sql as 'selct 1'"], "42601"),
    "procedure": ([f"{SET}; commit; create procedure rf_bad() language plpgsql as 'begin selct 1; end'"], "42601"),
    "execute": ([*GONE, f"execute p({ARGUMENT})"], "42P01"),
    "explain": ([*GONE, f"explain analyze execute p({ARGUMENT})"], "42P01"),
    "create": ([*GONE, f"create table rf_made as execute p({ARGUMENT})"], "42P01"),
    "long": ([f"{SET}; commit; select nosuch, $$" + "x" * 70_000 + "$$"], "42703"),
    "array": (["select '{y}'::rf_checked[], nosuch"], "42703"),
    "row": (["select '(y)'::rf_row, nosuch(1)"], "42883"),
}

SEEDED = "select setseed(0.5)"


@pytest.fixture(scope="module")
def prepared(pg):
    pg.psql("drop database if exists rf with (force)")
    pg.psql("create database rf")
    pg.psql(SCHEMA, dbname="rf")
    yield pg
    pg.psql("drop database rf with (force)")


def connect(pooler):
    return pooler.connect(user="postgres", database="rf")


def predicted(cluster) -> str:
    """What random() gives first after the attackers' seed."""
    with wire.Connection(host=cluster.host, port=cluster.port, user="postgres", database="rf") as direct:
        direct.query(SEEDED)
        return direct.value("select random()")


def fails(client, text: str, code: str) -> None:
    error = wire.first_error(client.query(text))
    assert error and error.fields['C'] == code, error and error.fields


@pytest.mark.parametrize("name", ATTACKS)
def test_what_ran_before_the_error_is_not_forgotten(prepared, make_pooler, name):
    texts, code = ATTACKS[name]
    with wire.Connection(host=prepared.host, port=prepared.port, user="postgres", database="rf") as direct:
        attack(direct, texts, code)
        direct.query("rollback")
        # A transaction that fails takes the setting back, but not the seed.
        assert direct.value("select random()") == predicted(prepared), "the attack needs the seed"
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        attack(attacker, texts, code)
        with connect(pooler) as victim:
            looks_fresh(victim, {CUSTOM: ""})
        with connect(pooler) as victim:
            try:
                assert victim.value("select random()") != predicted(prepared)
            except wire.Closed:
                pass
    next_one_finds(lambda: connect(pooler), {CUSTOM: ""})
    with connect(pooler) as victim:
        assert victim.value("select random()") != predicted(prepared)


def attack(client, texts, code) -> None:
    for text in texts[:-1]:
        error = wire.first_error(client.query(text))
        assert not error, error and error.fields
    fails(client, texts[-1], code)


def test_a_double_byte_text_is_not_believed_to_have_been_refused(prepared, make_pooler):
    """A text that is not read may have more than one statement."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        assert not wire.first_error(attacker.query("set client_encoding = 'SJIS'"))
        attacker.send(wire.query(f"{SET}; commit; select nosuch".encode() + b" /* \x83\x5c */"))
        assert wire.first_error(attacker.read_ready()).fields['C'] == "42703"
        with connect(pooler) as victim:
            looks_fresh(victim, {CUSTOM: ""})
    next_one_finds(lambda: connect(pooler), {CUSTOM: ""})


@pytest.mark.parametrize("text", [
    "slect 1", "ping", "select nosuch(1)", "select nosuch('x')", "/* app */ select nosuch(a) from rf_t", "select * from nosuch(1)",
    "do $$begin selct 1; end$$", "explain select nosuch(1)"])
def test_a_mistake_keeps_no_server(prepared, make_pooler, text):
    """In a database whose types run nothing."""
    prepared.psql("drop database if exists rf_plain with (force)")
    prepared.psql("create database rf_plain")
    prepared.psql("create table rf_t (a int)", dbname="rf_plain")
    pooler = one_server(make_pooler, prepared)
    with pooler.connect(user="postgres", database="rf_plain") as careless:
        assert wire.first_error(careless.query(text)).fields['C'].startswith("42")
        with pooler.connect(user="postgres", database="rf_plain") as other:
            assert other.value("select 1") == "1"
    assert not pooler.console("show pins")
    prepared.psql("drop database rf_plain with (force)")
