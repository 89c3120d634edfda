"""LISTEN in transaction mode: who listens hears everything, once and in order, and keeps no server for it."""

import asyncio
import select
import threading
import time

import asyncpg
import psycopg
import pytest

from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not listen in transaction mode")

LISTENERS = "select count(*) from pg_stat_activity where application_name = 'pgweir listener'"


def connect(pooler, autocommit=True, **more):
    return psycopg.connect(
        host=pooler.host, port=pooler.port, user="postgres", dbname="postgres", autocommit=autocommit, **more
    )


def heard(connection, count, timeout=5.0):
    """Payloads of the next `count` notifications, as many as come in time."""
    return [n.payload for n in connection.notifies(timeout=timeout, stop_after=count)]


def heard_in_all(connection, seconds=0.3):
    return [n.payload for n in connection.notifies(timeout=seconds)]


def free_of_pins(pooler):
    eventually(lambda: pooler.console("SHOW PINS") == [], what="no client is pinned")


def listening(pooler, clients=1):
    """Clients listen through a listener, and have no server."""
    free_of_pins(pooler)
    eventually(lambda: sum(int(r["clients"]) for r in pooler.console("SHOW LISTENERS")) == clients, what="a listener")


def test_idle_listeners_keep_no_server(pg, make_pooler):
    """A hundred clients that listen, one server: it serves everybody, and all hear."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    clients = [connect(pooler) for _ in range(30)]
    for client in clients:
        client.execute("listen many")
    listening(pooler, 30)
    with connect(pooler) as other:
        for number in range(5):
            other.execute(f"notify many, '{number}'")
        assert [heard(c, 5) for c in clients] == [["0", "1", "2", "3", "4"]] * 30
        assert [heard_in_all(c, 0.01) for c in clients] == [[]] * 30
    row = pooler.console("SHOW LISTENERS")[0]
    assert (row["channels"], row["client_encoding"]) == ("1", "UTF8")
    for client in clients:
        client.close()
    eventually(lambda: pooler.console("SHOW LISTENERS")[0]["channels"] == "0")


def test_names_of_any_kind(pg, make_pooler):
    """Quotes, capitals, spaces, umlauts, 70 bytes; notifications carry the name as the server cut it."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    names = ['a"b', "Capital", "two words", "Grüße", "x" * 70, "'", "\\", "select", "pgweir; x"]
    with connect(pooler) as client, connect(pooler) as other:
        for name in names:
            client.execute('listen "' + name.replace('"', '""') + '"')
        listening(pooler)
        for name in names:
            other.execute("select pg_notify(%s, 'p')", [name[:63]])
        assert [n.channel for n in client.notifies(timeout=5, stop_after=len(names))] == [n[:63] for n in names]
        listed = {row[0] for row in client.execute("select pg_listening_channels()")}
        assert listed == {n[:63] for n in names}
        listening(pooler)
        other.execute("notify \"Grüße\", 'again'")
        assert heard(client, 1) == ["again"]


def test_client_encodings(pg, make_pooler):
    """Each hears in its own encoding, also when it changes."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with connect(pooler, client_encoding="latin1") as latin, connect(pooler) as utf8:
        for client in (latin, utf8):
            client.execute("listen grüße")
        eventually(lambda: [r["client_encoding"] for r in pooler.console("SHOW LISTENERS")] == ["UTF8"], what="a listener")
        eventually(lambda: len(pooler.console("SHOW PINS")) == 1, what="LATIN1 lacks letters of the database")
        utf8.execute("notify grüße, 'schön'")
        for client in (latin, utf8):
            assert [(n.channel, n.payload) for n in client.notifies(timeout=5, stop_after=1)] == [("grüße", "schön")]
        latin.execute("set client_encoding to 'utf8'")
        listening(pooler, 2)
        utf8.execute("notify grüße, '€'")
        assert [n.payload for n in latin.notifies(timeout=5, stop_after=1)] == ["€"]


def test_transactions(pg, make_pooler):
    """LISTEN and UNLISTEN take effect with their transaction, and savepoints count."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with connect(pooler) as client, connect(pooler) as other:

        def hears(*channels):
            free_of_pins(pooler)
            for channel in "abc":
                other.execute(f"notify {channel}, '{channel}'")
            other.execute("select 1")
            return heard_in_all(client) == list(channels)

        for statements, expected in [
            (["begin", "listen a", "rollback"], ""),
            (["begin", "listen a", "savepoint s", "listen b", "rollback to s", "commit"], "a"),
            (["begin", "select 1", "listen c", "commit"], "ac"),
            (["begin", "unlisten a", "rollback"], "ac"),
            (["begin", "select 1", "unlisten a", "rollback"], "ac"),
            (["begin", "select 1", "unlisten a", "listen b", "commit"], "bc"),
            (["unlisten b"], "c"),
            (["listen c; listen a"], "ac"),
            (["begin", "select 1", "unlisten *", "commit"], ""),
            (["listen a", "listen b"], "ab"),
            (["begin; unlisten *; rollback"], "ab"),
            (["discard all"], ""),
            (["do $$ begin execute 'listen b'; end $$"], "b"),
            (["select pg_advisory_unlock_all(); close all; unlisten *; reset all"], ""),
        ]:
            for statement in statements:
                client.execute(statement)
            assert hears(*expected), statements


@pytest.mark.parametrize("text, end", [
    ("commit; unlisten a; select 1 / 0", None),
    ("commit and chain; unlisten *", "rollback"),
    ("commit; begin; unlisten *; rollback", None),
    ("commit; unlisten a; discard all", None),
])
def test_an_unlisten_behind_a_commit_that_is_rolled_back(pg, make_pooler, text, end):
    """Guards against a COMMIT that ended channels whose UNLISTEN came behind it, and had no effect."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as client, pooler.connect() as other:
        for statement in ("listen a", "listen b"):
            client.rows(statement)
        listening(pooler)
        client.rows("begin")
        client.rows("select 1")
        client.query(text)
        if end:
            client.rows(end)
        listening(pooler)
        other.rows("notify a, 'still'")
        assert client.read().tag == "A"
        assert client.rows("select * from pg_listening_channels() order by 1") == [("a",), ("b",)]


def test_strings_that_end_with_a_backslash_replace_no_servers(pg, make_pooler):
    """Guards against each of them counting as a COMMIT PREPARED, once a transaction with a definition had one."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as client, pooler.connect() as listener:
        listener.rows("listen a")
        listening(pooler)
        client.rows(r"begin; create function bs_f() returns int language sql as 'select 1'; select 'C:\'; drop function bs_f(); commit")
        for _ in range(3):
            assert client.rows(r"select 'C:\'") == [("C:\\",)]
        assert "new sessions begin with other settings" not in pooler.log()


def test_own_notifications_come_before_ready(pg, make_pooler):
    """Recording E17, also when they come through a listener; and with the process id that the client knows."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with connect(pooler) as client:
        client.execute("listen own")
        listening(pooler)
        pid = client.info.backend_pid
        for number in range(50):
            seen = []
            client.add_notify_handler(seen.append)
            client.execute(f"select pg_notify('own', '{number}')" if number % 2 else f"notify own, '{number}'")
            client.remove_notify_handler(seen.append)
            assert [(n.payload, n.pid) for n in seen] == [(str(number), pid)]


def test_not_inside_a_transaction(pg, make_pooler):
    """What comes during a transaction is heard when it ends."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    with connect(pooler) as client, connect(pooler) as other:
        client.execute("listen patient")
        listening(pooler)
        seen = []
        client.add_notify_handler(lambda n: seen.append(n.payload))
        client.execute("begin")
        client.execute("select 1")
        other.execute("notify patient, '1'")
        time.sleep(0.2)
        client.execute("select 2")
        assert seen == []
        client.execute("commit")
        eventually(lambda: client.execute("select 1") and seen == ["1"])


@pytest.mark.parametrize("size", [1, 2])
def test_a_job_queue_loses_and_doubles_nothing(pg, make_pooler, size):
    """Workers that listen, work and listen anew while notifications pour in: each hears every one that was sent while it
    listened, in order and once."""
    pooler = make_pooler(pg, settings={"default_pool_size": size})
    senders, each = 3, 300
    failures = []
    ready = threading.Barrier(senders + 4)

    def send(sender):
        with connect(pooler) as connection:
            ready.wait()
            for number in range(each):
                connection.execute("select pg_notify('jobs', %s)", [f"{sender}:{number}"])

    def work(worker):
        seen = []
        with connect(pooler) as connection:
            connection.add_notify_handler(lambda n: seen.append(n.payload) if n.channel == "jobs" else None)
            connection.execute("listen jobs")
            ready.wait()
            deadline = time.monotonic() + 30
            turn = 0
            while len(seen) < senders * each and time.monotonic() < deadline:
                select.select([connection.fileno()], [], [], 0.005)
                turn += 1
                # Back to the server and to the listener again; and transactions in between.
                if turn % 7 == worker:
                    connection.execute(f"listen also_{turn % 3}")
                elif turn % 11 == worker:
                    connection.execute("unlisten also_1")
                elif turn % 5 == worker:
                    with connection.transaction():
                        connection.execute("select 1")
                else:
                    connection.execute("select 1")
        for sender in range(senders):
            got = [p for p in seen if p.startswith(f"{sender}:")]
            sent = [f"{sender}:{n}" for n in range(each)]
            if got != sent:
                failures.append({"worker": worker, "lost": sorted(set(sent) - set(got)), "heard": len(got)})

    threads = [threading.Thread(target=send, args=[n]) for n in range(senders)]
    threads += [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    stats = {r["name"]: int(r["count"]) for r in pooler.console("SHOW STATE_STATS")}
    assert stats["listens_moved"] > 4, "no client moved its channels under load"


def test_listener_lost(pg, make_pooler):
    """A listener that is terminated comes back, and those who listen hear that there was a gap."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with connect(pooler) as client, connect(pooler) as other:
        notices = []
        client.add_notice_handler(lambda d: notices.append(d.message_primary))
        client.execute("listen steady")
        listening(pooler)
        pg.psql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgweir listener'")
        eventually(lambda: client.execute("select 1") and notices == ["notifications may have been lost"])
        other.execute("notify steady, 'after'")
        assert heard(client, 1) == ["after"]
        assert len(notices) == 1


def test_a_client_that_does_not_read_is_closed(pg15, make_pooler):
    """Its notifications do not grow without bound, and the others hear theirs."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with connect(pooler) as deaf, connect(pooler) as good, connect(pooler) as other:
        deaf.execute("listen flood")
        good.execute("listen flood")
        listening(pooler, 2)
        rounds, each = 40, 100
        for number in range(rounds):
            other.execute(
                "select pg_notify('flood', %s || lpad(n::text, 7900)) from generate_series(1, 100) n", [str(number)]
            )
            assert len(heard(good, each)) == each
            if sum(int(r["clients"]) for r in pooler.console("SHOW LISTENERS")) == 1:
                break
        else:
            pytest.fail("the client that does not read is still there")
        with pytest.raises(psycopg.Error):
            for _ in range(rounds):
                list(deaf.notifies(timeout=1, stop_after=each))
                deaf.execute("select 1")
        assert other.execute("select 1").fetchone() == (1,)


def test_asyncpg_listeners(pg, make_pooler):
    """add_listener, remove_listener and the reset of its own pool."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    async def script():
        url = f"postgresql://postgres@{pooler.host}:{pooler.port}/postgres"
        connection = await asyncpg.connect(url)
        seen = asyncio.Queue()
        await connection.add_listener("news", lambda c, pid, channel, payload: seen.put_nowait((channel, payload)))
        other = await asyncpg.connect(url)
        for number in range(20):
            await other.execute("select pg_notify('news', $1)", str(number))
        got = [await asyncio.wait_for(seen.get(), 5) for _ in range(20)]
        assert got == [("news", str(n)) for n in range(20)]
        await connection.reset_listeners() if hasattr(connection, "reset_listeners") else None
        await connection.reset()
        await other.execute("notify news, 'unheard'")
        assert await connection.fetch("select pg_listening_channels()") == []
        await asyncio.sleep(0.1)
        assert seen.empty()
        await connection.close()
        await other.close()

    asyncio.run(script())


def test_pgbouncer_semantics_keep_no_listener(pg15, make_pooler):
    """session_state = pgbouncer: LISTEN stays on whatever server it ran."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "session_state": "pgbouncer"})
    with connect(pooler) as client:
        client.execute("listen a")
        assert pooler.console("SHOW LISTENERS") == []
        assert int(pg15.value(LISTENERS)) == 0 if hasattr(pg15, "value") else True
