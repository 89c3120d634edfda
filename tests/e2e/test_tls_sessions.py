"""Certificates as a way in, on both legs, and resumed TLS sessions: what they save, and what they must not let through."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import threading

import pgthrow
import psycopg
import pytest

from conftest import INITIAL_SQL
from harness import ports, wire
from harness.pooler import PASSWORDS, kind
from harness.tls_client import context_for, secured
from harness.waiting import eventually
from test_tls import client_leg, cluster_with, log_in, show

pytestmark = [
    pytest.mark.skipif(kind() != "pgweir", reason="HBA lines and resumption are pgweir's"),
    pytest.mark.beyond_pgbouncer,
]


# ---- certificates of clients


def with_certificates(make_pooler, cluster, certificates, rules: str, ident: str):
    pooler = make_pooler(cluster, start=False, settings=client_leg(certificates, "verify-ca", auth_type="hba"))
    for name, text in (("auth_hba_file", rules), ("auth_ident_file", ident)):
        path = os.path.join(pooler.dir, name)
        pooler.write_file(path, text)
        pooler.settings[name] = path
    pooler.write_ini()
    return pooler.start()


def shows(pair, user: str) -> dict:
    return {"user": user, "sslmode": "require", "sslcert": pair.certificate, "sslkey": pair.key}


def test_certificates_with_an_ident_map(pg15, certificates, make_pooler):
    """A map says which names a certificate opens: those and no others, also where the map has a regular expression."""
    rules = "hostssl shop all all cert map=people\nhostssl all all all cert\n"
    ident = "people alice bob\npeople /^(al)ice$ \\1pine\nother alice stats\n"
    pooler = with_certificates(make_pooler, pg15, certificates, rules, ident)
    pg15.psql("create role alpine login")
    pooler.write_userlist({**PASSWORDS, "alpine": ""})
    pooler.reload()
    mapped = {"dbname": "shop"}
    try:
        assert log_in(pooler, **shows(certificates.alice, "bob"), **mapped) == "in"
        assert log_in(pooler, **shows(certificates.alice, "alpine"), **mapped) == "in"
        assert log_in(pooler, **shows(certificates.alice, "alice")) == "in", "without a map the name itself"
        for pair, user, where in (
            (certificates.alice, "alice", mapped),
            (certificates.alice, "stats", mapped),
            (certificates.alice, "postgres", mapped),
            (certificates.alice, "bob", {}),
            (certificates.second, "bob", mapped),
            (certificates.foreign, "bob", mapped),
        ):
            assert log_in(pooler, **shows(pair, user), **where) != "in", (pair, user, where)
        nothing = {"user": "bob", "sslmode": "require", "sslcert": "", "sslkey": ""}
        assert log_in(pooler, **nothing, **mapped) != "in"
        assert log_in(pooler, user="bob", sslmode="disable", dbname="shop") != "in"
    finally:
        pooler.finish()
        pg15.psql("drop role alpine")


# ---- certificates towards the server


@pytest.fixture
def strict_pg(certificates):
    """PostgreSQL that wants a certificate of the user's own name beside trust."""
    pair = certificates.server
    settings = {"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key, "ssl_ca_file": certificates.ca}
    hba = "local all all trust\nhostssl all all all trust clientcert=verify-full\n"
    with pgthrow.Cluster(version=15, port=ports.take(), settings=settings, hba=hba, initial_sql=INITIAL_SQL) as cluster:
        yield cluster


def test_certificates_towards_the_server(strict_pg, certificates, make_pooler):
    """The pooler shows its certificate, which opens its own user and nobody else's; RELOAD takes another one."""
    own = {"server_tls_cert_file": certificates.alice.certificate, "server_tls_key_file": certificates.alice.key}
    leg = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": certificates.ca, "query_wait_timeout": 2}
    pooler = make_pooler(strict_pg, settings={**leg, **own})
    assert log_in(pooler, user="alice") == "in"
    assert "authentication failed" in log_in(pooler, user="bob"), "it is alice's certificate"
    foreign = {"server_tls_cert_file": certificates.foreign.certificate, "server_tls_key_file": certificates.foreign.key}
    for files in (foreign, dict.fromkeys(own)):
        pooler.settings.update(files)
        pooler.reload()
        pooler.console("reconnect")
        assert log_in(pooler, user="alice") != "in", files
    pooler.settings.update(own)
    pooler.reload()
    eventually(lambda: log_in(pooler, user="alice") == "in", timeout=10, interval=0.2, what="the right certificate again")


# ---- resumed sessions


@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), ids=("1.2", "1.3"))
def test_clients_resume_their_sessions(pg15, certificates, make_pooler, version):
    pooler = make_pooler(pg15, settings=client_leg(certificates, "require", client_tls_ca_file=None))
    context = context_for(version=version)
    with secured(pooler, context) as first:
        assert first.value("select 1") == "1"
        assert not first.socket.session_reused
        session = first.socket.session
    for _ in range(2):
        with secured(pooler, context, session) as again:
            assert again.value("select current_user") == "alice"
            assert again.socket.session_reused
    # Of another process, which cannot read the ticket: a whole handshake.
    pooler.console("show version", host=pooler.dir)
    pooler.take_over()
    with secured(pooler, context, session) as again:
        assert again.value("select 1") == "1"


@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), ids=("1.2", "1.3"))
def test_no_session_stands_for_a_certificate(pg15, certificates, make_pooler, version):
    """Each connection proves its certificate, so that one that has expired, or whose authority is not trusted any more, opens nothing."""
    settings = client_leg(certificates, "verify-full", auth_type="cert")
    pooler = make_pooler(pg15, settings=settings)
    context = context_for(certificates.alice, version)
    with secured(pooler, context) as first:
        first.value("select 1")
        session = first.socket.session
    with secured(pooler, context, session) as again:
        assert not again.socket.session_reused, "the certificate is shown again"
        assert again.value("select current_user") == "alice"
    with pytest.raises(wire.ServerError):
        secured(pooler, context, session, user="bob")
    pooler.settings["client_tls_ca_file"] = certificates.foreign_ca
    pooler.write_ini()
    offset = len(pooler.log())
    pooler.signal(signal.SIGHUP)
    pooler.wait_log("RELOAD: changed", after=offset)
    with pytest.raises((OSError, wire.Closed, wire.ServerError)):
        with secured(pooler, context, session) as c:
            c.value("select 1")


class TlsServer(threading.Thread):
    """A server that refuses every login after the handshake, and notes whether the session was resumed."""

    def __init__(self, pair):
        super().__init__(daemon=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.certificate, pair.key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.resumed: list[bool] = []

    def run(self) -> None:
        error = wire.message("E", b"SFATAL\0VFATAL\0C57P03\0Mnot now\0\0")
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self.listener.accept()
                plain.settimeout(10)
                with contextlib.suppress(OSError):
                    plain.recv(8, socket.MSG_WAITALL)
                    plain.sendall(b"S")
                    with self.context.wrap_socket(plain, server_side=True) as s:
                        s.recv(4096)
                        self.resumed.append(s.session_reused)
                        s.sendall(error)


@pytest.mark.parametrize("mode, resumes", (("require", True), ("verify-ca", False), ("verify-full", False)))
def test_sessions_with_servers_are_resumed_unless_certificates_are_verified(certificates, make_pooler, mode, resumes):
    """Where the server gives tickets, as another pooler does; PostgreSQL gives none. A ticket outlives a certificate."""
    server = TlsServer(certificates.server)
    server.start()
    databases = {"*": f"host=127.0.0.1 port={server.port}"}
    settings = {"server_tls_sslmode": mode, "server_tls_ca_file": certificates.ca, "server_login_retry": 0}
    pooler = make_pooler(databases=databases, settings=settings)
    for _ in range(3):
        with contextlib.suppress(wire.ServerError, wire.Closed):
            pooler.connect(user="alice").query("select 1")
    eventually(lambda: len(server.resumed) >= 2, what=lambda: f"connections: {server.resumed}")
    assert not server.resumed[0] and any(server.resumed[1:]) == resumes, server.resumed
    server.listener.close()


# ---- take-overs


def test_servers_by_tls_go_on_over_take_overs(certificates, make_pooler):
    """A transaction on a server by TLS goes on, and is carried by the old process; later servers belong to the new one."""
    cluster = cluster_with(15, certificates.server)
    try:
        settings = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": certificates.ca, "default_pool_size": 2}
        pooler = make_pooler(cluster, settings=settings)
        with psycopg.connect(pooler.dsn(), autocommit=True) as c, psycopg.connect(pooler.dsn(), autocommit=True) as idle:
            idle.execute("set application_name = 'kept'")
            c.execute("begin")
            c.execute("create temp table t as select 9 as a")
            for _ in range(2):
                pooler.take_over()
                assert c.execute("select a from t").fetchone() == (9,)
                assert c.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (True,)
                assert idle.execute("show application_name").fetchone() == ("kept",)
            assert len(c.execute("select repeat('x', 1000) from generate_series(1, 20000)").fetchall()) == 20000
            c.execute("rollback")
            assert all(row["tls"].startswith("TLSv1.3") for row in show(pooler, "show servers"))
        pooler.console("reconnect")
        for old in pooler.predecessors:
            assert old.wait(10) == 0
    finally:
        cluster.remove()
