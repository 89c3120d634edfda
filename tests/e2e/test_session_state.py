"""Sessions in transaction mode: a client that shares two servers with busy neighbours sees what it would see alone.

Every script runs twice, directly and through the pooler, where idle servers are handed out so that as much as possible
has to be put right (`link = adversarial`) and two neighbours change settings between any two statements.
"""

import psycopg
import pytest

from harness import wire
from harness.answers import answer
from harness.pooler import kind
from harness.waiting import eventually

SCRIPTS = {
    "settings": [
        "show datestyle", "show work_mem", "set work_mem = '7MB'", "show work_mem", "reset work_mem", "show work_mem",
        "set datestyle to iso", "show datestyle", "reset datestyle", "show datestyle", "select date '2020-02-03'::text",
        "set search_path = a, \"B c\"", "show search_path", "set time zone 'Europe/Paris'", "show timezone",
        "set statement_timeout = 4321", "show statement_timeout", "set names 'latin1'", "show client_encoding",
        "reset all", "show search_path", "show timezone", "show datestyle", "show work_mem",
    ],
    "transactions": [
        "begin", "set work_mem = '9MB'", "rollback", "show work_mem", "begin", "set work_mem = '9MB'", "commit",
        "show work_mem", "begin", "savepoint s", "set work_mem = '8MB'", "rollback to s", "commit", "show work_mem",
        "begin", "set local work_mem = '6MB'", "commit", "show work_mem", "begin", "set work_mem = '3MB'", "select 1/0",
        "commit", "show work_mem", "set work_mem = '2MB'; select 1/0", "show work_mem",
    ],
    "custom": [
        "set app.tenant = 'x y'", "select current_setting('app.tenant')", "select set_config('app.two', 'v', false)",
        "select current_setting('app.two')", "begin", "set app.tenant = 'z'", "rollback",
        "select current_setting('app.tenant')", "discard all", "select current_setting('app.tenant', true)",
    ],
    "roles": [
        "set role state_bob", "select current_user, session_user", "reset role", "select current_user",
        "set session authorization state_bob", "select current_user, session_user", "show work_mem",
        "reset session authorization", "select current_user, session_user",
    ],
    "temporary": [
        "create temp table tt (a int)", "insert into tt values (1)", "select * from tt", "drop table tt",
        "select count(*) from pg_class where relname = 'tt'", "begin", "create temp table tt (a int)", "rollback",
        "select to_regclass('tt')",
    ],
    "locks": [
        "select pg_advisory_lock(77)", "select 1", "select pg_advisory_unlock(77)", "select pg_try_advisory_lock(78)",
        "select pg_advisory_unlock_all()", "select count(*) from pg_locks where locktype = 'advisory' and objid in (77, 78)",
    ],
    "prepared": [
        "prepare pp as select 42", "execute pp", "select name from pg_prepared_statements where from_sql",
        "deallocate pp", "execute pp",
    ],
    "sequences": [
        "create sequence session_own", "select currval('session_own')", "select nextval('session_own')",
        "select currval('session_own')", "select lastval()", "select setval('session_own', 40)",
        "select currval('session_own')", "select currval('session_theirs')", "discard sequences", "select lastval()",
        "drop sequence session_own",
    ],
    "statements": [
        "select name, statement from pg_prepared_statements", "prepare pp as select 42",
        "select name, statement from pg_prepared_statements", "deallocate all", "set work_mem = '3MB'",
        "select count(*) from pg_prepared_statement()",
    ],
    "listen": [
        "listen foo", "select pg_listening_channels()", "unlisten *", "select count(*) from pg_listening_channels()",
    ],
    "cursors": [
        "begin", "declare c cursor with hold for select generate_series(1, 5)", "commit", "fetch 2 from c", "close c",
        "fetch 1 from c",
    ],
}


def connect(host, port, **more):
    return psycopg.connect(
        host=host, port=port, user="postgres", dbname="postgres", autocommit=True, prepare_threshold=None, **more
    )


def run(host, port, script, between=lambda: None):
    with connect(host, port, options="-c datestyle=German -c work_mem=5MB") as client:
        answers = []
        for statement in script:
            between()
            answers.append((statement, answer(client, statement)))
        return answers


@pytest.mark.parametrize("name", SCRIPTS)
def test_session_is_kept(pg, make_pooler, name):
    """State that leaks to other clients, or is lost on the way to another server."""
    if kind() != "pgweir":
        pytest.skip("other poolers do not keep sessions")
    pg.psql("do $$ begin create role state_bob; exception when duplicate_object then null; end $$")
    pg.psql("create sequence if not exists session_theirs")
    expected = run(pg.host, pg.port, SCRIPTS[name])
    pooler = make_pooler(pg, settings={"default_pool_size": 3, "link": "adversarial", "ignore_startup_parameters": ""})
    with connect(pooler.host, pooler.port) as one, connect(pooler.host, pooler.port) as two:
        turn = iter(range(10**6))

        def churn():
            number = next(turn)
            for neighbour in (one, two):
                answer(neighbour, f"set work_mem = '{100 + number}kB'")
                answer(neighbour, f"set datestyle = '{['SQL', 'Postgres'][number % 2]}, DMY'")
                answer(neighbour, f"set app.tenant = 'n{number}'")
                answer(neighbour, "select nextval('session_theirs')")

        assert run(pooler.host, pooler.port, SCRIPTS[name], churn) == expected
        assert answer(one, "show datestyle")[0][0].endswith("DMY")


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("undo", ["reset datestyle", "reset all", "set datestyle to default", "discard all"])
def test_reset_by_execute(pg, make_pooler, mode, undo):
    """In the extended protocol, too, RESET goes back to what the startup packet said, and the client hears of nothing else.

    Guards against the pool's own value, in session pooling, and against statements of the pooler's own that DISCARD ALL took.
    """
    if kind() == "pgbouncer":
        pytest.skip("PgBouncer resets to the server's value")
    pooler = make_pooler(pg, mode=mode, settings={"default_pool_size": 1, "ignore_startup_parameters": ""})
    with pooler.connect(options={"datestyle": "German, DMY", "options": "-c work_mem=5MB"}) as c:
        for _ in range(2):
            c.query("set datestyle = 'SQL, DMY'")
            # A statement under a name, used twice; what is left of it goes with DISCARD ALL.
            c.send(wire.parse("undo", undo), wire.bind("", "undo"), wire.execute(), wire.sync())
            told = [m.body for m in c.read_ready() if m.tag == "S" and m.body.startswith(b"DateStyle")]
            assert told == [b"DateStyle\0German, DMY\0"]
            assert c.value("show datestyle") == "German, DMY"
            c.query("set work_mem = '9MB'")
            c.send(wire.close("S", "undo"), wire.parse("", "reset all"), wire.bind(), wire.execute(), wire.sync())
            assert wire.error_codes(c.read_ready()) == []
            assert c.value("show work_mem") == "5MB"


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_reset_by_execute_in_a_pipeline_that_fails(pg, make_pooler, mode):
    """DISCARD ALL has taken effect, and what the pooler made behind it is undone: it is made once more."""
    if kind() == "pgbouncer":
        pytest.skip("PgBouncer resets to the server's value")
    pooler = make_pooler(pg, mode=mode, settings={"default_pool_size": 1, "ignore_startup_parameters": ""})
    with pooler.connect(options={"datestyle": "German, DMY", "options": "-c work_mem=5MB"}) as c:
        for _ in range(2):
            c.query("set work_mem = '9MB'")
            c.send(wire.parse("", "discard all"), wire.bind(), wire.execute())
            c.send(wire.parse("", "select 1/0"), wire.bind(), wire.execute(), wire.sync())
            assert wire.error_codes(c.read_ready()) == ["22012"]
            assert c.value("show datestyle") == "German, DMY"
            assert c.value("show work_mem") == "5MB"


def test_pins_are_shown_and_end(pg, make_pooler):
    """A client that keeps its server is listed with its reason, and the server is clean when it leaves."""
    if kind() != "pgweir":
        pytest.skip("other poolers do not pin")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    client = connect(pooler.host, pooler.port)
    client.execute("create temp table left_behind (a int)")
    eventually(lambda: [r["reason"] for r in pooler.console("SHOW PINS")] == ["temporary objects"])
    pool = next(r for r in pooler.console("SHOW POOLS EXTENDED") if r["database"] == "postgres")
    assert (pool["cl_pinned"], pool["sv_pinned"]) == ("1", "1")
    number = next(r["id"] for r in pooler.console("SHOW CLIENTS") if r["database"] == "postgres")
    session = pooler.console(f"SHOW SESSION {number}")
    assert ("pin", "temporary objects") in {(r["kind"], r["name"]) for r in session}
    assert ("setting", "DateStyle") in {(r["kind"], r["name"]) for r in session}
    client.close()
    with connect(pooler.host, pooler.port) as other:
        assert other.execute("select to_regclass('left_behind')").fetchall() == [(None,)]
    assert pooler.console("SHOW PINS") == []


def test_pin_idle_timeout(pg15, make_pooler):
    """A pinned client that does nothing does not keep its server for ever."""
    if kind() != "pgweir":
        pytest.skip("other poolers do not pin")
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "pin_idle_timeout": 1})
    with connect(pooler.host, pooler.port) as idle, connect(pooler.host, pooler.port) as other:
        idle.execute("select pg_advisory_lock(79)")
        assert other.execute("select 1").fetchall() == [(1,)]
        with pytest.raises(psycopg.Error):
            idle.execute("select 1")


def test_startup_values_do_not_depend_on_whom_the_server_served_before(pg, make_pooler):
    """Settings of the startup packet were tried under another client's role and DateStyle, and what came of it was kept."""
    if kind() == "direct":
        pytest.skip("nobody has used the session before")
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "ignore_startup_parameters": "none"})
    pg.psql("drop role if exists startup_bob; create role startup_bob")
    with pooler.connect() as other:
        other.rows("set session authorization startup_bob")
        other.rows("set datestyle = 'SQL, DMY'")
        other.rows("set bytea_output = 'escape'")
        options = {"DateStyle": "ISO", "options": "-c role=startup_bob"}
        with pooler.connect(options=options) as c, wire.Connection(port=pg.port, options=options) as direct:
            for name in ("DateStyle", "is_superuser", "session_authorization"):
                assert c.parameters[name] == direct.parameters[name], name
            for shown in ("datestyle", "bytea_output", "role", "session_authorization"):
                assert c.value(f"show {shown}") == direct.value(f"show {shown}"), shown
        assert other.value("show datestyle") == "SQL, DMY"
        assert other.value("select session_user") == "startup_bob"
        # What is refused leaves the server in order.
        with pytest.raises(wire.ServerError):
            pooler.connect(options={"options": "-c role=nobody_of_this_name"})
        assert other.value("show bytea_output") == "escape"
