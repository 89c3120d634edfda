"""Somebody in between: ends TLS on both sides with a certificate of his own, and hears everything.

    with Between(pair, "127.0.0.1", 5432) as between:
        ... a client connects to between.port, and speaks with the server at 5432 ...
        between.mechanisms      # the SASL mechanisms that clients chose
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading

from . import wire

SSL_REQUEST = struct.pack("!II", 8, wire.SSL_REQUEST)
PLUS = b"SCRAM-SHA-256-PLUS"

# AuthenticationSASL, whose only mechanism is the one without channel binding.
WITHOUT_PLUS = wire.message("R", struct.pack("!I", 10) + b"SCRAM-SHA-256\0\0")


class Between(threading.Thread):
    """Carries one connection at a time, each to its end."""

    def __init__(self, pair, host: str, port: int, hides_plus: bool = False):
        """`hides_plus`: takes SCRAM-SHA-256-PLUS out of what the server offers."""
        super().__init__(daemon=True)
        self.to = host, port
        self.hides_plus = hides_plus
        self.mechanisms: list[bytes] = []
        self.as_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.as_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.as_client.check_hostname, self.as_client.verify_mode = False, ssl.CERT_NONE
        for context in (self.as_server, self.as_client):
            # Certificates that are signed with old hashes, too.
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
        self.as_server.load_cert_chain(pair.certificate, pair.key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self) -> Between:
        self.start()
        return self

    def __exit__(self, *_exc) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def run(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), client, socket.create_connection(self.to, timeout=10) as server:
                client.settimeout(10)
                self._carry(client, server)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        client.recv(len(SSL_REQUEST), socket.MSG_WAITALL)
        client.sendall(b"S")
        server.sendall(SSL_REQUEST)
        if server.recv(1) != b"S":
            return
        with self.as_server.wrap_socket(client, server_side=True) as c, self.as_client.wrap_socket(server) as s:
            for end in (c, s):
                end.setblocking(False)
            while True:
                select.select([c, s], [], [], 10)
                for one, other, change in ((c, s, self._from_client), (s, c, self._from_server)):
                    # What is readable may be a record without data, such as a ticket.
                    with contextlib.suppress(ssl.SSLWantReadError):
                        while True:
                            data = one.recv(1 << 14)
                            if not data:
                                return
                            other.sendall(change(data))

    def _from_client(self, data: bytes) -> bytes:
        # SASLInitialResponse begins with the name of a mechanism; later messages of the same kind do not.
        if data[:1] == b"p" and data[5:].startswith(b"SCRAM-"):
            self.mechanisms.append(data[5:].partition(b"\0")[0])
        return data

    def _from_server(self, data: bytes) -> bytes:
        return WITHOUT_PLUS if self.hides_plus and data[:1] == b"R" and PLUS in data else data
