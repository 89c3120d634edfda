"""Random sequences of what clients do to their sessions, made from a seed; run on one connection after another.

A sequence is a list of steps `(client, how, statements)`: which of the clients, how the statements are sent (HOWS), and
the statements, or a word of ENDS that ends the connection and makes another. Nothing in it depends on time or on other
clients, so that the same sequence gives the same messages on any server, or the server is not what it seems.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import wire

CLIENTS = 2
STEPS = 24

# One Query each; one Query of all; a segment each by the unnamed statement; one segment of all with one Sync.
HOWS = ("queries", "one query", "segments", "one segment")
ENDS = ("close", "drop")

VALUES = {
    "work_mem": ("'1MB'", "'2222kB'", "4096", "'bad'"),
    "datestyle": ("'German'", "'SQL, DMY'", "iso", "'nonsense'"),
    "timezone": ("'Europe/Paris'", "-3", "'Nowhere'"),
    "search_path": ("tenant_one", "'\"tenant \"\"two\"\"\"'", "public, tenant_one", "''"),
    "app.tenant": ("'a b'", "'it''s'", "''", "7"),
    "statement_timeout": ("'1h'", "'77min'", "0"),
    "default_transaction_isolation": ("serializable", "'read committed'"),
    "default_transaction_read_only": ("on", "off"),
    "application_name": ("'one'", "'two \\'", "''"),
    "role": ("session_alice", "session_bob", "none", "nobody_at_all"),
    "session_authorization": ("session_bob", "default"),
    "bytea_output": ("escape", "hex"),
}

# What shows a session, whichever role looks.
LOOK = (
    "select current_user, session_user, current_setting('work_mem'), current_setting('datestyle'),"
    " current_setting('timezone'), current_setting('search_path'), nullif(current_setting('app.tenant', true), ''),"
    " current_setting('statement_timeout'), current_setting('default_transaction_isolation'),"
    " current_setting('default_transaction_read_only'), current_setting('application_name'),"
    " current_setting('transaction_isolation'), current_setting('role'), current_setting('bytea_output')"
)
LOOKS = (
    LOOK,
    "select name, setting from pg_settings where name not like '%.%' order by 1",
    "select name, statement from pg_prepared_statements where from_sql order by 1",
    "select name from pg_cursors where is_holdable order by 1",
    "select * from pg_listening_channels() order by 1",
    "select to_regclass('pg_temp.t1') is null, to_regclass('pg_temp.t2') is null",
    "select objid, mode from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() order by 1, 2",
    "select name from who",
)


def sequence(seed: int) -> list[tuple[int, str, list[str]]]:
    """The steps of this seed."""
    dice = random.Random(seed)
    # Each sequence likes some kinds of statement more than others, so that they meet more often.
    kinds = (setting, setting, transaction, transaction, prepared, temporary, lock, cursor, channel, sweeping, look)
    weights = [dice.choice((0, 1, 1, 3)) for _ in kinds]
    weights[0] += 1
    weights[-1] += 2
    steps = []
    for _ in range(STEPS):
        client = dice.randrange(CLIENTS)
        if dice.randrange(14) == 0:
            steps.append((client, dice.choice(ENDS), []))
            continue
        how = dice.choice(HOWS)
        count = dice.choice((1, 1, 2, 3))
        statements = [dice.choices(kinds, weights)[0](dice, client) for _ in range(count)]
        steps.append((client, how, statements))
    # In the end everybody looks, outside of any transaction.
    for client in range(CLIENTS):
        steps.append((client, "queries", ["rollback", *(look for look in LOOKS if "pg_settings" not in look)]))
    return steps


def setting(dice: random.Random, _client: int) -> str:
    name = dice.choice(tuple(VALUES))
    value = dice.choice(VALUES[name])
    what = dice.randrange(9)
    if what == 0:
        return f"reset {name}".replace("session_authorization", "session authorization")
    if name == "session_authorization":
        return f"set session authorization {value}"
    if what == 1:
        return f"set {name} to default"
    if what == 2:
        return f"set local {name} = {value}"
    if what in (3, 4):
        text = value if value.startswith("'") else f"'{value}'"
        return f"select set_config('{name}', {text}, {dice.choice(('false', 'false', 'true'))})"
    if what == 5:
        return f"do $$ begin set {name} = {value}; end $$"
    return f"set {name} = {value}"


def transaction(dice: random.Random, _client: int) -> str:
    name = dice.choice(("s1", "s2"))
    return dice.choice(
        (
            "begin",
            "begin",
            "begin isolation level repeatable read",
            "commit",
            "commit",
            "rollback",
            "commit and chain",
            "rollback and chain",
            f"savepoint {name}",
            f"savepoint {name}",
            f"rollback to {name}",
            f"release {name}",
            "select 1/0",
        )
    )


def prepared(dice: random.Random, _client: int) -> str:
    name = dice.choice(("p1", "p2"))
    return dice.choice(
        (
            f"prepare {name} as select '{name}', current_setting('work_mem')",
            f"prepare {name} (int) as select $1 + 1",
            f"execute {name}",
            f"execute {name} (41)",
            f"deallocate {name}",
        )
    )


def temporary(dice: random.Random, _client: int) -> str:
    name = dice.choice(("t1", "t2"))
    return dice.choice(
        (
            f"create temp table {name} (a int)",
            f"create temp table {name} (a int) on commit drop",
            f"create temp view {name} as select 1 as a",
            f"insert into {name} values (1)",
            f"select count(*) from {name}",
            f"drop table {name}",
            f"drop view {name}",
            f"select 5 as a into temp {name}",
        )
    )


def lock(dice: random.Random, client: int) -> str:
    # Keys of the client's own: whether another holds one would depend on time.
    key = 9000 + client * 10 + dice.randrange(2)
    return dice.choice(
        (
            f"select pg_advisory_lock({key})",
            f"select pg_try_advisory_lock_shared({key})",
            f"select pg_advisory_xact_lock({key})",
            f"select pg_advisory_unlock({key})",
            f"select pg_advisory_unlock_shared({key})",
            "select pg_advisory_unlock_all()",
        )
    )


def cursor(dice: random.Random, _client: int) -> str:
    name = dice.choice(("c1", "c2"))
    return dice.choice(
        (
            f"declare {name} cursor with hold for select generate_series(1, 4)",
            f"declare {name} cursor for select generate_series(1, 4)",
            f"fetch 2 from {name}",
            f"close {name}",
            "close all",
        )
    )


def channel(dice: random.Random, client: int) -> str:
    name = f"client_{client}_{dice.randrange(2)}"
    return dice.choice((f"listen {name}", f"listen {name}", f"unlisten {name}", "unlisten *", f"notify {name}, 'x'"))


def sweeping(dice: random.Random, _client: int) -> str:
    return dice.choice(
        (
            "discard all",
            "discard temp",
            "discard plans",
            "discard sequences",
            "reset all",
            "reset all",
            "deallocate all",
            "close all",
            "unlisten *",
        )
    )


def look(dice: random.Random, _client: int) -> str:
    return dice.choice(LOOKS)


# ---- running


def run(connect: Callable[[], wire.Connection], steps, comparable) -> list[tuple[str, list[str]]]:
    """Each step in words, with its replies as `comparable(message, memory)` tells them."""
    clients: list[wire.Connection | None] = [None] * CLIENTS
    out = []
    try:
        for client, how, statements in steps:
            words = f"{'abc'[client]} {how}: {'; '.join(statements)}"
            if clients[client] is None:
                clients[client] = connect()
            if how in ENDS:
                clients[client].close() if how == "close" else clients[client].drop()
                clients[client] = None
                out.append((words, []))
                continue
            replies = exchange(clients[client], how, statements)
            out.append((words, [comparable(m, {}) for m in replies]))
    finally:
        for client in clients:
            if client is not None:
                client.close()
    return out


def exchange(client: wire.Connection, how: str, statements: list[str]) -> list[wire.Message]:
    replies = []
    if how == "one query":
        client.send(wire.query("; ".join(statements)))
        replies += client.read_ready()
    elif how == "one segment":
        client.send(*(wire.one_statement(s) for s in statements), wire.sync())
        replies += client.read_ready()
    else:
        for statement in statements:
            client.send(wire.query(statement) if how == "queries" else wire.one_statement(statement) + wire.sync())
            replies += client.read_ready()
    return replies


def shrunk(steps, differs) -> list:
    """The steps without those that the difference does not need."""
    last = len(steps)
    while last > 0:
        last -= 1
        fewer = steps[:last] + steps[last + 1 :]
        if differs(fewer):
            steps = fewer
    return steps
