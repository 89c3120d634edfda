"""A Parse that would have to wait for a server is answered without one, if the statement is known."""

import subprocess

import pytest
from pgthrow import client_program

from harness import wire
from harness.wire import NoReply, error_codes, rows_of

INT4 = 23


@pytest.fixture
def table(pg):
    pg.psql("drop table if exists parsed cascade; create table parsed (k int, v int); insert into parsed values (1, 10)")
    yield
    pg.psql("drop table if exists parsed cascade")


def prepare(c, name, text, types=()):
    c.send(wire.parse(name, text, list(types)), wire.sync())
    return c.read_ready(timeout=5)


def use(c, name, *values):
    c.send(wire.bind("", name, values), wire.execute(), wire.sync())
    return c.read_ready()


def busy(pooler, text, types=()):
    """A client that keeps the only server in a transaction, after another client has prepared this text."""
    with pooler.connect() as other:
        assert error_codes(prepare(other, "before", text, types)) == []
    keeper = pooler.connect()
    keeper.query("begin")
    keeper.value("select 1")
    return keeper


@pytest.mark.parametrize("types", ((), (INT4,)))
def test_the_client_goes_on_while_all_servers_are_at_work(pg, make_pooler, table, types):
    text = "select v from parsed where k = $1"
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    keeper = busy(pooler, text, types)
    with pooler.connect() as c:
        assert [m.tag for m in prepare(c, "own", text, types)] == ["1", "Z"]
        keeper.query("commit")
        assert rows_of(use(c, "own", "1")) == [("10",)]
        assert rows_of(use(c, "own", "1")) == [("10",)]
    keeper.close()


def test_open_types_are_those_of_the_first_use(pg, make_pooler, table):
    """The column changes its type between the Parse, which no server has seen, and the first use; and behind that."""
    text = "insert into parsed values (2, $1) returning v, pg_typeof($1)"
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    keeper = busy(pooler, text)
    with pooler.connect() as c:
        prepare(c, "own", text)
        keeper.query("commit")
        pg.psql("alter table parsed alter v type float4")
        assert rows_of(use(c, "own", "1.5")) == [("1.5", "real")]
        pg.psql("alter table parsed alter v type int4")
        # As with a server of its own: the parameter keeps its type, and the rows are not those of the first use.
        with pooler.connect() as other:
            prepare(other, "own", text)
            assert rows_of(use(other, "own", "7")) == [("7", "integer")]
    keeper.close()


def test_what_is_wrong_comes_at_the_first_use(pg, make_pooler, table):
    text = "select v from parsed where k = $1"
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    keeper = busy(pooler, text)
    with pooler.connect() as c:
        assert error_codes(prepare(c, "own", text)) == []
        keeper.query("commit")
        pg.psql("drop table parsed")
        assert error_codes(use(c, "own", "1")) == ["42P01"]
    keeper.close()


def test_the_setting_turns_it_off(pg, make_pooler, table):
    text = "select v from parsed where k = $1"
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "parse_without_server": 0})
    keeper = busy(pooler, text)
    with pooler.connect() as c:
        with pytest.raises(NoReply):
            prepare(c, "own", text)
        keeper.query("commit")
        assert error_codes(c.read_ready()) == []
    keeper.close()


@pytest.mark.parametrize("depth", ("1", "auto"))
def test_pgbench_prepares_while_its_connections_hold_all_servers(pg15, make_pooler, depth):
    """One thread of pgbench has 32 connections: it waits for the answer to a Parse while others of them are in
    transactions on the three servers."""
    pg15.psql("drop database if exists parsing")
    pg15.psql("create database parsing")
    pooler = make_pooler(pg15, settings={"default_pool_size": 3, "pipeline_depth": depth})
    pgbench = [client_program("pgbench"), "-h", pooler.host, "-p", str(pooler.port), "-U", "postgres"]
    subprocess.run([*pgbench, "-i", "-q", "parsing"], check=True, capture_output=True)
    done = subprocess.run(
        [*pgbench, "-n", "-M", "prepared", "-c", "32", "-j", "1", "-t", "20", "parsing"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "number of transactions actually processed: 640/640" in done.stdout, done.stdout
