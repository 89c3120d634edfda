//! What a transaction may have done to its session.

use crate::state::idle_limit::TRANSACTION_LIMIT;
use crate::state::pins::STATEMENT_CHARS_SHOWN;
use crate::state::shape::{SESSION_AUTHORIZATION, Shape};
use pgweir_sql::{Effects, Span};
use pgweir_wire::ErrorFields;
use std::sync::Arc;

/// Errors that prove that nothing of a text has run, so that it has had no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct RefusalProof {
    /// A syntax error.
    by_grammar: bool,
    /// Another error about the text.
    by_names: bool,
    /// Errors at these characters of the text prove nothing.
    not_at: Option<Span>,
}

impl RefusalProof {
    /// `types_run_code`: a constant may run code when it becomes a value, before the rest of its statement is analysed.
    pub(crate) fn of(text: &[u8], types_run_code: bool) -> Self {
        let proof = pgweir_sql::proof(text);
        RefusalProof {
            by_grammar: proof.by_grammar,
            by_names: proof.by_names && !(proof.has_constants && types_run_code),
            not_at: proof.constants,
        }
    }

    /// Whether this error proves it.
    fn is_given_by(self, error: &ErrorFields<'_>) -> bool {
        let is_in_constant = error
            .position
            .is_some_and(|at| at == 0 || self.not_at.is_some_and(|span| span.contains(at)));
        !is_in_constant && (self.by_names || error.is_of_grammar() && self.by_grammar)
    }

    /// Errors that prove this of either of two texts.
    fn and(self, other: RefusalProof) -> Self {
        RefusalProof {
            by_grammar: self.by_grammar && other.by_grammar,
            by_names: self.by_names && other.by_names,
            not_at: match (self.not_at, other.not_at) {
                (Some(one), Some(other)) => Some(one.and(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// What a transaction may have done to the session, since the last probe.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Suspicion {
    effects: Effects,
    /// Settings that the texts name and `pg_settings` does not show.
    hidden: Vec<Box<str>>,
    /// The number of texts with effects that no probe can see, and that the server has not refused.
    texts: u32,
    /// What errors about any of these texts prove.
    proof: RefusalProof,
    /// The beginning of the first text of all.
    statement: Box<str>,
    /// The session's settings before that text.
    before: Option<Arc<Shape>>,
    /// The last text that names the role: `true` if it sets the role, `false` if it resets the role to that of the
    /// startup packet.
    sets_role: Option<bool>,
    /// One of the texts may have limited the time of transactions.
    limits_transactions: bool,
    /// One of the texts may have made transactions deferrable by default.
    defers: bool,
    /// The number of probes about these texts that have failed.
    probes_failed: u8,
    /// The next probe waits for a new text, because several probes have failed. The suspicion is kept, because the
    /// pooler cannot interpret the next answer without it.
    waits_for_text: bool,
}

/// The most settings of one client's session that `pg_settings` does not show; a client with more is pinned.
pub(crate) const HIDDEN_SETTINGS_MAX: usize = 256;

/// The setting that SET ROLE sets.
pub(crate) const ROLE: &str = "role";

/// In the name of the setting that makes transactions deferrable by default, and in the statement that sets it by another
/// name.
const DEFERRABLE: &[u8] = b"deferrable";
const CHARACTERISTICS: &[u8] = b"characteristics";

impl Suspicion {
    /// The suspicion that this text begins; `before` are the session's settings before it.
    pub(super) fn of(text: &[u8], before: Arc<Shape>) -> Self {
        Suspicion {
            statement: beginning(text),
            before: Some(before),
            ..Suspicion::default()
        }
    }

    /// What the texts may have done.
    pub(crate) fn effects(&self) -> Effects {
        self.effects
    }

    /// Whether the texts may have had one of these effects.
    pub(crate) fn may_have(&self, effects: Effects) -> bool {
        self.effects.intersects(effects)
    }

    /// Settings that the texts name and `pg_settings` does not show.
    pub(crate) fn hidden(&self) -> &[Box<str>] {
        &self.hidden
    }

    /// The number of texts with effects that no probe can see.
    #[inline]
    pub(super) fn texts(&self) -> u32 {
        self.texts
    }

    /// The beginning of the first text.
    pub(crate) fn statement(&self) -> &[u8] {
        self.statement.as_bytes()
    }

    /// The session's settings before the first text.
    pub(crate) fn before(&self) -> Option<&Arc<Shape>> {
        self.before.as_ref()
    }

    /// Whether one of the texts may have limited the time of transactions. The limit ends the connection, not only the
    /// statement.
    pub(crate) fn limits_transactions(&self) -> bool {
        self.limits_transactions || self.may_have(Effects::UNTOLD)
    }

    /// Whether the texts may have made transactions deferrable by default.
    pub(crate) fn may_defer(&self) -> bool {
        self.defers || self.may_have(Effects::CODE | Effects::UNTOLD)
    }

    /// One of the texts is this one.
    pub(super) fn add_limits_of(&mut self, text: &[u8]) {
        // The text does not have the name of a setting that is a parameter of it or of the statement that it executes.
        let by_parameter = text.contains(&b'$') || pgweir_sql::contains(text, b"execute");
        self.limits_transactions |= by_parameter || pgweir_sql::may_spell(text, TRANSACTION_LIMIT.as_bytes());
        self.defers |=
            by_parameter || pgweir_sql::may_spell(text, DEFERRABLE) || pgweir_sql::contains(text, CHARACTERISTICS);
    }

    /// Whether the last text that names the role sets it.
    pub(crate) fn sets_role(&self) -> bool {
        self.sets_role == Some(true)
    }

    /// Whether the next probe waits for a new text.
    pub(crate) fn waits_for_text(&self) -> bool {
        self.waits_for_text
    }

    /// Whether a probe about these texts has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.probes_failed > 0
    }

    /// The probe asks about these effects, too, whatever the texts are.
    pub(crate) fn add_effects(&mut self, effects: Effects) {
        self.effects |= effects;
    }

    /// A probe about these texts has failed. Returns how many have.
    pub(crate) fn probe_fails(&mut self) -> u8 {
        self.probes_failed = self.probes_failed.saturating_add(1);
        self.probes_failed
    }

    /// No probe is sent before a new text is suspected.
    pub(crate) fn wait_for_text(&mut self) {
        self.waits_for_text = true;
    }

    /// See [`ClientSession::suspects`](crate::state::client_session::ClientSession::suspects).
    pub(super) fn add(&mut self, effects: Effects, hidden: Vec<Box<str>>, proof: Option<RefusalProof>) -> bool {
        self.waits_for_text = false;
        self.effects |= effects;
        // The session authorization changes the role, too.
        if hidden
            .iter()
            .any(|name| [ROLE, SESSION_AUTHORIZATION].contains(&&**name))
        {
            self.sets_role = later_role(self.sets_role, Some(!effects.intersects(Effects::RESETS)));
        }
        if let Some(proof) = proof {
            self.proof = match self.texts {
                0 => proof,
                _ => self.proof.and(proof),
            };
            self.texts += 1;
        }
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
    pub(super) fn text_is_refused(&mut self, refused: u32, by: &ErrorFields<'_>, unseen: Effects) {
        let proves = self.proof.is_given_by(by);
        // A statement that is parsed and bound counts as two texts.
        if refused > 0 && self.texts == refused && proves {
            self.texts = 0;
            self.effects = self.effects.without(unseen);
        }
    }

    /// Adds what later texts may have done.
    pub(super) fn absorb(&mut self, newer: Suspicion) {
        self.effects |= newer.effects;
        self.proof = match (self.texts, newer.texts) {
            (_, 0) => self.proof,
            (0, _) => newer.proof,
            _ => self.proof.and(newer.proof),
        };
        self.texts += newer.texts;
        self.sets_role = later_role(self.sets_role, newer.sets_role);
        self.limits_transactions |= newer.limits_transactions;
        self.defers |= newer.defers;
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

/// The beginning of a statement, as SHOW PINS and the log show it.
pub(crate) fn beginning(text: &[u8]) -> Box<str> {
    let cut = &text[..text.len().min(4 * STATEMENT_CHARS_SHOWN)];
    let text = String::from_utf8_lossy(cut);
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().take(STATEMENT_CHARS_SHOWN).collect()
}
