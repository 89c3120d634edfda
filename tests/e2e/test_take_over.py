"""-R: another process takes the place of a running one, with every connection, at any moment, and no client notices.

The old process goes on as if nobody had asked, whatever becomes of the new one before it has let go.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pgthrow
import psycopg
import pytest
from harness import wire
from harness.pooler import kind, program
from harness.waiting import eventually

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this"),
]

# Take-overs while pgbench runs.
TAKE_OVERS = 6


@pytest.fixture
def pooler(pg15, make_pooler):
    return make_pooler(pg15, settings={"default_pool_size": 4, "server_lifetime": 3600})


def open_files(process: subprocess.Popen) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def pass_message_on(old: socket.socket, new: socket.socket) -> None:
    """One message from the old process to the new one, with its descriptors: they come with its first byte."""
    head, descriptors, _, _ = socket.recv_fds(old, 9, 253)
    head += old.recv(9 - len(head), socket.MSG_WAITALL) if len(head) < 9 else b""
    sent = socket.send_fds(new, [head], descriptors)
    new.sendall(head[sent:])
    for descriptor in descriptors:
        os.close(descriptor)
    left = struct.unpack("<Q", head[1:])[0]
    while left > 0:
        part = old.recv(min(left, 1 << 16))
        assert part, "the old process has gone"
        new.sendall(part)
        left -= len(part)


@contextlib.contextmanager
def held_take_over(pooler):
    """A take-over that stands still when the old process has said Go and the new one has not heard it. The value lets it go
    on. Messages between the two go through a gate of the test's own."""
    folder = os.path.join(pooler.dir, "between")
    os.mkdir(folder)
    pgthrow.give_to_server_user(folder)
    path = os.path.join(folder, f".s.PGSQL.{pooler.port}.take-over")
    usual = pooler.ini_path
    with socket.socket(socket.AF_UNIX) as ear, socket.socket(socket.AF_UNIX) as old:
        ear.bind(path)
        pgthrow.give_to_server_user(path)
        ear.listen()
        ear.settimeout(20)
        pooler.ini_path = os.path.join(folder, "ini")
        with open(usual, encoding="utf-8") as file:
            text = file.read().replace(f"unix_socket_dir = {pooler.dir}", f"unix_socket_dir = {folder}")
        pooler.write_file(pooler.ini_path, text)
        first, arguments = pooler.process, pooler.arguments
        pooler.arguments = (*arguments, "-R")
        pooler.spawn()
        pooler.arguments = arguments
        new, _ = ear.accept()
        with new:
            old.connect(gate(pooler))
            answered = False
            while not answered:
                ready, _, _ = select.select([old, new], [], [], 20)
                assert ready, "neither process says anything"
                if old in ready:
                    pass_message_on(old, new)
                if new in ready:
                    said = new.recv(1 << 16)
                    assert said, pooler.log()[-4000:]
                    old.sendall(said)
                    answered = said[:1] == b"R"
            said = old.recv(9, socket.MSG_WAITALL)
            assert said[:1] == b"G"
            assert first.wait(10) == 0
            pooler.predecessors.append(first)
            yield lambda: new.sendall(said)
    pooler.ini_path = usual


# -- what goes on


def test_everything_goes_on(pg15, pooler):
    """Sessions at every point of the protocol survive three take-overs in a row."""
    with contextlib.ExitStack() as stack:
        client = lambda **named: stack.enter_context(pooler.connect(**named))  # noqa: E731
        idle = client()
        idle.value("select 1")
        idle.query("prepare p as select 42")
        idle.query("set application_name = 'kept'")
        temporary = client()
        temporary.query("create temp table t as select 7 as a")
        within = client()
        within.query("begin; create temp table w (a int) on commit drop; insert into w values (5)")
        deferred = client()
        deferred.query("begin")
        listener = client()
        listener.query("listen news")
        copying = client()
        copying.query("create temp table c (a int)")
        copying.send(wire.query("copy c from stdin"))
        copying.read_until("G")
        copying.send(wire.copy_data(b"1\n2"))
        half = client()
        message = wire.query("select 'in two pieces'")
        half.send(message[:9])
        console = pooler.connect(database="pgbouncer", user="postgres")
        stack.callback(console.close)
        console.query("show version")
        for _ in range(3):
            old = pooler.take_over()
            assert old.wait(5) == 0
        assert idle.value("execute p") == "42"
        assert idle.value("show application_name") == "kept"
        assert temporary.value("select a from t") == "7"
        assert within.value("select a from w") == "5"
        within.query("commit")
        assert deferred.value("select 8") == "8"
        deferred.query("rollback")
        copying.send(wire.copy_data(b"0\n"), wire.copy_done())
        copying.read_ready()
        assert copying.value("select sum(a) from c") == "21"
        half.send(message[9:])
        assert wire.rows_of(half.read_ready()) == [("in two pieces",)]
        pg15.psql("notify news, 'hello'")
        assert b"hello" in listener.read_until("A")[-1].body
        assert console.rows("show databases")


def test_a_long_query_and_its_cancel(pooler):
    """A query that runs over a take-over gets its rows, and one that is cancelled after a take-over is cancelled."""
    with pooler.connect() as sleeper, pooler.connect() as victim, pooler.connect() as waiting:
        sleeper.send(wire.query("select pg_sleep(1.5), 'slept'"))
        victim.send(wire.query("select pg_sleep(60)"))
        time.sleep(0.3)
        pooler.take_over()
        victim.cancel()
        assert wire.error_codes(victim.read_ready()) == ["57014"]
        assert wire.rows_of(sleeper.read_ready())[0][1] == "slept"
        assert waiting.value("select 1") == "1"


# Clients that a new process begins to watch only some turns after its first one.
IDLE_CLIENTS = 700


def test_a_cancel_that_comes_before_the_new_process_watches_its_client(pg15, make_pooler):
    """At the moment when neither process reads anything, clients send queries, and then cancel requests for them."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 20, "max_client_conn": 2000})
    with contextlib.ExitStack() as stack:
        victims = [stack.enter_context(pooler.connect()) for _ in range(8)]
        for _ in range(IDLE_CLIENTS):
            stack.enter_context(pooler.connect())
        with held_take_over(pooler) as go:
            for victim in victims:
                victim.send(wire.query("select pg_sleep(20)"))
            threads = [threading.Thread(target=victim.cancel) for victim in victims]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            go()
            codes = [wire.error_codes(victim.read_ready(timeout=30)) for victim in victims]
            for thread in threads:
                thread.join(5)
        assert codes == [["57014"]] * len(victims)
        assert all(victim.value("select 1") == "1" for victim in victims)


def test_clients_in_the_queue_get_their_server(pg15, make_pooler):
    """Clients that wait for a server keep their place."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1})
    with pooler.connect() as holder, pooler.connect() as first, pooler.connect() as second:
        holder.query("begin; select 1")
        first.send(wire.query("select 'first'"))
        time.sleep(0.1)
        second.send(wire.query("select 'second'"))
        time.sleep(0.1)
        pooler.take_over()
        holder.query("commit")
        assert wire.rows_of(first.read_ready()) == [("first",)]
        assert wire.rows_of(second.read_ready()) == [("second",)]


def test_output_that_a_client_has_not_read(pooler):
    """Output that waits for a slow client comes complete and in order."""
    with pooler.connect() as slow:
        slow.send(wire.query("select repeat(i::text, 200) from generate_series(1, 100000) i"))
        time.sleep(0.5)
        pooler.take_over()
        rows = wire.rows_of(slow.read_ready(timeout=60))
        assert [row[0] for row in rows] == [str(i) * 200 for i in range(1, 100001)]


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_pgbench_notices_nothing(pg15, pooler, protocol):
    """pgbench runs through repeated take-overs without an error."""
    pgbench = os.path.join(pg15.bin_dir, "pgbench")
    script = os.path.join(pooler.dir, "script.sql")
    pooler.write_file(script, "\\set a random(1, 1000)\nbegin;\nselect :a + 1;\nselect :a + 2;\ncommit;\nselect :a;\n")
    # It prepares while the other clients of its thread stand still: they may not keep the last server.
    clients = "4" if protocol == "prepared" else "12"
    bench = subprocess.Popen(
        [pgbench, "-n", "-c", clients, "-j", "2", "-T", "6", "-M", protocol, "-f", script]
        + ["-h", pooler.host, "-p", str(pooler.port), "-U", "postgres", "postgres"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    for _ in range(TAKE_OVERS):
        pooler.take_over()
        time.sleep(0.4)
    out, err = bench.communicate(timeout=60)
    assert bench.returncode == 0 and "aborted" not in err and "ERROR" not in err, err
    assert "number of failed transactions: 0" in out, out


def test_new_clients_wait_a_moment_and_get_in(pooler):
    """Logins all the time: none is refused while processes change."""
    stop, failures, logins = threading.Event(), [], [0]

    def log_in():
        while not stop.is_set():
            try:
                with pooler.connect() as c:
                    assert c.value("select 1") == "1"
                logins[0] += 1
            except Exception as e:  # noqa: BLE001
                failures.append(repr(e))

    threads = [threading.Thread(target=log_in) for _ in range(3)]
    [thread.start() for thread in threads]
    for _ in range(TAKE_OVERS):
        pooler.take_over()
        time.sleep(0.2)
    stop.set()
    [thread.join() for thread in threads]
    assert not failures and logins[0] > 10


def test_nothing_is_lost_or_left(pg15, pooler):
    """Counters go on, and descriptors and files are those of one process."""
    with pooler.connect() as c:
        for _ in range(10):
            c.value("select 1")
        before = pooler.console("show stats")
        files = open_files(pooler.process)
        for _ in range(5):
            assert pooler.take_over().wait(5) == 0
        total = lambda stats: sum(int(row["total_query_count"]) for row in stats if row["database"] == "postgres")  # noqa: E731
        assert total(pooler.console("show stats")) == total(before) >= 10
        assert abs(open_files(pooler.process) - files) <= 3
        with open(pooler.pid_path, encoding="utf-8") as file:
            assert int(file.read()) == pooler.process.pid
        assert c.value("select 2") == "2"
    pooler.signal(signal.SIGTERM)
    assert pooler.wait_exit() == 0
    left = [name for name in os.listdir(pooler.dir) if name.startswith(".s.") or name == "pid"]
    assert left == []


def test_the_new_process_uses_its_own_configuration(pg15, pooler):
    """The files are read again, as by RELOAD."""
    with pooler.connect() as c:
        c.value("select 1")
        pooler.console("set query_timeout = 77")
        pooler.settings["default_pool_size"] = 9
        pooler.write_ini()
        pooler.take_over()
        config = {row["key"]: row["value"] for row in pooler.console("show config")}
        assert (config["default_pool_size"], config["query_timeout"]) == ("9", "0")
        assert c.value("select 1") == "1"


def test_servers_that_nobody_has_followed_are_replaced(pg15, make_pooler):
    """Guards against the search_path, the table and the lock of another client: with `session_state = pgbouncer` the old
    process left them on the server."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "session_state": "pgbouncer"})
    with pooler.connect() as c:
        c.query("set search_path = theirs; create temp table t as select 1; select pg_advisory_lock(77)")
    with pooler.connect() as c:
        assert c.value("show search_path") == "theirs"
        pooler.settings["session_state"] = "full"
        pooler.write_ini()
        pooler.take_over()
        assert c.value("show search_path") == '"$user", public'
        assert c.value("select count(*) from pg_class where relname = 't'") == "0"
        assert c.value("select pg_try_advisory_lock(77)") == "t"


def test_a_pause_goes_on(pooler):
    """PAUSE outlives the process that it was given to."""
    with pooler.connect() as c:
        c.value("select 1")
        pooler.console("pause")
        c.send(wire.query("select 2"))
        pooler.take_over()
        assert c.quiet(0.3)
        pooler.console("resume")
        assert wire.rows_of(c.read_ready()) == [("2",)]


# -- TLS


@pytest.fixture
def tls_pooler(pg15, make_pooler, certificates):
    return make_pooler(
        pg15,
        settings={
            "client_tls_sslmode": "allow",
            "client_tls_cert_file": certificates.server.certificate,
            "client_tls_key_file": certificates.server.key,
            "client_tls_ca_file": certificates.ca,
            "default_pool_size": 3,
        },
    )


def test_tls_clients_go_on(tls_pooler):
    """The old process carries their bytes, through two take-overs, and ends when they have left."""
    pooler = tls_pooler
    with psycopg.connect(pooler.dsn(sslmode="require"), autocommit=True) as c:
        c.execute("create temp table t as select 9 as a")
        first = pooler.take_over()
        assert c.execute("select a from t").fetchone() == (9,)
        second = pooler.take_over()
        assert second.wait(5) == 0, "it has no TLS connection of its own"
        rows = c.execute("select repeat('x', 1000) from generate_series(1, 20000)").fetchall()
        assert len(rows) == 20000
        with c.cursor() as cursor:
            cursor.execute("create temp table big (a text)")
            with cursor.copy("copy big from stdin") as copy:
                for _ in range(2000):
                    copy.write("y" * 2000 + "\n")
        assert c.execute("select count(*), sum(length(a)) from big").fetchone() == (2000, 4_000_000)
        tls = [row["tls"] for row in pooler.console("show clients") if row["database"] == "postgres"]
        assert len(tls) == 1 and tls[0].startswith("TLSv1.3")
        assert first.poll() is None
        with psycopg.connect(pooler.dsn(sslmode="require")) as new:
            assert new.execute("select 1").fetchone() == (1,)
    assert first.wait(10) == 0


def test_a_tls_client_that_vanishes_ends_the_old_process(tls_pooler):
    pooler = tls_pooler
    c = psycopg.connect(pooler.dsn(sslmode="require"))
    c.execute("select 1")
    old = pooler.take_over()
    descriptor = c.fileno()
    sock = socket.socket(fileno=os.dup(descriptor))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    assert old.wait(10) == 0
    eventually(
        lambda: not [row for row in pooler.console("show clients") if row["database"] == "postgres"],
        what="the client to be gone",
    )


def unread_tls_client(pooler) -> wire.Connection:
    """A client by TLS that asks for many rows and reads none."""
    c = pooler.connect(login=False)
    c.socket.sendall(struct.pack(">ii", 8, 80877103))
    assert c.socket.recv(1) == b"S"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    c.socket = context.wrap_socket(c.socket)
    c.login()
    c.send(wire.query("select repeat('x', 1000) from generate_series(1, 100000)"))
    eventually(lambda: int(pooler.pool()["sv_active"]) == 1, what="the query to run")
    time.sleep(0.3)
    return c


@pytest.mark.parametrize("told", (None, signal.SIGTERM, signal.SIGINT))
def test_a_tls_client_that_does_not_read_ends_the_old_process(tls_pooler, told):
    """The new process has closed it, but the old one cannot send what is left."""
    pooler = tls_pooler
    c = unread_tls_client(pooler)
    old = pooler.take_over()
    if told:
        old.send_signal(told)
    (row,) = [row for row in pooler.console("show clients") if row["database"] == "postgres"]
    assert old.poll() is None, "the client is still served"
    pooler.console(f"kill_client {row['id']}")
    # Both processes wait some seconds for the client, first the new one and then the old one.
    assert old.wait(20) == 0
    c.socket.close()


def test_a_silent_handshake_delays_nobody_for_long(tls_pooler):
    """A client that begins TLS and says nothing keeps a take-over waiting for a second, not for ever."""
    pooler = tls_pooler
    with socket.create_connection((pooler.host, pooler.port)) as silent, pooler.connect() as c:
        silent.sendall(struct.pack(">ii", 8, 80877103))
        assert silent.recv(1) == b"S"
        pooler.take_over()
        assert c.value("select 1") == "1"
        assert silent.recv(1) == b""


def test_cancels_that_hang_do_not_prevent_a_take_over(pg15, make_pooler):
    """Anybody can send a cancel request for a peer; here the peer is silent, and there is always one on its way."""
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        pooler = make_pooler(pg15, settings={"peer_id": 1}, peers={2: f"host=127.0.0.1 port={port}"})
        packet = wire.cancel_request(5 << 24 | 2 << 16 | 7, b"\1\2\3\xff")
        with contextlib.ExitStack() as stack, pooler.connect() as c:
            for _ in range(2):
                sock = stack.enter_context(socket.create_connection((pooler.host, pooler.port)))
                sock.sendall(packet)
            # Until the peer has the connection, which it never reads.
            stack.enter_context(peer.accept()[0])
            pooler.take_over()
            assert "cancel request to peer 2 failed: another process takes over" in pooler.log()
            assert c.value("select 1") == "1"


# -- what goes wrong


def gate(pooler) -> str:
    return os.path.join(pooler.dir, f".s.PGSQL.{pooler.port}.take-over")


def at_work(pooler, c) -> None:
    assert c.value("select 1") == "1"
    with pooler.connect() as other:
        assert other.value("select 2") == "2"
    assert pooler.running


@pytest.mark.parametrize(
    "said", [b"", b"pg", b"GET / HTTP/1.1\r\n\r\n", b"pgweir-R", b"\0" * 64, b"pgweir-R" + b"\xff" * 8, os.urandom(4096)]
)
def test_rubbish_at_the_gate(pooler, said):
    """Whoever says rubbish, or nothing, or vanishes, changes nothing."""
    with pooler.connect() as c:
        c.query("begin; select 1")
        for waits in (0, 1.2):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(gate(pooler))
                with contextlib.suppress(OSError):
                    stranger.sendall(said)
                time.sleep(waits)
        time.sleep(0.1)
        at_work(pooler, c)
        c.query("commit")
        pooler.take_over()
        at_work(pooler, c)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_may_not_take_over(pooler):
    """Neither by the file's mode, nor if that is opened."""
    attempt = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(len(s.recv(100)))"
    stranger = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3", "-c", attempt, gate(pooler)]
    assert "PermissionError" in subprocess.run(stranger, capture_output=True, text=True).stderr
    os.chmod(gate(pooler), 0o777)
    assert subprocess.run(stranger, capture_output=True, text=True).stdout == "0\n"
    pooler.wait_log("refused to be taken over")
    with pooler.connect() as c:
        at_work(pooler, c)


def layout_of(pooler) -> bytes:
    """What a new process of the same version says first: overheard at a gate of our own."""
    folder = os.path.join(pooler.dir, "overheard")
    os.mkdir(folder)
    pgthrow.give_to_server_user(folder)
    path = os.path.join(folder, f".s.PGSQL.{pooler.port}.take-over")
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(path)
        pgthrow.give_to_server_user(path)
        ear.listen()
        ini = os.path.join(folder, "ini")
        with open(pooler.ini_path, encoding="utf-8") as file:
            pooler.write_file(ini, file.read().replace(f"unix_socket_dir = {pooler.dir}", f"unix_socket_dir = {folder}"))
        process = subprocess.Popen(
            pgthrow.as_server_user([*program(), "-R", ini]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        ear.settimeout(10)
        heard, _ = ear.accept()
        said = heard.recv(100)
        process.kill()
        process.wait()
        heard.close()
    assert said.startswith(b"pgweir-R") and len(said) == 16
    return said


@pytest.mark.parametrize("bytes_read", [0, 9, 100, 5000, None])
@pytest.mark.parametrize("answer", [b"", b"N", b"R" + b"\0" * 8, b"?" * 20], ids=["none", "half", "ready", "rubbish"])
def test_a_new_process_that_dies_at_any_byte(pooler, bytes_read, answer):
    """It asks, reads so many bytes of what it is told, answers, and vanishes. Before it has said that it is ready, and could
    say so, the old process goes on."""
    if answer == b"R" + b"\0" * 8 and bytes_read is None:
        pytest.skip("then it has taken over")
    hello = layout_of(pooler)
    with pooler.connect() as c:
        c.query("begin; create temp table t as select 3 as a")
        with socket.socket(socket.AF_UNIX) as dying:
            dying.connect(gate(pooler))
            dying.sendall(hello)
            dying.settimeout(1)
            with contextlib.suppress(OSError):
                left = bytes_read if bytes_read is not None else 1 << 20
                while left > 0:
                    count = len(dying.recv(left))
                    left -= count or left
                if answer != b"R" + b"\0" * 8:
                    dying.sendall(answer)
        pooler.wait_log("has not taken over|does not take over")
        assert c.value("select a from t") == "3"
        c.query("rollback")
        at_work(pooler, c)
        pooler.take_over()
        at_work(pooler, c)


@contextlib.contextmanager
def waiting_take_over(pg15, make_pooler):
    """A new process that waits some seconds: the old one has a cancel request on its way to a silent peer."""
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        pooler = make_pooler(pg15, settings={"peer_id": 1}, peers={2: f"host=127.0.0.1 port={port}"})
        with pooler.connect() as c, socket.create_connection((pooler.host, pooler.port)) as sock:
            c.query("begin; select 1")
            sock.sendall(wire.cancel_request(5 << 24 | 2 << 16 | 7, b"\1\2\3\xff"))
            with peer.accept()[0]:
                new = start_second(pooler)
                # It catches signals before it asks.
                eventually(lambda: is_asked(pooler), what="the request to take over")
                yield pooler, c, new


def start_second(pooler) -> subprocess.Popen:
    command = pgthrow.as_server_user([*program(), "-R", pooler.ini_path], die_with_parent="KILL")
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=pooler.dir)


def is_asked(pooler) -> bool:
    """Whether a process has connected to the gate: the kernel lists that connection, too."""
    with open("/proc/net/unix", encoding="ascii") as file:
        return sum(line.rstrip().endswith(gate(pooler)) for line in file) > 1


@pytest.mark.parametrize("told", (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))
def test_a_new_process_that_is_told_to_end_takes_nothing(pg15, make_pooler, told):
    """Guards against a take-over, and then a shutdown with all connections."""
    with waiting_take_over(pg15, make_pooler) as (pooler, c, new):
        new.send_signal(told)
        _, said = new.communicate(timeout=20)
        assert new.returncode == 1 and "interrupted by a signal" in said
        pooler.wait_log("has not taken over")
        assert c.value("select 2") == "2"
        at_work(pooler, pooler.connect())


@pytest.mark.parametrize("told", (signal.SIGHUP, signal.SIGUSR2))
def test_other_signals_do_not_keep_a_new_process_from_taking_over(pg15, make_pooler, told):
    """Log rotation sends SIGHUP to whatever has the name."""
    with waiting_take_over(pg15, make_pooler) as (pooler, c, new):
        new.send_signal(told)
        assert pooler.wait_exit(20) == 0, new.stderr.read()
        assert c.value("select 2") == "2"
        new.send_signal(signal.SIGQUIT)
        _, said = new.communicate(timeout=20)
        assert new.returncode == 0, said


def without_its_users(pooler) -> None:
    os.remove(pooler.userlist_path)


def with_an_emptied_list_of_users(pooler) -> None:
    pooler.write_file(pooler.userlist_path, "")


def without_lines(pooler, *beginnings: str) -> None:
    with open(pooler.ini_path, encoding="utf-8") as file:
        pooler.write_file(pooler.ini_path, "".join(line for line in file if not line.startswith(beginnings)))


def without_a_list_of_users(pooler) -> None:
    without_lines(pooler, "auth_file")


def without_administrators(pooler) -> None:
    without_lines(pooler, "admin_users")


def without_databases(pooler) -> None:
    without_lines(pooler, "*", '"')


def without_a_place_for_its_pid(pooler) -> None:
    pooler.write_file(pooler.ini_path, open(pooler.ini_path, encoding="utf-8").read().replace(pooler.pid_path, "/no/such/pid"))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (without_its_users, "error: could not open auth_file"),
        (with_an_emptied_list_of_users, "error: auth_file names no user, but the old process has 4"),
        (without_a_list_of_users, "error: auth_file is not set, so that there is no user, but the old process has 4"),
        (without_administrators, 'error: setting "admin_users" is gone, which the old process has'),
        (without_databases, "error: the file has no database, but the old process has "),
        (without_a_place_for_its_pid, "could not open pidfile '/no/such/pid'"),
    ],
)
def test_what_the_new_process_lacks_is_found_before_it_takes_over(pooler, harm, said):
    """A RELOAD without the users is refused, too: nobody could log in."""
    with pooler.connect() as c:
        c.query("begin; select 1")
        harm(pooler)
        second = subprocess.run(
            pgthrow.as_server_user([*program(), "-R", pooler.ini_path]), capture_output=True, text=True, timeout=20
        )
        assert second.returncode == 1 and said in second.stderr
        at_work(pooler, c)
        with open(pooler.pid_path, encoding="utf-8") as file:
            assert int(file.read()) == pooler.process.pid
        c.query("commit")


def test_a_pooler_that_never_had_users_is_taken_over(pg15, make_pooler):
    """An empty auth_file is no reason to refuse, if it was empty before."""
    pooler = make_pooler(pg15, userlist={}, settings={"auth_type": "any"}, databases={"*": f"host={pg15.host} port={pg15.port} user=postgres"})
    with pooler.connect() as c:
        c.query("begin; select 1")
        pooler.take_over()
        assert c.value("select 2") == "2"


def test_two_that_take_over_at_a_time(pg15, make_pooler):
    """The second one is told what is the matter."""
    with waiting_take_over(pg15, make_pooler) as (pooler, c, new):
        second = start_second(pooler)
        _, said = second.communicate(timeout=20)
        assert second.returncode == 1 and "another process is taking over already" in said
        assert pooler.wait_exit(20) == 0
        assert c.value("select 2") == "2"
        new.send_signal(signal.SIGQUIT)
        new.communicate(timeout=20)
        assert new.returncode == 0


def test_another_version_takes_the_listening_sockets_alone(pooler):
    """The old process serves its clients until they end; whoever comes meanwhile belongs to the new one."""
    said = bytearray(layout_of(pooler))
    said[-1] ^= 1
    with pooler.connect() as c:
        c.query("begin; select 1")
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(gate(pooler))
            other.sendall(said)
            message, descriptors, _, _ = socket.recv_fds(other, 9, 20)
            assert message[:1] == b"L" and len(descriptors) == 3
            length = struct.unpack("<Q", message[1:])[0]
            lines = other.recv(length, socket.MSG_WAITALL).decode().splitlines()
            assert lines == [f"tcp {pooler.host}:{pooler.port}", f"unix {pooler.port} {pooler.dir}/.s.PGSQL.{pooler.port}", "gate"]
            assert other.recv(9, socket.MSG_WAITALL) == b"E" + b"\0" * 8
            other.sendall(b"r" + b"\0" * 8)
            assert other.recv(9, socket.MSG_WAITALL) == b"G" + b"\0" * 8
        listener = socket.socket(fileno=descriptors[0])
        listener.setblocking(True)
        client = socket.create_connection((pooler.host, pooler.port))
        client.sendall(b"x")
        listener.settimeout(5)
        accepted, _ = listener.accept()
        [s.close() for s in (accepted, client, listener)]
        [os.close(descriptor) for descriptor in descriptors[1:]]
        assert c.value("select 5") == "5"
        c.query("commit")
    assert pooler.wait_exit(60) == 0
    assert os.path.exists(gate(pooler)), "it is the other process's to remove"


def test_a_shutdown_under_way_is_not_taken_over(pooler):
    with pooler.connect() as c:
        c.query("begin; select 1")
        pooler.signal(signal.SIGTERM)
        pooler.wait_log("(?i)sigterm|shutdown|shut")
        second = subprocess.run(
            pgthrow.as_server_user([*program(), "-R", pooler.ini_path]), capture_output=True, text=True, timeout=20
        )
        assert second.returncode != 0 and "shutting down" in second.stderr
        c.query("commit")
    assert pooler.wait_exit() == 0


def test_without_an_old_process_it_starts_as_usual(pg15, make_pooler):
    pooler = make_pooler(pg15, arguments=("-R",))
    pooler.wait_log("old process not found, try to continue normally")
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


def test_an_old_process_that_has_died(pg15, pooler):
    """Its socket files are there, but nobody listens: the new process starts with nothing."""
    pooler.process.kill()
    pooler.process.wait()
    pooler.arguments = ("-R",)
    pooler.start()
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


# -- who may be taken over from

STRANGER = 65534


@contextlib.contextmanager
def waiting_as_stranger(path: str):
    """A socket at which a process of another user waits; the kernel notes the user at listen()."""
    gate = socket.socket(socket.AF_UNIX)
    os.seteuid(STRANGER)
    try:
        gate.bind("\0" + path[1:] if path.startswith("@") else path)
        if not path.startswith("@"):
            os.chmod(path, 0o777)
        gate.listen(8)
    finally:
        os.seteuid(0)
    gate.settimeout(5)
    with gate:
        yield gate


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("abstract", [False, True], ids=["file", "abstract"])
def test_a_process_of_another_user_is_not_believed(pg15, make_pooler, abstract):
    """Every user can make sockets in a directory such as /tmp, and abstract ones. -R must neither take anything from such a
    process nor tell it anything, and a pooler that cannot wait at its own place says what to do."""
    pooler = make_pooler(pg15, start=False, arguments=("-R",))
    shared = os.path.join(pooler.dir, "shared")
    os.mkdir(shared)
    os.chmod(shared, 0o1777)
    pooler.settings["unix_socket_dir"] = f"@{shared}" if abstract else shared
    pooler.write_ini()
    path = f"{pooler.settings['unix_socket_dir']}/.s.PGSQL.{pooler.port}.take-over"
    with waiting_as_stranger(path) as gate:
        pooler.spawn()
        assert pooler.wait_exit(10) == 1
        assert f"could not take over from {path}: it belongs to system user {STRANGER}" in pooler.stderr()
        assert gate.accept()[0].recv(100) == b"", "nothing was said to it"
        pooler.arguments = ()
        pooler.start()
        pooler.wait_log(f"{STRANGER}; remove it, .* no process can take over from this one")
        with pooler.connect() as c:
            assert c.value("select 1") == "1"
