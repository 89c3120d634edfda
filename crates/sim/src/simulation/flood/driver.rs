//! Plays the driver, the clients and the servers of a flood, and adds up the time that the core takes.

use super::super::canary::Canary;
use super::super::configured::pooler_of;
use super::super::network::{address, move_front};
use super::super::postgres::Postgres;
use super::plan::Plan;
use crate::model::{Pace, Version};
use foldhash::HashMap;
use pgweir_core::{Accepted, ClientId, Connected, ConnectionId, Pooler, Request, ServerId, Time};
use pgweir_wire::{ProtocolVersion, StartupPacket};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

/// The pooler's own time limits do not end a flood: only what happens within this time is waited for.
const WAITS: Duration = Duration::from_secs(1);

/// To move more bytes than these to the front of a buffer takes time that must not be counted: the core does not do it.
const MOVED_AT_ONCE: usize = 4096;

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What it takes to ask for the processor time, which is more than the core takes for a few bytes.
fn asking_takes() -> Duration {
    static TAKES: OnceLock<Duration> = OnceLock::new();
    let once = |_| {
        let before = thread_time();
        thread_time() - before
    };
    *TAKES.get_or_init(|| (0..1000).map(once).min().unwrap_or_default())
}

/// What a flood has cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Played {
    /// The time that the core has taken.
    pub(super) spent: Duration,
    /// What the servers have got.
    pub(super) server_bytes: usize,
}

/// Bytes on their way to the core.
#[derive(Debug, Default)]
struct Input {
    unread: VecDeque<u8>,
    /// What was read and the core has not consumed.
    kept: Vec<u8>,
}

pub(super) struct Driver {
    pooler: Pooler,
    now: Time,
    played: Played,
    postgres: Postgres,
    processes: BTreeMap<ServerId, u32>,
    inputs: HashMap<ConnectionId, Input>,
    /// What the core has written to servers.
    written: BTreeMap<ServerId, Vec<u8>>,
    connects: Vec<ServerId>,
    /// Connections of which the core wants the bytes that it has not consumed.
    resumed: Vec<ConnectionId>,
    clients: Vec<ClientId>,
    read_bytes: usize,
    answers_late: bool,
    /// Since when the core works.
    working_since: Option<Duration>,
}

impl Driver {
    pub(super) fn new(plan: &Plan, canary: Option<Canary>) -> Self {
        let pooler = pooler_of(&plan.ini(), "\"u\" \"\"\n", canary);
        Driver {
            pooler,
            now: Time(0),
            played: Played::default(),
            postgres: Postgres::new(Version::V18, &[]),
            processes: BTreeMap::new(),
            inputs: HashMap::default(),
            written: BTreeMap::new(),
            connects: Vec::new(),
            resumed: Vec::new(),
            clients: Vec::new(),
            read_bytes: plan.read_bytes,
            answers_late: plan.answers_late,
            working_since: None,
        }
    }

    /// Plays a flood of so many repetitions.
    pub(super) fn plays(mut self, plan: &Plan, count: usize) -> Played {
        for number in 0..if plan.from_each { count } else { 1 } {
            let database = match plan.own_databases {
                true => format!("db{number}"),
                false => "db".into(),
            };
            self.log_in(&database);
        }
        self.core_rests();
        for number in 0..self.clients.len() {
            self.sends(self.clients[number].into(), &plan.bytes_of(number, count));
        }
        let mut turns = 0;
        while self.clients_are_read() || self.servers_work() || self.waits() {
            turns += 1;
            if turns > 20 * count + 1000 {
                break;
            }
        }
        self.core_rests();
        self.played
    }

    /// Lets the core do something. From now on its time is counted, together with what little this driver does between
    /// two calls: to ask for the time at each of them would take longer than both.
    fn core<T>(&mut self, act: impl FnOnce(&mut Pooler, Time) -> T) -> T {
        self.working_since.get_or_insert_with(thread_time);
        act(&mut self.pooler, self.now)
    }

    /// The core does nothing until it is called again: others work.
    fn core_rests(&mut self) {
        if let Some(since) = self.working_since.take() {
            self.played.spent += (thread_time() - since).saturating_sub(asking_takes());
        }
    }

    fn log_in(&mut self, database: &str) {
        let accepted = Accepted {
            peer: address(10_000),
            local: address(6432),
            peer_uid: None,
        };
        let id = self.core(|pooler, now| pooler.handle_accept(now, accepted));
        let mut packet = Vec::new();
        let parameters = [("user", "u"), ("database", database)];
        let parameters = parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        self.clients.push(id);
        self.sends(id.into(), &packet);
        // The first one logs in before the others come, as they do where a pooler runs.
        if self.clients.len() == 1 {
            while self.clients_are_read() || self.servers_work() || self.waits() {}
        }
    }

    fn sends(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.inputs.entry(id).or_default().unread.extend(bytes);
    }

    /// Reads each client once. Returns whether anything was read.
    fn clients_are_read(&mut self) -> bool {
        let mut any = false;
        for number in 0..self.clients.len() {
            let id = self.clients[number].into();
            while self.is_read(id) {
                any = true;
                if !self.answers_late {
                    self.servers_work();
                }
            }
            // To look for clients with something to read takes longer the more of them there are.
            self.core_rests();
        }
        self.turn_ends();
        any
    }

    /// Reads a connection once. Returns whether there was anything to be read.
    fn is_read(&mut self, id: ConnectionId) -> bool {
        let (count, may_read) = (self.read_bytes, self.pooler.may_read(id));
        let Some(input) = self.inputs.get_mut(&id).filter(|i| may_read && !i.unread.is_empty()) else {
            return false;
        };
        let count = match id {
            ConnectionId::Client(_) => count.min(input.unread.len()),
            ConnectionId::Server(_) => input.unread.len(),
        };
        let mut bytes = std::mem::take(&mut input.kept);
        move_front(&mut input.unread, count, &mut bytes);
        self.pass(id, bytes);
        true
    }

    fn pass(&mut self, id: ConnectionId, mut bytes: Vec<u8>) {
        if bytes.len() >= self.pooler.needs_bytes(id) {
            let consumed = self.core(|pooler, now| match id {
                ConnectionId::Client(client) => pooler.handle_client_bytes(now, client, &bytes),
                ConnectionId::Server(server) => pooler.handle_server_bytes(now, server, &bytes),
            });
            self.settle(&bytes);
            if bytes.len() - consumed > MOVED_AT_ONCE {
                self.core_rests();
            }
            bytes.drain(..consumed);
        }
        if let Some(input) = self.inputs.get_mut(&id) {
            input.kept = bytes;
        }
        self.resume();
    }

    /// Gives the core what it has not consumed, where it asks for that.
    fn resume(&mut self) {
        while let Some(id) = self.resumed.pop() {
            if let Some(input) = self.inputs.get_mut(&id) {
                let bytes = std::mem::take(&mut input.kept);
                self.pass(id, bytes);
            }
        }
    }

    fn turn_ends(&mut self) {
        while self.pooler.awaits_turn_end() {
            self.core(Pooler::handle_turn_end);
            self.settle(&[]);
            self.resume();
        }
    }

    /// Writes what the core wants written, and carries out its requests.
    fn settle(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        for part in outbox.parts() {
            if let ConnectionId::Server(server) = part.to {
                let written = self.written.entry(server).or_default();
                written.extend_from_slice(outbox.bytes(part, input));
            }
        }
        outbox.clear();
        while let Some(request) = self.core(|pooler, _| pooler.poll_request()) {
            match request {
                Request::Connect { server, .. } => self.connects.push(server),
                Request::Resume(id) => self.resumed.push(id),
                Request::Close(id) => self.is_closed(id),
                Request::Abort(server) => self.is_closed(server.into()),
                _ => {}
            }
        }
    }

    fn is_closed(&mut self, id: ConnectionId) {
        self.inputs.remove(&id);
        if let ConnectionId::Server(server) = id {
            self.written.remove(&server);
            self.core_rests();
            if let Some(process) = self.processes.remove(&server) {
                self.postgres.remove(process);
            }
        }
    }

    /// The servers work on what they have got. Returns whether they had anything to do.
    fn servers_work(&mut self) -> bool {
        let mut any = false;
        while let Some(server) = self.connects.pop() {
            any = true;
            self.core_rests();
            let process = self.postgres.accept(Pace::AtOnce, None, false, false);
            self.processes.insert(server, process);
            self.inputs.insert(server.into(), Input::default());
            let (remote, local) = (address(5432), address(40_000));
            self.core(|pooler, now| pooler.handle_server_connected(now, server, Connected { remote, local }));
            self.settle(&[]);
            self.resume();
        }
        while let Some((server, bytes)) = self.written.pop_first() {
            let Some(&process) = self.processes.get(&server) else {
                continue;
            };
            any = true;
            self.played.server_bytes += bytes.len();
            let now_us = self.now.0;
            self.core_rests();
            let answer = self.postgres.with(process, |session, shared| {
                session.receive(shared, now_us, &bytes);
                (session.take_sent(), session.is_closed())
            });
            let (sent, is_closed) = answer.unwrap_or_default();
            self.sends(server.into(), &sent);
            self.is_read(server.into());
            if is_closed {
                self.core(|pooler, now| pooler.handle_server_closed(now, server));
                self.settle(&[]);
                self.is_closed(server.into());
                self.resume();
            }
            self.turn_ends();
        }
        any
    }

    /// Lets time pass until something happens, if that is soon.
    fn waits(&mut self) -> bool {
        let within = self.now.0 + WAITS.as_micros() as u64;
        let Some(at) = self.pooler.poll_timeout().filter(|at| at.0 <= within) else {
            return false;
        };
        self.now = Time(self.now.0.max(at.0));
        self.core(Pooler::handle_timeout);
        self.settle(&[]);
        self.resume();
        self.turn_ends();
        !self.written.is_empty() || !self.connects.is_empty()
    }
}
