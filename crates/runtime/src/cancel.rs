//! Sending cancel requests to servers, each on its own connection.

use crate::event_loop::EventLoop;
use crate::settings::TcpSettings;
use crate::socket::{self, SocketAddress};
use crate::timers::Timer;
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
    sent: usize,
}

enum Progress {
    Waits,
    Done,
}

impl Cancel {
    fn step(&mut self) -> Progress {
        if self.sent < self.packet.len() {
            if !socket::is_connected(self.transport.socket()) {
                return match socket::error(self.transport.socket()) {
                    None => Progress::Waits,
                    Some(_) => Progress::Done,
                };
            }
            match self.transport.send(&self.packet[self.sent..]) {
                Sent::Bytes(count) => self.sent += count,
                Sent::Failed => return Progress::Done,
            }
        }
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
        let socket = socket::open(&address, &TcpSettings::default())?;
        match socket::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, key);
        let transport = Transport::Plain(socket);
        let fd = transport.fd();
        let slot = self.cancels.insert(Cancel {
            server,
            transport,
            packet,
            sent: 0,
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
            && let Progress::Done = cancel.step()
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
