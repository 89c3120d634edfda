"""Real drivers, in each pool mode, on servers that change hands; and direct, to prove the programs themselves.

Each program of tests/drivers prints what it checked and closes with `name: N passed, N failed`.
"""

import contextlib
import os
import re
import subprocess
import sys

import pytest

from harness.neighbours import busy_neighbours
from harness.pooler import CHECKOUT, PASSWORDS, kind

DRIVERS = os.path.join(CHECKOUT, "tests", "drivers")
BUILT = os.path.join(CHECKOUT, ".cache", "drivers")

PROGRAMS = {
    "psql": [sys.executable, f"{DRIVERS}/psql_driver.py"],
    "pgbench": [sys.executable, f"{DRIVERS}/pgbench_driver.py"],
    "psycopg": [sys.executable, f"{DRIVERS}/psycopg_driver.py"],
    "asyncpg": [sys.executable, f"{DRIVERS}/asyncpg_driver.py"],
    "pgx": [f"{BUILT}/pgx"],
    "node": ["node", f"{DRIVERS}/node/main.js"],
    "jdbc": ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{BUILT}/jdbc:{BUILT}/jdbc/*", "Jdbc"],
}

# Where a client has a session of its own; pgweir's keeps one in transaction pooling.
KEEP_SESSIONS = ("direct", "session") + (("transaction",) if kind() == "pgweir" else ())

# The longest that a program may take, in seconds, on a machine that does other things, too.
PROGRAM_SECONDS_MAX = 120


def run_program(name, host, port, mode, database="shop", **more):
    env = {
        **os.environ,
        "PGHOST": host,
        "PGPORT": str(port),
        "PGUSER": "postgres",
        "PGDATABASE": database,
        "PGSSLMODE": "disable",
        "DRIVER_MODE": mode,
        "DRIVER_SESSIONS": "yes" if mode in KEEP_SESSIONS else "no",
        "NODE_PATH": f"{BUILT}/node/node_modules",
        "GOMAXPROCS": "2",
        **more,
    }
    # timeout(1), so that what was printed until then is kept; its status is then 124.
    command = ["timeout", str(PROGRAM_SECONDS_MAX), *PROGRAMS[name]]
    result = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # What went wrong, without what went well.
    lines = result.stdout.splitlines()
    failures = "\n".join(line for line in lines if not line.startswith("ok "))
    if result.returncode == 124:
        failures += f"\nnot done after {PROGRAM_SECONDS_MAX} s; the last line was {lines[-1:]}"
    print(failures)
    closing = re.search(rf"^{name}: (\d+) passed, 0 failed$", result.stdout, re.M)
    assert result.returncode == 0 and closing and int(closing[1]) > 0, failures


@pytest.mark.parametrize("mode", ("direct", "session", "transaction", "flights", "statement"))
@pytest.mark.parametrize("driver", PROGRAMS)
def test_driver(pg, make_pooler, driver, mode):
    if not os.path.exists(f"{BUILT}/jdbc.stamp"):
        pytest.fail("the driver programs are not built; run tests/drivers/build")
    if mode == "direct":
        run_program(driver, pg.host, pg.port, mode)
        return
    # Fewer servers than clients, but in session mode, where each client has its own.
    settings = {"default_pool_size": 60 if mode == "session" else 3}
    if mode == "flights":
        # In transaction pooling, with as many transactions on a server at a time as possible.
        mode = "transaction"
        settings |= {"pipeline_depth": 16, "link": "adversarial"}
    pooler = make_pooler(pg, mode=mode, settings=settings)
    neighbours = (
        contextlib.nullcontext()
        if mode == "session"
        else busy_neighbours(pooler, database="shop", transactions=mode == "transaction", pause=0.01)
    )
    with neighbours:
        run_program(driver, pooler.host, pooler.port, mode)


# asyncpg logs in by SCRAM without channel binding; it cannot do more.
UNBOUND = ("asyncpg",)


@pytest.mark.skipif(kind() == "direct", reason="the cluster has no TLS")
@pytest.mark.parametrize("driver", PROGRAMS)
def test_driver_over_tls(pg15, certificates, make_pooler, driver):
    """Every driver checks the pooler's certificate, and requires channel binding if it can."""
    if not os.path.exists(f"{BUILT}/jdbc.stamp"):
        pytest.fail("the driver programs are not built; run tests/drivers/build")
    settings = {
        "default_pool_size": 3,
        "auth_type": "scram-sha-256",
        "client_tls_sslmode": "require",
        "client_tls_cert_file": certificates.server.certificate,
        "client_tls_key_file": certificates.server.key,
    }
    pooler = make_pooler(pg15, settings=settings)
    secure = {
        "PGPASSWORD": PASSWORDS["postgres"],
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": certificates.ca,
        # Node.js has its own variable for authorities that are trusted.
        "NODE_EXTRA_CA_CERTS": certificates.ca,
    }
    if driver not in UNBOUND:
        secure["PGCHANNELBINDING"] = "require"
    run_program(driver, pooler.host, pooler.port, "transaction", **secure)
    lines = [line for line in pooler.log().splitlines() if "login attempt: db=shop" in line]
    assert lines and all("tls=TLSv1.3" in line for line in lines)
