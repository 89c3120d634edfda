"""Types that are altered between two Parses of one text: ALTER TYPE adds a value, renames, or changes a row type.

A server holds the statement as one client has prepared it. A client that prepares the same text behind the ALTER TYPE gets
what a direct connection gets then: errors, columns, rows. The ALTER TYPE comes through the pooler, or past it as migrations
may.
"""

import pytest

from harness import wire
from harness.pooler import kind
from harness.scenes import backend_pid, elsewhere
from harness.wire import bind, close, describe, error_codes, execute, parse, rows_of, sync

pytestmark = [
    pytest.mark.skipif(kind() == "direct", reason="there is no pooler"),
    pytest.mark.beyond_pgbouncer,
]

SCHEMA = """
drop schema if exists at_other cascade; drop type if exists at_mood, at_humor, at_pair, at_couple cascade;
drop domain if exists at_small, at_tiny; create schema at_other;
create type at_mood as enum ('a', 'c'); create type at_pair as (a int, b text); create domain at_small as int;
"""

ENUM = ["select 'a'::at_mood", "select 'b'::at_mood", "select enum_range(null::at_mood)", "select at_mood 'c'",
        "select $1::at_mood", "select 'a'::at_mood < $1"]
ROW = ["select '(1,x)'::at_pair", "select ('(1,x)'::at_pair).a", "select ('(1,x)'::at_pair).*", "select row(1, 'x')::at_pair",
       "select null::at_pair", "select ($1::at_pair).b"]

# What is altered, the texts that clients prepare before and behind it, and what they bind.
ALTERS = {
    "add value": ("alter type at_mood add value 'b' before 'c'", ENUM, "b"),
    "rename value": ("alter type at_mood rename value 'a' to 'b'", ENUM, "b"),
    "rename an enum": ("alter type at_mood rename to at_humor", ENUM, "a"),
    "set schema": ("alter type at_mood set schema at_other", ENUM, "a"),
    "add attribute": ("alter type at_pair add attribute c int", [*ROW, "select ('(1,x,2)'::at_pair).*"], "(1,x,2)"),
    "drop attribute": ("alter type at_pair drop attribute b", [*ROW, "select ('(1)'::at_pair).*"], "(1)"),
    "rename attribute": ("alter type at_pair rename attribute a to z", [*ROW, "select ('(1,x)'::at_pair).z"], "(1,x)"),
    "type of an attribute": ("alter type at_pair alter attribute a type text", ROW, "(q,x)"),
    "rename a row type": ("alter type at_pair rename to at_couple", ROW, "(1,x)"),
    "a check of a domain": ("alter domain at_small add check (value < 5)", ["select 7::at_small", "select $1::at_small"], "7"),
    "rename a domain": ("alter domain at_small rename to at_tiny; create domain at_small as text",
                        ["select '7'::at_small", "select $1::at_small"], "q"),
}


def told(client, name: str, text: str, value: str) -> list[str]:
    """What a client is told that prepares a text, describes and runs it."""
    values = [value] if "$" in text else []
    client.send(parse(name, text), describe("S", name), bind("", name, values), describe("P"), execute(), sync())
    messages = client.read_ready()
    return [wire.text(m) for m in messages if m.tag not in "N"] if not error_codes(messages) else error_codes(messages)


@pytest.mark.parametrize("by", ["through the pooler", "past the pooler"])
@pytest.mark.parametrize("where", ["one server", "another server"])
@pytest.mark.parametrize("name", ALTERS)
def test_a_parse_behind_alter_type_means_what_it_means_on_a_direct_connection(pg, make_pooler, name, where, by):
    alter, texts, value = ALTERS[name]
    pg.psql(SCHEMA)
    pooler = make_pooler(pg, settings={"default_pool_size": 1 if where == "one server" else 2})
    with pooler.connect() as old, pooler.connect() as new, pooler.connect() as maker:
        pid = backend_pid(old)
        before = [told(old, f"s{n}", text, value) for n, text in enumerate(texts)]
        if where == "another server":
            with elsewhere(pooler, old, pid):
                for n, text in enumerate(texts):
                    told(old, f"t{n}", text, value)
        if by == "past the pooler":
            pg.psql(alter)
        else:
            assert not error_codes(maker.query(alter))
        with wire.Connection(host=pg.host, port=pg.port) as direct:
            expected = [told(direct, f"s{n}", text, value) for n, text in enumerate(texts)]
        assert expected != before, "the attack needs its effect"
        for client, prefix in ((new, "s"), (new, "u"), (old, "v")):
            found = [told(client, f"{prefix}{n}", text, value) for n, text in enumerate(texts)]
            different = [(text, f, e) for text, f, e in zip(texts, found, expected) if f != e]
            assert not different, (prefix, different)
        old.send(*(close("S", f"s{n}") for n in range(len(texts))), sync())
        old.read_ready()
        assert [told(old, f"s{n}", text, value) for n, text in enumerate(texts)] == expected
        assert rows_of(new.query("select 1")) == [("1",)]
