use super::*;
use crate::called;
use crate::harmless_calls::surely_harmless;

/// Guards against functions that the catalog does not know, because their names contain known ones.
#[test]
fn a_name_that_only_contains_a_known_one_is_another_routine() {
    for text in [
        "select app_set_config('a', 'b')",
        "select my_nextval_of(1)",
        "select app.set_config('a', 'b', false)",
    ] {
        assert!(crate::effects(text.as_bytes()).contains(Effects::ROUTINES), "{text}");
        assert_eq!(called(text.as_bytes()).len(), 1, "{text}");
    }
    for text in [
        "select set_config('a', 'b', false)",
        "select pg_catalog.nextval('s')",
        "select \"pg_advisory_lock\"(1)",
    ] {
        assert!(!crate::effects(text.as_bytes()).contains(Effects::ROUTINES), "{text}");
    }
}

/// Guards against routines of the database that a key word hides, because the grammar has words before parentheses.
#[test]
fn a_key_word_that_the_grammar_has_before_no_parenthesis_is_a_routine() {
    for text in [
        "select validate('a', 'b')",
        "select a from t where Search (a)",
        "select 1 + last(a), is(1)",
        "select sum(a) over (partition by list (a)) from t",
    ] {
        assert!(!surely_harmless(text.as_bytes()), "{text}");
        assert!(crate::effects(text.as_bytes()).contains(Effects::ROUTINES), "{text}");
    }
    for text in [
        "insert into source (a) select a from target as data (a)",
        "with last (a) as (select 1), data (a) as (select 2) select * from last, data",
        "merge into target using source on (a = b) when not matched then insert (a) values (1)",
        "select a from t group by rollup (a), cube (b), grouping sets ((a)) fetch first (1) rows only",
        "create table t (a int) partition by list (a)",
        "create table t partition of p for values in (1) partition by hash (a, b)",
        "create table t of row_type (primary key (a), b with options default 1)",
        "select sum(a) filter (where b) over (partition by c range between (1) preceding and (2) following) from t",
        "select a like (b) escape (c), a at time zone (b), row(1) overlaps (1, 2), interval '1' second (3)",
        "create table t (a int generated always as identity (start 1), primary key (a) include (b)) inherits (u)",
        "create type e as enum ('a')",
        "grant insert (a), update (a) on t to u",
        "copy t from stdin (format csv)",
        "explain verbose (select 1)",
        "alter table t set (fillfactor = 10), reset (fillfactor), alter a add generated always as identity (start 1)",
        "select left(a, 1), format('x'), replace(a, b, c), version(), text(a), name(a)",
    ] {
        assert_eq!(of(text), Effects::NONE, "{text}");
    }
}
use proptest::prelude::*;

fn of(text: &str) -> Effects {
    effects(text.as_bytes(), false)
}

#[test]
fn what_calls_only_what_is_harmless_has_no_effects() {
    for text in [
        "select count(*), max(a), coalesce(b, now()) from t where a in (1, 2)",
        "insert into pgbench_history (tid, bid) values (1, 2)",
        "INSERT INTO \"public\".\"t\" (\"a\") VALUES (1)",
        "with a (b, c) as (select 1, 2), d(e) as materialized (select 3) select b from a, d",
        "with recursive r(n) as (values (1) union all select n + 1 from r) table r",
        "select * from generate_series(1, 3) with ordinality t(a, b)",
        "select * from (values (1)) v(a), unnest(array[1]) as w (b), pg_catalog.abs(1) x(c)",
        "create table t (a numeric(10, 2), b geometry(point), check (length(a) > 1))",
        "create index on t using hnsw (a vector_ops)",
        "create index i on s.t (lower(a))",
        "create text search configuration c (parser = pg_catalog.default)",
        "create text search dictionary s.d (template = simple, stopwords = english)",
        "alter text search dictionary d (accept)",
        "create text search parser p (start = prsd_start, gettoken = prsd_nexttoken)",
        "create text search template t (init = dsimple_init, lexize = dsimple_lexize)",
        "select a::geometry(point, 4326), cast(a as halfvec(3))",
        "select 'foo(1)', $$bar(2)$$ /* baz(3) */ -- qux(4)",
        "create function f(a int) returns int language sql as 'select 1'",
        "alter table t add foreign key (a) references u (b)",
        "copy t (a, b) from stdin",
        "insert into t values (1) on conflict (a) do update set (a, b) = (1, 2)",
        "select sum(a) filter (where b) over (partition by c), extract(year from d), trim(both from e)",
        "select (select 1), (a).b, a[(1)], -(1), not (a and (b or (c)))",
        "select \"count\"(*), information_schema._pg_expandarray(a)",
    ] {
        assert_eq!(of(text), Effects::NONE, "{text}");
    }
}

/// Guards against a call that was taken for the list of columns after INTO.
#[test]
fn an_into_in_a_dollar_quoted_string_is_none() {
    for text in ["$a$)into $a$query_to_xml(", "select $$ into $$query_to_xml('')"] {
        assert!(!surely_harmless(text.as_bytes()), "{text}");
        assert!(of(text).intersects(Effects::CODE), "{text}");
    }
}

#[test]
fn what_is_no_plain_name_behind_into_is_looked_at() {
    for text in [
        "into .query_to_xmlselect (",
        "into 1f(",
        "into s.1f(",
        "into \"query_to_xml\"(",
    ] {
        assert!(!surely_harmless(text.as_bytes()), "{text}");
    }
    assert!(surely_harmless(b"insert into s.t ("));
}

#[test]
fn what_nobody_has_reviewed_is_not_harmless() {
    for text in [
        "select f(1)",
        "select s.count(1)",
        "select \"COUNT\"(1)",
        "select * from a, lateral g(a)",
        "select 1 from t join f(1) on g(2)",
        "select a, f(b) as x from t",
        "select * from a, crosstab('x') as (a int)",
        "delete from t using f(1)",
        "perform f(1)",
        "select f /* */ -- x\n (1)",
        "select case when f(1) then 2 end",
    ] {
        assert_eq!(of(text), Effects::ROUTINES, "{text}");
    }
    for text in [
        "select query_to_xml('select 1', true, true, '')",
        "select pg_catalog.\"ts_stat\" ('select 1')",
        "select public.ts_rewrite('a', 'select 1')",
        "insert into table_to_xml (a) values (1)",
        "select u&\"\\0061bs\"(1)",
        "select ('select 1').ts_stat",
        "select * from (values ('select 1')) t(a), lateral (select (a) . /* x */ \"ts_stat\") s",
        "select (array['select 1'])[1].TS_STAT",
        "select $1.ts_stat",
        "select ('t'::regclass).gin_clean_pending_list",
        "select ('t'::regclass).brin_summarize_new_values",
        "select (a).u&\"ts_st\\0061t\" from t",
    ] {
        assert!(of(text).contains(UNREAD), "{text}");
    }
}

#[test]
fn the_quick_look_knows_the_statements_that_are_sent_most() {
    for text in [
        "insert into pgbench_history (tid, bid) values (1, current_timestamp)",
        "INSERT INTO \"public\".\"t\" (\"a\") VALUES ('a'), ('b')",
        "insert into s.t(a) values (1)",
        "select count(*) from t where a in (1, 2)\n and (b = 1)",
        "select lower(a) from t where exists (select 1)",
    ] {
        assert!(surely_harmless(text.as_bytes()), "{text}");
    }
    for text in [
        "select f(1)",
        "select \"f\"(1)",
        "select s.abs(1)",
        "select s . abs (1)",
        "select query_to_xml -- abs\n(1)",
        "select query_to_xml/* */(1)",
        "select query_to_xml\x0b(1)",
        "-- insert into\n\"f\" (1)",
        "select a into\n\"f\"(1) -- x",
        "select app.--x\nabs(1)",
    ] {
        assert!(!surely_harmless(text.as_bytes()), "{text}");
    }
}

#[test]
fn routines_are_named_as_the_catalog_holds_them() {
    let named = called(b"select F(1), s.\"G\"(2), abs(3), f (4)");
    assert_eq!(named, [b"f"[..].into(), b"G"[..].into()].into());
}

/// White space, comments and quotes, wherever a call may contain them.
fn between() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\t ",
        "/* abs */",
        " -- abs\n",
        "/* ( */ ",
        "/* /* */ */",
        "\r\n",
    ])
    .prop_map(String::from)
}

proptest! {
    /// If a call is missed, its session state is lost.
    #[test]
    fn no_call_slips_through(
        front in prop::sample::select(vec![
            "select ", "select abs(1), ", "insert into t (a) values (", "select 'x(' || ", "select 1 + ",
            "/* ( */ select ", "select \"a b\", ", "select $a$ ' $a$, ", "select e'\\'', ",
        ]),
        schema in prop::sample::select(vec!["", "public", "\"Odd one\"", "pg_catalog", "PG_CATALOG", "\"pg_catalog\""]),
        name in prop::sample::select(vec!["query_to_xml", "ts_stat", "\"query_to_xml\"", "Schema_To_Xml", "set_tenant", "\"F\""]),
        (one, two, three) in (between(), between(), between()),
    ) {
        let schema = if schema.is_empty() { String::new() } else { format!("{schema}{one}.{two}") };
        let text = format!("{front}{schema}{name}{three}(1)");
        prop_assert!(!surely_harmless(text.as_bytes()), "{}", text);
        prop_assert!(of(&text).intersects(UNREAD | Effects::ROUTINES), "{}", text);
    }

    /// The quick look finds nothing harmless that the full reading does not.
    #[test]
    fn the_quick_look_lets_nothing_through(text in "(select |into |f|abs|\\(|\\)|\"|'| |\n|--|/\\*|\\*/|\\.|,|1|query_to_xml|\\$a\\$){0,16}") {
        if surely_harmless(text.as_bytes()) {
            prop_assert_eq!(of(&text), Effects::NONE, "{}", text);
        }
    }
}

/// Guards against functions that the catalog does not know, and that are called where an alias or a table could stand.
#[test]
fn a_call_behind_a_parenthesis_or_on_is_no_name() {
    for text in [
        "select distinct on (a) f(a) from t",
        "select distinct on (1 operator(s.+) (2)) s.f(a) from t",
        "select 1 operator(pg_catalog.+) f(2)",
        "select 1 operator /* ( */ (pg_catalog.+) -- )\n f (2)",
        "insert into t values (1) returning with (old as o, new as n) f(1)",
        "create table x as select * from t join u on f(t.a)",
        "create table x as select * from t join u on (true) join v on f(t.a)",
        "create view v as select 1; select * from t join u on f(t.a)",
        "create rule r as on insert to t do instead select * from a join b on f(a.a)",
        "create policy p on t using (exists (select 1 from a join b on f(a.a)))",
        "create statistics s on f(a), b from t",
        "create index on t (f(a))",
        "create index on t (a); select * from t join u on f(t.a)",
        "create table x as merge into t using f(1) on true when matched then do nothing",
        "select a at time zone f(1), b between symmetric f(1) and 2",
    ] {
        assert!(crate::effects(text.as_bytes()).contains(Effects::ROUTINES), "{text}");
        let names = called(text.as_bytes());
        assert!(names.contains(&b"f"[..]), "{text}: {names:?}");
    }
    for text in [
        "select * from (values (1)) v(a) join (select 1) w (b) on (v.a = w.b) cross join unnest(array[1]) x(c)",
        "create unique index concurrently i on t using hnsw (a vector_ops)",
        "begin; create table t (a int); create index on only s.t (a); create index on t using gin (a); commit",
        "create table t (a int, exclude using gist (a with =))",
        "alter table t add exclude using gist (a with operator(s.&&))",
        "create policy p on t using (a > 1) with check (a > 1)",
        "create trigger g after update of a, b on t for each row when (old.a > 1) execute function f(1)",
    ] {
        assert_eq!(called(text.as_bytes()).len(), 0, "{text}");
    }
}
