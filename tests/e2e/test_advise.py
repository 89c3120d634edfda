"""pgweir advise: one report on connections, memory and poolers."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pgthrow
import pytest
from conftest import backends
from harness import wire
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.commands import run
from harness.pooler import CHECKOUT, kind, program
from harness.reports import check_report
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="a command of pgweir")


PGWEIR = program()

# The adviser's connection, once it has looked around: the looks follow each other quickly, so that it is mostly idle.
WATCHING = "application_name = 'pgweir lab' and query like '%pg_stat_activity%'"


def advise(*arguments, check=True):
    return run("advise", *arguments, check=check)


def as_json(*arguments):
    return json.loads(advise("--json", "--seconds", "1", *arguments).stdout)


def findings(advice):
    return {finding["id"]: finding for finding in advice["findings"]}


def lines(finding):
    return [change["line"] for change in finding["changes"]]


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
        assert "pool_mode = transaction" in lines(idle)
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


def answering(arguments, answers):
    """Runs an advise at a terminal; gives these answers to its questions, one after the other. Status and all that it said."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(PGWEIR[0], [*PGWEIR, "advise", *arguments])
    said, asked = b"", 0
    while True:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, said
        try:
            part = os.read(terminal, 65536)
        except OSError:  # The terminal is closed with its last program.
            break
        if not part:
            break
        said += part
        while asked < said.count(b"[y/N] "):
            os.write(terminal, answers[asked].encode() + b"\n")
            asked += 1
    assert asked == len(answers), said
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.decode().replace("\r\n", "\n")


def test_apply_asks_for_each_change_and_leaves_the_restart_to_the_user(own_cluster):
    """2,000 connections with 1 GB of work_mem each: two settings, of which one needs a restart."""
    cluster = own_cluster(settings={"max_connections": "2000", "work_mem": "1GB"})
    arguments = ["--server", cluster.dsn(), "--seconds", "0", "--ram", "16", "--cores", "2", "--apply"]
    started = cluster.psql("select pg_postmaster_start_time()")
    written = "select string_agg(name, ', ' order by name) from pg_file_settings where sourcefile like '%auto.conf'"
    status, said = answering(arguments, ["n", "n"])
    assert status == 0 and "Nothing was changed." in said, said
    assert cluster.psql(written) == ""
    status, said = answering(arguments, ["y", "y"])
    assert status == 0, said
    assert "max_connections is 2000 now: " in said and "ALTER SYSTEM SET max_connections = '100'? [y/N]" in said, said
    # Two findings ask for it.
    assert said.count("ALTER SYSTEM SET max_connections = '100'?") == 1, said
    assert "max_connections: written; it takes effect when you restart the server" in said, said
    work_mem = cluster.psql("show work_mem")
    assert work_mem != "1GB" and f"work_mem is {work_mem} now; ALTER SYSTEM RESET work_mem undoes it" in said, said
    assert cluster.psql(written) == "max_connections, work_mem"
    assert cluster.psql("select pending_restart from pg_settings where name = 'max_connections'") == "t"
    assert cluster.psql("select pg_postmaster_start_time()") == started
    # A setting of the role comes before the file.
    cluster.psql("alter system reset work_mem; alter role postgres set work_mem = '2GB'")
    cluster.reload()
    status, said = answering(arguments, ["n", "y"])
    assert status == 0 and 'work_mem: written, but "user" sets it for this session' in said, said


def test_apply_without_a_terminal_or_the_right(server):
    refused = advise("--server", server.dsn(), "--apply", check=False)
    assert refused.returncode == 1 and "no terminal to ask at" in refused.stderr and refused.stdout == ""
    plain = f"host=127.0.0.1 port={server.port} user=monitor dbname=postgres"
    # 100 connections on 1 GB: fewer are advised.
    status, said = answering(["--server", plain, "--seconds", "0", "--ram", "1", "--cores", "1", "--apply"], ["y"])
    assert status == 1 and "permission denied" in said and "GRANT ALTER SYSTEM ON PARAMETER" in said, said


def test_exit_status_for_scripts(server):
    """3 where a finding is as severe as told; 1 stays for errors."""
    bad = ["--server", server.dsn(), "--seconds", "0", "--ram", "1", "--cores", "1"]
    advice = json.loads(advise("--json", *bad).stdout)
    assert advice["findings"][0]["severity"] == "advice", advice["findings"][0]
    assert advise(*bad).returncode == 0
    assert advise(*bad, "--fail-on", "advice", check=False).returncode == 3
    assert advise(*bad, "--fail-on", "warning", check=False).returncode == 0
    assert advise("--server", "host=127.0.0.1 port=1", "--fail-on", "advice", check=False).returncode == 1
    assert advise(*bad, "--fail-on", "fine", check=False).returncode not in (0, 3)


def test_each_finding_says_how_to_see_that_it_helped(server):
    bad = ["--server", server.dsn(), "--seconds", "0", "--ram", "1", "--cores", "1"]
    for finding in json.loads(advise("--json", *bad).stdout)["findings"]:
        assert bool(finding["helped"]) == (finding["severity"] in ("critical", "warning", "advice")), finding
    assert "    it has helped if: pgweir advise says that the worst case fits" in advise(*bad).stdout


def test_the_schema_is_printed_without_a_server():
    schema = json.loads(advise("--json-schema").stdout)
    assert schema["title"] == "pgweir advise --json" and "Finding" in schema["$defs"]


def is_held_up_while_watched(cluster, pooler) -> None:
    """While advise watches, a transaction holds the pool's only server, and a client waits."""
    eventually(lambda: backends(cluster, WATCHING) == 1, timeout=20, what="advise watches the server")
    with pooler.connect() as holder, pooler.connect() as waiter:
        holder.query("begin")
        holder.query("select 1")
        waiter.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        # Two looks at the console are in this time, and many at the server.
        time.sleep(5)
        holder.query("rollback")
        waiter.read_ready()


def test_watching_sees_what_comes_and_goes(pg15, make_pooler):
    """A queue and a transaction that are gone before the report is written, and were not there at its beginning."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    process = subprocess.Popen(
        [*PGWEIR, "advise", "--json", "--watch", "14s", "--server", pg15.dsn(), "--cores", "2"]
        + ["--console", pooler.dsn(dbname="pgbouncer")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    is_held_up_while_watched(pg15, pooler)
    advice = json.loads(process.communicate(timeout=60)[0])
    sessions = advice["facts"]["sessions"]
    assert sessions["watched"]["secs"] >= 13 and sessions["looks"] > 20, sessions
    assert sessions["idle_in_transaction"] >= 1 and sessions["idle_in_transaction_longest"]["secs"] >= 3, sessions
    waits = findings(advice)["pooler.waits"]
    assert "1 client waits for a server" in waits["title"], waits
    assert any(re.match(r"clients waited at [1-9] of \d+ looks", sentence) for sentence in waits["evidence"]), waits


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watching_that_is_ended_early_reports_what_was_seen(pg15, make_pooler, number):
    """A transaction and a queue that are gone when the signal comes, long before the time is over."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    process = subprocess.Popen(
        [*PGWEIR, "advise", "--json", "--watch", "1h", "--server", pg15.dsn(), "--cores", "2", "--fail-on", "critical"]
        + ["--console", pooler.dsn(dbname="pgbouncer")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    is_held_up_while_watched(pg15, pooler)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Ctrl-C ends it with a report on what was seen" in errors
    advice = json.loads(output)
    sessions = advice["facts"]["sessions"]
    assert sessions["ended_early"] and sessions["watched"]["secs"] < 3600, sessions
    assert sessions["idle_in_transaction"] >= 1, sessions
    assert "1 client waits for a server" in findings(advice)["pooler.waits"]["title"]
    eventually(lambda: backends(pg15, WATCHING) == 0, timeout=10, what="its connection is closed")


def test_the_second_ctrl_c_ends_watching_at_once(own_cluster):
    """The first one waits for a server that does not answer."""
    cluster = own_cluster()
    process = subprocess.Popen(
        [*PGWEIR, "advise", "--watch", "1h", "--server", cluster.dsn()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: backends(cluster, WATCHING) == 1, timeout=20, what="advise watches the server")
    pid = int(cluster.psql(f"select pid from pg_stat_activity where {WATCHING}"))
    os.kill(pid, signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=10)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert process.returncode == -signal.SIGINT and output == ""


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
        assert lines(found["pooler.waits"]) == ["default_pool_size = 5"]
        assert advice["pooler"]["pools"][0]["size"] == 1
        assert found["pooler.prepared"]["severity"] == "advice" and found["pooler.warm"]["severity"] == "advice"
        # A console alone, of which the database need not be named.
        alone = as_json("--server", "host=127.0.0.1 port=1", "--console", f"host=127.0.0.1 port={pooler.port} user=postgres")
        assert alone["facts"] is None and alone["pooler"]["version"]
        assert any(unseen["what"] == "the server itself" for unseen in alone["unseen"])
        holder.query("rollback")
        waiter.read_ready()


def test_a_pool_that_finds_its_size(pg15, make_pooler):
    """What SHOW SIZING says is read; the pool is not judged by the processors."""
    pooler = make_pooler(pg15, settings={"default_pool_size": "auto", "min_pool_size": 0})
    with pooler.connect() as c:
        c.query("select 1")
        asked = ("--server", pg15.dsn(), "--cores", "2", "--console", pooler.dsn(dbname="pgbouncer"))
        advice = as_json(*asked)
        sizing = findings(advice)["pooler.sizing"]
        assert sizing["severity"] == "fine" and "8 servers of 127.0.0.1" in sizing["title"], sizing
        # Nothing has been found yet, and the report does not say so.
        assert sizing["title"].endswith("where pgweir's search begins"), sizing
        assert advice["pooler"]["pools"][0]["finds_size"] is True
        assert advice["pooler"]["sizings"][0]["settled"] == 8
        pooler.console("SET sizing = 'hold'")
        held = findings(as_json(*asked))["pooler.sizing"]
        assert held["severity"] == "advice"
        assert lines(held) == ["sizing = auto"]
