"""Life of the process, before a real PgBouncer 1.26 and before pgweir: its user, its files, its limits; WAIT_CLOSE."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess

import pgthrow
import pytest

from harness import wire
from harness.logins import login
from harness.namespaces import alone
from harness.pooler import kind, program
from harness.waiting import eventually
from test_pgbouncer_limits import both

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# -- started by root

# Arguments, the setting `user`, and who it runs as; nobody, if it does not start.
USERS = {
    "-u": (("-u", "{user}"), None, "{user}"),
    "--user": (("--user={user}",), None, "{user}"),
    "user": ((), "{user}", "{user}"),
    "both": (("-u", "{user}"), "nobody", "{user}"),
    "in the background": (("-d", "-u", "{user}"), None, "{user}"),
    "nobody": ((), None, None),
    "root": (("-u", "root"), None, None),
    "one who is not there": (("-u", "no-such-user"), None, None),
}


def identity(pid: int) -> tuple[str, ...]:
    """User and group of a process, in every respect. Further groups are each pooler's own."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return tuple(line.split(":")[1].strip() for line in file if line.startswith(("Uid:", "Gid:")))


def pid_in(pooler) -> int | None:
    with contextlib.suppress(FileNotFoundError, ValueError), open(pooler.pid_path, encoding="ascii") as file:
        return int(file.read())
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("what", USERS)
def test_the_user_that_it_runs_as(pg15, make_pooler, monkeypatch, what):
    arguments, setting, meant = USERS[what]
    user = pwd.getpwnam(pgthrow.server_user())
    fill = lambda text: text and text.format(user=user.pw_name, uid=user.pw_uid)  # noqa: E731
    monkeypatch.setattr(pgthrow, "as_server_user", lambda command, **_: command)
    settings = {"user": fill(setting)}
    for pooler in both(make_pooler, pg15, arguments=tuple(map(fill, arguments)), settings=settings, start=False):
        pooler.spawn()
        if meant is None:
            assert pooler.wait_exit() != 0 and not os.path.exists(pooler.pid_path), pooler.which
            continue
        if "-d" in arguments:
            assert pooler.wait_exit() == 0, pooler.which
        pooler.wait_log("process up")
        pid = eventually(lambda: pid_in(pooler), what="its pid file")  # noqa: B023
        assert identity(pid) == ("\t".join([str(user.pw_uid)] * 4), "\t".join([str(user.pw_gid)] * 4)), pooler.which
        socket_path = os.path.join(pooler.dir, f".s.PGSQL.{pooler.port}")
        for path in (socket_path, pooler.pid_path, pooler.log_path):
            assert os.stat(path).st_uid == user.pw_uid, (pooler.which, path)
        for host in (pooler.dir, pooler.host):
            login(pooler, user="alice", host=host)
        os.kill(pid, signal.SIGTERM)
        if "-d" not in arguments:
            assert pooler.wait_exit() == 0, pooler.which
        eventually(lambda: not os.path.exists(pooler.pid_path), what="the end of its pid file")  # noqa: B023


# -- the command line

# Arguments -> exit status; whether something is said on stdout, and on stderr.
COMMANDS = {
    "-V": (0, True, False),
    "--version": (0, True, False),
    "-qV": (0, True, False),
    "-vvV": (0, True, False),
    "--verbose --quiet --version": (0, True, False),
    "--user postgres -V": (0, True, False),
    "-V -x": (0, True, False),
    "-h": (0, True, False),
    "--help": (0, True, False),
    "": (1, False, True),
    "no-such-file": (1, False, True),
    "-- -V": (1, False, True),
    ".": (1, False, True),
    "bad.ini": (1, False, True),
    "-v bad.ini": (1, False, True),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line(make_pooler, command):
    for pooler in both(make_pooler, None, start=False):
        pooler.write_file(os.path.join(pooler.dir, "bad.ini"), "[pgbouncer]\nno_such_setting = 1\n")
        arguments = pgthrow.as_server_user([*program(pooler.which), *command.split()])
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=10, cwd=pooler.dir, check=False)
        assert (result.returncode, bool(result.stdout), bool(result.stderr)) == COMMANDS[command], pooler.which


# -- limits and ids


def test_the_soft_limit_on_files_is_raised(pg15, make_pooler):
    """More clients than the soft limit has room for."""
    pooler = make_pooler(pg15, open_files_max="60:2000", which="pgweir")
    with open(f"/proc/{pooler.process.pid}/limits", encoding="ascii") as file:
        (line,) = [line for line in file if line.startswith("Max open files")]
    assert line.split()[3:5] == ["2000", "2000"]
    assert "kernel file descriptor limit: 2000 (hard: 2000, raised from 60); max_client_conn: 200" in pooler.log()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(pooler.connect())
        login(pooler)


def test_process_1_with_the_pid_file_of_a_former_process_1(pg15, make_pooler):
    """In a container every process before had the same id. The file must not be taken for that of a running one."""
    pooler = make_pooler(pg15, start=False, which="pgweir", under=alone("--pid", "--fork", "--kill-child"))
    pooler.write_file(pooler.pid_path, "1\n")
    pooler.start()
    assert pid_in(pooler) == 1
    login(pooler)
    with open(f"/proc/{pooler.process.pid}/task/{pooler.process.pid}/children", encoding="ascii") as file:
        (child,) = map(int, file.read().split())
    os.kill(child, signal.SIGTERM)
    assert pooler.wait_exit() == 0
    assert not os.path.exists(pooler.pid_path)


# -- WAIT_CLOSE


@pytest.mark.parametrize("command", ["wait_close shop", "wait_close"])
def test_wait_close_waits(pg15, make_pooler, command):
    """After RECONNECT, until the last server of before has been given back; not for another database's."""
    for pooler in both(make_pooler, pg15):
        with contextlib.ExitStack() as stack:
            at_work = [stack.enter_context(pooler.connect(database="shop")) for _ in range(2)]
            for c in at_work:
                c.query("begin; select 1")
            boss, other = (stack.enter_context(pooler.connect(database="pgbouncer")) for _ in range(2))
            boss.query("reconnect shop")
            boss.send(wire.query(command))
            assert wire.tags(other.query("wait_close warehouse"))[-2:] == "CZ", pooler.which
            at_work[0].query("commit")
            assert boss.quiet(0.3), pooler.which
            at_work[1].query("commit")
            assert wire.tags(boss.read_ready()) == "CZ", pooler.which


def test_pidfile(pg15, make_pooler):
    """It holds the number of the process, and is gone when that has ended. Where it cannot be made, nothing starts."""
    seen = []
    for pooler in both(make_pooler, pg15):
        with open(pooler.pid_path, encoding="ascii") as file:
            of = [file.read() == f"{pooler.process.pid}\n", oct(os.stat(pooler.pid_path).st_mode)]
        pooler.signal(signal.SIGTERM)
        pooler.wait_exit()
        of.append(os.path.exists(pooler.pid_path))
        pooler.settings["pidfile"] = os.path.join(pooler.dir, "missing", "pid")
        pooler.write_ini()
        pooler.spawn()
        of.append(pooler.wait_exit() != 0)
        seen.append(of)
    assert seen[1] == seen[0]
    assert seen[0] == [True, seen[0][1], False, True]


def sighups_in(path: str) -> int:
    """How many times this log says that the process has got SIGHUP."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return file.read().count("got SIGHUP")
    return 0


def test_logfile(pg15, make_pooler):
    """SIGHUP opens it anew, after it has been renamed, and after the setting has changed."""
    seen = []
    for pooler in both(make_pooler, pg15):
        first, second = pooler.log_path, os.path.join(pooler.dir, "second log")
        os.rename(first, first + ".1")
        pooler.signal(signal.SIGHUP)

        def files_with(words, pooler=pooler, first=first, second=second):
            found = []
            for path in (first, first + ".1", second):
                with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
                    if words in file.read():
                        found.append(os.path.basename(path))
            return found

        # The line may be in either.
        eventually(lambda: files_with("got SIGHUP"), what="SIGHUP in a log")  # noqa: B023
        pooler.connect(user="alice").close()
        eventually(lambda: files_with("user=alice"), what="alice's login in a log")  # noqa: B023
        of = [files_with("user=alice")]
        pooler.settings["logfile"] = second
        pooler.write_ini()
        reread = sum(map(sighups_in, (first, first + ".1", second)))
        pooler.signal(signal.SIGHUP)
        eventually(lambda: sum(map(sighups_in, (first, first + ".1", second))) > reread, what="SIGHUP in a log")  # noqa: B023
        pooler.connect(user="bob").close()
        eventually(lambda: files_with("user=bob"), what="bob's login in a log")  # noqa: B023
        of.append(files_with("user=bob"))
        seen.append(of)
    assert seen[1] == seen[0] == [["log"], ["second log"]]
