"""A small DNS server for tests: UDP, A, AAAA and SOA records, one zone.

    with NameServer({"db.test": ["127.0.0.1", "::1"]}, zone="test") as names:
        names.hosts["db.test"] = ["127.0.0.2"]
        names.serial += 1
        names.by_hand["odd.test"] = lambda packet, kind: [packet]
        names.by_tcp["long.test"] = lambda packet, kind: [packet]
        names.asked          # the names and types that were asked for
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import typing

A, CNAME, SOA, AAAA = 1, 5, 6, 28
SERVFAIL, NXDOMAIN = 2, 3

# The packets that answer a question, from its packet and its type.
ByHand = typing.Callable[[bytes, int], list[bytes]]


def encode(name: str) -> bytes:
    labels = [label for label in name.strip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def record(kind: int, data: bytes, name: bytes = b"\xc0\x0c", ttl: int = 1) -> bytes:
    """A resource record; without a name, that of the question."""
    return name + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def address_records(kind: int, addresses: list[str], ttl: int = 1) -> list[bytes]:
    """Records for those of the addresses that have this type."""
    family = {A: socket.AF_INET, AAAA: socket.AF_INET6}[kind]
    fitting = [a for a in addresses if (":" in a) == (kind == AAAA)]
    return [record(kind, socket.inet_pton(family, a), ttl=ttl) for a in fitting]


def question_of(packet: bytes) -> bytes:
    """The bytes of its question: name, type and class."""
    at = 12
    while packet[at]:
        at += 1 + packet[at]
    return packet[12 : at + 5]


def name_and_kind(packet: bytes) -> tuple[str, int]:
    """The name that is asked for, and the type."""
    at, labels = 12, []
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels).lower(), struct.unpack_from("!H", packet, at + 1)[0]


def reply(packet: bytes, records: list[bytes], code: int = 0, flags: int = 0x8580, question: bytes | None = None) -> bytes:
    """An answer to this packet."""
    question = question_of(packet) if question is None else question
    return packet[:2] + struct.pack("!HHHHH", flags | code, 1, len(records), 0, 0) + question + b"".join(records)


class NameServer:
    """Answers at `address`, port 53, which only root may bind."""

    def __init__(self, hosts: dict[str, list[str]], zone: str, address: str = "127.0.0.53", ttl: int = 1):
        self.hosts, self.zone, self.address, self.ttl = dict(hosts), zone, address, ttl
        self.serial = 1
        self.is_silent = False
        self.by_hand: dict[str, ByHand] = {}
        # What is asked for by TCP, after a truncated answer; other names get no answer there.
        self.by_tcp: dict[str, ByHand] = {}
        self.asked: list[tuple[str, int]] = []

    def __enter__(self) -> NameServer:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.socket.settimeout(0.2)
        self.listener = socket.create_server((self.address, 53))
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        threading.Thread(target=self._serve_tcp, daemon=True).start()
        return self

    def __exit__(self, *_exc) -> None:
        self.ends.set()
        self.thread.join()
        self.socket.close()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def count(self, name: str, kind: int = A) -> int:
        return self.asked.count((name, kind))

    def _serve(self) -> None:
        while not self.ends.is_set():
            with contextlib.suppress(TimeoutError):
                packet, peer = self.socket.recvfrom(4096)
                answers = self._answers(packet)
                for answer in [] if self.is_silent else answers:
                    self.socket.sendto(answer, peer)

    def _serve_tcp(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, client.makefile("rb") as received:
            while head := received.read(2):
                packet = received.read(struct.unpack("!H", head)[0])
                name, kind = name_and_kind(packet)
                for answer in self.by_tcp[name](packet, kind) if name in self.by_tcp else []:
                    client.sendall(struct.pack("!H", len(answer)) + answer)

    def _answers(self, packet: bytes) -> list[bytes]:
        name, kind = name_and_kind(packet)
        self.asked.append((name, kind))
        if name in self.by_hand:
            return self.by_hand[name](packet, kind)
        if kind == SOA and name == self.zone:
            soa = encode("ns." + self.zone) + encode("root." + self.zone)
            soa += struct.pack("!IIIII", self.serial, 3600, 600, 86400, self.ttl)
            return [reply(packet, [record(SOA, soa, ttl=self.ttl)])]
        if name not in self.hosts:
            return [reply(packet, [], NXDOMAIN)]
        known = kind in (A, AAAA)
        return [reply(packet, address_records(kind, self.hosts[name], self.ttl) if known else [])]
