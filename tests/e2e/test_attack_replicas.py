"""Attacks by definitions that a standby replays later: a function is replaced through the primary's entry, and called
through the standby's.

The standby's replay is paused, so each step happens at a known moment. Before the function sets anything, the calls leave
the pool's only server free: that is the danger.
"""

import pytest
from test_attack_catalog import LOCKS
from test_hosts import entry, hosts, pair  # noqa: F401 (fixtures)

from harness.attacks import KEPT_SECONDS, looks_fresh
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

HEAD = "create or replace function ar_f(t text) returns int language plpgsql as "
CLEAN = HEAD + "$f$begin return 1; end$f$"
DIRTY = HEAD + ("$f$begin perform set_config('ar.' || 'tenant', t, false); perform set_config('work_mem', '77MB', false); "
                "perform pg_advisory_lock(78); return 2; end$f$")

FRESH = {"select coalesce(current_setting('ar.tenant', true), '')": "", "show work_mem": "4MB", LOCKS: "0"}


def poolers_entries(way, primary, standby) -> dict[str, str]:
    """The entries of the primary and the standby."""
    if way == "apart":
        return {"rw": f"host=127.0.0.1 port={primary.port} dbname=postgres",
                "ro": f"host=127.0.0.1 port={standby.port} dbname=postgres"}
    return {"rw": entry(primary, target_session_attrs="read-write"), "ro": entry(primary, target_session_attrs="standby")}


def lies_free(pooler) -> bool:
    """Whether a harmless call leaves the standby to others. Who made the function may keep the primary's server."""
    with pooler.connect(database="ro") as caller:
        caller.value("select ar_f('harmless')")
        return "ro" not in [pin["database"] for pin in pooler.console("show pins")]


def attack(pooler, standby, expected: str):
    """A client calls the function, and another one looks around on its server."""
    with pooler.connect(database="ro") as attacker, pooler.connect(database="ro") as victim:
        assert attacker.value("select ar_f('attacker')") == expected
        looks_fresh(victim, FRESH)
        attacker.close()
        with pooler.connect(database="ro") as last:
            assert last.value("select pg_is_in_recovery()") == "t"
            for question, answer in FRESH.items():
                assert last.value(question) == answer, question


@pytest.mark.parametrize("way", ["apart", "one list"])
def test_a_standby_is_judged_by_the_code_that_it_runs(hosts, make_pooler, way):  # noqa: F811
    primary, standby = hosts
    primary.psql(CLEAN)
    eventually(lambda: standby.psql("select count(*) from pg_proc where proname = 'ar_f'") == "1")
    pooler = make_pooler(databases=poolers_entries(way, primary, standby),
                         settings={"default_pool_size": 1, "query_wait_timeout": KEPT_SECONDS})
    with pooler.connect(database="rw") as maker:
        assert maker.value("select ar_f('x')") == "1"
        eventually(lambda: lies_free(pooler), timeout=60)
        standby.psql("select pg_wal_replay_pause()")
        maker.query(DIRTY)
        assert maker.value("select ar_f('maker')") == "2"
        # The standby runs the old code. Its catalog is read now, too early.
        for _ in range(3):
            attack(pooler, standby, "1")
        standby.psql("select pg_wal_replay_resume()")
        eventually(lambda: "ar.' ||" in standby.psql("select prosrc from pg_proc where proname = 'ar_f'"))
        attack(pooler, standby, "2")

    # The other way round: the primary's code is harmless again before the standby's.
    standby.psql("select pg_wal_replay_pause()")
    with pooler.connect(database="rw") as maker:
        maker.query(CLEAN)
        assert maker.value("select ar_f('x')") == "1"
        for _ in range(3):
            attack(pooler, standby, "2")
        standby.psql("select pg_wal_replay_resume()")
        eventually(lambda: lies_free(pooler), timeout=60)
