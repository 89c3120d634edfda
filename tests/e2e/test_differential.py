"""The differential test: a script run direct and through the pooler must give the same messages.

The scripts are in tests/differential/scripts; README.md beside them tells the format. A script that is not the same
when run direct twice says nothing, and fails. Equal means every message with every byte, but for process ids and
keys, the oids of tables made by the script, and the place in PostgreSQL's own source that an error names.
"""

import glob
import os
import re
import shlex
import struct

import pytest

from conftest import shared_cluster
from harness import wire
from harness.neighbours import busy_neighbours
from harness.pooler import CHECKOUT, Pooler

SCRIPTS = sorted(glob.glob(os.path.join(CHECKOUT, "tests", "differential", "scripts", "*")))

POOL_SIZES = (1, 2, 5)

# How a script's bytes are cut into writes.
CUTS = ("one write", "a write for each message", "a write for each byte")

# How the statements of a .sql script are sent.
VARIANTS = ("simple", "extended", "prepared", "pipelined")

# Reading until nothing comes, in seconds.
QUIET_SECONDS = 0.15


# ---- scripts


def steps_of(path, variant=None):
    """The script as connection options and steps: (messages to send, what to read until)."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    if path.endswith(".sql"):
        return {}, sql_steps([line for line in lines if line and not line.startswith("--")], variant)
    options, steps, pending = {}, [], []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        words = shlex.split(line)
        if words[0] == "connect":
            options = dict(word.split("=", 1) for word in words[1:])
        elif words[0] == "=>":
            steps.append((pending, words[1:]))
            pending = []
        else:
            try:
                pending.append(message_of(words))
            except Exception as error:
                raise ValueError(f"{path}:{number}: {line}") from error
    assert not pending, f"{path}: messages after the last =>"
    return options, steps


def sql_steps(statements, variant):
    steps = []
    for number, statement in enumerate(statements):
        statement = statement.removesuffix(";")
        if variant == "simple":
            messages = [wire.query(statement)]
        elif variant == "extended":
            messages = [wire.one_statement(statement), wire.sync()]
        elif variant == "prepared":
            name = f"s{number}"
            messages = [wire.parse(name, statement), wire.describe("S", name), wire.sync()]
            steps.append((messages, ["1"]))
            messages = [wire.bind("", name), wire.execute(), wire.sync()]
            steps.append((messages, ["1"]))
            messages = [wire.close("S", name), wire.sync()]
        else:
            messages = [wire.one_statement(statement), wire.sync()]
        steps.append((messages, ["1"]))
    if variant == "pipelined":
        steps = [([m for messages, _ in steps for m in messages], [str(len(steps))])]
    return steps


def message_of(words):
    tag, *rest = words
    if tag == "Q":
        return wire.query(unescape(rest[0]))
    if tag == "P":
        return wire.parse(rest[0], unescape(rest[1]), [int(oid) for oid in rest[2:]])
    if tag == "B":
        named = {"formats": (), "results": ()}
        while "=" in rest[0]:
            key, value = rest.pop(0).split("=")
            named[key] = [int(v) for v in value.split(",")]
        return wire.bind(rest[0], rest[1], [value_of(v) for v in rest[2:]], named["formats"], named["results"])
    if tag == "D":
        return wire.describe(*rest)
    if tag == "C":
        return wire.close(*rest)
    if tag == "E":
        return wire.execute(rest[0], int(rest[1]))
    if tag == "F":
        return wire.function_call(int(rest[0]), [value_of(v) for v in rest[1:]], [1], 1)
    if tag == "d":
        return wire.copy_data(unescape(rest[0]))
    if tag == "f":
        return wire.copy_fail(rest[0])
    return {"S": wire.sync, "H": wire.flush, "c": wire.copy_done}[tag]()


def value_of(word):
    if word == "NULL":
        return None
    if word.startswith("x:"):
        return bytes.fromhex(word[2:])
    if word.startswith("i4:"):
        return struct.pack("!i", int(word[3:]))
    return word.encode()


def unescape(word):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), word).encode()


# ---- running and comparing


def run(connection, steps, cut):
    """All replies, as comparable lines."""
    tables = {}
    lines = []
    for messages, until in steps:
        lines += exchange(connection, messages, until, cut, tables)
    return lines + finish(connection, tables)


def exchange(connection, messages, until, cut, tables):
    """Sends the messages of one step; the replies as comparable lines."""
    if cut == CUTS[0]:
        connection.send(*messages)
    elif cut == CUTS[1]:
        for m in messages:
            connection.send(m)
    else:
        connection.send_bytes_one_by_one(*messages)
    if until[0] == "tag":
        replies = connection.read_until(until[1], "Z")
    elif until[0] == "quiet":
        replies = []
        try:
            while True:
                replies.append(connection.read(QUIET_SECONDS))
        except wire.NoReply:
            pass
    else:
        replies = connection.read_ready(int(until[0]))
    return [*settings_in_order([comparable(m, tables) for m in replies]), "--"]


def settings_in_order(lines):
    """The same, with settings that are told together sorted: their order is that in which the server last met them."""
    ordered, told = [], []
    for line in [*lines, ""]:
        if line.startswith("ParameterStatus"):
            told.append(line)
        else:
            ordered += [*sorted(told), line]
            told = []
    return ordered[:-1]


def finish(connection, tables):
    """Ends the connection. A reply too many would come before the last one, or between it and the end."""
    connection.send(wire.sync())
    lines = [comparable(m, tables) for m in connection.read_ready()]
    connection.send(wire.terminate())
    lines += [comparable(m, tables) for m in connection.read_to_end()]
    connection.socket.close()
    return lines


def comparable(m, tables):
    if m.tag == "T":
        (count,), offset, columns = struct.unpack_from("!H", m.body), 2, []
        for _ in range(count):
            end = m.body.index(b"\0", offset)
            table, *rest = struct.unpack_from("!IhIhih", m.body, end + 1)
            # A table's oid is new at each run; which columns share a table is not.
            known = table if table < 16384 else f"table {tables.setdefault(table, len(tables))}"
            # So is the oid of a type that the script made.
            rest[1] = rest[1] if rest[1] < 16384 else f"type {tables.setdefault(rest[1], len(tables))}"
            columns.append((m.body[offset:end], known, *rest))
            offset = end + 19
        return f"RowDescription {columns}"
    # Temporary schemas are numbered by backend.
    return re.sub(r"pg_(toast_)?temp_\d+", r"pg_\1temp_N", wire.text(m))


_recorded = {}


def recorded(cluster, path, variant):
    """The script's replies direct; proven to be repeatable."""
    key = (cluster.version, path, variant)
    if key not in _recorded:
        options, steps = steps_of(path, variant)
        once, again = (run(wire.Connection(port=cluster.port, options=options), steps, CUTS[0]) for _ in range(2))
        assert once == again, "the script is not the same twice, direct"
        _recorded[key] = once
    return _recorded[key]


@pytest.fixture(
    scope="module", params=[(v, s) for v in (15, 18) for s in POOL_SIZES], ids=lambda p: f"pg{p[0]}-pool{p[1]}"
)
def churning_pooler(request):
    """A pooler in transaction mode whose servers two other clients use all the time."""
    version, size = request.param
    if request.config.getoption("--quick") and version != 15:
        pytest.skip("--quick")
    settings = {"default_pool_size": size, "max_prepared_statements": 5}
    with Pooler(shared_cluster(version), mode="transaction", settings=settings) as pooler:
        with busy_neighbours(pooler, count=2, pause=0.003):
            yield pooler


def cases():
    for path in SCRIPTS:
        name = os.path.basename(path)
        if path.endswith(".sql"):
            for variant in VARIANTS:
                yield pytest.param(path, variant, id=f"{name}-{variant}")
        else:
            yield pytest.param(path, None, id=name)


@pytest.mark.parametrize("path, variant", list(cases()))
def test_same_messages(churning_pooler, path, variant):
    expected = recorded(churning_pooler.cluster, path, variant)
    options, steps = steps_of(path, variant)
    for cut in CUTS:
        if cut == CUTS[2] and sum(len(m) for messages, _ in steps for m in messages) > 4000:
            continue
        got = run(churning_pooler.connect(options=options), steps, cut)
        assert got == expected, f"sent in {cut}"


def test_there_are_enough_scripts():
    assert len(SCRIPTS) >= 40
