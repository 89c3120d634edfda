//! Clients that call pg_cancel_backend() and pg_terminate_backend() with the process ids of others.
//!
//! A call may hit its target at any time until it is answered, and a cancel until it has reached the server. In that
//! time the target sends nothing whose answers a cancel would make uncertain.

use super::flight::signal::SignalCall;
use super::world::World;
use crate::simulation::client::Phase;

/// A call.
#[derive(Debug)]
pub(super) struct Signal {
    by: u64,
    /// The connection and the flight of the call.
    connection: u64,
    flight: u64,
    of: u64,
    /// The session of the target.
    session: u64,
    /// It ends the target.
    ends: bool,
    /// Both are clients of one user.
    is_allowed: bool,
}

/// One flight in so many is such a call.
const ONE_IN: u64 = 4;

/// So often a client that may be hit tries to give its server back, before it leaves: perhaps the call waits for that
/// server.
const GIVES_BACK_MAX: u64 = 3;

impl World {
    /// The call that a client sends next, if it sends one, and its target.
    pub(super) fn next_signal(&mut self, number: u64) -> Option<(SignalCall, u64)> {
        if !self.topology.signals || !self.clients[number as usize].random.percent(100 / ONE_IN) {
            return None;
        }
        if self.clients[number as usize].flights_left < 2 {
            return None;
        }
        let ends = self.clients[number as usize].random.percent(30);
        let may_be_hit = |of: &u64| {
            let target = &self.clients[*of as usize];
            match ends {
                true => *of != number && target.key.is_some() && !target.rubbish,
                // A client that cancels itself knows what comes.
                false => *of == number || target.may_cancel(),
            }
        };
        let targets: Vec<u64> = (0..self.clients.len() as u64).filter(may_be_hit).collect();
        let caller = &mut self.clients[number as usize];
        let of = *targets.get(caller.random.below(targets.len().max(1) as u64) as usize)?;
        let process_id = self.clients[of as usize].key.as_ref()?.process_id;
        Some((SignalCall { ends, process_id }, of))
    }

    /// A client is about to send this call.
    pub(super) fn signals(&mut self, by: u64, call: SignalCall, of: u64) {
        let (caller, target) = (&self.clients[by as usize], &self.clients[of as usize]);
        let Some(connection) = caller.connection else { return };
        if by == of {
            return;
        }
        let is_allowed = caller.user(&self.topology) == target.user(&self.topology);
        self.signals.push(Signal {
            by,
            connection,
            flight: caller.flights_sent,
            of,
            session: target.session_number,
            ends: call.ends,
            is_allowed,
        });
        let target = &mut self.clients[of as usize];
        match call.ends {
            _ if !is_allowed => {}
            true => target.may_be_ended = true,
            false => target.cancelling(),
        }
    }

    /// The flight of a client has been answered.
    pub(super) fn signal_is_answered(&mut self, number: u64) {
        let caller = &self.clients[number as usize];
        if !caller.has_signalled() {
            return;
        }
        let is_of_caller = |s: &&Signal| s.by == number && s.flight == caller.flights_sent;
        let Some(signal) = self.signals.iter().find(is_of_caller) else {
            return self.fail(format!("client {number} has signalled, and nobody knows whom"));
        };
        let (of, session, ends, is_allowed) = (signal.of, signal.session, signal.ends, signal.is_allowed);
        if !is_allowed {
            return self.fail(format!("client {number} has signalled client {of}, of another user"));
        }
        let target = &mut self.clients[of as usize];
        target.is_ended |= ends && target.session_number == session;
    }

    /// Whether a call of another client may still hit this one.
    pub(super) fn may_be_hit(&mut self, number: u64) -> bool {
        if self.signals.is_empty() && self.cancels.is_empty() {
            return false;
        }
        let (clients, connections) = (&self.clients, &self.connections);
        self.signals.retain(|signal| {
            let caller = &clients[signal.by as usize];
            let is_there = caller.connection == Some(signal.connection);
            let waits = is_there && caller.phase == Phase::Busy && caller.flights_sent == signal.flight;
            // What a client has sent before it vanished may still be done.
            waits || !is_there && connections.contains_key(&signal.connection)
        });
        let id = self.clients[number as usize]
            .connection
            .and_then(|key| self.connections.get(&key));
        let id = id.map(|connection| connection.id);
        let is_for_it = |linked: &Option<pgweir_core::ClientId>| linked.map(Into::into) == id && id.is_some();
        self.topology.signals
            && (self.signals.iter().any(|s| s.of == number && s.is_allowed && !s.ends)
                || self.cancels.values().flatten().any(is_for_it))
    }

    /// Whether a client that may be hit leaves, because it may keep the server that the call waits for.
    pub(super) fn makes_room(&mut self, number: u64) -> bool {
        let client = &mut self.clients[number as usize];
        client.given_back += 1;
        client.given_back > GIVES_BACK_MAX
    }
}
