//! Commands to a server about the channels that it listens to, and its answers.

use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::upstream::entry::To;
use crate::upstream::job::Job;
use pgweir_wire::{HEADER_BYTES, backend};

impl ServerSide<'_> {
    /// Sends a command without parameters. It is not a Query and does not use the unnamed statement,
    /// because a Query would destroy the client's.
    pub(crate) fn internal_command(&mut self, text: &[u8]) {
        let name = &*self.shared.internal.names.channels;
        let queue = self.server.conversation.queue_mut();
        queue.ask(self.id, &mut self.shared.outbox, To::Job(Job::MoveChannels), |r| {
            r.close(b'S', name);
            r.parse(name, text, &[0, 0]);
            r.bind(b"", name, &[]);
            r.execute(b"");
            r.close(b'S', name);
        });
    }

    pub(crate) fn end_internal_segment(&mut self) {
        self.sync_for(Job::MoveChannels);
    }
}

impl Reply<'_> {
    /// A channel that the server listens to.
    pub(crate) fn channel_row(&mut self, message: &[u8]) {
        let Some(channels) = self.client().and_then(|client| client.channels.as_mut()) else {
            return;
        };
        if let Ok(row) = backend::data_row(&message[HEADER_BYTES..])
            && let Some(name) = row.first().copied().flatten()
        {
            channels.server_lists(name);
        }
    }
}
