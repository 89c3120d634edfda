//! Which pool, and what for.

use std::sync::Arc;
/// A pool's place in the table of pools; pools live as long as the process or until `autodb_idle_timeout`.
pub(crate) type PoolId = u32;

/// What a pool's servers are for. Servers of one kind never serve another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) enum PoolKind {
    /// Clients.
    Clients,
    /// auth_query: no client and no client's setting ever reaches these servers.
    AuthQuery,
    /// Listener connections (see [`crate::flow::listener`]).
    Listener,
    /// Streaming replication: servers are opened with the client's `replication` parameter and closed after use.
    Replication {
        /// Physical replication (`replication=true`), which has no database; else logical (`replication=database`).
        physical: bool,
    },
}

impl PoolKind {
    /// Whether its servers stream replication.
    pub(crate) fn is_replication(self) -> bool {
        matches!(self, PoolKind::Replication { .. })
    }
}

/// What a pool is looked up by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub(crate) struct PoolKey {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) kind: PoolKind,
    /// What its servers are started with, because clients ask for it: settings that only a new connection can have.
    pub(crate) start: Box<[StartupValue]>,
}

/// Why the last attempt to open a server failed.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct LoginFailure {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    /// Opening the connection failed, or the server said that it is only a matter of time.
    pub(crate) temporary: bool,
}

impl LoginFailure {
    /// What PgBouncer tells clients that come later.
    pub(crate) fn cached(&self) -> LoginFailure {
        const BEGINNING: &str = "server login has been failing, cached error: ";
        let message = match self.message.starts_with(BEGINNING) {
            true => self.message.clone(),
            false => format!("{BEGINNING}{} (server_login_retry)", self.message),
        };
        LoginFailure {
            message,
            ..self.clone()
        }
    }
}

/// A startup parameter as a client gave it: name and value.
pub(crate) type StartupValue = (Box<str>, Box<str>);
