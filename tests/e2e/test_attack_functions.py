"""Attacks on the reading of texts: state that no text shows must not reach the next client, nor be lost by its own.

Every attack runs against a pool of one server. The attacker does something that leaves state in the session, the victim
looks for it meanwhile and after the attacker has left, and the attacker finds its own state at the end of its turn.
"""

import pytest

from harness import wire
from harness.attacks import KEPT_SECONDS, database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create role af_other nologin; grant af_other to postgres; grant usage on schema public to af_other;
create table af_names (k text, v text);
insert into af_names values ('af.x', 'attacker'), ('role', 'af_other');
grant all on af_names to public;
create function af_set_ctx(name text, value text) returns text language sql as 'select set_config(name, value, false)';
create function af_set_any(name text, value text) returns void language plpgsql
    as $$begin name := 'af.' || name; perform set_config(name, value, false); end$$;
create function af_dynamic(q text) returns void language plpgsql as $$begin execute q; end$$;
create view af_view as select set_config(k, v, false) from af_names where k = 'af.x';
create view af_xml as select query_to_xml('select set' || '_config(''af.x'', ''attacker'', false)', true, true, '');
create table af_default (a text default set_config('af' || '.x', 'attacker', false), b int);
create schema af_viewed; create view af_viewed.af_inner as select * from public.af_view;
create table af_check (a int check (set_config('af' || '.x', 'attacker', false) is not null));
create table af_fired (a int);
create function af_trigger() returns trigger language plpgsql
    as $$begin perform set_config('af' || '.x', 'attacker', false); return new; end$$;
create trigger af_fires before insert on af_fired for each row execute function af_trigger();
create function af_bigint(text) returns text language sql as 'select $1';
create function af_defaulted(a text default set_config('af' || '.x', 'attacker', false)) returns text language sql
    as 'select a';
create function af_executes() returns int language sql as 'execute p; select 1';
create function af_executes_in_constant() returns void language plpgsql as $$begin execute 'execute p'; end$$;
create function af_explains() returns int language sql as 'explain analyze execute p; select 1';
create operator !!! (rightarg = bigint, procedure = pg_advisory_lock);
"""

# Functions in C whose names in SQL tell nothing.
IN_C = """
create extension pg_trgm; alter function set_limit(real) rename to af_similar;
create extension isn; alter function isn_weak(boolean) rename to af_weak;
create extension dblink; alter function dblink_connect(text, text) rename to af_link;
create extension tablefunc; alter function crosstab(text) rename to af_rows;
create function af_mine(real) returns real language c as '$libdir/pg_trgm', 'set_limit';
create function af_rewrite(tsquery, text) returns tsquery language internal as 'tsquery_rewrite_query';
create function af_xml_of(text, boolean, boolean, text) returns xml language internal as 'query_to_xml';
create text search dictionary af_words (template = simple);
"""

CUSTOM = "select coalesce(current_setting('af.x', true), '')"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
ROLE, WORK_MEM, PATH, TIMEOUT = "show role", "show work_mem", "show search_path", "show lock_timeout"
AUTHORIZATION = "show session_authorization"

# What a session of nobody's tells.
FRESH = {CUSTOM: "", LOCKS: "0", ROLE: "none", AUTHORIZATION: "postgres", WORK_MEM: "4MB", PATH: '"$user", public', TIMEOUT: "0"}

MINE = {CUSTOM: "attacker"}
NAMED = "set_config(k, v, false) from af_names where k = 'af.x'"


def in_pieces(text: str) -> str:
    """The text between the quotes of a constant, cut into pieces: its words are not to be seen."""
    return "' || '".join(text[at:at + 3].replace("'", "''") for at in range(0, len(text), 3))


def xml(text: str) -> str:
    """A query that runs this text, which stands nowhere in it as it is."""
    return f"select query_to_xml('{in_pieces(text)}', true, true, '')"


# What is done (several Queries in a row), and what its client finds afterwards.
ATTACKS = {
    "long-query": (["set af.x = 'attacker' /* " + "x" * 70_000 + " */"], MINE),
    "long-name": ([f"select set_config('af' || '.x', 'attacker', false), '{'x' * 70_000}'"], MINE),
    "values": (["select set_config(k, v, false) from (values ('af.x', 'attacker')) t(k, v)"], MINE),
    "unnest": (["select set_config(k, 'attacker', false) from unnest(array['af.x']) k"], MINE),
    "json": (["select set_config(key, value, false) from json_each_text('{\"af.x\": \"attacker\"}')"], MINE),
    "lower": (["select set_config(lower('AF.X'), 'attacker', false)"], MINE),
    "concatenated": (["select set_config('af' || '.' || 'x', 'attacker', false)"], MINE),
    "execute-behind-a-call": (["prepare p(text) as select set_config($1, 'attacker', false)",
                               "select length('a.b'); execute p('af.x')"], MINE),
    "execute-twice": (["prepare p(text) as select set_config($1, 'attacker', false)",
                       "execute p('af.y'); execute p('af.x')"], MINE),
    "execute-continued": (["prepare p(text) as select set_config($1, 'attacker', false)", "execute p('af.'\n'x')"], MINE),
    "between-empty-constants": (["select set_config('' || $$af$$ || chr(46) || $$x$$ || '', 'attacker', false)"], MINE),
    "between-empty-constants-in-code": (
        ["do $f$begin perform set_config('' || $$af$$ || chr(46) || $$x$$ || '', 'attacker', false); end$f$"], MINE),
    "cast": (["select set_config('af.x'::varchar(9), 'attacker', false)"], MINE),
    "parentheses": (["select set_config(('af.x'), 'attacker', false)"], MINE),
    "escapes": (["select set_config(e'af\\x2ex', 'attacker', false)"], MINE),
    "unicode": (["select set_config(u&'af!002ex' uescape '!', 'attacker', false)"], MINE),
    "quoted-function": (["select \"pg_catalog\" . \"set_config\" /* x */ ('af' || '.x', 'attacker', false)"], MINE),
    "from-a-table": ([f"select {NAMED}"], MINE),
    "execute-arguments": (["prepare p(text, text) as select set_config($1, $2, false)",
                           "execute p('af' || '.x', 'attacker')"], MINE),
    "execute-constants": (["prepare p(text, text) as select set_config($1, $2, false)",
                           "execute p('af.x', 'attacker')"], MINE),
    "generic": (["select af_set_ctx('af.x', 'attacker')"], MINE),
    "generic-computed": (["select af_set_ctx('af' || '.x', 'attacker')"], MINE),
    "generic-prefix": (["select af_set_any('x', 'attacker')"], MINE),
    "generic-over-rows": (["select af_set_ctx(k, v) from af_names where k = 'af.x'"], MINE),
    "query-to-xml": ([xml("select set_config('af.x', 'attacker', false)")], MINE),
    "query-to-xml-locks": ([xml("select pg_advisory_lock(77)")], {LOCKS: "1"}),
    "query-to-xml-role": ([xml("select set_config('role', 'af_other', false)")], {ROLE: "af_other"}),
    "query-to-xml-path": ([xml("select set_config('search_path', 'pg_catalog', false)")], {PATH: "pg_catalog"}),
    "query-to-xml-timeout": ([xml("select set_config('lock_timeout', '12s', false)")], {TIMEOUT: "12s"}),
    "table-to-xml": (["select table_to_xml('af_view', true, true, '')"], MINE),
    "schema-to-xml": (["select schema_to_xml('af_viewed', true, true, '')"], MINE),
    "schema-to-xml-and-xmlschema": (["select schema_to_xml_and_xmlschema('af_viewed', true, true, '')"], MINE),
    "database-to-xml": (["select database_to_xml(true, true, '')"], MINE),
    "ts-stat": (["select * from ts_stat('select set' || '_config(''af.x'', ''attacker'', false)::tsvector')"], MINE),
    "ts-stat-as-column": (["select ('select to_tsvector(set' || '_config(''af.x'', ''attacker'', false))').ts_stat"], MINE),
    "ts-rewrite": (["select ts_rewrite('a'::tsquery, 'select ''a''::tsquery, set' "
                    "|| '_config(''af.x'', ''attacker'', false)::tsquery')"], MINE),
    "cursor-to-xml": (["begin", f"declare c cursor for select {NAMED}",
                       "select cursor_to_xml('c', 10, true, true, '')", "commit"], MINE),
    "view": (["select * from af_view"], MINE),
    "view-of-xml": (["select * from af_xml"], MINE),
    "default": (["insert into af_default (b) values (1)"], MINE),
    "check": (["insert into af_check values (1)"], MINE),
    "default-argument": (["select af_defaulted()"], MINE),
    "operator": (["select !!! 77::bigint"], {LOCKS: "1"}),
    "role-concatenated": (["select set_config('ro' || 'le', 'af_other', false)"], {ROLE: "af_other"}),
    "role-from-a-table": (["select set_config(k, v, false) from af_names where k = 'role'"], {ROLE: "af_other"}),
    "role-from-json": (["select set_config(key, value, false) from json_each_text('{\"role\": \"af_other\"}')"],
                       {ROLE: "af_other"}),
    "authorization-concatenated": (["select set_config('session_' || 'authorization', 'af_other', false)"],
                                   {AUTHORIZATION: "af_other"}),
    "authorization-from-json": (["select set_config(key, value, false) "
                                 "from json_each_text('{\"session_authorization\": \"af_other\"}')"],
                                {AUTHORIZATION: "af_other"}),
    "authorization-by-rows": (["select af_set_ctx(k, v) from (values ('session_authorization', 'af_other')) t(k, v)"],
                              {AUTHORIZATION: "af_other"}),
    "copy-to": ([f"copy (select {NAMED}) to stdout"], MINE),
    "fetch": (["begin", f"declare c cursor for select {NAMED}", "fetch c", "commit"], MINE),
    "held-cursor": (["begin", f"declare c cursor with hold for select {NAMED}", "commit", "fetch c", "close c"], MINE),
    "explain-analyze": ([f"explain analyze select {NAMED}"], MINE),
    "create-table-as": ([f"create table if not exists af_made as select {NAMED}", "drop table af_made"], MINE),
    "prepare-in-do": ([f"do $$begin execute 'prepare p as select {NAMED.replace(chr(39), chr(39) * 2)}'; end$$",
                       "execute p"], MINE),
    "execute-in-a-function": ([f"prepare p as select {NAMED}", "select af_executes()"], MINE),
    "execute-role-in-a-function": (["prepare p as select set_config('role', 'af_other', false)", "select af_executes()"],
                                   {ROLE: "af_other"}),
    "execute-in-a-constant": ([f"prepare p as select {NAMED}", "select af_executes_in_constant()"], MINE),
    "explain-in-a-function": ([f"prepare p as select {NAMED}", "select af_explains()"], MINE),
    "do-dynamic": (["do $$begin execute 'set' || ' af' || '.x = ''attacker'''; end$$"], MINE),
    "do-computed": (["do $$begin perform set_config('af' || '.x', 'attacker', false); end$$"], MINE),
    "function-dynamic": (["select af_dynamic('set' || ' af' || '.x = ''attacker''')"], MINE),
    "trigger": (["insert into af_fired values (1)"], MINE),
    "savepoint": (["begin", "savepoint a", f"select {NAMED}", "release a", "commit"], MINE),
    "savepoint-before": (["begin", f"select {NAMED}", "savepoint a", "select 1 / 0", "rollback to a", "commit"], MINE),
    "several": ([f"select 1; select {NAMED}; select 2"], MINE),
}


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with what the attacks need."""
    with database(pg, "af", SCHEMA) as cluster:
        yield cluster
    pg.psql("drop role af_other")


def connect(pooler, **more):
    return pooler.connect(user="postgres", database="af", **more)


def attack(pooler, act, found: dict) -> None:
    """The attacker acts, a victim looks, the attacker finds its own, leaves, and another victim looks."""
    with connect(pooler) as attacker:
        pid = attacker.value("select pg_backend_pid()")
        act(attacker)
        with connect(pooler) as victim:
            looks_fresh(victim, FRESH)
        for question, answer in found.items():
            assert attacker.value(question) == answer, question
        backend = attacker.value("select pg_backend_pid()")
        assert backend == pid, "there is one server"
    next_one_finds(lambda: connect(pooler), FRESH)


@pytest.mark.parametrize("name", ATTACKS)
def test_state_that_no_text_shows(prepared, make_pooler, name):
    """Numbers of any kind: what the text does must not reach anyone else, whatever its words hide."""
    texts, found = ATTACKS[name]

    def act(client):
        for text in texts:
            reply = client.query(text)
            error = wire.first_error(reply)
            assert not error or "1 / 0" in text, error and error.fields

    attack(one_server(make_pooler, prepared), act, found)


@pytest.fixture(scope="module")
def with_c(prepared):
    with database(prepared, "af_c", IN_C) as cluster:
        yield cluster


def rewrite(text: str) -> str:
    """A query that runs this text, which stands nowhere in it as it is."""
    return f"select af_rewrite('a', 'select {in_pieces(text)}::text::tsquery, ''b''::tsquery')"


# What is done, a question, and its answers for the attacker and in a new session.
IN_C_ATTACKS = {
    "set_limit": ("select af_similar(0.9)", "select show_limit()", "0.9", "0.3"),
    "set_limit outside of the extension": ("select af_mine(0.9)", "select show_limit()", "0.9", "0.3"),
    "isn_weak": ("select af_weak(true)", "select isn_weak()", "t", "f"),
    "dblink_connect": ("select af_link('af', 'host=%(host)s port=%(port)s dbname=postgres user=postgres')",
                       "select coalesce(dblink_get_connections()::text, '')", "{af}", ""),
    "crosstab": ("select * from af_rows('select set' || '_config(''af.x'', ''attacker'', false), ''b''::text, ''c''::text') "
                 "as (a text, b text)", CUSTOM, "attacker", ""),
    "tsquery_rewrite_query path": (rewrite("set_config('search_path', 'leak', false)"), PATH, "leak", FRESH[PATH]),
    "tsquery_rewrite_query seed": (rewrite("setseed(0.5)"), "select random() = 0.9851677175347999", "t", "f"),
}


@pytest.mark.parametrize("name", IN_C_ATTACKS)
def test_a_function_in_c_under_another_name(with_c, make_pooler, name):
    """Guards against ALTER FUNCTION .. RENAME: what a function in C does is told by its name in C."""
    text, question, mine, fresh = IN_C_ATTACKS[name]
    pooler = one_server(make_pooler, with_c)
    with pooler.connect(user="postgres", database="af_c") as attacker:
        error = wire.first_error(attacker.query(text % {"host": with_c.host, "port": with_c.port}))
        assert not error, error and error.fields
        with pooler.connect(user="postgres", database="af_c") as victim:
            looks_fresh(victim, {question: fresh})
        assert attacker.value(question) == mine, "the attack needs its effect"
    next_one_finds(lambda: pooler.connect(user="postgres", database="af_c"), {question: fresh})


def test_an_operator_of_another_owner_s_function_in_c(prepared, make_pooler):
    """Guards against a tenant that makes an operator of a function in C, whose own name appears in no text."""
    operator = "create extension isn; set role af_other; create operator public.!!~ (rightarg = boolean, function = isn_weak)"
    question = "select isn_weak()"
    with database(prepared, "af_operator", f"grant create on schema public to af_other; {operator}"):
        pooler = one_server(make_pooler, prepared)
        with pooler.connect(user="postgres", database="af_operator") as attacker:
            error = wire.first_error(attacker.query("select !!~ true"))
            assert not error, error and error.fields
            with pooler.connect(user="postgres", database="af_operator") as victim:
                looks_fresh(victim, {question: "f"})
            assert attacker.value(question) == "t", "the attack needs its effect"
        next_one_finds(lambda: pooler.connect(user="postgres", database="af_operator"), {question: "f"})


def test_a_dictionary_is_no_call(with_c, make_pooler):
    pooler = one_server(make_pooler, with_c)
    with pooler.connect(user="postgres", database="af_c") as client:
        error = wire.first_error(client.query("alter text search dictionary af_words (accept = false)"))
        assert not error, error and error.fields
        assert not pooler.console("show pins")


@pytest.mark.parametrize("parameters", [("af.x", "attacker"), ("af.x", "attacker" + "r" * 70_000)])
def test_parameters_that_name_a_setting(prepared, make_pooler, parameters):
    """In a Bind that is not read to its end the name is not told."""
    attack(one_server(make_pooler, prepared),
           lambda c: c.extended("select set_config($1, $2, false)", parameters), {CUSTOM: parameters[1]})


@pytest.mark.parametrize(("name", "value", "found"), [
    ("af.x", "attacker", MINE), ("role", "af_other", {ROLE: "af_other"}),
    ("session_authorization", "af_other", {AUTHORIZATION: "af_other"}),
])
def test_a_name_behind_a_long_parameter(prepared, make_pooler, name, value, found):
    def act(client):
        client.extended("select set_config($2, $3, false), length($1)", ("x" * 70_000, name, value))

    attack(one_server(make_pooler, prepared), act, found)


def test_a_function_call(prepared, make_pooler):
    """The message FunctionCall calls a function by its number."""
    def act(client):
        oid = int(client.value("select 'set_config'::regproc::oid"))
        client.send(wire.function_call(oid, (b"af.x", b"attacker", b"f")))
        assert not wire.first_error(client.read_ready())

    attack(one_server(make_pooler, prepared), act, MINE)


def test_execute_after_flush(prepared, make_pooler):
    """A portal that runs later than it was bound."""
    def act(client):
        client.query("begin")
        client.send(wire.parse("", f"select {NAMED}"), wire.bind(), wire.flush())
        client.read_until("2")
        client.send(wire.execute(), wire.sync())
        client.read_ready()
        client.query("commit")

    attack(one_server(make_pooler, prepared), act, MINE)


def test_copy_from_with_a_trigger(prepared, make_pooler):
    def act(client):
        client.send(wire.query("copy af_fired from stdin"))
        client.read_until("G")
        client.send(wire.copy_data(b"1\n"), wire.copy_done())
        assert not wire.first_error(client.read_ready())

    attack(one_server(make_pooler, prepared), act, MINE)


def test_a_seed_that_no_text_shows(prepared, make_pooler):
    """The next client's random() must not be what the attacker knows."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        attacker.query(xml("select setseed(0.5)"))
        known = attacker.value("select random()")
        attacker.query(xml("select setseed(0.5)"))
    with connect(pooler) as victim:
        assert victim.value("select random()") != known


def test_always_asking_finds_a_role(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared, session_state_probe="always")
    attack(pooler, lambda c: c.query("select set_config('ro' || 'le', 'af_other', false)"), {ROLE: "af_other"})


@pytest.mark.parametrize("text", ["SLECT 1", "PING", "select no_such_function(1)", "select setseed(", "load nonsense"])
def test_what_the_server_refuses_pins_nobody(prepared, make_pooler, text):
    """A typo must not take a server for good."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as careless, connect(pooler) as other:
        for _ in range(2):
            assert wire.first_error(careless.query(text))
            assert other.value("select 1") == "1"
        careless.query("begin")
        careless.query(text)
        careless.query("rollback")
        assert other.value("select 1") == "1"


def test_two_entries_for_one_database_have_one_catalog(prepared, make_pooler):
    """A function made through one entry does what it does through the other, too."""
    to = f"host={prepared.host} port={prepared.port} dbname=af"
    pooler = make_pooler(prepared, mode="transaction", databases={"one": to, "two": to},
                         settings={"default_pool_size": 1, "query_wait_timeout": KEPT_SECONDS})
    make = ("create or replace function af_fresh(text) returns text language plpgsql as "
            "$$begin perform set_config('af.x', $1, false); return $1; end$$")
    with pooler.connect(user="postgres", database="two") as attacker, \
            pooler.connect(user="postgres", database="one") as maker:
        attacker.query("create or replace function af_fresh(text) returns text language sql as 'select $1'")
        assert attacker.value("select af_fresh('x')") == "x"
        maker.query(make)
        assert attacker.value("select af_fresh('attacker')") == "attacker"
        with pooler.connect(user="postgres", database="two") as victim:
            looks_fresh(victim, FRESH)
        assert attacker.value(CUSTOM) == "attacker"
    next_one_finds(lambda: pooler.connect(user="postgres", database="two"), FRESH)


def test_pins_say_what_to_write_instead(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as client:
        client.query("select set_config('af' || '.x', 'attacker', false)")
        rows = str(pooler.console("show pins"))
        assert "name" in rows and "setting" in rows, rows


HARMLESS = [
    "insert into af_names (k, v) values ('(', 'f(x)')", "delete from af_names where k = '('",
    "select count(*), max(length(k)) from af_names where k in ('a', 'b') and exists (select 1)",
    "with a(b) as (values (1)), c (d) as (select b from a) select coalesce(b, d) from a, c",
    "select set_config('af.y', 'x', true)", "select set_config(k, v, true) from af_names",
    "select * from generate_series(1, 3) with ordinality as t(a, b)", "select af_bigint('x')",
    "select pg_sleep(0), random(), gen_random_uuid(), clock_timestamp()",
    "do $$declare n int := 1; begin n := n + abs(2); perform af_bigint('x'); end$$",
    "create table if not exists af_tidy (a numeric(10, 2), primary key (a))",
    "create index if not exists af_tidy_i on af_tidy using btree (abs(a))", "drop table af_tidy",
]


def test_harmless_statements_pin_nobody(prepared, make_pooler):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as client, connect(pooler) as other:
        for text in HARMLESS:
            error = wire.first_error(client.query(text))
            assert not error, (text, error.fields)
            assert other.value("select 1") == "1", text
