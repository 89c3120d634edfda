"""Random clients that know what their sessions hold and which rows they were told are committed, and check both all the time."""

from __future__ import annotations

import random
import threading
import time

from .. import wire
from ..hostile import abandon_login
from .connection import Connection
from .ledger import Ledger

# Errors that a client may get because the operator has stopped, killed or disabled something.
DISTURBED = ("57P01", "57P02", "57P03", "08001", "08003", "08006", "08004")

# Databases of the pooler: one pools transactions, the other one sessions.
DATABASES = ("shop", "shop", "shop", "shop_session")
USERS = ("alice", "bob")

VISITS_MAX = 24
COPIED_ROWS_MAX = 50

# Milliseconds between two visits, and before a cancel request, at most.
REST_MS_MAX = 30
CANCEL_MS_MAX = 60

# Everybody's names; everybody's texts are different.
STATEMENTS = ("s", "stmt", "p1", "")


class Wrong(Exception):
    """An answer that is not what PostgreSQL would give this session."""


def expect(what: object, expected: object, about: str) -> None:
    if what != expected:
        raise Wrong(f"{about}: {what!r} instead of {expected!r}")


def expect_errors(codes: list[str], expected: list[str]) -> None:
    """These errors; another one if the operator has disturbed the connection, as `World.lost` finds out."""
    if codes != expected and any(code in DISTURBED for code in codes):
        raise wire.Closed(f"errors {codes}")
    expect(codes, expected, "errors")


class Client(threading.Thread):
    """One session after another until it is told to stop."""

    def __init__(self, world, number: int):
        super().__init__(name=f"client {number}", daemon=True)
        self.world, self.number = world, number
        self.dice = random.Random(f"{world.seed} client {number}")
        self.tls = number % 2 == 1
        self.ledger = Ledger(number)
        self.doing = "nothing yet"
        self.connection: Connection | None = None
        self.well_at = time.monotonic()

    def run(self) -> None:
        while not self.world.stopped():
            if self.world.resting():
                self.world.rest_here()
                continue
            try:
                self.well_at = time.monotonic()
                self.session()
            except (wire.Closed, OSError, wire.ServerError) as error:
                self.world.lost(self, error)
            except (Wrong, wire.NoReply, AssertionError) as error:
                self.world.fail(f"{self.name}, {self.doing}: {error!r}")
            finally:
                if self.connection is not None:
                    self.connection.drop()
                    self.connection = None

    def session(self) -> None:
        """Logs in, does a few things, and leaves."""
        self.tenant: str | None = None
        self.work_mem: str | None = None
        self.prepared: dict[str, int] = {}
        self.temporary: int | None = None
        self.channels: set[str] = set()
        self.locks: set[int] = set()
        named = {"user": self.dice.choice(USERS), "database": self.dice.choice(DATABASES)}
        self.doing = f"login to {named}, tls {self.tls}"
        if self.dice.randrange(40) == 0:
            self.world.count("logins_begun")
            abandon_login("127.0.0.1", self.world.pooler.port, "shop", self.dice)
        self.application = f"client {self.number} of {self.dice.randrange(1000)}"
        options = {"application_name": self.application}
        self.connection = c = Connection(self.world, self.tls, port=self.world.pooler.port, options=options, **named)
        c.log_in()
        self.well()
        for _ in range(self.dice.randrange(1, VISITS_MAX)):
            visit = self.dice.choices(list(VISITS), VISITS.values())[0]
            self.doing = visit.__name__
            visit(self, c)
            self.check_heard(c)
            self.well()
            time.sleep(self.dice.random() * REST_MS_MAX / 1000)
            if self.world.resting():
                break
        self.leave(c)

    def well(self) -> None:
        """Notes that the pooler has served so far: what breaks later is blamed on what the operator did since."""
        self.well_at = time.monotonic()

    def leave(self, c: Connection) -> None:
        how = self.dice.randrange(8)
        self.doing = f"leaving, way {how}"
        if how == 0:
            c.drop()
        elif how == 1:
            c.reset()
        elif how == 2:
            self.vanish(c)
        else:
            c.close()

    def vanish(self, c: Connection) -> None:
        """Goes in the middle of something, which may or may not have happened then."""
        row = self.ledger.take()
        insert = f"insert into ledger values ({self.number}, {row})"
        what = self.dice.randrange(5)
        if what == 0:
            self.ledger.doubt(row)
            self.world.count("asked")
            c.send(wire.query(insert))
        elif what == 1:
            c.do(f"begin; {insert}")
        elif what == 2:
            c.send(wire.query(f"copy ledger from stdin; {insert}"), wire.copy_data(f"{self.number}\t{row}\n".encode()))
        elif what == 3:
            self.world.count("asked")
            c.send(wire.query("select repeat('x', 1000) from generate_series(1, 5000)"))
        else:
            c.send(wire.query(insert)[:-3])
        if self.dice.randrange(2):
            c.reset()
        else:
            c.drop()

    def check_heard(self, c: Connection) -> None:
        for channel, payload in c.heard:
            if channel not in self.channels or payload.split()[0] != channel:
                raise Wrong(f"notification {payload!r} on {channel}, which it does not listen to")


# -- visits: what a client does at a time


def looks_at_session(self: Client, c: Connection) -> None:
    sql = "select current_user, coalesce(current_setting('app.tenant', true), ''), current_setting('application_name')"
    expect(c.look(sql), [(c.user, self.tenant or "", self.application)], "the session")
    if self.work_mem:
        expect(c.look("show work_mem"), [(self.work_mem,)], "work_mem")


def changes_settings(self: Client, c: Connection) -> None:
    self.tenant = f"tenant {self.number} {self.dice.randrange(1000)}"
    c.do(f"set app.tenant = '{self.tenant}'")
    if self.dice.randrange(2):
        self.work_mem = f"{self.dice.randrange(1, 9) * 111}kB"
        c.do(f"set work_mem = '{self.work_mem}'")
    if self.dice.randrange(4) == 0:
        c.do(f"begin; set local app.tenant = 'nobody'; {self.dice.choice(('commit', 'rollback'))}")
    looks_at_session(self, c)


def writes(self: Client, c: Connection) -> None:
    """One row, acknowledged by itself."""
    row = self.ledger.take()
    self.ledger.doubt(row)
    insert = "insert into ledger values ($1::int, $2::int)"
    if self.dice.randrange(2):
        c.do(f"insert into ledger values ({self.number}, {row})")
    else:
        wire.rows_of(c.ask(wire.one_statement(insert, [str(self.number), str(row)]), wire.sync()))
    self.ledger.told()


def writes_in_transaction(self: Client, c: Connection) -> None:
    count = self.dice.randrange(1, 5)
    first = self.ledger.take(count + 1)
    c.do("begin")
    for row in range(first, first + count):
        c.do(f"insert into ledger values ({self.number}, {row})")
        if self.dice.randrange(4) == 0:
            time.sleep(self.dice.random() * REST_MS_MAX / 1000)
    if self.dice.randrange(3) == 0:
        c.do(f"savepoint s; insert into ledger values ({self.number}, {first + count}); rollback to s")
    look = f"select count(*) from ledger where client = {self.number} and n >= {first}"
    expect(c.look(look), [(str(count),)], "its own rows in its own transaction")
    if self.dice.randrange(3) == 0:
        c.do("rollback")
        return
    self.ledger.doubt(first, count)
    c.do("commit")
    self.ledger.told()


def copies_in(self: Client, c: Connection) -> None:
    count = self.dice.randrange(1, COPIED_ROWS_MAX)
    first = self.ledger.take(count)
    c.send(wire.query("copy ledger from stdin"))
    self.world.count("asked")
    begun = c.without_notifications(c.read_until("G", "E"))[-1]
    if begun.tag == "E":
        raise wire.ServerError(begun)
    for row in range(first, first + count):
        c.send(wire.copy_data(f"{self.number}\t{row}\n".encode()))
    if self.dice.randrange(4) == 0:
        c.send(wire.copy_fail("changed its mind"))
        expect_errors(wire.error_codes(c.answers()), ["57014"])
        return
    self.ledger.doubt(first, count)
    c.send(wire.copy_done())
    messages = c.answers()
    wire.rows_of(messages)
    expect(wire.command_tags(messages), [f"COPY {count}"], "COPY")
    self.ledger.told()


def reads_ledger(self: Client, c: Connection) -> None:
    self.ledger.check(c.look)


def copies_out(self: Client, c: Connection) -> None:
    count = self.dice.randrange(5000)
    messages = c.do(f"copy (select {self.number}, n from generate_series(1, {count}) n) to stdout")
    rows = [bytes(m.body) for m in messages if m.tag == "d"]
    expect(rows, [f"{self.number}\t{n}\n".encode() for n in range(1, count + 1)], "COPY TO")


def prepares(self: Client, c: Connection) -> None:
    name, factor = self.dice.choice(STATEMENTS), self.dice.randrange(2, 100)
    text = f"select $1::int * {factor}, 'of client {self.number}'"
    closing = [wire.close("S", name)] if name in self.prepared and name else []
    wire.rows_of(c.ask(*closing, wire.parse(name, text), wire.sync()))
    self.prepared[name] = factor
    executes(self, c)


def executes(self: Client, c: Connection) -> None:
    names = [name for name in self.prepared if name]
    if not names:
        return
    # The unnamed statement is gone after a Query or another Parse; the others stay.
    name, value = self.dice.choice(names), self.dice.randrange(1000)
    messages = c.ask(wire.bind("", name, [str(value)]), wire.describe("P"), wire.execute(), wire.sync())
    expected = [(str(value * self.prepared[name]), f"of client {self.number}")]
    expect(wire.rows_of(messages), expected, f"prepared statement {name!r}")


def pipelines(self: Client, c: Connection) -> None:
    values = [str(self.dice.randrange(1000)) for _ in range(self.dice.randrange(2, 6))]
    messages = c.ask(
        *(wire.one_statement("select $1::text", [value]) + wire.sync() for value in values),
        wire.query("select 1/0"),
        ready=len(values) + 1,
    )
    rows = [m.values[0].decode() for m in messages if m.tag == "D"]
    expect_errors(wire.error_codes(messages), ["22012"])
    expect(rows, values, "a pipeline")


def uses_temporary_table(self: Client, c: Connection) -> None:
    if self.temporary is None:
        c.do("create temp table own (n int)")
        self.temporary = 0
    c.do(f"insert into own select generate_series(1, {(count := self.dice.randrange(1, 9))})")
    self.temporary += count
    expect(c.look("select count(*) from own"), [(str(self.temporary),)], "rows of its temporary table")
    if self.dice.randrange(2):
        c.do("drop table own")
        self.temporary = None


def locks(self: Client, c: Connection) -> None:
    key = self.number * 1000 + self.dice.randrange(10)
    if key in self.locks:
        expect(c.look(f"select pg_advisory_unlock({key})"), [("t",)], "unlocking its own lock")
        self.locks.discard(key)
    else:
        c.do(f"select pg_advisory_lock({key})")
        self.locks.add(key)


def listens(self: Client, c: Connection) -> None:
    channel = f"channel_{self.number}"
    if channel not in self.channels:
        c.do(f"listen {channel}")
        self.channels.add(channel)
    payload = f"{channel} {self.dice.randrange(10**9)}"
    began, gaps = time.monotonic(), c.gaps
    c.do(f"notify {channel}, '{payload}'")
    # It may be lost with the connection that listens; then the client is told so.
    while (channel, payload) not in c.heard and c.gaps == gaps:
        if time.monotonic() - began > 15:
            raise Wrong(f"notification {payload!r} has not come")
        try:
            c.without_notifications([c.read(timeout=0.5)])
        except wire.NoReply:
            continue


def cancels(self: Client, c: Connection) -> None:
    self.world.count("asked")
    c.send(wire.query("select pg_sleep(1)"))
    time.sleep(self.dice.random() * CANCEL_MS_MAX / 1000)
    c.cancel()
    codes = wire.error_codes(c.answers())
    if codes:
        expect_errors(codes, ["57014"])


def reads_much(self: Client, c: Connection) -> None:
    count = self.dice.randrange(100, 5000)
    c.send(wire.query(f"select repeat('{self.number} ', 300) from generate_series(1, {count})"))
    self.world.count("asked")
    time.sleep(self.dice.random() * 0.1)
    rows = wire.rows_of(c.answers())
    expect((len(rows), {row[0] for row in rows}), (count, {f"{self.number} " * 300}), "much data")


def fails(self: Client, c: Connection) -> None:
    codes = wire.error_codes(c.ask(wire.query("begin"), wire.query("select nonsense"), wire.query("select 1"), ready=3))
    expect_errors(codes, ["42703", "25P02"])
    c.do("rollback")


# Each with how often it is done, relative to the others.
VISITS = {
    looks_at_session: 4,
    changes_settings: 3,
    writes: 5,
    writes_in_transaction: 4,
    copies_in: 2,
    copies_out: 1,
    reads_ledger: 3,
    prepares: 3,
    executes: 4,
    pipelines: 2,
    uses_temporary_table: 1,
    locks: 1,
    listens: 2,
    cancels: 2,
    reads_much: 1,
    fails: 1,
}
