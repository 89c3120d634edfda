"""The queue for servers: `fair_by`, `weight`, `queue_target`, and that one client cannot hold up the others."""

import contextlib
import subprocess
import threading
import time

import pytest
from pgthrow import client_program

from harness import wire
from harness.saturation import ratio_of_answers
from harness.waiting import eventually
from harness.wire import copy_data, error_codes, first_error, query, rows_of

# What the client that has used the server has used, in seconds.
USED = 0.4
# Others wait no longer than this, in seconds; a client that holds them up does so for far longer.
LONGEST_WAIT = 1.0
NOW = "select extract(epoch from clock_timestamp())"


def told(c) -> float:
    """The time in a client's answer."""
    return float(rows_of(c.read_ready())[0][0])


def waiting(pooler) -> int:
    return int(pooler.pool()["cl_waiting"])


def one_server(cluster, make_pooler, **settings):
    return make_pooler(cluster, settings={"default_pool_size": 1, **settings})


def serves_the_newcomer_first(pooler, before_it_is_free=lambda: None) -> bool:
    """A client that has used the only server queues before one that has not. Returns whether the latter is served first."""
    greedy, newcomer, holder, other = (pooler.connect() for _ in range(4))
    greedy.send(query(f"select pg_sleep({USED})"))
    other.send(query("select 1"))
    holder.send(query("begin; select 1"))
    for c in (greedy, other, holder):
        assert error_codes(c.read_ready()) == []
    greedy.send(query(NOW))
    eventually(lambda: waiting(pooler) == 1)
    newcomer.send(query(NOW))
    eventually(lambda: waiting(pooler) == 2)
    before_it_is_free()
    holder.send(query("commit"))
    first = told(newcomer) < told(greedy)
    for c in (greedy, newcomer, holder, other):
        c.close()
    return first


@pytest.mark.parametrize("fair_by", ["client", "off"])
def test_who_has_used_less_is_served_first(pg15, make_pooler, fair_by):
    pooler = one_server(pg15, make_pooler, fair_by=fair_by)
    assert serves_the_newcomer_first(pooler) == (fair_by == "client")


def test_reload_changes_the_order_of_those_that_wait(pg15, make_pooler):
    pooler = one_server(pg15, make_pooler, fair_by="client")

    def change(fair_by):
        pooler.settings["fair_by"] = fair_by
        pooler.write_ini()
        pooler.console("RELOAD")

    assert not serves_the_newcomer_first(pooler, lambda: change("off"))
    change("client")
    assert serves_the_newcomer_first(pooler)


@pytest.mark.parametrize("fair_by", ["client", "user"])
def test_clients_that_connect_for_each_transaction_keep_nobody_waiting(pg15, make_pooler, fair_by, tmp_path):
    """Each of them is new to the queue. The client that stays uses more server time at once than they do."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2, "fair_by": fair_by})
    script = tmp_path / "script.sql"
    script.write_text("select pg_sleep(0.005);\n")
    command = [client_program("pgbench"), "-n", "-C", "-c", "16", "-T", "12", "-f", str(script), "-h", pooler.host,
               "-p", str(pooler.port), "-U", "postgres", "postgres"]
    with pooler.connect() as stays, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as others:
        eventually(lambda: waiting(pooler) > 4, timeout=8)
        answers, begun = 0, time.monotonic()
        while time.monotonic() < begun + 5:
            stays.query("select pg_sleep(0.1)")
            answers += 1
        assert others.poll() is None, "pgbench must be at work"
        others.terminate()
    # Alone it would get 50, in order of arrival 30, and an equal share is 6.
    assert answers >= 3


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_users_share_server_time_by_weight(pg15, make_pooler, weights):
    """Two users in one pool, each with more clients than there are servers."""
    pooler = make_pooler(
        pg15,
        databases={"*": f"host={pg15.host} port={pg15.port} user=postgres"},
        users={user: f"weight={weight}" for user, weight in zip(("alice", "bob"), weights, strict=True)},
        settings={"default_pool_size": 2, "fair_by": "user"},
    )
    ratio = ratio_of_answers(pooler, [{"user": "alice"}, {"user": "bob"}], clients=5, answers=400)
    expected = weights[0] / weights[1]
    assert 0.75 * expected < ratio < 1.33 * expected


def test_clients_are_refused_early_where_all_would_wait_too_long(pg15, make_pooler):
    pooler = one_server(pg15, make_pooler, queue_target="0.3")
    holder = pooler.connect()
    holder.send(query("begin; select 1"))
    assert error_codes(holder.read_ready()) == []
    clients = [pooler.connect() for _ in range(40)]
    for c in clients:
        c.send(query("select pg_sleep(0.05)"))
    eventually(lambda: waiting(pooler) == 40)
    # Who has begun a transaction is never refused.
    holder.send(query("commit"))
    assert error_codes(holder.read_ready()) == []
    refused = []
    for c in clients:
        messages = c.read_ready(timeout=20)
        if error := first_error(messages):
            refused.append((c, error.fields))
    assert 5 < len(refused) < 40, len(refused)
    for c, fields in refused:
        assert (fields["S"], fields["C"]) == ("ERROR", "53300"), fields
        assert fields["M"] == "too many clients wait for a server"
        assert "It was the last of" in fields["D"] and "ms." in fields["D"], fields
        assert "queue_target" in fields["H"], fields
        # It stays connected, and may ask again.
        assert c.value("select 'again'") == "again"
    counts = {row["name"]: row["count"] for row in pooler.console("SHOW STATE_STATS")}
    assert counts["refused_early"] == str(len(refused))
    for c in (*clients, holder):
        c.close()


def test_a_burst_is_not_refused(pg15, make_pooler):
    """More clients at once than are served within queue_target, but the queue shrinks by itself."""
    pooler = one_server(pg15, make_pooler, queue_target="5")
    clients = [pooler.connect() for _ in range(60)]
    for c in clients:
        c.send(query("select pg_sleep(0.01)"))
    for c in clients:
        assert error_codes(c.read_ready(timeout=20)) == []
        c.close()


# ---- one client beside the others


@contextlib.contextmanager
def slow_reader(pooler):
    """Asks for 200 MB and reads none of it."""
    c = pooler.connect()
    c.send(query("select repeat('x', 1000) from generate_series(1, 200000)"))
    yield
    c.drop()


@contextlib.contextmanager
def huge_result(pooler):
    """Asks for 30 MB, again and again, and reads all of it."""
    over = threading.Event()

    def read():
        with pooler.connect() as c:
            while not over.is_set():
                assert error_codes(c.query("select repeat('x', 10000) from generate_series(1, 3000)", timeout=60)) == []

    thread = threading.Thread(target=read)
    thread.start()
    yield
    over.set()
    thread.join()


@contextlib.contextmanager
def slow_copy(pooler):
    """Sends COPY data a line at a time, and waits in between."""
    c = pooler.connect()
    c.query("create table if not exists slowly (v text)")
    c.send(query("copy slowly from stdin"))
    c.read_until("G")
    over = threading.Event()

    def send():
        while not over.wait(0.05):
            c.send(copy_data(b"a line\n"))

    thread = threading.Thread(target=send)
    thread.start()
    yield
    over.set()
    thread.join()
    c.send(wire.copy_fail("enough"))
    assert error_codes(c.read_ready()) == ["57014"]
    c.close()


@contextlib.contextmanager
def idle_transaction(pooler):
    with pooler.connect() as c:
        c.send(query("begin; select 1"))
        assert error_codes(c.read_ready()) == []
        yield


@contextlib.contextmanager
def pinned_session(pooler):
    with pooler.connect() as c:
        c.query("create temp table mine (v int)")
        eventually(lambda: len(pooler.console("SHOW PINS")) == 1)
        yield


@contextlib.contextmanager
def login_storm(pooler):
    """Connects and disconnects all the time."""
    over = threading.Event()

    def connect():
        while not over.is_set():
            with contextlib.suppress(OSError):
                pooler.connect().drop()

    threads = [threading.Thread(target=connect) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("size", [2, "auto"])
@pytest.mark.parametrize(
    "nuisance", [slow_reader, huge_result, slow_copy, idle_transaction, pinned_session, login_storm]
)
def test_one_client_does_not_hold_up_the_others(pg15, make_pooler, nuisance, size):
    pooler = make_pooler(pg15, settings={"default_pool_size": size, "max_client_conn": 500})
    with nuisance(pooler):
        clients = [pooler.connect() for _ in range(6)]
        waits = []
        for step in range(30):
            began = time.monotonic()
            for number, c in enumerate(clients):
                c.send(query(f"select '{step}.{number}'"))
            for number, c in enumerate(clients):
                assert rows_of(c.read_ready()) == [(f"{step}.{number}",)]
            waits.append(time.monotonic() - began)
        for c in clients:
            c.close()
    assert max(waits) < LONGEST_WAIT, waits
