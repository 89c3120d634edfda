//! What a server is: PostgreSQL itself, another pooler in front of it, or a pooler's console.
//!
//! Only PostgreSQL has one session for each connection. A pooler in transaction pooling gives each transaction another
//! session, so nothing that is known of "the session of this connection" is true there. Therefore pgweir asks: only in
//! PostgreSQL the process id told at login equals that of the session that answers.
//!
//! A question that fails tells nothing: PostgreSQL itself may refuse it (a time limit, a cancel, no memory). If such a
//! server counted as a console, whose clients get no session of their own, one client's session would reach others.

use crate::base::ids::CLIENT_IDS_FROM;
use crate::base::request::Endpoint;
use foldhash::fast::RandomState;
use pgweir_wire::{CancelKey, ErrorFields};
use std::collections::HashMap;
use std::sync::Arc;

/// The query that asks for the process id. A console answers it with one of [`CONSOLE_ERRORS`] and stays usable.
pub(crate) const QUESTION: &str = "SELECT pg_catalog.pg_backend_pid()";

/// The query for the number of connections that PostgreSQL allows to users without privileges.
pub(crate) const CONNECTIONS_ALLOWED: &str = "SELECT pg_catalog.current_setting('max_connections')::pg_catalog.int4 \
    OPERATOR(pg_catalog.-) pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4 \
    OPERATOR(pg_catalog.-) COALESCE(pg_catalog.current_setting('reserved_connections', true), '0')::pg_catalog.int4";

/// SQLSTATEs of consoles for a command that they do not know: pgweir and Odyssey, PgBouncer, PgCat.
const CONSOLE_ERRORS: [&[u8]; 3] = [b"42601", b"08P01", b"58000"];

/// The settings that every pooler keeps for its clients from server to server. Behind a pooler, pgweir changes no other
/// settings.
const KEPT_BY_POOLERS: [&str; 5] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "standard_conforming_strings",
    "TimeZone",
];

/// What a server is. For a pool, the greatest value among its servers counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) enum Nature {
    /// PostgreSQL: a connection is a session.
    #[default]
    PostgreSql,
    /// Another pooler: two transactions on one connection may run in two sessions.
    Pooler,
    /// It runs no SQL: the console of a pooler.
    Console,
}

impl Nature {
    /// Decides by the process id that the server has answered to [`QUESTION`].
    pub(crate) fn by_answer(told_at_login: Option<u32>, answered: u32) -> Nature {
        match told_at_login {
            Some(told) if told == answered => Nature::PostgreSql,
            _ => Nature::Pooler,
        }
    }

    /// Whether sessions can be kept for clients of such servers.
    #[inline]
    pub(crate) fn is_postgresql(self) -> bool {
        self == Nature::PostgreSql
    }

    /// The text for the log when a server turns out to be this.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Nature::PostgreSql => "the server is PostgreSQL itself: sessions are kept as session_state says",
            Nature::Pooler => {
                "the server is another pooler: its clients get what session_state = pgbouncer gives, whatever is set"
            }
            Nature::Console => "the server is the console of a pooler: nothing but its clients' commands is sent to it",
        }
    }
}

/// The most servers whose nature is remembered.
const KNOWN_MAX: usize = 1024;

/// The databases of servers that are not PostgreSQL, as the latest answer of each has shown. A console is one database of
/// another pooler.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Natures {
    known: HashMap<(Endpoint, Arc<str>), Known, RandomState>,
}

#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
struct Known {
    nature: Nature,
    /// Something has happened since that may have made it another one.
    in_doubt: bool,
}

impl Natures {
    fn of(&self, endpoint: &Endpoint, database: &str) -> Option<Known> {
        // Nearly always there are none.
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&(endpoint.clone(), database.into())).copied()
    }

    /// Whether the latest answer has shown that it is not PostgreSQL.
    pub(crate) fn is_known_otherwise(&self, endpoint: &Endpoint, database: &str) -> bool {
        self.of(endpoint, database).is_some()
    }

    /// What a server is that cannot be PostgreSQL, if it need not be asked.
    pub(crate) fn of_no_postgresql(&self, endpoint: &Endpoint, database: &str) -> Option<Nature> {
        self.of(endpoint, database)
            .filter(|known| !known.in_doubt)
            .map(|known| known.nature)
    }

    /// A server has shown what it is. Returns what was known before.
    pub(crate) fn learn(&mut self, endpoint: Endpoint, database: &str, nature: Nature) -> Nature {
        let before = self.of(&endpoint, database).map(|known| known.nature);
        let key = (endpoint, database.into());
        if nature.is_postgresql() {
            if before.is_some() {
                self.known.remove(&key);
            }
        } else {
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            let in_doubt = false;
            self.known.insert(key, Known { nature, in_doubt });
        }
        before.unwrap_or_default()
    }

    /// There may be another server now: the next one is asked.
    pub(crate) fn doubt(&mut self, endpoint: &Endpoint, database: &str) {
        if self.known.is_empty() {
            return;
        }
        if let Some(known) = self.known.get_mut(&(endpoint.clone(), database.into())) {
            known.in_doubt = true;
        }
    }
}

/// Whether a server with this key can be PostgreSQL: other poolers send random process ids, and pgweir sends ids that
/// no process has.
pub(crate) fn could_be_postgresql(key: Option<&CancelKey>) -> bool {
    key.is_some_and(|key| key.process_id > 0 && key.process_id < CLIENT_IDS_FROM)
}

/// Whether this error, in answer to [`QUESTION`], comes from a console. PostgreSQL names the routine of its source that
/// reports an error; no console does.
pub(crate) fn is_of_console(error: &ErrorFields<'_>) -> bool {
    error.routine.is_empty() && CONSOLE_ERRORS.contains(&error.sqlstate)
}

/// Whether every pooler keeps this setting for its clients.
pub(crate) fn is_kept_by_poolers(name: &str) -> bool {
    KEPT_BY_POOLERS.iter().any(|kept| kept.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_process_ids_are_postgresql() {
        assert_eq!(Nature::by_answer(Some(7), 7), Nature::PostgreSql);
        assert_eq!(Nature::by_answer(Some(7), 8), Nature::Pooler);
        assert_eq!(Nature::by_answer(None, 8), Nature::Pooler);
    }

    #[test]
    fn only_what_a_console_says_makes_a_console() {
        let error = |sqlstate, routine| ErrorFields {
            sqlstate,
            routine,
            ..ErrorFields::default()
        };
        for sqlstate in CONSOLE_ERRORS {
            assert!(is_of_console(&error(sqlstate, b"")));
            assert!(!is_of_console(&error(sqlstate, b"scanner_yyerror")));
        }
        for sqlstate in [&b"57014"[..], b"55P03", b"53200", b"42501", b""] {
            assert!(!is_of_console(&error(sqlstate, b"")));
        }
    }

    #[test]
    fn numbers_that_no_process_has_are_not_postgresql_s() {
        let key = |process_id| CancelKey {
            process_id,
            secret: Default::default(),
        };
        assert!(could_be_postgresql(Some(&key(CLIENT_IDS_FROM - 1))));
        assert!(!could_be_postgresql(Some(&key(CLIENT_IDS_FROM))));
        assert!(!could_be_postgresql(Some(&key(0))) && !could_be_postgresql(None));
    }
}
