"""What the log says of a RELOAD or a start whose files are bad, before a real PgBouncer 1.26 and before pgweir: ours has every line of
theirs, with more behind it, because programs that read logs look for these words."""

from __future__ import annotations

import re
import signal
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.side_by_side import missing
from test_pgbouncer_limits import both
from test_tls import client_leg

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# Seconds for a RELOAD to end.
SETTLE_SECONDS = 0.3

# Lines at the end of the file, and what PgBouncer says that ours does not: it blames more than one part of the program.
BAD = {
    "pool_mode = abc": None,
    "max_client_conn = abc": None,
    "nosuch = abc": "invalid value ",
    "[nosuch]": "fill_defaults fail",
    "nonsense": None,
    "%include /no/such": "error processing include file",
    "[databases]\nx = nosuch=1": "invalid value ",
    "[users]\nx = nosuch=1": "invalid value ",
    "auth_file = /no/users": None,
    "auth_type = hba\nauth_hba_file = /no/hba": None,
    "auth_type = hba\nauth_hba_file = %folder%/hba\nauth_ident_file = /no/ident": None,
    "auth_type = hba\nauth_hba_file = %folder%/bad_hba": "hba line ",
    "auth_type = hba\nauth_hba_file = %folder%/mapped_hba\nauth_ident_file = %folder%/ident": "hba line ",
    "auth_type = hba\nauth_hba_file = %folder%/hba\nauth_ident_file = %folder%/bad_ident": "ident line ",
    "client_tls_sslmode = require": None,
    "auth_type = cert\nclient_tls_sslmode = allow\nclient_tls_key_file = /no/k\nclient_tls_cert_file = /no/c": None,
    "auth_type = cert\nclient_tls_sslmode = verify-full\nclient_tls_key_file = /no/k\nclient_tls_cert_file = /no/c": None,
    "client_tls_sslmode = verify-full\nclient_tls_key_file = /no/k\nclient_tls_cert_file = /no/c": None,
    "client_tls_sslmode = require\nclient_tls_key_file = /no/k\nclient_tls_cert_file = /no/c": None,
}

# Files of rules and maps that the lines name.
FILES = {
    "hba": "local all all trust\n",
    "bad_hba": "local all all trust\nhost all all nowhere md5\nnonsense\n",
    "mapped_hba": "# maps\nlocal all all peer map=m\n",
    "ident": "n a b\n",
    "bad_ident": "m a b\nm a\n",
}

# A line without its time and level.
LINE = re.compile(r"^\S+ \S+ UTC \[\d+\] (?:ERROR|WARNING) (.*)", re.M)


def said(pooler, lines: str) -> list[str]:
    """What the log says of a SIGHUP with these lines at the end of the file, with one name for its folder."""
    for name, content in FILES.items():
        pooler.write_file(f"{pooler.dir}/{name}", content)
    with open(pooler.ini_path, encoding="utf-8") as file:
        pooler.write_file(pooler.ini_path, file.read() + lines.replace("%folder%", pooler.dir) + "\n")
    offset = len(pooler.log())
    pooler.signal(signal.SIGHUP)
    time.sleep(SETTLE_SECONDS)
    return [line.replace(pooler.dir, "%folder%") for line in LINE.findall(pooler.log()[offset:])]


# What PgBouncer goes on with, and pgweir does not.
REFUSED = ["auth_file = /no/users", "auth_file =", "auth_type = hba\nauth_hba_file = /no/hba"]

# Lines at the end of the file, with which neither starts.
NO_START = ["pool_mode = abc", "nosuch = abc", "nonsense", "[nosuch]", "%include /no/such", "[databases]\nx = nosuch=1"]
NO_START += ["client_tls_sslmode = require", *(lines for lines in BAD if lines.startswith("auth_type = cert"))]

# The words of OpenSSL behind those of PgBouncer.
LIBRARY = re.compile(r"error:\d+:system library::")


@pytest.mark.parametrize("lines", BAD)
def test_a_bad_file_is_told_in_the_same_words(pg15, make_pooler, lines):
    theirs, ours = (said(make_pooler(pg15, which=which), lines) for which in ("pgbouncer", "pgweir"))
    theirs = [LIBRARY.sub("", line).removesuffix(", stopping loading") for line in theirs]
    own = BAD[lines]
    print(theirs, ours, sep="\n")
    assert theirs
    assert missing([line for line in theirs if not (own and line.startswith(own))], ours) == []


# A value that is none. PgBouncer takes any for server_tls13_ciphers, and has no server_tls_ecdhcurve.
BAD_TLS = [f"client_tls_{name}" for name in ("ciphers", "protocols", "ecdhcurve")] + ["client_tls13_ciphers", "server_tls_ciphers", "server_tls_protocols"]


@pytest.mark.parametrize("name", BAD_TLS)
def test_a_bad_value_of_tls_is_told_in_the_same_words(pg15, certificates, make_pooler, name):
    settings = {**client_leg(certificates), "server_tls_sslmode": "prefer"}
    theirs, ours = (said(make_pooler(pg15, which=which, settings=settings), f"{name} = nonsense") for which in ("pgbouncer", "pgweir"))
    # Its slip, where ours has the setting's name.
    theirs = [line.replace("ecdhecurve", "ecdhcurve") for line in theirs]
    print(theirs, ours, sep="\n")
    assert theirs
    assert missing(theirs, ours) == []


def test_a_reload_by_the_console_that_is_refused(pg15, make_pooler):
    last = []
    for pooler in both(make_pooler, pg15):
        with open(pooler.ini_path, "a", encoding="utf-8") as file:
            file.write("pool_mode = abc\n")
        offset = len(pooler.log())
        with pytest.raises(wire.ServerError, match="RELOAD failed, see logs for additional details"):
            pooler.console("reload")
        last.append(next(line for line in LINE.findall(pooler.log()[offset:]) if line.startswith("RELOAD")))
    assert missing(last[:1], last[1:]) == []


@pytest.mark.parametrize("lines", REFUSED)
def test_the_last_words_about_a_reload_that_is_refused(pg15, make_pooler, lines):
    ours = said(make_pooler(pg15, settings={"auth_type": "md5"}), lines)
    assert [line.partition(" (")[0] for line in ours[-2:]] == ["config file loading failed", "RELOAD Failed, see logs for more details; the old configuration stays"]


@pytest.mark.parametrize("lines", NO_START)
def test_the_last_words_about_a_start_that_fails(pg15, make_pooler, lines):
    last, logged = [], []
    for pooler in both(make_pooler, pg15, start=False):
        pooler.write_ini()
        with open(pooler.ini_path, "a", encoding="utf-8") as file:
            file.write(lines + "\n")
        pooler.spawn()
        assert pooler.wait_exit() == 1
        last.append(pooler.stderr().splitlines()[-1].rpartition("FATAL ")[2])
        logged.append([line.replace(pooler.dir, "%folder%") for line in LINE.findall(pooler.log())])
        assert pooler.log().splitlines()[-1].endswith(f" FATAL {last[-1]}")
    assert last == ["TLS setup failed" if "_tls_" in lines else "cannot load config file"] * 2
    theirs, ours = logged
    theirs = [line.removesuffix(", stopping loading") for line in theirs]
    assert missing([line for line in theirs if not (BAD[lines] and line.startswith(BAD[lines]))], ours) == []


def test_an_unknown_user_at_the_start_is_logged(pg15, make_pooler):
    for pooler in both(make_pooler, pg15, settings={"user": "nowhere"}, start=False):
        pooler.spawn()
        assert pooler.wait_exit() == 1
        assert "FATAL could not find user 'nowhere' to switch to" in pooler.log()
