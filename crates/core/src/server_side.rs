//! A server, its pool and what all connections share: enough to send something to the server.

use crate::base::ids::ServerId;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::shared::Shared;
use crate::upstream::entry::To;
use crate::upstream::requests::Requests;
use pgweir_wire::Writer;

/// One server, looked up once. Its methods write a request and the entry in the reply queue together.
pub(crate) struct ServerSide<'a> {
    pub(crate) id: ServerId,
    pub(crate) server: &'a mut Server,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
}

impl ServerSide<'_> {
    /// Writes internal requests, whose replies go to `to`.
    pub(crate) fn asks(&mut self, to: To, write: impl FnOnce(&mut Requests<'_>)) {
        let queue = self.server.conversation.queue_mut();
        queue.ask(self.id, &mut self.shared.outbox, to, write);
    }

    /// Writes internal messages that the server does not answer.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }
}
