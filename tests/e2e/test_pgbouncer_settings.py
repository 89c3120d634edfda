"""Settings of which little is to be seen, before a real PgBouncer 1.26 and before pgweir: what each of them does."""

from __future__ import annotations

import re
import socket
import struct
import subprocess

import pytest

from harness import sockets, wire
from harness.pooler import kind
from harness.side_by_side import read_some
from harness.waiting import eventually
from test_pgbouncer_limits import both
from test_tls import client_leg

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

# The keys that clients can exchange, and how they are called when it is done.
KEYS = {"X25519": "X25519", "P-256": "ECDH, prime256v1", "P-384": "ECDH, secp384r1"}
# A value, and which of the keys it lets clients use.
CURVES = {None: KEYS, "auto": KEYS, "prime256v1": ["P-256"], "secp384r1": ["P-384"]}


def key_exchange(pooler, groups: str) -> str | None:
    """The key that is exchanged with a client that knows some; none, if the handshake fails."""
    command = ["openssl", "s_client", "-starttls", "postgres", "-connect", f"127.0.0.1:{pooler.port}", "-groups", groups]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"Server Temp Key: (.*), \d+ bits", result.stdout)
    return found and found[1]


@pytest.mark.parametrize("curves", CURVES)
def test_client_tls_ecdhcurve(pg15, certificates, make_pooler, curves):
    for pooler in both(make_pooler, pg15, settings=client_leg(certificates, "require", client_tls_ecdhcurve=curves)):
        for key, name in KEYS.items():
            assert key_exchange(pooler, key) == (name if key in CURVES[curves] else None), (pooler.which, key)
        if len(CURVES[curves]) == 1:
            assert key_exchange(pooler, ":".join(KEYS)) == KEYS[CURVES[curves][0]], pooler.which


@pytest.mark.parametrize("backlog", [None, 77])
def test_listen_backlog(pg15, make_pooler, backlog):
    seen = []
    for pooler in both(make_pooler, pg15, settings={"listen_backlog": backlog}):
        with sockets.of_process(pooler.process.pid) as found:
            (listener,) = [s for s in found if s.family == socket.AF_INET and sockets.listens(s)]
            # tcpi_sacked of struct tcp_info is the length of a listening socket's queue.
            (length,) = struct.unpack_from("=I", listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 28)
            seen.append(length)
    assert seen == [backlog or 128] * 2


@pytest.mark.parametrize("on", [0, 1])
def test_disable_pqexec(pg15, make_pooler, on):
    """The extended protocol alone."""
    for pooler in both(make_pooler, pg15, settings={"disable_pqexec": on}):
        with pooler.connect() as c:
            assert wire.rows_of(c.extended("select 1")) == [("1",)], pooler.which
            c.send(wire.query("select 2"))
            if on:
                assert [m.fields["M"] for m in c.read_to_end() if m.tag == "E"] == ["PQexec disallowed"], pooler.which
            else:
                assert wire.rows_of(c.read_ready()) == [("2",)], pooler.which


# Startup parameters of a client.
IGNORED = {
    "options": {"options": "-c DateStyle=German -c TimeZone=Asia/Tokyo -c work_mem=7MB --IntervalStyle=iso_8601"},
    "more in options": {"options": "-c statement_timeout=77s -c search_path=nowhere -c standard_conforming_strings=off"},
    "an application_name": {"application_name": "mine", "work_mem": "7MB", "TimeZone": "Asia/Tokyo"},
    "an application_name in options": {"options": "-c application_name=mine -c DateStyle=German"},
    "unreadable": {"options": "-c DateStyle=German -x"},
    "half": {"options": "-c DateStyle=German -c"},
}


@pytest.mark.parametrize("listed", ["options,application_name,TimeZone,work_mem", "options", "work_mem,statement_timeout"])
@pytest.mark.parametrize("sent", IGNORED)
def test_what_ignore_startup_parameters_leaves(pg15, make_pooler, sent, listed):
    """If the list has `options`, the settings in there that PgBouncer follows reach the session all the same."""
    names = ["DateStyle", "TimeZone", "IntervalStyle", "application_name", "work_mem", "search_path"]
    names += ["statement_timeout", "standard_conforming_strings"]
    seen = []
    for pooler in both(make_pooler, pg15, settings={"ignore_startup_parameters": listed}):
        try:
            with pooler.connect(options=IGNORED[sent]) as c:
                seen.append({name: c.value(f"show {name}") for name in names})
        except wire.ServerError as error:
            seen.append(error.fields["M"])
    pgbouncer, pgweir = seen
    if pgbouncer == "unsupported startup parameter: work_mem":
        assert pgweir["work_mem"] == "7MB"
    elif "only '-c config=val'" in pgbouncer:
        assert "options" in pgweir
    else:
        assert pgweir == pgbouncer


@pytest.mark.parametrize("on", [0, 1])
def test_log_pooler_errors(pg15, make_pooler, on):
    named = {"settings": {"log_pooler_errors": on}, "databases": {"shop": "host=127.0.0.1"}}
    for pooler in both(make_pooler, pg15, **named):
        with pytest.raises(wire.ServerError):
            pooler.connect(database="nowhere")
        pooler.wait_log("closing because: no such database: nowhere")
        assert ("pooler error: no such database: nowhere" in pooler.log()) == bool(on), pooler.which


@pytest.mark.parametrize("text", ["", "Maintenance at noon"])
def test_login_notify_message(pg15, make_pooler, text):
    """Behind the key, before ReadyForQuery."""
    seen = []
    for pooler in both(make_pooler, pg15, settings={"login_notify_message": text}):
        with pooler.connect(database="shop") as c:
            of = [(m.tag, m.fields) for m in c.login_messages if m.tag in "KNZ"]
            seen.append([(tag, fields["S"], fields["C"], fields["M"]) if tag == "N" else tag for tag, fields in of])
    notice = [("N", "NOTICE", "00000", text)] if text else []
    assert seen == [["K", *notice, "Z"]] * 2


# -- servers that are to be closed

CHANGED = "database configuration changed"


def fate(c: wire.Connection) -> str:
    """What becomes of a client: its backend, or the error that it hears."""
    c.send(wire.query("select pg_backend_pid()"))
    messages = read_some(c)
    return next((m.fields["M"] for m in messages if m.tag == "E"), None) or wire.rows_of(messages)[0][0]


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("fast", [0, 1])
def test_server_fast_close(pg15, make_pooler, fast, mode):
    """After a RELOAD with another dbname: a session ends when it is in no transaction, and not without the setting."""
    entry = f"host=127.0.0.1 port={pg15.port}"
    for pooler in both(
        make_pooler, pg15, settings={"server_fast_close": fast}, mode=mode, databases={"shop": f"{entry} dbname=shop"}
    ):
        with pooler.connect(database="shop") as idle, pooler.connect(database="shop") as within:
            first = fate(idle)
            within.query("begin")
            second = fate(within)
            pooler.databases = {"shop": f"{entry} dbname=warehouse"}
            pooler.reload()
            if fast and mode == "session":
                assert [m.fields["M"] for m in idle.read_to_end()] == [CHANGED], pooler.which
            elif mode == "session":
                assert fate(idle) == first, pooler.which
            else:
                assert fate(idle) not in (first, CHANGED), pooler.which
            assert fate(within) == second, pooler.which
            within.query("commit")
            if fast and mode == "session":
                assert [m.fields["M"] for m in within.read_to_end()] == [CHANGED], pooler.which
            elif mode == "session":
                assert fate(within) == second, pooler.which
            else:
                assert fate(within) not in (second, CHANGED), pooler.which


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("always", [0, 1])
def test_server_reset_query_always(pg15, make_pooler, always, mode):
    """Behind each transaction in every mode; without it at the end of a session in session pooling."""
    pg15.psql("create sequence if not exists public.resets")
    settings = {"server_reset_query": "select nextval('public.resets')", "server_reset_query_always": always}
    at_rest = {"sv_active": int(mode == "session"), "sv_tested": 0}
    resets = lambda: int(pg15.psql("select last_value - 1 + is_called::int from public.resets"))  # noqa: E731
    for pooler in both(make_pooler, pg15, settings=settings, mode=mode):
        with pooler.connect() as c:
            c.value("select 1")
            pooler.wait_pool(**at_rest)
            pg15.psql("alter sequence public.resets restart")
            for _ in range(3):
                c.value("select 1")
            pooler.wait_pool(**at_rest)
            assert resets() == (3 if always and mode == "transaction" else 0), pooler.which
        eventually(lambda: resets() == (1 if mode == "session" else 3 * always), what=f"the last of {pooler.which}")  # noqa: B023
