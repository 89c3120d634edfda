//! What a rule says.

use serde::{Deserialize, Serialize};

/// How much a finding matters; the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It fails now, or will when the next thing happens.
    Critical,
    /// It costs throughput, latency or memory that is missed.
    Warning,
    /// It could be better.
    Advice,
    /// It cannot be judged yet.
    Unknown,
    /// Looked at, and found in order.
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
pub struct Change {
    /// The file it stands in, such as `postgresql.conf`.
    pub file: String,
    /// The line to write.
    pub line: String,
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

/// The pooler's file.
pub(super) const PGBOUNCER_INI: &str = "pgbouncer.ini";
