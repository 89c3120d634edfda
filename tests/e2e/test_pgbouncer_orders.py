"""Signals and orders of the console one after another, before a real PgBouncer 1.26 and before pgweir: idle, busy and waiting
clients, the console, and the process fare alike.

Where pgweir differs on purpose, the table says how; docs/migrating-from-pgbouncer.md says why.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.side_by_side import first_text, read_some
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Seconds for an order to take effect, and for a process to end that will.
SETTLE_SECONDS = 0.25
END_SECONDS_MAX = 1.5

SIGNALS = {name: getattr(signal, f"SIG{name}") for name in ("TERM", "INT", "QUIT", "USR1", "USR2", "HUP")}

# Orders, one after another: names of signals, or commands of the console.
ORDERS = [
    "TERM",
    "TERM, TERM",
    "TERM, INT",
    "TERM, QUIT",
    "TERM, USR1",
    "TERM, USR2",
    "TERM, HUP",
    "INT",
    "INT, INT",
    "INT, TERM",
    "QUIT",
    "USR1",
    "USR1, USR1",
    "USR2",
    "USR1, USR2",
    "USR1, TERM",
    "USR1, INT",
    "USR1, RESUME",
    "RESUME",
    "PAUSE, USR2",
    "PAUSE, INT",
    "SUSPEND, RESUME",
    "SUSPEND, PAUSE",
    "SUSPEND, TERM",
    "SHUTDOWN",
    "SHUTDOWN WAIT_FOR_SERVERS",
    "SHUTDOWN WAIT_FOR_CLIENTS",
    "SHUTDOWN WAIT_FOR_CLIENTS, SHUTDOWN WAIT_FOR_SERVERS",
    "SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN WAIT_FOR_CLIENTS",
    "SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN WAIT_FOR_SERVERS",
    "SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN",
    "SHUTDOWN WAIT_FOR_SERVERS, PAUSE",
    "INT, SHUTDOWN WAIT_FOR_CLIENTS",
    "INT, SHUTDOWN",
    "TERM, SHUTDOWN WAIT_FOR_CLIENTS",
    "TERM, SHUTDOWN",
    "PAUSE, SHUTDOWN WAIT_FOR_CLIENTS",
    "SHUTDOWN WAIT_FOR_CLIENTS, SHUTDOWN WAIT_FOR_CLIENTS",
    "SHUTDOWN WAIT_FOR_CLIENTS, SHUTDOWN",
    "SHUTDOWN WAIT_FOR_CLIENTS, PAUSE",
    "SHUTDOWN WAIT_FOR_CLIENTS, RESUME",
    "SHUTDOWN WAIT_FOR_SERVERS, RESUME",
    "SHUTDOWN WAIT_FOR_CLIENTS, SUSPEND",
    "SHUTDOWN WAIT_FOR_CLIENTS, RELOAD",
    "SHUTDOWN WAIT_FOR_CLIENTS, TERM",
    "SHUTDOWN WAIT_FOR_SERVERS, INT",
    "SHUTDOWN NONSENSE",
]


class Scene:
    """A pooler with a client of each kind, and a console. The pool has one server, which the busy client has."""

    def __init__(self, pooler):
        self.pooler = pooler
        self.console = pooler.connect(database="pgbouncer")
        self.idle, self.busy, self.waiting = (pooler.connect(user="alice") for _ in range(3))
        self.idle.query("select 1")
        self.busy.query("begin; select 1")
        self.waiting.send(wire.query("select 'has waited'"))
        time.sleep(0.05)

    def give(self, order: str) -> str:
        """What the console answers at once, in its first words."""
        if order in SIGNALS:
            if self.pooler.running:
                self.pooler.signal(SIGNALS[order])
            time.sleep(SETTLE_SECONDS)
            return order
        try:
            self.console.send(wire.query(order))
            answer = self.console.read_ready(timeout=SETTLE_SECONDS)
        except wire.NoReply:
            # The answer belongs to this order, whenever it comes.
            self.console = self.another_console() or self.console
            return "waits"
        except (wire.Closed, OSError):
            return "(closed)"
        return first_text(answer).split(" (")[0] if wire.first_error(answer) else wire.command_tags(answer)[-1]

    def another_console(self):
        with contextlib.suppress(OSError, wire.Closed, wire.NoReply, wire.ServerError):
            return self.pooler.connect(database="pgbouncer", timeout=SETTLE_SECONDS)
        return None

    def console_answers(self) -> bool:
        with contextlib.suppress(OSError, wire.Closed, wire.NoReply):
            self.console.send(wire.query("show version"))
            return wire.first_error(self.console.read_ready(timeout=SETTLE_SECONDS)) is None
        return False

    def accepts(self) -> str:
        """Whether somebody new is let in, as far as the port. It may be closed a moment after the order is answered."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until:
            try:
                socket.create_connection((self.pooler.host, self.pooler.port), SETTLE_SECONDS).close()
            except OSError:
                return "refuses"
            time.sleep(0.02)
        return "accepts"

    def log_in_by_unix_socket(self, database: str) -> str:
        """How somebody new fares at the other socket, where peers send cancel requests."""
        try:
            self.pooler.connect(host=self.pooler.dir, database=database, timeout=SETTLE_SECONDS).close()
        except wire.ServerError as error:
            return error.fields["M"].removeprefix("the ")
        except (OSError, wire.Closed):
            return "refuses"
        return "accepts"

    def fares(self, c, *messages: bytes) -> str:
        """What becomes of a client that sends these."""
        try:
            c.send(*messages)
            c.timeout = SETTLE_SECONDS
            answer = read_some(c)
        except wire.NoReply:
            return "waits"
        except OSError:
            return "ends"
        # PgBouncer closes some without a word, to others it says why.
        if not answer or answer[-1].tag != "Z":
            return "ends"
        return first_text(answer) if wire.first_error(answer) else "is served"

    def outcome(self) -> dict[str, object]:
        """How everybody fares afterwards: the idle client first, while the busy one has the server."""
        out = {"port": self.accepts(), "console": self.console_answers()}
        if out["port"] == "refuses":
            out["Unix socket"] = [self.log_in_by_unix_socket(database) for database in ("postgres", "pgbouncer")]
        out["busy"] = self.fares(self.busy, wire.query("select 1"))
        out["end of transaction"] = self.fares(self.busy, wire.query("commit"))
        out["waiting"] = self.fares(self.waiting)
        out["idle"] = self.fares(self.idle, wire.query("select 1"))
        for c in (self.idle, self.busy, self.waiting):
            c.close()
        out["process"] = "ends" if self.ends() else "goes on"
        return out

    def ends(self) -> bool:
        """Once all clients but the console have left."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.pooler.running, timeout=END_SECONDS_MAX if self.accepts() == "refuses" else 0.1)
        return not self.pooler.running


# PgBouncer waits for the console, too, which has been told nothing: its shutdown by TERM hangs on a forgotten one.
CONSOLE_IS_NO_CLIENT = {"process": "ends"}

# PAUSE and shutdown at a time: PgBouncer lets clients wait for ever then.
NOBODY_WAITS_FOR_EVER = {"waiting": "ends", "idle": "ends", **CONSOLE_IS_NO_CLIENT}
NO_PAUSE_WHILE_SHUTTING_DOWN = {"waiting": "is served", "idle": "is served", **CONSOLE_IS_NO_CLIENT}

# What differs on purpose: orders, and what ours has.
DIFFERENT: dict[str, dict[str, object]] = {
    **dict.fromkeys(
        (
            "TERM",
            "TERM, USR2",
            "TERM, HUP",
            "TERM, SHUTDOWN WAIT_FOR_CLIENTS",
            "SHUTDOWN WAIT_FOR_CLIENTS",
            "SHUTDOWN WAIT_FOR_CLIENTS, SHUTDOWN WAIT_FOR_CLIENTS",
            "SHUTDOWN WAIT_FOR_CLIENTS, RESUME",
            "SHUTDOWN WAIT_FOR_CLIENTS, RELOAD",
        ),
        CONSOLE_IS_NO_CLIENT,
    ),
    "USR1, TERM": NOBODY_WAITS_FOR_EVER,
    "PAUSE, SHUTDOWN WAIT_FOR_CLIENTS": NOBODY_WAITS_FOR_EVER,
    "TERM, USR1": NO_PAUSE_WHILE_SHUTTING_DOWN,
    "SHUTDOWN WAIT_FOR_CLIENTS, PAUSE": {
        "answers": ["SHUTDOWN", "pooler is shutting down"],
        **NO_PAUSE_WHILE_SHUTTING_DOWN,
    },
    # PgBouncer calls its shutdown a pause.
    "SHUTDOWN WAIT_FOR_SERVERS, PAUSE": {"answers": ["SHUTDOWN", "pooler is shutting down"]},
    # PgBouncer stays paused, and lets clients wait for ever.
    **dict.fromkeys(
        ("SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN WAIT_FOR_CLIENTS", "INT, SHUTDOWN WAIT_FOR_CLIENTS"),
        {"waiting": "ends", "idle": "is served", **CONSOLE_IS_NO_CLIENT},
    ),
    # PgBouncer closes the console without an answer.
    "SHUTDOWN": {"answers": ["SHUTDOWN"]},
    **{f"{first}, SHUTDOWN": {"answers": [first, "SHUTDOWN"]} for first in ("TERM", "INT")},
    "SHUTDOWN WAIT_FOR_CLIENTS, SHUTDOWN": {"answers": ["SHUTDOWN", "SHUTDOWN"]},
    "SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN": {"answers": ["SHUTDOWN", "SHUTDOWN"]},
    # PgBouncer 1.26 has no SUSPEND.
    "SUSPEND, RESUME": {"answers": ["SUSPEND", "RESUME"]},
    "SUSPEND, PAUSE": {
        "answers": ["SUSPEND", "already paused"],
        "busy": "waits",
        "end of transaction": "waits",
    },
    "SUSPEND, TERM": {"answers": ["SUSPEND", "TERM"], **CONSOLE_IS_NO_CLIENT},
    "SHUTDOWN WAIT_FOR_CLIENTS, SUSPEND": {"answers": ["SHUTDOWN", "pooler is shutting down"], **CONSOLE_IS_NO_CLIENT},
}


@pytest.mark.parametrize("orders", ORDERS)
def test_orders(pg15, make_pooler, orders):
    outcomes = []
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(pg15, which=which, settings={"default_pool_size": 1, "query_wait_timeout": 60})
        pooler._stopped_by_test = True
        scene = Scene(pooler)
        answers = [scene.give(order) for order in orders.split(", ")]
        outcomes.append({"answers": answers, **scene.outcome()})
        scene.console.drop()
        pooler.stop_now()
    theirs, ours = outcomes
    print(theirs, ours, sep="\n")
    assert ours == {**theirs, **DIFFERENT.get(orders, {})}
