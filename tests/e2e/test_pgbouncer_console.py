"""The console of a real PgBouncer 1.26 and that of pgweir: answers to commands right and wrong, tables, counts."""

from __future__ import annotations

import pytest

from harness import wire
from harness.pooler import Pooler, kind
from harness.side_by_side import begins_alike, console_answer, first_text, read_some

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# What we answer otherwise, on purpose: (command, user) and the beginning of our answer.
OTHERWISE = {
    # Drivers ask whether a connection lives by an empty query.
    ("", "postgres"): "(none)",
    (";", "postgres"): "(none)",
    # PgBouncer says SET and changes nothing.
    ("set listen_port = 1", "postgres"): 'SET failed: setting "listen_port" cannot be changed without a restart',
    ("set job_name = 'x'", "postgres"): 'SET failed: setting "job_name" cannot be changed without a restart',
    # PgBouncer 1.26 no longer knows the command.
    ("show fds", "stats"): "admin access needed",
}

COMMANDS = [
    "show nothing", "nonsense", "show", "", ";", "select 1", "pause nosuch", "pause pgbouncer", "resume", "resume nosuch", "resume postgres",
    "kill nosuch", "kill pgbouncer", "kill_client", "kill_client abc", "kill_client 999999", "disable", "disable nosuch",
    "disable pgbouncer", "enable", "enable nosuch", "enable pgbouncer", "reconnect nosuch", "reconnect pgbouncer",
    "wait_close nosuch", "wait_close pgbouncer", "set nosuch = 1", "set default_pool_size = abc", "set listen_port = 1",
    "set default_pool_size", "shutdown nonsense", "show fds extra", "show databases extra", "reload extra", "suspend extra",
    "set client_encoding = 'utf8'", "set pool_mode = 'nosuch'", "kill_client 0x12", "kill_client -1", "kill_client 99999999999999999999", "pause a b",
    "set job_name = 'x'", "set auth_type = 'nosuch'",
]
# Which complaint comes first, if more than one is due.
STATS_COMMANDS = [
    "show fds", "pause", "set default_pool_size = 1", "reload", "kill", "shutdown", "disable", "enable", "disable nosuch",
    "disable pgbouncer", "kill_client", "kill_client abc", "kill_client 1 2", "pause a b", "pause nosuch", "shutdown nonsense",
    "set default_pool_size", "set nosuch = 1", "set default_pool_size = abc", "wait_close nosuch", "nonsense", "show nothing",
    "reload extra",
]  # fmt: skip


@pytest.fixture(scope="module")
def both(pg15):
    """PgBouncer and pgweir with the same files, for what changes nothing in them."""
    poolers = []
    try:
        for which in ("pgbouncer", "pgweir"):
            pooler = Pooler(pg15, databases={}, which=which)
            pooler.databases = {"postgres": pooler.server()}
            pooler.write_ini()
            poolers.append(pooler.start())
        yield poolers
    finally:
        for pooler in poolers:
            pooler.finish()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_console_answers(both, command):
    theirs, ours = (console_answer(p, command) for p in both)
    print(f"{command!r}\n  theirs: {theirs}\n  ours:   {ours}")
    assert begins_alike(OTHERWISE.get((command, "postgres"), theirs), ours)


@pytest.mark.parametrize("command", STATS_COMMANDS)
def test_what_the_console_answers_to_stats_users(both, command):
    theirs, ours = (console_answer(p, command, user="stats") for p in both)
    print(f"{command!r}\n  theirs: {theirs}\n  ours:   {ours}")
    assert begins_alike(OTHERWISE.get((command, "stats"), theirs), ours)


SHOWS = [
    "databases", "pools", "clients", "servers", "sockets", "active_sockets", "users", "stats", "stats_totals",
    "stats_averages", "totals", "lists", "peers", "peer_pools", "config", "mem", "dns_hosts", "dns_zones", "state",
    "version",
]


@pytest.mark.parametrize("what", SHOWS)
def test_the_columns_of_a_table(both, what):
    """Names and types, in order. PgBouncer 1.26 has no SHOW FDS any more."""

    def columns(pooler):
        with pooler.connect(database="pgbouncer") as c:
            c.send(wire.query(f"show {what}"))
            messages = read_some(c)
            found = [m.columns for m in messages if m.tag == "T"]
            return found[0] if found else first_text(messages)

    theirs, ours = (columns(p) for p in both)
    assert ours == theirs


@pytest.fixture
def twins(pg15, make_pooler):
    """Makes PgBouncer and pgweir with the same files."""

    def make(**named):
        return [make_pooler(pg15, which=which, **named) for which in ("pgbouncer", "pgweir")]

    return make


def test_limits_that_a_database_inherits_are_shown(twins):
    settings = {
        "default_pool_size": 7, "min_pool_size": 1, "reserve_pool_size": 2, "max_db_connections": 9,
        "max_db_client_connections": 11, "server_lifetime": 1234,
    }
    theirs, ours = twins(settings=settings, users={"alice": "pool_size=3 max_user_connections=5 pool_mode=session"})
    for p in (theirs, ours):
        with p.connect() as c:
            c.query("select 1")
    # min_pool_size opens servers in its own time.
    moves = ("current_connections", "port", "name")

    def rows(p, what):
        return [{k: v for k, v in row.items() if k not in moves} for row in p.console(f"show {what}")]

    assert rows(ours, "databases") == rows(theirs, "databases")


def test_orders_for_databases_that_nobody_has_used(twins):
    """With `*`, an order may name a database before its first client does. SHOW DATABASES shows what has been ordered."""

    def work(p):
        orders = ("disable one", "pause two", "kill three", "enable four", "resume five", "enable one", "resume three", "pause one")
        answers = [console_answer(p, order) for order in orders]
        return answers, [(row["name"], row["paused"], row["disabled"]) for row in p.console("show databases") if "1" in (row["paused"], row["disabled"])]

    theirs, ours = (work(p) for p in twins())
    assert ours == theirs


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_counts_are_those_of_clients_alone(twins, mode):
    """Two clients with settings of their own on one server: none of the pooler's own messages counts."""
    poolers = twins(mode=mode, settings={"default_pool_size": 2 if mode == "session" else 1})

    def work(p):
        with p.connect(options={"datestyle": "German"}) as a, p.connect() as b:
            for _ in range(2):
                for c in (a, b):
                    c.query("select 1")
                    c.query("set timezone to 'Asia/Tokyo'")
                    c.query("begin")
                    c.query("select 2")
                    c.query("commit")
                    c.send(wire.close("S", "s"), wire.parse("s", "select 3"), wire.bind("", "s"), wire.execute(), wire.sync())
                    c.read_ready()
                    c.query("select 1/0")

        def counts():
            row = next(row for row in p.console("show stats_totals") if row["database"] == "postgres")
            wanted = ("xact_count", "query_count", "client_parse_count", "bind_count", "client_login_count")
            return {name: int(row[name]) for name in wanted if name in row}

        return counts()

    theirs, ours = (work(p) for p in poolers)
    assert ours == theirs


def test_messages_that_the_pooler_answers_are_counted(twins):
    """A BEGIN, or an empty transaction, counts with all its bytes, whether or not a server has seen it."""

    def work(p):
        with p.connect() as c:
            c.query("select 1")
            for texts in (("begin", "select 2", "commit"), ("begin", "rollback")):
                for text in texts:
                    c.query(text)
            c.extended("begin")
            c.extended("commit")
            row = next(row for row in p.console("show stats_totals") if row["database"] == "postgres")
            return {name: row[name] for name in ("xact_count", "query_count", "bytes_received", "bytes_sent")}

    theirs, ours = (work(p) for p in twins())
    assert ours == theirs


# Columns that differ between any two poolers, and rows that count what each keeps in store.
OWN_COLUMNS = ("port", "local_port", "connect_time", "request_time", "wait_us", "maxwait_us", "ptr", "link", "remote_pid", "id")
OWN_ROWS = ("free_clients", "free_servers", "suspended")


@pytest.mark.parametrize("what", ["pools", "clients", "servers", "users", "lists", "databases", "state"])
def test_what_a_table_says(twins, what):
    """Two clients in transactions, one that waits, one that is idle, and one on the console."""

    def rows(p):
        named = ({"options": {"application_name": "first"}}, {}, {}, {"user": "alice"})
        clients = [p.connect(**more) for more in named]
        for c in clients[:2]:
            c.query("begin; select 1")
        clients[2].send(wire.query("select 1"))
        clients[3].query("select 1")
        p.wait_pool(cl_active=2, cl_waiting=1, sv_active=2)
        p.wait_pool(user="alice", sv_idle=1)
        table = p.console(f"show {what}")
        for c in clients:
            c.drop()
        kept = [{k: v for k, v in row.items() if k not in OWN_COLUMNS} for row in table if row.get("key") not in OWN_ROWS]
        return sorted((row for row in kept if row.get("list") not in OWN_ROWS), key=str)

    theirs, ours = (rows(p) for p in twins(settings={"default_pool_size": 2}))
    assert ours == theirs
