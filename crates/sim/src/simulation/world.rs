//! The driver: it plays the runtime's part, with a clock that jumps.

use super::canary::Canary;
use super::client::{Client, Phase, Wish};
use super::postgres::Postgres;
use super::topology::Topology;
use super::trace::Trace;
use crate::random::Random;
use pgweir_core::{
    Accepted, Address, ClientId, Connected, ConnectionId, Pooler, Request, ServerId, Surroundings, Time, WallClock,
};
use pgweir_wire::{Header, StartupPacket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// After the faults have stopped, everybody must be served within this time, microseconds.
const SERVED_WITHIN_US: u64 = 300_000_000;

/// Latency and size of pieces of a network without faults.
const CALM_LATENCY_US: u64 = 500;
const CALM_CHUNK_BYTES: u64 = 512;

/// Then the pooler gets this long to bring its servers to rest, microseconds.
const REST_US: u64 = 15_000_000;

/// Steps of one run: more are a loop without end.
const STEPS_MAX: u64 = 4_000_000;

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// What the seed decided.
    pub topology: Topology,
    /// What a checker found wrong.
    pub violation: Option<String>,
    /// Hash of all that happened.
    pub trace: u64,
    /// Segments that were answered in full.
    pub answered: u64,
    /// Steps taken.
    pub steps: u64,
    /// Chances at which a canary broke something.
    pub broken: u64,
    /// Virtual time at the end, microseconds.
    pub ended_at_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client does what is next for it.
    ClientActs(u64),
    /// A client sends bytes of its flight; which flight.
    ClientSends(u64, u64, Vec<u8>),
    /// A client vanishes, if it is still in this session.
    ClientVanishes(u64, u64),
    /// A client cancels, if it is still in this flight.
    ClientCancels(u64, u64),
    /// Bytes reach the pooler.
    ToPooler(u64),
    /// Bytes leave the pooler's host.
    FromPooler(u64),
    /// A connection attempt ends.
    ConnectEnds(ServerId),
    /// A cancel request reaches the server; who was linked when it was sent.
    CancelArrives(ServerId, CancelKeyBytes, Option<ClientId>),
    /// The connection of a cancel request ends.
    CancelEnds(ServerId),
    /// A statement may be over.
    ServerWakes(u32),
    /// Something breaks.
    Fault(Fault),
}

type CancelKeyBytes = (u32, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The server dies, and is back after so many microseconds.
    Crash(u64),
    /// It is back.
    Recover,
    /// An administrator ends one connection.
    TerminateOne,
    /// One connection breaks without a word.
    BreakOne,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Client(u64),
    Server(u32),
    /// Sends one CancelRequest for a client.
    Canceller(u64),
}

/// A socket of the pooler's process.
#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    peer: Peer,
    /// Sent by the peer, not yet read.
    inbox: VecDeque<u8>,
    /// The peer has closed: nothing follows the inbox.
    peer_closed: bool,
    /// Read and not consumed by the core.
    kept: Vec<u8>,
    /// Written by the core, not yet on its way.
    pending: VecDeque<u8>,
    /// The core has closed it: it ends when pending is empty.
    closing: bool,
    to_pooler: bool,
    from_pooler: bool,
    /// Not read because its destination is behind.
    held_back: bool,
    /// Who it was linked to when last seen.
    linked: Option<ConnectionId>,
}

/// The world of one run.
pub struct World {
    topology: Topology,
    random: Random,
    now_us: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    event_number: u64,
    pooler: Pooler,
    postgres: Postgres,
    clients: Vec<Client>,
    connections: BTreeMap<u64, Connection>,
    by_id: HashMap<ConnectionId, u64>,
    next_connection: u64,
    next_session: u64,
    connecting: BTreeSet<ServerId>,
    /// Cancels on their way to servers, and for whom.
    cancels: BTreeMap<ServerId, Vec<Option<ClientId>>>,
    doing_requests: bool,
    canary: Option<Canary>,
    broken: u64,
    trace: Trace,
    steps: u64,
    violation: Option<String>,
}

impl World {
    /// The world of a topology; with a canary its driver is broken.
    pub fn new(topology: Topology, canary: Option<Canary>, print: bool) -> Self {
        let mut random = Random::new(topology.seed ^ 0x7e1e_0000);
        let (ini, users) = (topology.ini(), topology.users_file());
        let files = |name: &str| -> std::io::Result<Vec<u8>> {
            match name {
                "sim.ini" => Ok(ini.clone().into_bytes()),
                "users" => Ok(users.clone().into_bytes()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            }
        };
        let config = match pgweir_config::load("sim.ini", &files) {
            Ok(loaded) => Arc::new(loaded.config),
            Err(problems) => panic!("the simulation's own configuration is refused: {problems:?}\n{ini}"),
        };
        let mut seed = [0; 32];
        for part in seed.chunks_mut(8) {
            part.copy_from_slice(&random.next().to_le_bytes());
        }
        let surroundings = Surroundings {
            seed,
            wall: WallClock { unix_us: 0 },
            own_uid: 1000,
            open_files_max: 1024,
        };
        let pooler = Pooler::new(config, surroundings, Time(0));
        let postgres = Postgres::new(topology.version);
        let mut world = World {
            now_us: 0,
            events: BinaryHeap::new(),
            event_number: 0,
            pooler,
            postgres,
            clients: Vec::new(),
            connections: BTreeMap::new(),
            by_id: HashMap::new(),
            next_connection: 1,
            next_session: 1,
            connecting: BTreeSet::new(),
            cancels: BTreeMap::new(),
            doing_requests: false,
            canary,
            broken: 0,
            trace: Trace::new(print),
            steps: 0,
            violation: None,
            random,
            topology,
        };
        for number in 0..world.topology.clients {
            let client = Client::new(number, world.random.split(), &world.topology);
            world.clients.push(client);
            let at = world.random.below(world.topology.calm_at_us / 2);
            world.schedule(at, Event::ClientActs(number));
        }
        for _ in 0..world.topology.server_faults {
            let at = world.random.below(world.topology.calm_at_us);
            let fault = match world.random.below(4) {
                0 => Fault::Crash(world.random.between(1_000, 400_000)),
                1 => Fault::BreakOne,
                _ => Fault::TerminateOne,
            };
            world.schedule(at, Event::Fault(fault));
        }
        world
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        self.pooler.handle_timeout(Time(0));
        self.settle();
        let mut rest_until = None;
        while self.violation.is_none() {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.fail("the run does not come to an end".into());
                break;
            }
            let over = self.clients.iter().all(|c| c.phase == Phase::Offline && c.sessions_left == 0);
            if over && rest_until.is_none() {
                rest_until = Some(self.now_us.max(self.topology.calm_at_us) + REST_US);
            }
            if self.now_us > self.topology.calm_at_us + SERVED_WITHIN_US {
                self.not_served();
                break;
            }
            let event_at = self.events.peek().map(|Reverse((at, _, _))| *at);
            let timer_at = self.pooler.poll_timeout().map(|t| t.0);
            let Some(next) = [event_at, timer_at].into_iter().flatten().min() else {
                break;
            };
            if rest_until.is_some_and(|end| next > end) {
                self.check_rest();
                break;
            }
            self.now_us = self.now_us.max(next);
            if event_at.is_some_and(|at| at <= next) {
                if let Some(Reverse((_, _, event))) = self.events.pop() {
                    self.handle(event);
                }
            } else {
                self.pooler.handle_timeout(self.now());
                self.settle();
            }
            self.check_limits();
        }
        Outcome {
            answered: self.clients.iter().map(|c| c.answered).sum(),
            trace: self.trace.hash(),
            violation: self.violation,
            steps: self.steps,
            broken: self.broken,
            ended_at_us: self.now_us,
            topology: self.topology,
        }
    }

    fn now(&self) -> Time {
        Time(self.now_us)
    }

    fn fail(&mut self, why: String) {
        let at = self.now_us as f64 / 1e6;
        self.trace.line(self.now_us, || format!("VIOLATION {why}"));
        self.violation.get_or_insert_with(|| format!("at {at:.6} s: {why}"));
    }

    fn schedule(&mut self, at_us: u64, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((at_us.max(self.now_us), self.event_number, event)));
    }

    /// The network is a fair one when the faults have stopped.
    fn latency_us_max(&self) -> u64 {
        if self.now_us < self.topology.calm_at_us {
            self.topology.latency_us_max
        } else {
            self.topology.latency_us_max.min(CALM_LATENCY_US)
        }
    }

    fn latency_us(&mut self) -> u64 {
        let most = self.latency_us_max();
        self.random.between(1, most)
    }

    fn chunk_bytes(&mut self) -> usize {
        let most = if self.now_us < self.topology.calm_at_us {
            self.topology.chunk_bytes_max
        } else {
            self.topology.chunk_bytes_max.max(CALM_CHUNK_BYTES)
        };
        self.random.between(1, most) as usize
    }

    fn soon(&mut self, event: Event) {
        let at = self.now_us + self.latency_us();
        self.schedule(at, event);
    }

    /// Whether the canary sings now.
    fn sings(&mut self, canary: Canary) -> bool {
        let sings = self.canary == Some(canary) && self.random.below(canary.one_in()) == 0;
        self.broken += u64::from(sings);
        sings
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ClientActs(number) => self.client_acts(number),
            Event::ClientSends(number, flight, bytes) => self.client_sends(number, flight, bytes),
            Event::ClientVanishes(number, session) => self.client_vanishes(number, session),
            Event::ClientCancels(number, flight) => self.client_cancels(number, flight),
            Event::ToPooler(key) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.to_pooler = false;
                }
                self.read(key);
            }
            Event::FromPooler(key) => self.drain(key),
            Event::ConnectEnds(server) => self.connect_ends(server),
            Event::CancelArrives(server, key, linked) => self.cancel_arrives(server, &key, linked),
            Event::CancelEnds(server) => {
                if let Some(on_their_way) = self.cancels.get_mut(&server) {
                    on_their_way.remove(0);
                    if on_their_way.is_empty() {
                        self.cancels.remove(&server);
                    }
                }
                self.pooler.handle_cancel_finished(self.now(), server);
                self.settle();
            }
            Event::ServerWakes(process_id) => {
                let now_us = self.now_us;
                self.postgres.with(process_id, |session, shared| session.advance(shared, now_us));
                self.pump_server(process_id);
            }
            Event::Fault(fault) => self.fault(fault),
        }
    }

    // --- the driver's contract ---

    /// Reads a connection once, as the runtime does.
    fn read(&mut self, key: u64) {
        let Some(connection) = self.connections.get(&key) else {
            return;
        };
        if connection.closing {
            return;
        }
        let id = connection.id;
        let is_empty = connection.inbox.is_empty();
        let peer_closed = connection.peer_closed;
        if !self.pooler.may_read(id) {
            // A client that waits for a server and leaves must not get one.
            if is_empty && peer_closed {
                self.closed(key);
            }
            return;
        }
        if is_empty {
            if peer_closed {
                self.closed(key);
            }
            return;
        }
        if self.is_held_back(id) {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.held_back = true;
            }
            return;
        }
        let count = self.chunk_bytes();
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let count = count.min(connection.inbox.len());
        let mut input = std::mem::take(&mut connection.kept);
        input.extend(connection.inbox.drain(..count));
        let consumed = self.pass_to_core(id, &input);
        let rest = input.split_off(consumed);
        let forgets = !rest.is_empty() && self.sings(Canary::ForgetKept);
        if let Some(connection) = self.connections.get_mut(&key)
            && !forgets
        {
            connection.kept = rest;
        }
        self.do_requests();
        self.read_later(key);
    }

    /// Gives bytes to the core and writes what it says; how many it consumed.
    fn pass_to_core(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        self.trace.bytes(self.now_us, id.token(), input);
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now(), client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now(), server, input),
        };
        if consumed > input.len() {
            self.fail(format!("{id:?}: {consumed} bytes of {} consumed", input.len()));
            return input.len();
        }
        self.check_links(Some((id, &input[consumed..])));
        self.write_outbox(input);
        consumed
    }

    fn read_later(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if !connection.to_pooler && (!connection.inbox.is_empty() || connection.peer_closed) {
            connection.to_pooler = true;
            self.soon(Event::ToPooler(key));
        }
    }

    fn is_held_back(&self, id: ConnectionId) -> bool {
        let behind = self.pooler.linked(id).unwrap_or(id);
        let pending = self
            .by_id
            .get(&behind)
            .and_then(|key| self.connections.get(key))
            .map_or(0, |c| c.pending.len());
        pending > self.topology.held_back_bytes
    }

    fn release_held_back(&mut self) {
        let keys: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, c)| c.held_back)
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.held_back = false;
            }
            self.read_later(key);
        }
    }

    /// The peer is gone.
    fn closed(&mut self, key: u64) {
        let Some(connection) = self.connections.remove(&key) else {
            return;
        };
        let id = connection.id;
        self.by_id.remove(&id);
        if let Peer::Server(process_id) = connection.peer {
            self.postgres.remove(process_id);
        }
        self.trace.number(id.token());
        self.trace.line(self.now_us, || format!("{id:?} was closed by its peer"));
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_closed(self.now(), client),
            ConnectionId::Server(server) => self.pooler.handle_server_closed(self.now(), server),
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.check_links(None);
        self.write_outbox(&[]);
        self.do_requests();
    }

    fn write_outbox(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        let mut parts: Vec<(ConnectionId, Vec<u8>)> = outbox
            .parts()
            .iter()
            .map(|part| (part.to, outbox.bytes(part, input).to_vec()))
            .collect();
        outbox.clear();
        if self.canary == Some(Canary::SwapParts)
            && let Some(at) = (1..parts.len()).find(|&at| parts[at - 1].0 == parts[at].0)
            && self.sings(Canary::SwapParts)
        {
            parts.swap(at - 1, at);
        }
        for (to, bytes) in parts {
            let to = self.misroute(to, &bytes);
            let Some(bytes) = self.falsify(to, bytes) else {
                continue;
            };
            let Some(&key) = self.by_id.get(&to) else {
                self.fail(format!("bytes for {to:?}, which is no connection"));
                continue;
            };
            if self.trace.prints() {
                self.trace_bytes("core ->", to, &bytes);
            }
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.pending.extend(&bytes);
                if !connection.from_pooler {
                    connection.from_pooler = true;
                    self.soon(Event::FromPooler(key));
                }
            }
        }
    }

    fn misroute(&mut self, to: ConnectionId, bytes: &[u8]) -> ConnectionId {
        let to_client = matches!(to, ConnectionId::Client(_));
        if self.canary != Some(Canary::Misroute) || !to_client || bytes.is_empty() {
            return to;
        }
        let other = self
            .connections
            .values()
            .find(|c| c.id != to && !c.closing && matches!(c.peer, Peer::Client(_)))
            .map(|c| c.id);
        match other {
            Some(other) if self.sings(Canary::Misroute) => other,
            _ => to,
        }
    }

    /// What canaries do to single parts; `None` swallows one.
    fn falsify(&mut self, to: ConnectionId, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let to_client = matches!(to, ConnectionId::Client(_));
        if to_client && self.sings(Canary::SwallowPart) {
            return None;
        }
        Some(bytes)
    }

    fn do_requests(&mut self) {
        if self.doing_requests {
            return;
        }
        self.doing_requests = true;
        while let Some(request) = self.pooler.poll_request() {
            self.do_request(request);
        }
        self.doing_requests = false;
    }

    fn do_request(&mut self, request: Request) {
        match request {
            Request::Connect { server, .. } => {
                self.trace.line(self.now_us, || format!("connect {server}"));
                self.connecting.insert(server);
                self.soon(Event::ConnectEnds(server));
            }
            Request::Cancel { server, key } => {
                let linked = match self.pooler.linked(server.into()) {
                    Some(ConnectionId::Client(client)) => Some(client),
                    _ => None,
                };
                self.trace.line(self.now_us, || format!("cancel {server} for {linked:?}"));
                self.cancels.entry(server).or_default().push(linked);
                let key = (key.process_id, key.secret.to_vec());
                self.soon(Event::CancelArrives(server, key, linked));
            }
            Request::Close(id) => self.close(id),
            Request::Resume(id) => {
                if !self.sings(Canary::ForgetResume) {
                    self.resume(id);
                }
            }
            Request::Log { level, text } => self.trace.line(self.now_us, || format!("{level:?} {text}")),
            Request::Reload { .. } | Request::Configure(_) | Request::StopListening | Request::Exit => {
                self.fail("a request nobody gave reason for".into());
            }
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.trace.line(self.now_us, || format!("close {id:?}"));
        if let ConnectionId::Server(server) = id
            && self.connecting.remove(&server)
        {
            return;
        }
        let Some(key) = self.by_id.remove(&id) else {
            self.fail(format!("{id:?} is closed, but is no connection"));
            return;
        };
        if matches!(id, ConnectionId::Server(_)) && self.sings(Canary::LeaveOpen) {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.pending.clear();
                connection.held_back = false;
                connection.closing = true;
                connection.from_pooler = true;
            }
            return;
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.closing = true;
            if !connection.from_pooler {
                connection.from_pooler = true;
                self.soon(Event::FromPooler(key));
            }
        }
    }

    fn resume(&mut self, id: ConnectionId) {
        let Some(&key) = self.by_id.get(&id) else { return };
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.kept);
        let consumed = self.pass_to_core(id, &input);
        let rest = input.split_off(consumed);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.kept = rest;
        }
        self.read_later(key);
    }

    // --- the network ---

    fn open(&mut self, id: ConnectionId, peer: Peer) -> u64 {
        let key = self.next_connection;
        self.next_connection += 1;
        let connection = Connection {
            id,
            peer,
            inbox: VecDeque::new(),
            peer_closed: false,
            kept: Vec::new(),
            pending: VecDeque::new(),
            closing: false,
            to_pooler: false,
            from_pooler: false,
            held_back: false,
            linked: None,
        };
        self.connections.insert(key, connection);
        if self.by_id.insert(id, key).is_some() {
            self.fail(format!("{id:?} is used twice"));
        }
        key
    }

    /// Moves bytes from the pooler's host to the peer.
    fn drain(&mut self, key: u64) {
        let count = self.chunk_bytes();
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.from_pooler = false;
        let count = count.min(connection.pending.len());
        let bytes: Vec<u8> = connection.pending.drain(..count).collect();
        let (peer, ended) = (connection.peer, connection.closing && connection.pending.is_empty());
        if !connection.pending.is_empty() {
            connection.from_pooler = true;
            self.soon(Event::FromPooler(key));
        }
        self.trace.bytes(self.now_us, key, &bytes);
        match peer {
            Peer::Client(number) => self.client_receives(number, key, &bytes),
            Peer::Server(process_id) => {
                let now_us = self.now_us;
                self.postgres
                    .with(process_id, |session, shared| session.receive(shared, now_us, &bytes));
                self.pump_server(process_id);
            }
            Peer::Canceller(_) => {}
        }
        if ended {
            self.connections.remove(&key);
            self.peer_sees_end(peer, key);
        }
        self.release_held_back();
    }

    /// The pooler has closed its end.
    fn peer_sees_end(&mut self, peer: Peer, key: u64) {
        match peer {
            Peer::Client(number) => {
                let client = &mut self.clients[number as usize];
                if client.connection != Some(key) {
                    return;
                }
                if let Err(why) = client.closed(&self.topology) {
                    self.fail(why);
                }
                self.reconnect_later(number);
            }
            Peer::Server(process_id) => {
                self.postgres.with(process_id, |session, _| session.client_closed());
                self.postgres.remove(process_id);
            }
            Peer::Canceller(_) => {}
        }
    }

    fn reconnect_later(&mut self, number: u64) {
        if self.clients[number as usize].sessions_left > 0 {
            let pause = self.random.between(1, 50_000);
            let at = self.now_us + pause;
            self.schedule(at, Event::ClientActs(number));
        }
    }

    /// Puts what a server has said on its way.
    fn pump_server(&mut self, process_id: u32) {
        let key = self
            .connections
            .iter()
            .find(|(_, c)| c.peer == Peer::Server(process_id))
            .map(|(key, _)| *key);
        let Some(session) = self
            .postgres
            .with(process_id, |session, _| (session.take_sent(), session.is_closed(), session.busy_until()))
        else {
            return;
        };
        let (mut sent, is_closed, busy_until) = session;
        if let Some(until) = busy_until {
            self.schedule(until, Event::ServerWakes(process_id));
        }
        let Some(key) = key else { return };
        if let Some(at) = false_idle_at(&sent)
            && self.sings(Canary::FalseIdle)
        {
            sent[at] = b'I';
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            if !connection.closing {
                connection.inbox.extend(&sent);
            }
            connection.peer_closed |= is_closed;
        }
        self.read_later(key);
    }

    fn connect_ends(&mut self, server: ServerId) {
        // The core may have given up meanwhile.
        if !self.connecting.remove(&server) {
            return;
        }
        if self.postgres.down {
            self.pooler
                .handle_server_connect_failed(self.now(), server, "connection refused");
            self.settle();
            return;
        }
        let process_id = self.postgres.accept();
        self.open(server.into(), Peer::Server(process_id));
        let connected = Connected {
            remote: address(5432),
            local: address(40_000 + process_id as u16 % 20_000),
        };
        self.pooler.handle_server_connected(self.now(), server, connected);
        self.settle();
    }

    fn cancel_arrives(&mut self, server: ServerId, key: &CancelKeyBytes, linked: Option<ClientId>) {
        let mut process_id = key.0;
        if self.canary == Some(Canary::MisdirectCancel) {
            let other = self.postgres.sessions().map(|(id, _)| id).find(|id| *id != process_id);
            if let Some(other) = other
                && self.sings(Canary::MisdirectCancel)
            {
                process_id = other;
            }
        }
        let target = self
            .connections
            .values()
            .find(|c| c.peer == Peer::Server(process_id) && !c.closing)
            .map(|c| c.id);
        if let Some(target) = target {
            let client_now = match self.pooler.linked(target) {
                Some(ConnectionId::Client(client)) => Some(client),
                _ => None,
            };
            if client_now.is_some() && client_now != linked {
                self.fail(format!("a cancel for {linked:?} reached the server of {client_now:?}"));
            }
        }
        let now_us = self.now_us;
        let right_key = self
            .postgres
            .session(process_id)
            .is_some_and(|s| *s.key().secret == *key.1 || process_id != key.0);
        if right_key {
            self.postgres.with(process_id, |session, shared| session.cancel(shared, now_us));
            self.pump_server(process_id);
        } else if !self.topology.servers_may_die() && self.postgres.session(process_id).is_some() {
            self.fail("a cancel with a wrong key".into());
        }
        self.soon(Event::CancelEnds(server));
    }

    // --- clients ---

    fn client_acts(&mut self, number: u64) {
        match self.clients[number as usize].phase {
            Phase::Offline => self.client_connects(number),
            Phase::Idle => self.client_begins_flight(number),
            _ => {}
        }
    }

    fn client_connects(&mut self, number: u64) {
        if self.clients[number as usize].sessions_left == 0 {
            return;
        }
        let accepted = Accepted {
            peer: address(10_000 + self.next_session as u16),
            local: address(6432),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now(), accepted);
        let key = self.open(id.into(), Peer::Client(number));
        let session = self.next_session;
        self.next_session += 1;
        let packet = self.clients[number as usize].connect(&self.topology, session, key);
        self.trace
            .line(self.now_us, || format!("client {number} connects as {id}, session {session}"));
        self.settle();
        self.peer_sends(key, &packet);
        let client = &mut self.clients[number as usize];
        if client.random.below(100) < self.topology.vanish_percent && self.now_us < self.topology.calm_at_us {
            let at = self.now_us + client.random.below(200_000);
            self.schedule(at, Event::ClientVanishes(number, session));
        }
    }

    fn peer_sends(&mut self, key: u64, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&key)
            && !connection.peer_closed
        {
            connection.inbox.extend(bytes);
        }
        self.read_later(key);
    }

    fn client_begins_flight(&mut self, number: u64) {
        let client = &mut self.clients[number as usize];
        let Some(key) = client.connection else { return };
        if client.rubbish {
            let bytes = client.some_rubbish();
            client.phase = Phase::Busy;
            self.peer_sends(key, &bytes);
            let at = self.now_us + self.random.below(100_000);
            let session = self.clients[number as usize].session_number;
            self.schedule(at, Event::ClientVanishes(number, session));
            return;
        }
        // What a late cancel hits is uncertain: the next flight waits until all are through.
        if self.has_cancels_under_way(number) {
            let at = self.now_us + self.latency_us_max();
            self.schedule(at, Event::ClientActs(number));
            return;
        }
        let client = &mut self.clients[number as usize];
        if client.next_flight().is_none() {
            client.phase = Phase::Gone;
            let mut bytes = Vec::new();
            pgweir_wire::Writer::new(&mut bytes).terminate();
            self.peer_sends(key, &bytes);
            return;
        }
        let flight = client.flights_sent;
        let latency = self.latency_us_max();
        let client = &mut self.clients[number as usize];
        if client.may_cancel() && client.random.below(100) < self.topology.cancel_percent {
            let at = self.now_us + client.random.below(latency * 20 + 100_000);
            self.schedule(at, Event::ClientCancels(number, flight));
        }
        let client = &mut self.clients[number as usize];
        if client.random.below(100) < self.topology.vanish_percent && self.now_us < self.topology.calm_at_us {
            let at = self.now_us + client.random.below(latency * 20 + 1000);
            let session = client.session_number;
            self.schedule(at, Event::ClientVanishes(number, session));
        }
        self.client_next_stage(number);
    }

    fn has_cancels_under_way(&self, number: u64) -> bool {
        let connection = self.clients[number as usize].connection;
        let id = connection.and_then(|key| self.connections.get(&key)).map(|c| c.id);
        let to_pooler = self.connections.values().any(|c| c.peer == Peer::Canceller(number));
        let mut to_servers = self.cancels.values().flatten();
        to_pooler || to_servers.any(|client| client.map(ConnectionId::from) == id)
    }

    /// Sends the next stage, whole or in two pieces.
    fn client_next_stage(&mut self, number: u64) {
        let latency = self.latency_us_max();
        let client = &mut self.clients[number as usize];
        let bytes = client.next_stage();
        let flight = client.flights_sent;
        self.trace
            .line(self.now_us, || format!("client {number} sends {}", client.describe_flight()));
        if client.random.percent(30) && bytes.len() > 1 {
            let cut = client.random.between(1, bytes.len() as u64 - 1) as usize;
            let late = self.now_us + client.random.between(1, latency * 5);
            self.schedule(late, Event::ClientSends(number, flight, bytes[cut..].to_vec()));
            self.client_sends(number, flight, bytes[..cut].to_vec());
        } else {
            self.client_sends(number, flight, bytes);
        }
    }

    fn client_sends(&mut self, number: u64, flight: u64, bytes: Vec<u8>) {
        let client = &mut self.clients[number as usize];
        let (Some(key), Phase::Busy) = (client.connection, client.phase) else {
            return;
        };
        if client.flights_sent != flight {
            return;
        }
        client.sent(&bytes);
        let wish = client.progress();
        self.peer_sends(key, &bytes);
        self.grant(number, wish);
    }

    fn client_receives(&mut self, number: u64, key: u64, bytes: &[u8]) {
        let client = &mut self.clients[number as usize];
        if client.connection != Some(key) {
            return;
        }
        match client.receive(&self.topology, bytes) {
            Ok(wish) => self.grant(number, wish),
            Err(why) => self.fail(why),
        }
    }

    fn grant(&mut self, number: u64, wish: Wish) {
        match wish {
            Wish::Nothing => {}
            Wish::NextStage => self.client_next_stage(number),
            Wish::Think => {
                let latency = self.latency_us_max();
                let client = &mut self.clients[number as usize];
                let at = self.now_us + client.random.below(latency * 10 + 100);
                self.schedule(at, Event::ClientActs(number));
            }
        }
    }

    /// Closes its socket, whatever it was doing; what it sent last may be cut anywhere.
    fn client_vanishes(&mut self, number: u64, session: u64) {
        let client = &mut self.clients[number as usize];
        if client.session_number != session {
            return;
        }
        let Some(key) = client.connection.take() else { return };
        self.trace.line(self.now_us, || format!("client {number} vanishes"));
        client.phase = Phase::Offline;
        if let Some(connection) = self.connections.get_mut(&key) {
            let keeps = self.random.below(connection.inbox.len() as u64 + 1) as usize;
            connection.inbox.truncate(keeps);
            connection.peer_closed = true;
        }
        self.read_later(key);
        self.reconnect_later(number);
    }

    fn client_cancels(&mut self, number: u64, flight: u64) {
        let client = &mut self.clients[number as usize];
        if client.flights_sent != flight || !client.may_cancel() {
            return;
        }
        let Some(cancel_key) = client.key.clone() else { return };
        client.cancelling();
        self.trace.line(self.now_us, || format!("client {number} cancels"));
        let accepted = Accepted {
            peer: address(9_999),
            local: address(6432),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now(), accepted);
        let key = self.open(id.into(), Peer::Canceller(number));
        self.settle();
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, &cancel_key);
        self.peer_sends(key, &packet);
    }

    // --- faults ---

    fn fault(&mut self, fault: Fault) {
        self.trace.line(self.now_us, || format!("{fault:?}"));
        match fault {
            Fault::Crash(down_us) => {
                self.postgres.down = true;
                let all: Vec<u32> = self.postgres.sessions().map(|(id, _)| id).collect();
                for process_id in all {
                    self.break_server(process_id);
                }
                let at = self.now_us + down_us;
                self.schedule(at, Event::Fault(Fault::Recover));
            }
            Fault::Recover => self.postgres.down = false,
            Fault::TerminateOne | Fault::BreakOne => {
                let all: Vec<u32> = self.postgres.sessions().map(|(id, _)| id).collect();
                if all.is_empty() {
                    return;
                }
                let process_id = *self.random.pick(&all);
                if fault == Fault::BreakOne {
                    self.break_server(process_id);
                } else {
                    self.postgres.with(process_id, |session, _| session.terminate());
                    self.pump_server(process_id);
                }
            }
        }
    }

    /// Ends a server's connection where it is: of what it sent last, some is lost.
    fn break_server(&mut self, process_id: u32) {
        self.postgres.with(process_id, |session, _| session.client_closed());
        self.postgres.remove(process_id);
        let key = self
            .connections
            .iter()
            .find(|(_, c)| c.peer == Peer::Server(process_id))
            .map(|(key, _)| *key);
        let Some(key) = key else { return };
        let random = &mut self.random;
        if let Some(connection) = self.connections.get_mut(&key) {
            let keeps = random.below(connection.inbox.len() as u64 + 1) as usize;
            connection.inbox.truncate(keeps);
            connection.peer_closed = true;
        }
        self.read_later(key);
    }

    // --- checkers ---

    /// A server that changes hands must be idle and clean. `rest` is what the core has not consumed of the input it was
    /// just given.
    fn check_links(&mut self, rest: Option<(ConnectionId, &[u8])>) {
        let mut wrong = None;
        let links: Vec<(u64, Option<ConnectionId>)> = self
            .connections
            .iter()
            .filter(|(_, c)| matches!(c.peer, Peer::Server(_)) && !c.closing)
            .map(|(key, c)| (*key, self.pooler.linked(c.id)))
            .collect();
        for (key, linked) in links {
            let Some(connection) = self.connections.get_mut(&key) else {
                continue;
            };
            let before = std::mem::replace(&mut connection.linked, linked);
            let (Some(client), Peer::Server(process_id)) = (linked, connection.peer) else {
                continue;
            };
            if before == linked {
                continue;
            }
            let Some(session) = self.postgres.session(process_id) else {
                continue;
            };
            if session.is_closed() || !session.is_logged_in() {
                continue;
            }
            let id = connection.id;
            let unread = rest.map_or(0, |(from, rest)| if from == id { rest.len() } else { 0 });
            let way = connection.inbox.len() + connection.kept.len() + unread;
            let cancels = match id {
                ConnectionId::Server(server) => self.cancels.get(&server).map_or(0, Vec::len),
                ConnectionId::Client(_) => 0,
            };
            let mut to_it = session.unread().to_vec();
            to_it.extend(&connection.pending);
            if !session.is_idle() || !is_ignored_when_idle(&to_it) || way > 0 || cancels > 0 {
                wrong = Some(format!(
                    "{id:?} is given to {client:?} while not clean: idle {}, {} bytes to it, {way} bytes from it, \
                     {cancels} cancels",
                    session.is_idle(),
                    to_it.len()
                ));
            }
        }
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    fn check_limits(&mut self) {
        let t = &self.topology;
        let mut pools: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        let mut databases: BTreeMap<&str, u64> = BTreeMap::new();
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        let mut closing = BTreeSet::new();
        for connection in self.connections.values() {
            // One that the core has closed may take a moment to be gone, but not for ever.
            if let (Peer::Server(process_id), true) = (connection.peer, connection.closing) {
                closing.insert(process_id);
            }
        }
        let rests = self.canary == Some(Canary::LeaveOpen);
        for (process_id, session) in self.postgres.sessions() {
            let (database, user) = session.owner();
            if user.is_empty() || closing.contains(&process_id) && !rests {
                continue;
            }
            *pools.entry((database, user)).or_default() += 1;
            *databases.entry(database).or_default() += 1;
            *users.entry(user).or_default() += 1;
        }
        let over = |count: u64, limit: u64| limit > 0 && count > limit;
        let wrong = pools
            .iter()
            .find(|(_, n)| over(**n, t.pool_size + t.reserve_pool_size))
            .map(|((database, user), n)| format!("pool {database}/{user} has {n} servers"))
            .or_else(|| {
                databases
                    .iter()
                    .find(|(_, n)| over(**n, t.max_db_connections))
                    .map(|(database, n)| format!("database {database} has {n} servers"))
            })
            .or_else(|| {
                users
                    .iter()
                    .find(|(_, n)| over(**n, t.max_user_connections))
                    .map(|(user, n)| format!("user {user} has {n} servers"))
            });
        let clients = self
            .clients
            .iter()
            .filter(|c| matches!(c.phase, Phase::Idle | Phase::Busy))
            .count() as u64;
        let wrong = wrong.or_else(|| {
            (clients > t.max_client_conn).then(|| format!("{clients} clients, and max_client_conn is {}", t.max_client_conn))
        });
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    fn not_served(&mut self) {
        let waiting: Vec<String> = self
            .clients
            .iter()
            .filter(|c| c.phase != Phase::Offline)
            .map(|c| {
                let readable = c
                    .connection
                    .and_then(|key| self.connections.get(&key))
                    .map(|conn| (self.pooler.may_read(conn.id), self.pooler.linked(conn.id)));
                format!(
                    "client {} is {:?}, {readable:?}, flight: {}",
                    c.number,
                    c.phase,
                    c.describe_flight()
                )
            })
            .collect();
        self.fail(format!("long after the faults, not served:\n    {}", waiting.join("\n    ")));
    }

    /// All clients are gone: every server is idle, or gone too.
    fn check_rest(&mut self) {
        let mut wrong = Vec::new();
        for connection in self.connections.values() {
            match connection.peer {
                Peer::Client(number) => wrong.push(format!("the connection of client {number} is still open")),
                Peer::Canceller(_) => wrong.push("a cancel connection is still open".into()),
                Peer::Server(process_id) => {
                    let idle = self
                        .postgres
                        .session(process_id)
                        .is_some_and(|s| s.is_idle() && s.unread().is_empty());
                    if !idle || connection.closing || self.pooler.linked(connection.id).is_some() {
                        wrong.push(format!("{:?} is not at rest", connection.id));
                    }
                }
            }
        }
        if !self.cancels.is_empty() {
            wrong.push("cancels are on their way".into());
        }
        if !wrong.is_empty() {
            self.fail(format!("after all clients have gone: {}", wrong.join("; ")));
        }
    }

    fn trace_bytes(&self, what: &str, id: ConnectionId, bytes: &[u8]) {
        let text = |m: &[u8]| match id {
            ConnectionId::Client(_) => crate::transcript::backend_to_text(m),
            ConnectionId::Server(_) => crate::transcript::frontend_to_text(m),
        };
        for message in crate::transcript::split_messages(bytes) {
            self.trace.line(self.now_us, || {
                let mut line = text(message);
                if let Some((at, _)) = line.char_indices().nth(160) {
                    line.truncate(at);
                }
                format!("{what} {id:?} {line}")
            });
        }
    }
}

/// Whether bytes are whole messages that an idle server ignores: what is left of a COPY that failed, and Flush.
fn is_ignored_when_idle(bytes: &[u8]) -> bool {
    crate::transcript::split_messages(bytes)
        .into_iter()
        .all(|m| matches!(m[0], b'd' | b'c' | b'f' | b'H') && matches!(Header::read(m), Ok(Some(h)) if h.message_bytes as usize == m.len()))
}

/// Where a ReadyForQuery says something else than idle.
fn false_idle_at(bytes: &[u8]) -> Option<usize> {
    let at = bytes.len().checked_sub(6)?;
    (bytes[at..].starts_with(b"Z\0\0\0\x05") && bytes[at + 5] != b'I').then_some(at + 5)
}

fn address(port: u16) -> Address {
    Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
}
