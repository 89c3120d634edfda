//! Probes: asking a server what became of the session, when a transaction may have changed it.
//!
//! The text of a statement says only what it *may* do ([`pgweir_sql::Effects`]); whether a SET took effect, a temporary
//! table was rolled back or a lock is still held, the server knows best. So when such a transaction has ended and nothing
//! else is owed, the pooler asks, behind the ReadyForQuery the client already has, and lets the server go only when the
//! answer says that nothing ties the client to it.
//!
//! A probe is a segment of its own of prepared statements with every name qualified, so that no search_path, role or
//! unnamed statement of the client's matters; it runs without a statement timeout and under no deferrable default
//! (recording F3).

use crate::base::close_reason::CloseReason;
use crate::base::deeds::Deed;
use crate::base::pin_reason::{Cleanup, PinReason};
use crate::base::reasons::Waiting;
use crate::base::request::{LogLevel, Request};
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::state::pins::{PROBED, Pins};
use crate::state::probe::{Probe, Suspicion, beginning};
use crate::state::shape::{Shape, difference};
use crate::statements::prepared::Statement;
use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::phase::{Introduction, ServerPhase};
use pgweir_sql::Effects;
use pgweir_wire::{ErrorFields, HEADER_BYTES, Header, Writer, backend};
use std::sync::Arc;

/// Settings that one client's session may have beyond those `pg_settings` shows; one that names more is pinned.
const HIDDEN_SETTINGS_MAX: usize = 256;

/// Failed probes in a row before a client keeps its server, of whose state nothing is known, until it leaves.
const PROBES_FAILED_MAX: u8 = 3;

/// Time limits that are lifted while a probe runs, with the major version of PostgreSQL that brought them.
const LIMITS: [(&str, u32); 3] = [
    ("statement_timeout", 0),
    ("lock_timeout", 0),
    ("transaction_timeout", 17),
];

/// The setting that SET ROLE makes, and its value where no role is taken.
const ROLE: &str = "role";

const NO_ROLE: &str = "none";

/// What a probe must look at.
struct Asks {
    pins: bool,
    locks: bool,
    settings: bool,
}

impl Asks {
    /// For a transaction that may have had these effects, of a client that is pinned so.
    fn of(effects: Effects, pins: Pins) -> Self {
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

/// Which reason an effect may bring about.
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

impl Suspicion {
    /// Names of the settings that no view shows and this client's session may have.
    fn hidden_settings(&self, client: &Client) -> Vec<Box<str>> {
        let mut names = self.hidden.clone();
        // What DISCARD ALL has returned to its startup value was made again behind it.
        let made = client
            .session
            .shape
            .settings()
            .iter()
            .chain(client.session.base.settings());
        for setting in made.filter(|s| s.is_hidden()) {
            if !names.iter().any(|n| n.eq_ignore_ascii_case(&setting.name)) {
                names.push((&*setting.name).into());
            }
        }
        // No report tells of a role, whatever has taken it.
        if !names.iter().any(|n| &**n == ROLE) {
            names.push(ROLE.into());
        }
        names
    }

    /// Reasons to keep the client on its server until it leaves.
    fn pins_for_good(&self) -> impl Iterator<Item = PinReason> {
        let effects = self.effects;
        PIN_FOR_GOOD
            .into_iter()
            .filter(move |(effect, _)| effects.intersects(*effect))
            .map(|(_, reason)| reason)
    }
}

impl ServerSide<'_> {
    /// `locks`: whether to look at pg_locks, which visits every backend; `None` asks for no pins at all. `hidden` are the
    /// names of settings to ask for beside those that `pg_settings` shows; `None` asks for no settings at all.
    fn send_probe(&mut self, locks: Option<bool>, hidden: Option<&[Box<str>]>, about: Suspicion) {
        let (pins, settings, set_config) = (
            self.shared.own_statements.probe_pins.clone(),
            self.shared.own_statements.probe_settings.clone(),
            self.shared.own_statements.set_config_local.clone(),
        );
        if about.probes_failed > 0 {
            self.forget_own_statements();
        }
        let limits = self.time_limits(&about);
        let followed = self.names_by_sql();
        let server = &mut *self.server;
        server.session.probe = Some(Box::new(Probe {
            settings: hidden.is_some(),
            temporary: about.effects.intersects(Effects::TEMPORARY),
            prepares: about.effects.intersects(Effects::PREPARE),
            about,
            ..Probe::default()
        }));
        let deferrable = server.session.shape.is_deferrable();
        if deferrable {
            self.own_begin();
        }
        for name in limits {
            self.probe_with(&set_config, &[Some(name.as_bytes()), Some(b"0")]);
        }
        if let Some(locks) = locks {
            let followed = array_literal(&followed);
            self.probe_with(&pins, &[Some(if locks { b"t" } else { b"f" }), Some(&followed)]);
        }
        if let Some(hidden) = hidden {
            let hidden: Vec<&[u8]> = hidden.iter().map(|name| name.as_bytes()).collect();
            let array = array_literal(&hidden);
            self.probe_with(&settings, &[Some(&array)]);
        }
        if deferrable {
            self.own_commit();
        }
        if matches!(self.server.phase, ServerPhase::ConnectQuery) {
            // Many a server is never asked again.
            self.inject_close(&settings);
        }
        self.server.conversation.queue.push(Entry::probe(Expect::Sync));
        self.send(|w| w.sync());
        if deferrable {
            self.own_rollback();
        }
    }

    /// The time limits that a probe lifts for itself, where the session may have one: it is known to, code may have made it,
    /// or an earlier probe has failed.
    fn time_limits(&self, about: &Suspicion) -> Vec<&'static str> {
        let shape = &self.server.session.shape;
        let may_have = about.effects.intersects(Effects::CODE) || about.probes_failed > 0 || shape.is_hurried();
        let exists = |since: u32| since == 0 || shape.server_major().is_some_and(|major| major >= since);
        let limits = LIMITS.iter().filter(|(_, since)| may_have && exists(*since));
        limits.map(|(name, _)| *name).collect()
    }

    /// A new server is asked for the settings that its role's defaults or connect_query have made, and nothing reports. The
    /// view does not show custom ones: those that connect_query names are asked for by name.
    pub(crate) fn ask_new_server(&mut self) {
        let mut names: Vec<Box<str>> = vec![ROLE.into()];
        if let Some(query) = self.pool.settings.connect_query.as_deref() {
            let hidden = pgweir_sql::hidden_settings(query.as_bytes()).into_iter();
            names.extend(hidden.filter(|name| &**name != ROLE).take(HIDDEN_SETTINGS_MAX));
        }
        for name in names.iter().filter(|name| name.contains('.')) {
            self.server.session.note_custom_setting(name);
        }
        self.send_probe(None, Some(&names), Suspicion::default());
    }

    /// A statement of the pooler's own may not be on the server any more, whatever has become of it: each is prepared again
    /// in front of its next use.
    fn forget_own_statements(&mut self) {
        for statement in self.server.held.all_own() {
            self.inject_close(&statement);
            if let Some(close) = self.server.conversation.queue.back_mut() {
                close.to = To::Probe;
            }
        }
    }

    /// Runs one of the pooler's own statements as part of a probe.
    pub(crate) fn probe_with(&mut self, statement: &Arc<Statement>, values: &[Option<&[u8]>]) {
        self.prepare(statement);
        let queue = &mut self.server.conversation.queue;
        queue.preparing_is_probing();
        queue.push(Entry::probe(Expect::Bind));
        queue.push(Entry::probe(Expect::Execute));
        let name = statement.server_name();
        self.shared.outbox.insert(self.id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            writer.bind_text(name, values);
            writer.execute();
        });
    }

    /// Begins a transaction that no default of the client's can hold up, for statements of the pooler's own.
    pub(crate) fn own_begin(&mut self) {
        let begin = self.shared.own_statements.begin_plain.clone();
        self.probe_with(&begin, &[]);
    }

    /// Ends what [`ServerSide::own_begin`] began.
    pub(crate) fn own_commit(&mut self) {
        let commit = self.shared.own_statements.commit.clone();
        self.probe_with(&commit, &[]);
    }

    /// Behind the Sync of what [`ServerSide::own_begin`] began on a client's server: the client may have sent its next request,
    /// which must not meet a failed transaction of the pooler's.
    pub(crate) fn own_rollback(&mut self) {
        if matches!(self.server.phase, ServerPhase::Linked) {
            self.query_for_nothing(b"ROLLBACK");
        }
    }

    /// Sends a client's server a Query whose answer means nothing, an error neither.
    pub(crate) fn query_for_nothing(&mut self, text: &[u8]) {
        let server = &mut *self.server;
        server.held.unnamed = crate::statements::unnamed::Unnamed::Nothing;
        server.conversation.queue.push(Entry::probe(Expect::Query));
        self.send(|w| w.query(text));
    }

    /// The server refused a probe.
    pub(crate) fn probe_failed(&mut self, fields: &ErrorFields<'_>) {
        let server = &mut *self.server;
        if let Some(probe) = &mut server.session.probe {
            probe.failed = Some(String::from_utf8_lossy(fields.message).into());
        } else if let Some(reading) = &mut server.reading {
            reading.fails(fields.sqlstate, fields.message);
        } else {
            server.session.move_failed = true;
        }
    }
}

impl Exchange<'_> {
    /// A statement of the client's is on its way to its server.
    pub(crate) fn suspect(&mut self, effects: Effects, text: &[u8], hidden: Vec<Box<str>>) {
        if effects.is_empty() {
            return;
        }
        if effects.intersects(Effects::DEFINES | Effects::TEMPORARY) {
            let server = &mut *self.server;
            server.session.defines |= effects.intersects(Effects::DEFINES);
            if effects.intersects(Effects::TEMPORARY) {
                server.held.temporary_objects(true);
            }
        }
        for name in &hidden {
            self.note_custom_setting(name);
        }
        let client = &mut *self.client;
        let before_local = &self.server.session.before_local;
        let suspicion = client.session.suspicion.get_or_insert_with(|| {
            Box::new(Suspicion {
                statement: beginning(text),
                before: Some(before_local.as_ref().unwrap_or(&client.session.shape).clone()),
                ..Suspicion::default()
            })
        });
        suspicion.effects |= effects;
        suspicion.texts += 1;
        if hidden.iter().any(|name| &**name == ROLE) {
            suspicion.sets_role = later_role(suspicion.sets_role, Some(!effects.intersects(Effects::RESETS)));
        }
        suspicion.single = text
            .iter()
            .position(|b| *b == b';')
            .is_none_or(|at| text[at + 1..].trim_ascii().is_empty());
        for name in hidden {
            if !suspicion.hidden.contains(&name) {
                suspicion.hidden.push(name);
            }
        }
        if suspicion.hidden.len() > HIDDEN_SETTINGS_MAX {
            suspicion.hidden.truncate(HIDDEN_SETTINGS_MAX);
            self.pin_by(PinReason::UnreadableSetting, text);
        }
    }
}

/// See [`Suspicion::sets_role`]. Behind a RESET the pooler makes the role of the startup packet. If the server tells no role all
/// the same, the RESET has been rolled back, and what an earlier text has set counts.
fn later_role(earlier: Option<bool>, later: Option<bool>) -> Option<bool> {
    match earlier {
        Some(true) => earlier,
        _ => later.or(earlier),
    }
}

impl Reply<'_> {
    /// The server has refused a text before it ran anything of it: what no probe can see has not happened. Where other texts
    /// are suspected as well, it is not known whose it would be.
    #[cold]
    pub(crate) fn text_refused(&mut self, fields: &ErrorFields<'_>) {
        let front = self
            .server
            .conversation
            .queue
            .front()
            .map(|e| (e.expect, e.to == To::Forward));
        if !matches!(
            front,
            Some((Expect::Query | Expect::Parse | Expect::ParseUnnamed, true))
        ) {
            return;
        }
        let suspicion = self.client().and_then(|client| client.session.suspicion.as_mut());
        if let Some(suspicion) = suspicion.filter(|s| s.texts == 1 && (s.single || fields.is_of_grammar())) {
            suspicion.texts = 0;
            for (effect, _) in PIN_FOR_GOOD {
                suspicion.effects = suspicion.effects.without(effect);
            }
        }
    }

    /// A whole row of a probe's answer.
    pub(crate) fn probe_row(&mut self, message: &[u8]) {
        if let Some(reading) = &mut self.server.reading {
            return reading.row(message);
        }
        let Some(probe) = &mut self.server.session.probe else {
            return self.channel_row(message);
        };
        if Header::read(message).is_ok_and(|h| h.is_some_and(|h| h.message_bytes as usize > message.len())) {
            // A value too long to be kept.
            probe.unreadable = true;
            return;
        }
        let Ok(row) = backend::data_row(&message[HEADER_BYTES..]) else {
            probe.failed = Some("malformed row".into());
            return;
        };
        match row[..] {
            [value] => {
                probe.temporary_schema = value == Some(b"t");
                let text = value.and_then(|v| std::str::from_utf8(v).ok());
                probe.value = text.map(Box::from);
            }
            [name, value] => match (name.map(std::str::from_utf8), value.map(std::str::from_utf8)) {
                (Some(Ok(name)), None) => probe.rows.push((name.into(), None)),
                (Some(Ok(name)), Some(Ok(value))) => probe.rows.push((name.into(), Some(value.into()))),
                _ => probe.unreadable = true,
            },
            [.., temporary_schema] if row.len() == PROBED.len() + 1 => {
                probe.temporary_schema = temporary_schema == Some(b"t");
                let mut held = [false; PROBED.len()];
                for (held, value) in held.iter_mut().zip(&row) {
                    *held = *value == Some(b"t");
                }
                probe.pins = Some(held);
            }
            [Some(name), Some(before), _] => match (std::str::from_utf8(name), std::str::from_utf8(before)) {
                (Ok(name), Ok(before)) => probe.lifted.push((name.into(), Some(before.into()))),
                _ => probe.unreadable = true,
            },
            _ => {}
        }
    }
}

impl Exchange<'_> {
    /// Asks the server what the client's last transactions did to the session. Called when the server is clean; says
    /// whether there was anything to ask.
    pub(crate) fn probe(&mut self) -> bool {
        let always = self.shared.settings.probe_always && self.keeps_session() && self.client.session.used_server;
        self.client.session.used_server = false;
        let mut about = match self.client.session.suspicion.take() {
            Some(suspicion) => *suspicion,
            None if always => Suspicion::default(),
            None => return false,
        };
        for reason in about.pins_for_good() {
            self.pin_by(reason, about.statement.as_bytes());
        }
        if always {
            about.effects |= Effects::SETTINGS | Effects::TEMPORARY | Effects::CURSORS;
            if self.shared.settings.probe_always_locks {
                about.effects |= Effects::LOCKS;
            }
        }
        let asks = Asks::of(about.effects, self.client.session.pins);
        if !asks.pins && !asks.settings {
            return false;
        }
        // What has been reset must be made again before the client goes on.
        let resets = about.effects.intersects(Effects::CODE | Effects::RESETS);
        let other_startup = !Arc::ptr_eq(&self.server.session.base, &self.client.session.base);
        if asks.settings && resets && other_startup && self.client.waiting == Waiting::No {
            self.client.waiting = Waiting::ForProbe;
        }
        if self.server.cancels.in_flight > 0 && !self.shared.is_weak(Weakness::AsksUnderCancel) {
            // It would hit the question: the end of the cancel brings us back here.
            self.client.session.suspicion = Some(Box::new(about));
            return true;
        }
        let hidden = asks.settings.then(|| about.hidden_settings(self.client));
        self.shared.state_stats.probes += 1;
        let locks = asks.pins.then_some(asks.locks);
        self.to().send_probe(locks, hidden.as_deref(), about);
        true
    }
}

impl Reply<'_> {
    /// The server has answered a probe to the end.
    pub(crate) fn probed(&mut self) {
        let Some(probe) = self.server.session.probe.take() else {
            return;
        };
        let Some(mut exchange) = self.exchange() else {
            return self.to().told_without_client(&probe);
        };
        let tells_pins = probe.failed.is_none() && probe.pins.is_some();
        exchange.probed(*probe);
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
            // The view told what the probe made of them.
            let is_lifted = |name: &str| probe.lifted.iter().any(|(lifted, _)| **lifted == *name);
            probe.rows.retain(|(name, _)| !is_lifted(name));
            probe.rows.append(&mut probe.lifted);
            self.settings_found(&probe.rows, &probe.about);
        }
    }

    /// See [`Client::pin_by`].
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

    /// What ties the session to its server, as the server tells it: one answer for each of [`PROBED`].
    fn pins_found(&mut self, probe: &Probe, held: [bool; PROBED.len()]) {
        let before = self.client.session.pins;
        for (reason, held) in PROBED.into_iter().zip(held) {
            if held {
                self.pin_by(reason, probe.about.statement.as_bytes());
            } else {
                self.client.session.pins.set(reason, false);
            }
        }
        let client = &mut *self.client;
        if !client.session.pins.of_session() {
            client.session.pinned = None;
            self.shared.state_stats.unpinned += u64::from(before.of_session());
        }
        let has_objects = client.session.pins.contains(PinReason::TemporaryObjects);
        let suspicion = client.session.suspicion.as_ref();
        let may_make_more = suspicion.is_some_and(|s| s.effects.intersects(Effects::TEMPORARY));
        self.server.held.temporary_objects(has_objects || may_make_more);
        if probe.temporary_schema {
            let another_s = self.server.session.temporary_schema;
            client.session.had_temporary |= has_objects || probe.temporary || !another_s;
            if !has_objects {
                self.to().temporary_schema_stays();
            }
        }
    }

    /// A probe has failed, for a reason that need not be the session's: it is asked again. Where that is in vain as well, the
    /// client keeps the server, which nobody else gets after it.
    fn probe_was_in_vain(&mut self, mut about: Suspicion, failed: &str) {
        let text = format!("{}: cannot tell the state of the session: {failed}", self.server_id);
        self.shared.log(LogLevel::Warning, text);
        let forgets = self.shared.is_weak(Weakness::ForgetsFailedProbe);
        about.probes_failed += 1;
        if about.probes_failed < PROBES_FAILED_MAX && !forgets {
            return self.suspect_again(about);
        }
        if !forgets {
            self.pin_by(PinReason::UnknownState, about.statement.as_bytes());
        }
        self.goes_on_behind_probe();
    }

    /// What a failed probe was about, and what has come to it since.
    fn suspect_again(&mut self, mut about: Suspicion) {
        if let Some(newer) = self.client.session.suspicion.take() {
            about.effects |= newer.effects;
            about.sets_role = later_role(about.sets_role, newer.sets_role);
            let known = about.hidden.len();
            let new = newer.hidden.into_iter().filter(|n| !about.hidden[..known].contains(n));
            about.hidden.extend(new.collect::<Vec<_>>());
        }
        self.client.session.suspicion = Some(Box::new(about));
    }

    /// The settings that the session has made, as the server tells them.
    fn settings_found(&mut self, rows: &[(Box<str>, Option<Box<str>>)], about: &Suspicion) {
        let now = self.server.session.shape.clone();
        let before = about.before.as_ref().unwrap_or(&self.client.session.shape);
        // No role is the same as none set, unless the server has logged in with one, or the client has given up its own.
        // A RESET ROLE that was rolled back has made the role of the startup packet in between.
        let is_none = |shape: &Shape| shape.get(ROLE).is_some_and(|s| &*s.value == NO_ROLE);
        let had_none = is_none(before) || is_none(&self.client.session.shape);
        let gave_up_role = self.client.session.base.get(ROLE).is_some() && (about.sets_role == Some(true) || had_none);
        let starts_with_role = self.server.session.base.get(ROLE).is_some();
        let tells_none = (starts_with_role || gave_up_role) && !self.shared.is_weak(Weakness::ForgetsDefaultRole);
        let is_made = |name: &str| {
            let made = |(n, v): &(Box<str>, Option<Box<str>>)| {
                let says = |v: &str| tells_none || (name, v) != (ROLE, NO_ROLE);
                n.eq_ignore_ascii_case(name) && v.as_deref().is_some_and(says)
            };
            rows.iter().any(made)
        };
        let gone: Vec<Arc<str>> = now
            .settings()
            .iter()
            .filter(|s| !s.reported && !is_made(&s.name))
            .map(|s| s.name.clone())
            .collect();
        let mut changes: Vec<(&str, Option<&str>, bool)> = gone.iter().map(|n| (&**n, None, false)).collect();
        for (name, value) in rows {
            let Some(value) = value.as_deref().filter(|_| is_made(name)) else {
                continue;
            };
            let reported = now.get(name).is_some_and(|s| s.reported);
            // What is reported is known by its own words; the view would tell it in others.
            if !reported && !TRANSACTION_SETTINGS.contains(&&**name) && now.get(name).is_none_or(|s| *s.value != *value)
            {
                changes.push((name, Some(value), false));
            }
        }
        let server_shape = if changes.is_empty() {
            now
        } else {
            self.shared.shapes.change(&now, changes)
        };
        // A setting of the client's startup packet that the session no longer makes has been reset: the server went back to
        // its own startup value, and the client must go back to its. A value that was the server's own all along was never
        // made there.
        let value_in = |shape: &Shape, name: &str| shape.get(name).map(|s| s.value.clone());
        let was_made = |name: &str| {
            let value = value_in(before, name);
            // What connect_query makes is the server's own, and somebody's RESET may have taken it away long ago.
            value != value_in(&self.server.session.base, name) && value != value_in(&server_shape, name)
        };
        let at_startup = difference(&self.server.session.base, &self.client.session.base);
        let returned: Vec<(&str, Option<&str>, bool)> = at_startup
            .iter()
            .filter(|(name, value)| value.is_some() && !is_made(name) && was_made(name))
            .map(|(name, value)| (&**name, value.as_deref(), false))
            .collect();
        let client_shape = if returned.is_empty() {
            server_shape.clone()
        } else {
            self.shared.shapes.change(&server_shape, returned)
        };
        let told: Vec<(Arc<str>, Arc<str>)> = client_shape
            .settings()
            .iter()
            .filter(|s| s.reported && server_shape.get(&s.name).is_none_or(|r| r.value != s.value))
            .map(|s| (s.name.clone(), s.value.clone()))
            .collect();
        for (name, value) in told {
            self.tell(|w| w.parameter_status(name.as_bytes(), value.as_bytes()));
        }
        self.server.session.shape = server_shape;
        self.client.session.shape = client_shape;
    }

    /// The client leaves: its server may have got a schema for temporary objects that no probe has told of.
    pub(crate) fn note_temporary_schema(&mut self) {
        let may_make = |s: &Suspicion| s.effects.intersects(Effects::TEMPORARY | Effects::CODE);
        self.server.session.temporary_schema |= self.client.session.pins.contains(PinReason::TemporaryObjects)
            || self.client.session.suspicion.as_ref().is_some_and(|s| may_make(s))
            || self.server.session.probe.as_ref().is_some_and(|p| p.temporary);
    }

    /// What must be done to the server, whose client leaves, before anyone else gets it.
    pub(crate) fn cleanup_after(&self) -> Cleanup {
        let in_doubt = self.client.session.suspicion.is_some() || self.server.session.probe.is_some();
        let in_doubt = in_doubt && !self.shared.is_weak(Weakness::TrustsUnanswered);
        let least = if in_doubt { Cleanup::Discard } else { Cleanup::Nothing };
        let suspected = self.client.session.suspicion.iter().flat_map(|s| s.pins_for_good());
        let least = suspected.map(PinReason::cleanup).fold(least, Cleanup::max);
        self.client.session.pins.cleanup().max(least)
    }
}

impl ServerSide<'_> {
    /// A server without a client has answered: a new one, or one that was reset.
    fn told_without_client(&mut self, probe: &Probe) {
        if self.server.introduction == Introduction::NatureAsked {
            return self.nature_told(probe);
        }
        let server = &mut *self.server;
        if !matches!(server.phase, ServerPhase::ConnectQuery) {
            server.session.temporary_schema |= probe.temporary_schema || probe.failed.is_some();
            return;
        }
        if probe.failed.is_some() || probe.unreadable {
            server.close_reason.get_or_insert(CloseReason::StateUnknown);
            return;
        }
        let shape = server.session.shape.clone();
        let reported = |name: &str| shape.get(name).is_some_and(|s| s.reported);
        let made = |name: &str, value: &str| !reported(name) && (name, value) != (ROLE, NO_ROLE);
        let rows = probe
            .rows
            .iter()
            .filter_map(|(name, value)| Some((&**name, value.as_deref()?)));
        let rows = rows.filter(|(name, value)| made(name, value) && !TRANSACTION_SETTINGS.contains(name));
        let changes = rows.map(|(name, value)| (name, Some(value), false));
        server.session.shape = self.shared.shapes.change(&shape, changes);
    }
}

/// Settings of the transaction, not of the session.
const TRANSACTION_SETTINGS: [&str; 3] = [
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// `{"a","b"}`, as an array of text reads.
fn array_literal(names: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut array = vec![b'{'];
    for name in names {
        if array.len() > 1 {
            array.push(b',');
        }
        array.push(b'"');
        for &byte in name.as_ref() {
            if matches!(byte, b'"' | b'\\') {
                array.push(b'\\');
            }
            array.push(byte);
        }
        array.push(b'"');
    }
    array.push(b'}');
    array
}
