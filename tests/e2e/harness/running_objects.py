"""Objects of a database that run code, one of each kind, and the plain statement that makes them do it.

Every one of them runs a function that sets work_mem and takes an advisory lock. No statement names a function.
"""

from __future__ import annotations

from typing import NamedTuple

# `acts` changes the session. What it calls stands for whatever a database's own code may do.
FUNCTIONS = """
create function acts() returns boolean language plpgsql as $$begin
    perform set_config('work_mem', '7MB', false); perform pg_advisory_lock(42); return true; end$$;
create function acts_on(anyelement) returns anyelement language plpgsql immutable as $$begin
    perform public.acts(); return $1; end$$;
create function fires() returns trigger language plpgsql as $$begin perform acts();
    if tg_op = 'DELETE' then return old; end if; return new; end$$;
create function fires_event() returns event_trigger language plpgsql as 'begin perform acts(); end';
grant all on schema public to public;
"""


class Case(NamedTuple):
    """What makes the objects, and the statement that runs them."""

    made_by: str
    text: str
    # Who sends the statement; policies do not apply to the owner.
    user: str = "postgres"
    # Sent before, by another client of the pooler: it must be noticed.
    before: str = ""
    fails: bool = False
    since: int = 15


ON_INSERT = "create trigger tr before insert on {} for each row execute function fires();"
ON_DELETE = "create trigger tr before delete on {} for each row execute function fires();"
ON_UPDATE = "create trigger tr before update on {} for each row execute function fires();"
ON_TRUNCATE = "create trigger tr before truncate on {} for each statement execute function fires();"
EVENT = "create event trigger ev on ddl_command_start execute function fires_event();"
PARENT = "create table parent (a int primary key); insert into parent values (1);"
CHILD = "create table child (b int primary key, a int default 1 references parent {}); insert into child values (1, 1);"
RANGES = """create function difference(float8, float8) returns float8 immutable language plpgsql
    as 'begin perform public.acts(); return $1 - $2; end';
create type r as range (subtype = float8, subtype_diff = difference);
create table t (a r);
"""

FILLED = "insert into t select r(n, n + 1) from generate_series(1, 3000) n"

DOMAIN = "create domain dom as text check (acts());"
DOCS = "create table docs (id int); insert into docs values (1); alter table docs enable row level security;"
RIGHTS = "grant all on all tables in schema public to public;"
ALLOWED = "create view allowed as select 1 as id where acts();"

TRIGGERS = {
    "trigger": Case("create table t (a int);" + ON_INSERT.format("t"), "insert into t values (1)"),
    "trigger, COPY": Case("create table t (a int);" + ON_INSERT.format("t"), "copy t from program 'echo 1'"),
    "trigger, MERGE": Case("create table t (a int);" + ON_INSERT.format("t"),
                           "merge into t using (values (1)) v(a) on t.a = v.a when not matched then insert values (v.a)"),
    "trigger, ON CONFLICT": Case("create table t (a int primary key); insert into t values (1);" + ON_UPDATE.format("t"),
                                 "insert into t values (1) on conflict (a) do update set a = 1"),
    "trigger, WITH": Case("create table t (a int);" + ON_INSERT.format("t"),
                          "with x as (insert into t values (1) returning a) select * from x"),
    "trigger, EXPLAIN": Case("create table t (a int);" + ON_INSERT.format("t"), "explain analyze insert into t values (1)"),
    "condition of a trigger": Case("""create table t (a int);
        create function quiet() returns trigger language plpgsql as 'begin return new; end';
        create trigger tr before insert on t for each row when (acts()) execute function quiet()""",
                                   "insert into t values (1)"),
    "deferred trigger": Case("""create table t (a int); create constraint trigger tr after insert on t
        deferrable initially deferred for each row execute function fires()""", "insert into t values (1)"),
    "INSTEAD OF trigger": Case("""create view v as select 1 as a;
        create trigger tr instead of insert on v for each row execute function fires()""", "insert into v values (1)"),
    "INSTEAD OF trigger of a view below": Case("""create view v as select 1 as a; create view outer_view as table v;
        create trigger tr instead of insert on v for each row execute function fires()""",
                                               "insert into outer_view values (1)"),
    "trigger below a view": Case("create table t (a int); create view v as select a from t;" + ON_INSERT.format("t"),
                                 "insert into v values (1)"),
    "truncate trigger": Case("create table t (a int);" + ON_TRUNCATE.format("t"), "truncate t"),
    "truncate trigger, CASCADE": Case(PARENT + CHILD.format("") + ON_TRUNCATE.format("child"), "truncate parent cascade"),
    "truncate trigger, two steps": Case(
        PARENT + CHILD.format("") + "create table grandchild (b int references child);" + ON_TRUNCATE.format("grandchild"),
        "truncate parent cascade"),
    "truncate trigger of a partition": Case(
        PARENT + "create table child (a int references parent) partition by list (a);"
        "create table leaf partition of child for values in (1);" + ON_TRUNCATE.format("leaf"), "truncate parent cascade"),
}

FOREIGN_KEYS = {
    f"foreign key {action}": Case(PARENT + CHILD.format(action) + trigger.format("child"), text)
    for action, trigger, text in [
        ("on delete cascade", ON_DELETE, "delete from parent"),
        ("on delete set null", ON_UPDATE, "delete from parent"),
        ("on update cascade", ON_UPDATE, "update parent set a = 2"),
        ("on update set null", ON_UPDATE, "update parent set a = 2"),
    ]
} | {
    "foreign key, default of the referencing table": Case(
        PARENT + "create function one() returns int language plpgsql as 'begin perform acts(); return 2; end';"
        "create table child (a int default one() references parent on delete set default);"
        "insert into parent values (2); insert into child values (1);", "delete from parent where a = 1"),
    "foreign key to a partition": Case(
        "create table parent (a int primary key) partition by list (a); create table leaf partition of parent for values in (1);"
        "insert into parent values (1);" + CHILD.format("on delete cascade") + ON_DELETE.format("child"), "delete from leaf"),
}

PARTITIONS = {
    "trigger of a partition": Case("""create table t (a int) partition by list (a);
        create table leaf partition of t for values in (1);""" + ON_INSERT.format("leaf"), "insert into t values (1)"),
    "trigger of a partition, moved row": Case("""create table t (a int) partition by list (a);
        create table one partition of t for values in (1); create table two partition of t for values in (2);
        insert into t values (1);""" + ON_INSERT.format("two"), "update t set a = 2"),
    "trigger of a partition of a partition": Case("""create table t (a int) partition by list (a);
        create table mid partition of t for values in (1) partition by list (a);
        create table leaf partition of mid for values in (1);""" + ON_INSERT.format("leaf"), "insert into t values (1)"),
    "trigger of a partitioned table": Case("create table t (a int) partition by list (a);"
                                           "create table leaf partition of t for values in (1);" + ON_INSERT.format("t"),
                                           "insert into leaf values (1)"),
    "partition key": Case("create table t (a int) partition by list (acts_on(a));"
                          "create table leaf partition of t for values in (1);", "insert into leaf values (1)"),
    "domain in a partition key": Case(DOMAIN + "create table t (a text) partition by list ((a::dom));"
                                      "create table leaf partition of t for values in ('x');", "insert into t values ('x')"),
    "domain in a partition key, partition": Case(
        DOMAIN + "create table t (a text) partition by list ((a::dom));"
        "create table leaf partition of t for values in ('x');", "insert into leaf values ('x')"),
    "domain in a partition key two levels above": Case(
        DOMAIN + "create table t (a text) partition by list ((a::dom));"
        "create table mid partition of t for values in ('x') partition by list (a);"
        "create table leaf partition of mid for values in ('x');", "insert into leaf values ('x')"),
    "child of a table": Case("create table t (a int); create table kid () inherits (t); insert into kid values (1);"
                             + ON_UPDATE.format("kid"), "update t set a = 2"),
    "domain in a partition key, ATTACH": Case(
        DOMAIN + "create table t (a text) partition by list ((a::dom)); create table loose as select 'x'::text as a;",
        "alter table t attach partition loose for values in ('x')"),
}

POLICIES = {
    "policy": Case(DOCS + "create policy p on docs using (acts());" + RIGHTS, "select * from docs", "alice"),
    "policy that reads a view": Case(
        ALLOWED + DOCS + "create policy p on docs using (id in (select id from allowed));" + RIGHTS,
        "select * from docs", "alice"),
    "policy that reads a view, to write": Case(
        ALLOWED + DOCS + "create policy p on docs for insert with check (id in (select id from allowed));" + RIGHTS,
        "insert into docs values (1)", "alice"),
    "policy that reads a table with a policy": Case(
        "create table rights (id int); insert into rights values (1); alter table rights enable row level security;"
        "create policy q on rights using (acts());" + DOCS +
        "create policy p on docs using (id in (select id from rights));" + RIGHTS, "select * from docs", "alice"),
    "policy that reads a view, below a view": Case(
        ALLOWED + DOCS + "create policy p on docs using (id in (select id from allowed));"
        "create view shown with (security_invoker) as select * from docs;" + RIGHTS, "select * from shown", "alice"),
}

EXPRESSIONS = {
    "default": Case("create table t (a boolean default acts(), b int)", "insert into t (b) values (1)"),
    "default of a view's column": Case("create table t (a boolean, b int); create view v as select * from t;"
                                       "alter view v alter a set default acts()", "insert into v (b) values (1)"),
    "default of a domain": Case("create domain d as boolean default acts(); create table t (a d, b int)",
                                "insert into t (b) values (1)"),
    "generated column": Case("create table t (a int, b int generated always as (acts_on(a)) stored)",
                             "insert into t values (1)"),
    "check": Case("create table t (a int check (acts()))", "insert into t values (1)"),
    "check of a parent": Case("create table t (a int check (acts())); create table kid () inherits (t)",
                              "insert into kid values (1)"),
    "index": Case("create table t (a int); create index on t (acts_on(a))", "insert into t values (1)"),
    "predicate of an index": Case("create table t (a int); create index on t (a) where acts_on(a) > 0",
                                  "insert into t values (1)"),
    "view": Case("create view v as select acts()", "select * from v"),
    "security barrier view": Case("create view v with (security_barrier) as select 1 where acts()", "select * from v"),
    "materialized view": Case("create materialized view v as select acts() with no data", "refresh materialized view v"),
    "materialized view of a view": Case("create view v as select acts(); create materialized view m as table v with no data",
                                        "refresh materialized view m"),
    "check option": Case("create table t (a int); create view v as select a from t where acts_on(a) = a with check option",
                         "insert into v values (1)"),
    "rule": Case("create table t (a int); create rule r as on insert to t do also select acts()", "insert into t values (1)"),
    "condition of a rule": Case("create table t (a int); create rule r as on insert to t where acts() do instead nothing",
                                "insert into t values (1)"),
    "rule that writes": Case("create table t (a int); create table log (a int);" + ON_INSERT.format("log")
                             + "create rule r as on update to t do instead insert into log values (1); insert into t values (1)",
                             "update t set a = 2"),
    "default of an argument": Case("create function f(a boolean default acts()) returns int language plpgsql "
                                   "as 'begin return 1; end'", "select f()"),
    "aggregate": Case("create function adds(int, int) returns int language plpgsql as 'begin perform acts(); return 1; end';"
                      "create aggregate agg(int) (sfunc = adds, stype = int); create view v as select agg(1)", "table v"),
    "SQL body that reads a view": Case(ALLOWED + "create function f() returns int begin atomic; select id from allowed; end",
                                       "select f()"),
    "set-returning function in a view": Case(
        "create function many() returns setof int language plpgsql as 'begin perform acts(); return next 1; end';"
        "create view v as select * from many()", "select * from v"),
}

TYPES = {
    "domain": Case(DOMAIN + "create table t (a dom)", "insert into t values ('x')"),
    "domain over an array": Case(DOMAIN + "create domain many as dom[]; create table t (a many)",
                                 "insert into t values ('{x}')"),
    "range over a domain": Case("create domain d as int check (acts()); create type r as range (subtype = d);"
                                "create table t (a r)", "insert into t values ('[1,2]')"),
    "multirange over a domain": Case("create domain d as int check (acts());"
                                     "create type r as range (subtype = d, multirange_type_name = mr);"
                                     "create table t (a mr)", "insert into t values ('{[1,2]}')"),
    "row of a table": Case(DOMAIN + "create table inner_table (a dom); create table t (a inner_table)",
                           "insert into t values ('(x)')"),
    "typed table": Case(DOMAIN + "create type pair as (a dom); create table t of pair", "insert into t values ('x')"),
    "difference of a range type": Case(
        RANGES + "create index on t using gist (a)", "insert into t select r(n, n + 1) from generate_series(1, 3000) n"),
    "domain of a parameter": Case(DOMAIN, "select $1::text"),
}

NAMELESS = {
    "operator": Case("create function same(int, text) returns boolean language plpgsql as 'begin return acts(); end';"
                     "create operator === (leftarg = int, rightarg = text, function = same)", "select 1 === 'x'::text"),
    "operator on a domain": Case(
        DOMAIN + "create function same(int, dom) returns boolean language plpgsql as 'begin return true; end';"
        "create operator === (leftarg = int, rightarg = dom, function = same)", "select 1 === 'x'"),
    "cast": Case("create type pair as (a int); create function to_int(pair) returns int language plpgsql "
                 "as 'begin perform acts(); return 1; end'; create cast (pair as int) with function to_int(pair) as assignment;"
                 "create table t (a int)", "insert into t select row(1)::pair"),
    "operator class": Case(
        """create function compares(int, int) returns int immutable language plpgsql
            as 'begin perform acts(); return case when $1 < $2 then -1 when $1 > $2 then 1 else 0 end; end';
        create operator class odd for type int using btree as operator 1 <, operator 2 <=, operator 3 =, operator 4 >=,
            operator 5 >, function 1 compares(int, int);
        create table t (a int); create index on t (a odd)""", "insert into t values (1), (2)"),
    "hash partition": Case(
        """create function hashes(int, bigint) returns bigint immutable language plpgsql
            as 'begin perform acts(); return $1; end';
        create operator class odd for type int using hash as operator 1 =, function 2 hashes(int, bigint);
        create table t (a int) partition by hash (a odd);
        create table leaf partition of t for values with (modulus 1, remainder 0)""", "insert into t values (1)"),
    "validator of a foreign-data wrapper": Case(
        """create function validates(text[], oid) returns void language plpgsql as 'begin perform acts(); end';
        create foreign data wrapper w validator validates""", "create server s foreign data wrapper w"),
    "validator of a language": Case(
        """create function validates(oid) returns void language plpgsql as 'begin perform acts(); end';
        create language other handler plpgsql_call_handler validator validates""",
        "create function f() returns int language other as 'begin return 1; end'"),
}

MAINTENANCE = {
    "ANALYZE": Case("create table t (a int); create index on t (acts_on(a)); insert into t values (1)", "analyze"),
    "VACUUM FULL": Case("create table t (a int); create index on t (acts_on(a)); insert into t values (1)", "vacuum full"),
    "CLUSTER": Case("create table t (a int); create index i on t (acts_on(a)); insert into t values (1); cluster t using i",
                    "cluster"),
    "REINDEX": Case("create table t (a int); create index i on t (acts_on(a)); insert into t values (1)", "reindex index i"),
    "change of a row type": Case(
        "create type pair as (a int, b int); create table t of pair; create index on t (acts_on(b)); insert into t values (1, 1)",
        "alter type pair alter attribute a type bigint cascade"),
    "check of an index": Case("create extension amcheck; create table t (a int); create index i on t (acts_on(a));"
                              "insert into t values (1)", "select bt_index_check('i', true)"),
    "summary of an index": Case("create table t (a int); create index i on t using brin (acts_on(a)); insert into t values (1);",
                                "select brin_desummarize_range('i', 0), brin_summarize_range('i', 0)"),
    "difference of ranges, ANALYZE": Case(RANGES + FILLED, "analyze"),
    "difference of ranges in a domain, ANALYZE": Case(
        RANGES + "create domain rd as r; create table t2 (a rd); insert into t2 select r(n, n + 1) from generate_series(1, 99) n",
        "analyze"),
    "difference of ranges, VACUUM FULL": Case(RANGES + "create index on t using gist (a);" + FILLED, "vacuum full"),
    "difference of ranges, REINDEX": Case(RANGES + "create index on t using gist (a);" + FILLED, "reindex schema public"),
}

EVENTS = {
    f"event trigger, {text}": Case("create table t (a int); create materialized view mv as select 1;"
                                   "create role other_role;" + EVENT, text, fails=fails, since=since)
    for text, fails, since in [
        ("comment on table t is 'x'", False, 15), ("grant select on t to public", False, 15),
        ("revoke select on t from public", False, 15), ("alter table t add b int", False, 15),
        ("alter default privileges grant select on tables to public", False, 15), ("drop table t", False, 15),
        ("drop owned by other_role", False, 15),
        ("create table t2 (a int)", False, 15), ("create table t2 as select 1", False, 15),
        ("refresh materialized view mv", False, 15), ("security label on table t is 'x'", True, 15),
        ("import foreign schema x from server y into public", True, 15),
        ("reindex table t", False, 17), ("select 1 as a into t2", False, 15),
        ("select 1 as a -- x\ninto unlogged t2", False, 15),
    ]
}

# What is made through the pooler without naming code: it must be noticed before the next statement.
MADE = {
    "partition made later": Case("create table t (a int) partition by list (a);" + ON_INSERT.format("t"),
                                 "insert into leaf values (1)", before="create table leaf partition of t for values in (1)"),
    "partition attached later": Case("create table t (a int) partition by list (a); create table leaf (a int);"
                                     + ON_INSERT.format("t"), "insert into leaf values (1)",
                                     before="alter table t attach partition leaf for values in (1)"),
    "child made later": Case("create table t (a int); create table kid (a int); insert into kid values (1);"
                             + ON_UPDATE.format("kid"), "update t set a = 2", before="alter table kid inherit t"),
    "foreign key made later": Case(
        PARENT + "create table child (a int); insert into child values (1);" + ON_DELETE.format("child"),
        "delete from parent", before="alter table child add foreign key (a) references parent on delete cascade"),
    "column with a foreign key made later": Case(
        PARENT + "create table child (b int);" + ON_DELETE.format("child"), "delete from parent",
        before="alter table child add column a int default 1 references parent on delete cascade; insert into child (b) values (1)"),
    "table renamed later": Case("create table t (a int);" + ON_INSERT.format("t"), "insert into renamed values (1)",
                                before="alter table t rename to renamed"),
    "view made later": Case("create table t (a int);" + ON_INSERT.format("t"), "insert into v values (1)",
                            before="create view v as select * from t"),
    "copy of a table made later": Case("create table t (a boolean default acts(), b int);", "insert into copied (b) values (1)",
                                       before="create table copied (like t including all)"),
    "foreign key and truncate trigger made later": Case(
        PARENT + "create table child (a int);" + ON_TRUNCATE.format("child"), "truncate parent cascade",
        before="alter table child add foreign key (a) references parent"),
}

CASES = {**TRIGGERS, **FOREIGN_KEYS, **PARTITIONS, **POLICIES, **EXPRESSIONS, **TYPES, **NAMELESS, **MAINTENANCE, **EVENTS,
         **MADE}
