"""Clients that mean no good: they cancel, vanish and abandon logins, and set what no pooler can tell from their texts."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator

import psycopg

# Settings by names that only the server knows, and code that takes statements and settings away.
STATEMENTS = (
    "select set_config(lower('APP.') || 'tenant', 'hostile {n}', false)",
    "select set_config('ro' || 'le', 'session_alice', false)",
    "select set_config(name, 'hostile {n}', false) from (values ('app.two')) as v(name)",
    "do $$begin execute 'set app.tenant = ''hostile {n}'''; end$$",
    "do $$begin execute 'deallocate all'; end$$",
    "do $$declare s text; begin for s in select name from pg_prepared_statements loop"
    " execute 'deallocate ' || quote_ident(s); end loop; end$$",
    "select query_to_xml('select set_config(''app.two'', ''hostile {n}'', false)', true, true, '')",
    "select pg_sleep(0.02)",
    "set statement_timeout = '3ms'; select count(*) from generate_series(1, 100000)",
    "set idle_session_timeout = '5ms'",
)

# How many statements one of them sends before it vanishes.
STATEMENTS_MAX = 6


def startup_packet(database: str, user: str, settings: dict[str, str]) -> bytes:
    """A startup packet of protocol 3.0."""
    pairs = {"user": user, "database": database, **settings}
    body = b"".join(word.encode() + b"\0" for pair in pairs.items() for word in pair) + b"\0"
    return struct.pack("!ii", len(body) + 8, 196608) + body


def abandon_login(host: str, port: int, database: str, dice: random.Random) -> None:
    """Logs in with settings that no client of the pool has named, and goes away in the midst of it."""
    n = dice.randrange(10**6)
    settings = {"search_path": f"hostile_{n}", "app.tenant": f"hostile {n}", "application_name": f"hostile {n}"}
    packet = startup_packet(database, "postgres", settings)
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=5) as s:
        s.sendall(packet if dice.random() < 0.7 else packet[: dice.randrange(len(packet))])
        s.settimeout(dice.random() * 0.02 + 0.0001)
        s.recv(1)


def misbehave(connect, dice: random.Random) -> None:
    """One session: a few statements, some of them cancelled, and no goodbye."""
    with contextlib.suppress(psycopg.Error, OSError):
        client = connect()
        try:
            for _ in range(dice.randrange(1, STATEMENTS_MAX)):
                timer = threading.Timer(dice.random() * 0.01, client.cancel) if dice.random() < 0.4 else None
                if timer:
                    timer.start()
                with contextlib.suppress(psycopg.Error):
                    client.execute(dice.choice(STATEMENTS).format(n=dice.randrange(1000)))
                if timer:
                    timer.join()
                if dice.random() < 0.3:
                    with contextlib.suppress(psycopg.Error):
                        client.cancel()
        finally:
            # No Terminate: the socket is just gone.
            with contextlib.suppress(psycopg.Error, OSError):
                socket.socket(fileno=client.fileno()).close()


@contextlib.contextmanager
def hostiles(connect, host: str, port: int, database: str, seed: int, count: int = 2) -> Iterator[None]:
    """While this lasts, `count` clients misbehave and abandon logins at one pooler."""
    stop = threading.Event()

    def live(number: int) -> None:
        dice = random.Random(seed * 100 + number)
        while not stop.is_set():
            if dice.random() < 0.5:
                abandon_login(host, port, database, dice)
            else:
                misbehave(connect, dice)
            stop.wait(dice.random() * 0.01)

    threads = [threading.Thread(target=live, args=(n,), name=f"hostile {n}") for n in range(count)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        stop.set()
        for t in threads:
            t.join()
