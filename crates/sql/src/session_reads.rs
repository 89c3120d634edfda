//! Routines whose result depends on the session.
//!
//! PostgreSQL computes calls of immutable routines when it plans a statement. A routine that reads a setting or the
//! role must not be declared so, but some are; on a direct connection their plans stay with one client.
//!
//! The names below are those of PostgreSQL 15 and 18, in SQL and in C: functions of pg_proc that are not immutable and
//! tell something about the session or a right of its role, and the views of `pg_catalog` that call one of them.

use crate::known_names::words;
use crate::lexer::{Lexer, Token};
use crate::search::contains;

/// Words that read the session wherever they stand: also behind a schema, in quotes, and in the text of dynamic SQL.
const ANYWHERE: [&str; 29] = [
    "current_query",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "getpgusername",
    "inet_client_addr",
    "inet_client_port",
    // All of its views show only what the role has a right to.
    "information_schema",
    "lastval",
    "pg_backend_memory_contexts",
    "pg_backend_pid",
    "pg_client_encoding",
    "pg_cursor",
    "pg_cursors",
    "pg_get_backend_memory_contexts",
    "pg_listening_channels",
    "pg_lock_status",
    "pg_locks",
    "pg_prepared_statement",
    "pg_prepared_statements",
    "pg_sequence_last_value",
    "pg_sequences",
    "pg_settings",
    "pg_show_all_settings",
    "pg_user_mappings",
    "session_user",
    "system_user",
];

/// Words that begin so read the session wherever they stand. `pg_stat` are the statistics of sessions: of the client's
/// own, and of those that its role may see.
const BEGINNINGS: [&str; 14] = [
    "currval",
    "get_current_ts_config",
    "pg_advisory_",
    "pg_has_role",
    "pg_is_other_temp_schema",
    "pg_my_temp_schema",
    "pg_stat",
    "pg_temp",
    "pg_timezone_abbrevs",
    "pg_try_advisory_",
    "row_security_active",
    "set_config",
    "show_all_settings",
    "show_config_by_name",
];

/// Words that do so outside of constants and comments, and in the constants of a routine with dynamic SQL. Many tables
/// have columns of these names.
const OUTSIDE: [&str; 2] = ["user", "show"];

/// Whether the body of a routine, or its name in C, may read a setting, the role or another state of the session. What
/// it calls does not count.
pub fn reads_session(source: &[u8]) -> bool {
    let is_one_of = |word: &[u8], names: &[&str]| names.iter().any(|n| word.eq_ignore_ascii_case(n.as_bytes()));
    let mut dynamic = false;
    for word in words(source) {
        if is_one_of(word, &ANYWHERE) || has_beginning(word) || asks_for_right(word) {
            return true;
        }
        dynamic |= is_one_of(word, &["execute"]);
    }
    // U&"..": letters may be escapes, so any name may be meant.
    if contains(source, b"&\"") || dynamic && words(source).any(|word| is_one_of(word, &OUTSIDE)) {
        return true;
    }
    let reads = |lexer: Lexer<'_>| {
        let mut before = Token::Byte(b';');
        for token in lexer {
            if let Token::Word(word) = token
                && before != Token::Byte(b'.')
                && is_one_of(word, &OUTSIDE)
            {
                return true;
            }
            before = token;
        }
        false
    };
    Lexer::readings(source).any(reads)
}

fn has_beginning(word: &[u8]) -> bool {
    let begins = |name: &&str| {
        word.get(..name.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    BEGINNINGS.iter().any(begins)
}

/// `has_table_privilege` and its like; in C, `has_table_privilege_id` and others.
fn asks_for_right(word: &[u8]) -> bool {
    let begins = word.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"has_"));
    begins && contains(word, b"_privilege")
}

#[cfg(test)]
mod tests {
    use super::reads_session;

    #[test]
    fn a_body_that_reads_a_setting_or_the_role_is_told_from_one_that_does_not() {
        for source in [
            "select current_setting('app.tenant')",
            "begin execute 'select Current_User'; end",
            "select user",
            "begin return has_table_privilege('t', 'select'); end",
            "select current_schema",
            r"select '\'', user, '\''",
        ] {
            assert!(reads_session(source.as_bytes()), "{source}");
        }
        for source in [
            "select a + 1 -- of the user",
            "select t.user from t",
            "select \"user\", 'user' from t",
            "begin return lower(has); end",
            "select has_children, privilege from t",
            "select to_tsvector('english', a)",
            "byteain",
        ] {
            assert!(!reads_session(source.as_bytes()), "{source}");
        }
    }

    /// Guards against names that are looked for only where no schema and no quote stands before them.
    #[test]
    fn names_behind_a_schema_and_in_quotes_are_found() {
        for source in [
            "select pg_catalog.pg_has_role('a', 'usage')",
            "select pg_catalog . HAS_TABLE_PRIVILEGE('t', 'select')",
            "select \"pg_has_role\"('a', 'usage')",
            "select pg_catalog.\"has_schema_privilege\"('s', 'usage')",
            "select pg_catalog.current_schema()",
            "select u&\"p!0067_has_role\" uescape '!' ('a', 'usage')",
            "begin execute 'select pg_has_role(''a'', ''usage'')' into x; end",
            "begin execute 'select user' into x; end",
        ] {
            assert!(reads_session(source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn views_and_names_in_c_are_found() {
        for source in [
            "select setting from pg_settings where name = 'application_name'",
            "select application_name from pg_catalog.pg_stat_activity",
            "select count(*) from information_schema.enabled_roles",
            "select count(*) from pg_locks",
            "table pg_stats",
            "select count(*) from pg_temp.t",
            "current_user",
            "show_config_by_name_missing_ok",
            "pg_has_role_name",
            "has_column_privilege_id_attnum",
            "row_security_active_name",
            "currval_oid",
            "pg_stat_get_activity",
        ] {
            assert!(reads_session(source.as_bytes()), "{source}");
        }
    }
}
