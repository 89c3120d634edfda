"""What every tool of this folder sets up: arguments, a server with pgbench's tables, the targets."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(CHECKOUT, "tests", "lib"))

import pgthrow  # noqa: E402
import targets  # noqa: E402

# pgweir-plain keeps of a session what PgBouncer keeps: what keeping all of it costs is the difference.
TARGET_NAMES = ("pgweir", "pgweir-plain", "pgbouncer", "relay", "direct")

# Named variants of pgweir, and the line of pgbouncer.ini that makes them. Those that ask after every transaction run only
# when named.
VARIANTS = {
    "pgweir-plain": "session_state = pgbouncer\n",
    "pgweir-flights": "pipeline_depth = auto\n",
    "pgweir-probing": "session_state_probe = always\n",
    "pgweir-probing-locks": "session_state_probe = always_locks\n",
}
KNOWN_TARGETS = (*TARGET_NAMES, *(name for name in VARIANTS if name not in TARGET_NAMES))


def add_arguments(parser: argparse.ArgumentParser, default_only: str) -> None:
    parser.add_argument("--only", default=default_only, metavar="NAMES", help="through what, of: " + ",".join(KNOWN_TARGETS))
    parser.add_argument("--pgweir", metavar="PATH", help="binary to measure (default: target/release/pgweir)")
    parser.add_argument("--pgbouncer", metavar="PATH", help="PgBouncer to compare with (default: fetched, once)")
    parser.add_argument("--scale", type=int, default=20, help="pgbench scale (default: %(default)s)")
    parser.add_argument("--pool-size", type=int, default=targets.POOL_SIZE, help="servers (default: %(default)s)")
    parser.add_argument("--port", type=int, default=54100, help="first of two ports used (default: %(default)s)")


def chosen(names: str, known: tuple[str, ...], what: str) -> list[str]:
    """The comma-separated names, in the order in which they are known."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise SystemExit(f"unknown {what} {name}; known: {', '.join(known)}")
    return [name for name in known if name in wanted]


@contextlib.contextmanager
def set_up(
    arguments: argparse.Namespace, pooler_cpus: set[int] | None = None, other_cpus: set[int] | None = None
) -> Iterator[tuple[pgthrow.Cluster, targets.Bench, list[targets.Target]]]:
    """A server with pgbench's tables, and the targets asked for; all gone afterwards."""
    work_dir = tempfile.mkdtemp(prefix="pgweir-bench-")
    os.chmod(work_dir, 0o755)
    pgthrow.give_to_server_user(work_dir)
    try:
        found = find_targets(arguments, work_dir)
        with pgthrow.Cluster(15, arguments.port, pgthrow.SETTINGS_BENCH) as cluster:
            if other_cpus is not None:
                os.sched_setaffinity(cluster.pid, other_cpus)
            say(f"filling pgbench's tables, scale {arguments.scale}")
            cluster.psql(f"create database {targets.DATABASE}")
            subprocess.run(
                [pgthrow.client_program("pgbench"), "-i", "-q", "-s", str(arguments.scale)]
                + ["-h", cluster.socket_dir, "-p", str(cluster.port), "-U", targets.USER, targets.DATABASE],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            yield cluster, targets.Bench(cluster.port, arguments.port + 1, work_dir, arguments.pool_size, pooler_cpus), found
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def find_targets(arguments: argparse.Namespace, work_dir: str) -> list[targets.Target]:
    found = []
    for name in chosen(arguments.only, KNOWN_TARGETS, "target"):
        if name == "pgweir":
            found.append(targets.pgweir(arguments.pgweir, CHECKOUT, work_dir))
        elif name in VARIANTS:
            found.append(targets.pgweir(arguments.pgweir, CHECKOUT, work_dir, name, VARIANTS[name]))
        elif name == "pgbouncer":
            found.append(targets.pgbouncer(arguments.pgbouncer, CHECKOUT))
        elif name == "relay":
            found.append(targets.relay(work_dir))
        else:
            found.append(targets.direct())
    return found


def run_transactions(running: targets.Running, mode: str, clients: int, transactions: int) -> None:
    """Selects by key, that many transactions for each client. Raises when one fails."""
    command = [pgthrow.client_program("pgbench"), "-n", "-S", "-M", mode, "-c", str(clients), "-t", str(transactions)]
    command += ["-h", targets.HOST, "-p", str(running.port), "-U", targets.USER, targets.DATABASE]
    environment = {**os.environ, "PGSSLMODE": "disable", "PGGSSENCMODE": "disable", "LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    done = f"number of transactions actually processed: {clients * transactions}/{clients * transactions}\n"
    if result.returncode != 0 or done not in result.stdout:
        raise targets.TargetError(f"pgbench through {running.name} failed: {(result.stderr or result.stdout).strip()}")


def tidy(cluster: pgthrow.Cluster) -> None:
    """Removes what writing runs leave behind, so that a later run does not pay for an earlier one."""
    cluster.psql(
        "truncate pgbench_history; vacuum pgbench_branches, pgbench_tellers, pgbench_accounts; checkpoint",
        targets.DATABASE,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(body) -> None:
    """Runs `body`; ends with a message, not a traceback, for what a user can do something about."""
    try:
        sys.exit(body())
    except (targets.TargetError, pgthrow.PgThrowError) as error:
        say(f"bench/{os.path.basename(sys.argv[0])}: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
