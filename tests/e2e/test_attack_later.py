"""Texts that run at another time than they are read: behind a Parse of an earlier transaction, at the Parse itself, or
while a long Query is still arriving.

As in test_attack_functions, every attack runs against a pool of one server.
"""

import time

import pytest
from test_attack_functions import FRESH, LOCKS, MINE, ROLE, attack, connect, looks_fresh, one_server

from harness import wire
from harness.attacks import next_one_finds
from harness.pooler import kind
from harness.wire import bind, close, describe, error_codes, execute, parse, rows_of, sync, tags

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create function al_check(text) returns bool language plpgsql as $$begin
    perform set_config('af' || '.x', 'attacker', false); perform pg_advisory_lock(77); return true; end$$;
create domain al_domain as text check (al_check(value));
create function al_lock(text) returns bool language plpgsql as $$begin
    perform pg_advisory_lock(77); return true; end$$;
create domain al_locked as text check (al_lock(value));
create type al_pair as (a al_domain, b int);
create table al_table (a al_domain[]);
create function al_takes(al_pair) returns int language sql as 'select 1';
"""

LONG = "x" * 70_000


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with what the attacks need."""
    pg.psql("create database af")
    pg.psql("create role af_other nologin; grant af_other to postgres")
    pg.psql(SCHEMA, dbname="af")
    yield pg
    pg.psql("drop database af with (force)")
    pg.psql("drop role af_other")


def ask(c, *messages):
    c.send(*messages)
    return c.read_ready()


# ---- statements that are not tracked


UNTRACKED = {
    "setting": ("select set_config('af' || '.x', 'attacker', false)", MINE),
    "role": ("set role af_other", {ROLE: "af_other"}),
    "lock": ("select pg_advisory_lock(77)", {LOCKS: "1"}),
}


@pytest.mark.parametrize("name", ["", "s"])
@pytest.mark.parametrize("what", UNTRACKED)
def test_a_statement_that_was_parsed_in_an_earlier_transaction(prepared, make_pooler, what, name):
    """With max_prepared_statements = 0 the text was judged at its Parse alone, and what it did later was not asked."""
    text, found = UNTRACKED[what]

    def act(c):
        assert not error_codes(ask(c, parse(name, text), describe("S", name), sync()))
        time.sleep(0.2)
        if error_codes(ask(c, bind("", name), execute(), sync())):
            assert not name, "the client keeps its server for a named statement"
            made.clear()

    made = dict(found)
    attack(one_server(make_pooler, prepared, max_prepared_statements=0), act, made)


def test_an_execute_of_a_statement_that_was_parsed_in_an_earlier_transaction(prepared, make_pooler):
    def act(c):
        assert not error_codes(ask(c, parse("s", UNTRACKED["setting"][0]), sync()))
        assert not error_codes(c.query("execute s"))

    attack(one_server(make_pooler, prepared, max_prepared_statements=0), act, MINE)


def test_a_driver_that_closes_what_it_parses_keeps_no_server(prepared, make_pooler):
    """The usual ways of drivers without prepared statements are no reason for a pin."""
    pooler = one_server(make_pooler, prepared, max_prepared_statements=0)
    with connect(pooler) as c, connect(pooler) as other:
        for name in ("", "s"):
            ends = [close("S", name)] if name else []
            reply = ask(c, parse(name, "select 1"), bind("", name), execute(), *ends, sync())
            assert rows_of(reply) == [("1",)]
            assert other.value("select 2") == "2", "the server is free"
            c.query("begin")
            assert not error_codes(ask(c, parse(name, "select 1"), describe("S", name), sync()))
            for _ in range(2):
                assert rows_of(ask(c, bind("", name), execute(), sync())) == [("1",)]
            assert not error_codes(ask(c, *ends, sync()))
            c.query("commit")
            assert other.value("select 2") == "2", "the server is free"


@pytest.mark.parametrize("end", ["close", "deallocate", "leave"])
def test_a_named_statement_is_its_clients_alone(prepared, make_pooler, end):
    """Its client keeps the server until the statement is gone: another client could bind it by its name."""
    pooler = one_server(make_pooler, prepared, max_prepared_statements=0)
    with connect(pooler) as other:
        with connect(pooler) as c:
            assert error_codes(ask(c, parse("s", "select 'secret'"), describe("S", "no"), sync())) == ["26000"]
            with connect(pooler) as third, pytest.raises(wire.Closed):
                third.value("select 1")
            for _ in range(2):
                assert rows_of(ask(c, bind("", "s"), execute(), sync())) == [("secret",)]
            if end == "close":
                ask(c, close("S", "s"), sync())
            elif end == "deallocate":
                c.query("deallocate s")
            if end != "leave":
                assert error_codes(ask(c, bind("", "s"), execute(), sync())) == ["26000"]
        for use in (bind("", "s"), describe("S", "s")):
            assert error_codes(ask(other, use, sync())) == ["26000"]
        assert not error_codes(ask(other, parse("s", "select 'own'"), bind("", "s"), execute(), sync()))


@pytest.mark.parametrize("use", ["bind", "bind in a block", "describe", "behind an ignored Parse"])
def test_an_unnamed_statement_is_its_clients_alone(prepared, make_pooler, use):
    """A client that binds or describes the unnamed statement without a Parse finds none."""
    pooler = one_server(make_pooler, prepared, max_prepared_statements=0)
    with connect(pooler) as owner, connect(pooler) as other:
        assert not error_codes(ask(owner, parse("", "select 'secret'"), describe("S", ""), sync()))
        if use == "bind in a block":
            other.query("begin")
        if use == "behind an ignored Parse":
            assert error_codes(ask(other, describe("S", "no"), parse("", "select 1"), sync())) == ["26000"]
        takes = describe("S", "") if use == "describe" else bind("", "")
        assert error_codes(ask(other, takes, sync())) == ["26000"]
        other.query("rollback")
        owner.query("select pg_advisory_lock(1)")
        assert not error_codes(ask(owner, parse("", "select 'mine'"), sync()))
        assert rows_of(ask(owner, bind("", ""), execute(), sync())) == [("mine",)], "it keeps its server"


def test_a_query_in_a_pipeline_fails_no_other_client(prepared, make_pooler):
    """It leaves PostgreSQL 18 in a state in which the next command fails with XX000."""
    pooler = one_server(make_pooler, prepared, max_prepared_statements=0)
    with connect(pooler) as c, connect(pooler) as other:
        assert not error_codes(ask(c, parse("", "select 1"), bind("", ""), execute(), wire.query("select 2"), sync()))
        assert other.value("select 3") == "3"


# ---- checks of domains that run in a Parse


CHECKED = {
    "array": "select '{x}'::al_domain[]",
    "row": "select '(x,1)'::al_pair",
    "argument": "select al_takes('(x,1)')",
    "insert": "insert into al_table values ('{x}')",
    "comparison": "select * from al_table where a = '{x}'",
    "explain": "explain select '{x}'::al_domain[]",
}


@pytest.mark.parametrize("name", ["", "s"])
@pytest.mark.parametrize("what", CHECKED)
def test_checks_that_run_in_a_parse(prepared, make_pooler, what, name):
    """PostgreSQL reads the constants of a text when it analyses the text; no Bind follows."""

    def act(c):
        assert not error_codes(ask(c, parse(name, CHECKED[what]), sync()))

    attack(one_server(make_pooler, prepared), act, {**MINE, LOCKS: "1"})


def test_checks_that_run_before_a_parse_is_refused(prepared, make_pooler):
    def act(c):
        assert error_codes(ask(c, parse("s", "select '{x}'::al_domain[], nothing"), sync())) == ["42703"]

    attack(one_server(make_pooler, prepared), act, {LOCKS: "1"})


def test_checks_that_run_in_a_describe(prepared, make_pooler):
    """The server lacks the statement: a new copy of it is analysed."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as c:
        assert not error_codes(ask(c, parse("s", "select '{x}'::al_locked[]"), sync()))
        c.query("select pg_advisory_unlock_all()")
        pid = c.value("select pg_backend_pid()")
        pooler.console("reconnect")
        assert c.value("select pg_backend_pid()") != pid
        assert not error_codes(ask(c, describe("S", "s"), sync()))
        with connect(pooler) as victim:
            looks_fresh(victim, FRESH)
        assert c.value(LOCKS) == "1"
    next_one_finds(lambda: connect(pooler), FRESH)


# ---- names in long Queries


@pytest.mark.parametrize("text", [
    "select count(*) from pg_prepared_statements where statement like '%secret%'; select '{long}'",
    "select '{long}'; select count(*) from pg_prepared_statements where statement like '%secret%'",
    "select '{long}', $$x$$; select count(*) from pg_prepared_statements where statement like '%secret%'",
])
def test_a_long_query_shows_no_statement_of_another_client(prepared, make_pooler, text):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as other, connect(pooler) as c:
        ask(other, parse("mine", "select 'a secret'"), sync())
        reply = c.query(text.replace("{long}", LONG))
        if not text.startswith("select '{long}'"):
            assert rows_of(reply) == [("0",), (LONG,)]
        else:
            assert error_codes(reply) == ["54000"] and "D" not in tags(reply)
        assert c.value("select 2") == "2"


@pytest.mark.parametrize("made", ["parse", "prepare"])
def test_names_in_a_long_query(prepared, make_pooler, made):
    """At its beginning they are those of the client, as in a short one; further behind the text is refused, and nothing
    of it runs."""
    pooler = one_server(make_pooler, prepared)
    behind = f"; select '{LONG}'"
    with connect(pooler) as c, connect(pooler) as other:
        if made == "parse":
            ask(c, parse("s", "select 'mine'"), sync())
        else:
            c.query("prepare s as select 'mine'")
        other.query("select 1")
        assert rows_of(c.query("execute s" + behind)) == [("mine",), (LONG,)]
        reply = c.query(f"select '{LONG}'; execute s")
        assert error_codes(reply) == ["54000"] and "D" not in tags(reply)
        assert other.value("select 1") == "1"
        c.query("begin")
        assert error_codes(c.query(f"select '{LONG}'; execute s")) == ["54000"]
        assert error_codes(c.query("select 1")) == ["25P02"]
        c.query("rollback")
        assert not error_codes(c.query("deallocate s" + behind))
        assert error_codes(c.query("execute s")) == ["26000"]
        text = "insert into al_plain values ('" + LONG + "')"
        c.query("create temp table al_plain (a text)")
        assert not error_codes(c.query(text))


def test_a_parse_that_is_too_long_to_be_kept_shows_no_statement_of_another_client(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    for name in ("", "s"):
        with connect(pooler) as other, connect(pooler) as c:
            ask(other, parse("mine", "select 'a secret'"), sync())
            text = f"select statement from pg_prepared_statements where length('{'x' * 1_100_000}') > 0"
            reply = ask(c, parse(name, text), bind("", name), execute(), sync())
            assert not any("secret" in row[0] for row in rows_of(reply))
            assert not error_codes(reply)


def test_a_long_unnamed_statement_replaces_the_one_before(prepared, make_pooler):
    """The statement that the client had before was prepared again between Parse and Bind, and ran instead."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as c, connect(pooler) as other:
        ask(c, parse("", "select 'before'"), sync())
        ask(other, parse("", "select 'other'"), bind("", ""), execute(), sync())
        reply = ask(c, parse("", f"select length('{'x' * 1_100_000}')"), bind("", ""), execute(), sync())
        assert rows_of(reply) == [("1100000",)]


@pytest.mark.parametrize("text", ["unlisten * /* {long} */", "select '{long}'; unlisten *"])
def test_a_long_unlisten(prepared, make_pooler, text):
    """The client went on to get notifications. Now the text counts, or it is refused."""
    pooler = make_pooler(prepared, mode="transaction", settings={"default_pool_size": 2})
    with connect(pooler) as c, connect(pooler) as sender:
        c.query("listen al_news")
        time.sleep(0.5)
        c.query("select 1")
        time.sleep(0.5)
        counts = not error_codes(c.query(text.replace("{long}", LONG)))
        sender.query("notify al_news, 'x'")
        time.sleep(0.3)
        heard = [m for m in c.query("select 1") if m.tag == "A"]
        assert len(heard) == (0 if counts else 1)
        assert counts == text.startswith("unlisten")
