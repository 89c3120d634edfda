//! Making a server look like its client.
//!
//! Restored settings commit alone: they are a segment of their own, of a named statement, that ends in its own Sync, with
//! `Skip` entries for its replies (recordings E1 to E6, F1 say why). The client's messages share the write with it only
//! where no setting in it can be refused.

use crate::client::Waiting;
use crate::errors::Trouble;
use crate::ids::{ClientId, ServerId};
use crate::link::Acquired;
use crate::pooler::Pooler;
use crate::reply_queue::{Entry, Expect, Ready};
use crate::request::{LogLevel, Request};
use crate::session_state::{Difference, Shape};
use crate::time::Time;
use pgweir_wire::{Writer, backend};
use std::sync::Arc;

impl Pooler {
    /// Sends what lies between a server and the client just linked to it.
    pub(crate) fn restore(&mut self, id: ClientId, server_id: ServerId) -> Acquired {
        let target = self.client_mut(id).shape.clone();
        let server = self.servers.get(server_id.0).expect("a linked server lives");
        let home = server.base.get("session_authorization").map(|s| s.value.clone());
        let accepted = |name: &str| server.custom_settings.contains(name);
        let difference = Difference::on(&server.shape, &target, home.as_deref().unwrap_or_default(), accepted);
        if difference.set.is_empty() {
            self.tell_differences(id, server_id);
            return Acquired::Server(server_id);
        }
        self.state_stats.restorations += 1;
        self.state_stats.settings_sent += difference.set.len() as u64;
        self.send_settings(server_id, &difference.set);
        let server = self.server_mut(server_id);
        for (name, value) in &difference.set {
            if value.is_some() && name.contains('.') {
                server.custom_settings.insert(name.clone());
                server.note_custom_setting(name);
            }
        }
        // Read-only settings stay the server's own: see tell_differences.
        server.shape = target;
        if difference.may_be_refused && !self.is_weak(crate::Weakness::SharesUnconfirmed) {
            self.client_mut(id).waiting = Waiting::ForRestoration;
            return Acquired::Wait;
        }
        Acquired::Server(server_id)
    }

    /// Begins a segment that [`Pooler::send_settings`] ends, unless it has begun. Of what is in it nothing comes sooner:
    /// a BEGIN is refused once anything has taken a snapshot, as Parse may.
    pub(crate) fn begin_restoring(&mut self, server_id: ServerId) {
        let server = self.server_mut(server_id);
        if server.shape.is_deferrable() && !server.queue.segment_open() {
            self.own_begin(server_id);
        }
    }

    /// One segment that makes settings.
    pub(crate) fn send_settings(&mut self, server_id: ServerId, set: &[(Arc<str>, Option<Arc<str>>)]) {
        self.begin_restoring(server_id);
        let statement = self.own_statements.set_config.clone();
        self.ensure_held(server_id, &statement);
        let deferrable = self.server_mut(server_id).shape.is_deferrable();
        let server = self.server_mut(server_id);
        server.restoring = true;
        server.refused = None;
        for _ in set {
            server.queue.push(Entry::skip(Expect::Bind));
            server.queue.push(Entry::skip(Expect::Execute));
        }
        let name = statement.server_name();
        self.outbox.insert(server_id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            for (setting, value) in set {
                let value = value.as_ref().map(|v| v.as_bytes());
                writer.bind_text(name, &[Some(setting.as_bytes()), value]);
                writer.execute();
            }
        });
        if deferrable {
            self.own_commit(server_id);
        }
        self.server_mut(server_id).queue.push(Entry::skip(Expect::Sync));
        self.send(server_id, |w| w.sync());
    }

    /// The server has answered a segment of restored settings.
    pub(crate) fn restored(&mut self, now: Time, server_id: ServerId) {
        let server = self.server_mut(server_id);
        server.restoring = false;
        let refused = server.refused.take();
        let Some(id) = server.link else { return };
        if self.is_login(id) {
            return self.login_validated(now, id, server_id, refused.map(|r| *r));
        }
        if let Some(refused) = refused {
            self.state_stats.refused += 1;
            let (sqlstate, message) = *refused;
            let text = format!("{server_id}: server refused restored settings: {sqlstate} {message}");
            self.log(LogLevel::Error, text);
            // What the server looks like now is not known.
            self.server_mut(server_id)
                .close_reason
                .get_or_insert("invalid server parameter");
            let hint = "Reconnect; the setting was accepted when it was made.";
            return self.fail_client(
                now,
                id,
                Trouble::RestorationRefused,
                "cannot restore the session's settings",
                &message,
                hint,
            );
        }
        self.tell_differences(id, server_id);
        let client = self.client_mut(id);
        if client.waiting == Waiting::ForRestoration {
            client.waiting = Waiting::No;
            client.went_elsewhere = false;
            self.requests.push_back(Request::Resume(id.into()));
        }
    }

    /// Tells a client what its server reports otherwise than it was last told: settings that nobody can set (after an
    /// upgrade or a failover), or a value in another spelling.
    pub(crate) fn tell_differences(&mut self, id: ClientId, server_id: ServerId) {
        let server = self.servers.get(server_id.0).expect("a linked server lives");
        let client = self.clients.get(id.0).expect("a linked client lives");
        if Shape::same(&server.shape, &client.shape) {
            return;
        }
        let told = client.shape.clone();
        let real = server.shape.clone();
        for setting in real.settings().iter().filter(|s| s.reported) {
            if told.get(&setting.name).is_none_or(|t| t.value != setting.value) {
                let (name, value) = (setting.name.clone(), setting.value.clone());
                self.send(id, |w| w.parameter_status(name.as_bytes(), value.as_bytes()));
            }
        }
        self.client_mut(id).shape = real;
    }

    /// ParameterStatus: the server's own word on one of its settings. Says whether it is the client's business.
    pub(crate) fn parameter_status(&mut self, server_id: ServerId, body: &[u8]) -> crate::server_messages::Passed {
        use crate::server_messages::Passed;
        let Ok((name, value)) = backend::parameter_status(body) else {
            return Passed::Forward;
        };
        // Names and values of settings are ASCII or, in a database of another encoding, opaque: kept lossily, never sent.
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return Passed::Forward;
        };
        let server = self.servers.get_mut(server_id.0).expect("looked up by the caller");
        let known = server.shape.get(name).is_some_and(|s| s.reported && *s.value == *value);
        if !known {
            server.shape = self.shapes.change(&server.shape, [(name, Some(value), true)]);
        }
        let Some(client) = server.link.and_then(|c| self.clients.get_mut(c.0)) else {
            return Passed::Skip;
        };
        // Where a setting has been reset and is made again, the client hears of the outcome only.
        let in_between = server.queue.front().is_some_and(|e| e.ready != Ready::Passes);
        if server.restoring || in_between || !client.is_session() {
            return Passed::Skip;
        }
        client.shape = server.shape.clone();
        Passed::Forward
    }

    /// DISCARD ALL and RESET ALL took the settings that the server does not report back to those of its own login.
    pub(crate) fn forget_explicit_settings(&mut self, server_id: ServerId) {
        let server = self.servers.get(server_id.0).expect("looked up by the caller");
        let shape = server.shape.clone();
        let gone: Vec<_> = shape
            .settings()
            .iter()
            .filter(|s| !s.reported)
            .map(|s| s.name.clone())
            .collect();
        if gone.is_empty() {
            return;
        }
        let shape = self
            .shapes
            .change(&shape, gone.iter().map(|name| (&**name, None, false)));
        let server = self.server_mut(server_id);
        server.shape = shape.clone();
        if let Some(client) = server.link.and_then(|c| self.clients.get_mut(c.0)) {
            client.shape = shape;
        }
    }
}
