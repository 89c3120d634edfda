//! What clients do when it is their turn.

use super::client::{Phase, STAYS_US_MAX, Wish};
use super::network::Peer;
use super::world::{Event, World};
use pgweir_wire::StartupPacket;

impl World {
    pub(super) fn client_acts(&mut self, number: u64) {
        match self.clients[number as usize].phase {
            Phase::Offline => self.client_connects(number),
            Phase::Idle => self.client_begins_flight(number),
            _ => {}
        }
    }

    pub(super) fn client_connects(&mut self, number: u64) {
        if self.clients[number as usize].sessions_left == 0 {
            return;
        }
        let (id, key) = self.accept(10_000 + self.next_session as u16, Peer::Client(number));
        let session = self.next_session;
        self.next_session += 1;
        self.clients[number as usize].asked_us = self.now_us;
        let packet = self.clients[number as usize].connect(&self.topology, session, key);
        self.trace.line(self.now_us, || {
            format!("client {number} connects as {id}, session {session}")
        });
        self.settle();
        self.peer_sends(key, &packet);
        let (latency, slow) = (self.latency_us_max(), self.topology.slow_us_max);
        let client = &mut self.clients[number as usize];
        if client.abandons {
            // The login is abandoned at any byte, and at any step of the work that the client's settings cause.
            let at = self.now_us + client.random.below(latency * 12 + slow);
            self.schedule(at, Event::ClientVanishes(number, session));
        } else if client.random.below(100) < self.topology.vanish_percent && self.now_us < self.topology.calm_at_us {
            let at = self.now_us + client.random.below(200_000);
            self.schedule(at, Event::ClientVanishes(number, session));
        }
    }

    pub(super) fn peer_sends(&mut self, key: u64, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&key)
            && !connection.peer_closed
        {
            connection.inbox.extend(bytes);
        }
        self.read_later(key);
    }

    pub(super) fn client_begins_flight(&mut self, number: u64) {
        let client = &mut self.clients[number as usize];
        let Some(key) = client.connection else { return };
        if client.rubbish {
            let (bytes, stays_us) = match client.hostile {
                true => client.some_hostility(&self.topology, &self.postgres.internal_statements()),
                false => (client.some_rubbish(), STAYS_US_MAX),
            };
            client.phase = Phase::Busy;
            self.peer_sends(key, &bytes);
            let at = self.now_us + self.random.below(stays_us);
            let session = self.clients[number as usize].session_number;
            self.schedule(at, Event::ClientVanishes(number, session));
            return;
        }
        // A driver waits until its cancel connection is closed; then the cancel cannot hit its next message.
        if self.has_cancels_under_way(number) {
            let at = self.now_us + self.latency_us_max();
            self.schedule(at, Event::ClientActs(number));
            return;
        }
        let may_be_hit = self.may_be_hit(number);
        if may_be_hit && self.makes_room(number) {
            return self.client_vanishes(number, self.clients[number as usize].session_number);
        }
        let call = if may_be_hit { None } else { self.next_signal(number) };
        let client = &mut self.clients[number as usize];
        if client
            .next_flight(&self.topology, call.map(|(call, _)| call), may_be_hit)
            .is_none()
        {
            client.phase = Phase::Gone;
            let mut bytes = Vec::new();
            pgweir_wire::Writer::new(&mut bytes).terminate();
            self.peer_sends(key, &bytes);
            return;
        }
        client.asked_us = self.now_us;
        let flight = client.flights_sent;
        if let Some((call, of)) = call {
            self.signals(number, call, of);
        }
        if !may_be_hit {
            self.clients[number as usize].given_back = 0;
        }
        let latency = self.latency_us_max();
        let client = &mut self.clients[number as usize];
        if client.may_cancel() && client.random.below(100) < self.topology.cancel_percent {
            // Some cancel at once, some while a slow statement runs.
            let late_us = if client.random.percent(50) {
                latency * 4
            } else {
                latency * 20 + 100_000
            };
            let at = self.now_us + client.random.below(late_us);
            self.schedule(at, Event::ClientCancels(number, flight));
        }
        let client = &mut self.clients[number as usize];
        // Statements behind a cancelled SET would run without it.
        let often = if client.sets_and_sleeps() { 5 } else { 1 };
        let vanishes = client.random.below(100) < often * self.topology.vanish_percent;
        if vanishes && self.now_us < self.topology.calm_at_us {
            let at = self.now_us + client.random.below(latency * 20 + 1000);
            let session = client.session_number;
            self.schedule(at, Event::ClientVanishes(number, session));
        }
        self.client_next_stage(number);
    }

    pub(super) fn has_cancels_under_way(&self, number: u64) -> bool {
        self.connections.values().any(|c| c.peer == Peer::Canceller(number))
    }

    /// Sends the next stage, whole or in two pieces.
    pub(super) fn client_next_stage(&mut self, number: u64) {
        let latency = self.latency_us_max();
        let client = &mut self.clients[number as usize];
        let bytes = client.next_stage();
        let flight = client.flights_sent;
        self.trace.line(self.now_us, || {
            format!("client {number} sends {}", client.describe_flight())
        });
        if client.random.percent(30) && bytes.len() > 1 {
            let cut = client.random.between(1, bytes.len() as u64 - 1) as usize;
            let late = self.now_us + client.random.between(1, latency * 5);
            self.schedule(late, Event::ClientSends(number, flight, bytes[cut..].to_vec()));
            self.client_sends(number, flight, bytes[..cut].to_vec());
        } else {
            self.client_sends(number, flight, bytes);
        }
    }

    pub(super) fn client_sends(&mut self, number: u64, flight: u64, bytes: Vec<u8>) {
        let client = &mut self.clients[number as usize];
        let (Some(key), Phase::Busy) = (client.connection, client.phase) else {
            return;
        };
        // This flight belongs to the session before, or the client sends rubbish and has no flight.
        if client.flights_sent != flight || client.rubbish {
            return;
        }
        client.sent(&bytes);
        let wish = client.progress(&self.topology);
        self.peer_sends(key, &bytes);
        match wish {
            Ok(wish) => self.grant(number, wish),
            Err(wrong) => self.fail(wrong),
        }
    }

    pub(super) fn client_receives(&mut self, number: u64, key: u64, bytes: &[u8]) {
        let client = &mut self.clients[number as usize];
        if client.connection != Some(key) {
            return;
        }
        let was = client.phase;
        client.waited_us = self.now_us - client.asked_us;
        let received = client.receive(&self.topology, bytes);
        self.has_grown |= was == Phase::LoggingIn;
        match received {
            Ok(wish) => self.grant(number, wish),
            Err(why) => self.fail(why),
        }
    }

    pub(super) fn grant(&mut self, number: u64, wish: Wish) {
        match wish {
            Wish::Nothing => {}
            Wish::NextStage => self.client_next_stage(number),
            Wish::Leave => self.client_vanishes(number, self.clients[number as usize].session_number),
            Wish::Think => {
                self.signal_is_answered(number);
                let latency = self.latency_us_max();
                let client = &mut self.clients[number as usize];
                // Readers crowd, so that they wait for servers.
                let thinks = if self.topology.reader_percent > 0 { 1 } else { 10 };
                let at = self.now_us + client.random.below(latency * thinks + 100);
                let flight = client.flights_sent;
                // A client must not cancel internal queries.
                if client.random.below(100) < self.topology.cancel_percent {
                    let early = self.now_us + client.random.below(latency * 4 + 100);
                    self.schedule(early, Event::ClientCancels(number, flight));
                }
                self.schedule(at, Event::ClientActs(number));
            }
        }
    }

    /// Closes its socket, whatever it was doing. Its last bytes may be cut anywhere.
    pub(super) fn client_vanishes(&mut self, number: u64, session: u64) {
        let client = &mut self.clients[number as usize];
        if client.session_number != session {
            return;
        }
        let Some(key) = client.connection.take() else { return };
        self.trace.line(self.now_us, || format!("client {number} vanishes"));
        match client.retire(&self.topology) {
            Ok(retired) => self.retired.extend(retired.map(|r| (session, r))),
            Err(why) => self.fail(why),
        }
        let client = &mut self.clients[number as usize];
        let was_busy = client.phase == Phase::Busy;
        client.phase = Phase::Offline;
        if let Some(connection) = self.connections.get_mut(&key) {
            let keeps = self.random.below(connection.inbox.len() as u64 + 1) as usize;
            let lost = connection.inbox.len() - keeps;
            connection.inbox.truncate(keeps);
            connection.peer_closed = true;
            if was_busy {
                self.incomplete
                    .extend(client.incomplete(lost).map(|bytes| (session, bytes)));
            }
        }
        self.read_later(key);
        self.reconnect_later(number);
    }

    pub(super) fn client_cancels(&mut self, number: u64, flight: u64) {
        let client = &mut self.clients[number as usize];
        if client.flights_sent != flight || !client.may_cancel() {
            return;
        }
        let Some(cancel_key) = client.key.clone() else { return };
        client.cancelling();
        self.trace.line(self.now_us, || format!("client {number} cancels"));
        let (_, key) = self.accept(9_999, Peer::Canceller(number));
        self.settle();
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, &cancel_key);
        self.peer_sends(key, &packet);
    }
}
