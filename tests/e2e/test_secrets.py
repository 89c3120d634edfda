"""Secrets that change, and what a login tells about them: auth_file, auth_query, scram_iterations."""

from __future__ import annotations

import pytest

from conftest import backends
from harness import wire
from harness.logins import login, refused
from harness.pooler import kind
from harness.waiting import eventually
from harness.wire import scram_secret
from test_auth import secured  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")


# -- what logs in to servers


@pytest.mark.beyond_pgbouncer
@pytest.mark.parametrize("user", ("clear", "digest", "scrambled"))
def test_a_server_password_that_changes(secured, make_pooler, user):  # noqa: F811
    """A changed password in auth_file opens the next server connection, also after one that has failed; clients that wait
    for that connection get it then, and servers that are there go on meanwhile."""
    pooler = make_pooler(secured, settings={"auth_type": "trust", "server_login_retry": 60}, userlist={user: "old"})
    set_password(secured, user, "old")
    try:
        with pooler.connect(user=user) as c, pooler.connect(user=user) as other:
            c.query("begin; select 1")
            set_password(secured, user, "new")
            assert c.value("select 2") == "2", "the connection that is there does not notice"
            other.send(wire.query("select 3"))
            pooler.wait_log("server login failed: .*password authentication failed")
            change_secret(pooler, user, "new")
            assert wire.rows_of(other.read_ready()) == [("3",)]
            c.query("rollback")
        # Of a pool that has no server at all.
        change_secret(pooler, user, "wrong")
        pooler.console("reconnect")
        eventually(lambda: backends(secured, f"usename = '{user}'") == 0, what="no server left")
        offset = len(pooler.log())
        with pooler.connect(user=user, login=False) as c:
            c.send(wire.startup(c.startup_parameters()), wire.query("select 5"))
            pooler.wait_log("server login failed: .*password authentication failed", after=offset)
        change_secret(pooler, user, "new")
        eventually(lambda: is_served(pooler, user), timeout=5, interval=0.2, what="the right password")
    finally:
        set_password(secured, user, f"{user}-pw")


@pytest.mark.beyond_pgbouncer
def test_a_secret_that_is_kept_is_asked_for_again(secured, make_pooler):  # noqa: F811
    """When auth_query_cache_time is over, a user whose secret is gone is refused."""
    secured.psql(
        "drop table if exists secrets; create table secrets (name text, secret text);"
        "insert into secrets values ('alice', 'first')"
    )
    settings = {
        "auth_type": "scram-sha-256",
        "auth_user": "looker",
        "auth_query": "select name, secret from public.secrets where name = $1",
        "auth_query_cache_time": 1,
    }
    pooler = make_pooler(secured, settings=settings, userlist={"looker": "looker-pw"})

    def gets_in() -> bool:
        try:
            return bool(login(pooler, user="alice", password="first"))
        except wire.ServerError:
            return False

    assert gets_in()
    secured.psql("truncate secrets")
    eventually(lambda: not gets_in(), what="the end of the secret")


def set_password(cluster, user: str, password: str) -> None:
    encryption = "md5" if user == "digest" else "scram-sha-256"
    cluster.psql(f"set password_encryption = '{encryption}'; alter role {user} password '{password}'")


def change_secret(pooler, user: str, password: str) -> None:
    pooler.write_userlist({user: password, "postgres": ""})
    pooler.reload()


def is_served(pooler, user: str) -> bool:
    try:
        with pooler.connect(user=user, timeout=3) as c:
            return c.value("select 1") == "1"
    except (wire.ServerError, wire.Closed):
        return False


# -- auth_query


def test_auth_query_is_asked_at_each_login(secured, make_pooler):  # noqa: F811
    """Nothing is kept: a password that is changed, and a user who is locked, count at the next login."""
    secured.psql(
        "drop role if exists asked; create role asked login password 'first';"
        "create table if not exists lookups (name text); truncate lookups;"
        "create or replace function look(name text) returns table (n name, secret text) language sql security definer as"
        " $$ insert into lookups values (name); select rolname, rolpassword from pg_authid where rolname = name and rolcanlogin $$"
    )
    pooler = make_pooler(
        secured,
        settings={"auth_type": "scram-sha-256", "auth_user": "looker", "auth_query": "select n, secret from look($1)"},
        userlist={"looker": "looker-pw"},
    )
    for _ in range(3):
        login(pooler, user="asked", password="first")
    assert secured.psql("select count(*) from lookups where name = 'asked'") == "3"
    refused(pooler, user="asked", password="wrong")
    secured.psql("alter role asked password 'second'")
    refused(pooler, user="asked", password="first")
    login(pooler, user="asked", password="second")
    secured.psql("alter role asked nologin")
    refused(pooler, user="asked", password="second")
    assert secured.psql("select count(*) from lookups where name = 'asked'") == "7"


# -- scram_iterations


def iterations(pooler, user: str) -> int:
    """What a client hears in the first message of SCRAM; it goes away then."""
    with pooler.connect(user=user, login=False) as c:
        c.send(wire.startup(c.startup_parameters()))
        c.read_until("R")
        first = wire.Scram(b"x").first()
        c.send(wire.message("p", wire.cstr("SCRAM-SHA-256") + len(first).to_bytes(4, "big") + first))
        server_first = c.read_until("R")[-1].body[4:]
        return int(dict(part.split(b"=", 1) for part in server_first.split(b","))[b"i"])


def test_scram_iterations(pg15, make_pooler):
    """It counts for passwords in plain text. A stored verifier has its own count. Users who do not exist have one or the
    other: the count tells nobody which do."""
    userlist = {"alice": "alice-pw", "bob": scram_secret("bob-pw", iterations=5000)}
    settings = {"auth_type": "scram-sha-256", "scram_iterations": 6000}
    pooler = make_pooler(pg15, settings=settings, userlist=userlist)
    assert [iterations(pooler, user) for user in ("alice", "bob")] == [6000, 5000]
    assert {iterations(pooler, f"mallory{n}") for n in range(40)} == {6000, 5000}
    login(pooler, user="alice", password="alice-pw")
    login(pooler, user="bob", password="bob-pw")
    pooler.settings["scram_iterations"] = 7000
    pooler.reload()
    assert [iterations(pooler, user) for user in ("alice", "bob")] == [7000, 5000]
    assert {iterations(pooler, f"mallory{n}") for n in range(40)} == {7000, 5000}
    login(pooler, user="alice", password="alice-pw")
    refused(pooler, user="alice", password="wrong")
