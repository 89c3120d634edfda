//! All open connections, and writing to them. This module does not know the pooler: the bytes to write come as an
//! outbox.

mod watching;

use crate::connection::{Connection, Facts};
use crate::handshakes::Handshakes;
use crate::relayed::RelayedPeers;
use crate::sends::Sends;
use crate::slab::Places;
use crate::tls::TlsSession;
use crate::token::Subject;
use crate::transport::Sent;
use mio::Registry;
use pgweir_core::channels::UNHEARD_BYTES_MAX;
use pgweir_core::{ClientId, ConnectionId, Outbox, Part};
use std::io::IoSlice;

/// Several parts for one connection are copied together and sent flat, up to this many bytes: below that, the copy
/// costs less than a gathering system call.
const FLAT_BYTES_MAX: usize = 16 * 1024;

/// A buffer for records that a burst has grown beyond this is given back, bytes.
const SEALED_BYTES_KEPT_MAX: usize = 256 * 1024;

/// Slices of one gathering send.
const SLICES_MAX: usize = 64;

/// In outboxes of at most this many parts, the parts of one destination are searched; a copy of longer ones is sorted.
const SEARCHED_PARTS_MAX: usize = 64;

/// Open connections, their registration with the event loop, and the list of those to be read.
#[derive(Debug)]
pub(crate) struct Connections {
    clients: Places,
    servers: Places,
    registry: Registry,
    flat: Vec<u8>,
    /// Output of this turn.
    pub(crate) sends: Sends,
    /// Records of TLS on their way to a socket.
    sealed: Vec<u8>,
    /// Connections to read although no event will come for them.
    pub(crate) ready: Vec<ConnectionId>,
    /// TLS handshakes that wait for their turn.
    pub(crate) handshakes: Handshakes,
    /// The number of connections with output that their socket has not taken.
    congested: usize,
    /// The other sides of connections with [`Facts::RELAYED`].
    pub(crate) relayed: RelayedPeers,
    /// Clients that have more output waiting than the core allows for a client that only listens.
    pub(crate) behind: Vec<ClientId>,
}

impl Connections {
    pub(crate) fn new(registry: Registry) -> Self {
        Connections {
            clients: Places::default(),
            servers: Places::default(),
            registry,
            flat: Vec::with_capacity(FLAT_BYTES_MAX),
            sends: Sends::default(),
            sealed: Vec::new(),
            ready: Vec::new(),
            handshakes: Handshakes::default(),
            congested: 0,
            relayed: RelayedPeers::default(),
            behind: Vec::new(),
        }
    }

    /// The connection of this id; `None` if the id is no longer valid.
    #[inline]
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        connection(&mut self.clients, &mut self.servers, id)
    }

    /// Adds a connection whose socket is already registered.
    pub(crate) fn insert(&mut self, id: ConnectionId, connection: Connection) {
        self.congested += usize::from(!connection.pending.is_empty());
        match id {
            ConnectionId::Client(client) => self.clients.insert(client.0, connection),
            ConnectionId::Server(server) => self.servers.insert(server.0, connection),
        }
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.send_queued_of(id);
        let connection = match id {
            ConnectionId::Client(client) => self.clients.remove(client.0),
            ConnectionId::Server(server) => self.servers.remove(server.0),
        };
        self.congested -= usize::from(connection.as_ref().is_some_and(|c| !c.pending.is_empty()));
        if connection.as_ref().is_some_and(|c| c.facts.has(Facts::RELAYED)) {
            self.relayed.remove(&id);
        }
        if let Some(tls) = connection.as_ref().and_then(|c| c.tls.as_ref()) {
            self.handshakes.leave(Subject::Connection(id), tls.turn);
        }
        connection
    }

    /// Whether output waits for some socket.
    #[inline]
    pub(crate) fn are_congested(&self) -> bool {
        self.congested > 0
    }

    /// `id` will be read at the end of this turn of the event loop.
    pub(crate) fn make_ready(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get(id)
            && !connection.facts.has(Facts::IN_READY)
        {
            connection.facts.set(Facts::IN_READY);
            self.ready.push(id);
        }
    }

    /// The number of bytes that wait for the socket of `id`.
    #[inline]
    pub(crate) fn pending_bytes(&mut self, id: ConnectionId) -> usize {
        self.get(id).map_or(0, |c| c.pending.len())
    }

    /// Writes everything in `outbox`. Bytes that a socket does not take now wait in the buffer of its connection.
    #[inline(always)]
    pub(crate) fn write(&mut self, outbox: &Outbox, input: &[u8]) {
        match outbox.parts() {
            [] => {}
            [part] => self.write_bytes(part.to, outbox.bytes(part, input)),
            parts => self.write_several(parts, outbox, input),
        }
    }

    #[inline(never)]
    fn write_several(&mut self, parts: &[Part], outbox: &Outbox, input: &[u8]) {
        match parts {
            // The messages of one client, one of them rewritten, go to its server.
            [one, two] if one.to == two.to && one.range().len() + two.range().len() <= FLAT_BYTES_MAX => {
                let mut flat = std::mem::take(&mut self.flat);
                flat.clear();
                flat.extend_from_slice(outbox.bytes(one, input));
                flat.extend_from_slice(outbox.bytes(two, input));
                self.write_bytes(one.to, &flat);
                self.flat = flat;
            }
            _ => self.write_many(parts, outbox, input),
        }
    }

    fn write_many(&mut self, parts: &[Part], outbox: &Outbox, input: &[u8]) {
        if parts.len() > SEARCHED_PARTS_MAX {
            for of_one in by_destination(parts).chunk_by(|a, b| a.to == b.to) {
                self.write_parts(of_one[0].to, of_one.iter(), outbox, input);
            }
            return;
        }
        for (i, part) in parts.iter().enumerate() {
            if parts[..i].iter().all(|earlier| earlier.to != part.to) {
                let same = parts[i..].iter().filter(|p| p.to == part.to);
                self.write_parts(part.to, same, outbox, input);
            }
        }
    }

    /// One write for all parts of one destination.
    fn write_parts<'a>(
        &mut self,
        to: ConnectionId,
        parts: impl Iterator<Item = &'a Part> + Clone,
        outbox: &Outbox,
        input: &[u8],
    ) {
        let total: usize = parts.clone().map(|p| p.range().len()).sum();
        if total <= FLAT_BYTES_MAX {
            let mut flat = std::mem::take(&mut self.flat);
            flat.clear();
            parts.for_each(|p| flat.extend_from_slice(outbox.bytes(p, input)));
            self.write_bytes(to, &flat);
            self.flat = flat;
            return;
        }
        let mut parts = parts.peekable();
        while parts.peek().is_some() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut filled = 0;
            for (slice, part) in slices.iter_mut().zip(parts.by_ref()) {
                *slice = IoSlice::new(outbox.bytes(part, input));
                filled += 1;
                if filled == SLICES_MAX {
                    break;
                }
            }
            self.write_slices(to, &slices[..filled]);
        }
    }

    #[inline(always)]
    fn write_bytes(&mut self, to: ConnectionId, bytes: &[u8]) {
        let Some(connection) = connection(&mut self.clients, &mut self.servers, to) else {
            return;
        };
        connection.facts.set(Facts::SPOKE_LAST);
        if connection.facts.has(Facts::WRITES_OTHERWISE) {
            return self.write_unusually(to, bytes);
        }
        if !connection.pending.is_empty() {
            return self.write_later(to, bytes);
        }
        if self.sends.takes(bytes.len()) {
            connection.facts.set(Facts::QUEUED);
            if !self.sends.push(to, connection.transport.fd(), bytes) {
                self.send_queued();
            }
            return;
        }
        let sent = connection.transport.send(bytes);
        if sent != Sent::Bytes(bytes.len()) {
            self.sent_in_part(to, bytes, sent);
        }
    }

    /// Sends what waits for the end of the turn, if output for this connection is among it.
    #[inline]
    fn send_queued_of(&mut self, id: ConnectionId) {
        if self
            .get(id)
            .is_some_and(|connection| connection.facts.has(Facts::QUEUED))
        {
            self.send_queued();
        }
    }

    /// Sends what waits for the end of the turn.
    #[inline]
    pub(crate) fn send_queued(&mut self) {
        match self.sends.len() {
            0 => {}
            1 => self.handle_sends(),
            _ => {
                self.sends.carry_out();
                self.handle_sends();
            }
        }
    }

    /// Handles the outcomes of the sends, and does those that have yet to be done.
    fn handle_sends(&mut self) {
        for index in 0..self.sends.len() {
            let sent = self.sends.outcome(index);
            let (to, bytes) = self.sends.get(index);
            let count = bytes.len();
            if let Some(connection) = connection(&mut self.clients, &mut self.servers, to) {
                connection.facts.clear(Facts::QUEUED);
                let sent = sent.unwrap_or_else(|| connection.transport.send(bytes));
                if sent != Sent::Bytes(count) {
                    let bytes = bytes.to_vec();
                    self.sent_in_part(to, &bytes, sent);
                }
            }
        }
        self.sends.clear();
    }

    /// Writes to a connection with [`Facts::WRITES_OTHERWISE`].
    #[cold]
    fn write_unusually(&mut self, to: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.get(to) else { return };
        if connection.facts.has(Facts::QUEUED) {
            self.send_queued();
            return self.write_bytes(to, bytes);
        }
        self.write_otherwise(to, &[IoSlice::new(bytes)]);
    }

    /// Writes bytes of the socket: plain messages, or records of TLS.
    pub(crate) fn write_to_socket(&mut self, to: ConnectionId, bytes: &[u8]) {
        self.send_queued_of(to);
        let Some(connection) = self.get(to) else { return };
        if !connection.pending.is_empty() {
            return self.write_later(to, bytes);
        }
        let sent = connection.transport.send(bytes);
        self.sent_in_part(to, bytes, sent);
    }

    /// Keeps bytes for later, because bytes before them still wait for the socket.
    #[cold]
    fn write_later(&mut self, to: ConnectionId, bytes: &[u8]) {
        if let Some(connection) = self.get(to) {
            connection.pending.push(bytes);
            self.look_how_far_behind(to);
        }
    }

    /// Keeps the bytes that a socket has not taken.
    #[cold]
    fn sent_in_part(&mut self, to: ConnectionId, bytes: &[u8], sent: Sent) {
        let Some(connection) = self.get(to) else { return };
        match sent {
            Sent::Bytes(count) if count == bytes.len() => {}
            Sent::Bytes(count) => {
                connection.pending.push(&bytes[count..]);
                self.congested += 1;
                self.watch_room(to);
            }
            Sent::Failed => self.write_failed(to),
        }
    }

    fn write_slices(&mut self, to: ConnectionId, slices: &[IoSlice<'_>]) {
        self.send_queued_of(to);
        let Some(connection) = self.get(to) else { return };
        connection.facts.set(Facts::SPOKE_LAST);
        if connection.facts.has(Facts::WRITES_OTHERWISE) {
            return self.write_otherwise(to, slices);
        }
        let mut taken = 0;
        let was_congested = !connection.pending.is_empty();
        if !was_congested {
            match connection.transport.send_slices(slices) {
                Sent::Bytes(count) => taken = count,
                Sent::Failed => return self.write_failed(to),
            }
        }
        for slice in slices {
            let skip = taken.min(slice.len());
            taken -= skip;
            if skip < slice.len() {
                connection.pending.push(&slice[skip..]);
            }
        }
        if !connection.pending.is_empty() {
            self.congested += usize::from(!was_congested);
            self.watch_room(to);
            self.look_how_far_behind(to);
        }
    }

    /// Writes to a connection that is secured by TLS. If the connection has failed, or its handshake is not over,
    /// nothing is written.
    #[cold]
    fn write_otherwise(&mut self, to: ConnectionId, slices: &[IoSlice<'_>]) {
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.clear();
        let Some(connection) = self.get(to) else { return };
        if !connection.facts.has(Facts::WRITE_FAILED)
            && let Some(tls) = &mut connection.tls
        {
            let is_sealed = slices.iter().try_for_each(|slice| tls.seal(slice, &mut sealed));
            if is_sealed.is_ok() {
                self.write_to_socket(to, &sealed);
            } else if tls.is_secured() {
                self.write_failed(to);
            }
        }
        if sealed.capacity() <= SEALED_BYTES_KEPT_MAX {
            self.sealed = sealed;
        }
    }

    /// Writes records that TLS itself has made.
    pub(crate) fn write_records(&mut self, to: ConnectionId, records: &[u8]) {
        let may_write = |connection: &mut Connection| !connection.facts.has(Facts::WRITE_FAILED);
        if !records.is_empty() && self.get(to).is_some_and(may_write) {
            self.write_to_socket(to, records);
        }
    }

    /// The next bytes that the connection receives are records of TLS, and so is what is written to it.
    pub(crate) fn secure(&mut self, id: ConnectionId, tls: TlsSession) {
        if let Some(connection) = self.get(id) {
            connection.tls = Some(Box::new(tls));
            connection.facts.set(Facts::TLS);
            connection.facts.set(Facts::READABLE);
            self.make_ready(id);
        }
    }

    /// Whether `id` may be read. During its handshake it may be read only in its turn; if that has not come, this call
    /// puts it into the queue.
    pub(crate) fn has_turn(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = connection(&mut self.clients, &mut self.servers, id) else {
            return true;
        };
        let Some(tls) = connection.tls.as_mut().filter(|tls| !tls.is_secured()) else {
            return true;
        };
        let subject = Subject::Connection(id);
        self.handshakes.may_step(subject, &mut tls.turn, &connection.transport)
    }

    /// Adds a client that does not read its output to [`Connections::behind`].
    fn look_how_far_behind(&mut self, id: ConnectionId) {
        if let ConnectionId::Client(client) = id
            && self.pending_bytes(id) > UNHEARD_BYTES_MAX
        {
            self.behind.push(client);
        }
    }

    /// Sends the waiting output of `id`. Called when its socket has room.
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        self.send_queued_of(id);
        let Some(connection) = self.get(id) else { return };
        let was_congested = !connection.pending.is_empty();
        while !connection.pending.is_empty() {
            let waiting = connection.pending.waiting();
            let asked = waiting.len();
            match connection.transport.send(waiting) {
                Sent::Bytes(count) => {
                    connection.pending.advance(count);
                    if count < asked {
                        return;
                    }
                }
                Sent::Failed => return self.write_failed(id),
            }
        }
        self.congested -= usize::from(was_congested);
        self.unwatch_room(id);
    }

    /// Sends once to every socket as much as it takes, because the process is about to end.
    pub(crate) fn flush_all(&mut self) {
        self.send_queued();
        for connection in self.clients.iter_mut().chain(self.servers.iter_mut()) {
            if !connection.pending.is_empty()
                && let Sent::Bytes(count) = connection.transport.send(connection.pending.waiting())
            {
                connection.pending.advance(count);
                self.congested -= usize::from(connection.pending.is_empty());
            }
        }
    }

    /// The other side is gone, but its last message (a server's FATAL) may still be there to read.
    fn write_failed(&mut self, id: ConnectionId) {
        let Some(connection) = self.get(id) else { return };
        let was_congested = !connection.pending.is_empty();
        connection.pending.discard();
        connection.facts.set(Facts::WRITE_FAILED);
        connection.facts.set(Facts::READABLE);
        connection.facts.set(Facts::READ_CLOSED);
        self.congested -= usize::from(was_congested);
        self.make_ready(id);
    }
}

/// The connection of this id; `None` if the id is no longer valid.
#[inline]
fn connection<'a>(clients: &'a mut Places, servers: &'a mut Places, id: ConnectionId) -> Option<&'a mut Connection> {
    match id {
        ConnectionId::Client(client) => clients.get(client.0),
        ConnectionId::Server(server) => servers.get(server.0),
    }
}

/// Sorts the parts by destination, and keeps the order of the parts of one destination.
/// Thousands of small messages may go to a client and its server by turns: that must not cost as many system calls.
fn by_destination(parts: &[Part]) -> Vec<Part> {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| part.to);
    sorted
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
