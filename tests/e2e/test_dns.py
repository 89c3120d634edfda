"""Names of servers: lifetimes, several addresses, zones, and a name server that does not answer."""

import os
import socket
import time

import pytest

from harness import wire
from harness.nameserver import NameServer
from harness.pooler import kind
from harness.silent import DeafHost
from harness.waiting import Stopwatch, eventually
from harness.wire import error_codes

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

NAME, ZONE = "db.pool.test", "pool.test"


@pytest.fixture
def names():
    """A name server of this test's own."""
    # Test processes run side by side: each has an address of its own.
    address = f"127.0.53.{1 + os.getpid() % 250}"
    server = NameServer({NAME: ["127.0.0.1"]}, ZONE, address)
    try:
        with server:
            yield server
    except PermissionError:
        pytest.skip("only root may bind port 53")


def through(make_pooler, cluster, names, **settings):
    pooler = make_pooler(
        start=False,
        databases={"shop": f"host={NAME} port={cluster.port} dbname=postgres", "none": "host=nobody.pool.test"},
        settings={"default_pool_size": 4, "dns_nxdomain_ttl": 2, **settings},
    )
    path = os.path.join(pooler.dir, "resolv.conf")
    pooler.write_file(path, f"nameserver {names.address}\noptions timeout:1 attempts:1\n")
    pooler.settings["resolv_conf"] = path
    pooler.write_ini()
    return pooler.start()


def server_addresses(pooler) -> set[str]:
    return {row["addr"] for row in pooler.console("show servers") if row["database"] == "shop"}


def test_a_name_is_looked_up_by_the_given_name_server(pg15, make_pooler, names):
    pooler = through(make_pooler, pg15, names)
    with pooler.connect(database="shop") as client:
        assert client.value("select 1") == "1"
    (row,) = [row for row in pooler.console("show dns_hosts") if row["hostname"] == NAME]
    assert row["addrs"] == "127.0.0.1" and 0 <= int(row["ttl"]) <= 15
    lists = {row["list"]: row["items"] for row in pooler.console("show lists")}
    assert lists["dns_names"] == "1" and lists["dns_zones"] == "1" and lists["dns_queries"] == "0"


def test_unknown_names_fail_at_once_and_are_remembered(pg15, make_pooler, names):
    """dns_nxdomain_ttl, with PgBouncer's reason in the log."""
    pooler = through(make_pooler, pg15, names, server_login_retry=1)
    for _ in range(3):
        with pooler.connect(database="none", login=False) as client:
            client.send(wire.startup({"user": "postgres", "database": "none"}))
            assert "server DNS lookup failed" in str(wire.first_error(client.read_to_end()).fields)
    assert "server DNS lookup failed" in pooler.log()
    assert names.count("nobody.pool.test") <= 2, "one lookup in two seconds"


@pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer ignores the lifetime of records")
def test_a_name_is_asked_for_again_when_its_records_expire(pg15, make_pooler, names):
    """A new address is used within the lifetime of the record, and servers at the old one are replaced when free."""
    pooler = through(make_pooler, pg15, names)
    busy, short, late = (pooler.connect(database="shop") for _ in range(3))
    for client in (busy, short):
        client.query("begin")
        client.query("select 1")
    names.hosts[NAME] = ["127.0.0.9"]
    time.sleep(1.2)
    # A new connection is wanted: the name is asked for, and nothing listens at the new address.
    late.send(wire.query("select 1"))
    eventually(lambda: "connect to 127.0.0.9" in pooler.log(), timeout=10)
    assert busy.value("select 1") == "1" and "obsolete connection" not in pooler.log(), "transactions keep their servers"
    short.query("commit")
    eventually(lambda: "obsolete connection" in pooler.log(), timeout=10, what="the free server is closed")
    names.hosts[NAME] = ["127.0.0.1"]
    assert error_codes(late.read_ready(timeout=20)) == []
    for client in (busy, short, late):
        client.close()


def test_several_addresses(pg15, make_pooler, names):
    """All are tried: one that is dead costs nothing but the attempt."""
    names.hosts[NAME] = ["127.0.0.9", "127.0.0.1"]
    pooler = through(make_pooler, pg15, names)
    clients = [pooler.connect(database="shop") for _ in range(4)]
    for client in clients:
        client.query("begin")
        assert client.value("select 1") == "1"
    assert server_addresses(pooler) == {"127.0.0.1"}
    for client in clients:
        client.close()


@pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer tries another address after server_connect_timeout")
def test_the_next_address_is_tried_beside_a_silent_one(pg15, make_pooler, names):
    """It was tried after server_connect_timeout, when the login had failed."""
    with DeafHost("127.0.0.8", pg15.port):
        names.hosts[NAME] = ["127.0.0.8", "127.0.0.1"]
        pooler = through(make_pooler, pg15, names, server_connect_timeout=5)
        with pooler.connect(database="shop", timeout=20) as client:
            assert client.value("select 1") == "1"
        assert "connect timeout" not in pooler.log()


def test_a_new_serial_of_the_zone(pg15, make_pooler, names):
    """dns_zone_check_period: names of a zone whose serial changes are looked up though their answers are still valid."""
    names.ttl = 3600
    pooler = through(make_pooler, pg15, names, dns_max_ttl=3600, dns_zone_check_period=1)
    with pooler.connect(database="shop") as client:
        client.query("select 1")

    def zone():
        return next((row for row in pooler.console("show dns_zones") if (row["zonename"], row["serial"]) != (ZONE, "0")), None)

    row = eventually(zone, timeout=10)
    assert (row["serial"], row["count"]) == ("1", "1")
    asked = names.count(NAME)
    names.hosts[NAME] = ["127.0.0.2"]
    names.serial = 2
    eventually(lambda: names.count(NAME) > asked, timeout=10, what="the name is looked up again")
    eventually(lambda: server_addresses(pooler) == set(), timeout=10, what="the server at the old address is closed")
    assert eventually(lambda: zone()["serial"] == "2" and zone())
    pooler.wait_log(f"LOG zone '{ZONE}' serial changed: old=1 new=2")


def test_a_name_server_that_does_not_answer_stops_nobody(pg15, make_pooler, names):
    """Other databases are served while a lookup hangs."""
    names.is_silent = True
    pooler = through(make_pooler, pg15, names)
    pooler.databases["plain"] = pooler_entry(pg15)
    pooler.reload()
    with pooler.connect(database="shop", login=False) as waiting:
        waiting.send(wire.startup({"user": "postgres", "database": "shop"}))
        eventually(lambda: names.asked)
        watch = Stopwatch()
        with pooler.connect(database="plain") as client:
            for _ in range(50):
                assert client.value("select 1") == "1"
        assert watch.seconds < 1


def pooler_entry(cluster) -> str:
    return f"host={cluster.host} port={cluster.port} dbname=postgres"


@pytest.mark.skipif(kind() != "pgweir", reason="the words are ours")
def test_a_resolv_conf_that_cannot_be_read(pg15, make_pooler):
    pooler = make_pooler(pg15, start=False, settings={"resolv_conf": "/nowhere/resolv.conf"})
    pooler.spawn()
    assert pooler.wait_exit() == 1
    assert "/nowhere/resolv.conf" in pooler.stderr()
    with pytest.raises(OSError):
        socket.create_connection((pooler.host, pooler.port), timeout=1)
