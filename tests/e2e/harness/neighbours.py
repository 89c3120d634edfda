"""Other clients on the same pool, busy enough that servers change hands all the time."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

from . import wire
from .pooler import Pooler, kind

SETTINGS = (
    {},
    {"application_name": "neighbour", "datestyle": "German"},
    {"timezone": "Asia/Tokyo", "application_name": "it's a neighbour"},
)


@contextlib.contextmanager
def busy_neighbours(
    pooler: Pooler, count: int = 2, transactions: bool = True, pause: float = 0.001, **named
) -> Iterator[None]:
    """While this lasts, `count` clients run short statements, transactions, failures and prepared statements.

    They check their own answers, too: what a neighbour gets wrong fails the test at the end.
    """
    stop = threading.Event()
    failures: list[BaseException] = []

    def live(number: int) -> None:
        dice = random.Random(number)
        try:
            with pooler.connect(
                options=SETTINGS[number % len(SETTINGS)] if kind() != "pgbouncer" else {}, **named
            ) as c:
                while not stop.is_set():
                    visit(c, number, dice, transactions)
                    stop.wait(pause * dice.random() * 2)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=live, args=(n,), name=f"neighbour {n}") for n in range(count)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failures, f"a neighbour failed: {failures[0]!r}"


def visit(c: wire.Connection, number: int, dice: random.Random, transactions: bool) -> None:
    """One round of work."""
    value = str(dice.randrange(1000))
    what = dice.randrange(6 if transactions else 4)
    if what == 0:
        assert c.value(f"select {value}") == value
    elif what == 1:
        assert wire.rows_of(c.extended("select $1::text", [value])) == [(value,)]
    elif what == 2:
        # Names that everybody uses, texts that nobody else has.
        name = dice.choice(("s", "s1", "stmt", "p"))
        c.send(
            wire.close("S", name),
            wire.parse(name, f"select $1::text || ' of neighbour {number}'"),
            wire.bind("", name, [value]),
            wire.execute(),
            wire.sync(),
        )
        assert wire.rows_of(c.read_ready()) == [(f"{value} of neighbour {number}",)]
    elif what == 3:
        assert wire.error_codes(c.query("select 1/0")) == ["22012"]
    elif what == 4:
        c.query("begin")
        first = c.value("select txid_current()")
        assert c.value("select txid_current()") == first
        assert c.query(dice.choice(("commit", "rollback")))[-1].body == b"I"
    else:
        c.send(
            wire.query("begin"), wire.query("select nonsense"), wire.query("rollback"), wire.query(f"select {value}")
        )
        assert c.read_ready(4)[-3].values == [value.encode()]
