"""Functions in the key of a partitioned table: they concern the statements that name the table or a partition of it."""

import time

import pytest

from harness.attacks import database, keeps_its_server, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

# The function is code that is not read: whoever runs it keeps the server.
SCHEMA = """
create function kp_key(a int) returns int language plpgsql immutable
    as $$declare r int; begin execute format('select %s', a) into r; return r; end$$;
create table kp_top (a int, b int) partition by list (kp_key(a));
create table kp_middle partition of kp_top for values in (1) partition by range (b);
create table kp_leaf partition of kp_middle for values from (0) to (9);
create table kp_other (a int);
"""


def test_a_key_concerns_its_tables_only(pg, make_pooler):
    with database(pg, "kp", SCHEMA):
        pooler = one_server(make_pooler, pg)
        with pooler.connect(user=pg.superuser, database="kp") as client:
            client.query("select 1")
        time.sleep(0.6)
        for text, is_run in [("insert into kp_other values (1)", False), ("insert into kp_top values (1, 1)", True),
                             ("insert into kp_leaf values (1, 1)", True)]:
            assert keeps_its_server(pooler, pg, text, "kp") == is_run, text
