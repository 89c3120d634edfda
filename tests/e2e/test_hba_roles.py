"""Lines of an HBA file for the members of roles, compared with PostgreSQL's own pg_hba.conf, and attacks on them."""

import os

import psycopg
import pytest

from harness import wire
from harness.logins import login, refused
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = [pytest.mark.skipif(kind() == "direct", reason="there is no pooler"), pytest.mark.beyond_pgbouncer]

ROLES = (
    "set password_encryption = 'scram-sha-256';"
    "create role staff; create role lead in role staff; create role banned; create role mart; create role guild login password 'pw';"
    "create role ann login password 'pw' in role staff;"
    "create role dora login password 'pw' in role lead;"
    "create role ned noinherit login password 'pw' in role staff;"
    "create role sue superuser login password 'pw';"
    "create role eve login password 'pw' in role staff, banned;"
    "create role sam login password 'pw' in role mart;"
    "create role ole login password 'pw';"
    'create role "q""\\x" ; create role quint login password \'pw\' in role "q""\\x";'
    "create role looker login"
)
USERS = ["ann", "dora", "ned", "sue", "eve", "sam", "ole", "guild", "quint", "looker", "postgres"]

LINES = (
    "host all +banned 127.0.0.1/32 reject\n"
    "host all +staff 127.0.0.1/32 scram-sha-256\n"
    'host samerole all 127.0.0.1/32 password\n'
    "host mart all 127.0.0.1/32 reject\n"
    'host postgres +guild,+q"""\\x",+nowhere 127.0.0.1/32 trust\n'
    "host postgres sue,nobody 127.0.0.1/32 password\n"
)

# The outcome for each user and database: the requests for authentication, or why the user is refused.
OUTCOMES = {
    ("ann", "postgres"): [10, 11, 12, 0],
    ("dora", "postgres"): [10, 11, 12, 0],
    ("ned", "mart"): [10, 11, 12, 0],
    ("eve", "postgres"): "rejected",
    ("sue", "postgres"): [3, 0],
    ("sue", "mart"): "rejected",
    ("sam", "mart"): [3, 0],
    ("sam", "postgres"): "no line",
    ("ole", "mart"): "rejected",
    ("ole", "postgres"): "no line",
    ("guild", "postgres"): [0],
    ("quint", "postgres"): [0],
    ("nobody", "postgres"): "password",
    ("nobody", "mart"): "rejected",
    ("stranger", "postgres"): "no line",
    # A role without LOGIN counts as a member of itself, too, but it is not in auth_file.
    ("staff", "mart"): "password",
}

REASONS = {
    "rejected": ("login rejected", "pg_hba.conf rejects connection"),
    "no line": ("no authentication method is found", "no pg_hba.conf entry"),
    "password": ("authentication failed",),
}


def outcome(port: int, user: str, database: str):
    try:
        with wire.Connection(host="127.0.0.1", port=port, user=user, database=database, password="pw") as c:
            return c.authentication
    except wire.ServerError as error:
        text = error.fields["M"]
        return next((word for word, texts in REASONS.items() if any(t in text for t in texts)), text)


@pytest.fixture
def guarded(own_cluster):
    """Makes a cluster with the roles and a database `mart`. Everybody may come over its Unix socket, and the lines are
    those for TCP."""

    def make(lines: str = LINES, version: int = 15):
        cluster = own_cluster(version=version, hba="local all all trust\n" + lines)
        cluster.psql(ROLES)
        cluster.psql("create database mart")
        return cluster

    return make


def pooler_with(make_pooler, cluster, lines: str = LINES, users=USERS, **settings):
    """A pooler with these lines, behind one for administrators."""
    at = f"host={cluster.socket_dir} port={cluster.port}"
    databases = {"postgres": at, "mart": at}
    pooler = make_pooler(cluster, start=False, databases=databases, userlist={user: "pw" for user in users})
    hba = os.path.join(pooler.dir, "hba.conf")
    pooler.write_file(hba, "host pgbouncer postgres all trust\n" + lines)
    pooler.settings.update({"auth_type": "hba", "auth_hba_file": hba, "auth_user": "looker", **settings})
    pooler.write_ini()
    return pooler.start()


@pytest.mark.parametrize("version", (15, 18))
def test_the_same_lines_decide_as_in_postgresql(guarded, make_pooler, version):
    cluster = guarded(version=version)
    if version >= 16:
        cluster.psql("create role una login password 'pw'; grant staff to una with inherit false, set false")
    more = {("una", "postgres"): [10, 11, 12, 0]} if version >= 16 else {}
    pooler = pooler_with(make_pooler, cluster, users=[*USERS, "una"])
    for (user, database), expected in {**OUTCOMES, **more}.items():
        assert outcome(cluster.port, user, database) == expected, f"PostgreSQL: {user} {database}"
        assert outcome(pooler.port, user, database) == expected, f"{user} {database}"
    # What has changed counts at once.
    cluster.psql("revoke staff from ann; grant banned to sue")
    for user, expected in (("ann", "no line"), ("sue", "rejected"), ("dora", [10, 11, 12, 0])):
        assert outcome(cluster.port, user, "postgres") == outcome(pooler.port, user, "postgres") == expected


def test_a_user_who_does_not_exist_is_a_member_of_nothing(guarded, make_pooler):
    """A stranger cannot tell it from a user who exists, by no line."""
    lines = "host mart +staff all reject\nhost postgres +staff all trust\nhost postgres all all scram-sha-256\n"
    pooler = pooler_with(make_pooler, guarded(), lines)
    for database in ("postgres", "mart"):
        hide = lambda user: {  # noqa: E731
            k: v.replace(user, "?") for k, v in refused(pooler, user=user, password="wrong", database=database).fields.items()
        }
        assert hide("ole") == hide("nobody")


def test_roles_of_users_from_auth_query(guarded, make_pooler):
    """The second question is auth_query's."""
    cluster = guarded()
    cluster.psql("alter role looker superuser")
    pooler = pooler_with(make_pooler, cluster, users=["looker", "postgres"])
    assert outcome(pooler.port, "ann", "postgres") == [10, 11, 12, 0]
    assert outcome(pooler.port, "guild", "postgres") == [0]
    assert outcome(pooler.port, "eve", "postgres") == "rejected"
    assert outcome(pooler.port, "nobody", "postgres") == "password"


def test_the_owner_of_a_database_makes_nobody_a_member(guarded, make_pooler):
    """Guards against a search_path with tables, functions and operators of one's own."""
    cluster = guarded()
    cluster.psql(
        "create schema evil; grant usage on schema evil to public;"
        "create table evil.pg_auth_members as select r.oid as member, s.oid as roleid from pg_roles r, pg_roles s;"
        "create table evil.pg_roles as select oid, rolname from pg_roles; create table evil.held (role oid);"
        "create function evil.yes(oid, oid) returns bool language sql as 'select true';"
        "create function evil.yes(name, name) returns bool language sql as 'select true';"
        "create function evil.yes(text, text) returns bool language sql as 'select true';"
        "create operator evil.= (function = evil.yes, leftarg = oid, rightarg = oid);"
        "create operator evil.= (function = evil.yes, leftarg = name, rightarg = name);"
        "create operator evil.= (function = evil.yes, leftarg = text, rightarg = text);"
        "create function evil.unnest(text[]) returns setof text language sql as 'select ''staff''';"
        "create function evil.string_agg(text, text) returns text language sql as 'select ''fffff''';"
        "grant select on all tables in schema evil to public;"
        "create domain evil.text as pg_catalog.text; create domain evil.name as pg_catalog.name;"
        "alter database mart set search_path = evil, pg_catalog",
        dbname="mart",
    )
    pooler = pooler_with(make_pooler, cluster)
    for (user, database), expected in OUTCOMES.items():
        if database == "mart":
            assert outcome(pooler.port, user, database) == expected, user


def test_a_server_that_is_slow_or_down_lets_nobody_in(guarded, make_pooler):
    """A line that rejects is not passed over; whoever needs no answer gets in; nothing is left over."""
    cluster = guarded()
    lines = "host postgres ole all trust\nhost all +banned all reject\nhost all all all trust\n"
    pooler = pooler_with(make_pooler, cluster, lines, query_timeout=2, default_pool_size=1, server_login_retry=1)
    assert login(pooler, user="ann") == login(pooler, user="ole") == [0]
    with psycopg.connect(cluster.socket_dsn()) as locker:
        locker.execute("lock pg_catalog.pg_auth_members in access exclusive mode")
        waiting = [pooler.connect(user="ann", login=False) for _ in range(3)]
        for c in waiting:
            c.socket.sendall(wire.startup({"user": "ann", "database": "postgres"}))
        assert login(pooler, user="ole") == [0]
        # The first one leaves while it is asked about, and another one while it waits.
        waiting[0].drop()
        waiting[1].drop()
        error = waiting[2].read(timeout=20)
        assert (error.tag, error.fields["C"], error.fields["M"]) == ("E", "28000", "no authentication method is found")
        assert "timeout" not in str(error.fields)
        pooler.wait_log("login failed: cannot find out the roles of the user: query.*timeout")
        waiting[2].drop()
        locker.rollback()
    eventually(lambda: outcome(pooler.port, "ann", "postgres") == [0], timeout=15, what="the next login")
    assert outcome(pooler.port, "eve", "postgres") == "rejected"
    cluster.stop()
    for user in ("ann", "eve", "nobody"):
        eventually(lambda user=user: outcome(pooler.port, user, "postgres") == "no line", timeout=15, what=user)
    cluster.start()
    eventually(lambda: outcome(pooler.port, "ann", "postgres") == [0], timeout=15, what="the server")
    assert outcome(pooler.port, "eve", "postgres") == "rejected"


def test_auth_user_that_may_not_ask_lets_nobody_in(guarded, make_pooler):
    cluster = guarded()
    lines = "host all +banned all reject\nhost all all all trust\n"
    pooler = pooler_with(make_pooler, cluster, lines)
    cluster.psql("revoke select on pg_catalog.pg_auth_members from public")
    assert outcome(pooler.port, "eve", "postgres") == outcome(pooler.port, "ann", "postgres") == "no line"
    pooler.wait_log("error in the question about roles: ERROR: permission denied")


