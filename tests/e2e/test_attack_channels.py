"""One client's channels must not keep notifications from others."""

import pytest

from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers have no listeners")


def test_a_neighbour_with_many_channels_stops_nobody(pg15, make_pooler):
    """With more than 256 kB of LISTEN waiting for the listener, the pooler did not read its replies, and PostgreSQL then
    read no more."""
    pooler = make_pooler(pg15, mode="transaction", settings={"default_pool_size": 4})
    with pooler.connect() as hearer, pooler.connect() as many, pooler.connect() as sender:
        hearer.query("listen news")
        for number in range(1500):
            many.query(f"listen ch{number}")
        sender.query("notify news, 'only'")
        assert hearer.read(30).tag == "A"
