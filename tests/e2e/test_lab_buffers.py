"""`pgweir lab buffers`: a sweep that restarts the server, and gives it back as it was."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import tempfile

import pgthrow
import pytest
from conftest import VERSIONS
from harness import ports
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.pooler import kind, program
from harness.reports import check_report
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")

QUICK = ["-T", "1", "--rounds", "1", "--scale", "1", "-c", "2", "-b", "select-only"]
# What the server has of its own accord, in postgresql.conf and by ALTER SYSTEM; the lab must give both back.
OWN_SIZE = "12MB"
OWN_SETTING = "work_mem = '5MB'"


@pytest.fixture
def tmp_path():
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)


class Restarted:
    """A cluster that pg_ctl restarts, by a command as an operator gives it."""

    def __init__(self, version: int):
        self.cluster = pgthrow.Cluster(version=version, port=ports.take(), settings={"shared_buffers": OWN_SIZE})
        # Made and configured by pgthrow, and from then on pg_ctl's.
        self.cluster.start()
        self.cluster.psql("alter system set " + OWN_SETTING)
        self.cluster.stop()
        self.auto_conf = pathlib.Path(self.cluster.data_dir, "postgresql.auto.conf")
        self.pg_ctl("start")
        self.before = self.auto_conf.read_text()

    def command(self, mode: str) -> str:
        """For a shell."""
        pg_ctl = os.path.join(self.cluster.bin_dir, "pg_ctl")
        words = [pg_ctl, mode, "-w", "-D", self.cluster.data_dir, "-l", os.path.join(self.cluster.dir, "pg_ctl.log")]
        words += ["-m", "fast"] if mode != "start" else []
        return " ".join(pgthrow.as_server_user(words))

    def pg_ctl(self, mode: str):
        subprocess.run(["/bin/sh", "-c", self.command(mode)], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def arguments(self, command: str | None = None) -> list[str]:
        given = ["-s", self.cluster.dsn(), "--yes", "--force", "--data-dir", self.cluster.data_dir]
        return [*given, "--restart-command", command or self.command("restart")]

    def is_as_it_was(self):
        assert self.auto_conf.read_text() == self.before
        assert self.auto_conf.stat().st_uid == os.stat(self.cluster.data_dir).st_uid
        assert stat.S_IMODE(self.auto_conf.stat().st_mode) == 0o600
        settings = self.cluster.psql("show shared_buffers; show work_mem").split()
        assert settings == [OWN_SIZE, "5MB"]
        assert self.cluster.psql("select count(*) from pg_database where datname = 'pgweir_lab'") == "0"


@pytest.fixture(scope="module")
def restarted_servers():
    """By version, made when first asked for."""
    servers: dict[int, Restarted] = {}
    yield servers
    for server in servers.values():
        if pathlib.Path(server.cluster.data_dir, "postmaster.pid").exists():
            server.pg_ctl("stop")
        server.cluster.remove()


@pytest.fixture
def restarted(request, restarted_servers):
    """A server of this machine; of PostgreSQL 15 where a test does not say."""
    version = getattr(request, "param", VERSIONS[0])
    if version not in restarted_servers:
        restarted_servers[version] = Restarted(version)
    return restarted_servers[version]


@pytest.fixture
def restarted_18(restarted_servers):
    if 18 not in restarted_servers:
        restarted_servers[18] = Restarted(18)
    return restarted_servers[18]


def start(folder, *arguments, **environment):
    return subprocess.Popen(
        [*program(), "lab", "buffers", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
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


@pytest.mark.parametrize("version", VERSIONS)
def test_on_a_throwaway_server(tmp_path, version):
    """Every size cold and prewarmed; the table; the page; indexes first."""
    command = ["--throwaway", "--bin-dir", pgthrow.server_bin_dir(version), "--sizes", "2MB,64MB", "-o", "result"]
    status, output, errors = run(tmp_path, *command, *QUICK)
    assert status == 0, errors
    assert re.search(r"^2MB +[\d,.]+ +one round .* MB of \d+", output, re.MULTILINE), output
    assert re.search(r"^64MB +[\d,.]+ +one round ", output, re.MULTILINE), output
    result = json.loads((tmp_path / "result" / "result.json").read_text())
    assert result["server"]["version"].startswith(str(version))
    cases = {case["name"]: case for case in result["cases"]}
    assert list(cases) == [f"shared_buffers = {s}, {w}" for s in ("2MB", "64MB") for w in ("cold", "prewarmed")]
    assert not [case["failure"] for case in cases.values() if case["failure"]]
    hits = {name: case["metrics"]["hit_percent"][0] for name, case in cases.items()}
    # A prewarmed server finds what it needs; a cold one reads it first, and one too small again and again.
    assert hits["shared_buffers = 64MB, prewarmed"] > 95 > hits["shared_buffers = 2MB, cold"], hits
    small, large = result["details"]["prewarmed"]
    assert 1 << 20 < small["prewarmed_bytes"] <= 2 << 20 < small["of_bytes"]
    assert large["prewarmed_bytes"] == large["of_bytes"] > 15 << 20
    # Once is enough for the page.
    if browser_program() and version == VERSIONS[-1]:
        with Browser() as browser:
            check_report(browser, tmp_path / "result" / "report.html", figures_min=3)


@pytest.mark.parametrize("restarted", VERSIONS, indirect=True)
def test_on_a_server_of_this_machine(restarted, tmp_path):
    status, output, errors = run(tmp_path, *restarted.arguments(), "--sizes", "4MB,32MB", "-o", "result", *QUICK)
    assert status == 0, errors
    result = json.loads((tmp_path / "result" / "result.json").read_text())
    assert [case["metrics"]["tps"][0] > 0 for case in result["cases"]] == [True] * 4
    assert result["details"]["shared_buffers_bytes"] == [4 << 20, 32 << 20]
    assert "32MB" in output
    restarted.is_as_it_was()


@pytest.mark.parametrize("moment", ["filling", "4MB, cold", "4MB, prewarmed"])
def test_an_interrupt_gives_the_server_back(restarted, tmp_path, moment):
    """Ctrl-C while tables are filled, and while a restart or a run is on."""
    process = start(tmp_path, *restarted.arguments(), "--sizes", "4MB,32MB", "-o", "result", *QUICK)
    for line in process.stderr:
        if moment in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.rstrip().endswith("interrupted"), errors
    assert not os.listdir(tmp_path)
    restarted.is_as_it_was()


@pytest.mark.parametrize("interrupted", [False, True], ids=["to-the-end", "interrupted"])
def test_a_reader_who_leaves_early_gets_the_server_back(restarted, tmp_path, interrupted):
    """`lab buffers ... 2>&1 | head -1`: nothing that is said later can be written, not even that the server is restored."""
    command = [*program(), "lab", "buffers", *restarted.arguments(), "--sizes", "4MB,32MB", "-o", "result", *QUICK]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout.readline()
    process.stdout.close()
    if interrupted:
        eventually(lambda: at_work(restarted.cluster) > 0, timeout=30, what="pgbench is at work")
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == (130 if interrupted else 0)
    assert (tmp_path / "result" / "report.html").exists() != interrupted
    restarted.is_as_it_was()


def test_a_size_that_the_server_does_not_start_with(restarted, tmp_path):
    """The server is down then, and ALTER SYSTEM could not bring it back."""
    refuses_large = (
        f"grep -q \"shared_buffers = '32768kB'\" {restarted.auto_conf} && {restarted.command('stop')} && "
        f"echo could not map shared memory && exit 1; {restarted.command('restart')}"
    )
    arguments = [*restarted.arguments(refuses_large), "--sizes", "4MB,32MB", "-o", "result", *QUICK]
    status, _, errors = run(tmp_path, *arguments)
    assert status == 1
    assert "failed with exit status: 1" in errors and "could not map shared memory" in errors, errors
    assert "postgresql.auto.conf back, and restarted the server with it" in errors
    assert not os.listdir(tmp_path)
    restarted.is_as_it_was()


def test_a_restart_command_that_does_nothing(restarted, tmp_path):
    status, _, errors = run(tmp_path, *restarted.arguments("true"), "--sizes", "4MB", "-o", "result", *QUICK)
    assert status == 1
    assert f"the server has shared_buffers = {OWN_SIZE} after the restart, and not 4MB" in errors, errors
    assert "does the restart command restart the server of this data directory" in errors
    restarted.is_as_it_was()


def at_work(cluster) -> int:
    """Connections of pgbench's selects; 0 as well while the server does not answer."""
    try:
        return int(cluster.psql("select count(*) from pg_stat_activity where query like 'SELECT abalance%'"))
    except pgthrow.PgThrowError:
        return 0


def test_a_server_that_dies_in_the_middle(restarted, tmp_path):
    """What the lab has changed is put back, and the restart command brings the server up again."""
    arguments = [*restarted.arguments(), "--sizes", "4MB,32MB", "-o", "result", *QUICK]
    process = start(tmp_path, *arguments)
    eventually(lambda: at_work(restarted.cluster) > 0, timeout=30, what="pgbench is at work")
    postmaster = int(pathlib.Path(restarted.cluster.data_dir, "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 1, errors
    assert "pgbench failed" in errors, errors
    restarted.is_as_it_was()


def test_the_data_directory_of_another_server(restarted, tmp_path):
    other = tmp_path / "data"
    other.mkdir()
    arguments = ["-s", restarted.cluster.dsn(), "--yes", "--force", "--data-dir", str(other), "--restart-command", "true"]
    status, _, errors = run(tmp_path, *arguments, "-o", "result", *QUICK)
    assert status == 1
    assert f"the server's data directory is {restarted.cluster.data_dir}, and not {other}" in errors, errors
    restarted.is_as_it_was()


def test_what_it_asks_for(restarted, tmp_path):
    """Without a terminal to ask at, and without --yes, nothing happens; the plan names every restart."""
    arguments = [argument for argument in restarted.arguments() if argument != "--yes"]
    status, _, errors = run(tmp_path, *arguments, "--sizes", "4MB,32MB", *QUICK)
    assert status == 1
    assert "restart the server 5 times by" in errors and "set shared_buffers in" in errors and "--yes" in errors, errors
    status, _, errors = run(tmp_path, "-s", restarted.cluster.dsn(), *QUICK)
    assert status == 1 and "this is not told how to restart the server" in errors and "--throwaway" in errors
    restarted.is_as_it_was()


def test_sizes_that_cannot_be(tmp_path):
    for sizes, words in (("12", "is no size with a unit"), ("900TB", "is more than the memory of this machine")):
        status, _, errors = run(tmp_path, "--throwaway", "--sizes", sizes, *QUICK)
        assert status != 0 and words in errors, errors


def test_extensions_that_are_not_installed(tmp_path, restarted_18):
    """PostgreSQL 18 can be told to look for them elsewhere: the cold half is measured, and what is missing is said."""
    arguments = restarted_18.arguments()
    arguments[1] += " options='-c extension_control_path=/nowhere'"
    status, output, errors = run(tmp_path, *arguments, "--sizes", "4MB", "-o", "result", *QUICK)
    assert status == 0, errors
    result = json.loads((tmp_path / "result" / "result.json").read_text())
    assert [case["name"] for case in result["cases"]] == ["shared_buffers = 4MB, cold"]
    assert 'Prewarming: extension "pg_prewarm" is not installed on the server; ' in result["left_out"][0]
    assert re.search(r"^4MB +[\d,]+ ", output, re.MULTILINE), output
    restarted_18.is_as_it_was()


@pytest.mark.parametrize("settle", ["0", "1"])
def test_prewarmed_alone_and_settled(tmp_path, restarted, settle):
    """The cold half is left out. What settles is not among the transactions of the run, each of which leaves a row here."""
    restarted.cluster.psql("create database settled")
    try:
        restarted.cluster.psql("create table seen (n int)", dbname="settled")
        script = tmp_path / "seen.sql"
        script.write_text("insert into seen values (1);\n")
        command = [*restarted.arguments(), "--existing", "--database", "settled", "--file", str(script), "--sizes", "4MB"]
        command += ["--prewarmed", "--settle", settle, "-c", "2", "-T", "1", "--rounds", "1", "-o", "result"]
        status, output, errors = run(tmp_path, *command)
        assert status == 0, errors
        result = json.loads((tmp_path / "result" / "result.json").read_text())
        assert [case["name"] for case in result["cases"]] == ["shared_buffers = 4MB, prewarmed"]
        assert "cold" not in output, output
        [raw] = (tmp_path / "result" / "raw").iterdir()
        measured = int(re.search(r"actually processed: (\d+)", raw.read_text())[1])
        rows = int(restarted.cluster.psql("select count(*) from seen", dbname="settled"))
        assert rows > measured if settle == "1" else rows == measured, (rows, measured)
    finally:
        restarted.cluster.psql("drop database settled")


def test_prewarmed_alone_without_the_extension(tmp_path, restarted_18):
    arguments = restarted_18.arguments()
    arguments[1] += " options='-c extension_control_path=/nowhere'"
    status, _, errors = run(tmp_path, *arguments, "--sizes", "4MB", "--prewarmed", "-o", "result", *QUICK)
    assert status == 1 and 'nothing can be prewarmed: extension "pg_prewarm" is not installed' in errors, errors
    restarted_18.is_as_it_was()


def test_a_role_that_may_not_create_extensions(tmp_path, restarted):
    """With pg_monitor and the right to create a database, but no superuser."""
    restarted.cluster.psql("create role watcher login createdb in role pg_monitor")
    try:
        arguments = restarted.arguments()
        arguments[1] = arguments[1].replace("user=postgres", "user=watcher")
        status, _, errors = run(tmp_path, *arguments, "--sizes", "4MB", "-o", "result", *QUICK)
        assert status == 0, errors
        left_out = json.loads((tmp_path / "result" / "result.json").read_text())["left_out"]
        assert "pg_prewarm could not be created: permission denied to create extension" in left_out[0], left_out
        restarted.is_as_it_was()
    finally:
        restarted.cluster.psql("drop role watcher")
