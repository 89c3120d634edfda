//! Visitors: connections that never log in, and watchers, who may only look at the console.
//!
//! Connections that log in count under `max_client_conn` with a small reserve, so visitors cannot open any number of
//! them. A watcher is among `stats_users` and reads whatever tables there are, but no values and no statements of
//! clients.

use super::client::tokens::has_token;
use super::network::Peer;
use super::topology::Topology;
use super::world::{Event, World};
use crate::random::Random;
use crate::transcript::{backend_to_text, split_messages};
use pgweir_wire::{HEADER_BYTES, ProtocolVersion, StartupPacket, Writer, backend};
use std::collections::BTreeMap;

/// Connections beside those of `max_client_conn` that the core allows to log in: ARRIVALS_RESERVE.
const RESERVE: u64 = 16;

/// Visitors that come together. They are more than there may be.
const CROWD: u64 = 40;

/// How long a visitor and a watcher stay at most, microseconds.
const STAYS_US_MAX: u64 = 300_000;

/// The time between two visits, microseconds.
const PAUSE_US_MAX: u64 = 150_000;

/// One visit in so many is that of a crowd.
const CROWDS_ONE_IN: u64 = 6;

/// What a watcher asks first.
const FIRST_QUESTIONS: [&[u8]; 2] = [b"SHOW PINS", b"SHOW CLIENTS"];

/// The count of columns in a RowDescription, and what follows a column's name.
const COUNT_BYTES: usize = 2;
const COLUMN_BYTES: usize = 18;

/// What happens to visitors.
#[derive(Debug)]
pub(super) enum Visit {
    /// One or more of them come.
    Comes,
    /// One closes its connection.
    Ends(u64),
}

/// The visitors of one run.
#[derive(Debug)]
pub(super) struct Visitors {
    random: Random,
    /// What a watcher has got and not read yet, by connection.
    watchers: BTreeMap<u64, Vec<u8>>,
}

impl Visitors {
    pub(super) fn new(topology: &Topology) -> Self {
        Visitors {
            random: Random::new(topology.seed ^ 0x7151_7000),
            watchers: BTreeMap::new(),
        }
    }
}

impl World {
    pub(super) fn add_visitors(&mut self) {
        if self.topology.visitors {
            self.schedule(0, Event::Visit(Visit::Comes));
        }
    }

    pub(super) fn visit(&mut self, visit: Visit) {
        match visit {
            Visit::Ends(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.peer_closed = true;
                    self.read_later(key);
                }
                self.visitors.watchers.remove(&key);
            }
            Visit::Comes if self.is_ending() || self.now_us + STAYS_US_MAX > self.topology.calm_at_us => {}
            Visit::Comes => {
                match self.visitors.random.below(CROWDS_ONE_IN) {
                    0 => (0..CROWD).for_each(|_| self.stranger_comes()),
                    _ => self.watcher_comes(),
                }
                let at = self.now_us + self.visitors.random.between(1, PAUSE_US_MAX);
                self.schedule(at, Event::Visit(Visit::Comes));
            }
        }
    }

    /// Someone connects and does not log in.
    fn stranger_comes(&mut self) {
        let key = self.visitor_connects(Peer::Stranger);
        let mut packet = Vec::new();
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, [(&b"user"[..], &b"user0"[..])]);
        let sent = self.visitors.random.below(packet.len() as u64) as usize;
        self.peer_sends(key, &packet[..sent]);
        self.check_visitors();
    }

    fn watcher_comes(&mut self) {
        let key = self.visitor_connects(Peer::Watcher);
        self.visitors.watchers.insert(key, Vec::new());
        let mut bytes = Vec::new();
        let parameters = [(&b"user"[..], &b"watcher"[..]), (&b"database"[..], &b"pgbouncer"[..])];
        StartupPacket::write_startup(&mut bytes, ProtocolVersion::V3_0, parameters);
        for question in FIRST_QUESTIONS {
            Writer::new(&mut bytes).query(question);
        }
        self.peer_sends(key, &bytes);
    }

    fn visitor_connects(&mut self, peer: Peer) -> u64 {
        let (_, key) = self.accept(9_998, peer);
        self.settle();
        let at = self.now_us + self.visitors.random.below(STAYS_US_MAX);
        self.schedule(at, Event::Visit(Visit::Ends(key)));
        key
    }

    /// Those who have not logged in count, too.
    fn check_visitors(&mut self) {
        let counts = |peer: Peer| matches!(peer, Peer::Client(_) | Peer::Stranger);
        let open = self.connections.values().filter(|c| counts(c.peer) && !c.closing);
        let (count, most) = (open.count() as u64, self.topology.max_client_conn + RESERVE);
        if count > most {
            self.fail(format!("{count} clients are connected, and {most} may be"));
        }
    }

    /// A watcher gets bytes.
    pub(super) fn watcher_receives(&mut self, key: u64, bytes: &[u8]) {
        let Some(got) = self.visitors.watchers.get_mut(&key) else {
            return;
        };
        got.extend_from_slice(bytes);
        let answer = got.clone();
        let messages = split_messages(&answer);
        if let Some(row) = messages.iter().find(|message| tells_value(message)) {
            return self.fail(format!("a watcher is told a value: {}", backend_to_text(row)));
        }
        // The first is that of the login.
        let is_answered = messages.iter().filter(|message| message[0] == b'Z').count() == 1 + FIRST_QUESTIONS.len();
        let ids = ids_of_clients(&messages);
        if is_answered && !ids.is_empty() {
            let id = self.visitors.random.pick(&ids).clone();
            self.visitors.watchers.insert(key, Vec::new());
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).query(format!("SHOW SESSION {id}").as_bytes());
            self.peer_sends(key, &bytes);
        }
    }
}

/// The values of a row that has come whole.
fn row<'a>(message: &&'a [u8]) -> Option<Vec<Option<&'a [u8]>>> {
    let body = message.get(HEADER_BYTES..).filter(|_| message[0] == b'D')?;
    backend::data_row(body).ok()
}

/// Whether the last column of a row, which has the value or the statement, contains a client's token.
fn tells_value(message: &&[u8]) -> bool {
    let last = row(message).and_then(|row| row.last().copied().flatten());
    last.is_some_and(has_token)
}

/// The column `id` of SHOW CLIENTS, which is the table with a column of this name.
fn ids_of_clients(messages: &[&[u8]]) -> Vec<String> {
    let column = messages
        .iter()
        .filter(|m| m[0] == b'T')
        .find_map(|m| place_of(m, b"id"));
    let Some(column) = column else { return Vec::new() };
    let id = |message: &&[u8]| {
        let row = row(message)?;
        Some(String::from_utf8_lossy(row.get(column).copied().flatten()?).into_owned())
    };
    messages
        .iter()
        .filter_map(id)
        .filter(|id| id.parse::<u32>().is_ok())
        .collect()
}

/// The place of a column in a RowDescription.
fn place_of(message: &[u8], name: &[u8]) -> Option<usize> {
    let mut left = message.get(HEADER_BYTES + COUNT_BYTES..)?;
    for place in 0.. {
        let end = left.iter().position(|&b| b == 0)?;
        if &left[..end] == name {
            return Some(place);
        }
        left = left.get(end + 1 + COLUMN_BYTES..)?;
    }
    None
}
