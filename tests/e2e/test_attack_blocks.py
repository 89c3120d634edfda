"""Attacks by transaction blocks: limits that a block resets, and BEGIN and COMMIT that PostgreSQL refuses.

The pooler answers a bare BEGIN itself. What it answers with success, PostgreSQL must answer with success, too: otherwise
the statements that follow run in a block that nobody has begun."""

from __future__ import annotations

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

# Texts that reset a setting together with something else.
RESETS = {
    "a block": ["begin; reset NAME; commit"],
    "a block with all": ["begin; reset all; commit"],
    "a block with DEFAULT": ["begin; set NAME to default; commit"],
    "in front of COMMIT": ["reset NAME; commit"],
    "DO": ["do $$begin reset NAME; end$$"],
    "DO with all": ["do $$begin reset all; end$$"],
    "DO with COMMIT": ["do $$begin reset NAME; commit; end$$"],
    "DO in a block": ["begin", "do $$begin reset NAME; end$$", "commit"],
    "DO that sets it": ["do $$begin set NAME = '7s'; end$$"],
    "DO that sets 0": ["do $$begin set NAME = 0; end$$"],
    "DO behind SET": ["set NAME = '7s'", "do $$begin null; end$$"],
    "DO behind SET and RESET": ["set NAME = '7s'", "do $$begin reset NAME; end$$"],
}
LIMITS = {"statement_timeout": 0, "lock_timeout": 0, "transaction_timeout": 17}


def direct(pg):
    return lambda **options: wire.Connection(port=pg.port, **options)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("resets", RESETS)
def test_a_limit_of_the_startup_packet_comes_back(pg, make_pooler, limit, resets):
    """The probe lifts the limits for itself: what it has lifted must not count as set by the client."""
    if pg.version < LIMITS[limit]:
        pytest.skip("this PostgreSQL has no such limit")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> list:
        with connect(options={limit: "9s"}) as c:
            codes = [wire.error_codes(c.query(text.replace("NAME", limit))) for text in RESETS[resets]]
            return [*codes, c.value(f"show {limit}"), c.value("select 1"), c.value(f"show {limit}")]

    assert plays(pooler.connect) == plays(direct(pg))


def test_a_limit_of_the_database_is_not_the_clients(pg, make_pooler):
    """RESET returns to the value of the startup packet, not to the one that servers of the database begin with."""
    pg.psql("create database limited")
    pg.psql("alter database limited set statement_timeout = '5s'")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> dict:
        seen = {}
        for what, texts in RESETS.items():
            with connect(database="limited", options={"statement_timeout": "9s"}) as c:
                for text in texts:
                    c.query(text.replace("NAME", "statement_timeout"))
                seen[what] = c.value("show statement_timeout"), c.value("select 1"), c.value("show statement_timeout")
        return seen

    assert plays(pooler.connect) == plays(direct(pg))
    pg.psql("drop database limited with (force)")


def test_a_runaway_statement_ends_behind_reset(pg, make_pooler):
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect(options={"statement_timeout": "300ms"}) as c:
        c.query("begin; reset all; commit")
        assert wire.error_codes(c.query("select pg_sleep(5)")) == ["57014"]


# Whole conversations: messages and the number of ReadyForQuery that they bring.
PLAIN = b"\0\0" + b"\0\0" * 3
BINDS = {
    "formats without values": b"\0\0" + b"\0\2" + b"\0\0" * 2 + b"\0\0" + b"\0\0",
    "more behind it": PLAIN + b"xx",
}
EXECUTES = {"no row count": b"\0", "more behind it": b"\0" + b"\0" * 4 + b"zz"}


def refused() -> dict[str, list[tuple[bytes, ...]]]:
    """BEGIN or COMMIT that PostgreSQL refuses, for every reason that the pooler could overlook."""

    def segment(text: bytes = b"begin", bind: bytes = PLAIN, execute: bytes = b"\0" * 5) -> tuple[bytes, ...]:
        return wire.parse("", text), wire.message("B", bind), wire.message("E", execute), wire.sync()

    cases = {
        "BEGIN beyond UTF-8": [(wire.query(b"begin /* \xe4 */"),)],
        "COMMIT beyond UTF-8": [(wire.query("begin"),), (wire.query(b"commit -- \xff"),)],
        "parsed beyond UTF-8": [segment(text=b"begin -- \xff")],
        "a letter of UTF-8": [(wire.query("begin -- \u00e4"),)],
        "a vertical tab": [(wire.query("begin\x0b"),)],
        "a parameter": [
            (wire.parse("named", "begin", [23]), wire.sync()),
            (wire.bind("", "named"), wire.execute(), wire.sync()),
        ],
    }
    cases |= {f"Bind: {what}": [segment(bind=body)] for what, body in BINDS.items()}
    cases |= {f"Execute: {what}": [segment(execute=body)] for what, body in EXECUTES.items()}
    return cases


@pytest.mark.parametrize("what", refused())
def test_what_postgresql_refuses_begins_no_block(pg, make_pooler, what):
    """Behind a BEGIN that PostgreSQL refuses, each statement is a transaction of its own."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> list:
        pg.psql("drop table if exists block_rows; create table block_rows (a int)")
        seen = []
        with connect() as c:
            for messages in refused()[what]:
                c.send(*messages)
                seen.append([wire.text(m) for m in c.read_ready()])
            seen += [wire.tags(c.query(text)) for text in ("insert into block_rows values (1)", "rollback")]
            return [*seen, c.value("select count(*) from block_rows")]

    assert plays(pooler.connect) == plays(direct(pg))


def test_a_sync_with_a_body_ends_no_block(pg, make_pooler):
    """PostgreSQL refuses it, and begins nothing."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})

    def plays(connect) -> list[str]:
        with connect() as c:
            c.send(wire.parse("", "begin"), wire.bind(), wire.execute(), wire.message("S", b"zz"), wire.sync())
            return wire.error_codes(c.read_ready())

    assert plays(pooler.connect) == plays(direct(pg)) == ["08P01"]


# What makes transactions deferrable by default.
DEFERS = {
    "three statements": [
        "set default_transaction_isolation = serializable",
        "set default_transaction_read_only = on",
        "set default_transaction_deferrable = on",
    ],
    "SESSION CHARACTERISTICS": [
        "set session characteristics as transaction isolation level serializable, read only, deferrable"
    ],
    "DO": [
        "do $$begin set default_transaction_isolation = serializable; "
        "set default_transaction_read_only = on; set default_transaction_deferrable = on; end$$"
    ],
    "set_config()": [
        "select set_config('default_transaction_isolation', 'serializable', false), "
        "set_config('default_transaction_read_only', 'on', false), "
        "set_config('default_transaction_deferrable', 'on', false)"
    ],
}


@pytest.mark.parametrize("how", DEFERS)
def test_a_probe_does_not_wait_for_serializable_transactions(pg, make_pooler, how):
    """A deferrable transaction waits for every serializable one of the cluster. On a direct connection that is its
    client alone; a probe under the same default would keep a server from all others."""
    pg.psql("drop table if exists deferring; create table deferring (a int)")
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with direct(pg)() as writer, pooler.connect() as attacker, pooler.connect() as victim:
        victim.query("set work_mem = '6MB'")
        writer.query("begin isolation level serializable")
        writer.query("insert into deferring values (1)")
        for text in DEFERS[how]:
            assert not wire.error_codes(attacker.query(text))
        assert victim.value("select 1") == "1"
        assert attacker.value("show work_mem") == "4MB"
        writer.query("rollback")
