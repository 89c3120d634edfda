"""Statements that come to mean something else, and clients that make everybody wait for their own.

What real drivers saw: a value stored as another because a statement was prepared again with other types, types that are
no more, EXECUTE of a statement that is gone. And floods: another client's statement must be answered while one client's
work is looked at. Each test would fail on a pooler that shares prepared statements by their text alone.
"""

import contextlib
import os
import struct
import threading
import time

import pytest

from harness import wire
from harness.pooler import resident_bytes
from harness.scenes import backend_pid, elsewhere, held_server
from harness.wire import bind, close, command_tags, describe, error_codes, execute, parse, query, rows_of, sync, tags

ONE_SERVER = {"default_pool_size": 1}
TWO_SERVERS = {"default_pool_size": 2}

# What another client may wait at most while one floods; it waited up to 11 seconds.
WAIT_SECONDS_MAX = 2.0


def ask(c, *messages, ready=1):
    c.send(*messages)
    return c.read_ready(ready)


# ---- types


@pytest.mark.parametrize("asks", [True, False])
def test_a_value_is_of_the_type_that_was_inferred_first(pg, make_pooler, asks):
    """A binary int4 is not read as a float4 because the statement was prepared again on another server after ALTER TABLE."""
    pg.psql("drop table if exists pc; create table pc (a int4)")
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c, pooler.connect() as other:
        pid = backend_pid(c)
        described = [describe("S", "s")] if asks else []
        messages = ask(c, parse("s", "insert into pc values ($1)"), *described, sync())
        if asks:
            assert [struct.unpack("!HI", m.body) for m in messages if m.tag == "t"] == [(1, 23)]
        other.query("alter table pc alter a type float4")
        with elsewhere(pooler, c, pid):
            value = struct.pack("!i", 1065353216)
            assert not error_codes(ask(c, bind("", "s", [value], [1]), execute(), sync()))
        assert float(other.value("select a from pc")) == 1065353200 or other.value("select a::int8 from pc") == "1065353216"


def test_two_clients_with_other_types_for_one_text(pg, make_pooler):
    """A client that prepared before ALTER TABLE and one that did so after it keep what each was told."""
    pg.psql("drop table if exists pc2; create table pc2 (a int4)")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as old, pooler.connect() as new:
        told = ask(old, parse("s", "insert into pc2 values ($1)"), describe("S", "s"), sync())
        assert struct.unpack("!HI", told[1].body) == (1, 23)
        new.query("alter table pc2 alter a type float8")
        told = ask(new, parse("s", "insert into pc2 values ($1)"), describe("S", "s"), sync())
        assert struct.unpack("!HI", told[1].body) == (1, 701)
        for _ in range(2):
            assert not error_codes(ask(old, bind("", "s", [struct.pack("!i", 7)], [1]), execute(), sync()))
            assert not error_codes(ask(new, bind("", "s", [struct.pack("!d", 7.5)], [1]), execute(), sync()))
        assert sorted(new.rows("select a from pc2")) == [("7",), ("7",), ("7.5",), ("7.5",)]


def test_the_unnamed_statement_keeps_its_types(pg, make_pooler):
    """The same for the unnamed statement: Parse, Describe and Sync, and Bind in another transaction."""
    pg.psql("drop table if exists pc3; create table pc3 (a int4)")
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c, pooler.connect() as other:
        pid = backend_pid(c)
        ask(c, parse("", "insert into pc3 values ($1)"), describe("S", ""), sync())
        other.query("alter table pc3 alter a type float4")
        with elsewhere(pooler, c, pid):
            assert not error_codes(ask(c, bind("", "", [struct.pack("!i", 2)], [1]), execute(), sync()))
        assert other.value("select a from pc3") == "2"


@pytest.mark.parametrize("text", ["select 'a'::mood", "select null::mood", "select mood 'a'", "select $1::mood"])
def test_a_new_parse_knows_new_types(pg, make_pooler, text):
    """A Parse behind DROP TYPE and CREATE TYPE is not answered by a copy that knows the old type, under any name."""
    pg.psql("drop type if exists mood; create type mood as enum ('a')")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    values = ["a"] if "$" in text else []
    with pooler.connect() as c:
        ask(c, parse("s", text), describe("S", "s"), sync())
        ask(c, bind("", "s", values), execute(), sync())
        # Past the pooler, as migrations may be.
        pg.psql("drop type mood; create type mood as enum ('a', 'b')")
        oid = int(c.value("select 'mood'::regtype::oid"))
        ask(c, close("S", "s"), sync())
        for name in ["s", "t"]:
            messages = ask(c, parse(name, text), describe("S", name), sync())
            assert [m.columns[0][1] for m in messages if m.tag == "T"] == [oid]
            assert [struct.unpack("!I", m.body[2:])[0] for m in messages if m.tag == "t" and values] == [oid] * len(values)
            assert not error_codes(ask(c, bind("", name, values), execute(), sync()))
        with pooler.connect() as fresh:
            messages = ask(fresh, parse("u", text), bind("", "u", values), describe("P"), execute(), sync())
            assert [m.columns[0][1] for m in messages if m.tag == "T"] == [oid]


# ---- settings


@pytest.mark.parametrize(
    ("setting", "value", "text", "expected"),
    [
        ("datestyle", "SQL, DMY", "select '01/02/2020'::date - '2020-01-01'::date", "1"),
        ("transform_null_equals", "on", "select (select 1 where null = null) is null", "t"),
        ("standard_conforming_strings", "off", r"select length('a\\b')", "4"),
    ],
)
@pytest.mark.parametrize("way", ["set local", "set_config", "text", "pipeline"])
def test_a_local_setting_is_not_in_anothers_statement(pg15, make_pooler, setting, value, text, expected, way):
    """A statement that was parsed under a setting of one transaction is not shared."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    sets = f"set local {setting} = '{value}'"
    if way == "set_config":
        sets = f"select set_config('{setting}', '{value}', true)"
    with pooler.connect() as a, pooler.connect() as b:
        pid = backend_pid(a)
        if way == "pipeline":
            first = [parse("", "begin"), bind(), execute(), parse("", sets), bind(), execute()]
            assert not error_codes(ask(a, *first, parse("s", text), sync()))
            a.query("commit")
        elif way == "text":
            assert not error_codes(ask(a, query(f"begin; {sets}"), parse("s", text), sync(), ready=2))
            a.query("commit")
        else:
            a.query("begin")
            a.query(sets)
            ask(a, parse("s", text), sync())
            a.query("commit")
        # Only this server has the statement as its client has prepared it.
        assert ["behind a SET" in row["reason"] for row in pooler.console("SHOW PINS")] == [True]
        a.close()
        assert backend_pid(b) == pid
        ask(b, parse("s", text), sync())
        assert rows_of(ask(b, bind("", "s"), execute(), sync())) == [(expected,)]


@pytest.mark.parametrize(
    ("setting", "value", "text", "expected"),
    [
        ("datestyle", "SQL, DMY", "select '01/02/2020'::date - '2020-01-01'::date", "31"),
        ("client_encoding", "LATIN1", "select length('\u00fc')", "2"),
    ],
)
@pytest.mark.parametrize("way", ["set", "set local"])
@pytest.mark.parametrize("moves", [True, False])
def test_the_unnamed_statement_behind_a_set_is_not_read_anew(pg, make_pooler, setting, value, text, expected, way, moves):
    """Parsed in one pipeline with the SET and bound in the next transaction: it means what it meant, or does not exist."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        sets = [parse("", "begin"), bind(), execute()] if way == "set local" else []
        sets += [parse("", f"{way} {setting} = '{value}'"), bind(), execute()]
        ends = [parse("c", "commit"), bind("c", "c"), execute("c")] if way == "set local" else []
        assert not error_codes(ask(c, *sets, parse("", text), *ends, sync()))
        with elsewhere(pooler, c, pid) if moves else contextlib.nullcontext():
            messages = ask(c, bind("", ""), execute(), sync())
        assert error_codes(messages) == ["26000"] or rows_of(messages) == [(expected,)]
        assert not pooler.console("SHOW PINS")
        # Parsed again, it is read under the present setting.
        present = expected if way == "set" else {"31": "1", "2": "1"}[expected]
        assert rows_of(ask(c, parse("", text), bind("", ""), execute(), sync())) == [(present,)]


# ---- names that come to mean other objects

# What makes each text mean another object, and a query that shows which one it means.
MOVES = {
    "create table": ("create table mn_tenant.mn_orders (a int)", "insert into mn_orders values (1)"),
    "create table as": ("create table mn_tenant.mn_orders as select 0 as a", "insert into mn_orders values (1)"),
    "set schema": ("alter table mn_other.mn_orders set schema mn_tenant", "insert into mn_orders values (1)"),
    "rename": ("alter table mn_tenant.mn_old rename to mn_orders", "insert into mn_orders values (1)"),
    "block": ("begin; create table mn_tenant.mn_orders (a int); commit", "insert into mn_orders values (1)"),
    "do": ("do $$begin create table mn_tenant.mn_orders (a int); end$$", "insert into mn_orders values (1)"),
    "function of the database": ("select mn_makes()", "insert into mn_orders values (1)"),
    "view": ("create view mn_tenant.mn_orders as select a from mn_other.mn_orders", "insert into mn_orders values (1)"),
    "function": ("create function mn_tenant.mn_writes(int) returns int language sql as "
                 "'insert into mn_other.mn_orders values ($1) returning a'", "select mn_writes(1)"),
    "overload": ("create function public.mn_writes(int) returns int language sql as "
                 "'insert into mn_other.mn_orders values ($1) returning a'", "select mn_writes(1)"),
}

MN_SCHEMA = """
drop schema if exists mn_tenant cascade; drop schema if exists mn_other cascade;
drop table if exists mn_orders cascade; drop function if exists mn_writes(int), mn_writes(bigint), mn_makes();
create schema mn_tenant; create schema mn_other;
create table public.mn_orders (a int); create table mn_other.mn_orders (a int); create table mn_tenant.mn_old (a int);
create function public.mn_writes(bigint) returns bigint language sql as 'insert into public.mn_orders values ($1) returning a';
create function mn_makes() returns void language plpgsql as 'begin create table mn_tenant.mn_orders (a int); end';
"""


@pytest.mark.parametrize("where", ["one server", "another server"])
@pytest.mark.parametrize("name", MOVES)
def test_a_new_parse_means_what_the_names_mean_now(pg, make_pooler, name, where):
    """Servers hold the statement bound to the table of another schema. A client that prepares it after the DDL writes
    to the table that a direct connection would write to, on whatever server."""
    moves, text = MOVES[name]
    pg.psql(MN_SCHEMA)
    pooler = make_pooler(pg, settings=ONE_SERVER if where == "one server" else TWO_SERVERS)
    path = {"search_path": "mn_tenant, public"}
    use = [bind("", "s"), execute(), sync()]
    with pooler.connect(options=path) as a, pooler.connect(options=path) as b, pooler.connect(options=path) as c:
        pid = backend_pid(a)
        assert not error_codes(ask(a, parse("s", text), sync()) + ask(a, *use))
        if where == "another server":
            with elsewhere(pooler, a, pid, options=path):
                assert not error_codes(ask(a, *use))
        assert not error_codes(c.query(moves))
        before = pg.psql("select count(*) from public.mn_orders").strip()
        pid = backend_pid(b)
        assert not error_codes(ask(b, parse("s", text), sync()) + ask(b, *use))
        if where == "another server":
            pids = {pid}
            while len(pids) < 2:
                # A server that reads the catalog may come in between.
                with held_server(pooler, options=path):
                    assert not error_codes(ask(b, *use))
                    pids.add(backend_pid(b))
                assert not error_codes(ask(b, *use))
        assert pg.psql("select count(*) from public.mn_orders").strip() == before, "its rows are in the other table"


def test_a_parse_in_the_transaction_of_the_ddl(pg, make_pooler):
    """The client that makes the table uses it at once, and later on another server."""
    pg.psql(MN_SCHEMA)
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    path = {"search_path": "mn_tenant, public"}
    text, use = "insert into mn_orders values (1)", [bind("", "s"), execute(), sync()]
    with pooler.connect(options=path) as a, pooler.connect(options=path) as b:
        pid = backend_pid(a)
        assert not error_codes(ask(a, parse("s", text), sync()) + ask(a, *use))
        with elsewhere(pooler, a, pid, options=path):
            assert not error_codes(ask(a, *use))
        pid = backend_pid(b)
        b.query("begin; create table mn_tenant.mn_orders (a int)")
        assert not error_codes(ask(b, parse("s", text), sync()) + ask(b, *use))
        b.query("commit")
        with elsewhere(pooler, b, pid, options=path):
            assert not error_codes(ask(b, *use))
        assert pg.psql("select count(*) from mn_tenant.mn_orders").strip() == "2"
        assert pg.psql("select count(*) from public.mn_orders").strip() == "2"


# ---- names


def test_execute_after_a_setting_that_constants_are_read_by(pg, make_pooler):
    """EXECUTE goes on working when a setting has changed since PREPARE."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        c.query("prepare p as select 1")
        c.query("set timezone = 'Asia/Tokyo'")
        for _ in range(3):
            assert c.value("execute p") == "1"
        other.query("select 1")
        for _ in range(3):
            assert c.value("execute p") == "1"


@pytest.mark.parametrize("name", ["", "e"])
def test_describe_of_execute_tells_its_rows(pg, make_pooler, name):
    """EXECUTE of a statement that Parse has made tells its rows to Describe, on every server."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        pid = backend_pid(c)
        ask(c, parse("p", "select 1 as one, 'x'::text as two"), sync())
        messages = ask(c, parse(name, "execute p"), describe("S", name), sync())
        assert [[col[0] for col in m.columns] for m in messages if m.tag == "T"] == [["one", "two"]]
        with elsewhere(pooler, c, pid):
            messages = ask(c, describe("S", name), bind("", name), describe("P"), execute(), sync())
            assert tags(messages) == "tT2TDCZ"


def test_the_view_shows_the_clients_names_in_their_order(pg, make_pooler):
    """pg_prepared_statements shows no name of the pooler's, and lists names in the order in which they were prepared."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    text = "select name from pg_prepared_statements order by prepare_time"
    with pooler.connect() as c:
        pid = backend_pid(c)
        names = ["z", "m", "a", "k"]
        for name in names:
            ask(c, parse(name, f"select '{name}'"), sync())
        assert [row[0] for row in c.rows(text)] == names
        ask(c, parse("view", text), sync())
        seen = [row[0] for row in rows_of(ask(c, bind("", "view"), execute(), sync()))]
        assert sorted(seen) == sorted([*names, "view"])
        with elsewhere(pooler, c, pid):
            seen = [row[0] for row in rows_of(ask(c, bind("", "view"), execute(), sync()))]
            assert sorted(seen) == sorted([*names, "view"])


# ---- floods


class Waits:
    """Another client's statements meanwhile, and the longest of them in seconds."""

    def __init__(self, pooler):
        self.pooler = pooler
        self.longest = 0.0

    def __enter__(self):
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.client = self.pooler.connect()
        self.client.query("select 1")
        self.thread.start()
        return self

    def run(self):
        while not self.ends.is_set():
            began = time.monotonic()
            self.client.query("select 1", timeout=60)
            self.longest = max(self.longest, time.monotonic() - began)

    def __exit__(self, *_exc):
        self.ends.set()
        self.thread.join()
        self.client.close()


def cpu_seconds(pooler) -> float:
    """Processor time that the pooler has used."""
    with open(f"/proc/{pooler.process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("segment", [b"", sync()])
def test_binds_behind_a_sleep_cost_what_each_of_them_costs(pg15, make_pooler, segment):
    """100,000 pipelined Binds behind a statement that sleeps: no message walks what is outstanding."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    count = 100_000
    with pooler.connect() as c:
        ask(c, parse("s", "select 1"), sync())
        before = cpu_seconds(pooler)
        c.send(query("select pg_sleep(2)"), (bind("", "s") + segment) * count, sync())
        c.read_ready(2 + count * bool(segment), timeout=60)
        assert cpu_seconds(pooler) - before < 1.2


def test_binds_that_fail_hold_up_nobody(pg15, make_pooler):
    """The same where the first of them fails, and takes all the others along."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as c, Waits(pooler) as others:
        ask(c, parse("s", "select 1"), sync())
        flood = bind("", "s", ["too many"]) + (bind("", "s") + execute()) * 20_000 + sync()
        c.send(query("select pg_sleep(1)"), flood, flood)
        c.read_ready(3, timeout=60)
    assert others.longest < WAIT_SECONDS_MAX, others.longest


def test_many_names_and_a_long_text_hold_up_nobody(pg15, make_pooler):
    """10,000 names, and a DEALLOCATE of one of them behind 60,000 bytes of comment."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as c, Waits(pooler) as others:
        for start in range(0, 10_000, 1000):
            ask(c, *(parse(f"name_{n}", "select 1") for n in range(start, start + 1000)), sync())
        others.longest = 0.0
        for n in range(3):
            c.query(f"deallocate name_{n} /* {'execute me ' * 5000} */", timeout=60)
            c.query(f"begin; execute name_{n + 10}; commit /* {'x y z ' * 9000} */", timeout=60)
    assert others.longest < WAIT_SECONDS_MAX, others.longest


def test_a_message_in_small_pieces_is_copied_once(pg15, make_pooler):
    """A large Parse that comes in small pieces is not copied again for each piece."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    message = parse("s", "select '" + "x" * 1_000_000 + "'")
    pieces = message[-6000 * 20 :]
    with pooler.connect() as c:
        c.send(message[: -len(pieces)])
        before = cpu_seconds(pooler)
        for at in range(0, len(pieces), 20):
            c.send(pieces[at : at + 20])
            time.sleep(0.0005)
        used = cpu_seconds(pooler) - before
        assert tags(ask(c, sync())) == "1Z"
        assert used < 0.5, used


# ---- names beyond ASCII, under other encodings


@pytest.mark.parametrize("leaves", ["UTF8", "LATIN1"])
@pytest.mark.parametrize("comes", ["UTF8", "LATIN1"])
@pytest.mark.parametrize("way", ["parse", "prepare"])
def test_a_name_beyond_ascii_does_not_stay_for_the_next_client(pg15, make_pooler, leaves, comes, way):
    """The server got the name in one client_encoding and has another one when the name is taken back."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    name = "é".encode()
    with pooler.connect() as first:
        if way == "parse":
            assert not error_codes(ask(first, parse(name, "select 'secret'"), sync()))
        else:
            assert not error_codes(first.query(b'prepare "' + name + b"\" as select 'secret'"))
        assert rows_of(first.query(b'execute "' + name + b'"')) == [("secret",)]
        first.query(f"set client_encoding to '{leaves}'")
    with pooler.connect(options={"client_encoding": comes}) as second:
        assert rows_of(second.query("select name, statement from pg_prepared_statements")) == []
        for spelt in (name, name.decode().encode("latin-1")):
            assert error_codes(second.query(b'execute "' + spelt + b'"')) in (["26000"], ["22021"])



def test_a_name_beyond_ascii_means_nothing_under_another_encoding(pg15, make_pooler):
    """As PostgreSQL keeps names in the database's encoding, the bytes of one name are another name's later."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    name = "é".encode()
    with pooler.connect() as client:
        ask(client, parse(name, "select 'é'"), sync())
        client.query("set client_encoding to 'LATIN1'")
        # These are the letters Ã and © now.
        assert error_codes(ask(client, bind("", name), execute(), sync())) == ["26000"]
        assert error_codes(ask(client, parse(name, "select 'two letters'"), sync())) == []
        client.query("set client_encoding to 'UTF8'")
        replies = ask(client, bind("", name), execute(), sync())
        assert [m.values for m in replies if m.tag == "D"] == [["é".encode()]]


# ---- settings that only SET tells


UNREPORTED = [
    ("transform_null_equals", "on", "select null = null"),
    ("xmloption", "document", "select '<a/><b/>'::xml"),
    ("timezone_abbreviations", "Australia", "select '2020-01-01 00:00 EST'::timestamptz at time zone 'UTC'"),
    ("array_nulls", "off", "select ('{NULL,a}'::text[])[1] is null"),
]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(("setting", "value", "text"), UNREPORTED, ids=[name for name, _, _ in UNREPORTED])
def test_a_statement_means_what_it_meant_when_it_was_prepared(pg, make_pooler, moves, setting, value, text):
    """A setting is set, or reset, between Parse and the next use, and ParameterStatus does not tell it."""
    pooler = make_pooler(pg, settings=ONE_SERVER)

    def told(connect, other_server):
        def run(name):
            replies = ask(client, bind("", name), execute(), sync())
            return error_codes(replies), [m.values for m in replies if m.tag == "D"]

        with connect() as client:
            ask(client, parse("before", text), sync())
            client.query(f"set {setting} = '{value}'")
            ask(client, parse("during", text), sync())
            other_server()
            answers = [run("before"), run("during")]
            client.query(f"reset {setting}")
            other_server()
            return [*answers, run("before"), run("during")]

    def other_server():
        if moves:
            pooler.console("reconnect")

    assert told(pooler.connect, other_server) == told(lambda: wire.Connection(port=pg.port, user="postgres", database="postgres"), lambda: None)


# ---- many names


def test_many_names_on_a_server_hold_up_nobody(pg15, make_pooler):
    """Each Parse of a client with 20,000 names that SQL has listed costs what any Parse costs."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as flood, pooler.connect() as other:
        for first in range(0, 20_000, 2_000):
            names = range(first, first + 2_000)
            ask(flood, *(parse(f"n{n}", "select 1") for n in names), sync())
        flood.query("begin")
        assert flood.value("select count(*) from pg_prepared_statements") == "20000"
        flood.send(*(parse(f"m{n}", f"select {n}") for n in range(1_000)), sync())
        began = time.monotonic()
        assert other.value("select 1") == "1"
        assert time.monotonic() - began < WAIT_SECONDS_MAX
        assert not error_codes(flood.read_ready())
        assert flood.value("select count(*) from pg_prepared_statements") == "21000"
        assert flood.value("execute m999") == "999"


def test_long_statements_that_are_closed_take_no_memory(pg15, make_pooler):
    """Another client holds many short statements; this one prepares long ones and closes them."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as holds, pooler.connect() as floods:
        ask(holds, *(parse(f"n{n}", f"select {n}") for n in range(3_000)), sync())
        before = resident_bytes(pooler)
        for n in range(800):
            text = f"select {n} /* {'x' * 300_000} */"
            assert not error_codes(ask(floods, parse("m", text), close("S", "m"), sync()))
        assert resident_bytes(pooler) - before < 96 << 20


def test_a_view_over_prepared_statements_shows_the_clients_own(pg, make_pooler):
    """By a text or a statement that does not contain the word, and by a function."""
    pg.psql(
        "create or replace view psv as select name, statement from pg_prepared_statements;"
        "create or replace view psw as select name from psv;"
        "create or replace function psf() returns setof text language sql as 'select name from pg_prepared_statements'"
    )
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as other, pooler.connect() as client:
        ask(other, parse("theirs", "select 'theirs'"), bind("", "theirs"), execute(), sync())
        ask(client, parse("mine", "select 'mine'"), bind("", "mine"), execute(), sync())
        assert rows_of(client.query("select * from psv")) == [("mine", "select 'mine'")]
        assert rows_of(client.query("table psw")) == [("mine",)]
        assert rows_of(client.query("select psf()")) == [("mine",)]
        for name, text in [("v", "table psw"), ("f", "select psf()")]:
            replies = ask(client, parse(name, text), bind("", name), execute(), close("S", name), sync())
            assert sorted(rows_of(replies)) == sorted([("mine",), (name,)])
        assert rows_of(other.query("table psw")) == [("theirs",)]


# ---- statements that run statements


LEFT_BEHIND = {
    "custom": ("select set_config('app.x', 'left', false)", "select current_setting('app.x', true)", None),
    "role": ("select set_config('role', 'bob', false)", "select current_user", "postgres"),
    "lock": ("select pg_advisory_lock(7)", "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()", "0"),
    "work_mem": ("select set_config('work_mem', '99MB', false)", "show work_mem", "4MB"),
}

RUNS_NESTED = {
    "execute": lambda c: c.query("execute e"),
    "block": lambda c: c.query("begin; execute e; commit"),
    "explain": lambda c: c.query("explain analyze execute e"),
    "bind": lambda c: ask(c, parse("e2", "execute e"), bind("", "e2"), execute(), sync()),
}


@pytest.mark.parametrize("left", LEFT_BEHIND)
@pytest.mark.parametrize("runs", RUNS_NESTED)
def test_an_execute_of_an_execute_leaves_nothing(pg15, make_pooler, left, runs):
    """A statement that is prepared as EXECUTE of another one does what that one does."""
    leaves, asks, expected = LEFT_BEHIND[left]
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as attacker:
        ask(attacker, parse("a", leaves), sync())
        ask(attacker, parse("e", "execute a"), sync())
        assert not error_codes(RUNS_NESTED[runs](attacker))
    with pooler.connect() as victim:
        assert victim.value(asks) == expected


def test_an_execute_of_an_execute_finds_its_statement(pg, make_pooler):
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as client, pooler.connect() as other:
        ask(client, parse("b", "select 5"), sync())
        ask(client, parse("e", "execute b"), sync())
        other.query("select 1")
        assert rows_of(client.query("execute e")) == [("5",)]


@pytest.mark.parametrize("leaves", ["execute", "bind"])
def test_names_in_two_encodings_do_not_hide_what_runs(pg15, make_pooler, leaves):
    """Two names of the pooler's can be one name of the server's: what its statement does is not known."""
    name, two_letters = "é".encode(), "Ã©".encode()
    evil = "select set_config('role', 'bob', false)"
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as attacker:
        if leaves == "execute":
            ask(attacker, parse(two_letters, "select 1"), sync())
            attacker.query(b'execute "' + two_letters + b'"')
            attacker.query("set client_encoding to latin1")
            ask(attacker, parse(name, evil), sync())
            attacker.query(b'execute "' + name + b'"')
            attacker.query("reset role")
            attacker.query("set client_encoding to utf8")
            ask(attacker, close("S", name), sync())
            attacker.query(b'execute "' + two_letters + b'"')
        else:
            ask(attacker, parse(two_letters, evil), sync())
            attacker.query("begin")
            attacker.query("select count(*) from pg_prepared_statements")
            attacker.query("set client_encoding to latin1")
            ask(attacker, bind("", name), execute(), sync())
            attacker.query("commit")
    with pooler.connect() as victim:
        assert victim.value("select current_user") == "postgres"


# ---- literals that mean another moment at each Parse


@pytest.mark.parametrize("text", ["select timestamp 'now'", "select 'now'::timestamp", "select $$ NOW $$::timestamptz",
                                  "select timestamp 'no'\n'w'", "select timestamp e'n\\x6fw'",
                                  "select timestamp U&'n\\006fw'", "select ('{n\\ow}'::timestamp[])[1]"])
@pytest.mark.parametrize("by_sql", [False, True])
def test_a_new_parse_reads_the_clock(pg15, make_pooler, text, by_sql):
    """Another client has prepared the same text before."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)

    def moment(c):
        if by_sql:
            c.query(f"prepare s as {text}")
            return c.value("execute s")
        return rows_of(ask(c, parse("s", text), bind("", "s"), execute(), sync()))[0][0]

    with pooler.connect() as first, pooler.connect() as second:
        before = moment(first)
        assert moment(second) > before
        first.query("deallocate s")
        again = moment(first)
        assert again > before
        # A statement keeps its moment.
        assert (first.value("execute s") if by_sql else rows_of(ask(first, bind("", "s"), execute(), sync()))[0][0]) == again


# ---- what must come first in its transaction


def test_a_prepared_set_transaction_after_a_setting_has_changed(pg, make_pooler):
    """Nothing is sent in front of it that takes the transaction's snapshot."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as client:
        ask(client, parse("t", "set transaction isolation level serializable"), sync())
        ask(client, parse("v", "vacuum pg_class"), sync())
        client.query("set datestyle to german")
        client.query("begin")
        assert not error_codes(ask(client, bind("", "t"), execute(), sync()))
        assert client.value("show transaction_isolation") == "serializable"
        client.query("commit")
        assert not error_codes(ask(client, bind("", "v"), execute(), sync()))


# ---- another configuration


LEFT_IN_SESSION = (
    "create temp table left_table (a int); select pg_advisory_lock(7); set work_mem = '77MB'; set app.x = 'left'; set role bob"
)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_session_client_leaves_nothing_after_the_pool_mode_has_changed(pg15, make_pooler, mode):
    pooler = make_pooler(pg15, mode="session", settings=ONE_SERVER)
    with pooler.connect() as old:
        ask(old, parse("s", "select 'left'"), sync())
        assert not error_codes(old.query(LEFT_IN_SESSION))
        pooler.console(f"set pool_mode = '{mode}'")
    with pooler.connect() as victim:
        assert victim.value("select current_user") == "postgres"
        assert victim.value("select current_setting('app.x', true)") is None
        assert victim.value("show work_mem") == "4MB"
        assert victim.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") == "0"
        assert victim.value("select to_regclass('pg_temp.left_table')") is None
        assert error_codes(victim.query("execute s")) == ["26000"]


def test_statements_that_were_not_tracked_do_not_stay(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "max_prepared_statements": 0})
    with pooler.connect() as old:
        ask(old, parse("s", "select 'left'"), sync())
        pooler.console("set max_prepared_statements = 100")
        old.query("select 1")
    with pooler.connect() as victim:
        assert error_codes(victim.query("execute s")) == ["26000"]
        assert error_codes(ask(victim, bind("", "s"), execute(), sync())) == ["26000"]


# ---- a statement ends without the pooler's knowledge


def by_many_portals(c):
    """The first of 70 portals ends the statement."""
    ask(c, parse("x", "deallocate a"), parse("y", "deallocate zzz"), sync())
    c.query("begin")
    for number in range(70):
        ask(c, bind(f"p{number}", "y" if number else "x"), sync())
    ask(c, execute("p0"), sync())


def by_a_portal_that_is_bound_again(c):
    """The second Bind fails, so the portal stays what it was."""
    ask(c, parse("x", "deallocate a"), parse("z", "select 1"), sync())
    c.query("begin")
    ask(c, bind("p", "x"), sync())
    c.query("savepoint s")
    assert error_codes(ask(c, bind("p", "z"), sync())) == ["42P03"]
    c.query("rollback to s")
    ask(c, execute("p"), sync())


def by_a_prepared_deallocate(c):
    ask(c, parse("d", "deallocate a"), sync())
    c.query("execute d")


def by_the_first_of_two(c):
    """Its command tag could be taken for that of the second."""
    ask(c, parse("d", "deallocate a"), parse("b", "select 2"), sync())
    c.query("execute d; deallocate b")


@pytest.mark.parametrize(
    "ends", [by_many_portals, by_a_portal_that_is_bound_again, by_a_prepared_deallocate, by_the_first_of_two]
)
def test_a_name_that_has_ended_unseen_does_not_hide_what_runs(pg15, make_pooler, ends):
    """The name means another statement on the server than the pooler believes, and that one changes the session."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect(database="warehouse") as attacker:
        ask(attacker, parse("a", "select 1"), sync())
        attacker.query("execute a")
        ends(attacker)
        attacker.query("prepare a as select set_config('role', 'bob', false)")
        attacker.query("commit")
        attacker.query("execute a")
    with pooler.connect(database="warehouse") as victim:
        assert victim.value("select current_user") == "postgres"
