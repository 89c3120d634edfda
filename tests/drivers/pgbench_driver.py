"""pgbench through pgweir: each protocol, -C, pipelines, and the sums that TPC-B must keep."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from pgthrow import client_program  # noqa: E402
from report import TRANSACTIONS, Report  # noqa: E402

PGBENCH = client_program("pgbench")
PSQL = [client_program("psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]


def pgbench(*arguments):
    result = subprocess.run([PGBENCH, *arguments], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "error" not in result.stderr.lower() and "aborted" not in result.stderr, result.stderr
    return result.stdout


def run(*arguments, clients=8, transactions=60):
    # A thread for each client: a thread of pgbench prepares statements synchronously, so that a client that waits for a
    # server would keep another one of the same thread from ending the transaction that holds it.
    out = pgbench("-n", "-c", str(clients), "-j", str(clients), "-t", str(transactions), *arguments)
    done = re.search(r"transactions actually processed: (\d+)/(\d+)", out)
    assert done and done[1] == done[2] == str(clients * transactions), out
    assert "number of failed transactions: 0 " in out, out


def sums_agree():
    sql = (
        "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)"
        " and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)"
        " and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)"
    )
    out = subprocess.run([*PSQL, "-c", sql], capture_output=True, text=True, timeout=60)
    assert out.stdout == "t\n", out


def script(*lines):
    file = tempfile.NamedTemporaryFile("w", suffix=".sql")
    file.write("\n".join(lines) + "\n")
    file.flush()
    return file


def pipelines():
    with script(
        "\\set a random(1, 100000)",
        "\\startpipeline",
        *(["begin;"] if TRANSACTIONS else []),
        "select abalance from pgbench_accounts where aid = :a;",
        "select bbalance from pgbench_branches where bid = 1;",
        *(["commit;"] if TRANSACTIONS else []),
        "\\endpipeline",
    ) as file:
        for protocol in ("extended", "prepared"):
            run("-M", protocol, "-f", file.name)


def fill_without_transactions():
    # pgbench fills its tables in a transaction, whichever way it is told to.
    pgbench("-i", "-I", "dtp", "-s", "1", "-q")
    for sql in (
        "insert into pgbench_branches values (1, 0)",
        "insert into pgbench_accounts select i, 1, 0 from generate_series(1, 100000) i",
    ):
        subprocess.run([*PSQL, "-c", sql], check=True, timeout=60)


def main():
    report = Report("pgbench")
    if TRANSACTIONS:
        report.check("initialise", lambda: pgbench("-i", "-I", "dtgvp", "-s", "1", "-q"))
    else:
        report.check("initialise", fill_without_transactions)
    for protocol in ("simple", "extended", "prepared"):
        report.check(f"select-only, {protocol}", lambda: run("-S", "-M", protocol, transactions=200))
        report.check(
            f"select-only, {protocol}, -C", lambda: run("-S", "-M", protocol, "-C", clients=4, transactions=20)
        )
        if TRANSACTIONS:
            report.check(f"TPC-B, {protocol}", lambda: run("-M", protocol))
            report.check(
                f"simple update, {protocol}, -C", lambda: run("-N", "-M", protocol, "-C", clients=4, transactions=15)
            )
    if TRANSACTIONS:
        # -N leaves branches and tellers alone, so the sums are made with TPC-B only.
        report.check("initialise again", lambda: pgbench("-i", "-I", "dtgvp", "-s", "1", "-q"))
        report.check("TPC-B of both protocols", lambda: (run("-M", "prepared"), run("-M", "simple")))
        report.check("sums agree", sums_agree)
    report.check("pipelines", pipelines)
    report.finish()


main()
