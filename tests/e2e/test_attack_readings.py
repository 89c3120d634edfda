"""Attacks on the pooler's reading of the catalog: until it has succeeded, every transaction of the database is followed by
a probe. The server that reads it has just served a client, whose settings must not matter.
"""
import re
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers read no catalog")

DB = "ard"

# With nested loops only, this many tables take a minute.
TABLES = """
create table t0 (id int primary key);
do $$begin for i in 1..300 loop
    execute format('create table t%s (id int primary key, p int references t%s, v text default lower(''X''))', i, i - 1);
    execute format('create function f%s() returns trigger language plpgsql as ''begin return new; end''', i);
    execute format('create trigger g before insert on t%s for each row execute function f%s()', i, i);
    execute format('create view v%s as select * from t%s', i, i);
end loop; end$$
"""

PLANNER = [
    "set seq_page_cost = 0",
    "set random_page_cost = 1e9",
    "set cpu_tuple_cost = 0",
    "set cpu_operator_cost = 0",
    "set enable_hashjoin = off",
    "set enable_mergejoin = off",
    "set enable_memoize = off",
    "set enable_material = off",
]

# How a client, or its role, has settings that stand in the way.
WAYS = {
    "settings of the planner": (PLANNER, []),
    "a limit on transactions": (["set transaction_timeout = '20ms'"], []),
    "a limit on statements": (["set statement_timeout = '20ms'"], []),
    "defaults of the role": ([], [text.replace("set ", "alter role ard_alice set ", 1) for text in PLANNER]),
}


@pytest.fixture(scope="module")
def large(pg):
    pg.psql(f"create database {DB}")
    for statement in TABLES.split(";\n", 1):
        pg.psql(statement, dbname=DB)
    pg.psql("create role ard_alice login")
    yield pg
    pg.psql(f"drop database {DB} with (force)")
    pg.psql("drop role ard_alice")


@pytest.mark.parametrize("way", WAYS)
def test_a_client_does_not_keep_the_catalog_from_being_read(large, make_pooler, way):
    sets, defaults = WAYS[way]
    if "transaction_timeout" in str(sets) and large.version < 17:
        pytest.skip("transaction_timeout came with PostgreSQL 17")
    for text in defaults:
        large.psql(text, dbname=DB)
    settings = {"default_pool_size": 1, "verbose": 2}
    pooler = make_pooler(large, mode="transaction", userlist={"ard_alice": ""}, settings=settings)
    try:
        with pooler.connect(database=DB, user="ard_alice") as alice:
            alice.query("select 1")
            eventually(lambda: "read what" in pooler.log())
            for text in sets:
                assert wire.first_error(alice.query(text)) is None, text
            # A name that is not known causes a reading only if the last one is some seconds old.
            time.sleep(5.5)
            begins = len(pooler.log())
            alice.query("select no_such_function_1()")
            until = time.monotonic() + 20
            found = []
            while time.monotonic() < until and not found:
                alice.query("select 1")
                time.sleep(0.02)
                found = re.findall("cannot tell|read what", pooler.log()[begins:])
        assert found[:1] == ["read what"], pooler.log()[begins:][-2000:]
    finally:
        large.psql("alter role ard_alice reset all", dbname=DB)
