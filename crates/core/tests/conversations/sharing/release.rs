//! When a server leaves its client: with the last answer that it owes, and not before.

use crate::rig::{Rig, error};
use pgweir_wire::TransactionStatus::Idle;

#[test]
fn a_server_is_released_at_the_idle_ready_for_query_that_empties_the_queue_and_not_before() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.query(b"select 1");
        w.query(b"select 2");
    });
    let server = rig.server_of(client).expect("linked");
    assert_eq!(rig.told(server), ["Query select 1", "Query select 2"]);
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server), "one answer is still owed");
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), None);
    assert_eq!(rig.told(client).len(), 4);
}

#[test]
fn an_extended_segment_without_sync_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"select 1", &[0, 0]);
        w.empty(b'H');
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.empty(b'1'));
    assert_eq!(rig.told(client), ["ParseComplete"]);
    rig.client_leaves(client);
    assert_eq!(
        rig.told(server),
        [
            "Parse  select 1",
            "Flush",
            "Describe Pthe transaction has failed",
            "Sync"
        ],
        "the implicit transaction is ended, not handed on"
    );
}

#[test]
fn sync_during_copy_in_is_swallowed_by_the_server_and_not_waited_for() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"", b"copy t from stdin", &[0, 0]);
        w.bind_text(b"", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| {
        w.empty(b'1');
        w.empty(b'2');
        w.message(b'G', |b| b.extend([0, 0, 0]));
    });
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.empty(b'c');
        w.sync();
    });
    rig.completes(server, "COPY 1");
    assert_eq!(rig.server_of(client), None, "one ReadyForQuery, not two (recording E7)");
}

#[test]
fn late_copy_messages_take_no_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.message(b'd', |b| b.extend(*b"1\n"));
        w.empty(b'c');
    });
    assert_eq!(rig.server_of(client), None);
    assert!(rig.told(client).is_empty());
}

#[test]
fn a_flush_is_answered_when_what_stands_before_it_is() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.parse(b"s", b"select 1", &[0, 0]);
        w.close(b'S', b"s");
        w.empty(b'H');
    });
    let server = rig.server_of(client).unwrap();
    rig.says(server, |w| w.empty(b'1'));
    assert_eq!(rig.told(client), ["ParseComplete", "CloseComplete"]);
}

/// PostgreSQL refuses it and then ignores everything up to Sync: the next client of that server would never get an
/// answer.
#[test]
fn a_flush_with_a_body_behind_a_sync_keeps_the_server() {
    let mut rig = Rig::new("");
    let client = rig.client();
    rig.says(client, |w| {
        w.query(b"select 1");
        w.message(b'H', |b| b.extend(*b"poison"));
    });
    let server = rig.server_of(client).unwrap();
    rig.completes(server, "SELECT 1");
    assert_eq!(rig.server_of(client), Some(server), "an error is owed");
    rig.says(server, |w| w.error(&error("08P01", "invalid message format")));
    rig.says(client, |w| w.query(b"ignored"));
    rig.says(client, |w| w.sync());
    let told = rig.told(server);
    assert_eq!(told[told.len() - 1], "Sync", "{told:?}");
    rig.says(server, |w| w.ready_for_query(Idle));
    assert_eq!(
        rig.told(client)[2..],
        ["Error 08P01 invalid message format", "ReadyForQuery I"]
    );
    assert_eq!(rig.server_of(client), None);
}
