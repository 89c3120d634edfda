"""What two poolers answer, for comparison."""

from __future__ import annotations

import contextlib
import re

from . import wire
from .waiting import eventually


def first_text(messages) -> str:
    return next((m.fields["M"] for m in messages if m.tag in "EN"), "(none)")


def read_some(c):
    """Messages up to ReadyForQuery or the end."""
    out = []
    with contextlib.suppress(wire.Closed):
        while not out or out[-1].tag != "Z":
            out.append(c.read())
    return out


def console_answer(p, command, user="postgres"):
    with p.connect(user=user, database="pgbouncer") as c:
        c.send(wire.query(command))
        return first_text(read_some(c))


def begins_alike(theirs: str, ours: str) -> bool:
    return ours.startswith(theirs.rstrip(";"))


def missing(theirs: list[str], ours: list[str]) -> list[str]:
    """Lines of theirs for which ours have none; ours may have more."""
    left = list(ours)
    gone = []
    for line in theirs:
        found = next((other for other in left if begins_alike(line, other)), None)
        left.remove(found) if found else gone.append(line)
    return gone


# What becomes of a client that logs in, if it is not an error.
IN = "in"
# The handshake of TLS fails. Which alert tells the client why is up to the library.
NO_HANDSHAKE = "(no handshake)"

# Lines of the log that are no reason for a refusal, or say what the client hears.
OTHER_LINES = ("login attempt: ", "SSL established", "closing because: ", "pooler error: ", "new connection to server", "S-0x")

# A line about a client, or about none in particular, without its level.
OF_CLIENTS = re.compile(r"^\S+ \S+ UTC \[\d+\] (?:\w+ C-0x[0-9a-f]+: [^@]*@\S+|WARNING|ERROR) (.*)", re.M)
ENDS = re.compile(r"closing because: (.*) \(age=|(TLS handshake error: )")


def hears(pooler, client) -> str:
    """What a client hears that logs in and runs a statement. `client` makes its connection to the pooler."""
    try:
        with client(pooler) as c:
            assert c.value("select 1") == "1"
        return IN
    except wire.ServerError as error:
        return error.fields["M"]
    except (OSError, wire.Closed):
        return NO_HANDSHAKE


def tried(pooler, client) -> tuple[str, str, list[str]]:
    """What a client hears, why the log says that its connection ended, and the log's other lines about it."""
    offset = len(pooler.log())
    heard = hears(pooler, client)
    end = eventually(lambda: ENDS.search(pooler.log(), offset), what=lambda: f"its end in {pooler.log()[offset:]}")
    lines = [line for line in OF_CLIENTS.findall(pooler.log(), offset) if not line.startswith(OTHER_LINES)]
    return heard, end[1] or end[2], lines
