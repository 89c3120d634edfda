"""Servers that follow a script while a pooler logs in."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from . import ports, wire

# AuthenticationSASL with these mechanisms.
SASL = 10
SASL_CONTINUE = 11
SASL_FINAL = 12


def server_message(tag, body=b""):
    return wire.message(tag, body)


def asks(code: int, rest: bytes = b"") -> bytes:
    """An Authentication message."""
    return server_message("R", struct.pack("!I", code) + rest)


class OddServer:
    """A server that gives these answers to what it is sent, then none. `sent` is what came behind the last of them."""

    def __init__(self, *answers):
        self.answers = answers
        self.sent: list[bytes] = []
        self.port = ports.take()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.running = True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while self.running:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                for answer in self.answers:
                    if not connection.recv(65536):
                        return
                    connection.sendall(answer)
                while data := connection.recv(65536):
                    self.sent.append(data)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.running = False
        # Without the shutdown a thread in accept() would keep the port.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def carry(source: socket.socket, to: socket.socket) -> None:
    """Passes on what one socket receives to another, until one of them is closed; then closes both."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    for end in (source, to):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class CutServer(OddServer):
    """The server of a cluster, until its connections are cut."""

    def __init__(self, cluster):
        self.to = cluster.host, cluster.port
        self.ends: list[socket.socket] = []
        super().__init__()

    def _serve(self, connection):
        with connection, socket.create_connection(self.to) as server:
            self.ends += [connection, server]
            back = threading.Thread(target=carry, args=(server, connection), daemon=True)
            back.start()
            carry(connection, server)
            back.join()

    def cut(self):
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class NoCancels(CutServer):
    """The server of a cluster that answers cancel requests with an error."""

    def _serve(self, connection):
        if connection.recv(8, socket.MSG_PEEK)[4:] != wire.cancel_request(1, b"")[4:8]:
            return super()._serve(connection)
        with connection:
            connection.recv(65536)
            connection.sendall(server_message("E", b"SFATAL\0C53300\0Msorry, too many clients already\0\0"))


class ScramServer(OddServer):
    """A server whose first SCRAM message is given (`%s` is the nonce), and that does not know the password: it answers the
    proof with a signature that is wrong, and the rest of its answers."""

    def __init__(self, first: bytes, greeting: bytes = b"", *answers: bytes):
        self.first = first
        super().__init__(greeting, *answers)

    def _serve(self, connection):
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(asks(SASL, b"SCRAM-SHA-256\0\0"))
                nonce = connection.recv(65536).split(b"r=", 1)[1]
                connection.sendall(asks(SASL_CONTINUE, self.first.replace(b"%s", nonce + b"more")))
                if connection.recv(65536)[:1] == b"p":
                    greeting, *answers = self.answers
                    connection.sendall(asks(SASL_FINAL, b"v=" + WRONG_SIGNATURE) + greeting)
                    for answer in answers:
                        connection.recv(65536)
                        connection.sendall(answer)
                    connection.recv(65536)
            except (OSError, IndexError):
                pass


# 32 bytes in base64, as a signature has.
WRONG_SIGNATURE = b"bm90IHRoZSBzZXJ2ZXIsIG5vdCB0aGUgc2VydmVyLi4="
