//! Why a server is to be closed as soon as it is free.

/// The limit that has no room for a pool's server, so that a server of another pool makes way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum FullLimit {
    /// `max_db_connections`
    Database,
    /// `max_user_connections`
    User,
    /// `pool_size`, in which replication connections count.
    Pool,
    /// The servers at work on one host.
    Host,
}

/// Why a server is closed instead of being given back to its pool. The texts appear in the log, and with
/// `server_fast_close` clients get them. Where PgBouncer closes a server for the same reason, the text is PgBouncer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum CloseReason {
    /// Its place is needed by another pool under a common limit.
    Evicted(FullLimit),
    /// RECONNECT.
    Reconnect,
    /// RELOAD or SET has changed the address, name, user or password of its database.
    DatabaseChanged,
    /// A RELOAD has changed how sessions share servers. What earlier clients have left on this server was followed less
    /// closely than it is now.
    PoolingChanged,
    /// A newer server of its pool is PostgreSQL while the older ones are poolers, or the other way round. What clients
    /// have left on this server is not known, or no restoration would undo it.
    NatureChanged,
    /// It has not answered the question whether it is PostgreSQL.
    NatureUnknown,
    /// KILL_CLIENT.
    Killed,
    /// DROP DATABASE or a similar command needs its database without connections.
    InTheWay,
    /// A role or a database was altered: a new session begins with other settings or another role, or is refused.
    DefaultsChanged,
    /// Its host no longer has, or may no longer have, the state that target_session_attrs asks for.
    Turned,
    /// The name of its host has other addresses now.
    AddressGone,
    /// It has refused settings that a server had accepted before.
    NotRestored,
    /// Its client has left state that only the end of the connection undoes.
    TracesLeft,
    /// A probe of its session has failed.
    StateUnknown,
    /// A cancel request for its work may still arrive.
    CancelMayCome,
    /// A step of moving channels has failed.
    ChannelsUnknown,
    /// The server does not hold the statements that the pooler believes it holds.
    OutOfStep,
    /// It may hold a statement whose text the pooler does not know.
    StatementTooLong,
    /// A Query came between an Execute and its Sync.
    QueryInPipeline,
    /// It is not known which Syncs it has ignored among the data of a COPY.
    SyncAmongCopyData,
    /// It has sent an ErrorResponse that is no reply to a request.
    ErrorOutsideQuery,
}

impl CloseReason {
    /// Whether the servers that replace it may be others: they may have other settings, and accept other values.
    pub(crate) const fn means_other_servers(self) -> bool {
        matches!(
            self,
            CloseReason::DatabaseChanged | CloseReason::NatureChanged | CloseReason::DefaultsChanged
        )
    }

    /// The text for a server that has not been logged in to, or has just been.
    pub(crate) const fn text_at_login(self) -> &'static str {
        match self {
            CloseReason::Reconnect | CloseReason::DatabaseChanged => "connect string changed",
            _ => self.text(),
        }
    }

    /// Whether it makes way for another pool.
    pub(crate) const fn is_eviction(self) -> bool {
        matches!(self, CloseReason::Evicted(_))
    }

    /// The text for a server that its client has just given back. PgBouncer has another one for servers that it closes
    /// while they are idle. `is_early`: `server_fast_close` has ended its client's session, so that it was idle.
    pub(crate) const fn text_at_release(self, is_early: bool) -> &'static str {
        match self {
            CloseReason::Reconnect | CloseReason::DatabaseChanged if !is_early => "close_needed",
            _ => self.text(),
        }
    }

    /// The text for the log.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            CloseReason::Evicted(FullLimit::Database) => "evicted for max_db_connections",
            CloseReason::Evicted(FullLimit::User) => "evicted for max_user_connections",
            CloseReason::Evicted(FullLimit::Pool) => "evicted for pool_size",
            CloseReason::Evicted(FullLimit::Host) => "evicted for another pool of its host",
            CloseReason::Reconnect | CloseReason::DatabaseChanged => "database configuration changed",
            CloseReason::PoolingChanged => "pooling configuration changed",
            CloseReason::NatureChanged => "the servers of its pool are something else now",
            CloseReason::NatureUnknown => "it is not known whether the server is PostgreSQL",
            CloseReason::Killed => "admin forced disconnect",
            CloseReason::InTheWay => "a statement needs its database without connections",
            CloseReason::DefaultsChanged => "new sessions begin with other settings or rights",
            CloseReason::Turned => "target_session_attrs do not fit any more",
            CloseReason::AddressGone => "obsolete connection",
            CloseReason::NotRestored => "invalid server parameter",
            CloseReason::TracesLeft => "its client's session cannot be undone",
            CloseReason::StateUnknown => "the state of its session is not known",
            CloseReason::CancelMayCome => "a cancel request may still arrive",
            CloseReason::ChannelsUnknown => "what it listens to is not known",
            CloseReason::OutOfStep => "prepared statements out of step",
            CloseReason::StatementTooLong => "prepared statements too long or too many to be tracked",
            CloseReason::QueryInPipeline => "a query inside a pipeline",
            CloseReason::SyncAmongCopyData => "Sync inside the data of a failed COPY",
            CloseReason::ErrorOutsideQuery => "error outside a query",
        }
    }
}
