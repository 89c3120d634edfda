"""A host that does not answer, and what the kernel does about it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

from harness.odd_server import carry

# The state of a connection whose first packet has not been answered (include/net/tcp_states.h).
SYN_SENT = "02"


class DeafHost:
    """A listening socket whose queue is full: loopback, too, drops the first packets of further connections."""

    def __init__(self, address="127.0.0.1", port=0):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((address, port))
        self.socket.listen(0)
        self.port = self.socket.getsockname()[1]
        self.fillers = []

    def __enter__(self):
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self.socket.getsockname())
            self.fillers.append(filler)
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        for each in (*self.fillers, self.socket):
            each.close()

    def hears_again(self, cluster):
        """It leads to this cluster from now on."""
        for filler in self.fillers:
            filler.close()
        self.socket.listen(64)
        threading.Thread(target=self._relay, args=(cluster,), daemon=True).start()

    def _relay(self, cluster):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                server = socket.create_connection((cluster.host, cluster.port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=carry, args=ends, daemon=True).start()


def opening_from(port: int, pid: int) -> set[int]:
    """The local ports from which a process is opening connections to this port."""
    found = {}
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            _, local, remote, state, *rest = line.split()
            if state == SYN_SENT and int(remote.rpartition(":")[2], 16) == port:
                found[f"socket:[{rest[5]}]"] = int(local.rpartition(":")[2], 16)
    names = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.add(os.readlink(f"/proc/{pid}/fd/{number}"))
        except FileNotFoundError:
            continue
    return {local for name, local in found.items() if name in names}
