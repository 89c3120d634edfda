//! The server's answer to a probe, and what follows from it for the client.

use crate::base::close_reason::CloseReason;
use crate::base::deeds::Deed;
use crate::base::pin_reason::PinReason;
use crate::base::reasons::Waiting;
use crate::base::request::{LogLevel, Request};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::session::probed_settings::TRANSACTION_SETTINGS;
use crate::session::suspicion::NO_ROLE;
use crate::state::pins::PROBED;
use crate::state::probe::Probe;
use crate::state::suspicion::{ROLE, Suspicion};
use crate::upstream::phase::{Introduction, ServerPhase};
use pgweir_sql::Effects;

/// After this many failed probes in a row the client keeps its server until it leaves, because the state of the session
/// is not known. After each new text that may change the state, the server is asked once more.
pub(super) const PROBES_FAILED_MAX: u8 = 3;

impl Reply<'_> {
    /// The server has answered a probe completely.
    pub(crate) fn probed(&mut self) {
        let Some(probe) = self.server.session.probe_ends() else {
            return;
        };
        if !self.server.session.local_in_doubt() {
            self.server.held.reads_as_known();
        }
        let Some(mut exchange) = self.exchange() else {
            return self.to().told_without_client(&probe);
        };
        let tells_pins = probe.failed().is_none() && probe.pins().is_some();
        exchange.probed(probe);
        if tells_pins {
            self.deeds.push(Deed::ChannelsMayHaveChanged);
        }
    }
}

impl Exchange<'_> {
    fn probed(&mut self, mut probe: Probe) {
        if let Some(failed) = probe.failed().map(str::to_string) {
            return self.probe_was_in_vain(probe.into_suspicion(), &failed);
        }
        self.goes_on_behind_probe();
        if let Some(held) = probe.pins() {
            self.pins_found(&probe, held);
        }
        if probe.is_unreadable() {
            self.pin_by(PinReason::UnreadableSetting, probe.suspicion().statement());
        }
        if probe.asks_settings() {
            self.guarded_settings_found(&probe);
            let rows = probe.take_rows();
            self.settings_found(&rows, probe.suspicion(), probe.is_unreadable());
        }
    }

    /// See [`crate::state::client_session::ClientSession::pin_by`].
    pub(crate) fn pin_by(&mut self, reason: PinReason, statement: &[u8]) {
        let stats = &mut self.shared.state_stats;
        self.client.session.pin_by(self.now, reason, statement, stats);
    }

    fn goes_on_behind_probe(&mut self) {
        if self.client.waiting == Waiting::ForProbe {
            self.client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(self.id.into()));
        }
    }

    /// Sets the pins that follow from the server's answer: one value for each of [`PROBED`].
    fn pins_found(&mut self, probe: &Probe, held: [bool; PROBED.len()]) {
        let found = || PROBED.into_iter().zip(held);
        for (reason, _) in found().filter(|(_, held)| *held) {
            self.pin_by(reason, probe.suspicion().statement());
        }
        let ended = found().filter(|(_, held)| !held).map(|(reason, _)| reason);
        let client = &mut *self.client;
        client.session.pins_end(ended, &mut self.shared.state_stats);
        let has_objects = client.session.pins().contains(PinReason::TemporaryObjects);
        let suspicion = client.session.suspicion();
        let may_make_more = suspicion.is_some_and(|s| s.may_have(Effects::TEMPORARY));
        self.server.held.temporary_objects(has_objects || may_make_more);
        if probe.has_temporary_schema() {
            let another_s = self.server.session.has_temporary_schema();
            if has_objects || probe.may_find_temporary() || !another_s {
                client.session.has_had_temporary();
            }
            if !has_objects {
                self.to().temporary_schema_stays();
            }
        }
    }

    /// The session may have settings that the user who logs in may not set: made by a function of a superuser's, or
    /// under another role. Nobody could restore them.
    fn guarded_settings_found(&mut self, probe: &Probe) {
        let base = self.server.session.base();
        let is_superuser = base.get("is_superuser").is_some_and(|s| s.value() == "on");
        // The user who logs in may have the rights of another role from the beginning.
        let logs_in_as_superuser = is_superuser && base.get(ROLE).is_none();
        if probe.finds_guarded() && !logs_in_as_superuser {
            self.pin_by(PinReason::GuardedSetting, probe.suspicion().statement());
        } else if !probe.is_unreadable() && self.client.session.pins().contains(PinReason::GuardedSetting) {
            let ended = [PinReason::GuardedSetting];
            self.client.session.pins_end(ended, &mut self.shared.state_stats);
        }
    }

    /// Handles a failed probe. The reason need not be the session, so the probe is sent again. After the last failure
    /// the client keeps the server, and no other client gets it afterwards. What the probe was about stays suspected,
    /// because a later answer cannot be read without it: the server reports `none` for a role that the client has set
    /// to `none`, and also for a role that was reset.
    fn probe_was_in_vain(&mut self, mut about: Suspicion, failed: &str) {
        let text = format!("{}: cannot tell the state of the session: {failed}", self.server_id);
        self.shared.log(LogLevel::Warning, text);
        // The settings under which the client's functions have run are not known.
        self.server.session.keeps_foreign_plans();
        self.to().settings_are_asked_for();
        let forgets = self.shared.is_weak(Weakness::ForgetsFailedProbe);
        if about.probe_fails() < PROBES_FAILED_MAX && !forgets {
            return self.client.session.suspects_again(about);
        }
        if !forgets {
            self.pin_by(PinReason::UnknownState, about.statement());
            about.wait_for_text();
            self.client.session.suspects_again(about);
        }
        self.goes_on_behind_probe();
    }
}

impl ServerSide<'_> {
    /// A server without a client has answered a probe: a new server, or one that was reset.
    fn told_without_client(&mut self, probe: &Probe) {
        if self.server.introduction == Introduction::NatureAsked {
            return self.nature_told(probe);
        }
        if self.server.introduction == Introduction::LimitAsked {
            return self.limit_told(probe);
        }
        if self.server.introduction == Introduction::Emptied {
            return self.emptied(probe);
        }
        let server = &mut *self.server;
        if !matches!(server.phase, ServerPhase::ConnectQuery) {
            if probe.has_temporary_schema() || probe.failed().is_some() {
                server.session.gains_temporary_schema();
            }
            return;
        }
        if probe.failed().is_some() || probe.is_unreadable() {
            server.close_reason.get_or_insert(CloseReason::StateUnknown);
            return;
        }
        let shape = server.session.shape().clone();
        let reported = |name: &str| shape.get(name).is_some_and(|s| s.is_reported());
        let made = |name: &str, value: &str| !reported(name) && (name, value) != (ROLE, NO_ROLE);
        let rows = probe
            .rows()
            .iter()
            .filter_map(|(name, value)| Some((&**name, value.as_deref()?)));
        let rows = rows.filter(|(name, value)| made(name, value) && !TRANSACTION_SETTINGS.contains(name));
        let changes = rows.map(|(name, value)| (name, Some(value), false));
        let shape = self.shared.shapes.change(&shape, changes);
        server.session.has_settings(shape);
    }
}
