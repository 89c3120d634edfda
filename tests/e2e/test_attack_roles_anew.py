"""Roles that are renamed, made again or locked out: a new login is judged by PostgreSQL, and never served by another role.

Only statements that go through pgweir are known to it; after others an operator says RECONNECT (docs/differences.md).
"""

from __future__ import annotations

import contextlib

import pytest

from harness import wire
from harness.logins import login
from harness.pooler import PASSWORDS, kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not read statements")


def does(client, how, sql):
    """Has a client run statements in one of several ways."""
    if how == "each alone":
        for one in sql.split("; "):
            assert not wire.error_codes(client.query(one)), one
    elif how == "prepared":
        for one in sql.split("; "):
            assert not wire.error_codes(client.extended(one, [])), one
    elif how == "one text":
        assert not wire.error_codes(client.query(sql))
    elif how == "transaction":
        for one in ("begin", *sql.split("; "), "commit"):
            assert not wire.error_codes(client.query(one)), one
    else:
        assert not wire.error_codes(client.query(f"do $do$ begin execute $x${sql}$x$; end $do$"))


HOW = ("each alone", "prepared", "one text", "transaction", "code")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("auth", ("trust", "auth_query"))
def test_a_new_role_of_an_old_name_is_itself(own_cluster, make_pooler, how, auth):
    """A client that had proved to be the new role was served by a session of the old one, with the rights of that."""
    cluster = own_cluster()
    cluster.psql("create role app login password 'one'; create table secret (a int); grant select on secret to app")
    more = {} if auth == "trust" else {"auth_type": "scram-sha-256", "auth_user": "postgres"}
    users = {"postgres": PASSWORDS["postgres"], **({"app": "one"} if auth == "trust" else {})}
    pooler = make_pooler(cluster, settings=more, userlist=users)
    with pooler.connect(user="app", password="one") as c:
        assert c.value("select current_user") == "app"
    with pooler.connect(password=PASSWORDS["postgres"]) as c:
        does(c, how, "alter role app rename to app_old; create role app login password 'two'")
    with pooler.connect(user="app", password="two") as c:
        assert c.value("select current_user") == "app"
        assert wire.error_codes(c.query("select a from secret")) == ["42501"]


@pytest.mark.parametrize("how", HOW[:4])
def test_a_role_that_is_made_again_and_again_is_served(own_cluster, make_pooler, how):
    """The sessions of a role that was dropped get 42704 and 42501 for what the new one may do."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, userlist={"postgres": PASSWORDS["postgres"], "app": "one"})
    for _ in range(3):
        with pooler.connect() as c:
            does(c, how, "create role app login; create table mine (a int); alter table mine owner to app")
        with pooler.connect(user="app") as c:
            assert c.value("select current_user") == "app"
            assert wire.error_codes(c.query("select a from mine")) == []
        with pooler.connect() as c:
            does(c, how, "drop table mine; drop role app")


def test_the_members_of_a_pool_with_other_users_stay(own_cluster, make_pooler):
    """Servers of other roles are not replaced."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"default_pool_size": 1})
    with pooler.connect(user="bob") as c:
        before = c.value("select pg_backend_pid()")
    with pooler.connect() as c:
        does(c, "each alone", "create role app login; alter role app nologin; drop role app")
    with pooler.connect(user="bob") as c:
        assert c.value("select pg_backend_pid()") == before


LOCKS = {
    "nologin": "alter role app nologin",
    "connect": "revoke connect on database d from public",
    "membership": "revoke staff from app",
    "valid until": "alter role app valid until '2001-01-01'",
    "dropped": "drop role app",
    "connection limit": "alter role app connection limit 0",
    "no connections": "alter database d allow_connections false",
}


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("auth", ("auth_file", "auth_query"))
def test_who_is_locked_out_directly_is_locked_out(own_cluster, make_pooler, lock, auth):
    """Idle servers served clients that PostgreSQL would not have let in."""
    hba = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    cluster = own_cluster(hba=hba)
    cluster.psql("create role staff; create role app login password 'one' in role staff")
    cluster.psql("create database d")
    if lock == "membership":
        cluster.psql("revoke connect on database d from public; grant connect on database d to staff")
    users = {"postgres": PASSWORDS["postgres"]} | ({"app": "one"} if auth == "auth_file" else {})
    more = {} if auth == "auth_file" else {"auth_user": "postgres", "auth_dbname": "postgres"}
    pooler = make_pooler(cluster, settings={"auth_type": "scram-sha-256", **more}, userlist=users)
    login(pooler, user="app", password="one", database="d")
    with pooler.connect(password=PASSWORDS["postgres"]) as c:
        assert not wire.error_codes(c.query(LOCKS[lock]))
    with pytest.raises(wire.ServerError):
        wire.Connection(host="127.0.0.1", port=cluster.port, user="app", database="d", password="one").close()
    with pytest.raises((wire.ServerError, wire.Closed)):
        login(pooler, user="app", password="one", database="d")


def test_a_new_password_ends_no_session(own_cluster, make_pooler):
    """As directly. Which password a new client needs is a matter of auth_file and auth_query."""
    hba = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    cluster = own_cluster(hba=hba)
    cluster.psql("create role app login password 'one'")
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "auth_dbname": "postgres"}
    pooler = make_pooler(cluster, settings=settings, userlist={"postgres": PASSWORDS["postgres"]})
    with pooler.connect(user="app", password="one", database="postgres") as app:
        assert app.value("select 1") == "1"
        with pooler.connect(password=PASSWORDS["postgres"]) as c:
            assert not wire.error_codes(c.query("alter role app with encrypted password 'other'"))
        assert app.value("select 1") == "1"
        with pytest.raises((wire.ServerError, wire.Closed)):
            login(pooler, user="app", password="one", database="postgres")
        login(pooler, user="app", password="other", database="postgres")
        assert app.value("select 1") == "1"


def test_a_statement_that_is_refused_replaces_nothing(own_cluster, make_pooler):
    """Guards against a client that has others' servers replaced without any right."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings={"default_pool_size": 1})
    with pooler.connect(user="bob") as c:
        before = c.value("select pg_backend_pid()")
    with pooler.connect(user="alice") as c:
        for sql in ("alter role bob rename to x", "drop role bob", "alter role bob nologin", "create role bob"):
            assert wire.error_codes(c.query(sql)) != [], sql
    with contextlib.closing(pooler.connect(user="bob")) as c:
        assert c.value("select pg_backend_pid()") == before
