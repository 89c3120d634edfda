//! A server, its pool and what all share: what is enough to say something to the server.

use crate::base::ids::ServerId;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::shared::Shared;
use crate::upstream::entry::To;
use crate::upstream::requests::Requests;
use pgweir_wire::Writer;

/// One server, looked up once. What is sent to it and what its reply queue says belong together; methods of this send both.
pub(crate) struct ServerSide<'a> {
    pub(crate) id: ServerId,
    pub(crate) server: &'a mut Server,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
}

impl ServerSide<'_> {
    /// Writes requests of our own, whose replies go to `to`.
    pub(crate) fn asks(&mut self, to: To, write: impl FnOnce(&mut Requests<'_>)) {
        let queue = &mut self.server.conversation.queue;
        queue.ask(self.id, &mut self.shared.outbox, to, write);
    }

    /// Writes messages of our own to the server that nothing answers.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }
}
