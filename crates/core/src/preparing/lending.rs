//! Lending: a statement is made once more on a server, under its client's own name for it.
//!
//! Why is told in [`crate::preparing::own_names`].

use crate::server_side::ServerSide;
use crate::statements::held::Moment;
use crate::statements::prepared::Statement;
use crate::upstream::entry::{Effect, Entry, Expect};
use pgweir_sql::Effects;
use pgweir_wire::{TransactionStatus, Writer};
use std::sync::Arc;

impl ServerSide<'_> {
    /// A copy that somebody made before this client prepared the statement may have a plan that is too old.
    pub(super) fn lend(&mut self, own: &Arc<Statement>, since: Moment, guarded: bool) {
        self.own_name_comes(own.server_name());
        let held = &mut self.server.held;
        if held.is_as_good_as(own.id, since) {
            held.touch(own.id);
            return;
        }
        let anew = held.copy_mut(own.id).is_some();
        if guarded {
            self.make_savepoint();
        }
        if anew {
            self.prepare_again(own);
        } else {
            self.prepare(own);
        }
        if guarded {
            self.end_savepoint(own);
        }
    }

    /// Whether what a text with these effects only may use is lent behind a savepoint: a statement that cannot be made again, as
    /// its table is gone, must not fail the client's transaction.
    pub(super) fn lends_behind_savepoint(&self, effects: Effects) -> bool {
        let server = &*self.server;
        only_may_use(effects)
            && server.conversation.status == TransactionStatus::InTransaction
            && !server.conversation.queue.segment_open()
    }

    /// Makes a savepoint in the client's transaction block, in a segment that [`ServerSide::end_savepoint`] ends.
    fn make_savepoint(&mut self) {
        let server = &mut *self.server;
        let first = server.conversation.queue.segments_sent();
        if server.conversation.guarded.end != first {
            server.conversation.guarded.start = first;
        }
        let text = ["SAVEPOINT ", &*self.shared.own_statements.names.savepoint].concat();
        self.run_text(text.as_bytes(), &[0, 0], Effect::default());
    }

    /// Leaves the transaction as it was at the savepoint, whether the statement could be prepared or not: what is prepared
    /// stays, and its locks are released.
    fn end_savepoint(&mut self, own: &Statement) {
        let sync = || Entry::skip(Expect::Sync).using(own.id);
        self.server.conversation.queue.push(sync());
        self.send(|w| w.sync());
        for verb in ["ROLLBACK TO ", "RELEASE "] {
            let text = [verb, &*self.shared.own_statements.names.savepoint].concat();
            self.run_text(text.as_bytes(), &[0, 0], Effect::default());
        }
        let queue = &mut self.server.conversation.queue;
        queue.push(sync());
        self.server.conversation.guarded.end = queue.segments_sent();
        self.send(|w| w.sync());
    }

    /// Runs a text of our own, or a PREPARE of a client's, in a statement and a portal of our own.
    pub(crate) fn run_text(&mut self, text: &[u8], types: &[u8], effect: Effect) {
        let queue = &mut self.server.conversation.queue;
        queue.push(Entry::skip(Expect::Close));
        queue.push(Entry::skip(Expect::Close));
        queue.push(Entry::skip(Expect::Parse));
        queue.push(Entry::skip(Expect::Bind));
        queue.push(Entry::skip(Expect::Execute).with(effect));
        queue.push(Entry::skip(Expect::Close));
        queue.push(Entry::skip(Expect::Close));
        let preparing = &*self.shared.own_statements.names.preparing;
        self.shared.outbox.insert(self.id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            // One that failed may have left them there: the portal until its transaction or savepoint has ended.
            writer.close(b'P', preparing);
            writer.close(b'S', preparing);
            writer.parse(preparing, text, types);
            writer.bind_portal(preparing, preparing, &[]);
            writer.execute_portal(preparing);
            writer.close(b'P', preparing);
            writer.close(b'S', preparing);
        });
    }
}

/// Whether a text with these effects may use names that it need not mention: what code executes, and what the view of all
/// statements shows.
pub(super) fn only_may_use(effects: Effects) -> bool {
    effects.intersects(Effects::STATEMENTS) || !effects.intersects(Effects::PREPARE)
}
