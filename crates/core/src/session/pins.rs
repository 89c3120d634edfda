//! Pins: why a client keeps its server beyond the end of its transaction, and what must be done before anyone else gets
//! that server.
//!
//! State that can be made again on another server is restored there ([`crate::session::restoration`]). What is left ties the
//! client to its server, for as short as possible: probes ([`crate::session::probe`]) confirm and end what pins.

use crate::base::time::Time;
use std::fmt;

/// Why a client keeps its server beyond the end of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinReason {
    /// Session pooling: the link lasts as long as the connection.
    SessionPooling,
    /// A prepared statement too long to be kept (see [`crate::statements::prepared`]).
    LongStatement,
    /// Temporary tables, views, sequences, functions, types.
    TemporaryObjects,
    /// Session-level advisory locks.
    AdvisoryLocks,
    /// Cursors declared WITH HOLD.
    HeldCursors,
    /// LISTEN.
    Listening,
    /// Statements made by SQL-level PREPARE.
    PreparedStatements,
    /// LOAD: the library stays in the server process.
    Library,
    /// setseed(): the sequence of random() goes on.
    Seed,
    /// Temporary replication slots, a base backup, a replication origin, dblink connections.
    ServerBound,
    /// currval() and lastval(): what was drawn from sequences is the server's.
    Sequences,
    /// A setting whose value is not text in the pooler's reading (UTF-8), so that it cannot be made again elsewhere.
    UnreadableSetting,
    /// A function in C that belongs to no extension: it may keep state in the server process.
    NativeCode,
    /// The server could not tell what the session is like.
    UnknownState,
    /// A custom setting whose name no text tells: `set_config()` with a computed name, code that is not read.
    UntoldSetting,
}

/// What frees a server of a reason, when the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cleanup {
    /// Nothing, or what session pooling does anyway.
    Nothing,
    /// DISCARD ALL.
    Discard,
    /// Only the end of the server connection.
    Close,
}

impl PinReason {
    /// All of them, in the order of their bits.
    pub const ALL: [PinReason; 15] = [
        PinReason::SessionPooling,
        PinReason::LongStatement,
        PinReason::TemporaryObjects,
        PinReason::AdvisoryLocks,
        PinReason::HeldCursors,
        PinReason::Listening,
        PinReason::PreparedStatements,
        PinReason::Library,
        PinReason::Seed,
        PinReason::ServerBound,
        PinReason::Sequences,
        PinReason::UnreadableSetting,
        PinReason::NativeCode,
        PinReason::UnknownState,
        PinReason::UntoldSetting,
    ];

    /// The words of SHOW PINS and the log.
    pub fn words(self) -> &'static str {
        match self {
            PinReason::SessionPooling => "session pooling",
            PinReason::LongStatement => "prepared statement too long to be tracked",
            PinReason::TemporaryObjects => "temporary objects",
            PinReason::AdvisoryLocks => "advisory locks",
            PinReason::HeldCursors => "cursors with hold",
            PinReason::Listening => "listening",
            PinReason::PreparedStatements => "prepared statements",
            PinReason::Library => "loaded library",
            PinReason::Seed => "seed of random()",
            PinReason::ServerBound => "replication slot, backup, origin or dblink",
            PinReason::Sequences => "current values of sequences",
            PinReason::UnreadableSetting => "setting that is not UTF-8",
            PinReason::NativeCode => "function in C outside an extension",
            PinReason::UntoldSetting => {
                "setting of a name that no text tells (use SET LOCAL, set_config('app.name', .., true) or a literal name)"
            }
            PinReason::UnknownState => "session state that the server could not tell",
        }
    }

    /// What frees a server of it.
    pub(crate) fn cleanup(self) -> Cleanup {
        match self {
            PinReason::SessionPooling => Cleanup::Nothing,
            PinReason::TemporaryObjects
            | PinReason::AdvisoryLocks
            | PinReason::HeldCursors
            | PinReason::Listening
            | PinReason::PreparedStatements
            | PinReason::Sequences
            | PinReason::UnreadableSetting
            | PinReason::UntoldSetting => Cleanup::Discard,
            PinReason::LongStatement
            | PinReason::Library
            | PinReason::Seed
            | PinReason::ServerBound
            | PinReason::NativeCode
            | PinReason::UnknownState => Cleanup::Close,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of reasons; a client without one gives its server back at the end of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pins(u16);

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

    /// What frees a server of all of them.
    pub(crate) fn cleanup(self) -> Cleanup {
        self.iter().map(PinReason::cleanup).max().unwrap_or(Cleanup::Nothing)
    }

    /// Whether one of them is none that a probe could end.
    #[cfg(feature = "weaknesses")]
    pub(crate) fn for_good(self) -> bool {
        let ends = |reason| PROBED.contains(&reason) || reason == PinReason::SessionPooling;
        self.iter().any(|reason| !ends(reason))
    }

    /// Whether something of the session pins, and not the pool's mode alone.
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
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) since: Time,
    /// The beginning of the statement before which it was not.
    pub(crate) statement: Box<str>,
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
