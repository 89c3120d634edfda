//! LISTEN through listener connections: conversations with servers that answer the pooler's requests.

mod rig;

use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::{Idle, InTransaction};
use rig::{Rig, fatal};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

const SETTINGS: &str = "session_state = full\ndefault_pool_size = 1";

/// Servers that listen and answer; the test decides which notifications they send.
struct Servers {
    rig: Rig,
    channels: HashMap<ServerId, BTreeSet<String>>,
    statements: HashMap<(ServerId, Vec<u8>), String>,
    /// Marks sent, newest last: channel and payload.
    marks: Vec<(String, String, u32)>,
}

fn cstrs(body: &[u8]) -> Vec<&[u8]> {
    body.split(|&b| b == 0).collect()
}

impl Servers {
    fn new() -> Servers {
        Servers {
            rig: Rig::new(SETTINGS),
            channels: HashMap::new(),
            statements: HashMap::new(),
            marks: Vec::new(),
        }
    }

    /// A server answers everything that was written to it. A mark is recorded, and delivered to no connection.
    fn answer(&mut self, server: ServerId) {
        loop {
            let asked = self.rig.hears(server);
            if asked.is_empty() {
                return;
            }
            let mut bound = String::new();
            for (tag, body) in asked {
                match tag {
                    b'Q' => {
                        let text = String::from_utf8(cstrs(&body)[0].to_vec()).unwrap();
                        text.split("; ").for_each(|t| self.run(server, t));
                        self.rig.completes(server, "DONE");
                    }
                    b'P' => {
                        let parts = cstrs(&body);
                        let text = String::from_utf8(parts[1].to_vec()).unwrap();
                        self.statements.insert((server, parts[0].to_vec()), text);
                        self.rig.says(server, |w| w.empty(b'1'));
                    }
                    b'B' => {
                        let name = cstrs(&body)[1].to_vec();
                        // A statement that was prepared before the test began is `set_config`.
                        bound = self.statements.get(&(server, name)).cloned().unwrap_or_default();
                        self.rig.says(server, |w| w.empty(b'2'));
                    }
                    b'E' => {
                        self.run(server, &bound);
                        let listens = self.channels.get(&server).cloned().unwrap_or_default();
                        self.rig.says(server, |w| {
                            if bound.contains("EXISTS") {
                                let yes: &[u8] = if listens.is_empty() { b"f" } else { b"t" };
                                w.data_row(6, [&b"f"[..], b"f", b"f", yes, b"f", b"f"].map(Some));
                            } else if bound.contains("pg_listening_channels") {
                                listens.iter().for_each(|c| w.data_row(1, [Some(c.as_bytes())]));
                            }
                            w.command_complete("DONE");
                        });
                    }
                    b'C' => self.rig.says(server, |w| w.empty(b'3')),
                    b'S' => self.rig.says(server, |w| w.ready_for_query(Idle)),
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, server: ServerId, text: &str) {
        let channels = self.channels.entry(server).or_default();
        let name = || {
            text.split('"')
                .nth(1)
                .map_or(text.rsplit(' ').next().unwrap().to_string(), str::to_string)
        };
        let verb = text.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match &*verb {
            "LISTEN" => drop(channels.insert(name())),
            "UNLISTEN" if text.ends_with('*') => channels.clear(),
            "UNLISTEN" => drop(channels.remove(&name())),
            "NOTIFY" => {
                let payload = text.split('\'').nth(1).unwrap_or_default().to_string();
                self.marks.push((name(), payload, rig::process_id(server)));
            }
            _ => {}
        }
    }

    fn notifies(&mut self, server: ServerId, channel: &str, payload: &str) {
        self.notifies_from(99, server, channel, payload);
    }

    fn notifies_from(&mut self, process_id: u32, server: ServerId, channel: &str, payload: &str) {
        let body = [
            &process_id.to_be_bytes()[..],
            channel.as_bytes(),
            b"\0",
            payload.as_bytes(),
            b"\0",
        ]
        .concat();
        self.rig
            .says(server, |w| w.message(b'A', |to| to.extend_from_slice(&body)));
    }

    fn mark(&mut self, server: ServerId) {
        let (channel, payload, process_id) = self.marks.last().expect("a mark").clone();
        // From another process it is not a mark.
        self.notifies(server, &channel, &payload);
        self.notifies_from(process_id, server, &channel, &payload);
    }

    /// Payloads of the notifications that a client has got, and the tags of all other messages.
    fn heard(&mut self, client: ClientId) -> Vec<String> {
        let told = self.rig.hears(client);
        let line = |(tag, body): &(u8, Vec<u8>)| match tag {
            b'A' => String::from_utf8(cstrs(&body[4..])[1].to_vec()).unwrap(),
            tag => char::from(*tag).to_string(),
        };
        told.iter().map(line).collect()
    }

    /// A client that has sent LISTEN a; its server, which has answered up to the request for a listener; and the
    /// listener, which listens.
    fn listening(&mut self) -> (ClientId, ServerId, ServerId) {
        let client = self.rig.client();
        self.rig.says(client, |w| w.query(b"listen a"));
        let server = self.rig.server_of(client).expect("linked");
        self.answer(server);
        assert_eq!(self.heard(client), ["C", "Z"]);
        let listener = self.rig.servers_log_in()[0];
        self.answer(listener);
        assert_eq!(
            self.rig.server_of(client),
            Some(server),
            "it listens until somebody else does"
        );
        // After this time the pooler asks for the channels again, and sends them to the listener.
        self.rig.wait(Duration::from_millis(200));
        self.answer(server);
        self.answer(listener);
        (client, server, listener)
    }

    /// The next server that the pooler asks for is connected, and has not logged in.
    fn next_connects(&mut self) -> ServerId {
        let server = self.rig.connects.pop_front().expect("a server is wanted");
        self.rig.server_connects(server);
        server
    }

    /// The same, after the channels have moved to the listener.
    fn moved(&mut self) -> (ClientId, ServerId, ServerId) {
        let (client, server, listener) = self.listening();
        self.answer(server);
        self.mark(server);
        self.mark(listener);
        self.answer(server);
        assert_eq!(self.rig.server_of(client), None, "the server is free");
        assert!(self.channels[&server].is_empty());
        (client, server, listener)
    }
}

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

#[test]
fn own_notifications_come_before_the_own_ready_for_query() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"notify a, 'own'"));
    s.rig.completes(server, "NOTIFY");
    assert_eq!(s.heard(client), ["C"], "the listener has not heard it yet");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["own", "Z"]);
    assert_eq!(s.rig.server_of(client), None);
}

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
fn a_client_that_hears_more_than_it_may_is_closed() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| w.query(b"select pg_sleep(1000)"));
    assert!(s.rig.server_of(client) == Some(server));
    let payload = "x".repeat(8000);
    for _ in 0..600 {
        if !s.rig.closed.contains(&client.into()) {
            s.notifies(listener, "a", &payload);
        }
    }
    assert!(s.rig.closed.contains(&client.into()));
    assert_eq!(s.heard(client), ["E"]);
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
fn unlisten_behind_a_savepoint_that_is_rolled_back_does_not_count() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    for (text, tag, status) in [
        ("select 1", "SELECT 1", InTransaction),
        ("unlisten a", "UNLISTEN", InTransaction),
        ("rollback to s", "ROLLBACK", InTransaction),
        ("commit", "COMMIT", Idle),
    ] {
        s.rig.says(client, |w| w.query(text.as_bytes()));
        s.rig.hears(server);
        s.rig.says(server, |w| {
            w.command_complete(tag);
            w.ready_for_query(status);
        });
    }
    s.heard(client);
    s.answer(server);
    s.notifies(listener, "a", "1");
    assert_eq!(s.heard(client), ["1"]);
}

#[test]
fn unlisten_inside_a_transaction_counts_when_that_commits() {
    for (text, hears) in [
        ("unlisten a", false),
        ("select 1; unlisten *; select 2", false),
        ("unlisten b; select 1", true),
        ("select 'unlisten a'", true),
    ] {
        let mut s = Servers::new();
        let (client, server, listener) = s.moved();
        for (text, status) in [("select 1", InTransaction), (text, InTransaction), ("commit", Idle)] {
            s.rig.says(client, |w| w.query(text.as_bytes()));
            s.rig.hears(server);
            s.rig.says(server, |w| {
                w.command_complete(if text == "commit" { "COMMIT" } else { "DONE" });
                w.ready_for_query(status);
            });
        }
        s.answer(server);
        s.heard(client);
        s.notifies(listener, "a", "1");
        assert_eq!(s.heard(client) == ["1"], hears, "{text}");
        s.answer(listener);
        assert_eq!(s.channels[&listener].contains("a"), hears, "{text}");
    }
}

/// Recording E17, in a pipeline: the messages after a NOTIFY wait until its own notifications have been delivered.
#[test]
fn own_notifications_come_before_the_own_ready_for_query_in_a_pipeline() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| {
        w.query(b"notify a, 'own'");
        w.close(b'P', b"x");
        w.sync();
    });
    s.rig.hears(server);
    s.rig.completes(server, "NOTIFY");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["C", "own", "Z"]);
    s.answer(s.rig.server_of(client).expect("the next"));
    assert_eq!(s.heard(client), ["3", "Z"]);
}

/// Guards against a ReadyForQuery of an earlier request that is taken for that of the NOTIFY after it.
#[test]
fn own_notifications_behind_another_request_in_a_pipeline_come_before_their_ready_for_query() {
    let mut s = Servers::new();
    let (client, server, listener) = s.moved();
    s.rig.says(client, |w| {
        w.query(b"select 1");
        w.query(b"notify a, 'own'");
    });
    s.rig.hears(server);
    s.rig.completes(server, "SELECT 1");
    assert_eq!(s.heard(client), ["C", "Z"]);
    s.rig.completes(server, "NOTIFY");
    assert_eq!(s.heard(client), ["C"], "the listener has not heard it yet");
    s.notifies(listener, "a", "own");
    s.answer(listener);
    assert_eq!(s.heard(client), ["own", "Z"]);
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
