"""Attacks by logins that are abandoned: the client sends its startup packet, or its last message of SCRAM, and is gone.

The server that tried the client's settings then must look as before to the next client. One server; the moment is hit by a
lock on `pg_tablespace`, which only `default_tablespace` reads, and by closing at once, many times.
"""

import struct
import time

import pytest
from test_attack_restoration import ONE_SERVER, SHOWN, restorations_hang, waiting_restorations

from harness import wire
from harness.pooler import PASSWORDS, kind
from harness.scenes import backend_pid
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about sessions that share servers")

# What the startup packet says, beside the setting that makes the server wait.
PACKETS = {
    "parameters": {"search_path": "evil", "work_mem": "123kB", "app.tenant": "evil"},
    "options": {"options": "-c search_path=evil -c app.tenant=evil -c work_mem=123kB"},
    "role": {"role": "attack_team"},
    "role in options": {"options": "-c role=attack_team -c app.tenant=evil"},
}


@pytest.fixture
def team(pg15):
    pg15.psql("drop role if exists attack_team; create role attack_team")
    yield pg15
    pg15.psql("drop role attack_team")


def log_in(client: wire.Connection) -> None:
    """Sends all that proves who the client is, and reads nothing behind it."""
    client.send(wire.startup(client.startup_parameters()))
    if not client.password:
        return
    assert struct.unpack("!I", client.read().body[:4]) == (10,), "AuthenticationSASL"
    scram = wire.Scram(client.password.encode())
    first = scram.first()
    client.send(wire.message("p", wire.cstr("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
    client.send(wire.message("p", scram.final(client.read().body[4:])))


def settings(auth_type: str, session_state: str) -> dict:
    return {**ONE_SERVER, "auth_type": auth_type, "session_state": session_state}


def secret(auth_type: str) -> str | None:
    return PASSWORDS["postgres"] if auth_type == "scram-sha-256" else None


@pytest.mark.parametrize("session_state", ["full", "pgbouncer"])
@pytest.mark.parametrize("auth_type", ["trust", "scram-sha-256"])
@pytest.mark.parametrize("packet", PACKETS)
def test_a_login_that_is_abandoned_while_its_settings_are_tried(team, make_pooler, packet, auth_type, session_state):
    pooler = make_pooler(team, settings=settings(auth_type, session_state))
    password = secret(auth_type)
    with pooler.connect(password=password) as victim:
        own, pid = victim.rows(SHOWN), backend_pid(victim)
        with restorations_hang(team):
            options = {"default_tablespace": "pg_default", **PACKETS[packet]}
            evil = pooler.connect(login=False, options=options, password=password)
            log_in(evil)
            eventually(lambda: waiting_restorations(team) == 1, what="a server that tries the settings")
            offset = len(pooler.log())
            evil.drop()
            pooler.wait_log("client", after=offset)
        assert victim.rows(SHOWN) == own
        assert backend_pid(victim) == pid, "the server that tried the settings"


@pytest.mark.parametrize("session_state", ["full", "pgbouncer"])
@pytest.mark.parametrize("auth_type", ["trust", "scram-sha-256"])
def test_a_login_that_is_abandoned_at_once(own_cluster, make_pooler, auth_type, session_state):
    """The client closed behind its last message; what the server made of that was not looked at, and stayed."""
    cluster = own_cluster(settings={"log_min_duration_statement": "0"})
    cluster.psql("create role attack_team")
    pooler = make_pooler(cluster, settings=settings(auth_type, session_state))
    password = secret(auth_type)
    with pooler.connect(password=password) as victim:
        own = victim.rows(SHOWN)
        for number in range(20):
            packet = list(PACKETS.values())[number % len(PACKETS)]
            options = {"DateStyle": "German", "application_name": "evil", "geqo_seed": f"0.{number + 100}", **packet}
            evil = pooler.connect(login=False, options=options, password=password)
            log_in(evil)
            time.sleep(0.001 * (number % 3))
            evil.drop()
            assert victim.rows(SHOWN) == own, number
    log = cluster.log()
    assert any(f"0.{number + 100}'" in log for number in range(20)), "the server has tried some of these settings"
