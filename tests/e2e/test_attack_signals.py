"""Process ids told at login, and what SQL may do with them."""

from __future__ import annotations

import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.waiting import Stopwatch
from harness.wire import error_codes, rows_of

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]


def call(c: wire.Connection, how: str, function: str, process_id: int) -> list[wire.Message]:
    """SELECT function(process_id) in one of the ways that drivers have."""
    if how == "simple":
        return c.query(f"SELECT {function}({process_id})")
    if how == "in a block":
        c.query("begin")
        messages = c.query(f"select {function}({process_id});")
        c.query("commit")
        return messages
    if how == "in a block, unnamed":
        c.query("begin")
        messages = call(c, "unnamed", function, process_id)
        c.query("commit")
        return messages
    if how == "unnamed":
        c.send(wire.one_statement(f"select {function}($1)", [str(process_id)]), wire.sync())
        return c.read_ready()
    c.send(wire.parse("p", f"select pg_catalog.{function}($1)", [23]), wire.describe("S", "p"), wire.sync())
    c.read_ready()
    value = process_id.to_bytes(4, "big")
    c.send(wire.bind("", "p", [value], [1], [1]), wire.execute(), wire.sync())
    return c.read_ready()


HOWS = ["simple", "in a block", "unnamed", "in a block, unnamed", "prepared, binary"]


def says_true(messages: list[wire.Message]) -> bool:
    return [m.values for m in messages if m.tag == "D"] in ([[b"t"]], [[b"\1"]])


def test_process_ids_do_not_come_again(pg15, make_pooler):
    pooler = make_pooler(pg15)
    seen = []
    for _ in range(50):
        with pooler.connect() as c:
            seen.append(c.process_id)
            assert 2**22 < c.process_id < 2**31
    assert len(set(seen)) == 50
    with pooler.connect() as c:
        c.send(wire.query("select pg_sleep(20)"))
        time.sleep(0.2)
        c.cancel()
        assert error_codes(c.read_ready()) == ["57014"]


@pytest.mark.parametrize("how", HOWS)
def test_a_client_can_be_ended_by_the_id_it_was_told(pg, make_pooler, how):
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with pooler.connect() as victim, pooler.connect() as killer:
        victim.query("begin")
        messages = call(killer, how, "pg_terminate_backend", victim.process_id)
        assert says_true(messages), messages
        error = wire.first_error(victim.read_to_end(5)).fields
        assert (error["C"], error["M"]) == ("57P01", "terminating connection due to administrator command")
        assert killer.value("select 1") == "1"


@pytest.mark.parametrize("how", HOWS)
def test_a_clients_query_can_be_cancelled_by_the_id_it_was_told(pg, make_pooler, how):
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with pooler.connect() as victim, pooler.connect() as canceller:
        victim.send(wire.query("select pg_sleep(20)"))
        time.sleep(0.2)
        watch = Stopwatch()
        assert says_true(call(canceller, how, "pg_cancel_backend", victim.process_id))
        assert error_codes(victim.read_ready()) == ["57014"]
        assert watch.seconds < 5
        assert victim.value("select 2") == "2"


NOBODY = "is not a PostgreSQL backend process"


def acts_on_nobody(victim, messages) -> None:
    """The server gets the call, and knows no such process."""
    assert [m.values for m in messages if m.tag == "D"] in ([[b"f"]], [[b"\0"]])
    assert [m.fields["M"].endswith(NOBODY) for m in messages if m.tag == "N"] == [True]
    assert victim.value("select 1") == "1"


# What reads no messages of the extended protocol reads no such call in them.
UNREAD = {
    "session pooling": {"mode": "session"},
    "no prepared statements": {"settings": {"max_prepared_statements": 0}},
}


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("what", UNREAD)
def test_where_only_a_query_acts_on_a_client(pg15, make_pooler, what, how, function):
    """A driver that sends the id as a parameter gets false."""
    pooler = make_pooler(pg15, **UNREAD[what])
    with pooler.connect() as victim, pooler.connect() as caller:
        victim.query("select 1")
        messages = call(caller, how, function, victim.process_id)
        if how in ("simple", "in a block"):
            assert says_true(messages), messages
        else:
            acts_on_nobody(victim, messages)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_execute_acts_on_nobody(pg15, make_pooler, mode):
    """The call is not the whole statement."""
    pooler = make_pooler(pg15, mode=mode)
    with pooler.connect() as victim, pooler.connect() as caller:
        caller.query("prepare stops(int) as select pg_terminate_backend($1)")
        acts_on_nobody(victim, caller.query(f"execute stops({victim.process_id})"))


@pytest.mark.parametrize("how", HOWS)
def test_others_clients_cannot_be_ended(pg15, make_pooler, how):
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect(user="bob") as victim, pooler.connect(user="alice") as attacker, pooler.connect() as root:
        assert not says_true(call(attacker, how, "pg_terminate_backend", victim.process_id))
        assert victim.value("select 1") == "1"
        # A superuser that acts as somebody else is no superuser then.
        root.query("set role alice")
        assert not says_true(call(root, how, "pg_terminate_backend", victim.process_id))
        assert victim.value("select 2") == "2"
        root.query("reset role")
        root.query("set session authorization alice")
        assert not says_true(call(root, how, "pg_terminate_backend", victim.process_id))
        assert victim.value("select 3") == "3"
        root.query("reset session authorization")
        assert says_true(call(root, how, "pg_terminate_backend", victim.process_id))
        assert victim.closed()


def test_another_session_authorization_is_not_its_login_user(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect() as victim, pooler.connect() as c:
        c.query("set session authorization alice")
        assert not says_true(call(c, "simple", "pg_terminate_backend", victim.process_id))
        assert victim.value("select 1") == "1"


def test_a_failed_transaction_ends_nobody(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect() as victim, pooler.connect() as c:
        c.query("begin")
        c.query("select 1/0")
        assert error_codes(c.query(f"select pg_terminate_backend({victim.process_id})")) == ["25P02"]
        c.query("rollback")
        assert victim.value("select 1") == "1"
        messages = c.query(f"select pg_terminate_backend({c.process_id + 1000})")
        assert rows_of(messages) == [("f",)], "nobody has it"


@pytest.mark.parametrize("how", HOWS)
def test_a_client_can_cancel_itself(pg, make_pooler, how):
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as c:
        assert error_codes(call(c, how, "pg_cancel_backend", c.process_id)) == ["57014"], "as on a direct connection"
        assert c.value("select 1") == "1"


def test_a_client_can_end_itself(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.send(wire.query(f"select pg_terminate_backend({c.process_id})"))
        assert wire.first_error(c.read_to_end(5)).fields["C"] == "57P01"


@pytest.mark.parametrize("how", HOWS)
def test_a_superuser_of_one_postgresql_is_nobody_on_another(pg15, own_cluster, make_pooler, how):
    other = own_cluster()
    entry = "host={0.host} port={0.port} dbname=postgres"
    pooler = make_pooler(pg15, databases={"here": entry.format(pg15), "too": entry.format(pg15), "there": entry.format(other)})
    with pooler.connect(database="here") as root, pooler.connect(database="there") as victim:
        for function in ("pg_terminate_backend", "pg_cancel_backend"):
            messages = call(root, how, function, victim.process_id)
            assert not says_true(messages) and not error_codes(messages), messages
        assert victim.value("select 1") == "1"
        with pooler.connect(database="too") as same:
            assert says_true(call(root, how, "pg_terminate_backend", same.process_id))
            assert same.closed()


FUNCTIONS = {"pg_terminate_backend": "pg_terminate_backend(int, bigint)", "pg_cancel_backend": "pg_cancel_backend(int)"}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("how", HOWS)
def test_who_may_not_call_the_function_ends_nobody(pg, make_pooler, how, function):
    pg.psql("create database guarded")
    try:
        pg.psql(f"revoke execute on function pg_catalog.{FUNCTIONS[function]} from public", dbname="guarded")
        pooler = make_pooler(pg, settings={"default_pool_size": 2}, databases={"guarded": entry_of(pg, "guarded")})
        with (
            pooler.connect(user="alice", database="guarded") as victim,
            pooler.connect(user="alice", database="guarded") as caller,
            pooler.connect(database="guarded") as root,
        ):
            victim.send(wire.query("select pg_sleep(3)"))
            time.sleep(0.2)
            messages = call(caller, how, function, victim.process_id)
            assert error_codes(messages) == ["42501"], messages
            assert function in wire.first_error(messages).fields["M"]
            assert error_codes(victim.read_ready()) == []
            assert caller.value("select 1") == "1"
            # A superuser may, but not under this role.
            victim.send(wire.query("select pg_sleep(10)"))
            time.sleep(0.2)
            assert says_true(call(root, how, function, victim.process_id))
            assert error_codes(victim.read_to_end(5) if "terminate" in function else victim.read_ready()) != []
    finally:
        pg.psql("drop database guarded with (force)")


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("how", ["simple", "in a block", "unnamed", "in a block, unnamed", "prepared"])
def test_a_function_of_the_users_in_front_of_pg_catalog_is_called_itself(pg, make_pooler, how, function):
    pg.psql("create database fronted")
    try:
        pg.psql("create schema app", dbname="fronted")
        pg.psql(f"create function app.{function}(int) returns text language sql as $$ select 'own' $$", dbname="fronted")
        pg.psql("grant usage on schema app to public", dbname="fronted")
        pooler = make_pooler(pg, settings={"default_pool_size": 2}, databases={"fronted": entry_of(pg, "fronted")})
        with (
            pooler.connect(user="alice", database="fronted") as victim,
            pooler.connect(user="alice", database="fronted") as caller,
        ):
            victim.send(wire.query("select pg_sleep(3)"))
            time.sleep(0.2)
            caller.query("set search_path = app, pg_catalog")
            if how == "prepared":
                caller.send(wire.parse("p", f"select {function}($1)", [23]), wire.sync())
                caller.read_ready()
                caller.send(wire.bind("", "p", [str(victim.process_id)]), wire.execute(), wire.sync())
                messages = caller.read_ready()
            else:
                messages = call(caller, how, function, victim.process_id)
            assert rows_of(messages) == [("own",)], messages
            assert error_codes(victim.read_ready()) == []
            # The name with its schema means PostgreSQL's function, and so does the bare one where nothing is in front.
            victim.send(wire.query("select pg_sleep(10)"))
            time.sleep(0.2)
            name = f"pg_catalog.{function}" if how == "simple" else function
            if how != "simple":
                caller.query("set search_path = pg_catalog")
            assert says_true(call(caller, "simple", name, victim.process_id))
            assert error_codes(victim.read_to_end(5) if "terminate" in function else victim.read_ready()) != []
    finally:
        pg.psql("drop database fronted with (force)")


@pytest.mark.parametrize(("how", "sqlstate"), [("in a block", "25P02"), ("unnamed", "57014"), ("prepared", "57014")])
def test_without_an_answer_nobody_is_ended(own_cluster, make_pooler, how, sqlstate):
    """The server does not say in time whether the client may call the function."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"default_pool_size": 3})
    with (
        pooler.connect() as victim,
        pooler.connect() as caller,
        wire.Connection(host=cluster.host, port=cluster.port, user=cluster.superuser, database="postgres") as admin,
    ):
        caller.send(wire.parse("p", "select pg_terminate_backend($1)", [23]), wire.describe("S", "p"), wire.sync())
        caller.read_ready()
        caller.query("set statement_timeout = 1000")
        admin.query("begin; lock table pg_catalog.pg_proc in access exclusive mode")
        if how == "prepared":
            caller.send(wire.bind("", "p", [str(victim.process_id)]), wire.execute(), wire.sync())
            messages = caller.read_ready()
        else:
            messages = call(caller, how, "pg_terminate_backend", victim.process_id)
        admin.query("rollback")
        assert error_codes(messages) == [sqlstate], messages
        assert victim.value("select 1") == "1"
        assert caller.value("select 2") == "2"
        assert says_true(call(caller, "simple", "pg_terminate_backend", victim.process_id))
        assert victim.closed()


def entry_of(cluster, database: str) -> str:
    return f"host={cluster.host} port={cluster.port} dbname={database}"
