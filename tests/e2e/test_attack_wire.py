"""Attacks on the passing of messages: clients that flood, that do not read, or that leave half a copy."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from harness import wire
from harness.pooler import kind, resident_bytes

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

MIB = 1024 * 1024
# Requests that the pooler answers itself.
CLOSE_AND_PARSE = wire.close("S", "s") + wire.parse("s", "select 1")


def prepare(c) -> None:
    c.send(wire.parse("s", "select 1"), wire.sync())
    c.read_ready()


def flood(c, block: bytes, bytes_max: int) -> int:
    """Sends a block again and again, until the pooler takes no more for two seconds; returns how much it has taken."""
    c.socket.settimeout(2)
    sent = 0
    with contextlib.suppress(OSError):
        while sent < bytes_max:
            rest = memoryview(block)
            while rest:
                count = c.socket.send(rest)
                sent, rest = sent + count, rest[count:]
    return sent


@pytest.mark.parametrize(
    "first, block",
    (
        (b"", CLOSE_AND_PARSE),
        (wire.describe("P"), CLOSE_AND_PARSE),
        (wire.query("select pg_sleep(5)"), wire.close("S", "")),
        (wire.query("select pg_sleep(5)"), wire.parse("", "") + wire.parse("", ";")),
        (b"", CLOSE_AND_PARSE + wire.flush()),
    ),
    ids=("answered-by-the-pooler", "behind-a-reply", "behind-a-sleep", "parses", "unread"),
)
def test_a_pipeline_without_end_does_not_take_all_memory(pg15, make_pooler, first, block):
    """The pooler kept everything it had to answer: 760 MiB after 30 MiB of Parse and Close."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect() as c:
        prepare(c)
        before = resident_bytes(pooler)
        c.send(first)
        time.sleep(0.2)
        sent = flood(c, block * (256 * 1024 // len(block)), 200 * MIB)
        grown = resident_bytes(pooler) - before
        assert sent > MIB
        assert grown < 24 * MIB, f"{grown / MIB:.0f} MiB after {sent / MIB:.0f} MiB"
        with pooler.connect() as other:
            assert other.value("select 1") == "1"
        c.reset()


def test_a_client_far_ahead_gets_every_reply(pg15, make_pooler):
    """The pooler reads on when the replies have come, in a segment without Sync as well."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    count = 60_000
    with pooler.connect() as c:
        prepare(c)
        pid = c.value("select pg_backend_pid()")
        requests = wire.bind("", "s") + wire.close("P") + CLOSE_AND_PARSE
        sender = threading.Thread(target=c.send, args=(requests * count + wire.sync(),))
        sender.start()
        tags = [m.tag for m in c.read_ready(timeout=60)]
        sender.join()
        assert tags == ["2", "3", "3", "1"] * count + ["Z"]
        assert c.value("select pg_backend_pid()") == pid


@pytest.mark.parametrize("leaves", (True, False), ids=("leaves", "stays"))
def test_the_end_of_a_copy_does_not_count_for_the_next_copy(pg15, make_pooler, leaves):
    """One Query with two copies; the end of the first one was sent before the server had begun it."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    pg15.psql("drop table if exists copied_twice; create table copied_twice (a int)")
    with pooler.connect() as c:
        pid = c.value("select pg_backend_pid()")
        c.send(
            wire.query("select pg_sleep(0.3)"),
            wire.query("copy copied_twice from stdin; copy copied_twice from stdin"),
            wire.copy_data(b"1\n") + wire.copy_done(),
        )
        tags = [m.tag for m in c.read_ready()]
        tags += [c.read().tag for _ in range(3)]
        assert tags == ["T", "D", "C", "Z", "G", "C", "G"]
        if not leaves:
            # The server ignores this Sync: it is among the data.
            c.send(wire.sync() + wire.copy_data(b"2\n") + wire.copy_done())
            assert [m.tag for m in c.read_ready()] == ["C", "Z"]
    with pooler.connect() as other:
        start = time.monotonic()
        assert other.value("select count(*) from copied_twice", timeout=20) == ("0" if leaves else "2")
        assert time.monotonic() - start < 5, "the server waited for the rest of the copy"
        assert other.value("select pg_backend_pid()") == pid


@pytest.mark.parametrize("reply_bytes", (2 * MIB, 20 * MIB), ids=("waits", "is-closed"))
def test_a_client_that_does_not_read_does_not_stall_those_behind_it(pg15, make_pooler, reply_bytes):
    """With flights: the replies of others stood behind one that nobody read, for as long as its client liked."""
    settings = {"default_pool_size": 1, "pipeline_depth": 8, "link": "adversarial", "tcp_socket_buffer": 65536}
    pooler = make_pooler(pg15, settings=settings)
    with contextlib.ExitStack() as stack:
        holder, greedy, *others = [stack.enter_context(pooler.connect()) for _ in range(5)]
        holder.send(wire.query("select pg_sleep(0.5)"))
        time.sleep(0.2)
        greedy.send(wire.query(f"select repeat('x', {reply_bytes})"))
        time.sleep(0.1)
        for other in others:
            other.send(wire.query("select repeat('x', 11)"))
        holder.read_ready()
        start = time.monotonic()
        for other in others:
            # Who waits for 5 seconds gets the NOTICE of query_wait_notify.
            assert [m.tag for m in other.read_ready(timeout=30) if m.tag != "N"] == ["T", "D", "C", "Z"]
        waited = time.monotonic() - start
        counts = {row["name"]: int(row["count"]) for row in pooler.console("show state_stats")}
        assert counts["flights_shared"] >= len(others)
        if reply_bytes > 4 * MIB:
            assert 5 < waited < 15, waited
            greedy.reset()
        else:
            assert waited < 5, waited
            row = next(m for m in greedy.read_ready(timeout=20) if m.tag == "D")
            assert len(row.body) > reply_bytes


@pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer forwards both")
@pytest.mark.parametrize("begin", (False, True))
@pytest.mark.parametrize("tag", "SH")
def test_a_sync_or_flush_with_a_body(pg, make_pooler, tag, begin):
    """The pooler answered them itself. PostgreSQL refuses them, and the transaction fails."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    told = []
    for port in (pg.port, pooler.port):
        with wire.Connection(port=port) as c:
            if begin:
                c.query("begin")
            c.send(wire.message(tag, b"x"))
            messages = c.read_until("E")
            c.send(wire.sync())
            # A Sync is answered twice: it, and the one behind it.
            messages += c.read_ready(2 if tag == "S" else 1)
            messages += c.query("select 1")
            told.append([wire.text(m) for m in messages])
    assert told[0] == told[1]


# Its RowDescription is longer than what the pooler reads at once.
WIDE = "select " + ", ".join(f"{i} as a_column_with_a_rather_long_name_{i}" for i in range(1200))


@pytest.mark.parametrize("pkt_buf", (4096, 65536))
def test_no_answer_of_the_pooler_comes_within_a_message(pg, make_pooler, pkt_buf):
    """A Close and a Parse that the pooler answers itself, behind a Describe whose answer comes in several parts."""
    begins = wire.parse("s", "select 1") + wire.parse("w", WIDE) + wire.bind("", "w") + wire.execute() + wire.flush()
    goes_on = wire.describe("P") + wire.close("S", "s") + wire.flush() + wire.parse("s", "select 1") + wire.sync()
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "pkt_buf": pkt_buf})
    told = []
    for port in (pg.port, pooler.port):
        for _ in range(5):
            with wire.Connection(port=port) as c:
                c.send(begins)
                messages = c.read_until("C")
                c.send(goes_on)
                told.append(messages + c.read_ready())
    assert [m.tag for m in told[0]] == ["1", "1", "2", "D", "C", "T", "3", "1", "Z"]
    assert all(messages == told[0] for messages in told)
