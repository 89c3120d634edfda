"""Settings and notifications beyond ASCII, where the client's encoding is not the database's.

PostgreSQL takes the bytes of a startup packet as they are, and converts everything else between client_encoding and
server_encoding. Read in the wrong encoding, the name of one schema is the name of another one.
"""

import itertools

import pytest

from harness import wire
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about sessions that share servers")

ONE_SERVER = {"default_pool_size": 1, "ignore_startup_parameters": "none", "query_wait_timeout": 10}

# The second one is what LATIN1 makes of the bytes of the first one.
OWN, ANOTHERS = "ü", "Ã¼"

# ASCII only, and without conversion: the bytes that the session has.
WHERE = (
    "select encode(convert_to(current_setting('search_path'), getdatabaseencoding()), 'hex'),"
    " encode(convert_to(coalesce(current_setting('app.tenant', true), ''), getdatabaseencoding()), 'hex'),"
    " encode(current_user::text::bytea, 'hex'), current_setting('client_encoding'), (select whose from \"table of tenants\")"
)


@pytest.fixture(scope="module")
def tenants(pg):
    """A database with two schemas and roles whose names differ by their encoding."""
    pg.psql("drop database if exists tenants with (force)")
    for name in (OWN, ANOTHERS):
        pg.psql(f'do $$begin create role "{name}"; exception when duplicate_object then null; end$$')
    pg.psql("create database tenants encoding 'UTF8' locale 'C' template template0")
    for name, whose in ((OWN, "own"), (ANOTHERS, "another''s")):
        pg.psql(
            f'create schema "{name}"; create table "{name}"."table of tenants" (whose) as select \'{whose}\'::text;'
            f' grant usage on schema "{name}" to public; grant select on "{name}"."table of tenants" to public',
            dbname="tenants",
        )
    yield pg
    pg.psql("drop database tenants with (force)")


def both(pg, pooler):
    """A function that runs a script on a direct connection and on a pooled one, and returns the answers of both."""

    def run(script, options=None):
        answers = []
        for port in (pg.port, pooler.port):
            with (
                wire.Connection(database="tenants", port=port) as passing,
                wire.Connection(database="tenants", port=port, options=options) as client,
            ):
                heard = []
                for text in script:
                    # Another client has the server in between.
                    passing.query("select 1")
                    # Which bytes a ParameterStatus of pgweir's has is another question.
                    heard.append([wire.text(m) for m in client.query(text) if m.tag != "S"])
                answers.append(heard)
        return answers

    return run


STARTUP = {"search_path": OWN, "options": f"-c app.tenant={OWN} -c role={OWN}"}


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1", "SQL_ASCII", "LATIN9", "WIN1252"])
def test_the_bytes_of_a_startup_packet_are_not_converted(tenants, make_pooler, encoding):
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    run = both(tenants, pooler)
    direct, pooled = run([WHERE, WHERE], {"client_encoding": encoding, **STARTUP})
    assert direct == pooled
    assert "own" in direct[0][1]


@pytest.mark.parametrize("back", ["reset all", "discard all", "reset search_path", "reset app.tenant", "reset client_encoding",
                                  "do $$begin reset search_path; end$$", "set search_path = default",
                                  "set client_encoding = 'WIN1252'; reset search_path"])  # fmt: skip
@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1"])
def test_a_reset_returns_to_the_bytes_of_the_startup_packet(tenants, make_pooler, encoding, back):
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    run = both(tenants, pooler)
    script = [WHERE, "set search_path = public", "set app.tenant = 'x'", "set client_encoding = 'LATIN1'", back, WHERE, WHERE]
    direct, pooled = run(script, {"client_encoding": encoding, **STARTUP})
    assert direct[-2:] == pooled[-2:]


@pytest.mark.parametrize("first, second", list(itertools.permutations(["UTF8", "LATIN1", "WIN1252"], 2)))
def test_a_setting_keeps_its_meaning_when_the_encoding_changes(tenants, make_pooler, first, second):
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    run = both(tenants, pooler)

    def within(encoding, text):
        return text.encode({"UTF8": "utf-8", "LATIN1": "latin-1", "WIN1252": "cp1252"}[encoding])

    script = [
        f"set client_encoding = '{first}'",
        within(first, f"set search_path = '{OWN}'"),
        within(first, f"set app.tenant = '{OWN}'"),
        WHERE,
        f"set client_encoding = '{second}'",
        WHERE,
        "show search_path",
        within(second, f"set app.tenant = '{ANOTHERS}'"),
        WHERE,
        f"set client_encoding = '{first}'",
        "show app.tenant",
        WHERE,
    ]
    direct, pooled = run(script)
    assert direct == pooled
    assert pooler.console("SHOW PINS") == []


def test_several_settings_of_one_query_change_with_the_encoding(tenants, make_pooler):
    """The server reports a search_path before it reports in which encoding it does so (PostgreSQL 18)."""
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    run = both(tenants, pooler)
    script = [
        f"set search_path = '{ANOTHERS}'; set client_encoding = 'LATIN1'",
        WHERE,
        f"set client_encoding = 'UTF8'; set search_path = '{OWN}'",
        WHERE,
        f"set session authorization '{OWN}'; set client_encoding = 'LATIN1'",
        "reset search_path; select current_user::text::bytea",
        "select current_user::text::bytea",
        "set client_encoding = 'UTF8'; select session_user",
        "select session_user",
    ]
    direct, pooled = run(script)
    assert [d[-3:] for d in direct] == [p[-3:] for p in pooled]


def test_a_character_that_the_encoding_lacks_pins_nobody(tenants, make_pooler):
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    run = both(tenants, pooler)
    length = "select octet_length(current_setting('app.tenant'))"
    script = ["set app.tenant = '€'", "set client_encoding = 'LATIN1'", length, "show app.tenant", "set app.other = '1'", length]
    direct, pooled = run(script)
    assert direct == pooled
    assert pooler.console("SHOW PINS") == []


def test_a_statement_is_prepared_again_under_a_path_beyond_ascii(tenants, make_pooler):
    """On another server, with the path and the encoding that the client had when it prepared the statement."""
    pooler = make_pooler(tenants, settings={**ONE_SERVER, "default_pool_size": 2})
    answers = []
    for port in (tenants.port, pooler.port):
        options = {"client_encoding": "LATIN1", "search_path": OWN}
        with wire.Connection(database="tenants", port=port, options=options) as client:
            client.send(wire.parse("s", "select 'x' || current_setting('client_encoding')"), wire.sync())
            client.read_ready()
            client.query("set client_encoding = 'UTF8'")
            client.query("set search_path = '€'")
            client.query("set client_encoding = 'LATIN1'")
            with wire.Connection(database="tenants", port=port) as holder:
                holder.query("begin")
                holder.query("select 1")
                client.send(wire.bind(statement="s"), wire.execute(), wire.sync())
                answers.append([wire.text(m) for m in client.read_ready()])
                answers[-1] += [wire.text(m) for m in client.query(WHERE)]
                holder.query("rollback")
    assert answers[0] == answers[1]


LOCKED = "select l.relation::regclass::text::bytea from pg_locks l where mode = 'AccessExclusiveLock' and pid = pg_backend_pid()"

TENANT = "select encode(convert_to(current_setting('app.tenant'), getdatabaseencoding()), 'hex')"

# A statement, and what is asked behind it.
FIRST = [
    (f"set app.tenant = '{OWN}'", TENANT),
    (f"set search_path = '{OWN}'", WHERE),
    ("set app.tenant = E'\\303\\274'", TENANT),
    (f'set role "{OWN}"', WHERE),
    (f'lock table "{OWN}"."table of tenants"', LOCKED),
    (f'savepoint "{OWN}"', f"rollback to savepoint \"{OWN}\"".encode("latin-1")),
    (f'vacuum "{OWN}"."only here{OWN}"', "select 1"),
    (f'reindex table "{OWN}"."only here{OWN}"', "select 1"),
    ("set transaction isolation level serializable", "show transaction_isolation"),
    ("discard all", "show search_path"),
]


@pytest.mark.parametrize("behind", ["nothing", "a Parse"])
@pytest.mark.parametrize("text, question", FIRST)
def test_a_statement_without_snapshot_is_prepared_again_in_its_encoding(tenants, make_pooler, text, question, behind):
    """SET, LOCK and their like usually get nothing in front of them in their transaction."""
    tenants.psql(f'create table if not exists "{OWN}"."only here{OWN}" ()', dbname="tenants")
    pooler = make_pooler(tenants, settings=ONE_SERVER)
    answers = []
    for port in (tenants.port, pooler.port):
        with wire.Connection(database="tenants", port=port, options={"client_encoding": "UTF8"}) as client:
            client.send(wire.parse("s", text), wire.sync())
            client.read_ready()
            # A text that shows no name of the new encoding.
            client.query("do $$begin perform set_config('client_encoding', 'LATIN1', false); end$$")
            if port == pooler.port:
                another_server(tenants, client)
            if text.startswith(("lock", "savepoint", "set transaction")):
                client.query("begin")
            before = [wire.parse("", "select 1")] if behind == "a Parse" else []
            client.send(*before, wire.bind(statement="s"), wire.execute(), wire.sync())
            heard = [wire.text(m) for m in client.read_ready() if m.tag != "S"]
            heard += [wire.text(m) for m in client.query(question) if m.tag != "S"]
            answers.append(heard)
    if text.startswith("vacuum") and before:
        # What sets the encoding stands in front of VACUUM in the same segment. It must not vacuum another table.
        assert "C='25001'" in answers[1][1 + len(before)]
    else:
        assert answers[0] == answers[1]


def another_server(pg, client):
    """The client's next transaction runs on a new server."""
    first = client.value("select pg_backend_pid()")
    pg.psql(f"select pg_terminate_backend({first}, 5000)")
    assert client.value("select pg_backend_pid()") != first


ENCODINGS = ("LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 ISO_8859_5 ISO_8859_6 ISO_8859_7"
             " ISO_8859_8 KOI8R KOI8U WIN866 WIN874 WIN1250 WIN1251 WIN1252 WIN1253 WIN1254 WIN1255 WIN1256 WIN1257 WIN1258")  # fmt: skip

# The list of crates/sql/src/encodings.rs.
WHOLE = set("LATIN1 LATIN2 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 ISO_8859_5 KOI8R KOI8U WIN866 WIN1256".split())


def test_which_encodings_are_whole_in_unicode(pg):
    """A listener for UTF8 in a database with one of these encodings never fails to convert a payload."""
    with wire.Connection(port=pg.port) as client:
        for encoding in ENCODINGS.split():
            texts = [f"select convert('\\x{byte:02x}', '{encoding}', 'UTF8')" for byte in range(128, 256)]
            is_whole = not any(wire.first_error(client.query(text)) for text in texts)
            assert is_whole == (encoding in WHOLE), encoding


# ---- notifications


def notified(client, seconds=0.5):
    """The payloads that come within this time, and a word for the end of the connection."""
    heard = []
    try:
        while True:
            message = client.read(seconds)
            if message.tag == "A":
                heard.append(message.body[4:].split(b"\0")[1])
    except wire.NoReply:
        pass
    except wire.Closed:
        heard.append("closed")
    return heard


def exchange_of_notifications(connect):
    """What two clients with client_encoding LATIN1 hear; the payloads on one's channel are not in LATIN1."""
    with connect() as good, connect() as evil, connect() as sender:
        for client, channel in ((good, "good"), (evil, "evil")):
            client.query("set client_encoding = 'latin1'")
            client.query(f"listen {channel}")
        # Time to move to a listener.
        sender.query("select pg_sleep(0.5)")
        for number in range(3):
            sender.query(f"begin; notify good, 'a{number}'; notify evil, '€'; notify good, 'ü{number}'; commit")
        sender.query("notify good, 'last'")
        return notified(good), notified(evil)[-1:]


def test_a_payload_that_one_encoding_lacks_is_lost_by_nobody_else(pg, make_pooler):
    pooler = make_pooler(pg, settings={"default_pool_size": 3})
    direct = exchange_of_notifications(lambda: wire.Connection(port=pg.port))
    pooled = exchange_of_notifications(pooler.connect)
    assert direct == pooled
    assert pooled[0][-1] == b"last" and len(pooled[0]) == 7
    assert "lost" not in pooler.log()


def test_who_takes_the_encoding_of_the_database_shares_a_listener_again(pg, make_pooler):
    pooler = make_pooler(pg, settings={"default_pool_size": 1})
    with pooler.connect(options={"client_encoding": "LATIN1"}) as client:
        client.query("listen news")
        eventually(lambda: [row["reason"] for row in pooler.console("SHOW PINS")] == ["listening"], what="a pin")
        client.query("set client_encoding = 'UTF8'")
        eventually(lambda: pooler.console("SHOW PINS") == [], what="the listener has its channels")
        with pooler.connect() as other:
            other.query("notify news, 'ü'")
        assert notified(client) == ["ü".encode()]
