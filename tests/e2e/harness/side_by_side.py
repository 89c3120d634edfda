"""What two poolers answer, for comparison."""

from __future__ import annotations

import contextlib

from . import wire


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
