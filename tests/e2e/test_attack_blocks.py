"""Attacks by transaction blocks: limits that a block resets."""

from __future__ import annotations

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

# Texts that reset a setting together with something else.
RESETS = {
    "a block": ["begin; reset NAME; commit"],
    "a block with all": ["begin; reset all; commit"],
    "a block with DEFAULT": ["begin; set NAME to default; commit"],
    "in front of COMMIT": ["reset NAME; commit"],
    "DO": ["do $$begin reset NAME; end$$"],
    "DO with all": ["do $$begin reset all; end$$"],
    "DO with COMMIT": ["do $$begin reset NAME; commit; end$$"],
    "DO in a block": ["begin", "do $$begin reset NAME; end$$", "commit"],
    "DO that sets it": ["do $$begin set NAME = '7s'; end$$"],
    "DO that sets 0": ["do $$begin set NAME = 0; end$$"],
    "DO behind SET": ["set NAME = '7s'", "do $$begin null; end$$"],
    "DO behind SET and RESET": ["set NAME = '7s'", "do $$begin reset NAME; end$$"],
}
LIMITS = {"statement_timeout": 0, "lock_timeout": 0, "transaction_timeout": 17}


def direct(pg):
    return lambda **options: wire.Connection(port=pg.port, **options)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("resets", RESETS)
def test_a_limit_of_the_startup_packet_comes_back(pg, make_pooler, limit, resets):
    """The probe lifts the limits for itself: what it has lifted must not count as set by the client."""
    if pg.version < LIMITS[limit]:
        pytest.skip("this PostgreSQL has no such limit")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> list:
        with connect(options={limit: "9s"}) as c:
            codes = [wire.error_codes(c.query(text.replace("NAME", limit))) for text in RESETS[resets]]
            return [*codes, c.value(f"show {limit}"), c.value("select 1"), c.value(f"show {limit}")]

    assert plays(pooler.connect) == plays(direct(pg))


def test_a_limit_of_the_database_is_not_the_clients(pg, make_pooler):
    """RESET returns to the value of the startup packet, not to the one that servers of the database begin with."""
    pg.psql("create database limited")
    pg.psql("alter database limited set statement_timeout = '5s'")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> dict:
        seen = {}
        for what, texts in RESETS.items():
            with connect(database="limited", options={"statement_timeout": "9s"}) as c:
                for text in texts:
                    c.query(text.replace("NAME", "statement_timeout"))
                seen[what] = c.value("show statement_timeout"), c.value("select 1"), c.value("show statement_timeout")
        return seen

    assert plays(pooler.connect) == plays(direct(pg))
    pg.psql("drop database limited with (force)")


def test_a_runaway_statement_ends_behind_reset(pg, make_pooler):
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect(options={"statement_timeout": "300ms"}) as c:
        c.query("begin; reset all; commit")
        assert wire.error_codes(c.query("select pg_sleep(5)")) == ["57014"]
