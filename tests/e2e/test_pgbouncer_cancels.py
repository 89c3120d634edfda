"""Cancel requests that a server answers instead of obeying, before a real PgBouncer 1.26 and before pgweir."""

from __future__ import annotations

import socket
import struct

import pytest

from harness import wire
from harness.odd_server import CutServer, server_message
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")


def error(severity: str, code: str, text: str) -> bytes:
    fields = {"S": severity, "V": severity, "C": code, "M": text}
    return server_message("E", b"".join(letter.encode() + wire.cstr(value) for letter, value in fields.items()) + b"\0")


# What comes back for a cancel request, before the connection is closed. PostgreSQL says nothing.
ANSWERS = {
    "nothing": b"",
    "FATAL": error("FATAL", "53300", "sorry, too many clients already"),
    "an error": error("ERROR", "XX000", "no"),
    "a notice": error("NOTICE", "00000", "no").replace(b"E", b"N", 1),
    "half a message": b"E\0\0",
    "nonsense": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a great length": b"E\x7f\xff\xff\xff",
}


class RefusesCancels(CutServer):
    """The server of a cluster, but cancel requests get an answer."""

    def __init__(self, cluster, answer: bytes):
        self.answer: bytes | None = answer
        self.refused = 0
        super().__init__(cluster)

    def _serve(self, connection):
        head = connection.recv(8, socket.MSG_PEEK | socket.MSG_WAITALL)
        if self.answer is None or head[4:] != struct.pack("!I", wire.CANCEL_REQUEST):
            return super()._serve(connection)
        with connection:
            connection.recv(1024)
            connection.sendall(self.answer)
            self.refused += 1


OF_CANCELS = ("cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active_cancel", "sv_being_canceled")


def at_work(c: wire.Connection, pid: str) -> None:
    """Waits for a query of this backend."""
    state = lambda: c.value(f"select state from pg_stat_activity where pid = {pid}")  # noqa: E731
    eventually(lambda: state() == "active", what="the query")


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_cancel_request_that_is_answered(pg15, make_pooler, answer):
    """The query goes on, its server stays, and the next cancel request is obeyed."""
    for which in ("pgbouncer", "pgweir"):
        with RefusesCancels(pg15, ANSWERS[answer]) as server:
            databases = {"*": f"host=127.0.0.1 port={server.port}"}
            pooler = make_pooler(pg15, which=which, databases=databases, settings={"default_pool_size": 1})
            with wire.Connection(port=pg15.port) as holder, pooler.connect() as c:
                holder.query("select pg_advisory_lock(1383)")
                pid = c.value("select pg_backend_pid()")
                c.send(wire.query("select pg_advisory_xact_lock(1383)"))
                at_work(holder, pid)
                c.cancel()
                eventually(lambda: server.refused, what=f"the request of {which}")  # noqa: B023
                holder.query("select pg_advisory_unlock(1383)")
                assert wire.error_codes(c.read_ready()) == [], which
                pooler.wait_pool(sv_idle=1, **dict.fromkeys(OF_CANCELS, 0))
                assert c.value("select pg_backend_pid()") == pid, which
                server.answer = None
                c.send(wire.query("select pg_sleep(20)"))
                at_work(holder, pid)
                c.cancel()
                assert wire.error_codes(c.read_ready()) == ["57014"], which
