//! What becomes of plans when the server's transaction ends: its command tags, errors and ReadyForQuery.

use super::{Held, Moment};

impl Held {
    /// The server has sent a command tag that shows neither an end nor a partial rollback of a transaction.
    #[inline(always)]
    pub(crate) fn command_completes(&mut self) {
        self.committed = false;
    }

    /// The server has sent a command tag: COMMIT, or one that may have undone a part of the transaction, or another.
    pub(crate) fn command_may_end_transaction(&mut self, commits: bool, rolls_back: bool) {
        self.committed = commits;
        self.rolled_back |= rolls_back;
    }

    /// The server has sent an error.
    pub(crate) fn note_error(&mut self, now: Moment) {
        self.erred = now;
        self.failed = true;
        self.segment_failed = true;
    }

    /// The server has sent ReadyForQuery. Returns whether it has sent an error since the ReadyForQuery before.
    #[inline]
    pub(crate) fn take_segment_failed(&mut self) -> bool {
        std::mem::take(&mut self.segment_failed)
    }

    /// The server has sent ReadyForQuery and owes nothing. `between`: no transaction is open. `in_block`: a transaction
    /// block was open before.
    #[inline]
    pub(crate) fn note_ready(&mut self, now: Moment, between: bool, in_block: bool) {
        self.answered = now;
        self.unproven.clear();
        if between && self.transaction_ends(now, in_block) {
            self.provisional.clear();
        }
    }

    /// A transaction has ended; requests behind it may be unanswered, so what was seen or sent since its beginning may
    /// belong to a later transaction. Returns whether the transaction lasts.
    #[inline]
    pub(crate) fn transaction_ends(&mut self, now: Moment, in_block: bool) -> bool {
        let lasts = !self.rolled_back && if in_block { self.committed } else { !self.failed };
        if !lasts {
            self.note_rollback(now);
        }
        (self.failed, self.rolled_back, self.committed) = (false, false, false);
        lasts
    }

    /// A plan that was good in the transaction may not be good after its rollback.
    #[cold]
    fn note_rollback(&mut self, now: Moment) {
        for id in self.provisional.drain(..) {
            if let Some(copy) = self.copies.get_mut(id) {
                copy.good = Moment::default();
            }
        }
        self.erred = now;
    }
}
