"""The admin console: PgBouncer's columns, names and types; commands; who may do what; and real clients reading it."""

import os
import pwd
import re
import subprocess
import sys
import threading
import time

import psycopg
import pytest
from pgthrow import client_program, server_user

from conftest import backends
from harness import wire
from harness.pooler import CHECKOUT, as_dicts, kind
from harness.scenes import backend_pid, held_server
from harness.waiting import Stopwatch, eventually
from harness.wire import command_tags, error_codes, query, rows_of
from test_drivers import run_program

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

TYPES = {"text": 25, "int4": 23, "int8": 20, "numeric": 1700}

# Columns as PgBouncer 1.26 has them; those of the issue's list, and a few more.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "console-columns.txt"), encoding="utf-8") as _file:
    COLUMNS = {
        command: [(column.split(":")[0], TYPES[column.split(":")[1]]) for column in columns.split()]
        for command, columns in (line.rstrip("\n").split(": ") for line in _file if not line.startswith("#"))
    }

REQUIRED = [
    f"show {name}"
    for name in "version config databases pools clients servers sockets stats stats_totals stats_averages totals lists users mem state".split()
]


@pytest.fixture
def pooler(pg15, make_pooler):
    return make_pooler(pg15, settings={"admin_users": "postgres", "stats_users": "stats"})


@pytest.fixture
def console(pooler):
    with pooler.connect(database="pgbouncer") as c:
        yield c


def message_of(messages):
    error = wire.first_error(messages)
    return error.fields["M"] if error else None


# ---- SHOW


def test_all_of_the_issue_are_recorded():
    assert set(REQUIRED) <= set(COLUMNS)


@pytest.mark.parametrize("command", COLUMNS)
def test_columns(pooler, console, command):
    """Names, order and types as PgBouncer's, so that dashboards and exporters keep working."""
    if command not in REQUIRED and kind() == "pgweir" and error_codes(console.query(command)):
        pytest.skip("not among those that are built now")
    with pooler.connect() as c:
        c.value("select 1")
        messages = console.query(command)
    assert error_codes(messages) == []
    columns = [(name, type_oid) for name, type_oid, _ in next(m for m in messages if m.tag == "T").columns]
    assert columns == COLUMNS[command]
    assert command_tags(messages) == ["SHOW"]
    assert messages[-1].body == b"I"


def test_version(pooler, console):
    (row,) = as_dicts(console.query("show version"))
    assert re.search(r"\d+\.\d+", row["version"])
    assert as_dicts(console.query("select version")) == [row]


def test_help(console):
    messages = console.query("show help")
    assert wire.tags(messages) == "NCZ"
    assert messages[0].fields["M"] == "Console usage"
    for word in ("SHOW HELP", "PAUSE", "RESUME", "RELOAD", "KILL", "SHUTDOWN", "SET key"):
        assert word in messages[0].fields["D"]


def test_parameters_of_the_console(console):
    """What clients look at when they connect."""
    p = console.parameters
    assert p["client_encoding"] == "UTF8" and p["standard_conforming_strings"] == "on"
    assert p["DateStyle"] == "ISO" and p["TimeZone"] == "GMT"
    assert re.match(r"\d", p["server_version"])


def test_pools(pg15, pooler, console):
    """cl_* and sv_* counts, maxwait, pool_mode."""
    with held_server(pooler, user="alice", database="shop"), pooler.connect(user="alice", database="shop") as idle:
        idle.value("select 1")
        row = pooler.wait_pool("shop", "alice", sv_active=1, sv_idle=1)
        assert int(row["cl_active"]) >= 1 and row["cl_waiting"] == "0"
        assert row["pool_mode"] == "transaction" and row["maxwait"] == "0"
        own = pooler.pool("pgbouncer", "pgbouncer")
        assert own["pool_mode"] == "statement" and int(own["cl_active"]) >= 1


def test_maxwait(pg15, make_pooler):
    """maxwait and maxwait_us: how long the first in the queue has waited."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with held_server(pooler), pooler.connect() as waiting:
        waiting.send(query("select 1"))
        time.sleep(1.3)
        row = pooler.pool()
        assert row["cl_waiting"] == "1" and row["maxwait"] == "1" and 100_000 < int(row["maxwait_us"]) < 1_000_000
        row = next(r for r in pooler.console("show clients") if r["state"] == "waiting")
        assert row["wait"] == "1"


def test_clients_and_servers(pg15, pooler, console):
    """Each client and server with its state, addresses, link, and the process id on the other side."""
    with pooler.connect(user="alice", database="shop", options={"application_name": "shown"}) as c:
        c.query("begin")
        pid = backend_pid(c)
        client = next(r for r in as_dicts(console.query("show clients")) if r["database"] == "shop")
        server = next(r for r in as_dicts(console.query("show servers")) if r["database"] == "shop")
        assert client["type"] == "C" and client["user"] == "alice" and client["state"] == "active"
        assert client["application_name"] == "shown"
        assert (client["addr"], int(client["port"])) == c.socket.getsockname()
        assert (client["local_addr"], int(client["local_port"])) == (pooler.host, pooler.port)
        assert server["type"] == "S" and server["user"] == "alice" and server["state"] == "active"
        assert (server["addr"], int(server["port"])) == (pg15.host, pg15.port)
        assert server["remote_pid"] == pid
        assert client["link"] == server["ptr"] and server["link"] == client["ptr"]
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", client["connect_time"])
        assert client["tls"] == "" and client["close_needed"] == "0"
        c.query("commit")
        client = next(r for r in as_dicts(console.query("show clients")) if r["database"] == "shop")
        server = next(r for r in as_dicts(console.query("show servers")) if r["database"] == "shop")
        assert client["state"] in ("idle", "active") and client["link"] == ""
        assert server["state"] == "idle" and server["link"] == ""
        assert client["id"] != server["id"]
    states = {r["database"] for r in as_dicts(console.query("show clients"))}
    assert "pgbouncer" in states


def test_prepared_statements_are_counted(pooler, console):
    with pooler.connect(database="shop") as c:
        c.send(*(wire.parse(f"s{i}", f"select {i}") for i in range(3)), wire.sync())
        c.read_ready()
        client = next(r for r in as_dicts(console.query("show clients")) if r["database"] == "shop")
        server = next(r for r in as_dicts(console.query("show servers")) if r["database"] == "shop")
        assert client["prepared_statements"] == "3" and server["prepared_statements"] == "3"


def test_sockets_show_clients_and_servers(pooler, console):
    with pooler.connect(database="shop") as c:
        c.value("select 1")
        assert {r["type"] for r in as_dicts(console.query("show sockets"))} == {"C", "S"}


def test_databases(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={
            "front": f"host={pg15.host} port={pg15.port} dbname=shop user=alice pool_size=7 min_pool_size=0 reserve_pool_size=3 "
            "pool_mode=session max_db_connections=9 max_db_client_connections=11 server_lifetime=60",
            "*": f"host={pg15.host} port={pg15.port}",
        },
    )
    with pooler.connect(database="front") as c:
        c.value("select 1")
        row = next(r for r in pooler.console("show databases") if r["name"] == "front")
    expected = {
        "host": pg15.host,
        "port": str(pg15.port),
        "database": "shop",
        "force_user": "alice",
        "pool_size": "7",
        "min_pool_size": "0",
        "reserve_pool_size": "3",
        "server_lifetime": "60",
        "pool_mode": "session",
        "max_connections": "9",
        "current_connections": "1",
        "max_client_connections": "11",
        "current_client_connections": "1",
        "paused": "0",
        "disabled": "0",
    }
    assert {k: row[k] for k in expected} == expected


def test_users(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        users={
            "alice": "pool_size=4 reserve_pool_size=2 pool_mode=session max_user_connections=6 max_user_client_connections=8"
        },
    )
    with pooler.connect(user="alice") as c:
        c.value("select 1")
        row = next(r for r in pooler.console("show users") if r["name"] == "alice")
    # PgBouncer pads the sizes with blanks.
    row = {k: v and v.strip() for k, v in row.items()}
    expected = {
        "pool_size": "4",
        "reserve_pool_size": "2",
        "pool_mode": "session",
        "max_user_connections": "6",
        "current_connections": "1",
        "max_user_client_connections": "8",
        "current_client_connections": "1",
    }
    assert {k: row[k] for k in expected} == expected


def test_lists(pooler, console):
    rows = {r["list"]: int(r["items"]) for r in as_dicts(console.query("show lists"))}
    names = "databases users peers pools peer_pools free_clients used_clients login_clients free_servers used_servers dns_names dns_zones dns_queries dns_pending"
    assert list(rows) == names.split()
    before = rows["used_clients"]
    with pooler.connect() as c, pooler.connect():
        c.value("select 1")
        rows = {r["list"]: int(r["items"]) for r in as_dicts(console.query("show lists"))}
        assert rows["used_clients"] == before + 2 and rows["used_servers"] >= 1 and rows["pools"] >= 2


def test_stats_count(pooler, console):
    """Transactions, queries, bytes and parses are counted per database."""

    def stats():
        return {r["database"]: r for r in as_dicts(console.query("show stats"))}

    with pooler.connect(database="shop") as c:
        c.value("select 1")
        before = stats()["shop"]
        c.query("begin")
        c.value("select 1 from pg_sleep(0.2)")
        c.query("commit")
        c.send(wire.parse("s", "select $1::int"), wire.bind("", "s", ["1"]), wire.execute(), wire.sync())
        c.read_ready()
        after = stats()["shop"]
        difference = {k: int(after[k]) - int(before[k]) for k in after if k.startswith("total")}
        assert difference["total_xact_count"] == 2
        assert difference["total_query_count"] in (3, 4)
        assert difference["total_client_parse_count"] == 1 and difference["total_server_parse_count"] == 1
        assert difference["total_bind_count"] == 1
        assert difference["total_received"] > 50 and difference["total_sent"] > 50
        assert 200_000 <= difference["total_xact_time"] < 2_000_000
        assert 200_000 <= difference["total_query_time"] < 2_000_000
        assert difference["total_server_assignment_count"] == 2
    totals = {r["name"]: int(r["value"]) for r in as_dicts(console.query("show totals"))}
    assert totals["total_xact_count"] >= 3
    logins = int(stats()["shop"]["total_client_login_count"])
    assert logins == 1


def test_wait_time_is_counted(pg15, make_pooler):
    """avg_wait_time and total_wait_time right."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with pooler.connect(database="shop") as c:
        c.value("select 1")
        with pooler.connect(database="shop") as holder:
            holder.query("begin")
            holder.value("select 1")
            before = int(next(r for r in pooler.console("show stats") if r["database"] == "shop")["total_wait_time"])
            c.send(query("select 2"))
            time.sleep(0.6)
            holder.query("commit")
            c.read_ready()
        after = int(next(r for r in pooler.console("show stats") if r["database"] == "shop")["total_wait_time"])
        assert 400_000 < after - before < 3_000_000


def test_config(pooler, console):
    rows = {r["key"]: r for r in as_dicts(console.query("show config"))}
    assert rows["pool_mode"] == {"key": "pool_mode", "value": "transaction", "default": "session", "changeable": "yes"}
    assert rows["listen_port"] == {
        "key": "listen_port",
        "value": str(pooler.port),
        "default": "6432",
        "changeable": "no",
    }
    assert rows["server_check_query"]["value"] == "<empty>"
    assert rows["query_wait_timeout"]["default"] == "120"
    assert rows["auth_user"]["value"] is None
    # Every setting of PgBouncer 1.25 is there.
    with open(os.path.join(CHECKOUT, "tests", "e2e", "pgbouncer-settings.txt"), encoding="utf-8") as file:
        missing = [name for name in file.read().split() if name not in rows]
    assert not missing


def test_state(console):
    rows = {r["key"]: r["value"] for r in as_dicts(console.query("show state"))}
    assert rows["active"] == "yes" and rows["paused"] == "no"
    console.query("pause")
    rows = {r["key"]: r["value"] for r in as_dicts(console.query("show state"))}
    assert rows["active"] == "no" and rows["paused"] == "yes"
    console.query("resume")


def test_spelling(console):
    """Commands in any case, quoted, with a semicolon; what is not a command is an error and no more."""
    for command in ("SHOW POOLS", "show pools;", "Show Pools ;", ' show "pools" '):
        assert error_codes(console.query(command)) == [], command
    for command in (
        "show",
        "show nonsense",
        "nonsense",
        "show stats extra",
        "show pools; show stats",
        "select 1",
        "show 'pools'",
    ):
        messages = console.query(command)
        assert wire.tags(messages) == "EZ", command
        assert f"invalid command '{command}', use SHOW HELP;" == message_of(messages)
    assert error_codes(console.query("show version")) == []


# ---- commands


def test_set(pg15, pooler, console):
    assert command_tags(console.query("set query_wait_notify = 9")) == ["SET query_wait_notify=9"] or kind() == "pgweir"
    assert {r["key"]: r["value"] for r in as_dicts(console.query("show config"))}["query_wait_notify"] == "9"
    for command in ("set query_wait_notify to 8", "SET query_wait_notify = '7'"):
        assert error_codes(console.query(command)) == []
    assert {r["key"]: r["value"] for r in as_dicts(console.query("show config"))}["query_wait_notify"] == "7"
    for command in ("set nonsense = 1", "set query_wait_notify = x", "set pool_mode = nonsense"):
        assert wire.tags(console.query(command)) == "EZ", command
    for command in ("set client_encoding = utf8", "set datestyle to iso", "set timezone = 'UTC'"):
        messages = console.query(command)
        assert wire.tags(messages) == "NCZ" and messages[0].fields["M"] == "SET ignored"


def test_set_takes_effect(pg15, pooler, console):
    console.query("set default_pool_size = 1")
    console.query("set query_wait_timeout = 1")
    with held_server(pooler), pooler.connect() as c:
        c.send(query("select 1"))
        assert wire.first_error(c.read_to_end(8)).fields["M"] == "query_wait_timeout"


def test_pause_and_resume(pg15, pooler, console):
    """PAUSE waits for what runs, closes the servers, holds new work; RESUME lets it go on."""
    with pooler.connect() as busy, pooler.connect() as later:
        busy.send(query("select 'done' from pg_sleep(1)"))
        eventually(lambda: backends(pg15, "query like '%pg_sleep%' and state = 'active'"))
        watch = Stopwatch()
        assert command_tags(console.query("pause")) == ["PAUSE"]
        assert watch.seconds > 0.3
        assert rows_of(busy.read_ready()) == [("done",)]
        eventually(lambda: backends(pg15) == 0)
        later.send(query("select 'held back'"))
        assert later.quiet(0.4)
        assert message_of(console.query("pause")) == "already paused"
        assert command_tags(console.query("resume")) == ["RESUME"]
        assert rows_of(later.read_ready()) == [("held back",)]
        assert message_of(console.query("resume")) == "pooler is not paused"


def test_pause_of_one_database(pg15, pooler, console):
    with pooler.connect(database="shop") as shop, pooler.connect(database="warehouse") as warehouse:
        for c in (shop, warehouse):
            c.value("select 1")
        assert command_tags(console.query("pause shop")) == ["PAUSE"]
        shop.send(query("select 'held back'"))
        assert shop.quiet(0.3)
        assert warehouse.value("select 1") == "1"
        assert next(r for r in as_dicts(console.query("show databases")) if r["name"] == "shop")["paused"] == "1"
        assert command_tags(console.query("resume shop")) == ["RESUME"]
        assert rows_of(shop.read_ready()) == [("held back",)]


def test_pause_given_up_by_its_client(pg15, pooler):
    """PAUSE with cancel by ^C, or its client gone: others can go on to use the console."""
    with held_server(pooler), pooler.connect(database="pgbouncer") as admin:
        admin.send(query("pause"))
        assert admin.quiet(0.3)
        admin.drop()
        with pooler.connect(database="pgbouncer") as other:
            assert error_codes(other.query("show state")) == []
            other.query("resume")
    with pooler.connect() as c:
        assert c.value("select 1", timeout=5) == "1"


def test_disable_and_enable(pooler, console):
    with pooler.connect(database="shop") as c:
        c.value("select 1")
        if error_codes(console.query("disable shop")) and kind() == "pgweir":
            pytest.skip("not among the commands that are built now")
        with pytest.raises(wire.ServerError) as refused:
            pooler.connect(database="shop")
        assert 'database "shop" is disabled' in str(refused.value)
        console.query("enable shop")
        with pooler.connect(database="shop") as other:
            assert other.value("select 1") == "1"


def test_kill(pg15, pooler, console):
    """KILL drops the database's clients and servers at once and holds it until RESUME."""
    with pooler.connect(database="shop") as victim, pooler.connect(database="warehouse") as other:
        victim.query("begin")
        victim.value("select 1")
        other.value("select 1")
        assert command_tags(console.query("kill shop")) == ["KILL"]
        assert victim.closed(3)
        eventually(lambda: backends(pg15, "datname = 'shop'") == 0)
        assert other.value("select 1") == "1"
        assert command_tags(console.query("resume shop")) == ["RESUME"]
    with pooler.connect(database="shop") as c:
        assert c.value("select 1", timeout=5) == "1"


def test_reconnect(pg15, pooler, console):
    """RECONNECT: idle servers are replaced now, those in use when they are released."""
    with pooler.connect() as idle, pooler.connect() as busy:
        busy.query("begin")
        busy_pid = backend_pid(busy)
        idle_pid = backend_pid(idle)
        assert busy_pid != idle_pid
        assert command_tags(console.query("reconnect")) == ["RECONNECT"]
        eventually(lambda: backends(pg15, f"pid = {idle_pid}") == 0)
        assert backend_pid(busy) == busy_pid
        busy.query("commit")
        eventually(lambda: backends(pg15, f"pid = {busy_pid}") == 0)
        assert backend_pid(busy) not in (busy_pid, idle_pid)


def test_kill_client(pooler, console):
    with pooler.connect(database="shop") as victim, pooler.connect(database="shop") as other:
        victim.value("select 1")
        port = victim.socket.getsockname()[1]
        row = next(r for r in as_dicts(console.query("show clients")) if r["port"] == str(port))
        messages = console.query(f"kill_client {row['id']}")
        if error_codes(messages) and kind() == "pgweir":
            pytest.skip("not among the commands that are built now")
        assert victim.closed(3)
        assert other.value("select 1") == "1"


def test_reload(pg15, pooler, console):
    pooler.settings["default_pool_size"] = 1
    pooler.settings["query_wait_timeout"] = 1
    pooler.write_ini()
    assert command_tags(console.query("reload")) == ["RELOAD"]
    assert {r["key"]: r["value"] for r in as_dicts(console.query("show config"))}["default_pool_size"] == "1"
    with held_server(pooler), pooler.connect() as c:
        c.send(query("select 1"))
        assert wire.first_error(c.read_to_end(8)).fields["M"] == "query_wait_timeout"


@pytest.mark.parametrize("command", ("shutdown", "SHUTDOWN;"))
def test_shutdown(pooler, command):
    with pooler.connect(database="pgbouncer") as admin, pooler.connect() as c:
        c.value("select 1")
        admin.send(query(command))
        assert pooler.wait_exit(5) == 0
        assert c.closed(3)


@pytest.mark.parametrize("command", ("shutdown wait_for_servers", "shutdown wait_for_clients"))
def test_shutdown_that_waits(pooler, command):
    with pooler.connect() as c:
        c.query("begin")
        c.value("select 1")
        with pooler.connect(database="pgbouncer") as admin:
            admin.send(query(command))
            time.sleep(0.5)
        assert pooler.running
        assert c.value("select 2") == "2"
        c.query("commit")
        if command.endswith("clients"):
            assert c.value("select 3") == "3"
            assert pooler.running
            c.close()
        assert pooler.wait_exit(8) == 0


# ---- who may do what


def test_stats_users_may_look_and_not_touch(pooler):
    with pooler.connect(user="stats", database="pgbouncer") as c:
        for command in ("show pools", "show stats", "show version", "show config"):
            assert error_codes(c.query(command)) == [], command
        for command in (
            "pause",
            "resume",
            "reload",
            "kill shop",
            "shutdown",
            "set verbose = 1",
            "reconnect",
            "kill_client 1",
        ):
            messages = c.query(command)
            assert message_of(messages) == "admin access needed", command
        assert error_codes(c.query("show state")) == []
    assert pooler.running


def test_others_may_not_come_in(pooler):
    """Neither a user who is not on a list nor one who does not exist."""
    for user in ("alice", "no such user"):
        with pytest.raises(wire.ServerError):
            pooler.connect(user=user, database="pgbouncer")


def test_console_asks_for_the_password(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"})
    with pooler.connect(database="pgbouncer", password="postgres-pw") as c:
        assert c.authentication == [10, 11, 12, 0]
    with pytest.raises(wire.ServerError):
        pooler.connect(database="pgbouncer", password="wrong")


def unix_query(pooler, user, as_root=False):
    """`show version` over the Unix-domain socket, by psql under the pooler's user id or another."""
    command = [
        client_program("psql"),
        "-X",
        "-A",
        "-t",
        "-h",
        pooler.dir,
        "-p",
        str(pooler.port),
        "-U",
        user,
        "-d",
        "pgbouncer",
        "-w",
        "-c",
        "show version",
    ]
    name = None if as_root else server_user()
    uid = pwd.getpwnam(name).pw_uid if name else None
    return subprocess.run(command, capture_output=True, text=True, timeout=20, user=uid)


def test_user_pgbouncer_over_the_unix_socket(pg15, make_pooler):
    """User pgbouncer on the Unix-domain socket with the pooler's own uid is an administrator without a password."""
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256", "admin_users": None})
    assert unix_query(pooler, "pgbouncer").returncode == 0
    assert unix_query(pooler, "postgres").returncode != 0
    if os.geteuid() == 0:
        assert unix_query(pooler, "pgbouncer", as_root=True).returncode != 0
    with pytest.raises(wire.ServerError):
        pooler.connect(user="pgbouncer", database="pgbouncer")


def test_auth_type_any_lets_anybody_look(pg15, make_pooler):
    pooler = make_pooler(
        pg15,
        databases={"*": f"host={pg15.host} port={pg15.port} user=alice"},
        settings={"auth_type": "any", "auth_file": None, "admin_users": None, "stats_users": None},
    )
    with pooler.connect(user="whoever", database="pgbouncer") as c:
        assert error_codes(c.query("show pools")) == []


# ---- real clients


def test_psql(pooler):
    command = [
        client_program("psql"),
        "-X",
        "-h",
        pooler.host,
        "-p",
        str(pooler.port),
        "-U",
        "postgres",
        "-d",
        "pgbouncer",
    ]
    script = "".join(f"{show};\n" for show in REQUIRED) + "show help;\nreload;\n"
    result = subprocess.run(
        [*command, "-v", "ON_ERROR_STOP=1"], input=script, capture_output=True, text=True, timeout=20
    )
    assert result.returncode == 0, result.stderr
    assert "sv_being_canceled" in result.stdout and "RELOAD" in result.stdout


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("binary", (False, True))
def test_psycopg(pooler, binary):
    """The extended protocol, in text and binary, prepared and not."""
    for threshold in (None, 0):
        with psycopg.connect(pooler.dsn(dbname="pgbouncer"), autocommit=True, prepare_threshold=threshold) as c:
            for _ in range(2):
                for show in REQUIRED:
                    cursor = c.cursor(binary=binary).execute(show.encode())
                    names = [d.name for d in cursor.description]
                    assert names == [name for name, _ in COLUMNS[show]]
                    cursor.fetchall()
                row = dict(c.cursor(binary=binary).execute("show lists").fetchall())
                assert isinstance(row["used_clients"], int)
                c.execute("set query_wait_notify = 6")
                with pytest.raises(psycopg.Error, match="invalid command"):
                    c.execute("no such command")
                # In pipeline mode, too.
                with c.pipeline():
                    one, two = c.execute("show version"), c.execute("show state")
                    assert one.fetchone() and two.fetchall()


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("driver", ("pgx", "jdbc"))
def test_other_drivers(pooler, driver):
    run_program(driver, pooler.host, pooler.port, "console", database="pgbouncer")


@pytest.mark.beyond_pgbouncer
def test_extended_protocol_of_the_console(console):
    """Parse, Describe, Bind, Execute with a row limit, Close, errors skipped to Sync."""
    console.send(
        wire.parse("s", "show lists"),
        wire.describe("S", "s"),
        wire.bind("p", "s"),
        wire.describe("P", "p"),
        wire.execute("p"),
        wire.close("S", "s"),
        wire.sync(),
    )
    messages = console.read_ready()
    assert re.fullmatch("1tT2TD+C3Z", wire.tags(messages))
    assert [c[:2] for c in messages[2].columns] == COLUMNS["show lists"]
    console.send(wire.one_statement("nonsense"), wire.one_statement("show version"), wire.sync())
    messages = console.read_ready()
    assert re.fullmatch("1?2?EZ", wire.tags(messages))
    console.send(wire.bind("", "nosuch"), wire.sync())
    assert error_codes(console.read_ready()) == ["26000"]
    assert error_codes(console.query("show version")) == []


def test_console_under_load(pg15, pooler, console):
    """Scraping must not stall the work: SHOW while clients run."""
    stop = threading.Event()
    failures = []

    def scrape():
        try:
            with pooler.connect(database="pgbouncer") as c:
                while not stop.is_set():
                    for command in ("show pools", "show clients", "show stats", "show servers"):
                        assert error_codes(c.query(command)) == []
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(2)]
    for t in threads:
        t.start()
    with pooler.connect() as c:
        watch = Stopwatch()
        count = 0
        while watch.seconds < 1.5:
            assert c.value("select 1") == "1"
            count += 1
    stop.set()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    assert count > 100


def test_recording_is_pgbouncers():
    """Where PgBouncer 1.26 is in the cache, the recorded columns are compared with it by a run of this very file."""
    if kind() == "pgbouncer" or not os.path.exists(os.path.join(CHECKOUT, ".cache", "pgbouncer126", "pgbouncer")):
        pytest.skip("PgBouncer 1.26 is not in the cache")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "test_columns"],
        env={**os.environ, "PGWEIR_TEST_POOLER": "pgbouncer"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout[-3000:]
