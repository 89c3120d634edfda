"""Attacks by texts that mean something else than they seem to: a statement or a parameter behind a backslash, a type with
the name `text`, a view whose UPDATE is a SET, a command that makes a temporary table without saying so.

Every attack runs against a pool of one server. A victim looks while the attacker is there, and another one after it has
left.
"""

import time

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

CUSTOM = "select coalesce(current_setting('am.x', true), '')"

# Backslashes escape.
ESCAPED = ["set standard_conforming_strings = off", "set escape_string_warning = off"]

# PostgreSQL 15 behind setseed(0.5).
SEEDED = "select round(random()::numeric, 6) = 0.985168"


class Place:
    """A database of its own behind a pooler with one server, which has read the catalog."""

    def __init__(self, make_pooler, cluster, **settings):
        self.pooler = one_server(make_pooler, cluster, **settings)
        with self.client() as c:
            c.query("select 1")
        time.sleep(0.6)

    def client(self, user="postgres", **more):
        return self.pooler.connect(user=user, database="am", **more)


def run(client, *texts):
    for text in texts:
        error = wire.first_error(client.query(text))
        assert not error, (text, error.fields)


def reaches_nobody(place, texts, question, fresh, user="postgres", refused=()):
    """No client finds what these texts leave; the server refuses those in `refused`."""
    with place.client(user) as attacker:
        for text in texts:
            error = wire.first_error(attacker.query(text))
            assert bool(error) == (text in refused), (text, error and error.fields)
        with place.client(user) as victim:
            looks_fresh(victim, {question: fresh})
    next_one_finds(lambda: place.client(user), {question: fresh})


# ---- Backslashes

@pytest.mark.parametrize("text", [
    r"select setseed(0.5), 'a\''; select nosuch",
    r"explain analyze select setseed(0.5), 'a\''; select nosuch",
])
def test_an_error_behind_a_backslash_does_not_prove_that_nothing_ran(pg, make_pooler, text):
    with database(pg, "am", ""):
        reaches_nobody(Place(make_pooler, pg), [*ESCAPED, text], SEEDED, "f", refused=[text])


def test_an_error_behind_a_backslash_hides_no_connection(pg, make_pooler):
    with database(pg, "am", "create extension dblink"):
        text = (f"select dblink_connect('evil', 'host={pg.host} port={pg.port} user=postgres dbname=postgres'), 'a\\''; "
                "select nosuch")
        reaches_nobody(Place(make_pooler, pg), [*ESCAPED, text],
                       "select coalesce(dblink_get_connections()::text, '')", "", refused=[text])


@pytest.mark.parametrize("type_name, value", [("bpchar", "am.x   "), ("name", "am." + "x" * 80)])
def test_the_first_use_of_a_parameter_may_be_behind_a_backslash(pg, make_pooler, type_name, value):
    name = value.strip()[:63]
    with database(pg, "am", ""):
        reaches_nobody(Place(make_pooler, pg), [
            *ESCAPED, f"prepare p as select 'a\\'', $1::{type_name}, '\\'', set_config($1, 'evil', false)",
            f"execute p('{value}')"], f"select coalesce(current_setting('{name}', true), '')", "")


@pytest.mark.parametrize("statement", [
    "select $1::bpchar, 'set_config($1,', set_config($1, 'evil', false)",
    "select s.set_config($1), set_config($1, 'evil', false)",
])
def test_what_looks_like_a_name_of_a_setting_may_give_a_parameter_another_type(pg, make_pooler, statement):
    with database(pg, "am", "create schema s; create function s.set_config(bpchar) returns int language sql as 'select 1'"):
        reaches_nobody(Place(make_pooler, pg), [f"prepare p as {statement}", "execute p('am.x   ')"], CUSTOM, "")


def test_a_deallocate_behind_a_backslash_ends_a_statement(pg, make_pooler):
    with database(pg, "am", ""):
        place = Place(make_pooler, pg)
        with place.client() as client:
            run(client, *ESCAPED, "prepare s1 as select 1", r"select 'a\''; deallocate s1 --'")
            assert wire.error_codes(client.query("execute s1")) == ["26000"]


# ---- A type with the name text

NAMED_TEXT = """create schema s; create domain s.text as varchar(4);
    create function s.am_passes(name pg_catalog.text, v pg_catalog.text) returns pg_catalog.text language sql
    as 'select set_config(name::text, v, false)'"""

PATH = "set search_path = s, pg_catalog"


@pytest.mark.parametrize("texts", [
    ["select set_config('am.xyz'::text, 'evil', false)"],
    ["prepare p(text) as select set_config($1, 'evil', false)", "execute p('am.x  ')"],
    ["select am_passes('am.xyz', 'evil')"],
])
def test_a_domain_may_have_the_name_text(pg, make_pooler, texts):
    with database(pg, "am", NAMED_TEXT):
        reaches_nobody(Place(make_pooler, pg), [PATH, *texts], CUSTOM, "")


@pytest.mark.parametrize("makes, ends", [
    ("create domain s.text as varchar(4)", "drop domain s.text"),
    ("create domain s.d as varchar(4); alter type s.d rename to text", "drop type s.text"),
    ("do $$begin create domain s.text as varchar(4); end$$", "drop domain s.text"),
    ("create domain pg_temp.text as varchar(4)", "drop domain pg_temp.text"),
])
def test_a_domain_may_have_the_name_text_for_a_moment(pg, make_pooler, makes, ends):
    with database(pg, "am", "create schema s"):
        reaches_nobody(Place(make_pooler, pg), [
            PATH, "begin", makes, "select set_config('am.xyz'::text, 'evil', false)", ends, "commit"], CUSTOM, "")


def test_a_cast_to_text_keeps_no_server_where_no_type_has_its_name(pg, make_pooler):
    with database(pg, "am", "create domain am_email as text; create table text (a text)"):
        place = Place(make_pooler, pg)
        with place.client() as client:
            run(client, "create domain am_name as text", "select set_config('am.xyz'::text, 'a', false)")
            with place.client() as other:
                assert other.value("select 1") == "1"
            assert client.value("show am.xyz") == "a"


# ---- UPDATE pg_settings

SETS = """create function am_sets() returns void language plpgsql security definer as
    $$begin update pg_settings set setting = 'evil' where name = 'dynamic_library_path'; end$$;
    create function am_seen() returns text language sql security definer as
    $$select current_setting('dynamic_library_path')$$"""


def test_an_unprivileged_client_leaves_no_setting_that_it_does_not_see(pg, make_pooler):
    with database(pg, "am", SETS):
        reaches_nobody(Place(make_pooler, pg), ["select am_sets()"], "select am_seen()", "$libdir", user="alice")


@pytest.mark.parametrize("update", [
    "update pg_settings set setting = 'evil' where name = 'dynamic_library_path'",
    "update only pg_catalog.\"pg_settings\" set setting = 'evil' where name = 'dynamic_library_path'",
    "explain analyze update pg_settings set setting = 'evil' where name = 'dynamic_library_path'",
    "do $$begin update pg_settings set setting = 'evil' where name = 'dynamic_library_path'; end$$",
])
def test_a_setting_changes_by_an_update_before_the_role_does(pg, make_pooler, update):
    with database(pg, "am", ""):
        place = Place(make_pooler, pg)
        reaches_nobody(place, [f"begin; {update}; set role alice; commit"], "show dynamic_library_path", "$libdir")


def test_an_update_in_a_function_that_reads_settings_keeps_no_server(pg, make_pooler):
    with database(pg, "am", """create table am_t (a text); create function am_reads() returns void language plpgsql as
            $$begin update am_t set a = (select setting from pg_settings where name = 'work_mem'); end$$"""):
        place = Place(make_pooler, pg)
        with place.client() as client, place.client() as other:
            run(client, "select am_reads()")
            assert other.value("select 1") == "1"


# ---- REFRESH MATERIALIZED VIEW CONCURRENTLY makes a temporary table

MATERIAL = """create table am_b as select 1 as a; create materialized view am_m as select a from am_b;
create unique index on am_m (a);
create function am_refreshes() returns void language plpgsql as
    $$begin refresh materialized view concurrently am_m; end$$;
"""


@pytest.mark.parametrize("text", ["refresh materialized view concurrently am_m", "select am_refreshes()"])
def test_a_concurrent_refresh_leaves_no_schema(pg, make_pooler, text):
    with database(pg, "am", MATERIAL):
        reaches_nobody(Place(make_pooler, pg), [text], "select pg_my_temp_schema()", "0")


def test_a_client_with_temp_buffers_is_served_behind_a_concurrent_refresh(pg, make_pooler):
    with database(pg, "am", MATERIAL):
        place = Place(make_pooler, pg, ignore_startup_parameters="")
        with place.client() as client:
            run(client, "refresh materialized view concurrently am_m")
        with place.client(options={"options": "-c temp_buffers=100"}) as client:
            assert client.value("show temp_buffers") == "800kB"
