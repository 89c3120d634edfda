"""`pgweir lab idle` on real servers, and the lab's pages in a real browser."""

import glob
import json
import os
import re
import signal
import subprocess

import pytest

from conftest import backends
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.pooler import CHECKOUT, kind, program
from harness.reports import check_report
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")

needs_browser = pytest.mark.skipif(browser_program() is None, reason="no Chromium: scripts/setup --drivers")

SHORT = ["--rounds", "1", "-T", "1", "--scale", "1", "-c", "2", "--pool-size", "2"]


def start(folder, *arguments):
    return subprocess.Popen(
        [*program(), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder, *arguments):
    process = start(folder, *arguments)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def lab_database(cluster):
    return cluster.psql("select count(*) from pg_database where datname = 'pgweir_lab'") == "1"


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


# ---- lab idle


@needs_browser
def test_idle_and_its_page(pg, tmp_path, browser):
    """The table, the conclusion, the figures of result.json, the page; nothing stays in the server."""
    command = ["lab", "idle", "-s", pg.dsn(), "--yes", "--force", "--idle", "12", "-o", "result", *SHORT]
    status, output, errors = run(tmp_path, *command)
    assert status == 0, errors
    for words in (
        r"^standard, direct +[\d,]+ +[\d,]+ ",
        r"^scan, through pgweir +[\d,]+ +[\d,]+ ",
        r"rounds\s+are\s+too\s+few\s+to\s+tell",
        r"^idle connections +12 +12$",
        r"Each\s+idle\s+connection\s+held\s+a\s+server\s+process\s+of\s+[\d.]+\s+MB:\s+12\s+of\s+them",
        r"The\s+memory\s+available\s+on\s+this\s+machine\s+went\s+from",
    ):
        assert re.search(words, output, re.MULTILINE), (words, output)
    result = json.loads((tmp_path / "result" / "result.json").read_text())
    assert {case["path"] for case in result["cases"]} == {"direct", "pgweir"}
    assert len(result["cases"]) == 12
    assert all(case["metrics"]["tps"][0] > 0 and "pgbench" in case["command"] for case in result["cases"])
    idle = result["details"]["idle"]
    assert idle["direct"]["backends"] == 12
    # The idle clients of a pool of two have two servers between them, at most.
    assert 1 <= idle["pgweir"]["backends"] <= 2
    assert idle["direct"]["contexts_mean_bytes"] > result["details"]["fresh_backend_contexts_bytes"]
    assert result["details"]["sessions_by_wait_event"]["standard, direct, alone"]
    assert not lab_database(pg)
    eventually(lambda: backends(pg) == 0, timeout=10, what="no backend left")
    check_report(browser, tmp_path / "result" / "report.html", figures_min=9)


def test_more_idle_connections_than_the_server_has(pg15, tmp_path):
    status, _, errors = run(tmp_path, "lab", "idle", "-s", pg15.dsn(), "--yes", "--idle", "5000")
    assert status == 1
    assert re.search(
        r"pgweir: 5,000 idle connections beside 20 clients are more than the server allows: 1\d\d of its connections are free\n"
        r" +hint: ask for --idle \d+ at most, raise max_connections, or measure a --throwaway server",
        errors,
    ), errors
    assert os.listdir(tmp_path) == []


def test_consent_names_what_idle_connections_take(pg15, tmp_path):
    """Without a terminal to ask at, and without --yes, nothing happens."""
    status, _, errors = run(tmp_path, "lab", "idle", "-s", pg15.dsn(), "--force", "--idle", "12")
    assert status == 1
    assert "open 12 idle connections, again and again, which take memory of the server: about 240 MB together" in errors
    assert "--yes" in errors
    assert not lab_database(pg15)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_idle_for_somebody_who_may_not_look_at_processes(pg15, tmp_path):
    """Neither root, nor the server's user, nor a superuser: what cannot be seen is said in words, the rest is measured."""
    pg15.psql("drop role if exists watcher; create role watcher login createdb in role pg_monitor")
    tmp_path.chmod(0o777)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    dsn = pg15.dsn().replace(f"user={pg15.superuser}", "user=watcher")
    command = ["lab", "idle", "-s", dsn, "--yes", "--force", "--idle", "8", "--row", "select", "-o", "result", *SHORT]
    result = subprocess.run(
        ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *program(), *command],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "result" / "report.html").read_text()
    assert "set size of the server&#39;s processes is for root and for the server&#39;s user to read" in page
    assert "anonymous resident memory" in page
    assert not lab_database(pg15)
    pg15.psql("drop role watcher")


@pytest.mark.parametrize(
    ("moment", "arguments"),
    [
        ("filling", ["--direct-only", "--scale", "40"]),
        ("opening", ["--scale", "1"]),
        ("with idle", ["--direct-only", "--scale", "1"]),
    ],
)
def test_an_interrupt_leaves_nothing(pg15, tmp_path, moment, arguments):
    """Ctrl-C while tables are filled, while idle connections are opened, and beside them."""
    command = ["lab", "idle", "-s", pg15.dsn(), "--yes", "--force", "--idle", "40", "--row", "select"]
    process = start(tmp_path, *command, "-T", "2", "-c", "2", *arguments)
    for line in process.stderr:
        if moment in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert errors.rstrip().endswith("interrupted"), errors
    eventually(lambda: backends(pg15) == 0, timeout=10, what="no backend left")
    assert not lab_database(pg15)
    assert os.listdir(tmp_path) == []


def test_the_server_is_stopped_beside_idle_connections(own_cluster, tmp_path):
    cluster = own_cluster(settings={"max_connections": "60"})
    command = ["lab", "idle", "-s", cluster.dsn(), "--yes", "--force", "--idle", "10", "--row", "select", "--direct-only"]
    process = start(tmp_path, *command, "--rounds", "1", "-T", "3", "--scale", "1", "-c", "2")
    for line in process.stderr:
        if "with idle" in line:
            break
    cluster.stop("immediate")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "left behind" in errors and "could not connect to server" in errors, errors
    assert os.listdir(tmp_path) == []


# ---- pages


@needs_browser
@pytest.mark.parametrize("path", sorted(glob.glob(f"{CHECKOUT}/docs/lab/reports/*.html")), ids=os.path.basename)
def test_the_pages_of_the_documentation(path, browser):
    check_report(browser, path)
