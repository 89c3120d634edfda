//! Facts that the server reports about itself.

use crate::{Error, Result};
use postgres::Client;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// The settings that go with every result.
const TOLD_SETTINGS: [&str; 14] = [
    "max_connections",
    "superuser_reserved_connections",
    "shared_buffers",
    "work_mem",
    "maintenance_work_mem",
    "effective_cache_size",
    "max_parallel_workers_per_gather",
    "synchronous_commit",
    "fsync",
    "wal_level",
    "autovacuum",
    "huge_pages",
    "jit",
    "ssl",
];

/// The server's version, state and settings.
#[derive(Debug, Clone, Serialize)]
pub struct Facts {
    /// As the server writes it, such as `15.18 (Debian 15.18-1)`.
    pub version: String,
    /// As a number, such as 150018.
    pub version_number: u32,
    /// Whether it is a standby or in recovery.
    pub in_recovery: bool,
    /// Whether the lab's role is a superuser.
    pub superuser: bool,
    /// Whether the lab's role may see the activity of other sessions.
    pub sees_all_activity: bool,
    /// The largest number of connections that the lab's role can open.
    pub connections_max: u32,
    /// The client connections that were open, including the lab's.
    pub connections_used: u32,
    /// Settings, as `SHOW` writes them.
    pub settings: BTreeMap<String, String>,
}

impl Facts {
    /// Asks the server.
    pub fn ask(client: &mut Client) -> Result<Self> {
        let told: Vec<&str> = TOLD_SETTINGS.to_vec();
        let row = client
            .query_one(
                "select current_setting('server_version'), current_setting('server_version_num')::int4,
                    pg_is_in_recovery(), r.rolsuper,
                    r.rolsuper or pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
                    current_setting('max_connections')::int4
                      - case when r.rolsuper then 0 else current_setting('superuser_reserved_connections')::int4
                          + coalesce(current_setting('reserved_connections', true), '0')::int4 end,
                    (select count(*) from pg_stat_activity where backend_type = 'client backend')::int4
                 from pg_roles r where r.rolname = current_user",
                &[],
            )
            .map_err(|e| query_error(&e))?;
        let settings = client
            .query(
                "select name, current_setting(name) from pg_settings where name = any ($1)",
                &[&told],
            )
            .map_err(|e| query_error(&e))?;
        let count = |i: usize| u32::try_from(row.get::<_, i32>(i)).unwrap_or(0);
        Ok(Facts {
            version: row.get(0),
            version_number: count(1),
            in_recovery: row.get(2),
            superuser: row.get(3),
            sees_all_activity: row.get(4),
            connections_max: count(5),
            connections_used: count(6),
            settings: settings.into_iter().map(|row| (row.get(0), row.get(1))).collect(),
        })
    }

    /// Major version, such as 15.
    pub fn major(&self) -> u32 {
        self.version_number / 10_000
    }

    /// The number of connections that the lab can still open.
    pub fn connections_free(&self) -> u32 {
        self.connections_max.saturating_sub(self.connections_used)
    }
}

/// Whether the server has gone away: it closed the connection, or the system reports an error of the socket, whichever
/// is seen first.
pub fn is_connection_lost(error: &postgres::Error) -> bool {
    let system = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    error.is_closed()
        || system.is_some_and(|e| {
            matches!(
                e.kind(),
                ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::UnexpectedEof
            )
        })
}

/// The server's answer to a query, with its hint.
pub fn query_error(error: &postgres::Error) -> Error {
    let Some(answer) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        return Error::new(if is_connection_lost(error) {
            "the server closed the connection unexpectedly".to_owned()
        } else {
            cause
        });
    };
    let failed = Error::new(answer.message());
    match answer.hint() {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}
