"""Session state, script by script: the same messages direct and through the pooler, whatever others do to the servers.

The scripts are in tests/differential/session; README.md one folder up tells the format. While a script runs, two other
clients of the same database and user scramble the servers of the same pool, and `link = adversarial` hands out the idle
server that is least like the client's session.
"""

import glob
import os
import shlex

import psycopg
import pytest

import test_differential as differential
from conftest import shared_cluster
from harness import wire
from harness.pooler import CHECKOUT, Pooler, kind
from harness.scramblers import scramblers

FOLDER = os.path.join(CHECKOUT, "tests", "differential", "session")
SCRIPTS = sorted(p for p in glob.glob(os.path.join(FOLDER, "*")) if os.path.basename(p) != "setup.sql")

# The server's version, the size of the pool, pipeline_depth, and how scripts are sent there: each way is tried at two sizes.
SCENES = (
    (15, 1, 16, ("simple", "pipelined", "one by one")),
    (15, 2, 1, (*differential.VARIANTS, "one by one", "as written")),
    (15, 5, 1, ("extended", "prepared", "as written")),
    (18, 2, 16, ("simple", "prepared", "one by one")),
)

# How a .msg script is sent: each step in one write, or so that others can have a turn at each ReadyForQuery.
MSG_VARIANTS = ("as written", "one by one")

DATABASE = "session_state"

pytestmark = pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer does not keep sessions")


# ---- scripts


def steps_of(path, variant=None):
    """The script as steps: ("connect", options), ("drop",), ("other", sql) or ("send", messages, what to read until)."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    directives = ("connect ", "connect", "drop", "other ")
    steps, pending = [("connect", {})], []

    def flush():
        nonlocal pending
        if path.endswith(".sql") and pending:
            steps.extend(("send", *step) for step in differential.sql_steps(pending, variant))
            pending = []
        assert not pending, f"{path}: messages without =>"

    for number, line in enumerate(lines, 1):
        if not line or line.startswith(("#", "--")):
            continue
        word = line.removeprefix("\\").split(" ", 1)[0]
        if word in ("connect", "drop", "other") and (line.startswith("\\") or path.endswith(".msg")):
            flush()
            words = shlex.split(line.removeprefix("\\"))
            if word == "connect":
                steps.append(("connect", dict(w.split("=", 1) for w in words[1:])))
            else:
                steps.append((word, *words[1:]))
        elif path.endswith(".sql"):
            pending.append(line)
        else:
            words = shlex.split(line)
            if words[0] == "=>":
                steps.extend(("send", *step) for step in parts_of(pending, words[1:], variant))
                pending = []
            else:
                try:
                    pending.append(differential.message_of(words))
                except Exception as error:
                    raise ValueError(f"{path}:{number}: {line}") from error
    flush()
    # A script that begins with a connection of its own needs no other before.
    return steps[1:] if steps[1][0] == "connect" else steps


def parts_of(messages, until, variant):
    """A step cut behind each message that a ReadyForQuery answers, if all of them are answered by one."""
    ends = [at for at, m in enumerate(messages, 1) if m[:1] in b"QS"]
    if variant != "one by one" or until != [str(len(ends))] or ends[-1] != len(messages):
        return [(messages, until)]
    return [(messages[first:end], ["1"]) for first, end in zip([0, *ends], ends)]


def run(connect, other, steps, cut):
    """All replies, as comparable lines. `connect` makes the script's client, `other` a client beside the pooler."""
    lines, tables, client = [], {}, None
    try:
        for what, *rest in steps:
            if what == "connect":
                if client is not None:
                    lines += differential.finish(client, tables)
                try:
                    client = connect(options=rest[0])
                except wire.ServerError as error:
                    lines.append(f"refused: {error.fields.get('C')} {error.fields.get('M')}")
                    return lines
                # In which order a login tells the settings is the server's own affair, and differs between versions.
                lines += ["connected", *sorted(wire.text(m) for m in client.login_messages if m.tag in "SN")]
            elif what == "drop":
                client.drop()
                client = None
            elif what == "other":
                lines += [f"other: {differential.comparable(m, tables)}" for m in other.query(rest[0])]
            else:
                lines += differential.exchange(client, *rest, cut, tables)
        if client is not None:
            lines += differential.finish(client, tables)
        client = None
    finally:
        # One that is left behind with a pin would keep its server from the scripts to come.
        if client is not None:
            client.drop()
    return lines


def first_difference(got, expected):
    """Where two runs part, with what came before."""
    at = next((i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]), min(len(got), len(expected)))
    before = "\n".join(f"    {line}" for line in expected[max(0, at - 8) : at])
    return f"{before}\ngot      {got[at:at + 3]}\nexpected {expected[at:at + 3]}"


# ---- clusters and poolers


_prepared = set()


def prepared_cluster(version):
    """The shared cluster, with the scripts' database in it."""
    cluster = shared_cluster(version)
    if version not in _prepared:
        cluster.psql(f"create database {DATABASE}")
        with open(os.path.join(FOLDER, "setup.sql"), encoding="utf-8") as file:
            cluster.psql(file.read(), dbname=DATABASE)
        _prepared.add(version)
    return cluster


_recorded = {}


def recorded(cluster, path, variant):
    """The script's replies direct; proven to be repeatable."""
    key = (cluster.version, path, variant)
    if key not in _recorded:
        steps = steps_of(path, variant)
        once, again = (run_on(cluster, None, steps, differential.CUTS[0]) for _ in range(2))
        assert once == again, "the script is not the same twice, direct:\n" + first_difference(again, once)
        _recorded[key] = once
    return _recorded[key]


def run_on(cluster, pooler, steps, cut):
    def connect(**named):
        if pooler is None:
            return wire.Connection(port=cluster.port, database=DATABASE, **named)
        return pooler.connect(database=DATABASE, **named)

    with wire.Connection(port=cluster.port, database=DATABASE) as other:
        return run(connect, other, steps, cut)


@pytest.fixture(scope="module", params=SCENES, ids=lambda p: f"pg{p[0]}-pool{p[1]}")
def scrambled(request):
    """A scene, its cluster, and a pooler in transaction mode whose servers two other clients scramble all the time."""
    version, size, depth, variants = request.param
    if request.config.getoption("--quick") and version != 15:
        pytest.skip("--quick")
    cluster = prepared_cluster(version)
    settings = {
        "default_pool_size": size,
        "reserve_pool_size": 2,
        "reserve_pool_timeout": 1,
        "max_prepared_statements": 5,
        "link": "adversarial",
        "pipeline_depth": depth,
        "ignore_startup_parameters": "",
    }
    with Pooler(cluster, mode="transaction", settings=settings) as pooler:

        def connect():
            return psycopg.connect(pooler.dsn(dbname=DATABASE), autocommit=True, prepare_threshold=None)

        with scramblers(connect):
            yield cluster, pooler, variants


def cases():
    for path in SCRIPTS:
        name = os.path.basename(path)
        for variant in differential.VARIANTS if path.endswith(".sql") else MSG_VARIANTS:
            yield pytest.param(path, variant, id=f"{name}-{variant.replace(' ', '-')}")


@pytest.mark.parametrize("path, variant", list(cases()))
def test_same_session(scrambled, path, variant):
    """State that is lost on the way to another server, or comes from another client."""
    cluster, pooler, variants = scrambled
    if variant not in variants:
        pytest.skip("sent so at other sizes of the pool")
    expected = recorded(cluster, path, variant)
    got = run_on(cluster, pooler, steps_of(path, variant), differential.CUTS[0])
    assert got == expected, first_difference(got, expected)


def test_there_are_enough_scripts():
    assert len(SCRIPTS) >= 30
