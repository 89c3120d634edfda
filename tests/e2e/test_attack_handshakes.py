"""Attacks by connections that begin TLS handshakes, which cost the pooler far more than the attacker."""

from __future__ import annotations

import contextlib
import select
import signal
import socket

import pytest
from harness import wire
from harness.pooler import kind
from harness.waiting import eventually
from test_tls import SSL_REQUEST, by_tls, client_hello, client_leg, cluster_with

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

# A signature by this key takes milliseconds.
SLOW_KEY = "rsa:4096"

ATTACKERS = 300


@pytest.fixture(scope="module")
def slow_pair(certificates):
    return certificates.self_made("slow", SLOW_KEY)


def slow_leg(certificates, pair) -> dict:
    return {
        **client_leg(certificates),
        "max_client_conn": 1000,
        "client_tls_cert_file": pair.certificate,
        "client_tls_key_file": pair.key,
    }


def stranger(pooler, address: str = "127.0.0.1") -> socket.socket:
    """A connection from this address whose SSLRequest was granted."""
    s = socket.create_connection((pooler.host, pooler.port), timeout=10, source_address=(address, 0))
    s.sendall(SSL_REQUEST)
    assert s.recv(1) == b"S"
    return s


def answered(strangers: list[socket.socket]) -> int:
    """How many of them have got an answer."""
    poll = select.poll()
    for s in strangers:
        poll.register(s, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(0)}
    assert all(s.recv(1, socket.MSG_PEEK) for s in strangers if s.fileno() in ready)
    return len(ready)


@contextlib.contextmanager
def all_at_once(pooler):
    """What is sent within reaches the pooler in one turn of its event loop."""
    pooler.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        pooler.signal(signal.SIGCONT)


def test_handshakes_do_not_stall_others(pg15, certificates, make_pooler, slow_pair):
    """A statement behind 300 handshakes is answered before half of them are, and they go on."""
    pooler = make_pooler(pg15, settings=slow_leg(certificates, slow_pair))
    hello = client_hello()
    with contextlib.ExitStack() as stack:
        worker = stack.enter_context(pooler.connect())
        worker.value("select 1")
        strangers = [stack.enter_context(stranger(pooler)) for _ in range(ATTACKERS)]
        with all_at_once(pooler):
            for s in strangers:
                s.sendall(hello)
            worker.send(wire.query("select 1"))
        worker.read_ready()
        served = answered(strangers)
        assert served < ATTACKERS / 2, served
        eventually(lambda: answered(strangers) == ATTACKERS, what=lambda: f"{answered(strangers)} answers")


def test_handshakes_of_one_address_do_not_delay_those_of_another(pg15, certificates, make_pooler, slow_pair):
    """Addresses have their turns one after the other, and who leaves while waiting has none."""
    pooler = make_pooler(pg15, settings=slow_leg(certificates, slow_pair))
    hello = client_hello()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(stranger(pooler, "127.0.0.2")) for _ in range(ATTACKERS)]
        fleeing = [stack.enter_context(stranger(pooler, "127.0.0.3")) for _ in range(ATTACKERS)]
        other = stack.enter_context(stranger(pooler))
        with all_at_once(pooler):
            for s in strangers + fleeing:
                s.sendall(hello)
            for s in fleeing:
                s.close()
            other.sendall(hello)
        assert other.recv(1)
        served = answered(strangers)
        assert served < ATTACKERS / 2, served
        assert by_tls(stack.enter_context(stranger(pooler))).version()
        eventually(lambda: answered(strangers) == ATTACKERS, what=lambda: f"{answered(strangers)} answers")


def test_handshakes_of_strangers_do_not_delay_those_with_servers(certificates, make_pooler, slow_pair):
    """A statement that needs a new server, and a cancel request to it, over TLS."""
    cluster = cluster_with(15, certificates.server)
    hello = client_hello()
    try:
        pooler = make_pooler(
            cluster, settings={**slow_leg(certificates, slow_pair), "server_tls_sslmode": "require"}
        )
        with contextlib.ExitStack() as stack:
            worker = stack.enter_context(pooler.connect())
            worker.value("select 1")
            pooler.console("reconnect")
            strangers = [stack.enter_context(stranger(pooler)) for _ in range(ATTACKERS)]
            with all_at_once(pooler):
                for s in strangers:
                    s.sendall(hello)
                worker.send(wire.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()"))
            assert wire.rows_of(worker.read_ready()) == [("t",)]
            served = answered(strangers)
            assert served < ATTACKERS / 2, served
            worker.send(wire.query("select pg_sleep(60)"))
            worker.cancel()
            assert wire.error_codes(worker.read_ready()) == ["57014"]
    finally:
        cluster.remove()
