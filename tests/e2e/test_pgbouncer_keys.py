"""Keys of [databases] and [users], before a real PgBouncer 1.26 and before pgweir: what clients and servers notice of them."""

from __future__ import annotations

import collections
import contextlib

import pytest

from harness import wire
from harness.logins import login, refused
from harness.pooler import kind
from harness.side_by_side import read_some
from harness.waiting import eventually
from test_pgbouncer_limits import both

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# -- settings of the session

SESSION = {
    "client_encoding": "LATIN1",
    "datestyle": "'SQL, DMY'",
    "timezone": "Asia/Tokyo",
    "application_name": "from_the_file",
}
CLIENTS = {
    "client_encoding": {"client_encoding": "WIN1252"},
    "datestyle": {"datestyle": "German, DMY"},
    "timezone": {"timezone": "Europe/Paris"},
    "application_name": {"application_name": "own"},
    "none": {},
}


def session(c: wire.Connection) -> dict:
    names = ", ".join(f"current_setting('{name}')" for name in SESSION)
    told = {name: value for name, value in c.parameters.items() if name.lower() in SESSION}
    return {"is": c.rows(f"select {names}"), "told": told}


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("own", CLIENTS)
def test_settings_of_a_database(pg, make_pooler, mode, own):
    """The server starts with them. A client that names its own gets its own."""
    seen = []
    for pooler in both(make_pooler, pg, mode=mode):
        pooler.databases = {"with": pooler.server(dbname="shop", **SESSION), "without": pooler.server(dbname="shop")}
        pooler.reload()
        of = []
        for database in pooler.databases:
            with pooler.connect(database=database, options=CLIENTS[own]) as c:
                of.append(session(c))
                with pooler.connect(database=database) as other:
                    of.append(session(other))
                of.append(session(c))
        seen.append(of)
    assert seen[1] == seen[0]


# -- pool_mode: of all, of the database, of the user

MODES = ("session", "transaction", "statement")
USERS = {"alice": None, "bob": "session", "stats": "transaction", "postgres": "statement"}


def mode_of(pooler, user: str, database: str) -> str:
    """Known by what becomes of a BEGIN, and of the server after a transaction."""
    with pooler.connect(user=user, database=database) as c:
        c.send(wire.query("begin"))
        if any(m.tag == "E" for m in read_some(c)):
            return "statement"
        c.query("commit")
        return {"1": "session", "0": "transaction"}[pooler.pool(database, user)["sv_active"]]


@pytest.mark.parametrize("everywhere", MODES)
def test_pool_mode(pg15, make_pooler, everywhere):
    """That of the user counts before that of the database, and both before that of all."""
    users = {user: f"pool_mode={mode}" for user, mode in USERS.items() if mode}
    for pooler in both(make_pooler, pg15, mode=everywhere, users=users):
        of_databases = {"none": None, **{mode: mode for mode in MODES}}
        pooler.databases = {name: pooler.server(dbname="shop", pool_mode=mode) for name, mode in of_databases.items()}
        pooler.reload()
        for user, of_user in USERS.items():
            for database, of_database in of_databases.items():
                meant = of_user or of_database or everywhere
                assert mode_of(pooler, user, database) == meant, (pooler.which, of_database, of_user)


# -- time limits: of all, of the user

LIMITS = {
    "client_idle_timeout": ("select 1", "client_idle_timeout"),
    "idle_transaction_timeout": ("begin; select 1", "idle transaction timeout"),
    "transaction_timeout": ("begin; select 1", "transaction timeout"),
}
SECONDS_OF_USERS = {"alice": 1, "bob": 60, "stats": 0, "postgres": None}


@pytest.mark.parametrize("of_all", [0, 1])
@pytest.mark.parametrize("limit", LIMITS)
def test_time_limits_of_users(pg15, make_pooler, limit, of_all):
    """That of the user counts, unless it is 0. A limit that only one user has is nobody else's."""
    statement, words = LIMITS[limit]
    users = {user: f"{limit}={seconds}" for user, seconds in SECONDS_OF_USERS.items() if seconds is not None}
    with contextlib.ExitStack() as stack:
        of_poolers = {}
        for pooler in both(make_pooler, pg15, settings={limit: of_all}, users=users):
            clients = {user: stack.enter_context(pooler.connect(user=user)) for user in SECONDS_OF_USERS}
            for c in clients.values():
                c.query(statement)
            of_poolers[pooler.which] = clients
        for which, clients in of_poolers.items():
            ends = ["alice", "stats", "postgres"] if of_all else ["alice"]
            if which == "pgbouncer" and limit == "client_idle_timeout":
                # It takes the limit of the others for 0 seconds.
                ends = ["alice", "stats", "postgres"]
            for user in ends:
                heard = [m.fields["M"] for m in clients[user].read_to_end() if m.tag == "E"]
                assert heard == [words], (which, user)
            for user in clients.keys() - ends:
                assert clients[user].value("select 2") == "2", (which, user)


# -- where servers are

# Keys of a database -> where each of four servers of alice's is: by TCP, or by the Unix socket in {dir}; who it takes her for.
PLACES = {
    "": {"unix alice shop": 4},
    "host=127.0.0.1": {"127.0.0.1 alice shop": 4},
    "host={dir}": {"unix alice shop": 4},
    "host={dir}/": {"unix alice shop": 4},
    "host=127.0.0.1,{dir}": {"127.0.0.1 alice shop": 2, "unix alice shop": 2},
    "host={dir},127.0.0.1 load_balance_hosts=round-robin": {"127.0.0.1 alice shop": 2, "unix alice shop": 2},
    "host={dir},127.0.0.1 load_balance_hosts=disable": {"unix alice shop": 4},
    "host=127.0.0.9,127.0.0.1 load_balance_hosts=disable": {"127.0.0.1 alice shop": 4},
    "host='{dir}' dbname='warehouse'": {"unix alice warehouse": 4},
    "host=127.0.0.1 user=bob": {"127.0.0.1 bob shop": 4},
    "host=127.0.0.1 user='bob' password='a b' dbname=warehouse": {"127.0.0.1 bob warehouse": 4},
}
PLACE = "select coalesce(host(inet_server_addr()), 'unix') || ' ' || current_user || ' ' || current_database()"


@pytest.mark.parametrize("keys", PLACES)
def test_where_servers_are(pg15, make_pooler, keys):
    databases = {"shop": f"port={pg15.port} " + keys.format(dir=pg15.socket_dir)}
    settings = {"unix_socket_dir": pg15.socket_dir, "server_login_retry": 0.2}
    for pooler in both(make_pooler, pg15, databases=databases, settings=settings):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(pooler.connect(user="alice", database="shop")) for _ in range(4)]
            for c in clients:
                c.query("begin")
            assert collections.Counter(c.value(PLACE) for c in clients) == PLACES[keys], pooler.which


# -- lives of servers and of databases

def test_server_lifetime_of_a_database(pg15, make_pooler):
    poolers = list(both(make_pooler, pg15))
    for pooler in poolers:
        pooler.databases = {"short": pooler.server(dbname="shop", server_lifetime=1), "long": pooler.server(dbname="shop")}
        pooler.reload()
        for database in pooler.databases:
            login(pooler, user="alice", database=database)
    for pooler in poolers:
        left = lambda p=pooler: [row["database"] for row in p.console("show servers")]  # noqa: E731
        eventually(lambda: left() == ["long"], what=lambda: f"one server, not {left()}, {pooler.which}")  # noqa: B023


def test_autodb_idle_timeout(pg15, make_pooler):
    """A database of the * entry is forgotten with its statistics, unless it has a client."""
    poolers = list(both(make_pooler, pg15, settings={"autodb_idle_timeout": 1, "server_idle_timeout": 0.5}))
    known = lambda p: {row["name"] for row in p.console("show databases")}  # noqa: E731
    counted = lambda p: {row["database"] for row in p.console("show stats_totals")}  # noqa: E731
    with contextlib.ExitStack() as stack:
        for pooler in poolers:
            login(pooler, database="shop")
            stack.enter_context(pooler.connect(database="warehouse"))
            assert {"shop", "warehouse"} <= known(pooler) & counted(pooler), pooler.which
        for pooler in poolers:
            gone = lambda p=pooler: "shop" not in known(p) | counted(p)  # noqa: E731
            eventually(gone, what=f"forgotten by {pooler.which}")
            assert "warehouse" in known(pooler) & counted(pooler), pooler.which


def test_a_paused_database_of_the_star_entry_stays_paused(pg15, make_pooler):
    """Guards against a pause that is forgotten with its database, so that clients reach a server in the midst of its upgrade."""
    pooler = make_pooler(pg15, settings={"autodb_idle_timeout": 1, "server_idle_timeout": 0.5})
    for database in ("shop", "warehouse"):
        login(pooler, database=database)
    pooler.console("pause shop")
    paused = lambda: {row["name"]: row["paused"] for row in pooler.console("show databases")}  # noqa: E731
    eventually(lambda: "warehouse" not in paused(), what="the other one is forgotten")
    assert paused()["shop"] == "1"
    with pooler.connect(login=False, database="shop") as c:
        c.send(wire.startup(c.startup_parameters()))
        with pytest.raises(wire.NoReply):
            c.read_ready(timeout=1)
        pooler.console("resume shop")
        c.read_ready()


# -- auth_dbname: of all, of the database

SECRETS = """
drop table if exists secrets;
create table secrets (name text, secret text);
insert into secrets values ('alice', 'of {}');
"""
# auth_dbname of all, that of database `shop` -> where the secrets of its users are, and where those of database `other`
AUTH_DBNAMES = {
    "none": (None, None, "shop", "shop"),
    "of all": ("warehouse", None, "warehouse", "warehouse"),
    "of a database": (None, "warehouse", "warehouse", "shop"),
    "of both": ("postgres", "warehouse", "warehouse", "postgres"),
    "the console": ("warehouse", "pgbouncer", None, "warehouse"),
    "a disabled one": ("disabled", "warehouse", "warehouse", None),
    "one that is not there": ("nowhere", "warehouse", "warehouse", None),
}
# What the log says, in both.
WORDS = {
    "the console": 'cannot use the reserved "pgbouncer" database as an auth_dbname',
    "a disabled one": 'authentication database "disabled" is disabled',
    "one that is not there": 'authentication database "nowhere" is not configured',
}


@pytest.mark.parametrize("what", AUTH_DBNAMES)
def test_auth_dbname(pg15, make_pooler, what):
    of_all, of_shop, *meant = AUTH_DBNAMES[what]
    for name in ("shop", "warehouse", "postgres"):
        pg15.psql(SECRETS.format(name), dbname=name)
    settings = {
        "auth_type": "plain",
        "auth_user": "postgres",
        "auth_query": "select name, secret from public.secrets where name = $1",
        "auth_dbname": of_all,
    }
    for pooler in both(make_pooler, pg15, settings=settings, userlist={"postgres": "postgres-pw"}, start=False):
        pooler.databases = {name: pooler.server(dbname=name) for name in ("warehouse", "postgres", "disabled")}
        pooler.databases["other"] = pooler.server(dbname="shop", user="postgres")
        pooler.databases["shop"] = pooler.server(dbname="shop", user="postgres", auth_dbname=of_shop)
        pooler.write_ini()
        pooler.start().console("disable disabled", password="postgres-pw")
        for database, whose in zip(("shop", "other"), meant):
            for name in ("shop", "warehouse", "postgres"):
                log_in = login if name == whose else refused
                log_in(pooler, user="alice", password=f"of {name}", database=database)
        if what in WORDS:
            pooler.wait_log(WORDS[what])
