"""A PostgreSQL client of messages, for tests that must see each one.

    with Connection(port=6432, user="alice", database="shop") as c:
        c.send(parse("s1", "select $1::int", [23]), bind("", "s1", ["7"]), execute(), sync())
        for message in c.read_ready():
            print(text(message))

The functions build the messages that a frontend sends ("Message Formats" in
the protocol chapter of PostgreSQL's manual); `Connection` logs in, sends and
receives. Nothing is hidden: replies come back as they were, in order.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import struct
import time
from typing import NamedTuple

PROTOCOL_3_0 = 3 << 16
PROTOCOL_3_2 = 3 << 16 | 2
CANCEL_REQUEST = 1234 << 16 | 5678
SSL_REQUEST = 1234 << 16 | 5679
GSSENC_REQUEST = 1234 << 16 | 5680

# How long a reply may take before a test calls it missing, in seconds.
REPLY_SECONDS_MAX = 15.0


class Message(NamedTuple):
    """One message from the server side."""

    tag: str
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        """Fields of ErrorResponse and NoticeResponse by their letter: S, V, C, M, D, H ..."""
        return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in self.body.split(b"\0") if part}

    @property
    def values(self) -> list[bytes | None]:
        """Columns of a DataRow."""
        count, offset, out = struct.unpack_from("!H", self.body)[0], 2, []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", self.body, offset)
            offset += 4
            if length < 0:
                out.append(None)
            else:
                out.append(self.body[offset : offset + length])
                offset += length
        assert offset == len(self.body), "DataRow longer than its columns"
        return out

    @property
    def columns(self) -> list[tuple[str, int, int]]:
        """Name, type oid and format of each column of a RowDescription."""
        (count,), offset, out = struct.unpack_from("!H", self.body), 2, []
        for _ in range(count):
            end = self.body.index(b"\0", offset)
            name = self.body[offset:end].decode("utf-8", "replace")
            _table, _number, type_oid, _size, _modifier, fmt = struct.unpack_from("!IhIhih", self.body, end + 1)
            out.append((name, type_oid, fmt))
            offset = end + 19
        return out


class ServerError(Exception):
    """An ErrorResponse, raised by the methods that run a whole statement."""

    def __init__(self, message: Message):
        self.fields = message.fields
        self.code = self.fields.get("C", "")
        self.severity = self.fields.get("V", self.fields.get("S", ""))
        super().__init__(f"{self.severity} {self.code} {self.fields.get('M')}")


class Closed(Exception):
    """The other side closed the connection."""


class NoReply(Exception):
    """Nothing came in time."""


# ---- messages of a frontend


def message(tag: str, body: bytes = b"") -> bytes:
    return tag.encode() + struct.pack("!I", len(body) + 4) + body


def cstr(value: str | bytes) -> bytes:
    return (value.encode() if isinstance(value, str) else value) + b"\0"


def query(sql: str | bytes) -> bytes:
    return message("Q", cstr(sql))


def parse(name: str, sql: str | bytes, types: list[int] = ()) -> bytes:
    return message("P", cstr(name) + cstr(sql) + struct.pack(f"!H{len(types)}I", len(types), *types))


def bind(portal: str = "", statement: str = "", values=(), formats=(), result_formats=()) -> bytes:
    body = cstr(portal) + cstr(statement) + struct.pack(f"!H{len(formats)}H", len(formats), *formats)
    body += struct.pack("!H", len(values))
    for value in values:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            raw = value.encode() if isinstance(value, str) else value
            body += struct.pack("!I", len(raw)) + raw
    return message("B", body + struct.pack(f"!H{len(result_formats)}H", len(result_formats), *result_formats))


def describe(kind: str, name: str = "") -> bytes:
    """`kind` is "S" for a statement, "P" for a portal."""
    return message("D", kind.encode() + cstr(name))


def execute(portal: str = "", rows_max: int = 0) -> bytes:
    return message("E", cstr(portal) + struct.pack("!I", rows_max))


def close(kind: str, name: str = "") -> bytes:
    return message("C", kind.encode() + cstr(name))


def sync() -> bytes:
    return message("S")


def flush() -> bytes:
    return message("H")


def copy_data(data: bytes) -> bytes:
    return message("d", data)


def copy_done() -> bytes:
    return message("c")


def copy_fail(why: str) -> bytes:
    return message("f", cstr(why))


def function_call(oid: int, values=(), formats=(), result_format: int = 0) -> bytes:
    body = struct.pack(f"!IH{len(formats)}H", oid, len(formats), *formats) + struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!I", len(value)) + value
    return message("F", body + struct.pack("!H", result_format))


def terminate() -> bytes:
    return message("X")


def password_message(secret: str | bytes) -> bytes:
    return message("p", cstr(secret))


def startup(parameters: dict[str, str], protocol: int = PROTOCOL_3_0) -> bytes:
    body = struct.pack("!I", protocol) + b"".join(cstr(k) + cstr(v) for k, v in parameters.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def cancel_request(process_id: int, secret_key: bytes) -> bytes:
    body = struct.pack("!II", CANCEL_REQUEST, process_id) + secret_key
    return struct.pack("!I", len(body) + 4) + body


def one_statement(sql: str, values=(), types=()) -> bytes:
    """Parse, Bind, Describe, Execute by the unnamed statement; no Sync."""
    return parse("", sql, types) + bind("", "", values) + describe("P") + execute()


# ---- the connection


class Connection:
    """A client connection. Logs in when made, unless `login` is false."""

    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        user: str = "postgres",
        database: str | None = "postgres",
        password: str | None = None,
        options: dict[str, str] | None = None,
        protocol: int = PROTOCOL_3_0,
        login: bool = True,
        timeout: float = REPLY_SECONDS_MAX,
    ):
        """`host` beginning with a slash is the folder of a Unix-domain socket."""
        self.host, self.port, self.user, self.database, self.password = host, port, user, database, password
        self.options = options or {}
        self.protocol = protocol
        self.timeout = timeout
        self.buffer = bytearray()
        self.parameters: dict[str, str] = {}
        self.process_id = 0
        self.secret_key = b""
        self.login_messages: list[Message] = []
        self.authentication: list[int] = []
        self.socket = open_socket(host, port, timeout)
        if login:
            self.login()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_exc) -> None:
        self.close()

    # -- login

    def startup_parameters(self) -> dict[str, str]:
        parameters = {"user": self.user}
        if self.database is not None:
            parameters["database"] = self.database
        return {**parameters, **self.options}

    def login(self) -> None:
        """Runs the startup conversation to the first ReadyForQuery; raises ServerError when refused."""
        self.send(startup(self.startup_parameters(), self.protocol))
        self.finish_login()

    def finish_login(self) -> None:
        scram = None
        while True:
            m = self.read()
            self.login_messages.append(m)
            if m.tag == "E":
                raise ServerError(m)
            if m.tag == "S":
                self._note_parameter(m)
            elif m.tag == "K":
                (self.process_id,), self.secret_key = struct.unpack_from("!I", m.body), m.body[4:]
            elif m.tag == "Z":
                return
            elif m.tag == "R":
                (kind,) = struct.unpack_from("!I", m.body)
                self.authentication.append(kind)
                password = (self.password or "").encode()
                if kind == 3:
                    self.send(password_message(password))
                elif kind == 5:
                    self.send(password_message(md5_response(self.user, password, m.body[4:8])))
                elif kind == 10:
                    scram = Scram(password)
                    first = scram.first()
                    self.send(message("p", cstr("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
                elif kind == 11:
                    self.send(message("p", scram.final(m.body[4:])))
                elif kind == 12:
                    scram.verify(m.body[4:])
                elif kind != 0:
                    raise AssertionError(f"unknown authentication request {kind}")

    # -- sending and receiving

    def send(self, *messages: bytes) -> None:
        """All the messages in one write."""
        self.socket.sendall(b"".join(messages))

    def send_bytes_one_by_one(self, *messages: bytes) -> None:
        for byte in b"".join(messages):
            self.socket.sendall(bytes((byte,)))

    def read(self, timeout: float | None = None) -> Message:
        """The next message."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            if len(self.buffer) >= 5:
                (length,) = struct.unpack_from("!I", self.buffer, 1)
                if len(self.buffer) > length:
                    m = Message(chr(self.buffer[0]), bytes(self.buffer[5 : length + 1]))
                    del self.buffer[: length + 1]
                    if m.tag == "S":
                        self._note_parameter(m)
                    return m
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoReply(f"no message within {timeout or self.timeout} s; {len(self.buffer)} bytes of one")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                continue
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed("end of stream")
            self.buffer += data

    def read_until(self, *tags: str, timeout: float | None = None) -> list[Message]:
        """Messages up to and with the first of one of these tags."""
        out = []
        while True:
            m = self.read(timeout)
            out.append(m)
            if m.tag in tags:
                return out

    def read_ready(self, count: int = 1, timeout: float | None = None) -> list[Message]:
        """Messages up to and with the `count`th ReadyForQuery."""
        out = []
        for _ in range(count):
            out += self.read_until("Z", timeout=timeout)
        return out

    def read_to_end(self, timeout: float | None = None) -> list[Message]:
        """Everything until the other side closes."""
        out = []
        try:
            while True:
                out.append(self.read(timeout))
        except Closed:
            return out

    def quiet(self, seconds: float = 0.15) -> bool:
        """Whether nothing at all comes for so long."""
        try:
            m = self.read(seconds)
        except NoReply:
            return not self.buffer
        raise AssertionError(f"unexpected message: {text(m)}")

    def closed(self, timeout: float = 5.0) -> bool:
        """Whether the other side has closed, or does so in time; messages until then are thrown away."""
        try:
            self.read_to_end(timeout)
            return True
        except NoReply:
            return False

    # -- whole statements

    def query(self, sql: str, timeout: float | None = None) -> list[Message]:
        """A simple Query and its replies."""
        self.send(query(sql))
        return self.read_ready(timeout=timeout)

    def rows(self, sql: str, timeout: float | None = None) -> list[tuple[str | None, ...]]:
        """The rows of a simple Query as text; raises ServerError."""
        return rows_of(self.query(sql, timeout))

    def value(self, sql: str, timeout: float | None = None) -> str | None:
        """The only value of a simple Query."""
        rows = self.rows(sql, timeout)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]

    def extended(self, sql: str, values=(), types=(), timeout: float | None = None) -> list[Message]:
        """One statement by the unnamed statement, with Sync, and its replies."""
        self.send(one_statement(sql, values, types), sync())
        return self.read_ready(timeout=timeout)

    def cancel(self) -> None:
        """Sends a cancel request for this connection on one of its own, and waits until that is closed."""
        with open_socket(self.host, self.port, self.timeout) as other:
            other.sendall(cancel_request(self.process_id, self.secret_key))
            try:
                while other.recv(1024):
                    pass
            except ConnectionError:
                pass

    # -- the end

    def close(self) -> None:
        """As a well-behaved client ends."""
        try:
            self.socket.sendall(terminate())
        except OSError:
            pass
        self.socket.close()

    def drop(self) -> None:
        """Closes without a word, as a killed process does."""
        self.socket.close()

    def reset(self) -> None:
        """Closes with a TCP reset."""
        if self.socket.family != socket.AF_UNIX:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _note_parameter(self, m: Message) -> None:
        name, value, _ = m.body.split(b"\0")
        self.parameters[name.decode()] = value.decode("utf-8", "replace")


def open_socket(host: str, port: int, timeout: float = REPLY_SECONDS_MAX) -> socket.socket:
    if host.startswith("/"):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(timeout)
        s.connect(os.path.join(host, f".s.PGSQL.{port}"))
        return s
    s = socket.create_connection((host, port), timeout)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


# ---- replies


def rows_of(messages: list[Message]) -> list[tuple[str | None, ...]]:
    """The rows among these messages as text; raises the first error among them."""
    error = first_error(messages)
    if error is not None:
        raise ServerError(error)
    return [
        tuple(None if value is None else value.decode("utf-8", "replace") for value in m.values)
        for m in messages
        if m.tag == "D"
    ]


def first_error(messages: list[Message]) -> Message | None:
    return next((m for m in messages if m.tag == "E"), None)


def error_codes(messages: list[Message]) -> list[str]:
    return [m.fields["C"] for m in messages if m.tag == "E"]


def tags(messages: list[Message]) -> str:
    """The tags in one word: "12TDCZ"."""
    return "".join(m.tag for m in messages)


def command_tags(messages: list[Message]) -> list[str]:
    return [m.body[:-1].decode() for m in messages if m.tag == "C"]


NAMES = {
    "1": "ParseComplete",
    "2": "BindComplete",
    "3": "CloseComplete",
    "A": "NotificationResponse",
    "C": "CommandComplete",
    "D": "DataRow",
    "E": "ErrorResponse",
    "G": "CopyInResponse",
    "H": "CopyOutResponse",
    "I": "EmptyQueryResponse",
    "K": "BackendKeyData",
    "N": "NoticeResponse",
    "R": "Authentication",
    "S": "ParameterStatus",
    "T": "RowDescription",
    "V": "FunctionCallResponse",
    "W": "CopyBothResponse",
    "Z": "ReadyForQuery",
    "c": "CopyDone",
    "d": "CopyData",
    "n": "NoData",
    "s": "PortalSuspended",
    "t": "ParameterDescription",
    "v": "NegotiateProtocolVersion",
}

# Fields of an error that say where in PostgreSQL's own source it was raised.
SOURCE_FIELDS = "FLR"


def text(m: Message) -> str:
    """One line that says all that the message says, but for source positions and process ids."""
    name = NAMES.get(m.tag, f"unknown message {m.tag!r}")
    if m.tag in "EN":
        parts = [f"{k}={v!r}" for k, v in m.fields.items() if k not in SOURCE_FIELDS]
        return " ".join([name, *parts])
    if m.tag == "D":
        return f"{name} {[None if v is None else bytes(v) for v in m.values]}"
    if m.tag == "T":
        return f"{name} {m.columns}"
    if m.tag == "t":
        count = struct.unpack_from("!H", m.body)[0]
        return f"{name} {list(struct.unpack_from(f'!{count}I', m.body, 2))}"
    if m.tag == "A":
        channel, payload = m.body[4:].split(b"\0")[:2]
        return f"{name} {channel!r} {payload!r}"
    if m.tag == "K":
        return name
    return f"{name} {bytes(m.body)!r}" if m.body else name


# ---- passwords


def md5_response(user: str, password: bytes, salt: bytes) -> bytes:
    inner = hashlib.md5(password + user.encode()).hexdigest().encode()
    return b"md5" + hashlib.md5(inner + salt).hexdigest().encode()


def md5_secret(user: str, password: str) -> str:
    """What PostgreSQL and userlist.txt keep for method md5."""
    return "md5" + hashlib.md5((password + user).encode()).hexdigest()


def scram_secret(password: str, salt: bytes = b"0123456789abcdef", iterations: int = 4096) -> str:
    """What PostgreSQL and userlist.txt keep for method scram-sha-256."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    b64 = lambda raw: base64.b64encode(raw).decode()  # noqa: E731
    return f"SCRAM-SHA-256${iterations}:{b64(salt)}${b64(stored)}:{b64(server)}"


class Scram:
    """The client's side of SCRAM-SHA-256 without channel binding (RFC 5802)."""

    def __init__(self, password: bytes):
        self.password = password
        self.nonce = base64.b64encode(os.urandom(18))
        self.first_bare = b"n=,r=" + self.nonce

    def first(self) -> bytes:
        return b"n,," + self.first_bare

    def final(self, server_first: bytes) -> bytes:
        fields = dict(part.split(b"=", 1) for part in server_first.split(b","))
        assert fields[b"r"].startswith(self.nonce), "the server changed our nonce"
        salt = base64.b64decode(fields[b"s"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password, salt, int(fields[b"i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = b"c=biws,r=" + fields[b"r"]
        signed = b",".join((self.first_bare, server_first, without_proof))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        return without_proof + b",p=" + base64.b64encode(proof)

    def verify(self, server_final: bytes) -> None:
        expected = b"v=" + base64.b64encode(self.server_signature)
        assert server_final == expected, "the server does not know the password"
