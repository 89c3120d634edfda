"""The operator of the soak: orders on the console, signals, files, restarts and crashes of PostgreSQL, take-overs; from a seed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import pgthrow

from .. import wire
from ..waiting import eventually
from . import accounts

# Seconds between two orders, for which an order such as PAUSE lasts, and until RESUME if PAUSE has not been answered.
BETWEEN_SECONDS_MAX = 0.8
HELD_SECONDS_MAX = 1.5

# Orders within an order that lasts, at most.
WITHIN_MAX = 2

# What RELOAD changes, each with its possible values.
SETTINGS = {
    "default_pool_size": (3, 5, 8),
    "reserve_pool_size": (0, 2),
    "max_prepared_statements": (1, 3, 200),
    "server_lifetime": (1, 60, 3600),
    "server_idle_timeout": (1, 600),
    "server_check_delay": (0, 30),
    "server_tls_sslmode": ("disable", "require", "prefer"),
    "deferred_begin": (0, 5),
    "stats_period": (1, 60),
    "server_round_robin": (0, 1),
}

# Orders that make no other process, and give the work no other rules.
STEADY = ("reconnects", "shows", "pauses", "pauses_database", "pauses_by_signal", "suspends", "kills_client", "terminates")


class Operator:
    """Does one thing after another. `held` are the orders that last now."""

    def __init__(self, world):
        self.world = world
        self.dice = random.Random(f"{world.seed} operator")
        self.held: list[str] = []
        # Whether only `STEADY` orders are given.
        self.steady = False
        # Stays open for the whole soak, over every take-over.
        self.desk = world.pooler.connect(database="pgbouncer")
        self.done: dict[str, int] = {}

    def act(self, within: tuple[str, ...] | None = None) -> None:
        """One order, or one of those."""
        orders = {order: weight for order, weight in ORDERS.items() if within is None or order.__name__ in within}
        orders = {order: weight for order, weight in orders.items() if not self.is_barred(order.__name__)}
        order = self.dice.choices(list(orders), orders.values())[0]
        self.world.say(f"{'  ' * len(self.held)}{order.__name__}")
        self.done[order.__name__] = self.done.get(order.__name__, 0) + 1
        order(self)

    def is_barred(self, order: str) -> bool:
        """Whether it would be refused, or undo what lasts: there is no PAUSE of a database while everything is paused, and
        RESUME after KILL resumes every database."""
        if self.steady and order not in STEADY:
            return True
        kind = LASTING.get(order)
        undoes = order == "kills" and "shop" in self.held
        return kind in self.held or (kind == "shop" and "all" in self.held) or undoes

    def pause_between(self) -> None:
        time.sleep(self.dice.random() * BETWEEN_SECONDS_MAX)

    @contextlib.contextmanager
    def lasting(self, kind: str) -> Iterator[None]:
        """Up to `WITHIN_MAX` other orders are given while this one lasts."""
        self.held.append(kind)
        within = ("takes_over", "reloads", "shows") if kind == "suspended" else None
        for _ in range(self.dice.randrange(WITHIN_MAX + 1) if len(self.held) < 3 else 0):
            self.act(within)
        time.sleep(self.dice.random() * HELD_SECONDS_MAX)
        yield
        self.held.remove(kind)

    def order(self, command: str, expected: tuple[str, ...] = ()) -> str:
        """The tag that the console answers, or one of the SQLSTATEs that are expected."""
        messages = self.desk.query(command)
        error = wire.first_error(messages)
        if error is None:
            return wire.command_tags(messages)[-1]
        if error.fields["C"] not in expected:
            raise AssertionError(f"{command}: {error.fields}")
        return error.fields["C"]

    def one_server(self) -> int | None:
        """The process id of one of the backends."""
        pids = self.world.cluster.psql(
            "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by pid"
        ).split()
        return int(self.dice.choice(pids)) if pids else None


# -- what disturbs nobody


def reloads(o: Operator) -> None:
    pooler = o.world.pooler
    for name in o.dice.sample(list(SETTINGS), 3):
        pooler.settings[name] = o.dice.choice(SETTINGS[name])
    if o.dice.randrange(3) == 0:
        o.world.change_certificate(o.dice.randrange(2))
    if o.dice.randrange(2):
        pooler.write_ini()
        o.order("reload")
    else:
        pooler.reload()


def reloads_nonsense(o: Operator) -> None:
    pooler = o.world.pooler
    size, pooler.settings["default_pool_size"] = pooler.settings["default_pool_size"], "nonsense"
    pooler.write_ini()
    o.order("reload", ("F0000",))
    pooler.settings["default_pool_size"] = size
    pooler.write_ini()


def reconnects(o: Operator) -> None:
    o.order(o.dice.choice(("reconnect", "reconnect shop")))


def takes_over(o: Operator) -> None:
    o.world.pooler.take_over()


def shows(o: Operator) -> None:
    what = "pools clients servers sockets databases lists mem stats totals pins listeners state_stats config users"
    for name in what.split():
        o.desk.query(f"show {name}")
    accounts.check_totals(o.world)


def pauses(o: Operator) -> None:
    pause_and_resume(o, "", "all")


def pauses_database(o: Operator) -> None:
    pause_and_resume(o, " shop", "shop")


def pause_and_resume(o: Operator, database: str, kind: str) -> None:
    """Its PAUSE may still wait for clients that are pinned when RESUME comes, and hears so then."""
    with o.world.pooler.connect(database="pgbouncer") as c:
        c.send(wire.query(f"pause{database}"))
        with o.lasting(kind):
            pass
        o.order(f"resume{database}")
        answer = c.read_ready()
        error = wire.first_error(answer)
        assert error is None or error.fields["C"] == "57014", error.fields


def pauses_by_signal(o: Operator) -> None:
    o.world.pooler.signal(signal.SIGUSR1)
    with o.lasting("all"):
        pass
    o.world.pooler.signal(signal.SIGUSR2)
    eventually(lambda: state(o)["paused"] == "no", what=lambda: f"RESUME by SIGUSR2; {state(o)}")


def state(o: Operator) -> dict[str, str]:
    return dict(wire.rows_of(o.desk.query("show state")))


def suspends(o: Operator) -> None:
    o.order("suspend")
    with o.lasting("suspended"):
        pass
    o.order("resume")


# -- what disturbs clients


def kills(o: Operator) -> None:
    with o.world.disturbing():
        o.order("kill")
        with o.lasting("all"):
            pass
        o.order("resume")


def kills_database(o: Operator) -> None:
    with o.world.disturbing():
        o.order("kill shop")
        with o.lasting("shop"):
            pass
        o.order("resume shop")


def kills_client(o: Operator) -> None:
    clients = [row for row in o.world.clients_shown() if row["database"] != "pgbouncer"]
    if clients:
        with o.world.disturbing():
            # It may have left meanwhile.
            o.order(f"kill_client {o.dice.choice(clients)['id']}", expected=("42704", "02000", "22023", "55000"))


def disables(o: Operator) -> None:
    with o.world.disturbing():
        o.order("disable shop")
        with o.lasting("disabled"):
            pass
        o.order("enable shop")


def terminates(o: Operator) -> None:
    """A backend, by PostgreSQL itself."""
    with o.world.disturbing():
        pid = o.one_server()
        if pid:
            o.world.cluster.psql(f"select pg_terminate_backend({pid})")


def crashes(o: Operator) -> None:
    """A backend is killed, and PostgreSQL begins anew."""
    with o.world.disturbing():
        pid = o.one_server()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        eventually(lambda: answers(o.world.cluster), timeout=30, what="PostgreSQL after a crash")


def answers(cluster) -> bool:
    try:
        return cluster.psql("select 1") == "1"
    except pgthrow.PgThrowError:
        return False


def restarts(o: Operator) -> None:
    with o.world.disturbing():
        o.world.cluster.stop(o.dice.choice(("fast", "immediate")))
        time.sleep(o.dice.random() * HELD_SECONDS_MAX)
        o.world.cluster.start()


# Orders that last, and what they hold meanwhile.
LASTING = {
    "pauses": "all",
    "pauses_by_signal": "all",
    "kills": "all",
    "suspends": "all",
    "pauses_database": "shop",
    "kills_database": "shop",
    "disables": "disabled",
}

# Each with how often it is given, relative to the others.
ORDERS = {
    reloads: 5,
    reloads_nonsense: 1,
    reconnects: 3,
    takes_over: 4,
    shows: 3,
    pauses: 3,
    pauses_database: 2,
    pauses_by_signal: 1,
    suspends: 2,
    kills: 1,
    kills_database: 1,
    kills_client: 2,
    disables: 1,
    terminates: 2,
    crashes: 1,
    restarts: 1,
}
