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
use crate::state::probe::{Probe, ROLE, Suspicion};
use crate::upstream::entry::AnswerRows;
use crate::upstream::phase::{Introduction, ServerPhase};
use pgweir_sql::Effects;
use pgweir_wire::{ErrorFields, HEADER_BYTES, Header, backend};

/// After this many failed probes in a row the client keeps its server until it leaves, because the state of the session
/// is not known. After each new text that may change the state, the server is asked once more.
const PROBES_FAILED_MAX: u8 = 3;

impl ServerSide<'_> {
    /// The server has refused a statement of a probe, of a catalog reading or of a move of channels.
    pub(crate) fn probe_failed(&mut self, fields: &ErrorFields<'_>) {
        let server = &mut *self.server;
        if let Some(probe) = server.session.probe_mut() {
            probe.failed = Some(String::from_utf8_lossy(fields.message).into());
        } else if let Some(reading) = &mut server.reading {
            reading.is_refused(fields.sqlstate, fields.message);
        } else {
            server.session.move_fails();
        }
    }
}

impl Reply<'_> {
    /// A row of the answer to a probe, to a catalog reading or to the question for the server's channels.
    pub(crate) fn answer_row(&mut self, rows: AnswerRows, message: &[u8]) {
        match rows {
            AnswerRows::Ignored => {}
            AnswerRows::CatalogObject | AnswerRows::CatalogSource => {
                if let Some(reading) = &mut self.server.reading {
                    reading.row(rows, message);
                }
            }
            AnswerRows::Channel => self.channel_row(message),
            _ => {
                if let Some(probe) = self.server.session.probe_mut() {
                    probe_row(probe, rows, message);
                }
            }
        }
    }
}

/// A row of the answer to a probe.
fn probe_row(probe: &mut Probe, rows: AnswerRows, message: &[u8]) {
    if Header::read(message).is_ok_and(|h| h.is_some_and(|h| h.message_bytes as usize > message.len())) {
        // The value is too long to be kept.
        probe.unreadable = true;
        return;
    }
    let Ok(row) = backend::data_row(&message[HEADER_BYTES..]) else {
        probe.failed = Some("malformed row".into());
        return;
    };
    let text = |value: &[u8]| std::str::from_utf8(value).ok().map(Box::<str>::from);
    match (rows, &row[..]) {
        (AnswerRows::Value, &[value]) => probe.value = value.and_then(text),
        (AnswerRows::TemporarySchema, &[value]) => probe.temporary_schema = value == Some(b"t"),
        (AnswerRows::Pins, [pins @ .., temporary_schema]) if pins.len() == PROBED.len() => {
            probe.temporary_schema = *temporary_schema == Some(b"t");
            let mut held = [false; PROBED.len()];
            for (held, value) in held.iter_mut().zip(pins) {
                *held = *value == Some(b"t");
            }
            probe.pins = Some(held);
        }
        (AnswerRows::Setting, &[Some(name), value]) => match (text(name), value.map(text)) {
            (Some(name), None) => probe.rows.push((name, None)),
            (Some(name), Some(Some(value))) => probe.rows.push((name, Some(value))),
            _ => probe.unreadable = true,
        },
        (AnswerRows::LiftedLimit, &[Some(name), Some(before), _]) => match (text(name), text(before)) {
            (Some(name), Some(before)) => probe.lifted.push((name, Some(before))),
            _ => probe.unreadable = true,
        },
        _ => probe.failed = Some("a row of another shape than expected".into()),
    }
}

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
        let tells_pins = probe.failed.is_none() && probe.pins.is_some();
        exchange.probed(probe);
        if tells_pins {
            self.deeds.push(Deed::ChannelsMayHaveChanged);
        }
    }
}

impl Exchange<'_> {
    fn probed(&mut self, mut probe: Probe) {
        if let Some(failed) = probe.failed.take() {
            return self.probe_was_in_vain(probe.about, &failed);
        }
        self.goes_on_behind_probe();
        if let Some(held) = probe.pins {
            self.pins_found(&probe, held);
        }
        if probe.unreadable {
            self.pin_by(PinReason::UnreadableSetting, probe.about.statement.as_bytes());
        }
        if probe.settings {
            // For these, the view has shown the values that the probe itself had set.
            let is_lifted = |name: &str| probe.lifted.iter().any(|(lifted, _)| **lifted == *name);
            probe.rows.retain(|(name, _)| !is_lifted(name));
            probe.rows.append(&mut probe.lifted);
            self.settings_found(&probe.rows, &probe.about);
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
            self.pin_by(reason, probe.about.statement.as_bytes());
        }
        let ended = found().filter(|(_, held)| !held).map(|(reason, _)| reason);
        let client = &mut *self.client;
        client.session.pins_end(ended, &mut self.shared.state_stats);
        let has_objects = client.session.pins().contains(PinReason::TemporaryObjects);
        let suspicion = client.session.suspicion();
        let may_make_more = suspicion.is_some_and(|s| s.effects.intersects(Effects::TEMPORARY));
        self.server.held.temporary_objects(has_objects || may_make_more);
        if probe.temporary_schema {
            let another_s = self.server.session.has_temporary_schema();
            if has_objects || probe.temporary || !another_s {
                client.session.has_had_temporary();
            }
            if !has_objects {
                self.to().temporary_schema_stays();
            }
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
        about.probes_failed = about.probes_failed.saturating_add(1);
        if about.probes_failed < PROBES_FAILED_MAX && !forgets {
            return self.client.session.suspects_again(about);
        }
        if !forgets {
            self.pin_by(PinReason::UnknownState, about.statement.as_bytes());
            about.waits_for_text = true;
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
        let server = &mut *self.server;
        if !matches!(server.phase, ServerPhase::ConnectQuery) {
            if probe.temporary_schema || probe.failed.is_some() {
                server.session.gains_temporary_schema();
            }
            return;
        }
        if probe.failed.is_some() || probe.unreadable {
            server.close_reason.get_or_insert(CloseReason::StateUnknown);
            return;
        }
        let shape = server.session.shape().clone();
        let reported = |name: &str| shape.get(name).is_some_and(|s| s.reported);
        let made = |name: &str, value: &str| !reported(name) && (name, value) != (ROLE, NO_ROLE);
        let rows = probe
            .rows
            .iter()
            .filter_map(|(name, value)| Some((&**name, value.as_deref()?)));
        let rows = rows.filter(|(name, value)| made(name, value) && !TRANSACTION_SETTINGS.contains(name));
        let changes = rows.map(|(name, value)| (name, Some(value), false));
        let shape = self.shared.shapes.change(&shape, changes);
        server.session.has_settings(shape);
    }
}
