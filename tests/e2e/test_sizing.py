"""`default_pool_size = auto`: the pooler finds out how many servers should work at once."""

import contextlib
import threading
import time

import pytest

from harness import wire
from harness.saturation import ratio_of_answers
from harness.waiting import eventually
from harness.wire import error_codes

AUTO = {"default_pool_size": "auto", "max_client_conn": 500}
# The limit at the beginning.
LIMIT = 8


def sizing(pooler) -> dict[str, str]:
    rows = pooler.console("SHOW SIZING")
    assert len(rows) == 1, rows
    return rows[0]


def several(pooler, count) -> list:
    return [pooler.connect() for _ in range(count)]


def in_block(c) -> None:
    c.send(wire.query("begin; select 1"))
    assert error_codes(c.read_ready()) == []


def test_clients_idle_in_transactions_cost_the_others_nothing(pg, make_pooler):
    """60 clients hold transactions open: with any fixed size below that, nobody else would get a server."""
    pooler = make_pooler(pg, settings=AUTO)
    holders = several(pooler, 60)
    for holder in holders:
        in_block(holder)
    assert (sizing(pooler)["held"], sizing(pooler)["working"]) == ("60", "0")
    with pooler.connect() as c:
        for step in range(100):
            assert c.value(f"select '{step}'") == str(step)
    # Whoever holds a server is never held back.
    waits = several(pooler, 20)
    for c in waits:
        c.send(wire.query("select pg_sleep(1)"))
    eventually(lambda: int(sizing(pooler)["waiting"]) >= 20 - LIMIT, timeout=1)
    began = time.monotonic()
    for holder in holders:
        holder.send(wire.query("commit"))
        assert error_codes(holder.read_ready()) == []
    assert time.monotonic() - began < 1
    for c in waits:
        assert error_codes(c.read_ready()) == []
        c.close()
    for holder in holders:
        holder.close()


def test_a_lock_never_waits_for_the_queue(pg, make_pooler):
    """More clients wait for one row's lock than the limit allows to work; its holder goes on and lets them go."""
    pooler = make_pooler(pg, settings=AUTO)
    with pooler.connect() as c:
        c.query("drop table if exists sized; create table sized (k int primary key, n int)")
        c.query("insert into sized values (1, 0)")
    holder = pooler.connect()
    holder.send(wire.query("begin; update sized set n = n + 1 where k = 1"))
    assert error_codes(holder.read_ready()) == []
    waits = several(pooler, 3 * LIMIT)
    for c in waits:
        c.send(wire.query("update sized set n = n + 1 where k = 1"))
    # They take far longer than usual, and do not count for ever: somebody else is served, too.
    with pooler.connect() as c:
        assert c.value("select 'served'") == "served"
    holder.send(wire.query("commit"))
    assert error_codes(holder.read_ready()) == []
    for c in waits:
        assert error_codes(c.read_ready()) == []
    with pooler.connect() as c:
        assert c.value("select n from sized") == str(3 * LIMIT + 1)


def test_slow_readers_stop_nobody(pg, make_pooler):
    """As many clients as may work at once ask for large results, and do not read them."""
    pooler = make_pooler(pg, settings={**AUTO, "sizing": "hold"})
    with pooler.connect() as c:
        for _ in range(20):
            assert c.value("select 'usual'") == "usual"
        slow = several(pooler, LIMIT)
        for reader in slow:
            reader.send(wire.query("select repeat('x', 1000) from generate_series(1, 200000)"))
        eventually(lambda: sizing(pooler)["working"] == str(LIMIT))
        waits = []
        for step in range(20):
            began = time.monotonic()
            assert c.value(f"select '{step}'") == str(step)
            waits.append(time.monotonic() - began)
        # The first may wait until the readers count as long; then nobody does.
        assert max(waits[1:]) < 0.25, waits
        eventually(lambda: sizing(pooler)["long"] == str(LIMIT))
    for reader in slow:
        reader.drop()
    eventually(lambda: sizing(pooler)["working"] == "0", timeout=20)


@contextlib.contextmanager
def crowd(pooler):
    """60 clients whose queries wait for 20 ms each: twice the servers do twice as much, so that the limit grows. They come
    back if their connection ends, until they are told to leave."""
    over = threading.Event()

    def work():
        while not over.is_set():
            with contextlib.suppress(OSError, wire.Closed, wire.ServerError), pooler.connect() as c:
                while not over.is_set():
                    c.send(wire.query("select pg_sleep(0.02)"))
                    assert error_codes(c.read_ready()) == []

    threads = [threading.Thread(target=work) for _ in range(60)]

    def leave():
        over.set()
        for thread in threads:
            thread.join()

    for thread in threads:
        thread.start()
    try:
        yield leave
    finally:
        leave()


def test_waiting_queries_get_more_servers(pg, make_pooler):
    """SHOW SIZING says why, and SHOW SIZING STEPS how it went."""
    pooler = make_pooler(pg, settings=AUTO)
    with crowd(pooler):
        eventually(lambda: int(sizing(pooler)["settled"]) >= 27, timeout=60)
        row = sizing(pooler)
        assert "more servers do" in row["reason"] or "workload changed" in row["reason"], row
        assert int(row["servers_max"]) < 1000
        # On the console the search stops, and goes on.
        pooler.console("SET sizing = 'hold'")
        held = sizing(pooler)
        assert held["sizing"] == "hold"
        time.sleep(1)
        assert sizing(pooler)["limit"] == held["limit"]
        steps = pooler.console("SHOW SIZING STEPS")
        assert (steps[0]["from"], steps[-1]["to"]) == (str(LIMIT), held["settled"])
        assert [step["from"] for step in steps[1:]] == [step["to"] for step in steps[:-1]]
        pooler.console("SET sizing = 'auto'")
        assert sizing(pooler)["sizing"] == "auto"
    assert "servers may work at once instead of" in pooler.log()


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_databases_share_the_limit_of_their_host_by_weight(pg, make_pooler, weights):
    """Two pools at one host, each with more clients than may work there at once."""
    pooler = make_pooler(
        pg,
        databases={
            name: f"host={pg.host} port={pg.port} user=postgres dbname=postgres weight={weight}"
            for name, weight in zip(("shop", "reports"), weights, strict=True)
        },
        settings={**AUTO, "sizing": "hold"},
    )
    ratio = ratio_of_answers(pooler, [{"database": "shop"}, {"database": "reports"}], clients=2 * LIMIT, answers=800)
    expected = weights[0] / weights[1]
    assert 0.75 * expected < ratio < 1.33 * expected


def test_what_the_server_allows_is_never_exceeded(pg, make_pooler):
    """Clients that hold transactions open get no more servers than pool_size_max; the others hear of it in time."""
    pooler = make_pooler(pg, settings={**AUTO, "pool_size_max": 5, "query_wait_timeout": 2})
    holders = several(pooler, 5)
    for holder in holders:
        in_block(holder)
    with pooler.connect() as c:
        c.send(wire.query("select 1"))
        assert error_codes([c.read(timeout=10)]) == ["57014"]
    assert sizing(pooler)["servers_max"] == "5"
    with pooler.connect() as c:
        holders[0].send(wire.query("commit"))
        assert error_codes(holders[0].read_ready()) == []
        assert c.value("select 'next'") == "next"
    for holder in holders:
        holder.close()


@pytest.mark.parametrize("clients", ["idle", "busy"])
def test_after_a_restart_of_postgresql_the_limit_begins_softly(own_cluster, make_pooler, clients):
    """It has grown before. Clients come back, and are served."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings=AUTO)
    with crowd(pooler) as leave:
        eventually(lambda: int(sizing(pooler)["settled"]) >= 2 * LIMIT, timeout=60)
        if clients == "idle":
            leave()
            eventually(lambda: sizing(pooler)["working"] == "0")
        cluster.restart()
        with pooler.connect() as c:
            assert c.value("select 'after'") == "after"
        steps = pooler.console("SHOW SIZING STEPS")
    [restart] = [step for step in steps if step["reason"] == "server restarted or replaced"]
    assert int(restart["from"]) > LIMIT and int(restart["to"]) == LIMIT
    told = f"{LIMIT} servers may work at once instead of {restart['from']}: server restarted or replaced"
    assert told in pooler.log()
    if clients == "idle":
        assert int(sizing(pooler)["settled"]) == LIMIT
