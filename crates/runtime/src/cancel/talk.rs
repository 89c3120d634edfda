//! The connection of a CancelRequest.

use super::{Beginning, Speech};
use crate::handshakes::Handshakes;
use crate::reading::READ_BYTES;
use crate::securing::{NO_CONTEXT, peer_address};
use crate::socket::{self, SocketAddress};
use crate::tls::{End, TlsContexts, TlsSession};
use crate::token::Subject;
use crate::transport::{Received, Sent, Transport};
use pgweir_core::ids::Slot;
use pgweir_wire::{ErrorFields, StartupPacket};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;

/// The most bytes that the other side may send after the packet. PostgreSQL sends none, or a few by TLS.
const HEARD_BYTES_MAX: usize = 64 * 1024;

/// The connection of a CancelRequest.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) transport: Transport,
    /// Bytes for the socket.
    out: Vec<u8>,
    pub(super) stage: Stage,
    /// The bytes that the other side has sent after the packet.
    heard_bytes: usize,
    /// The first of them.
    heard: Vec<u8>,
}

/// The state of a CancelRequest. It uses TLS if the server's connection does.
#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing has been sent: a handshake begins.
    Begins,
    /// An SSLRequest has been sent and not been answered.
    AwaitsAnswer,
    /// A handshake is under way.
    Securing(Box<TlsSession>),
    /// The packet has been sent; the other side has not closed the connection.
    Sent,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Goes,
    /// The connection could not be opened.
    NotOpen,
    /// The connection cannot be secured, and the packet was not sent.
    Failed(String),
    /// The packet was sent, and the other side answers without end.
    Babbles,
    /// The packet was sent, and the other side has answered with this error and closed the connection.
    Refused(String),
    Done,
}

/// What a step of a request needs.
pub(super) struct Surroundings<'l> {
    pub(super) slot: Slot,
    pub(super) tls: &'l TlsContexts,
    pub(super) records: &'l mut Vec<u8>,
    pub(super) handshakes: &'l mut Handshakes,
}

impl Talk {
    /// Begins to open a connection.
    pub(super) fn begin(address: &SocketAddress, speech: &Speech, packet: &[u8]) -> io::Result<Talk> {
        let socket = socket::open(address)?;
        if let SocketAddress::Tcp(_) = address {
            // Without it, the request is only slower.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
        }
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
            Speech::Tls { beginning, .. } if *beginning == Beginning::Direct => Stage::Begins,
            Speech::Tls { .. } => {
                StartupPacket::write_ssl_request(&mut out);
                Stage::AwaitsAnswer
            }
        };
        Ok(Talk {
            transport: Transport::new(socket),
            out,
            stage,
            heard_bytes: 0,
            heard: Vec::new(),
        })
    }

    pub(super) fn step(&mut self, with: &mut Surroundings<'_>, packet: &[u8], speech: &Speech) -> Progress {
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
                Stage::Begins => self.secure(speech, with.tls),
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
        let or_plain = matches!(speech, Speech::Tls { beginning, .. } if *beginning == Beginning::AsksOrPlain);
        let mut answer = [0; 1];
        match self.transport.receive(&mut answer) {
            Received::WouldBlock => Progress::Waits,
            Received::Bytes(_) if answer == *b"S" => self.secure(speech, tls),
            Received::Bytes(_) if answer == *b"N" && or_plain => {
                self.out.extend_from_slice(packet);
                self.stage = Stage::Sent;
                Progress::Goes
            }
            Received::Bytes(_) | Received::Closed => Progress::Failed("server refused SSL".into()),
        }
    }

    /// Begins a handshake.
    fn secure(&mut self, speech: &Speech, present: &TlsContexts) -> Progress {
        let Speech::Tls {
            host,
            beginning,
            settings,
        } = speech
        else {
            return Progress::Done;
        };
        let address = peer_address(&self.transport);
        let tls = settings.as_ref().unwrap_or(present);
        match TlsSession::connect(tls, host, address, *beginning == Beginning::Direct) {
            Some(Ok(session)) => {
                self.stage = Stage::Securing(Box::new(session));
                Progress::Goes
            }
            Some(Err(e)) => Progress::Failed(e.to_string()),
            None => Progress::Failed(NO_CONTEXT.into()),
        }
    }

    fn shake_hands(&mut self, packet: &[u8], records: &mut Vec<u8>) -> Progress {
        let Stage::Securing(session) = &mut self.stage else {
            return Progress::Done;
        };
        records.resize(READ_BYTES, 0);
        let mut plain = vec![0; READ_BYTES];
        let came = session.receive(&mut self.transport, records, &mut plain, &mut self.out);
        match came.end {
            Some(End::NotSecured(why)) => return Progress::Failed(why),
            Some(End::Closed) => return Progress::Done,
            None => {}
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
        let mut answer = [0; 1024];
        while self.heard_bytes <= HEARD_BYTES_MAX {
            match self.transport.receive(&mut answer) {
                Received::Bytes(count) => {
                    if self.heard_bytes == 0 {
                        self.heard.extend_from_slice(&answer[..count]);
                    }
                    self.heard_bytes += count;
                }
                Received::WouldBlock => return Progress::Waits,
                Received::Closed => return self.refusal().map_or(Progress::Done, Progress::Refused),
            }
        }
        Progress::Babbles
    }

    /// The error that the other side has answered with. By TLS it is not read.
    fn refusal(&self) -> Option<String> {
        let body = self.heard.strip_prefix(b"E")?.get(4..)?;
        let fields = ErrorFields::read_prefix(body);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(format!("{}: {}", text(fields.severity), text(fields.message)))
    }
}
