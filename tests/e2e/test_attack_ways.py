"""Attacks on every kind of session state in every way in which a client may run a statement.

One server. The attacker changes its session by COPY, cursors, portals, EXPLAIN ANALYZE and so on, a victim looks while the
attacker is there and after it has left, and the attacker finds its own state at the end.
"""

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

PATH, TIMEOUT = "show search_path", "show statement_timeout"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
# What random() returns first after setseed(0.5).
SEEDED = "select random() = 0.9851677175347999"

FRESH = {PATH: '"$user", public', TIMEOUT: "0", LOCKS: "0", SEEDED: "f"}

# What each kind of state is set by, a question, and the attacker's answer. Rows of aw_names name settings that no text shows.
KINDS = {
    "search_path": ("set_config('search_path', 'pg_catalog', false)", PATH, "pg_catalog"),
    "search_path that no text shows": (
        "(select set_config(k, 'pg_catalog', false) from public.aw_names where k = 'search_path')", PATH, "pg_catalog"),
    "statement_timeout": ("set_config('statement_timeout', '50s', false)", TIMEOUT, "50s"),
    "statement_timeout that no text shows": (
        "(select set_config(k, '50s', false) from public.aw_names where k = 'statement_timeout')", TIMEOUT, "50s"),
    "lock": ("pg_advisory_lock(77)::text", LOCKS, "1"),
    "seed": ("setseed(0.5)::text", SEEDED, "t"),
}

SCHEMA = """
create table aw_names (k text);
insert into aw_names values ('search_path'), ('statement_timeout');
create table aw_fired (what text);
create function aw_fires() returns trigger language plpgsql as $$begin execute 'select ' || new.what; return new; end$$;
create trigger aw_fires before insert on aw_fired for each row execute function aw_fires();
"""


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with what the attacks need."""
    with database(pg, "aw", SCHEMA) as cluster:
        yield cluster


def connect(pooler):
    return pooler.connect(user="postgres", database="aw")


def runs(*texts):
    """Queries in a row; `{x}` is what changes the session, `{quoted}` the same inside of a constant."""
    def act(client, what):
        for text in texts:
            error = wire.first_error(client.query(text.format(x=what, quoted=what.replace("'", "''"))))
            assert not error or "1 / 0" in text, error and error.fields

    return act


def execute_after_flush(client, what):
    client.query("begin")
    client.send(wire.parse("", f"select {what}"), wire.bind(), wire.flush())
    client.read_until("2")
    client.send(wire.execute(), wire.sync())
    assert not wire.first_error(client.read_ready())
    client.query("commit")


def copy_from(client, what):
    client.send(wire.query("copy aw_fired from stdin"))
    client.read_until("G")
    client.send(wire.copy_data(what.encode() + b"\n"), wire.copy_done())
    assert not wire.first_error(client.read_ready())


WAYS = {
    "COPY TO": runs("copy (select {x}) to stdout"),
    "COPY FROM with a trigger": copy_from,
    "DECLARE and FETCH": runs("begin", "declare c cursor for select {x}", "fetch c", "commit"),
    "held cursor": runs("begin", "declare c cursor with hold for select {x}", "commit", "fetch c", "close c"),
    "Execute after Flush": execute_after_flush,
    "EXPLAIN ANALYZE": runs("explain analyze select {x}"),
    "CREATE TABLE AS": runs("create table public.aw_made as select {x}", "drop table public.aw_made"),
    "PREPARE inside DO": runs("do $$begin execute 'prepare p as select {quoted}'; end$$", "execute p"),
    "in a savepoint": runs("begin", "savepoint a", "select {x}", "release a", "commit"),
    "before a savepoint": runs("begin", "select {x}", "savepoint a", "select 1 / 0", "rollback to a", "commit"),
}

# A rollback takes settings back, and nothing else.
UNDONE = {
    "ROLLBACK TO": runs("begin", "savepoint a", "select {x}", "rollback to a", "commit"),
    "ROLLBACK": runs("begin", "select {x}", "rollback"),
}
STAYS = ("lock", "seed")


def attack(pooler, way, what, question, answer) -> None:
    with connect(pooler) as attacker:
        pid = attacker.value("select pg_backend_pid()")
        way(attacker, what)
        with connect(pooler) as victim:
            # The seed is asked for last: who asks draws a number.
            looks_fresh(victim, FRESH)
        assert attacker.value(question) == answer, "the attack needs its effect"
        assert attacker.value("select pg_backend_pid()") == pid, "there is one server"
    next_one_finds(lambda: connect(pooler), FRESH)


@pytest.mark.parametrize("name", [*WAYS, *UNDONE])
def test_every_kind_of_state_in_every_way(prepared, make_pooler, name):
    pooler = one_server(make_pooler, prepared)
    for kind_of_state, (what, question, answer) in KINDS.items():
        if name in WAYS or kind_of_state in STAYS:
            print(kind_of_state)
            attack(pooler, {**WAYS, **UNDONE}[name], what, question, answer)


@pytest.mark.parametrize("kind_of_state", KINDS)
def test_the_attacks_have_their_effect_on_a_direct_connection(prepared, kind_of_state):
    """What each kind of state leaves for whoever has the server next."""
    what, question, answer = KINDS[kind_of_state]
    for name, way in {**WAYS, **(UNDONE if kind_of_state in STAYS else {})}.items():
        with wire.Connection(host=prepared.host, port=prepared.port, database="aw") as direct:
            assert direct.value(question) == FRESH[question]
            way(direct, what)
            assert direct.value(question) == answer, name
