"""Random conversations about prepared statements, message by message: the same answers direct and pooled.

Every run takes seeds that nobody has run. A failure prints its seed, with the conversation made smaller.

    PGWEIR_CONVERSATIONS_SEED=17 tests/e2e/run -k conversations       # this one again
    PGWEIR_CONVERSATIONS_FROM=4711 tests/e2e/run -k conversations     # from that one on
    PGWEIR_CONVERSATIONS_SECONDS=600 tests/e2e/run -k conversations   # so long for each test
"""

import os
import time

import psycopg
import pytest

import test_differential as differential
from conftest import shared_cluster
from harness import conversation_runner as runner
from harness import wire
from harness.conversations import OTHER, SETUP, VIEW, conversation
from harness.pooler import kind
from harness.scramblers import scramblers

SECONDS = float(os.environ.get("PGWEIR_CONVERSATIONS_SECONDS", "4"))
SEED = os.environ.get("PGWEIR_CONVERSATIONS_SEED")
FROM = os.environ.get("PGWEIR_CONVERSATIONS_FROM")

# How often a conversation that differed once is tried: some did not differ on every server.
ATTEMPTS = 12

# How long a failure is made smaller.
SHRINK_SECONDS_MAX = 30

DATABASE = "conversations"

# The server's version, the size of the pool, whether the least suitable server is handed out.
SCENES = ((15, 1, "adversarial"), (15, 2, None), (18, 1, None), (18, 2, "adversarial"))


_prepared = set()


def prepared_cluster(version):
    """The shared cluster, with the conversations' database in it."""
    cluster = shared_cluster(version)
    if version not in _prepared:
        cluster.psql(f"create database {DATABASE}")
        # As a default, so that RESET and DISCARD ALL do not take the tables away.
        cluster.psql(f"alter database {DATABASE} set search_path = one")
        for role in ("session_alice", "session_bob"):
            cluster.psql(f"do $$begin create role {role}; exception when duplicate_object then null; end$$")
        _prepared.add(version)
    return cluster


def seeds(until):
    """Seeds until that time; the one asked for, and no other."""
    if SEED is not None:
        yield int(SEED)
        return
    seed = int(FROM) if FROM is not None else time.time_ns() // 1000 % 10**10
    while time.monotonic() < until:
        yield seed
        seed += 1


class Comparison:
    """Runs conversations direct and through one pooler."""

    def __init__(self, cluster, pooler):
        self.cluster, self.pooler = cluster, pooler
        self.maker = self.direct()

    def direct(self, _number=0):
        return wire.Connection(port=self.cluster.port, database=DATABASE)

    def pooled(self, number=0):
        return self.pooler.connect(database=DATABASE) if number != OTHER or self.others_pooled else self.direct()

    def answers(self, connect, steps):
        made = self.maker.query(SETUP)
        assert not wire.error_codes(made), [wire.text(m) for m in made]
        return runner.run(connect, steps, lambda m, tables: runner.line_of(m, tables, differential.comparable))

    def difference(self, seed, steps):
        # The client that does DDL is one of the pooler's, or is not.
        self.others_pooled = seed % 2 == 0
        expected = self.answers(self.direct, steps)
        return runner.difference(self.answers(self.pooled, steps), expected)


TYPED = "select b from t where a = $1 or a = $2 order by 1"
LONG = "l" * 70

# Conversations that differed once.
FOUND = {
    # The types of a statement that was lent before the server had told them.
    "types-told-late": [
        (OTHER, [("Q", "alter table one.t alter a type numeric")]),
        (0, [("P", "typed", TYPED, ()), ("P", "", VIEW, ()), ("B", "", "", (), (), ()), ("S",)]),
        (OTHER, [("Q", "alter table one.t alter a type bigint")]),
        (0, [("Q", VIEW)]),
    ],
    # The types of a statement that were told when the client had sent its Close, which the server ignored.
    "types-told-behind-a-close": [
        (0, [("P", "typed", TYPED, ()), ("D", "P", "missing"), ("C", "S", "typed"), ("S",)]),
        (OTHER, [("Q", "alter table one.t alter a type bigint")]),
        (0, [("Q", VIEW)]),
    ],
    # Internal statements in the view: a text in a segment that failed had them closed.
    "view-behind-a-failure": [
        (0, [("P", "view", VIEW, ()), ("S",)]),
        (0, [("B", "", "missing", (), (), ()), ("B", "", "view", (), (), ()), ("S",), ("Q", VIEW)]),
    ],
    # The text of a Query was not read, because an earlier segment could have chosen another encoding.
    "characters-beyond-ascii": [
        (0, [("P", "näme", "select 1", ()), ("P", "S1", "select 2", ()), ("S",)]),
        (0, [("P", "", "set search_path = one", ()), ("B", "", "", (), (), ()), ("B", "p1", "missing", (), (), ()), ("H",)]),
        (0, [("S",), ("Q", f'{VIEW}; deallocate "näme"')]),
        (0, [("P", "", "set search_path = one", ()), ("B", "", "", (), (), ()), ("B", "p1", "missing", (), (), ()), ("H",)]),
        (0, [("S",), ("Q", "select 'näme'; execute \"S1\"")]),
        (0, [("Q", "set search_path = one"), ("Q", f"{VIEW}; select 'näme'")]),
    ],
    # A statement that reads the view, by its name.
    "view-by-name": [
        (0, [("P", "s 2", "select 1", ()), ("S",)]),
        (0, [("P", "näme", VIEW, ()), ("S",)]),
        (0, [("P", "", 'execute "näme"', ()), ("B", "", "", (), (), ()), ("E", "", 0), ("S",)]),
        (0, [("Q", 'execute "näme"')]),
        (0, [("P", "", 'execute "näme"', ()), ("B", "", "", (), (), ()), ("E", "", 0), ("S",)]),
    ],
    # What sets settings for the Parse of a statement that reads the view.
    "view-under-other-settings": [
        (0, [("P", "", VIEW, ()), ("P", "view", VIEW, ()), ("P", "sets", "set datestyle = 'German'", ()), ("S",)]),
        (0, [("B", "", "sets", (), (), ()), ("E", "", 0), ("S",)]),
        (0, [("B", "", "", (), (), ()), ("E", "", 0), ("S",)]),
        (0, [("B", "", "view", (), (), ()), ("E", "", 0), ("S",)]),
    ],
    # A message that was looked at again for ever.
    "name-like-an-internal-one": [
        (0, [("P", "pgweir_s1", "select 1", ()), ("P", "view", VIEW, ()), ("D", "S", "view"), ("S",)]),
        (0, [("Q", "select 1; execute pgweir_s1")]),
        (0, [("B", "", "view", (), (), ()), ("E", "", 0), ("S",)]),
        (0, [("B", "", "view", (), (), ()), ("D", "P", ""), ("E", "", 0), ("S",)]),
    ],
    "two-names-like-internal-ones": [
        (0, [("P", "pgweir_s1", "select 1", ()), ("P", "pgweir_1", "select 2", ()), ("P", "view", VIEW, ()), ("S",)]),
        (0, [("B", "", "view", (), (), ()), ("E", "", 0), ("S",)]),
        (0, [("B", "", "view", (), (), ()), ("E", "", 0), ("S",)]),
    ],
    # DEALLOCATE of a name in escapes.
    "escapes": [
        (0, [("P", "S1", "select 1", ()), ("S",)]),
        (0, [("Q", 'deallocate U&"\\0053\\0031"; select 1')]),
        (0, [("Q", VIEW), ("P", "S1", "select 2", ()), ("S",)]),
        (0, [("Q", 'deallocate prepare U&"S\\0031"'), ("Q", VIEW), ("B", "", "S1", (), (), ()), ("S",)]),
    ],
    # PostgreSQL keeps 63 bytes of a name.
    "long-names": [
        (0, [("P", LONG, "select 1", ()), ("S",)]),
        (0, [("B", "", LONG[:63], (), (), ()), ("E", "", 0), ("D", "S", LONG[:64]), ("S",)]),
        (0, [("P", LONG[:65], "select 2", ()), ("S",)]),
        (0, [("Q", f"deallocate {LONG[:63]}"), ("D", "S", LONG), ("S",)]),
    ],
}


@pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer does not keep sessions")
@pytest.mark.parametrize("name", FOUND)
def test_conversations_that_differed(make_pooler, name):
    """What random conversations have found."""
    pooler = make_pooler(prepared_cluster(15), settings={"default_pool_size": 1, "link": "adversarial"})
    comparison = Comparison(pooler.cluster, pooler)

    def neighbour():
        return psycopg.connect(pooler.dsn(dbname=DATABASE), autocommit=True, prepare_threshold=None)

    scrambling = runner.name_scrambler(lambda: pooler.connect(database=DATABASE), 1)
    with comparison.maker, scramblers(neighbour, count=1), scrambling:
        for attempt in range(ATTEMPTS):
            found = comparison.difference(attempt, FOUND[name])
            assert found is None, found


@pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer does not keep sessions")
@pytest.mark.parametrize("scene", SCENES, ids=lambda s: f"pg{s[0]}-pool{s[1]}")
def test_conversations(make_pooler, scene):
    """Names that one way to prepare has given and another uses; what errors, DDL and other servers do to them."""
    version, size, link = scene
    cluster = prepared_cluster(version)
    settings = {"default_pool_size": size, "reserve_pool_size": 3, "reserve_pool_timeout": 1, "link": link}
    pooler = make_pooler(cluster, settings=settings)
    comparison = Comparison(cluster, pooler)

    def neighbour():
        return psycopg.connect(pooler.dsn(dbname=DATABASE), autocommit=True, prepare_threshold=None)

    def differs(steps):
        return comparison.difference(seed, steps)

    count = 0
    with comparison.maker, scramblers(neighbour, count=1), runner.name_scrambler(lambda: pooler.connect(database=DATABASE), 1):
        for seed in seeds(time.monotonic() + SECONDS):
            steps = conversation(seed)
            if size == 1:
                # One client, who may keep the only server, and the one that does DDL.
                steps = [(number, messages) for number, messages in steps if number != 1]
            count += 1
            found = differs(steps)
            if found:
                # What is rare may not show again: then the whole conversation is the answer.
                end = time.monotonic() + SHRINK_SECONDS_MAX
                steps = runner.shrunk(steps, lambda fewer: time.monotonic() < end and differs(fewer))
                shown = "\n".join(runner.words(*step) for step in steps)
                pytest.fail(f"PGWEIR_CONVERSATIONS_SEED={seed}\n{shown}\n{differs(steps)}\n---- as first found:\n{found}")
    assert count > 0
