"""Attacks by code that runs when a function is made: a language other than SQL and PL/pgSQL compiles the body, and so runs a
part of it. PL/Perl runs its BEGIN blocks. What they leave in the interpreter outlives the transaction.

Every attack runs against a pool of one server, whose pooler has read the catalog before.
"""

import time

import pgthrow
import pytest

from harness import wire
from harness.attacks import looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SHARED = "select coalesce(av_shared(), '')"
FRESH = {SHARED: ""}

MAKES = "create function av_new() returns int language plperl as 'BEGIN { $_SHARED{x} = \"attacker\"; } return 1;'"

ATTACKS = {
    "autocommit": [MAKES],
    "rolled back": ["begin", MAKES, "rollback"],
    "refused": [MAKES.replace("return 1;", "no perl (")],
    "procedure": [MAKES.replace("function av_new() returns int", "procedure av_new()")],
    "language in a constant": [MAKES.replace("plperl", "'plperl'")],
    "among others": [f"select 1; {MAKES}; select 2"],
    "in DO": [f"do $do$begin {MAKES}; end$do$"],
    "in a function": ["select av_makes()"],
    "in a function in SQL": ["select av_makes_in_sql()"],
    "extended": [None],
}


@pytest.fixture
def database(pg):
    """The cluster with a new database that has PL/Perl."""
    pg.psql("create database av")
    try:
        try:
            pg.psql("create extension plperl", "av")
        except pgthrow.PgThrowError:
            pytest.skip("no PL/Perl")
        pg.psql(f"""create function av_shared() returns text language plperl as 'return $_SHARED{{x}};';
            create function av_makes() returns void language plpgsql as $b$begin {MAKES}; end$b$;
            create function av_makes_in_sql() returns void language sql as $b${MAKES}$b$;""", "av")
        yield pg
    finally:
        pg.psql("drop database av with (force)")


@pytest.mark.parametrize("name", ATTACKS)
def test_a_body_that_is_compiled(database, make_pooler, name):
    """Guards against code of a body that a language runs while it checks the body."""
    pooler = one_server(make_pooler, database)

    def connect():
        return pooler.connect(user="postgres", database="av")

    with connect() as client:
        client.query("select 1")
    time.sleep(0.6)
    with connect() as attacker:
        for text in ATTACKS[name]:
            replies = attacker.query(text) if text else attacker.extended(MAKES)
            assert name == "refused" or not wire.first_error(replies), name
        with connect() as victim:
            looks_fresh(victim, FRESH)
        assert attacker.value(SHARED) == "attacker", "the attack needs its effect"
    next_one_finds(connect, FRESH)
