//! Plays the driver, the clients and the servers of a crowd.

use super::super::canary::Canary;
use super::super::configured::pooler_of;
use super::super::network::address;
use super::plan::Plan;
use crate::random::Random;
use crate::transcript::split_messages;
use foldhash::HashMap;
use pgweir_core::{Accepted, ClientId, Connected, ConnectionId, Pooler, Request, ServerId, Source, Time};
use pgweir_wire::{HEADER_BYTES, ProtocolVersion, StartupPacket, TransactionStatus, Writer};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A client that was refused asks again after this time, microseconds.
const REFUSED_US: u64 = 50_000;

/// What has happened to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// It has sent a request.
    Asks(usize),
    /// Its request was answered.
    Ends(usize),
    /// Its request was refused.
    Refused(usize),
    /// Time has passed.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks(usize),
    Answers(ServerId),
}

/// How long a statement says that its answer takes.
fn asked_us(body: &[u8]) -> Option<u64> {
    let us = std::str::from_utf8(body.strip_prefix(b"select ")?).ok()?;
    us.trim_end_matches('\0').parse().ok()
}

pub(super) struct Driver {
    pooler: Pooler,
    pub(super) now_us: u64,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    event_number: u64,
    clients: Vec<ClientId>,
    by_id: HashMap<ClientId, usize>,
    times: Vec<(u64, u64, u64)>,
    /// Bytes that the core did not consume.
    kept: HashMap<ConnectionId, Vec<u8>>,
    written: HashMap<ConnectionId, Vec<u8>>,
    connects: Vec<ServerId>,
    /// Clients whose requests were refused, for [`Driver::next`].
    refused: Vec<usize>,
    /// The client of each server at the last call of [`Driver::newly_linked`].
    links: BTreeMap<ServerId, Option<ClientId>>,
}

impl Driver {
    pub(super) fn new(plan: &Plan, canary: Option<Canary>) -> Self {
        let pooler = pooler_of(&plan.ini(), &plan.users_file(), canary);
        let mut driver = Driver {
            pooler,
            now_us: 0,
            random: Random::new(plan.seed ^ 0xd21e_0000),
            events: BinaryHeap::new(),
            event_number: 0,
            clients: Vec::new(),
            by_id: HashMap::default(),
            times: plan
                .clients
                .iter()
                .map(|c| (c.least_us, c.most_us, c.pause_us))
                .collect(),
            kept: HashMap::default(),
            written: HashMap::default(),
            connects: Vec::new(),
            refused: Vec::new(),
            links: BTreeMap::new(),
        };
        for (number, client) in plan.clients.iter().enumerate() {
            driver.log_in(number, client.user, client.application);
            let at = driver.random.below(5_000);
            driver.schedule(at, Event::Asks(number));
        }
        driver
    }

    fn log_in(&mut self, number: usize, user: usize, application: usize) {
        let accepted = Accepted {
            peer: address(10_000),
            local: address(6432),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now(), accepted);
        let (user, application) = (format!("user{user}"), format!("app{application}"));
        let parameters = [
            ("user", &*user),
            ("database", "db"),
            ("application_name", &*application),
        ];
        let parameters = parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut packet = Vec::new();
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        self.comes(id.into(), &packet);
        self.clients.push(id);
        self.by_id.insert(id, number);
    }

    fn now(&self) -> Time {
        Time(self.now_us)
    }

    fn schedule(&mut self, late_us: u64, event: Event) {
        self.event_number += 1;
        self.events
            .push(Reverse((self.now_us + late_us, self.event_number, event)));
    }

    /// A connection sends bytes.
    fn comes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let mut input = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        self.pass(id, input);
        while self.pooler.awaits_turn_end() {
            self.pooler.handle_turn_end(self.now());
            self.settle(&[]);
        }
        self.servers_answer();
    }

    fn pass(&mut self, id: ConnectionId, mut input: Vec<u8>) {
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now(), client, &input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now(), server, &input),
        };
        self.settle(&input);
        let rest = input.split_off(consumed);
        if !rest.is_empty() {
            self.kept.insert(id, rest);
        }
    }

    /// Writes what the core wants written, and carries out its requests.
    fn settle(&mut self, input: &[u8]) {
        let mut resumed = Vec::new();
        loop {
            let outbox = self.pooler.outbox();
            for part in outbox.parts() {
                let bytes = match part.source {
                    Source::Input => &input[part.range()],
                    Source::Arena => &outbox.arena()[part.range()],
                };
                self.written.entry(part.to).or_default().extend_from_slice(bytes);
            }
            outbox.clear();
            match self.pooler.poll_request() {
                None => break,
                Some(Request::Connect { server, .. }) => self.connects.push(server),
                Some(Request::Resume(id)) => resumed.push(id),
                Some(_) => {}
            }
        }
        for id in resumed {
            let input = self.kept.remove(&id).unwrap_or_default();
            self.pass(id, input);
        }
    }

    /// Servers log in, and answer what is not a client's request at once.
    fn servers_answer(&mut self) {
        while let Some(server) = self.connects.pop() {
            let (remote, local) = (address(5432), address(40_000));
            self.pooler
                .handle_server_connected(self.now(), server, Connected { remote, local });
            self.settle(&[]);
            self.written.remove(&server.into());
            self.links.insert(server, None);
            let mut answer = Vec::new();
            let mut w = Writer::new(&mut answer);
            w.authentication(&0u32.to_be_bytes());
            for (name, value) in [
                ("server_version", "18.0"),
                ("client_encoding", "UTF8"),
                ("application_name", ""),
            ] {
                w.parameter_status(name.as_bytes(), value.as_bytes());
            }
            w.backend_key_data(4711 + server.0.index, b"key!");
            w.ready_for_query(TransactionStatus::Idle);
            self.comes(server.into(), &answer);
        }
        let servers: Vec<ServerId> = self.links.keys().copied().collect();
        for server in servers {
            let Some(bytes) = self.written.remove(&server.into()) else {
                continue;
            };
            let answer = self.answer_of(server, &bytes);
            if !answer.is_empty() {
                self.comes(server.into(), &answer);
            }
        }
    }

    /// What a server answers at once. A client's request is answered when its time is over.
    fn answer_of(&mut self, server: ServerId, bytes: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        for message in split_messages(bytes) {
            let mut w = Writer::new(&mut answer);
            let us = message.get(HEADER_BYTES..).and_then(asked_us);
            match (message[0], us) {
                (b'Q', Some(us)) => self.schedule(us, Event::Answers(server)),
                (b'Q', None) => {
                    w.data_row(1, [Some((4711 + server.0.index).to_string().as_bytes())]);
                    w.command_complete("SELECT 1");
                    w.ready_for_query(TransactionStatus::Idle);
                }
                (b'P', _) => w.empty(b'1'),
                (b'B', _) => w.empty(b'2'),
                (b'C', _) => w.empty(b'3'),
                (b'E', _) => {
                    w.data_row(1, [Some(&b""[..])]);
                    w.command_complete("SELECT 1");
                }
                (b'S', _) => w.ready_for_query(TransactionStatus::Idle),
                _ => {}
            }
        }
        answer
    }

    /// Clients that got an error ask again later.
    fn note_refusals(&mut self) {
        for (number, id) in self.clients.iter().enumerate() {
            let Some(bytes) = self.written.remove(&ConnectionId::from(*id)) else {
                continue;
            };
            if split_messages(&bytes).iter().any(|m| m[0] == b'E') {
                self.refused.push(number);
            }
        }
        for number in 0..self.refused.len() {
            self.schedule(REFUSED_US, Event::Asks(self.refused[number]));
        }
    }

    /// What happens next. `None`: nothing ever.
    pub(super) fn next(&mut self) -> Option<Happened> {
        if let Some(number) = self.refused.pop() {
            return Some(Happened::Refused(number));
        }
        let Reverse((event_at, ..)) = *self.events.peek()?;
        if let Some(timer_at) = self.pooler.poll_timeout().filter(|at| at.0 < event_at) {
            self.now_us = self.now_us.max(timer_at.0);
            self.pooler.handle_timeout(self.now());
            self.settle(&[]);
            self.servers_answer();
            self.note_refusals();
            return Some(Happened::Nothing);
        }
        let Reverse((at, _, event)) = self.events.pop()?;
        self.now_us = self.now_us.max(at);
        Some(match event {
            Event::Asks(number) => {
                let (least, most, _) = self.times[number];
                let us = self.random.between(least, most);
                let mut bytes = Vec::new();
                Writer::new(&mut bytes).query(format!("select {us}").as_bytes());
                self.comes(self.clients[number].into(), &bytes);
                Happened::Asks(number)
            }
            Event::Answers(server) => self.server_ends(server)?,
        })
    }

    fn server_ends(&mut self, server: ServerId) -> Option<Happened> {
        let Some(ConnectionId::Client(client)) = self.pooler.linked(server.into()) else {
            return Some(Happened::Nothing);
        };
        let number = *self.by_id.get(&client)?;
        let mut answer = Vec::new();
        let mut w = Writer::new(&mut answer);
        w.command_complete("SELECT 1");
        w.ready_for_query(TransactionStatus::Idle);
        // The server may get another client at once.
        self.links.insert(server, None);
        self.comes(server.into(), &answer);
        let (_, _, pause_us) = self.times[number];
        self.schedule(pause_us, Event::Asks(number));
        Some(Happened::Ends(number))
    }

    /// Clients that have got a server since the last call.
    pub(super) fn newly_linked(&mut self) -> Vec<usize> {
        let mut new = Vec::new();
        for (server, before) in &mut self.links {
            let now = match self.pooler.linked((*server).into()) {
                Some(ConnectionId::Client(client)) => Some(client),
                _ => None,
            };
            let linked = now.filter(|_| *before != now);
            new.extend(linked.and_then(|client| self.by_id.get(&client).copied()));
            *before = now;
        }
        new
    }

    /// What always holds in the core.
    pub(super) fn check(&self) -> Result<(), String> {
        self.pooler.check_invariants()
    }
}
