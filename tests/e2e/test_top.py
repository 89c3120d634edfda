"""pgweir top: a pooler at work, live in a terminal or as plain text."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from harness import wire
from harness.commands import run
from harness.pooler import CHECKOUT, kind, program
from harness.screen import ENTERED, Screen
from harness.waiting import eventually
from harness.wire import error_codes

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="a command of pgweir")

PGWEIR = program()
AUTO = {"default_pool_size": "auto", "max_client_conn": 500}


def top(*arguments, **options):
    return run("top", *arguments, **options)


@contextmanager
def load(pooler, clients=20, query="select pg_sleep(0.01)"):
    """So many clients that always ask."""
    over = threading.Event()

    def work():
        with pooler.connect() as c:
            while not over.is_set():
                c.send(wire.query(query))
                assert error_codes(c.read_ready()) == []

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def rows(view: str, title: str) -> list[dict[str, str]]:
    """The table whose heading begins with `title`; cells are never empty where a test looks."""
    lines = view.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(title))
    # Two words of a heading are separated by one blank.
    names = re.split(r" {2,}", lines[at].strip())
    table = []
    for line in lines[at + 1 :]:
        if not line.strip():
            break
        table.append(dict(zip(names, re.split(r" {2,}", line.strip()), strict=False)))
    return table


def number(text: str) -> float:
    return float(text.replace(",", ""))


def quit_now(pooler) -> None:
    pooler.signal(signal.SIGQUIT)
    assert pooler.wait_exit() == 0


def console_of(pooler, user="postgres") -> str:
    return f"host={pooler.host} port={pooler.port} user={user} sslmode=disable"


def test_two_views_as_plain_text_say_what_the_console_says(pg15, make_pooler):
    """Under load, by a user of stats_users; the counts of SHOW STATS meanwhile are the rates."""
    pooler = make_pooler(pg15, settings={**AUTO, "sizing": "hold"})

    def total() -> tuple[float, int]:
        rows = pooler.console("SHOW STATS")
        return time.monotonic(), int(next(r for r in rows if r["database"] == "postgres")["total_xact_count"])

    with load(pooler):
        eventually(lambda: pooler.console("SHOW SIZING")[0]["waiting"] == "12")
        began, before = total()
        output = top(console_of(pooler, "stats"), "--batch", "2", "--interval", "1.5").stdout
        ended, after = total()
        said = pooler.console("SHOW SIZING")[0]
    assert "\x1b" not in output
    views = output.split("\n\npgweir top: ")
    assert len(views) == 2, output
    expected = (after - before) / (ended - began)
    shown = sum(number(rows(view, "DATABASE")[0]["TPS"]) for view in views) / 2
    assert 0.7 * expected < shown < 1.4 * expected, (output, expected)
    for view in views:
        pool = rows(view, "DATABASE")[0]
        assert (pool["DATABASE"], pool["USER"], pool["MODE"]) == ("postgres", "postgres", "transaction"), view
        # A view may find some of the 20 clients between two transactions.
        clients = [int(pool[title]) for title in ("CL_ACTIVE", "CL_WAIT", "CL_IDLE")]
        assert sum(clients) == 20 and 1 <= clients[0] <= 8 and clients[1] >= 1, view
        assert 9 < number(pool["QUERY_MS"]) < 100 and number(pool["WAIT_MS"]) > 1, view
        sizing = rows(view, "SIZING OF HOST")[0]
        assert sizing["SIZING OF HOST"] == said["host"] and sizing["SIZING"] == "hold", view
        for title, column in (("LIMIT", "limit"), ("SETTLED", "settled"), ("MAX", "servers_max")):
            assert sizing[title] == said[column], view
        assert re.search(r"TPS [0-9,]+, queries/s", view), view


def test_without_a_terminal_one_view_is_printed(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.query("select 1")
        for arguments in ([], ["--once"], ["--batch", "1"], ["--console"]):
            named = [*arguments, console_of(pooler)]
            output = top(*named, "--interval", "0.2").stdout
            assert output.count("pgweir top: ") == 1, output
            assert "SIZING" not in output, output
            assert rows(output, "DATABASE")[0]["CL_IDLE"] == "1", output
        # The address may be in the environment.
        around = {"PGHOST": pooler.host, "PGPORT": str(pooler.port), "PGUSER": "stats", "PGSSLMODE": "disable"}
        assert f"{pooler.host}:{pooler.port}" in top("--once", "--interval", "0.2", **around).stdout


def test_databases_with_several_pools_and_clients(pg15, make_pooler):
    """Figures are the database's; each of its users has a row. --clients lists who waits longest first."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with pooler.connect() as holder, pooler.connect() as waiter, pooler.connect(user="alice") as other:
        holder.query("begin")
        holder.query("select 1")
        other.query("select 1")
        waiter.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        output = top(console_of(pooler), "--once", "--interval", "0.2").stdout
        table = rows(output, "DATABASE")
        assert [row["DATABASE"] for row in table] == ["postgres"] * 3, output
        assert table[0]["USER"] == "(2 users)" and [row["USER"] for row in table[1:]] == ["postgres", "alice"], output
        assert table[1]["CL_WAIT"] == "1" and number(table[1]["MAXWAIT_MS"]) > 100, output
        output = top(console_of(pooler), "--once", "--interval", "0.2", "--clients").stdout
        clients = rows(output, "CLIENT")
        assert [row["STATE"] for row in clients] == ["waiting", "active", "idle"], output
        assert number(clients[0]["WAIT_MS"]) > 100 and clients[1]["WAIT_MS"] == "-", output
        holder.query("rollback")
        waiter.read_ready()


def test_a_console_that_cannot_be_reached_is_an_error(pg15, make_pooler):
    result = top("host=127.0.0.1 port=1 user=postgres", check=False)
    assert result.returncode == 1 and result.stdout == ""
    assert 'could not connect to server at "127.0.0.1", port 1, database "pgbouncer"' in result.stderr
    assert "hint: is a pgweir or PgBouncer running there?" in result.stderr and "--server" not in result.stderr
    # A user who may not see the console, and a database that is none.
    pooler = make_pooler(pg15)
    refused = top(console_of(pooler, "alice"), check=False)
    assert refused.returncode == 1 and "could not connect" in refused.stderr, refused.stderr
    none = top(pooler.dsn(), check=False)
    assert none.returncode == 1 and "only the console of a pgweir or PgBouncer" in none.stderr, none.stderr
    for wrong in (["--interval", "0"], ["--batch", "0"], ["--once", "--batch", "2"], ["--order", "x"]):
        assert top(*wrong, check=False).returncode == 2
    # The same at a terminal, which is not touched.
    with Screen([*PGWEIR, "top", "host=127.0.0.1 port=1 user=postgres"]) as screen:
        assert screen.ended() == 1
        assert b"could not connect" in screen.written and ENTERED not in screen.written


def test_keys_at_a_terminal(pg15, make_pooler):
    pooler = make_pooler(pg15, settings=AUTO)
    with load(pooler, clients=3), Screen([*PGWEIR, "top", console_of(pooler), "-i", "0.3"]) as screen:
        page = screen.wait(r"TPS [1-9]")
        assert "pgweir top: 127.0.0.1" in page and "SIZING OF HOST" in page and "order: waiting" in page, page
        # Keys are not shown, and not waited for as a line.
        screen.press("s")
        screen.wait("order: tps")
        screen.press("?")
        screen.wait("how long the first client in the queue has waited")
        screen.press("x")
        screen.wait("SIZING OF HOST")
        screen.press("c")
        screen.wait(r"REQUEST SINCE[\s\S]*active")
        screen.press("c")
        screen.wait("DATABASE +USER")
        screen.press("p")
        paused = screen.wait("the view is paused")
        clock = re.search(r"\d\d:\d\d:\d\d", paused).group()
        screen.read(2.5)
        screen.press("s")
        assert clock in screen.wait("order: query")
        screen.press("p")
        screen.wait(r"TPS [1-9]")
        # A narrow terminal: each line is cut, and columns are left out.
        screen.resize(50, 12)
        screen.wait("(?m)^DATABASE(?!.*MODE)")
        screen.read(0.5)
        written = screen.read(1)
        for page in written.split(b"\x1b[H")[1:]:
            text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "\n", page.decode())
            assert all(len(line) <= 50 for line in re.split(r"[\r\n]+", text)), text
            assert page.count(b"\r\n") <= 11
        screen.press("q")
        assert screen.ended() == 0
        screen.is_restored()


@pytest.mark.parametrize("ending", ["ctrl-c", signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=str)
def test_the_terminal_is_restored_however_it_ends(pg15, make_pooler, ending):
    pooler = make_pooler(pg15)
    with Screen([*PGWEIR, "top", console_of(pooler)]) as screen:
        screen.wait("clients: ")
        if ending == "ctrl-c":
            screen.press("\x03")
            assert screen.ended() == 0
        else:
            screen.signal(ending)
            assert screen.ended() == 128 + ending
        screen.is_restored()


def test_ctrl_z_gives_the_terminal_back_for_a_while(pg15, make_pooler):
    """A shell of the test starts it as its job, sees it stop, and lets it go on."""
    pooler = make_pooler(pg15)
    shell = (
        "import os, signal, sys, termios\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "before = termios.tcgetattr(0)\n"
        "job = os.fork()\n"
        "if job == 0:\n"
        "    os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid())\n"
        "    signal.signal(signal.SIGTTOU, signal.SIG_DFL)\n"
        "    os.execv(sys.argv[1], sys.argv[1:])\n"
        "_, status = os.waitpid(job, os.WUNTRACED)\n"
        "assert os.WIFSTOPPED(status), status\n"
        "assert termios.tcgetattr(0) == before\n"
        "print('STOPPED AND RESTORED', flush=True)\n"
        "os.kill(job, signal.SIGCONT)\n"
        "_, status = os.waitpid(job, 0)\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    with Screen([sys.executable, "-c", shell, *PGWEIR, "top", console_of(pooler), "-i", "0.3"]) as screen:
        screen.wait("clients: ")
        screen.press("\x1a")
        eventually(lambda: screen.read(0.05) is not None and b"STOPPED AND RESTORED" in screen.written)
        screen.wait("clients: ")
        screen.press("q")
        assert screen.ended() == 0
        screen.is_restored()


def test_colours_can_be_turned_off(pg15, make_pooler):
    pooler = make_pooler(pg15)
    for value, has_colours in (("", True), ("1", False)):
        with Screen([*PGWEIR, "top", console_of(pooler)], NO_COLOR=value) as screen:
            screen.wait("clients: ")
            screen.press("q")
            assert screen.ended() == 0
            assert (re.search(rb"\x1b\[[0-9;]*m", screen.written) is not None) == has_colours


def test_a_lost_connection_is_made_again(pg15, make_pooler):
    """The pooler is restarted while it is watched; and the view ends in order where there is none."""
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.query("select 1")
    with Screen([*PGWEIR, "top", console_of(pooler), "-i", "0.3"]) as screen:
        screen.wait("clients: ")
        quit_now(pooler)
        page = screen.wait(r"connection lost, trying again: [\s\S]*(refused|closed)")
        # What was seen last stays.
        assert "clients: " in page
        pooler.start()
        eventually(lambda: "connection lost" not in screen.wait("clients: "), timeout=10)
        quit_now(pooler)
        screen.wait("connection lost")
        screen.press("q")
        assert screen.ended() == 0
        screen.is_restored()


def test_a_lost_connection_ends_what_a_script_reads(pg15, make_pooler):
    """With status 1; whoever stops reading early is no error; a pooler that is paused is called so."""
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.query("select 1")
    command = [*PGWEIR, "top", console_of(pooler), "--batch", "1000", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as early:
        assert early.stdout.readline().startswith("pgweir top: ")
        early.stdout.close()
        assert early.wait(10) == 0, early.stderr.read()
    pooler.console("PAUSE")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline().endswith("  PAUSED\n")
        quit_now(pooler)
        _, errors = reader.communicate(timeout=10)
        assert reader.returncode == 1 and errors.startswith("pgweir: console: SHOW "), errors


def pgbouncers():
    """Programs of PgBouncer on this machine: 1.26 of the cache, an installed one."""
    cached = os.path.join(CHECKOUT, ".cache", "pgbouncer126", "pgbouncer")
    installed = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    return [path for path in (cached, installed) if os.path.exists(path)]


def test_the_console_of_a_pgbouncer(pg15, make_pooler, monkeypatch):
    """It knows no SHOW SIZING: that part is left out."""
    programs = pgbouncers()
    if not programs:
        pytest.skip("no PgBouncer here")
    for path in programs:
        monkeypatch.setattr("harness.pooler.program", lambda *_, path=path: [path])
        pooler = make_pooler(pg15, settings={"default_pool_size": 4})
        with load(pooler, clients=10):
            pooler.wait_pool(sv_active=4)
            output = top(console_of(pooler, "stats"), "--once", "--clients").stdout
            assert "PgBouncer" in output and rows(output, "CLIENT")[0]["STATE"] == "waiting", output
            output = top(console_of(pooler, "stats"), "--batch", "2").stdout
            view = output.split("\n\npgweir top: ")[1]
            pool = rows(view, "DATABASE")[0]
            assert (pool["SV_ACTIVE"], pool["USER"]) == ("4", "postgres") and int(pool["CL_WAIT"]) >= 4, view
            assert 100 < number(pool["TPS"]) < 401 and 9 < number(pool["QUERY_MS"]) < 40, view
            assert "SIZING" not in view
            with Screen([*PGWEIR, "top", console_of(pooler), "-i", "0.3"]) as screen:
                screen.wait(r"TPS [1-9]")
                screen.press("q")
                assert screen.ended() == 0
                screen.is_restored()
