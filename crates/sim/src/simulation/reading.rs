//! Reading connections, as the runtime does. What the core looks at again and again counts: a message that comes a byte
//! at a time must not cost work that grows with the square of its length.

use super::canary::Canary;
use super::network::move_front;
use super::world::{Event, World};
use pgweir_core::{ClientId, ConnectionId};

/// How often, on the average, the core may be given a byte in vain.
const VAIN_TIMES_MAX: usize = 4;

/// What is shorter does not count.
const VAIN_BYTES_LEAST: usize = 1000;

/// How many more bytes it may be given in vain: a startup packet or a login message that comes a byte at a time.
const VAIN_BYTES_MAX: usize = 20_000;

impl World {
    /// Reads a connection once, as the runtime does.
    pub(super) fn read(&mut self, key: u64) {
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
            self.holds_back = true;
            return;
        }
        let count = self.chunk_bytes();
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let count = count.min(connection.inbox.len());
        let mut input = std::mem::take(&mut connection.kept);
        move_front(&mut connection.inbox, count, &mut input);
        connection.read_bytes += count;
        let passes = input.len() >= self.pooler.needs_bytes(id);
        if passes {
            let consumed = self.pass_to_core(id, &input);
            input.drain(..consumed);
            if consumed == 0 {
                self.count_vain(key, input.len());
            }
        }
        let forgets = !input.is_empty() && self.sings(Canary::ForgetKept);
        if let Some(connection) = self.connections.get_mut(&key)
            && !forgets
        {
            connection.kept = input;
        }
        self.do_requests();
        self.read_later(key);
    }

    /// The core was given bytes and has handled none of them.
    fn count_vain(&mut self, key: u64, bytes: usize) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        // Servers do not send their messages a byte at a time. A client that may not be read waits for something else, and
        // its bytes come again once that has happened.
        let is_client = matches!(connection.id, ConnectionId::Client(_));
        if !is_client || bytes < VAIN_BYTES_LEAST || !self.pooler.may_read(connection.id) {
            return;
        }
        connection.vain_bytes += bytes;
        let (id, read, vain) = (connection.id, connection.read_bytes, connection.vain_bytes);
        if vain > VAIN_TIMES_MAX * read + VAIN_BYTES_MAX {
            self.fail(format!(
                "{id:?}: the core was given {vain} bytes in vain, of {read} that were read"
            ));
        }
    }

    /// Reads all that has arrived from a client, and tells the core.
    pub(super) fn read_before_cancel(&mut self, client: ClientId, by: ClientId) {
        let key = self.by_id.get(&client.into()).copied();
        let has_input = |world: &World, key: u64| {
            let connection = world.connections.get(&key);
            connection.is_some_and(|c| !c.inbox.is_empty() && !c.closing && !c.held_back)
        };
        while let Some(key) = key.filter(|key| has_input(self, *key) && self.pooler.may_read(client.into())) {
            self.read(key);
        }
        self.pooler.handle_read_before_cancel(self.now(), by, true);
        self.write_outbox(&[]);
    }

    pub(super) fn read_later(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if !connection.to_pooler && (!connection.inbox.is_empty() || connection.peer_closed) {
            connection.to_pooler = true;
            self.soon(Event::ToPooler(key));
        }
    }

    pub(super) fn is_held_back(&self, id: ConnectionId) -> bool {
        let behind = self.pooler.linked(id).unwrap_or(id);
        let pending = self
            .by_id
            .get(&behind)
            .and_then(|key| self.connections.get(key))
            .map_or(0, |c| c.pending.len());
        pending > self.topology.held_back_bytes
    }

    pub(super) fn release_held_back(&mut self) {
        if !std::mem::take(&mut self.holds_back) {
            return;
        }
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
}
