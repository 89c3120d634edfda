"""Attacks on limits: clients that hold servers, connections or the pooler's time without asking for anything."""

from __future__ import annotations

import struct
import time

import pytest

from conftest import backends
from harness import wire
from harness.pooler import kind
from harness.waiting import Stopwatch, eventually

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

LIMITS = {"query_timeout": 2, "transaction_timeout": 2, "idle_transaction_timeout": 2}


def halves() -> dict[str, bytes]:
    """Requests that are begun and not ended."""
    megabytes = struct.pack("!cI", b"Q", 4_000_000)
    return {
        "header of a Query": wire.query("select 1")[:5],
        "half a Query": wire.query("select 1, 2, 3")[:10],
        "half a Parse": wire.parse("s", "select 1")[:9],
        "header of a FunctionCall": wire.function_call(1)[:5],
        "header of a long Query": megabytes,
        "long Query": megabytes + b"select '" + b"x" * 100_000,
        "Parse without Sync": wire.parse("", "select 1"),
        "Parse and Flush": wire.parse("", "select 1") + wire.flush(),
        "failed Parse and Flush": wire.parse("", "slect 1") + wire.flush(),
        "COPY without data": wire.query("copy attack_limits from stdin"),
        "half a CopyData": wire.query("copy attack_limits from stdin") + wire.copy_data(b"1\n" * 100_000)[:90_000],
        "BEGIN and half a Query": wire.query("begin; select 1") + wire.query("select 1")[:7],
    }


@pytest.mark.parametrize("what", halves())
def test_half_a_request_does_not_hold_a_server(pg15, make_pooler, what):
    """A client that begins a request and falls silent: the pool's only server serves others, at once or after a limit."""
    pg15.psql("create table if not exists attack_limits (x text)")
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, **LIMITS})
    with pooler.connect() as silent, pooler.connect() as other:
        other.value("select 1")
        silent.send(halves()[what])
        time.sleep(0.3)
        watch = Stopwatch()
        assert other.value("select 2", timeout=6) == "2"
        assert watch.seconds < 4
        # Whoever needs a server for it is told; whoever needs none may take the time.
        if watch.seconds > 1:
            assert silent.closed()


def test_a_message_cut_into_bytes_arrives(pg, make_pooler):
    """What is not passed on before it is whole is passed on then."""
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect() as slow, pooler.connect() as other:
        request = wire.query("select 'slow'")
        for byte in request[:-1]:
            slow.send(bytes([byte]))
        assert other.value("select 'quick'") == "quick"
        slow.send(request[-1:])
        assert wire.rows_of(slow.read_ready()) == [("slow",)]


def test_answers_that_are_not_read_hold_a_server_for_query_timeout_only(pg15, make_pooler):
    """A client that does not read its answer stops the server that sends it."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, **LIMITS})
    with pooler.connect() as deaf, pooler.connect() as other:
        deaf.send(wire.query("select repeat('x', 1000000) from generate_series(1, 200)"))
        time.sleep(0.3)
        assert backends(pg15, "wait_event = 'ClientWrite'") == 1, "the server waits for its reader"
        assert other.value("select 2", timeout=6) == "2"


@pytest.mark.parametrize("way", ["SET", "options", "set_config in a function"])
def test_idle_session_timeout_of_one_client_ends_that_client_only(pg, make_pooler, way):
    """idle_session_timeout is the client's: servers that lie idle behind it must not end, nor other clients with them."""
    pg.psql(
        "create or replace function attack_idle() returns text language sql "
        "as $$ select set_config('idle_session_timeout', '100', false) $$"
    )
    pooler = make_pooler(pg, settings={"default_pool_size": 1, "ignore_startup_parameters": "extra_float_digits"})
    with pooler.connect() as other:
        server = other.value("select pg_backend_pid()")
        options = {"options": "-c idle_session_timeout=100"} if way == "options" else None
        with pooler.connect(options=options) as hasty:
            if way == "SET":
                hasty.query("set idle_session_timeout = 100")
            elif way != "options":
                hasty.query("select attack_idle()")
            assert hasty.rows("select current_setting('idle_session_timeout'), pg_backend_pid()") == [("100ms", server)]
            for _ in range(8):
                assert other.rows("select pg_backend_pid(), current_setting('idle_session_timeout')") == [(server, "0")]
                time.sleep(0.15)
            error = wire.first_error(hasty.read_to_end(3)).fields
            assert (error["C"], error["M"]) == ("57P05", "terminating connection due to idle-session timeout")


def test_idle_session_timeout_spares_who_works_or_is_in_a_transaction(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 2})
    with pooler.connect() as busy, pooler.connect() as sleeper:
        for c in busy, sleeper:
            c.query("set idle_session_timeout = '700ms'")
        sleeper.query("begin")
        for _ in range(8):
            assert busy.value("show idle_session_timeout") == "700ms"
            time.sleep(0.2)
        assert sleeper.value("select 1") == "1"
        sleeper.query("commit")


def test_idle_session_timeout_of_a_pinned_client_is_kept_by_its_server(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with pooler.connect() as pinned:
        pinned.query("create temp table attack_pinned (x int)")
        pinned.query("set idle_session_timeout = '300ms'")
        error = wire.first_error(pinned.read_to_end(3)).fields
        assert (error["C"], error["M"]) == ("57P05", "terminating connection due to idle-session timeout")


@pytest.mark.parametrize("how", ["simple", "extended"])
def test_a_database_whose_clients_have_left_can_be_dropped_renamed_and_copied(pg, make_pooler, how):
    """Idle servers, and the connection that listens, are nobody: Rails' and Django's test set-ups drop databases."""
    pg.psql("drop database if exists attack_a")
    pg.psql("drop database if exists attack_b")
    pg.psql("drop database if exists attack_c")
    pg.psql("create database attack_a")
    pooler = make_pooler(pg, settings={"session_state": "full"})

    def used_by(name: str) -> None:
        with pooler.connect(database=name) as one, pooler.connect(database=name) as two:
            one.query("begin")
            two.query("listen attack")
            two.value("select 1")
            one.query("commit")
            two.query("unlisten *")
        # The idle servers are in the way.
        eventually(lambda: backends(pg, f"datname = '{name}'") >= 2)

    with pooler.connect() as c:
        run = c.query if how == "simple" else c.extended
        used_by("attack_a")
        assert wire.error_codes(run('create database attack_b with template "attack_a"')) == []
        used_by("attack_b")
        assert wire.error_codes(run("ALTER DATABASE attack_b RENAME TO attack_c")) == []
        used_by("attack_c")
        assert wire.error_codes(run('DROP DATABASE IF EXISTS "attack_c"')) == []
        # A client that is logged in stays, and is in the way as on a direct connection.
        with pooler.connect(database="attack_a") as there:
            there.query("begin")
            there.query("select 1")
            assert wire.error_codes(run("drop database attack_a")) == ["55006"]
            assert there.value("select 2") == "2"
            there.query("rollback")
            assert wire.error_codes(run("drop database attack_a")) == ["55006"]
            assert wire.error_codes(run("alter database attack_a rename to attack_b")) == ["55006"]
            assert wire.error_codes(run("create database attack_b template attack_a")) == ["55006"]
            assert there.value("select 3") == "3"
        assert wire.error_codes(run("drop database attack_a")) == []
