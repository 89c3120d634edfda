"""A Query whose commit fails: a DEALLOCATE at its end stays in effect, and no command tag tells of it."""

import pytest

from harness.pooler import kind
from harness.scenes import backend_pid
from harness.wire import Connection, bind, error_codes, execute, parse, query, rows_of, sync

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer does not prepare statements again")

# The deferred constraint fails when the Query commits, behind its last statement.
TABLE = "drop table if exists of_commit; create table of_commit (a int unique deferrable initially deferred)"
FAILS = "insert into of_commit values (1), (1)"


def prepares(c, name, text):
    c.send(parse(name, text), sync())
    assert error_codes(c.read_ready()) == []


def uses(c, name):
    c.send(bind("", name), execute(), sync())
    return c.read_ready()


@pytest.mark.parametrize("session_state", ["full", "pgbouncer"])
@pytest.mark.parametrize("has_names", [False, True])
@pytest.mark.parametrize("in_block", [False, True])
def test_nobody_loses_statements_by_anothers_commit_that_fails(pg, make_pooler, session_state, has_names, in_block):
    """In a transaction block, too, where the error would end the victim's transaction."""
    pg.psql(TABLE)
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "session_state": session_state})
    with pooler.connect() as attacker, pooler.connect() as victim:
        prepares(victim, "s1", "select 1")
        assert rows_of(uses(victim, "s1")) == [("1",)]
        server = backend_pid(victim)
        if has_names:
            prepares(attacker, "s1", "select 2")
            assert rows_of(uses(attacker, "s1")) == [("2",)]
        assert error_codes(attacker.query(f"{FAILS}; deallocate all")) == ["23505"]
        assert backend_pid(attacker) == server, "what the attacker has ended was the victim's, too"
        if in_block:
            victim.query("begin")
        assert rows_of(uses(victim, "s1")) == [("1",)]


# The last statement, and whether the client's statement is gone when the Query has failed.
LAST = [
    (f"{FAILS}; deallocate all", True),
    (f"{FAILS}; deallocate s1", True),
    (f"select 1; {FAILS}; deallocate prepare s1", True),
    ("select 1/0; deallocate all", False),
    ("select 1/0; deallocate s1", False),
    ("select 1; deallocate nosuch", False),
]


@pytest.mark.parametrize("text,gone", LAST)
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_client_loses_the_statements_that_it_would_lose_directly(pg, make_pooler, text, gone, pipelined):
    """It may use their names again, also in the same pipeline."""
    pg.psql(TABLE)
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    told = []
    for port in (pg.port, pooler.port):
        with Connection(port=port) as c:
            prepares(c, "s1", "select 1")
            again = (parse("s1", "select 2"), bind("", "s1"), execute(), sync())
            if pipelined:
                c.send(query(text), *again)
                replies = [c.read_ready(), c.read_ready()]
            else:
                replies = [c.query(text), uses(c, "s1")]
                c.send(*again)
                replies.append(c.read_ready())
            told.append([error_codes(reply) or rows_of(reply) for reply in replies])
    direct, pooled = told
    assert pooled == direct
    assert direct[-1] == ([("2",)] if gone else ["42P05"])
