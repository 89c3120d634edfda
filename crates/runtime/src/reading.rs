//! Reading connections: what is received goes to the core, and what the core does not consume is kept.

use crate::connection::{AfterRead, Connection, Facts, Input};
use crate::event_loop::EventLoop;
use pgweir_core::channels::UNHEARD_BYTES_MAX;
use pgweir_core::{ClientId, ConnectionId, Pooler};

/// The most bytes of one read. The buffer belongs to the loop, not to a connection, so it can be large and still fit
/// into the processor's cache.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Full reads from one connection before other connections get their turn.
const READS_PER_TURN_MAX: usize = 4;

/// Reads of a client's connection before a cancel request takes effect. What one read cannot take was probably sent
/// later than the request.
const READS_BEFORE_CANCEL_MAX: usize = 16;

/// A connection is not read while more than this many bytes wait for the connection that it is linked to.
const PENDING_BYTES_MAX: usize = 256 * 1024;

/// Outcome of [`try_receive`].
pub(crate) enum Attempt {
    Read(Input),
    /// The core does not want bytes of this connection now.
    MayNotRead,
    /// See [`EventLoop::read_with_care`].
    NeedsCare,
}

/// Reads a connection, unless something rare applies. `are_congested`: output waits for some socket.
#[inline(always)]
pub(crate) fn try_receive(
    pooler: &Pooler,
    are_congested: bool,
    connection: &mut Connection,
    id: ConnectionId,
    scratch: &mut [u8],
) -> Attempt {
    if !pooler.may_read(id) {
        return Attempt::MayNotRead;
    }
    if are_congested || connection.facts.has(Facts::TLS) || !connection.kept.is_empty() {
        return Attempt::NeedsCare;
    }
    Attempt::Read(connection.receive(scratch))
}

impl EventLoop {
    /// Reads a connection's input after the first read, but not so much that other connections starve.
    #[inline(always)]
    pub(crate) fn read_on(&mut self, id: ConnectionId, first: AfterRead, scratch: &mut Vec<u8>) {
        let (mut reads, mut after) = (0, first);
        while after == AfterRead::More {
            reads += 1;
            if reads == READS_PER_TURN_MAX {
                self.connections.make_ready(id);
                break;
            }
            after = self.read_once(id, scratch);
        }
        if scratch.len() > READ_BYTES {
            scratch.truncate(READ_BYTES);
            scratch.shrink_to_fit();
        }
    }

    /// Reads what has arrived from a client before the CancelRequest of the connection `by`, also if no event has
    /// reported it yet: after a take-over, a client may not be watched yet, or an earlier process may still carry its
    /// bytes.
    #[cold]
    pub(crate) fn read_before_cancel(&mut self, client: ClientId, by: ClientId) {
        let id = ConnectionId::Client(client);
        if let Some(connection) = self.connections.get(id) {
            connection.facts.set(Facts::READABLE);
            let mut scratch = vec![0; READ_BYTES];
            let mut reads = 0;
            while reads < READS_BEFORE_CANCEL_MAX && self.read_once(id, &mut scratch) == AfterRead::More {
                reads += 1;
            }
        }
        let rest = self.connections.get(id).map(|connection| {
            // A later turn goes on if there is more.
            let reads_on = connection.facts.has(Facts::READABLE);
            let is_all = !reads_on && connection.kept.is_empty() && !connection.facts.has(Facts::RELAYED);
            (reads_on, is_all)
        });
        if rest.is_some_and(|(reads_on, _)| reads_on) {
            self.connections.make_ready(id);
        }
        let is_all = rest.is_none_or(|(_, is_all)| is_all);
        self.pooler.handle_read_before_cancel(self.now, by, is_all);
        self.write_outbox();
    }

    /// One read and the handling of its bytes.
    #[inline(never)]
    fn read_once(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) -> AfterRead {
        let are_congested = self.connections.are_congested();
        let Some(connection) = self.connections.get(id).filter(|c| c.facts.has(Facts::READABLE)) else {
            return AfterRead::Enough;
        };
        let attempt = try_receive(&self.pooler, are_congested, connection, id, scratch);
        self.after_attempt(id, attempt, scratch)
    }

    /// What follows from one read: its bytes are handled.
    #[inline(always)]
    pub(crate) fn after_attempt(&mut self, id: ConnectionId, attempt: Attempt, scratch: &mut Vec<u8>) -> AfterRead {
        let (count, after) = match attempt {
            Attempt::Read(Input::Bytes(count, after)) => (count, after),
            Attempt::Read(Input::Nothing) => return AfterRead::Enough,
            Attempt::Read(Input::Closed) => {
                self.closed(id);
                return AfterRead::Enough;
            }
            Attempt::MayNotRead => return self.look_for_end(id),
            Attempt::NeedsCare => return self.read_with_care(id, scratch),
        };
        let input = &scratch[..count];
        let consumed = self.pass_to_core(id, input);
        self.write_usual_output(input);
        if consumed < count
            && let Some(connection) = self.connections.get(id)
        {
            connection.keep(&input[consumed..]);
        }
        self.do_requests();
        after
    }

    /// Does one read if bytes are kept, if the connection has TLS, or if output waits for a socket.
    #[inline(never)]
    fn read_with_care(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) -> AfterRead {
        if self.is_held_back(id) {
            if let Some(connection) = self.connections.get(id)
                && !connection.facts.has(Facts::IN_HELD_BACK)
            {
                connection.facts.set(Facts::IN_HELD_BACK);
                self.held_back.push(id);
            }
            return self.look_for_end(id);
        }
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        let kept_bytes = connection.kept.len();
        if kept_bytes > 0 {
            let needed = self.pooler.needs_bytes(id);
            if needed > kept_bytes {
                return self.read_more(id, scratch, needed);
            }
            if scratch.len() < kept_bytes + READ_BYTES / 2 {
                scratch.resize(kept_bytes + READ_BYTES, 0);
            }
            scratch[..kept_bytes].copy_from_slice(&connection.kept);
        }
        let Some((count, after)) = self.receive(id, &mut scratch[kept_bytes..]) else {
            return AfterRead::Enough;
        };
        if count > 0 {
            self.take_input(id, &scratch[..kept_bytes + count]);
        }
        after
    }

    /// Receives bytes, or records and the bytes in them. Returns the number of bytes, and whether to read on; `None` if
    /// nothing was received.
    fn receive(&mut self, id: ConnectionId, into: &mut [u8]) -> Option<(usize, AfterRead)> {
        let connection = self.connections.get(id)?;
        if connection.facts.has(Facts::TLS) {
            return self.receive_records(id, into);
        }
        match connection.receive(into) {
            Input::Bytes(count, after) => Some((count, after)),
            Input::Nothing => None,
            Input::Closed => {
                self.closed(id);
                None
            }
        }
    }

    /// Passes kept and received bytes to the core, and keeps what it does not consume.
    fn take_input(&mut self, id: ConnectionId, input: &[u8]) {
        let consumed = self.pass_to_core(id, input);
        self.write_output(input);
        if let Some(connection) = self.connections.get(id) {
            connection.keep(&input[consumed..]);
        }
        self.do_requests();
    }

    /// Reads more of a message that must be complete before the core sees it. The new bytes are added to the kept ones,
    /// and the core gets the message when all of it is there. So a message that comes in small pieces is copied once,
    /// not once for each piece.
    #[cold]
    fn read_more(&mut self, id: ConnectionId, scratch: &mut [u8], needed: usize) -> AfterRead {
        let Some((count, after)) = self.receive(id, &mut scratch[..READ_BYTES]) else {
            return AfterRead::Enough;
        };
        self.keep_more(id, &scratch[..count], needed);
        after
    }

    /// Adds received bytes to the kept ones, and passes them on when all that the core needs is there.
    fn keep_more(&mut self, id: ConnectionId, received: &[u8], needed: usize) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        connection.kept.extend_from_slice(received);
        if connection.kept.len() >= needed {
            self.resume(id);
            self.do_requests();
        }
    }

    #[inline(always)]
    fn pass_to_core(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, input),
        }
    }

    /// The core lets a connection continue: it gets the kept bytes, and is read again if it has input.
    pub(crate) fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let kept = std::mem::take(&mut connection.kept);
        let consumed = self.pass_to_core(id, &kept);
        self.write_output(&kept);
        if let Some(connection) = self.connections.get(id) {
            connection.kept = kept;
            connection.consume_kept(consumed);
            if connection.facts.has(Facts::READABLE) {
                self.connections.make_ready(id);
            }
        }
    }

    /// Back-pressure: whether too much output waits for the linked connection, or for a client itself, whose output the
    /// pooler may have made. A server without a link is always read: while its replies wait, PostgreSQL reads nothing,
    /// and the output for it would wait for ever.
    #[inline]
    fn is_held_back(&mut self, id: ConnectionId) -> bool {
        // If flights of other clients stand behind that of the linked client, these clients wait for their replies.
        let bytes_max = match id {
            ConnectionId::Server(server) if self.pooler.others_stand_behind(server) => UNHEARD_BYTES_MAX,
            _ => PENDING_BYTES_MAX,
        };
        let mut waits_for = |id| self.connections.pending_bytes(id) > bytes_max;
        let is_client = matches!(id, ConnectionId::Client(_));
        is_client && waits_for(id) || self.pooler.linked(id).is_some_and(waits_for)
    }

    /// Finds out whether a connection that may not be read is gone: a client that waits for a server and leaves must
    /// not get one. A client that a server works for is gone when it has closed its side, even if bytes of it are
    /// unread: a Terminate, and with TLS a close_notify. (A request that waits for a server and has a Terminate behind
    /// it runs, as in PostgreSQL.)
    #[inline(never)]
    fn look_for_end(&mut self, id: ConnectionId) -> AfterRead {
        let Some(connection) = self.connections.get(id) else {
            return AfterRead::Enough;
        };
        let facts = connection.facts;
        let is_gone = match id {
            ConnectionId::Client(client) if facts.has(Facts::READ_CLOSED) => {
                facts.has(Facts::HUNG_UP)
                    || facts.has(Facts::WRITE_FAILED)
                    || self.pooler.is_served_unheard(client)
                    || connection.transport.is_at_end()
            }
            ConnectionId::Client(_) => false,
            ConnectionId::Server(_) => facts.has(Facts::WRITE_FAILED),
        };
        if is_gone {
            self.closed(id);
        }
        AfterRead::Enough
    }

    /// Reads a connection for which no event has come, or that may have changed since it was looked up.
    #[inline(never)]
    pub(crate) fn read_again(&mut self, id: ConnectionId, scratch: &mut Vec<u8>) {
        let first = self.read_once(id, scratch);
        self.read_on(id, first, scratch);
    }

    pub(crate) fn read_ready(&mut self, scratch: &mut Vec<u8>) {
        let mut ready = std::mem::take(&mut self.connections.ready);
        for id in ready.drain(..) {
            if let Some(connection) = self.connections.get(id) {
                connection.facts.clear(Facts::IN_READY);
                self.read_again(id, scratch);
            }
        }
        // Connections that became ready in the meantime are in the other vector, and get their turn after the next
        // events.
        if self.connections.ready.is_empty() {
            self.connections.ready = ready;
        }
    }

    /// Reads a held-back connection again if the linked connection has taken the output, or if the two are no longer
    /// linked. Links may change in any step of the core, so all held-back connections are looked at.
    pub(crate) fn release_held_back(&mut self) {
        let mut i = 0;
        while i < self.held_back.len() {
            let id = self.held_back[i];
            if self.connections.get(id).is_some() && self.is_held_back(id) {
                i += 1;
                continue;
            }
            self.held_back.swap_remove(i);
            if let Some(connection) = self.connections.get(id) {
                connection.facts.clear(Facts::IN_HELD_BACK);
                self.connections.make_ready(id);
            }
        }
    }
}
