"""Attacks on what sessions have drawn from sequences: never another client's value, never an old one of one's own."""

from __future__ import annotations

import pytest

from harness import wire
from harness.pooler import kind
from harness.scenes import backend_pid, held_server
from harness.wire import error_codes, rows_of

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

SETUP = """
drop table if exists attack_serial;
drop sequence if exists attack_other;
create table attack_serial (id serial, x text);
create sequence attack_other start 1000;
create or replace function attack_lastval() returns bigint language plpgsql as
$$ declare v bigint; begin execute 'select last' || 'val()' into v; return v; end $$;
"""
INSERT = "insert into attack_serial (x) values ('x')"


@pytest.fixture
def pooler(pg, make_pooler):
    pg.psql(SETUP)
    return make_pooler(pg, settings={"default_pool_size": 1})


def ask(c: wire.Connection, how: str, question: str) -> list[wire.Message]:
    """Asks in one of the ways a client may, as its first request or behind others."""
    if how == "simple":
        return c.query(question)
    if how == "extended":
        return c.extended(question)
    if how == "named":
        c.send(wire.parse("q", question), wire.sync())
        c.read_ready()
        c.send(wire.bind("", "q"), wire.execute(), wire.sync())
        return c.read_ready()
    if how == "block":
        c.query("begin")
        messages = c.query(question)
        c.query("rollback")
        return messages
    if how == "block, later":
        c.query("begin")
        c.query("select 1")
        messages = c.query(question)
        c.query("rollback")
        return messages
    if how == "extended block":
        c.extended("begin")
        messages = c.extended(question)
        c.extended("rollback")
        return messages
    if how == "pipeline":
        c.send(wire.one_statement("select 1"), wire.one_statement(question), wire.sync())
        return c.read_ready()
    if how == "pipelined block":
        c.send(wire.query("begin"), wire.query("select 1"), wire.query(question), wire.query("rollback"))
        return c.read_ready(4)
    if how == "one text":
        return c.query(f"select 1; {question}")
    if how == "copy":
        return c.query(f"copy ({question}) to stdout")
    if how == "DO":
        quoted = question.removeprefix("select ")
        return c.query(f"do $$ begin raise notice '%', {quoted}; end $$")
    if how == "end of a failed block":
        c.query("begin")
        c.query("select 1/0")
        return c.query(f"rollback; {question}")
    if how == "end of a failed pipelined block":
        c.send(wire.parse("q", question), wire.sync())
        c.read_ready()
        c.query("begin")
        c.query("select 1/0")
        c.send(wire.one_statement("rollback"), wire.flush())
        c.read_until("C")
        c.send(wire.bind("", "q"), wire.execute(), wire.sync())
        return c.read_ready()
    if how == "behind a failed pipeline":
        c.query("begin")
        c.query("savepoint a")
        c.send(wire.one_statement("select 1/0"), wire.one_statement(question), wire.sync())
        c.read_ready()
        c.query("rollback to a")
        return c.query(question)
    if how == "long text":
        return c.query(f"{question} /* {'x' * 70_000} */")
    if how == "function call":
        oid = int(c.value("select 'lastval()'::regprocedure::oid"))
        c.send(wire.function_call(oid))
        return c.read_ready()
    assert how == "hidden in a function"
    return c.query("select attack_lastval()")


WAYS = (
    "simple, extended, named, block, block, later, extended block, pipeline, pipelined block, one text, copy, DO, "
    "long text, function call, hidden in a function, end of a failed block, end of a failed pipelined block, "
    "behind a failed pipeline"
).replace("block, later", "block; later")


@pytest.mark.parametrize("how", [way.replace(";", ",") for way in WAYS.split(", ")])
@pytest.mark.parametrize("drawn", ["insert", "nextval"])
def test_the_first_question_of_a_pool_does_not_tell_anothers_value(pg, pooler, how, drawn):
    with pooler.connect() as other, pooler.connect() as curious:
        other.query(INSERT if drawn == "insert" else "select nextval('attack_other')")
        server = backend_pid(other)
        assert backend_pid(curious) == server, "the attack needs the same server"
        messages = ask(curious, how, "select lastval()")
        assert error_codes(messages) in (["55000"], ["25P02"]), wire.text(messages[-2])
        assert error_codes(messages) == ["55000"] or how == "end of a failed block"
        # The session goes on as if nothing had been.
        assert curious.query("rollback")[-1].tag == "Z"
        curious.query(INSERT)
        assert curious.value("select currval('attack_serial_id_seq') = max(id) from attack_serial") == "t"


@pytest.mark.parametrize("how", ["simple", "extended", "named"])
@pytest.mark.parametrize("between", ["select 1", "do $$ begin perform 1; end $$", "select attack_lastval()"])
def test_what_a_transaction_draws_by_name_is_found_by_the_first_question(pooler, how, between):
    """On a server that somebody else has drawn on."""
    with pooler.connect() as other, pooler.connect() as c:
        other.query("select nextval('attack_other')")
        other.query(INSERT)
        c.query("begin")
        drawn = c.value("select nextval('attack_other')")
        assert not error_codes(c.query(between))
        messages = ask(c, how, "select currval('attack_other')")
        assert rows_of(messages) == [(drawn,)]
        assert c.value("select lastval()") == drawn
        c.query("commit")


def test_what_must_not_run_in_a_pipeline_runs_where_others_have_drawn(pg, pooler):
    """Guards against a statement of the pooler's in front of the client's, in one segment with it."""
    pg.psql("create or replace procedure attack_commits() language plpgsql as $$ begin commit; end $$")
    with pooler.connect() as other, pooler.connect() as c:
        other.query("select nextval('attack_other')")
        assert wire.command_tags(c.extended("call attack_commits()")) == ["CALL"]
        other.query("select nextval('attack_other')")
        assert wire.command_tags(c.extended("discard all")) == ["DISCARD ALL"]


@pytest.mark.parametrize(("how", "free"), [
    ("simple", "both servers"), ("simple", "its own server"), ("extended", "its own server"), ("named", "its own server"),
])
def test_ones_own_value_is_found_by_the_first_question(pg, make_pooler, how, free):
    """Nobody else has used the server since, though the pool has not been asked before."""
    pg.psql(SETUP)
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with pooler.connect() as c, pooler.connect() as neighbour, pooler.connect() as holder:
        with held_server(pooler):
            c.query(INSERT)
            own = backend_pid(c)
        # The neighbour's server is the one used last, so it is the one that others get next.
        assert backend_pid(neighbour) != own
        if free == "its own server":
            holder.query("begin")
            assert backend_pid(holder) != own
        messages = ask(c, how, "select currval('attack_serial_id_seq')")
        assert rows_of(messages) == [(pg.psql("select max(id) from attack_serial").strip(),)]
        assert backend_pid(c) == own


def test_an_older_value_of_ones_own_is_not_told(pg, make_pooler):
    """A client draws on one server, then on another, and comes back: what the first one remembers is old."""
    pg.psql(SETUP)
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with pooler.connect() as c, pooler.connect() as first:
        first.value("select nextval('attack_other')")
        c.query(INSERT)
        one = backend_pid(c)
        with held_server(pooler, one):
            c.query(INSERT)
            assert backend_pid(c) != one, "the attack needs another server"
            newest = pg.psql("select max(id) from attack_serial").strip()
        for _ in range(4):
            messages = c.query("select currval('attack_serial_id_seq')")
            assert error_codes(messages) == ["55000"] or rows_of(messages) == [(newest,)]
            if not error_codes(messages):
                return


FIRST = {
    "close": wire.close("S", "gone"),
    "parse": wire.parse("p", "select 1"),
    "bind": wire.parse("", "select 1") + wire.bind("", ""),
    "describe": wire.parse("", "select 1") + wire.describe("S", ""),
}


@pytest.mark.parametrize("first", FIRST)
def test_a_query_behind_a_segment_is_committed_when_it_is_answered(pg, pooler, first):
    """Guards against PostgreSQL 18, which does not commit a Query behind an internal statement in its segment."""
    with pooler.connect(user="postgres") as c, pooler.connect(user="postgres") as other:
        c.query("select 1")
        other.query("select 1")
        c.send(FIRST[first], wire.query(f"do $$begin {INSERT}; end$$"))
        assert c.read_ready()[-1].body == b"I"
        assert pg.psql("select count(*) from attack_serial").strip() == "1"


def test_a_segment_that_fails_takes_the_query_behind_it_along(pg, pooler):
    with pooler.connect(user="postgres") as c, pooler.connect(user="postgres") as other:
        c.query("select 1")
        other.query("select 1")
        c.send(wire.parse("p", "selct 1"), wire.query(f"do $$begin {INSERT}; end$$"), wire.sync())
        assert wire.tags(c.read_ready()) == "EZ"
        assert pg.psql("select count(*) from attack_serial").strip() == "0"
