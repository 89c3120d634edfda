"""Attacks by plans: functions keep their plans in the server process, and a plan keeps constants as they were read when
it was made, under the settings of whoever called the function first.

Every attack runs against a pool of one server. The attacker calls the code under its own settings. The victim calls it
on the same server, and must get what a direct connection with the victim's settings gets.
"""

import pytest

from harness import wire
from harness.attacks import database, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

READS = """select to_char('01/02/2024'::date, 'YYYY-MM-DD') || ' '
    || extract(epoch from '2024-01-01 00:00'::timestamptz) || ' '
    || extract(epoch from '2024-01-01 00:00 IST'::timestamptz) || ' '
    || extract(epoch from '-1 2:03:04'::interval) || ' '
    || array_length('{null,1}'::text[], 1) || ' ' || coalesce(('{null,1}'::text[])[1], '-') || ' '
    || quote_ident('a') || ' ' || '\\x41'::bytea::text || ' ' || (0.1::float8 / 3)::text
    || (select count(*) from (select 1 as a) t where (a = null) is null)"""

SCHEMA = f"""
create function ap_date() returns text language plpgsql
    as $f$declare found text; begin select to_char('01/02/2024'::date, 'YYYY-MM-DD') into found; return found; end$f$;
create function ap_all() returns text language plpgsql
    as $f$declare found text; begin {READS} into found; return found; end$f$;
create function ap_simple() returns text language plpgsql
    as $f$begin return extract(epoch from timestamptz '2024-01-01 00:00') || ' ' || (date '01/02/2024' - date '2024-01-01');
    end$f$;
create function ap_loop() returns text language plpgsql
    as $f$declare r record; begin
        for r in select to_char('01/02/2024'::date, 'YYYY-MM-DD') as found loop return r.found; end loop; end$f$;
create function ap_sql() returns text language sql volatile as $f$select 1; {READS}$f$;
create function ap_outer() returns text language plpgsql as $f$begin return ap_date() || ap_sql(); end$f$;
create table ap_fired (a int, found text);
create function ap_fires() returns trigger language plpgsql
    as $f$begin select to_char('01/02/2024'::date, 'YYYY-MM-DD') into new.found; return new; end$f$;
create trigger ap_trigger before insert on ap_fired for each row execute function ap_fires();
create procedure ap_procedure(inout answer text) language plpgsql
    as $f$begin select to_char('01/02/2024'::date, 'YYYY-MM-DD') into answer; end$f$;
create view ap_view as select ap_date() as found, to_char('01/02/2024'::date, 'YYYY-MM-DD') as stored;
create table ap_defaulted (a int, found text default ap_date());
create function ap_is_summer(date) returns boolean language plpgsql
    as $f$declare is_it boolean; begin select $1 > '01/02/2024' into is_it; return is_it; end$f$;
create table ap_checked (a date check (ap_is_summer(a)));
create domain ap_domain as date check (ap_is_summer(value));
create table ap_indexed (a int);
create function ap_key(int) returns text language plpgsql immutable
    as $f$declare found text; begin select to_char('01/02/2024'::date, 'YYYY-MM-DD') into found; return found; end$f$;
create index ap_index on ap_indexed (ap_key(a));
create function ap_under_dmy() returns text language plpgsql set datestyle = 'ISO, DMY'
    as $f$begin return ap_date(); end$f$;
create function ap_goes_dmy() returns text language plpgsql
    as $f$declare found text; begin
        set local datestyle = 'ISO, DMY'; found := ap_date(); set local datestyle = 'ISO, MDY'; return found; end$f$;
create function ap_goes(text) returns text language plpgsql
    as $f$declare was text := current_setting('datestyle'); found text; begin
        perform set_config('datestyle', $1, true); found := ap_date();
        perform set_config('datestyle', was, true); return found; end$f$;
create function ap_sets(text, text) returns text language sql as 'select set_config($1, $2, true)';
"""

# One client's settings; the other's are the server's.
DMY = ["set datestyle = 'ISO, DMY'"]
OTHERS = {
    "datestyle": DMY,
    "timezone": ["set time zone 'Asia/Tokyo'"],
    "timezone_abbreviations": ["set timezone_abbreviations = 'India'"],
    "intervalstyle": ["set intervalstyle = 'sql_standard'"],
    "array_nulls": ["set array_nulls = off"],
    "transform_null_equals": ["set transform_null_equals = on"],
    "quote_all_identifiers": ["set quote_all_identifiers = on"],
    "bytea_output": ["set bytea_output = 'escape'"],
    "extra_float_digits": ["set extra_float_digits = -10"],
}

# What both clients call; what it returns is compared.
CALLS = {
    "plpgsql": ["select ap_date()"],
    "everything": ["select ap_all()"],
    "simple-expression": ["select ap_simple()"],
    "loop": ["select ap_loop()"],
    "sql": ["select ap_sql()"],
    "nested": ["select ap_outer()"],
    "trigger": ["insert into ap_fired values (1) returning found"],
    "procedure": ["call ap_procedure('')"],
    "do": ["do $$begin perform set_config('ap.x', ap_date(), false); end$$", "select current_setting('ap.x')"],
    "view": ["select found, stored from ap_view"],
    "default": ["insert into ap_defaulted (a) values (1) returning found"],
    "check": ["insert into ap_checked values ('2024-01-15') returning a"],
    "domain": ["select '2024-01-15'::ap_domain"],
    "index": ["insert into ap_indexed values (1)", "select ap_key(1)"],
}


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with the functions."""
    with database(pg, "ap", SCHEMA) as cluster:
        yield cluster


def connect(pooler, **options):
    return pooler.connect(user="postgres", database="ap", options=options)


def calls(client, texts) -> list:
    """What the texts return; of an error, its code."""
    found = []
    for text in texts:
        reply = client.query(text)
        error = wire.first_error(reply)
        found.append(error.fields["C"] if error else wire.rows_of(reply))
    return found


def by_itself(cluster, texts) -> list:
    """What the texts return in a session of their own."""
    with wire.Connection(port=cluster.port, user="postgres", database="ap") as direct:
        return calls(direct, texts)


def found_after(pooler, acts, texts, repeats=2) -> list:
    """What the victim's texts return after the attacker's acts, on the same server, each time."""
    with connect(pooler) as attacker, connect(pooler) as victim:
        pid = attacker.value("select pg_backend_pid()")
        found = []
        for _ in range(repeats):
            for act in acts:
                error = wire.first_error(attacker.query(act))
                assert not error or error.fields["C"] == "23514", error.fields
            found.append(calls(victim, texts))
        assert victim.value("select pg_backend_pid()") == pid, "there is one server"
        return found


@pytest.mark.parametrize("name", CALLS)
def test_what_the_victim_calls_was_called_under_another_date_style(prepared, make_pooler, name):
    own = by_itself(prepared, CALLS[name])
    found = found_after(one_server(make_pooler, prepared), DMY + CALLS[name], CALLS[name])
    assert found == [own, own]


@pytest.mark.parametrize("name", CALLS)
def test_what_the_victim_calls_was_called_under_the_server_s_date_style(prepared, make_pooler, name):
    """The other way round: the attacker has no settings, and the victim has."""
    own = by_itself(prepared, DMY + CALLS[name])
    found = found_after(one_server(make_pooler, prepared), CALLS[name], DMY + CALLS[name])
    assert found == [own, own]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("call", ["select ap_all()", "select ap_sql()"])
def test_each_setting_that_a_constant_is_read_under(prepared, make_pooler, name, call):
    pooler = one_server(make_pooler, prepared)
    own, others = by_itself(prepared, [call]), by_itself(prepared, [*OTHERS[name], call])[-1:]
    assert own != others, "the attack needs its effect"
    assert found_after(pooler, [*OTHERS[name], call], [call]) == [own, own]


# The attacker's settings are those of the server again when the victim gets it.
BRIEFLY = {
    "set-local": ["begin", *[t.replace("set ", "set local ") for t in DMY], "select ap_date()", "commit"],
    "one-query": ["begin; set local datestyle = 'ISO, DMY'; select ap_date(); commit"],
    "implicit-block": ["select 1; set local datestyle = 'ISO, DMY'; select ap_date()"],
    "set-and-reset": ["set datestyle = 'ISO, DMY'; select ap_date(); reset datestyle"],
    "rolled-back": ["begin; set datestyle = 'ISO, DMY'; select ap_date(); rollback"],
    "set-config": ["select set_config('datestyle', 'ISO, DMY', true), ap_date()"],
    "computed-name": ["select set_config('date' || 'style', 'ISO, DMY', true), ap_date()"],
    "name-from-a-table": ["select set_config(k, v, true), ap_date() from (values ('DateStyle', 'ISO, DMY')) t(k, v)"],
    "do": ["do $$begin set local datestyle = 'ISO, DMY'; perform ap_date(); end$$"],
    "setting-of-the-function": ["select ap_under_dmy()"],
    "function-that-sets": ["select ap_goes_dmy()"],
    "function-that-calls-set-config": ["select ap_goes('ISO, DMY')"],
    "function-that-is-told": ["select ap_sets('datestyle', 'ISO, DMY'), ap_date()"],
    "execute": ["prepare ap_p(text) as select set_config('datestyle', $1, true), ap_date()",
                "execute ap_p('ISO, DMY')", "deallocate ap_p"],
    "block-by-block": ["begin", "set local datestyle = 'ISO, DMY'", "savepoint a", "select ap_date()",
                       "rollback to a", "rollback"],
}


@pytest.mark.parametrize("name", BRIEFLY)
def test_the_attacker_has_another_date_style_for_a_moment_only(prepared, make_pooler, name):
    own = by_itself(prepared, ["select ap_date()"])
    assert own == [[("2024-01-02",)]]
    assert found_after(one_server(make_pooler, prepared), BRIEFLY[name], ["select ap_date()"]) == [own, own]


@pytest.mark.parametrize("parameters", [("datestyle", "ISO, DMY"), ("DateStyle", "SQL, DMY")])
def test_the_name_of_the_setting_is_a_parameter(prepared, make_pooler, parameters):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker, connect(pooler) as victim:
        for _ in range(2):
            attacker.send(wire.parse("s", "select set_config($1, $2, true), ap_date()"),
                          wire.bind("", "s", parameters), wire.execute(), wire.close("S", "s"), wire.sync())
            assert not wire.first_error(attacker.read_ready())
            assert victim.value("select ap_date()") == "2024-01-02"


@pytest.mark.parametrize("text", [
    "begin; set local datestyle = 'ISO, DMY'; select ap_date()",
    # Whoever runs these keeps the server.
    "begin; update pg_settings set setting = 'ISO, DMY' where name = 'DateStyle'; select ap_date(); rollback",
    """do $$begin execute 'set local date' || 'style = ''ISO, DMY'''; perform ap_date(); end$$""",
])
def test_the_attacker_leaves(prepared, make_pooler, text):
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        assert not wire.first_error(attacker.query(text))
        attacker.drop()
    with connect(pooler) as victim:
        assert victim.value("select ap_date()") == "2024-01-02"


def test_a_function_call_of_a_function_that_sets(prepared, make_pooler):
    """Whoever calls a function by its number keeps the server."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler) as attacker:
        attacker.send(wire.function_call(int(attacker.value("select 'ap_goes_dmy'::regproc::oid"))))
        assert not wire.first_error(attacker.read_ready())
    with connect(pooler) as victim:
        assert victim.value("select ap_date()") == "2024-01-02"


@pytest.mark.parametrize("name", OTHERS)
def test_a_prepared_statement_is_used_under_other_settings(prepared, make_pooler, name):
    """Both prepare the same text. What it returns was computed when the server made its plan."""
    pooler = one_server(make_pooler, prepared)
    own = by_itself(prepared, [READS])
    with connect(pooler) as attacker, connect(pooler) as victim:
        attacker.query(OTHERS[name][0])
        found = []
        for client in (attacker, victim):
            client.send(wire.parse("s", READS), wire.sync())
            client.read_ready()
        for client in (attacker, victim) * 2:
            client.send(wire.bind("", "s"), wire.execute(), wire.sync())
            found.append([wire.rows_of(client.read_ready())])
        assert found[0] != own, "the attack needs its effect"
        assert found == [found[0], own] * 2


def test_settings_of_startup_packets(prepared, make_pooler):
    """Each client has its own settings from the beginning, and the two take turns."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler, DateStyle="ISO, DMY") as one, connect(pooler, DateStyle="ISO, MDY") as two:
        for _ in range(3):
            assert one.value("select ap_date()") == "2024-02-01"
            assert two.value("select ap_date()") == "2024-01-02"
        assert len({c.value("select pg_backend_pid()") for c in (one, two)}) == 1, "there is one server"


def test_prepared_statements_keep_the_constants_of_their_parse(prepared, make_pooler):
    """The server's plans are made again, under the settings of another client: no statement is read anew there."""
    pooler = one_server(make_pooler, prepared)
    text = "select to_char('01/02/2024'::date, 'YYYY-MM-DD'), ap_date()"
    with connect(pooler) as one, connect(pooler) as two:
        two.query(DMY[0])
        for client in (one, two):
            client.send(wire.parse("s", text), wire.sync())
            client.read_ready()
        one.query("set datestyle = 'SQL, DMY'")
        for _ in range(2):
            for client, constant in ((one, "2024-01-02"), (two, "2024-02-01")):
                client.send(wire.bind("", "s"), wire.execute(), wire.sync())
                assert wire.rows_of(client.read_ready())[0] == (constant, "2024-02-01")
            assert connect_and_call(pooler) == "2024-01-02"


def connect_and_call(pooler) -> str:
    with connect(pooler) as victim:
        return victim.value("select ap_date()")


# ---- shared statements: their constants are read again after DDL, by whoever uses them next

READ_AGAIN = {
    "timezone": ("Asia/Tokyo", "select extract(epoch from '2024-01-01 00:00'::timestamptz)"),
    "datestyle": ("ISO, DMY", "select to_char('01/02/2024'::date, 'YYYY-MM-DD')"),
    "array_nulls": ("off", "select ('{null,1}'::text[])[1] is null"),
    "transform_null_equals": ("on", "select (select 1 where null = null) is null"),
    "extra_float_digits": ("-10", "select (0.1::float8 / 3)::text"),
}

# How the other client uses the statement under its own setting.
USES = {
    "set-local": lambda c, name, value: (
        c.query("begin"), c.query(f"set local {name} = '{value}'"), uses(c), c.query("commit")),
    "set-behind-which-it-binds-at-once": lambda c, name, value: (
        asks(c, wire.query(f"set {name} = '{value}'"), *USING, ready=2), c.query(f"reset {name}")),
    "one-segment": lambda c, name, value: (
        asks(c, wire.parse("", f"set local {name} = '{value}'"), wire.bind(), wire.execute(), *USING)),
    "set-config": lambda c, name, value: (
        c.query("begin"), c.query(f"select set_config('{name}', '{value}', true)"), uses(c), c.query("commit")),
    "prepared-set-config": lambda c, name, value: (
        asks(c, wire.parse("", "select set_config($1, $2, true)"), wire.bind("", "", (name, value)), wire.execute(),
             *USING)),
    "function": lambda c, name, value: (
        c.query("begin"), c.query("select ap_sets()"), uses(c), c.query("commit")),
    "describe": lambda c, name, value: (
        c.query("begin"), c.query(f"set local {name} = '{value}'"),
        asks(c, wire.describe("S", "s"), wire.sync()), c.query("commit")),
    "execute": lambda c, name, value: (
        c.query("begin"), c.query(f"set local {name} = '{value}'"), c.query("execute s"), c.query("commit")),
    "rolled-back": lambda c, name, value: (
        c.query("begin"), c.query(f"set local {name} = '{value}'"), uses(c), c.query("rollback")),
    "leaves": lambda c, name, value: (
        c.query("begin"), c.query(f"set local {name} = '{value}'"), uses(c), c.drop()),
}

# What makes PostgreSQL analyse its statements again.
INVALIDATES = ["discard plans", "create operator public.@@@@ (leftarg = int, rightarg = int, function = int4pl)"]

USING = [wire.bind("", "s"), wire.execute(), wire.sync()]


def asks(client, *messages, ready=1) -> list:
    client.send(*messages)
    return client.read_ready(ready)


def uses(client) -> list:
    return wire.rows_of(asks(client, *USING))


@pytest.fixture(scope="module")
def plain(pg):
    """The cluster with a database in which no function has constants, so that no DISCARD PLANS comes between clients."""
    pg.psql("create database ap_plain")
    pg.psql("create function ap_sets() returns void language plpgsql "
            'as $f$begin set local timezone = "Asia/Tokyo"; end$f$', dbname="ap_plain")
    yield pg
    pg.psql("drop database ap_plain with (force)")


@pytest.mark.parametrize(("name", "way"), [
    *[("timezone", way) for way in USES],
    *[(name, way) for name in READ_AGAIN if name != "timezone" for way in ("set-local", "set-behind-which-it-binds-at-once")],
])
def test_constants_of_a_shared_statement_are_read_again_under_anothers_setting(plain, make_pooler, name, way):
    """A client uses a shared statement while a setting of its own is not known to the pooler, after something has
    made PostgreSQL analyse its statements again: the next client does not get the constants that were read then."""
    value, text = READ_AGAIN[name]
    pooler = one_server(make_pooler, plain)
    plain.psql("drop operator if exists @@@@ (int, int)", dbname="ap_plain")
    connects = lambda: pooler.connect(user="postgres", database="ap_plain")  # noqa: E731
    with connects() as victim, connects() as attacker:
        for client in (victim, attacker):
            asks(client, wire.parse("s", text), wire.sync())
        own = uses(victim)
        for invalidates in INVALIDATES:
            assert not wire.first_error(victim.query(invalidates))
            USES[way](attacker, name, value)
            assert uses(victim) == own, invalidates
            if way == "leaves":
                return


# ---- names in functions: what they meant for another client

NAMES = """
create schema an_tenant; create schema an_x;
create table an_t (v text); insert into an_t values ('permanent'); create sequence an_s start 100;
create table an_c (a int); insert into an_c values (1); create view an_v as select a from an_c;
create function an_reads() returns text language plpgsql
    as $$declare found text; begin select v into found from an_t; return found; end$$;
create function an_reads_by_sql() returns text language sql volatile as $$select 1; select v from an_t$$;
create function an_writes() returns void language plpgsql as $$begin insert into an_t values ('mine'); end$$;
create function an_draws() returns bigint language plpgsql as $$begin return nextval('an_s'); end$$;
create function an_makes() returns text language plpgsql as $$begin
    create temp table an_t as select 'mine'::text as v; return an_reads(); end$$;
create function an_record() returns text language plpgsql
    as $$declare r record; s text; begin select * into r from an_c; s := r.a; return s; end$$;
create function an_viewed() returns text language plpgsql
    as $$declare r record; s text; begin select * into r from an_v; s := r.a; return s; end$$;
"""
CALLS_ALL = "select an_reads(), an_reads_by_sql(), an_writes(), an_draws(), an_record(), an_viewed()"
MAKES = "create temp table an_t as select 'mine'::text as v"


class OneServer:
    """A database of its own behind a pooler with one server, which has read the catalog."""

    def __init__(self, make_pooler, cluster):
        self.pooler = one_server(make_pooler, cluster)
        with self.client() as client:
            runs(client, "select 1")

    def client(self):
        return self.pooler.connect(user="postgres", database="an")

    def plans_in_a_server_with_temporary_schema(self, early):
        """`early` makes the schema; another client, after which no plan needs to be discarded, makes the plans."""
        runs(early, "create temp table an_other (a int)", "drop table an_other")
        with self.client() as caller:
            runs(caller, "select 1", CALLS_ALL)


def runs(client, *texts) -> list:
    """The last text's rows."""
    rows = []
    for text in texts:
        reply = client.query(text)
        error = wire.first_error(reply)
        assert not error, (text, error.fields)
        rows = wire.rows_of(reply)
    return rows


# What a client does whose own temporary object a function must find, and what the last text returns.
HIDDEN_BY_TEMPORARY = {
    "table": ([MAKES, "select an_reads()"], ("mine",)),
    "one-query": ([MAKES + "; select an_reads()"], ("mine",)),
    "called-before": (["select an_reads()", MAKES, "select an_reads()"], ("mine",)),
    "called-before-in-a-block": (["begin", "select an_reads()", MAKES, "select an_reads()"], ("mine",)),
    "in-a-block": (["begin; create temp table an_t (v text) on commit drop; select an_writes()",
                    "select v from an_t"], ("mine",)),
    "select-into": (["select 'mine'::text as v into temp an_t", "select an_reads()"], ("mine",)),
    "view": (["create temp view an_t as select 'mine'::text as v", "select an_reads()"], ("mine",)),
    "sequence": (["create temp sequence an_s", "select an_draws()"], ("1",)),
    "sql": ([MAKES, "select an_reads_by_sql()"], ("mine",)),
    "do": (["do $$begin create temp table an_t as select 'mine'::text as v; end$$", "select an_reads()"], ("mine",)),
    "function": (["select an_makes()"], ("mine",)),
    "pg_temp": (["create table pg_temp.an_t as select 'mine'::text as v", "select an_reads()"], ("mine",)),
}


@pytest.mark.parametrize("name", HIDDEN_BY_TEMPORARY)
def test_a_function_finds_its_client_s_own_temporary_object(pg, make_pooler, name):
    """Guards against plans that another client's calls, or the client's own, have left on a server that has had temporary
    objects."""
    texts, answer = HIDDEN_BY_TEMPORARY[name]
    with database(pg, "an", NAMES):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as client:
            place.plans_in_a_server_with_temporary_schema(early)
            pid = early.value("select pg_backend_pid()")
            assert runs(client, *texts)[-1] == answer
            assert client.value("select pg_backend_pid()") == pid, "there is one server"


# Any call may run this operator, as far as the pooler can tell; so each may make a temporary table.
OPERATOR = """
create function an_operates(int, int) returns bool language plpgsql as $$begin perform an_makes(); return true; end$$;
create operator =!= (leftarg = int, rightarg = int, function = an_operates);
create table an_fired (a int); create function an_fires() returns trigger language plpgsql
    as $$begin perform an_makes(); return new; end$$;
"""


@pytest.mark.parametrize("making", ["select an_makes()", MAKES, "do $$begin perform an_makes(); end$$"])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_function_whose_call_might_have_made_a_temporary_table(pg, make_pooler, making, in_pipeline):
    """Guards against the belief that a client has had temporary objects because it might have made some: what its function
    wrote came into a permanent table."""
    with database(pg, "an", NAMES + OPERATOR):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as client:
            runs(early, "create temp table an_other (a int)", "drop table an_other", CALLS_ALL)
            texts = ["select an_reads()", "select an_writes()", making, "select an_writes()", "select an_reads()"]
            if in_pipeline:
                client.send(*(wire.one_statement(text) for text in texts), wire.sync())
                reply = client.read_ready()
                assert not wire.first_error(reply) and wire.rows_of(reply)[-1] == ("mine",)
            else:
                assert runs(client, "begin", *texts) == [("mine",)]
                runs(client, "commit")
            assert runs(client, "select count(*) from public.an_t") == [("3",)]


@pytest.mark.parametrize("named", [True, False])
def test_a_function_finds_a_temporary_table_that_was_made_by_bind(pg, make_pooler, named):
    with database(pg, "an", NAMES):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as client:
            place.plans_in_a_server_with_temporary_schema(early)
            name = "s" if named else ""
            if named:
                client.send(wire.parse(name, MAKES), wire.sync())
                assert not wire.first_error(client.read_ready())
                runs(client, "select an_reads()")
                messages = []
            else:
                messages = [wire.parse(name, MAKES)]
            client.send(*messages, wire.bind("", name), wire.execute(),
                        wire.parse("", "select an_reads()"), wire.bind(), wire.execute(), wire.sync())
            reply = client.read_ready()
            assert not wire.first_error(reply) and wire.rows_of(reply)[-1] == ("mine",)


def test_functions_of_others_after_a_temporary_table_of_another_type(pg, make_pooler):
    """The temporary table is gone; the plans that were made beside it are discarded."""
    with database(pg, "an", NAMES):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as client:
            for _ in range(2):
                assert runs(client, "begin", "create temp table an_c on commit drop as select 'text'::text as a",
                            "select an_record()") == [("text",)]
                runs(client, "commit")
                assert runs(early, "select an_record()") == [("1",)]


# DDL after which the calls of a client, whose search_path is `an_tenant, public`, must mean something else.
HIDDEN_BY_DDL = {
    "table": (["create table an_tenant.an_t as select 'mine'::text as v"], "select an_reads()", ("mine",)),
    "sql": (["create table an_tenant.an_t as select 'mine'::text as v"], "select an_reads_by_sql()", ("mine",)),
    "view": (["create view an_tenant.an_t as select 'mine'::text as v"], "select an_reads()", ("mine",)),
    "sequence": (["create sequence an_tenant.an_s"], "select an_draws()", ("1",)),
    "moved": (["create table an_moves as select 'mine'::text as v", "alter table an_moves rename to an_moved",
               "alter table an_moved set schema an_x", "alter table an_x.an_moved rename to an_t",
               "alter table an_x.an_t set schema an_tenant"], "select an_reads()", ("mine",)),
    "in-a-function": (["do $$begin create table an_tenant.an_t as select 'mine'::text as v; end$$"],
                      "select an_reads()", ("mine",)),
    "type-of-a-column": (["drop view an_v", "alter table an_c alter a type text"], "select an_record()", ("1",)),
    "another-column": (["drop view an_v", "begin; alter table an_c drop column a; alter table an_c add a text; commit",
                        "update an_c set a = 'x'"], "select an_record()", ("x",)),
    "another-view": (["drop view an_v; create view an_v as select a::text from an_c"], "select an_viewed()", ("1",)),
    "dropped-view": (["drop view an_v", "create view an_v as select a::text from an_c"], "select an_viewed()", ("1",)),
}


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", HIDDEN_BY_DDL)
def test_a_function_finds_what_another_client_has_made(pg, make_pooler, name, prepared):
    """Guards against plans that were made before another client's DDL, for a client that connects afterwards."""
    ddl, call, answer = HIDDEN_BY_DDL[name]
    path = "set search_path = an_tenant, public"
    with database(pg, "an", NAMES):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as migration:
            runs(early, path, CALLS_ALL, CALLS_ALL)
            pid = early.value("select pg_backend_pid()")
            runs(migration, *ddl)
            with place.client() as client:
                runs(client, path)
                if prepared:
                    client.send(wire.parse("s", call), wire.bind("", "s"), wire.execute(), wire.sync())
                    assert wire.rows_of(client.read_ready()) == [answer]
                again = ("2",) if name == "sequence" and prepared else answer
                assert runs(client, call) == [again]
                assert client.value("select pg_backend_pid()") == pid, "there is one server"


def test_a_function_finds_a_temporary_table_that_a_failed_transaction_s_end_makes(pg, make_pooler):
    """Nothing can be discarded in front of a text that ends a failed transaction."""
    with database(pg, "an", NAMES):
        place = OneServer(make_pooler, pg)
        with place.client() as early, place.client() as client:
            place.plans_in_a_server_with_temporary_schema(early)
            runs(client, "begin")
            assert wire.first_error(client.query("select 1/0"))
            runs(client, "rollback; " + MAKES)
            assert runs(client, "select an_reads()") == [("mine",)]
