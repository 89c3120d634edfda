use super::*;

/// The tests of `read_under` look at [`Effects::READING`], those of `called` at [`Effects::ROUTINES`], and those of
/// `moved_names` at [`Effects::NAMES`].
fn check(language: Language, cases: &[(&str, Effects)]) {
    let others = Effects::READING | Effects::ROUTINES | Effects::NAMES;
    for (body, expected) in cases {
        let found = body_effects(language, body.as_bytes());
        let [found, expected] = [found, *expected].map(|effects| effects.without(others));
        assert_eq!(found, expected, "{body}");
    }
}

#[test]
fn plpgsql_is_read_statement_by_statement() {
    check(
        Language::Plpgsql,
        &[
            ("begin return 1; end", Effects::NONE),
            (
                "declare x int := 1; begin if x = 1 then x := 2; else return; end if; end",
                Effects::NONE,
            ),
            (
                "begin update t set a = 1; insert into t values (1) on conflict do nothing; end",
                Effects::NONE,
            ),
            (
                "begin for r in select 1 loop raise notice 'set x = 1'; end loop; end",
                Effects::NONE,
            ),
            ("begin set work_mem = '1MB'; end", Effects::SETTINGS),
            ("begin set local work_mem = '1MB'; end", Effects::LOCAL),
            (
                "begin if true then set work_mem = '1MB'; end if; end",
                Effects::SETTINGS,
            ),
            ("begin /* */ reset all; end", Effects::SETTINGS | Effects::RESETS),
            (
                "begin <<a>> begin create temp table t (a int); end; end",
                Effects::TEMPORARY,
            ),
            (
                "begin perform set_config('a.b', '1', false); return new; end",
                Effects::SETTINGS,
            ),
            ("begin perform pg_advisory_lock(1); end", Effects::LOCKS),
            ("begin listen x; end", Effects::LISTEN),
            ("begin drop table if exists t; end", Effects::ENDS),
            ("begin execute 'sel' || 'ect 1'; end", calls::UNREAD),
            ("begin return query execute x; end", calls::UNREAD),
            ("begin execute 'listen b'; end", Effects::CODE | Effects::LISTEN),
            ("begin execute 'select f($1)' into x using y; end", Effects::CODE),
            ("begin execute 'set ' || x; end", calls::UNREAD),
            ("begin execute e'\\x73et a.b = 1'; end", calls::UNREAD),
            ("begin execute 'slect 1'; end", calls::UNREAD),
            ("begin x := query_to_xml(y, true, true, ''); end", calls::UNREAD),
            (
                "begin perform set_config('a.' || y, '1', false); end",
                Effects::SETTINGS | Effects::UNTOLD,
            ),
            (
                "begin perform set_config(y, '1', true); end",
                Effects::SETTINGS | Effects::MAY_SEED,
            ),
            (
                "begin perform set_config('a.' || y, '1', true); end",
                Effects::SETTINGS | Effects::MAY_SEED | Effects::READING,
            ),
            (
                "begin perform set_config('Seed', '1', true); end",
                Effects::SETTINGS | Effects::SEED,
            ),
            ("begin set local seed = 0.5; end", Effects::LOCAL | Effects::SEED),
            ("begin perform f(1); x := g(y); end", Effects::NONE),
            ("begin call p(); end", Effects::CODE),
            ("begin select 1 into temp; end", Effects::TEMPORARY),
            ("begin commit; rollback; close c; fetch c into x; end", Effects::NONE),
            ("begin create table p partition of t default; end", Effects::NONE),
            (
                "begin execute format('create view %I', x); end",
                calls::UNREAD | Effects::DEFINES,
            ),
            ("begin raise 'open", calls::UNREAD),
            (
                "begin create table t (a text default query_to_xml('', true, true, '')::text); end",
                calls::UNREAD | Effects::DEFINES,
            ),
            // Under the other reading of backslashes, the first string ends later.
            (
                r"begin perform '\', '; execute ''s'' || x; return 1; --';
                end",
                calls::UNREAD,
            ),
            (
                r"begin perform '\', '; listen a; return 1; --';
                end",
                Effects::LISTEN,
            ),
        ],
    );
    // Guards against a running time that grows with the square of the body's length.
    let body = format!("begin {} end", "then select 1 ".repeat(20_000));
    assert_eq!(body_effects(Language::Plpgsql, body.as_bytes()), calls::UNREAD);
}

#[test]
fn parameters_that_name_settings_are_found() {
    let names: [&[u8]; 2] = [b"name", b"value"];
    for (language, body, passes) in [
        (Language::Sql, "select set_config(name, value, false)", 1),
        (Language::Sql, "select set_config($2, $1, false)", 2),
        (Language::Sql, "select set_config($1, $2, false) from t where k = $1", 1),
        (
            Language::Plpgsql,
            "begin select a into b from t; return set_config(name, value, false); end",
            1,
        ),
        (
            Language::Plpgsql,
            "begin perform set_config(Name, value, false); end",
            1,
        ),
        (
            Language::Plpgsql,
            "begin perform set_config('a.b', value, false); end",
            0,
        ),
    ] {
        let judged = judge_body(language, body.as_bytes(), &names);
        assert_eq!(judged.passes, passes, "{body}");
        assert!(!judged.effects.intersects(Effects::UNTOLD), "{body}");
        assert_eq!(judged.effects.intersects(Effects::PASSES), passes > 0, "{body}");
    }
    for (language, body) in [
        (
            Language::Plpgsql,
            "begin name := 'a.' || name; perform set_config(name, value, false); end",
        ),
        (
            Language::Plpgsql,
            "declare name text; begin perform set_config(name, value, false); end",
        ),
        (
            Language::Plpgsql,
            "declare n alias for $1; begin perform set_config(n, value, false); end",
        ),
        (
            Language::Plpgsql,
            "begin $1 := 'a.' || $1; perform set_config($1, $2, false); end",
        ),
        (
            Language::Plpgsql,
            "begin name := 'a.' || name; perform set_config($1, $2, false); end",
        ),
        (
            Language::Plpgsql,
            "declare n alias for $1; begin n := 'a.b'; perform set_config($1, $2, false); end",
        ),
        (
            Language::Plpgsql,
            "begin select k into $1 from t; perform set_config($1, $2, false); end",
        ),
        (
            Language::Plpgsql,
            "begin execute 'select set_config($1, $2, false)' using 'a' || '.b', name; end",
        ),
        (
            Language::Plpgsql,
            "begin for name in select k from t loop perform set_config($1, '', false); end loop; end",
        ),
        (
            Language::Sql,
            "update t set v = 1 returning set_config(name, value, false)",
        ),
        (
            Language::Sql,
            "insert into t values (1) returning set_config(name, value, false)",
        ),
        (Language::Sql, "delete from t returning set_config(name, value, false)"),
        (Language::Sql, "select set_config($3, $2, false)"),
        (Language::Sql, "select set_config(name, value, false) from t"),
        (Language::Sql, "select set_config('a.' || name, value, false)"),
        (Language::Sql, "select set_config(other, value, false)"),
    ] {
        let judged = judge_body(language, body.as_bytes(), &names);
        assert!(judged.effects.intersects(Effects::UNTOLD), "{body}");
    }
}

#[test]
fn sql_is_read_as_a_text_of_statements() {
    check(
        Language::Sql,
        &[
            ("select 1; select 2", Effects::NONE),
            ("select $1 + set_limit(0.5)", Effects::SETTINGS),
            ("select 1; set work_mem = '1MB'", Effects::SETTINGS),
            ("create temp table t (a int); select 1", Effects::TEMPORARY),
            ("frobnicate x", calls::UNREAD),
        ],
    );
    check(
        Language::SqlStandard,
        &[
            (
                "CREATE OR REPLACE FUNCTION f() RETURNS void BEGIN ATOMIC SELECT set_config('a', 'b', false); END",
                Effects::SETTINGS,
            ),
            ("CREATE OR REPLACE FUNCTION f() RETURNS int RETURN 1", Effects::NONE),
        ],
    );
    check(
        Language::Internal,
        &[
            ("set_config_by_name", Effects::SETTINGS | Effects::UNTOLD),
            ("pg_advisory_lock_int8", Effects::LOCKS),
            ("dsqrt", Effects::NONE),
        ],
    );
}

/// Guards against functions whose effects only their name in SQL shows.
#[test]
fn a_function_in_language_internal_is_known_by_its_name_in_c() {
    let sets = Effects::SETTINGS | Effects::UNTOLD;
    check(
        Language::Internal,
        &[
            ("tsquery_rewrite_query", calls::UNREAD),
            ("tsquery_rewrite", calls::UNREAD),
            ("ts_stat1", calls::UNREAD),
            ("ts_stat2", calls::UNREAD),
            ("query_to_xml_and_xmlschema", calls::UNREAD),
            ("cursor_to_xml", calls::UNREAD),
            ("domain_in", calls::UNREAD),
            ("array_in", calls::UNREAD),
            ("fmgr_sql_validator", calls::UNREAD),
            ("a_function_of_a_later_postgresql", calls::UNREAD),
            ("set_config_by_name", sets),
            (" set_config_by_name ", sets),
            ("setseed", Effects::SEED),
            ("currval_oid", Effects::SEQUENCE),
            ("lastval", Effects::SEQUENCE),
            ("nextval_oid", Effects::DRAWS),
            ("setval3_oid", Effects::DRAWS),
            ("pg_advisory_lock_shared_int4", Effects::LOCKS),
            ("pg_try_advisory_lock_int8", Effects::LOCKS),
            ("pg_advisory_unlock_int8", Effects::LOCKS | Effects::ENDS),
            ("pg_advisory_xact_lock_int8", Effects::NONE),
            ("pg_copy_logical_replication_slot_c", Effects::SERVER_BOUND),
            ("pg_copy_physical_replication_slot_b", Effects::SERVER_BOUND),
            ("pg_prepared_statement", Effects::STATEMENTS),
            ("show_config_by_name", Effects::NONE),
            ("textin", Effects::NONE),
            ("rtrim1", Effects::NONE),
            ("network_show", Effects::NONE),
            ("aggregate_dummy", Effects::NONE),
            ("byteaGetBit", Effects::NONE),
            ("timestamp_zone", Effects::NONE),
        ],
    );
}

/// Guards against a window of bytes that ends before the name of the setting.
#[test]
fn the_name_of_a_setting_that_is_far_behind_its_verb_is_unknown() {
    let far = [" ".repeat(600), format!("/*{}*/", "c".repeat(600))];
    for far in far {
        for body in [
            format!("begin set {far}af.x = 'a'; end"),
            format!("begin set af{far}.x = 'a'; end"),
            format!("begin reset {far}af.x; end"),
            format!("begin set local {far}af.x = 'a'; end"),
            format!("begin perform set_config{far}('a.b', 'c', false); end"),
            format!("begin perform set_config({far}'a.b', 'c', false); end"),
        ] {
            let judged = judge_body(Language::Plpgsql, body.as_bytes(), &[]);
            assert!(judged.effects.contains(Effects::UNTOLD), "{body}");
        }
        let text = format!("select set_config{far}('a' || '.b', 'c', false)");
        assert!(effects(text.as_bytes()).contains(Effects::UNTOLD), "{text}");
        let text = format!("do $$begin set {far}af.x = 'a'; end$$");
        assert!(effects(text.as_bytes()).contains(Effects::UNTOLD), "{text}");
    }
    let near = format!(
        "begin set af.x = 'a'; reset role; update t set a = {}; end",
        "1 + ".repeat(300)
    );
    assert!(
        !judge_body(Language::Plpgsql, near.as_bytes(), &[])
            .effects
            .intersects(Effects::UNTOLD)
    );
}

/// A parameter of another type than text may become another text, or run a cast.
#[test]
fn a_parameter_whose_value_may_change_names_no_setting() {
    for (parameters, body) in [
        (&[b"!".as_slice(), b"value"][..], "select set_config($1, value, false)"),
        (&[b"!", b"value"], "select set_config(name, value, false)"),
        (&[b""], "select set_config($1, 'a', false)"),
    ] {
        let judged = judge_body(Language::Sql, body.as_bytes(), parameters);
        assert!(judged.effects.intersects(Effects::UNTOLD), "{body}");
    }
    let judged = judge_body(
        Language::Plpgsql,
        b"begin perform set_config(sqlerrm, 'a', false); end",
        &[b"sqlerrm"],
    );
    assert!(judged.effects.intersects(Effects::UNTOLD));
    let judged = judge_body(Language::Sql, b"select set_config($1, 'a', false)", &[b"", b""]);
    assert_eq!(judged.passes, 1);
}

/// Guards against a missed SET: the rule of pg_settings calls set_config().
#[test]
fn an_update_of_pg_settings_anywhere_in_a_body_sets() {
    let update = "update pg_settings set setting = v where name = 'work_mem'";
    for (language, body) in [
        (
            Language::SqlStandard,
            format!("create function f() begin atomic {update}; end"),
        ),
        (Language::Sql, format!("with a as ({update}) select 1 from a")),
        (
            Language::Plpgsql,
            format!("begin for r in {update} loop null; end loop; end"),
        ),
        (Language::Plpgsql, format!("begin return query {update}; end")),
    ] {
        assert!(
            judge_body(language, body.as_bytes(), &[])
                .effects
                .contains(Effects::SETTINGS),
            "{body}"
        );
    }
    let asks = b"create function f() begin atomic select setting from pg_settings; end";
    assert_eq!(judge_body(Language::SqlStandard, asks, &[]).effects, Effects::NONE);
}

/// Guards against a function in SQL that runs a prepared statement of its caller, which no text names.
#[test]
fn execute_of_a_prepared_statement_in_a_routine_is_not_read() {
    for (language, body) in [
        (Language::Sql, "execute p; select 1"),
        (Language::Sql, "select 1; EXECUTE p(1)"),
        (Language::Sql, "explain analyze execute p"),
        (Language::Sql, "create table t as execute p"),
        (Language::Sql, "execute function"),
        (Language::Sql, r"select '\', '; execute p; --'"),
        (Language::Plpgsql, "begin create table t as execute p; end"),
        (
            Language::Plpgsql,
            "begin for r in explain analyze execute p loop null; end loop; end",
        ),
    ] {
        let effects = judge_body(language, body.as_bytes(), &[]).effects;
        assert!(effects.contains(calls::UNREAD), "{body}");
    }
    for body in [
        "grant execute on function f() to u",
        "revoke execute on all functions in schema s from public",
        "select executed, 'execute p' from t",
    ] {
        let effects = judge_body(Language::Sql, body.as_bytes(), &[]).effects;
        assert!(!effects.contains(calls::UNREAD), "{body}");
    }
}
