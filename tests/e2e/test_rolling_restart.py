"""Processes that share a port by so_reuseport, ended by SIGTERM and started again one after the other, under load."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest

from harness import wire
from harness.one_port import start_behind_one_port
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

# Connections that the kernel may reset because they arrive in the very moment in which a socket is closed. With
# net.ipv4.tcp_migrate_req = 1 it gives them to another process.
RESETS_MAX = 3


class Load:
    """Clients that log in, run some transactions and leave, again and again."""

    def __init__(self, port: int, count: int):
        self.port = port
        self.sessions = 0
        self.resets = 0
        self.failures: list[str] = []
        self.process_ids: set[int] = set()
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self._live, args=(number,)) for number in range(count)]

    def _live(self, number: int) -> None:
        while not self.ends.is_set():
            try:
                c = wire.Connection(host="127.0.0.1", port=self.port, user="postgres", database="postgres")
            except (OSError, wire.Closed):
                self.resets += 1
                continue
            except wire.ServerError as error:
                self.failures.append(str(error))
                continue
            try:
                with c:
                    self.process_ids.add(c.process_id)
                    for i in range(20):
                        c.query("begin")
                        assert c.value(f"select {number} + {i}") == str(number + i)
                        c.query("commit")
                self.sessions += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for thread in self.threads:
            thread.join()


def test_a_rolling_restart_loses_nobody(pg15, make_pooler):
    """Sessions end in peace on the old process, new ones begin on the other; then the successor takes its part."""
    port, poolers = start_behind_one_port(make_pooler, pg15, (None, None))
    with Load(port, count=8) as load:
        eventually(lambda: load.sessions > 20, what="sessions before the restart")
        for pooler in poolers:
            pooler.signal(signal.SIGTERM)
            assert pooler.wait_exit(20) == 0
            before = load.sessions
            eventually(lambda: load.sessions > before + 20, what="sessions on the other process")
            pooler.start()
            up = lambda: pooler.running and "process up: " in pooler.log().rsplit("got SIGTERM", 1)[-1]  # noqa: E731
            eventually(up, what="the successor")
            offset = len(pooler.log())
            pooler.wait_log("login attempt: ", after=offset)
    assert load.failures == [] and load.resets <= RESETS_MAX, (load.failures[:3], load.resets)


@pytest.mark.beyond_pgbouncer
def test_who_waits_to_be_accepted_is_served(pg15, make_pooler):
    """Guards against a reset of clients in the kernel's queue, which have connected before SIGTERM."""
    pooler = make_pooler(pg15, settings={"listen_backlog": 200})
    pooler.signal(signal.SIGSTOP)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(pooler.connect(login=False)) for _ in range(150)]
        for c in waiting:
            c.send(wire.startup(c.startup_parameters()))
        time.sleep(0.2)
        pooler.signal(signal.SIGTERM)
        pooler.signal(signal.SIGCONT)
        for c in waiting:
            c.read_ready()
            assert c.value("select 1") == "1"
    assert pooler.wait_exit(20) == 0
