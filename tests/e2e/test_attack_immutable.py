"""Attacks by functions that are declared immutable, but read a setting or the role: a mistake that works on direct
connections. PostgreSQL computes such calls when it plans a statement, and plans stay in the server process.

Two clients with different settings use one server. Each must get its own rows.
"""

import pytest

from harness import wire
from harness.attacks import one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers keep plans from client to client")

SCHEMA = """
create table ai_docs (tenant text, body text);
insert into ai_docs values ('a', 'secret of a'), ('b', 'secret of b');
create function ai_tenant() returns text language sql immutable as $$select current_setting('ai.tenant', true)$$;
create function ai_tenant_pl() returns text language plpgsql immutable
    as $$begin return current_setting('ai.tenant', true); end$$;
create function ai_stable() returns text language sql stable as $$select current_setting('ai.tenant', true)$$;
create function ai_indirect() returns text language sql immutable as 'select ai_stable()';
create function ai_mine() returns setof text language plpgsql
    as $$begin return query select body from ai_docs where tenant = ai_tenant(); end$$;
create function ai_me() returns text language sql immutable as 'select current_user::text';
create function ai_my_role() returns text language plpgsql as $$begin return ai_me(); end$$;
create table ai_rows (tenant text, body text);
insert into ai_rows select * from ai_docs;
alter table ai_rows enable row level security;
create policy ai_policy on ai_rows using (tenant = ai_tenant());
create table ai_written (tenant text);
create function ai_fires() returns trigger language plpgsql as $$begin new.tenant := ai_tenant(); return new; end$$;
create trigger ai_trigger before insert on ai_written for each row execute function ai_fires();
grant all on all tables in schema public to public;
"""

DOCS = "select body from ai_docs where tenant = {}()"
SECRET = ["secret of a", "secret of b"]


@pytest.fixture(scope="module")
def prepared(pg):
    pg.psql("drop database if exists ai with (force)")
    pg.psql("create database ai")
    pg.psql(SCHEMA, dbname="ai")
    pg.psql("drop role if exists ai_a; drop role if exists ai_b; create role ai_a; create role ai_b; grant ai_a, ai_b to alice")
    yield pg
    pg.psql("drop database ai with (force); drop role ai_a; drop role ai_b")


def connect(cluster_or_pooler, tenant, user="alice"):
    """A client with its tenant in the startup packet."""
    return cluster_or_pooler.connect(user=user, database="ai", options={"ai.tenant": tenant})


def both(pooler, each, first=lambda c: None) -> list:
    """What two clients find by turns on the only server, each three times."""
    with connect(pooler, "a") as a, connect(pooler, "b") as b:
        for c in (a, b):
            first(c)
        found = [[each(c) for c in (a, b)] for _ in range(3)]
        assert found[0] == found[1] == found[2]
        return found[0]


@pytest.mark.parametrize("function", ["ai_tenant", "ai_tenant_pl", "ai_indirect"])
def test_a_prepared_statement_finds_its_clients_own_rows(prepared, make_pooler, function):
    def prepares(c):
        c.send(wire.parse("s", DOCS.format(function)), wire.sync())
        assert not wire.first_error(c.read_ready())

    def binds(c):
        c.send(wire.bind("", "s"), wire.execute(), wire.sync())
        return wire.rows_of(c.read_ready())[0][0]

    assert both(one_server(make_pooler, prepared), binds, prepares) == SECRET


WAYS = {
    "prepare": ("prepare z as " + DOCS.format("ai_tenant"), "execute z"),
    "function": ("select 1", "select * from ai_mine()"),
    "policy": ("prepare z as select body from ai_rows", "execute z"),
}


@pytest.mark.parametrize("name", WAYS)
def test_sql_finds_its_clients_own_rows(prepared, make_pooler, name):
    first, text = WAYS[name]
    assert both(one_server(make_pooler, prepared), lambda c: c.value(text), lambda c: c.query(first)) == SECRET


def test_a_trigger_writes_its_clients_own_tenant(prepared, make_pooler):
    def inserts(c):
        return c.value("insert into ai_written values (null) returning tenant")

    assert both(one_server(make_pooler, prepared), inserts) == ["a", "b"]


def test_a_function_finds_its_clients_own_role(prepared, make_pooler):
    def asks(c):
        return c.value("select ai_my_role()")

    with one_server(make_pooler, prepared).connect(user="alice", database="ai") as a:
        a.query("set role ai_a")
        with a_second(a) as b:
            b.query("set role ai_b")
            assert [[asks(a), asks(b)] for _ in range(3)] == [["ai_a", "ai_b"]] * 3


def a_second(client):
    return wire.Connection(host=client.host, port=client.port, user="alice", database="ai")


def test_set_local_lasts_no_longer_than_its_transaction(prepared, make_pooler):
    """As poolers are usually used: each transaction says who its tenant is."""
    pooler = one_server(make_pooler, prepared)
    with connect(pooler, "") as a, connect(pooler, "") as b:
        for _ in range(3):
            for c, tenant in ((a, "a"), (b, "b")):
                c.query(f"begin; set local ai.tenant = '{tenant}'")
                assert c.value("select * from ai_mine()") == f"secret of {tenant}"
                c.query("commit")


# What an immutable function in SQL reads of its session, and in what the two sessions differ.
READS = {
    "behind a schema": ("pg_catalog.pg_has_role('ai_a', 'usage')", "role"),
    "in quotes": ("\"pg_has_role\"('ai_a', 'usage')", "role"),
    "in both": ("\"pg_catalog\".\"has_table_privilege\"('ai_owned', 'select')", "role"),
    "by another name": ("getpgusername()", "role"),
    "row security": ("row_security_active('ai_owned'::regclass)", "role"),
    "information_schema": ("select count(*) from information_schema.enabled_roles where role_name = 'ai_a'", "role"),
    "encoding": ("pg_client_encoding()", "encoding"),
    "pg_settings": ("select setting from pg_settings where name = 'application_name'", "application"),
    "pg_stat_activity": ("select application_name from pg_stat_activity where pid = pg_backend_pid()", "application"),
}
# Head, what it is called with, body.
ROUTINES = {
    "dynamic": ("() returns text language plpgsql", "", "declare x text; begin execute 'select user' into x; return x; end", "role"),
    "internal role": ("() returns name language internal", "", "current_user", "role"),
    "internal right": ("(name, text) returns bool language internal", "'ai_a', 'usage'", "pg_has_role_name", "role"),
    "internal setting": ("(text) returns text language internal", "'application_name'", "show_config_by_name", "application"),
    **{name: ("() returns text language sql", "", f"select ({body})::text", how) for name, (body, how) in READS.items()},
}
DIFFERENCES = {
    "role": ("set role ai_a", "set role ai_b"),
    "encoding": ("set client_encoding = latin1", "set client_encoding = utf8"),
    "application": ("set application_name = 'a'", "set application_name = 'b'"),
}


@pytest.fixture(scope="module")
def reading(prepared):
    """Immutable functions, each called by one in PL/pgSQL, which keeps its plan."""
    sql = "create table ai_owned (a int); alter table ai_owned enable row level security; alter table ai_owned owner to ai_b;"
    for n, (head, arguments, body, _) in enumerate(ROUTINES.values()):
        sql += f"create function ai_read{n}{head} immutable as $x${body}$x$;"
        sql += f"create function ai_reads{n}() returns text language plpgsql as $x$begin return ai_read{n}({arguments}); end$x$;"
    prepared.psql(sql, dbname="ai")
    return prepared


@pytest.mark.parametrize("name", ROUTINES)
def test_whatever_an_immutable_function_reads_each_client_gets_its_own(reading, make_pooler, name):
    text = f"select ai_reads{list(ROUTINES).index(name)}()"
    differences = DIFFERENCES[ROUTINES[name][3]]

    def directly(first):
        with wire.Connection(host=reading.host, port=reading.port, user="alice", database="ai") as c:
            assert not wire.first_error(c.query(first))
            return c.value(text)

    own = [directly(first) for first in differences]
    assert own[0] != own[1]
    pooler = one_server(make_pooler, reading)
    with pooler.connect(user="alice", database="ai") as a, pooler.connect(user="alice", database="ai") as b:
        for c, first in zip((a, b), differences):
            assert not wire.first_error(c.query(first))
        assert [[c.value(text) for c in (a, b)] for _ in range(3)] == [own] * 3
