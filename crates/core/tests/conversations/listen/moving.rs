//! A client moves to the listener and back: every notification is told once, and in order.

use super::servers::{SETTINGS, Servers};
use crate::rig::Rig;
use pgweir_core::channels::UNHEARD_BYTES_MAX;
use pgweir_core::{ClientId, ServerId};
use std::time::Duration;

#[test]
fn what_both_places_hear_is_told_once_and_in_order() {
    for listener_first in [false, true] {
        let mut s = Servers::new();
        let (client, server, listener) = s.listening();
        s.notifies(server, "a", "1");
        s.notifies(listener, "a", "2");
        s.notifies(server, "a", "2");
        s.answer(server);
        if listener_first {
            s.mark(listener);
            s.notifies(listener, "a", "3");
            assert_eq!(
                s.heard(client),
                ["1", "2"],
                "the server may still have something to tell"
            );
            s.mark(server);
            s.notifies(server, "a", "3");
        } else {
            s.mark(server);
            s.notifies(server, "a", "3");
            s.mark(listener);
            s.notifies(listener, "a", "3");
        }
        s.answer(server);
        s.notifies(listener, "a", "4");
        let rest = s.heard(client);
        let all: Vec<_> = ["1", "2", "3", "4"]
            .into_iter()
            .skip(if listener_first { 2 } else { 0 })
            .collect();
        assert_eq!(rest, all, "listener first: {listener_first}");
        assert_eq!(s.rig.server_of(client), None);
    }
}

#[test]
fn on_the_way_back_nothing_is_lost_or_told_twice() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"select pg_listening_channels()"));
    assert_eq!(s.rig.server_of(client), Some(server));
    s.answer(server);
    assert_eq!(s.heard(client), [""; 0], "its query waits for its channels");
    s.notifies(server, "a", "1");
    s.mark(server);
    s.notifies(server, "a", "2");
    s.notifies(listener, "a", "1");
    s.mark(listener);
    s.notifies(listener, "a", "2");
    s.answer(server);
    assert_eq!(s.heard(client), ["1", "2", "C", "Z"]);
    assert_eq!(s.channels[&server].iter().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_notification_waits_for_the_end_of_the_transaction() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"select 1"));
    s.notifies(listener, "a", "1");
    assert_eq!(s.heard(client), [""; 0]);
    s.rig.completes(server, "SELECT 1");
    assert_eq!(s.heard(client), ["C", "1", "Z"]);
}

/// 4.8 MB of notifications come for a client.
fn many_come(s: &mut Servers, client: ClientId, listener: ServerId) {
    let payload = "x".repeat(8000);
    for _ in 0..600 {
        if !s.rig.closed.contains(&client.into()) {
            s.notifies(listener, "a", &payload);
        }
    }
}

#[test]
fn a_client_that_hears_more_than_it_may_is_closed() {
    for settings in ["", "max_notification_backlog = 0"] {
        let mut s = Servers {
            rig: Rig::new(&format!("{SETTINGS}\n{settings}")),
            ..Servers::new()
        };
        let (client, server, listener) = s.moved();
        s.rig.says(client, |w| w.query(b"select pg_sleep(1000)"));
        assert!(s.rig.server_of(client) == Some(server));
        many_come(&mut s, client, listener);
        assert!(s.rig.closed.contains(&client.into()));
        assert_eq!(s.heard(client), ["E"]);
    }
}

#[test]
fn a_client_may_hear_as_much_as_the_operator_says() {
    let mut s = Servers {
        rig: Rig::new(&format!("{SETTINGS}\nmax_notification_backlog = 5000000")),
        ..Servers::new()
    };
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"select pg_sleep(1000)"));
    many_come(&mut s, client, listener);
    assert_eq!(s.heard(client), [""; 0]);
    s.rig.completes(server, "SELECT 1");
    assert_eq!(s.heard(client).len(), 602, "SELECT, the notifications, ReadyForQuery");
}

/// The same for a client that is idle and does not read.
#[test]
fn a_client_may_leave_as_much_unread_as_the_operator_says() {
    for (backlog, bytes, closes) in [
        (0, UNHEARD_BYTES_MAX + 1, true),
        (5_000_000, UNHEARD_BYTES_MAX + 1, false),
        (5_000_000, 5_000_000, false),
        (5_000_000, 5_000_001, true),
    ] {
        let mut s = Servers {
            rig: Rig::new(&format!("{SETTINGS}\nmax_notification_backlog = {backlog}")),
            ..Servers::new()
        };
        let (client, ..) = s.moved();
        s.rig.pooler.handle_client_behind(s.rig.now, client, bytes);
        s.rig.settle(&[]);
        assert_eq!(s.rig.closed.contains(&client.into()), closes, "{bytes} of {backlog}");
    }
}

/// Guards against a loss under load: notifications that the server received before the mark were expected from the
/// listener, because the listener had passed the mark already.
#[test]
fn on_the_way_there_the_slower_server_still_tells_what_it_heard_before_the_mark() {
    let mut s = Servers::new();
    let (client, server, listener) = s.listening();
    s.answer(server);
    s.notifies(listener, "a", "1");
    s.mark(listener);
    s.notifies(listener, "a", "2");
    assert_eq!(s.heard(client), [""; 0], "the server has yet to tell the first");
    s.notifies(server, "a", "1");
    s.mark(server);
    s.notifies(server, "a", "2");
    s.answer(server);
    s.notifies(listener, "a", "3");
    assert_eq!(s.heard(client), ["1", "2", "3"]);
    assert_eq!(s.rig.server_of(client), None);
}

/// The same on the way back, where they were delivered twice.
#[test]
fn on_the_way_back_the_slower_server_does_not_repeat_what_it_heard_before_the_mark() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"select pg_listening_channels()"));
    s.answer(server);
    s.notifies(listener, "a", "1");
    s.mark(listener);
    s.notifies(server, "a", "1");
    s.mark(server);
    s.notifies(server, "a", "2");
    s.answer(server);
    assert_eq!(s.heard(client), ["1", "2", "C", "Z"]);
}

/// Guards against a LISTEN that was forgotten because it was sent while the server was being asked for its channels.
#[test]
fn a_listen_behind_the_question_for_channels_counts() {
    let mut s = Servers::new();
    let client = s.rig.client();
    s.rig.says(client, |w| w.query(b"listen a"));
    let server = s.rig.server_of(client).expect("linked");
    s.answer(server);
    let listener = s.rig.servers_log_in()[0];
    s.answer(listener);
    s.rig.wait(Duration::from_millis(200));
    // The server has been sent the question.
    s.rig.says(client, |w| w.query(b"listen b"));
    for _ in 0..4 {
        s.answer(server);
        s.answer(listener);
    }
    s.mark(server);
    s.mark(listener);
    s.answer(server);
    assert_eq!(s.rig.server_of(client), None);
    s.notifies(listener, "b", "1");
    assert_eq!(s.heard(client), ["C", "Z", "C", "Z", "1"]);
    let heard: Vec<_> = s.channels[&listener].iter().filter(|c| c.len() == 1).collect();
    assert_eq!(heard, ["a", "b"]);
}

/// Guards against a text that made the server's list of channels outdated, then waited for the list, and did both again
/// when the next list had come.
#[test]
fn a_text_that_waits_for_the_list_of_channels_does_not_outdate_it() {
    let mut s = Servers::new();
    let other = s.rig.client();
    s.rig.says(other, |w| w.query(b"select 1"));
    let server = s.rig.server_of(other).expect("linked");
    s.answer(server);
    let client = s.rig.client();
    s.rig.says(client, |w| w.query(b"listen a"));
    s.answer(server);
    let listener = s.rig.servers_log_in()[0];
    s.answer(listener);
    s.rig.wait(Duration::from_millis(200));
    // The server has been sent the question. It must discard the sequences of its earlier client before it runs code.
    s.rig.says(client, |w| w.query(b"do $$begin execute 'listen b'; end$$"));
    s.answer(server);
    let sent: Vec<&String> = s.statements.values().collect();
    assert!(sent.iter().any(|text| *text == "DISCARD SEQUENCES"), "{sent:?}");
    assert_eq!(s.heard(client), ["C", "Z", "C", "Z"]);
}

/// Guards against notifications that were delivered twice, because the listener of another user or encoding had passed
/// the mark first.
#[test]
fn a_mark_counts_where_the_client_is_told() {
    let databases = "db = host=127.0.0.1 user=u\nother = host=127.0.0.1 dbname=db user=v";
    let mut s = Servers {
        rig: Rig::with(databases, SETTINGS),
        ..Servers::new()
    };
    let (_, _, foreign) = s.moved();
    let client = s.rig.client_begins(&[("user", "u"), ("database", "other")]);
    let server = s.rig.servers_log_in()[0];
    s.heard(client);
    s.rig.says(client, |w| w.query(b"listen a"));
    s.answer(server);
    let listener = s.rig.servers_log_in()[0];
    s.answer(listener);
    s.rig.wait(Duration::from_millis(200));
    s.answer(server);
    s.answer(listener);
    s.answer(server);
    s.mark(foreign);
    s.notifies(server, "a", "1");
    s.mark(server);
    s.notifies(listener, "a", "1");
    s.mark(listener);
    s.notifies(listener, "a", "2");
    s.answer(server);
    assert_eq!(s.heard(client), ["C", "Z", "1", "2"]);
}

/// Guards against a client that reads the name of the marks' channel in pg_stat_activity: with its UNLISTEN the listener
/// left the channel, and no other client's channels could move any more.
#[test]
fn the_channel_of_marks_does_not_move() {
    let mut s = Servers::new();
    let (first, _, listener) = s.moved();
    let (mark, ..) = s.marks.last().expect("a mark").clone();
    assert!(s.channels[&listener].contains(&mark));
    s.rig.says(first, |w| w.query(b"select 1"));
    let server = s.rig.server_of(first).expect("linked");
    s.answer(server);
    let guesser = s.rig.client();
    s.rig
        .says(guesser, |w| w.query(format!("listen \"{mark}\"").as_bytes()));
    let server = s.rig.server_of(guesser).expect("linked");
    s.answer(server);
    s.answer(listener);
    assert_eq!(
        s.rig.server_of(guesser),
        Some(server),
        "the channel stays with the client's server"
    );
    s.rig.says(guesser, |w| w.query(b"unlisten *"));
    s.answer(server);
    s.answer(listener);
    assert!(s.channels[&listener].contains(&mark));
    assert_eq!(s.rig.server_of(guesser), None);
}
