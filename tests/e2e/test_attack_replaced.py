"""Prepared statements that code replaces, and constants that a SET in front of them decides.

A routine can end a statement of its client and prepare another one under that name, and the pooler sees neither. The
next client that had the same statement under the name ran the other one; and what it did was not probed, because the
pooler judged it by the text that it knew. Other tests are about a statement that is prepared again after the client has
changed a setting under which its constants are read: it must go on to mean what it meant.
"""

import time

import pytest

from harness import wire
from harness.wire import bind, command_tags, describe, error_codes, execute, parse, query, rows_of, sync

ONE_SERVER = {"default_pool_size": 1, "query_wait_timeout": 5}

LEFT = {
    "a role": "select set_config('role', 'replaced_role', false)",
    "a setting": "select set_config('app.replaced', 'attacker', false)",
    "a lock": "select pg_advisory_lock(4711)",
}
LOOK = (
    "select current_user <> session_user, coalesce(current_setting('app.replaced', true), '') = 'attacker',"
    " exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
)

DATES = "select '01/02/2003'::date::text, to_char('2024-01-01 00:00'::timestamptz at time zone 'utc', 'HH24')"


def ask(c, *messages, ready=1):
    c.send(*messages)
    return c.read_ready(ready)


def by_itself(cluster):
    return wire.Connection(port=cluster.port, user="postgres", database="postgres")


def runs(c, way):
    if way == "bind":
        return ask(c, bind("", "x"), execute(), sync())
    if way == "execute":
        return ask(c, query("execute x"))
    return ask(c, parse("", "execute x"), bind("", ""), execute(), sync())


@pytest.fixture
def replacing(pg15):
    """Installs a function that replaces the statement `x` of its client by another text; returns how."""
    pg15.psql("do $$ begin create role replaced_role; exception when duplicate_object then null; end $$")

    def install(text):
        body = f"begin deallocate x; prepare x as {text}; end"
        pg15.psql(f"create or replace function replaces() returns void language plpgsql as $f${body}$f$")

    return install


@pytest.mark.parametrize("way", ["bind", "execute", "extended execute"])
@pytest.mark.parametrize("left", LEFT)
def test_what_a_routine_has_put_under_a_name_leaves_nothing(pg15, make_pooler, replacing, left, way):
    replacing(LEFT[left])
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as attacker:
        attacker.query("prepare x as select 'old'")
        attacker.query("select replaces()")
        runs(attacker, way)
        with pooler.connect() as victim:
            assert victim.rows(LOOK) == [("f", "f", "f")]


@pytest.mark.parametrize("way", ["bind", "execute", "extended execute"])
def test_another_clients_statement_of_the_same_name_is_its_own(pg15, make_pooler, replacing, way):
    replacing("select 'the attacker''s'")
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as victim, pooler.connect() as attacker:
        for c in (victim, attacker):
            c.query("prepare x as select 'old'")
        assert rows_of(runs(victim, way)) == [("old",)]
        attacker.query("select replaces()")
        for _ in range(2):
            assert rows_of(runs(victim, way)) == [("old",)]


@pytest.mark.parametrize("by_set_config", [False, True])
@pytest.mark.parametrize("name, value", [("timezone", "America/New_York"), ("datestyle", "sql, dmy")])
def test_a_parse_behind_a_set_in_one_pipeline_keeps_its_constants(pg, make_pooler, name, value, by_set_config):
    """As psycopg sends it in pipeline mode. From its second use on, such a statement read its constants under the former
    setting."""
    sets = f"select set_config('{name}', '{value}', false)" if by_set_config else f"set {name} = '{value}'"
    messages = [parse("", sets), bind("", ""), execute(), parse("s", DATES), bind("", "s"), execute(), sync()]
    uses = [bind("", "s"), execute(), sync()]
    pooler = make_pooler(pg, settings={"default_pool_size": 2})

    def told(c):
        return [rows_of(ask(c, *messages))[-1:]] + [rows_of(ask(c, *uses)) for _ in range(3)]

    with by_itself(pg) as direct, pooler.connect() as c, pooler.connect() as other:
        expected = told(direct)
        assert told(c) == expected
        other.query("set timezone = 'Asia/Tokyo'")
        other.query(DATES)
        assert rows_of(ask(c, *uses)) == expected[-1]


@pytest.mark.parametrize("by_sql", [False, True])
@pytest.mark.parametrize(
    "setting, text",
    [
        ("array_nulls = off", "select '{null,1}'::int[]::text"),
        ("transform_null_equals = on", "select (null = null) is true"),
        ("xmloption = document", "select 'a<b/>'::xml::text"),
    ],
)
def test_a_setting_that_no_report_tells_does_not_change_a_statement(pg, make_pooler, setting, text, by_sql):
    """The use came before the probe's answer, and the statement was prepared again under the new value."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, query(f"prepare x as {text}")) if by_sql else ask(c, parse("x", text), sync())
        expected = rows_of(runs(c, "execute"))
        c.query(f"set {setting}")
        told = [ask(c, query("execute x")) if by_sql else ask(c, bind("", "x"), execute(), sync()) for _ in range(2)]
        assert [error_codes(messages) for messages in told] == [[], []]
        assert [rows_of(messages) for messages in told] == [expected, expected]


def test_a_statement_that_only_the_server_knows_keeps_its_constants(pg, make_pooler):
    """DISCARD PLANS had the server read them again, under the DateStyle that the client had chosen since."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with by_itself(pg) as direct, pooler.connect() as c:
        found = []
        for client in (direct, c):
            assert command_tags(ask(client, query(f"select 1; prepare x as {DATES}")))[-1] == "PREPARE"
            time.sleep(0.1)
            client.query("set datestyle = 'sql, dmy'")
            time.sleep(0.1)
            found.append(client.rows("execute x"))
        assert found[0] == found[1]


SETS = {
    "set": "set {name} = '{value}'",
    "set local": "set local {name} = '{value}'",
    "do": "do $$begin set {name} = '{value}'; end$$",
    "function": "select behind_code('{name}', '{value}', false)",
    "local function": "select behind_code('{name}', '{value}', true)",
    "update": "update pg_settings set setting = '{value}' where name = '{name}'",
}
READ_BEHIND = {
    "DateStyle": ("German", "select '01/02/2024'::date - '2024-01-01'::date"),
    "standard_conforming_strings": ("off", r"select length('a\\b')"),
    "client_encoding": ("LATIN1", "select length('\u00e4')"),
    "array_nulls": ("off", "select ('{NULL}'::text[])[1] is null"),
    "search_path": ("behind_schema", "select name from behind_table"),
}


@pytest.fixture
def behind(pg):
    pg.psql(
        "create or replace function behind_code(n text, v text, is_local bool) returns text language sql"
        " as 'select set_config(n, v, is_local)';"
        "create schema if not exists behind_schema;"
        "create table if not exists behind_schema.behind_table as select 'found'::text as name"
    )
    return pg


@pytest.mark.parametrize("how", SETS)
@pytest.mark.parametrize("name", READ_BEHIND)
def test_what_is_prepared_behind_a_change_of_settings_keeps_its_meaning(behind, make_pooler, name, how):
    """In one segment, in a block, and in a block that is rolled back; then on another server of the pool, or on its own
    while the client is pinned. Constants were read under the former setting from the second use on, and tables were looked
    for along the former search_path."""
    value, text = READ_BEHIND[name]
    sets = SETS[how].format(name=name, value=value)
    pooler = make_pooler(behind, settings={"default_pool_size": 2, "query_wait_timeout": 5})

    def outcomes(port):
        c, other = (wire.Connection(port=port, user="postgres", database="postgres") for _ in range(2))
        ask(c, parse("", sets), bind(), execute(), parse("one", text), sync())
        ask(c, query("begin"))
        ask(c, parse("", sets), bind(), execute(), sync())
        ask(c, parse("two", text), sync())
        ask(c, query("commit"))
        ask(c, query("begin"))
        ask(c, parse("", sets), bind(), execute(), sync())
        ask(c, parse("three", text), sync())
        ask(c, query("rollback"))
        found = []
        for statement in ("one", "two", "three") * 2:
            found.append(rows_or_errors(ask(c, bind("", statement), execute(), sync())))
            # Who has the other server now moves the client there, unless it is pinned.
            ask(other, query("begin"))
            ask(other, query("select 1"))
            ask(other, query("commit"))
        c.close()
        other.close()
        return found

    assert outcomes(pooler.port) == outcomes(behind.port)


def rows_or_errors(answer):
    errors = error_codes(answer)
    return errors or rows_of(answer)


# What only one server has, because it was made behind SET LOCAL.
ONLY_THERE = "select '01/02/2024'::date - '2024-01-01'::date"
MADE = {"parse": [parse("s", ONLY_THERE), describe("S", "s"), sync()], "prepare": [query(f"prepare s as {ONLY_THERE}")]}
MEANWHILE = {
    "nothing": [],
    "code": [[query("do $$begin end$$")]],
    "more statements than a server keeps": [
        [parse(f"o{n}", f"select {n}"), bind("", f"o{n}"), execute(), sync()] for n in range(4)
    ],
    "a refused discard": [[query(text)] for text in ("begin", "discard all", "rollback")],
    "a refused deallocate": [[query(text)] for text in ("begin", "select 1/0", "deallocate s", "rollback")],
    "a question for names": [[query("select name, from_sql from pg_prepared_statements where name = 's'")]],
}
USES = {
    "describe": [describe("S", "s"), sync()],
    "bind": [bind("", "s"), execute(), sync()],
    "execute": [query("execute s")],
    "explain": [query("explain (verbose, costs off) execute s")],
    "deallocate": [query("deallocate s")],
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("made", MADE)
def test_a_statement_that_only_one_server_has_stays_as_it_is(pg, make_pooler, made, meanwhile):
    """After code, its description never came. Others took its place, or a message or SQL that named it had it prepared
    again, and its constants were read under the settings of that moment."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2, "max_prepared_statements": 2})

    def told(c):
        for messages in [[query("begin")], [query("set local datestyle = 'sql, dmy'")], MADE[made], [query("commit")]]:
            ask(c, *messages)
        found = [rows_or_errors(ask(c, *messages)) for messages in MEANWHILE[meanwhile]]
        for use in ("describe", "bind", "execute", "describe", "bind", "explain", "execute", "bind", "deallocate", "bind"):
            answer = ask(c, *USES[use])
            found.append((use, rows_or_errors(answer), wire.tags(answer)))
        return found

    with by_itself(pg) as direct, pooler.connect() as c:
        assert told(c) == told(direct)
