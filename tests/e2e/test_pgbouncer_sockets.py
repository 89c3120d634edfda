"""Sockets, before a real PgBouncer 1.26 and before pgweir: their options, addresses, names and permissions."""

from __future__ import annotations

import socket

import pytest

from harness import sockets
from harness.pooler import kind
from test_pgbouncer_limits import both

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

OPTIONS = ("SO_KEEPALIVE", "TCP_KEEPCNT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT", "SO_SNDBUF", "SO_RCVBUF", "TCP_NODELAY")


def options(pooler) -> dict[str, dict[str, int]]:
    """The options of the connection of the only client, of the only server, and how long clients are kept back."""
    out = {}
    with sockets.of_process(pooler.process.pid) as found:
        for s in found:
            if s.family != socket.AF_INET:
                continue
            if sockets.listens(s):
                out["listener"] = {"TCP_DEFER_ACCEPT": sockets.option(s, "TCP_DEFER_ACCEPT")}
            else:
                leg = "client" if s.getsockname()[1] == pooler.port else "server"
                assert leg not in out
                out[leg] = {name: sockets.option(s, name) for name in OPTIONS}
    assert set(out) == {"listener", "client", "server"}
    return out


# What each setting is to do on both legs, which is not so without it. Linux doubles the sizes of buffers.
SET = {
    "tcp_keepcnt": (7, {"TCP_KEEPCNT": 7}),
    "tcp_keepidle": (77, {"TCP_KEEPIDLE": 77}),
    "tcp_keepintvl": (11, {"TCP_KEEPINTVL": 11}),
    "tcp_user_timeout": (4321, {"TCP_USER_TIMEOUT": 4321}),
    "tcp_socket_buffer": (32768, {"SO_SNDBUF": 65536, "SO_RCVBUF": 65536}),
}
ALL_SET = {name: value for name, (value, _) in SET.items()}
DEFAULTS = {"SO_KEEPALIVE": 1, "TCP_NODELAY": 1}
WISHED = {**DEFAULTS, **{option: value for _, wished in SET.values() for option, value in wished.items()}}


@pytest.mark.parametrize("by", ["start", "reload"])
@pytest.mark.parametrize(
    "settings, wished",
    [({}, DEFAULTS), (ALL_SET, WISHED), ({"tcp_keepalive": 0}, {"SO_KEEPALIVE": 0}), ({"tcp_defer_accept": 0}, DEFAULTS)],
    ids=["defaults", "all of them", "tcp_keepalive", "tcp_defer_accept"],
)
def test_options_of_connections(pg15, make_pooler, settings, wished, by):
    """From the start on, or for the connections after a RELOAD."""
    seen = []
    for pooler in both(make_pooler, pg15, settings=settings if by == "start" else {}):
        if by == "reload":
            pooler.settings.update(settings)
            pooler.reload()
        with pooler.connect() as c:
            c.query("begin")
            of = options(pooler)
        # PgBouncer's clients are kept back for a second, pgweir's for 45.
        of["listener"] = {name: bool(value) for name, value in of["listener"].items()}
        seen.append(of)
    assert seen[1] == seen[0]
    for leg in ("client", "server"):
        assert {name: seen[0][leg][name] for name in wished} == wished
    assert seen[0]["listener"]["TCP_DEFER_ACCEPT"] == ("tcp_defer_accept" not in settings)
