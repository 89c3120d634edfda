"""What SHOW STATS counts of the same scripts: a real PgBouncer 1.26, and pgweir.

Where pgweir differs, docs/migrating-from-pgbouncer.md says so.
"""

from __future__ import annotations

import contextlib
import re
import time

import pytest

from harness import wire
from harness.pooler import as_dicts, kind
from harness.waiting import eventually
from test_pgbouncer_same import pair  # noqa: F401

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

COUNTS = (
    "server_assignment_count", "xact_count", "query_count", "bytes_received", "bytes_sent", "client_parse_count",
    "server_parse_count", "bind_count", "client_login_count",
)  # fmt: skip
TIMES = ("xact_time", "query_time", "wait_time")
DATABASE = "postgres"


def totals(pooler, database: str = DATABASE) -> dict[str, int]:
    row = next(row for row in pooler.console("show stats_totals") if row["database"] == database)
    return {key: int(value) for key, value in row.items() if key != "database"}


def counted(pooler, script) -> dict[str, int]:
    """What a script adds. The server has been used before, so that nobody waits for it."""
    with pooler.connect() as c:
        c.query("select 1")
    pooler.wait_pool(cl_active=0, sv_idle=1)
    before = totals(pooler)
    with contextlib.ExitStack() as stack:
        script(lambda **named: stack.enter_context(pooler.connect(**named)))
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0, sv_tested=0, sv_login=0)
    after = totals(pooler)
    return {key: after[key] - before[key] for key in after}


def segment(c, *messages: bytes):
    c.send(*messages, wire.sync())
    return c.read_ready()


def run(name: str, *parameters) -> bytes:
    return wire.bind("", name, *parameters) + wire.execute()


# -- scripts


def simple_queries(client):
    c = client()
    for text in ("select 1", "select 1", "select 1; select 2; select 3", "", "begin; select 1; commit"):
        c.query(text)


def transactions(client):
    c = client()
    for _ in range(2):
        for text in ("begin", "select 1", "select 2", "commit"):
            c.query(text)
    for text in ("begin", "select 1", "rollback"):
        c.query(text)


def an_empty_transaction(client):
    c = client()
    for text in ("begin", "commit"):
        c.query(text)


def errors(client):
    c = client()
    for text in ("select 1/0", "selec 1", "begin", "select 1/0", "select 1", "rollback"):
        c.query(text)
    # No definition, after which pgweir would prepare statements again.
    for text in ("select 1/0", "selec 1"):
        c.extended(text)
    segment(c, wire.parse("bad", "selec 1"))
    segment(c, wire.parse("zero", "select 1/0"), run("zero"))
    segment(c, run("zero"))


def unnamed_statements(client):
    c = client()
    for _ in range(3):
        c.extended("select 1")
    segment(c, wire.parse("", "select 2"), run(""), run(""))


def a_sync_alone(client):
    segment(client())


def named_statements(client):
    c = client()
    segment(c, wire.parse("s", "select 1"))
    for _ in range(3):
        segment(c, run("s"))
    segment(c, wire.describe("S", "s"))
    segment(c, wire.parse("same text", "select 1"), run("same text"), run("s"))


def a_statement_is_closed(client):
    c = client()
    segment(c, wire.parse("s", "select 1"), run("s"))
    segment(c, wire.close("S", "s"))


def statements_of_several_clients(client):
    """Two texts, which three clients prepare under names that differ."""
    clients = [client() for _ in range(3)]
    for n, c in enumerate(clients):
        segment(c, wire.parse(f"one {n}", "select 1"), wire.parse(f"two {n}", "select 2"), run(f"one {n}"))
    for n, c in enumerate(clients):
        segment(c, run(f"two {n}"))


def a_statement_on_a_second_server(client):
    """The server that has prepared it is in another client's transaction."""
    a, b = client(), client()
    for c in (a, b):
        segment(c, wire.parse("s", "select 1"), run("s"))
    a.query("begin; select 1")
    segment(b, run("s"))
    a.query("commit")


def settings_of_two_clients(client):
    """One server, which gets the settings of one and of the other in turn."""
    a, b = client(options={"datestyle": "German"}), client()
    for _ in range(2):
        for c in (a, b):
            for text in ("select 1", "set timezone to 'Asia/Tokyo'", "select current_setting('datestyle')"):
                c.query(text)


def copies(client):
    c = client()
    c.query("copy (select generate_series(1, 100)) to stdout")


def queries_sent_together(client):
    c = client()
    texts = ("select 1", "select 2", "begin", "select 3", "commit")
    c.send(*map(wire.query, texts))
    for _ in texts:
        c.read_ready()


def logins(client):
    for user in ("postgres", "alice", "bob"):
        client(user=user)


SCRIPTS = {f.__name__.replace("_", " "): f for f in (
    simple_queries, transactions, an_empty_transaction, errors, unnamed_statements, a_sync_alone, named_statements,
    a_statement_is_closed, statements_of_several_clients, a_statement_on_a_second_server, settings_of_two_clients, copies,
    queries_sent_together, logins,
)}  # fmt: skip

CLOSE_COMPLETE = PARSE_COMPLETE = 5
# CommandComplete and ReadyForQuery, which a server sends for DISCARD ALL.
RESET = 23

# By how much pgweir's counts differ, and why; None: a test below says more.
NO_SERVER = {"server_assignment_count": -1}
# PgBouncer counts queries that are sent together as one.
TOGETHER = {"xact_count": None, "query_count": None}
IN_TRANSACTION_POOLING = {
    # pgweir answers what needs no server.
    "an empty transaction": NO_SERVER,
    # What no server has had is no transaction.
    "a sync alone": {**NO_SERVER, "xact_count": -1},
    # PgBouncer does not count a CloseComplete of its own.
    "a statement is closed": {**NO_SERVER, "xact_count": -1, "bytes_sent": CLOSE_COMPLETE},
    # PgBouncer counts what a server answers to messages of the pooler's.
    "a statement on a second server": {"bytes_sent": -PARSE_COMPLETE},
    "settings of two clients": {"bytes_sent": None, "server_assignment_count": None},
    "queries sent together": {**TOGETHER, "server_assignment_count": None},
}
IN_SESSION_POOLING = {
    "a sync alone": {**NO_SERVER, "xact_count": -1},
    # A server is asked about the settings of a login.
    "settings of two clients": {"bytes_sent": None, "server_assignment_count": 1},
    "queries sent together": TOGETHER,
}


def compare(theirs: dict, ours: dict, by: dict) -> None:
    print(theirs, ours, sep="\n")
    exact = [name for name in COUNTS if by.get(name, 0) is not None]
    assert {name: ours[name] for name in exact} == {name: theirs[name] + by.get(name, 0) for name in exact}


@pytest.mark.parametrize("script", SCRIPTS)
def test_counts_in_transaction_pooling(pg15, pair, script):  # noqa: F811
    size = 2 if "second server" in script else 1
    theirs, ours = (counted(p, SCRIPTS[script]) for p in pair(pg15, settings={"default_pool_size": size}))
    compare(theirs, ours, IN_TRANSACTION_POOLING.get(script, {}))


@pytest.mark.parametrize("script", SCRIPTS)
def test_counts_in_session_pooling(pg15, pair, script):  # noqa: F811
    theirs, ours = (counted(p, SCRIPTS[script]) for p in pair(pg15, mode="session", settings={"default_pool_size": 3}))
    # PgBouncer counts the answers to server_reset_query: each server that has had a client is reset.
    by = {"bytes_sent": -RESET * theirs["server_assignment_count"]}
    compare(theirs, ours, {**by, **IN_SESSION_POOLING.get(script, {})})


def test_queries_that_are_sent_together(pg15, pair):  # noqa: F811
    """Each has its ReadyForQuery, and counts; PgBouncer counts fewer."""
    theirs, ours = (counted(p, queries_sent_together) for p in pair(pg15))
    assert (ours["query_count"], ours["xact_count"]) == (5, 3)
    assert theirs["query_count"] < 5 and theirs["xact_count"] < 3


def test_when_a_transaction_counts(pg15, pair):  # noqa: F811
    """PgBouncer counts it when it begins, pgweir when it ends."""
    seen = []
    for p in pair(pg15):
        with p.connect() as c:
            c.query("select 1")
            counts = [totals(p)["xact_count"]]
            for text in ("begin; select 1", "commit"):
                c.query(text)
                counts.append(totals(p)["xact_count"])
        seen.append(counts)
    assert seen == [[1, 2, 2], [1, 1, 2]]


def test_messages_of_the_poolers_own_are_not_counted(pg15, pair):  # noqa: F811
    """Bytes are those that clients have sent and received; PgBouncer counts what a server answers to its own SET, too."""
    received = []

    def script(client):
        a, b = client(options={"datestyle": "German"}), client()
        received.clear()
        for c in (a, b, a, b):
            received.extend(c.query("select current_setting('datestyle')"))

    theirs, ours = (counted(p, script) for p in pair(pg15, settings={"default_pool_size": 1}))
    sent = sum(len(m.body) + 5 for m in received)
    assert (ours["bytes_sent"], ours["query_count"], ours["xact_count"]) == (sent, 4, 4)
    assert theirs["bytes_sent"] > sent
    # A server is asked about the setting of the login.
    assert (theirs["server_assignment_count"], ours["server_assignment_count"]) == (4, 5)


def test_times(pg15, pair):  # noqa: F811
    """A client waits for a server, and another one is idle in a transaction. Only pgweir's time of queries is without the wait."""
    waited = []

    def script(client):
        a, b = client(), client()
        a.query("begin; select 1")
        b.send(wire.query("select 1"))
        began = time.monotonic()
        time.sleep(2)
        waited.append((time.monotonic() - began) * 1e6)
        a.query("commit")
        b.read_ready()

    theirs, ours = (counted(p, script) for p in pair(pg15, settings={"default_pool_size": 1}))
    for of, least in zip((theirs, ours), waited, strict=True):
        # PgBouncer's clock stands still while it handles events.
        assert of["wait_time"] > 0.9 * least
        assert of["xact_time"] > 1.8 * least, "the wait is a part of the transaction, and so is the idle time"
    assert theirs["query_time"] > theirs["wait_time"]
    assert ours["query_time"] < ours["wait_time"]


def test_the_wait_of_a_login(pg15, pair):  # noqa: F811
    """The first login to a pool waits for a server. Both count that."""
    waits = []
    for p in pair(pg15):
        with p.connect():
            waits.append(totals(p)["wait_time"] > 0)
    assert waits == [True, True]


def test_statements_that_are_prepared_again(pg15, pair):  # noqa: F811
    """After a definition pgweir may prepare a statement again."""
    for p in pair(pg15, settings={"default_pool_size": 1}):
        with p.connect() as c:
            segment(c, wire.parse("s", "select 1"), run("s"))
            before = totals(p)["server_parse_count"]

            def is_prepared_again():
                c.query("create or replace function defined() returns int language sql as 'select 1'")  # noqa: B023
                segment(c, run("s"))  # noqa: B023
                return totals(p)["server_parse_count"] > before  # noqa: B023

            if p.which == "pgweir":
                eventually(is_prepared_again)
            else:
                assert not any(is_prepared_again() for _ in range(3))
            c.query("drop function defined()")


def test_the_row_of_the_console(pg15, pair):  # noqa: F811
    """PgBouncer counts one query for each login to the console, pgweir one for each command."""
    counts = []
    for p in pair(pg15):
        for _ in range(3):
            with p.connect(database="pgbouncer") as c:
                for command in ("show version", "show pools"):
                    c.query(command)
        row = totals(p, "pgbouncer")
        counts.append({key: row[key] for key in ("xact_count", "query_count", "client_login_count", "bytes_sent")})
    assert counts == [
        {"xact_count": 4, "query_count": 4, "client_login_count": 4, "bytes_sent": 0},
        {"xact_count": 7, "query_count": 7, "client_login_count": 4, "bytes_sent": 0},
    ]


# -- the other tables


def test_stats_and_totals_say_what_stats_totals_says(pg15, pair):  # noqa: F811
    """After a script with two databases and the console; SHOW TOTALS adds up."""
    words = {"bytes_received": "received", "bytes_sent": "sent"}
    names = []
    for p in pair(pg15):
        for database in ("postgres", "shop"):
            with p.connect(database=database) as c:
                statements_of_several_clients(lambda c=c: c) if database == "shop" else c.query("select 1")
        console = p.connect(database="pgbouncer")
        table = lambda what: as_dicts(console.query(f"show {what}"))  # noqa: B023, E731
        rows = {row["database"]: row for row in table("stats_totals")}
        stats = {row["database"]: row for row in table("stats")}
        assert rows.keys() == stats.keys() == {"postgres", "shop", "pgbouncer"}
        for database in ("postgres", "shop"):
            for key, value in rows[database].items():
                if key != "database":
                    assert stats[database][f"total_{words.get(key, key)}"] == value, (p.which, database, key)
        sums = {row["name"]: int(row["value"]) for row in table("totals")}
        clients = lambda key: sum(int(rows[d][key]) for d in ("postgres", "shop"))  # noqa: B023, E731
        for name in ("xact_count", "query_count", "server_assignment_count"):
            assert sums[f"total_{name}"] >= clients(name), p.which
        for name in ("client_parse_count", "server_parse_count", "bind_count"):
            assert sums[f"total_ps_{name}"] == clients(name), p.which
        names.append(list(sums))
        console.close()
    assert names[1] == names[0]


PERIOD_SECONDS = 1


def test_averages(pg15, pair):  # noqa: F811
    """Of the last period: counts for each second, times for each transaction, query and wait."""

    def script(p) -> dict[str, int]:
        before = totals(p)
        with p.connect() as c:
            for _ in range(20):
                c.query("begin; select 1")
                c.query("commit")
                segment(c, wire.parse("s", "select 1"), run("s"), wire.close("S", "s"))
        after = totals(p)
        return {name: after[name] - before[name] for name in after}

    # Bytes, because one query in more than a second is 0 queries in a second.
    idle = lambda p: averages(p)["bytes_received"] == "0"  # noqa: E731
    averages = lambda p: next(row for row in p.console("show stats_averages") if row["database"] == DATABASE)  # noqa: E731
    seen = []
    for p in pair(pg15, settings={"stats_period": PERIOD_SECONDS}):
        with p.connect() as c:
            c.query("select 1")
        # It may begin in one period and end in the next one: then once more.
        for _ in range(20):
            eventually(lambda p=p: idle(p), timeout=5 * PERIOD_SECONDS, what="a period without queries")
            work = script(p)
            eventually(lambda p=p: not idle(p), timeout=5 * PERIOD_SECONDS, what="averages")
            row = averages(p)
            rest = ("client_parse_count", "server_parse_count", "bind_count", "client_login_count")
            parses = {key: row[f"avg_{key}"] for key in rest}
            rates = {**{key: row[key] for key in COUNTS[:5]}, **parses}
            # A period may be longer than it should be.
            if all(0.6 * work[key] - 1 < int(value) * PERIOD_SECONDS <= work[key] for key, value in rates.items()):
                break
        else:
            raise AssertionError(f"{p.which}: {rates} after {work}")
        seen.append(work)
        for time_name, count_name in (("xact_time", "xact_count"), ("query_time", "query_count")):
            # In microseconds. Some of the work may have been in another period.
            each = work[time_name] / work[count_name]
            assert each / 4 <= int(row[time_name]) <= each * 4, (p.which, time_name)
        stats = next(r for r in p.console("show stats") if r["database"] == DATABASE)
        assert {f"avg_{key}" for key in ("recv", "sent", "xact_time", "query_time", "wait_time", "xact_count")} <= stats.keys()
    assert {name: seen[1][name] for name in COUNTS[:4]} == {name: seen[0][name] for name in COUNTS[:4]}


@pytest.mark.parametrize("logs", (0, 1))
def test_log_stats(pg15, pair, logs):  # noqa: F811
    """A line at the end of each stats_period, in the same words."""
    lines = []
    for p in pair(pg15, settings={"log_stats": logs, "stats_period": PERIOD_SECONDS}):
        rows = lambda p=p: p.console("show stats_averages")  # noqa: E731
        received = lambda: [int(r["bytes_received"]) for r in rows() if r["database"] == DATABASE]  # noqa: B023, E731
        with p.connect() as c:
            c.query("select 1")
        # The end of the query's period, and that of the next one.
        eventually(lambda: any(received()), timeout=5 * PERIOD_SECONDS)  # noqa: B023
        eventually(lambda: not any(received()), timeout=5 * PERIOD_SECONDS)  # noqa: B023
        found = re.findall(r" LOG (stats: .*)", p.log())
        lines.append({re.sub(r"\d+", "N", line) for line in found})
    assert lines[1] == lines[0]
    assert len(lines[0]) == logs
