//! Suspicion: what a client's transactions may have done to its session, since the server was last asked.
//!
//! The text of a statement says what it *may* do ([`pgweir_sql::Effects`]). A probe asks the server what the statement
//! has done. An effect that no probe can see pins the client.

use crate::base::pin_reason::{Cleanup, PinReason};
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::state::pins::{PROBED, Pins};
use crate::state::shape::order;
use crate::state::suspicion::{ROLE, RefusalProof, Suspicion};
use crate::upstream::entry::{Expect, To};
use pgweir_sql::Effects;
use pgweir_wire::ErrorFields;

/// The value of the setting `role` for no role.
pub(super) const NO_ROLE: &str = "none";

/// What a probe must look at.
pub(super) struct Asks {
    pub(super) pins: bool,
    pub(super) locks: bool,
    pub(super) settings: bool,
}

impl Asks {
    /// What to ask after transactions with these effects, of a client with these pins.
    pub(super) fn of(effects: Effects, pins: Pins) -> Self {
        let unknown_code = effects.intersects(Effects::CODE);
        let may_have_ended = effects.intersects(Effects::ENDS) && pins.of_session();
        let may_pin = MAY_PIN
            .iter()
            .any(|(effect, reason)| effects.intersects(*effect) && !pins.contains(*reason));
        Asks {
            pins: unknown_code || may_have_ended || may_pin,
            locks: unknown_code || effects.intersects(Effects::LOCKS) || pins.contains(PinReason::AdvisoryLocks),
            settings: unknown_code || effects.intersects(Effects::SETTINGS),
        }
    }
}

/// The reason for a pin that each effect may cause.
const MAY_PIN: [(Effects, PinReason); PROBED.len()] = [
    (Effects::TEMPORARY, PinReason::TemporaryObjects),
    (Effects::LOCKS, PinReason::AdvisoryLocks),
    (Effects::CURSORS, PinReason::HeldCursors),
    (Effects::LISTEN, PinReason::Listening),
    (Effects::PREPARE, PinReason::PreparedStatements),
];

/// Effects that no probe can see: they pin until the client leaves.
const PIN_FOR_GOOD: [(Effects, PinReason); 6] = [
    (Effects::LOAD, PinReason::Library),
    (Effects::SEED, PinReason::Seed),
    (Effects::SERVER_BOUND, PinReason::ServerBound),
    (Effects::SEQUENCE, PinReason::Sequences),
    (Effects::NATIVE, PinReason::NativeCode),
    (Effects::UNTOLD, PinReason::UntoldSetting),
];

/// All of them.
fn unseen() -> Effects {
    PIN_FOR_GOOD
        .iter()
        .fold(Effects::NONE, |all, (effect, _)| all | *effect)
}

impl Suspicion {
    /// Names of the settings that this client's session may have and no view shows.
    pub(super) fn hidden_settings(&self, client: &Client) -> Vec<Box<str>> {
        let mut names = self.hidden().to_vec();
        // A startup value that DISCARD ALL has reset was set again behind it.
        let made = client
            .session
            .shape()
            .settings()
            .iter()
            .chain(client.session.base().settings());
        names.extend(made.filter(|s| s.is_hidden()).map(|s| s.name().into()));
        // No ParameterStatus reports the role.
        names.push(ROLE.into());
        names.sort_unstable_by(|one, other| order(one, other));
        names.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
        names
    }

    /// Reasons to keep the client on its server until it leaves.
    pub(super) fn pins_for_good(&self) -> impl Iterator<Item = PinReason> {
        let effects = self.effects();
        PIN_FOR_GOOD
            .into_iter()
            .filter(move |(effect, _)| effects.intersects(*effect))
            .map(|(_, reason)| reason)
    }
}

impl Exchange<'_> {
    /// A request was sent. `before`: how many of the client's suspected texts had effects that no probe can see before it.
    #[inline]
    pub(crate) fn note_suspected(&mut self, before: u32) {
        let after = self.client.session.suspected_texts();
        if after > before {
            self.server.conversation.queue_mut().note_suspected(after - before);
        }
    }

    /// Whether a text with these effects seeds `random()`: [`Effects::SEED`] or nothing. Removes the setting `seed`
    /// from `hidden`, because a server cannot be asked for it.
    fn seeds(&mut self, effects: Effects, hidden: &mut Vec<Box<str>>) -> Effects {
        if effects.intersects(Effects::MAY_SEED) {
            self.server.runs_unknown_code(self.shared.statements.now());
        }
        let named = hidden.len();
        hidden.retain(|name| name.as_bytes() != pgweir_sql::SEED);
        match effects.intersects(Effects::UNTOLD) || hidden.len() < named {
            true => Effects::SEED,
            false => Effects::NONE,
        }
    }

    /// A statement of the client's is on its way to its server. `hidden` are settings that the text may set and
    /// `pg_settings` does not show.
    pub(crate) fn suspect(&mut self, effects: Effects, text: &[u8], hidden: Vec<Box<str>>) {
        let known = self.pool.catalog();
        let types_run_code = known.is_none_or(|known| known.analysis_may_run());
        self.suspect_by(effects, text, hidden, RefusalProof::of(text, types_run_code));
    }

    /// Something that is not read is on its way to the client's server; `what` says what it is.
    pub(crate) fn suspect_unread(&mut self, effects: Effects, what: &str, hidden: Vec<Box<str>>) {
        self.suspect_by(effects, what.as_bytes(), hidden, RefusalProof::default());
    }

    fn suspect_by(&mut self, mut effects: Effects, text: &[u8], mut hidden: Vec<Box<str>>, proof: RefusalProof) {
        if self.shared.is_weak(Weakness::TrustsCode) {
            effects = effects.without(pgweir_sql::UNREAD);
        }
        if self.shared.is_weak(Weakness::TrustsSeeds) {
            effects = effects.without(Effects::SEED | Effects::MAY_SEED);
            hidden.retain(|name| name.as_bytes() != pgweir_sql::SEED);
        }
        if effects.is_empty() {
            return;
        }
        effects |= self.seeds(effects, &mut hidden);
        let named = hidden.len();
        hidden.retain(|name| pgweir_sql::is_askable(name));
        if hidden.len() < named {
            effects |= Effects::UNTOLD;
        }
        if effects.intersects(Effects::TEMPORARY) {
            self.server.held.temporary_objects(true);
        }
        if effects.intersects(Effects::DEFINES) {
            self.defines(text);
            // The client may run at once what it has defined.
            effects |= Effects::CODE;
            self.server.runs_unknown_code(self.shared.statements.now());
        }
        for name in &hidden {
            self.note_custom_setting(name);
        }
        let before_local = self.server.session.before_local();
        let proof = effects.intersects(unseen()).then_some(proof);
        if self.client.session.suspects(effects, text, hidden, proof, before_local) {
            self.pin_by(PinReason::UnreadableSetting, text);
        }
    }
}

impl Reply<'_> {
    /// The server has refused a text without running any of it. If only this text and those that fail with it may have
    /// effects that no probe can see, none of these has happened. If other texts may have some, too, the pooler does not
    /// know which text has which effect.
    #[cold]
    pub(crate) fn text_refused(&mut self, fields: &ErrorFields<'_>) {
        if self.shared.is_weak(Weakness::PinsForRefused) {
            return;
        }
        let front = self
            .server
            .conversation
            .queue()
            .front()
            .map(|e| (e.expect(), e.to() == To::Forward));
        if !matches!(
            front,
            Some((Expect::Query | Expect::Parse | Expect::ParseUnnamed, true))
        ) {
            return;
        }
        let refused = self.server.conversation.queue().suspected_with_front();
        if let Some(client) = self.client() {
            client.session.text_is_refused(refused, fields, unseen());
        }
    }
}

impl Exchange<'_> {
    /// The client leaves: notes that its server may have a schema for temporary objects that no probe has reported.
    /// After DISCARD ALL the server is asked whether it has one. Then its answer counts, and not what the client's texts
    /// might have made: a server that seems to have a schema takes no flights until it is closed.
    pub(crate) fn note_temporary_schema(&mut self) {
        let is_asked = self.cleanup_after() >= Cleanup::Discard;
        let may_make = |s: &Suspicion| s.may_have(Effects::TEMPORARY | Effects::CODE);
        let is_suspected = self.client.session.suspicion().is_some_and(may_make)
            || self.server.session.probe().is_some_and(|p| p.may_find_temporary());
        let has_made = self.client.session.pins().contains(PinReason::TemporaryObjects);
        if has_made || is_suspected && !is_asked {
            self.server.session.gains_temporary_schema();
        }
    }

    /// The cleanup that the server needs, when its client leaves, before another client gets it.
    pub(crate) fn cleanup_after(&self) -> Cleanup {
        let in_doubt = self.client.session.suspicion().is_some() || self.server.session.probe().is_some();
        let in_doubt = in_doubt && !self.shared.is_weak(Weakness::TrustsUnanswered);
        let least = if in_doubt { Cleanup::Discard } else { Cleanup::Nothing };
        let suspected = self
            .client
            .session
            .suspicion()
            .into_iter()
            .flat_map(|s| s.pins_for_good());
        let least = suspected.map(PinReason::cleanup).fold(least, Cleanup::max);
        self.client.session.pins().cleanup().max(least)
    }
}
