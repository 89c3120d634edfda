"""pgweir advise: one report on connections, memory and poolers."""

import json
import os
import re
import shutil
import signal
import subprocess

import pgthrow
import pytest
from conftest import backends
from harness import wire
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.pooler import CHECKOUT, kind, program
from harness.reports import check_report
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="a command of pgweir")


PGWEIR = program()

# The adviser's connection, once it has looked around: the looks follow each other quickly, so that it is mostly idle.
WATCHING = "application_name = 'pgweir lab' and query like '%pg_stat_activity%'"


def advise(*arguments, check=True):
    result = subprocess.run(
        [*PGWEIR, "advise", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stderr
    assert "panicked" not in result.stderr
    return result


def as_json(*arguments):
    return json.loads(advise("--json", "--seconds", "1", *arguments).stdout)


def findings(advice):
    return {finding["id"]: finding for finding in advice["findings"]}


@pytest.fixture(scope="module", params=[15, 18], ids=["pg15", "pg18"])
def server(request):
    from harness import ports

    settings = {"max_connections": "100", "shared_buffers": "16MB", "work_mem": "4MB"}
    with pgthrow.Cluster(version=request.param, port=ports.take(), settings=settings) as cluster:
        cluster.psql("create role monitor login; grant pg_monitor to monitor; create role plain login")
        yield cluster


def test_the_report_is_read_only_and_complete(server):
    before = server.psql("select count(*) from pg_class; select count(*) from pg_extension")
    advice = as_json("--server", server.dsn(), "--ram", "8", "--cores", "2")
    found = findings(advice)
    for name in ("connections.room", "connections.limit", "memory.budget", "memory.huge_pages", "connections.at_work"):
        assert name in found, found.keys()
    assert advice["facts"]["settings"]["memory"]["max_connections"] == 100
    assert advice["facts"]["settings"]["memory"]["shared_buffers_bytes"] == 16 << 20
    # 76 MB x 100 and a little: PostgreSQL's defaults are about what 8 GB are.
    assert found["memory.budget"]["severity"] == "fine"
    # Without pg_buffercache it is judged as far as that goes: nobody reads anything.
    verdict = found["memory.shared_buffers"]
    assert verdict["severity"] in ("unknown", "fine", "advice") and verdict["evidence"], verdict
    formula = "(work_mem 4 MB + maintenance_work_mem 64 MB + temp_buffers 8 MB) x max_connections 100"
    assert formula in found["memory.budget"]["evidence"][0]
    assert any("pg_buffercache" in unseen["why"] for unseen in advice["unseen"])
    assert server.psql("select count(*) from pg_class; select count(*) from pg_extension") == before


def test_idle_connections_and_a_forgotten_transaction(server):
    clients = []
    try:
        for _ in range(60):
            clients.append(wire.Connection(host=server.host, port=server.port, user="postgres", database="postgres"))
        for client in clients:
            client.query("select 1")
        clients[0].query("begin")
        advice = as_json("--server", server.dsn())
        found = findings(advice)
        idle = found["connections.idle"]
        assert idle["severity"] == "warning" and re.match(r"59 of 60 connections are idle", idle["title"]), idle
        assert any("a backend takes" in sentence for sentence in idle["evidence"]), idle
        assert {"file": "pgbouncer.ini", "line": "pool_mode = transaction"} in idle["changes"]
        assert advice["facts"]["sessions"]["idle_in_transaction"] == 1
        assert advice["facts"]["backends"]["backends"] == 60 and advice["facts"]["backends"]["private_bytes"] > 60 << 18
        text = advise("--server", server.dsn(), "--seconds", "0").stdout
        assert "[warning] 59 of 60 connections are idle" in text and "risk: " in text
        # The verdict is the second line, and no report names a file that only developers have.
        assert text.splitlines()[1].startswith("Something should be changed, first of all: "), text
        assert "docs/" not in text
    finally:
        for client in clients:
            client.close()


def test_pg_monitor_alone_is_enough_and_less_is_told(server):
    monitor = as_json("--server", f"host=127.0.0.1 port={server.port} user=monitor dbname=postgres")
    assert monitor["facts"]["sessions"]["hidden"] == 0
    assert monitor["facts"]["data_bytes"] > 1 << 20
    with wire.Connection(host=server.host, port=server.port, user="postgres", database="postgres") as client:
        client.query("select 1")
        plain = as_json("--server", f"host=127.0.0.1 port={server.port} user=plain dbname=postgres")
    assert plain["facts"]["sessions"]["hidden"] >= 1
    assert any("grant pg_monitor" in unseen["how"] for unseen in plain["unseen"]), plain["unseen"]


def test_as_from_another_machine(server):
    """In a namespace of its own the program sees no process of the server; what it cannot see it does not guess."""
    result = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", *PGWEIR, "advise", "--json", "--seconds", "0"]
        + ["--server", f"host=127.0.0.1 port={server.port} user=monitor dbname=postgres"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if result.returncode != 0 and "unshare" in result.stderr:
        pytest.skip("no namespaces here")
    advice = json.loads(result.stdout)
    assert advice["facts"]["ram_bytes"] is None and advice["facts"]["machine"] is None
    assert "memory.budget" not in findings(advice)
    assert any("--ram and --cores" in unseen["how"] for unseen in advice["unseen"])


def test_a_page_is_written(server, tmp_path):
    page = tmp_path / "advice.html"
    advise("--server", server.dsn(), "--seconds", "0", "--html", str(page))
    assert "max_connections" in page.read_text()
    if browser_program():
        with Browser() as browser:
            check_report(browser, page, figures_min=2)


def test_no_server_is_a_clear_error():
    result = advise("--server", "host=127.0.0.1 port=1 user=x dbname=x", check=False)
    assert result.returncode == 1 and "could not connect" in result.stderr


def sleeping_adviser(cluster):
    """An advise that is watching the server."""
    process = subprocess.Popen(
        [*PGWEIR, "advise", "--server", cluster.dsn(), "--seconds", "30"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: backends(cluster, WATCHING) == 1, timeout=20, what="advise watches the server")
    return process


def test_ctrl_c_ends_it_at_once(pg15):
    process = sleeping_adviser(pg15)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT and output == ""
    eventually(lambda: backends(pg15, WATCHING) == 0, timeout=10, what="its connection is closed")


def test_a_server_that_stops_meanwhile(own_cluster):
    cluster = own_cluster()
    process = sleeping_adviser(cluster)
    cluster.restart("immediate")
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 1 and output == ""
    assert "was PostgreSQL stopped or restarted meanwhile?" in errors, errors


def test_extensions_that_are_not_installed(server):
    """PostgreSQL 18 can be told to look for them elsewhere; they are named, with what to do, and the rest is judged."""
    if server.version < 18:
        pytest.skip("extension_control_path came with PostgreSQL 18")
    advice = as_json("--server", server.dsn() + " options='-c extension_control_path=/nowhere'", "--ram", "8", "--cores", "2")
    unseen = [unseen for unseen in advice["unseen"] if "pg_buffercache" in unseen["why"]]
    assert unseen and 'extension "pg_buffercache" is not installed on the server' in unseen[0]["why"], advice["unseen"]
    assert "postgresql-contrib" in unseen[0]["how"]
    assert "memory.budget" in findings(advice)


def pgbouncers():
    """Programs of PgBouncer on this machine: 1.26 of the cache, an installed one."""
    found = []
    cached = os.path.join(CHECKOUT, ".cache", "pgbouncer126", "pgbouncer")
    if os.path.exists(cached):
        found.append(cached)
    installed = shutil.which("pgbouncer") or (os.path.exists("/usr/sbin/pgbouncer") and "/usr/sbin/pgbouncer")
    if installed:
        found.append(installed)
    return found


@pytest.mark.parametrize("which", ["pgweir", "pgbouncer"])
def test_a_queue_at_a_pooler(pg15, make_pooler, monkeypatch, which):
    """PGWEIR stays the adviser; the pooler is pgweir or a real PgBouncer."""
    if which == "pgbouncer":
        programs = pgbouncers()
        if not programs:
            pytest.skip("no PgBouncer here")
        monkeypatch.setattr("harness.pooler.program", lambda: [programs[0]])
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "min_pool_size": 0, "max_prepared_statements": 0})
    with pooler.connect() as holder, pooler.connect() as waiter:
        holder.query("begin")
        holder.query("select 1")
        waiter.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        advice = as_json("--server", pg15.dsn(), "--cores", "2", "--console", pooler.dsn(dbname="pgbouncer"))
        found = findings(advice)
        assert "1 client waits for a server" in found["pooler.waits"]["title"], found["pooler.waits"]
        assert found["pooler.waits"]["changes"] == [{"file": "pgbouncer.ini", "line": "default_pool_size = 5"}]
        assert advice["pooler"]["pools"][0]["size"] == 1
        assert found["pooler.prepared"]["severity"] == "advice" and found["pooler.warm"]["severity"] == "advice"
        # A console alone, of which the database need not be named.
        alone = as_json("--server", "host=127.0.0.1 port=1", "--console", f"host=127.0.0.1 port={pooler.port} user=postgres")
        assert alone["facts"] is None and alone["pooler"]["version"]
        assert any(unseen["what"] == "the server itself" for unseen in alone["unseen"])
        holder.query("rollback")
        waiter.read_ready()
