"""Time limits of transactions, for every way to begin one: by Query and by the extended protocol, alone and among others."""

from __future__ import annotations

import contextlib

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

# Each is a Query. After it a transaction is open.
BEGINS = [
    "begin",
    "BEGIN;",
    "begin work",
    "begin transaction",
    "Begin Transaction Isolation Level Serializable, Read Only, Deferrable",
    "begin isolation level repeatable read read write",
    "start transaction",
    "start transaction read only",
    "START TRANSACTION ISOLATION LEVEL READ COMMITTED;",
    " \t\n begin \n;",
    ";;begin",
    "/* why */ begin",
    "/* a /* nested */ one */begin -- and more",
    "-- why\nbegin",
    "begin; select 1",
    "select 1; begin",
    "begin; begin",
    "commit; begin",
    "rollback; start transaction",
    "begin; commit; begin",
    "begin; rollback; select 1; begin",
    "begin; savepoint a; rollback to a",
    "begin; commit and chain",
    "begin; select 1/0",
    "begin; set local work_mem = '1MB'",
]

# After these none is open.
OTHERS = [
    "select 'begin'",
    "/* begin */ select 1",
    "-- begin",
    "begin; commit",
    "begin; end work",
    "start transaction; rollback",
    "begin; select 1; abort",
    "select 1 as begin",
    "select 1; select 2",
    'select 1 as "begin;"',
    "do $$ begin perform 1; end $$",
    "prepare transaction_of_mine as select 1",
]


def by_query(c: wire.Connection, sql: str) -> None:
    c.query(sql)


def by_extended(c: wire.Connection, sql: str) -> None:
    """Statement by statement, each with a Sync."""
    for part in sql.split("; "):
        c.extended(part)


def by_named_statement(c: wire.Connection, sql: str) -> None:
    for part in sql.split("; "):
        c.send(wire.parse("s", part), wire.sync())
        c.read_ready()
        c.send(wire.bind("", "s"), wire.execute(), wire.close("S", "s"), wire.sync())
        c.read_ready()


LIMITS = {"idle_transaction_timeout": "idle transaction timeout", "transaction_timeout": "transaction timeout"}


@pytest.mark.parametrize("deferred", [True, False], ids=["deferred", "at once"])
@pytest.mark.parametrize("way", [by_query, by_extended, by_named_statement], ids=lambda way: way.__name__)
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_begins(pg15, make_pooler, limit, way, deferred):
    settings = {limit: 1, "default_pool_size": 100}
    if kind() == "pgweir":
        settings["deferred_begin"] = 30 if deferred else 0
    pooler = make_pooler(pg15, settings=settings)
    with contextlib.ExitStack() as stack:
        others = {sql: stack.enter_context(pooler.connect()) for sql in OTHERS}
        begun = {sql: stack.enter_context(pooler.connect()) for sql in BEGINS}
        for sql, c in (others | begun).items():
            way(c, sql)
        for sql, c in begun.items():
            errors = [m.fields["M"] for m in c.read_to_end() if m.tag == "E"]
            assert errors == [LIMITS[limit]], sql
        for sql, c in others.items():
            assert c.value("select 1") == "1", sql
