"""Answers of name servers: addresses of IPv6, lifetimes, and answers that are damaged or mean harm."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time

import pytest

from harness import wire
from harness.nameserver import A, AAAA, CNAME, SERVFAIL, address_records, encode, record, reply
from harness.pooler import kind
from harness.waiting import eventually
from test_dns import NAME, ZONE, names, server_addresses, through  # noqa: F401
from test_hosts import relay

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")


@contextlib.contextmanager
def by_ipv6(cluster):
    """The cluster at ::1, too."""
    try:
        listener = socket.create_server(("::1", cluster.port), family=socket.AF_INET6, backlog=64)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener:
        threading.Thread(target=relay, args=(listener, cluster), daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def test_a_name_with_addresses_of_ipv6_only(pg15, make_pooler, names):  # noqa: F811
    names.hosts[NAME] = ["::1"]
    with by_ipv6(pg15):
        pooler = through(make_pooler, pg15, names)
        with pooler.connect(database="shop") as client:
            assert client.value("select 1") == "1"
        assert server_addresses(pooler) == {"::1"}
        (row,) = [row for row in pooler.console("show dns_hosts") if row["hostname"] == NAME]
        assert row["addrs"] == "::1"
        assert names.count(NAME, AAAA) >= 1
        pooler.console("kill shop")


def test_a_name_with_addresses_of_both_kinds(pg15, make_pooler, names):  # noqa: F811
    """Both are used; where nothing listens at one of them, the other one serves."""
    names.hosts[NAME] = ["127.0.0.1", "::1"]
    with by_ipv6(pg15):
        pooler = through(make_pooler, pg15, names)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(pooler.connect(database="shop")) for _ in range(4)]
            for client in clients:
                client.query("begin")
                assert client.value("select 1") == "1"
            assert server_addresses(pooler) == {"127.0.0.1", "::1"}
        pooler.console("kill shop")
    pooler.console("resume shop")
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(pooler.connect(database="shop"))
            client.query("begin")
            assert client.value("select 1") == "1"
        assert server_addresses(pooler) == {"127.0.0.1"}


@pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer ignores the lifetime of records")
@pytest.mark.parametrize(("lifetime", "dns_max_ttl"), [(2, 60), (3600, 2)])
def test_the_shorter_lifetime_counts(pg15, make_pooler, names, lifetime, dns_max_ttl):  # noqa: F811
    names.ttl = lifetime
    pooler = through(make_pooler, pg15, names, dns_max_ttl=dns_max_ttl)

    def asked_for_again() -> int:
        before = names.count(NAME)
        pooler.console("reconnect shop")
        with pooler.connect(database="shop") as client:
            assert client.value("select 1") == "1"
        return names.count(NAME) - before

    assert asked_for_again() == 1
    (row,) = [row for row in pooler.console("show dns_hosts") if row["hostname"] == NAME]
    assert 0 <= int(row["ttl"]) <= 2
    eventually(lambda: asked_for_again() == 1, timeout=10, interval=0.3, what="another look-up")


# ---- answers made by hand


def chain(length: int, packet: bytes, kind: int) -> list[bytes]:
    """As many aliases, each of the next one, and the address of the last one."""
    links = [encode(f"alias{n}.{ZONE}") for n in range(length)]
    records = [record(CNAME, links[0])]
    records += [record(CNAME, to, name=alias) for alias, to in zip(links, links[1:])]
    if kind == A:
        records.append(record(A, socket.inet_aton("127.0.0.1"), name=links[-1]))
    return [reply(packet, records)]


def good(packet: bytes, kind: int) -> bytes:
    return reply(packet, address_records(kind, ["127.0.0.1"]))


def of_kind_a(answer):
    """Only the question about A is answered so; there is no AAAA."""
    return lambda packet, kind: [answer(packet)] if kind == A else [reply(packet, [])]


def wrong_id(packet: bytes) -> bytes:
    return bytes([packet[0] ^ 0xFF, packet[1]])


HARMLESS = {
    "chain": lambda packet, kind: chain(3, packet, kind),
    "lies-before": lambda packet, kind: [wrong_id(packet) + good(packet, kind)[2:].replace(b"\x7f\0\0\1", b"\x7f\0\0\x09"), good(packet, kind)],
    "no-aaaa": lambda packet, kind: [good(packet, kind)] if kind == A else [reply(packet, [], SERVFAIL)],
    "repeated": lambda packet, kind: [reply(packet, address_records(kind, ["127.0.0.1"] * 25))],
    "by-tcp": lambda packet, kind: [reply(packet, [], flags=0x8780)],
}

HARM = {
    "empty-answer": lambda packet, kind: [reply(packet, [])],
    "no-bytes": lambda packet, kind: [b""],
    "header-only": lambda packet, kind: [packet[:2] + struct.pack("!HHHHH", 0x8580, 0, 0, 0, 0)],
    "servfail": lambda packet, kind: [reply(packet, [], SERVFAIL)],
    "refused": lambda packet, kind: [reply(packet, [], 5)],
    "wrong-id": lambda packet, kind: [wrong_id(packet) + good(packet, kind)[2:]],
    "wrong-question": lambda packet, kind: [reply(packet, [], question=encode("other.test") + struct.pack("!HH", kind, 1))],
    "question": lambda packet, kind: [packet],
    "cut": lambda packet, kind: [good(packet, A)[:-2]],
    "truncated": lambda packet, kind: [reply(packet, [], flags=0x8780)],
    "counts": lambda packet, kind: [packet[:2] + struct.pack("!HHHHH", 0x8580, 1, 65535, 65535, 65535) + good(packet, A)[12:]],
    "short-address": of_kind_a(lambda packet: reply(packet, [record(A, b"\x7f\0\0")])),
    "long-address": of_kind_a(lambda packet: reply(packet, [record(A, b"\x7f\0\0\1\1")])),
    "loop": lambda packet, kind: [reply(packet, [record(CNAME, b"\xc0\x0c")])],
    "pointer-loop": lambda packet, kind: [reply(packet, [record(CNAME, b"\xc0\x30", name=b"\xc0\x0c")] * 4)],
    "pointer-beyond": lambda packet, kind: [reply(packet, [record(CNAME, b"\xff\xff")])],
    "long-chain": lambda packet, kind: chain(300, packet, kind),
    "huge": lambda packet, kind: [reply(packet, address_records(A, ["127.0.0.9"]) * 3900)],
    "rubbish": lambda packet, kind: [packet[:2] + os.urandom(500)],
}


def test_answers_made_by_hand(pg15, make_pooler, names):  # noqa: F811
    """Each gives a client an address or an error, and nobody else notices; the name server is believed again afterwards."""
    names.by_hand = {f"{name}.{ZONE}": answer for name, answer in {**HARMLESS, **HARM}.items()}
    names.by_tcp[f"by-tcp.{ZONE}"] = lambda packet, kind: [reply(packet, address_records(kind, ["127.0.0.1"] * 1000))]
    pooler = through(make_pooler, pg15, names, dns_nxdomain_ttl=1, server_login_retry=1)
    pooler.databases.update({name: f"host={name}.{ZONE} port={pg15.port} dbname=postgres" for name in (*HARMLESS, *HARM)})
    pooler.databases["plain"] = f"host=127.0.0.1 port={pg15.port} dbname=postgres"
    pooler.write_ini()
    pooler.console("reload")
    for name in HARMLESS:
        with pooler.connect(database=name, timeout=30) as client:
            assert client.value("select 1") == "1", name
    with contextlib.ExitStack() as stack:
        waiting = {}
        for name in HARM:
            waiting[name] = stack.enter_context(contextlib.closing(pooler.connect(database=name, login=False)))
            waiting[name].send(wire.startup({"user": "postgres", "database": name}))
        with pooler.connect(database="plain") as client:
            assert client.value("select 1") == "1"
        outcomes = {}
        for name, client in waiting.items():
            error = wire.first_error(client.read_to_end(30))
            outcomes[name] = str(error.fields)
    assert {name for name, said in outcomes.items() if "server DNS lookup failed" not in said} == set()
    names.by_hand.clear()
    names.hosts.update({f"{name}.{ZONE}": ["127.0.0.1"] for name in HARM})
    time.sleep(1)
    for name in HARM:
        with pooler.connect(database=name, timeout=30) as client:
            assert client.value("select 1") == "1", name
