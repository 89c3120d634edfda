"""State that functions, procedures, blocks, triggers and views change: no text of the client's shows it.

As in test_session_state.py every script runs twice, directly and through the pooler with `link = adversarial`, and two
neighbours look between any two statements for what is not theirs.
"""

import os

import psycopg
import pytest

from harness import wire
from harness.answers import answer
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create function code_set(v text) returns text language plpgsql
    as $$begin perform set_config('work_mem', v, false); return v; end$$;
create function code_nested(v text) returns text language sql as 'select code_set(v)';
create function code_atomic(v text) returns text begin atomic select code_set(v); end;
create function code_tenant(v text) returns void language plpgsql
    as $$begin perform set_config('app.code', v, false); end$$;
create function code_named(n text, v text) returns text language sql as 'select set_config(n, v, false)';
create function code_statement() returns void language plpgsql
    as $$begin if true then set datestyle = 'German'; end if; end$$;
create function "Code, Ödd Name"(v text) returns text language sql as 'select code_set(v)';
create procedure code_commit(v text) language plpgsql
    as $$begin perform code_set(v); commit; perform code_tenant(v); commit; end$$;
create function code_dynamic(q text) returns void language plpgsql as $$begin execute q; end$$;
create function code_lock(n int) returns void language sql as 'select pg_advisory_lock(n)';
create function code_unlock(n int) returns bool language sql as 'select pg_advisory_unlock(n)';
create function code_temp() returns void language plpgsql as $$begin create temp table code_tt (a int); end$$;
create function code_untemp() returns void language plpgsql as $$begin drop table code_tt; end$$;
create function code_listen() returns void language plpgsql as $$begin listen code_channel; end$$;
create function code_unlisten() returns void language plpgsql as $$begin unlisten *; end$$;
create table code_table (a int);
create function code_fired() returns trigger language plpgsql
    as $$begin perform set_config('work_mem', '2MB', false); perform code_tenant('fired'); return new; end$$;
create trigger fires before insert on code_table for each row execute function code_fired();
create view code_view as select code_set('6MB') as v;
create view code_outer as select * from code_view;
create table code_default (a text default code_set('8MB'), b int);
create type code_shape as (a int);
"""

WORK_MEM, TENANT = "show work_mem", "select current_setting('app.code', true)"
OWN_LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
CHANNELS = "select count(*) from pg_listening_channels()"

# Each with whether it keeps its server meanwhile.
SCRIPTS = {
    "functions": (False, [
        "select code_set('11MB')", WORK_MEM, "select code_nested('12MB')", WORK_MEM, "select code_atomic('13MB')", WORK_MEM,
        "select public.\"code_set\"('14MB')", WORK_MEM, "select code_tenant('one')", TENANT, "select code_statement()",
        "select date '2020-02-03'::text", "select \"Code, Ödd Name\"('15MB')", WORK_MEM,
        "select code_named('app.other', 'x')", "select current_setting('app.other', true)",
    ]),
    # Whoever is in a transaction has its server.
    "transactions": (True, [
        "begin", "select code_set('16MB')", "rollback", WORK_MEM, "begin", "select code_set('17MB')", "select code_tenant('t')",
        "commit", WORK_MEM, TENANT, "begin", "select code_set('18MB')", "select 1/0", "commit", WORK_MEM,
        "select code_set('19MB'), 1/0", WORK_MEM,
    ]),
    "procedures and blocks": (False, [
        "call code_commit('21MB')", WORK_MEM, TENANT,
        "do $$begin set work_mem = '22MB'; set app.code = 'block'; end$$", WORK_MEM, TENANT,
        "do $$begin perform code_nested('23MB'); commit; perform code_tenant('again'); end$$", WORK_MEM, TENANT,
    ]),
    "triggers and views": (False, [
        "insert into code_table values (1)", WORK_MEM, TENANT, "select code_set('24MB')", "select count(*) > 0 from code_table",
        WORK_MEM, "select v from code_outer", WORK_MEM, "insert into code_default (b) values (1)", WORK_MEM,
    ]),
    "dynamic": (True, ["select code_dynamic('set work_mem = ''25MB''')", WORK_MEM]),
    "locks": (True, ["select code_lock(501)", OWN_LOCKS, "select code_unlock(501)", OWN_LOCKS]),
    "temporary": (True, [
        "select code_temp()", "insert into code_tt values (7)", "table code_tt", "select code_untemp()",
        "select to_regclass('code_tt')",
    ]),
    "temporary, dynamic": (True, [
        "select code_dynamic('create temp table code_tt (a int)')", "insert into code_tt values (7)", "table code_tt",
        "select code_dynamic('drop table code_tt')", "select to_regclass('code_tt')",
    ]),
    "listening": (True, ["select code_listen()", CHANNELS, "select code_unlisten()", CHANNELS]),
}


@pytest.fixture(scope="module")
def code(pg):
    """A database with functions that change the session; others have none to look for."""
    name = f"code_{os.environ.get('PYTEST_XDIST_WORKER', 'gw')}"
    pg.psql(f"create database {name}")
    pg.psql(SCHEMA, dbname=name)
    yield name
    pg.psql(f"drop database {name} with (force)")


def connect(host, port, database, **more):
    return psycopg.connect(host=host, port=port, user="postgres", dbname=database, autocommit=True, **more)


def run(host, port, database, script, between=lambda: None, threshold=None):
    with connect(host, port, database, prepare_threshold=threshold) as client:
        answers = []
        for statement in script:
            between()
            answers.append((statement, answer(client, statement)))
        return answers


class Neighbours:
    """Two clients that do a little, and must see nothing of what others do."""

    def __init__(self, *connections):
        self.connections, self.turn = connections, 0

    def look(self):
        for own in self.connections:
            self.turn += 1
            answer(own, f"set work_mem = '{100 + self.turn}kB'")
            assert answer(own, WORK_MEM) == [(f"{100 + self.turn}kB",)]
            assert answer(own, TENANT) in ([(None,)], [("",)])
            assert answer(own, "select date '2020-02-03'::text") == [("2020-02-03",)]
            assert answer(own, OWN_LOCKS) == [(0,)]
            assert answer(own, CHANNELS) == [(0,)]
            assert answer(own, "select to_regclass('code_tt')") == [(None,)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", SCRIPTS)
def test_state_changed_by_code_is_kept(pg, code, make_pooler, name, size):
    """State that code changes leaks to other clients, or is lost on the way to another server."""
    keeps_server, script = SCRIPTS[name]
    expected = run(pg.host, pg.port, code, script)
    pooler = make_pooler(pg, settings={"default_pool_size": size, "link": "adversarial"})
    with connect(pooler.host, pooler.port, code) as one, connect(pooler.host, pooler.port, code) as two:
        neighbours = Neighbours(one, two)
        meanwhile = neighbours.look if size > 1 or not keeps_server else lambda: None
        # Parsed anew each time, and by name.
        for threshold in (None, 0):
            assert run(pooler.host, pooler.port, code, script, meanwhile, threshold) == expected
            neighbours.look()
    assert not pooler.console("SHOW PINS")


def test_function_call_by_oid(pg, code, make_pooler):
    """FunctionCall names no function: what it does is asked for each time."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2, "link": "adversarial"})
    with pooler.connect(database=code) as client, connect(pooler.host, pooler.port, code) as other:
        oids = {n: int(client.value(f"select '{n}'::regproc::oid")) for n in ("code_set", "code_tenant")}
        for argument in ("27MB", "28MB"):
            client.send(wire.function_call(oids["code_set"], [argument.encode()], [0], 0))
            client.read_ready()
            client.send(wire.function_call(oids["code_tenant"], [argument.encode()], [0], 0))
            client.read_ready()
            Neighbours(other).look()
            assert (client.value(WORK_MEM), client.value(TENANT)) == (argument, argument)


LATER = "create or replace function code_{0}(v text) returns text language plpgsql as 'begin return set_config(''work_mem'', v, false); end'"


def test_function_made_through_the_pooler_counts_at_once(pg, code, make_pooler):
    """A function made after the catalog was read changes sessions that nobody watches."""
    # Who calls what was made a moment ago keeps its server: nobody knows whose settings it makes.
    pooler = make_pooler(pg, settings={"default_pool_size": 4, "link": "adversarial"})
    with (
        connect(pooler.host, pooler.port, code, prepare_threshold=0) as maker,
        connect(pooler.host, pooler.port, code, prepare_threshold=0) as user,
        connect(pooler.host, pooler.port, code) as other,
    ):
        neighbours = Neighbours(other)
        neighbours.look()
        # Prepared, and found harmless, before there is anything to find.
        user.execute("create or replace function code_later(v text) returns text language sql as 'select v'")
        user.execute("select code_later('31MB')")
        neighbours.look()
        maker.execute(LATER.format("later"))
        user.execute("select code_later('32MB')")
        neighbours.look()
        assert answer(user, WORK_MEM) == [("32MB",)]
        # Made and run in one transaction.
        with maker.transaction():
            maker.execute(LATER.format("within"))
            maker.execute("select code_within('33MB')")
        neighbours.look()
        assert answer(maker, WORK_MEM) == [("33MB",)]
        # A trigger that runs a function known for long.
        maker.execute("create table if not exists code_late (a int)")
        user.execute("insert into code_late values (1)")
        maker.execute("create or replace trigger fires before insert on code_late for each row execute function code_fired()")
        user.execute("insert into code_late values (1)")
        neighbours.look()
        assert answer(user, WORK_MEM) == [("2MB",)]


def test_function_made_elsewhere_counts_after_reconnect(pg, code, make_pooler):
    """What is not made through the pooler is seen when the next server logs in."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2, "link": "adversarial"})
    with connect(pooler.host, pooler.port, code) as user, connect(pooler.host, pooler.port, code) as other:
        neighbours = Neighbours(other)
        neighbours.look()
        pg.psql(LATER.format("elsewhere"), dbname=code)
        pooler.console("RECONNECT")
        neighbours.look()
        user.execute("select code_elsewhere('34MB')")
        neighbours.look()
        assert answer(user, WORK_MEM) == [("34MB",)]


def test_function_in_c_pins(pg, code, make_pooler):
    """A function in C may keep state in the server process: nobody else gets that process."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    native = "create or replace function code_native(oid) returns void language c as '$libdir/plpgsql', 'plpgsql_validator'"
    with connect(pooler.host, pooler.port, code) as maker:
        maker.execute(native)
        reasons = [row["reason"] for row in pooler.console("SHOW PINS")]
        assert reasons == ["function in C outside an extension"]
    with connect(pooler.host, pooler.port, code) as user:
        user.execute("set work_mem = '1MB'")
        assert not pooler.console("SHOW PINS")
        # Known by its name when the catalog has been read again.
        eventually(lambda: user.execute("select 'code_native'::regproc") and pooler.console("SHOW PINS"))
        assert [row["reason"] for row in pooler.console("SHOW PINS")] == reasons
    pg.psql("drop function code_native", dbname=code)


def test_a_database_without_such_functions_is_hardly_read(pg, make_pooler):
    """Reading the catalog again and again, or watching names where there are none."""
    pooler = make_pooler(pg, settings={"default_pool_size": 3})
    pg.psql("drop database if exists plain_code; create database plain_code")
    try:
        clients = [connect(pooler.host, pooler.port, "plain_code") for _ in range(3)]
        for client in clients:
            client.execute("begin")
            client.execute("create function f%d() returns int language sql return 1" % id(client))
        for client in clients:
            client.execute("commit")
            client.close()
        counts = {row["name"]: int(row["count"]) for row in pooler.console("SHOW STATE_STATS")}
        # One reading for all three commits, where nothing delays one of them.
        assert 1 <= counts["catalog_reads"] <= 3, counts
        # Who defines something is probed, and so are the commits until the catalog has been read again.
        assert counts["mentions"] == 0 and counts["probes"] <= 6, counts
        eventually(lambda: pooler.pool("plain_code")["cl_active"] == "0")
    finally:
        pg.psql("drop database plain_code with (force)")
