"""What pgweir opens, no program that it starts may have: modules of PAM start programs, for example, and so does `-d`."""

from __future__ import annotations

import contextlib
import os
import re
import signal

import pytest

from harness.pooler import Pooler, kind
from harness.tls_client import context_for, secured
from harness.waiting import eventually
from test_attack_take_over import tls_pg15  # noqa: F401
from test_tls import client_leg

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir can be taken over with its connections"),
]

# Of the flags of an open file, in octal.
CLOEXEC = 0o2000000

# Standard input, output and errors.
STANDARD = 3


def inheritable(pid: int) -> list[str]:
    """The descriptors of a process that a program which it starts would have, with what they lead to."""
    found = []
    for number in map(int, os.listdir(f"/proc/{pid}/fd")):
        # It may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
                flags = int(re.search(r"flags:\s+(\d+)", file.read())[1], 8)
            if number >= STANDARD and not flags & CLOEXEC:
                found.append(f"{number}: {os.readlink(f'/proc/{pid}/fd/{number}')}")
    return found


def kinds(pid: int) -> set[str]:
    """What the descriptors of a process lead to: sockets, files and so on."""
    links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    return {link.split(":")[0] if ":" in link else "file" for link in links}


@contextlib.contextmanager
def clients(pooler: Pooler):
    """With and without TLS, at a Unix socket, one at work, one waiting, one that has not logged in, one at the console."""
    with contextlib.ExitStack() as stack:

        def connect(**named):
            return stack.enter_context(pooler.connect(**named))

        busy = stack.enter_context(secured(pooler, context_for()))
        busy.query("begin; select 1")
        connect(host=pooler.dir, user="alice").query("select 1")
        connect(user="bob").query("listen channel")
        connect(database="pgbouncer")
        connect(login=False)
        yield busy


def test_no_descriptor_is_inherited(tls_pg15, certificates, make_pooler):  # noqa: F811
    """Neither what a process has opened itself, nor what one that takes over has got from the other."""
    settings = client_leg(certificates, "allow", server_tls_sslmode="require", server_lifetime=3600)
    pooler = make_pooler(tls_pg15, settings={**settings, "resolv_conf": "/etc/resolv.conf"})
    with clients(pooler) as busy:
        assert {"socket", "anon_inode", "file"} <= kinds(pooler.process.pid)
        assert inheritable(pooler.process.pid) == []
        for _ in range(2):
            # The old one stays for the connections by TLS.
            old = pooler.take_over()
            assert inheritable(old.pid) == inheritable(pooler.process.pid) == []
            assert busy.value("select 2") == "2"
        with clients(pooler):
            pooler.console("reload")
            assert inheritable(pooler.process.pid) == []


def test_a_process_in_the_background_has_nothing_of_the_one_that_started_it(pg15, make_pooler):
    """The pipe on which it has told that it is ready is closed."""
    pooler = make_pooler(pg15, start=False, arguments=("-d",))
    pooler.spawn()
    assert pooler.wait_exit() == 0
    with open(pooler.pid_path, encoding="ascii") as file:
        pid = int(file.read())
    try:
        assert inheritable(pid) == []
        assert "pipe" not in kinds(pid)
        assert {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(STANDARD)} == {"/dev/null"}
    finally:
        os.kill(pid, signal.SIGQUIT)
        eventually(lambda: not os.path.exists(f"/proc/{pid}"), what="its end")
