"""Exchanges of passwords that break the protocol, before a real PgBouncer 1.26 and before pgweir: what the log says of them.

Servers are given up in the same words, clients too: ours follow `login failed: `, as for every login that fails.
"""

from __future__ import annotations

import re
import struct

import pytest

from harness import wire
from harness.odd_server import SASL, SASL_CONTINUE, SASL_FINAL, OddServer, ScramServer, asks
from harness.pooler import kind
from harness.side_by_side import missing
from harness.waiting import eventually
from test_pgbouncer_limits import both
from test_pgbouncer_texts import refusal

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

ASKS_SCRAM = asks(SASL, b"SCRAM-SHA-256\0\0")

SERVERS = {
    "an answer to no question": lambda: OddServer(asks(SASL_CONTINUE, b"r=1")),
    "an end without a beginning": lambda: OddServer(asks(SASL_FINAL, b"v=1")),
    "the same question again": lambda: OddServer(ASKS_SCRAM, ASKS_SCRAM),
    "an error instead of a nonce": lambda: ScramServer(b"e=other-error"),
    "attributes in another order": lambda: ScramServer(b"s=QUJD,r=%s,i=4096"),
    "a nonce that is not ours": lambda: ScramServer(b"r=abc,s=QUJD,i=4096"),
    "a salt that is none": lambda: ScramServer(b"r=%s,s=!!,i=4096"),
    "a count that is none": lambda: ScramServer(b"r=%s,s=QUJD,i=x"),
    "one attribute more": lambda: ScramServer(b"r=%s,s=QUJD,i=4096,x=1"),
}


@pytest.mark.parametrize("what", SERVERS)
def test_servers(pg15, make_pooler, what):
    said = []
    for pooler in both(make_pooler, pg15, settings={"client_login_timeout": 1}, userlist={"postgres": "x"}):
        with SERVERS[what]() as odd:
            pooler.databases["odd"] = f"host=127.0.0.1 port={odd.port}"
            pooler.reload()
            refusal(pooler, database="odd")
            pooler.wait_log("closing because: failed to answer authreq")
        said.append(re.findall(r" ERROR S-0x[0-9a-f]+: \S+ (.*)", pooler.log()))
    theirs, ours = said
    assert theirs and missing(theirs[:1], ours) == [], said


def initial(text: bytes) -> bytes:
    return wire.message("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(text)) + text)


CLIENTS = {
    "an unknown flag": b"x,,n=,r=abc",
    "no nonce": b"n,,n=",
    "another user": b"n,a=root,n=,r=abc",
    "an extension": b"n,,m=x,n=,r=abc",
    "a nonce with a space": b"n,,n=,r=a b",
}
LAST = {
    "another order": b"r=%s,c=biws,p=AAAA",
    "another nonce": b"c=biws,r=abc,p=bm90IHRoZSBzZXJ2ZXIsIG5vdCB0aGUgc2VydmVyLi4=",
    "a proof that is none": b"c=biws,r=%s,p=!!",
    "one attribute more": b"c=biws,r=%s,p=bm90IHRoZSBzZXJ2ZXIsIG5vdCB0aGUgc2VydmVyLi4=,x=1",
}


def last_of(pooler, first: bytes, last: bytes | None) -> str:
    """Why the log says that a login fails with these SCRAM messages; the last one has the nonce for `%s`."""
    offset = len(pooler.log())
    with pooler.connect(login=False) as c:
        c.send(wire.startup({"user": "alice", "database": "postgres"}))
        c.read()
        c.send(initial(first))
        if last is not None:
            nonce = re.search(rb"r=([^,]*)", c.read().body)[1]
            c.send(wire.message("p", last.replace(b"%s", nonce)))
        c.read_to_end()
    line = r" C-0x[0-9a-f]+: \S+ (?:login failed: )?((?!login |closing|pooler error|registered).*)"
    return eventually(lambda: re.search(line, pooler.log()[offset:]), what=lambda: pooler.log()[offset:])[1]


@pytest.mark.parametrize("what", [*CLIENTS, *LAST])
def test_clients(pg15, make_pooler, what):
    named = {"settings": {"auth_type": "scram-sha-256"}, "userlist": {"alice": "alice-pw", "postgres": "x"}}
    first = CLIENTS.get(what, b"n,,n=,r=abcdefgh")
    theirs, ours = (last_of(pooler, first, LAST.get(what)) for pooler in both(make_pooler, pg15, **named))
    assert ours.startswith(theirs), (theirs, ours)
