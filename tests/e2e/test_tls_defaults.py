"""TLS to servers where the configuration says nothing about it: the harness sets `disable` for the other tests."""

from __future__ import annotations

import pytest
from harness import wire
from harness.odd_server import OddServer
from harness.pooler import kind

from test_tls import cluster_with

pytestmark = pytest.mark.skipif(kind() == "direct", reason="there is no pooler")

# An entry that is None is left out of the file.
NOTHING_SAID = {"server_tls_sslmode": None}

# What a client asks first that wants TLS.
SSL_REQUEST = b"\0\0\0\x08\x04\xd2\x16\x2f"

# Some send it when they give up.
TERMINATE = b"X\0\0\0\x04"


def by_tls(pooler, database: str) -> str | None:
    """What the server says about its connection with the pooler."""
    with pooler.connect(database=database) as c:
        return c.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()")


def test_tls_is_used_where_the_server_has_it(pg15, certificates, make_pooler):
    with_tls = cluster_with(15, certificates.server)
    try:
        entry = "host={0.host} port={0.port} dbname=postgres"
        databases = {"secured": entry.format(with_tls), "plain": entry.format(pg15)}
        pooler = make_pooler(databases=databases, settings=NOTHING_SAID)
        with open(pooler.ini_path, encoding="utf-8") as file:
            assert "server_tls" not in file.read()
        assert {name: by_tls(pooler, name) for name in databases} == {"secured": "t", "plain": "f"}
        shown = {row["database"]: row["tls"] for row in pooler.console("show servers")}
        assert shown["secured"].startswith("TLSv1.3/") and shown["plain"] == ""
        pooler.finish()
    finally:
        with_tls.remove()


def test_a_server_that_does_not_answer_the_request_for_tls_is_given_up(make_pooler):
    """It is not taken for one without TLS, which would have answered."""
    with OddServer() as silent:
        pooler = make_pooler(
            databases={"*": f"host=127.0.0.1 port={silent.port}"},
            settings={**NOTHING_SAID, "server_connect_timeout": 1, "query_wait_timeout": 2, "server_login_retry": 1},
        )
        with pooler.connect(login=False) as c:
            c.send(wire.startup(c.startup_parameters()), wire.query("select 1"))
            pooler.wait_log("S-.*closing because: connect timeout", timeout=10)
            assert wire.first_error(c.read_to_end(15)).fields["S"] == "FATAL"
        assert SSL_REQUEST in silent.sent and set(silent.sent) <= {SSL_REQUEST, TERMINATE}, silent.sent
