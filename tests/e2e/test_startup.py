"""Startup packets: what PostgreSQL accepts is accepted, in every spelling, and means the same."""

import pytest

from harness import wire
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() == "pgbouncer", reason="PgBouncer refuses parameters that it does not know")

# Values of `options`, and the setting that they are about.
OPTIONS = [
    ("-c work_mem=7MB", "work_mem"),
    ("-cwork_mem=7MB", "work_mem"),
    ("--work_mem=7MB", "work_mem"),
    ("--work-mem=7MB", "work_mem"),
    ("-c work-mem=7MB", "work_mem"),
    ("   -c   work_mem=7MB   ", "work_mem"),
    ("\t-c\nwork_mem=7MB", "work_mem"),
    ("-c work_mem=7MB -c geqo=off --work-mem=8MB", "work_mem"),
    ("-c search_path=a,\\ b", "search_path"),
    ("-c application_name=back\\\\slash", "application_name"),
    ("-c application_name=a=b", "application_name"),
    ("-c application_name=", "application_name"),
    ("-c DateStyle=German", "datestyle"),
    ("-c datestyle=iso\\,ymd", "datestyle"),
    ("-c app.tenant=x\\ y", "app.tenant"),
    ("-c work_mem=nonsense", "work_mem"),
    ("-c no_such_setting=1", "work_mem"),
    ("", "work_mem"),
    ("-e", "datestyle"),
    ("-fs -S 3000", "enable_seqscan"),
    ("-e -f m -S3000", "work_mem"),
    ("-c application_name=" + "a" * 70, "application_name"),
    ("-O", "allow_system_table_mods"),
    ("-P", "ignore_system_indexes"),
    ("-sj", "log_statement_stats"),
    ("-tpa", "log_parser_stats"),
    ("-t pl", "log_planner_stats"),
    ("-te", "log_executor_stats"),
    ("-d 1", "log_min_messages"),
    ("-d2", "log_statement"),
    ("-d 5x", "debug_print_rewritten"),
    ("-d 9", "log_min_messages"),
    ("-d x", "log_min_messages"),
    ("-W 0", "post_auth_delay"),
    ("-E -n -T -v 3.0 -r x -D y -S 3000", "work_mem"),
]


def shown(port, setting, **options) -> str:
    """The value of a setting, or the SQLSTATE of the login's error."""
    try:
        with wire.Connection(port=port, options=options) as c:
            return c.value(f"show {setting}")
    except wire.ServerError as error:
        return error.code


@pytest.mark.parametrize("options, setting", OPTIONS, ids=[repr(o) for o, _ in OPTIONS])
def test_options_in_every_spelling(pg, make_pooler, options, setting):
    pooler = make_pooler(pg, settings={"ignore_startup_parameters": None})
    assert shown(pooler.port, setting, options=options) == shown(pg.port, setting, options=options)


REFUSED = [
    "-c default_transaction_isolation=nope",
    "-c work_mem=1",
    "-c work_mem=9XB",
    "-c TimeZone=Nowhere",
    "-c search_path=\"",
    "-c role=st_nobody",
    "-c no_such_setting=1",
    "-c wal_level=minimal",
]


@pytest.mark.parametrize("options", REFUSED)
def test_a_refused_parameter_has_the_error_of_postgresql(pg, make_pooler, options):
    pooler = make_pooler(pg, settings={"ignore_startup_parameters": None})
    told = []
    for port in pg.port, pooler.port:
        with pytest.raises(wire.ServerError) as refused:
            wire.Connection(port=port, options={"options": options})
        told.append({field: refused.value.fields.get(field) for field in "SCMDH"})
    assert told[1] == told[0]


def test_an_application_name_is_cut_in_what_the_login_reports(pg, make_pooler):
    pooler = make_pooler(pg)
    name = "a" * 70
    with pooler.connect(options={"application_name": name}) as pooled, wire.Connection(
        port=pg.port, options={"application_name": name}
    ) as c:
        assert pooled.parameters["application_name"] == c.parameters["application_name"] == "a" * 63


# What is made, a login that needs it, and what removes it.
MADE = {
    "database": ("create database st_made", {"database": "st_made"}, "drop database st_made with (force)"),
    "role": ("create role st_made login", {"user": "st_made"}, "drop role st_made"),
}


@pytest.mark.parametrize("what", MADE)
def test_what_is_made_through_the_pooler_can_be_used_at_once(pg, make_pooler, what):
    """Guards against a refused login that is remembered although its reason is gone."""
    makes, named, removes = MADE[what]
    pooler = make_pooler(pg, databases={"*": f"host={pg.host} port={pg.port}"}, userlist={"st_made": "", "postgres": ""})
    named = {"database": "postgres", **named}
    with pooler.connect(database="postgres") as maker:
        with pytest.raises(wire.ServerError):
            pooler.connect(**named)
        assert not wire.first_error(maker.query(makes))
        try:
            pooler.connect(**named).close()
        finally:
            pg.psql(removes)


# Values of settings that only a new connection can have, that mean the same.
SPELLINGS = ["on", "ON", "true", "t", "tru", "1", "yes", "y"]


def test_spellings_of_a_value_are_one_value(pg15, make_pooler):
    """Settings that only a new connection can have divide servers into pools; spellings do not."""
    pooler = make_pooler(pg15, settings={"default_pool_size": 1, "query_wait_timeout": 5})
    clients = [pooler.connect(options={"log_disconnections": value}) for value in SPELLINGS]
    pids = {c.value("select pg_backend_pid()") for c in clients}
    assert len(pids) == 1
    assert {c.value("show log_disconnections") for c in clients} == {"on"}
    for c in clients:
        c.close()


@pytest.mark.parametrize("length", [1_000, 9_900])
def test_packets_as_long_as_the_server_takes(pg, make_pooler, length):
    pooler = make_pooler(pg)
    options = {"app.long": "x" * length}
    assert shown(pooler.port, "app.long", **options) == shown(pg.port, "app.long", **options)


def test_packets_that_are_too_long(pg15, make_pooler):
    pooler = make_pooler(pg15)
    for port in (pg15.port, pooler.port):
        with pytest.raises((wire.ServerError, wire.Closed)):
            wire.Connection(port=port, options={"app.long": "x" * 10_100}).close()


@pytest.mark.parametrize(
    "options",
    (
        {"session_authorization": "alice"},
        {"options": "-c session_authorization=alice"},
        {"options": "-c role=bob -c SESSION_AUTHORIZATION=alice"},
        {"options": "-c session_authorization=nobody_of_this_name"},
    ),
)
def test_a_session_authorization_in_the_packet(pg, make_pooler, options):
    """PostgreSQL checks it, and the login sets its own. The client of pgweir was somebody else."""
    pooler = make_pooler(pg, settings={"ignore_startup_parameters": "none"})
    told = []
    for port in (pg.port, pooler.port):
        try:
            with wire.Connection(port=port, options=options) as c:
                own = {name: c.parameters.get(name) for name in ("session_authorization", "is_superuser")}
                told.append((own, c.rows("select session_user, current_user")))
        except wire.ServerError as error:
            told.append(str(error))
    assert told[0] == told[1]
