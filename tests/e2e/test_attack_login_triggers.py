"""Attacks by what login event triggers (PostgreSQL 17) make for each session. Such a trigger runs when a server logs in, so
all clients of the server would share what it has made.
"""

import pytest

from harness import wire
from harness.attacks import KEPT_SECONDS, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers share what login event triggers make")

TRIGGER = """
create function al_login() returns event_trigger language plpgsql as $$begin
    create temp table al_context (secret text);
    grant all on al_context to public;
    perform pg_advisory_lock_shared(4711), set_config('al.tenant', 'by trigger', false);
    execute 'declare al_cursor cursor with hold for select 1';
    execute 'prepare al_statement as select 1';
end$$;
create event trigger al_trigger on login execute function al_login();
alter event trigger al_trigger enable always;
"""

# What a session has that no other may share.
OWN = """select concat_ws(' ', to_regclass('al_context'), (select count(*) from pg_cursors where is_holdable),
    (select count(*) from pg_prepared_statements where from_sql and name = 'al_statement'),
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()))"""


@pytest.fixture(scope="module")
def triggered(pg):
    if int(pg.psql("show server_version_num")) < 170000:
        pytest.skip("no login event triggers")
    pg.psql("drop database if exists al with (force)")
    pg.psql("create database al")
    pg.psql("grant all on database al to public; " + TRIGGER, dbname="al")
    yield pg
    pg.psql("drop database al with (force)")


@pytest.mark.parametrize("connect_query", ["", " connect_query='set work_mem = ''7MB'''"])
def test_no_client_shares_what_a_login_event_trigger_has_made(triggered, make_pooler, connect_query):
    with wire.Connection(host=triggered.host, port=triggered.port, user="alice", database="al") as direct:
        assert direct.value(OWN) == "al_context 1 1 1", "the trigger runs"
    pooler = make_pooler(
        triggered,
        mode="transaction",
        settings={"default_pool_size": 1, "query_wait_timeout": KEPT_SECONDS},
        databases={"al": f"host={triggered.host} port={triggered.port} dbname=al{connect_query}"},
    )
    with pooler.connect(user="alice", database="al") as a, pooler.connect(user="alice", database="al") as b:
        pid = a.value("select pg_backend_pid()")
        refused = wire.first_error(a.query("insert into al_context values ('secret of a')"))
        assert refused and refused.fields["C"] == "42P01"
        assert b.value("select pg_backend_pid()") == pid, "they share a server"
        assert [c.value(OWN) for c in (a, b)] == ["0 0 0"] * 2
        assert a.value("select current_setting('al.tenant')") == "by trigger", "settings stay"


def test_a_temporary_table_of_the_triggers_name_is_its_clients_own(triggered, make_pooler):
    pooler = one_server(make_pooler, triggered)
    with pooler.connect(user="alice", database="al") as a:
        assert not wire.first_error(a.query("create temp table al_context (secret text)"))
        a.query("insert into al_context values ('secret of a')")
        assert a.value("select secret from al_context") == "secret of a"
    with pooler.connect(user="alice", database="al") as b:
        assert b.value("select to_regclass('al_context')") is None
