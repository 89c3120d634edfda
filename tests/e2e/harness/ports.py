"""Ports for clusters and poolers: each test worker has its own part of one range on loopback."""

from __future__ import annotations

import os
import socket

# The range is PORTS_PER_WORKER ports for each worker from here on. It lies below the ports that Linux gives to outgoing
# connections (32768 and up), one of which would now and then sit on a port between two starts of a server.
FIRST_PORT = int(os.environ.get("PGWEIR_TEST_PORT", "24400"))
PORTS_PER_WORKER = 24

_next = 0


def worker_index() -> int:
    """0 without pytest-xdist; otherwise the number in "gw3"."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


def take() -> int:
    """The next free port of this worker."""
    global _next
    first = FIRST_PORT + worker_index() * PORTS_PER_WORKER
    for _ in range(PORTS_PER_WORKER):
        port = first + _next % PORTS_PER_WORKER
        _next += 1
        if _free(port):
            return port
    raise RuntimeError(f"no free port in {first} to {first + PORTS_PER_WORKER - 1}")


def _free(port: int) -> bool:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
