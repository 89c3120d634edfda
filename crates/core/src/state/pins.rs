//! Pins: why a client keeps its server beyond the end of its transaction, and which cleanup the server needs before
//! another client gets it.
//!
//! State that can be restored on another server is restored there ([`crate::session::restoration`]). Other state pins
//! the client to its server, for as short as possible: probes ([`crate::session::probe`]) confirm and end the pins.

use crate::base::pin_reason::{Cleanup, PinReason};
use crate::base::time::Time;
use std::fmt;

/// A set of reasons. A client without any gives its server back at the end of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) struct Pins(u32);

/// The reasons that a probe sees, in the order of its columns.
pub(crate) const PROBED: [PinReason; 5] = [
    PinReason::TemporaryObjects,
    PinReason::AdvisoryLocks,
    PinReason::HeldCursors,
    PinReason::Listening,
    PinReason::PreparedStatements,
];

impl Pins {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn insert(&mut self, reason: PinReason) {
        self.0 |= reason.bit();
    }

    pub(crate) fn set(&mut self, reason: PinReason, held: bool) {
        if held {
            self.insert(reason);
        } else {
            self.0 &= !reason.bit();
        }
    }

    pub(crate) fn contains(self, reason: PinReason) -> bool {
        self.0 & reason.bit() != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = PinReason> {
        PinReason::ALL.into_iter().filter(move |&r| self.contains(r))
    }

    /// The cleanup that undoes all of them.
    pub(crate) fn cleanup(self) -> Cleanup {
        self.iter().map(PinReason::cleanup).max().unwrap_or(Cleanup::Nothing)
    }

    /// Whether one of them is a reason that no probe ends.
    #[cfg(feature = "weaknesses")]
    pub(crate) fn for_good(self) -> bool {
        let ends = |reason| PROBED.contains(&reason) || reason == PinReason::SessionPooling;
        self.iter().any(|reason| !ends(reason))
    }

    /// Whether a reason is in the session, not only in the pool's mode.
    pub(crate) fn of_session(self) -> bool {
        self.0 & !PinReason::SessionPooling.bit() != 0
    }
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// `temporary objects, advisory locks`
impl fmt::Display for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for reason in self.iter() {
            write!(f, "{between}{}", reason.words())?;
            between = ", ";
        }
        Ok(())
    }
}

/// When a client was pinned, and by what.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Pinned {
    since: Time,
    /// The beginning of the statement that caused the pin.
    statement: Box<str>,
}

impl Pinned {
    pub(super) fn new(since: Time, statement: Box<str>) -> Self {
        Pinned { since, statement }
    }

    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// The beginning of the statement that caused the pin.
    pub(crate) fn statement(&self) -> &str {
        &self.statement
    }
}

/// Characters of the statement that SHOW PINS shows.
pub(crate) const STATEMENT_CHARS_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_cleanup_of_several_reasons_is_done() {
        let mut pins = Pins::default();
        assert_eq!(pins.cleanup(), Cleanup::Nothing);
        pins.insert(PinReason::AdvisoryLocks);
        assert_eq!(pins.cleanup(), Cleanup::Discard);
        pins.insert(PinReason::Library);
        assert_eq!(pins.cleanup(), Cleanup::Close);
        pins.set(PinReason::Library, false);
        assert_eq!(pins.to_string(), "advisory locks");
        assert!(pins.of_session());
    }

    #[test]
    fn every_reason_has_a_bit_of_its_own() {
        for (at, reason) in PinReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.bit(), 1 << at);
        }
    }
}
