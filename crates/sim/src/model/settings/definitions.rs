//! The settings that every server has.

/// How values of a setting are checked and spelled.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Internal,
    Bool,
    DateStyle,
    Encoding,
    TimeZone,
    SearchPath,
    OneOf(&'static [&'static str]),
    Int {
        min: i64,
        max: i64,
    },
    Kilobytes,
    Milliseconds,
    /// Any existing role. `pg_settings` does not show it, and RESET ALL does not change it (`GUC_NO_SHOW_ALL`,
    /// `GUC_NO_RESET_ALL`).
    Role,
}

pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    /// First major version that reports it by ParameterStatus; 0 is none.
    pub(super) reported_since: u32,
}

const fn definition(name: &'static str, kind: Kind, default: &'static str, reported_since: u32) -> Definition {
    Definition {
        name,
        kind,
        default,
        reported_since,
    }
}

/// The place of idle_session_timeout.
pub(super) const IDLE_LIMIT: usize = 6;

/// In the order PostgreSQL 15 reports them: by name, case-blind.
pub(super) static DEFINITIONS: [Definition; 26] = [
    definition("application_name", Kind::Text, "", 1),
    definition("client_encoding", Kind::Encoding, "UTF8", 1),
    definition("DateStyle", Kind::DateStyle, "ISO, MDY", 1),
    definition("default_transaction_deferrable", Kind::Bool, "off", 0),
    definition("default_transaction_read_only", Kind::Internal, "off", 14),
    definition("extra_float_digits", Kind::Int { min: -15, max: 3 }, "1", 0),
    definition("idle_session_timeout", Kind::Milliseconds, "0", 0),
    definition("in_hot_standby", Kind::Internal, "off", 14),
    definition("integer_datetimes", Kind::Internal, "on", 1),
    definition(
        "IntervalStyle",
        Kind::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
        1,
    ),
    definition("is_superuser", Kind::Internal, "on", 1),
    definition("jit", Kind::Bool, "on", 0),
    definition(
        "join_collapse_limit",
        Kind::Int {
            min: 1,
            max: i32::MAX as i64,
        },
        "8",
        0,
    ),
    definition("lock_timeout", Kind::Milliseconds, "0", 0),
    definition(
        "max_parallel_workers_per_gather",
        Kind::Int { min: 0, max: 1024 },
        "2",
        0,
    ),
    definition("role", Kind::Role, "none", 0),
    definition(
        "scram_iterations",
        Kind::Int {
            min: 1,
            max: 2147483647,
        },
        "4096",
        16,
    ),
    definition("search_path", Kind::SearchPath, "\"$user\", public", 18),
    definition("server_encoding", Kind::Internal, "UTF8", 1),
    definition("server_version", Kind::Internal, "", 1),
    definition("session_authorization", Kind::Internal, "postgres", 1),
    definition("standard_conforming_strings", Kind::Bool, "on", 1),
    definition("statement_timeout", Kind::Milliseconds, "0", 0),
    definition("TimeZone", Kind::TimeZone, "UTC", 1),
    // Only PostgreSQL 17 and later have it, and the pooler asks only those for it.
    definition("transaction_timeout", Kind::Milliseconds, "0", 0),
    definition("work_mem", Kind::Kilobytes, "4MB", 0),
];

pub(super) fn find(name: &str) -> Option<usize> {
    DEFINITIONS.iter().position(|d| d.name.eq_ignore_ascii_case(name))
}
