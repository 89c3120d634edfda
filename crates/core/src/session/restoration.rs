//! Making a server look like its client.
//!
//! **Confirmed first.** Restored settings are a segment of their own, of a named statement, that ends in its own Sync, with
//! `Skip` entries for its replies (recordings E1 to E6, F1 say why). No byte of the client's is sent before the server has
//! answered the whole of it: a restoration that is refused, cancelled or interrupted leaves the client's statement unrun.
//!
//! What a server looks like changes only when it says so. A restoration that ends well has made its target, whether its client
//! is still there or not; one that fails leaves a server of which nothing is known, and that is closed.

use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Acquired, Waiting};
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::session::session_state::{Change, Shape, difference_on, unhurried};
use crate::upstream::reply_queue::{Entry, Expect, Ready};
use pgweir_wire::{TransactionStatus, Writer, backend};
use std::sync::Arc;

/// Why a server is closed that did not become what it should.
pub(crate) const NOT_RESTORED: &str = "invalid server parameter";

/// Servers that a client's settings are tried on before the client is told that they cannot be restored. One may refuse for
/// a reason of its own: a library that it has loaded, a time limit that its last client has set.
const SERVERS_TRIED_MAX: u8 = 3;

/// A segment of restored settings that the server has not answered to the end.
#[derive(Debug)]
pub(crate) struct Restoration {
    /// What the server looks like once it has confirmed. It follows the server's reports meanwhile.
    target: Arc<Shape>,
    /// Why the server refused: SQLSTATE and message.
    refused: Option<Box<(String, String)>>,
}

impl ServerSide<'_> {
    /// Begins a segment that [`ServerSide::send_settings`] ends, unless it has begun. Nothing precedes a BEGIN in it: a BEGIN is
    /// refused once anything has taken a snapshot, as Parse may.
    pub(crate) fn begin_restoring(&mut self) {
        let server = &mut *self.server;
        if server.shape.is_deferrable() && !server.queue.segment_open() {
            self.own_begin();
        }
    }

    /// One segment that makes settings; the server looks like `target` when it has confirmed them.
    pub(crate) fn send_settings(&mut self, set: &[Change], target: Arc<Shape>) {
        self.begin_restoring();
        let deferrable = self.server.shape.is_deferrable();
        if !set.is_empty() {
            let statement = self.shared.own_statements.set_config.clone();
            self.ensure_held(&statement);
            let server = &mut *self.server;
            for (name, value) in set {
                server.queue.push(Entry::skip(Expect::Bind));
                server.queue.push(Entry::skip(Expect::Execute));
                if value.is_some() && name.contains('.') {
                    server.note_custom_setting(name);
                }
            }
            let name = statement.server_name();
            self.shared.outbox.insert(self.id.into(), |bytes| {
                let mut writer = Writer::new(bytes);
                for (setting, value) in set {
                    let value = value.as_ref().map(|v| v.as_bytes());
                    writer.bind_text(name, &[Some(setting.as_bytes()), value]);
                    writer.execute();
                }
            });
        }
        if deferrable {
            self.own_commit();
        }
        let server = &mut *self.server;
        server.restoration = Some(Box::new(Restoration { target, refused: None }));
        server.queue.push(Entry::skip(Expect::Sync));
        self.send(|w| w.sync());
    }

    /// The server refused something in a segment of restored settings: none of them is made.
    pub(crate) fn restoration_refused(&mut self, sqlstate: &[u8], message: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if let Some(restoration) = &mut self.server.restoration {
            let refused = || Box::new((text(sqlstate), text(message)));
            restoration.refused.get_or_insert_with(refused);
        }
    }
}

impl Exchange<'_> {
    /// Sends settings; the client waits for the answer.
    pub(crate) fn confirm_first(&mut self, set: &[Change], target: Arc<Shape>) {
        self.client.waiting = Waiting::ForRestoration;
        self.server.request_time = self.now;
        self.to().send_settings(set, target);
    }
}

impl Pooler {
    /// Makes a server look like the client that was just linked to it.
    pub(crate) fn restore(&mut self, now: Time, id: ClientId, server_id: ServerId) -> Acquired {
        let wanted = self.client_mut(id).shape.clone();
        let server = self.servers.get(server_id.0).expect("a linked server lives");
        let set = difference_on(&server.shape, &wanted, &server.base.home());
        if set.is_empty() {
            self.tell_differences(id, server_id);
            if self.servers.get(server_id.0).is_some_and(|s| s.queue.segment_open()) {
                let shape = self.server_mut(server_id).shape.clone();
                self.between(now, id, server_id).confirm_first(&[], shape);
                return Acquired::Wait;
            }
            return Acquired::Server(server_id);
        }
        // Read-only settings stay the server's own: see tell_differences.
        let target = if server.shape.same_fixed(&wanted) {
            wanted
        } else {
            let shape = server.shape.clone();
            self.shared.shape_with(&shape, &set)
        };
        self.shared.state_stats.restorations += 1;
        self.shared.state_stats.settings_sent += set.len() as u64;
        let mut set = set;
        if !self.is_weak(Weakness::HurriesRestorations) {
            let server = self.servers.get(server_id.0).expect("a linked server lives");
            set = unhurried(&server.shape, &target, set);
        }
        self.between(now, id, server_id).confirm_first(&set, target);
        if self.is_weak(Weakness::SharesUnconfirmed) {
            self.client_mut(id).waiting = Waiting::No;
            return Acquired::Server(server_id);
        }
        Acquired::Wait
    }

    /// The server has answered a segment of restored settings.
    pub(crate) fn restored(&mut self, now: Time, server_id: ServerId) {
        let server = self.server_mut(server_id);
        let Some(restoration) = server.restoration.take() else {
            return;
        };
        let Restoration { target, refused } = *restoration;
        let (link, idle) = (server.link, server.status == TransactionStatus::Idle);
        // A login's values are refused because they are wrong: the transaction that tried them is undone as a whole.
        let are_tried = idle && link.is_some_and(|id| self.is_login(id));
        let trusts = link.is_none() && self.is_weak(Weakness::TrustsAbandoned);
        let server = self.server_mut(server_id);
        if refused.is_none() || trusts {
            server.shape = target;
        } else if !are_tried {
            server.close_reason.get_or_insert(NOT_RESTORED);
        }
        if let Some(refused) = &refused {
            self.shared.state_stats.refused += 1;
            let text = format!(
                "{server_id}: server refused restored settings: {} {}",
                refused.0, refused.1
            );
            self.log(LogLevel::Warning, text);
        }
        let Some(id) = link else { return };
        if self.is_login(id) {
            return self.login_validated(now, id, server_id, refused.map(|r| *r));
        }
        match refused {
            None => self.settings_confirmed(id, server_id),
            Some(refused) => self.settings_refused(now, id, server_id, &refused.1),
        }
    }

    fn settings_confirmed(&mut self, id: ClientId, server_id: ServerId) {
        self.tell_differences(id, server_id);
        let client = self.client_mut(id);
        client.servers_refused = 0;
        if client.waiting == Waiting::ForRestoration {
            client.waiting = Waiting::No;
            client.went_elsewhere = false;
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
    }

    /// The server is closed, and the client tries another one. Nothing of its own has run.
    fn settings_refused(&mut self, now: Time, id: ClientId, server_id: ServerId, message: &str) {
        let client = self.client_mut(id);
        client.servers_refused += 1;
        // What pins it cannot be had anywhere else.
        let elsewhere = client.servers_refused < SERVERS_TRIED_MAX && !client.pins.of_session();
        if elsewhere && client.waiting == Waiting::ForRestoration {
            client.waiting = Waiting::No;
            self.close_linked(now, id, server_id, NOT_RESTORED);
            if let Acquired::Server(_) = self.acquire(now, id) {
                self.shared.requests.push_back(Request::Resume(id.into()));
            }
            return;
        }
        let hint = "Reconnect; the setting was accepted when it was made.";
        let text = "cannot restore the session's settings";
        self.fail_client(now, id, Trouble::RestorationRefused, text, message, hint);
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
    pub(crate) fn parameter_status(&mut self, server_id: ServerId, body: &[u8]) -> crate::base::reasons::Passed {
        use crate::base::reasons::Passed;
        let Ok((name, value)) = backend::parameter_status(body) else {
            return Passed::Forward;
        };
        // Names and values of settings are ASCII or, in a database of another encoding, opaque: kept lossily, never sent.
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return Passed::Forward;
        };
        let server = self.servers.get_mut(server_id.0).expect("looked up by the caller");
        let known = |shape: &Shape| shape.get(name).is_some_and(|s| s.reported && *s.value == *value);
        if !known(&server.shape) {
            server.shape = self.shared.shapes.change(&server.shape, [(name, Some(value), true)]);
        }
        if let Some(restoration) = server.restoration.as_mut().filter(|r| !known(&r.target)) {
            restoration.target = self
                .shared
                .shapes
                .change(&restoration.target, [(name, Some(value), true)]);
        }
        let Some(client) = server.link.and_then(|c| self.clients.get_mut(c.0)) else {
            return Passed::Skip;
        };
        // Where a setting has been reset and is made again, the client hears of the outcome only.
        let in_between = server.queue.front().is_some_and(|e| e.ready != Ready::Passes);
        if server.restoration.is_some() || in_between || !client.is_session() {
            return Passed::Skip;
        }
        client.shape = server.shape.clone();
        if let Some(error) = server.queue.error_behind_own_segment() {
            // The end of a segment of ours tells it; on a server of its own the client would hear it behind the error.
            Writer::new(error).parameter_status(name.as_bytes(), value.as_bytes());
            return Passed::Skip;
        }
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
            .shared
            .shapes
            .change(&shape, gone.iter().map(|name| (&**name, None, false)));
        let server = self.server_mut(server_id);
        server.shape = shape.clone();
        if let Some(client) = server.link.and_then(|c| self.clients.get_mut(c.0)) {
            client.shape = shape;
        }
    }
}
