"""A reader that leaves early (`pgweir ... 2>&1 | head -1`) is no error: no command may end in the middle because of it."""

import os
import subprocess

import pgthrow
import pytest
from harness import ports
from harness.pooler import kind, program

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own commands")

CONNECT = ["-T", "1", "--rounds", "1", "--scale", "1", "-c", "2", "-b", "select-only"]


@pytest.fixture(scope="module")
def server():
    with pgthrow.Cluster(version=15, port=ports.take(), settings={"shared_buffers": "16MB"}) as cluster:
        cluster.psql("create extension pg_prewarm; create table t as select generate_series(1, 1000) n")
        yield cluster


def with_both_closed(*arguments, cwd) -> int:
    """The exit status of a command whose two outputs nobody reads from the beginning."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [*program(), *arguments], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=cwd, timeout=120, check=False
        ).returncode
    finally:
        os.close(writer)


def test_advise_and_cache(server, tmp_path):
    at = ["--server", server.dsn()]
    for arguments in (
        ["advise", "--seconds", "0", "--html", "page.html", *at],
        ["cache", "--html", "cache.html", *at],
        ["cache", "warm", "--plan", *at],
        ["cache", "warm", "--yes", *at],
        ["top", "--help"],
        ["settings"],
    ):
        assert with_both_closed(*arguments, cwd=tmp_path) == 0, arguments
    assert (tmp_path / "page.html").exists() and (tmp_path / "cache.html").exists()


def test_errors_keep_their_status(server, tmp_path):
    nowhere = ["--server", f"host=127.0.0.1 port={ports.take()}"]
    for arguments in (
        ["advise", *nowhere],
        ["cache", *nowhere],
        ["lab", "connections", *nowhere],
        ["lab", "compare", "one", "other"],
        ["settings", "no_such_setting"],
        ["man", "3"],
        ["no-such.ini"],
        [],
    ):
        assert with_both_closed(*arguments, cwd=tmp_path) == 1, arguments


def test_a_measurement_goes_on(tmp_path):
    arguments = ["--throwaway", "--bin-dir", pgthrow.server_bin_dir(15), "--sizes", "4MB", "-o", "result", *CONNECT]
    assert with_both_closed("lab", "buffers", *arguments, cwd=tmp_path) == 0
    assert (tmp_path / "result" / "report.html").exists()
