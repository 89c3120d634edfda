"""Logging in to the pooler, and the pooler's logging in to PostgreSQL."""

import socket
import struct

import pytest

from harness import ports, wire
from harness.logins import login, refused
from harness.odd_server import OddServer, ScramServer, server_message
from harness.pooler import PASSWORDS, kind
from harness.waiting import eventually
from harness.wire import md5_secret, query, rows_of, scram_secret

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

# What PostgreSQL sends for a password that is wrong; PgBouncer's is 08P01.
INVALID_PASSWORD = "08P01" if kind() == "pgbouncer" else "28P01"

HBA_PASSWORDS = """\
local all all trust
host all postgres 127.0.0.1/32 trust
host all clear 127.0.0.1/32 password
host all digest 127.0.0.1/32 md5
host all scrambled 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


@pytest.fixture(scope="module")
def secured():
    """A cluster that asks for passwords over TCP: users clear, digest and scrambled, each by its own method."""
    import pgthrow

    cluster = pgthrow.Cluster(version=15, port=ports.take(), hba=HBA_PASSWORDS).start()
    cluster.psql(
        "set password_encryption = 'scram-sha-256';"
        "create role clear login password 'clear-pw'; create role scrambled login password 'scrambled-pw';"
        "create role alice login password 'alice-pw'; create role lapsed login password 'lapsed-pw' valid until '2001-01-01';"
        "create role nopassword login; create role nologin nologin password 'nologin-pw';"
        "create role looker login superuser password 'looker-pw';"
        "set password_encryption = 'md5'; create role digest login password 'digest-pw';"
        "create database authdb"
    )
    yield cluster
    cluster.remove()


# ---- auth_type


def test_any(pg15, make_pooler):
    """any: nobody is asked, no list of users is needed; a forced user is who the server sees."""
    pooler = make_pooler(
        pg15,
        databases={"*": f"host={pg15.host} port={pg15.port} user=alice"},
        settings={"auth_type": "any", "auth_file": None},
    )
    assert login(pooler, user="whoever") == [0]
    with pooler.connect(user="someone else") as c:
        assert c.value("select current_user") == "alice"


def test_trust(pg15, make_pooler):
    """trust: no password, but the user must be known."""
    pooler = make_pooler(pg15, settings={"auth_type": "trust"})
    assert login(pooler, user="alice") == [0]
    refused(pooler, user="unknown")
    pooler.wait_log('closing because: "trust" authentication failed')


@pytest.mark.parametrize("secret", ("alice-pw", md5_secret("alice", "alice-pw"), scram_secret("alice-pw")))
def test_plain(pg15, make_pooler, secret):
    pooler = make_pooler(pg15, settings={"auth_type": "plain"}, userlist={"alice": secret})
    if kind() == "pgbouncer" and secret != "alice-pw":
        pytest.skip("PgBouncer compares with a stored plain password or an MD5 hash")
    assert login(pooler, user="alice", password="alice-pw") == [3, 0]
    assert refused(pooler, user="alice", password="wrong").code == INVALID_PASSWORD
    assert refused(pooler, user="unknown", password="alice-pw").code == INVALID_PASSWORD


@pytest.mark.parametrize("secret", ("alice-pw", md5_secret("alice", "alice-pw")))
def test_md5(pg15, make_pooler, secret):
    pooler = make_pooler(pg15, settings={"auth_type": "md5"}, userlist={"alice": secret})
    assert login(pooler, user="alice", password="alice-pw") == [5, 0]
    error = refused(pooler, user="alice", password="wrong")
    assert error.code == INVALID_PASSWORD and "password authentication failed" in str(error)
    assert refused(pooler, user="unknown", password="alice-pw").code == INVALID_PASSWORD
    pooler.wait_log("closing because: password authentication failed")


def test_md5_with_a_scram_verifier_uses_scram(pg15, make_pooler):
    """auth_type md5 chooses SCRAM for a user whose secret is a SCRAM verifier."""
    pooler = make_pooler(
        pg15,
        settings={"auth_type": "md5"},
        userlist={"alice": scram_secret("alice-pw"), "bob": md5_secret("bob", "bob-pw")},
    )
    assert login(pooler, user="alice", password="alice-pw") == [10, 11, 12, 0]
    assert login(pooler, user="bob", password="bob-pw") == [5, 0]


@pytest.mark.parametrize(
    "secret", ("alice-pw", scram_secret("alice-pw"), scram_secret("alice-pw", salt=b"short", iterations=10000))
)
def test_scram(pg15, make_pooler, secret):
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"}, userlist={"alice": secret})
    assert login(pooler, user="alice", password="alice-pw") == [10, 11, 12, 0]
    error = refused(pooler, user="alice", password="wrong")
    assert "authentication failed" in str(error)
    refused(pooler, user="unknown", password="alice-pw")
    pooler.wait_log("closing because: SASL authentication failed")


def test_scram_needs_more_than_an_md5_hash(pg15, make_pooler):
    pooler = make_pooler(
        pg15, settings={"auth_type": "scram-sha-256"}, userlist={"alice": md5_secret("alice", "alice-pw")}
    )
    refused(pooler, user="alice", password="alice-pw")


@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_empty_passwords_open_nothing(pg15, make_pooler, auth_type):
    pooler = make_pooler(pg15, settings={"auth_type": auth_type}, userlist={"alice": "", "bob": "bob-pw"})
    refused(pooler, user="alice", password="")
    refused(pooler, user="alice", password="x")
    refused(pooler, user="bob", password="")


def test_odd_names_and_passwords(pg15, make_pooler):
    """Quotes in auth_file, passwords in UTF-8, with spaces."""
    pg15.psql('drop role if exists "o""dd user"; create role "o""dd user" login')
    for auth_type in ("plain", "md5", "scram-sha-256"):
        pooler = make_pooler(pg15, settings={"auth_type": auth_type}, userlist={'o"dd user': 'pä ss"word'})
        login(pooler, user='o"dd user', password='pä ss"word')
        pooler.finish()
    pg15.psql('drop role "o""dd user"')


def test_long_password(pg15, make_pooler):
    """Passwords of 65,530 bytes work (cloud tokens); PasswordMessage larger than the buffer."""
    password = "x" * 65530
    pooler = make_pooler(pg15, settings={"auth_type": "plain"}, userlist={"alice": password})
    assert login(pooler, user="alice", password=password) == [3, 0]
    refused(pooler, user="alice", password=password[:-1])
    refused(pooler, user="alice", password="x" * 1025)


def test_long_names(pg15, make_pooler):
    """Over-long user and database names, with autodb too, are refused and kill nobody."""
    pooler = make_pooler(
        pg15, settings={"auth_type": "any"}, databases={"*": f"host={pg15.host} port={pg15.port} user=alice"}
    )
    for length in (63, 64, 127, 128, 1000, 9000):
        for named in ({"user": "u" * length}, {"database": "d" * length}):
            try:
                with pooler.connect(**named) as c:
                    c.query("select 1")
            except (wire.ServerError, wire.Closed):
                pass
    with pooler.connect() as c:
        assert c.value("select 1") == "1"


@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_unknown_users_get_the_same_conversation(pg15, make_pooler, auth_type):
    """No user or database enumeration before authentication: known, unknown, and unknown database look alike."""
    pooler = make_pooler(
        pg15,
        databases={"known": f"host={pg15.host} port={pg15.port} dbname=postgres"},
        settings={"auth_type": auth_type},
        userlist={"alice": "alice-pw"},
    )

    def conversation(user, database):
        c = pooler.connect(login=False, user=user, database=database, password="wrong")
        c.send(wire.startup(c.startup_parameters()))
        try:
            c.finish_login()
        except wire.ServerError:
            pass
        error = wire.first_error(c.login_messages)
        c.drop()
        fields = {k: v.replace(user, "USER") for k, v in error.fields.items()}
        return [m.tag for m in c.login_messages], c.authentication, fields

    known = conversation("alice", "known")
    assert conversation("mallory", "known") == known
    assert conversation("alice", "unknown")[:2] == known[:2]
    assert conversation("mallory", "unknown")[:2] == known[:2]


def test_scram_mock_salt_is_stable(pg15, make_pooler):
    """A user who does not exist gets the same salt at each try, as one who does."""
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"}, userlist={"alice": scram_secret("alice-pw")})

    def salt(user):
        c = pooler.connect(login=False, user=user, password="wrong")
        c.send(wire.startup(c.startup_parameters()))
        with pytest.raises(wire.ServerError):
            c.finish_login()
        continued = next(m.body for m in c.login_messages if m.tag == "R" and m.body[:4] == struct.pack("!I", 11))
        c.drop()
        return [part for part in continued[4:].split(b",") if part[:1] in (b"s", b"i")]

    assert salt("alice") == salt("alice")
    if kind() == "pgweir":
        assert salt("mallory") == salt("mallory") != salt("trudy")


def test_passwords_change_by_reload(pg15, make_pooler):
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"}, userlist={"alice": "alice-pw"})
    with pooler.connect(user="alice", password="alice-pw") as c:
        pooler.write_userlist({"alice": "changed"})
        pooler.reload()
        refused(pooler, user="alice", password="alice-pw")
        login(pooler, user="alice", password="changed")
        assert c.value("select 1") == "1"


def test_password_of_a_database_entry(secured, make_pooler):
    """user and password of [databases] log in to the server; clients need no password there."""
    for user in ("clear", "digest", "scrambled"):
        pooler = make_pooler(
            secured,
            databases={
                "forced": f"host={secured.host} port={secured.port} dbname=postgres user={user} password={user}-pw"
            },
            settings={"auth_type": "any"},
        )
        with pooler.connect(user="anybody", database="forced") as c:
            assert c.value("select current_user") == user


# ---- server authentication


@pytest.mark.parametrize("user", ("clear", "digest", "scrambled"))
def test_server_asks_for_a_password(secured, make_pooler, user):
    """Cleartext, MD5 and SCRAM-SHA-256 towards the server, from a plain password in auth_file."""
    pooler = make_pooler(secured, settings={"auth_type": "md5"}, userlist={user: f"{user}-pw"})
    login(pooler, user=user, password=f"{user}-pw")


def test_server_md5_from_a_hash(secured, make_pooler):
    """An MD5 hash in auth_file is enough for a server that asks for MD5."""
    pooler = make_pooler(secured, settings={"auth_type": "md5"}, userlist={"digest": md5_secret("digest", "digest-pw")})
    login(pooler, user="digest", password="digest-pw")


def test_scram_pass_through(secured, make_pooler):
    """The client's own SCRAM key opens the server when the verifiers are the same; no password is stored anywhere."""
    verifier = secured.psql("select rolpassword from pg_authid where rolname = 'scrambled'")
    pooler = make_pooler(
        secured, settings={"auth_type": "scram-sha-256", "default_pool_size": 2}, userlist={"scrambled": verifier}
    )
    for _ in range(2):
        assert login(pooler, user="scrambled", password="scrambled-pw") == [10, 11, 12, 0]
    # The key outlives the client that brought it: a new server is opened for another client later.
    secured.psql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'scrambled'")
    left = "select count(*) from pg_stat_activity where usename = 'scrambled'"
    eventually(lambda: secured.psql(left) == "0", what="the end of the server")
    login(pooler, user="scrambled", password="scrambled-pw")
    refused(pooler, user="scrambled", password="wrong")


def test_scram_pass_through_with_another_verifier(secured, make_pooler):
    """The same password, but a verifier with another salt: the server cannot be opened, and the client is told."""
    pooler = make_pooler(
        secured,
        settings={"auth_type": "scram-sha-256", "query_wait_timeout": 3},
        userlist={"scrambled": scram_secret("scrambled-pw")},
    )
    with pytest.raises((wire.ServerError, wire.Closed)):
        with pooler.connect(user="scrambled", password="scrambled-pw") as c:
            messages = c.query("select 1")
            raise wire.ServerError(wire.first_error(messages))


def test_wrong_password_for_the_server(secured, make_pooler):
    """The server's own message reaches the client, and the log."""
    pooler = make_pooler(
        secured, settings={"auth_type": "trust", "query_wait_timeout": 5}, userlist={"scrambled": "wrong"}
    )
    with pytest.raises((wire.ServerError, wire.Closed)) as error:
        with pooler.connect(user="scrambled") as c:
            raise wire.ServerError(wire.first_error(c.query("select 1")))
    assert "password authentication failed for user" in str(error.value)
    pooler.wait_log('server login failed: FATAL.* password authentication failed for user "scrambled"')


def test_no_password_for_the_server(secured, make_pooler):
    """The server asks for a password and there is none: an error, no hang."""
    pooler = make_pooler(secured, settings={"auth_type": "trust", "query_wait_timeout": 3}, userlist={"scrambled": ""})
    with pytest.raises((wire.ServerError, wire.Closed)):
        with pooler.connect(user="scrambled", timeout=8) as c:
            raise wire.ServerError(wire.first_error(c.read_to_end(8) if c.send(query("select 1")) is None else []))


# ---- auth_query


def with_auth_query(make_pooler, cluster, **settings):
    return make_pooler(
        cluster,
        settings={"auth_type": "scram-sha-256", "auth_user": "looker", **settings},
        userlist={"looker": "looker-pw"},
    )


def test_auth_query(secured, make_pooler):
    """Users who are not in auth_file are looked up; SCRAM verifiers found there open the server, too."""
    pooler = with_auth_query(make_pooler, secured)
    assert login(pooler, user="scrambled", password="scrambled-pw") == [10, 11, 12, 0]
    assert login(pooler, user="alice", password="alice-pw") == [10, 11, 12, 0]
    refused(pooler, user="alice", password="wrong")


def test_auth_query_with_md5(secured, make_pooler):
    pooler = with_auth_query(make_pooler, secured, auth_type="md5")
    assert login(pooler, user="digest", password="digest-pw") == [5, 0]
    assert login(pooler, user="scrambled", password="scrambled-pw") == [10, 11, 12, 0]


def test_auth_query_of_ones_own(secured, make_pooler):
    secured.psql(
        "drop table if exists app_users; create table app_users (name text, secret text);"
        "insert into app_users values ('alice', 'of the application'), ('bob', null)"
    )
    pooler = with_auth_query(make_pooler, secured, auth_query="select name, secret from app_users where name = $1")
    login(pooler, user="alice", password="of the application")
    refused(pooler, user="alice", password="alice-pw")
    refused(pooler, user="bob", password="")


def test_auth_query_that_fails(secured, make_pooler):
    """An auth_query that fails opens nothing, its error stays in the log, and does not reach the client."""
    pooler = with_auth_query(
        make_pooler, secured, auth_query="select usename, passwd from not_pg_shadow where usename = $1"
    )
    error = refused(pooler, user="alice", password="alice-pw")
    assert "not_pg_shadow" not in str(error)
    pooler.wait_log('ERROR S: error in auth_query: ERROR: relation "not_pg_shadow" does not exist')


def test_auth_query_honours_valid_until(secured, make_pooler):
    """The default auth_query honours VALID UNTIL."""
    pooler = with_auth_query(make_pooler, secured)
    refused(pooler, user="lapsed", password="lapsed-pw")


@pytest.mark.beyond_pgbouncer
def test_auth_query_users_who_cannot_log_in(secured, make_pooler):
    """No password, no LOGIN, no such user: all refused, all alike; and none becomes auth_user."""
    pooler = with_auth_query(make_pooler, secured)
    messages = set()
    for user in ("nopassword", "nologin", "no such user", "lapsed", "alice"):
        error = refused(pooler, user=user, password="looker-pw")
        messages.add((error.code, str(error).replace(user, "USER")))
    assert len(messages) == 1, messages
    # An unknown user with auth_user's own password must not come in as auth_user.
    refused(pooler, user="mallory", password="looker-pw")


def test_unknown_user_is_not_auth_user(secured, make_pooler):
    """auth_user set and an unknown user: never logged in as auth_user, under any auth_type that asks."""
    for auth_type in ("plain", "md5", "scram-sha-256"):
        pooler = with_auth_query(make_pooler, secured, auth_type=auth_type)
        for password in ("looker-pw", "", "x"):
            refused(pooler, user="mallory", password=password)
        pooler.finish()


def test_search_path_does_not_reach_auth_query(secured, make_pooler):
    """Client startup parameters never reach the auth_query connection: a planted pg_authid is not read."""
    secured.psql(
        "create schema if not exists evil; drop table if exists evil.pg_authid;"
        "create table evil.pg_authid (rolname text, rolpassword text, rolvaliduntil timestamptz, rolcanlogin bool);"
        "insert into evil.pg_authid values ('postgres', 'owned', null, true), ('alice', 'owned', null, true);"
        "grant usage on schema evil to public; grant select on evil.pg_authid to public"
    )
    attacks = (
        {"search_path": "evil, pg_catalog"},
        {"options": "-c search_path=evil,pg_catalog"},
        {"options": "-csearch_path=evil,pg_catalog", "search_path": "evil"},
        {"role": "postgres"},
    )
    for attack in attacks:
        pooler = with_auth_query(make_pooler, secured, ignore_startup_parameters="extra_float_digits")
        with pytest.raises((wire.ServerError, wire.Closed)):
            pooler.connect(user="alice", password="owned", options=attack)
        login(pooler, user="alice", password="alice-pw")
        pooler.finish()


@pytest.mark.beyond_pgbouncer
def test_a_session_of_auth_user_does_not_reach_auth_query(secured, make_pooler):
    """Nor does what a client of the same user has set on a pooled server."""
    pooler = with_auth_query(make_pooler, secured)
    with pooler.connect(user="looker", password="looker-pw") as c:
        c.query("set search_path to evil, pg_catalog")
        c.query("set role alice")
    for _ in range(3):
        refused(pooler, user="alice", password="owned")
    login(pooler, user="alice", password="alice-pw")


def test_auth_dbname(secured, make_pooler):
    """auth_query runs in auth_dbname, whatever database the client asked for."""
    secured.psql(
        "drop table if exists only_here; create table only_here (name text, secret text);"
        "insert into only_here values ('alice', 'from authdb')",
        dbname="authdb",
    )
    pooler = with_auth_query(
        make_pooler, secured, auth_dbname="authdb", auth_query="select name, secret from only_here where name = $1"
    )
    login(pooler, user="alice", password="from authdb")


def test_auth_user_of_a_database(secured, make_pooler):
    pooler = make_pooler(
        secured,
        databases={
            "here": f"host={secured.host} port={secured.port} dbname=postgres auth_user=looker",
            "there": f"host={secured.host} port={secured.port} dbname=postgres",
        },
        settings={"auth_type": "scram-sha-256"},
        userlist={"looker": "looker-pw"},
    )
    login(pooler, user="alice", password="alice-pw", database="here")
    refused(pooler, user="alice", password="alice-pw", database="there")


def test_auth_query_sees_a_changed_password(secured, make_pooler):
    """Each login looks the secret up again."""
    secured.psql("drop role if exists changing; create role changing login password 'first'")
    pooler = with_auth_query(make_pooler, secured)
    login(pooler, user="changing", password="first")
    secured.psql("alter role changing password 'second'")
    login(pooler, user="changing", password="second")
    refused(pooler, user="changing", password="first")


def test_auth_query_cache_time(own_cluster, make_pooler):
    """Kept secrets spare PostgreSQL the question; a failed login asks again, and so does a changed role that is seen."""
    cluster = own_cluster(hba=HBA_PASSWORDS)
    cluster.psql(
        "set password_encryption = 'scram-sha-256'; create role looker superuser login password 'looker-pw';"
        "create role changing superuser login password 'first'; create table asked (name text);"
        "create function public.find(name text) returns table (a text, b text) language sql as $$"
        "  insert into public.asked values (name);"
        "  select rolname::text, rolpassword from pg_catalog.pg_authid where rolname = name $$"
    )
    pooler = with_auth_query(
        make_pooler, cluster, auth_query="select a, b from public.find($1)", auth_query_cache_time=60
    )

    def asked():
        return int(cluster.psql("select count(*) from asked"))

    for _ in range(20):
        assert login(pooler, user="changing", password="first") == [10, 11, 12, 0]
    assert asked() == 1
    for _ in range(3):
        refused(pooler, user="nobody", password="first")
    assert asked() == 4, "users who do not exist are not kept"
    # Changed where the pooler does not see it: the new password is refused once.
    cluster.psql("alter role changing password 'second'")
    refused(pooler, user="changing", password="second")
    login(pooler, user="changing", password="second")
    refused(pooler, user="changing", password="first")
    before = asked()
    with pooler.connect(user="changing", password="second") as c:
        assert asked() == before + 1
        c.value("select 1")
        list(c.query("alter role changing password 'third'"))
    login(pooler, user="changing", password="third")


def test_auth_query_when_the_server_is_down(own_cluster, make_pooler):
    """No server for auth_query: clients are told within query_wait_timeout, and served when it is back."""
    cluster = own_cluster(hba=HBA_PASSWORDS)
    cluster.psql("create role looker superuser login password 'looker-pw'")
    pooler = with_auth_query(make_pooler, cluster, server_login_retry=1, query_wait_timeout=3, client_login_timeout=6)
    cluster.stop()
    with pytest.raises((wire.ServerError, wire.Closed)):
        pooler.connect(user="alice", password="alice-pw", timeout=12)
    cluster.start()

    def served():
        try:
            return login(pooler, user="alice", password="alice-pw", timeout=12)
        except (wire.ServerError, wire.Closed):
            return None

    eventually(served, timeout=10, interval=0.3)


# ---- malformed and out of order


def test_query_before_the_password(pg15, make_pooler):
    """Wrong-order packets before login are refused, and nothing of them runs."""
    pg15.psql("drop table if exists smuggled; create table smuggled (a int); grant all on smuggled to alice")
    for auth_type in ("plain", "md5", "scram-sha-256"):
        pooler = make_pooler(pg15, settings={"auth_type": auth_type})
        for smuggled in (
            query("insert into smuggled values (1)"),
            wire.sync(),
            wire.one_statement("insert into smuggled values (1)"),
        ):
            c = pooler.connect(login=False, user="alice")
            c.send(wire.startup(c.startup_parameters()), smuggled)
            assert not [m for m in c.read_to_end(5) if m.tag in "ZC"]
            c.drop()
        pooler.finish()
    assert pg15.psql("select count(*) from smuggled") == "0"
    pg15.psql("drop table smuggled")


@pytest.mark.parametrize(
    "garbage",
    (
        b"",
        b"\0",
        b"SCRAM-SHA-256\0",
        b"SCRAM-SHA-256\0\xff\xff\xff\xff",
        b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=x",
        b"SCRAM-SHA-256\0\0\0\0\x00",
        b"SCRAM-SHA-256\0\0\0\0\x05n,,n=",
        b"SCRAM-SHA-256\0\0\0\0\x09n,,n=,r=x"[:-2],
        b"SCRAM-SHA-256-PLUS\0\0\0\0\x0bp=tls,,n=,r",
        b"SCRAM-SHA-256\0\0\0\0\x0by,,n=,r=abc",
        b"NO-SUCH-MECHANISM\0\0\0\0\x00",
        b"SCRAM-SHA-256\0\0\0\x27\x10" + b"n,,n=,r=" + b"x" * 9992,
    ),
)
def test_malformed_scram(pg15, make_pooler, garbage):
    """Lengths and fields of SCRAM messages before login: refused, never fatal to the process."""
    pooler = make_pooler(pg15, settings={"auth_type": "scram-sha-256"})
    c = pooler.connect(login=False, user="alice")
    c.send(wire.startup(c.startup_parameters()))
    assert c.read().tag == "R"
    c.send(wire.message("p", garbage))
    try:
        for m in iter(lambda: c.read(1), None):
            assert m.tag in "RE", m
            if m.tag == "R":
                # A first message that is in order after all: break the final one.
                assert m.body[:4] == struct.pack("!I", 11)
                c.send(wire.message("p", b"c=biws,r=x,p=" + b"A" * 5000))
    except (wire.Closed, wire.NoReply):
        pass
    c.drop()
    login(pooler, user="alice", password="alice-pw")


def test_password_message_lengths(pg15, make_pooler):
    """Password messages with lengths that lie."""
    for auth_type in ("plain", "md5", "scram-sha-256"):
        pooler = make_pooler(pg15, settings={"auth_type": auth_type, "client_login_timeout": 2})
        for raw in (
            b"p\0\0\0\0",
            b"p\0\0\0\3",
            b"p\0\0\0\4",
            b"p\xff\xff\xff\xff",
            b"p\x7f\xff\xff\xffx",
            b"p\0\0\0\6xx",
            b"p\0\1\0\0" + b"x" * 65532,
        ):
            c = pooler.connect(login=False, user="alice")
            c.send(wire.startup(c.startup_parameters()))
            assert c.read().tag == "R"
            c.socket.sendall(raw)
            try:
                while c.read(0.3).tag in "RE":
                    pass
            except (wire.Closed, wire.NoReply):
                pass
            c.drop()
        login(pooler, user="alice", password="alice-pw")
        pooler.finish()


@pytest.mark.beyond_pgbouncer
def test_bytes_behind_an_encryption_request(pg15, make_pooler):
    """Bytes after SSLRequest or GSSENCRequest, before the handshake, are rejected: nobody is let in by them."""
    pooler = make_pooler(pg15)
    for request in (wire.SSL_REQUEST, wire.GSSENC_REQUEST):
        c = pooler.connect(login=False)
        c.socket.sendall(
            struct.pack("!II", 8, request) + wire.startup(c.startup_parameters()) + query("select 'injected'")
        )
        c.socket.settimeout(3)
        received = b""
        try:
            while data := c.socket.recv(4096):
                received += data
        except OSError:
            pass
        assert b"injected" not in received
        c.drop()
    login(pooler)


# ---- servers that misbehave while the pooler logs in

OK = server_message("R", struct.pack("!I", 0))
KEY = server_message("K", struct.pack("!II", 4711, 42))
READY = server_message("Z", b"I")
SELECT_ONE = (
    server_message("T", struct.pack("!H", 1) + b"a\0" + struct.pack("!IhIhih", 0, 0, 25, -1, -1, 0))
    + server_message("D", struct.pack("!HI", 1, 1) + b"1")
    + server_message("C", b"SELECT 1\0")
    + READY
)
NOTICE = server_message("N", b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0")


@pytest.mark.parametrize(
    "greeting",
    (
        NOTICE + OK + NOTICE + KEY + NOTICE + READY,
        OK + server_message("S", b"odd\0value\0") + NOTICE + KEY + server_message("S", b"DateStyle\0ISO\0") + READY,
        OK + READY,
        OK + server_message("S", b"server_version\0" + b"9" * 5000 + b"\0") + KEY + READY,
    ),
)
def test_noisy_server(pg15, make_pooler, greeting):
    """NoticeResponse and ParameterStatus while the pooler logs in, no key, long values: a server that can be used."""
    with OddServer(greeting, SELECT_ONE, SELECT_ONE) as odd:
        pooler = make_pooler(
            pg15,
            databases={"odd": f"host=127.0.0.1 port={odd.port}"},
            # It answers nothing but what a client asks.
            settings={"server_check_query": "", "track_extra_parameters": None, "session_state": "pgbouncer"},
        )
        with pooler.connect(database="odd") as c:
            assert c.value("select 1", timeout=5) == "1"


@pytest.mark.parametrize(
    "greeting",
    (
        server_message("E", b"SFATAL\0Mno sqlstate here\0\0"),
        server_message("E", b"\0"),
        server_message("E", b""),
        server_message("E", b"SFATAL"),
        server_message("R", b""),
        server_message("R", struct.pack("!I", 5) + b"ab"),
        server_message("R", struct.pack("!I", 99)),
        server_message("R", struct.pack("!I", 10) + b"\0"),
        server_message("R", struct.pack("!I", 10) + b"SCRAM-SHA-256"),
        server_message("R", struct.pack("!I", 11) + b"r=x,s=x,i=1"),
        server_message("Z", b"I"),
        b"R\0\0\0\3",
        b"R\xff\xff\xff\xff",
        b"S\x7f\xff\xff\xff",
        OK + server_message("Z", b""),
        OK + server_message("K", b"\0"),
        OK + server_message("S", b"no end"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"N",
    ),
)
def test_odd_server(pg15, make_pooler, greeting):
    """An ErrorResponse without SQLSTATE, missing fields, lengths that lie: the server is dropped, the process lives."""
    with OddServer(greeting) as odd:
        pooler = make_pooler(
            pg15,
            databases={"odd": f"host=127.0.0.1 port={odd.port}", "*": f"host={pg15.host} port={pg15.port}"},
            settings={"query_wait_timeout": 3, "server_login_retry": 1, "server_connect_timeout": 1},
            userlist={"postgres": "x"},
        )
        c = pooler.connect(login=False, database="odd")
        c.send(wire.startup(c.startup_parameters()), query("select 1"))
        assert not [m for m in c.read_to_end(8) if m.tag == "D"]
        with pooler.connect() as other:
            assert other.value("select 1", timeout=5) == "1"


@pytest.mark.parametrize(
    "first",
    (
        b"r=%s" + b"x" * 5000 + b",s=QUJD,i=4096",
        b"r=%s,s=QUJD,i=99999999999999999999",
        b"r=%s,s=QUJD,i=0",
        b"r=%s,s=QUJD,i=-1",
        b"r=%s,s=!!!!,i=4096",
        b"r=%s,s=" + b"QUJD" * 5000 + b",i=4096",
        b"r=other,s=QUJD,i=4096",
        b"s=QUJD,i=4096",
        b"",
        b"m=x,r=%s,s=QUJD,i=4096",
    ),
)
def test_odd_scram_server(pg15, make_pooler, first):
    """A server's SCRAM messages with a long nonce, impossible counts, missing fields: given up, no overflow."""
    with ScramServer(first, OK + KEY + READY, SELECT_ONE) as odd:
        pooler = make_pooler(
            pg15,
            databases={"odd": f"host=127.0.0.1 port={odd.port}", "*": f"host={pg15.host} port={pg15.port}"},
            settings={"query_wait_timeout": 3, "server_login_retry": 1, "server_connect_timeout": 1},
            userlist={"postgres": "a password"},
        )
        c = pooler.connect(login=False, database="odd")
        c.send(wire.startup(c.startup_parameters()), query("select 1"))
        # A server that cannot prove that it knows the password is not talked to.
        assert not [m for m in c.read_to_end(8) if m.tag == "D"]
        with pooler.connect() as other:
            assert other.value("select 1", timeout=5) == "1"


def test_shared_secrets_are_those_of_the_clusters():
    assert set(PASSWORDS) >= {"postgres", "alice", "bob", "stats"}


@pytest.mark.beyond_pgbouncer
def test_server_error_before_login_is_not_shown(secured, make_pooler):
    """Server errors are not shown to a client that has not yet proven who it is."""
    pooler = with_auth_query(make_pooler, secured, auth_dbname="no_such_authdb", query_wait_timeout=3)
    with pytest.raises((wire.ServerError, wire.Closed)) as error:
        pooler.connect(user="alice", password="wrong", timeout=10)
    assert "no_such_authdb" not in str(error.value)


def test_rows_of_a_user_with_a_verifier(secured, make_pooler):
    """plain, md5 and SCRAM secrets side by side in one auth_file."""
    pooler = make_pooler(
        secured,
        settings={"auth_type": "md5"},
        userlist={
            "clear": "clear-pw",
            "digest": md5_secret("digest", "digest-pw"),
            "scrambled": secured.psql("select rolpassword from pg_authid where rolname = 'scrambled'"),
        },
    )
    for user in ("clear", "digest", "scrambled"):
        with pooler.connect(user=user, password=f"{user}-pw") as c:
            assert rows_of(c.query("select current_user")) == [(user,)]
