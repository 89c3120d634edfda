"""Runs the regression suite through a pooler, or directly, and says what differs. Called by `run`, which see."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import pgthrow  # noqa: E402

MAJOR = 15
PG_REGRESS = f"/usr/lib/postgresql/{MAJOR}/lib/pgxs/src/test/regress/pg_regress"

# What pg_regress gives the server that it makes itself, as far as tests show it.
SERVER_SETTINGS = {"max_prepared_transactions": "2", "max_connections": "300", "log_line_prefix": "%m [%p] %q%u@%d "}

# What pg_regress sets for the database that it makes itself.
DATABASE = """
create database regression template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C';
alter database regression set lc_messages to 'C';
alter database regression set lc_monetary to 'C';
alter database regression set lc_numeric to 'C';
alter database regression set lc_time to 'C';
alter database regression set bytea_output to 'hex';
alter database regression set timezone_abbreviations to 'Default';
"""

# Tests whose tables, functions and indexes others use; with --only these run first.
FOUNDATIONS = (
    "test_setup create_function_c create_misc create_operator create_procedure create_table create_type create_index "
    "create_view create_aggregate create_function_sql create_cast constraints triggers copy insert"
).split()

# Tests that run side by side, as in `make installcheck-parallel`.
CONCURRENT_TESTS = 20
START_SECONDS_MAX = 10
STOP_SECONDS_MAX = 10

# A run takes one to five minutes. When no test ends for this long, what the server waits for is ended; a lock that another
# client holds for good would hang the run.
STALL_SECONDS_MAX = 60
RUN_SECONDS_MAX = 1800

# Ends the statements that have run or waited for longest, and says which.
TERMINATE = """
select 'stalled, terminated: ' || application_name || ': ' || left(regexp_replace(query, '\\s+', ' ', 'g'), 90)
from pg_stat_activity
where datname = 'regression' and state <> 'idle' and state_change < now() - interval '30 s' and pg_terminate_backend(pid)
"""

# Lines shown of each difference.
DIFFERENCE_LINES = 8

# What tells of a crash in the log of the server, and of a pooler.
SERVER_CRASH = re.compile(r".*(?:PANIC:|was terminated by signal|terminating any other active server processes).*")
POOLER_CRASH = re.compile(r".*panicked at.*")


class Pooler:
    """PgBouncer or pgweir in front of a cluster; its files are in `folder`."""

    def __init__(
        self, program: str, bouncer: bool, cluster: pgthrow.Cluster, folder: str, port: int, settings: dict[str, str]
    ):
        self.program, self.bouncer, self.port, self.folder = program, bouncer, port, folder
        self.ini, self.output = os.path.join(folder, "pooler.ini"), os.path.join(folder, "pooler.log")
        # Roles come and go during the suite: they are looked up.
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_user": cluster.superuser,
            "auth_dbname": "postgres",
            "auth_file": os.path.join(folder, "userlist.txt"),
            "admin_users": cluster.superuser,
            "max_client_conn": "400",
            "server_tls_sslmode": "disable",
            "ignore_startup_parameters": "extra_float_digits",
            **settings,
        }
        self.write("userlist.txt", f'"{cluster.superuser}" ""\n')
        databases = f"[databases]\n* = host={cluster.host} port={cluster.port}\n\n[pgbouncer]\n"
        self.write("pooler.ini", databases + "".join(f"{k} = {v}\n" for k, v in lines.items()))

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        pgthrow.give_to_server_user(path)

    def __enter__(self) -> Pooler:
        command = self.program
        if not self.bouncer:
            # Another user runs it, who may not be able to reach the program where it was built.
            command = shutil.copy(self.program, os.path.join(self.folder, "pgweir"))
            os.chmod(command, 0o755)
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                pgthrow.as_server_user([command, self.ini], die_with_parent="KILL"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={**os.environ, "RUST_BACKTRACE": "1"},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the pooler did not start:\n{self.log()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_exc) -> None:
        if self.running:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()


def schedule(suite: str, only: list[str] | None) -> tuple[str, list[str]]:
    """The text of the schedule, and the tests in it; with `only`, what is named and what others build on."""
    with open(os.path.join(suite, "src", "test", "regress", "parallel_schedule"), encoding="utf-8") as file:
        groups = [line.split()[1:] for line in file if line.startswith("test:")]
    known = {test for group in groups for test in group}
    for test in only or []:
        if test not in known:
            raise SystemExit(f'there is no test "{test}" in the schedule')
    if only:
        groups = [[test for test in group if test in only or test in FOUNDATIONS] for group in groups]
    text = "".join(f"test: {' '.join(group)}\n" for group in groups if group)
    return text, [test for group in groups for test in group]


def run_suite(options: argparse.Namespace, cluster: pgthrow.Cluster, port: int, results: str, tests: str) -> int:
    """Runs pg_regress, which leaves regression.out and regression.diffs in `results`; how often it had to be helped on."""
    regress = os.path.join(options.suite, "src", "test", "regress")
    schedule_path = os.path.join(results, "schedule")
    with open(schedule_path, "w", encoding="utf-8") as file:
        file.write(tests)
    command = [
        PG_REGRESS,
        "--use-existing",
        f"--inputdir={regress}",
        f"--outputdir={results}",
        f"--dlpath={options.suite}/lib",
        f"--bindir=/usr/lib/postgresql/{MAJOR}/bin",
        "--host=127.0.0.1",
        f"--port={port}",
        f"--user={pgthrow.SUPERUSER}",
        "--dbname=regression",
        f"--schedule={schedule_path}",
        f"--max-concurrent-tests={CONCURRENT_TESTS}",
        *(["--max-connections=1"] if options.serial else []),
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
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
        return watch(process, cluster, log.name)


def watch(process: subprocess.Popen, cluster: pgthrow.Cluster, log: str) -> int:
    """Waits for pg_regress; how often nothing ended for too long, so that the backends at work were terminated."""
    stalls = 0
    started = grown = time.monotonic()
    length = 0
    while process.poll() is None:
        now = time.monotonic()
        if os.path.getsize(log) != length:
            length, grown = os.path.getsize(log), now
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


def outcomes(results: str, tests: list[str]) -> dict[str, bool]:
    """Whether each test passed; those that never ran did not."""
    with open(os.path.join(results, "pg_regress.log"), encoding="utf-8", errors="replace") as file:
        lines = re.findall(r"^(?:test|    )\s*(\S+)\s+\.\.\. (ok|FAILED|failed)", file.read(), re.M)
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
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--pool-size", type=int, default=2 * CONCURRENT_TESTS)
    parser.add_argument("--ini", action="append", default=[])
    parser.add_argument("--only", type=str.split)
    parser.add_argument("--port", type=int, default=21800)
    return parser.parse_args()


def main() -> int:
    options = parse()
    mode = "session" if options.session else "transaction"
    label = "direct" if options.direct else f"{'pgbouncer' if options.pgbouncer else 'pgweir'}-{mode}"
    results = os.path.join(options.cache, f"results-{label}")
    shutil.rmtree(results, ignore_errors=True)
    os.makedirs(results)
    pgthrow.give_to_server_user(results)
    text, tests = schedule(options.suite, options.only)

    crashes: list[str] = []
    started = time.monotonic()
    with pgthrow.Cluster(version=MAJOR, port=options.port, settings=SERVER_SETTINGS) as cluster:
        for statement in filter(str.strip, DATABASE.split(";")):
            cluster.psql(statement)
        try:
            if options.direct:
                stalls = run_suite(options, cluster, cluster.port, results, text)
            else:
                settings = {"pool_mode": mode, "default_pool_size": str(options.pool_size)}
                for line in options.ini:
                    name, _, value = line.partition("=")
                    settings[name.strip()] = value.strip()
                with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                    os.chmod(folder, 0o755)
                    pgthrow.give_to_server_user(folder)
                    pooler = Pooler(options.program, options.pgbouncer, cluster, folder, options.port + 1, settings)
                    with pooler:
                        stalls = run_suite(options, cluster, pooler.port, results, text)
                        if not pooler.running:
                            crashes.append(f"the pooler ended with {pooler.process.returncode}")
                        crashes += [match.group() for match in POOLER_CRASH.finditer(pooler.log())]
                    shutil.copy(pooler.output, results)
        finally:
            shutil.copy(cluster.log_path, os.path.join(results, "server.log"))
        crashes += [match.group() for match in SERVER_CRASH.finditer(cluster.log())]
    if stalls:
        print(f"{stalls} times no test ended for {STALL_SECONDS_MAX} s, and the statements that were waiting were ended")
    return report(label, results, tests, crashes, time.monotonic() - started)


def report(label: str, results: str, tests: list[str], crashes: list[str], seconds: float) -> int:
    """Prints what differs and the counts, also into summary.txt; the exit status."""
    passed = outcomes(results, tests)
    failed = [test for test in tests if not passed[test]]
    first_lines = differences(results)
    lines = []
    for test in failed:
        lines += [test, *(f"    {line}" for line in first_lines.get(test, ["(no output to compare)"])), ""]
    lines += [f"crash: {line}" for line in crashes[:20]]
    lines += [f"{label}: {len(tests) - len(failed)} of {len(tests)} tests passed in {seconds:.0f} s"]
    if failed:
        lines += [f"failed: {' '.join(failed)}", f"all differences: {results}/regression.diffs"]
    summary = "\n".join(lines)
    with open(os.path.join(results, "summary.txt"), "w", encoding="utf-8") as file:
        file.write(summary + "\n")
    print(summary)
    if crashes:
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
