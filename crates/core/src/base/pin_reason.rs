//! Why a client keeps its server between transactions.

/// Why a client keeps its server beyond the end of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub enum PinReason {
    /// Session pooling: the link lasts as long as the connection.
    SessionPooling,
    /// A prepared statement whose text is too long to be kept (see [`crate::statements::prepared`]), or one more than
    /// are kept for a client (see [`crate::statements::client_names`]).
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
    /// currval() and lastval(): only the server has the values.
    Sequences,
    /// A setting whose value the pooler cannot keep, or whose encoding it does not know.
    UnreadableSetting,
    /// A function in C that belongs to no extension: it may keep state in the server process.
    NativeCode,
    /// The server could not tell the state of the session.
    UnknownState,
    /// A custom setting whose name is not in the text: `set_config()` with a computed name, or code that is not
    /// read.
    UntoldSetting,
    /// A statement with constants that was prepared behind a SET, in one pipeline or transaction with it: only the
    /// server knows under which settings it has read them.
    ReadBehindSet,
    /// A setting that only a superuser may set, and that the user who logs in may not: made by a function of a
    /// superuser's (SECURITY DEFINER), or under another role. It cannot be restored on another server.
    GuardedSetting,
}

/// How the effects of a pin are undone when the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) enum Cleanup {
    /// Nothing beyond what session pooling does anyway.
    Nothing,
    /// DISCARD PLANS, where functions may have kept plans: constants in them may have been read under other settings
    /// than those that the session has now.
    Plans,
    /// RESET ALL, and a new seed for random(): the client has run code that is not read, and a probe has asked for
    /// everything else that the code may have left.
    Settings,
    /// DISCARD ALL.
    Discard,
    /// Only the end of the server connection.
    Close,
}

impl PinReason {
    /// All reasons, in the order of their bits.
    pub const ALL: [PinReason; 17] = [
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
        PinReason::ReadBehindSet,
        PinReason::GuardedSetting,
    ];

    /// The text in SHOW PINS and the log.
    pub fn words(self) -> &'static str {
        match self {
            PinReason::SessionPooling => "session pooling",
            PinReason::LongStatement => "prepared statements too long or too many to be tracked",
            PinReason::TemporaryObjects => "temporary objects",
            PinReason::AdvisoryLocks => "advisory locks",
            PinReason::HeldCursors => "cursors with hold",
            PinReason::Listening => "listening",
            PinReason::PreparedStatements => "prepared statements",
            PinReason::Library => "loaded library",
            PinReason::Seed => "seed of random()",
            PinReason::ServerBound => "replication slot, backup, origin or dblink",
            PinReason::Sequences => "current values of sequences",
            PinReason::UnreadableSetting => {
                "settings too long or too many to be kept, or in an encoding that is not known"
            }
            PinReason::NativeCode => "function in C outside an extension",
            PinReason::UntoldSetting => {
                "setting of a name that no text tells (use SET LOCAL, set_config('app.name', .., true) or a literal name)"
            }
            PinReason::ReadBehindSet => {
                "prepared statement behind a SET that its constants are read under (prepare it in a later transaction)"
            }
            PinReason::GuardedSetting => {
                "setting that the login user may not set (use SET LOCAL or GRANT SET ON PARAMETER)"
            }
            PinReason::UnknownState => "session state that the server could not tell",
        }
    }

    /// The cleanup that undoes it.
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
            | PinReason::UntoldSetting
            | PinReason::ReadBehindSet
            | PinReason::GuardedSetting => Cleanup::Discard,
            PinReason::LongStatement
            | PinReason::Library
            | PinReason::Seed
            | PinReason::ServerBound
            | PinReason::NativeCode
            | PinReason::UnknownState => Cleanup::Close,
        }
    }

    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
