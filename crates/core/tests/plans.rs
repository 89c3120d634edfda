//! Shared statements and DDL: which clients get "cached plan must not change result type", and which must not.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Failed, Idle, InTransaction};
use pgweir_wire::write::Column;
use pgweir_wire::{TransactionStatus, Writer};
use rig::{Rig, error};

const TEXT: &[u8] = b"select * from t";
const NO_TYPES: &[u8] = &[0, 0];
const CHANGED: &str = "cached plan must not change result type";

/// The description of a table with these columns.
fn rows(w: &mut Writer<'_>, names: &[&str]) {
    let column = |name| Column {
        name,
        type_oid: 23,
        type_bytes: 4,
    };
    let columns: Vec<_> = names.iter().map(|&name| column(name)).collect();
    w.message(b't', |body| body.extend([0, 0]));
    w.row_description(&columns);
}

fn describes(rig: &mut Rig, server: ServerId, names: &[&str]) {
    rig.says(server, |w| rows(w, names));
}

fn says_changed(rig: &mut Rig, server: ServerId, status: TransactionStatus) {
    rig.says(server, |w| {
        w.error(&error("0A000", CHANGED));
        w.ready_for_query(status);
    });
}

fn binds(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
}

/// `a` has prepared the statement on the only server, and `b` after it, so that the server did not see the Parse of
/// `b`.
fn shared() -> (Rig, ClientId, ClientId, ServerId) {
    let mut rig = Rig::new("default_pool_size = 1");
    let (a, b) = (rig.client(), rig.client());
    for client in [a, b] {
        rig.says(client, |w| {
            w.parse(b"s", TEXT, NO_TYPES);
            w.sync();
        });
        let server = rig.server_of(client).unwrap();
        rig.serves(server, "SELECT 1");
        rig.told(client);
        if client == b {
            return (rig, a, b, server);
        }
    }
    unreachable!()
}

/// Guards against 0A000 for a client that prepared the statement after the DDL.
#[test]
fn a_plan_that_may_be_older_than_the_clients_parse_is_looked_at_before_its_first_use() {
    let (mut rig, _, b, server) = shared();
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Describe Spgweir_10", "Sync"]);
    says_changed(&mut rig, server, Idle);
    assert_eq!(
        rig.serves(server, "SELECT 1"),
        [
            "Close Spgweir_10",
            "Parse pgweir_10 select * from t",
            "Bind  pgweir_10",
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
        ["Bind  pgweir_10", "Execute", "Sync"],
        "once"
    );
}

#[test]
fn a_plan_that_is_still_good_is_looked_at_once() {
    let (mut rig, a, b, server) = shared();
    binds(&mut rig, b);
    assert_eq!(rig.told(server), ["Describe Spgweir_10", "Sync"]);
    rig.says(server, |w| {
        rows(w, &["a"]);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_10", "Execute", "Sync"]);
    for client in [a, b] {
        rig.told(client);
        binds(&mut rig, client);
        assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_10", "Execute", "Sync"]);
    }
}

/// Another client's successful use proves, as a Describe would, that the plan is good.
#[test]
fn a_plan_that_somebody_has_used_since_the_parse_is_not_looked_at() {
    let (mut rig, a, b, server) = shared();
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1"),
        ["Bind  pgweir_10", "Execute", "Sync"],
        "as old as the plan"
    );
    // The logical clock ticks only when a client prepares something.
    rig.says(a, |w| {
        w.parse(b"other", b"select 2", NO_TYPES);
        w.sync();
    });
    rig.serves(server, "SELECT 1");
    binds(&mut rig, b);
    assert_eq!(rig.serves(server, "SELECT 1"), ["Bind  pgweir_10", "Execute", "Sync"]);
}

/// As in PostgreSQL: the client's own Parse came before the DDL.
#[test]
fn a_client_that_prepared_before_the_ddl_gets_the_error_and_its_next_use_goes_on() {
    let (mut rig, a, _, server) = shared();
    binds(&mut rig, a);
    assert_eq!(rig.told(server), ["Bind  pgweir_10", "Execute", "Sync"]);
    says_changed(&mut rig, server, Idle);
    assert_eq!(
        rig.told(a),
        [format!("Error 0A000 {CHANGED}"), "ReadyForQuery I".into()]
    );
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1")[..2],
        ["Close Spgweir_10", "Parse pgweir_10 select * from t"]
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
            "Close Spgweir_10",
            "Parse pgweir_10 select * from t",
            "Bind  pgweir_10",
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
        ["Close Spgweir_10", "Parse pgweir_10 select * from t"],
        "{asked:?}"
    );
}

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
        ["Parse pgweir_10 select * from t", "Describe Spgweir_10", "Flush"]
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
    assert_eq!(rig.told(second), ["Describe Spgweir_10", "Sync"]);
    rig.says(second, |w| {
        rows(w, &["a", "b"]);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(second),
        ["Describe Spgweir_10", "Bind  pgweir_10", "Execute", "Sync"]
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

fn binds_and_describes(rig: &mut Rig, client: ClientId) {
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.describe(b'P', b"");
        w.execute();
        w.sync();
    });
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
            ["Parse pgweir_10 select * from t", "Describe Spgweir_10", "Flush"]
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
        assert_eq!(rig.told(second), ["Describe Spgweir_10", "Sync"]);
        rig.says(second, |w| {
            rows(w, &["a", "b"]);
            w.ready_for_query(Idle);
        });
        assert_eq!(rig.told(second), ["Bind  pgweir_10", "Describe P", "Execute", "Sync"]);
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
            "Parse pgweir_10 select * from t",
            "Bind  pgweir_10",
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
            "Close Spgweir_10",
            "Parse pgweir_10 select * from t",
            "Describe Spgweir_10",
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
        ["Bind  pgweir_10", "Execute", "Sync"],
        "the column has been renamed back"
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
    assert_eq!(asked[0], "Close Spgweir_10");
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
    assert_eq!(rig.told(server), ["Describe Spgweir_10", "Sync"]);
}

/// Guards against 26000 with an internal name, and against another statement under that name: no command tag shows what
/// dynamic SQL in a DO block does. A client's replacement may describe itself like the original.
#[test]
fn statements_that_code_may_have_replaced_are_prepared_again_before_their_next_use() {
    let (mut rig, a, b, server) = shared();
    rig.says(a, |w| w.query(b"do $$begin execute 'deallocate all'; end$$"));
    rig.completes(server, "DO");
    rig.told(server);
    rig.told(a);
    for client in [a, b] {
        binds(&mut rig, client);
        let asked = rig.serves(server, "SELECT 1");
        let anew: &[&str] = if client == a {
            &["Close Spgweir_10", "Parse pgweir_10 select * from t"]
        } else {
            &[]
        };
        assert_eq!(asked[..asked.len() - 3], *anew, "once");
        assert_eq!(
            rig.told(client),
            ["BindComplete", "CommandComplete SELECT 1", "ReadyForQuery I"]
        );
    }
}

#[test]
fn statements_that_a_function_has_deallocated_unseen_are_prepared_again_for_the_next_use() {
    let (mut rig, a, _, server) = shared();
    binds(&mut rig, a);
    rig.told(server);
    let refusal = rig.error_about("26000", "prepared statement \"pgweir_10\" does not exist");
    rig.says(server, |w| {
        w.error(&refusal);
        w.ready_for_query(Idle);
    });
    assert_eq!(
        rig.told(a)[0],
        "Error 26000 prepared statement \"s\" does not exist",
        "in the client's words"
    );
    binds(&mut rig, a);
    assert_eq!(
        rig.serves(server, "SELECT 1")[..2],
        ["Close Spgweir_10", "Parse pgweir_10 select * from t"]
    );
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
        ["Close Spgweir_10", "Parse pgweir_10 select * from t"]
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
    assert_eq!(rig.told(server), ["Describe Spgweir_10", "Sync"]);
    rig.client_leaves(b);
    rig.told(server);
    rig.says(server, |w| {
        w.error(&error("0A000", CHANGED));
        w.ready_for_query(Idle);
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    rig.told(server);
    binds(&mut rig, a);
    assert_eq!(rig.serves(server, "SELECT 1")[0], "Close Spgweir_10");
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
    assert_eq!(rig.told(server), ["Bind  pgweir_10", "Execute", "Sync"]);
}
