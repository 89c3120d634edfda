//! Closing a connection so that the other side can still read the last message.
//!
//! If a TCP socket is closed with unread input, the kernel sends a reset, and the client may lose the error message
//! that explains the end. So after a last message to a client, only the sending side is closed. Further input is read
//! and thrown away until the client closes its side, up to a limit of time and bytes.

use crate::connection::{Connection, Facts};
use crate::event_loop::EventLoop;
use crate::pending::Pending;
use crate::relayed::ask_for_reset;
use crate::timers::Timer;
use crate::token::Subject;
use crate::transport::{Received, Sent, Transport};
use mio::Interest;
use mio::unix::SourceFd;
use pgweir_core::ids::Slot;
use pgweir_core::{ConnectionId, ServerId};

/// The most input that is thrown away before the connection is closed, bytes.
pub(crate) const DISCARDED_BYTES_MAX: usize = 1024 * 1024;

/// The most connections that stay open in this way at a time. One more is closed at once, so that many refused clients
/// do not use up descriptors.
const LINGERING_MAX: usize = 64;

/// The most bytes that one read takes from a connection whose input is thrown away.
const DISCARD_AT_ONCE_BYTES: usize = 4096;

/// A connection that the core has closed.
#[derive(Debug)]
pub(crate) struct Closing {
    transport: Transport,
    pending: Pending,
    discarded_bytes: usize,
}

/// Whether a closing connection still needs its socket.
enum Progress {
    Waits,
    Done,
}

impl Closing {
    pub(crate) fn new(transport: Transport, pending: Pending) -> Self {
        Closing {
            transport,
            pending,
            discarded_bytes: 0,
        }
    }

    /// Sends the waiting output, then throws away input.
    fn step(&mut self) -> Progress {
        while !self.pending.is_empty() {
            let waiting = self.pending.waiting();
            let asked = waiting.len();
            match self.transport.send(waiting) {
                Sent::Bytes(count) => {
                    self.pending.advance(count);
                    if count < asked {
                        return Progress::Waits;
                    }
                }
                Sent::Failed => return Progress::Done,
            }
            if self.pending.is_empty() {
                self.transport.finish_sending();
            }
        }
        let mut thrown_away = [0; DISCARD_AT_ONCE_BYTES];
        while self.discarded_bytes < DISCARDED_BYTES_MAX {
            match self.transport.receive(&mut thrown_away) {
                Received::Bytes(count) => self.discarded_bytes += count,
                Received::WouldBlock => return Progress::Waits,
                Received::Closed => return Progress::Done,
            }
        }
        Progress::Done
    }
}

impl EventLoop {
    /// The core has closed a connection. Its id is invalid from now on.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let ConnectionId::Server(server) = id {
            self.connecting.remove(&server);
        }
        let Some(connection) = self.connections.remove(id) else {
            return;
        };
        let Connection {
            mut transport,
            mut pending,
            facts,
            tls,
            ..
        } = connection;
        if facts.has(Facts::WRITE_FAILED) || facts.has(Facts::HUNG_UP) {
            return;
        }
        if let Some(mut tls) = tls {
            // If the alert that ends TLS is missing, OpenSSL takes the end of the connection for an attack.
            let mut end = Vec::new();
            tls.close(&mut end);
            if pending.is_empty() && !facts.has(Facts::SPOKE_LAST) {
                let _ = transport.send(&end);
            } else {
                pending.push(&end);
            }
        }
        match id {
            // A server needs no error message.
            ConnectionId::Server(_) => {
                if !pending.is_empty() {
                    let _ = transport.send(pending.waiting());
                }
            }
            ConnectionId::Client(_) if pending.is_empty() && !facts.has(Facts::SPOKE_LAST) => {}
            ConnectionId::Client(_) if self.closing.iter().count() >= LINGERING_MAX => {
                if !pending.is_empty() {
                    let _ = transport.send(pending.waiting());
                }
            }
            ConnectionId::Client(_) => {
                if pending.is_empty() {
                    transport.finish_sending();
                }
                self.linger(Closing::new(transport, pending));
            }
        }
    }

    /// The core has given up a server connection. The server must not run what it has not read yet.
    pub(crate) fn abort(&mut self, id: ServerId) {
        self.connecting.remove(&id);
        let Some(mut connection) = self.connections.remove(id.into()) else {
            return;
        };
        if connection.facts.has(Facts::RELAYED) {
            ask_for_reset(&mut connection.transport);
            self.delay_cancel(id, connection.transport);
        } else {
            connection.transport.reset();
        }
    }

    /// A connection stays open until its last output is sent and read. Its socket is registered.
    pub(crate) fn linger(&mut self, closing: Closing) {
        let fd = closing.transport.fd();
        let slot = self.closing.insert(closing);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Subject::Closing(slot).token();
        // A new registration reports the events that are already there, so no edge is lost.
        match self.poll.registry().reregister(&mut SourceFd(&fd), token, interest) {
            Ok(()) => self.timers.set(self.now, Timer::Closing(slot)),
            Err(_) => drop(self.closing.remove(slot)),
        }
    }

    /// Whether a closed connection still has output to send.
    pub(crate) fn has_output_on_its_way(&self) -> bool {
        self.closing.iter().any(|closing| !closing.pending.is_empty())
    }

    pub(crate) fn handle_closing_event(&mut self, slot: Slot) {
        if let Some(closing) = self.closing.get(slot)
            && let Progress::Done = closing.step()
        {
            self.closing.remove(slot);
        }
    }
}
