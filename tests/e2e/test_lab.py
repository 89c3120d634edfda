"""`pgweir lab` against real servers: what it says when something is in the way, and that it leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import tempfile
import termios
import time

import pgthrow
import pytest
from conftest import VERSIONS, backends
from harness import ports
from harness.pooler import PASSWORDS, kind, program
from harness.waiting import ended, eventually, read_until

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the lab is pgweir's")

DATABASE = "pgweir_lab"
PGBENCH = "application_name = 'pgbench'"
SLEEPING = "state = 'active' and query like 'select pg_sleep%'"
QUICK = ("-T", "1", "--rounds", "1", "--scale", "1", "-b", "select-only", "--clients", "1,2,4", "--pool-sizes", "1,2")
QUICK_CONNECT = ("-T", "1", "--rounds", "1", "-c", "2")
QUICK_IDLE = ("-T", "1", "--rounds", "1", "--scale", "1", "-c", "2", "--idle", "4", "--row", "select", "--direct-only")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide what the system has")


@pytest.fixture
def tmp_path():
    """A folder that the unprivileged user of servers and poolers reaches; pytest's own is for its user alone."""
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def conninfo(cluster, user="postgres", dbname="postgres") -> str:
    return f"host={cluster.host} port={cluster.port} user={user} dbname={dbname}"


def start(tmp_path, *arguments, inside=(), **environment) -> subprocess.Popen:
    """The lab, with its results and its temporary files in folders that can be looked at. `inside`: a command that runs it."""
    files = tmp_path / "files"
    files.mkdir(exist_ok=True)
    files.chmod(0o755)
    return subprocess.Popen(
        [*inside, *program(), "lab", *arguments, "--output", str(tmp_path / "results")],
        env={**os.environ, "TMPDIR": str(files), "PGPASSWORD": PASSWORDS["postgres"], **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path, *arguments, inside=(), **environment) -> tuple[int, str]:
    """Its status, and all that it said."""
    with start(tmp_path, *arguments, inside=inside, **environment) as lab:
        output, errors = lab.communicate(timeout=180)
    return lab.returncode, output + errors


def databases(cluster) -> str:
    return cluster.psql(f"select count(*) from pg_database where datname = '{DATABASE}'").strip()


def nothing_is_left(tmp_path, cluster=None):
    assert not (tmp_path / "results").exists()
    eventually(lambda: not os.listdir(tmp_path / "files"), what=lambda: str(os.listdir(tmp_path / "files")))
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                assert str(tmp_path) not in file.read(), f"process {entry} is left"
        except (FileNotFoundError, ProcessLookupError):
            pass
    if cluster:
        assert databases(cluster) == "0"


def test_connections_on_a_server(pg, tmp_path):
    status, said = run(tmp_path, "connections", "-s", conninfo(pg), "--yes", "--force", *QUICK)
    assert status == 0, said
    for words in (
        # One round says nothing of the noise, so nothing is recommended.
        "The rounds are too few and too different to recommend",
        "--rounds 3 in place of 1",
        "direct, 4 clients",
        "pgweir, pool of 2, 4 clients",
        "pgweir, pool size auto, 4 clients",
    ):
        assert words in " ".join(said.split())
    assert "Set max_connections" not in said
    result = json.loads((tmp_path / "results" / "result.json").read_text())
    assert result["schema"] == 1 and result["command"] == "connections" and result["paste"] == []
    tps = {case["name"]: case["metrics"].get("tps", []) for case in result["cases"]}
    assert all(len(rounds) == 1 and rounds[0] > 0 for rounds in tps.values()) and len(tps) == 7, tps
    assert "<svg" in (tmp_path / "results" / "report.html").read_text()
    assert PASSWORDS["postgres"] not in (tmp_path / "results" / "result.json").read_text()
    assert databases(pg) == "0"


@pytest.mark.parametrize("version", VERSIONS)
def test_connect_on_a_throwaway_server(tmp_path, version):
    command = ["connect", "--throwaway", "--bin-dir", pgthrow.server_bin_dir(version), *QUICK_CONNECT]
    status, said = run(tmp_path, *command)
    assert status == 0, said
    result = json.loads((tmp_path / "results" / "result.json").read_text())
    assert result["server"]["version"].startswith(str(version))
    text = " ".join(said.split())
    for words in (
        "Clients that use TLS and log in with SCRAM, anew for each query, get",
        "Clients that need no password, anew for each query, get",
        "pgweir with TLS and SCRAM, connection for each",
        "startup and authentication",
    ):
        assert words in text
    cases = result["cases"]
    tls = next(case for case in cases if case["name"] == "direct with TLS, one at a time")
    plain = next(case for case in cases if case["name"] == "direct, one at a time")
    assert tls["metrics"]["tls_ms"][0] > 0 and plain["metrics"]["tls_ms"] == [0]
    pooled = next(case for case in cases if case["name"] == "pgweir with TLS and SCRAM, one at a time")
    assert pooled["metrics"]["tls_ms"][0] > 0
    assert not [case for case in cases if case["failure"]]
    # A folder that is gone is of no use to the reader.
    assert "pgweir-throwaway-" not in said + (tmp_path / "results" / "report.html").read_text()


def ways_of(tmp_path) -> set[str]:
    cases = json.loads((tmp_path / "results" / "result.json").read_text())["cases"]
    assert not [case for case in cases if case["failure"]], cases
    return {case["name"].removesuffix(", one at a time") for case in cases if case["name"].endswith(", one at a time")}


@pytest.mark.parametrize(
    ("asks", "who", "more"),
    [
        ("scram-sha-256", "log in with SCRAM", {"pgweir with TLS and SCRAM"}),
        ("md5", "log in with MD5", {"pgweir with SCRAM", "pgweir with TLS and SCRAM"}),
        ("password", "send the password in clear text", {"pgweir with SCRAM", "pgweir with TLS and SCRAM"}),
    ],
)
def test_connect_compares_the_login_that_the_server_asks_for(own_cluster, tmp_path, asks, who, more):
    cluster = own_cluster()
    encryption = "md5" if asks == "md5" else "scram-sha-256"
    cluster.psql(f"set password_encryption = '{encryption}'; create role prover superuser login password 'proof'")
    cluster.write_hba(f"host all prover all {asks}\nlocal all all trust\nhost all all all trust\n")
    cluster.reload()
    arguments = ["connect", "-s", conninfo(cluster, "prover"), "--yes", "--force", *QUICK_CONNECT]
    status, said = run(tmp_path, *arguments, PGPASSWORD="proof")
    assert status == 0, said
    text = " ".join(said.split())
    assert f"Clients that {who}, anew for each query, get" in text and "no password" not in text, said
    login = {"scram-sha-256": "SCRAM", "md5": "MD5", "password": "a password in clear text"}[asks]
    assert ways_of(tmp_path) == {f"direct with {login}", f"pgweir with {login}", *more}


def test_connect_on_a_server_that_requires_tls(own_cluster, certificates, tmp_path):
    pair = certificates.server
    cluster = own_cluster(settings={"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key})
    cluster.psql("create role prover superuser login password 'proof'")
    cluster.write_hba("hostssl all prover all scram-sha-256\nhostnossl all prover all reject\nlocal all all trust\nhost all all all trust\n")
    cluster.reload()
    arguments = ["connect", "-s", conninfo(cluster, "prover"), "--yes", "--force", *QUICK_CONNECT]
    status, said = run(tmp_path, *arguments, PGPASSWORD="proof")
    assert status == 0, said
    assert "Clients that use TLS and log in with SCRAM, anew for each query, get" in " ".join(said.split()), said
    assert ways_of(tmp_path) == {"direct with TLS and SCRAM", "pgweir with TLS and SCRAM", "pgweir with SCRAM"}
    left_out = json.loads((tmp_path / "results" / "result.json").read_text())["left_out"]
    assert any(text.startswith("direct without TLS: ") for text in left_out), left_out


def test_nothing_is_done_unasked(pg15, tmp_path):
    status, said = run(tmp_path, "connections", "-s", conninfo(pg15), "--force", *QUICK)
    assert status == 1
    assert "there is no terminal to ask at" in said and 'create the database "pgweir_lab"' in said and "--yes" in said
    nothing_is_left(tmp_path, pg15)


def test_a_database_of_others_is_left_alone(pg15, tmp_path):
    status, said = run(tmp_path, "connections", "-s", conninfo(pg15), "--yes", "--force", "--database", "shop", *QUICK)
    assert status == 1 and 'database "shop" exists, and the lab has not made it' in said
    assert pg15.psql("select count(*) from pg_database where datname = 'shop'").strip() == "1"


def test_foreign_load_is_refused(pg15, tmp_path):
    busy = subprocess.Popen(
        [pgthrow.client_program("psql"), "-X", conninfo(pg15), "-c", "select pg_sleep(30)"],
        env={**os.environ, "PGPASSWORD": PASSWORDS["postgres"]},
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: backends(pg15, SLEEPING) == 1)
        status, said = run(tmp_path, "connections", "-s", conninfo(pg15), "--yes", *QUICK)
        assert status == 1 and "the server is in use" in said and "--force" in said
    finally:
        busy.terminate()
        busy.wait()
        pg15.psql(f"select pg_terminate_backend(pid) from pg_stat_activity where {SLEEPING} and pid <> pg_backend_pid()")
    nothing_is_left(tmp_path, pg15)


def test_a_role_that_may_only_look(pg15, tmp_path):
    pg15.psql("create role watcher login password 'watcher' in role pg_monitor")
    try:
        arguments = ("connections", "-s", conninfo(pg15, "watcher"), "--yes", "--force", *QUICK)
        status, said = run(tmp_path, *arguments, PGPASSWORD="watcher")
        assert status == 1 and "permission denied to create database" in said and 'alter role "watcher" createdb' in said
    finally:
        pg15.psql("drop role watcher")
    nothing_is_left(tmp_path, pg15)


@as_root
@pytest.mark.parametrize("command", [("connections", *QUICK), ("connect", *QUICK_CONNECT), ("idle", *QUICK_IDLE)])
def test_as_from_another_machine(pg15, tmp_path, command):
    """By a role that may look and create databases, where no process of the server can be seen."""
    pg15.psql("create role watcher login createdb password 'watcher' in role pg_monitor")
    hidden = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    try:
        arguments = [command[0], "-s", conninfo(pg15, "watcher"), "--yes", "--force", *command[1:]]
        status, said = run(tmp_path, *arguments, inside=hidden, PGPASSWORD="watcher")
        assert status == 0, said
        words = {
            "connections": "The rounds are too few and too different to recommend",
            "connect": ", anew for each query, get",
            "idle": "Each idle connection held a server process",
        }[command[0]]
        assert words in " ".join(said.split()), said
        assert databases(pg15) == "0"
    finally:
        pg15.psql("drop role watcher")


@as_root
@pytest.mark.parametrize("command", ["connections", "connect", "idle", "buffers"])
def test_pgbench_is_missing(tmp_path, pg15, command):
    """Neither in PATH nor where packages put it: their folder is hidden from this process alone."""
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /usr/lib/postgresql && PATH=/nowhere exec "$@"', "sh"]
    status, said = run(tmp_path, command, *restarting(command), "-s", conninfo(pg15), "--yes", inside=hidden)
    assert status == 1, said
    assert "pgweir: found no pgbench, PostgreSQL's load generator" in said
    assert "hint: apt-get install postgresql-contrib " in said and "hint: dnf install postgresql-contrib " in said
    nothing_is_left(tmp_path, pg15)


def restarting(command: str) -> list[str]:
    """What lab buffers asks for beside the server."""
    return ["--data-dir", "/nowhere", "--restart-command", "false"] if command == "buffers" else []


def test_a_pgbench_that_is_none(tmp_path, pg15):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pgbench").write_text("#!/bin/sh\necho nonsense\n")
    (folder / "pgbench").chmod(0o755)
    status, said = run(tmp_path, "connections", "-s", conninfo(pg15), "--yes", "--bin-dir", str(folder), *QUICK)
    assert status == 1 and 'says "nonsense" and not a version of pgbench' in said


def test_no_server(tmp_path):
    status, said = run(tmp_path, "connections", "-s", "host=127.0.0.1 port=1 user=x", "--yes", *QUICK)
    assert status == 1 and 'could not connect to server at "127.0.0.1", port 1' in said and "hint:" in said


@pytest.mark.parametrize("step", ["filling", "direct, 2 clients", "pgweir, pool of 1"])
def test_an_interrupted_run_leaves_nothing_behind(pg15, tmp_path, step):
    lab = start(tmp_path, "connections", "-s", conninfo(pg15), "--yes", "--force", *QUICK)
    with lab:
        for line in lab.stderr:
            if step in line:
                break
        time.sleep(0.3)
        lab.send_signal(signal.SIGINT)
        lab.communicate(timeout=30)
    assert lab.returncode == 128 + signal.SIGINT
    nothing_is_left(tmp_path, pg15)


@pytest.fixture(scope="module")
def stopped():
    """A cluster that tests here may stop; it runs again afterwards."""
    with pgthrow.Cluster(port=ports.take()) as cluster:
        yield cluster


@pytest.fixture
def own(stopped):
    if not stopped.running:
        stopped.start()
    stopped.psql(f"drop database if exists {DATABASE}")
    return stopped


def test_a_server_that_stops_in_the_middle(own, tmp_path):
    cluster = own
    with start(tmp_path, "connections", "-s", conninfo(cluster), "--yes", "--force", *QUICK) as lab:
        for line in lab.stderr:
            if "direct, 2 clients" in line:
                break
        time.sleep(0.3)
        os.kill(cluster.pid, signal.SIGQUIT)
        _, said = lab.communicate(timeout=60)
    assert lab.returncode == 1
    assert "pgbench failed" in said and f'database "{DATABASE}" is left behind' in said, said
    nothing_is_left(tmp_path)


@pytest.mark.parametrize("command", [("connections", *QUICK), ("connect", *QUICK_CONNECT), ("idle", *QUICK_IDLE)])
def test_a_server_that_is_restarted_in_the_middle(own, tmp_path, command):
    """It says so, and when the server is back it takes its database away all the same."""
    cluster = own
    with start(tmp_path, command[0], "-s", conninfo(cluster), "--yes", "--force", *command[1:]) as lab:
        eventually(lambda: backends(cluster, PGBENCH) > 0, timeout=30, what="pgbench is at work")
        cluster.stop("immediate")
        # Less than the lab waits for the server to come back.
        time.sleep(0.5)
        cluster.start()
        _, said = lab.communicate(timeout=60)
    assert lab.returncode == 1, said
    assert "pgbench failed" in said or "could not connect to server" in said, said
    assert "left behind" not in said, said
    nothing_is_left(tmp_path, cluster)


def test_connections_that_are_ended_in_the_middle(own, tmp_path):
    """As by an administrator: the rest is measured, and the report says what is missing."""
    cluster = own
    few = [*QUICK[:-3], "1,4", "--pool-sizes", "2"]
    with start(tmp_path, "connections", "-s", conninfo(cluster), "--yes", "--force", *few) as lab:
        for line in lab.stderr:
            if "direct, 4 clients" in line:
                break
        eventually(lambda: backends(cluster, PGBENCH) == 4, timeout=30, what="four clients are at work")
        cluster.psql(f"select pg_terminate_backend(pid) from pg_stat_activity where {PGBENCH}")
        output, said = lab.communicate(timeout=60)
    assert lab.returncode == 0, said
    assert "failed: " in said, said
    left_out = json.loads((tmp_path / "results" / "result.json").read_text())["left_out"]
    # pgbench sees the server's FATAL, or only that the connection is gone.
    words = "the server did not bear direct, 4 clients .*(terminating connection due to administrator|the backend died)"
    assert any(re.search(words, text, re.DOTALL) for text in left_out), left_out
    assert "Set max_connections = " in output
    assert databases(cluster) == "0"


@pytest.mark.parametrize("step", ["starting", "direct, 2 clients that stay", "pgweir, connection for each"])
def test_connect_interrupted_on_a_throwaway_server(tmp_path, step):
    """The server goes, too, whether it was ready already or not."""
    with start(tmp_path, "connect", "--throwaway", *QUICK_CONNECT) as lab:
        for line in lab.stderr:
            if step in line:
                break
        time.sleep(0.3)
        lab.send_signal(signal.SIGINT)
        lab.communicate(timeout=30)
    # Before it has a connection, the signal ends it at once; a shell sees the same status.
    assert lab.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    nothing_is_left(tmp_path)


@pytest.mark.parametrize(("answer", "words"), [("n\n", "nothing was done, because the answer was not yes"), ("\x03", "interrupted")])
def test_the_question_at_a_terminal(pg15, tmp_path, answer, words):
    """A no, and Ctrl-C in place of an answer."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*program(), "lab", "connections", "-s", conninfo(pg15), "--force", "--output", str(tmp_path / "results"), *QUICK],
        env={**os.environ, "PGPASSWORD": PASSWORDS["postgres"]},
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        text=True,
    ) as lab:
        os.close(theirs)
        said = read_until(lab.stderr, "[y/N]")
        os.write(ours, answer.encode())
        said += ended(lab)
    os.close(ours)
    assert lab.returncode == (128 + signal.SIGINT if answer == "\x03" else 1), said
    assert words in said and 'create the database "pgweir_lab"' in said, said
    assert not (tmp_path / "results").exists() and databases(pg15) == "0"


# Autovacuum wants to look at everything that has changed, and takes a tenth of a second for each page.
SLOW_AUTOVACUUM = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_cost_delay": "100ms",
    "autovacuum_vacuum_cost_limit": "1",
    "autovacuum_analyze_threshold": "1",
    "autovacuum_analyze_scale_factor": "0",
}
AWAIT_AUTOVACUUM = """
do $$ begin
  for i in 1..600 loop
    perform pg_stat_clear_snapshot();
    exit when exists (
      select from pg_stat_activity where backend_type = 'autovacuum worker' and datname = current_database()
    );
    perform pg_sleep(0.1);
  end loop;
end $$;
"""


def test_autovacuum_is_no_reason_to_leave_the_database(own_cluster, tmp_path):
    """Guards against DROP DATABASE ... WITH (FORCE), which only a superuser may say while autovacuum is in there."""
    cluster = own_cluster(settings=SLOW_AUTOVACUUM)
    cluster.psql("create role watcher login createdb password 'watcher' in role pg_monitor")
    workers = f"select count(*) from pg_stat_activity where backend_type = 'autovacuum worker' and datname = '{DATABASE}'"
    setup = tmp_path / "setup.sql"
    setup.write_text(AWAIT_AUTOVACUUM)
    arguments = [*QUICK[:-4], "--clients", "1", "--direct-only", "--setup", str(setup)]
    with start(
        tmp_path, "connections", "-s", conninfo(cluster, "watcher"), "--yes", "--force", *arguments, PGPASSWORD="watcher"
    ) as lab:
        for line in lab.stderr:
            if "direct, 1 client" in line:
                break
        eventually(lambda: cluster.psql(workers) != "0", timeout=10, what="autovacuum is at work in the lab's database")
        _, said = lab.communicate(timeout=60)
    assert lab.returncode == 0, said
    assert "left behind" not in said and databases(cluster) == "0"
