"""Output that goes to the kernel for all connections at once (io_uring), and where the kernel does not allow that."""

import os
import random
import sys
import threading

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")

UNDER_SECCOMP = os.path.join(os.path.dirname(__file__), "harness", "under_seccomp.py")


@pytest.mark.parametrize("io_uring", ["on", "off"])
def test_replies_come_whole_and_in_order(pg15, make_pooler, io_uring):
    """Many clients on few servers, with replies of all sizes, some clients slow, some gone in the middle."""
    pooler = make_pooler(
        pg15, settings={"io_uring": io_uring, "default_pool_size": 3, "pipeline_depth": 8, "pool_mode": "transaction"}
    )
    wrong = []

    def client(seed):
        lots = random.Random(seed)
        for _ in range(4):
            with pooler.connect() as c:
                for _ in range(15):
                    length = lots.choice([1, 10, 1000, 4000, 5000, 100_000])
                    value = c.value(f"select repeat('{seed % 10}', {length})")
                    if value != str(seed % 10) * length:
                        wrong.append((seed, length, len(value)))
                if lots.random() < 0.5:
                    c.send(wire.query("select repeat('x', 3000000)"))
                    c.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


@pytest.mark.parametrize(("io_uring", "does"), [("auto", "refuse"), ("auto", "kill"), ("on", "refuse")])
def test_under_a_seccomp_filter(pg15, make_pooler, io_uring, does):
    """A filter refuses io_uring, as Docker's does, or ends the process, as that of a systemd unit may."""
    pooler = make_pooler(pg15, settings={"io_uring": io_uring}, under=(sys.executable, UNDER_SECCOMP, does))
    told = "seccomp filter" if io_uring == "auto" else "Operation not permitted"
    pooler.wait_log(f"io_uring is not used: .*{told}")
    with pooler.connect() as a, pooler.connect() as b:
        assert [a.value("select 1"), b.value("select 2")] == ["1", "2"]
