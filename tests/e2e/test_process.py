"""The process: command line, signals, pid file, log, reload, shutdown, `pgweir check`."""

import contextlib
import fcntl
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time

import pgthrow
import pytest

from conftest import backends
from harness import wire
from harness.logins import is_served
from harness.pooler import CHECKOUT, kind, program
from harness.scenes import backend_pid, held_server
from harness.waiting import Stopwatch, eventually
from harness.wire import query, rows_of

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

pgweir_only = pytest.mark.skipif(kind() != "pgweir", reason="pgweir's own")

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ \[\d+\] (FATAL|ERROR|WARNING|LOG|DEBUG|NOISE) "


def run(*arguments):
    return subprocess.run([*program(), *arguments], capture_output=True, text=True, timeout=20)


# ---- command line


def test_version(pg15, make_pooler):
    result = run("--version")
    assert result.returncode == 0
    first = result.stdout.splitlines()[0]
    assert make_pooler(pg15).console("show version") == [{"version": first}]
    assert run("-V").stdout == result.stdout


def test_help():
    for flag in ("--help", "-h"):
        result = run(flag)
        assert result.returncode == 0
        for option in ("-d", "-R", "-v", "-q", "-u", "--daemon", "--quiet", "--verbose", "--user", "--version"):
            assert option in result.stdout, option


def test_bad_command_lines():
    for arguments in (("--no-such-option",), (), ("/no/such/file.ini",)):
        result = run(*arguments)
        assert result.returncode != 0
        assert result.stderr.strip() or result.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked this")
def test_root_is_refused(pg15, make_pooler):
    """A root process without -u does not start, as PgBouncer's does not; with -u it runs as that user."""
    pooler = make_pooler(pg15, start=False)
    result = subprocess.run([*program(), pooler.ini_path], capture_output=True, text=True, timeout=10)
    assert result.returncode != 0
    assert "root" in result.stderr + result.stdout + pooler.log()


# ---- signals


def test_sigquit_and_sigterm_and_sigint_without_clients(pg15, make_pooler):
    """Exit status 0 in all these cases; the socket and the pid file are gone."""
    for number in (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT):
        pooler = make_pooler(pg15)
        socket_path = os.path.join(pooler.dir, f".s.PGSQL.{pooler.port}")
        assert os.path.exists(socket_path) and os.path.exists(pooler.pid_path)
        pooler.signal(number)
        assert pooler.wait_exit(5) == 0, number
        assert not os.path.exists(pooler.pid_path), number
        if kind() == "pgweir":
            assert not os.path.exists(socket_path), number


def test_sigquit_is_at_once(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.query("begin")
        c.value("select 1")
        pooler.signal(signal.SIGQUIT)
        assert pooler.wait_exit(3) == 0
        assert c.closed(3)


def test_sigterm_waits_for_clients(pg15, make_pooler):
    """TERM: no new clients; those that are there go on as long as they like; then exit 0."""
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.value("select 1")
        pooler.signal(signal.SIGTERM)
        eventually(lambda: not connectable(pooler))
        for _ in range(3):
            c.query("begin")
            assert c.value("select 2") == "2"
            c.query("commit")
            time.sleep(0.2)
        assert pooler.running
        c.close()
        assert pooler.wait_exit(5) == 0


def test_second_sigterm_is_at_once(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.value("select 1")
        pooler.signal(signal.SIGTERM)
        eventually(lambda: not connectable(pooler))
        assert pooler.running
        pooler.signal(signal.SIGTERM)
        assert pooler.wait_exit(3) == 0


def test_sigint_waits_for_servers(pg15, make_pooler):
    """INT: no new clients, running transactions end in peace, idle clients are let go; then exit 0."""
    pooler = make_pooler(pg15)
    with pooler.connect() as busy, pooler.connect() as idle:
        idle.value("select 1")
        busy.query("begin")
        busy.value("select 1")
        pooler.signal(signal.SIGINT)
        eventually(lambda: not connectable(pooler))
        assert busy.value("select 2 from pg_sleep(0.5)") == "2"
        assert pooler.running
        busy.query("commit")
        assert pooler.wait_exit(5) == 0


def test_second_sigint_is_at_once(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as busy:
        busy.query("begin")
        busy.value("select 1")
        pooler.signal(signal.SIGINT)
        eventually(lambda: not connectable(pooler))
        assert pooler.running
        pooler.signal(signal.SIGINT)
        assert pooler.wait_exit(3) == 0
        assert busy.closed(3)


def connectable(pooler):
    try:
        wire.open_socket(pooler.host, pooler.port, 1).close()
        return True
    except OSError:
        return False


def test_sigusr1_and_sigusr2(pg15, make_pooler):
    """USR1 is PAUSE, USR2 RESUME."""
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.value("select 1")
        pooler.signal(signal.SIGUSR1)
        eventually(lambda: {r["key"]: r["value"] for r in pooler.console("show state")}["paused"] == "yes")
        c.send(query("select 'held back'"))
        assert c.quiet(0.3)
        pooler.signal(signal.SIGUSR2)
        assert rows_of(c.read_ready(timeout=3)) == [("held back",)]
    pooler.wait_log("got SIGUSR1")
    pooler.wait_log("got SIGUSR2")


def test_sighup(pg15, make_pooler):
    """HUP reloads within a second."""
    pooler = make_pooler(pg15)
    pooler.settings["default_pool_size"] = 7
    pooler.write_ini()
    pooler.signal(signal.SIGHUP)
    eventually(lambda: setting(pooler, "default_pool_size") == "7", timeout=1.5)
    pooler.wait_log("got SIGHUP")


def test_sigusr2_while_shutting_down(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        c.value("select 1")
        pooler.signal(signal.SIGTERM)
        eventually(lambda: not connectable(pooler))
        pooler.signal(signal.SIGUSR2)
        pooler.wait_log("got SIGUSR2 while shutting down, ignoring")
        c.close()
        assert pooler.wait_exit(5) == 0


def setting(pooler, key):
    return {r["key"]: r["value"] for r in pooler.console("show config")}[key]


# ---- files


def test_pid_file(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with open(pooler.pid_path) as file:
        assert int(file.read()) == pooler.process.pid
    # A second process with the same pid file does not start, and leaves the first alone.
    second = subprocess.run(
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *program(), pooler.ini_path]
        if os.geteuid() == 0
        else [*program(), pooler.ini_path],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert second.returncode != 0
    with open(pooler.pid_path) as file:
        assert int(file.read()) == pooler.process.pid
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


def test_stale_pid_file(pg15, make_pooler):
    """A pid file of a process that is no more is overwritten."""
    pooler = make_pooler(pg15, start=False)
    pooler.write_file(pooler.pid_path, "4194000\n")
    pooler.start()
    eventually(lambda: open(pooler.pid_path).read().strip() == str(pooler.process.pid))
    pooler.wait_log("LOG stale pidfile, removing")


def test_daemon(pg15, make_pooler):
    """-d: into the background, with a log file and a pid file; the starting process ends with 0."""
    pooler = make_pooler(pg15, start=False, arguments=("-d",))
    pooler.spawn()
    assert pooler.wait_exit(5) == 0
    pid = int(eventually(lambda: os.path.exists(pooler.pid_path) and open(pooler.pid_path).read().strip()))
    try:
        assert pid != pooler.process.pid
        with pooler.connect() as c:
            assert c.value("select 1") == "1"
    finally:
        os.kill(pid, signal.SIGQUIT)
        eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_daemon_needs_a_pid_file(pg15, make_pooler):
    """pgweir takes a log file as well."""
    pooler = make_pooler(pg15, start=False, arguments=("-d",), settings={"logfile": None, "pidfile": None})
    pooler.spawn()
    assert pooler.wait_exit(5) != 0


def test_log_lines(pg15, make_pooler):
    """The lines that monitoring matches, in PgBouncer's format."""
    pooler = make_pooler(pg15)
    with pooler.connect(user="alice", database="shop") as c:
        c.value("select 1")
    with pytest.raises(wire.ServerError):
        pooler.connect(user="no such user")
    address = r"127\.0\.0\.1:\d+"
    for pattern in (
        rf"^{LINE}process up: ",
        rf"^{LINE}listening on 127\.0\.0\.1:{pooler.port}$",
        rf"^{LINE}C-0x[0-9a-f]+: \S+/\S+@{address} login attempt: db=shop user=alice tls=no replication=no$",
        rf"^{LINE}S-0x[0-9a-f]+: shop/alice@127\.0\.0\.1:{pg15.port} new connection to server \(from {address}\)$",
        rf"^{LINE}C-0x[0-9a-f]+: shop/alice@{address} closing because: client close request \(age=\d+s\)$",
        rf"^{LINE}C-0x[0-9a-f]+: .* closing because: \"trust\" authentication failed \(age=\d+s\)$",
    ):
        pooler.wait_log(pattern)
    assert all(re.match(LINE, line) for line in pooler.log().splitlines()), "a line in another format"


def test_log_connections_off(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"log_connections": 0, "log_disconnections": 0})
    with pooler.connect() as c:
        c.value("select 1")
    with pooler.connect() as c:
        c.value("select 1")
    assert "login attempt" not in pooler.log() and "closing because" not in pooler.log()


def test_log_stats(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"stats_period": 1})
    with pooler.connect() as c:
        c.value("select 1")
        pooler.wait_log(
            r"stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server parses/s, \d+ binds/s, "
            r"(\d+ client logins/s, )?in \d+ B/s, out \d+ B/s, xact \d+ us, query \d+ us, wait \d+ us",
            timeout=5,
        )


def test_log_file_is_opened_again(pg15, make_pooler):
    """After HUP the log goes to a new file of the same name: log rotation."""
    pooler = make_pooler(pg15)
    os.rename(pooler.log_path, pooler.log_path + ".1")
    pooler.signal(signal.SIGHUP)
    eventually(lambda: os.path.exists(pooler.log_path))
    with pooler.connect() as c:
        c.value("select 1")
    pooler.wait_log("login attempt")


def test_a_full_pipe_does_not_stop_the_pooler(pg15, make_pooler):
    """Whoever reads stderr may have stopped. Anybody can fill the pipe, by logins that are refused."""
    pooler = make_pooler(pg15, start=False, settings={"logfile": None})
    reader, writer = os.pipe()
    try:
        command = pgthrow.as_server_user([*program(), pooler.ini_path], die_with_parent="KILL")
        pathlib.Path(pooler.stderr_path).touch()
        pooler.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=writer, cwd=pooler.dir)
        said = b""
        while b"process up" not in said:
            assert select.select([reader], [], [], 20)[0], said
            said += os.read(reader, 65536)
        for _ in range(1000):
            with socket.create_connection((pooler.host, pooler.port), timeout=10) as s:
                s.sendall(wire.startup({"user": "u" * 300, "database": "nowhere"}))
                assert s.recv(1) == b"E"
        assert is_served(pooler)
        while b"log lines were lost" not in said:
            assert select.select([reader], [], [], 10)[0], said[-1000:]
            said += os.read(reader, 65536)
            is_served(pooler)
        assert re.search(r"(?m)^\d.* WARNING \d+ log lines were lost, because nobody read them$", said.decode())
    finally:
        os.close(reader)
        os.close(writer)


def test_quiet_and_stderr(pg15, make_pooler):
    """Without a log file the log goes to stderr; -q keeps stderr silent."""
    pooler = make_pooler(pg15, settings={"logfile": None})
    eventually(lambda: "process up" in pooler.stderr())
    quiet = make_pooler(pg15, arguments=("-q",))
    quiet.wait_log("process up")
    assert quiet.stderr() == ""


def test_verbose(pg15, make_pooler):
    pooler = make_pooler(pg15, arguments=("-v",))
    with pooler.connect() as c:
        c.value("select 1")
    pooler.wait_log(" DEBUG ")


def test_secrets_are_not_logged(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"auth_type": "plain"}, arguments=("-v", "-v"))
    with pooler.connect(user="alice", password="alice-pw") as c:
        c.value("select 1")
    with pytest.raises(wire.ServerError):
        pooler.connect(user="bob", password="guessed-secret")
    for secret in ("alice-pw", "bob-pw", "guessed-secret"):
        assert secret not in pooler.log() + pooler.stderr()


# ---- configuration


@pytest.mark.parametrize(
    "change",
    (
        {"pool_mode": "nonsense"},
        {"default_pool_size": "many"},
        {"no_such_setting": "1"},
        {"log_connections": "yes"},
        {"query_timeout": "-1"},
        {"auth_type": "nonsense"},
    ),
)
def test_bad_configuration(pg15, make_pooler, change):
    """At the start: refused, with the setting named. At a reload: refused, the old one kept, the reason logged."""
    ((name, _),) = change.items()
    broken = make_pooler(pg15, start=False, settings=change)
    broken.spawn()
    assert broken.wait_exit(5) != 0
    assert name in broken.stderr() + broken.log()

    pooler = make_pooler(pg15)
    good = dict(pooler.settings)
    with pooler.connect() as c:
        c.value("select 1")
        pooler.settings.update(change)
        pooler.settings["default_pool_size"] = change.get("default_pool_size", 3)
        offset = len(pooler.log())
        pooler.write_ini()
        pooler.signal(signal.SIGHUP)
        pooler.wait_log(f"(?i)error.*{name}|{name}.*(invalid|unknown|error)|stopping loading|{name}", after=offset)
        time.sleep(0.1)
        assert c.value("select 2") == "2"
        if kind() == "pgweir":
            # Nothing of a bad file is taken up.
            assert setting(pooler, "default_pool_size") == "20"
        # And a good one afterwards is.
        pooler.settings = {**good, "default_pool_size": 9}
        pooler.write_ini()
        pooler.signal(signal.SIGHUP)
        eventually(lambda: setting(pooler, "default_pool_size") == "9")


def test_bad_reload_by_the_console_says_why(pg15, make_pooler):
    pooler = make_pooler(pg15)
    pooler.settings["pool_mode"] = "nonsense"
    pooler.write_ini()
    with pooler.connect(database="pgbouncer") as c:
        messages = c.query("reload")
        assert wire.error_codes(messages), wire.tags(messages)
        assert setting(pooler, "pool_mode") == "transaction"


def test_reload_of_a_changed_database(pg15, make_pooler):
    """A database that now leads elsewhere: servers are closed when they are free, the next transaction goes to the new one."""
    server = f"host={pg15.host} port={pg15.port}"
    pooler = make_pooler(pg15, databases={"front": f"{server} dbname=shop"})
    with pooler.connect(database="front") as c, pooler.connect(database="front") as busy:
        assert c.value("select current_database()") == "shop"
        busy.query("begin")
        busy.value("select 1")
        pooler.databases["front"] = f"{server} dbname=warehouse"
        pooler.reload()
        assert busy.value("select current_database()") == "shop"
        busy.query("commit")
        for client in (c, busy):
            assert client.value("select current_database()") == "warehouse"
        eventually(lambda: backends(pg15, "datname = 'shop'") == 0)
    pooler.wait_log("closing because: close_needed")


def test_reload_of_an_unchanged_database_keeps_its_servers(pg15, make_pooler):
    pooler = make_pooler(pg15)
    with pooler.connect() as c:
        pid = backend_pid(c)
        pooler.reload()
        assert backend_pid(c) == pid


def test_reload_of_pool_size(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "query_wait_timeout": 20})
    with held_server(pooler), pooler.connect() as c:
        c.send(query("select 'served'"))
        assert c.quiet(0.2)
        pooler.settings["default_pool_size"] = 2
        pooler.reload()
        assert rows_of(c.read_ready(timeout=5)) == [("served",)]


def test_reload_that_removes_a_database(pg15, make_pooler):
    server = f"host={pg15.host} port={pg15.port}"
    pooler = make_pooler(pg15, databases={"one": f"{server} dbname=shop", "two": f"{server} dbname=warehouse"})
    with pooler.connect(database="two") as c:
        c.value("select 1")
        del pooler.databases["two"]
        pooler.reload()
        with pytest.raises(wire.ServerError):
            pooler.connect(database="two")
        with pooler.connect(database="one") as other:
            assert other.value("select 1") == "1"


def test_reload_that_needs_a_restart(pg15, make_pooler):
    """A changed listen_port or a file without pidfile, unix_socket_dir, auth_type keeps what runs."""
    pooler = make_pooler(pg15)
    port = pooler.port
    for key in ("pidfile", "unix_socket_dir"):
        pooler.settings.pop(key)
    pooler.settings["listen_port"] = port + 1
    pooler.write_ini()
    pooler.signal(signal.SIGHUP)
    pooler.wait_log("got SIGHUP")
    time.sleep(0.3)
    for host in (pooler.host, pooler.dir):
        with pooler.connect(host=host) as c:
            assert c.value("select 1") == "1"
    assert os.path.exists(pooler.pid_path)


def test_include_and_odd_spellings(pg15, make_pooler):
    """%include from the working directory, comments, blanks, duplicate keys, sections in any order, old aliases."""
    pooler = make_pooler(pg15, start=False)
    pooler.write_file(
        os.path.join(pooler.dir, "databases.ini"),
        f"; a comment\n[databases]\n  odd   =   host={pg15.host} port={pg15.port} dbname='shop' reserve_pool=1\n"
        f"other-name = host={pg15.host} port={pg15.port} dbname=warehouse\n",
    )
    with open(pooler.ini_path) as file:
        main = file.read()
    main = main.replace("[databases]", "").replace(f"* = {pooler.server()}", "")
    pooler.write_file(
        pooler.ini_path,
        "# another comment\n"
        + main
        + "\ndefault_pool_size = 1\ndefault_pool_size = 6\nunix_socket_mode = 0770\ntcp_keepidle = 0x10\n"
        + "\n%include databases.ini\n\n[users]\nalice = pool_mode=Session\n",
    )
    pooler.start()
    with pooler.connect(database="odd") as c:
        assert c.value("select current_database()") == "shop"
    with pooler.connect(database="other-name") as c:
        assert c.value("select current_database()") == "warehouse"
    assert setting(pooler, "default_pool_size") == "6" and setting(pooler, "tcp_keepidle") == "16"
    mode = os.stat(os.path.join(pooler.dir, f".s.PGSQL.{pooler.port}")).st_mode & 0o777
    assert mode == 0o770


@pgweir_only
def test_check(pg15, make_pooler):
    """`pgweir check FILE`: every problem with file and line and a suggestion, status not 0; nothing said of a good file."""
    pooler = make_pooler(pg15, start=False)
    result = run("check", pooler.ini_path)
    assert result.returncode == 0, result.stdout + result.stderr
    pooler.settings.update({"pool_mode": "transactoin", "defualt_pool_size": 5, "query_timeout": "ten"})
    pooler.databases["broken"] = "host="
    pooler.write_ini()
    result = run("check", pooler.ini_path)
    said = result.stdout + result.stderr
    assert result.returncode != 0
    with open(pooler.ini_path) as file:
        lines = file.read().splitlines()
    for word in ("pool_mode = transactoin", "defualt_pool_size", "query_timeout = ten", "broken"):
        number = next(i for i, line in enumerate(lines, 1) if line.startswith(word))
        assert f"{pooler.ini_path}:{number}" in said, (word, said)
    assert "default_pool_size" in said and "transaction" in said, "no suggestion"
    assert run("check", "/no/such/file").returncode != 0


@pgweir_only
def test_example_configuration_is_good():
    """The configuration that the repository shows passes its own check."""
    examples = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.join(CHECKOUT, "docs"))
        for name in names
        if name.endswith(".ini")
    ]
    for path in examples:
        result = run("check", path)
        assert result.returncode == 0, result.stdout + result.stderr


def test_start_is_quick(pg15, make_pooler):
    watch = Stopwatch()
    pooler = make_pooler(pg15)
    pooler.console("show version")
    assert watch.seconds < 3
    assert os.path.exists(pooler.log_path)


@contextlib.contextmanager
def given_sockets(folder: str):
    """A TCP and a Unix-domain socket as a service manager opens them, and what passes them on to a child as LISTEN_FDS."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        path = os.path.join(folder, "given")
        unix.bind(path)
        os.chmod(path, 0o777)
        unix.listen()
        given = [os.dup(s.fileno()) for s in (tcp, unix)]

        def pass_on():
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in given]
            [os.dup2(fd, 3 + i) for i, fd in enumerate(high)]

        yield tcp.getsockname()[1], path, pass_on
        assert os.path.exists(path), "its file is the service manager's"
        [os.close(fd) for fd in given]


ACTIVATED = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=2 exec "$0" "$@"']


def reach_both(port: int, path: str) -> None:
    with wire.Connection(host="127.0.0.1", port=port, user="postgres", database="postgres") as c:
        assert c.value("select 1") == "1"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(path)
        client.sendall(wire.startup({"user": "postgres", "database": "postgres"}))
        assert client.recv(1) == b"R"


@pytest.mark.parametrize("named", (False, True))
def test_socket_activation(pg15, make_pooler, named):
    """Listening sockets of a service manager (LISTEN_FDS) are used instead of listen_addr, and a Unix socket's file stays."""
    pooler = make_pooler(pg15, start=False, settings={} if named else {"listen_addr": None, "unix_socket_dir": None})
    with given_sockets(pooler.dir) as (port, path, pass_on):
        process = subprocess.Popen(
            pgthrow.as_server_user([*ACTIVATED, *program(), pooler.ini_path]),
            preexec_fn=pass_on,
            close_fds=False,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: "process up" in pooler.log(), what="the start")
            reach_both(port, path)
            ignored = [f"WARNING sockets passed from service manager, cf_{name} ignored" for name in ("listen_addr", "unix_socket_dir")]
            assert [line in pooler.log() for line in ignored] == [named, named]
        finally:
            process.send_signal(signal.SIGQUIT)
            assert process.wait(10) == 0


@pytest.mark.skipif(kind() != "pgweir", reason="the words are pgweir's")
@pytest.mark.parametrize("count", (1, 2, 9, 200))
def test_socket_activation_without_its_sockets(pg15, make_pooler, count):
    """LISTEN_FDS counts a descriptor that is closed: the error names it, and no file of the process's own is taken for it."""
    pooler = make_pooler(pg15, start=False)
    activated = ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS={count} exec "$0" "$@" 3</dev/null 3<&-']
    command = pgthrow.as_server_user([*activated, *program(), pooler.ini_path])
    result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1, result
    assert "descriptor 3 of LISTEN_FDS is not open" in result.stderr


@pytest.mark.skipif(kind() != "pgweir", reason="the words are pgweir's")
def test_socket_activation_with_something_else(pg15, make_pooler):
    """A descriptor that is open, but does not listen."""
    pooler = make_pooler(pg15, start=False)
    activated = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@" 3</dev/null']
    command = pgthrow.as_server_user([*activated, *program(), pooler.ini_path])
    result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1, result
    assert "descriptor 3 of LISTEN_FDS is no listening stream socket" in result.stderr


@pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this")
def test_socket_activation_and_take_overs(pg15, make_pooler):
    """The sockets of the service manager go from process to process, though no setting names them, and their files stay."""
    pooler = make_pooler(pg15, start=False, settings={"listen_addr": None})
    processes = []

    def start(*arguments, **named):
        command = pgthrow.as_server_user([*arguments[:-1], *program(), *arguments[-1], pooler.ini_path])
        before = pooler.log().count("process up")
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, **named))
        eventually(lambda: pooler.log().count("process up") > before, what=lambda: pooler.log()[-2000:])

    with given_sockets(pooler.dir) as (port, path, pass_on):
        try:
            start(*ACTIVATED, [], preexec_fn=pass_on, close_fds=False)
            with wire.Connection(host="127.0.0.1", port=port, user="postgres", database="postgres") as c:
                for _ in range(2):
                    start(["-R"])
                    assert processes[-2].wait(10) == 0
                    assert c.value("select 1") == "1"
                    reach_both(port, path)
        finally:
            processes[-1].send_signal(signal.SIGQUIT)
            assert processes[-1].wait(10) == 0


def test_unix_socket_only(pg15, make_pooler):
    """An empty listen_addr: the Unix-domain socket alone."""
    pooler = make_pooler(pg15, settings={"listen_addr": None})
    with pooler.connect() as c:
        assert c.value("select 1") == "1"
    assert not connectable(pooler)

