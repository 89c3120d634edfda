"""What frameworks and drivers do to their sessions, on few servers that others scramble with `link = adversarial`.

psycopg and asyncpg are the real drivers (those of other languages: tests/drivers). Django, SQLAlchemy, Rails, Hibernate,
Npgsql, Flyway and the JDBC driver's login are here by the statements they send, as their sources and logs show them.
"""

import asyncio
import collections
import threading
import zlib

import asyncpg
import psycopg
import pytest

from harness import wire
from harness.pooler import Pooler, kind
from harness.scramblers import scramblers
from harness.waiting import eventually
from test_session_differential import DATABASE, prepared_cluster

pytestmark = pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer does not keep sessions")

TENANTS = {"one": "tenant_one", "two": '"tenant ""two"""'}


class Target:
    """Where the clients of a test connect to."""

    def __init__(self, pooler):
        self.pooler = pooler

    def psycopg(self, **named) -> psycopg.Connection:
        named = {"autocommit": True, **named}
        return psycopg.connect(self.pooler.dsn(dbname=DATABASE), **named)

    def wire(self, **options) -> wire.Connection:
        return self.pooler.connect(database=DATABASE, options=options)

    def asyncpg(self) -> dict:
        return {"host": self.pooler.host, "port": self.pooler.port, "user": "postgres", "database": DATABASE, "ssl": False}


@pytest.fixture(scope="module")
def target():
    cluster = prepared_cluster(15)
    settings = {
        "default_pool_size": 4,
        "reserve_pool_size": 6,
        "reserve_pool_timeout": 1,
        "link": "adversarial",
        "max_prepared_statements": 20,
        "ignore_startup_parameters": "",
    }
    with Pooler(cluster, settings=settings) as pooler:

        def neighbour():
            return psycopg.connect(pooler.dsn(dbname=DATABASE), autocommit=True, prepare_threshold=None)

        with scramblers(neighbour, pause=0.004):
            yield Target(pooler)


def in_threads(count, work):
    """Runs `work(number)` in threads; raises the first failure."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def one(connection, statement, parameters=None):
    return connection.execute(statement, parameters).fetchone()[0]


# ---- frameworks by their statements


def test_django(target):
    """Time zone and role at connect, savepoints of nested atomic blocks, a server-side cursor outside a transaction."""
    with target.psycopg(cursor_factory=psycopg.ClientCursor) as c:
        c.execute("SELECT set_config('TimeZone', 'America/Chicago', false)")
        c.execute('SET ROLE "session_bob"')
        for _ in range(4):
            assert one(c, "SHOW TimeZone") == "America/Chicago"
            assert one(c, "SELECT current_user") == "session_bob"
        # atomic() within atomic(), the inner one fails.
        c.autocommit = False
        c.execute('SAVEPOINT "s140_x1"')
        c.execute("SELECT set_config('app.user', '42', true)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            c.execute("SELECT 1/0")
        c.execute('ROLLBACK TO SAVEPOINT "s140_x1"')
        c.execute('RELEASE SAVEPOINT "s140_x1"')
        assert one(c, "SELECT coalesce(current_setting('app.user', true), '')") == ""
        c.commit()
        c.autocommit = True
        # iterator() in autocommit: a cursor that outlives its statement.
        c.execute('DECLARE "_django_curs_1" NO SCROLL CURSOR WITH HOLD FOR SELECT generate_series(1, 250)')
        total = 0
        while rows := c.execute('FETCH FORWARD 100 FROM "_django_curs_1"').fetchall():
            total += sum(row[0] for row in rows)
        c.execute('CLOSE "_django_curs_1"')
        assert total == 250 * 251 // 2
        c.execute("SET CONSTRAINTS ALL IMMEDIATE")
        c.execute("SET CONSTRAINTS ALL DEFERRED")


def test_sqlalchemy(target):
    """The first statements of a dialect, isolation levels, ROLLBACK when a connection goes back to its pool."""
    with target.psycopg(autocommit=False) as c:
        assert one(c, "select pg_catalog.version()").startswith("PostgreSQL")
        assert one(c, "select current_schema()") == "public"
        assert one(c, "show standard_conforming_strings") == "on"
        assert one(c, "show transaction isolation level") == "read committed"
        c.rollback()
        # An event listener that gives every connection its schema.
        c.execute("SET SESSION search_path = tenant_one")
        c.commit()
        for _ in range(3):
            assert one(c, "SELECT name FROM who") == "one"
            c.rollback()
        # execution_options(isolation_level="SERIALIZABLE")
        c.autocommit = True
        c.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        c.autocommit = False
        for _ in range(3):
            assert one(c, "show transaction_isolation") == "serializable"
            c.rollback()
        # A SET that goes with its transaction when the pool rolls back.
        c.execute("SET search_path = public")
        c.rollback()
        assert one(c, "SHOW search_path") == "tenant_one"


RAILS = (
    "SET client_min_messages TO 'warning'",
    "SET standard_conforming_strings = on",
    "SET intervalstyle = iso_8601",
    "SET SESSION timezone TO 'UTC'",
    "SET SESSION statement_timeout TO '35min'",
    "SET search_path TO tenant_one,public",
)


def test_rails(target):
    """The SETs of a new connection in one Query, prepared statements a1 and on, DEALLOCATE of the oldest, reset!."""
    with target.wire(client_encoding="unicode") as c:
        c.query(";".join(RAILS))
        for round in range(2):
            for number in range(1, 8):
                name = f"a{number}"
                c.send(wire.parse(name, f"SELECT name, $1::int + {number} FROM who LIMIT 1"), wire.describe("S", name))
                c.send(wire.sync())
                assert wire.error_codes(c.read_ready()) == []
                for _ in range(2):
                    c.send(wire.bind("", name, ["1"]), wire.execute(), wire.sync())
                    assert wire.rows_of(c.read_ready()) == [("one", str(number + 1))]
            c.query("BEGIN")
            c.query("SAVEPOINT active_record_1")
            assert wire.error_codes(c.query("SELECT nonsense")) == ["42703"]
            c.query("ROLLBACK TO SAVEPOINT active_record_1")
            c.query("RELEASE SAVEPOINT active_record_1")
            c.query("COMMIT")
            for number in range(1, 8):
                assert wire.error_codes(c.query(f"DEALLOCATE a{number}")) == []
            assert c.value("SHOW statement_timeout") == "35min"
            assert c.value("SHOW intervalstyle") == "iso_8601"
            # reset! between two uses of a connection.
            c.query("ROLLBACK")
            c.query("DISCARD ALL")
            assert c.value("SHOW intervalstyle") == "postgres"
            c.query(";".join(RAILS))


def test_jdbc_and_hibernate(target):
    """The JDBC driver's login and its statements of the unnamed and of named statements; a schema for each session."""
    with target.wire(client_encoding="UTF8", DateStyle="ISO", TimeZone="Europe/Zurich", extra_float_digits="2") as c:
        for statement in ("SET extra_float_digits = 3", "SET application_name = 'PostgreSQL JDBC Driver'"):
            c.send(wire.parse("", statement), wire.bind(), wire.execute("", 1), wire.sync())
            assert wire.command_tags(c.read_ready()) == ["SET"]
        assert c.parameters["application_name"] == "PostgreSQL JDBC Driver"
        # Connection.setSchema(), then setAutoCommit(false): BEGIN goes with the first statement.
        assert wire.command_tags(c.extended("SET SESSION search_path TO 'tenant_one'")) == ["SET"]
        for use in range(8):
            c.send(wire.parse("", "BEGIN"), wire.bind(), wire.execute())
            name = "" if use < 4 else "S_1"
            if use <= 4:
                c.send(wire.parse(name, "select name, 0.1::float4::float8 from who where $1 = 1", [23]))
            c.send(wire.bind("", name, ["1"]), wire.describe("P"), wire.execute(), wire.sync())
            assert wire.rows_of(c.read_ready()) == [("one", "0.10000000149011612")]
            # Hibernate's lock timeout, and its reading back of what a sequence gave.
            assert wire.command_tags(c.extended("set local lock_timeout = 4321")) == ["SET"]
            drawn = c.value("select nextval('public.counted_id_seq')")
            assert c.value("select currval('public.counted_id_seq')") == drawn
            c.send(wire.parse("S_2", "COMMIT") if use == 0 else b"", wire.bind("", "S_2"), wire.execute(), wire.sync())
            assert wire.command_tags(c.read_ready()) == ["COMMIT"]
            assert c.value("show lock_timeout") == "0"
            assert c.value("show timezone") == "Europe/Zurich"


NPGSQL_RESET = (
    "SET SESSION AUTHORIZATION DEFAULT",
    "RESET ALL",
    "CLOSE ALL",
    "UNLISTEN *",
    "SELECT pg_advisory_unlock_all()",
    "DISCARD SEQUENCES",
    "DISCARD TEMP",
)


def test_npgsql(target):
    """A reset sent ahead of the next use's statement in one write; prepared statements outlive it, DISCARD ALL ends them."""
    with target.wire(client_encoding="UTF8", application_name="npgsql") as c:
        c.send(wire.query("set search_path = tenant_one"), wire.parse("_p1", "select name from who"), wire.sync())
        assert wire.error_codes(c.read_ready(2)) == []
        for round in range(4):
            c.query("set search_path = tenant_one")
            c.query("create temp table work (a int)")
            c.query("set work_mem = '3MB'")
            c.query("select pg_advisory_lock(66001)")
            assert c.value("select count(*) from work") == "0"
            resets = [wire.query(s) for s in NPGSQL_RESET]
            c.send(*resets, *(wire.one_statement("set search_path = tenant_one"), wire.sync()))
            c.send(wire.bind("", "_p1"), wire.execute(), wire.sync())
            replies = c.read_ready(len(resets) + 2)
            assert wire.rows_of(replies)[-1] == ("one",)
            assert c.value("show work_mem") == "4MB"
            assert wire.error_codes(c.query("select * from work")) == ["42P01"]
            assert c.value("show application_name") == "npgsql"
        c.send(wire.query("DISCARD ALL"), wire.bind("", "_p1"), wire.execute(), wire.sync())
        assert wire.error_codes(c.read_ready(2)) == ["26000"]


def test_rails_migrations_under_an_advisory_lock(target):
    """A failed try-lock must not leave a lock behind, and the lock must hold over several transactions."""
    key = 2053462845 * zlib.crc32(b"session_state")
    ran = []

    def migrate(number):
        with target.psycopg() as c:
            while not one(c, f"SELECT pg_try_advisory_lock({key})"):
                c.execute("SELECT pg_sleep(0.02)")
            with c.transaction():
                c.execute(f"CREATE TABLE migrating (a int default {number})")
            ran.append(number)
            c.execute("SET search_path = tenant_one")
            with c.transaction():
                c.execute("DROP TABLE public.migrating")
            assert one(c, f"SELECT pg_advisory_unlock({key})")

    in_threads(4, migrate)
    assert sorted(ran) == [0, 1, 2, 3]
    with target.psycopg() as c:
        assert one(c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", (key & 0xFFFFFFFF,)) == 0


def test_flyway_migrations(target):
    """One connection holds the lock, another does the work; who waits for the lock goes on when it is given back."""
    with target.psycopg() as c:
        c.execute("DROP TABLE IF EXISTS flyway_schema_history")
        c.execute("CREATE TABLE flyway_schema_history (version int primary key, by int)")

    def migrate(number):
        with target.psycopg() as lock, target.psycopg(autocommit=False) as work:
            lock.execute("SELECT pg_advisory_lock(77431070091)")
            work.execute("SET ROLE postgres")
            work.execute("SET search_path = public, tenant_one")
            (version,) = work.execute("SELECT count(*) FROM flyway_schema_history").fetchone()
            work.execute("INSERT INTO flyway_schema_history VALUES (%s, %s)", (version + 1, number))
            work.commit()
            assert one(work, "SHOW search_path") == "public, tenant_one"
            work.rollback()
            assert one(lock, "SELECT pg_advisory_unlock(77431070091)")

    in_threads(3, migrate)
    with target.psycopg() as c:
        assert one(c, "SELECT array_agg(version ORDER BY version) FROM flyway_schema_history") == [1, 2, 3]


def test_job_queue_with_listen(target):
    """Every job is done once, by workers that wait for a notification and take jobs with SKIP LOCKED."""
    jobs = 40
    done = collections.Counter()
    finished = threading.Event()
    with target.psycopg() as c:
        c.execute("DROP TABLE IF EXISTS jobs")
        c.execute("CREATE TABLE jobs (id int primary key)")
    listening = threading.Barrier(4)

    def worker():
        with target.psycopg() as c:
            c.execute("LISTEN jobs")
            listening.wait(20)
            while not finished.is_set():
                with c.transaction():
                    taken = c.execute(
                        "DELETE FROM jobs WHERE id = (SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
                    ).fetchone()
                if taken:
                    done[taken[0]] += 1
                else:
                    # Only a notification wakes it: one that is lost leaves a job behind.
                    for _ in c.notifies(timeout=20, stop_after=1):
                        pass
            c.execute("UNLISTEN *")

    def producer():
        listening.wait(20)
        with target.psycopg() as c:
            for job in range(jobs):
                with c.transaction():
                    c.execute("INSERT INTO jobs VALUES (%s)", (job,))
                    c.execute("NOTIFY jobs")
            try:
                eventually(lambda: len(done) == jobs, timeout=15, what=lambda: f"{jobs} jobs done; {len(done)} are")
            finally:
                finished.set()
                c.execute("NOTIFY jobs")

    in_threads(4, lambda number: producer() if number == 0 else worker())
    assert done == collections.Counter(range(jobs))


# ---- drivers


def test_asyncpg_pool(target):
    """What a user of the pool set is gone for the next one, by asyncpg's reset query; prepared statements stay."""

    async def main():
        seen = collections.Counter()

        async def initialise(c):
            await c.execute("set session characteristics as transaction isolation level repeatable read")

        settings = {"application_name": "the pool", "search_path": "tenant_one"}
        async with asyncpg.create_pool(
            min_size=3, max_size=3, server_settings=settings, init=initialise, **target.asyncpg()
        ) as pool:

            async def work(number):
                for _ in range(5):
                    async with pool.acquire() as c:
                        assert await c.fetchval("show search_path") == "tenant_one"
                        assert await c.fetchval("show work_mem") == "4MB"
                        assert await c.fetchval("select coalesce(nullif(current_setting('app.tenant', true), ''), '-')") == "-"
                        await c.execute(f"set work_mem = '{number + 5}MB'")
                        await c.execute(f"set app.tenant = 'tenant {number}'")
                        await c.execute('set search_path = "tenant ""two"""')
                        assert await c.fetchval("select name from who where $1 = 1", 1) == "two"
                        await c.fetchval("select pg_advisory_lock($1)", 77000 + number)
                        await c.execute("create temp table if not exists work (a int) on commit delete rows")
                        assert await c.fetchval("show work_mem") == f"{number + 5}MB"
                        await c.execute("drop table work")
                        seen[await c.fetchval("show application_name")] += 1

            await asyncio.gather(*(work(n) for n in range(6)))
        assert seen == {"the pool": 30}

    asyncio.run(asyncio.wait_for(main(), 60))


def test_asyncpg_listener(target):
    """Notifications reach the listener's callback while it is idle, in order, and none after it has been removed."""

    async def main():
        got = []
        c = await asyncpg.connect(**target.asyncpg())
        other = await asyncpg.connect(**target.asyncpg())

        def heard(_connection, _pid, channel, payload):
            got.append((channel, payload))

        await c.add_listener("news", heard)
        for number in range(10):
            await other.execute("select pg_notify('news', $1)", str(number))
            assert await c.fetchval("select $1::int", number) == number
        for _ in range(100):
            if len(got) == 10:
                break
            await asyncio.sleep(0.05)
        assert got == [("news", str(n)) for n in range(10)]
        await c.remove_listener("news", heard)
        await other.execute("notify news, 'too late'")
        await c.fetchval("select 1")
        await asyncio.sleep(0.1)
        assert len(got) == 10
        await c.close()
        await other.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_multi_tenant_search_path(target):
    """Under load, with search_path, role and a custom setting for each tenant: never a row of the wrong tenant."""

    def work(number):
        with target.psycopg(prepare_threshold=2) as c:
            for round in range(12):
                tenant = ("one", "two")[(number + round) % 2]
                c.execute(f"SET search_path = {TENANTS[tenant]}")
                c.execute("SELECT set_config('app.tenant', %s, false)", (tenant,))
                for _ in range(3):
                    row = c.execute("SELECT name, current_setting('app.tenant') FROM who WHERE %s = 1", (1,)).fetchone()
                    assert row == (tenant, tenant)
                other = ("two", "one")[(number + round) % 2]
                # For one transaction only, as multi-tenant libraries do; half of them fail.
                try:
                    with c.transaction():
                        c.execute(f"SET LOCAL search_path = {TENANTS[other]}")
                        assert one(c, "SELECT name FROM who") == other
                        if round % 2:
                            c.execute("SELECT 1/0")
                except psycopg.errors.DivisionByZero:
                    pass
                assert one(c, "SELECT name FROM who") == tenant

    in_threads(6, work)
