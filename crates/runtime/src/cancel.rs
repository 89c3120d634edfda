//! Sending cancel requests to servers and to peers, each on its own connection.

mod talk;

use crate::connection::Facts;
use crate::event_loop::EventLoop;
use crate::handshakes::Turn;
use crate::relayed::{self, End};
use crate::socket::{self, SocketAddress};
use crate::timers::Timer;
use crate::tls::{TlsContexts, TlsSession};
use crate::token::Subject;
use crate::transport::Transport;
use mio::Interest;
use mio::unix::SourceFd;
use pgweir_core::ids::Slot;
use pgweir_core::{CancelEnd, ClientId, ConnectionId, LogLevel, ServerId};
use pgweir_wire::{CancelKey, StartupPacket};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use talk::{Progress, Stage, Surroundings, Talk};

/// The most rounds of giving up: while requests are given up, the core may send further ones that have waited for them.
const GIVING_UP_ROUNDS_MAX: usize = 64;

/// The receiver of a CancelRequest.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Addressee {
    /// The server of a connection.
    Server(ServerId),
    /// Another process, for the client connection `by`.
    Peer { peer: u32, by: ClientId },
}

/// Whether a CancelRequest uses TLS.
#[derive(Debug, Clone)]
pub(crate) enum Speech {
    Plain,
    /// With TLS. The host is that of the configuration.
    Tls {
        host: String,
        beginning: Beginning,
        /// Those of the connection whose work is cancelled; `None`: the present ones.
        settings: Option<TlsContexts>,
    },
}

/// How TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// By an SSLRequest, which the other side must grant.
    Asks,
    /// By an SSLRequest. If the other side declines it, the request goes without TLS.
    AsksOrPlain,
    /// At once.
    Direct,
}

/// A CancelRequest on its way. PostgreSQL answers nothing and closes the connection when it has sent the signal.
#[derive(Debug)]
pub(crate) struct Cancel {
    pub(crate) addressee: Addressee,
    packet: Vec<u8>,
    speech: Speech,
    /// Addresses to try if the connection cannot be opened.
    others: VecDeque<SocketAddress>,
    /// `None` while there is no socket: the name of the peer is being looked up.
    talk: Option<Talk>,
    /// Another process is about to reset the server's connection, and then closes this. The packet is not sent before.
    after: Option<Transport>,
}

impl Cancel {
    /// A request that is not on its way yet.
    pub(crate) fn new(addressee: Addressee, key: &CancelKey, speech: Speech) -> Cancel {
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, key);
        Cancel {
            addressee,
            packet,
            speech,
            others: VecDeque::new(),
            talk: None,
            after: None,
        }
    }

    fn step(&mut self, with: &mut Surroundings<'_>) -> Progress {
        match &mut self.talk {
            None => Progress::Waits,
            Some(talk) => talk.step(with, &self.packet, &self.speech),
        }
    }

    /// Whether a part of the packet may have reached the server.
    fn was_sent(&self) -> bool {
        let is_sent = |talk: &Talk| matches!(talk.stage, Stage::Sent) && socket::is_connected(talk.transport.socket());
        self.talk.as_ref().is_some_and(is_sent)
    }

    /// The handshake of this request, if one is under way.
    fn session(&mut self) -> Option<&mut TlsSession> {
        match &mut self.talk.as_mut()?.stage {
            Stage::Securing(session) => Some(session),
            Stage::Begins | Stage::AwaitsAnswer | Stage::Sent => None,
        }
    }

    /// Begins to open a connection to the next address for which that succeeds. The error is that of the last address.
    fn begin(&mut self) -> io::Result<()> {
        let mut error = Errno::NOTCONN.into();
        self.talk = None;
        while let Some(address) = self.others.pop_front() {
            match Talk::begin(&address, &self.speech, &self.packet) {
                Ok(talk) => {
                    self.talk = Some(talk);
                    return Ok(());
                }
                Err(e) => error = e,
            }
        }
        Err(error)
    }
}

impl EventLoop {
    /// Sends `key` to the address that `server` is connected to. The core is told once that the request is over,
    /// whether it succeeded or not.
    pub(crate) fn cancel(&mut self, server: ServerId, key: &CancelKey) {
        let Some(connection) = self.connections.get(ConnectionId::Server(server)) else {
            return self.tell_cancel_finished(Addressee::Server(server), CancelEnd::NotSent);
        };
        let secured = |host: &str, settings: Option<TlsContexts>| Speech::Tls {
            host: host.to_owned(),
            beginning: match settings.as_ref().unwrap_or(&self.tls).connects_directly {
                true => Beginning::Direct,
                false => Beginning::Asks,
            },
            settings,
        };
        let (address, speech) = match (&connection.tls, connection.facts.has(Facts::RELAYED)) {
            (_, true) => match self.connections.relayed.get(&ConnectionId::Server(server)) {
                Some(peer) => (Some(SocketAddress::Tcp(peer.address)), secured(&peer.host, None)),
                None => (None, Speech::Plain),
            },
            (tls, false) => {
                let address = SocketAddress::of_peer(connection.transport.socket()).ok();
                let speech = tls.as_ref().map(|tls| secured(tls.host(), tls.settings()));
                (address, speech.unwrap_or(Speech::Plain))
            }
        };
        let slot = self.add_cancel(Cancel::new(Addressee::Server(server), key, speech));
        self.begin_cancel(slot, address.into_iter().collect());
    }

    /// Cancel requests to `server` wait until the other side has closed `connection`.
    pub(crate) fn delay_cancel(&mut self, server: ServerId, connection: Transport) {
        let is_for = |cancel: &Cancel| matches!(cancel.addressee, Addressee::Server(id) if id == server);
        let mut slots = self.cancels.ids().into_iter();
        let Some(slot) = slots.find(|slot| self.cancels.get(*slot).is_some_and(|cancel| is_for(cancel))) else {
            return;
        };
        let fd = connection.fd();
        let token = Subject::Cancel(slot).token();
        // A new registration reports the events that are already there.
        let watched = self
            .poll
            .registry()
            .reregister(&mut SourceFd(&fd), token, Interest::READABLE);
        if let (Some(cancel), Ok(())) = (self.cancels.get(slot), watched) {
            cancel.after = Some(connection);
        }
    }

    /// Adds a request that is to be sent, and sets the timer that ends it.
    pub(crate) fn add_cancel(&mut self, cancel: Cancel) -> Slot {
        let slot = self.cancels.insert(cancel);
        self.timers.set(self.now, Timer::Cancel(slot));
        slot
    }

    /// Sends a request to the first of these addresses to which a connection can be opened.
    pub(crate) fn begin_cancel(&mut self, slot: Slot, addresses: VecDeque<SocketAddress>) {
        if let Some(cancel) = self.cancels.get(slot) {
            cancel.others = addresses;
            self.try_cancel(slot);
        }
    }

    fn try_cancel(&mut self, slot: Slot) {
        let Some(cancel) = self.cancels.get(slot) else { return };
        let outcome = cancel.begin().and_then(|()| {
            let fd = cancel.talk.as_ref().map_or(-1, |talk| talk.transport.fd());
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.registry();
            registry.register(&mut SourceFd(&fd), Subject::Cancel(slot).token(), interest)
        });
        match outcome {
            // The packet is sent when an event says that the connection is open. By then the requests that follow this
            // one have been carried out. If the core resets the server's connection, the reset must come before the
            // cancel. Otherwise the server could go on to what is behind the statement that was cancelled.
            Ok(()) => {}
            Err(e) => {
                self.log_failed_cancel(slot, &e.to_string());
                self.drop_cancel(slot, CancelEnd::Over);
            }
        }
    }

    pub(crate) fn handle_cancel_event(&mut self, slot: Slot) {
        let Some(cancel) = self.cancels.get(slot) else { return };
        if let Some(after) = &mut cancel.after {
            match relayed::end(after) {
                End::Open => return,
                End::Unknown => {
                    // A new registration reports what is still there. The request's timer ends this.
                    let (fd, token) = (after.fd(), Subject::Cancel(slot).token());
                    let registry = self.poll.registry();
                    let _ = registry.reregister(&mut SourceFd(&fd), token, Interest::READABLE);
                    return;
                }
                End::Closed => cancel.after = None,
            }
        }
        let mut surroundings = Surroundings {
            slot,
            tls: &self.tls,
            records: &mut self.records,
            handshakes: &mut self.connections.handshakes,
        };
        match cancel.step(&mut surroundings) {
            Progress::NotOpen if !cancel.others.is_empty() => self.try_cancel(slot),
            Progress::NotOpen => {
                self.log_failed_cancel(slot, "the connection could not be opened");
                self.drop_cancel(slot, CancelEnd::Over);
            }
            Progress::Failed(why) => {
                self.log_failed_cancel(slot, &why);
                self.drop_cancel(slot, CancelEnd::Over);
            }
            Progress::Refused(why) => {
                self.log_failed_cancel(slot, &why);
                self.finish_cancel(slot);
            }
            Progress::Babbles => self.give_up_cancel(slot, "the other side answers without end"),
            Progress::Done => self.finish_cancel(slot),
            Progress::Waits | Progress::Goes => {}
        }
    }

    /// It is the turn of this request's handshake.
    pub(crate) fn shake_hands_for_cancel(&mut self, slot: Slot) {
        if let Some(session) = self.cancels.get(slot).and_then(Cancel::session) {
            session.turn = Turn::Now;
            self.handle_cancel_event(slot);
        }
    }

    /// The time for a request is over.
    pub(crate) fn cancel_timed_out(&mut self, slot: Slot) {
        self.give_up_cancel(slot, "it did not end within 10 seconds");
    }

    /// Ends all requests that are under way, and those that the core sends because of that. Returns whether none is
    /// left.
    pub(crate) fn give_up_cancels(&mut self, why: &str) -> bool {
        for _ in 0..GIVING_UP_ROUNDS_MAX {
            let slots = self.cancels.ids();
            if slots.is_empty() {
                return true;
            }
            for slot in slots {
                self.give_up_cancel(slot, why);
            }
        }
        false
    }

    fn give_up_cancel(&mut self, slot: Slot, why: &str) {
        self.log_failed_cancel(slot, why);
        self.drop_cancel(slot, CancelEnd::NotKnown);
    }

    /// A request has failed. `if_sent`: its end, if the other side has got it.
    fn drop_cancel(&mut self, slot: Slot, if_sent: CancelEnd) {
        let was_sent = self.cancels.get(slot).is_some_and(|cancel| cancel.was_sent());
        self.end_cancel(slot, if was_sent { if_sent } else { CancelEnd::NotSent });
    }

    fn log_failed_cancel(&mut self, slot: Slot, why: &str) {
        if let Some(Cancel { addressee, .. }) = self.cancels.get(slot) {
            let to = match addressee {
                Addressee::Server(server) => server.to_string(),
                Addressee::Peer { peer, .. } => format!("peer {peer}"),
            };
            let text = format!("cancel request to {to} failed: {why}");
            self.log.write(LogLevel::Warning, &text);
        }
    }

    /// The other side has closed the connection.
    pub(crate) fn finish_cancel(&mut self, slot: Slot) {
        self.end_cancel(slot, CancelEnd::Over);
    }

    fn end_cancel(&mut self, slot: Slot, end: CancelEnd) {
        if let Some(mut cancel) = self.cancels.remove(slot) {
            if let Some(session) = cancel.session() {
                self.connections.handshakes.leave(Subject::Cancel(slot), session.turn);
            }
            self.tell_cancel_finished(cancel.addressee, end);
        }
    }

    fn tell_cancel_finished(&mut self, addressee: Addressee, end: CancelEnd) {
        match addressee {
            Addressee::Server(server) => self.pooler.handle_cancel_finished(self.now, server, end),
            Addressee::Peer { peer, by } => self.pooler.handle_passed_on(self.now, peer, by, end),
        }
        self.settle();
    }
}
