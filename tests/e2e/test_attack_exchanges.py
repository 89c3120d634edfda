"""Odd exchanges of messages, which no driver sends: the same answers direct and pooled.

Each exchange is a list of steps: what the client writes at once, and the tags that its answer ends with, in their order
("ZZ": up to the second ReadyForQuery). The last step is a Query, so a message too many is noticed, too. Between two steps
another client changes settings and prepares statements of the same names on the servers of the pool.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import pytest

import test_differential as differential
from harness import wire
from harness.conversation_runner import in_order
from harness.pooler import kind
from harness.wire import (
    bind,
    cancel_request,
    close,
    copy_data,
    copy_done,
    copy_fail,
    describe,
    execute,
    flush,
    function_call,
    message,
    parse,
    query,
    sync,
)

pytestmark = pytest.mark.beyond_pgbouncer

DATABASE = "exchanges"
TABLE = "drop table if exists x; create table x (a int)"

ROWS = "select g from generate_series(1, 7) g"
INT4PL, INT4DIV, SET_CONFIG = 177, 154, 2078


def at_once(text: str | bytes) -> bytes:
    return parse("", text) + bind() + execute()


def binds(body: bytes) -> tuple[bytes, str]:
    """A Bind of statement `s`, which has two parameters, with this behind the names."""
    return message("B", b"\0s\0" + body) + execute() + sync(), "Z"


def shorts(*numbers: int) -> bytes:
    return struct.pack(f"!{len(numbers)}H", *numbers)


NULLS = struct.pack("!ii", -1, -1)

EXCHANGES: dict[str, list[tuple[bytes, str]]] = {
    # Messages of COPY where there is none are ignored, also in blocks and segments that have failed.
    "copy-messages-without-copy": [
        (copy_fail("why") + query("select 1"), "Z"),
        (copy_done() + copy_data(b"zz") + sync(), "Z"),
        (query("begin") + copy_done() + copy_fail("why") + query("select 1"), "ZZ"),
        (parse("", "select 1") + copy_fail("x") + bind() + copy_done() + execute() + copy_data(b"1") + sync(), "Z"),
        (parse("", "selec") + copy_fail("x") + bind() + copy_done() + sync(), "Z"),
        (copy_data(b"1\n") + query("rollback"), "Z"),
    ],
    "several-copies-in-one-query": [
        (query("select 1; copy x from stdin; select 2; copy x to stdout; copy x from stdin; select 3"), "G"),
        (copy_data(b"5\n") + copy_done(), "G"),
        (copy_data(b"6\n") + copy_done(), "Z"),
        (query("copy x from stdin; copy x from stdin"), "G"),
        (copy_fail("no"), "Z"),
        (copy_data(b"7\n") + copy_done() + query("select count(*) from x"), "Z"),
        (query("truncate x; copy x from stdin; select 1/0; copy x from stdin"), "G"),
        (copy_data(b"7\n") + copy_done(), "Z"),
        (copy_data(b"8\n") + copy_done() + query("select count(*) from x"), "Z"),
    ],
    "copy-by-execute": [
        (parse("", "copy x from stdin") + bind() + execute() + flush(), "G"),
        (copy_data(b"1\n") + flush() + sync() + copy_data(b"2\n") + copy_done() + sync(), "Z"),
        (parse("", "copy x from stdin") + bind() + execute() + sync(), "G"),
        (copy_data(b"3\n") + copy_fail("why") + sync(), "Z"),
        (parse("", "copy x from stdin") + bind() + execute() + flush(), "G"),
        (copy_data(b"x\n") + copy_done() + at_once("select 1") + sync(), "Z"),
    ],
    "odd-copy-data": [
        (query("copy x from stdin"), "G"),
        (copy_data(b"") + copy_data(b"") + copy_done(), "Z"),
        (query("copy x from stdin with (format binary)"), "G"),
        (copy_data(b"junk") + copy_done(), "Z"),
        (query("copy x from stdin"), "G"),
        (copy_data(b"1") + copy_data(b"2\n3") + copy_data(b"\n") + copy_done(), "Z"),
        (query("table x"), "Z"),
    ],
    # Portals that savepoints, DEALLOCATE and Close leave, and cursors that messages use.
    "portals-and-savepoints": [
        (query("begin"), "Z"),
        (parse("s", ROWS) + bind("p", "s") + execute("p", 1) + execute("p", 0xFFFFFFFF) + execute("p", 1) + sync(), "Z"),
        (bind("q", "s") + execute("q", 2) + sync(), "Z"),
        (query("savepoint a"), "Z"),
        (bind("r", "s") + execute("r", 2) + execute("q", 1) + sync(), "Z"),
        (query("rollback to a"), "Z"),
        (execute("q", 2) + sync() + execute("r", 1) + sync(), "ZZ"),
        (query("rollback to a") + describe("P", "q") + execute("q") + execute("q") + execute("q", 1) + sync(), "ZZ"),
        (query("rollback") + execute("q", 1) + sync(), "ZZ"),
    ],
    "portals-outlive-their-statement": [
        (query("begin"), "Z"),
        (parse("s", ROWS) + bind("p", "s") + execute("p", 2) + close("S", "s") + execute("p", 1) + sync(), "Z"),
        (query("deallocate all") + execute("p", 1) + sync(), "ZZ"),
        (query("discard plans") + execute("p", 1) + sync(), "ZZ"),
        (query("fetch 1 from p; select name, statement from pg_cursors"), "Z"),
        (query("close p") + execute("p", 1) + sync(), "ZZ"),
        (query("rollback"), "Z"),
    ],
    "cursors-are-portals": [
        (query(f"begin; declare c cursor for {ROWS}"), "Z"),
        (execute("c", 2) + describe("P", "c") + sync(), "Z"),
        (parse("", ROWS) + bind("c") + sync(), "Z"),
        (query(f"rollback; declare h cursor with hold for {ROWS}"), "Z"),
        (execute("h", 2) + sync() + describe("P", "h") + execute("h", 2) + sync(), "ZZ"),
        (close("P", "h") + sync() + execute("h", 2) + sync(), "ZZ"),
    ],
    "portals-of-other-commands": [
        (query("begin"), "Z"),
        (parse("", f"insert into x {ROWS} returning a") + bind("p") + execute("p", 2) + sync(), "Z"),
        (execute("p", 2) + sync() + execute("p", 2) + sync() + execute("p", 2) + sync(), "ZZZ"),
        (query("rollback") + query("select count(*) from x"), "ZZ"),
        (parse("", "") + bind("e") + execute("e", 1) + describe("P", "e") + execute("e") + sync(), "Z"),
        (parse("", "show datestyle") + bind("e") + execute("e", 1) + execute("e", 1) + execute("e") + sync(), "Z"),
        (parse("", "begin") + bind("e") + execute("e") + execute("e") + sync(), "Z"),
        (query("rollback"), "Z"),
    ],
    # Bodies that are too short, too long, or say something impossible.
    "odd-binds": [
        (parse("s", "select $1::int, $2::text") + sync(), "Z"),
        binds(shorts(0, 2) + struct.pack("!ii", -2, -1) + shorts(0)),
        binds(shorts(0, 2) + struct.pack("!ii", 100, -1) + shorts(0)),
        binds(shorts(1, 1, 2) + NULLS + shorts(0)),
        binds(shorts(3, 0, 0, 0, 2) + NULLS + shorts(0)),
        binds(shorts(0, 2) + NULLS + shorts(1, 1)),
        binds(shorts(0, 2) + NULLS + shorts(1, 9)),
        binds(shorts(0, 2) + NULLS + shorts(3, 0, 0, 0)),
        binds(shorts(0, 65535) + NULLS + shorts(0)),
        binds(shorts(65535, 2) + NULLS + shorts(0)),
        binds(shorts(0, 2) + NULLS + shorts(65535)),
        binds(shorts(0, 2) + NULLS + shorts(0) + b"more"),
        binds(shorts(1, 1, 2) + struct.pack("!i", 3) + b"abc" + struct.pack("!i", -1) + shorts(0)),
        binds(shorts(0, 2) + struct.pack("!i", 1) + b"1" + struct.pack("!i", 3) + b"a\0b" + shorts(0)),
        binds(shorts(0, 2) + struct.pack("!i", 1) + b"1" + struct.pack("!i", 2) + b"\xff\xfe" + shorts(0)),
    ],
    "odd-bodies": [
        (message(tag, body) + sync(), "Z")
        for tag, body in (
            *((tag, body) for tag in "CD" for body in (b"", b"S", b"X\0", b"Sab\0c", b"Sab\0\0")),
            *(("E", body) for body in (b"", b"\0\0\0", b"\0\0\0\0\0\0")),
            *(("P", b"a\0" + body) for body in (b"", b"select 1\0", b"select 1\0\0\1", b"select 1\0\0\0\0")),
            *(("B", body) for body in (b"\0", b"\0\0\0\1")),
        )
    ]
    + [(message("Q", body), "Z") for body in (b"", b"select 1", b"select 1\0x")],
    "types-of-parameters": [
        (parse("a", "select $1", [0] * 65535) + sync(), "Z"),
        (parse("b", "select $1", [25] * 65535) + sync() + describe("S", "b") + sync(), "ZZ"),
        (parse("c", "select $1::int", [23, 25, 20]) + describe("S", "c") + sync(), "Z"),
        (parse("d", "select $2::int", [0, 0]) + sync() + parse("d", "select $65536") + sync(), "ZZ"),
        (parse("d", "select $0") + sync() + parse("d", "select $65535::int") + sync(), "ZZ"),
        (parse("e", "select $1", [99999999]) + sync() + parse("f", "select 1", [0xFFFFFFFF]) + sync(), "ZZ"),
    ],
    "odd-function-calls": [
        (message("F", b"") + message("F", b"\0\0"), "ZZ"),
        (message("F", struct.pack("!IHHi", INT4PL, 0, 2, -5) + b"1" + NULLS), "Z"),
        (function_call(INT4PL, [b"1", b"2"], (7,)) + function_call(INT4PL, [b"1", b"2"], (0, 0), 5), "ZZ"),
        (function_call(INT4PL, [b"1"], (0, 0, 0)) + function_call(0), "ZZ"),
        (parse("", "select 1") + bind() + function_call(INT4PL, [b"1", b"2"]) + execute() + sync(), "ZZ"),
        (query("begin") + function_call(SET_CONFIG, [b"work_mem", b"7MB", b"f"]), "ZZ"),
        (function_call(INT4DIV, [b"1", b"0"]) + function_call(INT4PL, [b"1", b"2"]) + at_once("select 1") + sync(), "ZZZ"),
        (query("rollback") + query("show work_mem"), "ZZ"),
        (function_call(SET_CONFIG, [b"DateStyle", b"German", b"f"]) + query("show datestyle"), "ZZ"),
    ],
    # The status in ReadyForQuery where blocks begin and end within one text or segment.
    "blocks-within-segments": [
        (at_once("insert into x values (1)") + at_once("select 1/0") + sync() + query("select count(*) from x"), "ZZ"),
        (at_once("begin") + at_once("select 1/0") + sync() + parse("", "select 1") + bind() + sync(), "ZZ"),
        (at_once("rollback") + at_once("select 2") + sync(), "Z"),
        (at_once("begin") + at_once("commit") + at_once("select 1/0") + sync(), "Z"),
        (query("begin; select 1/0") + query("rollback; begin; commit; select 1"), "ZZ"),
        (at_once("commit") + sync() + at_once("rollback and chain") + sync() + query("commit and chain"), "ZZZ"),
        (at_once("insert into x values (1)") + at_once("begin") + sync() + query("select 1/0"), "ZZ"),
        (query("rollback") + query("select count(*) from x"), "ZZ"),
        (at_once("savepoint a") + sync() + query("select 1; savepoint a"), "ZZ"),
        (at_once("select 1") + at_once("savepoint a") + at_once("rollback to a") + sync(), "Z"),
    ],
    "all-messages-of-the-server": [
        (query("set client_min_messages = debug5"), "Z"),
        # A BEGIN of its own would be answered before the server has it.
        (query("select 1") + at_once("select 2") + sync() + query("begin; select 3"), "ZZZ"),
        (query("commit") + query("set datestyle = 'German'"), "ZZ"),
        # The text of a Parse is told with the name that the server knows, so a named statement comes behind it.
        (at_once("select '01.02.2024'::date") + sync() + query("set client_min_messages = debug1"), "ZZ"),
        (parse("s", "select '03.04.2024'::date") + sync() + bind("", "s") + execute() + sync(), "ZZ"),
        (query("reset client_min_messages") + bind("", "s") + execute() + sync(), "ZZ"),
    ],
}


def lines(c: wire.Connection, steps, between) -> list[list[str]]:
    tables: dict = {}
    out = []
    for data, ends in [*steps, (query("select 'the end'"), "Z")]:
        c.send(data)
        answers = [m for tag in ends for m in c.read_until(tag)]
        out.append(in_order([differential.comparable(m, tables) for m in answers]))
        between()
    return out


@pytest.fixture(scope="module")
def database():
    """Makes the database of the exchanges in a cluster, once."""
    made = set()

    def make(cluster):
        if cluster.version not in made:
            cluster.psql(f"create database {DATABASE}")
            made.add(cluster.version)
        cluster.psql(TABLE, dbname=DATABASE)

    return make


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("name", EXCHANGES)
def test_an_odd_exchange(pg, make_pooler, database, name, mode):
    steps = EXCHANGES[name]
    database(pg)
    with wire.Connection(port=pg.port, database=DATABASE) as c:
        expected = lines(c, steps, lambda: None)
    database(pg)
    settings = {"default_pool_size": 2, "link": "adversarial" if mode == "transaction" and kind() == "pgweir" else None}
    pooler = make_pooler(pg, mode=mode, settings=settings)
    with pooler.connect(database=DATABASE) as c, pooler.connect(database=DATABASE) as other:
        turns = []

        def neighbour():
            turns.append(None)
            if len(turns) % 2:
                other.send(query("set datestyle = 'SQL'; set work_mem = '5MB'; set client_min_messages = error"))
            else:
                other.send(query("discard all"), parse("s", "select 'another'"), parse("p", "select 'another'"), sync())
                other.read_ready()
            other.read_ready()

        got = lines(c, steps, neighbour)
    for number, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours == theirs, f"step {number}"


ENDS_ITSELF = "select pg_terminate_backend(pg_backend_pid())"
WRITES = "insert into x values (1)"


@pytest.mark.parametrize(
    "data",
    (
        query(ENDS_ITSELF) + query(WRITES) + sync(),
        query("begin") + query(WRITES) + query(ENDS_ITSELF) + query("commit"),
        at_once(WRITES) + at_once(ENDS_ITSELF) + sync() + query(WRITES),
        at_once(ENDS_ITSELF) + flush() + at_once(WRITES) + sync(),
        at_once(WRITES) + flush() + query(ENDS_ITSELF) + at_once(WRITES) + sync(),
    ),
    ids=("queries", "a-block", "segments", "flush", "a-query-in-a-segment"),
)
def test_nothing_runs_behind_the_end_of_its_server(pg, make_pooler, database, data):
    """A client ends the server that it uses, and has sent more: it is told the same as on a direct connection, and no other
    server runs the rest."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    told = []
    for port in (pg.port, pooler.port):
        database(pg)
        with wire.Connection(port=port, database=DATABASE) as c:
            c.send(data)
            told.append([wire.text(m) for m in c.read_to_end()])
        with wire.Connection(port=port, database=DATABASE) as other:
            assert other.value("select count(*) from x") == "0"
    assert told[0] == told[1]


# ---- cancel requests


@pytest.mark.parametrize("protocol", (wire.PROTOCOL_3_0, wire.PROTOCOL_3_2), ids=("3.0", "3.2"))
def test_parts_of_a_key_cancel_nothing(pg, make_pooler, protocol):
    """Keys that are cut, longer, repeated or turned round, and other ids with the right key."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect(protocol=protocol) as c:
        key, pid = c.secret_key, c.process_id
        wrong = [key[:cut] for cut in (0, 1, 3, len(key) - 1)]
        wrong += [key + b"\0", key + key, key[::-1], bytes(len(key)), b"\xff" * len(key), b"x" * 256, b"x" * 300]
        requests = [cancel_request(pid, k) for k in wrong if k != key]
        requests += [cancel_request(other, key) for other in (0, 1, pid - 1, pid + 1, pid ^ 0x80000000, 0xFFFFFFFF)]
        c.send(query("select pg_sleep(60)"))
        for request in requests:
            with wire.open_socket(c.host, c.port) as s:
                with contextlib.suppress(ConnectionError):
                    s.sendall(request)
                    while s.recv(1024):
                        pass
        assert c.quiet(0.2)
        c.cancel()
        assert wire.error_codes(c.read_ready()) == ["57014"]


@pytest.mark.parametrize("form", ("twice", "in pieces", "with more behind it", "behind SSLRequest", "half-closed"))
def test_a_cancel_request_in_an_odd_form(pg15, make_pooler, form):
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with pooler.connect() as c:
        request = cancel_request(c.process_id, c.secret_key)
        c.send(query("select pg_sleep(20)"))
        time.sleep(0.2)
        with wire.open_socket(c.host, c.port) as s:
            if form == "in pieces":
                for byte in request:
                    s.sendall(bytes((byte,)))
            elif form == "behind SSLRequest":
                s.sendall(struct.pack("!II", 8, wire.SSL_REQUEST))
                assert s.recv(1) == b"N"
                s.sendall(request)
            else:
                s.sendall(request + {"twice": request, "with more behind it": b"more"}.get(form, b""))
            if form == "half-closed":
                s.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while s.recv(1024):
                    pass
        assert wire.error_codes(c.read_ready()) == ["57014"]
        assert c.value("select 1") == "1"


# ---- clients that leave

# What a client has sent when it leaves.
LEFT = {
    "a deferred BEGIN": query("begin"),
    "a block": query("begin; select 1"),
    "a failed block": query("begin; select 1/0"),
    "an open segment": parse("", "select 1") + bind() + execute() + flush(),
    "a suspended portal": parse("", ROWS) + bind() + execute("", 1) + flush(),
    "a BEGIN without Sync": parse("", "begin") + bind() + execute() + flush(),
    "a COPY": query("copy x from stdin"),
    "data of a COPY": query("copy x from stdin") + copy_data(b"1\n"),
    "half of the data of a COPY": query("copy x from stdin") + copy_data(b"1\n2\n")[:-2],
    "a COPY by Execute": parse("", "copy x from stdin") + bind() + execute() + sync(),
    "half a Query": query("select 1")[:7],
    "half a long Query": query(b"select '" + b"x" * 200_000 + b"'")[:100_000],
    "half a Bind": parse("", "select $1::text") + bind("", "", ["x" * 100])[:20],
    "half a Query in a block": query("begin; select 1") + query("select 2")[:7],
    "a sleep": query("insert into x select 1 from pg_sleep(30)"),
    "a sleep by Execute": parse("", "insert into x select 1 from pg_sleep(30)") + bind() + execute() + sync(),
    "a sleep without Sync": parse("", "insert into x select 1 from pg_sleep(30)") + bind() + execute(),
    "rows that it does not read": query("select repeat('x', 1000) from generate_series(1, 100000)"),
    "a COPY that it does not read": query("copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout"),
    "a channel": query("listen a"),
}


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("how", ("half-closes", "closes", "resets"))
def test_whatever_a_client_leaves_the_next_one_is_served(pg15, make_pooler, database, how, mode):
    """A pool of one server: the next client gets it, in no transaction, and nothing of the first is committed."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    database(pg15)
    pooler = make_pooler(pg15, mode=mode, settings={"default_pool_size": 1, "query_wait_timeout": 15})
    for what, data in LEFT.items():
        c = pooler.connect(database=DATABASE)
        c.send(data)
        time.sleep(0.1)
        {"half-closes": lambda: c.socket.shutdown(socket.SHUT_WR), "closes": c.drop, "resets": c.reset}[how]()
        with pooler.connect(database=DATABASE) as other:
            assert other.value("select count(*) from x", timeout=20) == "0", what
            assert other.query("rollback")[0].tag == "N", f"{what}: a transaction was left"
        c.socket.close()
