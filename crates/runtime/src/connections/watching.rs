//! The events that the event loop reports for a connection: bytes to read, and room to write after there was none.

use super::Connections;
use crate::connection::Facts;
use crate::token::Subject;
use mio::Interest;
use mio::unix::SourceFd;
use pgweir_core::ConnectionId;
use std::io;

impl Connections {
    /// After a short write: the event loop reports room from now on.
    pub(super) fn watch_room(&mut self, id: ConnectionId) {
        let Some(connection) = self.get(id) else { return };
        if connection.facts.has(Facts::WATCHES_ROOM) {
            return;
        }
        connection.facts.set(Facts::WATCHES_ROOM);
        let fd = connection.transport.fd();
        if self
            .register_again(id, fd, Interest::READABLE | Interest::WRITABLE)
            .is_err()
        {
            self.write_failed(id);
        }
    }

    /// Stops watching for room on a Unix-domain socket, which would wake the event loop after each read of the other
    /// side. A TCP socket reports room only after it had none, so its watch stays.
    pub(super) fn unwatch_room(&mut self, id: ConnectionId) {
        let Some(connection) = self.get(id) else { return };
        if connection.facts.has(Facts::UNIX) && connection.facts.has(Facts::WATCHES_ROOM) {
            connection.facts.clear(Facts::WATCHES_ROOM);
            let fd = connection.transport.fd();
            if self.register_again(id, fd, Interest::READABLE).is_err() {
                self.write_failed(id);
            }
        }
    }

    fn register_again(&self, id: ConnectionId, fd: i32, interest: Interest) -> io::Result<()> {
        let token = Subject::Connection(id).token();
        match self.registry.reregister(&mut SourceFd(&fd), token, interest) {
            // The connection comes from another process and has not been watched yet.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.registry.register(&mut SourceFd(&fd), token, interest)
            }
            other => other,
        }
    }

    /// Begins to watch a connection that comes from another process, if it still exists.
    pub(crate) fn watch(&mut self, id: ConnectionId) {
        let Some(connection) = self.get(id) else { return };
        let mut interest = Interest::READABLE;
        if !connection.pending.is_empty() {
            connection.facts.set(Facts::WATCHES_ROOM);
            interest |= Interest::WRITABLE;
        }
        let fd = connection.transport.fd();
        if self.register_again(id, fd, interest).is_err() {
            self.write_failed(id);
        }
    }
}
