"""Clients that leave nothing on a server as it was: settings, roles, statements, temporary objects, locks, listeners.

They take the same names as the scripts do, so that whatever is not put right shows; and each checks that its own session
is what it made of it.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import psycopg

# Statements that change as much of a server as one can while it is somebody else's turn.
SETTINGS = (
    "set work_mem = '{n}kB'",
    "set datestyle = 'SQL, YMD'",
    "set timezone = 'Asia/Kolkata'",
    "set client_encoding = 'LATIN9'",
    "set application_name = 'scrambler {n}'",
    "set app.tenant = 'scrambler {n}'",
    "set app.two = 'scrambler {n}'",
    "set search_path = pg_catalog, nowhere_{n}",
    "set statement_timeout = '{n}s'",
    "set standard_conforming_strings = off",
    "set bytea_output = escape",
    "set extra_float_digits = -15",
    "set intervalstyle = 'iso_8601'",
    "set default_transaction_isolation = 'repeatable read'",
    "set default_transaction_read_only = on",
    "set role session_alice",
    "set session authorization session_bob",
    "set enable_seqscan = off",
    "set lc_messages = 'C'",
)

# Statements that keep a server for a moment, with those that give it back.
PINS = (
    ("create temp table t1 (scrambled int)", "drop table t1"),
    ("create temp table scratch (scrambled int)", "drop table scratch"),
    ("select pg_advisory_lock(88{n})", "select pg_advisory_unlock_all()"),
    ("declare c cursor with hold for select 'scrambled'", "close c"),
    ("create function pg_temp.f1() returns text language sql as 'select ''scrambled'''", "discard temp"),
)

OTHERS = (
    "prepare pp as select 'scrambled'",
    "listen scrambled_{n}",
    "notify here_too, 'scrambled'",
    "select 1/0",
    "begin; set work_mem = '77kB'; rollback",
)


@contextlib.contextmanager
def scramblers(connect, count: int = 2, pause: float = 0.001) -> Iterator[None]:
    """While this lasts, `count` clients made by `connect()` (psycopg, autocommit) scramble the servers of its pool."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def live(number: int) -> None:
        dice = random.Random(number)
        try:
            while not stop.is_set():
                with connect() as client:
                    for _ in range(12):
                        if not stop.is_set():
                            scramble(client, dice, number)
                            stop.wait(pause * dice.random() * 2)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=live, args=(n,), name=f"scrambler {n}") for n in range(count)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failures, f"a scrambler failed: {failures[0]!r}"


def scramble(client: psycopg.Connection, dice: random.Random, number: int) -> None:
    """One round: a few settings, now and then something that pins, and a look at whether it is still there."""
    value = dice.randrange(100, 999)
    client.execute("reset all; reset session authorization; reset role")
    for statement in dice.sample(SETTINGS, 3):
        with contextlib.suppress(psycopg.Error):
            client.execute(statement.format(n=value))
    client.execute(f"set work_mem = '{value}kB'")
    what = dice.randrange(8)
    if what == 0:
        first, last = dice.choice(PINS)
        with contextlib.suppress(psycopg.Error):
            client.execute(first.format(n=number))
        with contextlib.suppress(psycopg.Error):
            client.execute(last)
    elif what < 4:
        with contextlib.suppress(psycopg.Error):
            client.execute(dice.choice(OTHERS).format(n=number))
    got = client.execute("select current_setting('work_mem')").fetchone()[0]
    assert got == f"{value}kB", f"work_mem of a scrambler is {got}, not {value}kB"
