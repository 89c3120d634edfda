"""pgweir cache: what is in memory, filling it, saving and restoring it."""

import json
import os
import pty
import signal
import subprocess

import pgthrow
import pytest
from harness.browser import Browser
from harness.browser import program as browser_program
from harness.pooler import kind, program
from harness.reports import check_report
from harness.waiting import ended, eventually, read_until

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="a command of pgweir")

# Larger than shared_buffers below, so that not all of it fits.
FILL = """
create table big (id int primary key, filler text);
insert into big select g, repeat('x', 200) from generate_series(1, 60000) g;
create table "Odd Name" (id int primary key);
insert into "Odd Name" select generate_series(1, 1000);
analyze;
checkpoint;
"""


def run(*arguments, server, check=True):
    """Runs a command of pgweir at this server; without a terminal."""
    command = [*program(), *arguments, "--server", server]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    if check:
        assert result.returncode == 0, result.stderr
    assert "panicked" not in result.stderr
    return result


@pytest.fixture(scope="module", params=[15, 18], ids=["pg15", "pg18"])
def shop(request):
    """A cluster of its own with 8 MB of shared_buffers, and a monitoring role without other rights."""
    from harness import ports

    with pgthrow.Cluster(version=request.param, port=ports.take(), settings={"shared_buffers": "8MB"}) as cluster:
        cluster.psql("create database shop; create role monitor login; grant pg_monitor to monitor")
        cluster.psql(FILL, "shop")
        yield cluster


def test_without_the_extension_it_says_what_is_missing(shop):
    shop.psql("drop extension if exists pg_buffercache", "shop")
    result = run("cache", server=shop.dsn("shop"))
    assert 'not seen: what is in shared_buffers: extension "pg_buffercache" is not created in database "shop"' in result.stdout
    assert "create extension pg_buffercache" in result.stdout
    # Nobody was asked, so nothing was created.
    assert shop.psql("select count(*) from pg_extension where extname = 'pg_buffercache'", "shop") == "0"
    # The page cache is seen all the same: the data files are on this machine.
    assert "?" in result.stdout and "public.big" in result.stdout


def test_what_is_cached_agrees_with_the_view(shop):
    result = run("cache", "--yes", "--json", server=shop.dsn("shop"))
    look = json.loads(result.stdout)
    assert look["unseen"] == []
    levels = [level["buffers"] for level in look["usage"]["levels"]]
    assert sum(levels) + look["usage"]["unused"] == look["server"]["buffers"] == 1024
    big = next(r for r in look["relations"] if r["name"] == "public.big")
    seen = int(
        shop.psql(
            "select count(*) from pg_buffercache where relfilenode = pg_relation_filenode('big') and relforknumber = 0", "shop"
        )
    )
    assert abs(big["buffered_blocks"] - seen) < 100
    assert big["blocks"] == int(shop.psql("select pg_relation_size('big') / 8192", "shop"))
    assert big["page_cache_bytes"] > 0
    text = run("cache", server=shop.dsn("shop")).stdout
    assert 'public."Odd Name"' in text and "usage count" in text
    # The verdict comes before the tables.
    assert "shared_buffers (8 MB)" in text.splitlines()[2], text
    # A reader who leaves early is no error.
    early = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | true', "-", *program(), "cache", "--server", shop.dsn("shop")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )
    assert early.returncode == 0 and "panicked" not in early.stderr, early


@pytest.mark.skipif(browser_program() is None, reason="no Chromium: scripts/setup --drivers")
def test_the_page(shop, tmp_path):
    page = tmp_path / "cache.html"
    run("cache", "--yes", "--html", str(page), server=shop.dsn("shop"))
    with Browser() as browser:
        check_report(browser, page, figures_min=2)


def test_a_role_with_pg_monitor_alone_sees_the_same(shop):
    run("cache", "--yes", server=shop.dsn("shop"))
    look = json.loads(run("cache", "--json", server=f"host=127.0.0.1 port={shop.port} user=monitor dbname=shop").stdout)
    assert look["judgement"]["verdict"] in ("too_small", "fits", "larger_than_needed", "too_early", "cannot_tell")
    refused = run("cache", "warm", "--yes", server=f"host=127.0.0.1 port={shop.port} user=monitor dbname=shop", check=False)
    assert refused.returncode == 1
    assert "permission denied" in refused.stdout + refused.stderr


def test_files_that_may_not_be_read_are_told(shop):
    """As another user than PostgreSQL's, the page cache cannot be seen, and that is said with what to do."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    command = ["setpriv", "--reuid=nobody", "--clear-groups", *program(), "cache", "--server", shop.dsn("shop")]
    if subprocess.run(command[:3] + [program()[0], "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("nobody may not run the program here")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "not seen: what is in the operating system's page cache" in result.stdout
    assert "Permission denied" in result.stdout and "sudo -u postgres" in result.stdout


def test_warm_asks_first_and_reads_indexes_first(shop):
    refused = run("cache", "warm", server=shop.dsn("shop"), check=False)
    assert refused.returncode == 1
    assert "there is no terminal to ask at" in refused.stderr and "--yes" in refused.stderr
    plan = run("cache", "warm", "--plan", server=shop.dsn("shop")).stdout
    assert plan.index("public.big_pkey") < plan.index("public.big ")
    assert "last " in plan, "the table is larger than shared_buffers"
    first = plan.splitlines()[0]
    assert first.endswith("would be read into shared_buffers: what there is room for, indexes first"), first
    shop.psql("create extension if not exists pg_buffercache", "shop")
    done = run("cache", "warm", "--yes", server=shop.dsn("shop")).stdout
    assert "are in shared_buffers now" in done
    index_blocks = "select pg_relation_size('big_pkey') / 8192"
    cached = "select count(*) from pg_buffercache where relfilenode = pg_relation_filenode('big_pkey')"
    assert int(shop.psql(cached, "shop")) >= 0.8 * int(shop.psql(index_blocks, "shop"))


def test_a_no_at_the_terminal_does_nothing(shop):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*program(), "cache", "warm", "--server", shop.dsn("shop")],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    _, err = process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 1 and "not agreed to" in err and "into shared_buffers? [y/N]" in err


def test_a_working_set_comes_back_after_a_restart(shop, tmp_path):
    file = tmp_path / "set"
    run("cache", "warm", "--yes", "--table", "big", server=shop.dsn("shop"))
    run("cache", "save", "--yes", str(file), server=shop.dsn("shop"))
    lines = file.read_text().splitlines()
    saved = json.loads(lines[0])["blocks"]
    assert saved > 500 and any(json.loads(line)["relation"] == "public.big" for line in lines[1:])
    shop.restart()
    cached = (
        "select count(*) from pg_buffercache where relfilenode in "
        "(pg_relation_filenode('big'), pg_relation_filenode('big_pkey')) and relforknumber = 0"
    )
    assert int(shop.psql(cached, "shop")) < 50
    run("cache", "restore", "--yes", str(file), server=shop.dsn("shop"))
    assert int(shop.psql(cached, "shop")) >= 0.9 * saved
    # In another database there is nothing to restore.
    other = run("cache", "restore", "--yes", str(file), server=shop.dsn("postgres"), check=False)
    assert 'none of its relations is in database "postgres"' in other.stderr and other.returncode == 1
    file.write_text("hello\n")
    broken = run("cache", "restore", "--yes", str(file), server=shop.dsn("shop"), check=False)
    assert "line 1: expected a working set" in broken.stderr


def test_extensions_that_are_not_installed(shop):
    """PostgreSQL 18 can be told to look for them elsewhere."""
    if shop.version < 18:
        pytest.skip("extension_control_path came with PostgreSQL 18")
    shop.psql("drop extension if exists pg_buffercache; drop extension if exists pg_prewarm", "shop")
    nowhere = shop.dsn("shop") + " options='-c extension_control_path=/nowhere'"
    said = run("cache", "--yes", server=nowhere).stdout
    assert 'not seen: what is in shared_buffers: extension "pg_buffercache" is not installed on the server' in said
    assert "Red Hat: postgresql-contrib" in said and "public.big" in said
    for action, name in ((["warm", "--yes"], "pg_prewarm"), (["save", "--yes", "/tmp/never-written"], "pg_buffercache")):
        refused = run("cache", *action, server=nowhere, check=False)
        assert refused.returncode == 1
        assert f'pgweir: extension "{name}" is not installed on the server' in refused.stderr, refused.stderr
        assert f"create extension {name}" in refused.stderr


def test_ctrl_c_in_place_of_an_answer(shop):
    """Guards against a question that waits for Enter although the user wants to leave."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*program(), "cache", "warm", "--server", shop.dsn("shop")],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(theirs)
        read_until(process.stderr, "[y/N]")
        process.send_signal(signal.SIGINT)
        said = ended(process)
    os.close(ours)
    assert process.returncode == 130
    assert said.rstrip().endswith("interrupted"), said


def warming(cluster):
    """A warm that waits, because somebody holds a lock on a table; and who holds it."""
    holder = subprocess.Popen(
        [pgthrow.client_program("psql"), "-X", "-q", "-d", cluster.socket_dsn("shop")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    holder.stdin.write("begin; lock table big in access exclusive mode; select 1;\n")
    holder.stdin.flush()
    holder.stdout.readline()
    process = subprocess.Popen(
        [*program(), "cache", "warm", "--yes", "--server", cluster.dsn("shop")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    waits = "select count(*) from pg_stat_activity where application_name = 'pgweir lab' and wait_event_type = 'Lock'"
    eventually(lambda: cluster.psql(waits) == "1", timeout=10, what=lambda: "the warm waits for the lock")
    return holder, process


def test_ctrl_c_during_warm_ends_it(shop):
    """The query that waits for the lock is cancelled: nobody has to let go of the lock first."""
    holder, process = warming(shop)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    holder.kill()
    holder.wait()
    assert process.returncode == 130, err
    assert "interrupted" in err


def test_a_server_that_stops_meanwhile(shop):
    holder, process = warming(shop)
    shop.stop("immediate")
    _, err = process.communicate(timeout=20)
    holder.kill()
    holder.wait()
    shop.start()
    assert process.returncode == 1
    assert "was PostgreSQL stopped or restarted meanwhile?" in err, err


def test_help_names_what_it_does():
    text = subprocess.run([*program(), "cache", "--help"], capture_output=True, text=True, check=True).stdout
    for word in ("warm", "save", "restore", "--data-directory"):
        assert word in text
