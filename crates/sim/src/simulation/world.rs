//! The world of one run: it plays the runtime's part, with a clock that jumps.

use super::canary::Canary;
use super::client::{Client, Phase, Retired};
use super::faults::Fault;
use super::hosts::Hosts;
use super::network::Connection;
use super::postgres::Postgres;
use super::shutdown::Ending;
use super::signals::Signal;
use super::takeover::Successors;
use super::topology::Topology;
use super::trace::Trace;
use super::visitors::{Visit, Visitors};
use crate::random::Random;
use foldhash::HashMap;
use pgweir_core::{CancelEnd, ClientId, ConnectionId, Pooler, ServerId, Time};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// After the faults have stopped, every client must be served within this time, microseconds.
const SERVED_WITHIN_US: u64 = 600_000_000;

/// Latency and size of pieces of a network without faults.
const CALM_LATENCY_US: u64 = 500;
const CALM_CHUNK_BYTES: u64 = 512;

/// How long the pooler then has to bring its servers to rest, microseconds.
const REST_US: u64 = 15_000_000;

/// The same if hundreds of messages of a client may be left unread.
const REST_FROM_FLOODS_US: u64 = 75_000_000;

/// Waits for a lock on a catalog, one after the other, for which additional time is allowed.
const LOCKS_AT_REST: u64 = 4;

/// How often that time is extended while something is not at rest: on a slow server each message of a flood takes a
/// fifth of a second.
const RESTS_MAX: u32 = 8;

/// The same without floods: a server that is closed at the very end of the rest has its Terminate on the way.
const RESTS_FOR_GOODBYES: u32 = 1;

/// Steps between two checks for servers that are kept without a pin.
const PINS_CHECKED_EVERY: u64 = 64;

/// Steps between two checks of the core's invariants.
const INVARIANTS_CHECKED_EVERY: u64 = 16;

/// The most steps of one run: more mean an endless loop.
const STEPS_MAX: u64 = 16_000_000;

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The decisions of the seed.
    pub topology: Topology,
    /// The first violation.
    pub violation: Option<String>,
    /// Hash of everything that happened.
    pub trace: u64,
    /// Segments that were answered completely.
    pub answered: u64,
    /// Flights that were sent to a server behind those of other clients.
    pub shared: u64,
    /// Steps taken.
    pub steps: u64,
    /// How often the canary broke something.
    pub broken: u64,
    /// Virtual time at the end, microseconds.
    pub ended_at_us: u64,
}

#[derive(Debug)]
pub(super) enum Event {
    /// The driver has passed on all that has come.
    TurnEnds,
    /// A client acts.
    ClientActs(u64),
    /// A client sends bytes of the flight with this number.
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
    /// A cancel request reaches the server: the client that was linked when the request was sent, and whether the core
    /// believes that the request has ended.
    CancelArrives(ServerId, CancelKeyBytes, Option<ClientId>, bool),
    /// The connection of a cancel request ends; the same.
    CancelEnds(ServerId, bool),
    /// The core is told that it has ended.
    CancelTold(ServerId, bool),
    /// The time of a pause or statement may be over.
    ServerWakes(u32),
    /// A fault.
    Fault(Fault),
    /// A visitor.
    Visit(Visit),
}

/// An event and its time. The earliest is the greatest; of two at the same time, the one scheduled first.
#[derive(Debug)]
pub(super) struct Scheduled {
    at_us: u64,
    number: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.number).cmp(&(self.at_us, self.number))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

pub(super) type CancelKeyBytes = (u32, Vec<u8>);

/// The longest time for which the driver reads before it reports the end of a turn.
const TURN_US_MAX: u64 = 300;

/// The world of one run.
pub struct World {
    pub(super) topology: Topology,
    pub(super) random: Random,
    pub(super) now_us: u64,
    pub(super) events: BinaryHeap<Scheduled>,
    pub(super) event_number: u64,
    pub(super) pooler: Pooler,
    pub(super) postgres: Postgres,
    pub(super) clients: Vec<Client>,
    /// Sessions whose client has left in the midst of a flight, by number.
    pub(super) retired: BTreeMap<u64, Retired>,
    /// What sessions whose client vanished had not completed by a Sync, by number.
    pub(super) incomplete: BTreeMap<u64, Vec<u8>>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) by_id: HashMap<ConnectionId, u64>,
    /// Connections to servers, by process id.
    pub(super) by_process: HashMap<u32, u64>,
    /// When busy servers wake, by process id.
    pub(super) wakes: BTreeMap<u32, u64>,
    /// A server or a client has logged in.
    pub(super) has_grown: bool,
    pub(super) next_connection: u64,
    pub(super) next_session: u64,
    /// Room for the bytes that leave the pooler's host.
    pub(super) drained: Vec<u8>,
    /// A connection may be held back.
    pub(super) holds_back: bool,
    /// Servers to which connections are being opened, and the changes of the configuration before.
    pub(super) connecting: BTreeMap<ServerId, u64>,
    pub(super) hosts: Hosts,
    /// Cancels on their way to servers, and the clients that they are for.
    pub(super) cancels: BTreeMap<ServerId, Vec<Option<ClientId>>>,
    /// Calls of pg_cancel_backend() and pg_terminate_backend() that may still hit their targets.
    pub(super) signals: Vec<Signal>,
    pub(super) visitors: Visitors,
    pub(super) doing_requests: bool,
    /// The end of the driver's turn is among the events.
    pub(super) turn_ends: bool,
    /// How often the configuration has changed.
    pub(super) changes: u64,
    pub(super) ending: Ending,
    pub(super) successors: Successors,
    pub(super) canary: Option<Canary>,
    pub(super) broken: u64,
    pub(super) trace: Trace,
    pub(super) steps: u64,
    pub(super) violation: Option<String>,
}

impl World {
    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        self.pooler.handle_timeout(Time(0));
        self.settle();
        let mut rest_until = None;
        let mut rests = 0;
        while self.violation.is_none() {
            if self.ending == Ending::Over {
                self.check_end();
                break;
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                self.fail("the run does not come to an end".into());
                break;
            }
            let over = self
                .clients
                .iter()
                .all(|c| c.phase == Phase::Offline && c.sessions_left == 0);
            if over && rest_until.is_none() {
                let rest_us = match self.topology.hostile_percent {
                    0 => REST_US,
                    _ => REST_FROM_FLOODS_US,
                };
                let locked_us = LOCKS_AT_REST * self.topology.lock_us_max;
                rest_until = Some(self.now_us.max(self.topology.calm_at_us) + rest_us + locked_us);
            }
            if rest_until.is_none() && self.now_us > self.topology.calm_at_us + self.served_within_us() {
                self.not_served();
                break;
            }
            let event_at = self.events.peek().map(|scheduled| scheduled.at_us);
            let timer_at = self.pooler.poll_timeout().map(|t| t.0);
            let Some(next) = [event_at, timer_at].into_iter().flatten().min() else {
                break;
            };
            if rest_until.is_some_and(|end| next > end) {
                let rests_max = match self.topology.hostile_percent {
                    0 => RESTS_FOR_GOODBYES,
                    _ => RESTS_MAX,
                };
                if rests < rests_max && !self.without_rest().is_empty() {
                    rests += 1;
                    rest_until = Some(next + REST_FROM_FLOODS_US);
                } else if self.ending == Ending::Ordered {
                    self.fail("all clients have left, and the process does not end".into());
                } else {
                    self.check_rest();
                    break;
                }
            }
            self.step(event_at, next);
        }
        Outcome {
            answered: self.clients.iter().map(|c| c.answered).sum(),
            shared: self.pooler.flights_shared(),
            trace: self.trace.hash(),
            violation: self.violation,
            steps: self.steps,
            broken: self.broken,
            ended_at_us: self.now_us,
            topology: self.topology,
        }
    }

    /// Goes on to this time, at which an event or a timer of the pooler is due.
    fn step(&mut self, event_at: Option<u64>, next: u64) {
        self.now_us = self.now_us.max(next);
        if event_at.is_some_and(|at| at <= next) {
            if let Some(Scheduled { event, .. }) = self.events.pop() {
                // A client that keeps a server without a pin does so until its next action.
                if matches!(event, Event::ClientActs(_)) || self.steps.is_multiple_of(PINS_CHECKED_EVERY) {
                    self.check_pins();
                }
                self.handle(event);
            }
        } else {
            self.pooler.handle_timeout(self.now());
            self.settle();
        }
        self.check_limits();
        self.check_standbys();
        self.perhaps_take_over();
        if self.pooler.awaits_turn_end() && !std::mem::replace(&mut self.turn_ends, true) {
            let at = self.now_us + self.random.below(TURN_US_MAX);
            self.schedule(at, Event::TurnEnds);
        }
        if self.steps.is_multiple_of(INVARIANTS_CHECKED_EVERY)
            && let Err(wrong) = self.pooler.check_invariants()
        {
            self.fail(format!("what the core keeps twice: {wrong}"));
        }
    }

    pub(super) fn now(&self) -> Time {
        Time(self.now_us)
    }

    pub(super) fn fail(&mut self, why: String) {
        let at = self.now_us as f64 / 1e6;
        self.trace.line(self.now_us, || format!("VIOLATION {why}"));
        self.violation.get_or_insert_with(|| format!("at {at:.6} s: {why}"));
    }

    pub(super) fn schedule(&mut self, at_us: u64, event: Event) {
        self.event_number += 1;
        self.events.push(Scheduled {
            at_us: at_us.max(self.now_us),
            number: self.event_number,
            event,
        });
    }

    /// How long all clients may take to be served, once the faults have stopped: then the network is fast and reliable.
    /// If all users share one connection, most transactions begin with a new one, and a client that keeps its server
    /// makes all others wait.
    fn served_within_us(&self) -> u64 {
        match self.topology.max_db_connections {
            1 if self.topology.users > 1 => 3 * SERVED_WITHIN_US,
            _ => SERVED_WITHIN_US,
        }
    }

    pub(super) fn latency_us_max(&self) -> u64 {
        if self.now_us < self.topology.calm_at_us {
            self.topology.latency_us_max
        } else {
            self.topology.latency_us_max.min(CALM_LATENCY_US)
        }
    }

    pub(super) fn latency_us(&mut self) -> u64 {
        let most = self.latency_us_max();
        self.random.between(1, most)
    }

    pub(super) fn chunk_bytes(&mut self) -> usize {
        let most = if self.now_us < self.topology.calm_at_us {
            self.topology.chunk_bytes_max
        } else {
            self.topology.chunk_bytes_max.max(CALM_CHUNK_BYTES)
        };
        self.random.between(1, most) as usize
    }

    pub(super) fn soon(&mut self, event: Event) {
        let at = self.now_us + self.latency_us();
        self.schedule(at, event);
    }

    /// Whether the canary breaks something now.
    pub(super) fn sings(&mut self, canary: Canary) -> bool {
        let sings = self.canary == Some(canary) && self.random.below(canary.one_in()) == 0;
        self.broken += u64::from(sings);
        sings
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::TurnEnds => {
                self.turn_ends = false;
                self.pooler.handle_turn_end(self.now());
                self.settle();
            }
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
            Event::CancelArrives(server, key, linked, told) => self.cancel_arrives(server, &key, linked, told),
            Event::CancelEnds(server, told) => {
                if let Some(on_their_way) = self.cancels.get_mut(&server) {
                    on_their_way.remove(0);
                    if on_their_way.is_empty() {
                        self.cancels.remove(&server);
                    }
                }
                if !told {
                    self.handle(Event::CancelTold(server, true));
                }
            }
            Event::CancelTold(server, is_over) => {
                let end = if is_over { CancelEnd::Over } else { CancelEnd::NotKnown };
                self.pooler.handle_cancel_finished(self.now(), server, end);
                self.settle();
            }
            Event::ServerWakes(process_id) => {
                if self.wakes.get(&process_id).is_some_and(|at| *at <= self.now_us) {
                    self.wakes.remove(&process_id);
                }
                let now_us = self.now_us;
                self.postgres
                    .with(process_id, |session, shared| session.advance(shared, now_us));
                self.pump_server(process_id);
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Visit(visit) => self.visit(visit),
        }
    }
}
