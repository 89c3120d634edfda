"""Behind and in front of other poolers: pgweir > PgBouncer, pgweir > pgweir, pgweir > a console, PgBouncer > pgweir."""

import psycopg
import pytest

from harness import wire
from harness.between import PLUS, Between
from harness.logins import refused
from harness.pooler import kind
from harness.side_by_side import read_some
from harness.waiting import eventually
from test_tls import client_leg

# The pooler below: which, its pool_mode, and its max_prepared_statements.
BELOW = {
    "pgbouncer-session": ("pgbouncer", "session", 200),
    "pgbouncer-transaction": ("pgbouncer", "transaction", 200),
    "pgbouncer-transaction-unprepared": ("pgbouncer", "transaction", 0),
    "pgweir-session": ("pgweir", "session", 200),
    "pgweir-transaction": ("pgweir", "transaction", 200),
}

SERVERS = 2
ANOTHER_POOLER = "the server is another pooler"

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="chains name their poolers themselves")


@pytest.fixture(params=BELOW.values(), ids=BELOW.keys())
def below(request, pg15, make_pooler):
    """A pooler with two servers, for another to stand in front of."""
    which, mode, prepared = request.param
    settings = {"default_pool_size": SERVERS, "max_prepared_statements": prepared}
    return make_pooler(pg15, mode=mode, settings=settings, which=which)


def in_front_of(make_pooler, below, which="pgweir", **settings):
    """A pooler whose server is another pooler, in transaction pooling."""
    databases = {
        "admin": f"host=127.0.0.1 port={below.port} dbname=pgbouncer user=postgres",
        "*": f"host=127.0.0.1 port={below.port}",
    }
    return make_pooler(None, databases=databases, settings={"default_pool_size": SERVERS, **settings}, which=which)


def lives(c, style, shown):
    """Statements of every kind, by a client that has its own DateStyle."""
    assert c.value("select '2020-02-03'::date::text") == shown
    c.query("begin")
    first = c.value("select pg_backend_pid()")
    assert c.value("select pg_backend_pid()") == first, "a transaction has one session"
    c.query("commit")
    assert wire.rows_of(c.extended("select $1::text", [style])) == [(style,)]
    c.send(wire.close("S", "s"), wire.parse("s", f"select $1::text || ' {style}'"), wire.sync())
    c.read_ready()
    for value in ("a", "b"):
        c.send(wire.bind("", "s", [value]), wire.execute(), wire.sync())
        assert wire.rows_of(c.read_ready()) == [(f"{value} {style}",)]
    assert wire.error_codes(c.query("select 1/0")) == ["22012"]


STYLES = {"ISO, MDY": "2020-02-03", "German, DMY": "03.02.2020", "SQL, MDY": "02/03/2020"}


def test_clients_live_behind_two_poolers(below, make_pooler):
    """More clients than servers, each with a DateStyle of its own that it made at its start."""
    above = in_front_of(make_pooler, below)
    clients = [(above.connect(options={"datestyle": style}), style) for style in STYLES]
    for _ in range(4):
        for c, style in clients:
            lives(c, style, STYLES[style])
    assert above.log().count(ANOTHER_POOLER) == 1
    for c, _ in clients:
        c.close()


RESETS = {"server_reset_query": "DISCARD ALL", "server_reset_query_always": 1}


@pytest.mark.parametrize(("which", "mechanism"), [("pgweir", PLUS), ("pgbouncer", b"SCRAM-SHA-256")])
def test_a_pooler_below_that_resets_and_binds(pg15, certificates, make_pooler, which, mechanism):
    """Both poolers reset their servers after each transaction; the way between them is bound to the certificate, where the
    lower one offers that."""
    pair = certificates.server
    leg = client_leg(certificates, "require", client_tls_cert_file=pair.certificate, client_tls_key_file=pair.key)
    settings = {"default_pool_size": SERVERS, "auth_type": "scram-sha-256", **leg, **RESETS}
    below = make_pooler(pg15, mode="transaction", settings=settings, which=which)
    with Between(pair, below.host, below.port) as between:
        above = in_front_of(make_pooler, between, server_tls_sslmode="require", **RESETS)
        clients = [(above.connect(options={"datestyle": style}), style) for style in STYLES]
        for _ in range(4):
            for c, style in clients:
                lives(c, style, STYLES[style])
        assert set(between.mechanisms) == {mechanism}
        for c, _ in clients:
            c.close()


def test_a_setting_made_on_the_way_stays_with_its_client(below, make_pooler):
    """What every pooler keeps for its clients; while one client holds a server, the others change places."""
    above = in_front_of(make_pooler, below)
    with above.connect() as a, above.connect() as b, above.connect() as c:
        a.query("set datestyle to german")
        b.query("set timezone to 'Asia/Tokyo'")
        for _ in range(3):
            c.query("begin")
            assert c.value("show datestyle") == "ISO, MDY" and c.value("show timezone") != "Asia/Tokyo"
            assert a.value("show datestyle") == "German, DMY" and a.value("show timezone") != "Asia/Tokyo"
            assert b.value("show datestyle") == "ISO, MDY" and b.value("show timezone") == "Asia/Tokyo"
            c.query("rollback")


@pytest.mark.parametrize("below_pools", ["session", "transaction", "statement"])
@pytest.mark.parametrize("above_pools", ["session", "statement"])
def test_session_and_statement_pooling(pg15, make_pooler, above_pools, below_pools):
    """pgweir > PgBouncer, and pgweir > pgweir, where one of them does not pool by transactions."""
    for which in ("pgbouncer", "pgweir"):
        below = make_pooler(pg15, mode=below_pools, settings={"default_pool_size": SERVERS}, which=which)
        above = in_front_of(make_pooler, below, pool_mode=above_pools)
        with above.connect(options={"datestyle": "German, DMY"}) as a, above.connect() as b:
            pids = set()
            for c, shown in 3 * ((a, "03.02.2020"), (b, "2020-02-03")):
                assert c.value("select '2020-02-03'::date::text") == shown, which
                assert wire.rows_of(c.extended("select $1::text", ["x"])) == [("x",)], which
                assert wire.error_codes(c.query("select 1/0")) == ["22012"], which
                pids.add((c, c.value("select pg_backend_pid()")))
            if (above_pools, below_pools) == ("session", "session"):
                assert len(pids) == 2, "a session has one server"
            a.send(wire.query("begin"))
            messages = read_some(a)
            if "statement" in (above_pools, below_pools):
                assert wire.first_error(messages).fields["M"] == "transaction blocks not allowed in statement pooling mode"
            else:
                assert messages[-1].body == b"T"
            assert b.value("select 2") == "2", which


def test_what_would_reach_other_clients_is_refused(below, make_pooler):
    """A startup parameter that the pooler below does not keep: made on its server, it would be the next client's."""
    above = in_front_of(make_pooler, below)
    with above.connect() as first:
        path = first.value("show search_path")
        error = refused(above, options={"search_path": "secret"})
        assert error.fields["M"].startswith("unsupported startup parameter: search_path")
        for _ in range(SERVERS * 2):
            assert first.value("show search_path") == path


@pytest.mark.parametrize("state", ["full", "pgbouncer"])
def test_a_console_below(below, make_pooler, state):
    """Its commands arrive, errors pass, and nothing else is said to it."""
    above = in_front_of(make_pooler, below, session_state=state, server_check_delay=0)
    for name in ("one", "two"):
        with above.connect(database="admin", options={"application_name": name, "datestyle": "German"}) as c:
            for _ in range(2):
                names = [m.columns for m in c.query("show pools") if m.tag == "T"][0]
                assert names[0][0] == "database"
                assert wire.first_error(c.query("show nothing")) is not None
    with psycopg.connect(above.dsn(dbname="admin"), autocommit=True, cursor_factory=psycopg.ClientCursor) as c:
        assert c.execute("show version").fetchone()
    assert "set_config" not in below.log() and "extended" not in below.log()


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_pgbouncer_in_front(pg15, make_pooler, mode):
    """pgweir is PostgreSQL to a PgBouncer: pools of both kinds, settings, prepared statements, the console."""
    below = make_pooler(pg15, settings={"default_pool_size": SERVERS})
    above = in_front_of(make_pooler, below, which="pgbouncer", pool_mode=mode, default_pool_size=4)
    clients = [(above.connect(options={"datestyle": style}), style) for style in STYLES]
    for _ in range(3):
        for c, style in clients:
            lives(c, style, STYLES[style])
    for c, _ in clients:
        c.close()
    with above.connect(database="admin") as c:
        assert c.query("show version")[-1].tag == "Z"


def test_a_pooler_gives_way_to_postgresql(pg15, make_pooler):
    """Found out again when the servers are new: the entry leads to PostgreSQL itself after a RELOAD."""
    below = make_pooler(pg15, which="pgbouncer")
    above = in_front_of(make_pooler, below, default_pool_size=1)
    with above.connect() as c:
        assert c.value("select 1") == "1"
        above.databases["*"] = f"host=127.0.0.1 port={pg15.port}"
        above.reload()
        c.query("set work_mem = '7MB'")
        with above.connect() as other:
            assert other.value("show work_mem") != "7MB"
            assert c.value("show work_mem") == "7MB", "the session is kept"
    assert above.log().count(ANOTHER_POOLER) == 1


def test_postgresql_that_refuses_the_first_question_is_no_console(pg15, make_pooler):
    """A time limit of the role ends the pooler's first question, which waits for a lock. PostgreSQL counted as a
    pooler's console from then on: clients of the pool got each other's settings, search_path and temporary tables."""
    pg15.psql(
        "do $$begin create role hurried login; exception when duplicate_object then null; end$$;"
        "alter role hurried set statement_timeout = '300ms'"
    )
    pooler = make_pooler(
        pg15, settings={"default_pool_size": 1, "auth_type": "trust"}, userlist={"hurried": "", "postgres": ""}
    )
    locks = wire.Connection(port=pg15.port, user="postgres", database="postgres")
    locks.query("begin; lock table pg_catalog.pg_proc in access exclusive mode")
    first = wire.Connection(port=pooler.port, user="hurried", database="postgres", login=False)
    first.send(wire.startup(first.startup_parameters()))
    eventually(lambda: "it is not known whether the server is PostgreSQL" in pooler.log())
    locks.query("rollback")
    locks.close()
    first.close()

    def logs_in():
        try:
            return pooler.connect(user="hurried")
        except wire.ServerError:
            return None

    a = eventually(logs_in)
    a.query("set app.tenant = 'a'; set search_path = tenant_a")
    with pooler.connect(user="hurried") as b:
        look = "select coalesce(current_setting('app.tenant', true), ''), current_setting('search_path')"
        assert b.rows(look) == [("", '"$user", public')]
        b.query("set search_path = tenant_b")
    assert a.rows(look) == [("a", "tenant_a")]
    assert "the console of a pooler" not in pooler.log()
    a.close()
