"""Functions of range types: they concern the statements that name the type, or what is made of it."""

import time

import pytest

from harness.attacks import database, keeps_its_server, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

# The function is code that is not read: whoever runs it keeps the server.
SCHEMA = """
create function rt_difference(a float8, b float8) returns float8 language plpgsql immutable strict
    as $$declare r float8; begin execute format('select %s', a - b) into r; return r; end$$;
create type rt_range as range (subtype = float8, subtype_diff = rt_difference);
create domain rt_domain as rt_multirange;
create table rt_table (a rt_range);
create table rt_other (a int);
"""

OTHERS = [
    "select 1",
    "insert into rt_other values (1)",
    "select int4multirange(int4range(1, 2))",
    "select '[1,2]'::int4range::int4multirange",
]
USERS = [
    "insert into rt_table values ('[1,2]')",
    "select '[1,2]'::rt_range",
    "select a::rt_multirange from rt_table",
    "select '{}'::rt_domain",
    "select rt_range(1, 2)",
]


def test_a_range_type_concerns_who_names_it(pg, make_pooler):
    """Guards against pins of everybody: the cast to the multirange type counted as one that any statement may use."""
    with database(pg, "rt", SCHEMA):
        pooler = one_server(make_pooler, pg)
        with pooler.connect(user=pg.superuser, database="rt") as client:
            client.query("select 1")
        time.sleep(0.6)
        for text, is_run in [(text, False) for text in OTHERS] + [(text, True) for text in USERS]:
            assert keeps_its_server(pooler, pg, text, "rt") == is_run, text
