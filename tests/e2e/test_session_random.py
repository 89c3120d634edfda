"""Random sequences of session statements, transactions, savepoints and disconnects: the same messages direct and pooled.

Each sequence follows from its seed, which a failure prints with the sequence shrunk to what the difference needs. Two
clients run it on few servers with `link = adversarial`, while two others scramble them.

    PGWEIR_SESSION_SEEDS=500 tests/e2e/run -k session_random      # so many seeds, from 1
    PGWEIR_SESSION_SEED=17 tests/e2e/run -k session_random        # this one again
    PGWEIR_SESSION_FROM=4711 tests/e2e/run -k session_random      # from that one on, which nobody has run
    PGWEIR_SESSION_HOSTILE=yes PGWEIR_SESSION_MAJORS=15,18 tests/e2e/run -k session_random
                                    # beside clients that cancel, vanish and abandon logins; on these servers
"""

import contextlib

import os
import time

import psycopg
import pytest

import test_differential as differential
from harness import session_sequences as sequences
from harness import wire
from harness.hostile import hostiles
from harness.pooler import kind
from harness.scramblers import scramblers
from test_session_differential import DATABASE, prepared_cluster

SEEDS = int(os.environ.get("PGWEIR_SESSION_SEEDS", "24"))
SEED = os.environ.get("PGWEIR_SESSION_SEED")
FROM = int(os.environ.get("PGWEIR_SESSION_FROM", "1"))
HOSTILE = bool(os.environ.get("PGWEIR_SESSION_HOSTILE"))
MAJORS = [int(major) for major in os.environ.get("PGWEIR_SESSION_MAJORS", "15").split(",")]

# Seeds that one test runs, so that tests take about the same time.
SEEDS_PER_TEST = 12

# How long a failure is made smaller.
SHRINK_SECONDS_MAX = 20

# Servers: as many as clients, who may all keep theirs, and one more.
POOL_SIZES = (2, 3)

# How many transactions of different clients one server may have at a time.
PIPELINE_DEPTHS = (1, 1, 16, 16)


def rounds():
    if SEED is not None:
        return [range(int(SEED), int(SEED) + 1)]
    end = FROM + SEEDS
    return [range(first, min(first + SEEDS_PER_TEST, end)) for first in range(FROM, end, SEEDS_PER_TEST)]


def first_difference(got, expected):
    """The first step that differs, with the first message that does."""
    for (words, ours), (_, theirs) in zip(got, expected):
        if ours != theirs:
            at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
            return f"{words}\ngot      {ours[at : at + 2]}\nexpected {theirs[at : at + 2]}"
    return None


@pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer does not keep sessions")
@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("seeds", rounds(), ids=lambda r: f"{r[0]}-{r[-1]}")
def test_random_sequences(make_pooler, seeds, major):
    """Whatever the scripts' authors did not think of."""
    cluster = prepared_cluster(major)
    number = seeds[0] // SEEDS_PER_TEST
    settings = {
        "default_pool_size": POOL_SIZES[number % len(POOL_SIZES)],
        "pipeline_depth": PIPELINE_DEPTHS[number % len(PIPELINE_DEPTHS)],
        "reserve_pool_size": 2,
        "reserve_pool_timeout": 1,
        "link": "adversarial",
        "ignore_startup_parameters": "",
    }
    pooler = make_pooler(cluster, settings=settings)

    def direct():
        return wire.Connection(port=cluster.port, database=DATABASE)

    def pooled():
        return pooler.connect(database=DATABASE)

    def difference(steps):
        expected = sequences.run(direct, steps, differential.comparable)
        try:
            got = sequences.run(pooled, steps, differential.comparable)
        except (wire.NoReply, wire.Closed, wire.ServerError) as error:
            return f"{error!r} within:\n" + "\n".join(words for words, _ in expected)
        return first_difference(got, expected)

    def neighbour():
        return psycopg.connect(pooler.dsn(dbname=DATABASE), autocommit=True, prepare_threshold=None)

    def beside_hostiles():
        if not HOSTILE:
            return contextlib.nullcontext()
        return hostiles(neighbour, pooler.connect_host(), pooler.port, DATABASE, seeds[0])

    with scramblers(neighbour), beside_hostiles():
        for seed in seeds:
            steps = sequences.sequence(seed)
            if difference(steps) is not None:
                # What is rare may not show again: then the whole sequence is the answer.
                until = time.monotonic() + SHRINK_SECONDS_MAX
                steps = sequences.shrunk(steps, lambda fewer: time.monotonic() < until and difference(fewer))
                shown = "\n".join(f"  {'abc'[c]} {how}: {'; '.join(s)}" for c, how, s in steps)
                pytest.fail(f"PGWEIR_SESSION_SEED={seed}\n{shown}\n{difference(steps)}")
