"""Sockets, before a real PgBouncer 1.26 and before pgweir: their options, addresses, names and permissions."""

from __future__ import annotations

import grp
import os
import pwd
import socket

import pgthrow
import pytest

from harness import sockets
from harness.namespaces import alone
from harness.pooler import kind
from harness.waiting import eventually
from test_pgbouncer_limits import both

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

OPTIONS = (
    "SO_KEEPALIVE", "TCP_KEEPCNT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT", "TCP_NODELAY", "SO_SNDBUF", "SO_RCVBUF",
)  # fmt: skip


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


# -- where it listens

# To all, so that these poolers get a network of their own.
OPEN = ("*", "0.0.0.0", "::")

LISTEN_ADDR = {
    "an address": "127.0.0.1",
    "a short address": "127.1",
    "a list": "127.0.0.1,127.0.0.2",
    "a list with blanks and empty items": " 127.0.0.2 , ,127.0.0.1 ,",
    "a list without commas": "127.0.0.1 127.0.0.2",
    "an address of IPv6": "::1",
    "an address in brackets": "[::1]",
    "addresses of both kinds": "::1, 127.0.0.1",
    "a host name": "localhost",
    "a host name and an address": "localhost,127.0.0.3",
    "a host name that nobody knows": "nowhere.invalid",
    "an address that the machine does not have": "192.0.2.1",
    "nothing": "",
    "every address": "*",
    "every address of IPv4": "0.0.0.0",
    "every address of IPv6": "::",
}


def places(pooler) -> list[str]:
    """Where it listens for clients; nowhere if it does not start."""
    pooler.spawn()
    eventually(lambda: "process up" in pooler.log() or not pooler.running, what="its start")
    if not pooler.running:
        assert pooler.wait_exit() != 0
        return []
    with sockets.of_process(pooler.process.pid) as found:
        names = [s.getsockname() for s in found if sockets.listens(s)]
    texts = [os.fsdecode(name) if isinstance(name, bytes) else str(name) for name in names]
    texts = [text.replace(str(pooler.port), "PORT").replace(os.path.basename(pooler.dir), "DIR") for text in texts]
    # Where pgweir waits for its successor.
    return sorted(os.path.normpath(text) for text in texts if not text.endswith(".take-over"))


@pytest.mark.parametrize("what", LISTEN_ADDR)
def test_listen_addr(make_pooler, what):
    value = LISTEN_ADDR[what]
    under = alone("--net") if value in OPEN else ()
    settings = {"listen_addr": value}
    seen = [places(pooler) for pooler in both(make_pooler, None, settings=settings, start=False, under=under)]
    assert seen[1] == seen[0]


def test_a_host_name_that_nobody_knows_is_told_in_the_same_words(make_pooler):
    said = []
    for pooler in both(make_pooler, None, settings={"listen_addr": "nowhere.invalid"}, start=False):
        assert places(pooler) == []
        line = next(line for line in pooler.log().splitlines() if " FATAL " in line)
        said.append(line.partition(" FATAL ")[2].replace(str(pooler.port), "PORT").replace(" [-2]", ""))
    assert said[0] == "getaddrinfo('nowhere.invalid', 'PORT') = Name or service not known"
    assert said[1].startswith(said[0])


UNIX_SOCKETS = {
    "defaults": {},
    "a folder with a slash": {"unix_socket_dir": "{dir}/"},
    "a folder that is not there": {"unix_socket_dir": "{dir}/missing"},
    "a long path": {"unix_socket_dir": "{dir}/" + 30 * "././"},
    "an abstract name": {"unix_socket_dir": "@{name}"},
    "an abstract name with a slash": {"unix_socket_dir": "@{name}/x"},
    "none": {"unix_socket_dir": ""},
    "a mode": {"unix_socket_mode": "0750"},
    "a decimal mode": {"unix_socket_mode": "504"},
    "a hexadecimal mode": {"unix_socket_mode": "0x1f8"},
    "a mode with more bits": {"unix_socket_mode": "02750"},
    "a mode in Rust's way": {"unix_socket_mode": "0o750"},
    "a mode in words": {"unix_socket_mode": "rwx"},
    "a group": {"unix_socket_group": "{group}"},
    "a group's number": {"unix_socket_group": "{gid}"},
    "a group and a mode": {"unix_socket_group": "{group}", "unix_socket_mode": "0600"},
    "a group of others": {"unix_socket_group": "root"},
    "a group that nobody knows": {"unix_socket_group": "nowhere"},
}
# That of files in the folder, unless a setting changes it.
OTHER_GROUP = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another group")
@pytest.mark.parametrize("what", UNIX_SOCKETS)
def test_unix_sockets(make_pooler, what):
    gid = pwd.getpwnam(pgthrow.server_user()).pw_gid
    words = {"gid": gid, "group": grp.getgrgid(gid).gr_name}
    seen = []
    for pooler in both(make_pooler, None, start=False):
        os.chown(pooler.dir, -1, OTHER_GROUP)
        os.chmod(pooler.dir, 0o2755)
        words.update(dir=pooler.dir, name=os.path.basename(pooler.dir))
        pooler.settings.update({key: value.format(**words) for key, value in UNIX_SOCKETS[what].items()})
        pooler.write_ini()
        of = [places(pooler)]
        path = os.path.join(pooler.dir, f".s.PGSQL.{pooler.port}")
        # PgBouncer leaves the file when it fails.
        if of[0] and os.path.exists(path):
            status = os.stat(path)
            of += [oct(status.st_mode), status.st_gid == gid]
        seen.append(of)
    assert seen[1] == seen[0]


@pytest.mark.parametrize(
    "name, value", [("tcp_keepcnt", 7), ("tcp_keepidle", 77), ("tcp_keepintvl", 11), ("tcp_user_timeout", 4321)]
)
def test_a_reload_takes_an_option_away(pg15, make_pooler, name, value):
    """An earlier RELOAD has set it."""
    seen = []
    for pooler in both(make_pooler, pg15):
        pooler.settings[name] = value
        pooler.reload()
        pooler.settings.pop(name)
        pooler.reload()
        with pooler.connect() as c:
            c.query("begin")
            seen.append(options(pooler)["client"])
    assert seen[1] == seen[0]
