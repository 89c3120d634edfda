"""The soak for a short time: random clients beside an operator who does everything, and the accounts afterwards (tests/soak)."""

from __future__ import annotations

import pytest

from harness.pooler import kind
from harness.soak.world import World

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir can be taken over with its connections"),
]

# Seconds for which clients and operator are at work, and how often they rest.
SECONDS = 14
RESTS = 2


@pytest.mark.parametrize("seed", [5])
def test_nothing_is_lost(seed):
    with World(seed, quiet=True) as world:
        world.run(SECONDS, RESTS, rounds=0)
    assert world.failures == []
    assert world.counts["answered"] > 100, world.counts
    assert world.operator.done.get("takes_over", 0) > 0, world.operator.done
