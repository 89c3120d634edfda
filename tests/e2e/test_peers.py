"""Several processes behind one port: a cancel request that arrives at the wrong one finds the right one."""

import contextlib
import os
import signal
import socket
import threading
import time

import pytest

from harness import wire
from harness.one_port import start_behind_one_port
from harness.pooler import kind
from harness.waiting import Stopwatch, eventually
from harness.wire import error_codes, query

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are chosen by each test")

# A group of processes: what each of them is.
GROUPS = {
    "pgweir": ("pgweir", "pgweir"),
    "pgweir-pgbouncer": ("pgweir", "pgbouncer"),
    "pgbouncer-pgweir": ("pgbouncer", "pgweir"),
}


def link(*poolers, by_unix_socket: bool = False):
    """Makes poolers peers of each other, and starts them."""
    for number, pooler in enumerate(poolers, 1):
        pooler.settings["peer_id"] = number
        pooler.peers = {
            i: f"host={other.dir if by_unix_socket else other.host} port={other.port}"
            for i, other in enumerate(poolers, 1)
            if other is not pooler
        }
        pooler.write_ini()
        pooler.start()


def sends_cancel(pooler, client) -> socket.socket:
    """Sends the client's CancelRequest to this pooler; the connection."""
    connection = wire.open_socket(pooler.host, pooler.port)
    connection.sendall(wire.cancel_request(client.process_id, client.secret_key))
    return connection


def cancelled_through(pooler, client) -> None:
    """A query of the client is cancelled by a request to this pooler, which closes the request's connection then."""
    watch = Stopwatch()
    client.send(query("select pg_sleep(20)"))
    time.sleep(0.3)
    with sends_cancel(pooler, client) as connection:
        assert connection.recv(1) == b""
    assert error_codes(client.read_ready()) == ["57014"]
    assert watch.seconds < 10
    assert client.value("select 1") == "1"


@pytest.mark.parametrize("group", GROUPS)
def test_a_cancel_request_finds_its_process(pg15, make_pooler, group):
    """Each process tells keys that the others understand, whatever they are."""
    first, second = (make_pooler(pg15, which=which, start=False) for which in GROUPS[group])
    link(first, second)
    for own, other in ((first, second), (second, first)):
        with own.connect() as client:
            cancelled_through(other, client)
            cancelled_through(own, client)


def test_behind_one_port(pg15, make_pooler):
    """Linux spreads connections over the processes; each cancel request arrives."""
    _, poolers = start_behind_one_port(make_pooler, pg15, ("pgweir", "pgweir", "pgbouncer"))
    processes = set()
    for _ in range(12):
        with poolers[0].connect() as client:
            processes.add(client.process_id >> 16 & 0xFF)
            cancelled_through(poolers[0], client)
    assert len(processes) > 1


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("told", ("SIGTERM", "SIGINT", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS"))
def test_a_process_that_waits_for_its_end_gets_its_cancel_requests(pg15, make_pooler, group, told):
    """In a rolling restart, by the Unix-domain socket. And whoever has no console open gets one there."""
    if GROUPS[group][0] == "pgbouncer" and told in ("SIGINT", "SHUTDOWN WAIT_FOR_SERVERS"):
        pytest.skip("PgBouncer opens no connection for a cancel request then")
    first, second = (make_pooler(pg15, which=which, start=False) for which in GROUPS[group])
    link(first, second, by_unix_socket=True)
    with first.connect() as client:
        client.send(query("select pg_sleep(20)"))
        first.wait_pool(sv_active=1)
        if told.startswith("SIG"):
            first.signal(getattr(signal, told))
        else:
            first.console(told)
        eventually(lambda: not is_open(first.host, first.port))
        with first.connect(host=first.dir, database="pgbouncer") as console:
            assert console.rows("show version")
        with pytest.raises(wire.ServerError, match="pooler is shutting down"):
            first.connect(host=first.dir)
        with sends_cancel(second, client) as connection:
            assert connection.recv(1) == b""
        assert error_codes(client.read_ready()) == ["57014"]
    assert first.wait_exit() == 0
    assert [name for name in os.listdir(first.dir) if name.startswith(".s.")] == []


def is_open(host: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        wire.open_socket(host, port).close()
        return True
    return False


@pytest.mark.parametrize("mode", ("prefer", "require", "verify-full"))
def test_by_tls(pg15, make_pooler, certificates, mode):
    """Peers are spoken to as servers are: server_tls_sslmode."""
    tls = {
        "client_tls_sslmode": "allow",
        "client_tls_cert_file": certificates.server.certificate,
        "client_tls_key_file": certificates.server.key,
        "server_tls_sslmode": mode,
        "server_tls_ca_file": certificates.ca,
        "verbose": 1,
    }
    databases = {"*": f"host={pg15.socket_dir} port={pg15.port}"}
    first, second = (make_pooler(pg15, settings=tls, databases=databases, start=False) for _ in range(2))
    link(first, second)
    with second.connect() as client:
        cancelled_through(first, client)


def test_a_peer_without_tls_is_told_nothing_where_tls_is_required(pg15, make_pooler):
    databases = {"*": f"host={pg15.socket_dir} port={pg15.port}"}
    first, second = (
        make_pooler(pg15, settings={"server_tls_sslmode": mode}, databases=databases, start=False)
        for mode in ("require", "disable")
    )
    link(first, second)
    with second.connect() as client:
        client.send(query("select pg_sleep(1.5)"))
        time.sleep(0.3)
        with sends_cancel(first, client) as connection:
            assert connection.recv(1) == b""
        assert error_codes(client.read_ready()) == []


@contextlib.contextmanager
def listener():
    """A socket that accepts and never answers; its port and what it has accepted."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], accepted
        server.shutdown(socket.SHUT_RDWR)
    for connection in accepted:
        connection.close()


def foreign_key(peer: int) -> bytes:
    """A CancelRequest for a client of this peer."""
    return wire.cancel_request(5 << 24 | peer << 16 | 7, b"\1\2\3\xff")


def test_peers_that_are_down_or_silent(pg15, make_pooler):
    """A flood for a peer that does not answer is bounded, and hinders nobody; a peer that is down ends the request."""
    with listener() as (silent, accepted), socket.create_server(("127.0.0.1", 0)) as bound:
        down = bound.getsockname()[1]
        bound.close()
        pooler = make_pooler(
            pg15,
            settings={"peer_id": 1, "cancel_wait_timeout": 3},
            peers={2: f"host=127.0.0.1 port={silent} pool_size=3", 3: f"host=localhost port={down}"},
        )
        waiting = [wire.open_socket(pooler.host, pooler.port) for _ in range(10)]
        for connection in waiting:
            connection.sendall(foreign_key(2))
        row = eventually(
            lambda: next((r for r in pooler.console("show peer_pools") if r["cl_waiting_cancel_req"] == "7"), None)
        )
        assert row == {
            "peer_id": "2",
            "cl_active_cancel_req": "3",
            "cl_waiting_cancel_req": "7",
            "sv_active_cancel": "3",
            "sv_login": "0",
        }
        # A connection is open before the listener has accepted it.
        eventually(lambda: len(accepted) == 3)
        with wire.open_socket(pooler.host, pooler.port) as connection:
            connection.sendall(foreign_key(3))
            assert connection.recv(1) == b""
        pooler.wait_log("cancel request to peer 3 failed")
        for connection in waiting:
            connection.settimeout(10)
            assert connection.recv(1) == b"", "cancel_wait_timeout"
            connection.close()
        with pooler.connect() as client:
            assert client.value("select 1") == "1"


def test_a_request_does_not_go_in_circles(pg15, make_pooler):
    """Two processes of which each takes the other for a third: the request ends after three hops."""
    first, second = (make_pooler(pg15, start=False) for _ in range(2))
    for number, (pooler, other) in enumerate(((first, second), (second, first)), 1):
        pooler.settings.update({"peer_id": number, "verbose": 1})
        pooler.peers = {3: f"host={other.host} port={other.port}"}
        pooler.write_ini()
        pooler.start()
    with wire.open_socket(first.host, first.port) as connection:
        connection.settimeout(10)
        connection.sendall(foreign_key(3))
        assert connection.recv(1) == b""
    for pooler in (first, second):
        assert [r["cl_active_cancel_req"] for r in pooler.console("show peer_pools")] == ["0"]


def test_reload_changes_peers(pg15, make_pooler):
    first, second = (make_pooler(pg15, start=False) for _ in range(2))
    link(first, second)
    with second.connect() as client:
        cancelled_through(first, client)
        first.peers = {9: "host=10.0.0.9"}
        first.reload()
        assert first.console("show peers") == [
            {"peer_id": "9", "host": "10.0.0.9", "port": "6432", "pool_size": "20"}
        ]
        client.send(query("select pg_sleep(1.5)"))
        time.sleep(0.3)
        with sends_cancel(first, client) as connection:
            assert connection.recv(1) == b""
        assert error_codes(client.read_ready()) == [], "the process is no peer any more"
        first.peers = {2: f"host={second.host} port={second.port}"}
        first.reload()
        cancelled_through(first, client)


def test_console_as_pgbouncer(pg15, make_pooler):
    """SHOW PEERS and SHOW PEER_POOLS have PgBouncer's columns, and the same rows."""
    answers = []
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(
            pg15,
            which=which,
            settings={"peer_id": 1},
            peers={1: "host=/tmp/a", 2: "host=127.0.0.1 port=1", 7: "host=::1 pool_size=5"},
        )
        with wire.open_socket(pooler.host, pooler.port) as connection:
            connection.sendall(foreign_key(2))
            eventually(lambda: pooler.console("show peer_pools"))
        answers.append([pooler.console(f"show {table}") for table in ("peers", "peer_pools")])
        lists = {row["list"]: row["items"] for row in pooler.console("show lists")}
        assert (lists["peers"], lists["peer_pools"]) == ("3", "1")
    (peers, pools), (our_peers, our_pools) = answers
    assert our_peers == peers
    assert [list(row) for row in our_pools] == [list(row) for row in pools]
    assert [row["peer_id"] for row in our_pools] == [row["peer_id"] for row in pools]
