//! Lending: a statement is prepared once more on a server, under the name that its client has given it.
//! [`crate::preparing::client_named`] says why.

use crate::server_side::ServerSide;
use crate::statements::held::Moment;
use crate::statements::prepared::Statement;
use crate::upstream::entry::{Effect, To};
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

impl ServerSide<'_> {
    /// Prepares the statement on the server, unless the server holds a copy whose plan is not older than `since`.
    /// `guarded`: behind a savepoint.
    pub(super) fn lend(&mut self, named: &Arc<Statement>, since: Moment, guarded: bool) {
        let held = &mut self.server.held;
        if held.is_as_good_as(named.id, since) {
            held.touch(named.id);
            return;
        }
        let anew = held.holds(named.id);
        if guarded {
            self.make_savepoint();
        }
        if anew {
            self.prepare_again(named);
        } else {
            self.prepare(named);
        }
        if guarded {
            self.end_savepoint(named);
        }
    }

    /// Whether statements can be lent behind a savepoint. A statement whose table is gone cannot be prepared again, and
    /// must not fail the client's transaction.
    pub(super) fn lends_behind_savepoint(&self) -> bool {
        let server = &*self.server;
        server.conversation.status() == TransactionStatus::InTransaction && !server.conversation.queue().segment_open()
    }

    /// Makes a savepoint in the client's transaction block, in a segment that [`ServerSide::end_savepoint`] ends.
    fn make_savepoint(&mut self) {
        self.server.conversation.guard_begins();
        let text = ["SAVEPOINT ", &*self.shared.internal.names.savepoint].concat();
        self.run_text(text.as_bytes(), &[0, 0], Effect::default());
    }

    /// Takes the transaction back to the savepoint, whether the statement could be prepared or not. The prepared
    /// statement stays, and its locks are released.
    fn end_savepoint(&mut self, named: &Statement) {
        self.asks(To::Skip, |r| r.using(named.id).sync());
        for verb in ["ROLLBACK TO ", "RELEASE "] {
            let text = [verb, &*self.shared.internal.names.savepoint].concat();
            self.run_text(text.as_bytes(), &[0, 0], Effect::default());
        }
        self.asks(To::Skip, |r| r.using(named.id).sync());
        self.server.conversation.guard_ends();
    }

    /// Runs an internal text, or a client's PREPARE, in an internal statement and an internal portal.
    pub(crate) fn run_text(&mut self, text: &[u8], types: &[u8], effect: Effect) {
        self.server.held.runs_text();
        let preparing = &*self.shared.internal.names.preparing;
        let queue = self.server.conversation.queue_mut();
        queue.ask(self.id, &mut self.shared.outbox, To::Skip, |r| {
            // If an earlier text failed, both may still exist: the portal until its transaction or savepoint ends.
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

/// Whether a text surely uses the only name of its client's that it contains. Other texts may use names that they do not
/// contain: code can execute statements, and `pg_prepared_statements` shows all of them. And a word may be the name of
/// something else, such as a column.
pub(super) fn surely_uses(effects: Effects, text: &[u8]) -> bool {
    effects.intersects(Effects::PREPARE) && !effects.intersects(Effects::STATEMENTS) && pgweir_sql::is_one_execute(text)
}
