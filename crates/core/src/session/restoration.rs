//! Making a server look like its client.
//!
//! **Confirmed first.** Restored settings are sent in a separate segment, which executes a named internal statement and
//! ends with an internal Sync; its entries are `Skip` (recordings E1 to E6, F1 say why). No byte of the client's is
//! sent before the server has answered the whole segment. If a restoration is refused, cancelled or interrupted, the
//! client's statement has not run.
//!
//! The known settings of a server change only when it confirms them. After a restoration that succeeds the server has
//! the target's settings, whether its client is still there or not. If it fails, the server's settings are not known,
//! and it is closed.

use crate::base::close_reason::CloseReason;
use crate::base::reasons::{Passed, Waiting};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::state::beyond_ascii::{self, bytes_of, in_database_encoding, text_of};
use crate::state::difference::{Change, unhurried};
use crate::state::restoration::Segments;
use crate::state::server_session::Report;
use crate::state::shape::{REPORTED_BYTES_MAX, REPORTED_MAX, SESSION_AUTHORIZATION, Shape};
use crate::statements::parse_settings::CLIENT_ENCODING;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Ready, To};
use crate::upstream::job::{Job, ProbeRows};
use crate::upstream::phase::ServerPhase;
use pgweir_sql::Effects;
use pgweir_wire::{Writer, backend};
use std::sync::Arc;

impl ServerSide<'_> {
    /// Begins a segment that [`ServerSide::send_settings`] ends, unless it has begun. Nothing precedes a BEGIN in it:
    /// BEGIN with some options is refused after anything has taken a snapshot, as Parse may.
    pub(crate) fn begin_restoring(&mut self) {
        let server = &mut *self.server;
        if server.session.shape().is_deferrable() && !server.conversation.queue().segment_open() {
            self.begin_internal(Job::Restore);
        }
    }

    /// Sends settings. When the server has confirmed them, its shape is `target`.
    ///
    /// They are one segment. But where values beyond ASCII are set before client_encoding, they are another one before
    /// it: the server reports settings at the end of a segment, and PostgreSQL 18 reports an error without end if the
    /// encoding that it then has lacks a character.
    pub(crate) fn send_settings(&mut self, set: &[Change], target: Arc<Shape>) {
        let (before, behind) = set.split_at(beyond_ascii::before_encoding(set));
        let segments = match before.is_empty() {
            true => Segments::One,
            false => Segments::FirstOfTwo,
        };
        if segments == Segments::FirstOfTwo {
            self.send_segment(before);
        }
        self.send_segment(behind);
        self.server.session.restoration_begins(target, segments);
    }

    fn send_segment(&mut self, set: &[Change]) {
        self.begin_restoring();
        let deferrable = self.server.session.shape().is_deferrable();
        if !set.is_empty() {
            let statement = self.shared.internal.set_config.clone();
            self.prepare(&statement);
            for (name, value) in set {
                if value.is_some() && name.contains('.') {
                    self.server.session.note_custom_setting(name);
                }
            }
            self.asks(To::Skip, |r| {
                for (setting, value) in set {
                    let value = value.as_ref().map(|value| bytes_of(value));
                    let values = [Some(&*bytes_of(setting)), value.as_deref()];
                    r.bind(b"", statement.server_name(), &values);
                    r.execute(b"");
                }
            });
        }
        self.discard_plans_behind(set);
        if deferrable {
            self.commit_internal(Job::Restore);
        }
        self.asks(To::Skip, |r| r.sync());
    }
}

impl Exchange<'_> {
    /// Sends settings, without time limits that the server or the client has; the client waits for the answer.
    pub(crate) fn confirm_first(&mut self, set: Vec<Change>, target: Arc<Shape>) {
        let session = &self.server.session;
        let mut set = in_database_encoding(Some(session.shape()), session.base(), &target, set);
        if !self.shared.is_weak(Weakness::HurriesRestorations) {
            set = unhurried(self.server.session.shape(), &target, set);
        }
        self.client.waiting = Waiting::ForRestoration;
        self.server.conversation.query_begins(self.now);
        self.to().send_settings(&set, target);
    }
}

impl Exchange<'_> {
    /// Sends ParameterStatus to the client for each setting whose value differs from the one that it was last told:
    /// settings that nobody can set (after an upgrade or a failover), or a value in another spelling.
    pub(crate) fn tell_differences(&mut self) {
        if Shape::same(self.server.session.shape(), self.client.session.shape()) {
            return;
        }
        let told = self.client.session.shape().clone();
        let real = self.server.session.shape().clone();
        for setting in real.settings().iter().filter(|s| s.is_reported()) {
            if told.get(setting.name()).is_none_or(|t| t.value() != setting.value()) {
                self.tell(|w| w.parameter_status(setting.name().as_bytes(), &bytes_of(setting.value())));
                if setting.name() == CLIENT_ENCODING {
                    self.client.statements.encoding_becomes(setting.value());
                }
            }
        }
        self.client.session.has_settings(real);
    }
}

impl Reply<'_> {
    /// ParameterStatus: the server reports one of its settings. Returns whether the client gets the message.
    pub(crate) fn parameter_status(&mut self, body: &[u8]) -> Passed {
        let Ok((name, bytes)) = backend::parameter_status(body) else {
            return self.misbehaves("broken ParameterStatus packet".into());
        };
        let Ok(name) = std::str::from_utf8(name) else {
            return Passed::Forward;
        };
        if !bytes.is_ascii() && self.is_of_restoration(name) {
            return Passed::Skip;
        }
        if name == CLIENT_ENCODING && self.is_of_probe() {
            return Passed::Skip;
        }
        if self.server.session.may_be_converted(name, bytes) {
            self.reported_in_another_encoding();
        }
        let kept = text_of(bytes).filter(|_| !self.server.session.is_unread(name));
        let Some(value) = kept.as_deref() else {
            // The client reads it in its own encoding.
            let is_told = self.server.session.restoration().is_none() && self.client().is_some_and(|c| c.is_session());
            return if is_told { Passed::Forward } else { Passed::Skip };
        };
        self.note_promotion(name, value);
        if self.note_report(name, value) == Report::TooMuch {
            return self.misbehaves(format!(
                "ParameterStatus of more than {REPORTED_MAX} settings or {REPORTED_BYTES_MAX} bytes"
            ));
        }
        match self.has_turned(name) {
            true => Passed::Skip,
            false => self.tell_report(name, value, bytes),
        }
    }

    /// The server has this setting now, and perhaps others, because its configuration was changed.
    fn note_report(&mut self, name: &str, value: &str) -> Report {
        let (server, shapes) = (&mut *self.server, &mut self.shared.shapes);
        let report = server.session.reports(name, value, shapes);
        if report == Report::Configured && server.has_served {
            server.session.keeps_foreign_plans();
            if !server.held.may_read_otherwise() {
                // No text explains the change. The server may have used any statement since.
                server.held.outdate_all();
                server.held.unnamed_becomes(Unnamed::Foreign);
            }
        }
        report
    }

    /// Decides whether the client gets a report, whose value is `value` and was sent as `bytes`.
    fn tell_report(&mut self, name: &str, value: &str, bytes: &[u8]) -> Passed {
        let (server, Some((_, client))) = (&mut *self.server, &mut self.client) else {
            return Passed::Skip;
        };
        // If a setting was reset and is set again, the client is told the final value only.
        let in_between = server
            .conversation
            .queue()
            .front()
            .is_some_and(|e| e.ready() != Ready::Passes);
        if server.session.restoration().is_some() || in_between || !client.is_session() {
            return Passed::Skip;
        }
        client.session.has_settings(server.session.shape().clone());
        if name == CLIENT_ENCODING {
            client.statements.encoding_becomes(value);
        }
        if let Some(error) = server.conversation.queue_mut().error_behind_internal_segment() {
            // The server sends the report at the end of an internal segment. On a direct connection the client would
            // get it after the error.
            Writer::new(error).parameter_status(name.as_bytes(), bytes);
            return Passed::Skip;
        }
        Passed::Forward
    }

    /// Whether a report of a value beyond ASCII is about one that a restoration sets. The restoration's answer says
    /// whether the server has it. The report may be in the encoding of the server's last client, or of this one.
    fn is_of_restoration(&self, name: &str) -> bool {
        let target = self.server.session.restoration().map(|r| r.target());
        target.is_some_and(|target| target.value(name).is_some_and(|value| !value.is_ascii()))
    }

    /// Whether the server reports what a probe sets for itself. Servers before PostgreSQL 14 report that at once.
    fn is_of_probe(&self) -> bool {
        let front = self.server.conversation.queue().front();
        front.is_some_and(|entry| entry.to() == To::Job(Job::Probe(ProbeRows::LiftedLimit)))
    }

    /// The server has reported a value beyond ASCII whose bytes need not be those of the database. They are asked for;
    /// without a client that keeps the server until the answer, the server is closed.
    #[cold]
    fn reported_in_another_encoding(&mut self) {
        let serves_nobody = matches!(self.server.phase, ServerPhase::Login(_) | ServerPhase::Listening);
        if let Some(mut exchange) = self.exchange().filter(|e| e.keeps_session() && e.client.is_session()) {
            // pg_settings does not show the session authorization.
            let is_hidden = exchange.server.session.is_unread(SESSION_AUTHORIZATION);
            let hidden = is_hidden.then(|| SESSION_AUTHORIZATION.into());
            let hidden = hidden.into_iter().collect();
            exchange.suspect_unread(Effects::SETTINGS, "a setting beyond ASCII", hidden);
        } else if !serves_nobody {
            self.server.close_reason.get_or_insert(CloseReason::StateUnknown);
        }
    }

    /// DISCARD ALL and RESET ALL have returned the settings that the server does not report to the values of its login.
    pub(crate) fn forget_explicit_settings(&mut self) {
        let shape = self.server.session.shape().clone();
        let unreported = shape.settings().iter().filter(|s| !s.is_reported());
        let gone: Vec<_> = unreported.map(|s| (s.name(), None, false)).collect();
        if gone.is_empty() {
            return;
        }
        let shape = self.shared.shapes.change(&shape, gone);
        self.server.session.has_settings(shape.clone());
        if let Some(client) = self.client() {
            client.session.has_settings(shape);
        }
    }
}

#[cfg(test)]
#[path = "restoration_tests.rs"]
mod tests;
