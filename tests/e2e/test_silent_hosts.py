"""Hosts that answer nothing: what is done while they are silent, and that they are found when they are back."""

import pytest

from harness import wire
from harness.pooler import kind
from harness.silent import DeafHost, opening_from
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")


def test_a_silent_host_is_tried_again_and_again(pg15, make_pooler):
    """The system tries at longer and longer intervals: a host that came back was found after many seconds."""
    with DeafHost() as host:
        pooler = make_pooler(
            databases={"deaf": f"host=127.0.0.1 port={host.port} dbname=postgres"},
            settings={"query_wait_timeout": 60, "server_connect_timeout": 60},
        )
        seen = set()

        def tried() -> int:
            now = opening_from(host.port, pooler.process.pid)
            assert len(now) <= 2, "the first attempt, and one beside it"
            seen.update(now)
            return len(seen)

        with pooler.connect(login=False, database="deaf") as c:
            c.send(wire.startup(c.startup_parameters()), wire.query("select 1"))
            eventually(lambda: tried() >= 5, timeout=20, what="attempts from five ports")
            host.hears_again(pg15)
            assert "D" in wire.tags(c.read_until("D", timeout=20))
        eventually(lambda: not opening_from(host.port, pooler.process.pid), what="no attempt is left")
