"""syslog, before a real PgBouncer 1.26 and before pgweir: what the daemon gets, where /dev/log is a socket of the tests."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import termios
import threading

import pgthrow
import pytest

from harness import wire
from harness.namespaces import alone
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Lays out a /dev whose log is the socket $0, and runs the rest there. The files of the tests may be in /dev/shm.
WITH_LOG = """
set -e
new=$(dirname "$0")/dev
mkdir "$new"
mount -t tmpfs none "$new"
ln -s "$0" "$new/log"
mkdir "$new/shm"
mount --rbind /dev/shm "$new/shm"
for name in null zero random urandom; do touch "$new/$name"; mount --bind "/dev/$name" "$new/$name"; done
mount --rbind "$new" /dev
exec "$@"
"""

PACKET = re.compile(r"<(\d+)>\w{3} [ \d]\d \d\d:\d\d:\d\d (.*?)\[(\d+)\]: (.*)", re.S)


# settings -> priority of a line at LOG level, which is its facility times 8 plus 6, and the program's name
SETTINGS = {
    "defaults": ({}, 3 * 8 + 6, "pgbouncer"),
    **{
        f"syslog_facility {name}": ({"syslog_facility": name}, number * 8 + 6, "pgbouncer")
        for name, number in {"auth": 4, "authpriv": 10, "user": 1, "local0": 16, "local7": 23}.items()
    },
    "syslog_ident": ({"syslog_ident": "pool a"}, 3 * 8 + 6, "pool a"),
}


class Daemon:
    """What a syslog daemon hears from a pooler."""

    def __init__(self, path: str):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        pgthrow.give_to_server_user(path)
        self.lines: list[tuple[str, ...]] = []
        # The queue of the socket is short, and PgBouncer stops when it is full.
        self.may_listen = threading.Event()
        self.may_listen.set()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while self.may_listen.wait():
            self.lines.append(PACKET.fullmatch(self.socket.recv(65536).decode()).groups())

    def wait_line(self, words: str) -> tuple[str, ...]:
        """Priority, name, process and text of the first line with these words."""
        found = lambda: next((line for line in self.lines if words in line[3]), None)  # noqa: E731
        return eventually(found, what=lambda: f"{words} in {self.lines}")


@pytest.fixture
def with_daemon(pg15, make_pooler):
    namespace = alone("--mount")

    def make(which: str, settings: dict):
        pooler = make_pooler(pg15, which=which, settings=settings, start=False)
        path = os.path.join(pooler.dir, "dev-log")
        daemon = Daemon(path)
        pooler.under = (*namespace, "sh", "-c", WITH_LOG, path)
        return pooler.start(), daemon

    return make


@pytest.mark.parametrize("what", SETTINGS)
def test_what_the_daemon_gets(with_daemon, what):
    """The same lines as in the log file, without time and level, which the packet has."""
    settings, priority, ident = SETTINGS[what]
    for which in ("pgbouncer", "pgweir"):
        pooler, daemon = with_daemon(which, {"syslog": 1, **settings})
        with pooler.connect(user="alice", database="shop") as c:
            c.value("select 1")
        line = daemon.wait_line("login attempt: db=shop user=alice")
        assert line[:3] == (str(priority), ident, str(pooler.process.pid)), which
        assert pooler.wait_log("login attempt: db=shop user=alice").endswith(f" LOG {line[3]}"), which


def test_levels(with_daemon):
    """A warning is one to the daemon, too."""
    for which in ("pgbouncer", "pgweir"):
        pooler, daemon = with_daemon(which, {"syslog": 1})
        with pytest.raises(wire.ServerError):
            pooler.connect(database="nowhere")
        assert daemon.wait_line("pooler error: ")[0] == str(3 * 8 + 4), which


def test_on_and_off_by_reload(with_daemon):
    for which in ("pgbouncer", "pgweir"):
        pooler, daemon = with_daemon(which, {"syslog": 0})
        for on, user in ((0, "alice"), (1, "bob"), (0, "alice"), (1, "stats")):
            pooler.settings["syslog"] = on
            pooler.reload()
            pooler.connect(user=user).close()
        daemon.wait_line("login attempt: db=postgres user=stats")
        users = [re.search("user=([a-z]+)", line[3])[1] for line in daemon.lines if "login attempt" in line[3]]
        assert users == ["bob", "stats"], which


def test_lines_that_the_daemon_has_no_room_for_are_counted(with_daemon):
    """PgBouncer stops until the daemon goes on. pgweir serves its clients, and says how many lines are lost."""
    pooler, daemon = with_daemon("pgweir", {"syslog": 1})
    logged = lambda: len(pooler.log().splitlines())  # noqa: E731
    daemon.may_listen.clear()
    for _ in range(300):
        pooler.connect(user="alice").close()
    daemon.may_listen.set()
    unread = lambda: struct.unpack("i", fcntl.ioctl(daemon.socket, termios.FIONREAD, bytes(4)))[0]  # noqa: E731
    eventually(lambda: unread() == 0, what="an empty queue")
    pooler.connect(user="bob").close()
    pooler.wait_log("user=bob")
    told = daemon.wait_line("messages to syslog were lost")
    assert told[0] == str(3 * 8 + 4)
    lost = int(told[3].split()[0])
    eventually(lambda: len(daemon.lines) - 1 + lost == logged(), what=lambda: (len(daemon.lines), lost, logged()))
