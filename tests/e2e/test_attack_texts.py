"""Attacks on the reading of texts: names far behind their verbs, parameters that are not what the caller gives,
definitions that do not look like such, and characters whose second byte looks like ASCII.

As in test_attack_functions, every attack runs against a pool of one server.
"""

import pytest
from test_attack_functions import FRESH, LOCKS, MINE, attack, connect, one_server, xml

from harness import wire
from harness.attacks import next_one_finds
from harness.pooler import kind
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

# The catalog is read for at most a twentieth of the time, so a loaded machine takes long.
READING_SECONDS_MAX = 30.0

SCHEMA = """
create table at_names (k text, v text);
insert into at_names values ('af.x', 'attacker');
create type at_enum as enum ('zz');
create function at_enum_text(at_enum) returns text immutable language sql as $$select 'af' || '.x'$$;
create cast (at_enum as text) with function at_enum_text(at_enum) as implicit;
create function at_assign(text, text) returns void language plpgsql
    as $$begin $1 := 'af.' || $1; perform set_config($1, $2, false); end$$;
create function at_alias(text, text) returns void language plpgsql
    as $$declare a alias for $1; begin a := 'af.' || a; perform set_config($1, $2, false); end$$;
create function at_column(k text) returns text language sql
    as $$update at_names set v = v returning set_config(k, 'attacker', false)$$;
create function at_using(a text) returns void language plpgsql
    as $$begin execute 'select set_config($1, $2, false)' using 'af' || '.x', 'attacker'; end$$;
create function at_bpchar(name bpchar, value text) returns text language sql as 'select set_config(name, value, false)';
create function at_enum_given(at_enum) returns text language sql as $$select set_config($1, 'attacker', false)$$;
create function at_out(out o text, value text, name text) language plpgsql
    as $$begin o := set_config($3, $2, false); end$$;
create function at_xml(int) returns text language sql as $$select 'x'$$;
create function at_escapes(int) returns int language plpgsql as $$begin return 1; end$$;
create function at_rename(int) returns text language sql as $$select 'x'$$;
"""

XML = xml("select set_config('af.x', 'attacker', false)").removeprefix("select ") + "::text"
FAR = (" " * 600, f"/*{'c' * 600}*/")
REPLACE = f"create or replace function at_xml(int) returns text language sql as $f$select {XML}$f$"
ESCAPED = (r"create or replace function at_escapes(int) returns int language plpgsql as e'begin \x65xecute "
           r"\'s\' || \'et af\' || \'.x = \'\'attacker\'\'\'; return 2; end'")
READINGS = ("create function at_readings() returns int language plpgsql as $$begin perform '\\', '; "
            "execute 's' || 'et af' || '.x = ''attacker'''; return 1; --';\n end; $$")
# In this body, CASE is the label of a column.
BODY = "create or replace function at_body() returns int begin atomic select 1 case; end;"

# What other clients do first, and what the attacker does.
ATTACKS = {
    **{f"set-config-far-{n}": ([], [f"select set_config{far}('af' || '.x', 'attacker', false)"])
       for n, far in enumerate(FAR)},
    **{f"set-in-do-far-{n}": ([], [f"do $$begin set {far}af.x = 'attacker'; end$$"]) for n, far in enumerate(FAR)},
    "assigned": ([], ["select at_assign('x', 'attacker')"]),
    "alias": ([], ["select at_alias('x', 'attacker')"]),
    "column": ([], ["select at_column('work_mem')"]),
    "using": ([], ["select at_using('work_mem')"]),
    "bpchar": ([], ["select at_bpchar('af.x  ', 'attacker')"]),
    "enum-given": ([], ["select at_enum_given('zz')"]),
    "out": ([], ["select at_out('attacker', 'af.x')"]),
    "bpchar-prepared": ([], ["prepare p(bpchar, text) as select set_config($1, $2, false)",
                             "execute p('af.x  ', 'attacker')"]),
    "enum-prepared": ([], ["prepare p(at_enum) as select set_config($1, 'attacker', false)", "execute p('zz')"]),
    "view": (["create view at_view as select " + XML], ["select * from at_view"]),
    "default": (["create table at_default (b int, a text default " + XML + ")"],
                ["insert into at_default (b) values (1)"]),
    "replaced": (["select at_xml(1)", REPLACE], ["select at_xml(1)"]),
    "replaced-by-escapes": (["select at_escapes(1)", ESCAPED], ["select at_escapes(1)"]),
    "readings": (["set standard_conforming_strings = off", READINGS],
                 ["set standard_conforming_strings = off", "select at_readings()"]),
    "behind-a-body": ([], [f"{BODY} set af.x = 'attacker'"]),
    "defined-by-do": (["do $$begin execute 'cre' || 'ate or replace function at_rename(int) returns text "
                       "language sql as ''select " + XML.replace("'", "''''") + "'''; end$$"],
                      ["select at_rename(1)"]),
}


@pytest.fixture(scope="module")
def prepared(pg):
    pg.psql("create database af")
    pg.psql("create role af_other nologin; grant af_other to postgres")
    pg.psql(SCHEMA, dbname="af")
    yield pg
    pg.psql("drop database af with (force)")
    pg.psql("drop role af_other")


def readings(pooler) -> int:
    """How often the catalog has been read, or is being read."""
    return {row["name"]: int(row["count"]) for row in pooler.console("SHOW STATE_STATS")}["catalog_reads"]


def runs(client, texts) -> None:
    for text in texts:
        error = wire.first_error(client.query(text))
        assert not error, (text[:80], error.fields)


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_text_hides(prepared, make_pooler, name):
    before, texts = ATTACKS[name]
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as maker:
        maker.value("select 1")
        known = readings(pooler)
        runs(maker, before)
    with connect(pooler) as other:
        # A server that becomes free reads the catalog, when the pause behind the last reading is over.
        if before:
            eventually(lambda: other.value("select 1") and readings(pooler) > known, READING_SECONDS_MAX)
    attack(pooler, lambda c: runs(c, texts), MINE)


def test_a_type_that_the_client_declares(prepared, make_pooler):
    oid = int(prepared.psql("select 'at_enum'::regtype::oid", dbname="af"))
    attack(one_server(make_pooler, prepared),
           lambda c: c.extended("select set_config($1, $2, false)", ("zz", "attacker"), (oid, 25)), MINE)


def test_a_view_that_explain_makes(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as maker:
        maker.value("select 1")
        known = readings(pooler)
        runs(maker, ["explain analyze create materialized view at_explained as select pg_try_advisory_lock(77)",
                     "select pg_advisory_unlock_all()"])
    with connect(pooler) as other:
        eventually(lambda: other.value("select 1") and readings(pooler) > known, READING_SECONDS_MAX)
    attack(pooler, lambda c: runs(c, ["refresh materialized view at_explained"]), {LOCKS: "1"})


# The second routine is named like a key word, which the grammar never has before a parenthesis.
@pytest.mark.parametrize("name, text", [
    ("at_set_config", "select at_set_config('x', 'attacker')"),
    ("at_set_config", "do $$begin perform at_set_config('x', 'attacker'); end$$"),
    ("at_set_config", "do $$begin execute $q$select at_set_config('x', 'attacker')$q$; end$$"),
    ("validate", "select validate('x', 'attacker')"),
])
def test_a_routine_made_elsewhere_whose_name_looks_known(prepared, make_pooler, name, text):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as client:
        client.value("select 1")
    prepared.psql(f"create function {name}(k text, v text) returns text language sql "
                  "as $$select set_config('af.' || k, v, false)$$", dbname="af")
    try:
        attack(pooler, lambda c: runs(c, [text]), MINE)
    finally:
        prepared.psql(f"drop function {name}", dbname="af")


# In SJIS these two bytes are one letter. Read as ASCII, the second one is a backslash.
HIDDEN = (b"select e'\x95\x5c', query_to_xml('select se' || 't_con' || 'fig' || chr(40) || '''af.x'', ''attacker'', false' "
          b"|| chr(41), true, true, '') --'")


def sjis_in_turn(client):
    client.query("set client_encoding = 'SJIS'")
    client.query(HIDDEN)
    client.query("set client_encoding = 'UTF8'")


def sjis_locally(client):
    client.query("begin")
    client.query("set local client_encoding = 'SJIS'")
    client.query(HIDDEN)
    client.query("commit")


def sjis_queries_at_once(client):
    client.send(wire.query("set client_encoding = 'SJIS'"), wire.query(HIDDEN), wire.query("set client_encoding = 'UTF8'"))
    client.read_ready(3)


def sjis_pipelined(client):
    parts = ("set client_encoding = 'SJIS'", HIDDEN, "set client_encoding = 'UTF8'")
    messages = [m for text in parts for m in (wire.parse("", text), wire.bind(), wire.execute())]
    client.send(*messages, wire.sync())
    client.read_ready()


def sjis_prepared(client):
    client.send(wire.parse("", "set client_encoding = 'SJIS'"), wire.bind(), wire.execute(), wire.parse("s", HIDDEN),
                wire.parse("", "set client_encoding = 'UTF8'"), wire.bind(), wire.execute(), wire.sync())
    client.read_ready()
    client.send(wire.bind(statement="s"), wire.execute(), wire.sync())
    client.read_ready()


@pytest.mark.parametrize("act", [sjis_in_turn, sjis_locally, sjis_queries_at_once, sjis_pipelined, sjis_prepared])
def test_half_a_character_is_no_ascii(prepared, make_pooler, act):
    attack(one_server(make_pooler, prepared), act, MINE)


def test_letters_beyond_ascii_pin_nobody_in_other_encodings(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as client, connect(pooler) as other:
        for encoding in ("UTF8", "LATIN1"):
            letters = "Mélanie".encode(encoding)
            for text in (f"set client_encoding = '{encoding}'".encode(), b"select '" + letters + b"' /* abs(1) */",
                         b"begin", b"set local work_mem = '5MB'", b"select '" + letters + b"', abs(1)", b"commit"):
                assert not wire.first_error(client.query(text)), text
            assert other.value("select 1") == "1", encoding
    next_one_finds(lambda: connect(pooler), FRESH)
