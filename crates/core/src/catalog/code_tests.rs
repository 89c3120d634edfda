use super::*;

const OBJECT: CatalogRows = CatalogRows::Object;
const SOURCE: CatalogRows = CatalogRows::Source;

pub(super) fn catalog(rows: &[&[&str]]) -> Catalog {
    let mut draft = Draft::default();
    for row in rows {
        let row: Vec<Option<&[u8]>> = row.iter().map(|v| Some(v.as_bytes())).collect();
        let is_source = row[0].is_some_and(|value| value[0].is_ascii_digit());
        assert!(draft.add_row(if is_source { SOURCE } else { OBJECT }, &row), "{row:?}");
    }
    draft.finish()
}

pub(super) fn effects(catalog: &Catalog, text: &str) -> Effects {
    catalog.names.effects_in(text.as_bytes())
}

#[test]
fn effects_reach_whoever_runs_a_function() {
    let catalog = catalog(&[
        &["r", "1", "remember", "0"],
        &["r", "2", "outer_one", "0"],
        &["r", "3", "harmless", "0"],
        &["r", "4", "on_change", "0"],
        &["t", "10", "orders", "4"],
        &["v", "11", "tenants", "1"],
        &["u", "12", "all_tenants", "11"],
        &["u", "13", "open_orders", "10"],
        &["d", "20", "checked", "1"],
        &["c", "14", "typed", "20"],
        &["1", "p", "begin perform set_config('app.x', '1', false); end", ""],
        &["2", "p", "begin perform Remember(); end", ""],
        &["3", "s", "select 1", ""],
        &["4", "p", "begin perform pg_advisory_lock(1); return new; end", ""],
    ]);
    let settings = [
        "select remember()",
        "call outer_one()",
        "table tenants",
        "table all_tenants",
        "table typed",
    ];
    for text in settings {
        assert_eq!(effects(&catalog, text), Effects::SETTINGS, "{text}");
    }
    assert_eq!(effects(&catalog, "select harmless()"), Effects::NONE);
    assert_eq!(effects(&catalog, "select * from orders"), Effects::NONE);
    assert_eq!(effects(&catalog, "delete from orders"), Effects::LOCKS);
    assert_eq!(effects(&catalog, "update open_orders set a = 1"), Effects::LOCKS);
    assert_eq!(catalog.hidden, ["app.x".into()]);
}

#[test]
fn code_that_cannot_be_read_is_told_from_code_that_keeps_state() {
    let catalog = catalog(&[
        &["r", "1", "in_c", "1"],
        &["r", "2", "in_perl", "2"],
        &["r", "3", "twice", "0"],
        &["n", "0", "", "1"],
        &["d", "20", "shape", "1"],
        &["3", "s", "select in_c(), in_perl()", ""],
    ]);
    assert_eq!(effects(&catalog, "select in_c(1)"), Effects::NATIVE);
    assert_eq!(effects(&catalog, "select in_perl(1)"), pgweir_sql::UNREAD);
    assert_eq!(
        effects(&catalog, "select twice()"),
        Effects::NATIVE | pgweir_sql::UNREAD
    );
    assert_eq!(
        effects(&catalog, "select 'x'::shape"),
        Effects::NONE,
        "its input function is in C"
    );
    assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
}

/// Guards against an extension's function that ALTER FUNCTION .. RENAME has given a name that tells nothing.
#[test]
fn a_function_in_c_is_known_by_its_name_in_c_too() {
    let catalog = catalog(&[
        &["r", "1", "threshold", "4"],
        &["r", "2", "link", "4"],
        &["r", "3", "set_limit", "4"],
        &["r", "4", "tag", "1"],
        &["r", "5", "outer_one", "0"],
        &["r", "6", "length_of", "4"],
        &["y", "1", "set_limit", "0"],
        &["y", "2", "dblink_connect", "0"],
        &["y", "3", "harmless", "0"],
        &["y", "4", "set_limit", "0"],
        &["y", "6", "LWGEOM_length_linestring", "0"],
        &["5", "s", "select Link('a')", ""],
    ]);
    assert_eq!(effects(&catalog, "select threshold(0.9)"), Effects::SETTINGS);
    assert_eq!(effects(&catalog, "select link('a')"), Effects::SERVER_BOUND);
    assert_eq!(effects(&catalog, "select outer_one()"), Effects::SERVER_BOUND);
    assert_eq!(effects(&catalog, "select set_limit(0.9)"), Effects::SETTINGS);
    assert_eq!(
        effects(&catalog, "select tag(0.9)"),
        Effects::NATIVE | Effects::SETTINGS
    );
    assert_eq!(effects(&catalog, "select length_of(a)"), Effects::NONE);
}

#[test]
fn what_calls_a_function_of_postgresql_s_own_that_is_not_harmless_is_told() {
    let catalog = catalog(&[
        &["r", "1", "set_ctx", "0"],
        &["r", "2", "outer_ctx", "0"],
        &["r", "3", "in_extension", "3"],
        &["b", "2078", "set_config", "0"],
        &["b", "2924", "query_to_xml", "0"],
        &["v", "10", "tenants", "2078"],
        &["v", "11", "pages", "2924"],
        &["v", "12", "contexts", "1"],
        &["n", "0", "", "3"],
        &["i", "5", "7712862618141694750", "0"],
        &["1", "s", "select set_config(name, value, false)", "name,value,"],
        &["2", "s", "select set_ctx('a.' || $1, $2)", ""],
    ]);
    let untold = Effects::SETTINGS | Effects::UNTOLD | Effects::READING;
    assert_eq!(effects(&catalog, "table tenants"), untold);
    assert_eq!(effects(&catalog, "table pages"), pgweir_sql::UNREAD);
    // A name that the body does not show may be search_path.
    assert_eq!(effects(&catalog, "table contexts"), untold | Effects::TEMPORARY);
    assert_eq!(
        effects(&catalog, "select outer_ctx('x', 'y')"),
        untold | Effects::TEMPORARY
    );
    assert_eq!(
        effects(&catalog, "select set_ctx('a.b', 'y')"),
        Effects::SETTINGS | Effects::TEMPORARY | Effects::PASSES | Effects::READING
    );
    assert_eq!(effects(&catalog, "select in_extension()"), pgweir_sql::UNREAD);
    assert_eq!(effects(&catalog, "select 1 + 2"), Effects::NONE, "an operator in C");
    assert_eq!(
        catalog.names.passed_in(b"select set_ctx('a.b', 'y')").names,
        ["a.b".into()]
    );
    assert!(
        catalog.knows_all(&[b"set_ctx"[..].into()].into()) && !catalog.knows_all(&[b"set_config"[..].into()].into())
    );
    assert_eq!(catalog.identity.as_deref(), Some(&b"7712862618141694750/5"[..]));
}

#[test]
fn an_operator_or_a_cast_may_run_a_function_in_any_statement() {
    let catalog = catalog(&[
        &["r", "1", "remember", "0"],
        &["n", "0", "", "1"],
        &["1", "s", "select set_config('work_mem', '1MB', false)", ""],
    ]);
    assert_eq!(effects(&catalog, "select 1 ### 2"), Effects::SETTINGS);
}

/// Guards against an operator that a tenant makes of a function in C, to keep something in the server process.
#[test]
fn an_operator_of_another_owner_s_function_in_c_counts() {
    let catalog = catalog(&[&["r", "1", "isn_weak", "1"], &["q", "0", "", "1"]]);
    assert_eq!(effects(&catalog, "select ### true"), Effects::NATIVE);
}

#[test]
fn an_event_trigger_runs_in_whatever_changes_the_catalog() {
    let catalog = catalog(&[
        &["r", "1", "watch", "0"],
        &["r", "2", "make_partition", "0"],
        &["e", "0", "", "1"],
        &["1", "p", "begin listen x; end", ""],
        &["2", "p", "begin create table p partition of t default; end", ""],
    ]);
    for text in [
        "create table t (a int)",
        "select 1; drop view v",
        "select make_partition()",
    ] {
        assert_eq!(
            effects(&catalog, text).without(Effects::NAMES | Effects::DEFINES),
            Effects::LISTEN,
            "{text}"
        );
    }
    assert_eq!(effects(&catalog, "insert into t values (1)"), Effects::NONE);
}

#[test]
fn functions_that_call_each_other_come_to_an_end() {
    let catalog = catalog(&[
        &["r", "1", "ping", "0"],
        &["r", "2", "pong", "0"],
        &["1", "p", "begin perform pong(); end", ""],
        &["2", "p", "begin perform ping(); listen x; end", ""],
    ]);
    assert_eq!(effects(&catalog, "select ping()"), Effects::LISTEN);
}

#[test]
fn a_function_that_asks_for_what_it_has_drawn_does_not_pin() {
    let catalog = catalog(&[
        &["r", "1", "make", "0"],
        &["r", "2", "latest", "0"],
        &["1", "s", "insert into t values (1); select currval('s')", ""],
        &["2", "s", "select currval('s')", ""],
    ]);
    assert_eq!(effects(&catalog, "select make()"), Effects::DRAWN);
    assert_eq!(effects(&catalog, "select latest()"), Effects::SEQUENCE);
}

/// Guards against another client's value in a row: a statement that runs currval() without naming it did not count as
/// one that asks for it.
#[test]
fn an_object_that_asks_for_the_last_value_of_a_sequence_is_like_currval() {
    let catalog = catalog(&[
        &["r", "1", "on_child", "0"],
        &["b", "1575", "currval", "0"],
        &["b", "2559", "lastval", "0"],
        &["b", "1574", "nextval", "0"],
        &["v", "10", "child", "1575"],
        &["v", "11", "latest", "2559"],
        &["u", "12", "outer_view", "11"],
        &["d", "20", "checked", "1575"],
        &["c", "13", "typed", "20"],
        &["t", "14", "fired", "1"],
        &["v", "15", "parent", "1574"],
        &["1", "p", "begin new.a := currval('s'); return new; end", ""],
    ]);
    for text in [
        "insert into child (b) values (1)",
        "table latest",
        "table outer_view",
        "insert into typed values (1)",
        "insert into fired values (1)",
    ] {
        assert_eq!(effects(&catalog, text), Effects::SEQUENCE, "{text}");
    }
    assert_eq!(effects(&catalog, "table fired"), Effects::NONE);
    assert_eq!(effects(&catalog, "insert into parent values (1)"), Effects::NONE);
}

#[test]
fn a_source_too_long_to_come_is_code_and_too_much_source_makes_everything_code() {
    let mut draft = Draft::default();
    assert!(draft.add_row(OBJECT, &[Some(b"r"), Some(b"1"), Some(b"long_one"), Some(b"0")]));
    assert!(draft.add_row(SOURCE, &[Some(b"1"), Some(b"p"), None, None]));
    let catalog = draft.finish();
    assert_eq!(effects(&catalog, "select long_one()"), pgweir_sql::UNREAD);
    let mut draft = Draft::default();
    assert!(draft.add_row(OBJECT, &[Some(b"r"), Some(b"1"), Some(b"x"), Some(b"0")]));
    let source = vec![b' '; SOURCE_BYTES_MAX + 1];
    assert!(draft.add_row(SOURCE, &[Some(b"1"), Some(b"s"), Some(&source), None]));
    assert_eq!(effects(&draft.finish(), "select 1"), pgweir_sql::UNREAD);
}

#[test]
fn rows_of_another_shape_are_refused() {
    let mut draft = Draft::default();
    assert!(!draft.add_row(OBJECT, &[]));
    assert!(!draft.add_row(OBJECT, &[Some(b"?"), Some(b"1"), None, Some(b"0")]));
    assert!(!draft.add_row(OBJECT, &[Some(b"r"), Some(b"x"), None, Some(b"0")]));
    assert!(!draft.add_row(OBJECT, &[Some(b"lock_timeout"), Some(b"1s"), Some(b"0")]));
    assert!(!draft.add_row(SOURCE, &[Some(b"1"), Some(b"?"), None, None]));
}

/// Guards against failed conversions when the client's encoding lacks letters of a source: the rows are ASCII, and the
/// pooler decodes them.
#[test]
fn names_and_sources_come_escaped() {
    assert_eq!(*unescaped(b"a\\\\b\\303\\244c\\8\\"), *b"a\\b\xc3\xa4c\\8\\");
    let catalog = catalog(&[
        &["r", "1", "gr\\303\\266\\303\\237e", "0"],
        &["r", "2", "\\321\\204", "0"],
        &["r", "3", "calls", "0"],
        &["1", "p", "begin listen x; end", ""],
        &["2", "p", "begin set work_mem = '1MB'; end", ""],
        &["3", "s", "select \\321\\204()", ""],
    ]);
    assert_eq!(
        effects(&catalog, "select gr\u{f6}\u{df}e()"),
        Effects::LISTEN | Effects::SETTINGS
    );
    assert_eq!(
        effects(&catalog, "select calls()"),
        Effects::SETTINGS,
        "it mentions a name without ASCII"
    );
}

/// With a schema for each tenant, a call of a name may call any of the functions with that name.
#[test]
fn as_many_functions_of_one_name_as_there_are_tenants_are_understood() {
    let mut draft = Draft::default();
    for n in 0..2000_u32 {
        let oid = |kind: u32| (16384 + 2 * n + kind).to_string();
        for (kind, name) in [(0, "inner"), (1, "outer")] {
            assert!(draft.add_row(
                OBJECT,
                &[
                    Some(b"r"),
                    Some(oid(kind).as_bytes()),
                    Some(name.as_bytes()),
                    Some(b"0")
                ]
            ));
        }
    }
    for n in 0..2000_u32 {
        let oid = |kind: u32| (16384 + 2 * n + kind).to_string();
        for (kind, source) in [(0, "listen x"), (1, "select inner()")] {
            assert!(draft.add_row(
                SOURCE,
                &[Some(oid(kind).as_bytes()), Some(b"s"), Some(source.as_bytes()), None]
            ));
        }
    }
    assert!(!draft.too_much);
    let catalog = draft.finish();
    assert_eq!(effects(&catalog, "select outer()"), Effects::LISTEN);
    assert_eq!(effects(&catalog, "select 1"), Effects::NONE);
}

/// Guards against quadratic time: the time for a long chain of calls grows with its length.
#[test]
fn a_long_chain_of_calls_is_followed() {
    let mut draft = Draft::default();
    const LONG: u32 = 100_000;
    let row = |n: u32| (16384 + n).to_string();
    for n in 0..LONG {
        let name = format!("f{n}");
        assert!(draft.add_row(
            OBJECT,
            &[Some(b"r"), Some(row(n).as_bytes()), Some(name.as_bytes()), Some(b"0")]
        ));
    }
    for n in 0..LONG {
        let source = if n == 0 {
            "listen x".into()
        } else {
            format!("select f{}()", n - 1)
        };
        assert!(draft.add_row(
            SOURCE,
            &[Some(row(n).as_bytes()), Some(b"s"), Some(source.as_bytes()), None]
        ));
    }
    let catalog = draft.finish();
    assert_eq!(effects(&catalog, &format!("select f{}()", LONG - 1)), Effects::LISTEN);
}

/// Guards against a routine that gives tables the code of objects that it mentions: by LIKE, or by a new name.
#[test]
fn a_routine_that_changes_tables_defines_what_it_mentions() {
    let catalog = catalog(&[
        &["r", "1", "sets", "0"],
        &["r", "2", "fires", "0"],
        &["r", "3", "renames", "0"],
        &["r", "4", "likes", "0"],
        &["r", "5", "calls_it", "0"],
        &["r", "6", "plain", "0"],
        &["d", "20", "checked", "1"],
        &["c", "10", "checked_rows", "20"],
        &["t", "11", "fired", "2"],
        &[
            "1",
            "p",
            "begin perform set_config('app.x', '1', false); return true; end",
            "",
        ],
        &["2", "p", "begin perform sets(); return new; end", ""],
        &["3", "p", "begin alter table fired rename to quiet; end", ""],
        &["4", "p", "begin create temp table made (like checked_rows); end", ""],
        &["5", "s", "select likes()", ""],
        &[
            "6",
            "p",
            "begin create table made (a int); insert into made values (1); end",
            "",
        ],
    ]);
    for text in ["select renames()", "select likes()", "select calls_it()"] {
        assert!(effects(&catalog, text).contains(Effects::DEFINES), "{text}");
    }
    for text in [
        "select plain()",
        "select sets()",
        "insert into fired values (1)",
        "table checked_rows",
    ] {
        assert!(!effects(&catalog, text).intersects(Effects::DEFINES), "{text}");
    }
}

#[test]
fn a_turkish_database_in_a_single_byte_encoding_is_told() {
    let rows: [&[&str]; 2] = [&["r", "1", "sets", "2"], &["l", "0", "", "0"]];
    let text = "select İ from t";
    assert_eq!(effects(&catalog(&rows[..1]), text), Effects::NONE);
    assert_eq!(effects(&catalog(&rows), text), pgweir_sql::UNREAD);
}
