"""`pgweir lab scale` on real servers: its figures, its limits, and what it leaves behind, which is nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pgthrow
import pytest
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.lab import Lab, conninfo, databases
from harness.pooler import PASSWORDS, kind
from harness.reports import check_report

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the lab is pgweir's")

QUICK = ("--yes", "--force", "-T", "1", "--rounds", "1", "--scale", "1", "-b", "select-only", "--pool-size", "2")
# One run through pgweir and the five of the one client.
SHORTEST = (*QUICK, "--clients", "12", "--direct-max", "1")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can")


@pytest.fixture
def lab():
    with Lab() as lab:
        yield lab


def test_scale_on_a_server(pg, lab):
    """More clients through pgweir than the server has connections; the one client in three places; the result read again."""
    status, said = lab.run("scale", "-s", conninfo(pg), *QUICK, "--clients", "4,200")
    assert status == 0, said
    for words in (
        "pgweir, pool of 2, 200 clients",
        "direct, 4 clients",
        "same pool as 200 clients",
        "own pool, beside 200 clients",
        "too few rounds to tell",
        "The wait in their pool is the queue: 200 clients share",
    ):
        assert words in " ".join(said.split()), said
    result = lab.result()
    assert result["schema"] == 1 and result["command"] == "scale"
    assert [why for why in result["left_out"] if why.startswith("direct with 200 clients: the server allows 120 conn")]
    cases = {case["name"]: case for case in result["cases"]}
    assert len(cases) == 8 and all(case["metrics"]["tps"][0] > 0 and not case["failure"] for case in cases.values())
    waits = {name: case["metrics"]["latency_p50_ms"][0] for name, case in cases.items()}
    assert waits["one client, same pool as 200 clients"] > waits["one client, own pool, beside 200 clients"]
    assert PASSWORDS["postgres"] not in (lab.results / "result.json").read_text()
    assert databases(pg) == "0"
    again = subprocess.run(
        [os.environ["PGWEIR_BIN"], "lab", "compare", lab.results, lab.results], capture_output=True, text=True, check=True
    )
    assert "pgweir, pool of 2, 200 clients" in again.stdout and "1.00: too few rounds to tell" in again.stdout
    if browser_program():
        with Browser() as browser:
            check_report(browser, lab.results / "report.html", figures_min=4)


def test_open_files_bound_the_clients(pg15, lab):
    """With a hard limit that cannot be raised, what is too much is left out, and the reason said."""
    limited = ["prlimit", "--nofile=100:300"]
    if os.geteuid() == 0:
        limited += ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    arguments = ("-s", conninfo(pg15), *QUICK, "--clients", "12,400", "--direct-max", "1")
    status, said = lab.run("scale", *arguments, before=limited, HOME=str(lab.files))
    assert status == 0, said
    left_out = lab.result()["left_out"]
    assert (
        "400 clients: 482 open files are needed, and the limit of this process is 300 "
        "(raise it (ulimit -Hn 482, as root; LimitNOFILE in a unit file), or ask for fewer clients)"
    ) in left_out
    assert "direct with 12 clients: --direct-max says so" in left_out
    status, said = lab.run("scale", "-s", conninfo(pg15), *QUICK, "--clients", "400", before=limited, HOME=str(lab.files))
    assert status == 1 and "nothing can be measured: 400 clients: 482 open files are needed" in said, said


def test_a_pool_larger_than_the_server(pg15, lab):
    status, said = lab.run("scale", "-s", conninfo(pg15), *QUICK, "--pool-size", "500", "--clients", "4")
    assert status != 0
    status, said = lab.run("scale", "-s", conninfo(pg15), "--yes", "--force", "--pool-size", "500")
    assert status == 1 and "a pool of 500 is more than the server has room for: of 120 connections" in said, said
    lab.nothing_is_left(pg15)


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (signal.SIGINT, "pgweir, pool of 2, 12 clients"),
        (signal.SIGTERM, "clients connect and begin to work"),
        (signal.SIGINT, "one client, same pool as"),
    ],
    ids=["sigint-while-many-work", "sigterm-while-many-connect", "sigint-beside-many"],
)
def test_an_interrupted_run_leaves_nothing_behind(pg15, lab, number, step):
    status = lab.interrupted(number, step, "scale", "-s", conninfo(pg15), *SHORTEST)
    assert status == 128 + number
    lab.nothing_is_left(pg15)


def test_sigterm_ends_a_throwaway_server(lab):
    status = lab.interrupted(signal.SIGTERM, "pgweir, pool of 2, 12 clients", "scale", "--throwaway", *SHORTEST[2:])
    assert status == 128 + signal.SIGTERM
    lab.nothing_is_left()


def test_a_server_in_recovery_is_refused(own_cluster, lab):
    cluster = own_cluster()
    cluster.stop()
    standby = os.path.join(cluster.data_dir, "standby.signal")
    with open(standby, "w", encoding="utf-8"):
        pass
    pgthrow.give_to_server_user(standby)
    cluster.start()
    assert cluster.psql("select pg_is_in_recovery()") == "t"
    status, said = lab.run("scale", "-s", conninfo(cluster), *SHORTEST)
    assert status == 1 and "the server is in recovery, so nothing can be created in it" in said, said
    assert "hint: measure the primary, or --throwaway" in said
    lab.nothing_is_left()


def test_a_role_with_pg_monitor_and_createdb_alone(pg15, lab):
    pg15.psql("drop role if exists measurer; create role measurer login createdb password 'm' in role pg_monitor")
    try:
        arguments = ("-s", conninfo(pg15, "measurer"), *SHORTEST)
        status, said = lab.run("scale", *arguments, PGPASSWORD="m")
        assert status == 0, said
        assert not [case["name"] for case in lab.result()["cases"] if case["failure"]]
        assert databases(pg15) == "0"
    finally:
        pg15.psql("drop role measurer")


@needs_root
def test_no_pgbench_anywhere(pg15, lab):
    """Neither in PATH nor in the package folders, which are hidden in a mount namespace of its own."""
    folders = [f for f in ("/usr/lib/postgresql", "/opt/postgresql", "/usr/local/pgsql") if os.path.isdir(f)]
    empty = lab.folder / "empty"
    empty.mkdir()
    hide = " && ".join(f"mount --bind {empty} {folder}" for folder in folders) or "true"
    before = ["unshare", "--mount", "sh", "-c", f'{hide} && PATH={empty} exec "$@"', "sh"]
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no mount namespaces here")
    assert shutil.which("pgbench")
    status, said = lab.run("scale", "-s", conninfo(pg15), *SHORTEST, before=before)
    assert status == 1 and "found no pgbench, PostgreSQL's load generator" in said, said
    assert "apt-get install postgresql-contrib" in said and "--bin-dir" in said
    lab.nothing_is_left(pg15)
