"""Protocol-level prepared statements when servers are shared.

Each test stands for an item of the list of bugs that poolers have had, under "Prepared statements"; the item is
in its docstring.
"""

import threading

import pytest

from harness import wire
from harness.pooler import kind, resident_bytes
from harness.scenes import backend_pid, elsewhere, held_server
from harness.waiting import eventually
from harness.wire import (
    bind,
    close,
    command_tags,
    describe,
    error_codes,
    execute,
    flush,
    parse,
    query,
    rows_of,
    sync,
    tags,
)

TWO_SERVERS = {"default_pool_size": 2}
ONE_SERVER = {"default_pool_size": 1}

# An error that comes at Execute: the planner folds `1/0` at Bind already.
FAILS_AT_EXECUTE = "select 1 / x from generate_series(0, 0) x"


def ask(c, *messages, ready=1):
    """Sends the messages in one write and reads to the ReadyForQuery."""
    c.send(*messages)
    return c.read_ready(ready)


def run(c, statement, values=()):
    """Rows of one execution of a named statement."""
    return rows_of(ask(c, bind("", statement, values), execute(), sync()))


# ---- on another server


def test_bind_on_another_server(pg, make_pooler):
    """Bind on a statement prepared on another server."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        assert tags(ask(c, parse("s1", "select $1::int + 1"), sync())) == "1Z"
        with elsewhere(pooler, c, pid):
            messages = ask(c, bind("", "s1", ["1"]), execute(), sync())
            assert tags(messages) == "2DCZ"
            assert rows_of(messages) == [("2",)]


def test_describe_on_another_server(pg, make_pooler):
    """Describe on a statement prepared on another server."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        there = ask(c, parse("s1", "select $1::int as a, $2::text as b"), describe("S", "s1"), sync())
        with elsewhere(pooler, c, pid):
            here = ask(c, describe("S", "s1"), sync())
            assert tags(here) == "tTZ"
            assert here[:2] == there[1:3]


def test_close_on_another_server(pg, make_pooler):
    """Close on a statement prepared on another server: it is gone, and the name is free."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("s1", "select 1"), sync())
        with elsewhere(pooler, c, pid):
            assert tags(ask(c, close("S", "s1"), sync())) == "3Z"
            assert error_codes(ask(c, bind("", "s1"), execute(), sync())) == ["26000"]
            assert tags(ask(c, parse("s1", "select 2"), sync())) == "1Z"
        assert run(c, "s1") == [("2",)]


def test_a_whole_transaction_on_another_server(pg, make_pooler):
    """Bind on another server, inside a transaction that begins there."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("s1", "select $1::int"), sync())
        with elsewhere(pooler, c, pid):
            c.query("begin")
            assert run(c, "s1", ["5"]) == [("5",)]
            assert backend_pid(c) != pid or kind() == "direct"
            assert run(c, "s1", ["6"]) == [("6",)]
            c.query("commit")


# ---- names and identity


def test_same_name_twice_is_refused(pg, make_pooler):
    """Same name redefined, without Close: PostgreSQL's own error 42P05, also on another server."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("s1", "select 1"), sync())
        assert error_codes(ask(c, parse("s1", "select 2"), sync())) == ["42P05"]
        with elsewhere(pooler, c, pid):
            assert error_codes(ask(c, parse("s1", "select 2"), sync())) == ["42P05"]
            assert run(c, "s1") == [("1",)]


def test_same_name_redefined_after_close(pg, make_pooler):
    """Same name redefined after Close, on the same server and on another."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        for i in range(4):
            messages = ask(c, close("S", "s1"), parse("s1", f"select {i}"), bind("", "s1"), execute(), sync())
            assert tags(messages) == "312DCZ"
            assert rows_of(messages) == [(str(i),)]
        with elsewhere(pooler, c, pid):
            assert run(c, "s1") == [("3",)]
            ask(c, close("S", "s1"), parse("s1", "select 'elsewhere'"), sync())
        assert run(c, "s1") == [("elsewhere",)]


def test_same_name_in_two_clients(pg, make_pooler):
    """Two clients use one name for two texts, on one server."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        ask(a, parse("s1", "select 'a'"), sync())
        ask(b, parse("s1", "select 'b'"), sync())
        for _ in range(3):
            assert run(a, "s1") == [("a",)]
            assert run(b, "s1") == [("b",)]
        ask(b, close("S", "s1"), sync())
        assert run(a, "s1") == [("a",)]
        assert error_codes(ask(b, bind("", "s1"), execute(), sync())) == ["26000"]


def test_same_text_with_different_parameter_types(pg, make_pooler):
    """Same text, different param OIDs."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b, pooler.connect() as c:
        sql = "select pg_typeof($1)::text"
        ask(a, parse("s", sql, [23]), sync())
        ask(b, parse("s", sql, [25]), sync())
        ask(c, parse("s", sql, [1082]), sync())
        for client, value, expected in ((a, "1", "integer"), (b, "x", "text"), (c, "2020-01-01", "date")) * 2:
            assert run(client, "s", [value]) == [(expected,)]
        described = [ask(client, describe("S", "s"), sync())[0] for client in (a, b, c)]
        assert [wire.text(m) for m in described] == [f"ParameterDescription [{oid}]" for oid in (23, 25, 1082)]


@pytest.mark.beyond_pgbouncer
def test_same_text_under_different_search_path(pg, make_pooler):
    """Same text, different search_path."""
    pg.psql(
        "create schema if not exists north; create schema if not exists south;"
        "create table if not exists north.place (a text); create table if not exists south.place (a int);"
        "truncate north.place, south.place; insert into north.place values ('north'); insert into south.place values (-1)"
    )
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with (
        pooler.connect(options={"search_path": "north"}) as north,
        pooler.connect(options={"search_path": "south"}) as south,
    ):
        for c in (north, south):
            ask(c, parse("s", "select a from place"), sync())
        for _ in range(2):
            assert run(north, "s") == [("north",)]
            assert run(south, "s") == [("-1",)]


@pytest.mark.beyond_pgbouncer
def test_same_text_under_different_datestyle(pg, make_pooler):
    """Same text, parsed under settings that fold its constants differently."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with (
        pooler.connect(options={"datestyle": "ISO, DMY"}) as dmy,
        pooler.connect(options={"datestyle": "ISO, MDY"}) as mdy,
    ):
        for c in (dmy, mdy):
            ask(c, parse("s", "select extract(month from date '01/02/2020')::int"), sync())
        for _ in range(2):
            assert run(dmy, "s") == [("2",)]
            assert run(mdy, "s") == [("1",)]


def test_users_do_not_share_statements(pg, make_pooler):
    """Same text, different role: names resolve as each user sees them."""
    pg.psql(
        "create schema if not exists alice authorization alice; create schema if not exists bob authorization bob;"
        "create or replace function alice.whose() returns text language sql as $$select 'alice'$$;"
        "create or replace function bob.whose() returns text language sql as $$select 'bob'$$"
    )
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect(user="alice") as a, pooler.connect(user="bob") as b:
        for c in (a, b):
            ask(c, parse("s", "select whose()"), sync())
        for _ in range(2):
            # "$user" is first in the default search_path.
            assert run(a, "s") == [("alice",)]
            assert run(b, "s") == [("bob",)]


@pytest.mark.parametrize("name", ['a"b', "a'b", "x y", "naïve", "S_1", "\\", "n" * 60, "PGBOUNCER_1", "pgweir_1", "_1"])
def test_any_name(pg15, make_pooler, name):
    """Names are the client's: no spelling may meet the pooler's own names on the server."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse(name, "select 1"), parse(name.swapcase() + "x", "select 2"), sync())
        with elsewhere(pooler, c, pid):
            assert run(c, name) == [("1",)]
            assert run(c, name.swapcase() + "x") == [("2",)]


# ---- what fails


def test_failed_parse_is_not_remembered(pg, make_pooler):
    """Parse fails on the server: not cached, neither for this client nor for another with the same text."""
    pg.psql("drop table if exists later")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for c in (a, b):
            messages = ask(c, parse("s", "select a from later"), sync())
            assert tags(messages) == "EZ" and error_codes(messages) == ["42P01"]
            assert error_codes(ask(c, bind("", "s"), execute(), sync())) == ["26000"]
        pg.psql("create table later as select 1 as a")
        for c in (a, b):
            assert rows_of(ask(c, parse("s", "select a from later"), bind("", "s"), execute(), sync())) == [("1",)]
    pg.psql("drop table later")


def test_failed_parse_in_a_pipeline(pg, make_pooler):
    """Failed Parse in a pipeline: what came before it stands, what comes after it until Sync never was."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        messages = ask(
            c,
            parse("before", "select 'before'"),
            bind("", "before"),
            execute(),
            parse("bad", "select nonsense from"),
            bind("", "bad"),
            execute(),
            parse("after", "select 'after'"),
            bind("", "after"),
            execute(),
            sync(),
            parse("next", "select 'next'"),
            bind("", "next"),
            execute(),
            sync(),
            ready=2,
        )
        assert tags(messages) == "12DCEZ12DCZ"
        for name, there in (("before", True), ("bad", False), ("after", False), ("next", True)):
            reply = ask(c, bind("", name), execute(), sync())
            assert error_codes(reply) == ([] if there else ["26000"]), name
        # All four names that failed or never were are free.
        assert tags(ask(c, parse("bad", "select 1"), parse("after", "select 2"), sync())) == "11Z"
        assert run(c, "bad") == [("1",)] and run(c, "after") == [("2",)]


def test_parse_skipped_by_an_earlier_error_is_not_remembered(pg, make_pooler):
    """A Parse that the server skipped because of an error before it must not count as parsed there."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        messages = ask(
            a, parse("", FAILS_AT_EXECUTE), bind(), execute(), parse("s", "select 'skipped, then shared'"), sync()
        )
        assert tags(messages) == "12EZ"
        for c in (b, a):
            assert tags(ask(c, parse("s", "select 'skipped, then shared'"), sync())) == "1Z"
            assert run(c, "s") == [("skipped, then shared",)]


def test_statement_known_on_the_server_parsed_again_after_an_error(pg, make_pooler):
    """The same with a text that the server has already: a reply that the pooler gives itself is skipped, too."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        ask(b, parse("s", "select 'known'"), sync())
        messages = ask(a, parse("", FAILS_AT_EXECUTE), bind(), execute(), parse("s", "select 'known'"), sync())
        assert tags(messages) == "12EZ"
        assert error_codes(ask(a, bind("", "s"), execute(), sync())) == ["26000"]
        assert tags(ask(a, parse("s", "select 'known'"), bind("", "s"), execute(), sync())) == "12DCZ"


def test_close_skipped_by_an_error_closes_nothing(pg, make_pooler):
    """A Close behind an error never happened."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, parse("s", "select 'kept'"), sync())
        assert tags(ask(c, parse("", FAILS_AT_EXECUTE), bind(), execute(), close("S", "s"), sync())) == "12EZ"
        assert run(c, "s") == [("kept",)]


@pytest.mark.parametrize("how", ("close", "drop", "reset"))
@pytest.mark.parametrize("with_flush", (False, True))
def test_client_leaves_between_parse_and_sync(pg15, make_pooler, how, with_flush):
    """Client disconnects between Parse and Sync: cache not poisoned."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for i in range(5):
        sql = f"select 'left {how} {i % 2}'"
        leaver = pooler.connect()
        leaver.send(parse("s", sql), *([flush()] if with_flush else []))
        if with_flush:
            assert leaver.read().tag == "1"
        getattr(leaver, how)()
        with pooler.connect() as c:
            assert tags(ask(c, parse("s", sql), bind("", "s"), execute(), sync())) == "12DCZ"


def test_missing_statement(pg, make_pooler):
    """SQLSTATE 26000 for a missing one, from Bind and from Describe; Close of one is no error."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        for what in (bind("", "nosuch"), describe("S", "nosuch")):
            messages = ask(c, what, execute(), sync())
            assert tags(messages) == "EZ" and error_codes(messages) == ["26000"]
            assert first_message(messages) == 'prepared statement "nosuch" does not exist'
        assert tags(ask(c, close("S", "nosuch"), sync())) == "3Z"
        assert c.value("select 1") == "1"
        # In a transaction the error ends it, as PostgreSQL has it.
        c.query("begin")
        c.query("select 1")
        assert ask(c, bind("", "nosuch"), sync())[-1].body == b"E"
        assert error_codes(c.query("select 1")) == ["25P02"]
        assert command_tags(c.query("rollback")) == ["ROLLBACK"]


def first_message(messages):
    return wire.first_error(messages).fields["M"]


# ---- eviction


@pytest.mark.parametrize("limit", (1, 2, 3))
def test_eviction_within_a_batch(pg, make_pooler, limit):
    """Eviction during a batch: `Parse A, Bind A, Parse C (evicts A), Sync`, and A again."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "max_prepared_statements": limit})
    with pooler.connect() as c:
        for _ in range(3):
            batch, expected = [], []
            for name in "abcd":
                batch += [close("S", name), parse(name, f"select '{name}'"), bind("", name), execute()]
                expected.append((name,))
            for name in "adbc":
                batch += [bind("", name), describe("P"), execute()]
                expected.append((name,))
            messages = ask(c, *batch, sync())
            assert rows_of(messages) == expected
            assert tags(messages) == "312DC" * 4 + "2TDC" * 4 + "Z"


def test_portal_outlives_the_eviction_of_its_statement(pg, make_pooler):
    """`Parse A, Bind A to a portal, Parse C (evicts A), Execute the portal`."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "max_prepared_statements": 1})
    with pooler.connect() as c:
        messages = ask(
            c,
            parse("a", "select 'a' from generate_series(1, 3)"),
            bind("p", "a"),
            execute("p", 1),
            parse("c", "select 'c'"),
            bind("q", "c"),
            execute("q"),
            execute("p"),
            sync(),
        )
        assert tags(messages) == "12Ds12DCDDCZ"
        assert rows_of(messages) == [("a",), ("c",), ("a",), ("a",)]
        assert run(c, "a") == [("a",)] * 3


def test_eviction_with_flush_only(pg, make_pooler):
    """Eviction with Flush-only async clients: no Sync between many statements."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "max_prepared_statements": 2})
    with pooler.connect() as c:
        for round_number in range(2):
            for i in range(8):
                name = f"f{i}"
                if round_number == 0:
                    c.send(parse(name, f"select {i}"), describe("S", name), flush())
                    assert tags(c.read_until("T")) == "1tT"
                c.send(bind("", name), execute(), flush())
                messages = c.read_until("C")
                assert tags(messages) == "2DC" and rows_of(messages) == [(str(i),)]
        assert tags(ask(c, sync())) == "Z"


def test_eviction_between_clients(pg, make_pooler):
    """Eviction Close ordering: clients that push each other's statements out of one server all the time."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "max_prepared_statements": 3})
    clients = [pooler.connect() for _ in range(3)]
    try:
        for number, c in enumerate(clients):
            for i in range(5):
                ask(c, parse(f"s{i}", f"select '{number}-{i}'"), sync())
        for i in (0, 4, 2, 1, 3, 0, 0, 4):
            for number, c in enumerate(clients):
                assert run(c, f"s{i}") == [(f"{number}-{i}",)]
        if kind() == "pgweir":
            held = int(pooler.console("show servers")[0]["prepared_statements"])
            assert held <= 3, f"{held} statements on a server that may hold 3"
            own = "select count(*) from pg_prepared_statements where statement ~ '^select ''[0-9]-'"
            assert clients[0].value(own) == "5", "the view shows the client's own, all of them"
    finally:
        for c in clients:
            c.close()


# ---- replies that the pooler gives itself


def test_reply_order_with_a_statement_the_server_has(pg, make_pooler):
    """Synthetic ParseComplete: its position before BindComplete, ParameterDescription, NoData."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    pg.psql("drop table if exists counted; create table counted (a int)")
    conversations = [
        [parse("s", "select $1::int"), describe("S", "s"), bind("", "s", ["1"]), describe("P"), execute(), sync()],
        [parse("i", "insert into counted values ($1)"), describe("S", "i"), sync()],
        [parse("i2", "insert into counted values ($1)"), bind("", "i2", ["1"]), describe("P"), execute(), sync()],
        [parse("x", "select 1"), parse("y", "select 2"), describe("S", "y"), describe("S", "x"), sync()],
        [parse("e1", "select 3"), describe("S", "nosuch"), parse("e2", "select 4"), sync()],
        [close("S", "s"), parse("s", "select $1::int"), close("S", "s"), parse("s", "select 5"), sync()],
        [parse("m1", ""), bind("", "m1"), describe("P"), execute(), sync()],
    ]
    expected = ["1tT2TDCZ", "1tnZ", "12nCZ", "11tTtTZ", "1EZ", "3131Z", "12nIZ"]
    for _ in range(3):
        with pooler.connect() as c:
            got = [tags(ask(c, *conversation)) for conversation in conversations]
            assert got == expected
    pg.psql("drop table counted")


def test_reply_order_behind_large_rows(pg15, make_pooler):
    """Synthetic ParseComplete behind rows that are still streaming."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for _ in range(2):
        with pooler.connect() as c:
            c.send(
                parse("big", "select repeat('x', 3000000) from generate_series(1, 4)"),
                bind("", "big"),
                execute(),
                parse("small", "select 1"),
                bind("", "small"),
                execute(),
                sync(),
                parse("last", "select 2"),
                describe("S", "last"),
                sync(),
            )
            assert tags(c.read_ready(2)) == "12DDDDC12DCZ1tTZ"


def test_parse_alone_is_answered_before_sync(pg15, make_pooler):
    """A Flush brings the answer to a Parse that the pooler answers itself."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for _ in range(2):
        with pooler.connect() as c:
            c.send(parse("s", "select 1"), flush())
            assert c.read(2).tag == "1"
            c.send(close("S", "s"), flush())
            assert c.read(2).tag == "3"
            assert tags(ask(c, sync())) == "Z"


# ---- statements that end statements


@pytest.mark.parametrize(
    "sql", ("deallocate all", "discard all", "DEALLOCATE PREPARE ALL", "discard plans; deallocate all")
)
def test_deallocate_all_is_the_clients_own(pg, make_pooler, sql):
    """DISCARD clears this client's statements and no other's."""
    if "; " in sql and kind() == "pgbouncer":
        pytest.skip("PgBouncer knows the bare forms only")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for c in (a, b):
            ask(c, parse("s", "select 'shared text'"), sync())
        assert error_codes(a.query(sql)) == []
        assert error_codes(ask(a, bind("", "s"), execute(), sync())) == ["26000"]
        assert run(b, "s") == [("shared text",)]
        assert rows_of(ask(a, parse("s", "select 'new'"), bind("", "s"), execute(), sync())) == [("new",)]
        assert run(b, "s") == [("shared text",)]


@pytest.mark.parametrize("sql", ("deallocate all", "discard all"))
def test_deallocate_all_by_the_extended_protocol(pg, make_pooler, sql):
    """The same, sent as Parse, Bind, Execute."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for c in (a, b):
            ask(c, parse("s", "select 'shared text'"), sync())
        assert command_tags(ask(a, parse("", sql), bind(), execute(), sync())) == [sql.upper()]
        assert error_codes(ask(a, bind("", "s"), execute(), sync())) == ["26000"]
        assert run(b, "s") == [("shared text",)]


def test_deallocate_all_in_a_pipeline(pg, make_pooler):
    """DEALLOCATE ALL inside a pipeline must not delete a name parsed later in it."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, parse("old", "select 'old'"), parse("again", "select 'first'"), sync())
        messages = ask(
            c,
            parse("", "deallocate all"),
            bind(),
            execute(),
            parse("new", "select 'new'"),
            parse("again", "select 'second'"),
            bind("", "new"),
            execute(),
            sync(),
        )
        assert tags(messages) == "12C112DCZ"
        assert error_codes(ask(c, bind("", "old"), execute(), sync())) == ["26000"]
        assert run(c, "new") == [("new",)] and run(c, "again") == [("second",)]
        # The same with a Query, and both in one write.
        messages = ask(
            c, query("discard all"), parse("new", "select 'newer'"), bind("", "new"), execute(), sync(), ready=2
        )
        assert tags(messages) == "CZ12DCZ"
        assert run(c, "new") == [("newer",)]
        assert error_codes(ask(c, bind("", "again"), execute(), sync())) == ["26000"]


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize(
    "sql", ("deallocate s1", "DEALLOCATE PREPARE S1", 'deallocate "s1"', "/* x */ deallocate s1 -- y")
)
def test_deallocate_one_by_a_query(pg, make_pooler, sql):
    """DEALLOCATE name via simple query clears the client's entry, although the server knows another name."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        for client in (c, other):
            ask(client, parse("s1", "select 'one'"), parse("s2", "select 'two'"), sync())
        assert command_tags(c.query(sql)) == ["DEALLOCATE"]
        assert error_codes(ask(c, bind("", "s1"), execute(), sync())) == ["26000"]
        assert error_codes(c.query(sql)) == ["26000"]
        assert run(c, "s2") == [("two",)] and run(other, "s1") == [("one",)]
        assert tags(ask(c, parse("s1", "select 'again'"), sync())) == "1Z"
        assert run(c, "s1") == [("again",)]


def test_close_of_a_portal_keeps_the_statement(pg, make_pooler):
    """Close portal must not drop the statement of the same name."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        messages = ask(
            c, parse("s", "select 1"), bind("s", "s"), execute("s"), close("P", "s"), close("P", "s"), sync()
        )
        assert tags(messages) == "12DC33Z"
        assert run(c, "s") == [("1",)]


def test_sql_prepare_does_not_keep_the_server(pg, make_pooler):
    """PREPARE could prevent reuse: the server is free after the transaction, and the next client finds it in order."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    if kind() == "direct":
        pytest.skip("there is no pooler")
    with pooler.connect() as a, pooler.connect() as b:
        a.query("prepare by_sql as select 1")
        assert b.value("select 1", timeout=3) == "1"
        a.query("deallocate by_sql")


@pytest.mark.beyond_pgbouncer
def test_clients_with_sql_prepared_statements_share_servers(pg, make_pooler):
    """SQL-level PREPARE without a server of one's own: each client EXECUTEs its own statement of the same name."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    clients = [pooler.connect() for _ in range(20)]
    for number, c in enumerate(clients):
        c.query(f"prepare q (int) as select $1 + {number}")
    for _ in range(3):
        for number, c in enumerate(clients):
            assert c.value("execute q (100)") == str(100 + number)
            assert c.value("select name from pg_prepared_statements") == "q"
            assert run(c, "q", ["1"]) == [(str(1 + number),)], "by Bind, too"
    if kind() == "pgweir":
        assert pooler.console("show pins") == []
    clients[0].query("deallocate q")
    with pytest.raises(wire.ServerError) as gone:
        clients[0].value("execute q (1)")
    assert gone.value.code == "26000"
    with pooler.connect() as stranger, pytest.raises(wire.ServerError) as foreign:
        stranger.value("execute q (1)")
    assert foreign.value.code == "26000"
    # What was prepared in a transaction that is rolled back is still there; code finds it.
    last = clients[-1]
    last.query("begin; select 1")
    last.query("prepare rolled_back as select 'still there'")
    last.query("rollback")
    assert last.value("execute rolled_back") == "still there"
    last.rows("do $$begin execute 'execute rolled_back'; end$$")
    # Constants are those of the PREPARE, wherever it is run again.
    last.query("set datestyle = 'ISO, DMY'; set timezone = 'UTC'")
    last.query("prepare on_day as select '01/02/2003'::date")
    last.query("set datestyle = 'ISO, MDY'")
    for c in (*clients[1:-1], last):
        if c is not last:
            c.value("execute q (1)")
    assert last.value("execute on_day") == "2003-02-01"
    for c in clients:
        c.close()


@pytest.mark.beyond_pgbouncer
def test_a_prepared_statement_that_fails_elsewhere_says_why(pg, make_pooler):
    """A table that is gone is what EXECUTE complains about, not the statement."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    pg.psql("drop table if exists to_go; create table to_go (a int)")
    with pooler.connect() as a, pooler.connect() as b:
        a.query("prepare q as select * from to_go")
        b.query("prepare q as select 2")
        pg.psql("drop table to_go")
        for in_block in (False, True):
            if in_block:
                a.query("begin; select 1")
            with pytest.raises(wire.ServerError) as error:
                a.value("execute q")
            assert error.value.code == "42P01"
            if in_block:
                a.query("rollback")
            assert b.value("execute q") == "2"
            # Its name is taken nevertheless.
            if in_block:
                a.query("begin; select 1")
            assert error_codes(a.query("prepare q as select 3")) == ["42P05"]
            if in_block:
                a.query("rollback")
            assert error_codes(ask(a, parse("", "prepare q as select 3"), bind(), execute(), sync())) == ["42P05"]
            assert b.value("execute q") == "2"


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("begin", ["begin", "begin isolation level repeatable read", "begin read only"])
def test_a_prepared_statement_that_nobody_uses_fails_no_transaction(pg, make_pooler, begin):
    """In a block, code finds what PREPARE has made; what cannot be made again fails only who uses it."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    pg.psql("drop table if exists to_go; create table to_go (a int)")
    with pooler.connect() as a, pooler.connect() as b:
        a.query("prepare gone as select * from to_go")
        a.query("prepare there as select 1")
        pg.psql("drop table to_go")
        run_there = "do $$begin execute 'execute there'; end$$"
        for first in (run_there, "select 1"):
            assert b.value("select 2") == "2"
            assert not error_codes(a.query(begin))
            assert not error_codes(a.query(first))
            assert not error_codes(a.query("declare c cursor for select generate_series(1, 2)"))
            assert a.value("fetch c") == "1"
            a.query("set local work_mem = '5MB'")
            a.query("savepoint s")
            assert not error_codes(a.query(run_there))
            assert a.value("select name from pg_prepared_statements where name = 'there'") == "there"
            assert a.value("fetch c") == "2"
            assert a.value("show work_mem") == "5MB"
            assert error_codes(a.query("do $$begin execute 'execute gone'; end$$")) == ["42P01"]
            assert not error_codes(a.query("rollback to s; release s"))
            assert a.value("show work_mem") == "5MB"
            assert not error_codes(a.query("commit"))
        # No snapshot is taken in front of its time.
        assert b.value("select 2") == "2"
        for text in (begin, "show work_mem", "set transaction isolation level serializable", run_there, "commit"):
            assert not error_codes(a.query(text)), text


# ---- many statements


def test_unique_statements_do_not_pile_up(pg15, make_pooler):
    """Cache bounds under concurrency; unique-SQL flood; memory returns."""
    limit = 20
    pooler = make_pooler(pg15, settings={"default_pool_size": 2, "max_prepared_statements": limit})

    def flood(number):
        try:
            with pooler.connect() as c:
                for i in range(1500):
                    # Four kilobytes of text each, none like another.
                    sql = f"select {number * 10000 + i} /* {'x' * 4000} */"
                    messages = ask(c, parse("s", sql), bind("", "s"), execute(), close("S", "s"), sync())
                    assert rows_of(messages) == [(str(number * 10000 + i),)]
        except BaseException as error:  # noqa: BLE001 - carried to the test
            failures.append(error)

    with pooler.connect() as warm:
        warm.value("select 1")
    before = resident_bytes(pooler)
    failures = []
    threads = [threading.Thread(target=flood, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    if kind() == "direct":
        return
    # 24 MB of statement text went through; what stays is what the servers may hold.
    assert resident_bytes(pooler) - before < 8 << 20
    with held_server(pooler) as one, held_server(pooler) as two:
        for c in (one, two):
            # The pooler may have a few of its own beside them.
            assert int(c.value("select count(*) from pg_prepared_statements where statement ~ '/. xxxx'")) <= limit


def test_many_clients_share_one_statement_on_the_server(pg15, make_pooler):
    """A global table: the same text of many clients is one statement on a server."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    # With full sessions, statements of the pooler's are not shown to clients.
    as_is = {"session_state": "pgbouncer"} if kind() == "pgweir" else {}
    pooler = make_pooler(pg15, settings={**ONE_SERVER, **as_is, "max_prepared_statements": 50})
    clients = [pooler.connect() for _ in range(20)]
    for number, c in enumerate(clients):
        ask(c, parse(f"name{number}", "select 'one text'"), sync())
        assert run(c, f"name{number}") == [("one text",)]
    count = clients[0].value("select count(*) from pg_prepared_statements where statement = 'select ''one text'''")
    assert count == "1"
    for c in clients:
        c.close()


@pytest.mark.parametrize("default, own", (("session", "transaction"), ("transaction", "session")))
def test_pool_mode_of_a_user(pg15, make_pooler, default, own):
    """Per-user pool_mode overriding the default."""
    pooler = make_pooler(pg15, mode=default, users={"alice": f"pool_mode={own}"}, settings=TWO_SERVERS)
    if kind() == "direct":
        pytest.skip("there is no pooler")
    with pooler.connect(user="alice") as c:
        pid = backend_pid(c)
        ask(c, parse("s", "select 1"), sync())
        if own == "transaction":
            with elsewhere(pooler, c, pid, user="alice"):
                assert backend_pid(c) != pid
                assert run(c, "s") == [("1",)]
        else:
            with held_server(pooler, user="alice") as other:
                assert backend_pid(other) != pid
                assert backend_pid(c) == pid
            assert run(c, "s") == [("1",)]


# ---- statements and DDL (0A000, "cached plan must not change result type")


@pytest.mark.beyond_pgbouncer
def test_statement_parsed_after_ddl_works_where_the_server_has_an_old_plan(pg, make_pooler):
    """0A000 after DDL: a client that parsed after the DDL never learns that a server has an older plan."""
    pg.psql("drop table if exists shape; create table shape as select 1 as a")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        ask(a, parse("s", "select * from shape"), sync())
        assert run(a, "s") == [("1",)]
        pg.psql("alter table shape add b text default 'new'")
        messages = ask(b, parse("s", "select * from shape"), bind("", "s"), describe("P"), execute(), sync())
        assert tags(messages) == "12TDCZ"
        assert rows_of(messages) == [("1", "new")]
        assert run(b, "s") == [("1", "new")]
    pg.psql("drop table shape")


def test_0a000_outside_a_transaction_harms_nobody_else(pg, make_pooler):
    """0A000 after DDL, outside a transaction: an error as from PostgreSQL or the new rows, and the client goes on."""
    pg.psql("drop table if exists shape; create table shape as select 1 as a")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, parse("s", "select * from shape"), describe("S", "s"), sync())
        assert run(c, "s") == [("1",)]
        pg.psql("alter table shape add b text default 'new'")
        # The client was told one column, so it must not be sent two.
        messages = ask(c, bind("", "s"), execute(), sync())
        assert error_codes(messages) == ["0A000"]
        messages = ask(c, close("S", "s"), parse("s", "select * from shape"), bind("", "s"), execute(), sync())
        assert tags(messages) == "312DCZ"
        assert rows_of(messages) == [("1", "new")]
    pg.psql("drop table shape")


def test_0a000_inside_a_transaction(pg, make_pooler):
    """0A000 after DDL, inside a transaction: the error is the client's, and heals after ROLLBACK and a new Parse."""
    pg.psql("drop table if exists shape; create table shape as select 1 as a")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, parse("s", "select * from shape"), sync())
        assert run(c, "s") == [("1",)]
        pg.psql("alter table shape add b text default 'new'")
        c.query("begin")
        c.query("select 1")
        messages = ask(c, bind("", "s"), execute(), sync())
        assert error_codes(messages) == ["0A000"] and messages[-1].body == b"E"
        assert command_tags(c.query("rollback")) == ["ROLLBACK"]
        messages = ask(c, close("S", "s"), parse("s", "select * from shape"), bind("", "s"), execute(), sync())
        assert rows_of(messages) == [("1", "new")]
    pg.psql("drop table shape")


# ---- COPY and prepared statements


def test_copy_by_a_prepared_statement(pg, make_pooler):
    """COPY FROM STDIN queries and statement tracking: nothing leaks, the server is free afterwards."""
    pg.psql("drop table if exists copied; create table copied (a int)")
    pooler = make_pooler(pg, settings={**ONE_SERVER, "max_prepared_statements": 3})
    with pooler.connect() as c, pooler.connect() as other:
        for i in range(20):
            c.send(parse(f"c{i}", "copy copied from stdin"), bind("", f"c{i}"), execute(), flush())
            assert tags(c.read_until("G")) == "12G"
            c.send(wire.copy_data(b"1\n"), wire.copy_data(b"2\n"), wire.copy_done(), sync())
            assert tags(c.read_ready()) == "CZ"
            assert other.value("select 1", timeout=3) == "1"
            messages = ask(c, parse("", "copy (select 1) to stdout"), bind(), execute(), sync())
            assert tags(messages) == "12HdcCZ"
        assert c.value("select count(*) from copied") == "40"
    pg.psql("drop table copied")


def test_late_copy_messages(pg, make_pooler):
    """Late COPY messages: those after the COPY failed are ignored, and cost no server."""
    pg.psql("drop table if exists copied; create table copied (a int)")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        for _ in range(5):
            c.send(query("copy copied from stdin"))
            assert c.read().tag == "G"
            c.send(wire.copy_data(b"not a number\n"))
            messages = c.read_ready()
            assert error_codes(messages) == ["22P02"]
            c.send(wire.copy_data(b"2\n"), wire.copy_data(b"3\n"), wire.copy_done())
            assert other.value("select 1", timeout=3) == "1"
            assert c.value("select 2") == "2"
            # And without any COPY at all.
            c.send(wire.copy_done(), wire.copy_data(b"x"), wire.copy_fail("late"))
            assert c.quiet(0.05)
            assert other.value("select 1", timeout=3) == "1"
        assert c.value("select count(*) from copied") == "0"
    pg.psql("drop table copied")


# ---- the unnamed statement


@pytest.mark.beyond_pgbouncer
def test_unnamed_statement_survives_sync_on_another_server(pg, make_pooler):
    """Parse, Sync, later Bind on another server."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("", "select $1::int * 2"), sync())
        with elsewhere(pooler, c, pid):
            for value in ("3", "4"):
                messages = ask(c, bind("", "", [value]), describe("P"), execute(), sync())
                assert tags(messages) == "2TDCZ"
                assert rows_of(messages) == [(str(int(value) * 2),)]
            assert tags(ask(c, describe("S", ""), sync())) == "tTZ"


@pytest.mark.beyond_pgbouncer
def test_unnamed_statement_is_nobody_elses(pg, make_pooler):
    """A client must not find the unnamed statement that another left on the server."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        ask(a, parse("", "select 'mine'"), sync())
        assert error_codes(ask(b, bind(), execute(), sync())) == ["26000"]
        ask(b, parse("", "select 'theirs'"), sync())
        assert rows_of(ask(a, bind(), execute(), sync())) == [("mine",)]
        assert rows_of(ask(b, bind(), execute(), sync())) == [("theirs",)]


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize(
    "ender", (query("select 1"), query(""), parse("", "select nonsense from") + sync(), close("S", "") + sync())
)
def test_what_ends_the_unnamed_statement(pg, make_pooler, ender):
    """Any Query, a Parse of another (even a failed one), or Close ends it, also when another server is next."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("", "select 'gone'"), sync())
        ask(c, ender)
        assert error_codes(ask(c, bind(), execute(), sync())) == ["26000"]
        ask(c, parse("", "select 'gone'"), sync())
        with elsewhere(pooler, c, pid):
            ask(c, ender)
            assert error_codes(ask(c, bind(), execute(), sync())) == ["26000"]


# ---- the server's end


def test_statements_outlive_their_server(pg, make_pooler):
    """A server goes away while idle: the statement is prepared again on the next one."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        ask(c, parse("s", "select $1::text"), parse("", "select 'unnamed'"), sync())
        pid = (
            run(c, "s", ["x"])
            and rows_of(ask(c, parse("pid", "select pg_backend_pid()"), bind("", "pid"), execute(), sync()))[0][0]
        )
        pg.psql(f"select pg_terminate_backend({pid})")
        eventually(lambda: pg.psql(f"select count(*) from pg_stat_activity where pid = {pid}") == "0")
        assert run(c, "s", ["y"]) == [("y",)]
        assert rows_of(ask(c, bind("", "pid"), execute(), sync()))[0][0] != pid


@pytest.mark.parametrize("gone, sqlstate", [(True, "42P01"), (False, "55P03")], ids=["table gone", "table locked"])
def test_a_statement_that_cannot_be_prepared_again_gets_the_error_of_its_text(pg, make_pooler, gone, sqlstate):
    """The internal Parse has a segment of its own, because DateStyle must be set for it. Its error was lost: the client
    was told that its statement does not exist (26000), and drivers answer that by preparing again."""
    pooler = make_pooler(pg, settings=ONE_SERVER)

    def outcome(port):
        pg.psql("drop table if exists goes; create table goes (a int)")
        c, other, ddl = (connect(p) for p in (port, port, pg.port))
        ask(c, parse("s", "select *, '01/02/2003'::date::text from goes"), describe("S", "s"), sync())
        ask(c, query("set datestyle to german"))
        ask(c, query("set lock_timeout to '200ms'"))
        # Through the pooler this ends the statements that the server holds.
        ask(other, query("discard all"))
        ask(ddl, query("drop table goes" if gone else "begin; lock table goes"))
        answer = ask(c, bind("", "s"), execute(), sync())
        ddl.close()
        return error_codes(answer), tags(answer)

    def connect(port):
        return wire.Connection(port=port, user="postgres", database="postgres")

    through = outcome(pooler.port)
    assert through[0] == [sqlstate]
    assert outcome(pg.port) == through


def test_a_pinned_client_describes_an_execute_of_a_parsed_statement(pg, make_pooler):
    """The server knows the statement of the earlier Parse by an internal name: it said NoData, and rows followed."""
    pooler = make_pooler(pg, settings=ONE_SERVER)

    def outcome(port):
        c = wire.Connection(port=port, user="postgres", database="postgres")
        ask(c, parse("p2", "select $1::int as one"), sync())
        # A PREPARE among other statements pins the client.
        ask(c, query("prepare other as select 1; select 2"))
        return tags(ask(c, parse("q", "execute p2(1)"), describe("S", "q"), bind("", "q"), execute(), sync()))

    assert outcome(pooler.port) == outcome(pg.port)
