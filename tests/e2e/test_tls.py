"""TLS on both legs: certificates, attacks on the handshake, much data, cancels, and RELOAD. Modes are in test_tls_matrix.py."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import struct
import threading
import time

import asyncpg
import pgthrow
import psycopg
import pytest
from harness import ports, records, wire
from harness.pooler import PASSWORDS
from harness.waiting import eventually

from conftest import INITIAL_SQL, VERSIONS
from test_hosts import relay

# Seconds a socket may take to answer before a test fails.
SOCKET_SECONDS_MAX = 10


def cluster_with(version: int, pair) -> pgthrow.Cluster:
    """A cluster that has TLS with this certificate."""
    cluster = pgthrow.Cluster(
        version=version,
        port=ports.take(),
        settings={"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key},
        initial_sql=INITIAL_SQL,
    )
    return cluster.start()


@pytest.fixture(scope="module", params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def tls_pg(request, certificates):
    cluster = cluster_with(request.param, certificates.server)
    yield cluster
    cluster.remove()


def client_leg(certificates, mode: str = "allow", **more) -> dict:
    return {
        "client_tls_sslmode": mode,
        "client_tls_cert_file": certificates.server.certificate,
        "client_tls_key_file": certificates.server.key,
        "client_tls_ca_file": certificates.ca,
        **more,
    }


def log_in(pooler, **named) -> str:
    """What psycopg achieves: "in", or the error."""
    try:
        with psycopg.connect(pooler.dsn(**named), connect_timeout=10) as c:
            assert c.execute("select 40 + 2").fetchone() == (42,)
        return "in"
    except psycopg.OperationalError as e:
        return str(e)


def show(pooler, what: str) -> list[dict]:
    """The console's answer, asked over the Unix-domain socket, which needs no TLS."""
    with wire.Connection(host=pooler.dir, port=pooler.port, user="postgres", database="pgbouncer") as c:
        messages = c.query(what)
    names = next([column[0] for column in m.columns] for m in messages if m.tag == "T")
    return [dict(zip(names, row)) for row in wire.rows_of(messages)]


# ---- clients


def test_the_holder_of_a_client_certificate_signs_for_nobody(pg15, certificates, make_pooler):
    """A file of authorities may have single certificates of clients. Each of them lets its holder in, and nobody else."""
    both = os.path.join(certificates.folder, "ca-and-pinned.crt")
    with open(both, "wb") as file:
        for part in (certificates.ca, certificates.pinned.certificate):
            with open(part, "rb") as source:
                file.write(source.read())
    for trusted, pair, gets_in in [
        (both, certificates.pinned, True),
        (both, certificates.alice, True),
        (both, certificates.by_pinned, False),
        (both, certificates.old_by_pinned, False),
        (certificates.pinned.certificate, certificates.pinned, True),
        (certificates.pinned.certificate, certificates.by_pinned, False),
        (certificates.pinned.certificate, certificates.alice, False),
    ]:
        pooler = make_pooler(pg15, settings=client_leg(certificates, "verify-full", client_tls_ca_file=trusted))
        outcome = log_in(pooler, sslmode="require", sslcert=pair.certificate, sslkey=pair.key)
        assert (outcome == "in") == gets_in, (trusted, pair.certificate, outcome)
        pooler.finish()


def test_drivers_and_what_the_console_shows(pg15, certificates, make_pooler):
    pooler = make_pooler(pg15, settings=client_leg(certificates, "require"))
    with psycopg.connect(pooler.dsn(sslmode="verify-full", sslrootcert=certificates.ca, host="localhost")) as c:
        c.execute("select 1")
        rows = [row for row in show(pooler, "show clients") if row["database"] == "postgres"]
        assert [row["tls"] for row in rows] == ["TLSv1.3/TLS_AES_256_GCM_SHA384"]
        assert all(row["tls"] == "" for row in show(pooler, "show servers"))
    pooler.wait_log(r"login attempt: db=postgres user=postgres tls=TLSv1.3/TLS_AES_256_GCM_SHA384 replication=no")

    async def with_asyncpg():
        context = ssl.create_default_context(cafile=certificates.ca)
        context.set_alpn_protocols(["postgresql"])
        for direct in (False, True):
            c = await asyncpg.connect(
                host="localhost", port=pooler.port, user="alice", database="shop", ssl=context, direct_tls=direct
            )
            assert await c.fetchval("select $1::int + 1", 41) == 42
            await c.close()

    asyncio.run(with_asyncpg())


def test_versions_and_cipher_suites(pg15, certificates, make_pooler):
    settings = client_leg(
        certificates, "require", client_tls_protocols="tlsv1.2", client_tls_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256:!MD5"
    )
    pooler = make_pooler(pg15, settings=settings)
    with psycopg.connect(pooler.dsn(sslmode="require")) as c:
        c.execute("select 1")
        (row,) = [row for row in show(pooler, "show clients") if row["database"] == "postgres"]
        assert row["tls"] == "TLSv1.2/ECDHE-ECDSA-AES128-GCM-SHA256"
    assert "in" != log_in(pooler, sslmode="require", ssl_min_protocol_version="TLSv1.3")


def test_channel_binding(pg15, certificates, make_pooler):
    """SCRAM-SHA-256-PLUS, which libpq insists on with channel_binding=require."""
    pooler = make_pooler(pg15, settings=client_leg(certificates, "allow", auth_type="scram-sha-256"))
    secret = {"user": "alice", "password": PASSWORDS["alice"]}
    assert log_in(pooler, sslmode="require", channel_binding="require", **secret) == "in"
    assert log_in(pooler, sslmode="require", channel_binding="disable", **secret) == "in"
    assert "channel binding" in log_in(pooler, sslmode="disable", channel_binding="require", **secret)
    refused = log_in(pooler, sslmode="require", channel_binding="require", user="alice", password="wrong")
    assert "SASL authentication failed" in refused


# ---- attacks


def raw(pooler) -> socket.socket:
    return socket.create_connection((pooler.host, pooler.port), timeout=SOCKET_SECONDS_MAX)


SSL_REQUEST = struct.pack("!II", 8, wire.SSL_REQUEST)


def rest_of(s: socket.socket) -> bytes:
    """Everything up to the end of the connection."""
    out = b""
    try:
        while piece := s.recv(4096):
            out += piece
    except ConnectionResetError:
        pass
    return out


def asked(pooler) -> socket.socket:
    """A connection whose SSLRequest was granted."""
    s = raw(pooler)
    s.sendall(SSL_REQUEST)
    assert s.recv(1) == b"S"
    return s


def client_hello(alpn: list[str] | None = None) -> bytes:
    """The first flight of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def by_tls(s: socket.socket, alpn: list[str] | None = None) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(s)


def test_attacks_on_the_handshake(pg15, certificates, make_pooler):
    """None of them gets anything, and none costs anybody else anything."""
    pooler = make_pooler(pg15, settings=client_leg(certificates, "require", client_login_timeout="2"))
    startup = wire.startup({"user": "postgres", "database": "postgres"})

    # Bytes of somebody in between, in one packet with the request: CVE-2021-23214.
    with raw(pooler) as s:
        s.sendall(SSL_REQUEST + startup)
        assert b"received unencrypted data after SSL request" in rest_of(s)
    # Plain bytes behind the answer, other records of TLS, and a record longer than any.
    for rubbish in (startup, b"\x17\x03\x03\x00\x05hello", b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x15\x03\x03\0\2\2\0"):
        with asked(pooler) as s:
            try:
                s.sendall(rubbish)
            except OSError:
                pass
            assert b"postgres" not in rest_of(s)
    # The client ends in the handshake, at every point of its first flight.
    hello = client_hello()
    for cut in (0, 1, 5, 6, 100, len(hello) - 1, len(hello)):
        with asked(pooler) as s:
            s.sendall(hello[:cut])
    # It says the same twice, or goes on plainly.
    for more in (hello, startup):
        with asked(pooler) as s:
            s.sendall(hello + more)
            rest_of(s)
    # It begins with TLS at once, and names no protocol, or another one.
    with raw(pooler) as s:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            by_tls(s, ["h2"])
    with raw(pooler) as s:
        try:
            tls = by_tls(s)
            tls.sendall(startup)
            assert tls.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            pass
    pooler.wait_log("received direct SSL connection request without ALPN")
    # It asks for TLS within TLS.
    with asked(pooler) as s:
        tls = by_tls(s)
        tls.sendall(SSL_REQUEST)
        assert b"SSL req inside SSL" in rest_of(tls)
    # It stops in the handshake: the time limit of logins holds.
    with asked(pooler) as s:
        s.sendall(hello[:50])
        assert rest_of(s) == b""
    # It renegotiates, which no version of TLS here has: a ClientHello as data is rubbish of the protocol.
    with asked(pooler) as s:
        tls = by_tls(s, ["postgresql"])
        tls.sendall(hello)
        assert b"SSL" not in rest_of(tls)
    assert log_in(pooler, sslmode="require") == "in"
    assert [row for row in show(pooler, "show clients") if row["database"] == "postgres"] == []


@pytest.mark.parametrize("direct", [False, True], ids=["asked", "direct"])
@pytest.mark.parametrize("alpn", [None, "h2", "postgresql"])
def test_messages_behind_a_refused_one_in_its_record(pg15, certificates, make_pooler, alpn, direct):
    """A ClientHello that is refused, and more messages of the handshake in the same record, end the connection alone."""
    pooler = make_pooler(pg15, settings=client_leg(certificates))
    hello = client_hello([alpn] if alpn else None)
    behind = b"\x14\0\0\x20" + bytes(32)
    for more in (behind, 3 * behind, behind[:3], behind[:20]):
        content = hello[5:] + more
        with raw(pooler) if direct else asked(pooler) as s:
            s.sendall(hello[:3] + struct.pack("!H", len(content)) + content)
            # Half a message may have its rest in the next record.
            s.shutdown(socket.SHUT_WR)
            rest_of(s)
    assert log_in(pooler, sslmode="require") == "in"


@pytest.mark.parametrize("then", [records.HANDSHAKE, records.APPLICATION_DATA, None])
def test_half_a_message_behind_the_handshake(pg15, certificates, make_pooler, then):
    """It ends with another record, or never; then the pooler writes the error of its time limit."""
    only = {"client_tls_protocols": "tlsv1.3", "client_tls13_ciphers": records.SUITE}
    pooler = make_pooler(pg15, settings=client_leg(certificates, client_login_timeout="1", **only))
    with asked(pooler) as s:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.keylog_filename = os.path.join(pooler.dir, "keys")
        tls = context.wrap_socket(s)
        with open(context.keylog_filename, encoding="ascii") as file:
            key_log = file.read()
        plain = socket.socket(fileno=os.dup(tls.fileno()))
        with tls, plain:
            # Two of the bytes of KeyUpdate.
            plain.sendall(records.record(key_log, 0, records.HANDSHAKE, b"\x18\0"))
            if then:
                time.sleep(0.2)
                plain.sendall(records.record(key_log, 1, then, b"\0\0\0\1\0"))
            with contextlib.suppress(ssl.SSLError, OSError):
                while tls.recv(1000):
                    pass
    assert log_in(pooler, sslmode="require") == "in"


def test_a_server_whose_certificate_is_refused_sends_all_in_one_record(pg15, certificates, make_pooler):
    """Another pgweir does: the rest of its flight stands behind its certificate."""
    pair = certificates.foreign
    named = {"client_tls_sslmode": "allow", "client_tls_cert_file": pair.certificate, "client_tls_key_file": pair.key}
    behind = make_pooler(pg15, settings=named)
    verified = {"server_tls_sslmode": "verify-ca", "server_tls_ca_file": certificates.ca, "query_wait_timeout": 2}
    pooler = make_pooler(None, databases={"*": f"host=127.0.0.1 port={behind.port}"}, settings=verified)
    assert "invalid peer certificate" in log_in(pooler)
    assert show(pooler, "show version")


def test_a_client_that_waits_for_replies_and_leaves_is_noticed(pg15, certificates, make_pooler):
    """Its Terminate and its close_notify stand unread before the end of the connection."""
    pooler = make_pooler(pg15, settings=client_leg(certificates, "allow", default_pool_size=1))
    with asked(pooler) as s:
        tls = by_tls(s)
        tls.sendall(wire.startup({"user": "postgres", "database": "postgres"}))
        while not tls.recv(4096).endswith(b"Z\0\0\0\x05I"):
            pass
        tls.sendall(wire.one_statement("select pg_sleep(30)") + wire.sync() + wire.bind() + wire.execute() + wire.sync())
        time.sleep(0.3)
        tls.sendall(wire.terminate())
        tls.settimeout(0.1)
        with contextlib.suppress(OSError):
            tls.unwrap()
        tls.close()
    with pooler.connect(timeout=10) as c:
        assert c.value("select 'next'") == "next"


def test_plain_cancel_requests_are_taken_where_tls_is_required(pg15, certificates, make_pooler):
    """libpq before 17 sends them so."""
    pooler = make_pooler(pg15, settings=client_leg(certificates, "require"))
    with raw(pooler) as s:
        s.sendall(struct.pack("!IIII", 16, wire.CANCEL_REQUEST, 1, 2))
        assert rest_of(s) == b""


# ---- servers


def server_case(make_pooler, cluster, host: str, **settings) -> tuple[str, list[str]]:
    """What a client gets, and the column `tls` of SHOW SERVERS."""
    pooler = make_pooler(
        cluster,
        databases={"*": f"host={host} port={cluster.port}"},
        settings={"query_wait_timeout": "3", "server_login_retry": "1", **settings},
    )
    outcome = log_in(pooler)
    tls = [row["tls"] for row in show(pooler, "show servers")]
    pooler.finish()
    return outcome, tls


def test_each_host_of_a_list_is_verified_by_its_own_name(certificates, make_pooler):
    """Guards against PgBouncer's bug 1303: with a list of hosts, certificates were compared with the whole list."""
    hosts = {"127.0.0.1": "127.0.0.1", "127.0.0.2": "127.0.0.2", "127.0.0.3": "127.0.0.1"}
    with contextlib.ExitStack() as stack:
        clusters = {}
        for host, name in hosts.items():
            pair = certificates.signed(f"of-{host}", certificates.authority, f"/CN={host}", f"subjectAltName=IP:{name}")
            clusters[host] = cluster_with(15, pair)
            stack.callback(clusters[host].remove)
        port = clusters["127.0.0.1"].port
        for host in list(hosts)[1:]:
            listener = stack.enter_context(socket.create_server((host, port)))
            threading.Thread(target=relay, args=(listener, clusters[host]), daemon=True).start()
        settings = {
            "server_tls_sslmode": "verify-full", "server_tls_ca_file": certificates.ca, "server_login_retry": 1,
            "default_pool_size": 6,
        }  # fmt: skip
        entry = f"host={','.join(hosts)} port={port} dbname=postgres"
        pooler = make_pooler(None, databases={"*": entry}, settings=settings)
        seen = set()
        with contextlib.ExitStack() as clients:
            for _ in range(6):
                c = clients.enter_context(psycopg.connect(pooler.dsn()))
                seen.add(c.execute("select inet_server_port()").fetchone()[0])
        assert seen == {clusters["127.0.0.1"].port, clusters["127.0.0.2"].port}
        pooler.wait_log("127.0.0.3.*invalid peer certificate")


@pytest.mark.parametrize("version", VERSIONS)
def test_tls_to_servers_begins_at_once_if_asked_for(certificates, make_pooler, version):
    """PostgreSQL 17 and later agree on the protocol by ALPN; older ones expect an SSLRequest."""
    cluster = cluster_with(version, certificates.server)
    direct = {
        "server_tls_sslnegotiation": "direct",
        "server_tls_sslmode": "verify-full",
        "server_tls_ca_file": certificates.ca,
    }
    try:
        pooler = make_pooler(cluster, settings={**direct, "query_wait_timeout": "3"})
        if version < 17:
            assert log_in(pooler) != "in"
            eventually(lambda: "PostgreSQL before 17 does not accept TLS without an SSLRequest" in pooler.log())
            return
        with psycopg.connect(pooler.dsn(), autocommit=True) as c:
            assert c.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (True,)
            timer = threading.Timer(0.5, c.cancel_safe)
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                c.execute("select pg_sleep(60)")
            timer.join()
            assert c.execute("select 1").fetchone() == (1,)
        direct["server_tls_ca_file"] = certificates.foreign_ca
        assert "invalid peer certificate" in server_case(make_pooler, cluster, "127.0.0.1", **direct)[0]
    finally:
        cluster.remove()


def test_certificates_that_openssl_takes(certificates, make_pooler):
    """Version 1 without alternative names, as the manual makes them; a self-signed one that is its own authority."""
    for pair, ca, host, full, gets_in in [
        (certificates.old_style, certificates.ca, "localhost", True, True),
        (certificates.old_style, certificates.ca, "127.0.0.1", True, False),
        (certificates.old_style, certificates.ca, "127.0.0.1", False, True),
        (certificates.old_style, certificates.foreign_ca, "localhost", False, False),
        (certificates.self_signed, certificates.self_signed.certificate, "localhost", True, True),
        (certificates.self_signed, certificates.ca, "localhost", False, False),
        (certificates.pinned, certificates.pinned.certificate, "localhost", True, True),
        (certificates.by_pinned, certificates.pinned.certificate, "localhost", False, False),
        (certificates.old_by_pinned, certificates.pinned.certificate, "localhost", False, False),
        (certificates.elsewhere, certificates.ca, "localhost", True, False),
        (certificates.expired, certificates.ca, "localhost", False, False),
    ]:
        cluster = cluster_with(15, pair)
        try:
            mode = "verify-full" if full else "verify-ca"
            outcome, _ = server_case(
                make_pooler, cluster, host, server_tls_sslmode=mode, server_tls_ca_file=ca
            )
            assert (outcome == "in") == gets_in, (pair.certificate, ca, host, mode, outcome)
        finally:
            cluster.remove()


def both_legs(certificates, **more) -> dict:
    return client_leg(
        certificates, "require", server_tls_sslmode="verify-full", server_tls_ca_file=certificates.ca, **more
    )


def test_scram_with_channel_binding_on_both_legs(tls_pg, certificates, make_pooler):
    before = tls_pg.hba
    tls_pg.write_hba("local all all trust\nhostssl all all all scram-sha-256\n")
    tls_pg.reload()
    try:
        pooler = make_pooler(tls_pg, settings=both_legs(certificates, auth_type="scram-sha-256"))
        for user in ("alice", "bob"):
            asked = {"sslmode": "require", "channel_binding": "require", "sslnegotiation": "direct"}
            assert log_in(pooler, user=user, password=PASSWORDS[user], **asked) == "in"
    finally:
        tls_pg.write_hba(before)
        tls_pg.reload()


def test_much_data_both_ways_and_copy(tls_pg, certificates, make_pooler):
    pooler = make_pooler(tls_pg, settings=both_legs(certificates))
    text = "x" * 1000
    with psycopg.connect(pooler.dsn(sslmode="require"), autocommit=True) as c:
        big = c.execute("select repeat('0123456789abcdef', 2000000)").fetchone()[0]
        assert len(big) == 32_000_000 and big[:16] == big[-16:] == "0123456789abcdef"
        assert c.execute("select length(%s)", [big]).fetchone() == (32_000_000,)
        rows = c.execute("select g, repeat('y', 500) from generate_series(1, 50000) g").fetchall()
        assert len(rows) == 50000 and rows[-1] == (50000, "y" * 500)
        c.execute("create table much (n int, t text)")
        with c.cursor().copy("copy much from stdin") as copy:
            for n in range(30000):
                copy.write_row((n, text))
        with c.cursor().copy("copy much to stdout") as copy:
            assert sum(1 for _ in copy.rows()) == 30000
        c.execute("drop table much")
        assert c.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone() == (True,)


def test_pieces_of_records_and_half_closed_clients(tls_pg, certificates, make_pooler):
    """Records that come byte by byte, several messages in a record, and a client that ends its side at once."""
    pooler = make_pooler(tls_pg, settings=both_legs(certificates))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["postgresql"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with raw(pooler) as s:

        def step(what):
            while True:
                try:
                    return what()
                except ssl.SSLWantReadError:
                    for at in range(len(data := outgoing.read())):
                        s.sendall(data[at : at + 1])
                    piece = s.recv(7)
                    assert piece, "closed"
                    incoming.write(piece)

        step(tls.do_handshake)
        tls.write(wire.startup({"user": "postgres", "database": "postgres"}))
        got = b""
        while not got.endswith(b"Z\0\0\0\5I"):
            got += step(lambda: tls.read(1000))
        tls.write(wire.query("select 1") + wire.query("select repeat('z', 40000)") + wire.query("select 2"))
        got = b""
        while got.count(b"Z\0\0\0\5I") < 3:
            got += step(lambda: tls.read(100000))
        assert got.count(b"z") >= 40000


def test_cancel_reaches_a_server_by_tls(tls_pg, certificates, make_pooler):
    pooler = make_pooler(tls_pg, settings=both_legs(certificates))
    with psycopg.connect(pooler.dsn(sslmode="require"), autocommit=True) as c:
        ends = []

        def cancel():
            try:
                c.cancel_safe()
                ends.append("well")
            except psycopg.Error as e:
                ends.append(str(e))

        timer = threading.Timer(0.5, cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            c.execute("select pg_sleep(60)")
        timer.join()
        assert ends == ["well"]
        assert c.execute("select 1").fetchone() == (1,)


# ---- RELOAD


def shown_certificate(pooler) -> bytes:
    with asked(pooler) as s:
        return by_tls(s).getpeercert(binary_form=True)


def test_reload_takes_new_certificates_and_refuses_bad_ones(pg15, certificates, make_pooler):
    pair = certificates.copy(certificates.server, "changing")
    settings = client_leg(certificates, "require", client_tls_cert_file=pair.certificate, client_tls_key_file=pair.key)
    pooler = make_pooler(pg15, settings=settings)
    before = shown_certificate(pooler)
    stays = psycopg.connect(pooler.dsn(sslmode="require"), autocommit=True)
    stop, errors = threading.Event(), []

    def load():
        while not stop.is_set():
            if (outcome := log_in(pooler, sslmode="require")) != "in":
                errors.append(outcome)

    worker = threading.Thread(target=load)
    worker.start()
    try:
        certificates.copy(certificates.second, "changing")
        pooler.reload()
        after = eventually(lambda: (now := shown_certificate(pooler)) != before and now, what="the new certificate")
        # A key of another certificate, no certificate at all, no file: each is refused, and the present one stays.
        shutil.copyfile(certificates.alice.key, pair.key)
        for damage, words in [
            (lambda: None, "does not belong to certificate file"),
            (lambda: open(pair.certificate, "w").close(), "failed to load certificate file"),
            (lambda: os.remove(pair.certificate), "failed to load certificate file"),
        ]:
            damage()
            offset = len(pooler.log())
            pooler.reload()
            assert pair.certificate in pooler.wait_log(f"TLS setup failed: .*{words}|{words}", after=offset)
            pooler.wait_log("RELOAD Failed", after=offset)
            assert shown_certificate(pooler) == after
        assert stays.execute("select 1").fetchone() == (1,)
    finally:
        stop.set()
        worker.join()
        stays.close()
    assert errors == []


def order(pooler, text: str) -> str:
    """The console's answer to a command over the Unix-domain socket: its tag, or the error."""
    with wire.Connection(host=pooler.dir, port=pooler.port, user="postgres", database="pgbouncer") as c:
        messages = c.query(text)
    error = wire.first_error(messages)
    return error.fields["M"] if error else next(m.body.rstrip(b"\0").decode() for m in messages if m.tag == "C")


def setting(pooler, name: str) -> str:
    return next(row["value"] for row in show(pooler, "show config") if row["key"] == name)


# Behind `SET failed: `, as all errors of SET, what PgBouncer says in a NOTICE.
REFUSED_SET = "SET failed: TLS settings could not be applied, still using old configuration: TLS setup failed: "


def test_set_uses_the_files_or_fails(pg15, certificates, make_pooler):
    """SHOW CONFIG shows what is in use. Guards against a SET that is answered although its files cannot be used."""
    pair = certificates.copy(certificates.server, "for-set")
    own = {"sslmode": "require", "sslcert": certificates.alice.certificate, "sslkey": certificates.alice.key}
    foreign = {"sslmode": "require", "sslcert": certificates.foreign.certificate, "sslkey": certificates.foreign.key}
    settings = client_leg(
        certificates, "verify-ca", client_tls_cert_file=pair.certificate, server_tls_sslmode="disable",
        client_tls_key_file=pair.key, server_tls_ca_file=pair.key,
    )  # fmt: skip
    pooler = make_pooler(pg15, settings=settings)
    for key, value in [
        ("client_tls_ca_file", "/nowhere"),
        ("client_tls_ca_file", pair.key),
        ("client_tls_cert_file", certificates.second.certificate),
        ("client_tls_key_file", certificates.second.key),
        ("server_tls_sslmode", "verify-full"),
    ]:
        before = setting(pooler, key)
        assert order(pooler, f"set {key} = '{value}'").startswith(REFUSED_SET), (key, value)
        assert setting(pooler, key) == before
    assert "which only RELOAD reads" in order(pooler, "set auth_file = '/nowhere'")
    assert (log_in(pooler, **own) == "in", log_in(pooler, **foreign) == "in") == (True, False)
    ca = certificates.foreign_ca
    assert order(pooler, f"set client_tls_ca_file = '{ca}'") == f"SET client_tls_ca_file={ca}"
    assert setting(pooler, "client_tls_ca_file") == ca
    assert (log_in(pooler, **own) == "in", log_in(pooler, **foreign) == "in") == (False, True)
    # The files are being replaced: another SET does not read them.
    open(pair.certificate, "w").close()
    offset = len(pooler.log())
    assert order(pooler, "set pool_mode = 'session'") == "SET pool_mode=session"
    assert log_in(pooler, **foreign) == "in" and "TLS setup failed" not in pooler.log()[offset:]


def test_a_bad_file_at_the_start_is_named(certificates, make_pooler):
    pooler = make_pooler(start=False, settings=client_leg(certificates, client_tls_key_file="/nowhere/key"), databases={})
    pooler.spawn()
    assert pooler.wait_exit() == 1
    assert 'TLS setup failed: failed to load private key file "/nowhere/key"' in pooler.stderr()


def test_reload_replaces_servers_when_their_tls_changes(tls_pg, certificates, make_pooler):
    pooler = make_pooler(tls_pg, settings={"server_tls_sslmode": "disable"})
    assert log_in(pooler) == "in"
    assert [row["tls"] for row in show(pooler, "show servers")] == [""]
    pooler.settings["server_tls_sslmode"] = "require"
    pooler.reload()
    assert log_in(pooler) == "in"
    eventually(
        lambda: [bool(row["tls"]) for row in show(pooler, "show servers")] == [True],
        what=lambda: str(show(pooler, "show servers")),
    )
    # Nothing has changed: the server stays.
    before = [row["ptr"] for row in show(pooler, "show servers")]
    pooler.reload()
    time.sleep(0.2)
    assert [row["ptr"] for row in show(pooler, "show servers")] == before


@pytest.mark.parametrize("changed", ["disable", "foreign"])
def test_a_reload_leaves_cancels_to_servers_that_were_open_before(tls_pg, certificates, make_pooler, changed):
    """They go by the settings with which their server was opened."""
    pooler = make_pooler(tls_pg, settings={"server_tls_sslmode": "require"})
    with pooler.connect() as c:
        c.send(wire.query("select pg_sleep(30)"))
        eventually(lambda: [row["state"] for row in show(pooler, "show servers")] == ["active"], what="a server")
        if changed == "disable":
            pooler.settings["server_tls_sslmode"] = "disable"
        else:
            pooler.settings.update({"server_tls_sslmode": "verify-ca", "server_tls_ca_file": certificates.foreign_ca})
        pooler.reload()
        pooler.wait_log("RELOAD: changed")
        c.cancel()
        assert wire.error_codes(c.read_ready(timeout=10)) == ["57014"]


def test_a_cancel_that_cannot_be_secured_is_logged(certificates, make_pooler, own_cluster):
    """The server has another certificate than at its login."""
    pair = certificates.copy(certificates.server, "replaced")
    named = {"ssl": "on", "ssl_cert_file": pair.certificate, "ssl_key_file": pair.key}
    cluster = own_cluster(settings=named)
    verified = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": certificates.ca}
    pooler = make_pooler(cluster, settings=verified)
    with pooler.connect() as c:
        c.send(wire.query("select pg_sleep(2)"))
        eventually(lambda: [row["state"] for row in show(pooler, "show servers")] == ["active"], what="a server")
        certificates.copy(certificates.elsewhere, "replaced")
        cluster.reload()
        time.sleep(0.5)
        c.cancel()
        pooler.wait_log("cancel request to S-0x0 failed: ")
        assert wire.error_codes(c.read_ready(timeout=10)) == []
