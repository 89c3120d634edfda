//! Why a server is to be closed as soon as it is free.

/// Why a server is closed instead of being given back to its pool. Operators see the texts in the log, and clients where
/// `server_fast_close` is on; those of PgBouncer are its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum CloseReason {
    /// It makes a place for another pool under a limit that they share.
    Evicted,
    /// RECONNECT.
    Reconnect,
    /// RELOAD or SET: its pool's servers are others now.
    DatabaseChanged,
    /// What was known of its sessions was wrong: its pool was behind another pooler.
    WasBehindPooler,
    /// KILL_CLIENT.
    Killed,
    /// DROP DATABASE and its kin.
    InTheWay,
    /// Its host is not, or may not be, what target_session_attrs wants any more.
    Turned,
    /// The name of its host has other addresses now.
    AddressGone,
    /// It has refused settings that it had accepted before.
    NotRestored,
    /// Its client did what only the end of the connection undoes.
    TracesLeft,
    /// A probe of its session has failed.
    StateUnknown,
    /// A step of moving channels has failed.
    ChannelsUnknown,
    /// What it holds of prepared statements is not what it should.
    OutOfStep,
    /// It may hold a statement of which the pooler does not know the text.
    StatementTooLong,
    /// A Query came between an Execute and its Sync.
    QueryInPipeline,
    /// Which Syncs it had swallowed among the data of a copy is not known.
    SyncAmongCopyData,
    /// It has sent an ErrorResponse that answers nothing.
    ErrorOutsideQuery,
}

impl CloseReason {
    /// The words for the log.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            CloseReason::Evicted => "evicted",
            CloseReason::Reconnect => "close_needed",
            CloseReason::DatabaseChanged => "database configuration changed",
            CloseReason::WasBehindPooler => "the server is no longer another pooler",
            CloseReason::Killed => "admin forced disconnect",
            CloseReason::InTheWay => "a statement needs its database without connections",
            CloseReason::Turned => "target_session_attrs do not fit any more",
            CloseReason::AddressGone => "obsolete connection",
            CloseReason::NotRestored => "invalid server parameter",
            CloseReason::TracesLeft => "its client's session cannot be undone",
            CloseReason::StateUnknown => "the state of its session is not known",
            CloseReason::ChannelsUnknown => "what it listens to is not known",
            CloseReason::OutOfStep => "prepared statements out of step",
            CloseReason::StatementTooLong => "a prepared statement too long to be tracked",
            CloseReason::QueryInPipeline => "a query inside a pipeline",
            CloseReason::SyncAmongCopyData => "Sync among the data of a copy that failed",
            CloseReason::ErrorOutsideQuery => "error outside a query",
        }
    }
}
