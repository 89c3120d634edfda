"""Attacks on the moments in which a server is made to look like its client, or is asked what it looks like.

One server, and two clients that take turns on it. Whoever vanishes, cancels or is refused in between must neither leave
anything behind for the other nor lose anything of its own. Moments are hit by a lock on `pg_tablespace`, which nothing but a
restoration of `default_tablespace` reads.
"""

import contextlib
import time

import pytest

from harness import wire
from harness.pooler import kind
from harness.scenes import backend_pid
from harness.waiting import Stopwatch, eventually
from harness.wire import error_codes, query

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="about sessions that share servers")

ONE_SERVER = {"default_pool_size": 1, "ignore_startup_parameters": "none", "query_wait_timeout": 30}

# What an attacker leaves behind where it can.
EVIL = {"search_path": "evil", "options": "-c app.tenant=evil -c work_mem=123kB"}
SHOWN = "select current_setting('search_path'), coalesce(current_setting('app.tenant', true), ''), current_setting('work_mem'), current_user"


@contextlib.contextmanager
def locked(cluster, relation: str):
    """While this lasts, whatever reads this relation of pg_catalog waits."""
    with wire.Connection(port=cluster.port) as locker:
        locker.query(f"begin; lock table pg_catalog.{relation} in access exclusive mode")
        yield
        locker.query("rollback")


def restorations_hang(cluster):
    """While this lasts, whatever makes default_tablespace waits."""
    return locked(cluster, "pg_tablespace")


def waiting_restorations(cluster) -> int:
    return int(
        cluster.psql("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%set_config%'")
    )


@contextlib.contextmanager
def two(pooler, options):
    """A plain client, whose session is as the server's own, and one with settings of its own; the plain one was served last."""
    with pooler.connect() as plain, pooler.connect(options={"default_tablespace": "pg_default", **options}) as other:
        pid = backend_pid(other)
        assert backend_pid(plain) == pid, "they share a server"
        yield plain, other


def test_a_client_that_leaves_while_its_settings_are_restored(own_cluster, make_pooler):
    """The pooler cancelled its own restoration; the server counted as restored all the same."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings=ONE_SERVER)
    with two(pooler, EVIL) as (plain, evil):
        own = plain.rows(SHOWN)
        with restorations_hang(cluster):
            evil.send(query("select 1"))
            eventually(lambda: waiting_restorations(cluster) == 1, what="a restoration that waits")
            evil.drop()
            time.sleep(0.3)
        assert plain.rows(SHOWN) == own


@pytest.mark.parametrize("leaves", (False, True))
def test_a_cancel_while_settings_are_restored(own_cluster, make_pooler, leaves):
    """The statement in the same write ran, and committed, under the other client's settings."""
    cluster = own_cluster()
    cluster.psql("create table written (by text, tenant text)")
    pooler = make_pooler(cluster, settings=ONE_SERVER)
    with two(pooler, EVIL) as (plain, evil):
        plain.rows("set app.tenant = 'plain'")
        with restorations_hang(cluster):
            evil.send(query("insert into public.written values ('evil', current_setting('app.tenant', true))"))
            eventually(lambda: waiting_restorations(cluster) == 1, what="a restoration that waits")
            evil.cancel()
            if leaves:
                evil.drop()
            else:
                assert error_codes(evil.read_ready(timeout=5)) == ["57014"]
        eventually(lambda: waiting_restorations(cluster) == 0)
        assert plain.value("show app.tenant") == "plain"
        assert cluster.psql("select count(*) from written") == "0"
        if not leaves:
            assert evil.value("show app.tenant") == "evil", "the client goes on with what it had"


def test_a_cancel_in_front_of_a_deferred_begin(own_cluster, make_pooler):
    """It cost the connection instead of failing the transaction."""
    cluster = own_cluster()
    pooler = make_pooler(cluster, settings=ONE_SERVER)
    with two(pooler, EVIL) as (_plain, evil):
        evil.query("begin")
        with restorations_hang(cluster):
            evil.send(query("select 1"))
            eventually(lambda: waiting_restorations(cluster) == 1, what="a restoration that waits")
            evil.cancel()
            messages = evil.read_ready(timeout=5)
            assert error_codes(messages) == ["57014"] and messages[-1].body == b"E"
        assert error_codes(evil.query("select 1")) == ["25P02"]
        assert wire.command_tags(evil.query("commit")) == ["ROLLBACK"]
        assert evil.value("show app.tenant") == "evil"


def test_a_setting_that_a_used_server_refuses(own_cluster, make_pooler):
    """A restoration failed on a typo in a library's setting, and what came behind it ran in the other client's session."""
    cluster = own_cluster()
    cluster.psql("create table written (by text, tenant text)")
    pooler = make_pooler(cluster, settings=ONE_SERVER)
    with pooler.connect() as typo, pooler.connect() as other:
        typo.query("set plpgsql.extra_warning = 'x'")
        typo.query("set app.tenant = 'typo'")
        other.query("set app.tenant = 'other'")
        other.query("do $$ begin perform 1; end $$")
        pid = backend_pid(other)
        assert closed_servers(pooler) == 0
        messages = typo.query("insert into written values ('typo', current_setting('app.tenant', true))")
        assert error_codes(messages) == []
        assert closed_servers(pooler) == 1, "the server of the other client, which has loaded the library, refused"
        assert backend_pid(typo) != pid
        assert other.value("show app.tenant") == "other"
    assert cluster.psql("select by || tenant from written") == "typotypo"


def test_cancels_of_an_idle_client_cost_it_nothing(pg, make_pooler):
    """A cancel hit the pooler's question about the session, and what that would have told was dropped: SET ROLE among it."""
    pg.psql("drop role if exists attack_bob; create role attack_bob")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c, pooler.connect() as other:
        for number in range(60):
            c.query("reset role")
            assert error_codes(c.query(f"set role attack_bob; set app.number = '{number}'")) == []
            c.cancel()
            assert other.value("select current_user") == "postgres"
            assert c.value("select current_user") == "attack_bob", number
            assert c.value("show app.number") == str(number)


HIDES = """
create or replace function attack_hides() returns void language plpgsql as $$begin
    execute 'create temp ' || 'table attack_hidden as select 1 as a';
    perform pg_advisory_lock(4711);
    perform set_config('lock_timeout', '12s', false);
    perform set_config('statement_timeout', '50s', false);
end$$
"""
KEPT = """
select coalesce(to_regclass('pg_temp.attack_hidden')::text, ''), current_setting('lock_timeout'),
    current_setting('statement_timeout'),
    (select count(*) from pg_locks where locktype = 'advisory' and objid = 4711 and pid = pg_backend_pid())
"""


def questions_hang(cluster):
    """While this lasts, whatever asks a server for its settings waits."""
    return locked(cluster, "pg_settings")


def waiting_questions(cluster) -> int:
    return int(cluster.psql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"))


@pytest.mark.parametrize("how", ["function", "DO", "temporary table", "lock", "limits"])
def test_a_cancel_while_the_session_is_asked_for_costs_nothing(pg, make_pooler, how):
    """A cancel hit the question, and temporary tables, advisory locks and limits were lost. A lock makes the question wait."""
    pg.psql(HIDES)
    does, found = {
        "function": ("select attack_hides()", ("attack_hidden", "12s", "50s", "1")),
        "DO": ("do $$begin perform attack_hides(); end$$", ("attack_hidden", "12s", "50s", "1")),
        "temporary table": ("set lock_timeout = '12s'; create temp table attack_hidden (a int)",
                            ("attack_hidden", "12s", "0", "0")),
        "lock": ("set lock_timeout = '12s'; select pg_advisory_lock(4711)", ("", "12s", "0", "1")),
        "limits": ("set lock_timeout = '12s'; set statement_timeout = '50s'", ("", "12s", "50s", "0")),
    }[how]
    pooler = make_pooler(pg, settings={**ONE_SERVER, "query_wait_timeout": 1})
    with pooler.connect() as c:
        pid = backend_pid(c)
        with questions_hang(pg):
            assert not error_codes(c.query(does))
            eventually(lambda: waiting_questions(pg) == 1, what="a question that waits")
            for _ in range(3):
                c.cancel()
            time.sleep(0.3)
            assert waiting_questions(pg) == 1, "the cancel was not for the question"
        with pooler.connect() as other:
            with contextlib.suppress(wire.Closed):
                assert other.rows(KEPT) == [("", "0", "0", "0")]
                assert backend_pid(other) == pid
        assert c.rows(KEPT) == [found]
        assert backend_pid(c) == pid, "there is one server"
        c.query("drop table if exists pg_temp.attack_hidden; select pg_advisory_unlock_all()")


def test_a_session_that_cannot_be_told_at_once_is_not_lost(pg, make_pooler):
    """The question failed, because what it was asked with had been deallocated, or its answer was too long."""
    pg.psql("drop role if exists attack_bob; create role attack_bob")
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as c:
        c.query("set work_mem = '2MB'")
        c.query("do $$ begin execute 'deallocate all'; perform set_config('role', 'attack_bob', false); end $$")
        assert c.value("show role") == "attack_bob"
        assert c.value("show work_mem") == "2MB"
    with pooler.connect() as c:
        c.query("select length(set_config('app.long', repeat('x', 2000000), false))")
        assert c.value("select length(current_setting('app.long'))") == "2000000"
    with pooler.connect() as other:
        assert other.value("select length(current_setting('app.long', true))") in (None, "0")
        assert other.value("show role") == "none"


def test_what_a_new_server_looks_like_is_there_for_everybody(own_cluster, make_pooler):
    """A role's default role, and what connect_query had set, were lost for all when one client changed them."""
    cluster = own_cluster()
    cluster.psql("create role team; create role worker login; grant team to worker; alter role worker set role = team")
    pooler = make_pooler(
        cluster,
        databases={"*": f"host={cluster.host} port={cluster.port} connect_query='set work_mem = ''7MB'''"},
        settings={**ONE_SERVER, "auth_type": "trust"},
        userlist={"worker": "", "postgres": ""},
    )
    with pooler.connect(user="worker") as one, pooler.connect(user="worker") as other:
        shown = "select current_user, current_setting('work_mem')"
        assert one.rows(shown) == [("team", "7MB")]
        one.query("set role none")
        one.query("set work_mem = '1MB'")
        assert other.rows(shown) == [("team", "7MB")]
        assert one.rows(shown) == [("worker", "1MB")]
        one.query("do $$ begin end $$")
        assert other.rows(shown) == [("team", "7MB")]
        one.query("reset role")
        assert one.value("select current_user") == "team"


def test_all_that_a_client_has_left_running_ends(pg, make_pooler):
    """Of two slow queries in a pipeline only the first was cancelled, and the server was lost for ten seconds. Their
    connection is reset, so that the second is not run without the first."""
    pooler = make_pooler(pg, settings=ONE_SERVER)
    with pooler.connect() as other:
        pid = backend_pid(other)
        gone = pooler.connect()
        gone.send(query("select pg_sleep(20)"), query("select pg_sleep(20)"), query("select pg_sleep(20)"))
        eventually(lambda: pg.psql(f"select state from pg_stat_activity where pid = {pid}") == "active")
        watch = Stopwatch()
        gone.drop()
        assert backend_pid(other) != pid
        assert watch.seconds < 5
        eventually(lambda: pg.psql(f"select count(*) from pg_stat_activity where pid = {pid}") == "0")


def closed_servers(pooler) -> int:
    return pooler.log().count("server refused restored settings")


def test_a_setting_that_the_login_user_may_not_set_again(pg, make_pooler):
    """Four servers were closed one after another, and then the client, for what a superuser's function had set."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "default_pool_size": 2})
    with pooler.connect() as root:
        root.query(
            "create or replace function public.replicates(mode text) returns text language sql security definer as "
            "$$ select set_config('session_replication_role', mode, false) $$"
        )
    shown = "show session_replication_role"
    try:
        with pooler.connect(user="alice") as c, pooler.connect(user="alice") as other:
            assert c.value("select public.replicates('replica')") == "replica"
            for _ in range(3):
                assert (c.value(shown), other.value(shown)) == ("replica", "origin")
            (pin,) = pooler.console("SHOW PINS")
            assert "GRANT SET ON PARAMETER" in pin["reason"]
            c.value("select public.replicates('origin')")
            other.value("select public.replicates('local')")
            assert (c.value(shown), other.value(shown)) == ("origin", "local")
        with pooler.connect(user="alice") as next_one:
            assert next_one.value(shown) == "origin"
        if pg.version >= 15:
            pg.psql("grant set on parameter session_replication_role to alice")
            with pooler.connect(user="alice") as c:
                c.query("set session_replication_role = replica")
                assert pooler.console("SHOW PINS") == []
                assert c.value(shown) == "replica"
    finally:
        pg.psql("revoke set on parameter session_replication_role from alice")
        pg.psql("drop function public.replicates(text)")
    assert closed_servers(pooler) == 0


def test_a_setting_that_only_the_role_may_make(pg, make_pooler):
    """temp_tablespaces needs a right of the current role. The client was disconnected when another server got its settings."""
    pooler = make_pooler(pg, settings={**ONE_SERVER, "default_pool_size": 2})
    pg.psql("set allow_in_place_tablespaces = on; create tablespace of_owner location ''")
    pg.psql("create role owner; grant owner to alice; alter role alice noinherit; grant create on tablespace of_owner to owner")
    try:
        with pooler.connect(user="alice") as c, pooler.connect(user="alice") as other:
            c.query("set role owner")
            c.query("set temp_tablespaces = of_owner")
            for _ in range(3):
                assert c.value("show temp_tablespaces") == "of_owner"
                assert other.value("show temp_tablespaces") != "of_owner"
            (pin,) = pooler.console("SHOW PINS")
            assert "login user may not set" in pin["reason"]
            c.query("reset temp_tablespaces; reset role")
            assert c.value("show temp_tablespaces") != "of_owner"
        with pooler.connect(user="alice") as next_one:
            assert next_one.value("show temp_tablespaces") != "of_owner"
            next_one.query("set role owner")
            next_one.query("set default_text_search_config = 'pg_catalog.simple'")
            assert pooler.console("SHOW PINS") == []
    finally:
        pg.psql("alter role alice inherit; revoke create on tablespace of_owner from owner")
        pg.psql("drop tablespace of_owner")
        pg.psql("drop role owner")
    assert closed_servers(pooler) == 0


def test_a_role_that_is_revoked_costs_only_its_client(pg15, make_pooler):
    """Three servers were closed one after another."""
    pooler = make_pooler(pg15, settings=ONE_SERVER)
    pg15.psql("create role lent; grant lent to alice")
    try:
        with pooler.connect(user="alice") as c, pooler.connect(user="alice") as other:
            c.query("set role lent; set app.tenant = '7'")
            pid = backend_pid(other)
            pg15.psql("revoke lent from alice")
            c.send(query("select 1"))
            error = wire.first_error(c.read_to_end(5))
            assert error.fields["C"] == "55000"
            assert error.fields["D"] == 'permission denied to set role "lent"'
            assert "revoked" in error.fields["H"]
            assert backend_pid(other) == pid, "the server serves others"
            assert other.value("select current_user || coalesce(current_setting('app.tenant', true), '')") == "alice"
    finally:
        pg15.psql("drop role lent")


WAYS_TO_LIMIT = {
    "set": lambda c: c.query("set transaction_timeout = '100ms'"),
    "escaped": lambda c: c.query(r"select set_config(U&'transaction\005ftimeout', '100ms', false)"),
    "computed": lambda c: c.query("select set_config('transaction' || '_timeout', '100ms', false)"),
    "bound": lambda c: c.extended("select set_config($1, $2, false)", ["transaction_timeout", "100ms"]),
    "executed": lambda c: c.query("execute p('transaction_' 'timeout')".replace("' '", "'\n'")),
}


@pytest.mark.parametrize("way", WAYS_TO_LIMIT)
def test_a_short_transaction_timeout_does_not_end_in_a_probe(own_cluster, make_pooler, way):
    """The probe behind the SET ran under the limit, and the connection ended. A lock makes it wait."""
    cluster = own_cluster(version=18)
    pooler = make_pooler(cluster, settings={**ONE_SERVER, "default_pool_size": 2})
    with pooler.connect() as c, wire.Connection(port=cluster.port) as locker:
        c.query("prepare p(text) as select set_config($1, '100ms', false)")
        c.query("select 1")  # behind the question about the PREPARE
        locker.query("begin; lock table pg_catalog.pg_settings in access exclusive mode")
        WAYS_TO_LIMIT[way](c)
        time.sleep(0.4)
        locker.query("commit")
        assert c.value("show transaction_timeout") == "100ms"
