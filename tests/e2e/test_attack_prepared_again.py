"""The pooler prepares a statement again, and that fails: the client gets the error that it would get directly."""

import pytest

from harness.pooler import kind
from harness.wire import Connection, bind, describe, execute, parse, query, sync

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer does not prepare statements again")

BY_PARSE = parse("s1", "select /* by Parse */ * from waited_for") + sync()
BY_SQL = query("prepare q1 as select /* by SQL */ * from waited_for")


def runs(name):
    return bind("", name) + execute() + sync()


# How the statement is prepared, and how it is used on another server.
USES = {
    "Bind": (BY_PARSE, runs("s1")),
    "Describe": (BY_PARSE, describe("S", "s1") + runs("s1")),
    "Bind of a PREPARE": (BY_SQL, runs("q1")),
    "EXECUTE": (BY_SQL, query("execute q1")),
    "EXPLAIN EXECUTE": (BY_SQL, query("explain execute q1")),
    "EXECUTE of a Parse": (BY_PARSE, query("execute s1")),
    "EXECUTE by Parse": (BY_SQL, parse("", "execute q1") + runs("")),
    "EXECUTE by a named Parse": (BY_SQL, parse("x", "execute q1") + runs("x")),
    "EXECUTE of a Parse by Parse": (BY_PARSE, parse("", "execute s1") + runs("")),
}
TABLE = "drop table if exists waited_for; create table waited_for (a int)"


def refused(pg, port, how, block, prepares, uses):
    """The fields of the error, but for those that name PostgreSQL's source, and the last transaction status."""
    with Connection(port=pg.port) as other:
        other.query(TABLE)
        with Connection(port=port) as c, Connection(port=port) as holder:
            c.query("set lock_timeout = '200ms'")
            c.send(prepares)
            c.read_ready()
            # The server that has prepared the statement is in use.
            holder.query("begin")
            holder.query("select 1")
            other.query(how)
            if block:
                c.query("begin")
                c.query("savepoint s")
            c.send(uses)
            replies = c.read_ready()
            errors = [{k: v for k, v in m.fields.items() if k not in "FLR"} for m in replies if m.tag == "E"]
            return errors, replies[-1].body


@pytest.mark.parametrize("how", ["begin; lock table waited_for", "drop table waited_for"])
@pytest.mark.parametrize("block", [False, True])
def test_the_error_is_that_of_a_direct_connection(pg, make_pooler, how, block):
    """Guards against a place in a text that the client has not sent, and 25P02 instead of the error."""
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    for name, (prepares, uses) in USES.items():
        direct, pooled = (refused(pg, port, how, block, prepares, uses) for port in (pg.port, pooler.port))
        assert len(direct[0]) == 1
        assert pooled == direct, name
