//! Doubt: whether code of a client may have ended or replaced the statements of a server, or changed what they mean.

use super::{Held, Moment};
use crate::statements::prepared::Statement;
use crate::statements::unnamed::Unnamed;
use std::sync::Arc;

impl Held {
    /// Whether the server holds this internal statement, and no client can have replaced it.
    #[inline]
    pub(crate) fn trusts(&self, id: u64) -> bool {
        self.internal
            .iter()
            .any(|(s, good)| s.id == id && *good >= self.doubted)
    }

    /// At this moment a client may have ended any statement on the server, and prepared another one under the same
    /// name: a DEALLOCATE or PREPARE, or code that is not read, may have run. That code may go on running until the
    /// present transaction ends.
    pub(crate) fn doubt(&mut self, now: Moment) {
        self.doubted = now;
        self.doubts_at_end = true;
    }

    /// The statement was prepared for a message, which waits for an answer about it. When the message is looked at
    /// again, it uses this copy, even if the looks have doubted it: a message whose looks doubt a statement that each of
    /// them prepares would never be sent.
    pub(crate) fn awaits(&mut self, id: u64) {
        self.awaited = id;
    }

    /// The message that waited is dropped, or the server has another client.
    #[inline(always)]
    pub(crate) fn awaits_nothing(&mut self) {
        self.awaited = 0;
    }

    /// Whether the message that uses this statement has waited for an answer about it.
    #[inline(always)]
    pub(crate) fn take_awaited(&mut self, id: u64) -> bool {
        let is_awaited = self.awaited == id;
        if is_awaited {
            self.awaited = 0;
        }
        is_awaited
    }

    /// From now until [`Held::reads_as_known`], the pooler does not know the settings under which the server reads
    /// constants.
    pub(crate) fn reads_otherwise(&mut self, now: Moment) {
        self.otherwise.get_or_insert(now);
    }

    /// Until [`Held::reads_as_known`], a text may have chosen another setting that constants are read under.
    pub(crate) fn text_may_set_reading(&mut self) {
        self.behind_set = true;
    }

    /// Whether a constant that the server reads now may be read under a setting that a text has just chosen.
    pub(crate) fn may_read_behind_set(&self) -> bool {
        self.behind_set
    }

    /// Whether the server may be reading constants under settings that are not known.
    pub(crate) fn may_read_otherwise(&self) -> bool {
        self.otherwise.is_some()
    }

    /// The pooler knows the server's settings again. PostgreSQL may have analysed and planned again the statements that
    /// were used meanwhile, with constants that it read under other settings. So they are prepared again before their
    /// next use, unless they belong to the one client that has used them. All client-named statements count as used,
    /// because SQL may have used them by name.
    #[cold]
    pub(crate) fn reads_as_known(&mut self) {
        self.behind_set = false;
        let Some(since) = self.otherwise.take() else { return };
        for copy in self.copies.all_mut() {
            let may_be_used = copy.used >= since || copy.statement.is_client_named();
            copy.outdated |= may_be_used && !copy.statement.is_private;
        }
        self.outdate_unnamed();
    }

    /// If a client's statement is the server's unnamed one, it is prepared again before its next use.
    pub(crate) fn outdate_unnamed(&mut self) {
        if matches!(self.unnamed, Unnamed::Statement(_) | Unnamed::Asked(_)) {
            self.unnamed = Unnamed::Foreign;
        }
    }

    /// Whether this copy may answer a Parse. No copy may while its client has temporary objects, because any statement
    /// may make or drop some. Nor may a copy from before the moment when `names` last came to mean other objects.
    pub(crate) fn answers_parse(&self, statement: &Statement, names: Moment) -> bool {
        !self.temporary && statement.keeps && !statement.infers && self.is_since(statement.id, names)
    }

    /// Whether the server has prepared this statement at this moment or later, and can no longer refuse it.
    pub(crate) fn has_proven(&self, statement: &Statement, names: Moment) -> bool {
        !self.temporary && self.is_since(statement.id, names) && !self.unproven.contains(&statement.id)
    }

    fn is_since(&self, id: u64, names: Moment) -> bool {
        self.usable(id) && self.copies.get(id).is_some_and(|c| c.parsed >= names)
    }

    /// From this moment on the server's transaction may create, rename or move objects.
    pub(crate) fn names_move(&mut self, now: Moment) {
        self.names_move_since.get_or_insert(now);
    }

    /// The transaction has ended. Shared statements that were prepared meanwhile may refer to objects that the
    /// transaction has made and that were rolled back. `more`: requests behind it may move more.
    pub(crate) fn names_have_moved(&mut self, more: bool) {
        let Some(since) = self.names_move_since else {
            return;
        };
        if !more {
            self.names_move_since = None;
        }
        for copy in self.copies.all_mut() {
            copy.outdated |= copy.parsed >= since && !copy.statement.is_private;
        }
    }

    /// Adds a statement that the server has not lost after all. How old its plan is, and whether it had to be prepared
    /// again, is no longer known. A copy that stays is not prepared again.
    pub(crate) fn restore(&mut self, statement: Arc<Statement>) {
        let id = statement.id;
        self.insert(statement, Moment::default());
        if let Some(copy) = self.copies.get_mut(id) {
            copy.outdated = !copy.stays();
        }
    }

    /// Whether each transaction may run in another session. Then the statements that one transaction has prepared are
    /// doubted in the next.
    pub(crate) fn forgets_between_transactions(&mut self, forgets: bool) {
        self.forgets = forgets;
        self.doubts_at_end |= forgets;
    }

    /// The transaction has ended. Returns whether [`Held::doubt_for_good`] must follow.
    #[inline]
    pub(crate) fn take_doubt_at_end(&mut self) -> bool {
        if self.forgets {
            self.unnamed = Unnamed::Foreign;
        }
        std::mem::replace(&mut self.doubts_at_end, self.forgets)
    }

    /// The transaction has ended, and with it the code that [`Held::doubt`] is about. All statements that were prepared
    /// before are doubted once more.
    pub(crate) fn doubt_for_good(&mut self, now: Moment) {
        self.doubted = now;
    }

    /// Whether a client may ever have prepared a statement under an internal name, if it knew the name.
    pub(crate) fn was_doubted(&self) -> bool {
        self.doubted > Moment::default()
    }

    /// A copy whose plan was last good before this moment may be gone or replaced.
    #[inline]
    pub(crate) fn doubted(&self) -> Moment {
        self.doubted
    }
}
