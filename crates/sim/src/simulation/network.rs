//! Sockets and the network between them: pieces of any size, with any delay.

use super::canary::{Canary, without_pins};
use super::hosts::Answer;
use super::world::{CancelKeyBytes, Event, World};
use crate::model::{CatalogLocks, Pace, Session};
use pgweir_core::{Accepted, Address, ClientId, Connected, ConnectionId, ServerId};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Client(u64),
    Server(u32),
    /// Sends one CancelRequest for a client.
    Canceller(u64),
    /// Does not log in.
    Stranger,
    /// Looks at the console.
    Watcher,
}

/// A socket of the pooler's process.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    /// Bytes that the peer has sent and the pooler has not read.
    pub(super) inbox: VecDeque<u8>,
    /// The peer has closed: no bytes follow those in the inbox.
    pub(super) peer_closed: bool,
    /// Bytes that were read and that the core has not consumed.
    pub(super) kept: Vec<u8>,
    /// How many bytes were read.
    pub(super) read_bytes: usize,
    /// How many bytes the core was given that it could not handle because more must come.
    pub(super) vain_bytes: usize,
    /// Bytes that the core has written and that have not been sent.
    pub(super) pending: VecDeque<u8>,
    /// The core has closed it: it ends when pending is empty.
    pub(super) closing: bool,
    pub(super) to_pooler: bool,
    pub(super) from_pooler: bool,
    /// It is not read, because too much output waits for its destination.
    pub(super) held_back: bool,
    /// The changes of the configuration before it was opened.
    pub(super) changes: u64,
    /// The connection that it was last linked to.
    pub(super) linked: Option<ConnectionId>,
}

impl World {
    /// Someone connects to the pooler from this port.
    pub(super) fn accept(&mut self, port: u16, peer: Peer) -> (ClientId, u64) {
        let accepted = Accepted {
            peer: address(port),
            local: address(6432),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now(), accepted);
        (id, self.open(id.into(), peer))
    }

    pub(super) fn open(&mut self, id: ConnectionId, peer: Peer) -> u64 {
        let key = self.next_connection;
        self.next_connection += 1;
        let connection = Connection {
            id,
            peer,
            inbox: VecDeque::new(),
            peer_closed: false,
            kept: Vec::new(),
            read_bytes: 0,
            vain_bytes: 0,
            pending: VecDeque::new(),
            closing: false,
            to_pooler: false,
            from_pooler: false,
            held_back: false,
            changes: self.changes,
            linked: None,
        };
        self.connections.insert(key, connection);
        if let Peer::Server(process_id) = peer {
            self.by_process.insert(process_id, key);
        }
        if self.by_id.insert(id, key).is_some() {
            self.fail(format!("{id:?} is used twice"));
        }
        key
    }

    /// Moves bytes from the pooler's host to the peer.
    pub(super) fn drain(&mut self, key: u64) {
        let count = self.chunk_bytes();
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        connection.from_pooler = false;
        let count = count.min(connection.pending.len());
        let mut bytes = std::mem::take(&mut self.drained);
        bytes.clear();
        move_front(&mut connection.pending, count, &mut bytes);
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
                let logs_in = self.postgres.session(process_id).is_some_and(|s| !s.is_logged_in());
                self.has_grown |= logs_in;
                self.postgres
                    .with(process_id, |session, shared| session.receive(shared, now_us, &bytes));
                self.pump_server(process_id);
            }
            Peer::Watcher => self.watcher_receives(key, &bytes),
            Peer::Canceller(_) | Peer::Stranger => {}
        }
        if ended {
            self.connections.remove(&key);
            self.peer_sees_end(peer, key);
        }
        self.drained = bytes;
        self.release_held_back();
    }

    /// The pooler has closed its end.
    pub(super) fn peer_sees_end(&mut self, peer: Peer, key: u64) {
        match peer {
            Peer::Client(number) => {
                let client = &mut self.clients[number as usize];
                if client.connection != Some(key) {
                    return;
                }
                client.waited_us = self.now_us - client.asked_us;
                if let Err(why) = client.closed(&self.topology) {
                    self.fail(why);
                }
                self.reconnect_later(number);
            }
            Peer::Server(process_id) => {
                self.postgres.with(process_id, |session, _| session.client_closed());
                self.postgres.remove(process_id);
            }
            Peer::Canceller(_) | Peer::Stranger | Peer::Watcher => {}
        }
    }

    pub(super) fn reconnect_later(&mut self, number: u64) {
        if self.clients[number as usize].sessions_left > 0 {
            let pause = self.random.between(1, 50_000);
            let at = self.now_us + pause;
            self.schedule(at, Event::ClientActs(number));
        }
    }

    /// Sends a server's output.
    pub(super) fn pump_server(&mut self, process_id: u32) {
        let key = self.by_process.get(&process_id).copied();
        let Some(session) = self.postgres.session_mut(process_id) else {
            return;
        };
        let (mut sent, is_closed, wakes_at) = (session.take_sent(), session.is_closed(), session.wakes_at());
        let (ran, undone) = (session.take_ran(), session.take_undone());
        let (synced, foreign) = (session.take_synced(), session.take_foreign());
        if session.take_idle_too_long() {
            self.check_idle_limit(process_id);
        }
        for ran in ran {
            self.check_settings(ran);
        }
        for token in undone {
            self.note_undone(&token);
        }
        for token in synced {
            self.check_completed(&token);
        }
        if let Some(wrong) = foreign {
            self.fail(wrong);
        }
        for behind in self.postgres.behind(process_id) {
            let at = self.now_us + self.random.between(1, self.latency_us_max());
            self.schedule(at, Event::ServerWakes(behind));
        }
        if let Some(until) = wakes_at
            && self.wakes.insert(process_id, until) != Some(until)
        {
            self.schedule(until, Event::ServerWakes(process_id));
        }
        let Some(key) = key else { return };
        let topology = &self.topology;
        // A login that is to be abandoned may succeed first; then its client sends rubbish.
        let abandons = topology.startup_settings && topology.abandoned_percent > 0;
        // So do clients that a shutdown has refused.
        let refused = || self.clients.iter().any(|client| client.rubbish);
        let all_mean_well = topology.rubbish_percent == 0 && topology.hostile_percent == 0 && !abandons;
        if all_mean_well && sent.windows(UNMODELLED.len()).any(|w| w == UNMODELLED) && !refused() {
            self.fail(format!(
                "a script or the pooler asks too much: {}",
                String::from_utf8_lossy(&sent)
            ));
        }
        if let Some(at) = false_idle_at(&sent)
            && self.sings(Canary::FalseIdle)
        {
            sent[at] = b'I';
        }
        let forged = match self.canary {
            Some(Canary::DropPin) => without_pins(&sent),
            _ => None,
        };
        if let (Some(forged), Some(canary)) = (forged, self.canary)
            && self.sings(canary)
        {
            sent = forged;
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            if !connection.closing {
                connection.inbox.extend(&sent);
            }
            connection.peer_closed |= is_closed;
        }
        self.read_later(key);
    }

    pub(super) fn connect_ends(&mut self, server: ServerId) {
        // The core may have given up the attempt meanwhile.
        let Some(changes) = self.connecting.remove(&server) else {
            return;
        };
        let answer = self.hosts.answers(server);
        if answer == Answer::Silent {
            self.connecting.insert(server, changes);
            return;
        }
        let (host, is_standby) = match answer {
            Answer::Accepts { host, is_standby } if !self.postgres.down => (host, is_standby),
            _ => {
                self.pooler
                    .handle_server_connect_failed(self.now(), server, "connection refused");
                return self.settle();
            }
        };
        let pace = match self.topology.slow_percent {
            0 => Pace::AtOnce,
            percent => Pace::Slow {
                random: self.random.split(),
                percent,
                us_max: self.topology.slow_us_max,
            },
        };
        let locks = (self.topology.lock_percent > 0).then(|| CatalogLocks {
            random: self.random.split(),
            percent: self.topology.lock_percent,
            us_max: self.topology.lock_us_max,
            until_us: self.topology.calm_at_us + LOCKED_FOR_US,
        });
        let forgets = self.sings(Canary::ForgetDefaults);
        let tells_standby = self.tells_standby(is_standby);
        let process_id = self.postgres.accept(pace, locks, forgets, tells_standby);
        if self.topology.replica_lag > 0 && host > 0 {
            self.postgres.is_on_replica(process_id);
        }
        self.hosts.has_session(process_id, host, is_standby);
        let key = self.open(server.into(), Peer::Server(process_id));
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.changes = changes;
        }
        let connected = Connected {
            remote: address(5432),
            local: address(40_000 + process_id as u16 % 20_000),
        };
        self.pooler.handle_server_connected(self.now(), server, connected);
        self.settle();
    }

    pub(super) fn cancel_arrives(
        &mut self,
        server: ServerId,
        key: &CancelKeyBytes,
        linked: Option<ClientId>,
        told: bool,
    ) {
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
            // Where clients share a server it may reach another's transaction, of which nobody may notice anything.
            let is_shared = matches!(target, ConnectionId::Server(server) if self.pooler.flies(server));
            if client_now.is_some() && client_now != linked && !is_shared {
                self.fail(format!("a cancel for {linked:?} reached the server of {client_now:?}"));
            }
        }
        if told && self.topology.late_cancels {
            // A cancel that comes too late may hit what its own client does next, as without a pooler. So nothing of it
            // is looked at but whose server it reaches.
            return self.soon(Event::CancelEnds(server, told));
        }
        let now_us = self.now_us;
        let right_key = self
            .postgres
            .session(process_id)
            .is_some_and(|s| *s.key().secret == *key.1 || process_id != key.0);
        let is_asked = self.postgres.session(process_id).is_some_and(Session::is_asked);
        // After a client has left, the pooler itself cancels an internal query that waits
        // for long.
        if right_key && is_asked && linked.is_some() {
            self.fail(format!("a cancel for {linked:?} reached a question of the pooler's"));
        }
        if right_key {
            self.postgres
                .with(process_id, |session, shared| session.cancel(shared, now_us));
            self.pump_server(process_id);
        } else if !self.topology.servers_may_die() && self.postgres.session(process_id).is_some() {
            self.fail("a cancel with a wrong key".into());
        }
        self.soon(Event::CancelEnds(server, told));
    }
}

/// How long other sessions go on locking catalogs after the faults have stopped,
/// microseconds.
const LOCKED_FOR_US: u64 = 10_000_000;

/// The model's error for statements that it does not know.
const UNMODELLED: &[u8] = b"the model does not know";

/// Moves so many bytes from the front of a queue to the end of `to`, as slices and not one by one.
pub(super) fn move_front(queue: &mut VecDeque<u8>, count: usize, to: &mut Vec<u8>) {
    let (first, second) = queue.as_slices();
    let of_first = count.min(first.len());
    to.extend_from_slice(&first[..of_first]);
    to.extend_from_slice(&second[..count - of_first]);
    queue.drain(..count);
}

/// The place of a ReadyForQuery that does not say idle.
fn false_idle_at(bytes: &[u8]) -> Option<usize> {
    let at = bytes.len().checked_sub(6)?;
    (bytes[at..].starts_with(b"Z\0\0\0\x05") && bytes[at + 5] != b'I').then_some(at + 5)
}

pub(super) fn address(port: u16) -> Address {
    Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
}
