"""TLS as tables, for each leg: mode x certificate x version of TLS x how TLS begins.

The certificates are the right one, one of another name, an expired one, one of an authority that is not trusted, and none. TLS
begins after an SSLRequest (negotiated), or at once (direct).
"""

from __future__ import annotations

import itertools
import re

import psycopg
import pytest

from conftest import VERSIONS
from harness import wire
from harness.certificates import Pair
from harness.pooler import kind
from harness.waiting import eventually
from test_tls import SSL_REQUEST, by_tls, client_leg, cluster_with, order, raw, show

pytestmark = [
    pytest.mark.skipif(kind() != "pgweir", reason="the settings are pgweir's"),
    pytest.mark.beyond_pgbouncer,
]

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
BEGINNINGS = ("negotiated", "direct")

PLAIN, TLS, NO = "plain", "TLS", "refused"

SERVER_LEG = {
    # server_tls_sslmode  right  other host  expired  other authority  none
    "disable":           (PLAIN, PLAIN,      PLAIN,   PLAIN,           PLAIN),
    "allow":             (TLS,   TLS,        TLS,     TLS,             PLAIN),
    "prefer":            (TLS,   TLS,        TLS,     TLS,             PLAIN),
    "require":           (TLS,   TLS,        TLS,     TLS,             NO),
    "verify-ca":         (TLS,   TLS,        NO,      NO,              NO),
    "verify-full":       (TLS,   NO,         NO,      NO,              NO),
}  # fmt: skip

# The pooler's certificate, which libpq looks at.
SEEN_BY_CLIENTS = {
    # sslmode of libpq    right  other host  expired  other authority  none
    "disable":           (PLAIN, PLAIN,      PLAIN,   PLAIN,           PLAIN),
    "allow":             (PLAIN, PLAIN,      PLAIN,   PLAIN,           PLAIN),
    "prefer":            (TLS,   TLS,        TLS,     TLS,             PLAIN),
    "require":           (TLS,   TLS,        TLS,     TLS,             NO),
    "verify-ca":         (TLS,   TLS,        NO,      NO,              NO),
    "verify-full":       (TLS,   NO,         NO,      NO,              NO),
}  # fmt: skip

# The certificates of clients, whose names do not matter with `auth_type = trust`. The last two clients have none, and do not
# insist on TLS: one refuses it, and one (`sslmode=prefer`) tries both.
OF_CLIENTS = {
    # client_tls_sslmode  right  other name  expired  other authority  none  | no TLS  either
    "disable":           (NO,    NO,         NO,      NO,              NO,    PLAIN,  PLAIN),
    "allow":             (TLS,   TLS,        NO,      NO,              TLS,   PLAIN,  TLS),
    "prefer":            (TLS,   TLS,        NO,      NO,              TLS,   PLAIN,  TLS),
    "require":           (TLS,   TLS,        NO,      NO,              TLS,   NO,     TLS),
    "verify-ca":         (TLS,   TLS,        NO,      NO,              NO,    NO,     NO),
    "verify-full":       (TLS,   TLS,        NO,      NO,              NO,    NO,     NO),
}  # fmt: skip


def may_begin(mode: str) -> bool:
    """Whether TLS may begin at once: not where a plain connection would do, too."""
    return mode in ("require", "verify-ca", "verify-full")


@pytest.fixture(scope="module")
def of_servers(certificates) -> dict[str, Pair | None]:
    """The certificates of the columns, for a server at localhost."""
    foreign = certificates.signed(
        "foreign-server", certificates.foreign_authority, "/CN=localhost", "subjectAltName=DNS:localhost"
    )
    return {
        "right": certificates.server,
        "other host": certificates.elsewhere,
        "expired": certificates.expired,
        "other authority": foreign,
        "none": None,
    }


def connected(pooler, **named) -> tuple[str, str]:
    """Whether libpq gets in by TLS, and the version in the pooler's log; or that it does not, and the error."""
    offset = len(pooler.log())
    named = {"host": "localhost", "gssencmode": "disable", "sslcert": "", "sslkey": "", **named}
    try:
        with psycopg.connect(pooler.dsn(**named), connect_timeout=10) as c:
            assert c.execute("select 40 + 2").fetchone() == (42,)
            uses_tls = c.pgconn.ssl_in_use
        line = pooler.wait_log("login attempt: ", after=offset)
        return TLS if uses_tls else PLAIN, re.search(r" tls=([^/ ]+)", line)[1]
    except psycopg.OperationalError as e:
        return NO, str(e)


def set_and_reload(pooler, **settings) -> str:
    """The console's answer to a RELOAD with these settings."""
    pooler.settings.update(settings)
    pooler.write_ini()
    return order(pooler, "reload")


# ---- the server leg

# What the log says of a server that is refused.
WHY = {
    "other host": "NotValidForName",
    "expired": "Expired",
    "other authority": "UnknownIssuer",
    "none": "server refused SSL|server_tls_sslnegotiation",
}


def show_by(cluster, certificates, pair: Pair | None) -> None:
    """Makes PostgreSQL show this certificate, or have no TLS."""
    if pair:
        certificates.copy(pair, "of-postgresql")
    else:
        cluster.psql("alter system set ssl = off")
    cluster.reload()

    def does():
        with raw(cluster) as s:
            s.sendall(SSL_REQUEST)
            if s.recv(1) == b"N":
                return pair is None
            return pair and by_tls(s).getpeercert(binary_form=True) == pair.der()

    eventually(does, what="PostgreSQL's certificate")


def server_of(pooler) -> tuple[str, str]:
    """Whether a client's server is connected by TLS, and the version; or the error."""
    try:
        with psycopg.connect(pooler.dsn(), connect_timeout=10, autocommit=True) as c:
            tls, version = c.execute("select ssl, version from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
        return (TLS, version) if tls else (PLAIN, "")
    except psycopg.OperationalError as e:
        return NO, str(e)


def leads_to(pooler, mode: str, protocol: str, beginning: str) -> tuple[str, str]:
    """The outcome with these settings, and the version or the error."""
    told = set_and_reload(
        pooler,
        server_tls_sslmode=mode,
        server_tls_protocols=protocol.lower(),
        server_tls_sslnegotiation="direct" if beginning == "direct" else "postgres",
    )
    assert told == "RELOAD"
    order(pooler, "reconnect")
    return server_of(pooler)


@pytest.mark.parametrize("version", VERSIONS)
def test_server_leg(certificates, of_servers, make_pooler, version):
    """Every server is a new one: RECONNECT closes the others."""
    cluster = cluster_with(version, certificates.copy(certificates.server, "of-postgresql"))
    # Before 17, PostgreSQL knows no direct TLS: test_tls.py.
    beginnings = BEGINNINGS if version >= 17 else BEGINNINGS[:1]
    try:
        settings = {"server_tls_ca_file": certificates.ca, "server_login_retry": 1}
        pooler = make_pooler(cluster, databases={"*": f"host=localhost port={cluster.port}"}, settings=settings)
        for column, (name, pair) in enumerate(of_servers.items()):
            show_by(cluster, certificates, pair)
            for mode, protocol, beginning in itertools.product(SERVER_LEG, PROTOCOLS, beginnings):
                if beginning == "direct" and not may_begin(mode):
                    continue
                expected = SERVER_LEG[mode][column]
                offset = len(pooler.log())
                outcome, detail = leads_to(pooler, mode, protocol, beginning)
                assert outcome == expected, (name, mode, protocol, beginning, detail)
                assert outcome != TLS or detail == protocol, (name, mode, beginning, detail)
                if outcome == NO:
                    pooler.wait_log(WHY[name], after=offset)
    finally:
        cluster.remove()


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_the_authorities_of_the_system_count_where_no_file_is_named(certificates, make_pooler, monkeypatch, mode):
    """As for PgBouncer of Debian, with servers that have certificates of a public authority."""
    cluster = cluster_with(15, certificates.server)
    try:
        databases = {"*": f"host=localhost port={cluster.port}"}
        settings = {"server_tls_sslmode": mode, "server_down_wait": 0}
        for authority, goes_well in ((certificates.ca, True), (certificates.foreign_ca, False)):
            monkeypatch.setenv("SSL_CERT_FILE", authority)
            pooler = make_pooler(cluster, databases=databases, settings=settings)
            if goes_well:
                with pooler.connect() as c:
                    assert c.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()") == "t"
            else:
                with pytest.raises(wire.ServerError):
                    pooler.connect()
                pooler.wait_log("certificate")
    finally:
        cluster.remove()


@pytest.mark.parametrize("mode", [mode for mode in SERVER_LEG if not may_begin(mode)])
def test_direct_tls_needs_a_mode_that_insists(make_pooler, mode):
    pooler = make_pooler(databases={})
    told = set_and_reload(pooler, server_tls_sslmode=mode, server_tls_sslnegotiation="direct")
    assert told.startswith("RELOAD failed")
    pooler.wait_log(f"server_tls_sslmode = {mode} may not be used with server_tls_sslnegotiation = direct")


# ---- the client leg


def beginnings(mode: str) -> dict[str, dict[str, str]]:
    """What libpq has to be told to begin in each way. It, too, begins directly only where it insists on TLS."""
    ways = {"negotiated": {"sslnegotiation": "postgres"}}
    return ways | ({"direct": {"sslnegotiation": "direct"}} if may_begin(mode) else {})


def pinned(protocol: str) -> dict[str, str]:
    return {"ssl_min_protocol_version": protocol, "ssl_max_protocol_version": protocol}


def check(pooler, expected: str, mode: str, case: tuple, **named) -> None:
    """Clients of libpq with each version of TLS, and both ways to begin."""
    for protocol, (beginning, more) in itertools.product(PROTOCOLS, beginnings(mode).items()):
        outcome, detail = connected(pooler, sslmode=mode, **more, **pinned(protocol), **named)
        where = (*case, protocol, beginning)
        assert outcome == expected and (outcome != TLS or detail == protocol), (where, outcome, detail)


def test_what_clients_make_of_the_poolers_certificate(pg15, certificates, of_servers, make_pooler):
    pooler = make_pooler(pg15, settings=client_leg(certificates, "allow"))
    for column, (name, pair) in enumerate(of_servers.items()):
        files = {"client_tls_cert_file": pair.certificate, "client_tls_key_file": pair.key} if pair else {}
        assert set_and_reload(pooler, client_tls_sslmode="allow" if pair else "disable", **files) == "RELOAD"
        for mode, row in SEEN_BY_CLIENTS.items():
            trusted = {"sslrootcert": certificates.ca} if mode.startswith("verify") else {}
            check(pooler, row[column], mode, (name, mode), **trusted)


def test_what_the_pooler_makes_of_certificates_of_clients(pg15, certificates, make_pooler):
    late = certificates.signed("late-client", certificates.authority, "/CN=alice", days="-1")
    pairs = [certificates.alice, certificates.second, late, certificates.foreign, None]
    pooler = make_pooler(pg15, settings=client_leg(certificates, "disable"))
    for mode, row in OF_CLIENTS.items():
        assert set_and_reload(pooler, client_tls_sslmode=mode) == "RELOAD"
        for pair, expected in zip(pairs, row):
            files = {"sslcert": pair.certificate, "sslkey": pair.key} if pair else {}
            check(pooler, expected, "require", (mode, pair), **files)
        for asked, expected in zip(("disable", "prefer"), row[len(pairs) :]):
            outcome, detail = connected(pooler, sslmode=asked)
            assert outcome == expected, (mode, asked, detail)
            assert (outcome, asked) != (NO, "disable") or "SSL required" in detail


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_version_that_only_one_side_has(pg15, certificates, make_pooler, protocol):
    """Both ways to begin, and each leg: nobody falls back on what was not allowed."""
    (other,) = set(PROTOCOLS) - {protocol}
    pooler = make_pooler(pg15, settings=client_leg(certificates, "require", client_tls_protocols=protocol.lower()))
    for more in beginnings("require").values():
        assert connected(pooler, sslmode="require", **more, **pinned(protocol)) == (TLS, protocol)
        outcome, detail = connected(pooler, sslmode="require", **more, **pinned(other))
        assert outcome == NO and "alert protocol version" in detail
    # The same pooler as a server that has one version, before a pooler that has the other.
    entry = {"*": f"host=127.0.0.1 port={pooler.port}"}
    leg = {"server_tls_sslmode": "require", "server_login_retry": 1}
    for mine, outcome in ((protocol, TLS), (other, NO)):
        front = make_pooler(databases=entry, settings={**leg, "server_tls_protocols": mine.lower()})
        assert connected(front, sslmode="disable")[0] == (PLAIN if outcome == TLS else NO)
        if outcome == TLS:
            assert {row["tls"].partition("/")[0] for row in show(front, "show servers")} == {protocol}
        else:
            front.wait_log("ProtocolVersion")
        front.finish()
