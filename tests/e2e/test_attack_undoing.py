"""Attacks by what cannot be undone: values that the pooler cannot keep, and settings that a login role cannot reset."""

from __future__ import annotations

import pytest

from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import error_codes

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

# Settings that are not ASCII under LATIN1; the answer of a probe does not tell the one of 3 MB.
UNREADABLE = {
    "not UTF-8": (b"set search_path = 'm\xfc'", b"set app.tenant = '\xfc'"),
    "too long": (b"set search_path = 'm\xfc'", b"set app.tenant = '" + b"x" * 3_000_000 + b"'"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_value_that_cannot_be_kept_is_not_undone(pg, make_pooler, what):
    """The value of the startup packet comes back only if the client resets the setting."""
    pg.psql(
        'drop schema if exists undo_one, "m\u00fc" cascade; create schema undo_one; create schema "m\u00fc"; '
        'create table undo_one.undone (v text); create table "m\u00fc".undone (v text)'
    )
    pooler = make_pooler(pg, settings={"default_pool_size": 2})
    options = {"client_encoding": "LATIN1", "search_path": "undo_one", "options": "-c app.tenant=first"}
    with pooler.connect() as other:
        other.query("select 1")
        for _ in range(5):
            with pooler.connect(options=options) as c:
                c.query("select 1")
                other.query("select 1")
                for text in UNREADABLE[what]:
                    assert not error_codes(c.query(text))
                    other.query("select 1")
                assert not error_codes(c.query("insert into undone values ('x')"))
                other.query("select 1")
                assert c.value("select current_setting('app.tenant') <> 'first'") == "t"
    assert pg.psql("select count(*) from undo_one.undone").strip() == "0"
    assert pg.psql('select count(*) from "m\u00fc".undone').strip() == "5"
    pg.psql('drop schema undo_one, "m\u00fc" cascade')


def test_who_comes_next_does_not_pay_for_what_cannot_be_undone(pg, make_pooler):
    """A function of a superuser's makes a setting that alice cannot reset: those servers are closed, and no client is."""
    pg.psql(
        "create or replace function undo_f() returns text language sql security definer as "
        "$$select set_config('session_replication_role', 'replica', false)$$"
    )
    size = 6
    pooler = make_pooler(pg, settings={"default_pool_size": size})
    connect = lambda: pooler.connect(user="alice", database="postgres")  # noqa: E731
    with connect() as victim:
        victim.query("set work_mem = '5MB'")
        leavers = [connect() for _ in range(size)]
        for c in leavers:
            c.query("begin")
            assert not error_codes(c.query("select undo_f()"))
        for c in leavers:
            c.query("commit")
        pinned = lambda: [row for row in pooler.console("show pins") if "may not set" in str(row)]  # noqa: E731
        eventually(lambda: len(pinned()) == size)
        for c in leavers:
            c.close()
        assert victim.value("show work_mem") == "5MB"
        assert victim.value("show session_replication_role") == "origin"
        for _ in range(size):
            with connect() as late:
                assert late.value("show session_replication_role") == "origin"
    pg.psql("drop function undo_f()")
