"""`pgweir lab` against real servers: what it says when something is in the way, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pgthrow
import pytest
from conftest import backends
from harness.pooler import PASSWORDS, kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the lab is pgweir's")

DATABASE = "pgweir_lab"
SLEEPING = "state = 'active' and query like 'select pg_sleep%'"
QUICK = ("-T", "1", "--rounds", "1", "--scale", "1", "-b", "select-only", "--clients", "1,2,4", "--pool-sizes", "1,2")


@pytest.fixture
def tmp_path():
    """A folder that the unprivileged user of servers and poolers reaches; pytest's own is for its user alone."""
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def conninfo(cluster, user="postgres", dbname="postgres") -> str:
    return f"host={cluster.host} port={cluster.port} user={user} dbname={dbname}"


def start(tmp_path, *arguments, **environment) -> subprocess.Popen:
    """The lab, with its results and its temporary files in folders that can be looked at."""
    files = tmp_path / "files"
    files.mkdir(exist_ok=True)
    files.chmod(0o755)
    return subprocess.Popen(
        [os.environ["PGWEIR_BIN"], "lab", *arguments, "--output", str(tmp_path / "results")],
        env={**os.environ, "TMPDIR": str(files), "PGPASSWORD": PASSWORDS["postgres"], **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path, *arguments, **environment) -> tuple[int, str]:
    """Its status, and all that it said."""
    with start(tmp_path, *arguments, **environment) as lab:
        output, errors = lab.communicate(timeout=60)
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
    for words in ("Set max_connections = ", "direct, 4 clients", "pgweir, pool of 2, 4 clients", "rule of thumb"):
        assert words in said
    result = json.loads((tmp_path / "results" / "result.json").read_text())
    assert result["schema"] == 1 and result["command"] == "connections"
    tps = {case["name"]: case["metrics"].get("tps", []) for case in result["cases"]}
    assert all(len(rounds) == 1 and rounds[0] > 0 for rounds in tps.values()) and len(tps) == 6, tps
    assert "<svg" in (tmp_path / "results" / "report.html").read_text()
    assert PASSWORDS["postgres"] not in (tmp_path / "results" / "result.json").read_text()
    assert databases(pg) == "0"


def test_connect_on_a_throwaway_server(tmp_path):
    status, said = run(tmp_path, "connect", "--throwaway", "-T", "1", "--rounds", "1", "-c", "2")
    assert status == 0, said
    for words in ("direct with TLS and SCRAM", "pgweir with SCRAM, connection for each", "startup and authentication"):
        assert words in said
    cases = json.loads((tmp_path / "results" / "result.json").read_text())["cases"]
    tls = next(case for case in cases if case["name"] == "direct with TLS, one at a time")
    plain = next(case for case in cases if case["name"] == "direct, one at a time")
    assert tls["metrics"]["tls_ms"][0] > 0 and plain["metrics"]["tls_ms"] == [0]
    assert not [case for case in cases if case["failure"]]


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


def test_no_pgbench(tmp_path, pg15):
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


def test_a_server_that_stops_in_the_middle(own_cluster, tmp_path):
    cluster = own_cluster()
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
