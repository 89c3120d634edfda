//! Lending: a statement is made once more on a server, under its client's own name for it.
//!
//! Why is told in [`crate::preparing::own_names`].

use crate::server_side::ServerSide;
use crate::statements::held::Moment;
use crate::statements::prepared::Statement;
use crate::upstream::entry::{Effect, To};
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;
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
        self.asks(To::Skip, |r| r.using(own.id).sync());
        for verb in ["ROLLBACK TO ", "RELEASE "] {
            let text = [verb, &*self.shared.own_statements.names.savepoint].concat();
            self.run_text(text.as_bytes(), &[0, 0], Effect::default());
        }
        self.asks(To::Skip, |r| r.using(own.id).sync());
        let conversation = &mut self.server.conversation;
        conversation.guarded.end = conversation.queue.segments_sent();
    }

    /// Runs a text of our own, or a PREPARE of a client's, in a statement and a portal of our own.
    pub(crate) fn run_text(&mut self, text: &[u8], types: &[u8], effect: Effect) {
        let preparing = &*self.shared.own_statements.names.preparing;
        let queue = &mut self.server.conversation.queue;
        queue.ask(self.id, &mut self.shared.outbox, To::Skip, |r| {
            // One that failed may have left them there: the portal until its transaction or savepoint has ended.
            r.close(b'P', preparing);
            r.close(b'S', preparing);
            r.parse(preparing, text, types);
            r.bind(preparing, preparing, &[]);
            r.with(effect).execute(preparing);
            r.close(b'P', preparing);
            r.close(b'S', preparing);
        });
    }
}

/// Whether a text with these effects may use names that it need not mention: what code executes, and what the view of all
/// statements shows.
pub(super) fn only_may_use(effects: Effects) -> bool {
    effects.intersects(Effects::STATEMENTS) || !effects.intersects(Effects::PREPARE)
}
