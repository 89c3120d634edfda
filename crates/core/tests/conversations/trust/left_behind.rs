//! What clients that have left leave on their servers.

use crate::rig::{Rig, error};
use pgweir_core::ServerId;
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

/// A client that sends two queries at once, and leaves.
fn leaves_two_queries(rig: &mut Rig, first: &[u8]) -> ServerId {
    let id = rig.client();
    rig.says(id, |w| {
        w.query(first);
        w.query(b"delete from t");
    });
    let server = rig.server_of(id).unwrap();
    rig.client_leaves(id);
    server
}

/// Guards against a statement that runs without what its client has sent in front of it: the client left, and the pooler
/// cancelled the SET ROLE.
#[test]
fn nothing_is_cancelled_while_more_of_the_client_that_left_is_behind_it() {
    let mut rig = Rig::one_server("");
    let server = leaves_two_queries(&mut rig, b"set role bob");
    rig.wait(Duration::from_millis(500));
    assert_eq!(rig.cancels.len(), 0);
    rig.completes(server, "SET");
    rig.wait(Duration::from_millis(400));
    assert_eq!(rig.cancels.len(), 1, "nothing is behind the second one");
    rig.cancel_arrives(server);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.aborted, []);
    assert!(rig.told(server).iter().any(|line| line == "Query DISCARD ALL"));
}

/// Guards against a server that is lost for ten seconds, while PostgreSQL runs queries that no client waits for.
#[test]
fn queries_that_a_client_has_left_behind_end_with_their_connection_if_the_first_takes_long() {
    let mut rig = Rig::one_server("");
    let server = leaves_two_queries(&mut rig, b"select pg_sleep(9)");
    rig.wait(Duration::from_millis(1400));
    assert_eq!(rig.cancels.len(), 1);
    assert_eq!(rig.aborted, [server], "so that it does not read the second");
}

/// Guards against a client that gets a server which waits for a Sync: a Bind failed after its last client had left, and
/// the Query after it was ignored.
#[test]
fn a_server_that_waits_for_a_sync_gets_one_when_its_client_has_left() {
    let mut rig = Rig::one_server("");
    let id = rig.client();
    rig.says(id, |w| {
        w.bind_text(b"nothing", &[]);
        w.query(b"select 1");
    });
    let server = rig.server_of(id).unwrap();
    rig.told(server);
    rig.client_leaves(id);
    rig.cancel_arrives(server);
    rig.says(server, |w| {
        w.error(&error("26000", "prepared statement does not exist"));
    });
    assert_eq!(rig.told(server), ["Sync"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert!(
        rig.closed.contains(&server.into()),
        "PostgreSQL 18 would fail the next client's command"
    );
}

/// Guards against running another client's unnamed statement: a Query without its terminator fails before it destroys
/// that statement.
#[test]
fn a_malformed_query_does_not_end_the_unnamed_statement_of_another_client() {
    for broken in [&b"select 1"[..], b"select\0 1\0"] {
        let mut rig = Rig::one_server("");
        let (a, b) = (rig.client(), rig.client());
        rig.says(a, |w| {
            w.parse(b"", b"select 'secret'", &[0, 0]);
            w.sync();
        });
        let server = rig.server_of(a).unwrap();
        rig.told(server);
        rig.says(server, |w| {
            w.empty(b'1');
            w.ready_for_query(Idle);
        });
        rig.says(b, |w| {
            w.message(b'Q', |body| body.extend_from_slice(broken));
            w.bind_text(b"", &[]);
            w.execute();
            w.sync();
        });
        let mut told = rig.told(server);
        if told.iter().any(|l| l.ends_with("pgweir_c")) {
            // A text that cannot be read counts as code: other clients' values of sequences are discarded first.
            rig.says(server, |w| {
                w.empty(b'1');
                w.empty(b'2');
                w.command_complete("DISCARD SEQUENCES");
                w.empty(b'3');
                w.ready_for_query(Idle);
            });
            told = rig.told(server);
        }
        let close = told
            .iter()
            .position(|l| l == "Close S")
            .expect("the statement is closed");
        let bind = told.iter().rposition(|l| l.starts_with("Bind")).unwrap();
        assert!(close < bind, "{told:?}");
    }
}

/// Guards against committing half of what a client wanted to do: a Sync would complete the transaction that its client
/// has not completed. On a connection of its own the client's end would roll it back.
#[test]
fn what_a_client_has_not_completed_by_a_sync_is_rolled_back() {
    for answered in [false, true] {
        let mut rig = Rig::one_server("");
        let id = rig.client();
        rig.says(id, |w| {
            w.parse(b"", b"insert into t values (1)", &[0, 0]);
            w.bind_text(b"", &[]);
            w.execute();
            w.flush();
        });
        let server = rig.server_of(id).unwrap();
        rig.told(server);
        if answered {
            rig.says(server, |w| {
                w.empty(b'1');
                w.empty(b'2');
                w.command_complete("INSERT 0 1");
            });
        }
        rig.client_leaves(id);
        let told = rig.told(server);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("Describe P") && told[1] == "Sync", "{told:?}");
        assert_eq!(rig.cancels.len(), 1, "nobody waits for it");
        rig.cancel_arrives(server);
        if !answered {
            rig.says(server, |w| {
                w.empty(b'1');
                w.empty(b'2');
                w.command_complete("INSERT 0 1");
            });
        }
        rig.says(server, |w| {
            w.error(&error("34000", "portal \"the transaction has failed\" does not exist"));
            w.ready_for_query(Idle);
        });
        assert_eq!(rig.told(server), [""; 0], "answered: {answered}");
        let next = rig.client();
        rig.query(next, "select 1");
        assert_eq!(rig.server_of(next), Some(server), "it serves on");
    }
}

/// The server ignores everything up to the Sync anyway.
#[test]
fn a_segment_that_has_failed_is_ended_by_a_sync_alone() {
    let mut rig = Rig::one_server("");
    let id = rig.client();
    rig.says(id, |w| {
        w.parse(b"", b"slect", &[0, 0]);
        w.flush();
    });
    let server = rig.server_of(id).unwrap();
    rig.told(server);
    rig.says(server, |w| w.error(&error("42601", "syntax error")));
    rig.client_leaves(id);
    assert_eq!(rig.told(server), ["Sync"]);
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(rig.aborted, []);
}
