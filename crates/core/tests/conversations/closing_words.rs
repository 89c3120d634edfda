//! The log's reasons for the end of connections: scripts look for PgBouncer's words.

use crate::rig::{Rig, configuration};
use crate::sharing::pool_places::server_at_limit;
use pgweir_core::{CancelEnd, ClientId};
use pgweir_wire::CancelKey;
use std::time::Duration;

/// Why connections whose labels begin with this letter have been closed, in order.
fn reasons(rig: &Rig, kind: char) -> Vec<&str> {
    let lines = rig.log.iter().filter(|(_, text)| text.starts_with(kind));
    let ends = lines.filter_map(|(_, text)| text.split_once(" closing because: "));
    ends.map(|(_, reason)| reason.split(" (age=").next().unwrap()).collect()
}

/// Two databases, one server, a limit of `settings`: why the first database's server makes way for the second one.
fn evicted_for(settings: &str) -> String {
    let databases = "one = host=127.0.0.1 user=u dbname=a\ntwo = host=127.0.0.1 user=u dbname=a";
    let mut rig = Rig::with(databases, settings);
    for database in ["one", "two"] {
        rig.client_begins(&[("user", "u"), ("database", database)]);
        rig.servers_log_in();
    }
    let server = *rig.endpoints.keys().next().unwrap();
    rig.wait(Duration::from_secs(3));
    rig.server_dies(server);
    reasons(&rig, 'S').join(", ")
}

#[test]
fn a_server_that_makes_way_names_the_limit() {
    assert_eq!(
        evicted_for("max_user_connections = 1"),
        "evicted for max_user_connections"
    );
}

/// A server that works when it is chosen makes way when it is free: the limit is not forgotten meanwhile.
#[test]
fn a_server_that_makes_way_later_names_the_limit() {
    let (mut rig, server) = server_at_limit();
    rig.client_begins(&[("user", "u"), ("database", "two")]);
    rig.wait(Duration::from_secs(3));
    rig.completes(server, "SELECT 1");
    rig.wait(Duration::from_secs(1));
    rig.server_dies(server);
    assert_eq!(reasons(&rig, 'S'), ["evicted for max_user_connections"]);
}

/// Three servers, then a RELOAD that leaves room for fewer: why they are closed.
fn closed_by_reload(settings: &str) -> Vec<String> {
    let databases = "db = host=127.0.0.1 user=u";
    let mut rig = Rig::with(databases, "default_pool_size = 3");
    let clients: Vec<ClientId> = (0..3).map(|_| rig.client()).collect();
    for &client in &clients {
        rig.says(client, |w| w.query(b"select pg_sleep(9)"));
        rig.servers_log_in();
    }
    for &client in &clients {
        let server = rig.server_of(client).unwrap();
        rig.completes(server, "SELECT 1");
    }
    rig.reloads(configuration(databases, settings));
    rig.wait(Duration::from_secs(3));
    reasons(&rig, 'S').into_iter().map(String::from).collect()
}

#[test]
fn servers_above_the_pool_size_are_too_many() {
    let all = ["too many servers in the pool"; 2];
    assert_eq!(closed_by_reload("default_pool_size = 1"), all);
    let some = ["too many servers in the pool", "reserve server is not needed any more"];
    assert_eq!(closed_by_reload("default_pool_size = 1\nreserve_pool_size = 1"), some);
}

/// A client whose query runs, with its key; the other one waits for the only server.
fn at_work_and_waiting() -> (Rig, [(ClientId, CancelKey); 2]) {
    let mut rig = Rig::one_server("");
    let (at_work, waiting) = (rig.client_with_key(), rig.client_with_key());
    rig.says(at_work.0, |w| w.query(b"select pg_sleep(9)"));
    rig.says(waiting.0, |w| w.query(b"select 1"));
    (rig, [at_work, waiting])
}

#[test]
fn a_cancel_request_that_was_sent() {
    let (mut rig, [(client, key), _]) = at_work_and_waiting();
    let server = rig.server_of(client).unwrap();
    rig.cancel_request(&key);
    assert!(reasons(&rig, 'C').is_empty(), "it is not over");
    rig.cancel_arrives(server);
    assert_eq!(reasons(&rig, 'C'), ["successfully sent cancel request"]);
}

#[test]
fn a_cancel_request_that_could_not_be_sent() {
    let (mut rig, [(client, key), _]) = at_work_and_waiting();
    let server = rig.server_of(client).unwrap();
    rig.cancel_request(&key);
    rig.cancel_ends(server, CancelEnd::NotSent);
    assert_eq!(reasons(&rig, 'C'), ["failed to send cancel request"]);
    rig.cancel_request(&key);
    rig.cancel_arrives(server);
    assert_eq!(reasons(&rig, 'C')[1..], ["successfully sent cancel request"]);
}

#[test]
fn a_cancel_request_for_a_client_without_a_request() {
    let mut rig = Rig::one_server("");
    let (_, key) = rig.client_with_key();
    rig.cancel_request(&key);
    rig.wait(Duration::from_secs(1));
    assert_eq!(reasons(&rig, 'C'), ["cancel request for idle client"]);
}

/// PgBouncer lets such a client wait.
#[test]
fn a_cancel_request_that_ends_a_wait() {
    let (mut rig, [_, (_, key)]) = at_work_and_waiting();
    rig.cancel_request(&key);
    assert_eq!(reasons(&rig, 'C'), ["cancel request done"]);
}

#[test]
fn a_cancel_request_for_a_client_of_the_console() {
    let mut rig = Rig::one_server("");
    let (_, key) = rig.console_with_key();
    rig.cancel_request(&key);
    assert_eq!(reasons(&rig, 'C'), ["cancel request for console client"]);
}

#[test]
fn a_cancel_request_with_a_key_that_nobody_has() {
    let mut rig = Rig::one_server("");
    let (_, mut key) = rig.client_with_key();
    key.secret = vec![0; key.secret.len()].into();
    rig.cancel_request(&key);
    assert_eq!(reasons(&rig, 'C'), ["failed cancel request"]);
}

#[test]
fn log_disconnections_also_counts_for_cancel_requests() {
    let mut rig = Rig::one_server("log_disconnections = 0");
    let (_, key) = rig.client_with_key();
    rig.cancel_request(&key);
    rig.wait(Duration::from_secs(1));
    assert!(reasons(&rig, 'C').is_empty());
}
