//! A cancel request comes, and its client's request has arrived, but has not been read.

use crate::rig::{NO_TYPES, Rig, error};
use crate::taking_over::{DATABASE, take_over};
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::CancelKey;
use pgweir_wire::TransactionStatus::Idle;
use std::time::Duration;

/// Longer than a server gets for reading a request that came together with its cancel.
const A_MOMENT: Duration = Duration::from_millis(30);

/// An order to the console.
fn order(rig: &mut Rig, boss: ClientId, text: &str) {
    rig.query(boss, text);
    assert!(!rig.told(boss).iter().any(|told| told.starts_with("Error")));
}

/// SUSPEND is in force, and a client has sent a query and a cancel request: the console, the client, its key, and the
/// connection of the request.
fn suspended(rig: &mut Rig) -> (ClientId, ClientId, CancelKey, ClientId) {
    let (client, key) = rig.client_with_key();
    let boss = rig.console();
    order(rig, boss, "suspend");
    rig.arrives(client, |w| w.query(b"select pg_sleep(9)"));
    let by = rig.cancel_request(&key);
    (boss, client, key, by)
}

/// The cancel goes to the server of this client, and its connection is closed when it has been carried out.
fn is_cancelled(rig: &mut Rig, client: ClientId, by: ClientId) -> ServerId {
    let server = rig.server_of(client).expect("the query runs");
    assert!(rig.cancels.is_empty(), "the server has not read the query yet");
    rig.wait(A_MOMENT);
    assert_eq!(rig.cancels.pop_front().map(|(to, _)| to), Some(server));
    assert!(!rig.is_closed(by), "the signal has not been sent");
    rig.cancel_arrives(server);
    assert!(rig.is_closed(by));
    server
}

#[test]
fn what_has_arrived_is_read_before_a_cancel_takes_effect() {
    let mut rig = Rig::new("");
    let (client, key) = rig.client_with_key();
    rig.arrives(client, |w| w.query(b"select pg_sleep(9)"));
    let by = rig.cancel_request(&key);
    is_cancelled(&mut rig, client, by);
}

#[test]
fn a_request_that_then_waits_for_a_server_is_cancelled_at_once() {
    let mut rig = Rig::new("default_pool_size = 1");
    let busy = rig.client();
    rig.query(busy, "select pg_sleep(9)");
    let (client, key) = rig.client_with_key();
    rig.arrives(client, |w| w.query(b"select 1"));
    let by = rig.cancel_request(&key);
    let told = rig.told(client);
    assert_eq!(told[0], "Error 57014 canceling statement due to user request");
    assert!(rig.is_closed(by));
}

#[test]
fn a_cancel_waits_for_the_end_of_suspend() {
    let mut rig = Rig::new("cancel_wait_timeout = 2");
    let (boss, client, _, by) = suspended(&mut rig);
    rig.wait(Duration::from_secs(5));
    assert!(!rig.is_closed(by) && rig.cancels.is_empty());
    order(&mut rig, boss, "resume");
    let server = is_cancelled(&mut rig, client, by);
    rig.completes(server, "SELECT 1");
    rig.query(client, "select 2");
    rig.wait(Duration::from_secs(5));
    assert!(rig.cancels.is_empty(), "a later query is not hit");
}

#[test]
fn a_shutdown_that_waits_ends_suspend_too() {
    let mut rig = Rig::new("");
    let (boss, client, _, by) = suspended(&mut rig);
    rig.query(boss, "shutdown wait_for_clients");
    is_cancelled(&mut rig, client, by);
}

#[test]
fn a_cancel_of_what_runs_under_suspend_goes_to_its_server_at_once() {
    let mut rig = Rig::new("");
    let (client, key) = rig.client_with_key();
    rig.query(client, "select pg_sleep(9)");
    let boss = rig.console();
    order(&mut rig, boss, "suspend");
    rig.cancel_request(&key);
    assert_eq!(rig.cancels.len(), 1);
}

#[test]
fn a_cancel_that_finds_nothing_after_resume_ends() {
    let mut rig = Rig::new("");
    let (client, key) = rig.client_with_key();
    let boss = rig.console();
    order(&mut rig, boss, "suspend");
    let by = rig.cancel_request(&key);
    assert!(!rig.is_closed(by));
    order(&mut rig, boss, "resume");
    assert!(rig.is_closed(by));
    rig.query(client, "select 1");
    rig.wait(A_MOMENT);
    assert!(rig.cancels.is_empty());
}

#[test]
fn a_held_cancel_ends_with_its_client_and_with_its_own_connection() {
    let mut rig = Rig::new("");
    let (boss, client, key, by) = suspended(&mut rig);
    let second = rig.cancel_request(&key);
    rig.client_leaves(second);
    rig.client_leaves(client);
    assert!(rig.is_closed(by));
    order(&mut rig, boss, "resume");
    rig.wait(A_MOMENT);
    assert!(rig.cancels.is_empty());
}

#[test]
fn a_held_cancel_goes_on_in_the_process_that_takes_over() {
    let mut rig = Rig::new("");
    let (boss, client, _, by) = suspended(&mut rig);
    take_over(&mut rig, crate::rig::configuration(DATABASE, ""), |_| true);
    rig.wait(A_MOMENT);
    assert!(!rig.is_closed(by));
    order(&mut rig, boss, "resume");
    is_cancelled(&mut rig, client, by);
}

/// Another client has prepared the statement on the only server since the client's Parse was answered by the pooler.
#[test]
fn a_cancel_ends_the_look_at_a_plan_and_then_what_waits_for_it() {
    let mut rig = Rig::new("default_pool_size = 1");
    let other = rig.client();
    let (client, key) = rig.client_with_key();
    for id in [other, client] {
        rig.says(id, |w| {
            w.parse(b"s", b"select * from t", NO_TYPES);
            w.sync();
        });
        let server = rig.server_of(id).unwrap();
        rig.serves(server, "SELECT 1");
    }
    rig.told(client);
    rig.says(client, |w| {
        w.bind_text(b"s", &[]);
        w.execute();
        w.sync();
    });
    let server = rig.server_of(client).unwrap();
    assert_eq!(rig.told(server), ["Describe Spgweir_11", "Sync"]);
    // The table is locked.
    let by = rig.cancel_request(&key);
    assert_eq!(rig.cancels.pop_front().map(|(to, _)| to), Some(server));
    rig.cancel_arrives(server);
    let cancelled = error("57014", "canceling statement due to user request");
    rig.says(server, |w| {
        w.error(&cancelled);
        w.ready_for_query(Idle);
    });
    assert_eq!(rig.told(client), [""; 0], "its Bind has not been sent");
    let told = rig.told(server);
    assert_eq!(
        told[told.len() - 3..],
        ["Bind  pgweir_11", "Execute", "Sync"],
        "{told:?}"
    );
    rig.wait(A_MOMENT);
    assert_eq!(rig.cancels.pop_front().map(|(to, _)| to), Some(server));
    rig.cancel_arrives(server);
    assert!(rig.is_closed(by));
    rig.says(server, |w| {
        w.empty(b'3');
        w.error(&cancelled);
        w.ready_for_query(Idle);
    });
    let told = rig.told(client);
    assert_eq!(told[0], "Error 57014 canceling statement due to user request");
}
