"""The ways in that need more than a password, before a real PgBouncer 1.26 and before pgweir: certificates, directories, PAM,
system users, and lines of an HBA file.

A row of a table is a client: what it hears, and the reason that PgBouncer and pgweir write to the log. pgweir's lines begin
with `login failed: ` and go on with PgBouncer's words, except where the row says otherwise.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import NamedTuple

import pytest

from harness import directory as ldap
from harness import pam, wire
from harness.pooler import PASSWORDS, kind
from harness.side_by_side import IN, NO_HANDSHAKE, tried
from harness.tls_client import context_for, secured

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")



class Row(NamedTuple):
    """A client, and what becomes of it."""

    client: Callable[[object], wire.Connection]
    # What it hears: `in`, or the error.
    heard: str
    # What PgBouncer's log says, beside the reason for the end of the connection.
    theirs: str = ""
    # What ours says, if it is something else.
    ours: str | None = None
    # What our client hears, if it is something else.
    heard_from_us: str | None = None


# ---- clients


def by_password(user: str, password: str, **named):
    return lambda p: p.connect(user=user, password=password, **named)


def by_socket(user: str, **named):
    return lambda p: p.connect(user=user, host=p.dir, **named)


def by_tls(user: str, pair=None, version: str = "TLSv1_3", **named):
    return lambda p: secured(p, context_for(pair, ssl.TLSVersion[version]), user=user, **named)


# ---- what becomes of them


def expected(row: Row, which: str) -> tuple[str, str]:
    """What the client of the row hears, and how the reason in the log begins."""
    if which == "pgbouncer":
        return row.heard, row.theirs
    reason = row.theirs if row.ours is None else row.ours
    is_refused = reason and reason != HANDSHAKE
    return row.heard_from_us or row.heard, f"login failed: {reason}" if is_refused else reason


def is_as_expected(row: Row, which: str, heard: str, end: str, lines: list[str]) -> bool:
    words, reason = expected(row, which)
    ends = {IN: "client close request", NO_HANDSHAKE: "TLS handshake"}
    is_logged = any(line.startswith(reason) for line in lines) if reason else not lines
    return heard == words and end.startswith(ends.get(words, words)) and is_logged


def compare(make_pooler, cluster, rows: dict[str, Row], files: dict[str, str] | None = None, users=PASSWORDS, **settings):
    """All clients before both poolers. `files`: settings that name files, and their content."""
    wrong = {}
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(cluster, start=False, which=which, settings=settings, userlist=dict.fromkeys(users, ""))
        pooler.databases = {name: pooler.server(user="postgres") for name in ("postgres", "shop")}
        for name, content in (files or {}).items():
            path = os.path.join(pooler.dir, name)
            pooler.write_file(path, content)
            if name.startswith("auth_"):
                pooler.settings[name] = path
        pooler.write_ini()
        pooler.start()
        seen = {name: tried(pooler, row.client) for name, row in rows.items()}
        wrong |= {(which, n): (expected(rows[n], which), s) for n, s in seen.items() if not is_as_expected(rows[n], which, *s)}
        pooler.finish()
    assert not wrong, "\n".join(f"{which}, {name}: expected {words}, got {got}" for (which, name), (words, got) in wrong.items())


# ---- certificates

REFUSED = "certificate authentication failed"
MISMATCH = "TLS certificate name mismatch"
HANDSHAKE = "TLS handshake error: "


@pytest.fixture(scope="module")
def late(certificates):
    """Alice's certificate of yesterday."""
    return certificates.signed("late", certificates.authority, "/CN=alice", "extendedKeyUsage=clientAuth", days="-1")


def leg(certificates, mode: str) -> dict[str, str]:
    return {
        "client_tls_sslmode": mode,
        "client_tls_cert_file": certificates.server.certificate,
        "client_tls_key_file": certificates.server.key,
        "client_tls_ca_file": certificates.ca,
    }


def shown(certificates, late) -> dict[str, Row]:
    """Clients with each kind of certificate, with each version of TLS, where certificates are mandatory."""
    rows = {}
    for version in ("TLSv1_2", "TLSv1_3"):
        rows |= {
            f"other name, {version}": Row(by_tls("alice", certificates.second, version), REFUSED, MISMATCH),
            f"expired, {version}": Row(by_tls("alice", late, version), NO_HANDSHAKE, HANDSHAKE),
            f"other authority, {version}": Row(by_tls("alice", certificates.foreign, version), NO_HANDSHAKE, HANDSHAKE),
            f"none, {version}": Row(by_tls("alice", None, version), NO_HANDSHAKE, HANDSHAKE),
        }
    return rows


def test_by_certificate(pg15, make_pooler, certificates, late):
    own = {version: Row(by_tls("alice", certificates.alice, version), IN) for version in ("TLSv1_2", "TLSv1_3")}
    rows = {
        **own,
        **shown(certificates, late),
        "other user": Row(by_tls("bob", certificates.alice), REFUSED, MISMATCH),
        "unknown user": Row(by_tls("second", certificates.second), REFUSED, "no such user: second"),
        "unknown user, other name": Row(by_tls("nobody", certificates.alice), REFUSED, "no such user: nobody", MISMATCH),
        "without TLS": Row(by_password("alice", ""), "SSL required"),
    }
    by_socket_too = {"Unix socket": Row(by_socket("alice"), REFUSED, "TLS connection required")}
    compare(make_pooler, pg15, rows | by_socket_too, **leg(certificates, "verify-full"), auth_type="cert")
    files = {"auth_hba_file": "hostssl all all all cert\n"}
    compare(make_pooler, pg15, rows, files, **leg(certificates, "verify-ca"), auth_type="hba")


@pytest.mark.parametrize("mode", ("allow", "require"))
def test_certificates_that_nobody_must_have(pg15, make_pooler, certificates, late, mode):
    """A client is asked for one, and one that cannot be verified is refused."""
    rows = {name: row for name, row in shown(certificates, late).items() if "none" not in name and "other name" not in name}
    rows["own"] = Row(by_tls("alice", certificates.alice), IN)
    trusted = {"none": Row(by_tls("alice"), IN), "other name": Row(by_tls("alice", certificates.second), IN)}
    compare(make_pooler, pg15, rows | trusted, **leg(certificates, mode), auth_type="trust")
    rows["none"] = Row(by_tls("alice"), REFUSED, "TLS client certificate required")
    rows["other name"] = Row(by_tls("alice", certificates.second), REFUSED, MISMATCH)
    compare(make_pooler, pg15, rows, {"auth_hba_file": "hostssl all all all cert\n"}, **leg(certificates, mode), auth_type="hba")


def test_certificates_without_an_authority(pg15, make_pooler, certificates):
    """PgBouncer asks for one nevertheless, and can verify none."""
    rows = {
        "none": Row(by_tls("alice"), IN),
        "own": Row(by_tls("alice", certificates.alice), NO_HANDSHAKE, HANDSHAKE, "", IN),
    }
    compare(make_pooler, pg15, rows, **(leg(certificates, "require") | {"client_tls_ca_file": None}), auth_type="trust")


def test_by_certificate_and_map(pg15, make_pooler, certificates, late):
    unmatched = "ident map: people does not have a match"
    rows = shown(certificates, late)
    rows |= {name: row._replace(theirs=unmatched) for name, row in rows.items() if row.theirs == MISMATCH}
    rows |= {
        "mapped": Row(by_tls("bob", certificates.alice), IN),
        "own name": Row(by_tls("alice", certificates.alice), REFUSED, unmatched),
        "mapped to nobody": Row(by_tls("nobody", certificates.alice), REFUSED, "no such user: nobody"),
        "of another map": Row(by_tls("stats", certificates.alice), REFUSED, unmatched),
    }
    files = {
        "auth_hba_file": "hostssl all all all cert map=people\n",
        "auth_ident_file": "people alice bob\npeople alice nobody\nother alice stats\n",
    }
    compare(make_pooler, pg15, rows, files, **leg(certificates, "verify-full"), auth_type="hba")


# ---- passwords that others check

EMPTY = "empty password returned by client"


def asked(user: str, right: str, refused: str, wrong: str, ours: str | None = None) -> dict[str, Row]:
    """The right, a wrong and an empty password."""
    return {
        "right": Row(by_password(user, right), IN),
        "wrong": Row(by_password(user, "wrong"), refused, wrong, ours),
        # PgBouncer's log has the reason for the end only.
        "empty": Row(by_password(user, ""), EMPTY, "", EMPTY),
    }


SIMPLE = f'ldapprefix="cn=" ldapsuffix=",{ldap.PEOPLE}"'
SEARCH = f'ldapbasedn="{ldap.SUFFIX}" ldapbinddn="{ldap.SEARCHER}" ldapbindpasswd=searcher-ldap'
NOT_BY_LDAP = "LDAP authentication failed"


def ldap_rows(search: bool) -> dict[str, Row]:
    who = (lambda user: f'LDAP user "{user}"') if search else (lambda user: f"LDAP login failed for user cn={user},")
    bad = lambda user, password, *logged: Row(by_password(user, password), NOT_BY_LDAP, *logged)  # noqa: E731
    return {
        **asked("alice", "alice-ldap", NOT_BY_LDAP, "LDAP login failed for user cn=alice,"),
        "not in auth_file": Row(by_password("bob", "bob-ldap"), IN),
        "unknown": bad("nobody", "x", who("nobody")),
        "somebody else's": bad("alice", "bob-ldap", "LDAP login failed for user cn=alice,"),
        "not unique": bad("twin", "twin-ldap", who("twin")) if search else Row(by_password("twin", "twin-ldap"), IN),
    }


@pytest.mark.parametrize("how", ("auth_type", "hba"))
@pytest.mark.parametrize("way", ("simple", "search"))
def test_by_ldap(pg15, make_pooler, directory, way, how):
    options = f"ldapserver=127.0.0.1 ldapport={directory.port} {SEARCH if way == 'search' else SIMPLE}"
    rows = ldap_rows(search=way == "search")
    if how == "hba":
        compare(make_pooler, pg15, rows, {"auth_hba_file": f"host all all all ldap {options}\n"}, ["alice"], auth_type="hba")
    else:
        compare(make_pooler, pg15, rows, users=["alice"], auth_type="ldap", auth_ldap_options=options)


def test_by_ldap_while_the_directory_is_down(pg15, make_pooler):
    rows = asked("alice", "alice-ldap", NOT_BY_LDAP, "LDAP login failed for user ")
    rows["right"] = rows["wrong"]._replace(client=by_password("alice", "alice-ldap"))
    compare(make_pooler, pg15, rows, auth_type="ldap", auth_ldap_options=f"ldapserver=127.0.0.1 ldapport=1 {SIMPLE}")


NOT_BY_PAM = "PAM authentication failed"


def pam_rows() -> dict[str, Row]:
    failed = "pam_authenticate() failed: "
    return {
        **asked("alice", "alice-pw", NOT_BY_PAM, failed),
        "not in auth_file": Row(by_password("bob", "bob-pw"), IN),
        "unknown": Row(by_password("nobody", "alice-pw"), NOT_BY_PAM, failed),
    }


def beyond(row: Row) -> Row:
    """The same client where PgBouncer finds no line for it."""
    ours = row.theirs if row.ours is None else row.ours
    return Row(row.client, NO_METHOD, "", ours, row.heard_from_us or row.heard)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write to /etc/pam.d")
def test_by_pam(pg15, make_pooler):
    with pam.pgbouncers_service():
        compare(make_pooler, pg15, pam_rows(), users=["alice"], auth_type="pam")
        # PgBouncer has no PAM in HBA files. It ignores the line.
        rows = {name: beyond(row) for name, row in pam_rows().items()}
        rows |= {name: rows[name]._replace(theirs="no such user: ") for name in ("not in auth_file", "unknown")}
        compare(make_pooler, pg15, rows, {"auth_hba_file": "host all all all pam\n"}, ["alice"], auth_type="hba")


# ---- system users and lines of the HBA file

NO_PEER = "unix socket login rejected"
NO_METHOD = "no authentication method is found"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a system user whose name the test knows: root")
def test_by_system_user(pg15, make_pooler):
    users = ["root", "alice", "bob"]
    refused = {
        "bob": Row(by_socket("bob"), NO_PEER, "", "system user"),
        "unknown": Row(by_socket("nobody"), NO_PEER, "no such user: nobody", "system user"),
        "by TCP": Row(by_password("root", ""), NO_METHOD, "", "no rule of auth_hba_file"),
    }
    rows = {"own name": Row(by_socket("root"), IN), **refused, "alice": Row(by_socket("alice"), NO_PEER, "", "system user")}
    compare(make_pooler, pg15, rows, {"auth_hba_file": "local all all peer\n"}, users, auth_type="hba")
    unmatched = "ident map m cannot be matched"
    rows = {
        **refused,
        "mapped": Row(by_socket("alice"), IN),
        "own name": Row(by_socket("root"), NO_PEER, unmatched),
        "bob": refused["bob"]._replace(theirs=unmatched, ours=None),
        "unknown": refused["unknown"]._replace(ours=unmatched),
    }
    files = {"auth_hba_file": "local all all peer map=m\n", "auth_ident_file": "m root alice\nm postgres bob\n"}
    compare(make_pooler, pg15, rows, files, users, auth_type="hba")



REJECTED = "login rejected"

RULES = """\
# The first line that matches decides.
host      shop               alice      127.0.0.1/32                reject
host      shop,"other base"  alice,bob  127.0.0.1  255.255.255.255  trust
host      shop               @names     127.0.0.1/32                trust
hostssl   all                stats      127.0.0.1/32                trust
hostnossl sameuser           all        127.0.0.0/8                 trust
host      all                "all"      127.0.0.1/32                reject
host      all                postgres   10.0.0.0/8                  trust
local     shop               all                                    trust
"""

MATCHES = {
    # user, database         TCP        TLS        Unix socket
    ("alice", "shop"):       (REJECTED,  REJECTED,  IN),
    ("bob", "shop"):         (IN,        IN,        IN),
    ("listed", "shop"):      (IN,        IN,        IN),
    ("stats", "shop"):       (NO_METHOD, IN,        IN),
    ("all", "shop"):         (REJECTED,  REJECTED,  IN),
    ("postgres", "shop"):    (NO_METHOD, NO_METHOD, IN),
    ("alice", "postgres"):   (NO_METHOD, NO_METHOD, NO_METHOD),
    ("listed", "postgres"):  (NO_METHOD, NO_METHOD, NO_METHOD),
    ("stats", "postgres"):   (NO_METHOD, IN,        NO_METHOD),
    ("all", "postgres"):     (REJECTED,  REJECTED,  NO_METHOD),
    ("postgres", "postgres"): (IN,       NO_METHOD, NO_METHOD),
}  # fmt: skip


def test_lines_of_the_hba_file(pg15, make_pooler, certificates):
    ours = {REJECTED: "rejected by ", NO_METHOD: "no rule of auth_hba_file matches", IN: ""}
    rows = {}
    for (user, database), heard in MATCHES.items():
        named = {"user": user, "database": database}
        clients = by_password(password="", **named), by_tls(**named), by_socket(**named)
        for way, client, words in zip(("TCP", "TLS", "socket"), clients, heard):
            rows[f"{user} to {database} by {way}"] = Row(client, words, "", ours[words])
    files = {"auth_hba_file": RULES, "names": "listed\n"}
    users = sorted({user for user, _ in MATCHES})
    compare(make_pooler, pg15, rows, files, users, **leg(certificates, "allow"), auth_type="hba")


def test_the_console_and_the_hba_file(pg15, make_pooler):
    """PgBouncer says that a known user may not use the console before it looks for a line."""
    rows = {
        user: Row(by_password(user, "", database="pgbouncer"), "not allowed", "", logged, heard)
        for user, logged, heard in [
            ("alice", "rejected by ", REJECTED),
            ("bob", "no rule of auth_hba_file matches", NO_METHOD),
        ]
    }
    rows["nobody"] = Row(by_password("nobody", "", database="pgbouncer"), REJECTED, "no such user: nobody", "rejected by ")
    files = {"auth_hba_file": "host pgbouncer alice,nobody all reject\n"}
    compare(make_pooler, pg15, rows, files, auth_type="hba")
