"""-R, and what depends on the network side of TLS connections afterwards; and processes that die in the midst of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import time

import pgthrow
import psycopg
import pytest
from test_take_over import gate, layout_of
from test_tls import cluster_with

from harness import wire
from harness.pooler import kind, program
from harness.waiting import eventually

pytestmark = [
    pytest.mark.beyond_pgbouncer,
    pytest.mark.skipif(kind() != "pgweir", reason="only pgweir does this"),
]


@pytest.fixture(scope="module")
def tls_pg15(certificates):
    cluster = cluster_with(15, certificates.server)
    yield cluster
    cluster.remove()


@pytest.fixture
def tls_pooler(tls_pg15, make_pooler):
    return make_pooler(tls_pg15, settings={"server_tls_sslmode": "require", "default_pool_size": 2, "server_lifetime": 3600})


# -- servers with TLS


@pytest.mark.parametrize("take_overs", [1, 2])
def test_a_cancel_reaches_a_tls_server_after_take_overs(tls_pooler, take_overs):
    with tls_pooler.connect() as victim:
        assert victim.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()") == "t"
        victim.send(wire.query("select pg_sleep(30)"))
        time.sleep(0.3)
        for _ in range(take_overs):
            tls_pooler.take_over()
        victim.cancel()
        assert wire.error_codes(victim.read_ready()) == ["57014"]
        assert victim.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()") == "t"


@pytest.mark.parametrize("take_overs", [0, 1, 2])
def test_a_tls_server_runs_nothing_behind_the_query_of_a_client_that_has_vanished(tls_pg15, tls_pooler, take_overs):
    """The connection to the server is reset before the query that runs is cancelled."""
    tls_pg15.psql("drop table if exists ran; create table ran (number int)")
    for number in range(3):
        with tls_pooler.connect() as victim:
            victim.value("select 1")
            for _ in range(take_overs if number == 0 else 0):
                tls_pooler.take_over()
            victim.send(wire.query("select pg_sleep(30)") + wire.query(f"insert into ran values ({number})"))
            time.sleep(0.3)
            victim.drop()
        sleeps = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'"
        eventually(lambda: tls_pg15.psql(sleeps).strip() == "0", what="the end of the query")
    time.sleep(0.3)
    assert tls_pg15.psql("select count(*) from ran").strip() == "0"


def test_tls_servers_are_closed_in_order_after_a_take_over(tls_pg15, tls_pooler):
    """They get their Terminate message: PostgreSQL logs no lost connection."""
    with tls_pooler.connect() as c:
        c.value("select 1")
        tls_pooler.take_over()
        c.value("select 1")
    with open(tls_pg15.log_path, encoding="utf-8") as file:
        file.seek(0, 2)
        tls_pooler.console("reconnect")
        ours = "select count(*) from pg_stat_activity where backend_type = 'client backend' and client_addr is not null"
        eventually(lambda: tls_pg15.psql(ours).strip() == "0", what="the end of the servers")
        assert "reset by peer" not in file.read()


# -- an old process that goes on, and then dies


def received(new: socket.socket) -> tuple[list[bytes], int]:
    """The kinds of all messages up to End, and the descriptor that came with that one."""
    kinds, waiting, descriptors = [], b"", []
    while not kinds or kinds[-1] != b"E":
        while len(waiting) < 9 or len(waiting) < 9 + int.from_bytes(waiting[1:9], "little"):
            more, came, _, _ = socket.recv_fds(new, 1 << 20, 253)
            assert more
            waiting += more
            descriptors += came
        kinds.append(waiting[:1])
        waiting = waiting[9 + int.from_bytes(waiting[1:9], "little") :]
    [os.close(descriptor) for descriptor in descriptors[:-1]]
    return kinds, descriptors[-1]


def test_the_new_process_can_tell_whether_the_old_one_has_gone_on(tls_pg15, make_pooler):
    """It may be slow. If the old process goes on meanwhile and then dies, what it has handed over is out of date: if the new
    process used it, clients would get servers with the transactions of others."""
    pooler = make_pooler(tls_pg15)
    hello = layout_of(pooler)
    with pooler.connect() as c, socket.socket(socket.AF_UNIX) as new:
        c.value("select 1")
        new.connect(gate(pooler))
        new.sendall(hello)
        new.settimeout(5)
        kinds, descriptor = received(new)
        assert kinds[0] == b"L" and b"S" in kinds
        with socket.socket(fileno=descriptor) as goes_on:
            goes_on.setblocking(False)
            with pytest.raises(BlockingIOError):
                goes_on.recv(1)
            pooler.wait_log("has not taken over")
            assert c.value("select 2") == "2"
            pooler.process.kill()
            pooler.process.wait()
            assert goes_on.recv(2) == b"\1"
            with contextlib.suppress(OSError):
                assert goes_on.recv(1) == b""
    pooler.start()
    with psycopg.connect(pooler.dsn()) as c:
        assert c.execute("select 3").fetchone() == (3,)


# -- what the new process must do before it is responsible


def test_a_new_process_that_runs_out_of_descriptors_loses_no_connection(tls_pg15, make_pooler):
    """-d opens /dev/null, too. Whatever fails must fail before everything is taken over."""
    pooler = make_pooler(tls_pg15)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(pooler.connect()) for _ in range(20)]
        clients[0].value("select 1")
        old = pooler.process
        open_there = len(os.listdir(f"/proc/{old.pid}/fd"))
        for limit in range(open_there - 4, open_there + 20):
            offset = len(pooler.log())
            command = [f"--nofile={limit}:{limit}", *program(), "-d", "-R", pooler.ini_path]
            new = subprocess.run(
                pgthrow.as_server_user(["prlimit", *command]), stdin=subprocess.DEVNULL, capture_output=True, timeout=30
            )
            log = pooler.log()[offset:]
            if "all connections taken over" in log:
                break
            assert new.returncode != 0
            assert clients[0].value("select 2") == "2"
        assert "FATAL" not in log and new.returncode == 0
        pid = int(re.search(r"\[(\d+)\] LOG process up", log)[1])
        try:
            for c in clients:
                assert c.value("select 3") == "3"
        finally:
            os.kill(pid, signal.SIGQUIT)
        assert pooler.wait_exit(10) == 0


def test_the_unix_socket_gets_the_mode_of_the_new_process(tls_pg15, make_pooler):
    pooler = make_pooler(tls_pg15, settings={"unix_socket_mode": "0777"})
    path = f"{pooler.dir}/.s.PGSQL.{pooler.port}"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o777
    pooler.settings["unix_socket_mode"] = "0700"
    pooler.write_ini()
    pooler.take_over()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
