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

/// The most settings of one client's session that `pg_settings` does not show; a client with more is pinned.
pub(crate) const HIDDEN_SETTINGS_MAX: usize = 256;

/// The setting that SET ROLE sets.
pub(crate) const ROLE: &str = "role";

impl Suspicion {
    /// The suspicion that this text begins; `before` are the session's settings before it.
    pub(super) fn of(text: &[u8], before: Arc<Shape>) -> Self {
        Suspicion {
            statement: beginning(text),
            before: Some(before),
            ..Suspicion::default()
        }
    }

    /// See [`ClientSession::suspects`](crate::state::client_session::ClientSession::suspects).
    pub(super) fn add(&mut self, effects: Effects, text: &[u8], hidden: Vec<Box<str>>) -> bool {
        self.waits_for_text = false;
        self.effects |= effects;
        self.texts += 1;
        if hidden.iter().any(|name| &**name == ROLE) {
            self.sets_role = later_role(self.sets_role, Some(!effects.intersects(Effects::RESETS)));
        }
        self.single = text
            .iter()
            .position(|b| *b == b';')
            .is_none_or(|at| text[at + 1..].trim_ascii().is_empty());
        for name in hidden {
            if !self.hidden.contains(&name) {
                self.hidden.push(name);
            }
        }
        let too_many = self.hidden.len() > HIDDEN_SETTINGS_MAX;
        self.hidden.truncate(HIDDEN_SETTINGS_MAX);
        too_many
    }

    /// See [`ClientSession::text_is_refused`](crate::state::client_session::ClientSession::text_is_refused).
    pub(super) fn text_is_refused(&mut self, refused: u32, is_of_grammar: bool, unseen: Effects) {
        if self.texts == 1 && refused == 1 && (self.single || is_of_grammar) {
            self.texts = 0;
            self.effects = self.effects.without(unseen);
        }
    }

    /// Adds what later texts may have done.
    pub(super) fn absorb(&mut self, newer: Suspicion) {
        self.effects |= newer.effects;
        self.texts += newer.texts;
        self.single &= newer.single;
        self.sets_role = later_role(self.sets_role, newer.sets_role);
        let known = self.hidden.len();
        let new = newer.hidden.into_iter().filter(|n| !self.hidden[..known].contains(n));
        self.hidden.extend(new.collect::<Vec<_>>());
        self.waits_for_text = false;
    }
}

/// Combines two values of [`Suspicion::sets_role`]. After a RESET the pooler sets the role of the startup packet. If
/// the server still tells no role, the RESET was rolled back, and the value of an earlier text counts.
fn later_role(earlier: Option<bool>, later: Option<bool>) -> Option<bool> {
    match earlier {
        Some(true) => earlier,
        _ => later.or(earlier),
    }
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
