//! Cancel requests in front of, during and behind the pooler's own requests.

use super::restorations::confirms;
use crate::rig::{Rig, error};
use pgweir_core::{CancelEnd, ClientId, ServerId};
use pgweir_wire::TransactionStatus;
use std::time::Duration;

#[test]
fn a_cancel_during_a_restoration_ends_the_request_and_spares_the_restoration() {
    let mut rig = Rig::one_server("");
    let plain = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(id).unwrap();
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.says(plain, |w| w.query(b"select 1"));
    confirms(&mut rig, server, &[("TimeZone", "UTC")]);
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(id, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    assert_eq!(
        rig.told(id),
        ["Error 57014 canceling statement due to user request", "ReadyForQuery I"]
    );
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    assert_eq!(rig.told(server), [""; 0], "the INSERT has not run");
    rig.says(id, |w| w.query(b"select 2"));
    assert_eq!(rig.told(server), ["Query select 2"], "the server looks like it already");
}

/// As in PostgreSQL, a cancel in a transaction fails it, even if no server has begun it.
#[test]
fn a_cancel_in_front_of_a_deferred_begin_fails_the_transaction() {
    let mut rig = Rig::one_server("");
    let (a, b) = (rig.client(), rig.client_begins(&[("user", "u"), ("database", "db")]));
    let key = rig.key_told(b);
    rig.told(b);
    rig.says(a, |w| w.query(b"select pg_sleep(1)"));
    let server = rig.server_of(a).unwrap();
    rig.says(b, |w| w.query(b"begin"));
    rig.says(b, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    assert_eq!(
        rig.told(b),
        [
            "CommandComplete BEGIN",
            "ReadyForQuery T",
            "Error 57014 canceling statement due to user request",
            "ReadyForQuery E"
        ]
    );
    rig.completes(server, "SELECT 1");
    rig.told(server);
    rig.says(b, |w| w.query(b"insert into t values (2)"));
    let told = rig.told(server);
    rig.fails_begin(server, &told);
    assert_eq!(rig.told(server), ["Query insert into t values (2)"]);
    rig.says(server, |w| {
        w.error(&error("25P02", "current transaction is aborted"));
        w.ready_for_query(pgweir_wire::TransactionStatus::Failed);
    });
    assert_eq!(
        rig.told(b),
        ["Error 25P02 current transaction is aborted", "ReadyForQuery E"]
    );
}

#[test]
fn a_transaction_that_failed_before_it_began_is_rolled_back_without_a_server() {
    let mut rig = Rig::one_server("");
    let (a, b) = (rig.client(), rig.client_begins(&[("user", "u"), ("database", "db")]));
    let key = rig.key_told(b);
    rig.says(a, |w| w.query(b"select pg_sleep(1)"));
    rig.says(b, |w| w.query(b"begin"));
    rig.says(b, |w| w.query(b"insert into t values (1)"));
    rig.cancel_request(&key);
    rig.told(b);
    rig.says(b, |w| w.query(b"commit"));
    assert_eq!(rig.told(b), ["CommandComplete ROLLBACK", "ReadyForQuery I"]);
}

/// A client, its cancel key and its server, which has been sent a probe after a DO.
fn probed(rig: &mut Rig) -> (ClientId, pgweir_wire::CancelKey, ServerId) {
    let first = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.told(first);
    rig.says(id, |w| w.query(b"do $$ begin perform 1; end $$"));
    let server = rig.server_of(id).unwrap();
    rig.completes(server, "DO");
    assert_eq!(rig.told(id), ["CommandComplete DO", "ReadyForQuery I"]);
    (id, key, server)
}

#[test]
fn a_cancel_of_an_idle_client_does_not_hit_the_question_about_its_session() {
    let mut rig = Rig::one_server("session_state_probe = always");
    let (id, key, server) = probed(&mut rig);
    assert_eq!(
        rig.server_of(id),
        Some(server),
        "it is asked what has become of the session"
    );
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    // The client's next query is not cancelled either.
    rig.says(id, |w| w.query(b"select 1"));
    let told = rig.told(server);
    rig.answers(server, &told, &[]);
    assert!(rig.cancels.is_empty());
}

#[test]
fn a_cancel_of_a_request_behind_the_question_waits_for_its_turn() {
    let mut rig = Rig::one_server("session_state_probe = always");
    let (id, key, server) = probed(&mut rig);
    rig.says(id, |w| w.query(b"select pg_sleep(9)"));
    rig.cancel_request(&key);
    assert!(rig.cancels.is_empty());
    let told = rig.told(server);
    assert_eq!(told.last().unwrap(), "Query select pg_sleep(9)");
    rig.answers(server, &told, &[]);
    assert_eq!(rig.cancels.len(), 1, "now it is at work");
}

/// The client's next message waits until it is known what must be restored. Guards against a cancel that is lost because
/// that message has not been handled.
#[test]
fn a_cancel_of_a_message_that_waits_for_a_probe_is_held_for_cancel_wait_timeout() {
    let mut rig = Rig::one_server("cancel_wait_timeout = 2");
    rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db"), ("TimeZone", "Asia/Tokyo")]);
    let server = rig.server_of(id).unwrap();
    confirms(&mut rig, server, &[("TimeZone", "Asia/Tokyo")]);
    let key = rig.key_told(id);
    rig.query(id, "reset all");
    rig.told(server);
    rig.completes(server, "RESET");
    rig.told(server);
    rig.query(id, "select pg_sleep(9)");
    assert_eq!(rig.told(server), [""; 0], "it waits");
    let by = rig.cancel_request(&key);
    rig.wait(Duration::from_secs(1));
    assert!(!rig.is_closed(by) && rig.cancels.is_empty());
    rig.wait(Duration::from_secs(2));
    assert!(rig.is_closed(by) && rig.cancels.is_empty());
}

/// Guards against a late cancel that makes the probe fail, so that the client's settings are lost.
#[test]
fn the_question_about_a_session_waits_for_the_end_of_a_cancel() {
    let mut rig = Rig::one_server("");
    let first = rig.client();
    let id = rig.client_begins(&[("user", "u"), ("database", "db")]);
    let key = rig.key_told(id);
    rig.told(id);
    rig.told(first);
    rig.says(id, |w| w.query(b"set role bob"));
    let server = rig.server_of(id).unwrap();
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
    rig.told(server);
    rig.completes(server, "SET");
    assert_eq!(rig.told(server), [""; 0]);
    assert_eq!(rig.server_of(id), Some(server));
    rig.cancel_arrives(server);
    assert!(
        rig.told(server).iter().any(|l| l.starts_with("Bind")),
        "now it is asked"
    );
}

/// Guards against a late cancel that makes the cleaning of the session fail, so that the connection is closed.
#[test]
fn the_cleaning_of_a_session_waits_for_the_end_of_a_cancel() {
    let mut rig = Rig::one_server("pool_mode = session");
    let (id, key) = rig.client_with_key();
    rig.query(id, "select 1");
    let server = rig.server_of(id).unwrap();
    rig.told(server);
    let by = rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
    rig.completes(server, "SELECT 1");
    rig.client_leaves(id);
    assert_eq!(rig.told(server), [""; 0], "the cancel may still come");
    rig.cancel_arrives(server);
    assert!(rig.is_closed(by));
    rig.is_told_to_discard_and(server, " FROM pg_catalog.pg_stat_force_next_flush()");
    rig.completes(server, "DISCARD ALL");
    rig.says(server, |w| {
        w.data_row(1, [Some(&b"f"[..])]);
        w.command_complete("SELECT 1");
        w.ready_for_query(TransactionStatus::Idle);
    });
    assert_eq!(rig.told(server), [""; 0], "it is cleaned once");
    let next = rig.client();
    rig.query(next, "select 2");
    assert_eq!(rig.server_of(next), Some(server));
}

/// Guards against a cancel that hits another client: the postmaster was so busy that it carried the request out after
/// the pooler had given up waiting for that.
#[test]
fn a_server_that_a_late_cancel_may_hit_serves_nobody_else() {
    let mut rig = Rig::one_server("");
    let (id, key) = rig.client_with_key();
    rig.query(id, "select 1");
    let server = rig.server_of(id).unwrap();
    rig.told(server);
    rig.cancel_request(&key);
    rig.completes(server, "SELECT 1");
    rig.cancel_ends(server, CancelEnd::NotKnown);
    assert!(rig.is_closed(server));
    rig.query(id, "select 2");
    let other = rig.servers_log_in()[0];
    assert_eq!(rig.server_of(id), Some(other));
}

/// A driver waits for the end of its cancel connection, and then sends its next statement.
#[test]
fn a_cancel_request_that_is_under_way_is_not_closed_for_newcomers() {
    let mut rig = Rig::one_server("max_client_conn = 1");
    let (client, key) = rig.client_with_key();
    rig.query(client, "select 1");
    let server = rig.server_of(client).expect("it is served");
    let by = rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
    let strangers: Vec<ClientId> = (0..40).map(|_| rig.silent_client()).collect();
    assert!(!rig.is_closed(by) && rig.told(by).is_empty());
    assert!(
        rig.is_closed(strangers[0]) && !rig.is_closed(strangers[39]),
        "they make room for each other"
    );
    rig.cancel_arrives(server);
    assert!(rig.is_closed(by));
}

/// Guards against cancel requests without number, and against wrong keys that take the places of right ones.
#[test]
fn cancel_requests_beyond_a_limit_count_as_connections_that_log_in() {
    let mut rig = Rig::one_server("max_client_conn = 1");
    let (client, key) = rig.client_with_key();
    rig.query(client, "select 1");
    for n in 0..200 {
        let mut wrong = key.clone();
        wrong.process_id ^= 0x0101 + n;
        let by = rig.cancel_request(&wrong);
        assert!(rig.is_closed(by));
    }
    let right: Vec<ClientId> = (0..100).map(|_| rig.cancel_request(&key)).collect();
    let open = right.iter().filter(|by| !rig.is_closed(**by)).count();
    assert_eq!(open, 64 + 16);
    assert!(
        !rig.is_closed(right[63]) && rig.is_closed(right[64]),
        "the first ones have a place"
    );
}
