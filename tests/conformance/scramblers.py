"""Other clients of the suite's own database and user, who leave on the servers whatever a session can have.

While tests run, each of them sets settings, prepares statements and makes temporary objects under names that the tests use
too, looks at what it gets, and now and then leaves without cleaning up. Directly they disturb nobody; through a pooler that
lets anything pass from one client to the next, tests fail, and so do they.
"""

from __future__ import annotations

import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from harness import wire  # noqa: E402

# Between two rounds of one of them, on average: enough to be everywhere, and the tests get on.
PAUSE_SECONDS = 0.05
NOTICED_SECONDS = 0.05
ROUNDS_OF_A_SESSION_MAX = 40

# Values that make nearly any test fail where they are found in somebody else's session; SHOW gives them back as they are.
SETTINGS = {
    "datestyle": ("German, DMY", "SQL, MDY", "Postgres, YMD"),
    "intervalstyle": ("iso_8601", "sql_standard"),
    "timezone": ("Asia/Tokyo", "America/St_Johns"),
    "search_path": ("pg_catalog", "scrambled, public"),
    "extra_float_digits": ("-15", "-3"),
    "bytea_output": ("escape",),
    "xmloption": ("document",),
    "xmlbinary": ("hex",),
    "standard_conforming_strings": ("off",),
    "transform_null_equals": ("on",),
    "array_nulls": ("off",),
    "quote_all_identifiers": ("on",),
    "row_security": ("off",),
    "check_function_bodies": ("off",),
    "default_transaction_isolation": ("serializable", "repeatable read"),
    "default_transaction_deferrable": ("on",),
    "enable_seqscan": ("off",),
    "enable_hashjoin": ("off",),
    "enable_indexscan": ("off",),
    "plan_cache_mode": ("force_generic_plan", "force_custom_plan"),
    "constraint_exclusion": ("off",),
    "session_replication_role": ("replica",),
    "client_min_messages": ("error", "debug1"),
    "log_min_error_statement": ("panic",),
    "lc_monetary": ("C",),
    "default_text_search_config": ("pg_catalog.german",),
    "work_mem": ("64kB",),
    "from_collapse_limit": ("1",),
    "statement_timeout": ("5min",),
    "application_name": ("scrambler", "it's a \"scrambler\""),
    "scrambler.tenant": ("one", "it's another"),
}
# Event triggers fire in anybody's session, and one writes down what was dropped; and while it visits every table of the
# database, the test `maintain_every` must not see one go.
OTHERS_WOULD_NOTICE = """
select exists (select from pg_catalog.pg_event_trigger)
    or exists (select from pg_catalog.pg_roles where rolname operator(pg_catalog.=) 'regress_maintain')
"""

# Names that the suite's tests give to what they make.
TABLES = ("tenk1", "onek", "int8_tbl", "text_tbl", "person", "foo", "temptest", "t1")
STATEMENTS = ("q", "q1", "q2", "s1", "p1", "prepstmt", "foo", "data_sel")


class Scramblers:
    """A few such clients. `start` and `stop`; then `links_max` and `failures`."""

    def __init__(self, port: int, user: str, database: str, count: int):
        self.port, self.user, self.database = port, user, database
        # How often at most a pooler can have given them another server.
        self.links_max = 0
        self.failures: list[str] = []
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._live, args=(n,), daemon=True) for n in range(count)]

    def start(self) -> None:
        """Does nothing the second time."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _live(self, number: int) -> None:
        dice = random.Random(number)
        while not self._ends.is_set():
            try:
                self._session(number, dice)
            # Servers restart in the suite's way of failing; who reports it is the suite.
            except (OSError, wire.Closed, wire.NoReply) as error:
                self._fail(f"scrambler {number} lost its connection: {error!r}")
                self._ends.wait(1)
            except Exception as error:  # noqa: BLE001 - shown at the end
                self._fail(f"scrambler {number}: {error!r}")

    def _fail(self, why: str) -> None:
        with self._lock:
            self.failures.append(why)

    def _session(self, number: int, dice: random.Random) -> None:
        """One connection's life."""
        options = {"datestyle": "Postgres, DMY", "application_name": "scrambler"} if dice.random() < 0.5 else {}
        c = wire.Connection(self.port, user=self.user, database=self.database, options=options, timeout=60)
        client = Client(c, number, dice, self._ends)
        try:
            for _ in range(dice.randrange(1, ROUNDS_OF_A_SESSION_MAX)):
                if self._ends.is_set():
                    break
                client.round()
                self._ends.wait(PAUSE_SECONDS * 2 * dice.random())
        finally:
            with self._lock:
                self.links_max += client.links_max
            # One in two says goodbye; nobody cleans up.
            if dice.random() < 0.5:
                c.close()
            else:
                c.drop()


class Client:
    """What one of them does, and knows of its own session."""

    def __init__(self, connection: wire.Connection, number: int, dice: random.Random, ends: threading.Event):
        self.c, self.number, self.dice, self.ends = connection, number, dice, ends
        # Each may get another server, its login too; while it has temporary objects, none does.
        self.links_max, self.kept = 1, False
        self.settings: dict[str, str] = {}
        self.statements: dict[str, str] = {}

    def round(self) -> None:
        self.dice.choice((self.set, self.set, self.look, self.prepare_by_message, self.prepare_by_text, self.make, self.end))()

    def run(self, sql: str) -> list[wire.Message]:
        self.links_max += not self.kept
        messages = self.c.query(sql)
        if error := wire.first_error(messages):
            raise wire.ServerError(error)
        return messages

    def set(self) -> None:
        for name in self.dice.sample(sorted(SETTINGS), 3):
            value = self.dice.choice(SETTINGS[name])
            # A path is a list of names, and anything else a string.
            self.run(f"set {name} = {value}" if name == "search_path" else f"set {name} = {quoted(value)}")
            self.settings[name] = value

    def look(self) -> None:
        """What it has set must be there, and what it has prepared, whatever servers it gets."""
        for name, value in self.dice.sample(sorted(self.settings.items()), min(2, len(self.settings))):
            got = wire.rows_of(self.run(f"show {name}"))[0][0]
            # With quote_all_identifiers names are shown in quotes.
            assert unquoted(got) == unquoted(value), f"{name} is {got}, not {value!r}"
        for name, value in self.dice.sample(sorted(self.statements.items()), min(2, len(self.statements))):
            self.links_max += 1
            self.c.send(wire.bind("", name), wire.execute(), wire.sync())
            got = wire.rows_of(self.c.read_ready())
            assert got == [(value,)], f"statement {name} gave {got}, not {value!r}"

    def prepare_by_message(self) -> None:
        name, value = self.dice.choice(STATEMENTS), f"of scrambler {self.number}, {self.dice.randrange(100)}"
        self.links_max += 1
        self.c.send(wire.close("S", name), wire.parse(name, f"select text '{value}'"), wire.sync())
        messages = self.c.read_ready()
        assert wire.error_codes(messages) == [], messages
        self.statements[name] = value

    def prepare_by_text(self) -> None:
        name, value = "x" + self.dice.choice(STATEMENTS), str(self.dice.randrange(1000))
        self.run(f"prepare {name} (int) as select $1 + {self.number}")
        got = wire.rows_of(self.run(f"execute {name}({value})"))
        assert got == [(str(int(value) + self.number),)], f"execute {name}({value}) gave {got}"
        self.run(f"deallocate {name}")

    def make(self) -> None:
        """Temporary objects that hide the tests' own; dropped again, so that the server goes back."""
        table = self.dice.choice(TABLES)
        if not self.define(f"create temporary table {table} (scrambled int)"):
            return
        self.kept = True
        self.run(f"insert into pg_temp.{table} values ({self.number}), (1 - 2)")
        got = wire.rows_of(self.run(f"select pg_catalog.sum(scrambled) from {table}"))
        assert got == [(str(self.number - 1),)], f"the sum of {table} is {got}"
        if self.dice.random() < 0.3:
            self.define(f"create temporary view scrambled as select * from pg_temp.{table}")
        self.define(f"drop table pg_temp.{table} cascade")
        self.kept = False

    def define(self, sql: str) -> bool:
        """As soon as nobody would notice; not at all when the end has come."""
        while wire.rows_of(self.run(OTHERS_WOULD_NOTICE)) != [("f",)]:
            self.ends.wait(NOTICED_SECONDS)
            if self.ends.is_set():
                return False
        self.run(sql)
        return True

    def end(self) -> None:
        """What a pool's own clients send between two uses, now and then."""
        if self.dice.random() < 0.7:
            return
        sql = self.dice.choice(("discard all", "reset all", "deallocate all", "discard temp"))
        self.run(sql)
        if sql in ("discard all", "reset all"):
            self.settings = {}
        if sql in ("discard all", "deallocate all"):
            self.statements = {}


def unquoted(value: str) -> str:
    return value.replace('"', "")


def quoted(value: str) -> str:
    """A string constant, whatever standard_conforming_strings says."""
    return "'" + value.replace("'", "''") + "'"
