//! Statements that are prepared behind a SET whose effect is not known yet.

use crate::base::message::Step;
use crate::base::pin_reason::PinReason;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::statements::prepared::Statement;
use std::sync::Arc;

impl Exchange<'_> {
    /// A statement is prepared behind a SET whose effect the server has not told yet, or that ends with the
    /// transaction. If the answers to earlier segments will tell the effect, the Parse waits for them. Otherwise only
    /// this server has the statement as the client has prepared it.
    #[cold]
    pub(crate) fn reads_behind_set(&mut self, statement: &mut Arc<Statement>) -> Option<Step> {
        let step = self.waits_behind_set(statement);
        if statement.settings.are_uncertain() {
            self.pin_by(PinReason::ReadBehindSet, &statement.query);
        }
        step
    }

    /// The same for the unnamed statement. It does not pin its client, which hardly ever uses the statement after its
    /// transaction: where the server no longer has it, it does not exist.
    #[cold]
    pub(crate) fn unnamed_reads_behind_set(&mut self, statement: &mut Arc<Statement>) -> Option<Step> {
        match self.shared.is_weak(Weakness::ReadsUnnamedAnew) {
            true => None,
            false => self.waits_behind_set(statement),
        }
    }

    fn waits_behind_set(&mut self, statement: &mut Arc<Statement>) -> Option<Step> {
        if !statement.has_constants || !self.keeps_session() {
            return None;
        }
        if self.will_know_what_is_set() {
            return Some(self.waits_for_replies());
        }
        *statement = self.shared.statements.intern_behind_set(statement);
        None
    }

    /// Only the client's server has this statement as the client has prepared it.
    pub(crate) fn settings_are_uncertain(&mut self, statement: &mut Arc<Statement>) {
        self.pin_by(PinReason::ReadBehindSet, &statement.query);
        *statement = self.shared.statements.intern_behind_set(statement);
    }

    /// Whether the answers to the client's earlier segments, or to a probe, will show the settings that constants are
    /// read under. Other internal segments tell nothing of them, and one may follow whenever a message is looked at
    /// again.
    pub(crate) fn will_know_what_is_set(&self) -> bool {
        let (queue, session) = (self.server.conversation.queue(), &self.server.session);
        let will_tell = queue.client_segment_outstanding() || session.probe().is_some();
        self.server.held.may_read_behind_set() && !queue.segment_open() && will_tell
    }
}
