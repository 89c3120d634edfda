"""Attacks on the servers of others by functions that nobody calls: names of key words, and settings that nobody can ask for."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

DYNAMIC = "language plpgsql as $$begin execute 'select set_config(''ak.' || 'x'', ''attacker'', false)'; return 1; end$$"
WORDS = ["select", "from", "begin", "update", "set", "values", "select from"]
SCHEMA = "create schema s; create table ak_t (a int);" + "".join(
    f'create function {where}"{word}"() returns int {DYNAMIC};' for word in WORDS for where in ("", "s."))
SCHEMA += "create function ak_reads() returns int language sql as 'select 1 from (values (1)) v';"
CUSTOM = "select coalesce(current_setting('ak.x', true), '')"


@pytest.fixture(scope="module")
def prepared(pg):
    with database(pg, "ak", SCHEMA) as cluster:
        yield cluster


def reading(make_pooler, cluster, dbname="ak"):
    """A pooler with one server, which has read the catalog."""
    pooler = one_server(make_pooler, cluster)
    with pooler.connect(user="postgres", database=dbname) as c:
        c.query("select 1")
    time.sleep(0.6)
    return pooler


def test_key_words_are_no_calls(prepared, make_pooler):
    pooler = reading(make_pooler, prepared)
    with pooler.connect(user="postgres", database="ak") as c:
        for text in ['select "a"."a" from "ak_t" a', "begin; update ak_t set a = 1; commit", "insert into ak_t values (1), (2)",
                     "select 'select one' from ak_t /* \"select\" */", "select ak_reads()"]:
            assert not wire.first_error(c.query(text)), text
            assert not pooler.console("show pins"), (text, str(pooler.console("show pins")))
        c.send(wire.parse("", "select 1 from ak_t"), wire.bind(), wire.execute(), wire.sync())
        assert not wire.first_error(c.read_ready())
        assert not pooler.console("show pins")


@pytest.mark.parametrize("text", [
    'select "select"()', "select s.select()", 'select 1 where "from"() = 1', "select s. /* x */ from()", 'select "select from"()',
    "select begin()", "select update ()", "select s.values()", "do $$begin perform s.select(); end$$",
])
def test_names_of_key_words_are_calls(prepared, make_pooler, text):
    pooler = reading(make_pooler, prepared)

    def client():
        return pooler.connect(user="postgres", database="ak")

    with client() as attacker:
        error = wire.first_error(attacker.query(text))
        assert not error, error and error.fields
        with client() as victim:
            looks_fresh(victim, {CUSTOM: ""})
        assert attacker.value(CUSTOM) == "attacker", "the attack needs its effect"
    next_one_finds(client, {CUSTOM: ""})


def test_the_lists_of_key_words_are_postgresqls(pg):
    source = (Path(__file__).parents[2] / "crates/sql/src/key_words.rs").read_text(encoding="utf-8")
    for name, category in [("RESERVED", "R"), ("NO_FUNCTIONS", "C")]:
        listed = set(re.findall(r'"(\w+)"', re.search(rf"const {name}: .*? = \[(.*?)\];", source, re.S).group(1)))
        there = set(pg.psql(f"select word from pg_get_keywords() where catcode = '{category}'").split())
        assert len(listed) > 30 and not listed - there


NEVER = {
    "name that is not ASCII": "perform set_config('ä.x', 'x', false)",
    "setting of superusers": "perform set_config('dynamic_library_path', '$libdir', false)",
    "many settings": ";".join(f"perform set_config('ak.s{n}', 'x', false)" for n in range(300)),
}


@pytest.mark.parametrize("name", NEVER)
def test_a_function_that_nobody_calls_keeps_no_servers(pg, make_pooler, name):
    with database(pg, "an", f"create function ak_never() returns void language plpgsql as $$begin {NEVER[name]}; end$$"):
        pooler = reading(make_pooler, pg, "an")
        with pooler.connect(user="alice", database="an") as careful, pooler.connect(user="alice", database="an") as other:
            assert not wire.first_error(careful.query("set work_mem = '7MB'"))
            assert not wire.first_error(careful.query("set ak.own = '1'"))
            assert other.value("select 1") == "1"
            assert not pooler.console("show pins")
        with pooler.connect(user="postgres", database="an") as caller:
            assert not wire.first_error(caller.query("select ak_never()"))
            assert pooler.console("show pins"), "whoever calls it keeps its server"
