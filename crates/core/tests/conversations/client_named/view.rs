//! pg_prepared_statements shows the client's names.

use super::one_server::{Scripted, asks, one_server, prepares};
use crate::rig::{NOTHING, error};
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn the_view_shows_the_clients_names() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, b, b"other", b"select 'b'");
    prepares(&mut rig, a, b"s", b"select 1");
    let told = asks(&mut rig, a, "table pg_prepared_statements", "SELECT 1");
    for wanted in ["Close Spgweir_11", "Close Spgweir_12", "Parse s select 1"] {
        assert!(told.iter().any(|l| l == wanted), "{wanted} in {told:?}");
    }
    assert!(!told.iter().any(|l| l.contains("other")), "{told:?}");
}

/// Guards against another client's text in the view: a failed internal PREPARE leaves its statement.
#[test]
fn the_view_does_not_show_what_a_prepare_of_ours_has_left() {
    let (mut rig, a, b) = one_server();
    asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
    let told = asks(&mut rig, b, "table pg_prepared_statements", "SELECT 0");
    assert!(told.iter().any(|l| l == "Close Spgweir_preparing"), "{told:?}");
}

/// Guards against an internal empty statement in the view: a Parse of a name that is taken leaves it.
#[test]
fn the_view_does_not_show_what_made_a_parse_fail() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    rig.says(a, |w| {
        w.parse(b"s", b"select 2", &[0, 0]);
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let told = rig.told(server);
    assert_eq!(
        told,
        ["Close Spgweir_b", "Parse pgweir_b ", "Parse pgweir_b select 2", "Sync"]
    );
    let taken = rig.error_about("42P05", "prepared statement \"pgweir_b\" already exists");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.error(&taken);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(a), None);
    let told = asks(&mut rig, b, "table pg_prepared_statements", "SELECT 0");
    assert!(told.iter().any(|l| l == "Close Spgweir_b"), "{told:?}");
}

/// Guards against internal names in the view: a segment closes the internal statements for a text that reads the view,
/// and fails before, so that they are still there when the next text reads it.
#[test]
fn the_view_waits_for_what_becomes_of_closed_statements() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, b, b"other", b"select 'b'");
    prepares(&mut rig, a, b"reads", b"table pg_prepared_statements");
    rig.says(a, |w| {
        w.bind_text(b"missing", &[]);
        w.bind_text(b"reads", &[]);
        w.sync();
        w.query(b"table pg_prepared_statements");
    });
    let server = rig.server_of(a).unwrap();
    let told = rig.told(server);
    assert!(told.iter().any(|l| l.starts_with("Close Spgweir_")), "{told:?}");
    assert!(!told.iter().any(|l| l.starts_with("Query")), "{told:?}");
    let missing = error("26000", "prepared statement \"missing\" does not exist");
    rig.says(server, |w| {
        w.error(&missing);
        w.ready_for_query(Idle);
    });
    let told = rig.told(server);
    assert!(told.iter().any(|l| l.starts_with("Close Spgweir_")), "{told:?}");
    assert!(told.iter().any(|l| l.starts_with("Query")), "{told:?}");
}

/// Guards against internal names in the view, and the client's own missing from it: a text with characters beyond ASCII
/// was not read behind a segment that could have chosen another encoding.
#[test]
fn the_view_waits_until_the_encoding_of_its_text_is_known() {
    // No other client has used the server: otherwise the text waits to learn of sequences.
    let (mut rig, a, _) = one_server();
    prepares(&mut rig, a, b"s", b"select 1");
    rig.says(a, |w| {
        w.parse(b"", b"select set_config('datestyle', 'German', false)", &[0, 0]);
        w.bind_text(b"", &[]);
        w.bind_text(b"missing", &[]);
        w.empty(b'H');
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    let missing = error("26000", "prepared statement \"missing\" does not exist");
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.error(&missing);
    });
    rig.says(a, |w| {
        w.sync();
        w.query("table pg_prepared_statements; select 'näme'".as_bytes());
    });
    assert_eq!(rig.told(server), ["Sync"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    let mut told = Vec::new();
    while !told.iter().any(|l: &String| l.starts_with("Query")) {
        told.extend(rig.serves(server, "SELECT 1"));
    }
    let query = told.iter().position(|l| l.starts_with("Query")).unwrap();
    for wanted in ["Close Spgweir_11", "Parse s select 1"] {
        assert!(told[..query].iter().any(|l| l == wanted), "{wanted} in {told:?}");
    }
}

/// Guards against statements that the view misses: an EXECUTE runs a statement that reads it.
#[test]
fn a_statement_that_reads_the_view_is_executed_with_all_names() {
    let (mut rig, a, b) = one_server();
    prepares(&mut rig, a, b"reads", b"table pg_prepared_statements");
    prepares(&mut rig, a, b"s", b"select 1");
    for by_query in [true, false] {
        asks(&mut rig, b, "select 1", "SELECT 1");
        rig.says(a, |w| match by_query {
            true => w.query(b"execute reads"),
            false => {
                w.parse(b"", b"execute reads", &[0, 0]);
                w.bind_text(b"", &[]);
                w.execute();
                w.sync();
            }
        });
        let server = rig.server_of(a).unwrap();
        let mut told = Vec::new();
        while rig.server_of(a).is_some() {
            told.extend(rig.serves(server, "SELECT 1"));
        }
        assert!(told.iter().any(|l| l == "Parse s select 1"), "{by_query} {told:?}");
    }
}

/// Guards against internal names in the view: the statement that reads it was parsed under other settings, which
/// internal statements set for its Parse on another server.
#[test]
fn the_view_does_not_show_what_sets_settings_for_a_parse() {
    let (mut rig, a, b) = one_server();
    rig.says(a, |w| {
        w.parse(b"", b"table pg_prepared_statements", &[0, 0]);
        w.parse(b"sets", b"set datestyle = 'ISO, DMY'", &[0, 0]);
        w.bind_text(b"sets", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SET");
        w.parameter_status(b"DateStyle", b"ISO, DMY");
        w.ready_for_query(Idle);
    });
    rig.answers_all_about(server, NOTHING.with(&[("DateStyle", "ISO, DMY")]));
    asks(&mut rig, b, "select 1", "SELECT 1");
    rig.says(a, |w| {
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(a).unwrap();
    let mut told = Vec::new();
    while rig.server_of(a).is_some() {
        told.extend(rig.serves(server, "SELECT 1"));
    }
    for internal in ["pgweir_e", "pgweir_f"] {
        let last = |line: String| told.iter().rposition(|l| *l == line);
        let used = last(format!("Bind pgweir_portal {internal}"));
        assert!(used.is_some() && used < last(format!("Close S{internal}")), "{told:?}");
    }
}

/// Guards against a transaction that fails though its client has not used the name: the server holds it, its table is
/// gone, and the Execute that shows the view prepared it once more, because code may have deallocated it.
#[test]
fn what_the_server_holds_is_not_prepared_again_at_an_execute() {
    let (mut rig, a, _) = one_server();
    asks(&mut rig, a, "prepare s as select * from gone", "PREPARE");
    prepares(&mut rig, a, b"code", b"do $$begin execute x; end$$");
    rig.told(a);
    rig.says(a, |w| {
        w.parse(b"view", b"table pg_prepared_statements", &[0, 0]);
        w.bind_portal(b"p", b"view", &[]);
        w.bind_text(b"code", &[]);
        w.execute();
        w.execute_portal(b"p");
        w.sync();
    });
    let server = rig.server_of(a).expect("linked");
    let mut postgres = Scripted::new();
    let told = postgres.answers(&mut rig, server);
    let heard = rig.told(a);
    assert!(!heard.iter().any(|l| l.contains("gone")), "{heard:?} {told:?}");
}
