"""Runs conversations (conversations.py) message by message, and makes those that differ smaller."""

from __future__ import annotations

import contextlib
import re
import struct
import threading
from collections.abc import Callable, Iterator

from . import wire
from .conversations import NAMES, OTHER, sound

# How long an answer may take, in seconds; a client may wait for a server of the reserve.
ANSWER_SECONDS_MAX = 8

# The last message that answers each message of a frontend, unless an error does.
LAST_ANSWERS = {"P": "1", "B": "2", "C": "3", "E": "CsI", "D": "Tn"}

# What ends a failed block. Nothing else is sent in one: differences.md, "In a failed transaction, Describe of a statement".
AFTER_FAILURE = (("Q", "rollback"),)


def encoded(m: tuple) -> bytes:
    tag, *rest = m
    return {
        "P": wire.parse,
        "B": wire.bind,
        "D": wire.describe,
        "E": wire.execute,
        "C": wire.close,
        "Q": wire.query,
        "H": wire.flush,
        "S": wire.sync,
    }[tag](*rest)


class Side:
    """One client of a run, and how far its conversation has come."""

    def __init__(self, connection: wire.Connection):
        self.connection = connection
        self.status = "I"
        # Whether there were messages since the last Sync; whether the server skips messages up to the next.
        self.open = False
        self.skips = False

    def idle(self) -> bool:
        return self.status == "I" and not self.open

    def exchange(self, messages) -> list[wire.Message]:
        """Sends the messages in one write and reads their answers."""
        self.connection.send(*(encoded(m) for m in messages))
        return [answer for m in messages for answer in self.answers(m)]

    def answers(self, m: tuple) -> list[wire.Message]:
        tag = m[0]
        if tag == "H" or (self.skips and tag != "S"):
            self.open = True
            return []
        if tag in "QS":
            out = self.connection.read_until("Z", timeout=ANSWER_SECONDS_MAX)
            self.status, self.open, self.skips = out[-1].body.decode(), False, False
            return out
        self.open = True
        out = self.connection.read_until(*LAST_ANSWERS[tag], "E", timeout=ANSWER_SECONDS_MAX)
        self.skips = out[-1].tag == "E"
        return out


def run(connect: Callable[[int], wire.Connection], steps, line: Callable[[wire.Message, dict], str]) -> list[tuple]:
    """Each step as `(client, messages sent, answers as lines)`; ends early where the connection does."""
    sides: list[Side | None] = [None] * (OTHER + 1)
    tables: list[dict] = [{} for _ in sides]
    out = []
    try:
        for number, messages in steps:
            if sides[number] is None:
                sides[number] = Side(connect(number))
            side = sides[number]
            if number == OTHER and not all(s is None or s.idle() for s in sides):
                # It would wait for locks that a client of the same thread has.
                continue
            if side.status == "E" and not side.open:
                messages = AFTER_FAILURE
            answers: list[str] = []
            out.append((number, messages, answers))
            try:
                answers += in_order([line(m, tables[number]) for m in side.exchange(messages)])
            except (wire.NoReply, wire.Closed) as error:
                answers.append(f"{type(error).__name__}: {error}; before it {side.connection.buffer!r}")
                break
    finally:
        for side in sides:
            if side is not None:
                side.connection.close()
    return out


def in_order(lines: list[str]) -> list[str]:
    """The same, with settings that are told together sorted."""
    out: list[str] = []
    for text in lines:
        out.append(text)
        at = len(out) - 1
        while text.startswith("ParameterStatus") and at and out[at - 1].startswith("ParameterStatus") and out[at - 1] > text:
            out[at - 1 : at + 1] = [text, out[at - 1]]
            at -= 1
    return out


def line_of(m: wire.Message, tables: dict, comparable: Callable[[wire.Message, dict], str]) -> str:
    """A message as a line in which the oids of what a conversation has made are numbered."""
    if m.tag == "t":
        (count,) = struct.unpack_from("!H", m.body)
        oids = struct.unpack_from(f"!{count}I", m.body, 2)
        return f"ParameterDescription {[o if o < 16384 else f'type {tables.setdefault(o, len(tables))}' for o in oids]}"
    text = comparable(m, tables)
    if "but prepared statement" in text:
        # NAME_IN_ERROR: it may be another of the client's names for the same statement (differences.md, "The error of a
        # Bind with too many or too few values").
        text = re.sub(r'prepared statement ".*" requires', "prepared statement N requires", text)
    # LONG_NAME_IN_ERROR: a name of more than 63 bytes may be told as the server keeps it.
    text = re.sub("l{64,}\" (already exists|does not exist)", "l" * 63 + r'" \1', text)
    return re.sub(r"\b(type|relation|OID|oid) (1[6-9]\d{3}|[2-9]\d{4}|\d{6,})\b", r"\1 N", text) if m.tag == "E" else text


def difference(got: list[tuple], expected: list[tuple]) -> str | None:
    """The first step that differs, with the answers from the first that does."""
    for (number, messages, ours), (also, as_well, theirs) in zip(got, expected):
        if (number, messages, ours) != (also, as_well, theirs):
            at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
            return f"{words(number, messages)}\n  same     {theirs[:at]}\n  got      {ours[at : at + 3]}\n  expected {theirs[at : at + 3]}"
    return None if len(got) == len(expected) else "one of the two conversations ended early"


def words(number: int, messages) -> str:
    return f"{'abc'[number]} " + " | ".join(" ".join(part if i == 0 else repr(part) for i, part in enumerate(m)) for m in messages)


def shrunk(steps, differs: Callable[[list], bool]) -> list:
    """The steps, and their messages, without those that the difference does not need."""
    for at in reversed(range(len(steps))):
        fewer = steps[:at] + steps[at + 1 :]
        if sound(fewer) and differs(fewer):
            steps = fewer
    for at in reversed(range(len(steps))):
        number, messages = steps[at]
        for which in reversed(range(len(messages))):
            less = messages[:which] + messages[which + 1 :]
            # A step must end with a message that makes the server answer.
            fewer = steps[:at] + [(number, less)] + steps[at + 1 :]
            if less and less[-1][0] in "QSH" and sound(fewer) and differs(fewer):
                steps, messages = fewer, less
    return steps


# ---- a client that uses the same names


@contextlib.contextmanager
def name_scrambler(connect: Callable[[], wire.Connection], seed: int) -> Iterator[None]:
    """While this lasts, a client made by `connect()` prepares other statements under the names of conversations."""
    import random

    stop = threading.Event()
    failures: list[BaseException] = []

    def live() -> None:
        dice = random.Random(seed)
        try:
            while not stop.is_set():
                with connect() as client:
                    for _ in range(8):
                        if not stop.is_set():
                            scramble_names(client, dice)
                            stop.wait(0.001)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    thread = threading.Thread(target=live, name="name scrambler")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, f"the name scrambler failed: {failures[0]!r}"


def scramble_names(client: wire.Connection, dice) -> None:
    """One round: two statements under names of the conversations, which must be this client's own."""
    marks = [str(dice.randrange(10**6)) for _ in range(2)]
    name, other = dice.sample(NAMES[:5] + NAMES[8:], 2)
    quoted = '"' + other.replace('"', '""') + '"'
    client.query(dice.choice(("deallocate all", "discard all", "deallocate all; discard plans")))
    client.send(
        wire.parse(name, f"select '{marks[0]}', $1::text"),
        wire.sync(),
        wire.query(f"prepare {quoted} as select '{marks[1]}'"),
        wire.bind("", name, ["x"]),
        wire.execute(),
        wire.sync(),
        wire.query(f"execute {quoted}"),
    )
    rows = wire.rows_of(client.read_ready(4))
    assert rows == [(marks[0], "x"), (marks[1],)], f"statements of a name scrambler gave {rows}, not {marks}"
