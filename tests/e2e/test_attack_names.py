"""Attacks by name: a client that reads or guesses the names of the pooler's statements must change its own session only.

Each test runs on a pool of one server, so that what a client leaves behind meets the next one, and shows first that it
was the same server.
"""

import re

import pytest

from harness import wire
from harness.pooler import kind
from harness.scenes import backend_pid
from harness.wire import bind, close, describe, error_codes, execute, function_call, parse, query, rows_of, sync

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="names of pgweir's own")

ONE_SERVER = {"default_pool_size": 1}

# Reads the names of all prepared statements without saying so in a text that a pooler reads.
READ = """do $$
declare found text;
begin
    execute 'select string_agg(name, '' '') from pg_prepared_' || 'statements' into found;
    raise exception '%', coalesce(found, '');
end $$"""


def ask(c, *messages, ready=1):
    c.send(*messages)
    return c.read_ready(ready)


def names_seen(c) -> list[str]:
    """The names of the statements that the client's server holds."""
    errors = [m for m in c.query(READ) if m.tag == "E"]
    return errors[0].fields["M"].split()


def replace_all(names, text="select 'forged'::text") -> str:
    """A DO that puts another statement in the place of each."""
    steps = "".join(
        f"execute 'deallocate \"{name}\"'; execute 'prepare \"{name}\" as {text.replace(chr(39), chr(39) * 2)}'; "
        for name in names
    )
    return f"do $$begin {steps} end$$"


def make_own_statements(a):
    """Makes the pooler use statements of its own on the only server."""
    a.query("set application_name = 'somebody'")
    a.query("select set_config('work_mem', '5MB', false)")
    a.query("do $$begin end$$")


def test_names_cannot_be_guessed(pg15, make_pooler):
    """Names of statements are not numbers that anybody can count up."""
    seen = []
    for _ in range(2):
        pooler = make_pooler(pg15, settings=ONE_SERVER)
        with pooler.connect() as a, pooler.connect() as b:
            ask(a, parse("s", "select 1"), sync())
            make_own_statements(b)
            seen.append(names_seen(a))
    assert seen[0] and not set(seen[0]) & set(seen[1]), seen
    for name in seen[0] + seen[1]:
        assert re.fullmatch(r"pgweir_[0-9a-f]+_[0-9A-Za-z]{22}", name), name


def test_a_replaced_statement_is_not_anothers(pg, make_pooler):
    """A statement put in the place of another client's, with the same rows, is never run for that client."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as victim, pooler.connect() as hostile:
        ask(victim, parse("s", "select 'mine'::text"), describe("S", "s"), sync())
        assert rows_of(ask(victim, bind("", "s"), execute(), sync())) == [("mine",)]
        assert backend_pid(victim) == backend_pid(hostile)
        names = names_seen(hostile)
        assert names
        # The pooler may have closed some of its own meanwhile.
        ending = "; ".join(
            f"begin execute 'deallocate \"{name}\"'; exception when others then null; end" for name in names
        )
        assert not error_codes(hostile.query(f"do $$begin {ending}; end$$"))
        # Who runs dynamic SQL keeps its server; then it leaves.
        assert not error_codes(hostile.query(replace_all(names_seen(hostile))))
        hostile.close()
        assert rows_of(ask(victim, bind("", "s"), execute(), sync())) == [("mine",)]


def test_a_function_that_replaces_statements(pg15, make_pooler):
    """The same by a function of the database, called in a SELECT, by FunctionCall and by the extended protocol."""
    pg15.psql(
        "create or replace function replace_them() returns int language plpgsql as $$ declare n text; begin "
        "for n in execute 'select name from pg_prepared_' || 'statements' loop "
        "begin execute format('dealloc' || 'ate %I', n); "
        "execute format('prep' || 'are %I as select ''forged''::text', n); exception when others then null; end; "
        "end loop; return 1; end $$"
    )
    oid = int(pg15.psql("select 'replace_them'::regproc::oid"))
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as victim:
        ask(victim, parse("s", "select 'mine'::text"), sync())
        ways = [
            lambda c: c.query("select replace_them()"),
            lambda c: ask(c, function_call(oid)),
            lambda c: c.extended("select replace_them()"),
            lambda c: c.query("begin; declare c cursor for select replace_them(); fetch c; commit"),
        ]
        for way in ways:
            assert rows_of(ask(victim, bind("", "s"), execute(), sync())) == [("mine",)]
            with pooler.connect() as hostile:
                assert not error_codes(way(hostile))
            assert rows_of(ask(victim, bind("", "s"), execute(), sync())) == [("mine",)]


def test_a_forged_probe_leaves_nothing_behind(pg, make_pooler):
    """The statements with which the pooler asks about sessions, replaced by ones that deny everything."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as hostile, pooler.connect() as victim:
        make_own_statements(hostile)
        own = [n for n in names_seen(hostile) if n.startswith("pgweir_")]
        assert own
        by_text = "; ".join(
            f"deallocate \"{n}\"; prepare \"{n}\" as select false, false, false, false, false, false" for n in own
        )
        hostile.query(by_text)
        hostile.query(replace_all(own, "select false, false, false, false, false, false"))
        hostile.query("do $$begin perform set_config('app.tenant', 'hostile', false); end$$")
        hostile.query("select set_config('search_path', 'hostile', false)")
        hostile.query("select pg_advisory_lock(4711)")
        hostile.query("select pg_advisory_unlock(4711)")
        hostile.close()
        assert victim.value("show search_path") == '"$user", public'
        assert (victim.value("select current_setting('app.tenant', true)") or "") == ""


def test_sql_with_the_poolers_names(pg, make_pooler):
    """EXECUTE and DEALLOCATE of the pooler's statements by text, also in escapes and in company."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as hostile, pooler.connect() as victim:
        ask(victim, parse("s", "select 'mine'::text"), sync())
        make_own_statements(hostile)
        assert backend_pid(victim) == backend_pid(hostile)
        names = names_seen(hostile)
        for name in names:
            hostile.query(f"execute \"{name}\"('search_path', 'hostile')")
            hostile.query(f"explain execute \"{name}\"('search_path', 'hostile')")
            escaped = "".join(f"\\{ord(ch):04x}" for ch in name)
            hostile.query(f"execute U&\"{escaped}\"('search_path', 'hostile')")
            hostile.query(f"begin; deallocate \"{name}\"; commit")
            hostile.query(f"deallocate \"{name}\"")
            ask(hostile, parse("", f"deallocate \"{name}\""), bind(), execute(), sync())
        hostile.close()
        assert victim.value("show search_path") == '"$user", public'
        assert rows_of(ask(victim, bind("", "s"), execute(), sync())) == [("mine",)]
        assert not error_codes(victim.query("set application_name = 'a'"))


@pytest.mark.parametrize("prepared", [200, 0])
def test_messages_with_the_poolers_names(pg15, make_pooler, prepared):
    """Close, Parse, Bind and Describe of the pooler's names; with max_prepared_statements = 0 they pass as they are."""
    pooler = make_pooler(pg15, settings=ONE_SERVER | {"max_prepared_statements": prepared})
    with pooler.connect() as hostile, pooler.connect() as victim:
        make_own_statements(hostile)
        victim.query("set search_path = victim")
        hostile.query("set search_path = hostile")
        for name in names_seen(hostile):
            ask(hostile, close("S", name), sync())
            ask(hostile, parse(name, "select 'forged', $1::text, $2::text", [25, 25]), sync())
            ask(hostile, bind("", name, ["search_path", "hostile"]), execute(), sync())
            ask(hostile, describe("S", name), sync())
            hostile.query(f'deallocate "{name}"')
        # Who has looked for the names by dynamic SQL keeps its server; then it leaves.
        hostile.close()
        assert victim.value("show search_path") == "victim"
        with pooler.connect() as other:
            other.query("set search_path = hostile")
        assert victim.value("show search_path") == "victim"
        assert not error_codes(victim.query("set datestyle = 'SQL, DMY'"))


def test_unknown_names_are_unknown(pg15, make_pooler):
    """Bind and Describe of a pooler's name say what PostgreSQL says of a name that means nothing."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        ask(a, parse("s", "select 'secret'"), sync())
        name = names_seen(b)[0]
        for messages in [(bind("", name), execute()), (describe("S", name),)]:
            replies = ask(b, *messages, sync())
            assert error_codes(replies) == ["26000"]
            assert replies[0].fields["M"] == f'prepared statement "{name}" does not exist'


@pytest.mark.parametrize("mode", ["full", "pgbouncer"])
def test_a_forged_begin_and_restoration(pg15, make_pooler, mode):
    """Where texts are not looked at, the pooler's own statements are prepared in front of each use."""
    pooler = make_pooler(pg15, settings=ONE_SERVER | {"session_state": mode})
    pg15.psql("drop table if exists begun; create table begun (a int)")
    with pooler.connect() as hostile, pooler.connect() as victim:
        victim.query("set application_name = 'victim'")
        hostile.query("set application_name = 'hostile'")
        hostile.query("begin")
        hostile.query("select 1")
        hostile.query("commit")
        names = names_seen(hostile)
        if names:
            hostile.query(replace_all(names, "select 1"))
        if mode == "full":
            hostile.close()
        assert victim.value("show application_name") == "victim"
        victim.query("begin")
        victim.query("insert into begun values (1)")
        victim.query("rollback")
        assert victim.value("select count(*) from begun") == "0"


def test_the_setting_that_keeps_values_is_nobodys(pg15, make_pooler):
    """What the pooler keeps in a custom setting while it prepares a statement is under no name that a client knows."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect() as a:
        ask(a, parse("s", "select date '2020-02-01', $1::int"), sync())
        a.query("begin")
        a.query("select set_config('pgweir.DateStyle', 'forged', false)")
        a.query("set datestyle = 'SQL, DMY'")
        ask(a, bind("", "s", ["1"]), execute(), sync())
        assert a.value("show datestyle") == "SQL, DMY"
        assert a.value("select current_setting('pgweir.DateStyle')") == "forged"
        a.query("commit")


# Reads the view when its first row is asked for.
LISTER = 'select name, from_sql from pg_prepared_statements order by name collate "C"'
SAYS = [parse("said", "select 'said'")]
TOLD = [bind("p", "told")]

# What is sent, each in one write, before the rows of the view are asked for and at last.
LATER = {
    "a Parse between Bind and Execute": [[parse("list", LISTER), bind("", "list"), *SAYS, execute(), sync()]],
    "a Bind between Bind and Execute": [[parse("list", LISTER), bind("", "list"), *TOLD, execute(), sync()]],
    "an unnamed statement": [[parse("", LISTER), bind("q", ""), *SAYS, *TOLD, execute("q"), sync()]],
    "an Execute after a Sync": [
        [query("begin")],
        [parse("list", LISTER), bind("q", "list"), sync()],
        [*SAYS, *TOLD, sync()],
        [execute("q"), sync()],
    ],
    "a cursor": [[query(f"begin; declare c cursor for {LISTER}")], [*SAYS, *TOLD, sync()], [query("fetch all in c")]],
    "a cursor, by Bind": [
        [query("begin")],
        [parse("", f"declare c cursor for {LISTER}"), bind("", ""), execute(), sync()],
        [*SAYS, *TOLD, sync()],
        [parse("", "fetch all in c"), bind("", ""), *SAYS[1:], execute(), sync()],
    ],
    "a cursor WITH HOLD": [
        [query(f"begin; declare c cursor with hold for {LISTER}")],
        [*SAYS, *TOLD, sync()],
        [query("commit")],
        [query("fetch all in c")],
    ],
    "an EXECUTE": [
        [query(f"prepare list as {LISTER}")],
        [parse("", "execute list"), bind("", ""), *SAYS, *TOLD, execute(), sync()],
    ],
}


@pytest.mark.parametrize("how", LATER)
def test_rows_that_are_read_later(pg, make_pooler, how):
    """A portal or cursor reads pg_prepared_statements long after its Bind or DECLARE. What the client has prepared
    meanwhile is there under its own name, and nothing else is."""
    steps = LATER[how]
    pooler = make_pooler(pg, settings=ONE_SERVER)
    seen = []
    for connect in (lambda: wire.Connection(host=pg.host, port=pg.port), pooler.connect):
        with connect() as c:
            assert not error_codes(ask(c, parse("told", "select 'told'"), sync()))
            for step in steps:
                messages = ask(c, *step)
                assert not error_codes(messages)
            seen.append(rows_of(messages))
    direct, pooled = seen
    assert len(direct) > 1
    assert pooled == direct


@pytest.mark.parametrize("by", ("PREPARE", "Parse"))
def test_a_list_behind_its_describe(pg, make_pooler, by):
    """A name that cannot be prepared again, because its table is gone, does not fail the segment of who looks."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    pg.psql("drop table if exists gone; create table gone (v text)")
    with pooler.connect() as c, pooler.connect() as other:
        if by == "PREPARE":
            c.query("prepare lost as select v from gone")
        else:
            ask(c, parse("lost", "select v from gone"), sync())
        ask(c, parse("list", LISTER), sync())
        pg.psql("drop table gone")
        # The server takes the first client's names back.
        other.query("prepare others as select 1")
        for step in ([describe("S", "list"), bind("", "list")], [bind("", "list")]):
            messages = ask(c, *step, execute(), sync())
            assert not error_codes(messages)
            assert rows_of(messages) == [("list", "f")]
        assert error_codes(ask(c, query("execute lost"))) == ["42P01"]
