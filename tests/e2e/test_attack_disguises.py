"""Attacks by texts, constants and settings that are something else than they look: a name that its type cuts, a statement
behind a backslash, a setting under its former name, code that runs before its command is refused.

Every attack runs against a pool of one server. The attack has its effect on the attacker's own session, so it could hurt
the next client of that server; a victim looks while the attacker is there, and another one after it has left.
"""

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind
from harness.wire import rows_of

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create role ad_other nologin;
create function ad_passes(name text, value text) returns text language sql as 'select set_config(name, value, false)';
create function ad_national() returns text language plpgsql as $$begin return set_config(N'ad.x   ', 'attacker', false); end$$;
create table ad_names (name bpchar); insert into ad_names values ('ad.x');
"""

CUSTOM = "select coalesce(current_setting('ad.x', true), '')"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
WORK_MEM, LIBRARIES = "show work_mem", "show dynamic_library_path"
FRESH = {CUSTOM: "", LOCKS: "0", WORK_MEM: "4MB", LIBRARIES: "$libdir", "show role": "none"}


@pytest.fixture(scope="module")
def prepared(pg):
    """The cluster with what the attacks need."""
    with database(pg, "ad", SCHEMA) as cluster:
        yield cluster
    pg.psql("drop role ad_other")


def connect(pooler, **more):
    return pooler.connect(user="postgres", database="ad", **more)


def run(client, *texts) -> None:
    for text in texts:
        error = wire.first_error(client.query(text))
        assert not error, (text, error.fields)


def shared(make_pooler, cluster, **settings):
    """A pooler with one server, for which clients wait as long as it takes."""
    return one_server(make_pooler, cluster, query_wait_timeout=60, **settings)


def reaches_nobody(pooler, act, question, answer) -> None:
    """The attacker finds the effect in its own session, and nobody else does."""
    with connect(pooler) as attacker:
        pid = attacker.value("select pg_backend_pid()")
        act(attacker)
        with connect(pooler) as victim:
            looks_fresh(victim, FRESH)
        assert attacker.value(question) == answer, "the attack needs its effect"
        assert attacker.value("select pg_backend_pid()") == pid, "there is one server"
    next_one_finds(lambda: connect(pooler), FRESH)


# A value of type bpchar loses its trailing blanks when it becomes text. N'..' is one. So is a parameter that is used as one
# before.
NAMES = {
    "national": "select set_config(N'ad.x   ', 'attacker', false)",
    "national-in-a-call": "select ad_passes(n'ad.x   ', 'attacker')",
    "national-in-a-function": "select ad_national()",
    "national-in-a-block": "do $$begin perform set_config(N'ad.x   ', 'attacker', false); end$$",
}
PARAMETERS = {
    "bpchar": "select set_config($1, 'attacker', false) from (select $1::bpchar) x",
    "char": "select set_config($1, 'attacker', false) from (select $1::char(9)) x",
    "column": "with x as (select from ad_names where name = $1) select set_config($1, 'attacker', false) from x",
    "in-a-call": "select ad_passes($1, 'attacker') from (select $1::bpchar) x",
}


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_a_constant_that_is_cut(prepared, make_pooler, text):
    """The session is asked for the setting that the text names, and another one was set."""
    reaches_nobody(one_server(make_pooler, prepared), lambda c: run(c, text), CUSTOM, "attacker")


@pytest.mark.parametrize("name", ["", "ad"])
@pytest.mark.parametrize("text", PARAMETERS.values(), ids=PARAMETERS)
def test_a_parameter_that_is_cut(prepared, make_pooler, text, name):
    """PostgreSQL infers the type of a parameter from its first use, which may stand anywhere in the text."""
    def act(client):
        client.send(wire.parse(name, text), wire.bind("", name, ["ad.x   "]), wire.execute(), wire.sync())
        assert not wire.first_error(client.read_ready())

    reaches_nobody(one_server(make_pooler, prepared), act, CUSTOM, "attacker")


@pytest.mark.parametrize("steps", [
    ["prepare p as select set_config($1, 'attacker', false) from (select $1::bpchar) x", "execute p('ad.x   ')"],
    ["prepare p(text) as select set_config($1, 'attacker', false)", "execute p(N'ad.x   ')"],
])
def test_an_argument_of_execute_that_is_cut(prepared, make_pooler, steps):
    reaches_nobody(one_server(make_pooler, prepared), lambda c: run(c, *steps), CUSTOM, "attacker")


def test_a_type_that_cuts_a_long_name(prepared, make_pooler):
    """Values of type name have 63 bytes."""
    name = "ad." + "x" * 60
    question = f"select coalesce(current_setting('{name}', true), '')"

    def act(client):
        client.send(wire.parse("", "select set_config($1, 'attacker', false)", [19]),
                    wire.bind(values=[name + "yyy"]), wire.execute(), wire.sync())
        assert not wire.first_error(client.read_ready())

    pooler = one_server(make_pooler, prepared)
    reaches_nobody(pooler, act, question, "attacker")
    next_one_finds(lambda: connect(pooler), {question: ""})


# With standard_conforming_strings = off a backslash escapes a quote, and the text has a second statement.
BACKSLASHES = ["set standard_conforming_strings = off", "set escape_string_warning = off"]
HIDDEN = {
    "set-behind-prepare": ["prepare p as select 'a\\''; set ad.x = 'attacker' --'"],
    "lock-behind-execute": ["prepare p(text) as select $1", "execute p('a\\''); select pg_advisory_lock(7) --')"],
    "set-behind-execute": ["prepare p(text) as select $1", "execute p('a\\''); set work_mem = '77MB' --')"],
    "set-behind-set": ["set ad.y = 'a\\''; set work_mem = '77MB' --'"],
    "commit-behind-set-local": ["begin", "set local ad.y = 'a\\''; commit; set work_mem = '77MB' --'"],
    "lock-behind-select": ["select 'a\\''; select pg_advisory_lock(7) --'"],
}
EFFECTS = {"work_mem": (WORK_MEM, "77MB"), "ad.x": (CUSTOM, "attacker"), "lock": (LOCKS, "1")}


@pytest.mark.parametrize("texts", HIDDEN.values(), ids=HIDDEN)
def test_a_statement_behind_a_backslash(prepared, make_pooler, texts):
    question, answer = next(effect for word, effect in EFFECTS.items() if word in texts[-1])
    reaches_nobody(one_server(make_pooler, prepared), lambda c: run(c, *BACKSLASHES, *texts), question, answer)


UNSEEN_SCHEMA = """
create view ad_settings as select * from pg_settings;
create table ad_ruled (name text, value text);
create rule ad_rule as on insert to ad_ruled do instead update pg_settings set setting = new.value where name = new.name;
create function ad_sets() returns void language plpgsql security definer
    as $$begin set dynamic_library_path = 'attacker'; end$$;
create function ad_sets_role() returns void language plpgsql as $$begin perform set_config('dynamic_library_path',
    'attacker', false); perform set_config('role', 'ad_other', false); end$$;
"""

# PostgreSQL shows this setting to superusers only. So the session cannot be asked for it under another role.
UNSEEN = {
    "computed": ["begin; select set_config(k, 'attacker', false) from (values ('dynamic_library_path')) v(k); "
                 "set role ad_other; commit"],
    "national": ["begin; select set_config(N'dynamic_library_path ', 'attacker', false); set role ad_other; commit"],
    "function": ["select ad_sets_role()"],
    "security-definer": ["set role ad_other", "select ad_sets()"],
    "view": ["begin; update ad_settings set setting = 'attacker' where name = 'dynamic_library_path'; "
             "set role ad_other; commit"],
    "rule": ["begin; insert into ad_ruled values ('dynamic_library_path', 'attacker'); set role ad_other; commit"],
}


@pytest.mark.parametrize("texts", UNSEEN.values(), ids=UNSEEN)
def test_a_setting_that_the_present_role_does_not_see(prepared, make_pooler, texts):
    with database(prepared, "ad_unseen", UNSEEN_SCHEMA):
        pooler = one_server(make_pooler, prepared)

        def client():
            return pooler.connect(user="postgres", database="ad_unseen")

        with client() as attacker:
            run(attacker, *texts)
            with client() as victim:
                looks_fresh(victim, FRESH)
            run(attacker, "reset role")
            assert attacker.value(LIBRARIES) == "attacker", "the attack needs its effect"
        next_one_finds(client, FRESH)


SEEDS = """
create function ad_seeds() returns int language plpgsql
    as $$begin perform setseed(0.5); perform pg_advisory_lock(7); return 1; end$$;
create function ad_fires() returns event_trigger language plpgsql as $$begin perform ad_seeds(); end$$;
create table ad_parent (a int) partition by range (a);
"""
REFUSED = {
    "event-trigger": ("create event trigger ad_event on ddl_command_start execute function ad_fires()",
                      "create table ad_made (a nosuch)", "42704"),
    "bound": ("", "create table ad_part partition of ad_parent for values from (ad_seeds()) to (nosuch(2))", "42883"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_refused_command_has_run(prepared, make_pooler, name):
    """The error tells a place in the text, like one of a text that has not run. The seed and the lock outlive the rollback."""
    setup, text, code = REFUSED[name]
    with database(prepared, "ad_refused", SEEDS + setup):
        pooler = one_server(make_pooler, prepared)

        def client():
            return pooler.connect(user="postgres", database="ad_refused")

        with client() as attacker:
            attacker.query("select 1")
            assert wire.error_codes(attacker.query(text)) == [code]
            with client() as victim:
                looks_fresh(victim, {LOCKS: "0"})
            # What the seed gives, as it is in the attacker's session.
            known = attacker.value("select random()")
            attacker.query("select setseed(0.5)")
            assert attacker.value("select random()") == known, "the attack needs its effect"
            assert attacker.value(LOCKS) == "1"
        next_one_finds(client, {LOCKS: "0", f"select random() = {known}": "f"})


def test_settings_that_exclude_each_other(prepared, make_pooler):
    """log_statement_stats cannot be on beside log_parser_stats, whatever the order in which a server is made to look like a
    client."""
    pooler = shared(make_pooler, prepared)
    with connect(pooler) as one, connect(pooler) as other:
        for mine, theirs in [("log_parser_stats", "log_statement_stats"), ("log_statement_stats", "log_parser_stats")]:
            run(one, f"set {mine} = on")
            run(other, f"set {theirs} = on")
            for _ in range(2):
                for client, on, off in [(one, mine, theirs), (other, theirs, mine)]:
                    assert [client.value(f"show {on}"), client.value(f"show {off}")] == ["on", "off"]
            pids = {c.value("select pg_backend_pid()") for c in (one, other)}
            assert len(pids) == 1, "there is one server"
            run(one, f"reset {mine}")
            run(other, f"reset {theirs}")


@pytest.mark.parametrize("packet", [{"sort_mem": "7MB"}, {"work_mem": "7MB"}, {"options": "-c sort_mem=7MB"}], ids=str)
def test_a_setting_under_its_former_name(prepared, make_pooler, packet):
    """PostgreSQL knows work_mem as sort_mem, too."""
    pooler = shared(make_pooler, prepared, ignore_startup_parameters="")
    with connect(pooler, options=packet) as client, connect(pooler) as victim:
        for text, value in [("set sort_mem = '9MB'", "9MB"), ("reset sort_mem", "7MB"), ("set work_mem = '8MB'", "8MB"),
                            ("set sort_mem to default", "7MB"), ("select set_config('sort_mem', '5MB', false)", "5MB"),
                            ("reset work_mem", "7MB"), ("set sort_mem = '6MB'; reset all", "7MB"), ("discard all", "7MB")]:
            run(client, text)
            assert victim.value(WORK_MEM) == "4MB", text
            assert [client.value(WORK_MEM), client.value("show sort_mem")] == [value, value], text
            assert client.value("select pg_backend_pid()") == victim.value("select pg_backend_pid()"), "one server"


@pytest.mark.parametrize("name", ["", "ad"])
def test_a_text_that_one_setting_refuses(prepared, make_pooler, name):
    r"""backslash_quote decides whether E'\'' may be read at all. The server holds the statement of a client that may."""
    text = "select E'a\\'b'"

    def parse(client):
        client.send(wire.close("S", name), wire.parse(name, text), wire.bind("", name), wire.execute(), wire.sync())
        messages = client.read_ready()
        return wire.error_codes(messages) or rows_of(messages)

    pooler = shared(make_pooler, prepared)
    with connect(pooler) as easy, connect(pooler) as strict:
        run(strict, "set backslash_quote = off")
        for _ in range(2):
            assert parse(easy) == [("a'b",)]
            assert parse(strict) == ["22P06"]
        assert easy.value("select pg_backend_pid()") == strict.value("select pg_backend_pid()"), "there is one server"


def test_a_snapshot_is_taken_over_behind_restored_settings(prepared, make_pooler):
    """SET TRANSACTION SNAPSHOT must be the first statement of its transaction, and the server must be made to look like its
    client before."""
    pooler = make_pooler(prepared, mode="transaction", settings={"default_pool_size": 3})
    prepared.psql("create table ad_counted (a int)", dbname="ad")
    try:
        with connect(pooler) as giver, connect(pooler) as taker, connect(pooler) as writer:
            run(taker, "set work_mem = '77MB'; set ad.x = 'mine'")
            run(giver, "set work_mem = '66MB'", "begin isolation level repeatable read")
            snapshot = giver.value("select pg_export_snapshot()")
            run(writer, "insert into ad_counted values (1)")
            run(taker, "begin isolation level repeatable read", f"set transaction snapshot '{snapshot}'")
            assert taker.value("select count(*) from ad_counted") == "0"
            assert [taker.value(WORK_MEM), taker.value(CUSTOM)] == ["77MB", "mine"]
            run(taker, "commit")
            run(giver, "commit")
            assert taker.value("select count(*) from ad_counted") == "1"
    finally:
        prepared.psql("drop table ad_counted", dbname="ad")


def test_a_session_whose_locks_may_not_be_seen(prepared, make_pooler):
    """Somebody has taken the right to read pg_locks away. The lock must reach nobody else all the same."""
    with database(prepared, "ad_locks", "revoke select on pg_locks from public"):
        pooler = one_server(make_pooler, prepared)

        def client():
            return pooler.connect(user="alice", database="ad_locks")

        question = "select pg_try_advisory_lock(7)"
        with client() as holder:
            run(holder, "select pg_advisory_lock(7)")
            with client() as other:
                looks_fresh(other, {question: "f"})
        next_one_finds(client, {question: "t"})
