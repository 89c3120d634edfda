//! Clients that listen to many channels, or whose requests end the listener, cost the others nothing.

use super::servers::Servers;
use crate::rig::Rig;
use pgweir_core::channels::CHANNELS_MAX;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use std::collections::BTreeSet;
use std::time::Duration;

fn listen_to(numbers: std::ops::Range<usize>) -> String {
    let all: Vec<String> = numbers.map(|number| format!("listen c{number:03}")).collect();
    all.join("; ")
}

/// Time passes, in which the pooler may begin moves; whoever is asked answers.
fn goes_on(s: &mut Servers, servers: &[ServerId]) {
    for _ in 0..4 {
        s.rig.wait(Duration::from_millis(200));
        for &server in servers {
            s.answer(server);
        }
    }
}

/// The channels that a connection listens to for clients.
fn clients_channels(s: &Servers, server: ServerId) -> BTreeSet<String> {
    let all = s.channels.get(&server).into_iter().flatten();
    all.filter(|channel| channel.len() < 5).cloned().collect()
}

/// A client that has listened to these channels; its server and its listener, which have answered everything.
fn listens(s: &mut Servers, text: &str) -> (ClientId, ServerId, ServerId) {
    let client = s.rig.client();
    s.rig.says(client, |w| w.query(text.as_bytes()));
    let server = s.rig.server_of(client).expect("linked");
    s.answer(server);
    assert_eq!(s.heard(client), ["C", "Z"]);
    let listener = s.rig.servers_log_in()[0];
    s.answer(listener);
    (client, server, listener)
}

/// The client's channels have been asked for, and the mark is heard by both.
fn moves(s: &mut Servers, server: ServerId, listener: ServerId) {
    s.mark(server);
    s.mark(listener);
    s.answer(server);
}

/// The reasons in SHOW PINS.
fn pins(s: &mut Servers) -> String {
    let console = s.rig.console();
    s.rig.query(console, "SHOW PINS");
    String::from_utf8_lossy(&s.rig.raw(console)).into_owned()
}

/// A statement runs in a transaction block, or ends it.
fn runs(s: &mut Servers, client: ClientId, server: ServerId, text: &str, tag: &str) {
    s.rig.says(client, |w| w.query(text.as_bytes()));
    s.rig.hears(server);
    text.split("; ").for_each(|text| s.run(server, text));
    let status = if tag == "COMMIT" { Idle } else { InTransaction };
    s.rig.says(server, |w| {
        w.command_complete(tag);
        w.ready_for_query(status);
    });
}

/// Guards against a client that keeps the listener of all at work: PostgreSQL needs time that grows with the square of
/// the number of channels.
#[test]
fn a_client_with_too_many_channels_stays_on_its_server() {
    let mut s = Servers::new();
    let (client, server, listener) = listens(&mut s, &listen_to(0..CHANNELS_MAX + 1));
    s.rig.raw(listener);
    goes_on(&mut s, &[server]);
    assert_eq!(s.rig.bytes_written(listener), 0, "the listener is asked for nothing");
    assert_eq!(s.rig.server_of(client), Some(server));
    let pins = pins(&mut s);
    let words = format!("more than {CHANNELS_MAX} channels (listen to fewer, and name the subject in the payload)");
    assert!(pins.contains(&words), "{pins}");
    s.notifies(server, "c001", "1");
    assert_eq!(s.heard(client), ["1"]);

    s.rig.says(client, |w| w.query(b"unlisten c007"));
    s.answer(server);
    goes_on(&mut s, &[server, listener]);
    moves(&mut s, server, listener);
    assert_eq!(s.rig.server_of(client), None, "it has few enough now");
    assert_eq!(clients_channels(&s, listener).len(), CHANNELS_MAX);
}

/// Guards against a limit that holds for one move, and not for all moves of a client together.
#[test]
fn the_channels_of_a_client_grow_no_further_at_the_listener() {
    let mut s = Servers::new();
    let (client, server, listener) = listens(&mut s, &listen_to(0..CHANNELS_MAX));
    goes_on(&mut s, &[server, listener]);
    moves(&mut s, server, listener);
    assert_eq!(s.rig.server_of(client), None);
    runs(&mut s, client, server, "select 1", "SELECT 1");
    runs(
        &mut s,
        client,
        server,
        &listen_to(CHANNELS_MAX..CHANNELS_MAX + 1),
        "LISTEN",
    );
    runs(&mut s, client, server, "commit", "COMMIT");
    s.rig.raw(listener);
    goes_on(&mut s, &[server, listener]);
    assert_eq!(s.rig.server_of(client), Some(server));
    assert_eq!(clients_channels(&s, listener).len(), CHANNELS_MAX);
    assert!(pins(&mut s).contains("more than 64 channels"));
    s.heard(client);
    s.notifies(listener, "c001", "1");
    s.notifies(server, "c064", "2");
    assert_eq!(s.heard(client), ["1", "2"], "each place tells what it hears");
}

/// Guards against a queue without limit: a client that changes its channels while the listener does not answer.
#[test]
fn a_listener_has_one_request_of_a_client_at_a_time() {
    let mut s = Servers::new();
    let (client, server, listener) = listens(&mut s, "listen a");
    goes_on(&mut s, &[server]);
    let asked = s.rig.bytes_written(listener);
    for _ in 0..20 {
        s.rig.says(client, |w| w.query(b"listen b"));
        goes_on(&mut s, &[server]);
    }
    let sent: Vec<_> = s.rig.hears(listener).into_iter().map(|(_, body)| body).collect();
    let texts: Vec<_> = sent.iter().map(|body| String::from_utf8_lossy(body)).collect();
    assert!(asked > 0 && texts.len() == 2, "LISTEN, and UNLISTEN once: {texts:?}");
    for _ in &sent {
        s.rig.completes(listener, "DONE");
    }
    goes_on(&mut s, &[server, listener]);
    moves(&mut s, server, listener);
    assert_eq!(s.rig.server_of(client), None);
    assert_eq!(clients_channels(&s, listener).len(), 2);
}

/// The listener is asked for a client's channels, and is lost. Returns the next listener, which has answered.
fn is_lost_at_work(s: &mut Servers, server: ServerId, listener: ServerId, channels: &[&str]) -> ServerId {
    s.rig.wait(Duration::from_millis(200));
    s.answer(server);
    let sent = String::from_utf8_lossy(&s.rig.raw(listener)).into_owned();
    assert!(channels.iter().all(|c| sent.contains(c)), "{sent}");
    s.rig.server_dies(listener);
    s.rig.wait(Duration::from_secs(1));
    let next = s.rig.servers_log_in()[0];
    s.answer(next);
    next
}

/// Guards against a listener that is closed every few seconds, because a client whose LISTEN takes too long is always
/// asked for again.
#[test]
fn a_request_during_which_the_listener_was_lost_twice_is_not_sent_again() {
    let mut s = Servers::new();
    let (client, server, listener) = listens(&mut s, "listen a");
    let next = is_lost_at_work(&mut s, server, listener, &["LISTEN \"a\""]);
    let last = is_lost_at_work(&mut s, server, next, &["LISTEN \"a\""]);
    goes_on(&mut s, &[server]);
    assert_eq!(s.rig.bytes_written(last), 0, "not asked a third time");
    s.rig.says(client, |w| w.query(b"listen b"));
    goes_on(&mut s, &[server]);
    assert_eq!(s.rig.bytes_written(last), 0, "nor for more");
    assert!(pins(&mut s).contains("the listener was lost twice"));
    s.rig.says(client, |w| w.query(b"unlisten *"));
    s.answer(server);
    goes_on(&mut s, &[server, last]);
    assert_eq!(s.rig.server_of(client), None);
    s.rig.says(client, |w| w.query(b"listen a"));
    s.answer(server);
    goes_on(&mut s, &[server, last]);
    moves(&mut s, server, last);
    assert_eq!(s.rig.server_of(client), None, "it begins anew");
}

/// The listener works on one request at a time: the others are not the reason why it was lost.
#[test]
fn a_request_behind_that_of_another_is_sent_as_often_as_it_must() {
    let mut s = Servers {
        rig: Rig::new("default_pool_size = 2"),
        ..Servers::new()
    };
    let (_, server, listener) = listens(&mut s, "listen a");
    goes_on(&mut s, &[server]);
    let second = s.rig.client();
    s.rig.says(second, |w| w.query(b"listen b"));
    let its = s.rig.servers_log_in()[0];
    s.answer(its);
    let mut at = listener;
    for _ in 0..2 {
        s.rig.wait(Duration::from_millis(200));
        s.answer(server);
        s.answer(its);
        at = is_lost_at_work(&mut s, server, at, &["LISTEN \"a\"", "LISTEN \"b\""]);
    }
    goes_on(&mut s, &[server, its, at]);
    moves(&mut s, its, at);
    assert_eq!(clients_channels(&s, at), BTreeSet::from(["b".into()]));
    assert_eq!(s.rig.server_of(second), None);
}
