"""The sockets of another process, and their options as the kernel has them.

    for s in of_process(pooler.process.pid):
        s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
from collections.abc import Iterator

import pytest

# The number of the system call on every architecture that has it.
PIDFD_GETFD = 438

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def of_process(pid: int) -> Iterator[list[socket.socket]]:
    """Copies of a process's stream sockets of TCP and of the Unix domain."""
    with contextlib.ExitStack() as stack:
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        yield [stack.enter_context(s) for s in _copies(pid, process)]


def _copies(pid: int, process: int) -> Iterator[socket.socket]:
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.stat(f"/proc/{pid}/fd/{name}").st_mode):
                continue
            copy = _libc.syscall(PIDFD_GETFD, process, int(name), 0)
            if copy < 0:
                pytest.skip(f"this system shows nobody a process's sockets: {os.strerror(ctypes.get_errno())}")
            yield socket.socket(fileno=copy)


def listens(s: socket.socket) -> bool:
    return bool(s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def option(s: socket.socket, name: str) -> int:
    """The value of an option, such as SO_KEEPALIVE or TCP_KEEPIDLE."""
    level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
    return s.getsockopt(level, getattr(socket, name))
