"""Attacks by what PostgreSQL's grammar and its errors hide: a call without a parenthesis behind the name, and an error
that is told as one of the text although parts of the text have run."""

import pytest
from test_attack_functions import LOCKS, MINE, ROLE, attack, connect, prepared  # noqa: F401 (fixture)

from harness import wire
from harness.attacks import next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SETS = "'select set' || '_config(''af.x'', ''attacker'', false)::tsvector'"
LOCKING = "'select pg_ad' || 'visory_lock(77)::text::tsvector'"
ROLES = "'select set' || '_config(''ro'' || ''le'', ''af_other'', false)::tsvector'"

# TREAT(x AS f) calls pg_catalog.f(x).
TREATED = {
    "setting": (f"select treat({SETS} as ts_stat)", MINE),
    "in FROM": (f"select * from treat({SETS} as ts_stat)", MINE),
    "with a schema": (f"select treat({SETS} as pg_catalog.ts_stat)", MINE),
    "behind a comment": (f"select treat /* x */\n({SETS} as ts_stat)", MINE),
    "role": (f"select treat({ROLES} as ts_stat)", {ROLE: "af_other"}),
    "lock": (f"select treat({LOCKING} as ts_stat)", {LOCKS: "1"}),
}


def acts(*texts: str):
    """What runs the texts, of which none may fail."""

    def act(client):
        for text in texts:
            error = wire.first_error(client.query(text))
            assert not error, error.fields

    return act


@pytest.mark.parametrize("name", TREATED)
def test_a_call_by_treat(prepared, make_pooler, name):  # noqa: F811
    text, found = TREATED[name]
    attack(one_server(make_pooler, prepared), acts(text), found)


@pytest.mark.parametrize("way", ["function", "view"])
def test_a_call_by_treat_in_code(prepared, make_pooler, way):  # noqa: F811
    made = {
        "function": "create or replace function ag_code() returns text language sql as $f$select word from treat({} as ts_stat)$f$",
        "view": "create or replace view ag_code as select * from treat({} as ts_stat)",
    }
    prepared.psql(made[way].format(SETS), dbname="af")
    try:
        text = {"function": "select ag_code()", "view": "select * from ag_code"}[way]
        attack(one_server(make_pooler, prepared), acts(text), MINE)
    finally:
        prepared.psql(f"drop {way} ag_code", dbname="af")


BROKEN = """
set check_function_bodies = off;
create or replace function ag_bad_pl() returns int language plpgsql as 'begn return 1; end';
create or replace function ag_bad() returns int language sql as 'selec 1';
"""

# The error of the body is told as one of the constant that is the same text.
FORGED = {
    "PL/pgSQL": "select {x}, plpgsql_validator('ag_bad_pl'::regproc), 'begn return 1; end'",
    "SQL": "select {x}, fmgr_sql_validator('ag_bad'::regproc), 'selec 1'",
    "behind a statement": "select {x}; select fmgr_sql_validator('ag_bad'::regproc), 'selec 1'",
    "behind COMMIT": "begin; select {x}; commit; select fmgr_sql_validator('ag_bad'::regproc), 'selec 1'",
    "as a column": "select {x}, ('ag_bad'::regproc::oid).fmgr_sql_validator, $c$selec 1$c$",
    "behind letters beyond ASCII": "select 'äöüß', {x}, fmgr_sql_validator('ag_bad'::regproc), 'selec 1'",
}


@pytest.mark.parametrize("way", FORGED)
def test_an_error_inside_a_constant_proves_nothing(prepared, make_pooler, way):  # noqa: F811
    prepared.psql(BROKEN, dbname="af")
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        error = wire.first_error(attacker.query(FORGED[way].format(x="setseed(0.5)")))
        assert "P" in error.fields and "W" not in error.fields, error.fields
        with connect(pooler) as victim:
            try:
                assert not victim.value("select random()").startswith("0.98516"), "the attacker's seed"
            except wire.Closed:
                pass  # The attacker keeps the only server.
    next_one_finds(lambda: connect(pooler), {"select random() between 0.985167 and 0.985168": "f"})


# Checks of bodies, called like a column, run the checks of domains in the bodies.
DOMAIN = """
create or replace function ag_sets(x int) returns boolean language plpgsql as
    $f$begin perform set_config('af' || '.x', 'attacker', false); return true; end$f$;
do $$begin create domain ag_evil as int check (ag_sets(value)); exception when duplicate_object then null; end$$;
set check_function_bodies = off;
create or replace function ag_checked() returns int language sql as $f$select cardinality('{1}'::ag_evil[])$f$;
"""


@pytest.mark.parametrize("call", ["({oid}).fmgr_sql_validator", "treat({oid} as fmgr_sql_validator)"])
def test_a_check_of_a_body_runs_code(prepared, make_pooler, call):  # noqa: F811
    prepared.psql(DOMAIN, dbname="af")
    oid = prepared.psql("select 'ag_checked'::regproc::oid", dbname="af")
    try:
        text = f"select {call.format(oid=f'({oid}::oid)')}"
        attack(one_server(make_pooler, prepared), acts(text), MINE)
    finally:
        prepared.psql("drop function ag_checked; drop domain ag_evil; drop function ag_sets", dbname="af")


def test_a_fetch_behind_a_semicolon_is_described_by_nobody(own_cluster, make_pooler):
    """PostgreSQL crashes when a prepared FETCH is described in a session without its cursor."""
    pg = own_cluster()
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as owner, pooler.connect() as other, wire.Connection(port=pg.port) as witness:
        owner.query("begin")
        owner.query("declare c cursor for select 1")
        owner.send(wire.parse("s", ";fetch c"), wire.bind(statement="s"), wire.execute(), wire.sync())
        assert wire.rows_of(owner.read_ready()) == [("1",)]
        owner.query("commit")
        other.send(wire.parse("s", ";fetch c"), wire.sync())
        other.read_ready()
        other.send(wire.bind(statement="s"), wire.execute(), wire.sync())
        assert wire.error_codes(other.read_ready()) == ["34000"]
        assert witness.value("select 1") == other.value("select 1") == "1"


# How a failed block ends in the same segment in which the statement is used.
ENDS = ["rollback", "commit", "rollback to a"]


@pytest.mark.parametrize("unnamed", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_statement_behind_the_end_of_a_failed_block_is_prepared_again_as_always(pg, make_pooler, end, unnamed):
    """The status of the server is `failed` when the statement is sent, and no longer when the server reads it."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    name = "" if unnamed else "s"
    answers = []
    for port in (pg.port, pooler.port):
        pg.psql("drop table if exists ag_failed; create table ag_failed (d date)")
        with wire.Connection(port=port) as client:
            client.query("set datestyle = 'iso, mdy'")
            client.send(wire.parse("e", end), wire.parse(name, "insert into ag_failed values ('01/02/2003')"), wire.sync())
            client.read_ready()
            client.send(wire.parse("d", "set datestyle = 'sql, dmy'"), wire.bind(statement="d"), wire.execute(), wire.sync())
            client.read_ready()
            if port == pooler.port:
                first = client.value("select pg_backend_pid()") if not unnamed else pooler_backend(client)
                pg.psql(f"select pg_terminate_backend({first}, 5000)")
            for text in ("begin", "savepoint a", "select 1/0"):
                client.send(wire.parse("x", text), wire.bind(statement="x"), wire.execute(), wire.close("S", "x"), wire.sync())
                client.read_ready()
                client.send(wire.close("S", "x"), wire.sync())
                client.read_ready()
            use = [wire.bind(statement=name), wire.execute()]
            client.send(wire.bind(statement="e"), wire.execute(), *use, wire.sync())
            client.read_ready()
            client.query("commit")
            answers.append(client.rows("select to_char(d, 'YYYY-MM-DD') from ag_failed"))
    assert answers[0] == answers[1]


def pooler_backend(client) -> str:
    """The process id of the client's server, asked without the unnamed statement."""
    client.send(wire.parse("p", "select pg_backend_pid()"), wire.bind(statement="p"), wire.execute(), wire.sync())
    return wire.rows_of(client.read_ready())[0][0]


def test_another_role_behind_the_end_of_a_failed_block(pg, make_pooler):
    for role in ("ag_ü", "ag_Ã¼"):
        pg.psql(f'do $$begin create role "{role}"; exception when duplicate_object then null; end$$')
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    answers = []
    for port in (pg.port, pooler.port):
        with wire.Connection(port=port, options={"client_encoding": "UTF8"}) as client:
            client.send(wire.parse("e", "rollback"), wire.parse("s", 'set role "ag_ü"'), wire.sync())
            client.read_ready()
            client.query("set client_encoding = 'LATIN1'")
            if port == pooler.port:
                pg.psql(f"select pg_terminate_backend({client.value('select pg_backend_pid()')}, 5000)")
            client.query("begin")
            client.query("select 1/0")
            client.send(wire.bind(statement="e"), wire.execute(), wire.bind(statement="s"), wire.execute(), wire.sync())
            client.read_ready()
            answers.append(client.value("select encode(current_user::text::bytea, 'hex')"))
    assert answers[0] == answers[1]


def test_a_savepoint_beyond_ascii_is_not_taken_for_another(pg, make_pooler):
    """In a failed block nothing can be set before the statement is prepared again, so it is refused."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    pg.psql("drop table if exists ag_save; create table ag_save (n int)")
    with wire.Connection(port=pooler.port, options={"client_encoding": "UTF8"}) as client:
        client.send(wire.parse("s", 'rollback to "ü"'), wire.sync())
        client.read_ready()
        client.query("set client_encoding = 'LATIN1'")
        pg.psql(f"select pg_terminate_backend({client.value('select pg_backend_pid()')}, 5000)")
        for text in ("begin", "insert into ag_save values (1)", "savepoint \"Ã¼\"".encode("latin-1"),
                     "insert into ag_save values (2)", "savepoint \"ü\"".encode("latin-1"), "select 1/0"):
            client.query(text)
        client.send(wire.bind(statement="s"), wire.execute(), wire.sync())
        assert wire.error_codes(client.read_ready()) == ["0A000"]
        client.query("rollback")
        assert client.value("select count(*) from ag_save") == "0"


def test_a_prepare_keeps_the_types_of_its_parameters(pg, make_pooler):
    """PREPARE finds the types by the path that was set then."""
    pg.psql("drop schema if exists ag_a cascade; drop schema if exists ag_b cascade; create schema ag_a; create schema ag_b;"
            " create table ag_a.t (v int); create table ag_b.t (v text)")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    answers = []
    for port in (pg.port, pooler.port):
        pg.psql("truncate ag_b.t")
        with wire.Connection(port=port) as client:
            for text in ("set search_path = ag_a", "prepare s as insert into t values ($1)", "set datestyle = german",
                         "set search_path = ag_b"):
                client.query(text)
            if port == pooler.port:
                pg.psql(f"select pg_terminate_backend({client.value('select pg_backend_pid()')}, 5000)")
            heard = [wire.error_codes(client.query(f"execute s('{value}')")) for value in ("007", "one")]
            answers.append((heard, client.rows("select v from t")))
    assert answers[0] == answers[1]


def test_a_prepare_in_a_block_behind_another_path_keeps_its_server(pg, make_pooler):
    pg.psql("drop schema if exists ag_a cascade; drop schema if exists ag_b cascade; create schema ag_a; create schema ag_b;"
            " create table ag_a.t (v int); create table ag_b.t (v text)")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as client:
        for text in ("set search_path = ag_b", "begin", "set local search_path = ag_a", "prepare s as insert into t values ($1)",
                     "commit"):
            client.query(text)
        assert [pin["reason"] for pin in pooler.console("show pins")] != []
        assert wire.error_codes(client.query("execute s('one')")) == ["22P02"]


def test_a_parse_after_revoke_is_refused(pg, make_pooler):
    """PostgreSQL checks the right to use a schema when it analyses a statement, so no earlier copy may answer."""
    pg.psql("drop schema if exists ag_closed cascade; create schema ag_closed; create table ag_closed.t as select 7 as n;"
            " do $$begin create role ag_group; exception when duplicate_object then null; end$$;"
            " do $$begin create role ag_member login; exception when duplicate_object then null; end$$;"
            " grant usage on schema ag_closed to ag_group; grant select on ag_closed.t to public; grant ag_group to ag_member")
    pooler = make_pooler(pg, settings={"default_pool_size": 1}, userlist={"postgres": "", "ag_member": ""})
    use = wire.parse("s", "select n from ag_closed.t") + wire.bind(statement="s") + wire.execute() + wire.sync()
    with pooler.connect(user="ag_member") as before:
        before.send(use)
        assert wire.rows_of(before.read_ready()) == [("7",)]
        with pooler.connect(user="postgres") as admin:
            assert not wire.first_error(admin.query("revoke ag_group from ag_member"))
        with pooler.connect(user="ag_member") as after:
            after.send(use)
            assert wire.error_codes(after.read_ready()) == ["42501"]
