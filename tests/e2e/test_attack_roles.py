"""Attacks by prepared statements of clients with other roles. PostgreSQL checks the right to use a schema when it analyses
a statement, and the right to run a function that it inlines or computes when it plans: never again.
"""

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep roles")

SCHEMA = """
create role rr_alice; create role rr_bob; create role rr_login login noinherit in role rr_alice, rr_bob;
create schema rr_priv; grant usage on schema rr_priv to rr_alice;
create table rr_priv.t (a int); insert into rr_priv.t values (42); grant select on rr_priv.t to rr_alice, rr_bob;
create function rr_secret(int) returns text immutable security definer language plpgsql
    as 'begin return ''secret'' || (select a from rr_priv.t); end';
create function rr_rows() returns setof int stable language sql as 'select a from rr_priv.t';
revoke execute on function rr_secret, rr_rows from public; grant execute on function rr_secret, rr_rows to rr_alice;
"""

TEXTS = ["select a from rr_priv.t", "select rr_secret(1)", "select * from rr_rows()"]


@pytest.fixture(scope="module")
def prepared(pg):
    pg.psql(SCHEMA)
    yield pg
    pg.psql("drop schema rr_priv cascade; drop function rr_secret, rr_rows; drop role rr_login, rr_alice, rr_bob")


def outcome(messages) -> str:
    """A value, or an SQLSTATE."""
    errors = wire.error_codes(messages)
    return errors[0] if errors else str(wire.rows_of(messages)[0][0])


def asks(client, *messages) -> str:
    client.send(*messages, wire.sync())
    return outcome(client.read_ready())


def use(name: str) -> tuple[bytes, bytes]:
    return wire.bind(statement=name), wire.execute()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("packet", [{}, {"options": {"search_path": "public"}}], ids=["$user", "fixed"])
def test_a_role_prepares_for_itself(prepared, make_pooler, text, packet):
    """One client prepares and runs a statement as alice; another, as bob, has not the rights to prepare or plan it."""
    pooler = make_pooler(prepared, settings={"default_pool_size": 1}, userlist={"postgres": "", "rr_login": ""})
    expected = asks_directly(prepared, text)
    assert expected == "42501"
    with (pooler.connect(user="rr_login", **packet) as alice, pooler.connect(user="rr_login", **packet) as bob):
        alice.query("set role rr_alice")
        pid = alice.value("select pg_backend_pid()")
        assert "42" in asks(alice, wire.parse("s", text), *use("s"))
        bob.query("set role rr_bob")
        assert bob.value("select pg_backend_pid()") == pid
        assert asks(bob, wire.parse("s", text), *use("s")) == expected


@pytest.mark.parametrize("text", TEXTS[1:])
def test_a_statement_that_is_used_under_another_role_is_not_shared(prepared, make_pooler, text):
    """A client prepares a statement under its login role, and plans it as alice; another one has prepared it, too."""
    pooler = make_pooler(prepared, settings={"default_pool_size": 1}, userlist={"postgres": "", "rr_login": ""})
    with pooler.connect(user="rr_login") as alice, pooler.connect(user="rr_login") as other:
        for client in (alice, other):
            client.send(wire.parse("s", text), wire.sync())
            client.read_ready()
        alice.query("set role rr_alice")
        pid = alice.value("select pg_backend_pid()")
        for _ in range(7):
            assert "42" in asks(alice, *use("s"))
        assert other.value("select pg_backend_pid()") == pid
        assert asks(other, *use("s")) == "42501"


def asks_directly(cluster, text: str) -> str:
    with wire.Connection(host=cluster.host, port=cluster.port, user="rr_login") as client:
        client.query("set role rr_bob")
        return asks(client, wire.parse("s", text), *use("s"))


WHO = "select current_user, session_user, current_setting('role')"

# What a client does whose startup packet names a role; between the bars it looks.
CHANGES = [
    "set session authorization rr_starts",
    "set session authorization default",
    "reset session authorization",
    "select 1; reset session authorization",
    "select set_config('session_authorization', 'rr_starts', false)",
    "set session authorization rr_starts|reset role",
    "set session authorization rr_starts|reset session authorization",
    "set session authorization rr_starts|reset all|reset role",
    "set role rr_default|reset session authorization",
    "set role none|reset session authorization",
]


@pytest.mark.parametrize("role_of_login", ["none", "rr_default"])
def test_the_session_authorization_changes_the_role_of_the_startup_packet(pg, make_pooler, role_of_login):
    """Guards against a client that runs as its startup role, or as that of ALTER ROLE, where PostgreSQL has another."""
    pg.psql(
        "create role rr_starts login; create role rr_default; create role rr_packet; grant rr_default, rr_packet to rr_starts;"
        f"alter role rr_starts set role = {role_of_login}"
    )
    pooler = make_pooler(pg, settings={"default_pool_size": 1}, userlist={"rr_starts": "", "postgres": ""})
    try:
        for change in CHANGES:
            seen = []
            for port in (pg.port, pooler.port):
                login = {"port": port, "user": "rr_starts"}
                with wire.Connection(**login, options={"role": "rr_packet"}) as c, wire.Connection(**login) as other:
                    seen.append([c.rows(WHO)])
                    for text in change.split("|"):
                        assert wire.error_codes(c.query(text)) == []
                        seen[-1].append(c.rows(WHO))
                    other.query("select 1")
                    seen[-1].append(c.rows(WHO))
            assert seen[1] == seen[0], change
    finally:
        pooler.finish()
        pg.psql("drop role rr_starts, rr_default, rr_packet")
