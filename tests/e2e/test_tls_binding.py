"""Channel binding (SCRAM-SHA-256-PLUS, tls-server-end-point) on both legs: certificates of every kind of signature, and
somebody in between whose certificate is trusted.

Client and server each hash the certificate that the server shows. The hash function is that of the certificate's signature, or
SHA-256 instead of MD5 and SHA-1 (RFC 5929, section 4.1).
"""

from __future__ import annotations

import pytest

from harness.between import PLUS, Between
from harness.pooler import PASSWORDS, kind
from harness.waiting import eventually
from test_tls import SSL_REQUEST, by_tls, client_leg, cluster_with, log_in, raw

pytestmark = [
    pytest.mark.skipif(kind() != "pgweir", reason="PgBouncer has no channel binding"),
    pytest.mark.beyond_pgbouncer,
]

RSA, P_256, P_384 = ("rsa:2048",), ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")
PSS = ("-sigopt", "rsa_padding_mode:pss")

# How openssl makes the key of a certificate, and signs it.
SIGNATURES = {
    "RSA, MD5": (*RSA, "-md5"),
    "RSA, SHA-1": (*RSA, "-sha1"),
    "RSA, SHA-224": (*RSA, "-sha224"),
    "RSA, SHA-256": (*RSA, "-sha256"),
    "RSA, SHA-384": (*RSA, "-sha384"),
    "RSA, SHA-512": (*RSA, "-sha512"),
    "RSA-PSS, SHA-256": (*RSA, "-sha256", *PSS),
    "RSA-PSS, SHA-384": (*RSA, "-sha384", *PSS),
    "ECDSA, SHA-1": (*P_256, "-sha1"),
    "ECDSA, SHA-256": (*P_256, "-sha256"),
    "ECDSA, SHA-384": (*P_384, "-sha384"),
    "ECDSA, SHA-512": (*P_256, "-sha512"),
}

# A signature without a hash function of its own, so that nobody can tell what to bind to.
UNBOUND = ("ed25519",)

SECRET = {"user": "alice", "password": PASSWORDS["alice"]}
BINDS, MAY_BIND, DOES_NOT = ({"channel_binding": how, "sslmode": "require", **SECRET} for how in ("require", "prefer", "disable"))


@pytest.fixture(scope="module")
def strict_pg(certificates):
    """PostgreSQL that asks for SCRAM, and shows what `certificates` has under the name `bound`."""
    cluster = cluster_with(15, certificates.copy(certificates.server, "bound"))
    cluster.write_hba("local all all trust\nhostssl all all all scram-sha-256\n")
    cluster.reload()
    yield cluster
    cluster.remove()


def show(cluster, certificates, pair) -> None:
    """Makes PostgreSQL show this certificate."""
    certificates.copy(pair, "bound")
    cluster.reload()

    def does():
        with raw(cluster) as s:
            s.sendall(SSL_REQUEST)
            return s.recv(1) == b"S" and by_tls(s).getpeercert(binary_form=True) == pair.der()

    eventually(does, what="PostgreSQL's certificate")


def made(make_pooler, certificates, port: int, pair, **settings):
    """A pooler that shows this certificate, and whose server is at this port."""
    leg = client_leg(certificates, "allow", client_tls_cert_file=pair.certificate, client_tls_key_file=pair.key)
    more = {"auth_type": "scram-sha-256", "server_tls_sslmode": "require", "server_login_retry": 1}
    return make_pooler(databases={"*": f"host=127.0.0.1 port={port}"}, settings={**leg, **more, **settings})


@pytest.mark.parametrize("signature", SIGNATURES)
def test_certificates_of_every_signature(strict_pg, certificates, make_pooler, signature):
    """The same certificate on both legs: libpq computes the hash on one, PostgreSQL on the other."""
    pair = certificates.self_made("signed", *SIGNATURES[signature])
    show(strict_pg, certificates, pair)
    with Between(pair, strict_pg.host, strict_pg.port) as between:
        pooler = made(make_pooler, certificates, between.port, pair)
        for protocol in ("TLSv1.2", "TLSv1.3"):
            pinned = {"ssl_min_protocol_version": protocol, "ssl_max_protocol_version": protocol}
            assert log_in(pooler, **BINDS, **pinned) == "in"
        assert between.mechanisms == [PLUS], "the pooler binds to its server"


def test_a_certificate_that_nobody_can_bind_to(strict_pg, certificates, make_pooler):
    """Both legs do without, unless libpq is told to insist."""
    pair = certificates.self_made("unbound", *UNBOUND)
    show(strict_pg, certificates, pair)
    with Between(pair, strict_pg.host, strict_pg.port) as between:
        pooler = made(make_pooler, certificates, between.port, pair)
        assert log_in(pooler, **MAY_BIND) == "in"
        assert between.mechanisms == [b"SCRAM-SHA-256"]
        assert "channel binding" in log_in(pooler, **BINDS)


# ---- somebody in between, whose certificate is trusted as much as the right one

# Whether he hides from the client that the server offers channel binding.
OFFERS = pytest.mark.parametrize("hides_plus", (False, True), ids=("plus", "hidden plus"))


@OFFERS
def test_somebody_between_client_and_pooler(pg15, certificates, make_pooler, hides_plus):
    pooler = made(make_pooler, certificates, pg15.port, certificates.server, server_tls_sslmode="disable")
    trusting = {"sslmode": "verify-full", "sslrootcert": certificates.ca, "host": "localhost"}
    with Between(certificates.second, pooler.host, pooler.port, hides_plus) as between:
        named = {"port": between.port, **trusting}
        assert log_in(pooler, **DOES_NOT | named) == "in", "he gets everything from a client that does not bind"
        assert "SASL authentication failed" in log_in(pooler, **MAY_BIND | named)
        pooler.wait_log("thinks that it was not offered" if hides_plus else "SCRAM channel binding check failed")
        told = "did not offer" if hides_plus else "SASL authentication failed"
        assert told in log_in(pooler, **BINDS | named)
    # With the pooler's own certificate and key he is the pooler, as far as a client can tell.
    with Between(certificates.server, pooler.host, pooler.port) as between:
        assert log_in(pooler, **BINDS | {"port": between.port, **trusting}) == "in"


@OFFERS
def test_somebody_between_pooler_and_server(strict_pg, certificates, make_pooler, hides_plus):
    show(strict_pg, certificates, certificates.server)
    with Between(certificates.second, strict_pg.host, strict_pg.port, hides_plus) as between:
        leg = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": certificates.ca}
        pooler = made(make_pooler, certificates, between.port, certificates.server, **leg)
        assert log_in(pooler, **DOES_NOT | {"port": between.port}) == "in", "he gets everything from a client that does not bind"
        told = "SCRAM channel binding negotiation error" if hides_plus else "SCRAM channel binding check failed"
        assert told in log_in(pooler, **MAY_BIND)
        pooler.wait_log(f"server login failed: FATAL {told}")
        assert between.mechanisms[-1] == (b"SCRAM-SHA-256" if hides_plus else PLUS)
