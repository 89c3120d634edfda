//! Listeners that are lost, refused, or do not answer.

use super::servers::Servers;
use crate::rig::fatal;
use std::time::Duration;

#[test]
fn a_lost_listener_is_restored_and_those_who_listen_are_told() {
    let mut s = Servers::new();
    let (client, _, listener) = s.moved();
    s.rig.server_dies(listener);
    s.rig.wait(Duration::from_secs(1));
    let again = s.rig.servers_log_in()[0];
    s.answer(again);
    assert_eq!(s.heard(client), ["N"]);
    s.notifies(again, "a", "1");
    assert_eq!(s.heard(client), ["1"]);
    assert!(s.channels[&again].contains("a"));
}

#[test]
fn a_listener_lost_in_the_middle_of_a_move_keeps_nobody_waiting() {
    let mut s = Servers::new();
    let (client, server, listener) = s.listening();
    s.answer(server);
    s.mark(server);
    s.answer(server);
    s.rig.says(client, |w| w.query(b"select 1"));
    assert_eq!(s.heard(client), [""; 0], "its channels are on their way");
    s.rig.server_dies(listener);
    s.answer(server);
    assert_eq!(s.heard(client), ["C", "Z"]);
}

#[test]
fn a_listener_lost_before_the_mark_leaves_its_client_with_the_server() {
    let mut s = Servers::new();
    let (client, server, listener) = s.listening();
    s.answer(server);
    s.mark(listener);
    s.notifies(listener, "a", "1");
    s.rig.server_dies(listener);
    // The server has been sent UNLISTEN and has not confirmed it: it is asked again later.
    s.notifies(server, "a", "1");
    s.answer(server);
    assert_eq!(s.heard(client), ["1"], "told by the server alone");
}

#[test]
fn channels_come_back_without_a_listener_that_is_lost() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.server_dies(listener);
    s.rig.says(client, |w| w.query(b"select pg_listening_channels()"));
    s.answer(server);
    s.mark(server);
    s.answer(server);
    assert_eq!(s.heard(client), ["N", "C", "Z"]);
    assert_eq!(s.channels[&server].iter().collect::<Vec<_>>(), ["a"]);
    s.notifies(server, "a", "1");
    assert_eq!(s.heard(client), ["1"]);
}

#[test]
fn a_listener_that_may_not_log_in_again_takes_its_clients_with_it() {
    let mut s = Servers::new();
    let (client, _, listener) = s.moved();
    s.rig.server_dies(listener);
    s.rig.wait(Duration::from_secs(1));
    let again = s.next_connects();
    s.rig
        .says(again, |w| w.error(&fatal("28P01", "password authentication failed")));
    assert!(s.rig.closed.contains(&client.into()));
    assert_eq!(s.heard(client), ["E"]);
}

#[test]
fn a_listener_that_may_not_log_in_at_all_leaves_its_client_with_the_server() {
    let mut s = Servers::new();
    let client = s.rig.client();
    s.rig.says(client, |w| w.query(b"listen a"));
    let server = s.rig.server_of(client).expect("linked");
    s.answer(server);
    let listener = s.next_connects();
    s.rig
        .says(listener, |w| w.error(&fatal("28P01", "password authentication failed")));
    s.rig.wait(Duration::from_secs(1));
    assert_eq!(s.heard(client), ["C", "Z"]);
    s.notifies(server, "a", "1");
    assert_eq!(s.heard(client), ["1"]);
    assert_eq!(s.rig.server_of(client), Some(server));
}

#[test]
fn a_listener_that_does_not_answer_is_given_up() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"notify a, 'own'"));
    s.rig.completes(server, "NOTIFY");
    s.rig.wait(Duration::from_secs(4));
    assert_eq!(s.heard(client), ["C"]);
    s.rig.wait(Duration::from_secs(2));
    assert!(s.rig.closed.contains(&listener.into()));
    assert_eq!(s.heard(client), ["Z"]);
}

/// Guards against listeners that are closed one after the other, because a server keeps its own client waiting.
#[test]
fn a_server_that_does_not_answer_is_not_the_listeners_fault() {
    let mut s = Servers::new();
    let (client, _, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"listen b"));
    s.rig.wait(Duration::from_secs(20));
    assert!(!s.rig.closed.contains(&listener.into()));
}
