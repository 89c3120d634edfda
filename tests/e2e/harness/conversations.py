"""Random conversations about prepared statements: Parse, Bind, Describe, Execute, Close, Flush and Sync, whose names SQL's
PREPARE, EXECUTE and DEALLOCATE use, too. Each follows from its seed.

A conversation is a list of steps `(client, messages)`. A message is a tuple, its tag first: `("P", name, text, types)`,
`("B", portal, statement, values, formats, results)`, `("D", kind, name)`, `("E", portal, rows)`, `("C", kind, name)`,
`("Q", text)`, `("H",)`, `("S",)`. The last message of a step is one that makes the server answer: Q, S or H. Clients are
numbered; the last one, OTHER, changes what the statements of the others need, and only while the others are idle.
"""

from __future__ import annotations

import random
import struct

# The client that does DDL; it sends nothing but single Queries.
OTHER = 2
STEPS = 22

# Names of statements: equal but for the case, quoted, beyond ASCII, of 63 bytes and more (PostgreSQL keeps 63), and like
# those that the pooler might use.
NAMES = ("s1", "S1", "s 2", 'q"t', "näme", "l" * 63, "l" * 64, "l" * 70, "pgweir_1", "pgweir_s1", "select")
# A name that DO prepares, and Parse does not. PREPARE_IN_CODE: in code, PREPARE does not meet the statements of Parse
# (differences.md, "EXECUTE in a function or DO").
NAME_OF_CODE = "in_code"
PORTALS = ("", "", "p1", "P1", "pgweir_p")

INT4, TEXT, INT8 = 23, 25, 20

# Each table and type is made anew for each run of a conversation.
SETUP = """
drop schema if exists one, two cascade;
create schema one; create schema two;
create type one.mood as enum ('sad', 'glad');
create table one.t (a int, b text, m one.mood);
insert into one.t values (1, 'x', 'sad'), (2, 'y', 'glad'), (3, null, null);
create table one.who (name text); insert into one.who values ('one');
create table two.who (name text); insert into two.who values ('two');
create table one.own0 (a int); insert into one.own0 values (10), (20);
create table one.own1 (a int); insert into one.own1 values (11), (21);
"""

# Texts with the values for their parameters. Rows never change by OTHERS_DDL: see there. TABLE_GONE: what a text names
# never goes away, because a server that lacks the statement could not prepare it again (differences.md, "DEALLOCATE among
# other statements of a Query", "In a block, the EXECUTE of a Query"), and pg_prepared_statements would not show it.
TEXTS = (
    ("select 1 as one", ()),
    ("select 'it''s' as \"quoted $1\"", ()),
    ("select $1", ("x",)),
    ("select $1::int + 1 as next", ("7",)),
    ("select $1::int + 1 as next", ("bad",)),
    ("select $1 + 1 as sum, $2 || 'y' as text", ("3", "z")),
    ("select $1::text, $2::int8", ("a", "-5")),
    ("select b from t where a = $1", ("2",)),
    ("select a::text, b from t order by 1", ()),
    ("select b from t where a = $1 or a = $2 order by 1", ("1", "2")),
    ("select m::text from t where m = $1", ("glad",)),
    ("select $1::mood::text", ("sad",)),
    ("insert into t (b) values ($1) returning b", ("new",)),
    ("update t set b = $1 where a = 1", ("changed",)),
    ("select name from who", ()),
    ("select name || $1 from who", ("!",)),
    ("select g from generate_series(1, 5) g", ()),
    ("select g, $1::int from generate_series(1, 5) g", ("1",)),
    ("select 10 / $1::int", ("0",)),
    ("select 1/0", ()),
    ("selec", ()),
    ("", ()),
    ("select current_setting('search_path')", ()),
)
VIEW = 'select name, statement, parameter_types::text, from_sql from pg_prepared_statements order by name collate "C"'

# What the types of parameters may be told to be; 0 is for the server to infer.
TYPES = (0, 0, INT4, TEXT, INT8)

# OTHER's statements. None changes the rows of a statement: differences.md, "DDL changes the rows of a statement", "A
# Describe of a statement whose rows DDL has changed" and "A Bind with too many or too few values".
OTHERS_DDL = (
    "alter table one.t alter a type bigint",
    "alter table one.t alter a type int",
    "alter table one.t alter a type numeric",
    "alter table one.t add column if not exists z int",
    "alter table one.t drop column if exists z",
    "alter type one.mood add value if not exists 'calm'",
    "create index on one.t (a)",
    "analyze one.t",
    "truncate one.who",
    "insert into two.who values ('two again')",
)

# Statements about the client's own session, tables and transactions. TEMPORARY_SCHEMA: none tells whether the server has
# had temporary objects (differences.md, "A server that was used with temporary objects"), as DROP TABLE pg_temp.x does.
SESSION = (
    "set search_path = one",
    "set search_path = two, one",
    "set search_path to default",
    "create temp table who (name text)",
    "insert into who values ('more')",
    "set datestyle = 'German'",
)
BLOCKS = ("begin", "begin", "commit", "rollback", "savepoint s", "rollback to s", "release s", "begin isolation level serializable")
SWEEPS = ("deallocate all", "discard all", "discard plans", "deallocate prepare all", "reset all", "close all")


class Talk:
    """What one client has probably prepared, and whether it may be in a transaction block."""

    def __init__(self, number: int, dice: random.Random, weights: list[int]):
        self.number, self.dice, self.weights = number, dice, weights
        self.names: dict[str, tuple] = {}
        self.portals: list[str] = []
        self.in_block = False
        # Whether there were messages since the last Sync.
        self.open = False
        self.alone = False

    # -- names

    def name(self) -> str:
        """A name, more often than not one that the client has prepared."""
        if self.names and self.dice.random() < 0.7:
            return self.dice.choice(list(self.names))
        return self.dice.choice(NAMES)

    def spelled(self, name: str) -> str:
        """The name as SQL writes it."""
        dice = self.dice
        if name.isascii() and name.isalnum() and name.islower() and name != "select" and dice.random() < 0.5:
            return dice.choice((name, name.upper()))
        if dice.random() < 0.3:
            # ESCAPES_BEYOND_ASCII: what they become depends on the server's encoding, so the pooler does not read them.
            letters = "".join(f"\\{ord(c):04x}" if c.isascii() and (dice.random() < 0.5 or c == '"') else c for c in name)
            return f'U&"{letters}"'
        return '"' + name.replace('"', '""') + '"'

    def values_of(self, name: str) -> tuple:
        return self.names.get(name[:63], ("", ()))[1]

    # -- SQL

    def sql(self, alone: bool = False) -> str:
        """One statement; `alone` in a Query or not."""
        self.alone = alone
        makers = (self.prepare, self.execute, self.deallocate, self.view, self.plain, self.session, self.block, self.sweep)
        statement = self.dice.choices(makers, self.weights)[0]()
        if statement.startswith("begin"):
            self.in_block = True
        return statement

    def prepare(self) -> str:
        text, values = self.dice.choice(TEXTS)
        name = self.name()
        while name.startswith("pgweir_") and not self.alone:
            # INTERNAL_NAMES: the pooler does not look for such names on servers, so it knows none that only a server has
            # seen (differences.md, "A statement whose name begins with").
            name = self.dice.choice(NAMES)
        types = self.dice.choice(("", "", "int", "text", "mood")) if values else ""
        if "a = $" in text and not types:
            # SQL_TYPES: a server that prepares the statement again after ALTER TABLE infers other types (differences.md,
            # "A PREPARE that gives no types").
            types = "int"
        given = f" ({', '.join([types] * len(values))})" if types else ""
        if self.dice.random() < 0.08:
            self.names[NAME_OF_CODE] = (text, values)
            return f"do $d$begin execute $x$prepare {NAME_OF_CODE}{given} as {text}$x$; end$d$"
        self.names[name[:63]] = (text, values)
        return f"prepare {self.spelled(name)}{given} as {text}"

    def execute(self) -> str:
        name = self.name()
        values = self.values_of(name) if self.dice.random() < 0.9 else ("1",)
        given = f" ({', '.join(repr(v) for v in values)})" if values else ""
        verb = self.dice.choice(("execute", "execute", "execute", "explain (costs off) execute"))
        return f"{verb} {self.spelled(name)}{given}"

    def deallocate(self) -> str:
        name = self.name()
        self.names.pop(name[:63], None)
        return f"{self.dice.choice(('deallocate', 'deallocate prepare', 'DEALLOCATE'))} {self.spelled(name)}"

    def view(self) -> str:
        return VIEW

    def plain(self) -> str:
        return self.dice.choice(("select 1", "select name from who", "select 1/0", "select count(*) from t", "select 1; select 2"))

    def session(self) -> str:
        own = f"own{self.number}"
        return self.dice.choice((*SESSION, f"alter table one.{own} add column if not exists b int", f"insert into one.{own} values (1)"))

    def block(self) -> str:
        return self.dice.choice(BLOCKS)

    def sweep(self) -> str:
        statement = self.dice.choice(SWEEPS)
        if "all" in statement and not statement.startswith(("reset", "close")):
            self.names.clear()
        return statement

    # -- messages

    def types(self, values: tuple) -> tuple[int, ...]:
        return tuple(self.dice.choice(TYPES) for _ in range(self.dice.choice((0, 0, len(values)))))

    def parse(self, name: str) -> tuple:
        """A Parse, of a text from the list or of SQL about statements."""
        dice = self.dice
        name = "s1" if name == NAME_OF_CODE else name
        text, values = dice.choice(TEXTS) if dice.random() < 0.75 else (self.sql_for_parse(), ())
        types = self.types(values)
        self.names[name[:63]] = (text, values, types)
        return ("P", name, text, types)

    def sql_for_parse(self) -> str:
        """A statement about statements or the session, to be prepared itself. DEALLOCATE is not among them: differences.md,
        "A DEALLOCATE in the extended protocol counts from its Bind on"; `at_once` sends it with its Execute."""
        self.alone = False
        # EXECUTE_ELSEWHERE: EXECUTE is not among them, only in `at_once`. A Describe of such a statement returns NoData
        # where the statement that it names was not lent (a defect that is not repaired).
        return self.dice.choice((self.view, self.prepare, self.session))()

    def bind(self, portal: str, name: str) -> tuple:
        dice = self.dice
        _, values, types = (*self.names.get(name[:63], ("", ())), ())[:3]
        if dice.random() < 0.05:
            values = (*values, "1") if dice.random() < 0.5 else values[1:]
        formats, given = (), list(values)
        if values and dice.random() < 0.3:
            given, formats = zip(*(self.binary(v, types[i] if i < len(types) else 0) for i, v in enumerate(values)))
        if given and dice.random() < 0.08:
            given = [None, *given[1:]]
        self.portals.append(portal)
        return ("B", portal, name, tuple(given), tuple(formats), dice.choice(((), (), (0,), (1,))))

    def binary(self, value: str, type_oid: int) -> tuple:
        """A value with its format: binary where it is a number and its type is told, or by bad luck."""
        number = value.lstrip("-").isdigit()
        if number and (type_oid == INT4 or (type_oid == 0 and self.dice.random() < 0.5)):
            return struct.pack("!i", int(value)), 1
        if number and type_oid == INT8:
            return struct.pack("!q", int(value)), 1
        return value, 0

    def at_once(self, statement: str) -> list[tuple]:
        """The statement by the unnamed statement."""
        self.names.pop("", None)
        return [("P", "", statement, ()), ("B", "", "", (), (), ()), ("D", "P", ""), ("E", "", 0)]

    def part(self) -> list[tuple]:
        """Some messages about one statement."""
        dice = self.dice
        what = dice.randrange(12)
        if what < 4:
            return self.parse_and_use(dice.choice(("", self.name(), dice.choice(NAMES))))
        if what < 7:
            name = self.name()
            portal = dice.choice(PORTALS)
            out = [("C", "P", portal)] if portal and dice.random() < 0.5 else []
            return [*out, self.bind(portal, name), *self.run_portal(portal)]
        if what == 7:
            return [("D", "S", self.name())]
        if what == 8:
            name = self.name()
            self.names.pop(name[:63], None)
            return [("C", "S", name)]
        if what == 9:
            return self.at_once(self.sql())
        portal = dice.choice(self.portals or PORTALS)
        return [dice.choice((("E", portal, 2), ("E", portal, 0), ("D", "P", portal), ("C", "P", portal)))]

    def parse_and_use(self, name: str) -> list[tuple]:
        dice = self.dice
        out = [("C", "S", name)] if name and dice.random() < 0.5 else []
        out.append(self.parse(name))
        # differences.md: "A client gives no types for the parameters of its unnamed statement, does not describe it".
        name = out[-1][1]
        values = self.values_of(name)
        if dice.random() < 0.4 or (name == "" and values):
            out.append(("D", "S", name))
        if dice.random() < 0.7:
            portal = dice.choice(PORTALS)
            out += [self.bind(portal, name), *self.run_portal(portal)]
        return out

    def run_portal(self, portal: str) -> list[tuple]:
        dice = self.dice
        out = [("D", "P", portal)] if dice.random() < 0.5 else []
        for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
            out.append(("E", portal, dice.choice((0, 0, 1, 2, 3))))
            if dice.random() < 0.15:
                out.append(("H",))
        return out

    def segment(self) -> list[tuple]:
        """Messages up to one that makes the server answer."""
        dice = self.dice
        if dice.random() < 0.35:
            # QUERY_IN_PIPELINE: no Query among messages without a Sync. It finds no statement of Parse, and the server is
            # closed behind it, because PostgreSQL 18 then fails with XX000.
            ended, self.open = [("S",)] if self.open else [], False
            count = dice.choice((1, 1, 1, 2, 3))
            return [*ended, ("Q", "; ".join(self.sql(alone=count == 1) for _ in range(count)))]
        out = [m for _ in range(dice.choice((1, 1, 2, 3))) for m in self.part()]
        last = dice.choice((("S",), ("S",), ("S",), ("H",)))
        self.open = last == ("H",)
        return [*out, last]

    def step(self) -> list[tuple]:
        """One segment, or several in a pipeline; only one in a block, as it may have failed: differences.md, "In a failed
        transaction, Describe of a statement"."""
        out = self.segment()
        while not self.in_block and len(out) < 20 and self.dice.random() < 0.35:
            out += self.segment()
        return out


def sound(steps) -> bool:
    """Whether the steps, some of which may have been left out, keep to QUERY_IN_PIPELINE."""
    is_open = [False] * (OTHER + 1)
    for number, messages in steps:
        for m in messages:
            if m[0] == "Q" and is_open[number]:
                return False
            is_open[number] = m[0] not in "QS"
    return True


def conversation(seed: int) -> list[tuple[int, list[tuple]]]:
    """The steps of this seed."""
    dice = random.Random(seed)
    weights = [dice.choice((1, 2, 4)) for _ in range(8)]
    weights[6] = dice.choice((0, 1, 2, 4))
    weights[7] = dice.choice((0, 1))
    talks = [Talk(number, dice, weights) for number in range(OTHER)]
    steps = []
    for _ in range(STEPS):
        if dice.random() < 0.15:
            steps.append((OTHER, [("Q", dice.choice(OTHERS_DDL))]))
            continue
        talk = dice.choice(talks)
        steps.append((talk.number, talk.step()))
        if talk.in_block and dice.random() < 0.25:
            talk.in_block = talk.open = False
            steps.append((talk.number, [("S",), ("Q", dice.choice(("commit", "rollback")))]))
    for talk in talks:
        steps.append((talk.number, [("S",), ("Q", "rollback"), ("Q", VIEW)]))
    return steps
