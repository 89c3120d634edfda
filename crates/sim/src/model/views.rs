//! Internal questions about a session and about functions, which are known by their texts.
//!
//! The model cannot read their SQL. A text that differs from these is an error, which the simulation reports.

use super::statement::{SetTo, Statement};
use super::value::Type;

/// The reasons for pins, a column for each of [`super::Ties`], and whether the session has a schema for temporary
/// objects. The parameters say whether to look for locks, which statements not to count, and whether those that were made
/// by Parse count.
const TIES: &str = "SELECT \
    EXISTS (SELECT FROM pg_catalog.pg_depend d \
        WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
        AND d.refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()), \
    CASE WHEN $1 THEN EXISTS (SELECT FROM pg_catalog.pg_locks l \
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' \
        AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()) ELSE false END, \
    EXISTS (SELECT FROM pg_catalog.pg_cursors c WHERE c.is_holdable), \
    EXISTS (SELECT FROM pg_catalog.pg_listening_channels()), \
    EXISTS (SELECT FROM pg_catalog.pg_prepared_statements p \
        WHERE (p.from_sql OR $3) AND p.name OPERATOR(pg_catalog.<>) ALL ($2)), \
    pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// Name and value of every setting that the session has set, and whether its user may not set it; the parameter names
/// those that pg_settings does not show.
const MADE: &str = "SELECT s.name, s.setting, s.context OPERATOR(pg_catalog.=) 'superuser' \
        AND NOT pg_catalog.has_parameter_privilege(session_user, s.name, 'SET') \
        OR current_user OPERATOR(pg_catalog.<>) session_user AND (s.name OPERATOR(pg_catalog.=) 'temp_tablespaces' \
            OR s.name OPERATOR(pg_catalog.=) 'default_text_search_config' \
            AND s.setting OPERATOR(pg_catalog.!~~) 'pg_catalog.%') FROM pg_catalog.pg_settings s \
    WHERE s.source OPERATOR(pg_catalog.=) 'session' \
    UNION ALL SELECT n, pg_catalog.current_setting(n, true), false FROM pg_catalog.unnest($1) AS u(n)";

/// Sets a setting for the transaction, unless it has this value; tells the earlier value, and whether the session had set
/// it.
const LIFT: &str = "SELECT $1, pg_catalog.current_setting($1), \
    CASE WHEN pg_catalog.current_setting($1) OPERATOR(pg_catalog.<>) $2 THEN \
        (SELECT s.source OPERATOR(pg_catalog.=) 'session' FROM pg_catalog.pg_show_all_settings() s \
            WHERE s.name OPERATOR(pg_catalog.=) $1) END, \
    CASE WHEN pg_catalog.current_setting($1) OPERATOR(pg_catalog.<>) $2 THEN \
        pg_catalog.set_config($1, $2, true) END";

/// Whether the session has a schema for temporary objects, which DISCARD ALL does not remove.
const REMAINS: &str = "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// The same; statistics are reported at once.
const REMAINS_FLUSHED: &str =
    "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 FROM pg_catalog.pg_stat_force_next_flush()";

/// The channels that the session listens to.
const CHANNELS: &str = "SELECT c FROM pg_catalog.pg_listening_channels() AS c LIMIT 65";

/// The limit in [`CHANNELS`].
pub(super) const CHANNELS_LISTED: usize = 65;

/// Lifts the limits that could end a listener. None of them exists in the model, so it is answered like SET.
const NO_LIMITS: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
    WHERE name OPERATOR(pg_catalog.=) ANY ('{idle_session_timeout,statement_timeout,lock_timeout}'::pg_catalog.text[])";

/// Columns of [`CHANNELS`].
pub(super) const CHANNELS_COLUMNS: [&str; 1] = ["c"];

/// Columns of [`TIES`], as PostgreSQL names them.
pub(super) const TIES_COLUMNS: [&str; 6] = ["exists", "case", "exists", "exists", "exists", "?column?"];

/// Columns of [`REMAINS`].
pub(super) const REMAINS_COLUMNS: [&str; 1] = ["?column?"];

/// Columns of [`MADE`].
pub(super) const MADE_COLUMNS: [(&str, Type); 3] =
    [("name", Type::Text), ("setting", Type::Text), ("?column?", Type::Bool)];

/// The beginnings of the statements that read what functions do to sessions.
const CATALOG: [&str; 3] = [
    "WITH RECURSIVE later AS (",
    "SELECT s.oid, s.language, ",
    "SELECT pg_catalog.pg_is_in_recovery(), CASE ",
];

/// Resets the settings of a session that has run code that is not read.
const RESET_SETTINGS: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DISCARD PLANS";

/// The beginning of the text that seeds random(); the seed and [`REMAINS`] follow.
const SEEDS: &str = "SELECT pg_catalog.setseed(";

/// The beginning of the text that removes what login event triggers have left; [`REMAINS`] follows. The model has no
/// event triggers.
const EMPTY: &str = "CLOSE ALL; DEALLOCATE ALL; DISCARD TEMP; ";

/// DISCARD PLANS in a transaction that is not delayed; here none is.
const DISCARD_AT_ONCE: (&str, &str) = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; DISCARD PLANS",
    "discard plans",
);

/// The question for the process id, which distinguishes other poolers.
pub(super) const WHOSE_SESSION: &str = "SELECT pg_catalog.pg_backend_pid()";

/// The beginning of the question for the number of connections that the server allows, and a text with a small answer.
const CONNECTIONS_ALLOWED: (&str, &str) = ("SELECT pg_catalog.current_setting('max_connections')", "select 9");

/// The beginning of the text that gives the planner's settings their defaults, and a text that returns the same row. The
/// model has no planner.
const PLANNER_DEFAULTS: (&str, &str) = ("SELECT pg_catalog.count(pg_catalog.set_config(s.name, ", "select 0");

/// The beginning of the question whether a client may call a function that the pooler carries out, and a text that grants
/// it. The model has no such rights.
const RIGHT: (&str, &str) = (
    "SELECT pg_catalog.has_function_privilege(pg_catalog.to_regproc('",
    "select true",
);

/// A text, or one that the model can read and that returns the same rows.
pub(super) fn in_other_words(text: &str) -> &str {
    if text == WHOSE_SESSION {
        return "select pg_backend_pid()";
    }
    if text == DISCARD_AT_ONCE.0 {
        return DISCARD_AT_ONCE.1;
    }
    if text.starts_with(RIGHT.0) {
        return RIGHT.1;
    }
    if text.starts_with(PLANNER_DEFAULTS.0) {
        return PLANNER_DEFAULTS.1;
    }
    if text == LIFT {
        return "select $1, current_setting($1), other_is_made($1, $2), lift($1, $2)";
    }
    if text.starts_with(CONNECTIONS_ALLOWED.0) {
        return CONNECTIONS_ALLOWED.1;
    }
    text
}

/// The statement by which the pooler sets settings.
const SET_CONFIG: &str = "SELECT pg_catalog.set_config($1, $2, false)";

/// The statement by which the pooler cleans sessions. Clients of the simulation write it in lower case.
const DISCARD_ALL: &str = "DISCARD ALL";

/// Whether only the pooler sends such a text. Then it may read any catalog.
pub(super) fn is_of_pooler(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| question(text).is_some() || text == SET_CONFIG || text == DISCARD_ALL)
}

/// The statement of a text, if it is one of these.
pub(super) fn question(text: &str) -> Option<Statement> {
    match text {
        TIES => Some(Statement::Ties),
        RESET_SETTINGS => Some(Statement::ResetSettings),
        _ if text.starts_with(CATALOG[0]) => Some(Statement::Objects),
        _ if text.starts_with(CATALOG[1]) => Some(Statement::Sources),
        _ if text.starts_with(CATALOG[2]) => Some(Statement::Position),
        _ if text.starts_with(SEEDS)
            && [REMAINS, REMAINS_FLUSHED]
                .iter()
                .any(|question| text.ends_with(question)) =>
        {
            Some(Statement::Remains { seeds: true })
        }
        _ if text.starts_with(EMPTY) => Some(Statement::Remains { seeds: false }),
        REMAINS | REMAINS_FLUSHED => Some(Statement::Remains { seeds: false }),
        MADE => Some(Statement::Made),
        CHANNELS => Some(Statement::Channels),
        NO_LIMITS => Some(Statement::Set {
            name: "statement_timeout".into(),
            value: SetTo::Value("0".into()),
            local: false,
        }),
        _ => None,
    }
}

/// The elements of `{"a","b"}`, as a text[] is written with all its elements quoted.
pub(super) fn elements(array: &str) -> Vec<String> {
    let mut elements = Vec::new();
    let mut element = None;
    let mut chars = array.chars();
    while let Some(c) = chars.next() {
        match (c, &mut element) {
            ('"', None) => element = Some(String::new()),
            ('"', Some(_)) => elements.extend(element.take()),
            ('\\', Some(text)) => text.extend(chars.next()),
            (c, Some(text)) => text.push(c),
            (_, None) => {}
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_falls_into_its_elements() {
        assert_eq!(elements("{}"), Vec::<String>::new());
        assert_eq!(elements(r#"{"app.a","q\"b\\"}"#), ["app.a", "q\"b\\"]);
    }
}
