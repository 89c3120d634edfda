"""Clients that log in, run one query, and stay: what each costs the pooler.

They speak the protocol themselves, all in this process, because thousands of
client programs would not fit on a small machine.
"""

from __future__ import annotations

import resource
import selectors
import socket
import ssl
import struct
import time
from dataclasses import dataclass

import procfs
from targets import DATABASE, HOST, USER, Running

# Logging in at the same time; few enough that no accept queue overflows.
LOGINS_AT_ONCE = 64
STALL_SECONDS_MAX = 30
SETTLE_SECONDS = 1.0
WATCH_SECONDS = 3.0

PROTOCOL_3_0 = 196608
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


class IdleError(Exception):
    """A client was refused or got no answer."""


@dataclass
class IdleResult:
    clients: int
    base_rss: int
    rss_bytes_per_client: float
    pss_bytes_per_client: float
    # CPU time of the pooler for one login and its one query.
    login_cpu_us: float
    # CPU time of the pooler in a second in which no client does anything.
    idle_cpu_ms_per_second: float


def run_idle(clients: int, target: Running, tls: ssl.SSLContext | None = None) -> IdleResult:
    """Logs in that many clients, over TLS if `tls` is given, and measures while they are idle."""
    _raise_open_files_limit(clients + 100)
    # The base has its server connections and has seen clients before, so the difference is clients alone.
    for client in _log_in(target.port, LOGINS_AT_ONCE, tls):
        client.close()
    time.sleep(SETTLE_SECONDS)
    base_memory = procfs.read_memory(target.pid)
    base_cpu = procfs.read_cpu(target.pid)
    connected = _log_in(target.port, clients, tls)
    try:
        time.sleep(SETTLE_SECONDS)
        memory = procfs.read_memory(target.pid)
        cpu = procfs.read_cpu(target.pid)
        time.sleep(WATCH_SECONDS)
        later = procfs.read_cpu(target.pid)
    finally:
        for client in connected:
            client.close()
    return IdleResult(
        clients=clients,
        base_rss=base_memory.rss,
        rss_bytes_per_client=(memory.rss - base_memory.rss) / clients,
        pss_bytes_per_client=(memory.pss - base_memory.pss) / clients,
        login_cpu_us=(cpu.total - base_cpu.total) / clients * 1e6,
        idle_cpu_ms_per_second=(later.total - cpu.total) / (later.read_at - cpu.read_at) * 1e3,
    )


class _Client:
    """Connecting, then waiting for the first ReadyForQuery, then for the one after its query."""

    def __init__(self, port: int, tls: ssl.SSLContext | None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect((HOST, port))
        if tls is not None:
            self.socket.sendall(SSL_REQUEST)
            if self.socket.recv(1) != b"S":
                raise IdleError("the pooler refused TLS")
            self.socket = tls.wrap_socket(self.socket)
        self.socket.setblocking(False)
        self.received = b""
        self.ready_count = 0
        parameters = b"".join(
            text.encode() + b"\0" for text in ("user", USER, "database", DATABASE, "application_name", "idle")
        )
        body = struct.pack("!i", PROTOCOL_3_0) + parameters + b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)

    def handle_readable(self) -> bool:
        """True once the query is answered."""
        try:
            # A library of TLS may hold bytes for which the socket does not become readable again.
            while True:
                data = self.socket.recv(65536)
                if not data:
                    raise IdleError("the pooler closed a client's connection")
                self.received += data
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        while len(self.received) >= 5:
            tag, length = self.received[:1], struct.unpack("!i", self.received[1:5])[0]
            if len(self.received) < length + 1:
                break
            body, self.received = self.received[5 : length + 1], self.received[length + 1 :]
            if tag == b"E":
                raise IdleError(f"a client got an error: {body!r}")
            if tag == b"Z":
                self.ready_count += 1
                if self.ready_count == 2:
                    return True
                query = b"select 1\0"
                self.socket.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
        return False


def _log_in(port: int, clients: int, tls: ssl.SSLContext | None) -> list[socket.socket]:
    connected: list[socket.socket] = []
    started = 0
    with selectors.DefaultSelector() as selector:
        while len(connected) < clients:
            while started < clients and started - len(connected) < LOGINS_AT_ONCE:
                client = _Client(port, tls)
                selector.register(client.socket, selectors.EVENT_READ, client)
                started += 1
            events = selector.select(STALL_SECONDS_MAX)
            if not events:
                raise IdleError(f"no answer for {STALL_SECONDS_MAX} s; {len(connected)} of {clients} clients are in")
            for key, _mask in events:
                if key.data.handle_readable():
                    selector.unregister(key.fileobj)
                    connected.append(key.fileobj)
    return connected


def _raise_open_files_limit(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed and hard != soft:
        soft = hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise IdleError(f"{needed} open files are needed and this process may have {soft}: raise ulimit -n")
