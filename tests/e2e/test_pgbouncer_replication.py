"""Spellings of the startup parameter replication: PostgreSQL itself, a real PgBouncer 1.26, and pgweir agree about them."""

from __future__ import annotations

import pytest

from harness import wire
from harness.pooler import kind
from test_pgbouncer_limits import both
from test_replication import publisher  # noqa: F401

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

ORDINARY, PHYSICAL, LOGICAL = "ordinary", "physical", "logical"

SPELLINGS = {
    PHYSICAL: ["on", "ON", "On", "true", "TRUE", "t", "tr", "yes", "Yes", "y", "1"],
    ORDINARY: ["off", "of", "Off", "false", "False", "f", "no", "NO", "n", "0"],
    LOGICAL: ["database"],
    # PgBouncer takes them for ordinary ones.
    None: ["", "o", "2", "01", " on", "on ", "DATABASE", "data", "physical", "nonsense"],
}


def kind_of(connect, value: str) -> str:
    """What kind of session a client gets."""
    try:
        with connect(user="alice", password="alice-pw", database="postgres", options={"replication": value}) as c:
            messages = c.query("IDENTIFY_SYSTEM")
            if wire.error_codes(messages):
                return ORDINARY
            ((_system, _timeline, _position, database),) = wire.rows_of(messages)
            return LOGICAL if database else PHYSICAL
    except wire.ServerError as e:
        return e.fields["M"]


@pytest.mark.parametrize("meant", SPELLINGS)
def test_spellings(publisher, make_pooler, meant):  # noqa: F811
    direct = lambda **named: wire.Connection(port=publisher.port, **named)  # noqa: E731
    pgbouncer, pgweir = both(make_pooler, publisher)
    for value in SPELLINGS[meant]:
        words = meant or f'invalid value for parameter "replication": "{value}"'
        assert kind_of(direct, value) == words, value
        assert kind_of(pgweir.connect, value) == words, value
        assert kind_of(pgbouncer.connect, value) == (meant or ORDINARY), value
