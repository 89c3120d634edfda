"""A client's connection in the soak: plain or by TLS, with a count of what was asked and answered."""

from __future__ import annotations

import ssl
import struct

from .. import wire

# How long an answer may take, in seconds: longer than any pause or restart of the operator.
ANSWER_SECONDS_MAX = 60.0


class Connection(wire.Connection):
    """Keeps notifications apart from answers."""

    def __init__(self, world, tls: bool, **named):
        self.world, self.tls = world, tls
        self.heard: list[tuple[str, str]] = []
        # How often it was told that notifications may have been lost.
        self.gaps = 0
        super().__init__(timeout=ANSWER_SECONDS_MAX, login=False, **named)

    def log_in(self) -> None:
        try:
            if self.tls:
                self.begin_tls()
            self.world.count("logins_begun")
            self.login()
            self.world.count("logins")
        except BaseException:
            self.socket.close()
            raise

    def begin_tls(self) -> None:
        self.socket.sendall(struct.pack("!ii", 8, wire.SSL_REQUEST))
        answer = self.socket.recv(1)
        if answer != b"S":
            raise wire.Closed(f"{answer!r} for SSLRequest")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket)

    def ask(self, *messages: bytes, ready: int = 1) -> list[wire.Message]:
        """Sends, and reads to the `ready`th ReadyForQuery."""
        self.world.count("asked", ready)
        self.send(*messages)
        return self.answers(ready)

    def answers(self, ready: int = 1) -> list[wire.Message]:
        out = self.without_notifications(self.read_ready(ready))
        self.world.count("answered", ready)
        return out

    def without_notifications(self, messages: list[wire.Message]) -> list[wire.Message]:
        for m in messages:
            if m.tag == "A":
                channel, payload = m.body[4:].split(b"\0")[:2]
                self.heard.append((channel.decode(), payload.decode()))
            self.gaps += m.tag == "N" and m.fields["M"] == "notifications may have been lost"
        return [m for m in messages if m.tag not in "ANS"]

    def do(self, sql: str) -> list[wire.Message]:
        """A Query that must succeed."""
        messages = self.ask(wire.query(sql))
        error = wire.first_error(messages)
        if error is not None:
            raise wire.ServerError(error)
        return messages

    def look(self, sql: str) -> list[tuple[str | None, ...]]:
        return wire.rows_of(self.do(sql))
