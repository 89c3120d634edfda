"""The same situations before a real PgBouncer 1.26 and before pgweir: what clients hear, and why the log says they end.

Scripts, alerts and log parsers look for PgBouncer's words, so ours begin with them. A situation returns what the client
hears. Where both say the reason of a connection's end in the log (`closing because: ...`), these are compared as well.
Differences that are meant stand in the table with a reason, and in docs/migrating-from-pgbouncer.md.
"""

from __future__ import annotations

import contextlib
import re
import time

import pytest

from harness import wire
from harness.odd_server import SASL, CutServer, OddServer, ScramServer, asks
from harness.pooler import kind
from harness.side_by_side import begins_alike, first_text, missing, read_some
from harness.waiting import eventually
from harness.wire import md5_secret, scram_secret

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

SITUATIONS = {}


def situation(ours: str | None = None, log: bool = True, into: dict | None = None, **named):
    """A situation; `named` as Pooler's. `ours`: our words where they are others, on purpose. `log`: the reasons of closing
    are compared. `into`: where it is noted."""

    def note(run):
        (SITUATIONS if into is None else into)[run.__name__] = (run, named, ours, log)
        return run

    return note


def refusal(pooler, **named) -> str:
    """The message of a login that fails."""
    with pytest.raises((wire.ServerError, wire.Closed)) as error:
        pooler.connect(**named).close()
    return error.value.fields["M"] if isinstance(error.value, wire.ServerError) else "(closed)"


def answer(c, sql) -> str:
    """The first error or notice of a Query."""
    return first_text(c.query(sql))


def last_words(c) -> str:
    """What comes until the end of the connection."""
    return first_text(c.read_to_end(timeout=8))


# -- logins

# A client that logs in hears at once why no server can be had; PgBouncer lets it wait for `client_login_timeout`.
DOWN = {"server_down_wait": 0, "server_login_retry": 1, "client_login_timeout": 3}


@situation(databases={"shop": ""})
def no_such_database(p):
    return refusal(p, database="nosuch")


def refused_login(name: str, method: str, user: str):
    """A situation: a login by this method that fails."""

    def run(p):
        return refusal(p, user=user, password="x")

    run.__name__ = name
    situation(settings={"auth_type": method})(run)


for method, word in (("md5", "md5"), ("scram-sha-256", "scram"), ("plain", "password"), ("trust", "trust")):
    refused_login(f"no_such_user_by_{word}", method, "nobody")
    if method != "trust":
        refused_login(f"wrong_password_by_{word}", method, "alice")


@situation(settings={"auth_type": "hba", "auth_hba_file": "hba"}, files={"hba": "host all bob 127.0.0.1/32 trust\n"})
def no_rule_in_the_hba_file(p):
    return refusal(p, user="alice")


@situation(settings={"auth_type": "hba", "auth_hba_file": "hba"}, files={"hba": "host all all 127.0.0.1/32 reject\n"})
def rejected_by_the_hba_file(p):
    return refusal(p, user="alice")


@situation()
def no_user_in_the_startup_packet(p):
    with p.connect(login=False) as c:
        c.send(wire.startup({"database": "postgres"}))
        return last_words(c)


@situation()
def protocol_2(p):
    with p.connect(login=False) as c:
        c.send(wire.startup({"user": "postgres"}, 2 << 16))
        return last_words(c)


@situation(databases={"*": "{server}", "forced": "{server} user=postgres dbname=postgres"})
def a_user_name_that_is_too_long(p):
    """In whichever database; that of 127 bytes is unknown, no more."""
    told = {refusal(p, user="u" * 128, database=name) for name in ("postgres", "forced", "pgbouncer")}
    return f"{told.pop()} {told} {refusal(p, user='u' * 127, database='forced')}"


@situation(ours='unrecognized configuration parameter "no_such_setting"', log=False)
def an_unknown_startup_parameter(p):
    return refusal(p, options={"no_such_setting": "1"})


@situation(settings={"ignore_startup_parameters": None})
def an_option_that_is_not_a_setting(p):
    return refusal(p, options={"options": "-B 1"})


@situation(
    ours='unrecognized configuration parameter "no_such_setting"',
    log=False,
    settings={"ignore_startup_parameters": None},
)
def an_unknown_setting_in_options(p):
    return refusal(p, options={"options": "-c no_such_setting=1"})


@situation(log=False, settings={"max_client_conn": 2})
def too_many_clients(p):
    held = []
    with contextlib.ExitStack() as stack:
        # The test's own look whether the port answers may still count.
        for _ in range(3):
            try:
                held.append(stack.enter_context(p.connect()))
            except wire.ServerError as error:
                return error.fields["M"]
        return "(none)"


@situation(settings={"max_db_client_connections": 1})
def too_many_clients_of_a_database(p):
    with p.connect():
        return refusal(p)


@situation(settings={"max_user_client_connections": 1})
def too_many_clients_of_a_user(p):
    with p.connect():
        return refusal(p)


@situation()
def a_disabled_database(p):
    with p.connect() as c:
        c.query("select 1")
    p.console("disable postgres")
    return refusal(p)


@situation(settings={"client_login_timeout": 1})
def a_login_that_takes_too_long(p):
    with p.connect(login=False) as c:
        # The beginning of a packet: with tcp_defer_accept a silent connection is not even accepted.
        c.send(b"\0\0\0\x20")
        return last_words(c)


@situation(databases={"*": "{server} dbname=nosuch"})
def a_database_that_the_server_does_not_have(p):
    return refusal(p)


@situation(databases={"*": "{server} user=nosuch"})
def a_user_that_the_server_does_not_have(p):
    return refusal(p)


@situation(
    ours="server login has been failing, cached error: connect failed",
    log=False,
    databases={"*": "host=127.0.0.1 port=1"},
    settings=DOWN,
)
def a_server_that_is_down(p):
    return refusal(p)


@situation(
    ours="server login has been failing, cached error: server DNS lookup failed",
    log=False,
    databases={"*": "host=no.such.host.invalid"},
    settings=DOWN,
)
def a_server_whose_name_is_unknown(p):
    return refusal(p)


@situation(settings={"auth_type": "any"}, databases={"*": "{server}"})
def any_without_a_forced_user(p):
    told = refusal(p)
    p.wait_log("ERROR C-.* auth_type=any requires forced user")
    return told


@situation(
    ours="password authentication failed",
    log=False,
    settings={"auth_type": "plain", "auth_user": "postgres", "auth_dbname": "nosuch"},
    databases={"postgres": "{server}"},
)
def auth_dbname_is_not_configured(p):
    return refusal(p, user="nobody", password="x")


@situation(
    ours="password authentication failed",
    log=False,
    settings={"auth_type": "plain", "auth_user": "postgres", "auth_query": "select nonsense, $1"},
)
def auth_query_that_fails(p):
    return refusal(p, user="nobody", password="x")


def odd_auth_query(name: str, number: int, columns: str):
    """A situation: an auth_query whose rows have other columns. Two of three would let the user in."""

    def run(p):
        told = refusal(p, user="nobody", password="x")
        p.wait_log(f"expected 2 columns from auth_query, not {number}")
        return told

    run.__name__ = name
    settings = {"auth_type": "plain", "auth_user": "postgres", "auth_query": f"select {columns} from (select $1::text) as a (name)"}
    situation(ours="password authentication failed", log=False, settings=settings)(run)


odd_auth_query("auth_query_of_no_column", 0, "")
odd_auth_query("auth_query_of_one_column", 1, "name")
odd_auth_query("auth_query_of_three_columns", 3, "name, 'x', 'more'")


@situation(databases={"*": "{server} connect_query='select nonsense'"})
def connect_query_that_fails(p):
    with p.connect() as c:
        return c.value("select 'served'")


@situation(databases={"*": "{server}"}, settings={"default_pool_size": 2})
def a_server_that_refuses_a_second_login(p):
    """The role may have one connection, and the pool has had a server."""
    p.cluster.psql("drop role if exists refused_later; create role refused_later login connection limit 1")
    p.write_userlist({"refused_later": "x", "postgres": "x"})
    p.console("reload")
    with p.connect(user="refused_later") as c, p.connect(user="refused_later") as other:
        c.query("begin; select 1")
        other.send(wire.query("select 1"))
        p.wait_log("login failed: .*too many connections")
    return "(not compared)"


def odd_login(name: str, secret: str, make_server):
    """A situation: a server that cannot be logged in to with this secret."""

    def run(p):
        with make_server() as odd:
            p.databases["odd"] = f"host=127.0.0.1 port={odd.port}"
            p.reload()
            return refusal(p, database="odd")

    run.__name__ = name
    situation(userlist={"postgres": secret})(run)


ASKS_MD5, ASKS_SCRAM = asks(5, b"salt"), asks(SASL, b"SCRAM-SHA-256\0\0")
odd_login("a_server_that_asks_for_md5_where_the_secret_is_scram", scram_secret("x"), lambda: OddServer(ASKS_MD5))
odd_login(
    "a_server_that_asks_for_scram_where_the_secret_is_md5", md5_secret("postgres", "x"), lambda: OddServer(ASKS_SCRAM)
)
odd_login("a_server_with_no_mechanism_that_is_known", "x", lambda: OddServer(asks(SASL, b"OTHER\0\0")))
odd_login("a_server_that_does_not_know_the_password", "x", lambda: ScramServer(b"r=%s,s=QUJD,i=4096"))


@situation(settings={"client_tls_sslmode": "disable"})
def cancel_with_a_key_that_nobody_has(p):
    with wire.open_socket("127.0.0.1", p.port) as s:
        s.sendall(wire.cancel_request(1, b"abcd"))
        return str(s.recv(100))


# -- in a session


@situation(mode="statement")
def a_block_in_statement_pooling(p):
    with p.connect() as c:
        c.send(wire.query("begin"))
        return last_words(c)


@situation(settings={"query_timeout": 0.5})
def a_query_that_takes_too_long(p):
    with p.connect() as c:
        c.send(wire.query("select pg_sleep(5)"))
        return last_words(c)


@situation(settings={"idle_transaction_timeout": 0.5})
def idle_in_a_transaction(p):
    with p.connect() as c:
        c.query("begin; select 1")
        return last_words(c)


@situation(settings={"transaction_timeout": 0.5})
def a_transaction_that_takes_too_long(p):
    with p.connect() as c:
        c.query("begin; select 1")
        c.send(wire.query("select pg_sleep(5)"))
        return last_words(c)


@situation(settings={"client_idle_timeout": 0.5})
def an_idle_client(p):
    with p.connect() as c:
        c.query("select 1")
        return last_words(c)


@situation(settings={"default_pool_size": 1, "query_wait_timeout": 0.5})
def a_wait_for_a_server_that_takes_too_long(p):
    with p.connect() as holder, p.connect() as c:
        holder.query("begin; select 1")
        c.send(wire.query("select 1"))
        return last_words(c)


@situation(settings={"default_pool_size": 1, "query_wait_notify": 1})
def a_client_that_waits_is_told(p):
    with p.connect() as holder, p.connect() as c:
        holder.query("begin; select 1")
        c.send(wire.query("select 1"))
        return c.read(5).fields["M"]


@situation()
def a_server_that_ends_in_a_query(p):
    with p.connect() as c:
        c.send(wire.query("select pg_terminate_backend(pg_backend_pid())"))
        return last_words(c)


@situation()
def a_server_that_ends_in_a_transaction(p):
    with p.connect() as c:
        c.query("begin")
        pid = c.value("select pg_backend_pid()")
        p.cluster.psql(f"select pg_terminate_backend({pid})")
        return last_words(c)


# libpq says this of a server that ends without a word, and drivers look for it. The log has PgBouncer's words.
@situation(ours="server closed the connection unexpectedly")
def a_server_that_crashes(p):
    with CutServer(p.cluster) as server:
        p.databases["cut"] = f"host=127.0.0.1 port={server.port} dbname=postgres"
        p.reload()
        with p.connect(database="cut") as c:
            c.query("begin; select 1")
            server.cut()
            return last_words(c)


@situation(ours='prepared statement "missing" does not exist', log=False)
def a_statement_that_was_not_prepared(p):
    with p.connect() as c:
        c.send(wire.bind("", "missing"), wire.execute(), wire.sync())
        return first_text(read_some(c))


@situation()
def the_client_breaks_the_protocol(p):
    with p.connect() as c:
        c.send(wire.message("?", b"nonsense"))
        return last_words(c)


@situation(ours="bad packet header", log=False, settings={"max_packet_size": 1000})
def a_packet_that_is_too_long(p):
    with p.connect() as c:
        c.send(wire.query("select '" + "x" * 5000 + "'"))
        return last_words(c)


@situation(settings={"max_packet_size": 1000})
def a_row_that_is_too_long(p):
    with p.connect() as c:
        c.send(wire.query("select repeat('x', 5000)"))
        return last_words(c)


# -- the operator


@situation()
def killed_by_kill(p):
    with p.connect() as c:
        c.query("select 1")
        p.console("kill postgres")
        return last_words(c)


@situation()
def killed_by_kill_client(p):
    with p.connect() as c:
        c.query("select 1")
        number = next(r for r in p.console("show clients") if r["database"] == "postgres")
        p.console("kill_client " + (number["id"] if "id" in number else number["ptr"]))
        return last_words(c)


@situation()
def the_database_is_removed(p):
    p.databases["other"] = p.server(dbname="postgres")
    p.reload()
    with p.connect(database="other") as c:
        c.query("select 1")
        del p.databases["other"], p.databases["*"]
        p.databases["third"] = p.server()
        p.reload()
        return last_words(c)


@situation()
def the_console_for_others(p):
    return refusal(p, user="alice", database="pgbouncer")


def normal(text: str) -> str:
    """What is compared of a text: numbers and addresses of this run are left out."""
    return re.sub(r"\d+", "N", text)


# Lines about clients that log parsers look for, without `(age=..)`.
LINES = (r"closing because: (.*?)(?: \(age=|$)", r"(pooler error: .*)", r".*(no such user: .*)", r"(login attempt: .*)", r"(unknown pkt from client: .*)")


# Lines about servers; lines about none in particular begin with `S: `.
SERVER_LINES = (
    r"S-0x[0-9a-f]+: [^@]*@\S+ (closing because: .*?)(?: \(age=|$)",
    r"S-0x[0-9a-f]+: [^@]*@\S+ (cannot .*|none of .*|invalid .*)",
    r"(S: .*)",
    r"(server login failed: .*)",
    r"S-0x[0-9a-f]+: [^@]*@\S+ (got packet 'E' .*)",
)


# Where PgBouncer closes a server and pgweir keeps it.
KEPT = {
    "closing because: bad pkt header",
    "closing because: client disconnect while server was not ready",
    "closing because: error response from auth_query",
    "closing because: expected N columns from auth_query, not N",
    "closing because: transaction blocks not allowed in statement pooling mode",
    # It sends cancel requests over connections that it counts among its servers.
    "closing because: successfully sent cancel request",
}


def reasons(pooler) -> list[str]:
    """What the log says of clients, kind by kind and in order: why they end, what they hear, how they log in."""
    texts = re.findall(r"C-0x[0-9a-f]+: [^@]*@\S+ (.*)", pooler.log())
    return [normal(m.group(1)) for line in LINES for m in (re.match(line, text) for text in texts) if m]


def of_servers(pooler) -> list[str]:
    """What the log says of servers: why they end, why they cannot be logged in to."""
    texts = [text.partition(f" {level} ")[2] for text in pooler.log().splitlines() for level in ("LOG", "WARNING", "ERROR")]
    return [normal(m.group(1)) for line in SERVER_LINES for m in (re.match(line, text) for text in texts) if m]


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_a_client_hears(pg15, make_pooler, name):
    compare(pg15, make_pooler, name, SITUATIONS[name])


def compare(pg15, make_pooler, name: str, situation: tuple) -> None:
    """Runs a situation before both poolers."""
    run, named, meant, compares_log = situation
    named = dict(named)
    files = named.pop("files", {})
    heard, logged, servers = [], [], []
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(pg15, start=False, which=which, **named)
        pooler.databases = {k: v.replace("{server}", pooler.server()) or pooler.server() for k, v in pooler.databases.items()}
        if which == "pgbouncer":
            pooler.settings.pop("server_down_wait", None)
        for file, content in files.items():
            pooler.write_file(f"{pooler.dir}/{file}", content)
        pooler.write_ini()
        pooler.start()
        heard.append(run(pooler))
        with contextlib.suppress(AssertionError):
            eventually(lambda: reasons(pooler), timeout=0.3, what="a reason in the log")
        time.sleep(0.05)
        logged.append(reasons(pooler))
        servers.append(of_servers(pooler))
    theirs, ours = heard
    print(f"{name}\n  theirs: {theirs}\n  ours:   {ours}\n  log:\n    {logged[0]}\n    {logged[1]}")
    print(f"  of servers:\n    {servers[0]}\n    {servers[1]}")
    assert begins_alike(meant or theirs, ours)
    if compares_log:
        assert not missing(*logged)
    # A server that cannot be reached is tried at other times.
    assert not missing(sorted(set(servers[0]) - KEPT), servers[1])
