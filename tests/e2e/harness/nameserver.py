"""A small DNS server for tests: UDP, A and SOA records, one zone.

    with NameServer({"db.test": ["127.0.0.1"]}, zone="test") as names:
        names.hosts["db.test"] = ["127.0.0.2"]
        names.serial += 1
        names.asked          # the names and types that were asked for
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

A, SOA, AAAA = 1, 6, 28
NXDOMAIN = 3


def encode(name: str) -> bytes:
    labels = [label for label in name.strip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


class NameServer:
    """Answers at `address`, port 53, which only root may bind."""

    def __init__(self, hosts: dict[str, list[str]], zone: str, address: str = "127.0.0.53", ttl: int = 1):
        self.hosts, self.zone, self.address, self.ttl = dict(hosts), zone, address, ttl
        self.serial = 1
        self.is_silent = False
        self.asked: list[tuple[str, int]] = []

    def __enter__(self) -> NameServer:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.socket.settimeout(0.2)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_exc) -> None:
        self.ends.set()
        self.thread.join()
        self.socket.close()

    def count(self, name: str, kind: int = A) -> int:
        return self.asked.count((name, kind))

    def _serve(self) -> None:
        while not self.ends.is_set():
            with contextlib.suppress(TimeoutError):
                packet, peer = self.socket.recvfrom(4096)
                answer = self._answer(packet)
                if not self.is_silent:
                    self.socket.sendto(answer, peer)

    def _answer(self, packet: bytes) -> bytes:
        at, labels = 12, []
        while packet[at]:
            labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
            at += 1 + packet[at]
        question = packet[12 : at + 5]
        kind = struct.unpack_from("!H", packet, at + 1)[0]
        name = ".".join(labels).lower()
        self.asked.append((name, kind))
        records, code = [], 0
        if kind == SOA and name == self.zone:
            records = [encode("ns." + self.zone) + encode("root." + self.zone)]
            records[0] += struct.pack("!IIIII", self.serial, 3600, 600, 86400, self.ttl)
        elif name in self.hosts:
            records = [socket.inet_aton(a) for a in self.hosts[name]] if kind == A else []
        else:
            code = NXDOMAIN
        head = packet[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0)
        body = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, self.ttl, len(r)) + r for r in records)
        return head + question + body
