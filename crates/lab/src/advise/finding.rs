//! What a rule says.

use super::proof::Experiment;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How much a finding matters; the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It fails now, or will when the next thing happens.
    Critical,
    /// It costs throughput, latency or memory that is missed.
    Warning,
    /// It could be better.
    Advice,
    /// It cannot be judged yet.
    #[value(skip)]
    Unknown,
    /// Looked at, and found in order.
    #[value(skip)]
    Fine,
}

impl Severity {
    /// One word for the report.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Advice => "advice",
            Severity::Unknown => "unknown",
            Severity::Fine => "fine",
        }
    }
}

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "PrintedChange")]
pub struct Change {
    /// The file it stands in, such as `postgresql.conf`.
    pub file: String,
    /// The line to write.
    pub line: String,
}

/// The same as --json prints it: scripts need no rules of their own.
#[derive(Serialize)]
struct PrintedChange {
    file: String,
    line: String,
    statement: Option<String>,
    needs_restart: bool,
}

impl From<Change> for PrintedChange {
    fn from(change: Change) -> Self {
        PrintedChange {
            statement: change.alter_system(),
            needs_restart: change.needs_restart(),
            file: change.file,
            line: change.line,
        }
    }
}

/// Settings of the server that only a restart changes.
const WITH_RESTART: [&str; 3] = ["max_connections", "shared_buffers", "huge_pages"];

impl Change {
    /// The statement to paste into psql, with what makes it take effect; None where the setting is not the server's.
    pub fn statement(&self) -> Option<String> {
        let effect = match self.needs_restart() {
            true => "-- and restart the server",
            false => "SELECT pg_reload_conf();",
        };
        Some(format!("{}; {effect}", self.alter_system()?))
    }

    /// The same without what makes it take effect.
    pub(super) fn alter_system(&self) -> Option<String> {
        let (name, value) = self.server_setting()?;
        Some(format!("ALTER SYSTEM SET {name} = '{value}'"))
    }

    /// Name and value of a setting of the server.
    pub(super) fn server_setting(&self) -> Option<(&str, &str)> {
        let (name, value) = self.line.split_once(" = ").filter(|_| self.file == POSTGRESQL_CONF)?;
        Some((name, value.trim_matches('\'')))
    }

    /// What makes a line of a file take effect; None where the setting is the server's, whose statement says it.
    pub(super) fn then(&self) -> Option<&'static str> {
        match &*self.file {
            PGBOUNCER_INI => Some("RELOAD on the pooler's console"),
            SYSCTL_CONF => Some("sysctl -p as root"),
            _ => None,
        }
    }

    /// Whether a reload is not enough.
    pub(super) fn needs_restart(&self) -> bool {
        self.server_setting()
            .is_some_and(|(name, _)| WITH_RESTART.contains(&name))
    }
}

/// One judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A name that stays the same from version to version, such as `connections.idle`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// In one sentence.
    pub title: String,
    /// The figures it rests on, one sentence each.
    pub evidence: Vec<String>,
    /// What to change.
    pub changes: Vec<Change>,
    /// What the change may cost; empty where nothing is to be changed.
    pub risk: String,
    /// How to see that it helped; empty where nothing is to be changed.
    pub helped: String,
    /// The measurement of the laboratory that shows it.
    pub experiment: Option<Experiment>,
}

impl Finding {
    /// Without a change yet.
    pub fn new(id: &str, severity: Severity, title: impl Into<String>) -> Self {
        Finding {
            id: id.to_owned(),
            severity,
            title: title.into(),
            evidence: Vec::new(),
            changes: Vec::new(),
            risk: String::new(),
            helped: String::new(),
            experiment: None,
        }
    }

    /// Adds a figure.
    #[must_use]
    pub fn evidence(mut self, sentence: impl Into<String>) -> Self {
        self.evidence.push(sentence.into());
        self
    }

    /// Adds a setting to change.
    #[must_use]
    pub fn change(mut self, file: &str, line: impl Into<String>) -> Self {
        self.changes.push(Change {
            file: file.to_owned(),
            line: line.into(),
        });
        self
    }

    /// Says what the change may cost.
    #[must_use]
    pub fn risk(mut self, sentence: impl Into<String>) -> Self {
        self.risk = sentence.into();
        self
    }
}

/// The server's file.
pub(super) const POSTGRESQL_CONF: &str = "postgresql.conf";

/// The kernel's file.
pub(super) const SYSCTL_CONF: &str = "sysctl.conf";

/// The pooler's file.
pub(super) const PGBOUNCER_INI: &str = "pgbouncer.ini";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_to_paste() {
        let statement = |file: &str, line: &str| {
            let change = Change {
                file: file.to_owned(),
                line: line.to_owned(),
            };
            change.statement()
        };
        assert_eq!(
            statement(POSTGRESQL_CONF, "shared_buffers = 640MB").unwrap(),
            "ALTER SYSTEM SET shared_buffers = '640MB'; -- and restart the server"
        );
        assert_eq!(
            statement(POSTGRESQL_CONF, "idle_in_transaction_session_timeout = '1min'").unwrap(),
            "ALTER SYSTEM SET idle_in_transaction_session_timeout = '1min'; SELECT pg_reload_conf();"
        );
        assert_eq!(statement(PGBOUNCER_INI, "default_pool_size = 5"), None);
    }

    #[test]
    fn scripts_get_the_statement_and_whether_a_restart_is_needed() {
        let printed = |file: &str, line: &str| {
            let change = Change {
                file: file.to_owned(),
                line: line.to_owned(),
            };
            serde_json::to_value(change).unwrap()
        };
        let server = printed(POSTGRESQL_CONF, "shared_buffers = 640MB");
        assert_eq!(server["statement"], "ALTER SYSTEM SET shared_buffers = '640MB'");
        assert_eq!(server["needs_restart"], true);
        let pooler = printed(PGBOUNCER_INI, "default_pool_size = 5");
        assert!(pooler["statement"].is_null() && pooler["needs_restart"] == false);
    }
}
