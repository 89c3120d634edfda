//! What a transaction may have done to its session, and the server's answer to a probe so far.

use crate::state::pins::PROBED;
use crate::state::shape::Shape;
use pgweir_sql::Effects;
use std::sync::Arc;

/// What a transaction may have done to the session, since the last probe.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Suspicion {
    pub(crate) effects: Effects,
    /// Settings that the texts name and `pg_settings` does not show.
    pub(crate) hidden: Vec<Box<str>>,
    /// The number of texts that have caused the suspicion and that the server has not refused.
    pub(crate) texts: u32,
    /// The last of these texts is one statement.
    pub(crate) single: bool,
    /// The beginning of the first of these texts.
    pub(crate) statement: Box<str>,
    /// The session's settings before the first of these texts.
    pub(crate) before: Option<Arc<Shape>>,
    /// The last text that names the role: `true` if it sets the role, `false` if it resets the role to that of the
    /// startup packet.
    pub(crate) sets_role: Option<bool>,
    /// The number of probes about these texts that have failed.
    pub(crate) probes_failed: u8,
    /// The next probe waits for a new text, because several have failed. What is suspected is not forgotten: the next
    /// answer cannot be read without it.
    pub(crate) waits_for_text: bool,
}

/// A probe that has not been answered yet.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Probe {
    /// Whether settings were asked for.
    pub(crate) settings: bool,
    /// Name and value of every setting that the session has set.
    pub(crate) rows: Vec<(Box<str>, Option<Box<str>>)>,
    /// The texts may have made temporary objects.
    pub(crate) temporary: bool,
    /// The texts may have made statements by SQL-level PREPARE.
    pub(crate) prepares: bool,
    /// Time limits that the probe lifts for itself, with the session's values.
    pub(crate) lifted: Vec<(Box<str>, Option<Box<str>>)>,
    /// One value for each of [`PROBED`].
    pub(crate) pins: Option<[bool; PROBED.len()]>,
    /// The value of the latest row with a single column.
    pub(crate) value: Option<Box<str>>,
    /// The session has a schema for temporary objects.
    pub(crate) temporary_schema: bool,
    /// A name or value was not UTF-8, or a row was too long to be kept.
    pub(crate) unreadable: bool,
    /// The message of the error with which the probe failed.
    pub(crate) failed: Option<Box<str>>,
    /// What the probe asks about.
    pub(crate) about: Suspicion,
}

/// The beginning of a statement, as SHOW PINS and the log show it.
pub(crate) fn beginning(text: &[u8]) -> Box<str> {
    let cut = &text[..text.len().min(4 * crate::state::pins::STATEMENT_CHARS_SHOWN)];
    let text = String::from_utf8_lossy(cut);
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line
        .chars()
        .take(crate::state::pins::STATEMENT_CHARS_SHOWN)
        .collect()
}
