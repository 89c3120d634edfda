"""Runs PostgreSQL's own suites through a pooler, or directly, and says what differs. Called by `run`, which see."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import isolation  # noqa: E402
import pgthrow  # noqa: E402
from pooler import Pooler  # noqa: E402
from scramblers import Scramblers  # noqa: E402

MAJOR = 15
PGXS = f"/usr/lib/postgresql/{MAJOR}/lib/pgxs/src/test"

# What pg_regress gives the server that it makes itself, as far as tests show it.
SERVER_SETTINGS = {"max_prepared_transactions": "2", "max_connections": "300", "log_line_prefix": "%m [%p] %q%u@%d "}

# What pg_regress sets for the database that it makes itself.
DATABASE = """
create database {0} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
alter database {0} set lc_messages to 'C';
alter database {0} set lc_monetary to 'C';
alter database {0} set lc_numeric to 'C';
alter database {0} set lc_time to 'C';
alter database {0} set bytea_output to 'hex';
alter database {0} set timezone_abbreviations to 'Default';
"""

# Tests whose tables, functions and indexes others use; with --only these run first.
FOUNDATIONS = (
    "test_setup create_function_c create_misc create_operator create_procedure create_table create_type create_index "
    "create_view create_aggregate create_function_sql create_cast constraints triggers copy insert"
).split()

# Tests that run side by side, as in `make installcheck-parallel`.
CONCURRENT_TESTS = 20

# Other clients of the same database and user, who leave on the servers whatever a session can have.
SCRAMBLERS = 3

# What a whole run in transaction pooling with link = adversarial has to reach at least: about half of what it did reach. A
# suite that always got its own servers back would prove nothing. The first two are the suite's own, after everything that
# the scramblers can have had a share in is taken off.
AT_LEAST = {"restorations": 8_000, "server_changes": 8_000, "parses_injected": 400}

# A run takes one to five minutes. When no test ends for this long, what the server waits for is ended; a lock that another
# client holds for good would hang the run.
STALL_SECONDS_MAX = 60
RUN_SECONDS_MAX = 1800

# Ends the statements that have run or waited for longest, and says which.
TERMINATE = """
select 'stalled, terminated: ' || application_name || ': ' || left(regexp_replace(query, '\\s+', ' ', 'g'), 90)
from pg_stat_activity
where datname in ('regression', 'isolation_regression') and state <> 'idle' and state_change < now() - interval '30 s' and pg_terminate_backend(pid)
"""

# Lines shown of each difference.
DIFFERENCE_LINES = 8

# A test that has ended, in what pg_regress prints.
OUTCOME = re.compile(r"^(?:test|    )\s*(\S+)\s+\.\.\. (ok|FAILED|failed)", re.M)

# What tells of a crash in the log of the server.
CRASH = re.compile(r".*(?:PANIC:|was terminated by signal|terminating any other active server processes).*")


class Suite(NamedTuple):
    """One of the two suites."""

    folder: str
    program: str
    database: str
    schedule: str

    @staticmethod
    def of(options: argparse.Namespace) -> Suite:
        if options.isolation:
            folder, program = os.path.join(options.suite, "src/test/isolation"), f"{PGXS}/isolation/pg_isolation_regress"
            return Suite(folder, program, isolation.DATABASE, "isolation_schedule")
        folder, program = os.path.join(options.suite, "src/test/regress"), f"{PGXS}/regress/pg_regress"
        return Suite(folder, program, "regression", "parallel_schedule")


def schedule(suite: Suite, only: list[str] | None) -> tuple[str, list[str]]:
    """The text of the schedule, and the tests in it; with `only`, what is named and what others build on."""
    with open(os.path.join(suite.folder, suite.schedule), encoding="utf-8") as file:
        groups = [line.split()[1:] for line in file if line.startswith("test:")]
    known = {test for group in groups for test in group}
    for test in only or []:
        if test not in known:
            raise SystemExit(f'there is no test "{test}" in the schedule')
    if only:
        groups = [[test for test in group if test in only or test in FOUNDATIONS] for group in groups]
    text = "".join(f"test: {' '.join(group)}\n" for group in groups if group)
    return text, [test for group in groups for test in group]


def run_suite(
    options: argparse.Namespace, cluster: pgthrow.Cluster, port: int, results: str, tests: str, scramblers: Scramblers
) -> int:
    """Runs pg_regress, which leaves regression.out and regression.diffs in `results`; how often it had to be helped on."""
    suite = Suite.of(options)
    schedule_path = os.path.join(results, "schedule")
    with open(schedule_path, "w", encoding="utf-8") as file:
        file.write(tests)
    command = [
        suite.program,
        "--use-existing",
        f"--inputdir={suite.folder}",
        f"--outputdir={results}",
        f"--dlpath={options.suite}/lib",
        f"--bindir=/usr/lib/postgresql/{MAJOR}/bin",
        "--host=127.0.0.1",
        f"--port={port}",
        f"--user={pgthrow.SUPERUSER}",
        f"--dbname={suite.database}",
        f"--schedule={schedule_path}",
        f"--max-concurrent-tests={CONCURRENT_TESTS}",
        *(["--max-connections=1"] if options.serial else []),
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    environment["PGISOLATIONTIMEOUT"] = str(isolation.STEP_SECONDS_MAX)
    with open(os.path.join(results, "pg_regress.log"), "wb") as log:
        process = subprocess.Popen(
            pgthrow.as_server_user(command, die_with_parent="TERM"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=results,
            env=environment,
            start_new_session=True,
        )
        return watch(process, cluster, log.name, scramblers)


def watch(process: subprocess.Popen, cluster: pgthrow.Cluster, log: str, scramblers: Scramblers) -> int:
    """Waits for pg_regress; how often nothing ended for too long, so that the backends at work were terminated."""
    stalls = 0
    started = grown = time.monotonic()
    length = 0
    while process.poll() is None:
        now = time.monotonic()
        if os.path.getsize(log) != length:
            length, grown = os.path.getsize(log), now
            # Not beside the first: its VACUUM decides the plans of others, and must see its tables as everybody does.
            if tests_ended(log) > 0:
                scramblers.start()
        if now - started > RUN_SECONDS_MAX:
            os.killpg(process.pid, signal.SIGKILL)
        elif now - grown > STALL_SECONDS_MAX:
            stalls, grown = stalls + 1, now
            with contextlib.suppress(pgthrow.PgThrowError):
                print(cluster.psql(TERMINATE), flush=True)
        time.sleep(0.2)
    if process.returncode not in (0, 1):
        print(f"pg_regress ended with {process.returncode}; see {log}")
    return stalls


def tests_ended(log: str) -> int:
    with open(log, encoding="utf-8", errors="replace") as file:
        return len(OUTCOME.findall(file.read()))


def outcomes(results: str, tests: list[str]) -> dict[str, bool]:
    """Whether each test passed; those that never ran did not."""
    with open(os.path.join(results, "pg_regress.log"), encoding="utf-8", errors="replace") as file:
        lines = OUTCOME.findall(file.read())
    ended = {test: word == "ok" for test, word in lines}
    return {test: ended.get(test, False) for test in tests}


def differences(results: str) -> dict[str, list[str]]:
    """The first lines of each test's difference."""
    try:
        with open(os.path.join(results, "regression.diffs"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for part in re.split(r"^diff ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        name = os.path.basename(heading.split()[-1]).removesuffix(".out")
        changed = [line for line in body.splitlines()[2:] if line[:1] in "+-"]
        found.setdefault(name, changed[:DIFFERENCE_LINES])
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/conformance/run", add_help=False)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--program")
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--pgbouncer", action="store_true")
    parser.add_argument("--session", action="store_true")
    parser.add_argument("--isolation", action="store_true")
    parser.add_argument("--matching", action="store_true")
    parser.add_argument("--scramblers", type=int)
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--pool-size", type=int, default=2 * CONCURRENT_TESTS)
    parser.add_argument("--ini", action="append", default=[])
    parser.add_argument("--only", type=str.split)
    parser.add_argument("--port", type=int, default=21800)
    options = parser.parse_args()
    options.pgweir = not (options.direct or options.pgbouncer)
    if options.scramblers is None:
        options.scramblers = 0 if options.matching or options.isolation or not options.pgweir else SCRAMBLERS
    return options


def label_of(options: argparse.Namespace) -> str:
    """What is under test, in the name of its results."""
    mode = "session" if options.session else "transaction"
    words = ["direct"] if options.direct else ["pgweir" if options.pgweir else "pgbouncer", mode]
    words += [name for name in ("isolation", "matching", "serial") if getattr(options, name)]
    return "-".join(words)


def pooler_settings(options: argparse.Namespace) -> dict[str, str]:
    settings = {
        "pool_mode": "session" if options.session else "transaction",
        "default_pool_size": str(options.pool_size),
    }
    if options.pgweir and not options.matching:
        settings["link"] = "adversarial"
    for line in options.ini:
        name, _, value = line.partition("=")
        settings[name.strip()] = value.strip()
    return settings


def main() -> int:
    options = parse()
    label = label_of(options)
    results = os.path.join(options.cache, f"results-{label}")
    shutil.rmtree(results, ignore_errors=True)
    os.makedirs(results)
    pgthrow.give_to_server_user(results)
    suite = Suite.of(options)
    text, tests = schedule(suite, options.only)
    settings = pooler_settings(options)

    # What went wrong besides tests that differ.
    crashes: list[str] = []
    shortcomings: list[str] = []
    figures: dict[str, int] = {}
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(pgthrow.Cluster(version=MAJOR, port=options.port, settings=SERVER_SETTINGS))
        stack.callback(lambda: shutil.copy(cluster.log_path, os.path.join(results, "server.log")))
        for statement in filter(str.strip, DATABASE.format(suite.database).split(";")):
            cluster.psql(statement)
        if options.isolation:
            isolation.prepare(cluster, suite.folder, translated=not options.direct)
        port, pooler = cluster.port, None
        if not options.direct:
            port = options.port + 1
            pooler = stack.enter_context(Pooler(options.program, options.pgbouncer, cluster, results, port, settings))
        them = Scramblers(port, pgthrow.SUPERUSER, suite.database, options.scramblers)
        try:
            stalls = run_suite(options, cluster, port, results, text, them)
        finally:
            them.stop()
        shortcomings += them.failures[:10]
        if pooler:
            crashes += pooler.crashes()
            figures = pooler.state_stats()
        crashes += [match.group() for match in CRASH.finditer(cluster.log())]
    if stalls:
        print(f"{stalls} times no test ended for {STALL_SECONDS_MAX} s, and the statements that were waiting were ended")
    adversarial = settings.get("link") == "adversarial" and settings["pool_mode"] == "transaction"
    demanded = AT_LEAST if adversarial and not (options.only or options.isolation) else {}
    told, short = proof(figures, them.links_max, demanded)
    seconds = time.monotonic() - started
    return report(label, results, tests, told, crashes, shortcomings + short, seconds)


def proof(figures: dict[str, int], links_of_scramblers_max: int, demanded: dict[str, int]) -> tuple[list[str], list[str]]:
    """Lines that say how often sessions were made again on other servers, and where that was less than `demanded`."""
    if not figures:
        return [], []
    lines, short = [], []
    for name in AT_LEAST:
        count = figures[name]
        if demanded and name != "parses_injected":
            lines += [f"{name}: {count}, of which the scramblers had {links_of_scramblers_max} at most"]
            count -= links_of_scramblers_max
        else:
            lines += [f"{name}: {count}"]
        if demanded and count < demanded[name]:
            short += [f"{name}: {count}, where a proof needs {demanded[name]} at least"]
    others = ("settings_sent", "probes", "re_prepares", "discards", "listens_moved")
    lines += [f"{name}: {count}" for name, count in figures.items() if name in others or count and name.startswith("pins: ")]
    return lines, short


def report(
    label: str,
    results: str,
    tests: list[str],
    figures: list[str],
    crashes: list[str],
    shortcomings: list[str],
    seconds: float,
) -> int:
    """Prints what differs, the figures and the counts, also into summary.txt; the exit status."""
    passed = outcomes(results, tests)
    failed = [test for test in tests if not passed[test]]
    first_lines = differences(results)
    lines = []
    for test in failed:
        lines += [test, *(f"    {line}" for line in first_lines.get(test, ["(no output to compare)"])), ""]
    lines += figures
    lines += [f"crash: {line}" for line in crashes[:20]]
    lines += [f"not as it has to be: {line}" for line in shortcomings]
    lines += [f"{label}: {len(tests) - len(failed)} of {len(tests)} tests passed in {seconds:.0f} s"]
    if failed:
        lines += [f"failed: {' '.join(failed)}", f"all differences: {results}/regression.diffs"]
    summary = "\n".join(lines)
    with open(os.path.join(results, "summary.txt"), "w", encoding="utf-8") as file:
        file.write(summary + "\n")
    print(summary)
    if crashes:
        return 2
    return 1 if failed or shortcomings else 0


if __name__ == "__main__":
    sys.exit(main())
