"""psql (libpq) through pgweir: meta-commands, \\copy, \\gdesc, large objects, Ctrl-C."""

import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

from pgthrow import client_program  # noqa: E402
from report import SESSIONS, TRANSACTIONS, Report  # noqa: E402

PSQL = [client_program("psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]
TABLE = f"psql_driver_{os.getpid()}"
FOLDER = tempfile.TemporaryDirectory()


def psql(script, *arguments, status=0):
    result = subprocess.run([*PSQL, *arguments], input=script, capture_output=True, text=True, timeout=60)
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    return result.stdout if status == 0 else result.stderr


def path(name):
    return os.path.join(FOLDER.name, name)


def one_command():
    assert psql("", "-c", "select 1") == "1\n"
    assert psql("", "-c", "select 1", "-c", "select 2") == "1\n2\n"


def several_statements_in_one_query():
    assert psql("", "-c", "select 1; select 2") in ("1\n2\n", "2\n")


def meta_commands():
    assert TABLE in psql("\\dt\n")
    assert "integer" in psql(f"\\d {TABLE}\n")
    assert "alice" in psql("\\du\n")
    assert psql("\\echo :SERVER_VERSION_NUM\n").strip().isdigit()


def gdesc():
    assert psql("select 1 as a, 'x'::text as b \\gdesc\n") == "a|integer\nb|text\n"
    assert psql("select 1 as a \\gdesc\nselect 2;\n") == "a|integer\n2\n"


def gexec():
    assert psql("select format('select %s', i) from generate_series(1, 3) i \\gexec\n") == "1\n2\n3\n"


def copy_in_and_out():
    with open(path("in"), "w") as file:
        file.writelines(f"{i}\trow {i}\n" for i in range(20000))
    psql(f"truncate {TABLE};\n\\copy {TABLE} from '{path('in')}'\n")
    assert psql(f"select count(*), sum(a) from {TABLE}") == "20000|199990000\n"
    psql(f"\\copy (select * from {TABLE} order by a) to '{path('out')}'\n")
    with open(path("in")) as given, open(path("out")) as got:
        assert given.read() == got.read()
    assert (
        psql(f"truncate {TABLE}; copy {TABLE} from stdin;\n1\tx\n2\ty\n\\.\nselect count(*) from {TABLE};\n") == "2\n"
    )


def copy_error():
    error = psql(f"\\copy {TABLE} from stdin\nnot a number\tx\n\\.\n", status=3)
    assert "invalid input syntax" in error


def error_messages():
    error = psql("select nonsense from nowhere;\n", "-v", "VERBOSITY=verbose", status=3)
    assert "42P01" in error and "LINE 1" in error
    assert "division by zero" in psql("select 1/0;\n", status=3)


def transactions():
    script = (
        f"begin; insert into {TABLE} values (-1, 'x'); rollback; begin; insert into {TABLE} values (-2, 'x'); commit;"
    )
    psql(script)
    assert psql(f"select a from {TABLE} where a < 0;") == "-2\n"
    psql(f"delete from {TABLE} where a < 0;\n", "--single-transaction")


def on_error_rollback():
    script = "begin;\nselect 1/0;\nselect 'still here';\ncommit;\n"
    out = psql(script, "-v", "ON_ERROR_STOP=0", "-v", "ON_ERROR_ROLLBACK=on")
    assert out == "still here\n"


def fetch_count():
    out = psql("select i from generate_series(1, 1000) i;\n", "-v", "FETCH_COUNT=100")
    assert out.split() == [str(i) for i in range(1, 1001)]


def large_objects():
    with open(path("lo"), "wb") as file:
        file.write(os.urandom(300000))
    oid = psql(f"\\lo_import {path('lo')}\n\\echo :LASTOID\n").split()[-1]
    psql(f"\\lo_export {oid} {path('lo.out')}\n")
    with open(path("lo"), "rb") as given, open(path("lo.out"), "rb") as got:
        assert given.read() == got.read()
    psql(f"\\lo_unlink {oid}\n")


def control_c():
    process = subprocess.Popen(
        [*PSQL, "-c", "select pg_sleep(30)"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.7)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=10)
    assert "canceling statement due to user request" in error, error
    assert time.monotonic() - started < 5


def settings_shown():
    assert psql("show server_version_num;\n").strip().isdigit()
    assert psql("\\encoding\n") == "UTF8\n"
    assert psql("set datestyle to german; select date '2020-02-01';\n") == "01.02.2020\n"


def client_encoding():
    result = subprocess.run(
        [*PSQL, "-c", "select 'ä'"], capture_output=True, env={**os.environ, "PGCLIENTENCODING": "LATIN1"}, timeout=30
    )
    assert result.returncode == 0 and result.stdout == b"\xc3\xa4\n", result
    result = subprocess.run(
        [*PSQL, "-c", "select chr(228)"],
        capture_output=True,
        env={**os.environ, "PGCLIENTENCODING": "LATIN1"},
        timeout=30,
    )
    assert result.returncode == 0 and result.stdout == b"\xe4\n", result


def temporary_table():
    assert psql("create temp table t as select 1 as a; select a from t;\n") == "1\n"


def main():
    report = Report("psql")
    psql(f"create table {TABLE} (a int, b text);")
    report.check("one command", one_command)
    report.check("several statements in one query", several_statements_in_one_query)
    report.check("meta-commands", meta_commands)
    report.check("gdesc", gdesc)
    report.check("gexec", gexec)
    report.check("copy in and out", copy_in_and_out)
    report.check("copy error", copy_error)
    report.check("error messages", error_messages)
    if TRANSACTIONS:
        report.check("transactions", transactions)
        report.check("ON_ERROR_ROLLBACK", on_error_rollback)
        report.check("FETCH_COUNT", fetch_count)
        report.check("large objects", large_objects)
    report.check("Ctrl-C", control_c)
    report.check("settings shown", settings_shown)
    report.check("client encoding", client_encoding)
    if SESSIONS:
        report.check("temporary table", temporary_table)
    psql(f"drop table {TABLE};")
    report.finish()


main()
