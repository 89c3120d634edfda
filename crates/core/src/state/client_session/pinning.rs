//! What keeps a client on its server.

use super::ClientSession;
use crate::base::pin_reason::PinReason;
use crate::base::state_stats::StateStats;
use crate::base::time::Time;
use crate::state::pins::{Pinned, Pins};
use crate::state::suspicion::beginning;

impl ClientSession {
    /// The reasons why the client keeps its server.
    #[inline]
    pub(crate) fn pins(&self) -> Pins {
        self.pins
    }

    /// When and by what the client was pinned, if the reason is in the session.
    #[inline]
    pub(crate) fn pinned(&self) -> Option<&Pinned> {
        self.pinned.as_deref()
    }

    /// Pins the client to its server. `statement` is the beginning of the text that is the cause.
    pub(crate) fn pin_by(&mut self, now: Time, reason: PinReason, statement: &[u8], stats: &mut StateStats) {
        if self.pinned.is_none() && reason != PinReason::SessionPooling {
            self.pinned = Some(Box::new(Pinned::new(now, beginning(statement))));
        }
        if !self.pins.contains(reason) {
            self.pins.insert(reason);
            stats.pinned(reason);
        }
    }

    /// The pool's mode is the reason why the client keeps its server.
    #[inline]
    pub(crate) fn pin_by_mode(&mut self) {
        self.pins.insert(PinReason::SessionPooling);
    }

    /// These reasons for a pin have ended, or there was none.
    pub(crate) fn pins_end(&mut self, ended: impl IntoIterator<Item = PinReason>, stats: &mut StateStats) {
        let was_pinned = self.pins.of_session();
        for reason in ended {
            self.pins.set(reason, false);
        }
        if !self.pins.of_session() {
            self.pinned = None;
            stats.unpinned += u64::from(was_pinned);
        }
    }

    /// The client has no server any more: nothing pins it.
    pub(crate) fn leaves_server(&mut self) {
        self.pins = Pins::default();
        self.pinned = None;
    }
}
