"""Time limits and cancels that meet a statement while the pooler prepares it again for its client.

A statement under a client's own name, or with constants that were read under other settings, is prepared in a segment of
the pooler's own, in front of the client's message. That segment waits for locks on the statement's tables.
"""

import contextlib
import socket
import struct
import threading
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import bind, execute, parse, query, sync

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about statements that are prepared again")

TABLE = "drop table if exists lent; create table lent as select 1 as a"


@contextlib.contextmanager
def locked(cluster):
    with wire.Connection(port=cluster.port) as c:
        c.query("begin; lock table lent in access exclusive mode")
        yield
        c.query("rollback")


def on_another_server(pooler, other):
    """Closes the server, and waits until the catalog has been read again: until then every statement counts as code."""

    def reads() -> int:
        return next(int(row["count"]) for row in pooler.console("show state_stats") if row["name"] == "catalog_reads")

    before = reads()
    other.query("select 1")
    pooler.console("reconnect")
    other.query("select 1")
    eventually(lambda: reads() > before, timeout=20)
    other.query("discard all")


@contextlib.contextmanager
def on_a_new_server(pooler, mine, then=()):
    """A client whose statements its next server does not hold."""
    with pooler.connect() as c, pooler.connect() as other:
        for text in mine:
            assert not wire.error_codes(c.query(text))
        c.send(parse("p", "select a, '01.02.2024'::date from lent"), sync())
        assert not wire.error_codes(c.read_ready())
        for text in then:
            c.query(text)
        on_another_server(pooler, other)
        yield c


EXECUTES = {
    "EXECUTE": "execute q",
    "EXECUTE in a block": "execute q",
    "several EXECUTEs": "execute r; execute q",
    "EXECUTE behind another statement": "select 1; execute q",
    "EXPLAIN": "explain execute q",
    "CREATE TABLE AS": "create temp table lent_as as execute q",
}


@pytest.mark.parametrize("form", (*EXECUTES, "Bind"))
def test_a_cancel_while_a_statement_is_prepared_again(pg, make_pooler, form):
    """The pooler's own segment waits for the lock, and the cancel must end it."""
    pg.psql(TABLE)
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    settings = ("set datestyle = 'German'",) if form == "Bind" else ()
    mine = (*settings, "prepare r as select 2", "prepare q as select a from lent")
    with on_a_new_server(pooler, mine, settings and ("reset datestyle",)) as c:
        if form == "EXECUTE in a block":
            c.query("begin")
            c.query("select 1")
        with locked(pg):
            c.send(bind("", "p") + execute() + sync() if form == "Bind" else query(EXECUTES[form]))
            time.sleep(0.3)
            canceller = threading.Thread(target=c.cancel)
            canceller.start()
            try:
                messages = c.read_ready(timeout=6)
            except wire.NoReply:
                messages = []
        canceller.join()
        assert wire.error_codes(messages) == ["57014"]


class Slow(threading.Thread):
    """Carries bytes between the pooler and a server. Before the first Parse of a statement whose text is in `holds`, it waits."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.to, self.holds, self.held = port, b"", False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                pooler, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                for one, other, change in ((pooler, server, True), (server, pooler, False)):
                    threading.Thread(target=self.carry, args=(one, other, change), daemon=True).start()

    def carry(self, one, other, from_pooler):
        buffer, is_startup = b"", from_pooler
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if not from_pooler:
                    other.sendall(data)
                    continue
                buffer += data
                while len(buffer) >= 5:
                    length = struct.unpack_from("!I", buffer, 0 if is_startup else 1)[0] + (not is_startup)
                    if len(buffer) < length:
                        break
                    message, buffer = buffer[:length], buffer[length:]
                    if self.holds and message[:1] == b"P" and self.holds in message and not is_startup:
                        self.holds, self.held = b"", True
                        time.sleep(0.5)
                    is_startup = False
                    other.sendall(message)
        for end in one, other:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_limit_is_told_as_such(pg, make_pooler):
    """The next segment then misses a statement of the pooler's: the client must not hear of that, nor of its name."""
    slow = Slow(pg.port)
    pooler = make_pooler(pg, databases={"*": f"host=127.0.0.1 port={slow.port}"}, settings={"default_pool_size": 1})
    with pooler.connect() as c, pooler.connect() as other:
        for text in (
            "set datestyle = 'German'",
            "prepare q1 as select '01.02.2024'::date",
            "prepare q2 as select '03.04.2024'::date",
            "set datestyle = 'ISO'",
            "set statement_timeout = '150ms'",
        ):
            assert not wire.error_codes(c.query(text))
        on_another_server(pooler, other)
        # The text of the statement that sets settings for a Parse.
        slow.holds = b"set_config($3"
        messages = c.query("execute q1; execute q2")
        assert slow.held
        error = wire.first_error(messages)
        assert error is None or error.fields["C"] == "57014", error.fields["M"]
