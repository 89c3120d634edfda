//! Objects that run code without being functions, and settings that functions run under.

use super::tests::{catalog, effects};
use super::*;

/// A domain's checks run wherever a value becomes one of the domain, and in types that are made of it.
#[test]
fn what_uses_a_domain_runs_its_checks() {
    let catalog = catalog(&[
        &["r", "1", "with_argument", "0"],
        &["r", "2", "outer_one", "0"],
        &["d", "20", "checked", "2078"],
        &["b", "2078", "set_config", "0"],
        &["g", "1", "", "20"],
        &["c", "10", "casting", "20"],
        &["k", "21", "inner", "20"],
        &["k", "22", "_inner", "21"],
        &["c", "11", "arrays", "22"],
        &["1", "s", "select 1", ""],
        &["2", "s", "select with_argument('x')", ""],
    ]);
    let untold = Effects::SETTINGS | Effects::UNTOLD | Effects::READING;
    for text in [
        "select with_argument('x')",
        "select outer_one()",
        "table casting",
        "insert into arrays values ('{x}')",
        "select 'x'::inner",
    ] {
        assert_eq!(effects(&catalog, text), untold, "{text}");
    }
}

#[test]
fn who_updates_a_view_of_pg_settings_sets_and_who_reads_it_does_not() {
    let catalog = catalog(&[
        &["b", "2078", "set_config", "0"],
        &["t", "12104", "", "2078"],
        &["u", "10", "all_settings", "12104"],
        &["u", "11", "outer_view", "10"],
    ]);
    for view in ["all_settings", "outer_view"] {
        assert_eq!(effects(&catalog, &format!("table {view}")), Effects::NONE);
        let update = format!("update {view} set setting = 1");
        let untold = Effects::SETTINGS | Effects::UNTOLD | Effects::READING;
        assert_eq!(effects(&catalog, &update), untold);
    }
    assert_eq!(effects(&catalog, "update pg_class set a = 1"), Effects::NONE);
}

#[test]
fn maintenance_of_any_table_runs_what_indexes_and_statistics_compute() {
    let catalog = catalog(&[
        &["b", "2882", "pg_try_advisory_lock", "0"],
        &["v", "10", "analyzed", "2882"],
        &["m", "0", "", "10"],
    ]);
    for text in ["analyze", "VACUUM", "reindex database x", "explain select 1; cluster"] {
        assert_eq!(effects(&catalog, text), Effects::LOCKS, "{text}");
    }
    assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
}

/// Guards against code that a text runs without its name: CASCADE reaches tables that the text does not mention.
#[test]
fn truncating_any_table_runs_the_truncate_triggers_of_all() {
    let catalog = catalog(&[
        &["r", "1", "fires", "0"],
        &["t", "10", "child", "1"],
        &["w", "0", "", "1"],
        &["1", "p", "begin perform pg_advisory_lock(1); return null; end", ""],
    ]);
    assert_eq!(effects(&catalog, "TRUNCATE parent CASCADE"), Effects::LOCKS);
    for text in ["delete from parent", "select * from child"] {
        assert_eq!(effects(&catalog, text), Effects::NONE, "{text}");
    }
}

#[test]
fn event_triggers_run_in_every_statement_that_may_fire_one() {
    let catalog = catalog(&[
        &["r", "1", "fires", "0"],
        &["r", "2", "makes", "0"],
        &["r", "3", "finds", "0"],
        &["e", "0", "", "1"],
        &["1", "p", "begin perform pg_advisory_lock(1); end", ""],
        &["2", "s", "select 1 as a into t", ""],
        &["3", "p", "begin select 1 into strict v; end", ""],
    ]);
    for text in [
        "select makes()",
        "create table t (a int)",
        "reindex table t",
        "security label on table t is 'x'",
        "select 1 as a into t",
        "SELECT 1 AS insert INTO t",
    ] {
        // What the tables run that a routine has made is not known.
        let expected = Effects::LOCKS
            | if text.contains("makes") {
                Effects::DEFINES
            } else {
                Effects::NONE
            };
        assert_eq!(effects(&catalog, text), expected, "{text}");
    }
    for text in ["insert into t values (1)", "select finds()", "update t set a = 1"] {
        assert_eq!(effects(&catalog, text), Effects::NONE, "{text}");
    }
}

/// A cast to `text` may cut the name of a setting.
#[test]
fn no_name_of_a_setting_is_known_where_a_type_is_called_text() {
    let known = catalog(&[
        &["r", "1", "passes", "0"],
        &["1", "s", "select set_config(x::text, 'a', false)", "x,"],
    ]);
    let hidden = catalog(&[
        &["a", "0", "", "0"],
        &["r", "1", "passes", "0"],
        &["1", "s", "select set_config(x::text, 'a', false)", "x,"],
    ]);
    for text in ["select set_config('a.b'::text, 'c', false)", "select passes('a.b')"] {
        assert!(!effects(&known, text).contains(Effects::UNTOLD), "{text}");
        assert!(effects(&hidden, text).contains(Effects::UNTOLD), "{text}");
    }
    assert_eq!(effects(&hidden, "select 'a'::text"), Effects::NONE);
}

/// ALTER TYPE .. CASCADE computes the expressions of the indexes of the typed table.
#[test]
fn who_changes_a_row_type_writes_to_its_typed_tables() {
    let catalog = catalog(&[
        &["b", "2880", "pg_advisory_lock", "0"],
        &["v", "10", "typed", "2880"],
        &["o", "11", "pair", "10"],
    ]);
    assert_eq!(
        effects(&catalog, "alter type pair drop attribute a cascade"),
        Effects::LOCKS
    );
    assert_eq!(effects(&catalog, "select row(1)::pair"), Effects::NONE);
}

/// A Parse names the types of its parameters by OID.
#[test]
fn making_a_value_of_a_type_runs_its_checks() {
    let catalog = catalog(&[
        &["b", "2880", "pg_advisory_lock", "0"],
        &["d", "20000", "checked", "2880"],
        &["k", "20001", "_checked", "20000"],
    ]);
    for (types, effects) in [
        (&b"\0\x01\0\0\x4e\x20"[..], Effects::LOCKS),
        (&b"\0\x02\0\0\0\x19\0\0\x4e\x21"[..], Effects::LOCKS),
        (&b"\0\x01\0\0\0\x19"[..], Effects::NONE),
        (&b"\0\0"[..], Effects::NONE),
        (&b""[..], Effects::NONE),
    ] {
        assert_eq!(catalog.effects_of_types(types), effects, "{types:?}");
    }
}

#[test]
fn a_reviewed_function_in_c_does_what_its_name_says() {
    let catalog = catalog(&[
        &["r", "1", "dblink_connect", "4"],
        &["r", "2", "hstore_in", "4"],
        &["v", "10", "connects", "1"],
        &["v", "11", "reads", "2"],
    ]);
    assert_eq!(effects(&catalog, "table connects"), Effects::SERVER_BOUND);
    assert_eq!(effects(&catalog, "table reads"), Effects::NONE);
}

/// Guards against a temporary table that nobody notices: CREATE TABLE under a search_path with pg_temp.
#[test]
fn settings_that_a_routine_runs_under_count() {
    let catalog = catalog(&[
        &["r", "1", "makes", "0"],
        &["r", "2", "reads", "0"],
        &["r", "3", "calls_other", "0"],
        &["r", "4", "other_role", "0"],
        &["r", "5", "strings", "0"],
        &["r", "6", "selects_into", "0"],
        &["s", "1", "search_path", "0"],
        &["s", "2", "search_path", "0"],
        &["s", "3", "search_path", "0"],
        &["s", "4", "role", "0"],
        &["s", "5", "standard_conforming_strings", "0"],
        &["s", "6", "search_path", "0"],
        &["1", "p", "begin create table t (a int); end", ""],
        &["2", "p", "begin select 1 into x; insert into t values (x); end", ""],
        &["3", "p", "begin perform reads(); end", ""],
        &["4", "s", "select 1", ""],
        &["5", "s", "select 1", ""],
        &["6", "s", "select 1 as a into t", ""],
    ]);
    for (text, expected) in [
        ("select makes()", Effects::TEMPORARY | Effects::NAMES),
        ("select reads()", Effects::NONE),
        ("select calls_other()", Effects::TEMPORARY),
        ("select other_role()", Effects::CODE | Effects::SETTINGS),
        ("select strings()", pgweir_sql::UNREAD),
        ("select selects_into()", Effects::TEMPORARY),
        ("create table t (a int)", Effects::NONE),
    ] {
        assert_eq!(effects(&catalog, text), expected, "{text}");
    }
}

#[test]
fn tables_may_be_temporary_if_new_sessions_make_them_there() {
    let catalog = catalog(&[
        &["r", "1", "makes", "0"],
        &["p", "0", "", "0"],
        &["1", "p", "begin create table t (a int); end", ""],
    ]);
    for text in ["create table t (a int)", "select 1 as a into t", "select makes()"] {
        assert_eq!(
            effects(&catalog, text).without(Effects::NAMES | Effects::DEFINES),
            Effects::TEMPORARY,
            "{text}"
        );
    }
    assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
}
