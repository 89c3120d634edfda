//! Doubt: whether code of a client may have ended or replaced the statements of a server.

use super::{Held, Moment};
use crate::statements::unnamed::Unnamed;

impl Held {
    /// Whether the server holds this internal statement, and no client can have replaced it.
    #[inline]
    pub(crate) fn trusts(&self, id: u64) -> bool {
        self.internal
            .iter()
            .any(|(s, good)| s.id == id && *good >= self.doubted)
    }

    /// At this moment a client may have ended any statement on the server, and prepared another one under the same
    /// name: a DEALLOCATE or PREPARE, or code of unknown effect, may have run. That code may go on running until the
    /// present transaction ends.
    pub(crate) fn doubt(&mut self, now: Moment) {
        self.doubted = now;
        self.doubts_at_end = true;
    }

    /// Whether each transaction may run in another session. Then what one transaction has prepared is doubted in the
    /// next.
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

    /// The transaction has ended, and with it the code that [`Held::doubt`] speaks of: what was prepared before this
    /// moment is doubted once more.
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
