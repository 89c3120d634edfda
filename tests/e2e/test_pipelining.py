"""The protocol's state when servers are shared: pipelines, row limits, splits, sizes, deferred BEGIN.

Each test stands for an item of the list of bugs that poolers have had, under "Pipelining / protocol state"; the item
is in its docstring. Clients that vanish are in test_faults.py.
"""

import socket
import struct
import threading
import time

import pytest

from harness import wire
from harness.pooler import kind, resident_bytes
from harness.scenes import backend_pid, held_server
from harness.waiting import Stopwatch, eventually
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

ONE_SERVER = {"default_pool_size": 1}
TWO_SERVERS = {"default_pool_size": 2}


def select(sql, portal="", values=()):
    return parse("", sql) + bind(portal, "", values) + execute(portal)


# ---- pipelines


def test_one_ready_for_query_per_sync(pg, make_pooler):
    """Count ReadyForQuery per Sync, do not release early: many segments in one write, another client in between."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for _ in range(20):
            a.send(*(select(f"select {i}") + sync() for i in range(30)))
            b.send(*(select(f"select {100 + i}") + sync() for i in range(30)))
            assert rows_of(a.read_ready(30)) == [(str(i),) for i in range(30)]
            assert rows_of(b.read_ready(30)) == [(str(100 + i),) for i in range(30)]
        assert a.quiet(0.05) and b.quiet(0.05)


def test_transaction_in_a_pipeline_stays_together(pg, make_pooler):
    """BEGIN, work and COMMIT in one write run on one server, whoever else is there."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as a, pooler.connect() as b:
        for _ in range(30):
            for c in (a, b):
                c.send(
                    query("begin"),
                    query("select pg_backend_pid(), txid_current()"),
                    select("select pg_backend_pid(), txid_current()") + sync(),
                    query("select pg_backend_pid(), txid_current()"),
                    query("commit"),
                )
            for c in (a, b):
                rows = rows_of(c.read_ready(5))
                assert len(rows) == 3 and len(set(rows)) == 1, rows


def test_error_in_the_middle_of_a_pipeline(pg, make_pooler):
    """An error skips to the next Sync and no further."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        c.send(
            select("select 1"),
            select("select nonsense"),
            select("select 2"),
            sync(),
            select("select 3"),
            sync(),
            sync(),
            select("select 4 / 0"),
            query("select 'skipped, says the protocol'"),
            sync(),
            query("select 5"),
        )
        messages = c.read_ready(5)
        assert tags(messages) == "12DCEZ12DCZZ1EZTDCZ"
        assert [row for m in messages if m.tag == "D" for row in m.values] == [b"1", b"3", b"5"]
        assert c.quiet(0.05)
        assert other.value("select 1", timeout=3) == "1"


def test_flush_without_sync_keeps_the_server(pg, make_pooler):
    """Flush without Sync: replies come, the server stays with the client until Sync."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "query_wait_timeout": 30})
    with pooler.connect() as c, pooler.connect() as other:
        c.send(select("select txid_current()"), flush())
        first = rows_of(c.read_until("C"))
        other.send(query("select 'waited'"))
        if kind() != "direct":
            assert other.quiet(0.3)
        c.send(select("select txid_current()"), flush())
        assert rows_of(c.read_until("C")) == first
        c.send(sync())
        assert tags(c.read_ready()) == "Z"
        assert rows_of(other.read_ready(timeout=3)) == [("waited",)]


def test_simple_query_in_the_middle_of_extended(pg, make_pooler):
    """Simple query in the middle of extended."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        for _ in range(3):
            c.send(parse("", "select 1"), bind("", ""), execute(), query("select 2"), select("select 3"), sync())
            messages = c.read_ready(2)
            assert tags(messages) == "12DCTDCZ12DCZ"
            assert rows_of(messages) == [("1",), ("2",), ("3",)]
            assert other.value("select 4", timeout=3) == "4"


def test_sync_alone_and_flush_alone(pg15, make_pooler):
    """Sync answered by ReadyForQuery with or without a server; Flush by nothing."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        c.send(sync())
        assert c.read_ready()[-1].body == b"I"
        c.send(flush())
        assert c.quiet(0.1)
        assert other.value("select 1", timeout=3) == "1"
        c.send(sync(), sync(), flush(), sync())
        assert tags(c.read_ready(3)) == "ZZZ"
        c.query("begin")
        c.send(sync())
        assert c.read_ready()[-1].body == b"T"
        c.query("rollback")


def test_row_limit_keeps_the_server(pg, make_pooler):
    """Execute with row limit: PortalSuspended keeps the transaction on the server."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "query_wait_timeout": 30})
    with pooler.connect() as c, pooler.connect() as other:
        c.send(parse("", "select generate_series(1, 5)"), bind("p"), execute("p", 2), flush())
        assert tags(c.read_until("s")) == "12DDs"
        other.send(query("select 'waited'"))
        if kind() != "direct":
            assert other.quiet(0.3)
        c.send(execute("p", 2), flush())
        assert rows_of(c.read_until("s")) == [("3",), ("4",)]
        c.send(execute("p"), sync())
        messages = c.read_ready()
        assert rows_of(messages) == [("5",)] and command_tags(messages) == ["SELECT 1"]
        assert rows_of(other.read_ready(timeout=3)) == [("waited",)]
        # Sync ends the portal outside a transaction, and the server is free.
        c.send(parse("", "select generate_series(1, 5)"), bind("p"), execute("p", 2), sync())
        assert tags(c.read_ready()) == "12DDsZ"
        assert other.value("select 1", timeout=3) == "1"
        c.send(execute("p"), sync())
        assert error_codes(c.read_ready()) == ["34000"]


def test_portals_in_a_transaction(pg, make_pooler):
    """Two suspended portals, read in turns across Sync inside a transaction."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query("begin")
        c.send(
            parse("s", "select generate_series($1::int, $1 + 9)"),
            bind("p", "s", ["0"]),
            bind("q", "s", ["100"]),
            execute("p", 3),
            sync(),
        )
        assert tags(c.read_ready()) == "122DDDsZ"
        for portal, first in (("q", 100), ("p", 3), ("q", 103), ("p", 6)):
            c.send(execute(portal, 3), sync())
            assert rows_of(c.read_ready()) == [(str(first + i),) for i in range(3)]
        c.send(close("P", "p"), execute("q"), sync())
        assert tags(c.read_ready()) == "3DDDDCZ"
        c.query("commit")


def test_describe_on_a_deferred_begin(pg, make_pooler):
    """Describe response on a deferred BEGIN."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        for name in ("", "begin_statement", ""):
            c.send(parse(name, "begin"), describe("S", name), bind("", name), describe("P"), execute(), sync())
            messages = c.read_ready()
            assert tags(messages) == "1tn2nCZ" and messages[-1].body == b"T"
            assert wire.text(messages[1]) == "ParameterDescription []"
            assert c.value("select 1") == "1"
            assert command_tags(c.query("commit")) == ["COMMIT"]
            c.send(close("S", name), sync())
            c.read_ready()
        # Described, not executed: no transaction.
        c.send(parse("", "begin"), describe("S"), sync())
        assert c.read_ready()[-1].body == b"I"


# ---- deferred BEGIN


def test_deferred_begin_takes_no_server(pg15, make_pooler):
    """A bare BEGIN takes no server until the first real statement."""
    if kind() != "pgweir":
        pytest.skip("only pgweir defers BEGIN")
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "deferred_begin": 30})
    with pooler.connect() as a, pooler.connect() as b:
        assert a.query("begin")[-1].body == b"T"
        assert b.query("begin")[-1].body == b"T"
        assert b.value("select 1", timeout=3) == "1"
        b.query("commit")
        assert a.value("select 2", timeout=3) == "2"
        assert command_tags(a.query("commit")) == ["COMMIT"]


def test_deferred_begin_is_bounded(pg15, make_pooler):
    """`deferred_begin` seconds after the BEGIN the transaction has its server, so that now() is not much later."""
    if kind() != "pgweir":
        pytest.skip("only pgweir defers BEGIN")
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "deferred_begin": 1})
    with pooler.connect() as a:
        a.query("begin")
        eventually(
            lambda: pg15.psql("select count(*) from pg_stat_activity where state = 'idle in transaction'") == "1",
            timeout=4,
            what="the server that the deferred BEGIN takes after its time",
        )
        # Longer than a BEGIN that travels with its query would be old.
        time.sleep(0.05)
        assert a.value("select now() < clock_timestamp() - interval '10 ms'") == "t"
        a.query("commit")


@pytest.mark.parametrize("setting", ("0", None))
def test_begin_then_work(pg15, make_pooler, setting):
    """The same conversation with and without deferral."""
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "deferred_begin": setting if kind() == "pgweir" else None})
    with pooler.connect() as c, pooler.connect() as other:
        for begin in ("begin", "BEGIN;", "start transaction", "begin work", " begin transaction ; ", "-- note\nbegin"):
            messages = c.query(begin)
            assert tags(messages) == "CZ" and messages[-1].body == b"T"
            expected = "START TRANSACTION" if begin.startswith("start") else "BEGIN"
            assert command_tags(messages) == [expected]
            first = c.value("select txid_current()")
            assert c.value("select txid_current()") == first
            assert command_tags(c.query("commit")) == ["COMMIT"]
            assert other.value("select 1", timeout=3) == "1"


@pytest.mark.parametrize(
    "end, tag", (("commit", "COMMIT"), ("rollback", "ROLLBACK"), ("end", "COMMIT"), ("abort", "ROLLBACK"))
)
def test_deferred_begin_ended_at_once(pg, make_pooler, end, tag):
    """COMMIT/ROLLBACK after a deferred BEGIN."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        for _ in range(3):
            c.query("begin")
            messages = c.query(end)
            assert command_tags(messages) == [tag] and messages[-1].body == b"I"
            assert tags(messages) == "CZ"
            assert other.value("select 1", timeout=3) == "1"
        # A second COMMIT is outside a transaction: PostgreSQL's warning 25P01.
        messages = c.query(end)
        assert tags(messages) == "NCZ" and messages[0].fields["C"] == "25P01"


@pytest.mark.parametrize(
    "begin, level",
    (
        ("begin isolation level serializable", "serializable"),
        ("begin transaction isolation level repeatable read, read only", "repeatable read"),
        ("start transaction isolation level serializable read only deferrable", "serializable"),
        ("begin", "read committed"),
    ),
)
def test_begin_with_isolation_level(pg, make_pooler, begin, level):
    """`BEGIN ISOLATION ...`, deferred or not, has its effect, and only on this transaction."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query(begin)
        assert c.value("show transaction_isolation") == level
        assert c.value("show transaction_read_only") == ("on" if "read only" in begin else "off")
        c.query("commit")
        assert c.value("show transaction_isolation") == "read committed"


def test_set_transaction_after_a_deferred_begin(pg, make_pooler):
    """SET TRANSACTION must be the transaction's first statement: nothing may have been put before it."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query("begin")
        assert command_tags(c.query("set transaction isolation level serializable")) == ["SET"]
        assert c.value("show transaction_isolation") == "serializable"
        c.query("commit")


def test_nested_begin_warns(pg, make_pooler):
    """BEGIN inside a transaction, deferred or not: PostgreSQL's warning 25001."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        for work in (None, "select 1"):
            c.query("begin")
            if work:
                c.query(work)
            messages = c.query("begin")
            assert tags(messages) == "NCZ" and messages[0].fields["C"] == "25001"
            assert messages[0].fields["M"] == "there is already a transaction in progress"
            c.query("commit")


@pytest.mark.parametrize("lock", ("pg_advisory_xact_lock", "pg_advisory_lock"))
def test_advisory_lock_as_first_statement(pg15, make_pooler, lock):
    """Advisory lock in a deferred BEGIN: taken, held to the end of the transaction, seen by others."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as c, pooler.connect() as other:
        c.query("begin")
        c.query(f"select {lock}(4711)")
        assert other.value("select pg_try_advisory_xact_lock(4711)") == "f"
        if lock == "pg_advisory_lock":
            assert c.value("select pg_advisory_unlock(4711)") == "t"
        c.query("commit")
        assert other.value("select pg_try_advisory_xact_lock(4711)") == "t"


def test_error_as_first_statement_of_a_deferred_begin(pg, make_pooler):
    """Error status: the first real statement fails, so the transaction is aborted until ROLLBACK."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        for send in (c.query, c.extended):
            c.query("begin")
            messages = send("select nonsense")
            assert error_codes(messages) == ["42703"] and messages[-1].body == b"E"
            assert error_codes(c.query("select 1")) == ["25P02"]
            messages = c.query("commit")
            assert command_tags(messages) == ["ROLLBACK"] and messages[-1].body == b"I"


def test_client_leaves_after_a_deferred_begin(pg15, make_pooler):
    """Disconnect after a deferred BEGIN, with and without work: the next client is in no transaction."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for work in (None, "select 1"):
        for how in ("close", "drop", "reset"):
            c = pooler.connect()
            c.query("begin")
            if work:
                c.query(work)
            getattr(c, how)()
            with pooler.connect() as other:
                assert other.query("select 1", timeout=3)[-1].body == b"I"
                messages = other.query("commit")
                assert messages[0].tag == "N" and messages[0].fields["C"] == "25P01"


def test_begin_with_work_in_one_query(pg, make_pooler):
    """`begin; select 1` is not a bare BEGIN."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        messages = c.query("begin; select 1")
        assert tags(messages) == "CTDCZ" and messages[-1].body == b"T"
        messages = c.query("select 2; commit")
        assert tags(messages) == "TDCCZ" and messages[-1].body == b"I"
        messages = c.query("begin; select 1; commit; begin")
        assert command_tags(messages) == ["BEGIN", "SELECT 1", "COMMIT", "BEGIN"] and messages[-1].body == b"T"
        c.query("rollback")


def test_begin_pipelined_with_extended_query(pg, make_pooler):
    """BEGIN by Parse/Bind/Execute without Sync, as drivers batch it with the first statement."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        for _ in range(2):
            c.send(parse("", "begin"), bind(), execute(), select("select 1"), sync())
            messages = c.read_ready()
            assert tags(messages) == "12C12DCZ" and messages[-1].body == b"T"
            c.send(select("select 2"), parse("", "commit"), bind(), execute(), sync())
            messages = c.read_ready()
            assert tags(messages) == "12DC12CZ" and messages[-1].body == b"I"


# ---- splits and sizes

CONVERSATION = (
    parse("s", "select $1::text || 'end'")
    + bind("", "s", ["value"])
    + describe("P")
    + execute()
    + close("S", "s")
    + sync()
    + query("select 1; select 2")
    + sync()
)
REPLY = "12TDC3ZTDCTDCZZ"


def test_split_at_every_byte(pg15, make_pooler):
    """Message split at every byte boundary; header split."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        for at in range(1, len(CONVERSATION)):
            c.socket.sendall(CONVERSATION[:at])
            time.sleep(0.002)
            c.socket.sendall(CONVERSATION[at:])
            assert tags(c.read_ready(3)) == REPLY, f"split at byte {at}"


def test_byte_by_byte(pg15, make_pooler):
    """Every byte in its own write, and slowly."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        for byte in CONVERSATION:
            c.socket.sendall(bytes((byte,)))
            time.sleep(0.001)
        assert tags(c.read_ready(3)) == REPLY


def test_startup_split_at_every_byte(pg15, make_pooler):
    """Startup packet partial."""
    pooler = make_pooler(pg15)
    packet = wire.startup({"user": "postgres", "database": "postgres"})
    for at in [*range(1, 12), *range(12, len(packet), 5)]:
        c = pooler.connect(login=False)
        c.socket.sendall(packet[:at])
        time.sleep(0.002)
        c.socket.sendall(packet[at:])
        c.finish_login()
        c.close()


def test_first_query_in_the_same_write_as_the_startup_packet(pg15, make_pooler):
    """Bytes that follow the startup packet before the login is over are kept, where no password is asked for."""
    pooler = make_pooler(pg15)
    c = pooler.connect(login=False)
    c.send(wire.startup(c.startup_parameters()), query("select 1"))
    c.finish_login()
    assert rows_of(c.read_ready()) == [("1",)]
    c.close()


SIZES = sorted(
    {base + d for base in (4096, 8192, 16384, 20480, 32768, 65536, 131072, 262144) for d in (-6, -5, -1, 0, 1, 5)}
)


def test_query_lengths_around_buffer_sizes(pg15, make_pooler):
    """Query length at multiples of buffer x loop count."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as c:
        for size in SIZES:
            sql = "select 1 --"
            c.send(query(sql + "x" * (size - len(sql) - 6)))
            assert tags(c.read_ready()) == "TDCZ", size
            # A row of that length, and a query right behind.
            c.send(query(f"select repeat('x', {size})"), query("select 2"))
            messages = c.read_ready(2)
            assert len(messages[1].values[0]) == size and rows_of(messages)[1] == ("2",)


def test_statement_text_and_parameter_lengths(pg15, make_pooler):
    """The same for Parse, whose text the pooler must keep, and for Bind."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as a, pooler.connect() as b:
        for size in SIZES[::3]:
            for c in (a, b):
                c.send(
                    parse("s", f"select length($1) /*{'x' * size}*/"),
                    bind("", "s", ["y" * size]),
                    execute(),
                    close("S", "s"),
                    sync(),
                )
                assert rows_of(c.read_ready()) == [(str(size),)]


@pytest.mark.parametrize("megabytes", (1, 64))
def test_large_messages_in_constant_memory(pg15, make_pooler, megabytes):
    """A huge Query, a huge Bind and a huge row pass through without being kept."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    size = megabytes << 20
    with pooler.connect(timeout=60) as c:
        c.value("select 1")
        before = resident_bytes(pooler)
        assert c.value(f"select length('{'q' * size}')") == str(size)
        c.send(parse("", "select length($1)"), bind("", "", [b"b" * size]), execute(), sync())
        assert rows_of(c.read_ready()) == [(str(size),)]
        messages = c.query(f"select repeat('r', {size})")
        assert len(messages[1].values[0]) == size
        if kind() == "pgweir":
            assert resident_bytes(pooler) - before < 6 << 20
        assert c.value("select 1") == "1"


def test_slow_reader_holds_the_server_back(pg15, make_pooler):
    """Slow reader back-pressure: rows that the client does not read stay with PostgreSQL, not in the pooler."""
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as slow, pooler.connect() as other:
        before = resident_bytes(pooler)
        slow.send(query("select repeat('x', 100000) from generate_series(1, 1000)"))
        time.sleep(1)
        assert other.value("select 1", timeout=2) == "1"
        if kind() == "pgweir":
            assert resident_bytes(pooler) - before < 6 << 20
        messages = slow.read_ready(timeout=30)
        assert sum(len(m.body) for m in messages if m.tag == "D") == 1000 * 100006


def test_both_directions_full(pg15, make_pooler):
    """Duplex deadlock when both sides are full: a client that sends for long before it reads."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect(timeout=60) as c:
        count, width = 2000, 10000
        pipeline = (parse("s", "select $1::text") + sync()) + (
            bind("", "s", ["x" * width]) + execute() + sync()
        ) * count

        def send():
            c.socket.settimeout(60)
            c.socket.sendall(pipeline)

        # The sender blocks until the reader reads: PostgreSQL itself stops reading when nobody takes its rows.
        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.5)
        reader = wire.Connection.__new__(wire.Connection)
        reader.__dict__.update(c.__dict__)
        reader.socket = c.socket.dup()
        messages = reader.read_ready(count + 1, timeout=60)
        sender.join()
        assert sum(m.tag == "D" for m in messages) == count
        reader.socket.close()
    with pooler.connect() as c:
        assert c.value("select 1", timeout=3) == "1"


# ---- messages at unexpected times


def test_notices_anywhere(pg, make_pooler):
    """NoticeResponse at any time must not change state."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        messages = c.query("do $$ begin for i in 1..50 loop raise notice 'n %', i; end loop; end $$")
        assert tags(messages) == "N" * 50 + "CZ"
        messages = c.extended("do $$ begin raise warning 'w'; end $$")
        assert tags(messages) == "12nNCZ"
        assert c.quiet(0.05)
        assert other.value("select 1", timeout=3) == "1"


def test_parameter_status_in_the_middle(pg, make_pooler):
    """ParameterStatus at any time must not change state; it reaches the client that caused it, and only that one."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c, pooler.connect() as other:
        messages = c.query("set datestyle to 'German'; select date '2020-02-01'; set timezone to 'Asia/Tokyo'")
        assert tags(messages) == "CSTDCCSZ" or tags(messages) == "CTDCCSSZ", tags(messages)
        assert c.parameters["DateStyle"] == "German, DMY" and c.parameters["TimeZone"] == "Asia/Tokyo"
        assert other.value("show datestyle") == "ISO, MDY"
        assert other.value("show timezone") == "UTC"
        assert other.parameters["DateStyle"] == "ISO, MDY"
        assert c.value("select date '2020-02-01'") == "01.02.2020"


def test_configuration_reload_of_the_server(own_cluster, make_pooler):
    """ParameterStatus while idle: PostgreSQL's configuration changes under idle servers and clients."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings=TWO_SERVERS)
    with pooler.connect() as a, pooler.connect() as b:
        for c in (a, b):
            assert c.value("select 1") == "1"
        cluster.psql("alter system set datestyle = 'SQL, DMY'")
        cluster.psql("select pg_reload_conf()")
        time.sleep(0.5)
        for _ in range(3):
            for c in (a, b):
                assert c.value("select 2", timeout=3) == "2"
                c.extended("select 3")


def test_server_closed_while_idle(pg15, make_pooler):
    """ErrorResponse with FATAL from the server while idle: no client is handed a connection PostgreSQL has closed."""
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pooler = make_pooler(pg15, settings=TWO_SERVERS)
    with pooler.connect() as a, pooler.connect() as b:
        for _ in range(5):
            pids = {backend_pid(a)}
            with held_server(pooler) as holder:
                pids |= {backend_pid(holder), backend_pid(a)}
            for pid in pids:
                pg15.psql(f"select pg_terminate_backend({pid})")
            eventually(
                lambda: pg15.psql(f"select count(*) from pg_stat_activity where pid in ({','.join(pids)})") == "0"
            )
            for c in (a, b):
                assert c.value("select 1", timeout=5) == "1"


def test_server_closed_in_a_transaction(pg, make_pooler):
    """The client in a transaction gets PostgreSQL's own error, 57P01."""
    pooler = make_pooler(pg, settings=TWO_SERVERS)
    with pooler.connect() as c:
        c.query("begin")
        pid = backend_pid(c)
        pg.psql(f"select pg_terminate_backend({pid})")
        c.send(query("select 1"))
        messages = c.read_to_end()
        assert error_codes(messages) == ["57P01"], messages
        assert messages[-1].fields["M"] == "terminating connection due to administrator command"


# ---- FunctionCall


def test_function_call(pg, make_pooler):
    """FunctionCall/fastpath: answered, in and out of a transaction, and after an error."""
    # What a function does that is called by its OID alone is not known: its client keeps its server.
    pooler = make_pooler(pg, settings={**ONE_SERVER, "default_pool_size": 2})
    int4pl = 177
    call = wire.function_call(int4pl, [struct.pack("!i", 40), struct.pack("!i", 2)], [1], 1)
    with pooler.connect() as c, pooler.connect() as other:
        for _ in range(2):
            c.send(call)
            messages = c.read_ready()
            assert tags(messages) == "VZ" and messages[0].body == struct.pack("!ii", 4, 42)
            assert other.value("select 1", timeout=3) == "1"
        c.send(wire.function_call(177, [b"x"], [0]))
        assert tags(c.read_ready()) == "EZ"
        c.query("begin")
        c.send(call, call, query("select 1"))
        assert tags(c.read_ready(3)) == "VZVZTDCZ"
        c.query("commit")
        assert other.value("select 1", timeout=3) == "1"


# ---- protocol versions


def test_newer_minor_version_is_negotiated_once(pg15, make_pooler):
    """NegotiateProtocolVersion once only, `_pq_.` options named in it."""
    pooler = make_pooler(pg15)
    c = pooler.connect(protocol=3 << 16 | 9999, options={"_pq_.pgweir_test_one": "1", "_pq_.pgweir_test_two": "2"})
    replies = [m for m in c.login_messages if m.tag == "v"]
    assert len(replies) == 1
    newest, count = struct.unpack_from("!II", replies[0].body)
    assert newest in (0, 2, 3 << 16, wire.PROTOCOL_3_2)
    assert count == 2
    assert replies[0].body[8:].split(b"\0")[:-1] == [b"_pq_.pgweir_test_one", b"_pq_.pgweir_test_two"]
    assert c.value("select 1") == "1"
    c.close()


def test_protocol_3_2_is_accepted(pg, make_pooler):
    """A client that asks for 3.2 gets it or is told 3.0, and can cancel in either case."""
    pooler = make_pooler(pg)
    with pooler.connect(protocol=wire.PROTOCOL_3_2) as c:
        negotiated = [m for m in c.login_messages if m.tag == "v"]
        if negotiated:
            assert len(c.secret_key) == 4
        else:
            assert 4 <= len(c.secret_key) <= 256
        c.send(query("select pg_sleep(10)"))
        time.sleep(0.3)
        c.cancel()
        assert error_codes(c.read_ready(timeout=5)) == ["57014"]


def test_pq_options_with_protocol_3_0(pg15, make_pooler):
    """An unknown `_pq_.` option alone is negotiated, too, and reaches no server as a setting."""
    pooler = make_pooler(pg15)
    with pooler.connect(options={"_pq_.pgweir_test": "1"}) as c:
        assert sum(m.tag == "v" for m in c.login_messages) == 1
        assert c.value("select 1") == "1"


# ---- broken connections and broken messages


@pytest.mark.beyond_pgbouncer
def test_half_close(pg15, make_pooler):
    """Half-close: the client shuts its sending side down after a query, as `nc` does; it gets its answer or the end."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    for _ in range(3):
        c = pooler.connect()
        c.send(query("select 'half'"))
        c.socket.shutdown(socket.SHUT_WR)
        assert c.closed(5)
        c.socket.close()
        with pooler.connect() as other:
            assert other.value("select 1", timeout=5) == "1"


@pytest.mark.parametrize(
    "garbage",
    (
        b"Q\0\0\0\3",
        b"Q\0\0\0\0",
        b"Q\xff\xff\xff\xff",
        b"Q\x80\0\0\0",
        b"S\0\0\0\5x",
        b"\0\0\0\0\0\0\0\0",
        b"z\0\0\0\4",
        b"p\0\0\0\5\0",
        b"P\0\0\0\4",
        b"B\0\0\0\6\0\0",
        b"E\0\0\0\5\0",
        b"D\0\0\0\5S",
        b"D\0\0\0\6Q\0",
        b"C\0\0\0\5\0",
        b"P\0\0\0\x0cabcdefgh",
        b"F\0\0\0\4",
        b"GET / HTTP/1.1\r\n\r\n",
    ),
)
@pytest.mark.parametrize("in_transaction", (False, True))
def test_broken_message(pg15, make_pooler, garbage, in_transaction):
    """Message length < 4 or > max, unknown types, bodies cut short: an error or the end, and no harm to others."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    with pooler.connect() as other:
        c = pooler.connect()
        if in_transaction:
            c.query("begin")
            c.query("select 1")
        # A Sync behind it: where the message was complete, PostgreSQL may answer an error and go on.
        c.send(garbage, sync())
        c.socket.settimeout(0.3)
        try:
            c.read_until("Z", "E", timeout=0.3)
        except (wire.Closed, wire.NoReply):
            pass
        c.drop()
        watch = Stopwatch()
        assert other.value("select 'fine'", timeout=5) == "fine"
        assert watch.seconds < 3
        assert other.query("select 1")[-1].body == b"I"


def test_broken_startup_packets(pg15, make_pooler):
    """Message lengths before login: too small, too large, negative, random; none of them hurts."""
    pooler = make_pooler(pg15)
    header = struct.pack("!I", wire.PROTOCOL_3_0)
    for packet in (
        b"\0\0\0\0",
        b"\0\0\0\7",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff" + header,
        b"\0\1\0\0" + header + b"user\0x\0\0",
        b"\0\0\0\x08" + header,
        b"\0\0\0\x09" + header + b"\0",
        b"\0\0\0\x0d" + header + b"user\0",
        b"\0\0\0\x10" + header + b"user\0xx\0",
        b"\0\0\0\x0e" + header + b"\0user\0",
        b"\0\0\0\x0c" + struct.pack("!II", wire.CANCEL_REQUEST, 1),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.0\r\n\r\n",
    ):
        s = wire.open_socket(pooler.connect_host(), pooler.port)
        s.sendall(packet)
        s.settimeout(0.2)
        try:
            while s.recv(4096):
                pass
        except OSError:
            pass
        s.close()
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


def test_large_startup_packet(pg15, make_pooler):
    """Startup packet large: up to PostgreSQL's 10,000 bytes it is read, beyond that refused."""
    pooler = make_pooler(pg15)
    with pooler.connect(options={"application_name": "x" * 9000}) as c:
        assert c.value("select 1") == "1"
    c = pooler.connect(login=False)
    c.send(wire.startup({"user": "postgres", "database": "postgres", "application_name": "x" * 20000}))
    assert all(m.tag == "E" for m in c.read_to_end(5))


# ---- waiting clients


def test_waiting_client_that_times_out_gets_no_answers(pg15, make_pooler):
    """Client buffer cleared after query_wait_timeout: no answers of the wrong query afterwards."""
    pooler = make_pooler(pg15, settings={**ONE_SERVER, "query_wait_timeout": 1})
    if kind() == "direct":
        pytest.skip("there is no pooler")
    pg15.psql("drop table if exists never; create table never (a int)")
    with held_server(pooler):
        c = pooler.connect()
        c.send(query("insert into never values (1)"), query("insert into never values (2)"))
        messages = c.read_to_end(5)
        assert [m.tag for m in messages if m.tag != "N"] == ["E"]
        error = wire.first_error(messages)
        assert error.fields["S"] == "FATAL" and error.fields["M"] == "query_wait_timeout"
    with pooler.connect() as other:
        assert other.value("select count(*) from never") == "0"
    pg15.psql("drop table never")
