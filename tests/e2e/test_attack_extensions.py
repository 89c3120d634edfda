"""Attacks by functions in C of extensions: what no reading can show must be reviewed, or counts as code that is not read."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from harness import wire
from harness.attacks import database, looks_fresh, next_one_finds, one_server
from harness.pooler import kind

pytestmark = pytest.mark.skipif(kind() != "pgweir", reason="other poolers do not keep sessions")

LEAKS = """
create function ax_leaks() returns int language plpgsql as
    $$begin perform set_config('ax' || '.x', 'attacker', false); perform setseed(0.5); return 1; end$$;
create function ax_fires() returns trigger language plpgsql as $$begin perform ax_leaks(); return old; end$$;
create extension refint;
create view ax_key as select ax_leaks() as k;
create table ax_refers (a int);
create trigger ax_checks after insert on ax_refers for each row execute function check_primary_key('a', 'ax_key', 'k');
create table ax_referred (k int);
create table ax_child (a int);
insert into ax_referred values (1);
insert into ax_child values (1);
create trigger ax_cascades after delete on ax_referred for each row
    execute function check_foreign_key(1, 'cascade', 'k', 'ax_child', 'a');
create trigger ax_fired before delete on ax_child for each row execute function ax_fires();
"""

CUSTOM = {"select coalesce(current_setting('ax.x', true), '')": ""}


def reviewed():
    """The extensions whose functions in C are known to do only what their names say."""
    source = Path(__file__).parents[2] / "crates/core/src/statements/catalog_query.rs"
    listed = re.search(r"max\(x\.extname::pg_catalog\.text\) IN \((.*?)\) THEN 4", source.read_text(encoding="utf-8"), re.S)
    return re.findall(r"'([\w-]+)'", listed.group(1))


@pytest.mark.parametrize("text", ["insert into ax_refers values (1)", "delete from ax_referred"])
def test_triggers_of_refint_run_sql(pg, make_pooler, text):
    with database(pg, "ax", LEAKS):
        pooler = one_server(make_pooler, pg)

        def client():
            return pooler.connect(user="postgres", database="ax")

        with client() as c:
            c.query("select 1")
        time.sleep(0.6)
        with client() as attacker:
            error = wire.first_error(attacker.query(text))
            assert not error, error and error.fields
            with client() as victim:
                looks_fresh(victim, CUSTOM)
            assert attacker.value(next(iter(CUSTOM))) == "attacker", "the attack needs its effect"
        next_one_finds(client, CUSTOM)


# Reviewed extensions that run SQL: which of their functions do, by their names in C, is in the catalog query.
RUN_SQL = {"dblink", "tablefunc", "xml2"}


def test_no_reviewed_extension_runs_sql_unnoticed(pg):
    """Guards against an extension that runs SQL and is on the list because nobody has looked: its library asks the server for
    the functions that run SQL."""
    with database(pg, "ax", ""):
        available = pg.psql("select name from pg_available_extensions", "ax").split()
        found = set()
        for name in sorted({"refint", *reviewed()} & set(available)):
            pg.psql(f'create extension if not exists "{name}" cascade', "ax")
            libraries = pg.psql(f"""select distinct replace(p.probin, '$libdir', (select setting from pg_config where name = 'PKGLIBDIR'))
                || '.so' from pg_proc p join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
                join pg_extension e on e.oid = d.refobjid where e.extname = '{name}' and p.probin is not null""", "ax").split()
            if any(b"SPI_connect" in Path(library).read_bytes() for library in libraries):
                found.add(name)
    assert "refint" in found, "the test needs its effect"
    assert "refint" not in reviewed()
    assert found - {"refint"} <= RUN_SQL, found
