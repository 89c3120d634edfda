"""psycopg 3 through pgweir: binding, prepared statements, pipeline mode, COPY, cursors, large objects, cancel."""

import os
import threading
import time

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from report import SESSIONS, TRANSACTIONS, Report

TABLE = f"psycopg_driver_{os.getpid()}"


def connect(**named):
    named.setdefault("autocommit", True)
    return psycopg.connect("", **named)


def server_side_binding():
    with connect() as c:
        row = c.execute("select %s::int, %s::text, %s::bytea, %s", (1, "x", b"\0\xff", [1, 2])).fetchone()
        assert row == (1, "x", b"\0\xff", [1, 2])
        assert c.execute("select %b::int", (7,)).fetchone() == (7,)
        assert c.cursor(binary=True).execute("select now(), 1.5::numeric").fetchone()[1] == 1.5


def client_side_binding():
    with connect(cursor_factory=psycopg.ClientCursor) as c:
        assert c.execute("select %s, %s", ("it's", 3)).fetchone() == ("it's", 3)
        assert c.execute("select 1; select 2").nextset()


def prepared_at_once():
    with connect(prepare_threshold=0) as c:
        for i in range(20):
            assert c.execute("select %s::int + 1", (i,)).fetchone() == (i + 1,)
            assert c.execute("select %s::text", (str(i),)).fetchone() == (str(i),)


def prepared_after_some_uses():
    with connect(prepare_threshold=3) as c:
        for i in range(10):
            assert c.execute("select %s::int * 2", (i,)).fetchone() == (i * 2,)


def more_statements_than_are_kept():
    with connect(prepare_threshold=0) as c:
        c.prepared_max = 5
        for _ in range(3):
            for i in range(15):
                assert c.execute(f"select {i} + %s::int", (1,)).fetchone() == (i + 1,)


def deallocate_all():
    with connect(prepare_threshold=0) as c, connect(prepare_threshold=0) as other:
        for connection in (c, other):
            assert connection.execute("select %s::int", (1,)).fetchone() == (1,)
        # psycopg sees the tag DEALLOCATE ALL or DISCARD ALL and forgets its statements.
        for statement in ("deallocate all", "discard all"):
            c.execute(statement)
            assert c.execute("select %s::int", (2,)).fetchone() == (2,)
            assert other.execute("select %s::int", (3,)).fetchone() == (3,)


def failed_statement_is_not_prepared():
    with connect(prepare_threshold=0) as c:
        for _ in range(3):
            try:
                c.execute("select nonsense, %s", (1,))
            except psycopg.errors.UndefinedColumn:
                pass
            else:
                raise AssertionError("no error")
            assert c.execute("select %s::int", (1,)).fetchone() == (1,)


def pipeline():
    with connect() as c, c.pipeline() as p:
        cursors = [c.execute("select %s::int", (i,)) for i in range(300)]
        p.sync()
        assert [cursor.fetchone() for cursor in cursors] == [(i,) for i in range(300)]


def pipeline_with_prepared():
    with connect(prepare_threshold=0) as c:
        for _ in range(3):
            with c.pipeline():
                cursors = [c.execute("select %s::int + %s::int", (i, i)) for i in range(50)]
                assert [cursor.fetchone() for cursor in cursors] == [(2 * i,) for i in range(50)]


def pipeline_error():
    with connect(prepare_threshold=0) as c:
        try:
            with c.pipeline() as p:
                c.execute("select 1")
                c.execute("select 1/0")
                c.execute("select 2")
                p.sync()
        except psycopg.errors.DivisionByZero:
            pass
        else:
            raise AssertionError("no error")
        assert c.execute("select 3").fetchone() == (3,)


def pipeline_transaction():
    with connect(autocommit=False) as c:
        with c.pipeline():
            for i in range(20):
                c.execute(f"insert into {TABLE} values (%s, 'pipeline')", (i,))
        c.commit()
        assert c.execute(f"select count(*) from {TABLE} where b = 'pipeline'").fetchone() == (20,)
        c.execute(f"delete from {TABLE}")
        c.commit()


def executemany():
    with connect() as c:
        cursor = c.cursor()
        cursor.executemany(f"insert into {TABLE} values (%s, %s)", [(i, f"many {i}") for i in range(500)])
        assert c.execute(f"select count(*), sum(a) from {TABLE}").fetchone() == (500, 124750)
        cursor.executemany(f"delete from {TABLE} where a = %s returning b", [(i,) for i in range(500)], returning=True)
        assert cursor.fetchone() == ("many 0",)


def transactions():
    with connect(autocommit=False) as c:
        c.execute(f"insert into {TABLE} values (1, 'kept')")
        c.commit()
        c.execute(f"insert into {TABLE} values (2, 'lost')")
        c.rollback()
        assert c.execute(f"select a from {TABLE}").fetchall() == [(1,)]
        with c.transaction():
            try:
                with c.transaction():
                    c.execute(f"insert into {TABLE} values (3, 'lost')")
                    raise RuntimeError
            except RuntimeError:
                pass
            c.execute(f"insert into {TABLE} values (4, 'kept')")
        assert c.execute(f"select a from {TABLE} order by a").fetchall() == [(1,), (4,)]
        c.execute(f"delete from {TABLE}")
        c.commit()


def isolation_levels():
    with connect(autocommit=False) as c:
        c.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        c.read_only = True
        assert c.execute("show transaction_isolation").fetchone() == ("serializable",)
        c.rollback()
        c.isolation_level = c.read_only = None
        assert c.execute("show transaction_isolation").fetchone() == ("read committed",)
        c.rollback()


def two_phase_commit():
    with connect(autocommit=False) as c:
        xid = c.xid(1, f"pgweir-{TABLE}", "b")
        c.tpc_begin(xid)
        c.execute(f"insert into {TABLE} values (9, 'two-phase')")
        c.tpc_prepare()
        c.tpc_rollback()
        assert c.execute(f"select count(*) from {TABLE}").fetchone() == (0,)
        c.rollback()


def copy_in_and_out():
    with connect() as c:
        cursor = c.cursor()
        with cursor.copy(f"copy {TABLE} from stdin") as copy:
            for i in range(20000):
                copy.write_row((i, f"row {i}"))
        with cursor.copy(f"copy (select a, b from {TABLE} order by a) to stdout") as copy:
            assert sum(1 for _ in copy.rows()) == 20000
        c.execute(f"truncate {TABLE}")
        with cursor.copy(f"copy {TABLE} from stdin (format binary)") as copy:
            copy.set_types(["int4", "text"])
            for i in range(1000):
                copy.write_row((i, "binary"))
        assert c.execute(f"select count(*) from {TABLE} where b = 'binary'").fetchone() == (1000,)
        c.execute(f"truncate {TABLE}")


def copy_given_up():
    with connect() as c:
        for _ in range(3):
            try:
                with c.cursor().copy(f"copy {TABLE} from stdin") as copy:
                    copy.write_row((1, "x"))
                    raise RuntimeError("given up by the client")
            except RuntimeError:
                pass
            assert c.execute(f"select count(*) from {TABLE}").fetchone() == (0,)
        try:
            with c.cursor().copy("copy (select * from generate_series(1, 1000000)) to stdout") as copy:
                for _ in zip(range(10), copy):
                    pass
                raise RuntimeError("enough")
        except RuntimeError:
            pass
        assert c.execute("select 1").fetchone() == (1,)


def server_cursor():
    with connect(autocommit=False) as c:
        with c.cursor(name="named") as cursor:
            cursor.itersize = 100
            cursor.execute("select generate_series(1, 1000)")
            assert sum(row[0] for row in cursor) == 500500
        c.rollback()


def stream():
    with connect() as c:
        assert sum(row[0] for row in c.cursor().stream("select generate_series(1, 1000)")) == 500500
        assert c.execute("select 1").fetchone() == (1,)


def large_objects():
    with connect(autocommit=False) as c:
        data = os.urandom(200000)
        (oid,) = c.execute("select lo_from_bytea(0, %s)", (data,)).fetchone()
        (descriptor,) = c.execute("select lo_open(%s, %s)", (oid, 0x60000)).fetchone()
        parts = []
        while part := c.execute("select loread(%s, 50000)", (descriptor,)).fetchone()[0]:
            parts.append(part)
        assert b"".join(parts) == data
        c.execute("select lo_unlink(%s)", (oid,))
        c.commit()


def cancel():
    with connect() as c:
        for _ in range(3):
            timer = threading.Timer(0.4, c.cancel_safe)
            timer.start()
            started = time.monotonic()
            try:
                c.execute("select pg_sleep(20)")
            except psycopg.errors.QueryCanceled:
                pass
            else:
                raise AssertionError("not cancelled")
            timer.join()
            assert time.monotonic() - started < 5
            assert c.execute("select 1").fetchone() == (1,)


def notices():
    with connect() as c:
        got = []
        c.add_notice_handler(lambda diagnostic: got.append(diagnostic.message_primary))
        c.execute("do $$ begin raise notice 'hello'; end $$")
        assert got == ["hello"]


def errors():
    with connect() as c:
        try:
            c.execute(f"insert into {TABLE} (nonsense) values (1)")
        except psycopg.errors.UndefinedColumn as error:
            assert error.diag.sqlstate == "42703" and error.diag.source_function
        assert c.execute("select 1").fetchone() == (1,)


def row_factories_and_composed_sql():
    with connect(row_factory=dict_row) as c:
        statement = sql.SQL("select {} as {}").format(sql.Literal("x"), sql.Identifier("A b"))
        assert c.execute(statement).fetchone() == {"A b": "x"}


def many_connections():
    connections = [connect() for _ in range(30)]
    for number, c in enumerate(connections):
        assert c.execute("select %s::int", (number,)).fetchone() == (number,)
    for c in connections:
        c.close()


def newest_protocol():
    if psycopg.pq.version() >= 180000:
        with connect(max_protocol_version="latest") as c:
            assert c.execute("select 1").fetchone() == (1,)


def session_settings():
    with connect() as c:
        c.execute("set work_mem = '7MB'")
        assert c.execute("show work_mem").fetchone() == ("7MB",)


def listen_and_notify():
    with connect() as c, connect() as other:
        c.execute("listen pgweir_psycopg")
        for number in range(3):
            other.execute("select pg_notify('pgweir_psycopg', %s)", (str(number),))
            got = [n.payload for n in c.notifies(timeout=10, stop_after=1)]
            assert got == [str(number)], got


def temporary_table_and_held_cursor():
    with connect() as c:
        c.execute("create temp table of_session as select generate_series(1, 300) as a")
        with c.cursor(name="held", withhold=True) as cursor:
            cursor.itersize = 50
            cursor.execute("select a from of_session order by a")
            c.execute("insert into of_session values (301)")
            assert sum(row[0] for row in cursor) == 300 * 301 // 2
        assert c.execute("select count(*) from of_session").fetchone() == (301,)
    with connect() as c:
        assert c.execute("select to_regclass('of_session')").fetchone() == (None,)


def main():
    report = Report("psycopg")
    with connect() as c:
        c.execute(f"create table {TABLE} (a int, b text)")
    for check in (server_side_binding, client_side_binding, prepared_at_once, prepared_after_some_uses):
        report.check(check.__name__, check)
    for check in (more_statements_than_are_kept, deallocate_all, failed_statement_is_not_prepared):
        report.check(check.__name__, check)
    for check in (pipeline, pipeline_with_prepared, pipeline_error, executemany):
        report.check(check.__name__, check)
    if TRANSACTIONS:
        for check in (
            pipeline_transaction,
            transactions,
            isolation_levels,
            two_phase_commit,
            server_cursor,
            large_objects,
        ):
            report.check(check.__name__, check)
    for check in (copy_in_and_out, copy_given_up, stream, cancel, notices, errors, row_factories_and_composed_sql):
        report.check(check.__name__, check)
    for check in (many_connections, newest_protocol):
        report.check(check.__name__, check)
    if SESSIONS:
        for check in (session_settings, listen_and_notify, temporary_table_and_held_cursor):
            report.check(check.__name__, check)
    with connect() as c:
        c.execute(f"drop table {TABLE}")
    report.finish()


main()
