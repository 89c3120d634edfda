"""Logging in and running statements, in each pool mode."""

import pytest

from harness import wire
from harness.pooler import kind

MODES = ("session", "transaction", "statement")


@pytest.mark.parametrize("mode", MODES)
def test_simple_query(pg, make_pooler, mode):
    with make_pooler(pg, mode=mode).connect() as c:
        assert c.rows("select 1, null, 'x'") == [("1", None, "x")]
        assert wire.tags(c.query("")) == "IZ"
        assert wire.tags(c.query("select 1; select 2")) == "TDCTDCZ"


@pytest.mark.parametrize("mode", MODES)
def test_extended_query(pg, make_pooler, mode):
    with make_pooler(pg, mode=mode).connect() as c:
        messages = c.extended("select $1::int + 1", ["41"])
        assert wire.tags(messages) == "12TDCZ"
        assert wire.rows_of(messages) == [("42",)]


@pytest.mark.parametrize("mode", MODES)
def test_error_leaves_the_connection_usable(pg, make_pooler, mode):
    with make_pooler(pg, mode=mode).connect() as c:
        assert wire.error_codes(c.query("select 1/0")) == ["22012"]
        assert wire.error_codes(c.extended("select 1/$1::int", ["0"])) == ["22012"]
        assert c.value("select 7") == "7"


@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_transaction(pg, make_pooler, mode):
    with make_pooler(pg, mode=mode).connect() as c:
        for sql, status in (
            ("begin", b"T"),
            ("select 1", b"T"),
            ("select 1/0", b"E"),
            ("select 1", b"E"),
            ("rollback", b"I"),
            ("begin", b"T"),
            ("select txid_current()", b"T"),
            ("commit", b"I"),
        ):
            assert c.query(sql)[-1].body == status, sql


@pytest.mark.beyond_pgbouncer
def test_login_reports_what_postgresql_reports(pg, make_pooler):
    pooler = make_pooler(pg)
    with wire.Connection(port=pg.port) as direct, pooler.connect() as pooled:
        # PostgreSQL 18's own later additions, too.
        assert pooled.parameters == direct.parameters
        assert pooled.process_id and len(pooled.secret_key) == 4
        assert wire.tags(pooled.login_messages).strip("S").replace("S", "") in ("RKZ", "RZ")


def test_ssl_and_gssenc_requests_are_answered(pg15, make_pooler):
    pooler = make_pooler(pg15)
    if kind() == "direct":
        pytest.skip("a PostgreSQL built with GSSAPI may say G")
    for first in (wire.SSL_REQUEST, wire.GSSENC_REQUEST):
        c = pooler.connect(login=False)
        c.socket.sendall(b"\0\0\0\x08" + first.to_bytes(4, "big"))
        assert c.socket.recv(10) == b"N"
        c.login()
        assert c.value("select 1") == "1"
        c.close()


def test_unix_and_tcp_on_both_sides(pg15, make_pooler):
    if kind() == "direct":
        pytest.skip("there is no pooler")
    unix_server = f"host={pg15.socket_dir} port={pg15.port}"
    tcp_server = f"host=127.0.0.1 port={pg15.port}"
    pooler = make_pooler(pg15, databases={"*": tcp_server, "u": f"dbname=postgres {unix_server}"})
    for host in (pooler.host, pooler.dir):
        with pooler.connect(host=host) as c:
            assert c.value("select inet_server_addr() is not null") == "t"
        with pooler.connect(host=host, database="u") as c:
            assert c.value("select inet_server_addr() is null") == "t"


def test_user_without_database_gets_the_database_of_the_users_name(pg15, make_pooler):
    with make_pooler(pg15).connect(user="postgres", database=None) as c:
        assert c.value("select current_database()") == "postgres"


def test_protocol_2_is_refused(pg15, make_pooler):
    c = make_pooler(pg15).connect(login=False)
    c.send(wire.startup({"user": "postgres"}, protocol=2 << 16))
    try:
        reply = c.read()
    except wire.Closed:
        return
    assert reply.tag == "E" and c.closed()
