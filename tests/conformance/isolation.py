"""What PostgreSQL's isolation suite needs to run through a pooler.

`isolationtester` asks the server whether one of its sessions waits for another, by the process ids that the sessions were
told when they logged in. Through a pooler those are not the ids of server processes. Each session tells its name in
application_name, so the question is translated: the function that answers it is given another name, and in its place comes
one that finds the processes by the names. Directly, nothing is translated.
"""

from __future__ import annotations

import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import pgthrow  # noqa: E402

DATABASE = "isolation_regression"

# How long a step may take before isolationtester cancels it, in seconds; its own 300 are for slow machines.
STEP_SECONDS_MAX = 40

# A session's process is the one that is at work under its name; the processes that may stand in its way are all that have a
# name of this test, at work or kept for one of its sessions. Names are cut at 63 bytes, as the server cuts them.
TRANSLATION = """
create schema conformance;
create table conformance.session (spec text, number int, name text);
alter function pg_catalog.pg_isolation_test_session_is_blocked(int, int[]) rename to isolation_test_process_is_blocked;
create function pg_catalog.pg_isolation_test_session_is_blocked(login int, logins int[]) returns bool
language plpgsql set search_path = pg_catalog as $$
declare
    test text := regexp_replace(current_setting('application_name'), '/[^/]*$', '') || '/';
    session_name text := (
        select name from conformance.session where spec = split_part(test, '/', 2)
        and number = array_position(logins, login)
    );
    processes int[] := array(
        select pid from pg_stat_get_activity(null) where starts_with(application_name, test)
        and application_name <> current_setting('application_name')
    );
begin
    return exists (
        select from pg_stat_get_activity(null) where application_name = left(test || session_name, 63) and state = 'active'
        and isolation_test_process_is_blocked(pid, processes)
    );
end $$;
"""


def prepare(cluster: pgthrow.Cluster, suite: str, translated: bool) -> None:
    """What `pg_isolation_regress` finds in its database; with `translated`, the question above works through a pooler."""
    if not translated:
        return
    rows = []
    for path in sorted(glob.glob(os.path.join(suite, "specs", "*.spec"))):
        spec = os.path.basename(path).removesuffix(".spec")
        with open(path, encoding="utf-8") as file:
            names = re.findall(r'^session\s+"?(\w+)"?', file.read(), re.M)
        rows += [f"('{spec}', {number}, '{name}')" for number, name in enumerate(names, 1)]
    cluster.psql(TRANSLATION + f"insert into conformance.session values {', '.join(rows)};", DATABASE)
