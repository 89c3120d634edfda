//! A client, its pool and what all connections share: enough to answer the client without a server.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use crate::client::Client;
use crate::pools::pool::Pool;
use crate::shared::Shared;
use pgweir_wire::{TransactionStatus, Writer};
use std::collections::VecDeque;

/// One client, looked up once. No server can be reached from here.
pub(crate) struct ClientSide<'a> {
    pub(crate) now: Time,
    pub(crate) id: ClientId,
    pub(crate) client: &'a mut Client,
    pub(crate) pool: &'a mut Pool,
    pub(crate) shared: &'a mut Shared,
    /// Clients with a deferred BEGIN, oldest first.
    pub(crate) deferred: &'a mut VecDeque<(ClientId, Time)>,
}

impl ClientSide<'_> {
    /// Writes messages to the client.
    pub(crate) fn tell(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |bytes| write(&mut Writer::new(bytes)));
    }

    /// Answers messages of this length in place of a server. Both count as traffic of the client.
    pub(crate) fn answer(&mut self, length: usize, write: impl FnOnce(&mut Writer<'_>)) {
        let mut answered = 0;
        self.shared.outbox.insert(self.id.into(), |bytes| {
            let before = bytes.len();
            write(&mut Writer::new(bytes));
            answered = bytes.len() - before;
        });
        let stats = self.pool.stats_mut();
        stats.bytes_received += length as u64;
        stats.bytes_sent += answered as u64;
    }

    /// Sends the pooler's ReadyForQuery, which counts as a query, as a server's does.
    pub(crate) fn is_ready(&mut self, status: TransactionStatus) {
        self.tell(|w| w.ready_for_query(status));
        self.pool.stats_mut().query_count += 1;
    }
}
