//! Internal statements: those by which the pooler asks a server something or sets a setting there.

use crate::base::secret_names::{InternalNames, SecretNames};
use crate::statements::prepared::Statement;
use std::sync::Arc;

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct InternalStatements {
    /// Other internal names.
    pub(crate) names: InternalNames,
    /// Sets a setting; NULL resets it.
    pub(crate) set_config: Arc<Statement>,
    /// Begins the transaction of a deferred BEGIN.
    pub(crate) begin: Arc<Statement>,
    /// Keeps a setting's value in a custom setting (the third parameter) and sets the setting for this transaction.
    pub(crate) set_for_parse: Arc<Statement>,
    /// Gives a setting the value that was kept.
    pub(crate) set_back: Arc<Statement>,
    /// Like `set_config`, for the transaction only; returns the name and the earlier value.
    pub(crate) set_config_local: Arc<Statement>,
    /// Sets a setting for the transaction, unless it has this value; returns the name, the earlier value, and whether the
    /// session had set that one. The last is NULL if nothing was set. See [`LIFT`].
    pub(crate) lift: Arc<Statement>,
    /// Begins a transaction that the session's defaults cannot delay.
    pub(crate) begin_plain: Arc<Statement>,
    /// Ends that transaction.
    pub(crate) commit: Arc<Statement>,
    /// One row: the reasons for pins, a column for each of [`crate::state::pins::PROBED`], and whether the session has
    /// a schema for temporary objects. The parameters say whether to look for locks, which prepared
    /// statements need no pin, and whether those that were made by Parse count.
    pub(crate) probe_pins: Arc<Statement>,
    /// Name and value of every setting that the session has set, and whether its user may not set it; the parameter
    /// names those that pg_settings does not show.
    pub(crate) probe_settings: Arc<Statement>,
    /// Like `probe_settings`, for servers older than PostgreSQL 15, where no right to set a setting can be granted. A
    /// server gets one of the two, so they have the same name.
    pub(crate) probe_settings_14: Arc<Statement>,
    /// Discards the session's values of sequences.
    pub(crate) discard_sequences: Arc<Statement>,
    /// Discards all plans, those of functions too.
    pub(crate) discard_plans: Arc<Statement>,
    /// Channels that the session listens to, up to [`CHANNELS_LISTED`].
    pub(crate) listening_channels: Arc<Statement>,
    /// How far the server's write-ahead log has got.
    pub(crate) catalog_position: Arc<Statement>,
    /// Routines of the database, and what runs them: see [`crate::statements::catalog_query`].
    pub(crate) catalog_objects: Arc<Statement>,
    /// The source of routines.
    pub(crate) catalog_sources: Arc<Statement>,
    /// The name for statements that are used once: the statement of this name is closed before each use.
    pub(crate) scratch: Arc<Statement>,
}

/// The limit in [`InternalStatements::listening_channels`].
pub(crate) const CHANNELS_LISTED: usize = 65;

/// See [`InternalStatements::probe_pins`]. Temporary objects of every kind depend on their schema (recording E11).
const PROBE_PINS: &str = "SELECT \
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

/// See [`InternalStatements::probe_settings`].
const PROBE_SETTINGS: &str = "SELECT s.name, s.setting, s.context OPERATOR(pg_catalog.=) 'superuser' \
        AND NOT pg_catalog.has_parameter_privilege(session_user, s.name, 'SET') \
        OR current_user OPERATOR(pg_catalog.<>) session_user AND (s.name OPERATOR(pg_catalog.=) 'temp_tablespaces' \
            OR s.name OPERATOR(pg_catalog.=) 'default_text_search_config' \
            AND s.setting OPERATOR(pg_catalog.!~~) 'pg_catalog.%') FROM pg_catalog.pg_settings s \
    WHERE s.source OPERATOR(pg_catalog.=) 'session' \
    UNION ALL SELECT n, pg_catalog.current_setting(n, true), false FROM pg_catalog.unnest($1) AS u(n)";

/// See [`InternalStatements::probe_settings_14`].
const PROBE_SETTINGS_14: &str = "SELECT s.name, s.setting, s.context OPERATOR(pg_catalog.=) 'superuser' \
        OR current_user OPERATOR(pg_catalog.<>) session_user AND (s.name OPERATOR(pg_catalog.=) 'temp_tablespaces' \
            OR s.name OPERATOR(pg_catalog.=) 'default_text_search_config' \
            AND s.setting OPERATOR(pg_catalog.!~~) 'pg_catalog.%') \
    FROM pg_catalog.pg_settings s WHERE s.source OPERATOR(pg_catalog.=) 'session' \
    UNION ALL SELECT n, pg_catalog.current_setting(n, true), false FROM pg_catalog.unnest($1) AS u(n)";

/// See [`InternalStatements::lift`]. The columns are computed from left to right, and the settings are read where their
/// column is: before the setting has another source. A session without limits does not pay for that. The function is the one
/// of the view pg_settings, which somebody may have locked.
const LIFT: &str = "SELECT $1, pg_catalog.current_setting($1), \
    CASE WHEN pg_catalog.current_setting($1) OPERATOR(pg_catalog.<>) $2 THEN \
        (SELECT s.source OPERATOR(pg_catalog.=) 'session' FROM pg_catalog.pg_show_all_settings() s \
            WHERE s.name OPERATOR(pg_catalog.=) $1) END, \
    CASE WHEN pg_catalog.current_setting($1) OPERATOR(pg_catalog.<>) $2 THEN \
        pg_catalog.set_config($1, $2, true) END";

impl InternalStatements {
    pub(crate) fn new(names: &mut SecretNames) -> Self {
        let internal_names = InternalNames::new(names);
        let mut internal = |id, query: &[u8], types: &[u8]| {
            let name = names.of_statement(id);
            Arc::new(Statement::internal(id, name, query, types))
        };
        // Two parameters of type text (OID 25).
        let texts = [0, 2, 0, 0, 0, 25, 0, 0, 0, 25];
        let listening_channels =
            format!("SELECT c FROM pg_catalog.pg_listening_channels() AS c LIMIT {CHANNELS_LISTED}");
        InternalStatements {
            names: internal_names,
            set_config: internal(1, b"SELECT pg_catalog.set_config($1, $2, false)", &texts),
            begin: internal(2, b"BEGIN", &[0, 0]),
            set_config_local: internal(
                3,
                b"SELECT $1, pg_catalog.current_setting($1), pg_catalog.set_config($1, $2, true)",
                &texts,
            ),
            lift: internal(0, LIFT.as_bytes(), &texts),
            begin_plain: internal(
                4,
                b"BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
                &[0, 0],
            ),
            commit: internal(5, b"COMMIT", &[0, 0]),
            // Parameters of types bool (OID 16), text[] (OID 1009) and bool.
            probe_pins: internal(
                6,
                PROBE_PINS.as_bytes(),
                &[0, 3, 0, 0, 0, 16, 0, 0, 3, 0xf1, 0, 0, 0, 16],
            ),
            // One parameter of type text[] (OID 1009).
            probe_settings: internal(7, PROBE_SETTINGS.as_bytes(), &[0, 1, 0, 0, 3, 0xf1]),
            probe_settings_14: internal(7, PROBE_SETTINGS_14.as_bytes(), &[0, 1, 0, 0, 3, 0xf1]),
            discard_sequences: internal(12, b"DISCARD SEQUENCES", &[0, 0]),
            discard_plans: internal(13, b"DISCARD PLANS", &[0, 0]),
            listening_channels: internal(8, listening_channels.as_bytes(), &[0, 0]),
            catalog_position: internal(16, crate::statements::catalog_query::POSITION.as_bytes(), &[0, 0]),
            catalog_objects: internal(9, crate::statements::catalog_query::OBJECTS.as_bytes(), &[0, 0]),
            catalog_sources: internal(10, crate::statements::catalog_query::SOURCES.as_bytes(), &[0, 0]),
            scratch: internal(11, b"", &[0, 0]),
            set_for_parse: internal(
                14,
                b"SELECT pg_catalog.set_config($3, pg_catalog.current_setting($1), true), \
                  pg_catalog.set_config($1, $2, true)",
                &[0, 3, 0, 0, 0, 25, 0, 0, 0, 25, 0, 0, 0, 25],
            ),
            set_back: internal(
                15,
                b"SELECT pg_catalog.set_config($1, pg_catalog.current_setting($2), true)",
                &texts,
            ),
        }
    }
}
