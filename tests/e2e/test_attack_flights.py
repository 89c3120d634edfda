"""Attacks by a definition on clients that share a server: a function is replaced while a call of it is on its way, and
another client's query stands behind that call.

A client holds a lock on the table that the call reads, so that the server cannot begin the call before the client has
committed its new function. PostgreSQL does not know that this commit waits for the call.
"""

import pytest

from harness import wire
from harness.attacks import database
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import error_codes, rows_of

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not share servers")

HEAD = "create or replace function public.ax_f() returns int language sql as "
CLEAN = HEAD + "'select 1'"
DIRTY = HEAD + "$$select length(set_config('search_path', 'ax_evil', false))$$"



def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SCHEMA = f"""
create table ax_one as select 1;
create table ax_who as select 'own' as who;
create schema ax_evil;
create table ax_evil.ax_who as select 'evil' as who;
{CLEAN};
create view ax_view as select public.ax_f() from public.ax_one;
create function ax_lazy(g int) returns int language plpgsql as
    $f$begin if g = 3 then return (select count(*) from public.ax_one); end if; return g; end$f$;
create view ax_locks as select repeat('x', 9000), ax_lazy(g) from generate_series(1, 3) g;
create function ax_defines() returns int language plpgsql as
    $f$begin execute {quoted(DIRTY)}; return 1; end$f$;
"""

CALL = "select * from public.ax_view"
VICTIM = "select who from ax_who"


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with a database that has the function, and a view that calls it."""
    with database(pg, "ax", SCHEMA) as cluster:
        yield cluster


@pytest.fixture
def pooler(prepared, make_pooler):
    """A pooler with two servers that has read the catalog, where every class of statements counts as short."""
    prepared.psql(CLEAN, dbname="ax")
    databases = {name: f"host=127.0.0.1 port={prepared.port} dbname=ax {more}"
                 for name, more in (("ax", ""), ("session", "pool_mode=session"))}
    settings = {"default_pool_size": 2, "pipeline_depth": 8, "link": "adversarial", "query_wait_timeout": 20}
    made = make_pooler(prepared, mode="transaction", databases=databases, settings=settings)
    eventually(lambda: flights_share(made))
    return made


def connect(pooler, entry="ax"):
    return pooler.connect(user="postgres", database=entry)


def count(pooler, name) -> int:
    rows = {row["name"]: int(row["count"]) for row in pooler.console("SHOW STATE_STATS")}
    return rows[name]


def flights_share(pooler) -> bool:
    """Whether calls share a server: they do when the catalog has been read."""
    before = count(pooler, "flights_shared")
    clients = [connect(pooler) for _ in range(5)]
    for client in clients[:2]:
        client.send(wire.query("select pg_sleep(0.1)"))
    for client in clients[2:]:
        client.send(wire.query(CALL))
    for client in clients:
        assert error_codes(client.read_ready()) == []
        client.close()
    return count(pooler, "flights_shared") > before


def share_a_server(pooler, busy, *flights) -> None:
    """These clients' queries are sent to one server, one behind the other, when `busy` has given it back."""
    before = count(pooler, "flights_shared")
    for waiting, (client, text) in enumerate(flights, 1):
        client.send(wire.query(text))
        pooler.wait_pool("ax", cl_waiting=waiting)
    assert error_codes(busy.query("rollback")) == []
    eventually(lambda: count(pooler, "flights_shared") > before)


COMMITS = {
    "query": lambda c: c.send(wire.query("commit")),
    "execute": lambda c: c.send(wire.parse("", "commit"), wire.bind(), wire.execute(), wire.sync()),
    "with the definition": lambda c: c.send(wire.query(f"{DIRTY}; commit")),
}


# In session pooling a definition in a block counts at once, so that nothing shares a server until it is committed.
@pytest.mark.parametrize(("entry", "commit"), [*(("ax", commit) for commit in COMMITS), ("session", "with the definition")])
def test_a_query_behind_a_call_runs_none_of_its_new_code(pooler, entry, commit):
    """Before, the victim read the other schema's table. All statements end, although the lock and the wait for the
    call stand against each other."""
    with connect(pooler, entry) as maker, connect(pooler) as busy, connect(pooler) as caller, connect(pooler) as victim:
        assert error_codes(maker.query("begin; lock table public.ax_one")) == []
        if commit != "with the definition":
            assert error_codes(maker.query(DIRTY)) == []
        keeps_servers = [busy] if entry == "ax" else [busy, connect(pooler)]
        for one in keeps_servers:
            assert error_codes(one.query("begin; select 1")) == []
        share_a_server(pooler, busy, (caller, CALL), (victim, VICTIM))
        COMMITS[commit](maker)
        assert error_codes(maker.read_ready()) == []
        assert rows_of(victim.read_ready()) == [("own",)]
        assert error_codes(caller.read_ready()) == []


def test_a_call_that_waits_for_the_definer_in_the_midst_of_its_reply(pooler):
    """A deadlock that PostgreSQL does not see. The call is its victim: a part of its reply has come."""
    with connect(pooler) as maker, connect(pooler) as busy, connect(pooler) as caller, connect(pooler) as rider:
        assert error_codes(maker.query("begin; lock table public.ax_one")) == []
        assert error_codes(maker.query(CLEAN)) == []
        assert error_codes(busy.query("begin; select 1")) == []
        share_a_server(pooler, busy, (caller, "select * from public.ax_locks"), (rider, "select 1"))
        caller.read_until("D")
        assert error_codes(maker.query("commit", timeout=10)) == []
        assert error_codes(caller.read_ready()) == ["57014"]
        assert rows_of(rider.read_ready()) == [("1",)]


@pytest.mark.parametrize("entry", ("ax", "session"))
def test_a_function_that_is_called_by_its_number_may_define(prepared, pooler, entry):
    """Before, the catalog was not read again, and the next client of the server had the new function's setting."""
    number = int(prepared.psql("select 'public.ax_defines()'::regprocedure::oid", dbname="ax"))
    with connect(pooler, entry) as maker:
        maker.send(wire.function_call(number))
        assert error_codes(maker.read_ready()) == []
    with connect(pooler) as caller:
        assert error_codes(caller.query(CALL)) == []
    with connect(pooler) as one, connect(pooler) as two:
        for client in (one, two):
            client.send(wire.query(f"{VICTIM} where pg_sleep(0.1) is not null"))
        assert [rows_of(client.read_ready()) for client in (one, two)] == [[("own",)], [("own",)]]


def test_a_client_whose_definition_waits_in_a_block_is_not_idle(pooler):
    """Before, the limit on idle transactions ended its server while its COMMIT waited for a flight."""
    with connect(pooler) as holder, connect(pooler) as maker, connect(pooler, "session") as locker:
        assert error_codes(locker.query("begin; lock table public.ax_one")) == []
        assert error_codes(maker.query("begin; set local idle_in_transaction_session_timeout = '300ms'")) == []
        assert error_codes(maker.query(CLEAN)) == []
        with connect(pooler) as caller, connect(pooler) as rider:
            assert error_codes(holder.query("begin; select 1")) == []
            share_a_server(pooler, holder, (caller, "select * from public.ax_locks"), (rider, "select 1"))
            caller.read_until("D")
            assert error_codes(maker.query("commit", timeout=10)) == []
            assert error_codes(caller.read_ready()) == ["57014"]
            assert rows_of(rider.read_ready()) == [("1",)]
