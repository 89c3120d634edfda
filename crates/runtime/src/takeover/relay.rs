//! TLS connections of a process that was replaced: it keeps their keys, and carries their bytes between the network and
//! a pair of sockets, whose other end the new process has.

use crate::closing::Closing;
use crate::connection::Connection;
use crate::event_loop::EventLoop;
use crate::inbox::Message;
use crate::pending::Pending;
use crate::reading::READ_BYTES;
use crate::relayed::is_to_be_reset;
use crate::token::Subject;
use crate::transport::{Received, Sent, Transport};
use mio::unix::SourceFd;
use mio::{Events, Interest};
use pgweir_core::ids::Slot;
use pgweir_core::{Command, ConnectionId, LogLevel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The most pieces of one connection before other connections get their turn.
const PIECES_PER_TURN_MAX: usize = 8;

/// The slot of a relay.
pub(crate) type RelayId = Slot;

/// One TLS connection.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The connection to the network, with its TLS and the records that its socket has not taken.
    connection: Connection,
    /// This process's end of the pair.
    plain: Transport,
    /// Plain bytes that the pair has not taken.
    to_plain: Pending,
    network_ended: bool,
    plain_ended: bool,
    is_server: bool,
}

/// What remains to be done for a connection.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// There may be more at once.
    More,
    /// Nothing until the next event.
    Waits,
    /// Nothing any more: it has ended.
    Nothing,
    /// The server must not read more: its connection is reset.
    Reset,
}

/// How a signal ends this process.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// When the other process has closed all connections. Nobody waits until their last output is sent.
    WithClients,
    AtOnce,
}

/// Sends the waiting bytes. False if the socket is broken.
fn flush(pending: &mut Pending, transport: &mut Transport) -> bool {
    while !pending.is_empty() {
        let waiting = pending.waiting();
        let asked = waiting.len();
        match transport.send(waiting) {
            Sent::Bytes(count) => {
                pending.advance(count);
                if count < asked {
                    break;
                }
            }
            Sent::Failed => return false,
        }
    }
    true
}

/// Whether the other end of a pair has been closed, also if bytes from before are still unread.
fn is_closed_behind(plain: &Transport) -> bool {
    let mut watched = [PollFd::new(plain.socket(), PollFlags::RDHUP)];
    let is_found = poll(&mut watched, Some(&Timespec::default())).is_ok_and(|count| count > 0);
    is_found
        && watched[0]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}

impl Relay {
    pub(crate) fn new(id: ConnectionId, connection: Connection, plain: OwnedFd) -> Self {
        Relay {
            connection,
            plain: Transport::new(plain),
            to_plain: Pending::default(),
            network_ended: false,
            plain_ended: false,
            is_server: matches!(id, ConnectionId::Server(_)),
        }
    }

    /// Carries the bytes that have arrived.
    fn carry(&mut self, records: &mut [u8], into: &mut [u8]) -> Left {
        // This is checked even while the network takes nothing: the bytes that wait for the network must not be sent
        // any more.
        if self.is_to_be_reset() {
            return Left::Reset;
        }
        for _ in 0..PIECES_PER_TURN_MAX {
            // Waiting bytes go first. While there are any nothing is read, and no event would report the unread bytes
            // again.
            if !self.flush() {
                return Left::Nothing;
            }
            let moved = self.carry_in(records, into) | self.carry_out(into);
            if self.plain_ended && self.is_to_be_reset() {
                return Left::Reset;
            }
            if !self.flush() || self.plain_ended {
                return Left::Nothing;
            }
            if !moved {
                return Left::Waits;
            }
        }
        Left::More
    }

    /// Whether the new process has given up this server connection.
    fn is_to_be_reset(&self) -> bool {
        self.is_server && is_to_be_reset(&self.plain)
    }

    /// Sends the waiting bytes of both sides. False if the connection to the network is broken. A broken pair may still
    /// hold last bytes for the network.
    fn flush(&mut self) -> bool {
        let network_ok = flush(&mut self.connection.pending, &mut self.connection.transport);
        if !flush(&mut self.to_plain, &mut self.plain) {
            self.to_plain.discard();
            self.network_ended = true;
        }
        if self.network_ended && self.to_plain.is_empty() {
            self.plain.finish_sending();
        }
        network_ok
    }

    /// From the network to the pair. While the pair is full, nothing is read.
    fn carry_in(&mut self, records: &mut [u8], into: &mut [u8]) -> bool {
        let Some(tls) = &mut self.connection.tls else {
            return false;
        };
        if self.network_ended || !self.to_plain.is_empty() {
            return false;
        }
        let mut out = Vec::new();
        let progress = tls.receive(&mut self.connection.transport, records, into, &mut out);
        self.connection.pending.push(&out);
        self.to_plain.push(&into[..progress.bytes]);
        self.network_ended |= progress.end.is_some();
        progress.bytes > 0 || progress.more && !progress.is_blocked
    }

    /// From the pair to the network. While the network is full, nothing is read, unless the new process has closed its
    /// end: what is still in the pair, which is bounded, then becomes the last output.
    fn carry_out(&mut self, into: &mut [u8]) -> bool {
        let Some(tls) = &mut self.connection.tls else {
            return false;
        };
        if self.plain_ended || !self.connection.pending.is_empty() && !is_closed_behind(&self.plain) {
            return false;
        }
        let mut sealed = Vec::new();
        match self.plain.receive(into) {
            Received::Bytes(count) => {
                if tls.seal(&into[..count], &mut sealed).is_err() {
                    self.plain_ended = true;
                }
            }
            Received::WouldBlock => return false,
            Received::Closed => {
                self.plain_ended = true;
                tls.close(&mut sealed);
            }
        }
        self.connection.pending.push(&sealed);
        true
    }
}

impl EventLoop {
    pub(crate) fn add_relay(&mut self, relay: Relay) {
        let (network, plain) = (relay.connection.transport.fd(), relay.plain.fd());
        let slot = self.relays.insert(relay);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Subject::Relay(slot).token();
        let registry = self.poll.registry();
        let watched = registry
            .reregister(&mut SourceFd(&network), token, interest)
            .and_then(|()| registry.register(&mut SourceFd(&plain), token, interest));
        if let Err(e) = watched {
            self.log.write(
                LogLevel::Error,
                &format!("could not watch a TLS connection's sockets: {e}"),
            );
            self.relays.remove(slot);
        }
    }

    /// Carries the bytes of TLS connections until they end, and sends the last output of closed ones.
    pub(crate) fn run_relays(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        self.records.resize(READ_BYTES, 0);
        let mut into = vec![0; READ_BYTES];
        let mut ready: Vec<RelayId> = self.relays.ids();
        let mut lingers = true;
        loop {
            for slot in std::mem::take(&mut ready) {
                if self.relay(slot, &mut into) {
                    ready.push(slot);
                }
            }
            if self.relays.iter().next().is_none() && (!lingers || self.closing.iter().next().is_none()) {
                return Ok(());
            }
            let timers = self.timers.next().map(|at| at.since(self.now));
            let wait = if ready.is_empty() { timers } else { Some(Duration::ZERO) };
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.look_at_clock();
            for event in &events {
                match Subject::of(event.token()) {
                    Subject::Relay(slot) => ready.push(slot),
                    Subject::Closing(slot) => self.handle_closing_event(slot),
                    Subject::Inbox => match self.told_to_end() {
                        Some(Ending::AtOnce) => return Ok(()),
                        Some(Ending::WithClients) => lingers = false,
                        None => {}
                    },
                    // The other process handles everything else.
                    _ => {}
                }
            }
            self.run_closing_timers();
        }
    }

    /// The end that a signal has asked for. Other signals are ignored.
    fn told_to_end(&mut self) -> Option<Ending> {
        let log = &mut self.log;
        let endings = self.inbox.try_iter().filter_map(|message| match message {
            Message::TlsPanic(text) => {
                log.write(LogLevel::Error, &text);
                None
            }
            Message::Command(Command::ShutdownImmediate) => Some(Ending::AtOnce),
            Message::Command(Command::ShutdownWaitForClients | Command::ShutdownWaitForServers) => {
                Some(Ending::WithClients)
            }
            _ => None,
        });
        endings.max()
    }

    /// Whether there may be more to carry at once.
    fn relay(&mut self, slot: RelayId, into: &mut [u8]) -> bool {
        let Some(relay) = self.relays.get(slot) else {
            return false;
        };
        match relay.carry(&mut self.records, into) {
            Left::More => true,
            Left::Waits => false,
            Left::Nothing => {
                if let Some(relay) = self.relays.remove(slot) {
                    let Connection { transport, pending, .. } = relay.connection;
                    self.linger(Closing::new(transport, pending));
                }
                false
            }
            Left::Reset => {
                if let Some(mut relay) = self.relays.remove(slot) {
                    relay.connection.transport.reset();
                    // The end of the pair tells the new process that the reset has been sent.
                    drop(relay.connection);
                    drop(relay.plain);
                }
                false
            }
        }
    }
}
