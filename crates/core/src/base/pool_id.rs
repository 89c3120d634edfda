//! Which pool, and which purpose it has.

use std::sync::Arc;
/// A pool's place in the table of pools. A pool lives as long as the process, or until `autodb_idle_timeout`.
pub(crate) type PoolId = u32;

/// The purpose of a pool's servers. A server never changes its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) enum PoolKind {
    /// Clients.
    Clients,
    /// auth_query. No client's message or setting reaches these servers.
    AuthQuery,
    /// Listener connections (see [`crate::listening`]).
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

/// The key of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub(crate) struct PoolKey {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) kind: PoolKind,
    /// Startup parameters of its servers that clients have asked for: settings that only a new connection can have.
    pub(crate) start: Box<[StartupValue]>,
}

/// Why the last attempt to open a server failed.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct LoginFailure {
    /// The SQLSTATE, if the server was reached.
    pub(crate) sqlstate: Option<String>,
    pub(crate) message: String,
    /// The connection could not be opened, or the server said that a later attempt may succeed.
    pub(crate) temporary: bool,
}

impl LoginFailure {
    /// A later attempt may succeed.
    pub(crate) fn temporary(message: impl Into<String>) -> LoginFailure {
        LoginFailure {
            sqlstate: None,
            message: message.into(),
            temporary: true,
        }
    }

    /// Whether the server refuses the credential, as far as its SQLSTATE shows, or cannot be answered with it.
    pub(crate) fn is_about_credential(&self) -> bool {
        self.sqlstate
            .as_ref()
            .is_some_and(|sqlstate| sqlstate.starts_with("28"))
    }

    /// The failure as later clients are told, in PgBouncer's words.
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
