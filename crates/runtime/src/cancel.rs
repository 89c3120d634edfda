//! Sending cancel requests to servers, each on its own connection.

use crate::event_loop::{EventLoop, READ_BYTES};
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
use pgweir_core::{ConnectionId, ServerId};
use pgweir_wire::{CancelKey, StartupPacket};
use rustix::io::Errno;
use std::io;

/// A CancelRequest on its way. PostgreSQL answers nothing and closes the connection when it has sent the signal.
#[derive(Debug)]
pub(crate) struct Cancel {
    server: ServerId,
    transport: Transport,
    packet: Vec<u8>,
    /// Bytes for the socket.
    out: Vec<u8>,
    stage: Stage,
}

/// Where a CancelRequest stands. It is sent as its server is spoken to: by TLS, or plainly.
#[derive(Debug)]
enum Stage {
    /// An SSLRequest is sent; its answer is awaited. The host is that of the server.
    AwaitsAnswer { host: String },
    /// A handshake is under way.
    Securing(Box<TlsSession>),
    /// The packet is sent; the end of the connection is awaited.
    Sent,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Waits,
    Goes,
    Done,
}

impl Cancel {
    fn step(&mut self, tls: &TlsContexts, records: &mut Vec<u8>) -> Progress {
        if !socket::is_connected(self.transport.socket()) {
            return match socket::error(self.transport.socket()) {
                None => Progress::Waits,
                Some(_) => Progress::Done,
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
                Stage::AwaitsAnswer { .. } => self.read_answer(tls),
                Stage::Securing(_) => self.shake_hands(records),
                Stage::Sent => self.await_end(),
            };
            if progress != Progress::Goes {
                return progress;
            }
        }
    }

    /// One byte answers an SSLRequest; what comes behind it is a part of the handshake, or no TLS at all. A server that
    /// does not speak TLS any more is told nothing: its key would be seen by all.
    fn read_answer(&mut self, tls: &TlsContexts) -> Progress {
        let Stage::AwaitsAnswer { host } = &self.stage else {
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
            Received::Bytes(_) | Received::Closed => Progress::Done,
        }
    }

    fn shake_hands(&mut self, records: &mut Vec<u8>) -> Progress {
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
            if session.seal(&self.packet, &mut self.out).is_err() {
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

impl EventLoop {
    /// Sends `key` to the address that `server` is connected to. The core is told once that the request is over,
    /// whether it succeeded or not.
    pub(crate) fn cancel(&mut self, server: ServerId, key: &CancelKey) {
        match self.start_cancel(server, key) {
            Ok(slot) => {
                self.timers.set(self.now, Timer::Cancel(slot));
                self.handle_cancel_event(slot);
            }
            Err(_) => self.tell_cancel_finished(server),
        }
    }

    fn start_cancel(&mut self, server: ServerId, key: &CancelKey) -> io::Result<Slot> {
        let connection = self
            .connections
            .get(ConnectionId::Server(server))
            .ok_or(Errno::NOTCONN)?;
        let address = SocketAddress::of_peer(connection.transport.socket())?;
        let host = connection.tls.as_ref().map(|tls| tls.host().to_owned());
        let socket = socket::open(&address, &TcpSettings::default())?;
        match socket::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        let (mut packet, mut out) = (Vec::new(), Vec::new());
        StartupPacket::write_cancel(&mut packet, key);
        let stage = match host {
            None => {
                out.clone_from(&packet);
                Stage::Sent
            }
            Some(host) => {
                StartupPacket::write_ssl_request(&mut out);
                Stage::AwaitsAnswer { host }
            }
        };
        let transport = Transport::new(socket);
        let fd = transport.fd();
        let slot = self.cancels.insert(Cancel {
            server,
            transport,
            packet,
            out,
            stage,
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut SourceFd(&fd), Subject::Cancel(slot).token(), interest);
        if registered.is_err() {
            self.cancels.remove(slot);
        }
        registered.map(|()| slot)
    }

    pub(crate) fn handle_cancel_event(&mut self, slot: Slot) {
        if let Some(cancel) = self.cancels.get(slot)
            && let Progress::Done = cancel.step(&self.tls, &mut self.records)
        {
            self.finish_cancel(slot);
        }
    }

    /// The server has closed the connection, or the time for the request is over.
    pub(crate) fn finish_cancel(&mut self, slot: Slot) {
        if let Some(cancel) = self.cancels.remove(slot) {
            self.tell_cancel_finished(cancel.server);
        }
    }

    fn tell_cancel_finished(&mut self, server: ServerId) {
        self.pooler.handle_cancel_finished(self.now, server);
        self.settle();
    }
}
