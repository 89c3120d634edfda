"""asyncpg through pgweir: statement cache, cursors, COPY, pool with its reset query, cancel by timeout."""

import asyncio
import io
import os
import time

import asyncpg

from report import SESSIONS, TRANSACTIONS, Report

TABLE = f"asyncpg_driver_{os.getpid()}"


async def connect(**named):
    return await asyncpg.connect(**named)


async def statement_cache():
    c = await connect()
    for i in range(30):
        assert await c.fetchval("select $1::int + 1", i) == i + 1
        assert await c.fetchval("select $1::text", str(i)) == str(i)
    await c.close()


async def small_statement_cache():
    c = await connect(statement_cache_size=3)
    for _ in range(3):
        for i in range(8):
            assert await c.fetchval(f"select {i} + $1::int", 1) == i + 1
    await c.close()


async def no_statement_cache():
    c = await connect(statement_cache_size=0)
    for i in range(10):
        assert await c.fetchval("select $1::int * 2", i) == i * 2
    await c.close()


async def explicit_prepare():
    c = await connect()
    statement = await c.prepare("select $1::int as a, $2::text as b")
    assert [p.name for p in statement.get_parameters()] == ["int4", "text"]
    assert [a.name for a in statement.get_attributes()] == ["a", "b"]
    for i in range(10):
        assert tuple(await statement.fetchrow(i, str(i))) == (i, str(i))
    named = await c.prepare("select 7", name="my statement")
    assert await named.fetchval() == 7
    await c.close()


async def simple_queries():
    c = await connect()
    assert await c.execute("select 1; select 2") == "SELECT 1"
    assert await c.execute(f"insert into {TABLE} values (1, 'x')") == "INSERT 0 1"
    assert await c.execute(f"delete from {TABLE}") == "DELETE 1"
    await c.close()


async def types():
    # Reading a type that asyncpg does not know makes it look the type up by a query of its own.
    c = await connect()
    await c.execute(f"drop type if exists {TABLE}_mood; create type {TABLE}_mood as enum ('sad', 'happy')")
    assert await c.fetchval(f"select 'happy'::{TABLE}_mood") == "happy"
    assert await c.fetchval(f"select array['sad', 'happy']::{TABLE}_mood[]") == ["sad", "happy"]
    assert await c.fetchval("select $1::jsonb", '{"a": 1}') == '{"a": 1}'
    assert (await c.fetchval("select row(1, 'x')"))[1] == "x"
    await c.execute(f"drop type {TABLE}_mood")
    await c.close()


async def executemany():
    c = await connect()
    await c.executemany(f"insert into {TABLE} values ($1, $2)", [(i, f"row {i}") for i in range(1000)])
    assert await c.fetchval(f"select count(*) from {TABLE}") == 1000
    try:
        await c.executemany(f"insert into {TABLE} values (1 / $1, 'x')", [(1,), (0,), (1,)])
    except asyncpg.DivisionByZeroError:
        pass
    else:
        raise AssertionError("no error")
    # All of an executemany is one implicit transaction.
    assert await c.fetchval(f"select count(*) from {TABLE}") == 1000
    await c.execute(f"truncate {TABLE}")
    await c.close()


async def transactions():
    c = await connect()
    async with c.transaction(isolation="serializable"):
        await c.execute(f"insert into {TABLE} values (1, 'kept')")
        try:
            async with c.transaction():
                await c.execute(f"insert into {TABLE} values (2, 'lost')")
                raise RuntimeError
        except RuntimeError:
            pass
    assert await c.fetch(f"select a from {TABLE}") == [(1,)]
    await c.execute(f"truncate {TABLE}")
    await c.close()


async def cursors():
    c = await connect()
    async with c.transaction():
        total = 0
        async for record in c.cursor("select generate_series(1, 1000)", prefetch=70):
            total += record[0]
        assert total == 500500
        cursor = await c.cursor("select generate_series(1, 100)")
        assert [r[0] for r in await cursor.fetch(3)] == [1, 2, 3]
        await cursor.forward(10)
        assert (await cursor.fetchrow())[0] == 14
    await c.close()


async def copy_in_and_out():
    c = await connect()
    await c.copy_records_to_table(TABLE, records=[(i, f"row {i}") for i in range(20000)])
    out = io.BytesIO()
    await c.copy_from_query(f"select * from {TABLE} order by a", output=out)
    assert out.getvalue().count(b"\n") == 20000
    out.seek(0)
    await c.execute(f"truncate {TABLE}")
    assert await c.copy_to_table(TABLE, source=out) == "COPY 20000"
    await c.execute(f"truncate {TABLE}")
    try:
        await c.copy_to_table(TABLE, source=io.BytesIO(b"x\ty\n"))
    except asyncpg.DataError:
        pass
    assert await c.fetchval(f"select count(*) from {TABLE}") == 0
    await c.close()


async def cancel_by_timeout():
    c = await connect()
    for _ in range(3):
        started = time.monotonic()
        try:
            await c.fetchval("select pg_sleep(20)", timeout=0.4)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError("not cancelled")
        assert time.monotonic() - started < 5
        assert await c.fetchval("select 1") == 1
    await c.close()


async def cancelled_task():
    c = await connect()
    task = asyncio.ensure_future(c.fetchval("select pg_sleep(20)"))
    await asyncio.sleep(0.3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    assert await c.fetchval("select 1") == 1
    await c.close()


async def pool_and_its_reset_query():
    # Each release sends "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;".
    async with asyncpg.create_pool(min_size=2, max_size=8) as pool:

        async def work(number):
            for i in range(10):
                async with pool.acquire() as c:
                    assert await c.fetchval("select $1::int + $2::int", number, i) == number + i

        await asyncio.gather(*(work(n) for n in range(16)))


async def notices():
    c = await connect()
    got = []
    c.add_log_listener(lambda _, message: got.append(message.message))
    await c.execute("do $$ begin raise notice 'hello'; end $$")
    await asyncio.sleep(0.05)
    assert got == ["hello"]
    await c.close()


async def errors():
    c = await connect()
    for _ in range(3):
        for statement, expected in (
            ("select nonsense", asyncpg.UndefinedColumnError),
            ("select 1 / $1::int", asyncpg.DivisionByZeroError),
        ):
            try:
                await (c.fetchval(statement, 0) if "$1" in statement else c.fetchval(statement))
            except expected:
                pass
            else:
                raise AssertionError("no error")
        assert await c.fetchval("select 1") == 1
    await c.close()


async def schema_change():
    # asyncpg hides 0A000 by itself outside a transaction.
    c, other = await connect(), await connect()
    await c.execute(f"create table {TABLE}_changed as select 1 as a")
    assert len(await c.fetchrow(f"select * from {TABLE}_changed")) == 1
    await other.execute(f"alter table {TABLE}_changed add b int")
    assert len(await c.fetchrow(f"select * from {TABLE}_changed")) == 2
    await other.execute(f"drop table {TABLE}_changed")
    await c.close()
    await other.close()


async def reset_keeps_the_connection_usable():
    c = await connect()
    assert await c.fetchval("select $1::int", 1) == 1
    await c.reset()
    assert await c.fetchval("select $1::int", 2) == 2
    await c.reload_schema_state()
    assert await c.fetchval("select $1::int", 3) == 3
    await c.close()


async def listen_and_notify():
    c = await connect()
    got = asyncio.Queue()
    await c.add_listener("pgweir_asyncpg", lambda *event: got.put_nowait(event[3]))
    await c.execute("notify pgweir_asyncpg, 'hello'")
    assert await asyncio.wait_for(got.get(), 5) == "hello"
    await c.close()


async def server_settings():
    c = await connect(server_settings={"application_name": "asyncpg driver", "timezone": "Asia/Tokyo"})
    assert await c.fetchval("show application_name") == "asyncpg driver"
    assert await c.fetchval("show timezone") == "Asia/Tokyo"
    await c.close()


def main():
    report = Report("asyncpg")
    run = lambda check: report.check(check.__name__, lambda: asyncio.run(asyncio.wait_for(check(), 60)))  # noqa: E731

    async def execute(statement):
        c = await connect()
        await c.execute(statement)
        await c.close()

    asyncio.run(execute(f"create table {TABLE} (a int, b text)"))
    for check in (statement_cache, small_statement_cache, no_statement_cache, explicit_prepare, simple_queries, types):
        run(check)
    for check in (executemany, copy_in_and_out, cancel_by_timeout, cancelled_task, notices, errors, schema_change):
        run(check)
    for check in (reset_keeps_the_connection_usable, server_settings):
        run(check)
    if TRANSACTIONS:
        for check in (transactions, cursors, pool_and_its_reset_query):
            run(check)
    if SESSIONS:
        run(listen_and_notify)
    asyncio.run(execute(f"drop table {TABLE}"))
    report.finish()


main()
