//! Servers that listen and answer.

use crate::rig;
use crate::rig::Rig;
use pgweir_core::{ClientId, ServerId};
use pgweir_wire::TransactionStatus::Idle;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub const SETTINGS: &str = "default_pool_size = 1";

/// Servers that listen and answer; the test decides which notifications they send.
pub struct Servers {
    pub rig: Rig,
    pub channels: HashMap<ServerId, BTreeSet<String>>,
    pub statements: HashMap<(ServerId, Vec<u8>), String>,
    /// Marks sent, newest last: channel and payload.
    pub marks: Vec<(String, String, u32)>,
}

fn cstrs(body: &[u8]) -> Vec<&[u8]> {
    body.split(|&b| b == 0).collect()
}

impl Servers {
    pub fn new() -> Servers {
        Servers {
            rig: Rig::new(SETTINGS),
            channels: HashMap::new(),
            statements: HashMap::new(),
            marks: Vec::new(),
        }
    }

    /// A server answers everything that was written to it. A mark is recorded, and delivered to no connection.
    pub fn answer(&mut self, server: ServerId) {
        for _ in 0..50 {
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
                                let listed = listens.iter().take(65);
                                listed.for_each(|c| w.data_row(1, [Some(c.as_bytes())]));
                            }
                            w.command_complete(if bound.starts_with("DISCARD") { &bound } else { "DONE" });
                        });
                    }
                    b'C' => self.rig.says(server, |w| w.empty(b'3')),
                    b'S' => self.rig.says(server, |w| w.ready_for_query(Idle)),
                    _ => {}
                }
            }
        }
        panic!("the server is asked again and again");
    }

    pub fn run(&mut self, server: ServerId, text: &str) {
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

    pub fn notifies(&mut self, server: ServerId, channel: &str, payload: &str) {
        self.notifies_from(99, server, channel, payload);
    }

    pub fn notifies_from(&mut self, process_id: u32, server: ServerId, channel: &str, payload: &str) {
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

    pub fn mark(&mut self, server: ServerId) {
        let (channel, payload, process_id) = self.marks.last().expect("a mark").clone();
        // From another process it is not a mark.
        self.notifies(server, &channel, &payload);
        self.notifies_from(process_id, server, &channel, &payload);
    }

    /// Payloads of the notifications that a client has got, and the tags of all other messages.
    pub fn heard(&mut self, client: ClientId) -> Vec<String> {
        let told = self.rig.hears(client);
        let line = |(tag, body): &(u8, Vec<u8>)| match tag {
            b'A' => String::from_utf8(cstrs(&body[4..])[1].to_vec()).unwrap(),
            tag => char::from(*tag).to_string(),
        };
        told.iter().map(line).collect()
    }

    /// A client that has sent LISTEN a; its server, which has answered up to the request for a listener; and the
    /// listener, which listens.
    pub fn listening(&mut self) -> (ClientId, ServerId, ServerId) {
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
    pub fn next_connects(&mut self) -> ServerId {
        let server = self.rig.connects.pop_front().expect("a server is wanted");
        self.rig.server_connects(server);
        server
    }

    /// The same, after the channels have moved to the listener.
    pub fn moved(&mut self) -> (ClientId, ServerId, ServerId) {
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
