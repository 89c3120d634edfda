//! Sending cancel requests to servers and to peers, each on its own connection.

use crate::event_loop::EventLoop;
use crate::handshakes::{Handshakes, Turn};
use crate::reading::READ_BYTES;
use crate::securing::peer_address;
use crate::settings::TcpSettings;
use crate::socket::{self, SocketAddress};
use crate::timers::Timer;
use crate::tls::{TlsContexts, TlsSession};
use crate::token::Subject;
use crate::transport::{Received, Sent, Transport};
use mio::Interest;
use mio::unix::SourceFd;
use pgweir_core::ids::Slot;
use pgweir_core::{CancelEnd, ClientId, ConnectionId, LogLevel, ServerId};
use pgweir_wire::{CancelKey, StartupPacket};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;

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
    /// With TLS. The host is that of the configuration. `or_plain`: without TLS if the other side does not support it.
    Tls {
        host: String,
        or_plain: bool,
    },
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
}

/// The connection of a CancelRequest.
#[derive(Debug)]
struct Talk {
    transport: Transport,
    /// Bytes for the socket.
    out: Vec<u8>,
    stage: Stage,
}

/// The state of a CancelRequest. It uses TLS if the server's connection does.
#[derive(Debug)]
enum Stage {
    /// An SSLRequest has been sent and not been answered.
    AwaitsAnswer,
    /// A handshake is under way.
    Securing(Box<TlsSession>),
    /// The packet has been sent; the other side has not closed the connection.
    Sent,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Waits,
    Goes,
    /// The connection could not be opened.
    NotOpen,
    Done,
}

/// What a step of a request needs.
struct Surroundings<'l> {
    slot: Slot,
    tls: &'l TlsContexts,
    records: &'l mut Vec<u8>,
    handshakes: &'l mut Handshakes,
}

impl Talk {
    /// Begins to open a connection.
    fn begin(address: &SocketAddress, speech: &Speech, packet: &[u8]) -> io::Result<Talk> {
        let socket = socket::open(address, &TcpSettings::default())?;
        match socket::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        let mut out = Vec::new();
        let stage = match speech {
            Speech::Plain => {
                out.extend_from_slice(packet);
                Stage::Sent
            }
            Speech::Tls { .. } => {
                StartupPacket::write_ssl_request(&mut out);
                Stage::AwaitsAnswer
            }
        };
        Ok(Talk {
            transport: Transport::new(socket),
            out,
            stage,
        })
    }

    fn step(&mut self, with: &mut Surroundings<'_>, packet: &[u8], speech: &Speech) -> Progress {
        if !socket::is_connected(self.transport.socket()) {
            return match socket::error(self.transport.socket()) {
                None => Progress::Waits,
                Some(_) => Progress::NotOpen,
            };
        }
        loop {
            while !self.out.is_empty() {
                match self.transport.send(&self.out) {
                    Sent::Bytes(0) => return Progress::Waits,
                    Sent::Bytes(count) => drop(self.out.drain(..count)),
                    Sent::Failed => return Progress::Done,
                }
            }
            let progress = match &mut self.stage {
                Stage::AwaitsAnswer => self.read_answer(packet, speech, with.tls),
                Stage::Securing(session) => {
                    let subject = Subject::Cancel(with.slot);
                    if !with.handshakes.may_step(subject, &mut session.turn, &self.transport) {
                        return Progress::Waits;
                    }
                    self.shake_hands(packet, with.records)
                }
                Stage::Sent => self.await_end(),
            };
            if progress != Progress::Goes {
                return progress;
            }
        }
    }

    /// Reads the one byte that answers an SSLRequest. Bytes behind it are part of the handshake. If the other side must
    /// use TLS and does not support it, nothing is sent, because everybody on the way could read the key.
    fn read_answer(&mut self, packet: &[u8], speech: &Speech, tls: &TlsContexts) -> Progress {
        let Speech::Tls { host, or_plain } = speech else {
            return Progress::Done;
        };
        let mut answer = [0; 1];
        match self.transport.receive(&mut answer) {
            Received::WouldBlock => Progress::Waits,
            Received::Bytes(_) if answer == *b"S" => {
                let address = peer_address(&self.transport);
                match TlsSession::connect(tls, host, address) {
                    Some(Ok(session)) => {
                        self.stage = Stage::Securing(Box::new(session));
                        Progress::Goes
                    }
                    Some(Err(_)) | None => Progress::Done,
                }
            }
            Received::Bytes(_) if answer == *b"N" && *or_plain => {
                self.out.extend_from_slice(packet);
                self.stage = Stage::Sent;
                Progress::Goes
            }
            Received::Bytes(_) | Received::Closed => Progress::Done,
        }
    }

    fn shake_hands(&mut self, packet: &[u8], records: &mut Vec<u8>) -> Progress {
        let Stage::Securing(session) = &mut self.stage else {
            return Progress::Done;
        };
        records.resize(READ_BYTES, 0);
        let mut plain = vec![0; READ_BYTES];
        let came = session.receive(&mut self.transport, records, &mut plain, &mut self.out);
        if came.end.is_some() {
            return Progress::Done;
        }
        if came.secured.is_some() {
            if session.seal(packet, &mut self.out).is_err() {
                return Progress::Done;
            }
            self.stage = Stage::Sent;
        } else if came.is_blocked {
            return Progress::Waits;
        }
        Progress::Goes
    }

    fn await_end(&mut self) -> Progress {
        let mut answer = [0; 64];
        loop {
            match self.transport.receive(&mut answer) {
                Received::Bytes(_) => {}
                Received::WouldBlock => return Progress::Waits,
                Received::Closed => return Progress::Done,
            }
        }
    }
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
            Stage::AwaitsAnswer | Stage::Sent => None,
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
            return self.tell_cancel_finished(Addressee::Server(server), CancelEnd::Over);
        };
        let speech = match &connection.tls {
            None => Speech::Plain,
            Some(tls) => Speech::Tls {
                host: tls.host().to_owned(),
                or_plain: false,
            },
        };
        let address = SocketAddress::of_peer(connection.transport.socket());
        let slot = self.add_cancel(Cancel::new(Addressee::Server(server), key, speech));
        self.begin_cancel(slot, address.into_iter().collect());
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
                self.finish_cancel(slot);
            }
        }
    }

    pub(crate) fn handle_cancel_event(&mut self, slot: Slot) {
        let Some(cancel) = self.cancels.get(slot) else { return };
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
                self.finish_cancel(slot);
            }
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
        self.log_failed_cancel(slot, "it did not end within 10 seconds");
        let was_sent = self.cancels.get(slot).is_some_and(|cancel| cancel.was_sent());
        self.end_cancel(slot, if was_sent { CancelEnd::NotKnown } else { CancelEnd::Over });
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

    /// The other side has closed the connection, or has never got the request.
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
            Addressee::Peer { peer, by } => self.pooler.handle_passed_on(self.now, peer, by),
        }
        self.settle();
    }
}
