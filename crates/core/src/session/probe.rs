//! Probes: when a transaction may have changed the session, the server is asked what became of it.
//!
//! The text of a statement says only what it *may* do ([`pgweir_sql::Effects`]). Only the server knows whether a SET
//! took effect, whether a temporary table was rolled back, and whether a lock is still held. So when such a transaction
//! has ended and the server owes no other reply, the pooler asks the server, after the ReadyForQuery that the client
//! already has. The pooler releases the server only if the answer contains no reason for a pin.
//!
//! A probe is a segment of internal prepared statements. Every name in them is qualified, so the client's search_path,
//! role and unnamed statement do not matter. It runs without a statement timeout, and in a transaction that is not
//! deferrable, whatever the session's default is (recording F3).

use crate::base::pin_reason::Cleanup;
use crate::base::reasons::{Passing, Waiting};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use crate::session::function_plans::Plans;
use crate::session::suspicion::Asks;
use crate::state::beyond_ascii::bytes_of;
use crate::state::idle_limit::TRANSACTION_LIMIT;
use crate::state::probe::Probe;
use crate::state::suspicion::{ROLE, Suspicion};
use crate::statements::parse_settings::CLIENT_ENCODING;
use crate::statements::prepared::Statement;
use crate::upstream::job::{Job, ProbeRows};
use crate::upstream::phase::ServerPhase;
use pgweir_sql::Effects;
use std::sync::Arc;

/// Time limits that are lifted while a probe runs, with the major version of PostgreSQL that brought them. The first
/// one would end the connection.
const LIMITS: [(&str, u32); 3] = [(TRANSACTION_LIMIT, 17), ("statement_timeout", 0), ("lock_timeout", 0)];

/// A request of a probe without rows.
const PROBE: Job = Job::Probe(ProbeRows::Ignored);

impl ServerSide<'_> {
    /// `locks`: whether to read pg_locks, which visits every backend; `None` asks for no pins. `hidden` are names of
    /// settings that `pg_settings` does not show; `None` asks for no settings.
    fn send_probe(&mut self, locks: Option<bool>, hidden: Option<&[Box<str>]>, about: Suspicion, plans: Plans) {
        let settings = self.settings_question();
        let (lift, set_config) = (
            self.shared.internal.lift.clone(),
            self.shared.internal.set_config_local.clone(),
        );
        if about.has_failed() || self.server.session.has_run_unknown_code() {
            self.forget_internal_statements();
        }
        if hidden.is_some() && self.server.link.is_some() && self.server.session.cleanup() >= Cleanup::Plans {
            self.settings_are_asked_for();
        }
        let limits = self.time_limits(&about).into_iter();
        let mut lifted: Vec<(&str, Box<[u8]>)> = limits.map(|name| (name, b"0"[..].into())).collect();
        if hidden.is_some() {
            lifted.extend(self.encoding_of_database());
        }
        let deferrable = self.may_be_delayed(&about);
        self.server.session.probe_begins(Probe::about(about, hidden.is_some()));
        if plans == Plans::MayGo {
            self.discard_plans_before_probe(deferrable);
        }
        if deferrable {
            self.begin_internal(PROBE);
        }
        for (name, value) in &lifted {
            let values = [Some(name.as_bytes()), Some(&**value)];
            let lifts = hidden.is_some() && self.asks_whether_made(name);
            let statement = if lifts { &lift } else { &set_config };
            self.runs_for(Job::Probe(ProbeRows::LiftedLimit), statement, &values);
        }
        if hidden.is_some() && locks.is_some() {
            // If a client has prepared a statement under this name, that one ends before the question for pins.
            self.prepare(&settings);
            self.server.conversation.queue_mut().preparing_is_for(PROBE);
        }
        if let Some(locks) = locks {
            self.ask_for_pins(locks);
        }
        if let Some(hidden) = hidden {
            let hidden: Vec<_> = hidden.iter().map(|name| bytes_of(name)).collect();
            let array = pgweir_sql::array_literal(&hidden);
            self.runs_for(Job::Probe(ProbeRows::Setting), &settings, &[Some(&array)]);
        }
        if deferrable {
            self.commit_internal(PROBE);
        }
        if matches!(self.server.phase, ServerPhase::ConnectQuery) {
            // The statement is closed because many servers are never asked again.
            self.close_held(&settings);
        }
        self.sync_for(PROBE);
        if deferrable {
            self.rollback_internal();
        }
    }

    /// The question for the reasons for pins. It is prepared first, so that it does not count itself.
    fn ask_for_pins(&mut self, locks: bool) {
        let pins = self.shared.internal.probe_pins.clone();
        self.prepare(&pins);
        let tracked = self.shared.settings.tracks_statements_of(self.pool.settings());
        let names = pgweir_sql::array_literal(&self.names_that_need_no_pin(tracked));
        let values = [bool_literal(locks), &names[..], bool_literal(!tracked)].map(Some);
        self.runs_for(Job::Probe(ProbeRows::Pins), &pins, &values);
    }

    /// Whether the session's defaults may delay the probe: they are known to, or the texts may have set them.
    fn may_be_delayed(&self, about: &Suspicion) -> bool {
        let shape = self.server.session.shape();
        shape.is_deferrable() || about.may_defer() && shape.may_be_read_only()
    }

    /// Whether the server is asked, before the probe sets this for itself, whether the session has set it. A limit that a
    /// text may just have put on transactions is lifted at once, because it would end the connection.
    fn asks_whether_made(&self, name: &str) -> bool {
        match name {
            CLIENT_ENCODING => false,
            TRANSACTION_LIMIT => self.server.session.shape().get(name).is_some(),
            _ => true,
        }
    }

    /// client_encoding as the database has it, where values would be converted otherwise: see `state/beyond_ascii`.
    fn encoding_of_database(&self) -> Option<(&'static str, Box<[u8]>)> {
        let shape = self.server.session.shape();
        let [database, _] = shape.encodings().filter(|_| shape.converts())?;
        Some((CLIENT_ENCODING, database.as_bytes().into()))
    }

    /// The internal statement that asks for settings.
    fn settings_question(&self) -> Arc<Statement> {
        let internal = &self.shared.internal;
        let grants_parameters = self
            .server
            .session
            .shape()
            .server_major()
            .is_some_and(|major| major >= 15);
        match grants_parameters {
            true => internal.probe_settings.clone(),
            false => internal.probe_settings_14.clone(),
        }
    }

    /// The settings under which constants are read are not known before the server has answered.
    #[cold]
    pub(super) fn settings_are_asked_for(&mut self) {
        let now = self.shared.statements.now();
        self.server.held.reads_otherwise(now);
    }

    /// The time limits that a probe lifts for itself, if the session may have one: it is known to have one, code may
    /// have set one, or an earlier probe has failed. A probe that a limit on statements ends is sent again, but a limit
    /// on transactions would end the connection: that one is also lifted if a text names it.
    fn time_limits(&self, about: &Suspicion) -> Vec<&'static str> {
        let shape = self.server.session.shape();
        let may_have = about.may_have(Effects::CODE) || about.has_failed() || shape.is_hurried();
        let exists = |since: u32| since == 0 || shape.server_major().is_some_and(|major| major >= since);
        let may_be = |name: &str| may_have || name == TRANSACTION_LIMIT && about.limits_transactions();
        let limits = LIMITS.iter().filter(|(name, since)| may_be(name) && exists(*since));
        limits.map(|(name, _)| *name).collect()
    }

    /// The limit on transactions, lifted, if the server has this setting.
    pub(super) fn transaction_limit_lifted(&self) -> Option<(&'static str, &'static str)> {
        let [(name, since), ..] = LIMITS;
        let major = self.server.session.shape().server_major();
        major.is_some_and(|major| major >= since).then_some((name, "0"))
    }

    /// Asks a new server for the settings that its role's defaults or connect_query have set and ParameterStatus does
    /// not report. The view does not show custom ones: those that connect_query names are asked for by name.
    pub(crate) fn ask_new_server(&mut self) {
        let mut names: Vec<Box<str>> = vec![ROLE.into()];
        if let Some(query) = self.pool.settings().connect_query.as_deref() {
            let hidden = pgweir_sql::hidden_settings(query.as_bytes()).into_iter();
            let is_asked =
                |name: &str| name != ROLE && name.as_bytes() != pgweir_sql::SEED && pgweir_sql::is_askable(name);
            names.extend(hidden.filter(|name| is_asked(name)));
        }
        for name in names.iter().filter(|name| name.contains('.')) {
            self.server.session.note_custom_setting(name);
        }
        self.send_probe(None, Some(&names), Suspicion::default(), Plans::MayGo);
    }

    /// Closes all internal statements, because the server may have lost one of them, or have another one under its
    /// name. Each is prepared again before its next use.
    fn forget_internal_statements(&mut self) {
        for statement in self.server.held.all_internal() {
            self.close_held(&statement);
            if let Some(close) = self.server.conversation.queue_mut().back_mut() {
                close.belongs_to(PROBE);
            }
        }
    }
}

impl Exchange<'_> {
    /// Asks the server what the client's last transactions did to the session. Called when the server is clean; returns
    /// whether there was anything to ask.
    pub(crate) fn probe(&mut self) -> bool {
        let used = self.client.session.take_used_server();
        let always = self.shared.settings.probe_always && self.keeps_session() && used;
        let mut about = match self.client.session.take_suspicion(always) {
            Some(suspicion) => suspicion,
            None if always => Suspicion::default(),
            None => return false,
        };
        for reason in about.pins_for_good() {
            self.pin_by(reason, about.statement());
        }
        if always {
            about.add_effects(Effects::SETTINGS | Effects::TEMPORARY | Effects::CURSORS);
            if self.shared.settings.probe_always_locks {
                about.add_effects(Effects::LOCKS);
            }
        }
        let asks = Asks::of(about.effects(), self.client.session.pins());
        if !asks.pins && !asks.settings {
            return false;
        }
        // What has been reset must be set again before the client's next message.
        let resets = about.may_have(Effects::CODE | Effects::RESETS);
        let other_startup = !Arc::ptr_eq(self.server.session.base(), self.client.session.base());
        let must_be_known = resets && other_startup || self.prepares_again_behind_probe();
        if asks.settings && must_be_known && self.client.waiting == Waiting::No {
            self.client.waiting = Waiting::ForProbe;
        }
        if self.server.is_to_end(self.now) {
            self.waits_for_probe();
        }
        if self.server.cancels.may_hit() && !self.shared.is_weak(Weakness::AsksUnderCancel) {
            // The cancel request would hit the probe. When it has ended, this function is called again.
            if used {
                self.client.session.uses_server();
            }
            self.client.session.keeps_suspicion(about);
            return true;
        }
        let hidden = asks.settings.then(|| about.hidden_settings(self.client));
        self.shared.state_stats.probes += 1;
        self.pays_for_definitions(&about);
        let locks = asks.pins.then_some(asks.locks);
        let plans = self.plans_of(&about);
        self.to().send_probe(locks, hidden.as_deref(), about, plans);
        true
    }

    /// The server is to be closed, and a probe of the client's last transaction is not answered: the next one begins at
    /// another server, unless the client is pinned. Otherwise a client that asks sooner than its probes are answered
    /// would keep the server. A transaction that was sent behind the probe stays there: if the probe failed, it would not
    /// be sent again before that transaction ends.
    pub(crate) fn waits_for_probe(&mut self) {
        let handles_next = self.client.waiting == Waiting::No && !self.server.owes_client();
        if handles_next && self.client.passing == Passing::None && !self.client.session.awaits_reset() {
            self.client.waiting = Waiting::ForProbe;
        }
    }
}

/// A parameter of type bool as text.
fn bool_literal(value: bool) -> &'static [u8] {
    match value {
        true => b"t",
        false => b"f",
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
