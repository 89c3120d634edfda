"""docs/migrating-from-pgbouncer.md says what it says because tests do: its tables are read here."""

from __future__ import annotations

import os
import re

import pytest

from harness import wire
from harness.pooler import CHECKOUT, kind
from test_pgbouncer_console import COMMANDS, OTHERWISE, SHOWS
from test_pgbouncer_ends import ENDS
from test_pgbouncer_logins import WAYS
from test_pgbouncer_texts import SITUATIONS

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="the poolers are named by the tests themselves")

VERDICTS = ("same", "better", "different", "pgweir's own")


def section(title: str) -> list[list[str]]:
    """The cells of the tables' rows under a heading."""
    with open(os.path.join(CHECKOUT, "docs", "migrating-from-pgbouncer.md"), encoding="utf-8") as file:
        text = file.read()
    chapter = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in chapter.splitlines() if line.startswith("|")]
    return [row for row in rows if row[-2] in VERDICTS]


def test_every_setting_has_pgbouncers_default_and_rule_of_change(make_pooler):
    """SHOW CONFIG of both, for every setting that the table calls the same or better."""
    config = {}
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(None, databases={"postgres": "host=127.0.0.1"}, which=which)
        config[which] = {row["key"]: (row["default"], row["changeable"]) for row in pooler.console("show config")}
    verdicts = {
        re.match(r"\[`(\w+)`\]", row[0]).group(1): row[1] for row in section("Settings") if row[0].startswith("[`")
    }
    assert config["pgbouncer"].keys() <= verdicts.keys()
    own = {name for name, verdict in verdicts.items() if verdict == "pgweir's own"}
    assert own == config["pgweir"].keys() - config["pgbouncer"].keys() - {"service_name", "suspend_timeout"}
    alike = {name for name, verdict in verdicts.items() if verdict in ("same", "better")} - {"service_name"}
    assert {n: config["pgweir"][n] for n in alike} == {n: config["pgbouncer"][n] for n in alike}


def test_every_setting_that_is_the_same_is_in_a_test_of_both_programs():
    """Its name, at least: what the test compares is for its reader to judge."""
    here = os.path.dirname(os.path.abspath(__file__))
    files = {name for name in os.listdir(here) if name.startswith("test_pgbouncer_")} - {os.path.basename(__file__)}
    texts = ""
    for name in sorted(files | {"test_conffile.py", "test_peers.py"}):
        with open(os.path.join(here, name), encoding="utf-8") as file:
            texts += file.read()
    names = [re.sub(r"\[?`(\w+)`.*", r"\1", row[-3]) for row in section("Settings") if row[-2] == "same"]
    assert {"log_stats", "load_balance_hosts", "reserve_pool"} <= set(names)
    assert [name for name in names if not re.search(rf"\b{name}\b", texts)] == []


# A value for each key of the other sections.
KEYS = {
    "[databases]": {
        "dbname": "postgres", "host": "127.0.0.1", "port": "5432", "user": "u", "password": "p", "auth_user": "a",
        "auth_dbname": "postgres", "auth_query": "'select 1'", "client_encoding": "UTF8", "datestyle": "ISO",
        "timezone": "UTC", "application_name": "x", "pool_size": "1", "min_pool_size": "0", "reserve_pool_size": "1",
        "reserve_pool": "1", "query_wait_timeout": "1", "max_db_connections": "1", "max_db_client_connections": "1",
        "server_lifetime": "1", "load_balance_hosts": "disable", "target_session_attrs": "any", "pool_mode": "session",
        "connect_query": "'select 1'", "weight": "2",
    },
    "[users]": {
        "pool_mode": "session", "pool_size": "1", "reserve_pool_size": "1", "max_user_connections": "1",
        "max_user_client_connections": "1", "transaction_timeout": "1", "idle_transaction_timeout": "1",
        "query_timeout": "1", "query_wait_timeout": "1", "client_idle_timeout": "1", "weight": "2",
    },
    "[peers]": {"host": "127.0.0.1", "port": "5432", "pool_size": "1"},
}  # fmt: skip


def test_pgbouncer_knows_the_keys_that_are_not_our_own(make_pooler):
    """A file without the settings that are pgweir's own takes the way back. Each of those alone bars it."""

    def pooler(keys: dict[str, list[str]], which: str):
        line = {section: " ".join(f"{key}={KEYS[section][key]}" for key in names) for section, names in keys.items()}
        return make_pooler(
            None,
            start=False,
            which=which,
            databases={"postgres": line.get("[databases]") or "host=127.0.0.1"},
            users={"alice": line["[users]"]} if "[users]" in line else {},
            peers={1: line["[peers]"]} if "[peers]" in line else {},
        )

    rows = [row for row in section("Settings") if row[0] in KEYS]
    verdicts = {(row[0], row[1].strip("`")): row[2] for row in rows}
    assert set(verdicts) == {(place, key) for place, keys in KEYS.items() for key in keys}
    shared = {place: [k for k in keys if verdicts[place, k] != "pgweir's own"] for place, keys in KEYS.items()}
    for which in ("pgbouncer", "pgweir"):
        assert pooler(shared, which).start().console("show version")
    for place, key in (at for at, verdict in verdicts.items() if verdict == "pgweir's own"):
        refuses = pooler({place: [key]}, "pgbouncer")
        refuses.spawn()
        assert refuses.wait_exit() != 0, (place, key)
        assert key in refuses.log() + refuses.stderr()


def test_every_situation_is_in_the_table():
    said = {row[0]: row[1] for row in section("Errors that clients get")}
    situations = (SITUATIONS | ENDS).items()
    tested = {name.replace("_", " "): "same" if meant is None else "better" for name, (_, _, meant, _) in situations}
    assert said == tested


def test_every_table_of_the_console_is_compared():
    rows = section("Commands of the console")
    commands = {name: row[1] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    shows = {name.removeprefix("SHOW ").lower() for name, verdict in commands.items() if verdict in ("same", "different") and name.startswith("SHOW ")}
    assert shows == set(SHOWS)
    verbs = {name.split()[0].lower() for name in commands if not name.startswith("SHOW")}
    assert verbs <= {command.split()[0] for command in COMMANDS if command.strip("; ")} | {"suspend", "shutdown"}
    assert {command for command, _ in OTHERWISE} == {"", ";", "set listen_port = 1", "set job_name = 'x'", "show fds"}


def test_pgbouncer_does_not_know_the_commands_that_are_our_own(pg15, make_pooler):
    """By TCP and by the Unix socket."""
    rows = [row for row in section("Commands of the console") if row[-2] == "pgweir's own"]
    commands = [command for row in rows for command in re.findall(r"`([^`]+)`", row[0])]
    assert "SUSPEND" in commands and "SHOW PINS" in commands
    for which in ("pgbouncer", "pgweir"):
        pooler = make_pooler(pg15, which=which)
        with pooler.connect():
            id_of_client = next(row["id"] for row in pooler.console("show clients") if row["database"] == "postgres")
            for host in (pooler.host, pooler.dir):
                for command in commands:
                    text = f"{command} {id_of_client}" if command == "SHOW SESSION" else command
                    with pooler.connect(host=host, database="pgbouncer") as c:
                        error = wire.first_error(c.query(text))
                        if which == "pgbouncer":
                            assert error.fields["M"].startswith(f"invalid command '{text}'")
                        else:
                            assert error is None, text
                        if which == "pgweir" and command == "SUSPEND":
                            c.query("resume")


def test_every_way_to_log_in_is_compared():
    named = set(re.findall(r"`([^`]+)`", " ".join(row[0] for row in section("Logins"))))
    with open(os.path.join(CHECKOUT, "docs", "settings.md"), encoding="utf-8") as file:
        (types,) = re.findall(r"^#### auth_type$.*?^\*(.*?); default", file.read(), re.M | re.S)
    assert {way for way in WAYS if " " not in way} | set(types.split(", ")) <= named


@pytest.mark.parametrize("title", ["Settings", "Files", "Command line and signals", "Logins", "Behaviour"])
def test_what_is_not_the_same_says_how(title):
    for row in section(title):
        if row[-2] in ("better", "different"):
            assert row[-1], row
