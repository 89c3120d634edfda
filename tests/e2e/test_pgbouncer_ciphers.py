"""The cipher of each leg, as its other side sees it, for the settings that name ciphers: a real PgBouncer 1.26, and pgweir."""

from __future__ import annotations

import ssl

import pytest

from harness import wire
from harness.pooler import kind
from harness.tls_client import context_for, secured
from harness.waiting import eventually
from test_pgbouncer_limits import both
from test_tls import client_leg, tls_pg  # noqa: F401

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Each list is shorter in tests than what the other side takes, and its first one would not be chosen without it.
GCM_256, GCM_128, CHACHA = "TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"
# TLS 1.2, with the kind of key that the certificates of the tests have.
OLD = "ECDHE-ECDSA-"
OLD_GCM_256, OLD_GCM_128, OLD_CHACHA = f"{OLD}AES256-GCM-SHA384", f"{OLD}AES128-GCM-SHA256", f"{OLD}CHACHA20-POLY1305"

# Version of TLS, ciphers, and which is chosen; none, if there is no common one.
CIPHERS = {
    "1.2": ("tlsv1.2", {}, OLD_GCM_256),
    "1.2, a word": ("tlsv1.2", {"tls_ciphers": "fast"}, OLD_GCM_256),
    "1.2, one": ("tlsv1.2", {"tls_ciphers": OLD_GCM_128}, OLD_GCM_128),
    "1.2, another, and what is not": ("tlsv1.2", {"tls_ciphers": f"{OLD_CHACHA}:!MD5"}, OLD_CHACHA),
    "1.2, a list": ("tlsv1.2", {"tls_ciphers": f"ECDHE-RSA-AES256-GCM-SHA384:{OLD_GCM_128}"}, OLD_GCM_128),
    "1.2, none for the key": ("tlsv1.2", {"tls_ciphers": "ECDHE-RSA-AES256-GCM-SHA384"}, None),
    "1.2, those of 1.3": ("tlsv1.2", {"tls13_ciphers": GCM_128}, OLD_GCM_256),
    "1.3": ("tlsv1.3", {}, GCM_256),
    "1.3, one": ("tlsv1.3", {"tls13_ciphers": GCM_128}, GCM_128),
    "1.3, another": ("tlsv1.3", {"tls13_ciphers": CHACHA}, CHACHA),
    "1.3, a list": ("tlsv1.3", {"tls13_ciphers": f"{CHACHA}:{GCM_128}"}, CHACHA),
    "1.3, those of 1.2": ("tlsv1.3", {"tls_ciphers": OLD_GCM_128}, GCM_256),
}


def settings_of(leg: str, what: str) -> dict:
    version, ciphers, _ = CIPHERS[what]
    return {f"{leg}_tls_protocols": version, **{f"{leg}_{name}": value for name, value in ciphers.items()}}


@pytest.mark.parametrize("what", CIPHERS)
def test_client_leg(pg15, certificates, make_pooler, what):
    chosen = CIPHERS[what][2]
    for pooler in both(make_pooler, pg15, settings=client_leg(certificates, "require", **settings_of("client", what))):
        try:
            with secured(pooler, context_for()) as c:
                assert c.socket.cipher()[0] == chosen, pooler.which
        except ssl.SSLError:
            assert chosen is None, pooler.which


@pytest.mark.parametrize("what", CIPHERS)
def test_server_leg(tls_pg, make_pooler, what):  # noqa: F811
    chosen = CIPHERS[what][2]
    limit = 30 if chosen else 0.3
    settings = {"server_tls_sslmode": "require", "query_wait_timeout": limit, **settings_of("server", what)}
    for pooler in both(make_pooler, tls_pg, settings=settings):
        try:
            with pooler.connect() as c:
                seen = c.value("select version || '/' || cipher from pg_stat_ssl where pid = pg_backend_pid()")
                assert seen == CIPHERS[what][0].replace("tls", "TLS") + f"/{chosen}", pooler.which
                (shown,) = [row["tls"] for row in pooler.console("show servers")]
                assert shown == seen, pooler.which
        except wire.ServerError:
            assert chosen is None, pooler.which


# Lists with names that do not exist, or that pgweir does not have: the setting, its value, and which suite a client gets that
# takes all; none, if the file is refused.
NAMES = {
    "nothing": ("tls_ciphers", "", OLD_GCM_256),
    "an unknown name": ("tls_ciphers", "NOSUCH", None),
    "two unknown names": ("tls_ciphers", "NOSUCH:ALSO", None),
    "an unknown name behind": ("tls_ciphers", f"{OLD_GCM_128}:NOSUCH", OLD_GCM_128),
    "an unknown name in front": ("tls_ciphers", f"NOSUCH:{OLD_GCM_128}", OLD_GCM_128),
    "an unknown name behind a comma": ("tls_ciphers", f"{OLD_GCM_128},NOSUCH", OLD_GCM_128),
    "an unknown name behind a blank": ("tls_ciphers", f"{OLD_GCM_128} NOSUCH", OLD_GCM_128),
    "an unknown name that is forbidden": ("tls_ciphers", f"!NOSUCH:{OLD_GCM_128}", OLD_GCM_128),
    "an unknown part of a name": ("tls_ciphers", "NOSUCH+AES", None),
    "an old suite behind": ("tls_ciphers", f"{OLD_GCM_128}:AES128-SHA", OLD_GCM_128),
    "a suite of 1.3": ("tls_ciphers", GCM_128, None),
    "a suite of 1.3 behind": ("tls_ciphers", f"{OLD_GCM_128}:{GCM_128}", OLD_GCM_128),
    "a command": ("tls_ciphers", f"{OLD_GCM_128}:@STRENGTH", OLD_GCM_128),
    "a command alone": ("tls_ciphers", "@STRENGTH", None),
    "an unknown command": ("tls_ciphers", f"{OLD_GCM_128}:@NOSUCH", None),
    "a level": ("tls_ciphers", f"{OLD_GCM_128}:@SECLEVEL=1", OLD_GCM_128),
    "a level that does not exist": ("tls_ciphers", f"{OLD_GCM_128}:@SECLEVEL=6", None),
    "all, and none of them": ("tls_ciphers", "ALL:!ALL", None),
    "1.3: nothing": ("tls13_ciphers", "", GCM_256),
    "1.3: an unknown name": ("tls13_ciphers", "TLS_X", None),
    "1.3: an unknown name behind": ("tls13_ciphers", f"{GCM_128}:TLS_X", GCM_128),
    "1.3: an unknown name in front": ("tls13_ciphers", f"TLS_X:{GCM_128}", GCM_128),
    "1.3: a suite of 1.2": ("tls13_ciphers", OLD_GCM_128, None),
}
REFUSED = "the file is refused"
NO_COMMON_SUITE = "no common suite"
# What differs on purpose: PgBouncer's outcome and ours.
OTHER_NAMES = {
    "an old suite alone": ("tls_ciphers", "AES128-SHA", NO_COMMON_SUITE, REFUSED),
    "small letters": ("tls_ciphers", OLD_GCM_128.lower(), REFUSED, OLD_GCM_128),
    "1.3: a suite of OpenSSL's": ("tls13_ciphers", "TLS_AES_128_CCM_SHA256", NO_COMMON_SUITE, REFUSED),
    "1.3: small letters": ("tls13_ciphers", GCM_128.lower(), REFUSED, GCM_128),
    "1.3: a blank": ("tls13_ciphers", f"{GCM_128} {CHACHA}", REFUSED, GCM_128),
}


def outcome(pooler) -> str:
    """The suite of a client that takes all."""
    pooler.spawn()
    eventually(lambda: "process up" in pooler.log() or not pooler.running, what="its start")
    if not pooler.running:
        assert pooler.wait_exit() != 0
        assert "TLS setup failed" in pooler.log() + pooler.stderr()
        return REFUSED
    try:
        with secured(pooler, context_for()) as c:
            return c.socket.cipher()[0]
    except ssl.SSLError:
        return NO_COMMON_SUITE


@pytest.mark.parametrize("what", {**NAMES, **OTHER_NAMES})
def test_names_that_do_not_exist(pg15, certificates, make_pooler, what):
    name, value, *wanted = {**NAMES, **OTHER_NAMES}[what]
    version = "tlsv1.3" if name == "tls13_ciphers" else "tlsv1.2"
    settings = client_leg(certificates, "require", client_tls_protocols=version, **{f"client_{name}": value})
    seen = [outcome(pooler) for pooler in both(make_pooler, pg15, start=False, settings=settings)]
    assert seen == ([each or REFUSED for each in wanted] * 2)[:2]
