//! Clients that vanish, and what becomes of the servers that worked for them.

use crate::rig::{Rig, error};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};

#[test]
fn a_client_that_vanishes_in_a_transaction_leaves_a_rolled_back_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"begin; insert"));
    let server = rig.server_of(client).unwrap();
    rig.told(server);
    rig.says(server, |w| {
        w.command_complete("INSERT 0 1");
        w.ready_for_query(InTransaction);
    });
    rig.client_leaves(client);
    assert_eq!(rig.told(server), ["Query ROLLBACK"]);
    rig.completes(server, "ROLLBACK");
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(next), Some(server), "the server was not lost");
}

#[test]
fn a_client_that_vanishes_mid_query_has_it_cancelled_and_its_answer_reaches_nobody() {
    let mut rig = Rig::new("default_pool_size = 1");
    let client = rig.client();
    rig.says(client, |w| w.query(b"select pg_sleep(9)"));
    let server = rig.server_of(client).unwrap();
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 2"));
    rig.client_leaves(client);
    assert_eq!(rig.cancels.len(), 1);
    rig.says(server, |w| {
        w.error(&error("57014", "canceling statement due to user request"));
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.server_of(next), None);
    rig.cancel_arrives(server);
    assert_eq!(rig.server_of(next), Some(server));
    assert!(rig.told(next).is_empty());
}

#[test]
fn a_client_that_vanishes_in_copy_in_ends_it_with_copy_fail() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| w.query(b"copy t from stdin"));
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.message(b'G', |b| b.extend([0, 0, 0])));
    rig.told(server);
    rig.client_leaves(client);
    assert_eq!(rig.told(server), ["CopyFail"]);
    rig.says(server, |w| {
        w.error(&error("57014", "COPY from stdin failed: client disconnected"));
        w.ready_for_query(Idle);
    });
    rig.cancel_arrives(server);
    let next = rig.client();
    rig.says(next, |w| w.query(b"select 1"));
    assert_eq!(rig.server_of(next), Some(server));
}
