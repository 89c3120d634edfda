"""The owner of a database chooses its search_path. Nothing of his runs with the rights of somebody else."""

from __future__ import annotations

import subprocess

import pytest

from conftest import VERSIONS
from harness import wire
from harness.logins import login, refused
from harness.pooler import PASSWORDS, kind, program
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about pgweir's own queries")

RISES = (
    "begin if (select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) current_user) "
    "then execute 'alter role tenant superuser'; end if; return $1 operator(pg_catalog.{0}) $2; end"
)

def operator(schema, sign, left, right):
    """SQL of an operator that makes the tenant a superuser if a superuser runs it."""
    name = f"{schema}.f_{left}_{right}_{len(sign)}_{ord(sign[0])}"
    return (
        f"create function {name}({left}, {right}) returns bool language plpgsql as $f$ {RISES.format(sign)} $f$",
        f"create operator {schema}.{sign} (leftarg = {left}, rightarg = {right}, function = {name})",
    )


# Where the objects are, and whose search_path names that schema in front of pg_catalog.
PATHS = {
    "a schema, of the database": ("evil", "database tdb"),
    "a schema, of the role": ("evil", "role postgres"),
    "public, of the database": ("public", "database tdb"),
}
IS_SUPERUSER = "select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) 'tenant'"


@pytest.fixture(params=[(path, version) for path in PATHS for version in VERSIONS], ids=lambda param: f"{param[0]}, pg{param[1]}")
def planted(own_cluster, request):
    """A cluster with database `tdb`, whose owner has planted operators, a function and tables in front of pg_catalog's."""
    path, version = request.param
    if version != VERSIONS[0] and request.config.getoption("--quick"):
        pytest.skip("--quick")
    schema, whose = PATHS[path]
    cluster = own_cluster(version=version)
    cluster.psql("create role tenant login password 'tenant-pw'")
    cluster.psql("create database tdb owner tenant")
    with wire.Connection(
        host="127.0.0.1", port=cluster.port, user="tenant", database="tdb", password="tenant-pw"
    ) as c:
        for sql in (
            f"create schema if not exists {schema}",
            *operator(schema, "=", "name", "name"),
            *operator(schema, "=", "name", "text"),
            *operator(schema, "=", "text", "text"),
            *operator(schema, "<", "timestamptz", "timestamptz"),
            f"create function {schema}.now() returns timestamptz language sql as $f$ select '2000-01-01'::timestamptz $f$",
            f"create table {schema}.pg_authid (rolname name, rolpassword text, rolvaliduntil timestamptz, rolcanlogin bool)",
            f"insert into {schema}.pg_authid values ('alice', 'chosen', null, true)",
            f"create table {schema}.pg_shadow (usename name, passwd text)",
            f"insert into {schema}.pg_shadow values ('alice', 'chosen')",
            f"grant usage on schema {schema} to public",
            f"grant select on {schema}.pg_authid, {schema}.pg_shadow to public",
        ):
            assert not wire.error_codes(c.query(sql)), sql
    cluster.psql(f"alter {whose} set search_path = {schema}, pg_catalog; alter role alice valid until '2100-01-01'")
    yield cluster
    assert cluster.psql(IS_SUPERUSER) == "f"


LOOKS_UP = {"auth_type": "scram-sha-256", "auth_user": "postgres"}


def looks_up(make_pooler, cluster, which="pgweir", **settings):
    """A pooler that asks as a superuser for users."""
    userlist = {"postgres": PASSWORDS["postgres"]}
    return make_pooler(cluster, which=which, settings={**LOOKS_UP, **settings}, userlist=userlist)


def is_fooled(pooler):
    """The owner's password opens, the user's own does not, and by that login the owner has become a superuser."""
    login(pooler, user="alice", password="chosen", database="tdb")
    refused(pooler, user="alice", password=PASSWORDS["alice"], database="tdb")
    assert pooler.cluster.psql(IS_SUPERUSER) == "t"
    pooler.cluster.psql("alter role tenant nosuperuser")


def test_the_default_auth_query_runs_nothing_of_the_owner(planted, make_pooler):
    """By one login of a stranger the owner became superuser, and by a table of his he chose the users' passwords."""
    pooler = looks_up(make_pooler, planted)
    refused(pooler, user="stranger", password="anything", database="tdb")
    refused(pooler, user="alice", password="chosen", database="tdb")
    login(pooler, user="alice", password=PASSWORDS["alice"], database="tdb")
    assert "the owner of a database can" not in pooler.log()


def test_the_default_auth_query_of_pgbouncer_runs_what_is_the_owners(planted, make_pooler):
    """So what is planted works."""
    is_fooled(looks_up(make_pooler, planted, which="pgbouncer"))


def test_an_auth_query_of_ones_own_is_warned_about(planted, make_pooler):
    """It runs with the search_path of its session, as in PgBouncer. `check`, the log at the start and at RELOAD warn."""
    query = "select usename, passwd from pg_shadow where usename = $1"
    for which in ("pgbouncer", "pgweir"):
        pooler = looks_up(make_pooler, planted, which=which, auth_query=query)
        is_fooled(pooler)
    warning = "the owner of a database can make auth_query run code as auth_user, and choose users' passwords"
    pooler.wait_log(f"WARNING .*{warning}")
    offset = len(pooler.log())
    pooler.reload()
    pooler.wait_log(f"WARNING .*{warning}", after=offset)
    assert warning in subprocess.run([*program("pgweir"), "check", pooler.ini_path], capture_output=True, text=True).stdout
    pooler.settings["auth_query"] = query.replace("pg_shadow", "pg_catalog.pg_shadow").replace("=", "operator(pg_catalog.=)")
    offset = len(pooler.log())
    pooler.reload()
    refused(pooler, user="alice", password="chosen", database="tdb")
    login(pooler, user="alice", password=PASSWORDS["alice"], database="tdb")
    assert warning not in pooler.log()[offset:]


def test_a_listener_runs_nothing_of_the_owner(planted, make_pooler):
    """A superuser's LISTEN ran the owner's operator, in the listener that pgweir opens."""
    pooler = make_pooler(planted)
    with pooler.connect(user="postgres", database="tdb") as c:
        assert not wire.error_codes(c.query("listen a"))
        listening = "select count(*) from pg_catalog.pg_stat_activity where application_name operator(pg_catalog.=) 'pgweir listener'"
        eventually(lambda: planted.psql(listening) == "1", what="a listener")
        assert not wire.error_codes(c.query("notify a"))
