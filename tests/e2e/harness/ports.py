"""Ports for clusters and poolers: each test process has a block of them on loopback to itself, by a lock on a file.

So test processes, and whole runs of several checkouts, can go on side by side.
"""

from __future__ import annotations

import fcntl
import os
import socket

# The blocks lie below the ports that Linux gives to outgoing connections (32768 and up), one of which would now and
# then sit on a port between two starts of a server.
FIRST_PORT = int(os.environ.get("PGWEIR_TEST_PORT", "24400"))
PORTS_PER_BLOCK = 24
BLOCKS_MAX = 100

_block_first: int | None = None
_lock_file = None
_next = 0


def take() -> int:
    """The next free port of this process's block."""
    global _next
    first = _own_block()
    for _ in range(PORTS_PER_BLOCK):
        port = first + _next % PORTS_PER_BLOCK
        _next += 1
        if _free(port):
            return port
    raise RuntimeError(f"no free port in {first} to {first + PORTS_PER_BLOCK - 1}")


def _own_block() -> int:
    """First port of the block that this process has locked; the lock ends with the process."""
    global _block_first, _lock_file
    if _block_first is None:
        # Not in TMPDIR, which is each run's own.
        folder = f"/tmp/pgweir-test-ports-{os.geteuid()}"
        os.makedirs(folder, exist_ok=True)
        for block in range(BLOCKS_MAX):
            first = FIRST_PORT + block * PORTS_PER_BLOCK
            file = open(os.path.join(folder, str(first)), "w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                continue
            _block_first, _lock_file = first, file
            return first
        raise RuntimeError(f"all {BLOCKS_MAX} blocks of ports are taken")
    return _block_first


def _free(port: int) -> bool:
    """Nothing listens on this port, on any address: some servers of tests listen on 127.0.0.2 alone."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
