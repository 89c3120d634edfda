//! Plans that may be too old are looked at before their first use.

use super::one_table::{CHANGED, binds, rows, says_changed, shared};
use crate::rig::{NO_TYPES, error};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};

/// Guards against 0A000 for a client that prepared the statement after the DDL.
#[test]
fn a_plan_that_may_be_older_than_the_clients_parse_is_looked_at_before_its_first_use() {
    let (mut rig, _, b, server) = shared();
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
    says_changed(&mut rig, server, Idle);
    assert_eq!(
        rig.serves(server, "SELECT 1"),
        [
            "Close Spgweir_11",
            "Parse pgweir_11 select * from t",
            "Bind  pgweir_11",
            "Execute",
            "Sync"
        ]
    );
    assert_eq!(
        rig.told(b),
        ["BindComplete", "CommandComplete SELECT 1", "ReadyForQuery I"]
    );
    binds(&mut rig, b);
    assert_eq!(
        rig.serves(server, "SELECT 1"),
        ["Bind  pgweir_11", "Execute", "Sync"],
        "once"
    );
}

#[test]
fn a_plan_that_is_still_good_is_looked_at_once() {
    let (mut rig, a, b, server) = shared();
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
    rig.says(server, |w| {
        rows(w, &["a"]);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_11", "Execute", "Sync"]);
    for client in [a, b] {
        rig.told(client);
        binds(&mut rig, client);
        assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_11", "Execute", "Sync"]);
    }
}

/// Another client's successful use proves, as a Describe would, that the plan is good.
#[test]
fn a_plan_that_somebody_has_used_since_the_parse_is_not_looked_at() {
    let (mut rig, a, b, server) = shared();
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1"),
        ["Bind  pgweir_11", "Execute", "Sync"],
        "as old as the plan"
    );
    // The logical clock ticks only when a client prepares something.
    rig.says(a, |w| {
        w.parse(b"other", b"select 2", NO_TYPES);
        w.sync();
    });
    rig.serves(server, "SELECT 1");
    binds(&mut rig, b);
    assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_11", "Execute", "Sync"]);
}

/// As in PostgreSQL: the client's own Parse came before the DDL.
#[test]
fn a_client_that_prepared_before_the_ddl_gets_the_error_and_its_next_use_goes_on() {
    let (mut rig, a, _, server) = shared();
    binds(&mut rig, a);
    assert_eq!(rig.told(server), ["Bind  pgweir_11", "Execute", "Sync"]);
    says_changed(&mut rig, server, Idle);
    assert_eq!(
        rig.told(a),
        [format!("Error 0A000 {CHANGED}"), "ReadyForQuery I".into()]
    );
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1")[..2],
        ["Close Spgweir_11", "Parse pgweir_11 select * from t"]
    );
    assert_eq!(rig.told(a).last().unwrap(), "ReadyForQuery I");
}

/// An error would fail the client's transaction, so the server is not asked.
#[test]
fn in_a_transaction_a_plan_that_may_be_too_old_is_made_again_without_asking() {
    let (mut rig, _, b, server) = shared();
    rig.says(b, |w| w.query(b"begin; select 1"));
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    binds(&mut rig, b);
    assert_eq!(
        rig.told(server),
        [
            "Close Spgweir_11",
            "Parse pgweir_11 select * from t",
            "Bind  pgweir_11",
            "Execute",
            "Sync"
        ]
    );
}

/// Recording F4: an error would undo what has been executed in the same implicit transaction.
#[test]
fn behind_an_execute_in_the_same_segment_nothing_is_asked_either() {
    let (mut rig, _, b, server) = shared();
    rig.says(b, |w| {
        w.parse(b"", b"insert into r values (2)", NO_TYPES);
        w.bind_text(b"", &[]);
        w.execute();
    });
    binds(&mut rig, b);
    let asked = rig.told(server);
    assert_eq!(
        asked[3..5],
        ["Close Spgweir_11", "Parse pgweir_11 select * from t"],
        "{asked:?}"
    );
}

/// DDL is rolled back: plans made after it in the same transaction are wrong for all other clients.
#[test]
fn a_plan_made_in_a_transaction_that_was_rolled_back_is_looked_at() {
    let (mut rig, a, b, server) = shared();
    rig.says(b, |w| w.query(b"begin; alter table t add c int"));
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("ALTER TABLE");
        w.ready_for_query(InTransaction);
    });
    rig.told(server);
    binds(&mut rig, b);
    let asked = rig.told(server);
    assert_eq!(asked[0], "Close Spgweir_11");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(b, |w| w.query(b"rollback"));
    rig.completes(server, "ROLLBACK");
    rig.told(server);
    binds(&mut rig, a);
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
}

/// The same if later transactions, which last, were sent before the first was answered.
#[test]
fn a_plan_made_in_a_transaction_that_was_rolled_back_is_looked_at_whatever_commits_behind_it() {
    let (mut rig, a, b, server) = shared();
    rig.says(b, |w| w.query(b"begin; select 1"));
    rig.says(server, |w| {
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.told(server);
    binds(&mut rig, b);
    assert_eq!(rig.told(server)[0], "Close Spgweir_11");
    rig.says(server, |w| {
        w.empty(b'3');
        w.empty(b'1');
        w.empty(b'2');
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
    });
    rig.says(b, |w| {
        w.query(b"commit");
        w.query(b"begin; select 1");
        w.query(b"commit");
    });
    let asked = rig.told(server);
    assert_eq!(asked, ["Query commit", "Query begin; select 1", "Query commit"]);
    rig.says(server, |w| {
        w.error(&error("23503", "a deferred constraint"));
        w.ready_for_query(Idle);
        w.command_complete("BEGIN");
        w.command_complete("SELECT 1");
        w.ready_for_query(InTransaction);
        w.command_complete("COMMIT");
        w.ready_for_query(Idle);
    });
    binds(&mut rig, a);
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
}

/// If the server refuses even the Describe (the table is gone), it is not asked again and again.
#[test]
fn a_question_that_fails_otherwise_leaves_the_error_to_the_client() {
    let (mut rig, _, b, server) = shared();
    binds(&mut rig, b);
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("42P01", "relation \"t\" does not exist"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(server)[..2],
        ["Close Spgweir_11", "Parse pgweir_11 select * from t"]
    );
    rig.says(server, |w| {
        w.empty(b'3');
        w.error(&error("42P01", "relation \"t\" does not exist"));
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(b),
        ["Error 42P01 relation \"t\" does not exist", "ReadyForQuery I"]
    );
}

/// A client that leaves while its server is asked leaves a clean server.
#[test]
fn a_client_may_leave_while_its_server_is_asked() {
    let (mut rig, a, b, server) = shared();
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
    rig.client_leaves(b);
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("0A000", CHANGED));
        w.ready_for_query(Idle);
        w.error(&error("34000", "portal does not exist"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    rig.told(server);
    binds(&mut rig, a);
    assert_eq!(rig.serves(server, "SELECT 1")[0], "Close Spgweir_11");
    assert_eq!(rig.told(a).last().unwrap(), "ReadyForQuery I");
}

/// In a failed transaction the server refuses everything with 25P02.
#[test]
fn in_a_failed_transaction_everything_is_left_to_the_server() {
    let (mut rig, _, b, server) = shared();
    rig.says(b, |w| w.query(b"begin; select 1/0"));
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("22012", "division by zero"));
        w.ready_for_query(Failed);
    });
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Bind  pgweir_11", "Execute", "Sync"]);
}
