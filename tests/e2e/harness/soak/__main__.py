"""python -m harness.soak [MINUTES [SEED]]: see tests/soak."""

import secrets
import sys

from . import accounts
from .world import World


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(10**6)
    print(f"tests/soak {minutes:g} {seed}")
    with World(seed) as world:
        world.run(minutes * 60)
        for text, count in sorted(accounts.messages(world.pooler).items(), key=lambda item: -item[1])[:30]:
            print(f"{count:7} {text}")
        print(" ".join(f"{name} {count}" for name, count in world.operator.done.items()))
    for failure in world.failures:
        print(f"FAILED {failure}")
    print(f"{len(world.failures)} failures; the same orders again: tests/soak {minutes:g} {seed}")
    return 1 if world.failures else 0


sys.exit(main())
