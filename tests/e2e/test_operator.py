"""What an operator meets: files that are gone at a reload, systemd, the log, installation."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from harness import wire
from harness.pooler import CHECKOUT, kind, program
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")


def setting(pooler, name):
    return next(row["value"] for row in pooler.console("show config") if row["key"] == name)


# ---- files that are gone when the configuration is read again


@pytest.mark.parametrize("harm", ("missing", "unreadable", "empty", "damaged"))
@pytest.mark.parametrize("by", ("console", "signal"))
def test_a_reload_without_its_users_is_refused(pg15, make_pooler, harm, by):
    """Nobody is locked out, administrators least of all; nothing else of that reload counts either."""
    settings = {"auth_type": "scram-sha-256", "default_pool_size": 7}
    pooler = make_pooler(pg15, settings=settings)
    log_in = {"user": "postgres", "password": "postgres-pw"}
    if harm == "missing":
        os.remove(pooler.userlist_path)
    elif harm == "unreadable":
        os.remove(pooler.userlist_path)
        os.mkdir(pooler.userlist_path)
    elif harm == "empty":
        pooler.write_file(pooler.userlist_path, "")
    else:
        pooler.write_file(pooler.userlist_path, '"postgres\n')
    pooler.settings.update({"default_pool_size": 8, "verbose": 3})
    pooler.write_ini()
    if by == "console":
        with pooler.connect(database="pgbouncer", **log_in) as c:
            (error,) = [m for m in c.query("reload") if m.tag == "E"]
            assert error.fields["M"] == "RELOAD failed, see logs for additional details"
            assert "auth_file" in error.fields["D"]
    else:
        pooler.signal(signal.SIGHUP)
    pooler.wait_log("ERROR .*auth_file")
    pooler.wait_log("ERROR RELOAD Failed, see logs for more details; the old configuration stays")
    with pooler.connect(**log_in) as c:
        assert c.value("select 1") == "1"
    assert {r["key"]: r["value"] for r in pooler.console("show config", **log_in)}["default_pool_size"] == "7"
    assert " DEBUG " not in pooler.log(), "the driver, too, keeps its settings"
    # And once the file is back, everything counts.
    if harm == "unreadable":
        os.rmdir(pooler.userlist_path)
    pooler.write_userlist({"postgres": "postgres-pw", "new": "new-pw"})
    assert pooler.console("reload", **log_in) == []
    assert {r["key"]: r["value"] for r in pooler.console("show config", **log_in)}["default_pool_size"] == "8"


def test_a_start_without_the_file_goes_on_with_a_warning(pg15, make_pooler):
    """As PgBouncer's does: the file may be for auth_query's user alone."""
    pooler = make_pooler(pg15, start=False)
    os.remove(pooler.userlist_path)
    pooler.start()
    pooler.wait_log("WARNING .*could not open auth_file")
    with pytest.raises(wire.ServerError):
        pooler.connect()


def test_warnings_of_a_reload_are_warnings(pg15, make_pooler):
    pooler = make_pooler(pg15)
    pooler.settings["scram_iterations"] = 100
    pooler.databases["other"] = pooler.server(dbname="shop")
    pooler.reload()
    pooler.wait_log("WARNING .*scram_iterations is below")
    pooler.wait_log(r"LOG RELOAD: changed .*database other \(new\)")
    offset = len(pooler.log())
    pooler.databases["other"] = pooler.server(dbname="warehouse")
    pooler.reload()
    pooler.wait_log(r"LOG RELOAD: changed .*database other \(servers are replaced\)", after=offset)
    offset = len(pooler.log())
    pooler.settings["pool_mode"] = "nonsense"
    pooler.write_ini()
    pooler.signal(signal.SIGHUP)
    pooler.wait_log("ERROR .*pool_mode", after=offset)
    pooler.wait_log("ERROR RELOAD Failed", after=offset)
    lines = pooler.log()[offset:].splitlines()
    assert all(" WARNING " in line for line in lines if "scram_iterations" in line), lines


# ---- systemd


class Manager:
    """A service manager's socket: what it gets, message by message."""

    def __init__(self, abstract: bool):
        self.dir = tempfile.mkdtemp(prefix="notify-")
        os.chmod(self.dir, 0o755)
        self.name = f"@pgweir-test-{os.getpid()}-{id(self)}" if abstract else os.path.join(self.dir, "socket")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:] if abstract else self.name)
        if not abstract:
            os.chmod(self.name, 0o777)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        shutil.rmtree(self.dir)

    def hears(self, timeout: float = 10.0) -> list[str]:
        """The lines of the next message, without those of the watchdog."""
        self.socket.settimeout(timeout)
        while True:
            lines = self.socket.recv(4096).decode().splitlines()
            if lines != ["WATCHDOG=1"]:
                return lines

    def hears_nothing(self) -> bool:
        self.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.socket.recv(4096)
        return True


@pytest.mark.parametrize("abstract", (False, True), ids=("path", "abstract"))
def test_systemd_is_told_of_start_reload_and_end(pg15, make_pooler, monkeypatch, abstract):
    """Without READY=1 a unit of Type=notify ends the pooler after its start timeout."""
    with Manager(abstract) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        pooler = make_pooler(pg15, start=False)
        pooler.spawn()
        assert manager.hears() == ["READY=1"]
        with pooler.connect() as c:
            assert c.value("select 1") == "1", "ready means ready"
            for good in (True, False):
                pooler.settings["pool_mode"] = "session" if good else "nonsense"
                pooler.write_ini()
                pooler.signal(signal.SIGHUP)
                reloading, time = manager.hears()
                assert reloading == "RELOADING=1"
                assert re.fullmatch(r"MONOTONIC_USEC=\d+", time)
                assert manager.hears() == ["READY=1"], "also where the old configuration stays"
            assert manager.hears_nothing()
            pooler.signal(signal.SIGTERM)
            assert manager.hears() == ["STOPPING=1"]
            assert c.value("select 2") == "2", "a client that is there may go on"
        assert pooler.wait_exit(5) == 0
        assert manager.hears_nothing()


@pytest.mark.parametrize("which", ("pgbouncer", "pgweir"))
@pytest.mark.parametrize("what", ("wait_for_clients", "wait_for_servers"))
def test_systemd_does_not_limit_a_shutdown_by_the_console(pg15, make_pooler, monkeypatch, which, what):
    """After STOPPING=1 systemd kills the process when TimeoutStopSec is over. The console's SHUTDOWN may wait longer, so it
    is told at the end."""
    with Manager(False) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        pooler = make_pooler(pg15, which=which)
        assert manager.hears() == ["READY=1"]
        with pooler.connect() as c:
            c.query("begin; select 1")
            pooler.console(f"shutdown {what}")
            assert c.value("select 2") == "2"
            assert manager.hears_nothing()
            c.query("commit")
        assert pooler.wait_exit() == 0
        if which == "pgweir":
            assert manager.hears() == ["STOPPING=1"]


def test_systemd_shows_the_statistics(pg15, make_pooler, monkeypatch):
    """`systemctl status` prints the last STATUS; PgBouncer's has the same words."""
    heard = []
    for which in ("pgbouncer", "pgweir"):
        with Manager(False) as manager:
            monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
            make_pooler(pg15, which=which, settings={"stats_period": 1, "log_stats": 0})
            heard.append(eventually(lambda: next((line for line in manager.hears() if line.startswith("STATUS=")), None)))
    assert re.sub(r"\d+", "N", heard[0]) == re.sub(r"\d+", "N", heard[1])


def test_the_watchdog_is_fed(pg15, make_pooler, monkeypatch):
    with Manager(False) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        pooler = make_pooler(pg15)
        manager.socket.settimeout(10)
        messages = [manager.socket.recv(4096) for _ in range(6)]
        assert messages.count(b"READY=1\n") == 1
        assert messages.count(b"WATCHDOG=1\n") == 5
        # A process that hangs is silent.
        pooler.signal(signal.SIGSTOP)
        eventually(lambda: not socket_has_more(manager.socket), timeout=10, interval=0.6)
        pooler.signal(signal.SIGCONT)
        assert manager.socket.recv(4096) == b"WATCHDOG=1\n"


def socket_has_more(sock) -> bool:
    """Whether something has come, which is thrown away."""
    sock.setblocking(False)
    more = False
    try:
        while sock.recv(4096):
            more = True
    except BlockingIOError:
        return more
    finally:
        sock.settimeout(10)


@pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this")
@pytest.mark.parametrize("by_systemd", (False, True), ids=("by hand", "as ExecReload"))
def test_systemd_follows_take_overs(pg15, make_pooler, monkeypatch, by_systemd):
    """The old main process names the new one, since systemd believes only the main process (NotifyAccess=main). The new one
    feeds the watchdog from then on, whether its environment has nothing of this, or, as that of ExecReload, the watchdog's
    process id of the old one."""
    with Manager(False) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        monkeypatch.setenv("WATCHDOG_USEC", "600000")
        pooler = make_pooler(pg15)
        assert manager.hears() == ["READY=1"]
        if not by_systemd:
            monkeypatch.delenv("NOTIFY_SOCKET")
            monkeypatch.delenv("WATCHDOG_USEC")
        with pooler.connect() as c:
            c.value("select 1")
            for _ in range(3):
                if by_systemd:
                    monkeypatch.setenv("WATCHDOG_PID", str(pooler.process.pid))
                old = pooler.take_over()
                heard = [manager.hears(), manager.hears()]
                assert sorted(heard) == [[f"MAINPID={pooler.process.pid}"], ["READY=1"]]
                assert old.wait(10) == 0
                pooler.signal(signal.SIGHUP)
                assert manager.hears()[0] == "RELOADING=1"
                assert manager.hears() == ["READY=1"]
            assert c.value("select 2") == "2"
            socket_has_more(manager.socket)
            assert manager.socket.recv(4096) == b"WATCHDOG=1\n"
        pooler.signal(signal.SIGTERM)
        assert manager.hears() == ["STOPPING=1"]
        assert pooler.wait_exit() == 0


def test_a_service_manager_that_cannot_be_told_is_no_reason_to_fail(pg15, make_pooler, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "relative/name")
    pooler = make_pooler(pg15)
    pooler.wait_log("WARNING could not notify the service manager")
    monkeypatch.setenv("NOTIFY_SOCKET", "/no/such/socket")
    with make_pooler(pg15).connect() as c:
        assert c.value("select 1") == "1"


# ---- the console, the command line, the log


def test_set_on_the_console_reaches_every_setting(pg15, make_pooler):
    """PostgreSQL has a transaction_timeout, too: on the console pgweir's is meant."""
    pooler = make_pooler(pg15)
    pooler.console("set transaction_timeout = 1")
    assert setting(pooler, "transaction_timeout") == "1"
    with pooler.connect() as c:
        c.send(wire.query("begin; select pg_sleep(5)"))
        assert "25P04" in wire.error_codes(c.read_to_end(8))
    pooler.console("set session transaction_timeout = 9")
    assert setting(pooler, "transaction_timeout") == "1", "what a driver says of its session"


def test_the_limit_on_files_is_told_as_it_is(pg15, make_pooler):
    pooler = make_pooler(pg15, open_files_max=900)
    line = pooler.wait_log("kernel file descriptor limit")
    assert "kernel file descriptor limit: 900 (hard: 900); max_client_conn: 200" in line


def test_check_names_causes_first(tmp_path):
    ini = tmp_path / "a.ini"

    def check(text):
        ini.write_text(text)
        return subprocess.run([*program(), "check", str(ini)], capture_output=True, text=True, timeout=20).stdout

    out = check("[pgbouncer]\nauth_type = scram\nauth_fil = users.txt\n[database]\nshop = host=db\n")
    assert out.index("did you mean") < out.index("no databases are defined")
    assert 'did you mean "scram-sha-256"?' in out
    out = check("[databases]\n[pgbouncer]\nauth_type = any\nlisten_addr = 127.0.0.1\n")
    assert "add a section" not in out and "add a line" in out


def test_a_mistyped_command_is_recognised(tmp_path):
    ini = tmp_path / "a.ini"
    ini.write_text("")
    for arguments in (["chek", str(ini)], ["chek"]):
        result = subprocess.run([*program(), *arguments], capture_output=True, text=True, timeout=20)
        assert result.returncode != 0
        assert 'did you mean "pgweir check"?' in result.stderr


# ---- installation


def test_make_install(tmp_path):
    """PREFIX and DESTDIR; the debug lines are beside the program, not in it."""
    built = shutil.copy(program()[0], tmp_path / "built")
    has_lines = b".debug_line" in subprocess.run(["objdump", "-h", built], capture_output=True, check=True).stdout
    root = tmp_path / "root"
    command = ["make", "-s", "install", f"PROGRAM={built}", f"DESTDIR={root}", "PREFIX=/opt/pgweir"]
    for _ in range(2):
        subprocess.run(command, cwd=CHECKOUT, check=True, timeout=120)
    prefix = root / "opt" / "pgweir"
    installed = prefix / "bin" / "pgweir"
    version = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("pgweir ")
    headers = subprocess.run(["objdump", "-h", installed], capture_output=True, text=True, check=True).stdout
    assert ".debug_line" not in headers and ".debug_info" not in headers
    if has_lines:
        assert ".gnu_debuglink" in headers
        lines = subprocess.run(
            ["objdump", "-h", prefix / "bin" / ".debug" / "pgweir.debug"], capture_output=True, text=True, check=True
        ).stdout
        assert ".debug_line" in lines
        assert installed.stat().st_size < os.stat(built).st_size
    unit = (prefix / "lib" / "systemd" / "system" / "pgweir.service").read_text()
    assert "ExecStart=/opt/pgweir/bin/pgweir " in unit and "Type=notify" in unit
    # The example configuration works with the unit: its folders are made, and the other examples are beside it.
    examples = prefix / "share" / "doc" / "pgweir" / "examples"
    for setting, folder, line in (
        ("logfile", "/var/log/pgweir/", "LogsDirectory=pgweir\n"),
        ("pidfile", "/run/pgweir/", "RuntimeDirectory=pgweir\n"),
    ):
        assert f"\n{setting} = {folder}" in (examples / "pgweir.ini").read_text() and line in unit
    assert (examples / "userlist.txt").exists() and (examples / "hba.conf").exists()
    for page in ("man1/pgweir.1", "man5/pgweir.ini.5"):
        assert (prefix / "share" / "man" / page).stat().st_size > 1000
    subprocess.run([*command[:2], "uninstall", *command[3:]], cwd=CHECKOUT, check=True, timeout=60)
    assert not installed.exists()
