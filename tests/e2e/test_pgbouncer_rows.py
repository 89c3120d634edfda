"""The rows that the console of a real PgBouncer 1.26 and that of pgweir show of the same clients, servers and host names.

Where pgweir differs, docs/migrating-from-pgbouncer.md says so.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import threading
import time

import pgthrow
import pytest

from conftest import INITIAL_SQL, VERSIONS
from harness import ports, wire
from harness.pooler import PASSWORDS, Pooler, as_dicts, kind
from harness.waiting import eventually
from test_pgbouncer_same import NAME, NOBODY, ZONE, SoonDeaf, begin_login, named, names, pair, text_of_login  # noqa: F401

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

BUFFERS = ("recv_pos", "pkt_pos", "pkt_remain", "send_pos", "send_remain", "pkt_avail", "send_avail")
# What differs between any two poolers. test_addresses_and_names_of_connections looks at it.
OWN = ("port", "local_port", "connect_time", "request_time", "wait", "wait_us", "ptr", "link", "remote_pid", "id", *BUFFERS)


def show(pooler, what: str) -> list[dict]:
    with pooler.connect(database="pgbouncer", password=PASSWORDS["postgres"]) as c:
        return as_dicts(c.query(f"show {what}"))


def who(row: dict) -> str:
    """What tells clients and servers apart."""
    return f"{row['type']} {row['application_name'] or row['user'] + ' of ' + row['database']}"


def waits(row: dict) -> bool:
    return int(row["wait"]) * 1_000_000 + int(row["wait_us"]) > 0


def what_is_said(rows: list[dict]) -> list[dict]:
    """The rows without what differs between any two poolers, but with who is linked to whom."""
    names = {(row["type"], row["ptr"]): who(row) for row in rows}
    out = []
    for row in rows:
        kept = {key: value for key, value in row.items() if key not in OWN}
        kept["linked to"] = names.get(("S" if row["type"] == "C" else "C", row["link"]), row["link"] and "somebody")
        out.append(kept)
    return sorted(out, key=str)


class Scene:
    """A pooler with two places for servers, and with clients of every kind. Their application_name says what they do."""

    def __init__(self, stack, pooler, silent_port):
        self.pooler, self.stack = pooler, stack
        pooler.databases = {
            "*": pooler.server(),
            "socket": f"host={pooler.cluster.socket_dir} port={pooler.cluster.port} dbname=postgres",
            "silent": f"host=127.0.0.1 port={silent_port}",
        }
        pooler.settings["auth_type"] = "md5"
        pooler.write_ini()
        pooler.start()
        self.began = time.time()
        self.resting = self.client("rests", user="alice")
        self.by_socket = self.client("uses sockets", user="alice", database="socket", host=pooler.dir)
        for c in (self.resting, self.by_socket):
            c.query("select 1")
        self.holding, self.working, self.waiting = (self.client(does) for does in ("holds", "works", "waits"))
        self.holding.send(wire.parse("kept", "select 1"), wire.parse("kept too", "select 2"), wire.sync())
        self.holding.read_ready()
        self.holding.query("begin; select 1")
        self.working.send(wire.query("select pg_sleep(600)"))
        self.wait_for(cl_active="3", cl_waiting="0", sv_active="2")
        self.waiting.send(wire.query("select 1"))
        # One that has not sent its password, and one whose server does not answer.
        self.asked = self.begin_login("postgres")
        self.at_login = self.begin_login("silent")
        salt = self.at_login.read().body[4:8]
        self.at_login.send(wire.password_message(wire.md5_response("alice", PASSWORDS["alice"].encode(), salt)))
        self.wait_for(cl_active="2", cl_waiting="1", sv_active="2")
        eventually(lambda: any(row["database"] == "silent" for row in show(pooler, "servers")), what="a server that is silent")
        self.asked.read()

    def wait_for(self, **counts):
        """Waits for these counts of the pool with two places."""
        eventually(lambda: self.counts() == counts, what=lambda: f"{counts}, not {self.counts()}")

    def counts(self) -> dict:
        row = next(row for row in show(self.pooler, "pools") if (row["database"], row["user"]) == ("postgres", "postgres"))
        return {key: row[key] for key in ("cl_active", "cl_waiting", "sv_active")}

    def client(self, does: str, user: str = "postgres", **named):
        options = {"application_name": does}
        return self.stack.enter_context(self.pooler.connect(user=user, password=PASSWORDS[user], options=options, **named))

    def begin_login(self, database: str):
        c = self.stack.enter_context(self.pooler.connect(login=False))
        c.send(wire.startup({"user": "alice", "database": database}))
        return c

    def rows(self, what: str) -> list[dict]:
        return show(self.pooler, what)


@pytest.fixture(scope="module")
def scenes():
    """PgBouncer's and pgweir's, with a cluster of their own: its backends stay from test to test."""
    cluster = pgthrow.Cluster(version=VERSIONS[0], port=ports.take(), initial_sql=INITIAL_SQL).start()
    poolers = [Pooler(cluster, which=which, settings={"default_pool_size": 2}) for which in ("pgbouncer", "pgweir")]
    try:
        with contextlib.ExitStack() as stack:
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            yield [Scene(stack, pooler, silent.getsockname()[1]) for pooler in poolers]
    finally:
        for pooler in poolers:
            pooler.finish()
        cluster.remove()


@pytest.mark.parametrize("what", ["sockets", "clients", "servers"])
def test_clients_and_servers_in_every_state(scenes, what):
    theirs, ours = (what_is_said(scene.rows(what)) for scene in scenes)
    print(*theirs, "", *ours, sep="\n")
    assert ours == theirs
    states = {
        "sockets": {"cl_active", "cl_waiting", "cl_login", "sv_active", "sv_idle", "sv_login"},
        "clients": {"active", "idle", "waiting"},
        "servers": {"active", "idle", "new"},
    }
    assert {row["state"] for row in theirs} == states[what]


def test_active_sockets(scenes):
    """Of PgBouncer's, those with bytes in a buffer: those that wait for a server, and the console with its command."""
    theirs, ours = ({(who(row), row["state"]) for row in scene.rows("active_sockets")} for scene in scenes)
    assert theirs == {("C waits", "cl_waiting"), ("C alice of silent", "cl_waiting"), ("C postgres of pgbouncer", "cl_active")}
    assert ours == {
        ("C waits", "cl_waiting"),
        ("C holds", "cl_active"),
        ("S holds", "sv_active"),
        ("C works", "cl_active"),
        ("S works", "sv_active"),
        ("C alice of silent", "cl_waiting"),
        ("S alice of silent", "sv_login"),
    }
    for scene in scenes:
        by_id = {row["id"]: row for row in scene.rows("sockets")}
        for row in scene.rows("active_sockets"):
            if row["database"] != "pgbouncer":
                moves = ("wait", "wait_us")
                same = [{key: value for key, value in r.items() if key not in moves} for r in (row, by_id[row["id"]])]
                assert same[0] == same[1]


def test_bytes_in_buffers(scenes):
    """PgBouncer keeps what a client that waits has sent in a buffer of the client's. pgweir does not count buffers."""
    theirs, ours = ({who(row): {row[key] for key in BUFFERS} for row in scene.rows("sockets")} for scene in scenes)
    assert {name for name, counts in theirs.items() if counts != {"0"}} == {"C waits", "C alice of silent", "C postgres of pgbouncer"}
    assert {name for name, counts in ours.items() if counts != {"0"}} == set()


def test_whose_wait_is_counted(scenes):
    """PgBouncer counts the time of a query, too, and not a wait at the login. For pgweir a wait is a wait for a server."""
    theirs, ours = ({who(row) for row in scene.rows("sockets") if waits(row)} for scene in scenes)
    assert theirs == {"C waits", "C works"}
    assert ours == {"C waits", "C alice of silent"}
    for scene in scenes:
        (row,) = [row for row in scene.rows("clients") if row["application_name"] == "waits"]
        pools = {(row["database"], row["user"]): row for row in scene.rows("pools")}
        longest = lambda pool: int(pool["maxwait"]) * 1_000_000 + int(pool["maxwait_us"])  # noqa: E731
        shown = int(row["wait"]) * 1_000_000 + int(row["wait_us"])
        assert shown <= longest(pools["postgres", "postgres"]), "maxwait is the wait of the client that waits"
        assert (longest(pools["silent", "alice"]) > 0) == (scene is scenes[1])


def moment(text: str) -> float:
    return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S %Z").replace(tzinfo=datetime.timezone.utc).timestamp()


def test_addresses_and_names_of_connections(scenes):
    for scene in scenes:
        pooler, cluster = scene.pooler, scene.pooler.cluster
        rows = scene.rows("sockets")
        ends = {row["id"]: row for row in rows}
        assert len(ends) == len(rows), "ids are unique"
        if pooler.which == "pgbouncer":
            assert len({row["ptr"] for row in rows}) == len(rows)
        for letter in "CS":
            pointers = [row["ptr"] for row in rows if row["type"] == letter]
            assert len(set(pointers)) == len(pointers)
            # Servers' connections are in the log once they are open.
            named = [row for row in rows if row["type"] == letter and row["state"] not in ("sv_login", "cl_login")]
            assert all(f" {letter}-{row['ptr']}: {row['database']}/{row['user']}@" in pooler.log() for row in named)
        by_name = {who(row): row for row in rows}
        for does, c in (("holds", scene.holding), ("works", scene.working), ("rests", scene.resting)):
            row = by_name[f"C {does}"]
            assert (row["addr"], int(row["port"])) == c.socket.getsockname()
            assert (row["local_addr"], int(row["local_port"])) == c.socket.getpeername()
            assert row["remote_pid"] == "0"
        for does in ("holds", "works", "rests"):
            row = by_name[f"S {does}"]
            assert (row["addr"], int(row["port"])) == (cluster.host, cluster.port)
            of_port = f"select pid from pg_stat_activity where client_port = {row['local_port']}"
            assert cluster.psql(of_port) == row["remote_pid"]
        row = by_name["C uses sockets"]
        assert (row["addr"], row["port"], row["local_port"]) == ("unix", str(pooler.port), str(pooler.port))
        assert row["remote_pid"] == str(os.getpid())
        row = by_name["S uses sockets"]
        assert (row["addr"], row["port"], row["local_addr"]) == ("unix", str(cluster.port), "unix")
        assert cluster.psql(f"select client_port from pg_stat_activity where pid = {row['remote_pid']}") == "-1"
        for row in rows:
            assert int(scene.began) <= moment(row["connect_time"]) <= moment(row["request_time"]) <= time.time()


def test_request_time_of_an_idle_client(pg15, pair):  # noqa: F811
    """PgBouncer's is when the last request began; with pgweir, when it ended. That of a query that runs is when it began."""
    for pooler in pair(pg15):
        with pooler.connect() as c, wire.Connection(port=pg15.port) as holder:
            requested = lambda: next(moment(r["request_time"]) for r in show(pooler, "clients") if r["database"] == "postgres")  # noqa: B023, E731
            holder.query("select pg_advisory_lock(2612)")
            sent = time.time()
            c.send(wire.query("select pg_advisory_xact_lock(2612)"))
            eventually(lambda: holder.value("select count(*) from pg_locks where locktype = 'advisory' and not granted") == "1")  # noqa: B023
            began = time.time()
            assert int(sent) <= requested() <= began
            time.sleep(1.1)
            released = time.time()
            holder.query("select pg_advisory_unlock(2612)")
            c.read_ready()
            if pooler.which == "pgbouncer":
                assert int(sent) <= requested() <= began
            else:
                assert requested() >= int(released)


def test_a_server_that_is_checked_before_use(pg15, pair):  # noqa: F811
    """It is `used` after server_check_delay, and `tested` while the query runs, for which a client waits."""
    said = []
    for pooler in pair(pg15, settings={"server_check_delay": 0, "server_check_query": "select pg_sleep(2)"}):
        with pooler.connect() as c:
            c.query("select 1")
            pooler.wait_pool(sv_used=1)
            of = [what_is_said(show(pooler, what)) for what in ("sockets", "servers")]
            c.send(wire.query("select 1"))
            pooler.wait_pool(sv_tested=1, cl_waiting=1)
            of += [what_is_said(show(pooler, what)) for what in ("sockets", "servers", "clients")]
            c.read_ready()
        said.append(of)
    assert said[1] == said[0]


def test_a_server_that_is_reset(pg15, pair):  # noqa: F811
    said = []
    for pooler in pair(pg15, mode="session", settings={"server_reset_query": "select pg_sleep(2)"}):
        with pooler.connect() as c:
            c.query("select 1")
        pooler.wait_pool(sv_tested=1)
        said.append([what_is_said(show(pooler, what)) for what in ("sockets", "servers")])
        pooler.wait_pool(sv_idle=1)
    assert said[1] == said[0]


def test_cancel_requests_on_their_way(pg15, pair):  # noqa: F811
    """Both show them in SHOW CLIENTS. PgBouncer shows their connections as servers, pgweir shows no server. SHOW POOLS counts
    both, in PgBouncer in other columns until the connection is open."""
    host = SoonDeaf()
    host.leads_to(pg15)
    databases = {"deaf": f"host=127.0.0.1 port={host.port} dbname=postgres"}
    poolers = pair(databases=databases, settings={"default_pool_size": 1})
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(p.connect(database="deaf", options={"application_name": "works"})) for p in poolers]
        for c in clients:
            c.query("select 1")
        stack.enter_context(host)
        for c in clients:
            c.send(wire.query("select pg_sleep(4)"))
            threading.Thread(target=c.cancel, daemon=True).start()
        requests = lambda p: [int(r["cl_active_cancel_req"]) + int(r["cl_waiting_cancel_req"]) for r in show(p, "pools")]  # noqa: E731
        for p in poolers:
            eventually(lambda p=p: 1 in requests(p), what="a cancel request")
        tables = ("sockets", "clients", "servers")
        said = [
            {what: {(who(r), r["state"]) for r in show(p, what) if r["database"] != "pgbouncer"} for what in tables}
            for p in poolers
        ]
        pools = [next(r for r in show(p, "pools") if r["database"] == "deaf") for p in poolers]
        for c in clients:
            c.read_ready()
    of_requests = ("cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active_cancel", "sv_being_canceled", "sv_login")
    assert [[key for key in of_requests if pool[key] != "0"] for pool in pools] == [
        ["cl_waiting_cancel_req", "sv_login"],
        ["cl_active_cancel_req", "sv_active_cancel"],
    ]
    works = {("C works", "cl_active"), ("S works", "sv_active")}
    assert said[0] == {
        "sockets": works | {("S postgres of deaf", "sv_login")},
        "clients": {("C works", "active"), ("C (nouser) of deaf", "waiting_cancel_req")},
        "servers": {("S works", "active"), ("S postgres of deaf", "new")},
    }
    assert said[1] == {
        "sockets": works,
        "clients": {("C works", "active"), ("C (nouser) of (nodb)", "active_cancel_req")},
        "servers": {("S works", "active")},
    }


def test_users_of_databases_and_numbers_of_users(pg15, pair):  # noqa: F811
    """A user whom only `user=` of a database names is shown at once. PgBouncer writes blanks in front of numbers."""
    databases = {"postgres": server_of(pg15), "one": server_of(pg15) + " user=bob dbname=postgres"}
    userlist = {user: secret for user, secret in PASSWORDS.items() if user != "bob"}
    for p in pair(pg15, databases=databases, userlist=userlist, users={"alice": "pool_size=3 reserve_pool_size=4"}):
        before = {row["name"]: row for row in p.console("show users")}
        assert "bob" in before, p.which
        sizes = [before["alice"][key] for key in ("pool_size", "reserve_pool_size")]
        assert sizes == (["        3", "        4"] if p.which == "pgbouncer" else ["3", "4"])
        with p.connect(database="one", user="alice") as c:
            c.query("select 1")
            after = {row["name"]: (row["current_connections"], row["current_client_connections"]) for row in p.console("show users")}
        assert (after["alice"], after["bob"]) == (("0", "1"), ("1", "0")), p.which


def server_of(cluster) -> str:
    return f"host={cluster.host} port={cluster.port}"


# -- host names


def names_of(pooler) -> list:
    """SHOW DNS_HOSTS and DNS_ZONES. PgBouncer writes a port behind each address, which is always 0."""
    hosts = [
        (r["hostname"], [a.removesuffix(":0") if pooler.which == "pgbouncer" else a for a in r["addrs"].split(",")])
        for r in pooler.console("show dns_hosts")
    ]
    lists = {r["list"]: r["items"] for r in pooler.console("show lists")}
    return [sorted(hosts), pooler.console("show dns_zones"), lists["dns_names"], lists["dns_zones"]]


def lifetimes(pooler) -> dict[str, int]:
    return {r["hostname"]: int(r["ttl"]) for r in pooler.console("show dns_hosts")}


@pytest.mark.parametrize("period", (0, 1))
def test_host_names(pg15, pair, names, period):  # noqa: F811
    """A name with two addresses, and one that nobody knows, in one zone. The serial number is asked for with a period."""
    for server in names:
        server.hosts[NAME] = ["127.0.0.1", "127.0.0.2"]
        server.ttl = 7200
        server.serial = 2611
    poolers = named(pair, pg15, names, dns_zone_check_period=period, dns_nxdomain_ttl=1800)
    said = []
    with contextlib.ExitStack() as stack:
        for p in poolers:
            before = names_of(p)
            assert text_of_login(p, database="shop") == "in"
            begin_login(stack, p, "none")
            p.wait_log("DNS lookup failed|server DNS lookup failed")
            if period:
                eventually(lambda p=p: any(r["serial"] != "0" for r in p.console("show dns_zones")), timeout=8, what="the serial number")
            said.append([before, names_of(p)])
            # PgBouncer counts a failure twice.
            queries = lambda p=p: int(next(r["items"] for r in p.console("show lists") if r["list"] == "dns_queries"))  # noqa: E731
            eventually(lambda: queries() < 0 if p.which == "pgbouncer" else queries() == 0)  # noqa: B023
            # dns_max_ttl and dns_nxdomain_ttl, of which no more than the time of this test has passed.
            left = lifetimes(p)
            assert 3000 < left[NAME] <= 3600 and 1200 < left[NOBODY] <= 1800
    assert said[1] == said[0]
    zone = {"zonename": ZONE, "serial": "2611" if period else "0", "count": "2"}
    assert said[0][1] == [[(NAME, ["127.0.0.1", "127.0.0.2"]), (NOBODY, [""])], [zone], "2", "1"]
