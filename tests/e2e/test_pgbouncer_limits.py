"""Limits, time-outs and signals, before a real PgBouncer 1.26 and before pgweir: the same files, the same outcome."""

from __future__ import annotations

import contextlib
import signal
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.side_by_side import first_text, read_some
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Clients that all want a server at the same time.
CLIENTS = 6


def both(make_pooler, cluster, **named):
    """PgBouncer, then pgweir."""
    for which in ("pgbouncer", "pgweir"):
        yield make_pooler(cluster, which=which, **named)


def servers(pooler, user="alice") -> int:
    """Backends of this user, as the server counts them."""
    return int(pooler.cluster.psql(f"select count(*) from pg_stat_activity where usename = '{user}'"))


def settled(count) -> int:
    """A number, when it has been the same for half a second."""
    last = [count(), time.monotonic()]

    def stays():
        now = count()
        if now != last[0]:
            last[:] = [now, time.monotonic()]
        return time.monotonic() - last[1] > 0.5

    eventually(stays, timeout=8, interval=0.1, what="a number that stays")
    return last[0]


# How many servers so many clients get: (settings, databases' keys, users).
LIMITS = {
    "default_pool_size": ({"default_pool_size": 2}, "", {}),
    "default_pool_size of 0": ({"default_pool_size": 0}, "", {}),
    "pool_size of a database": ({"default_pool_size": 2}, "pool_size=3", {}),
    "pool_size of a user": ({"default_pool_size": 4}, "", {"alice": "pool_size=1"}),
    "reserve_pool_size": ({"default_pool_size": 2, "reserve_pool_size": 1, "reserve_pool_timeout": 0.3}, "", {}),
    "reserve_pool_size of a database": ({"default_pool_size": 1, "reserve_pool_timeout": 0.3}, "reserve_pool_size=2", {}),
    "reserve_pool of a database": ({"default_pool_size": 1, "reserve_pool_timeout": 0.3}, "reserve_pool=2", {}),
    "reserve_pool_size of a user": ({"default_pool_size": 1, "reserve_pool_timeout": 0.3}, "", {"alice": "reserve_pool_size=2"}),
    "reserve_pool_size of both": (
        {"default_pool_size": 1, "reserve_pool_timeout": 0.3, "reserve_pool_size": 4},
        "reserve_pool_size=3",
        {"alice": "reserve_pool_size=1"},
    ),
    "pool_size of both": ({"default_pool_size": 4}, "pool_size=2", {"alice": "pool_size=3"}),
    "max_db_connections": ({"default_pool_size": 5, "max_db_connections": 2}, "", {}),
    "max_db_connections of a database": ({"default_pool_size": 5}, "max_db_connections=3", {}),
    "max_user_connections": ({"default_pool_size": 5, "max_user_connections": 2}, "", {}),
    "max_user_connections of a user": ({"default_pool_size": 5}, "", {"alice": "max_user_connections=1"}),
    "max_user_connections of both": (
        {"default_pool_size": 5, "max_user_connections": 2},
        "",
        {"alice": "max_user_connections=4"},
    ),
    "max_user_connections of both, 0 of the user": (
        {"default_pool_size": 5, "max_user_connections": 2},
        "",
        {"alice": "max_user_connections=0"},
    ),
}


@pytest.mark.parametrize("what", LIMITS)
def test_how_many_servers_clients_get(pg15, make_pooler, what):
    settings, keys, users = LIMITS[what]
    counts = []
    for pooler in both(make_pooler, pg15, settings=settings, users=users):
        pooler.databases = {"*": f"{pooler.server()} {keys}"}
        pooler.reload()
        with contextlib.ExitStack() as stack:
            for _ in range(CLIENTS):
                c = stack.enter_context(pooler.connect(user="alice"))
                c.send(wire.query("begin; select 1"))
            counts.append(settled(lambda p=pooler: servers(p)))
        pooler.stop_now()
        pooler._stopped_by_test = True
    assert counts[1] == counts[0]


# What is left of one server, with one client or without: (settings, whether the client stays).
TIMEOUTS = {
    "server_idle_timeout": ({"server_idle_timeout": 1}, False),
    "server_idle_timeout of 0": ({"server_idle_timeout": 0}, False),
    "server_lifetime": ({"server_lifetime": 1}, False),
    "server_lifetime with a client": ({"server_lifetime": 1}, True),
    "min_pool_size": ({"min_pool_size": 3}, True),
}


@pytest.mark.parametrize("what", TIMEOUTS)
def test_how_many_servers_stay(pg15, make_pooler, what):
    settings, stays = TIMEOUTS[what]
    counts = []
    for pooler in both(make_pooler, pg15, settings=settings):
        with contextlib.ExitStack() as stack:
            c = stack.enter_context(pooler.connect(user="alice"))
            c.query("select 1")
            if not stays:
                c.close()
            # Longer than the limit, and than PgBouncer takes to look for it.
            time.sleep(2.5)
            counts.append(settled(lambda p=pooler: servers(p)))
        pooler.stop_now()
        pooler._stopped_by_test = True
    assert counts[1] == counts[0]


# -- signals


def exits(pooler) -> object:
    """The exit status, or that the process goes on."""
    with contextlib.suppress(AssertionError):
        return pooler.wait_exit(timeout=2)
    return "goes on"


def accepts(pooler) -> bool:
    try:
        pooler.connect(user="alice").close()
        return True
    except (OSError, wire.ServerError, wire.Closed):
        return False


def end(c) -> str:
    """What becomes of a client. PgBouncer closes it without a word; ours tells it `server shutting down`."""
    try:
        return "ends" if first_text(c.read_to_end(timeout=2)) in ("(none)", "server shutting down") else "is told else"
    except wire.NoReply:
        return "(still there)"


def signalled(p, signals):
    """Sends the signals, and waits for what each of them starts."""
    for number in signals:
        p.signal(number)
        time.sleep(0.3)


def idle_client(p, *signals):
    with p.connect(user="alice") as c:
        c.query("select 1")
        signalled(p, signals)
        new = p.running and accepts(p)
        heard = end(c) if len(signals) > 1 or signals[0] != signal.SIGTERM else first_text(c.query("select 1"))
    return new, heard, exits(p)


def busy_client(p, *signals):
    with p.connect(user="alice") as c:
        c.query("begin; select 1")
        signalled(p, signals)
        with contextlib.suppress(OSError):
            c.send(wire.query("commit"))
        tag = wire.command_tags(read_some(c))
    return tag, exits(p)


def paused_and_resumed(p):
    with p.connect(user="alice") as c:
        c.query("select 1")
        p.signal(signal.SIGUSR1)
        time.sleep(0.3)
        c.send(wire.query("select 1"))
        waits = c.quiet(0.3)
        p.signal(signal.SIGUSR2)
        return waits, wire.rows_of(c.read_ready())


def reloaded(p):
    p.settings["default_pool_size"] = 7
    p.reload()
    size = next(row["value"] for row in p.console("show config") if row["key"] == "default_pool_size")
    p.databases["more"] = p.server()
    p.reload()
    return size, accepts(p), wire.first_error(read_some(refused_reload(p))).fields["M"]


def refused_reload(p):
    """The answer to RELOAD of a file with a value that is none. (PgBouncer takes the default then; ours keeps the old.)"""
    p.settings["default_pool_size"] = "nonsense"
    p.write_ini()
    c = p.connect(database="pgbouncer")
    c.send(wire.query("reload"))
    return c


SIGNALS = {
    "QUIT": lambda p: idle_client(p, signal.SIGQUIT),
    "TERM": lambda p: idle_client(p, signal.SIGTERM),
    "TERM twice": lambda p: idle_client(p, signal.SIGTERM, signal.SIGTERM),
    "INT": lambda p: idle_client(p, signal.SIGINT),
    "INT in a transaction": lambda p: busy_client(p, signal.SIGINT),
    "TERM in a transaction": lambda p: busy_client(p, signal.SIGTERM),
    "INT twice in a transaction": lambda p: busy_client(p, signal.SIGINT, signal.SIGINT),
    "USR1 and USR2": paused_and_resumed,
    "HUP": reloaded,
}


@pytest.mark.parametrize("which", SIGNALS)
def test_signals(pg15, make_pooler, which):
    outcomes = []
    for pooler in both(make_pooler, pg15):
        pooler._stopped_by_test = True
        with contextlib.suppress(wire.Closed, BrokenPipeError, ConnectionResetError):
            outcomes.append(SIGNALS[which](pooler))
        pooler.stop_now()
    print(outcomes)
    assert outcomes[1] == outcomes[0]


# -- time limits of clients


# Longer than a limit of a second, and than PgBouncer takes to look for it.
LATER = 2.5


def fate(c) -> str:
    """What becomes of a client that sends nothing more: the error that it is told, or that it is not told any."""
    try:
        return first_text(c.read_to_end(timeout=LATER))
    except wire.NoReply:
        return "(still there)"


# What limits the wait for a server: (settings, databases' keys, alice's keys).
WAITS = {
    "query_wait_timeout of 0 of a database": ({"query_wait_timeout": 1}, "query_wait_timeout=0", ""),
    "query_wait_timeout of -1 of a database": ({"query_wait_timeout": 1}, "query_wait_timeout=-1", ""),
    "query_wait_timeout of 0 of a user": ({"query_wait_timeout": 1}, "", "query_wait_timeout=0"),
    "query_wait_timeout of -1 of a user": ({"query_wait_timeout": 1}, "", "query_wait_timeout=-1"),
    "query_wait_timeout of a user, 0 of the database": ({}, "query_wait_timeout=0", "query_wait_timeout=1"),
    "query_wait_timeout of 0 of a user, of the database": ({}, "query_wait_timeout=1", "query_wait_timeout=0"),
    "query_wait_timeout of a database": ({"query_wait_timeout": 0}, "query_wait_timeout=1", ""),
    "query_timeout": ({"query_timeout": 1}, "", ""),
    "query_timeout and query_wait_timeout": ({"query_timeout": 1, "query_wait_timeout": 1}, "", ""),
    "a longer query_timeout": ({"query_timeout": 9, "query_wait_timeout": 1}, "", ""),
    "query_timeout of a user": ({}, "", "query_timeout=1"),
    "a shorter query_timeout of a user": ({"query_timeout": 9}, "", "query_timeout=1"),
    "a longer query_timeout of a user": ({"query_timeout": 1}, "", "query_timeout=9"),
}


@pytest.mark.parametrize("paused", (False, True), ids=("busy", "paused"))
@pytest.mark.parametrize("what", WAITS)
def test_how_a_wait_for_a_server_ends(pg15, make_pooler, what, paused):
    settings, keys, user = WAITS[what]
    fates = []
    for pooler in both(make_pooler, pg15, settings={"default_pool_size": 1, **settings}, users={"alice": user} if user else {}):
        pooler.databases = {"*": f"{pooler.server()} {keys}"}
        pooler.reload()
        with pooler.connect(user="alice") as holder, pooler.connect(user="alice") as c:
            holder.query("select 1" if paused else "begin; select 1")
            if paused:
                pooler.console("pause")
            c.send(wire.query("select 1"))
            fates.append(fate(c))
    assert fates[1] == fates[0]


@pytest.mark.parametrize("of_user", (False, True), ids=("global", "user"))
def test_query_timeout_counts_from_the_clients_request(pg15, make_pooler, of_user):
    """Also when the client has got its server; the statement alone takes less than the limit, and so does the wait."""
    fates = []
    named = {"users": {"alice": "query_timeout=2"}} if of_user else {"settings": {"query_timeout": 2}}
    for pooler in both(make_pooler, pg15, **named):
        with pooler.connect(user="alice") as c:
            c.query("select 1")
            pooler.console("pause")
            c.send(wire.query("select pg_sleep(1.7)"))
            time.sleep(1.3)
            pooler.console("resume")
            fates.append(fate(c))
    assert fates == ["query timeout"] * 2


@pytest.mark.parametrize("of_user", (False, True), ids=("global", "user"))
@pytest.mark.parametrize("paused", (False, True), ids=("busy", "paused"))
def test_transaction_timeout_counts_from_the_clients_request(pg15, make_pooler, paused, of_user):
    """Also while the client waits for a server."""
    fates = []
    limit = {"transaction_timeout": 2}
    users = {"alice": "transaction_timeout=2"} if of_user else {}
    settings = {"default_pool_size": 1, **({} if of_user else limit)}
    for pooler in both(make_pooler, pg15, settings=settings, users=users):
        with pooler.connect(user="alice") as holder, pooler.connect(user="alice") as c:
            holder.query("select 1")
            pooler.console("pause") if paused else holder.send(wire.query("select pg_sleep(1.3)"))
            c.send(wire.query("select pg_sleep(1.7)"))
            time.sleep(1.3)
            if paused:
                pooler.console("resume")
            fates.append(fate(c))
    assert fates == ["transaction timeout"] * 2


PARTS = {
    "outside a transaction": ([], wire.one_statement("select 1")),
    "in a transaction": (["begin", "select 1"], wire.one_statement("select 1")),
    "failed": ([], wire.parse("", "slect 1")),
}


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("what", PARTS)
def test_query_timeout_counts_until_sync(pg15, make_pooler, what, mode):
    """Each part of the segment is answered at once, but its client sends no Sync."""
    before, part = PARTS[what]
    fates = []
    for pooler in both(make_pooler, pg15, settings={"query_timeout": 1}, mode=mode):
        with pooler.connect(user="alice") as c:
            for statement in before:
                c.query(statement)
            c.send(part, wire.flush())
            told = c.read_to_end(timeout=LATER)
            fates.append([m.fields["M"] for m in told if m.tag == "E"])
    assert fates[1] == fates[0]
    assert fates[0][-1] == "query timeout"


# Who is idle: (mode, alice's keys, statements before).
IDLERS = {
    "session pooling, without a server": ("session", "", []),
    "session pooling, with a server": ("session", "", ["select 1"]),
    "session pooling, in a transaction": ("session", "", ["begin", "select 1"]),
    "session pooling of a user": ("transaction", "pool_mode=session", ["select 1"]),
    "transaction pooling of a user": ("session", "pool_mode=transaction", ["select 1"]),
    "transaction pooling": ("transaction", "", ["select 1"]),
    "transaction pooling, in a transaction": ("transaction", "", ["begin", "select 1"]),
}


@pytest.mark.parametrize("what", IDLERS)
def test_client_idle_timeout(pg15, make_pooler, what):
    mode, keys, statements = IDLERS[what]
    fates = []
    for pooler in both(make_pooler, pg15, settings={"client_idle_timeout": 1}, mode=mode, users={"alice": keys} if keys else {}):
        with pooler.connect(user="alice") as c:
            for statement in statements:
                c.query(statement)
            fates.append(fate(c))
    assert fates[1] == fates[0]
