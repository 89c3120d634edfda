"""Fixtures of the end-to-end tests; tests/README.md tells how they are organised."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import shutil
import signal
import sys
import tempfile
import zlib

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pgthrow  # noqa: E402
from harness import directory as ldap  # noqa: E402
from harness import ports, wire  # noqa: E402
from harness.certificates import Certificates  # noqa: E402
from harness.pooler import PASSWORDS, Pooler, kind  # noqa: E402
from harness.waiting import eventually  # noqa: E402

VERSIONS = (15, 18)

# A shell that starts the tests in the background lets them ignore Ctrl-C, and with them the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What the shared clusters hold beyond an empty one. md5 and SCRAM verifiers both appear, as in a grown installation.
INITIAL_SQL = f"""
set password_encryption = 'scram-sha-256';
alter role postgres password '{PASSWORDS['postgres']}';
create role alice login password '{PASSWORDS['alice']}';
create role bob login password '{PASSWORDS['bob']}';
create role stats login password '{PASSWORDS['stats']}';
create role admin nologin;
grant all on schema public to public;
create database shop;
create database warehouse;
"""


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="PostgreSQL 15 only, and no test marked slow")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes many seconds; left out by --quick")
    config.addinivalue_line(
        "markers", "beyond_pgbouncer: PgBouncer does not do this, or otherwise; skipped when run against it"
    )


def pytest_generate_tests(metafunc):
    if "pg" in metafunc.fixturenames:
        versions = VERSIONS[:1] if metafunc.config.getoption("--quick") else VERSIONS
        metafunc.parametrize("pg", versions, indirect=True, ids=[f"pg{v}" for v in versions], scope="session")


def is_its_turn(item, commit: str) -> bool:
    """Whether this commit runs the test on this version of PostgreSQL, and not on the other one."""
    version = getattr(item, "callspec", None) and item.callspec.params.get("pg")
    if not version:
        return True
    others = item.nodeid.replace(f"pg{version}", "pg", 1)
    return VERSIONS[zlib.crc32(f"{commit} {others}".encode()) % len(VERSIONS)] == version


def pytest_collection_modifyitems(config, items):
    commit = os.environ.get("PGWEIR_TEST_TURNS")
    if commit and not config.getoption("--quick"):
        turns = [(item, is_its_turn(item, commit)) for item in items]
        others = [item for item, is_now in turns if not is_now]
        items[:] = [item for item, is_now in turns if is_now]
        config.hook.pytest_deselected(items=others)
    # What takes longest goes first, so that no worker is left with it at the end.
    items.sort(key=lambda item: item.fspath.basename not in ("test_drivers.py", "test_faults.py"))
    known = known_failures() if kind() == "pgweir" else []
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for pattern, reason in known:
            if fnmatch.fnmatchcase(name, pattern):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
        if item.get_closest_marker("slow") and config.getoption("--quick"):
            item.add_marker(pytest.mark.skip(reason="--quick"))
        if item.get_closest_marker("beyond_pgbouncer") and kind() == "pgbouncer":
            item.add_marker(pytest.mark.skip(reason="PgBouncer does not do this"))


def known_failures() -> list[tuple[str, str]]:
    """Patterns and reasons of known-failures.txt."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known-failures.txt")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return [tuple(line.split(": ", 1)) for line in lines]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.call_failed = outcome.get_result().failed


_clusters: dict[int, pgthrow.Cluster] = {}


def shared_cluster(version: int) -> pgthrow.Cluster:
    """The cluster of this version that all tests of this worker share; made when first asked for."""
    if version not in _clusters:
        cluster = pgthrow.Cluster(
            version=version,
            port=ports.take(),
            settings={
                "max_connections": "120",
                "max_prepared_transactions": "10",
                "log_connections": "on",
                "log_disconnections": "on",
                "log_line_prefix": "%m [%p] %u@%d %a ",
            },
            initial_sql=INITIAL_SQL,
        ).start()
        _clusters[version] = cluster
    return _clusters[version]


@pytest.fixture(scope="module")
def directory():
    """An LDAP server."""
    if not os.access(ldap.SLAPD, os.X_OK):
        pytest.skip("slapd is not installed (scripts/setup --drivers)")
    with ldap.Directory() as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def remove_clusters():
    yield
    for cluster in _clusters.values():
        cluster.remove()


@pytest.fixture(scope="session")
def pg(request) -> pgthrow.Cluster:
    """A shared cluster; the test runs once for each version of PostgreSQL."""
    return shared_cluster(request.param)


@pytest.fixture(scope="session")
def pg15() -> pgthrow.Cluster:
    """The shared cluster of PostgreSQL 15, for what does not depend on the server's version."""
    return shared_cluster(15)


@pytest.fixture(scope="session")
def certificates():
    """Certificates and keys, which the pooler and PostgreSQL can read."""
    folder = tempfile.mkdtemp(prefix="certificates-")
    os.chmod(folder, 0o755)
    pgthrow.give_to_server_user(folder)
    yield Certificates(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_cluster():
    """Makes clusters that one test has to itself: it may stop them, or change their configuration."""
    made = []

    def make(**named) -> pgthrow.Cluster:
        named.setdefault("version", 15)
        cluster = pgthrow.Cluster(port=ports.take(), initial_sql=INITIAL_SQL, **named)
        made.append(cluster)
        return cluster.start()

    yield make
    for cluster in made:
        cluster.remove()


@pytest.fixture
def make_pooler(request):
    """Makes and starts poolers; arguments as Pooler's. They are ended after the test, and must have behaved."""
    made: list[Pooler] = []

    def make(cluster=None, start: bool = True, **named) -> Pooler:
        pooler = Pooler(cluster, **named)
        made.append(pooler)
        return pooler.start() if start else pooler

    yield make
    failed = getattr(request.node, "call_failed", False)
    problems = []
    for pooler in made:
        try:
            pooler.finish(failed)
        except AssertionError as problem:
            problems.append(str(problem))
    assert not problems, "\n".join(problems)
    if not failed:
        no_backend_left()


def backends(cluster, where: str = "true") -> int:
    """How many client backends the cluster has under this condition, our own look not counted."""
    with wire.Connection(host=cluster.socket_dir, port=cluster.port, user=cluster.superuser) as c:
        return int(
            c.value(
                "select count(*) from pg_stat_activity where backend_type = 'client backend' "
                f"and pid <> pg_backend_pid() and ({where})"
            )
        )


# Titles of the processes that a cluster has without clients, behind "postgres: ".
OWN_PROCESSES = re.compile(
    r"(checkpointer|background writer|walwriter|autovacuum (launcher|worker .*)|logical replication launcher|io worker \d+) *"
)


def only_own_processes(cluster) -> bool:
    """Whether all processes of the cluster are known to be no backends; false if it is not known."""
    try:
        with open(f"/proc/{cluster.pid}/task/{cluster.pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except FileNotFoundError:
        return False
    titles = []
    for child in children:
        # One that ends meanwhile is none.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{child}/cmdline", encoding="utf-8", errors="replace") as file:
                titles.append(file.read().rstrip("\0").removeprefix("postgres: "))
    return bool(titles) and all(map(OWN_PROCESSES.fullmatch, titles))


def no_backend_left():
    """A backend still there would disturb the next test, and shows a pooler that left it behind."""
    for cluster in _clusters.values():
        # A connection costs the server several milliseconds, and most tests leave nothing behind.
        if cluster.running and not only_own_processes(cluster):
            eventually(
                lambda: backends(cluster) == 0,
                timeout=10,
                interval=0.1,
                what=lambda: (
                    "no backend left; there are:\n"
                    + cluster.psql(
                        "select pid, datname, usename, state, query from pg_stat_activity "
                        "where backend_type = 'client backend' and pid <> pg_backend_pid()"
                    )
                ),
            )
