//! A client is sent rows as they were described to it, or an error.

use super::one_table::{CHANGED, TEXT, binds, binds_and_describes, describes, rows, says_changed, shared};
use crate::rig::{NO_TYPES, Rig, error};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use pgweir_wire::write::Column;

/// A client relies on the rows that Describe has told it: it would misread other columns.
#[test]
fn a_client_is_not_sent_other_rows_than_it_was_told() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.describe(b'S', b"s");
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    rig.says(first, |w| {
        w.empty(b'1');
        rows(w, &["a"]);
        w.ready_for_query(Idle);
    });
    rig.told(a);
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    binds(&mut rig, a);
    let second = rig.servers_log_in()[0];
    assert_eq!(
        rig.told(second),
        ["Parse pgweir_11 select * from t", "Describe Spgweir_11", "Flush"]
    );
    rig.says(second, |w| w.empty(b'1'));
    describes(&mut rig, second, &["a", "b"]);
    assert_eq!(
        rig.told(second),
        ["Bind  pgweir_nowhere", "Execute", "Sync"],
        "the server must see it fail, too"
    );
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_nowhere\" does not exist");
    rig.says(second, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    let heard = rig.hears(a);
    let [(b'E', refusal), (b'Z', _)] = &heard[..] else {
        panic!("{heard:?}");
    };
    let has = |field: &str| refusal.split(|b| *b == 0).any(|f| f == field.as_bytes());
    assert!(has("C0A000") && has(&format!("M{CHANGED}")));
    assert!(has("RRevalidateCachedQuery"), "drivers that prepare again look at this");
    // A client that describes the statement again may go on.
    rig.says(a, |w| {
        w.describe(b'S', b"s");
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
    assert_eq!(rig.told(second), ["Describe Spgweir_11", "Sync"]);
    rig.says(second, |w| {
        rows(w, &["a", "b"]);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(second),
        ["Describe Spgweir_11", "Bind  pgweir_11", "Execute", "Sync"]
    );
}

/// Guards against other rows than the client was told: the Describe is answered when the client has already closed the
/// statement, and the server ignores that Close, because the segment has failed before.
#[test]
fn rows_that_are_told_behind_a_close_in_a_failed_segment_count() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.describe(b'S', b"s");
        w.bind_text(b"missing", &[]);
        w.close(b'S', b"s");
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    let missing = crate::rig::error("26000", "prepared statement \"missing\" does not exist");
    rig.says(first, |w| {
        w.empty(b'1');
        rows(w, &["a"]);
        w.error(&missing);
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    binds(&mut rig, a);
    let second = rig.servers_log_in()[0];
    assert_eq!(
        rig.told(second),
        ["Parse pgweir_11 select * from t", "Describe Spgweir_11", "Flush"],
        "its rows are compared with those that were told"
    );
}

/// A client has prepared the statement on one server and described its first portal there. Returns also another server
/// that does not hold the statement; the first is busy.
fn portal_described_elsewhere(describes: impl Fn(&mut Rig, ClientId)) -> (Rig, ClientId, ServerId) {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.parse(b"s", TEXT, NO_TYPES));
    describes(&mut rig, a);
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    rig.says(first, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.row_description(&[Column {
            name: "a",
            type_oid: 23,
            type_bytes: 4,
        }]);
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    rig.told(a);
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    binds(&mut rig, a);
    let second = rig.servers_log_in()[0];
    (rig, a, second)
}

/// Guards against columns that the JDBC driver does not know: it describes only the first portal of a statement.
#[test]
fn a_client_that_has_described_a_portal_is_not_sent_other_rows_through_the_next() {
    let one_by_one = |rig: &mut Rig, client: ClientId| {
        rig.says(client, |w| w.bind_text(b"s", &[]));
        rig.says(client, |w| w.describe(b'P', b""));
        rig.says(client, |w| {
            w.execute();
            w.sync();
        });
    };
    for describes in [binds_and_describes, one_by_one] {
        let (mut rig, a, second) = portal_described_elsewhere(describes);
        assert_eq!(
            rig.told(second),
            ["Parse pgweir_11 select * from t", "Describe Spgweir_11", "Flush"]
        );
        rig.says(second, |w| w.empty(b'1'));
        describes_rows_and_refuses(&mut rig, second);
        assert_eq!(
            rig.told(a),
            [format!("Error 0A000 {CHANGED}"), "ReadyForQuery I".into()]
        );
        // It prepares the statement again and gets the description of the new rows.
        rig.says(a, |w| {
            w.close(b'S', b"s");
            w.parse(b"s", TEXT, NO_TYPES);
        });
        binds_and_describes(&mut rig, a);
        assert_eq!(rig.told(second), ["Describe Spgweir_11", "Sync"]);
        rig.says(second, |w| {
            rows(w, &["a", "b"]);
            w.ready_for_query(Idle);
        });
        assert_eq!(rig.told(second), ["Bind  pgweir_11", "Describe P", "Execute", "Sync"]);
    }
}

fn describes_rows_and_refuses(rig: &mut Rig, server: ServerId) {
    describes(rig, server, &["a", "b"]);
    assert_eq!(rig.told(server), ["Bind  pgweir_nowhere", "Execute", "Sync"]);
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_nowhere\" does not exist");
    rig.says(server, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
}

/// Guards against an unnamed portal that a Query has replaced since the Bind: its description is not the statement's.
#[test]
fn a_portal_that_a_query_has_replaced_tells_nothing_of_the_statement_bound_before() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.query(b"begin; select 1");
        w.parse(b"s", TEXT, NO_TYPES);
        w.bind_text(b"s", &[]);
    });
    // Perhaps a Describe follows.
    rig.says(a, |w| {
        w.execute();
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    rig.says(first, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.query(b"select 1/0");
        w.describe(b'P', b"");
        w.sync();
    });
    rig.told(first);
    rig.says(first, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Failed);
        w.empty(b'n');
        w.ready_for_query(Failed);
    });
    nothing_is_compared_after_rollback(&mut rig, a, b, first);
    assert_eq!(rig.told(a).len(), 13, "answered");
}

/// Guards against an unnamed portal of a BEGIN that the pooler has answered: its description is not that of the statement
/// bound before.
#[test]
fn a_portal_of_a_deferred_begin_tells_nothing_of_the_statement_bound_before() {
    let (mut rig, a, b, first) = bound_and_not_described(b"");
    rig.says(a, |w| {
        w.parse(b"", b"begin", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    rig.says(a, |w| {
        w.describe(b'P', b"");
        w.sync();
    });
    let told = rig.told(first);
    assert_eq!(told[told.len() - 2..], ["Describe P", "Sync"]);
    rig.says(first, |w| {
        for tag in [b'1', b'2'] {
            w.empty(tag);
        }
        w.command_complete("BEGIN");
        w.empty(b'n');
        w.ready_for_query(InTransaction);
    });
    nothing_is_compared_after_rollback(&mut rig, a, b, first);
}

/// Guards against a cursor that has the name of an earlier portal.
#[test]
fn a_cursor_tells_nothing_of_the_statement_that_was_bound_under_its_name() {
    let (mut rig, a, b, first) = bound_and_not_described(b"c");
    rig.says(a, |w| w.query(b"begin; declare c cursor for select 1"));
    rig.told(first);
    rig.says(first, |w| {
        w.command_complete("BEGIN");
        w.command_complete("DECLARE CURSOR");
        w.ready_for_query(InTransaction);
    });
    rig.says(a, |w| {
        w.describe(b'P', b"c");
        w.sync();
    });
    assert_eq!(rig.told(first), ["Describe Pc", "Sync"]);
    rig.says(first, |w| {
        w.empty(b'n');
        w.ready_for_query(InTransaction);
    });
    nothing_is_compared_after_rollback(&mut rig, a, b, first);
}

/// A client has bound its statement once, to this portal, and has not been told its rows; the transaction is over.
fn bound_and_not_described(portal: &[u8]) -> (Rig, ClientId, ClientId, ServerId) {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| {
        w.parse(b"s", TEXT, NO_TYPES);
        w.bind_portal(portal, b"s", &[]);
    });
    // Perhaps a Describe follows.
    rig.says(a, |w| {
        w.execute();
        w.sync();
    });
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    rig.says(first, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    (rig, a, b, first)
}

fn nothing_is_compared_after_rollback(rig: &mut Rig, a: ClientId, b: ClientId, first: ServerId) {
    rig.says(a, |w| w.query(b"rollback"));
    rig.completes(first, "ROLLBACK");
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    binds(rig, a);
    let second = rig.servers_log_in()[0];
    let told = rig.told(second);
    assert_eq!(told[..1], ["Parse pgweir_11 select * from t"], "{told:?}");
    assert!(told.contains(&"Execute".into()), "nothing is to be compared: {told:?}");
}

/// libpq describes each portal, so it is told whatever the rows are.
#[test]
fn whoever_describes_each_portal_waits_for_no_description_of_ours() {
    let mut rig = Rig::new("default_pool_size = 2");
    let (a, b) = (rig.client(), rig.client());
    rig.says(a, |w| w.parse(b"s", TEXT, NO_TYPES));
    binds_and_describes(&mut rig, a);
    let first = rig.server_of(a).unwrap();
    rig.told(first);
    rig.says(first, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.empty(b'n');
        w.command_complete("SELECT 1");
        w.ready_for_query(Idle);
    });
    rig.says(b, |w| w.query(b"select pg_sleep(9)"));
    binds_and_describes(&mut rig, a);
    let second = rig.servers_log_in()[0];
    assert_eq!(
        rig.told(second),
        [
            "Parse pgweir_11 select * from t",
            "Bind  pgweir_11",
            "Describe P",
            "Execute",
            "Sync"
        ]
    );
}

#[test]
fn a_client_that_was_told_the_same_rows_goes_on() {
    let (mut rig, a, _, server) = shared();
    rig.says(a, |w| {
        w.describe(b'S', b"s");
        w.sync();
    });
    rig.told(server);
    rig.says(server, |w| {
        rows(w, &["a"]);
        w.ready_for_query(Idle);
    });
    binds(&mut rig, a);
    says_changed(&mut rig, server, Idle);
    rig.told(server);
    rig.told(a);
    binds(&mut rig, a);
    assert_eq!(
        rig.told(server),
        [
            "Close Spgweir_11",
            "Parse pgweir_11 select * from t",
            "Describe Spgweir_11",
            "Flush"
        ]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        rows(w, &["a"]);
    });
    assert_eq!(
        rig.told(server),
        ["Bind  pgweir_11", "Execute", "Sync"],
        "the column has been renamed back"
    );
}
