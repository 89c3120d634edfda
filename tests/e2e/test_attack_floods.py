"""Attacks that make the pooler work without end: long pipelines, many channels, servers that end again and again."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import pytest

from harness import ports, wire
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

LET_IN = (
    wire.message("R", struct.pack("!I", 0))
    + b"".join(
        wire.message("S", name + b"\0" + value + b"\0")
        for name, value in ((b"server_version", b"15.4"), (b"client_encoding", b"UTF8"), (b"TimeZone", b"UTC"))
    )
    + wire.message("K", struct.pack("!II", 77, 88))
    + wire.message("Z", b"I")
)


def fatal(text: bytes) -> bytes:
    return wire.message("E", b"SFATAL\0VFATAL\0C08006\0M" + text + b"\0\0")


class Upstream:
    """A server that lets everybody in and then gives every message the same answer."""

    def __init__(self, answer: bytes, closes: bool):
        self.answer, self.closes = answer, closes
        self.logins = 0
        self.port = ports.take()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            if not connection.recv(65536):
                return
            self.logins += 1
            connection.sendall(LET_IN)
            while connection.recv(65536):
                connection.sendall(self.answer)
                if self.closes:
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        # Without the shutdown a thread in accept() would keep the port.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.mark.parametrize(
    "part, tags",
    (
        (wire.query("copy flooded from stdin") + wire.copy_done(), ["G", "C", "Z"]),
        (wire.query("copy flooded from stdin") + wire.sync() * 3 + wire.copy_done(), ["G", "C", "Z"]),
        (wire.bind("", "unknown") + wire.sync(), ["E", "Z"]),
        (wire.parse("", "slect") + wire.bind("", "") + wire.execute() + wire.sync(), ["E", "Z"]),
    ),
    ids=("copies", "copies-with-syncs", "unknown-statements", "refused-statements"),
)
def test_a_long_pipeline_gets_every_reply(pg15, make_pooler, part, tags):
    """Thousands of requests behind one that sleeps: each has its own reply, and the next client's server is clean."""
    count = 3000
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    pg15.psql("create table if not exists flooded (a int)")
    with pooler.connect() as c:
        pid = c.value("select pg_backend_pid()")
        sender = threading.Thread(target=c.send, args=(wire.query("select pg_sleep(0.5)") + part * count,))
        sender.start()
        replies = [m.tag for m in c.read_ready(count + 1, timeout=60)]
        sender.join()
    assert replies[:4] == ["T", "D", "C", "Z"]
    assert replies[4:] == tags * count
    with pooler.connect() as other:
        assert other.value("select pg_backend_pid()") == pid, "the same server"
        assert other.value("select count(*) from flooded") == "0"


def test_a_server_that_ends_at_its_first_question_is_not_opened_again_and_again(make_pooler):
    with Upstream(fatal(b"no more connections allowed"), closes=True) as upstream:
        pooler = make_pooler(databases={"db": f"host=127.0.0.1 port={upstream.port}"})
        with pytest.raises(wire.ServerError) as refused:
            pooler.connect(database="db")
        assert "no more connections allowed" in str(refused.value)
        waiting = pooler.connect(database="db", login=False)
        waiting.send(wire.startup({"user": "postgres", "database": "db"}))
        time.sleep(2)
        waiting.drop()
        assert upstream.logins <= 6, "after 0.25 s, 0.5 s and then every second"


def test_a_client_whose_server_does_not_close_after_a_fatal_message_is_closed(make_pooler):
    with Upstream(fatal(b"I end, or so I say") + wire.message("Z", b"I"), closes=False) as upstream:
        databases = {"db": f"host=127.0.0.1 port={upstream.port}"}
        pooler = make_pooler(databases=databases, settings={"session_state": "pgbouncer", "default_pool_size": 1})
        with pooler.connect(database="db") as c:
            c.send(wire.query("select 1"))
            assert c.read(5).tag == "E"
            with pytest.raises((wire.Closed, OSError)):
                for _ in range(3):
                    c.read(5)


def flood(s: socket.socket, bytes_max: int) -> int:
    """Sends until the other side has closed the connection, but not more than this. Returns the number of bytes."""
    sent = 0
    s.settimeout(20)
    with contextlib.suppress(OSError):
        while sent < bytes_max:
            sent += s.send(bytes(1 << 20))
    return sent


# Nothing is asked of the server but what the client asks.
UNQUESTIONED = {"session_state": "pgbouncer"}


class AnswersCancels(Upstream):
    """A server that answers a CancelRequest without end."""

    sent = 0

    def _serve(self, connection):
        first = connection.recv(65536)
        if first[4:8] == struct.pack("!I", wire.CANCEL_REQUEST):
            self.sent = flood(connection, 1 << 28)
            connection.close()
            return
        with contextlib.suppress(OSError):
            connection.sendall(LET_IN)
            while connection.recv(65536):
                pass


def test_a_server_that_answers_a_cancel_request_without_end_does_not_hold_up_others(make_pooler):
    with AnswersCancels(b"", closes=False) as upstream:
        pooler = make_pooler(databases={"db": f"host=127.0.0.1 port={upstream.port}"}, mode="session", settings=UNQUESTIONED)
        with pooler.connect(database="db") as c:
            c.send(wire.query("select 1"))
            time.sleep(0.2)
            c.cancel()
            pooler.wait_log("cancel request to .* failed: the other side answers without end")
            eventually(lambda: upstream.sent)
            assert upstream.sent < 1 << 25


def test_a_client_that_is_refused_for_lack_of_descriptors_does_not_hold_up_others(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"max_client_conn": 500}, open_files_max=60)
    packet = wire.startup({"user": "postgres", "database": "postgres"})
    with pooler.connect() as inside, contextlib.ExitStack() as stack:
        connect = lambda: stack.enter_context(socket.create_connection((pooler.host, pooler.port), timeout=10))  # noqa: E731
        for _ in range(60):
            connect().sendall(packet[:9])
        pooler.wait_log("Too many open files")
        for _ in range(3):
            refused = connect()
            refused.sendall(packet)
            assert flood(refused, 1 << 28) < 1 << 25
            assert inside.value("select 1") == "1"
