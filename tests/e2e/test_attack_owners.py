"""The owner of a database chooses its search_path. Nothing of his runs with the rights of somebody else."""

from __future__ import annotations

import pytest

from harness import wire
from harness.logins import login, refused
from harness.pooler import PASSWORDS, kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about pgweir's own queries")

RISES = (
    "begin if (select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) current_user) "
    "then execute 'alter role tenant superuser'; end if; return $1 operator(pg_catalog.{0}) $2; end"
)

PATH = "evil, pg_catalog"


def operator(schema, sign, left, right):
    """SQL of an operator that makes the tenant a superuser if a superuser runs it."""
    name = f"{schema}.f_{left}_{right}_{len(sign)}_{ord(sign[0])}"
    return (
        f"create function {name}({left}, {right}) returns bool language plpgsql as $f$ {RISES.format(sign)} $f$",
        f"create operator {schema}.{sign} (leftarg = {left}, rightarg = {right}, function = {name})",
    )


@pytest.fixture(params=("of the database", "of the role"))
def planted(own_cluster, request):
    """A cluster with database `tdb`, whose owner has planted operators and a table in front of pg_catalog's."""
    cluster = own_cluster()
    cluster.psql("create role tenant login password 'tenant-pw'")
    cluster.psql("create database tdb owner tenant")
    with wire.Connection(
        host="127.0.0.1", port=cluster.port, user="tenant", database="tdb", password="tenant-pw"
    ) as c:
        for sql in (
            "create schema evil",
            *operator("evil", "=", "name", "name"),
            *operator("evil", "=", "name", "text"),
            *operator("evil", "=", "text", "text"),
            *operator("evil", "<", "timestamptz", "timestamptz"),
            "create table evil.pg_authid (rolname name, rolpassword text, rolvaliduntil timestamptz, rolcanlogin bool)",
            "insert into evil.pg_authid values ('alice', 'chosen', null, true)",
            "grant usage on schema evil to public",
            "grant select on evil.pg_authid to public",
        ):
            assert not wire.error_codes(c.query(sql)), sql
    what = "database tdb" if request.param == "of the database" else "role postgres"
    cluster.psql(f"alter {what} set search_path = {PATH}")
    yield cluster
    assert cluster.psql("select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) 'tenant'") == "f"


def test_the_default_auth_query_runs_nothing_of_the_owner(planted, make_pooler):
    """By one login of a stranger the owner became superuser, and by a table of his he chose the users' passwords."""
    planted.psql("alter role alice valid until '2100-01-01'")
    pooler = make_pooler(
        planted,
        settings={"auth_type": "scram-sha-256", "auth_user": "postgres"},
        userlist={"postgres": PASSWORDS["postgres"]},
    )
    refused(pooler, user="stranger", password="anything", database="tdb")
    refused(pooler, user="alice", password="chosen", database="tdb")
    login(pooler, user="alice", password=PASSWORDS["alice"], database="tdb")


def test_a_listener_runs_nothing_of_the_owner(planted, make_pooler):
    """A superuser's LISTEN ran the owner's operator, in the listener that pgweir opens."""
    pooler = make_pooler(planted)
    with pooler.connect(user="postgres", database="tdb") as c:
        assert not wire.error_codes(c.query("listen a"))
        listening = "select count(*) from pg_catalog.pg_stat_activity where application_name operator(pg_catalog.=) 'pgweir listener'"
        eventually(lambda: planted.psql(listening) == "1", what="a listener")
        assert not wire.error_codes(c.query("notify a"))
