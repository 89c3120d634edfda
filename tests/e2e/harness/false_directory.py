"""A directory that answers whatever a test wants.

    with FalseDirectory({SEARCH: lambda number: [entry(number), result(number, SEARCH)]}) as directory:
        directory.port

It maps an operation to what is sent for the request with this number; other operations get success.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import typing

BIND, SEARCH, EXTENDED = 0x60, 0x63, 0x77

# The tag of the answer that ends an operation.
ANSWERS = {BIND: 0x61, SEARCH: 0x65, EXTENDED: 0x78}

# How long a directory waits for what a pooler sends, in seconds.
WAIT_MAX = 60

# What is sent to a request with this number.
Answer = typing.Callable[[int], typing.Iterable[bytes]]


def element(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content


def message(number: int, operation: bytes) -> bytes:
    return element(0x30, element(2, bytes([number])) + operation)


def result(number: int, operation: int, code: int = 0) -> bytes:
    return message(number, element(ANSWERS[operation], element(10, bytes([code])) + element(4, b"") + element(4, b"")))


def entry(number: int, dn: bytes = b"cn=alice,dc=x") -> bytes:
    return message(number, element(0x64, element(4, dn) + element(0x30, b"")))


def nested(depth: int) -> bytes:
    """Nothing but sequences, one within the other."""
    heads, length = [], 0
    for _ in range(depth):
        short = length < 0x80
        heads.append(bytes([0x30, length]) if short else b"\x30\x83" + length.to_bytes(3, "big"))
        length += len(heads[-1])
    return b"".join(reversed(heads))


def read_request(c: socket.socket) -> tuple[int, int]:
    """The number and the operation of the next request. OSError if the connection ends before that."""

    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = c.recv(count - len(data))
            if not part:
                raise ConnectionError("the pooler has closed the connection")
            data += part
        return data

    _tag, first = exactly(2)
    length = first if first < 0x80 else int.from_bytes(exactly(first - 0x80))
    body = exactly(length)
    return body[2], body[3]


class FalseDirectory:
    def __init__(self, answers: dict[int, Answer], certificate: tuple[str, str] | None = None, tls_first: bool = False):
        self.answers = answers
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.tls_first = tls_first
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        # The operations that were asked for.
        self.asked: list[int] = []

    def __enter__(self) -> FalseDirectory:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_exc) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                c, _ = self.listener.accept()
                threading.Thread(target=self.converse, args=(c,), daemon=True).start()

    def converse(self, c: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            c.settimeout(WAIT_MAX)
            stack.enter_context(c)
            if self.tls_first:
                c = stack.enter_context(self.context.wrap_socket(c, server_side=True))
            while True:
                number, operation = read_request(c)
                if operation not in ANSWERS:
                    return
                self.asked.append(operation)
                if operation in self.answers:
                    for part in self.answers[operation](number):
                        c.sendall(part)
                else:
                    c.sendall(result(number, operation))
                if operation == EXTENDED and self.context:
                    c = stack.enter_context(self.context.wrap_socket(c, server_side=True))
