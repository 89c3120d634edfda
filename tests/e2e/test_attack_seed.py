"""Attacks on random(): a client that seeds it must not know what another client draws.

The setting `seed` calls setseed() in whatever way it is set, and neither ROLLBACK nor DISCARD ALL takes that back.
"""

import pytest

from harness import wire
from harness.attacks import one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

SCHEMA = """
create function sd_generic(name text, value text) returns text language sql as 'select set_config(name, value, true)';
create function sd_literal() returns text language plpgsql as $$begin return set_config('seed', '0.5', true); end$$;
create function sd_local() returns void language plpgsql as $$begin set local seed = 0.5; end$$;
do $$begin
    -- Until PostgreSQL 15.
    create function sd_under() returns int language plpgsql set seed = 0.5 as 'begin return 1; end';
exception when others then
    create function sd_under() returns int language sql as 'select 1';
end$$;
create view sd_view as select set_config('seed', '0.5', true);
create table sd_default (a text default set_config('Seed', '0.5', true), b int);
"""


@pytest.fixture(scope="module")
def prepared(pg):
    pg.psql("drop database if exists sd with (force)")
    pg.psql("create database sd")
    pg.psql(SCHEMA, dbname="sd")
    yield pg
    pg.psql("drop database sd with (force)")


# Several Queries in a row.
ATTACKS = {
    "set": ["set seed = 0.5"],
    "set-local": ["begin", "set local seed = 0.5", "commit"],
    "set-local-quoted": ["begin", 'set local "seed" to 0.5', "rollback"],
    "several": ["begin; set local seed = 0.5; commit"],
    "set-config": ["select set_config('seed', '0.5', false)"],
    "set-config-local": ["select set_config('seed', '0.5', true)"],
    "upper-case": ["select set_config('SEED', '0.5', true)"],
    "computed-session": ["select set_config('se' || 'ed', '0.5', false)"],
    "computed": ["select set_config('se' || 'ed', '0.5', true)"],
    "between-empty-constants": ["select set_config('' || $$seed$$ || '', '0.5', true)"],
    "json": ["select set_config('1.5' || '[\"seed\"]'::jsonb ->> 1, '0.5', true)"],
    "from-rows": ["select set_config(k, '0.5', true) from (values ('seed')) t(k)"],
    "execute": ["prepare p(text) as select set_config($1, '0.5', true)", "execute p('seed')"],
    "execute-literal": ["prepare p as select set_config('seed', '0.5', true)", "execute p"],
    "generic": ["select sd_generic('seed', '0.5')"],
    "generic-computed": ["select sd_generic('se' || 'ed', '0.5')"],
    "literal-in-function": ["select sd_literal()"],
    "local-in-function": ["select sd_local()"],
    "setting-of-function": ["select sd_under()"],
    "view": ["select * from sd_view"],
    "default": ["insert into sd_default (b) values (1)"],
    "block": ["do $$begin set local seed = 0.5; end$$"],
    "explain": ["explain analyze select set_config('seed', '0.5', true)"],
}


def connect(pooler, startup=None):
    return pooler.connect(user="postgres", database="sd", options=startup)


def draws_after(pooler, act, startup=None) -> tuple[str, str]:
    """What victims draw beside an attacker and after it."""
    with connect(pooler, startup) as attacker:
        act(attacker)
        with connect(pooler) as victim:
            try:
                beside = victim.value("select random()")
            except wire.Closed:
                # query_wait_timeout: the attacker keeps its server.
                beside = ""
    with connect(pooler) as victim:
        return beside, victim.value("select random()")


@pytest.fixture(scope="module")
def known(prepared) -> str:
    """What random() returns first after this seed."""
    with wire.Connection(host="127.0.0.1", port=prepared.port, user="postgres", database="sd") as direct:
        direct.query("set seed = 0.5")
        return direct.value("select random()")


@pytest.mark.parametrize("texts", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_seed_does_not_reach_other_clients(prepared, known, make_pooler, texts):
    def act(client):
        for text in texts:
            error = wire.first_error(client.query(text))
            assert not error, error.fields

    assert known not in draws_after(one_server(make_pooler, prepared), act)


@pytest.mark.parametrize("text", ["select set_config($1, $2, true)", "select sd_generic($1, $2)"])
@pytest.mark.parametrize("name", ["seed", "Seed"])
def test_a_parameter_names_the_seed(prepared, known, make_pooler, text, name):
    def act(client):
        assert not wire.first_error(client.extended(text, (name, "0.5")))

    assert known not in draws_after(one_server(make_pooler, prepared), act)


def test_a_function_call_seeds(prepared, known, make_pooler):
    def act(client):
        oid = int(client.value("select 'set_config'::regproc::oid"))
        client.send(wire.function_call(oid, (b"seed", b"0.5", b"t")))
        assert not wire.first_error(client.read_ready())

    assert known not in draws_after(one_server(make_pooler, prepared), act)


@pytest.mark.parametrize("startup", [{"options": "-c seed=0.5"}, {"seed": "0.5"}])
def test_a_startup_packet_seeds(prepared, known, make_pooler, startup):
    """PostgreSQL ignores this seed; the pooler, which sets a client's settings by set_config(), must not use it."""
    def act(client):
        client.query("select 1")

    assert known not in draws_after(one_server(make_pooler, prepared), act, startup)


def calls_setseed(client):
    oid = int(client.value("select 'setseed'::regproc::oid"))
    client.send(wire.function_call(oid, (b"0.5",)))
    assert not wire.first_error(client.read_ready())


SESSION_POOLING = [
    calls_setseed,
    # Long, and so not read.
    lambda c: c.extended("select setseed(0.5) /* " + "x" * 70_000 + " */"),
    lambda c: c.query("select set_config('seed', '0.5', false)"),
    lambda c: c.query("begin; set local seed = 0.5; commit"),
    lambda c: c.query("select set_config('se' || 'ed', '0.5', false)"),
    lambda c: c.extended("select setseed(0.5)"),
    lambda c: c.extended("select set_config($1, $2, true)", ("Seed", "0.5")),
    lambda c: c.extended("select set_config($1, $2, false), length($3)", ("seed", "0.5", "x" * 70_000)),
]


@pytest.mark.parametrize("act", SESSION_POOLING)
def test_a_seed_does_not_outlive_a_session(prepared, known, make_pooler, act):
    pooler = one_server(make_pooler, prepared, pool_mode="session")
    assert known not in draws_after(pooler, act)
