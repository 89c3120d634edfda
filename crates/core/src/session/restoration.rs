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

use crate::base::reasons::{Passed, Waiting};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::state::difference::{Change, unhurried};
use crate::state::server_session::Report;
use crate::state::shape::{REPORTED_BYTES_MAX, REPORTED_MAX, Shape};
use crate::statements::parse_settings::CLIENT_ENCODING;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Ready, To};
use pgweir_wire::{Writer, backend};
use std::sync::Arc;

impl ServerSide<'_> {
    /// Begins a segment that [`ServerSide::send_settings`] ends, unless it has begun. Nothing precedes a BEGIN in it:
    /// BEGIN with some options is refused after anything has taken a snapshot, as Parse may.
    pub(crate) fn begin_restoring(&mut self) {
        let server = &mut *self.server;
        if server.session.shape().is_deferrable() && !server.conversation.queue().segment_open() {
            self.begin_internal();
        }
    }

    /// Sends one segment that sets settings. When the server has confirmed them, its shape is `target`.
    pub(crate) fn send_settings(&mut self, set: &[Change], target: Arc<Shape>) {
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
                    let value = value.as_ref().map(|v| v.as_bytes());
                    r.bind(b"", statement.server_name(), &[Some(setting.as_bytes()), value]);
                    r.execute(b"");
                }
            });
        }
        self.discard_plans_behind(set);
        if deferrable {
            self.commit_internal();
        }
        self.server.session.restoration_begins(target);
        self.asks(To::Skip, |r| r.sync());
    }
}

impl Exchange<'_> {
    /// Sends settings, without time limits that the server or the client has; the client waits for the answer.
    pub(crate) fn confirm_first(&mut self, mut set: Vec<Change>, target: Arc<Shape>) {
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
                self.tell(|w| w.parameter_status(setting.name().as_bytes(), setting.value().as_bytes()));
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
        let Ok((name, value)) = backend::parameter_status(body) else {
            return self.misbehaves("a ParameterStatus that cannot be read".into());
        };
        // A name or value that is not UTF-8, in a database of another encoding, goes to the client and is not kept.
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return Passed::Forward;
        };
        self.note_promotion(name, value);
        let (server, shapes) = (&mut *self.server, &mut self.shared.shapes);
        let report = server.session.reports(name, value, shapes);
        if report == Report::TooMuch {
            return self.misbehaves(format!(
                "ParameterStatus of more than {REPORTED_MAX} settings or {REPORTED_BYTES_MAX} bytes"
            ));
        }
        if report == Report::Configured && server.has_served {
            server.session.keeps_foreign_plans();
            if !server.held.may_read_otherwise() {
                // No text explains the change. The server may have used any statement since.
                server.held.outdate_all();
                server.held.unnamed_becomes(Unnamed::Foreign);
            }
        }
        if self.has_turned(name) {
            return Passed::Skip;
        }
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
            // It is sent at the end of an internal segment. On a direct connection the client would get it after the
            // error.
            Writer::new(error).parameter_status(name.as_bytes(), value.as_bytes());
            return Passed::Skip;
        }
        Passed::Forward
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
