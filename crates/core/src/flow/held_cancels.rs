//! Cancel requests that find nothing to cancel, although their client may have sent a request before: that request has
//! arrived and has not been read, or the pooler waits for an answer before it can handle the request.
//!
//! PostgreSQL carries a cancel out at once, but it also has read what its client sent before. So the driver first reads
//! the client's connection. Under SUSPEND it may not do that, and the cancel waits for RESUME. The connection of the
//! CancelRequest stays open meanwhile: a driver that waits for its end sends nothing that the cancel could hit by
//! mistake. `cancel_wait_timeout` ends the wait; it counts from RESUME if a SUSPEND was in force.

use crate::base::consequence::Consequence;
use crate::base::ids::ClientId;
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;
use crate::pools::held_cancels::LOOK_AGAIN;

// Why the connection of a CancelRequest is closed: PgBouncer's texts, but for the first. PgBouncer cancels no wait.

/// What it was for has ended, and the server was sent no request for it.
pub(super) const CANCEL_DONE: &str = "cancel request done";
const OF_IDLE: &str = "cancel request for idle client";
const OF_CONSOLE: &str = "cancel request for console client";

/// What a cancel request would find now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The client has sent nothing that is not answered, as far as has been read.
    Nothing,
    /// A message of the client waits for an answer that the pooler needs first.
    Waits,
    /// A request that waits for a server or for restored settings, or that was sent as a flight behind others.
    Request,
    /// A request that was sent to the client's server.
    AtServer,
}

impl Pooler {
    /// What a cancel request for this client would find.
    pub(super) fn found_by_cancel(&self, id: ClientId) -> Found {
        let Some(client) = self.clients.get(id.0) else {
            return Found::Nothing;
        };
        // A deferred BEGIN that goes to a server only because its deferral is over is no request of the client.
        let asks = client.session.deferred_begin().is_none_or(|begin| !begin.has_expired());
        let server = client.link.and_then(|id| self.servers.get(id.0));
        if self.has_heard_its_last(id) {
            return Found::Nothing;
        }
        match (server, client.waiting) {
            (Some(server), Waiting::No | Waiting::ForReplies | Waiting::Flying { .. }) => {
                let queue = server.conversation.queue();
                let asks_blindly = self.is_weak(Weakness::CancelsQuestions) && !queue.is_empty();
                match client.waiting {
                    _ if asks_blindly || queue.next_of_client().is_some() => Found::AtServer,
                    Waiting::ForReplies => Found::Waits,
                    _ => Found::Nothing,
                }
            }
            (None, Waiting::Flying { .. }) => Found::Request,
            _ if !asks => Found::Nothing,
            (None, Waiting::ForServer { .. } | Waiting::ToDefine) => Found::Request,
            (Some(_), Waiting::ForRestoration) if client.session.pins().is_empty() => Found::Request,
            (Some(server), Waiting::ToDefine) if server.is_clean() && client.session.pins().is_empty() => {
                Found::Request
            }
            (Some(_), Waiting::ForRestoration)
            | (_, Waiting::ForProbe | Waiting::ForListener { .. } | Waiting::ToDefine) => Found::Waits,
            _ => Found::Nothing,
        }
    }

    /// A cancel request has found nothing to cancel: the client's connection is read before it is given up.
    pub(super) fn hold_cancel(&mut self, now: Time, by: ClientId, id: ClientId) {
        let is_session = self.clients.get(id.0).is_some_and(|client| client.is_session());
        if !is_session {
            return self.close_client(now, by, OF_CONSOLE);
        }
        if self.has_heard_its_last(id) || !self.held_cancels.hold(by, id) {
            return self.close_client(now, by, OF_IDLE);
        }
        if !self.admin.is_suspended() {
            self.read_before_cancel(by, id);
        }
    }

    fn read_before_cancel(&mut self, by: ClientId, client: ClientId) {
        let request = Request::ReadBeforeCancel { client, by };
        self.shared.requests.push_back(request);
    }

    /// The driver has carried out a [`Request::ReadBeforeCancel`]. `is_all`: what has arrived was passed on; otherwise
    /// more may follow in a moment.
    pub fn handle_read_before_cancel(&mut self, now: Time, by: ClientId, is_all: bool) {
        let Some(client) = self.held_cancels.client_of(by) else {
            return;
        };
        // The cancel request waits for RESUME.
        if self.admin.is_suspended() {
            return;
        }
        match self.found_by_cancel(client) {
            Found::Nothing if is_all => self.give_up_held_cancel(now, by),
            Found::Request => self.carry_out_held_cancel(now, by, client),
            Found::Nothing | Found::Waits | Found::AtServer => self.held_cancels.look_again(by, now + LOOK_AGAIN),
        }
        self.settle(now);
    }

    /// RESUME or SHUTDOWN has ended a SUSPEND.
    pub(crate) fn resume_held_cancels(&mut self, now: Time) {
        for (by, client) in self.held_cancels.read_all() {
            if let Some(by) = self.clients.get_mut(by.0) {
                by.connect_time = now;
            }
            self.read_before_cancel(by, client);
        }
    }

    /// Looks at the held cancel requests whose time has come.
    pub(crate) fn look_at_held_cancels(&mut self, now: Time) {
        if self.admin.is_suspended() {
            return;
        }
        for by in self.held_cancels.due(now) {
            let Some(client) = self.held_cancels.client_of(by) else {
                continue;
            };
            match self.found_by_cancel(client) {
                Found::Nothing => self.give_up_held_cancel(now, by),
                Found::Waits => self.held_cancels.look_again(by, now + LOOK_AGAIN),
                Found::Request | Found::AtServer => self.carry_out_held_cancel(now, by, client),
            }
            self.settle(now);
        }
    }

    fn carry_out_held_cancel(&mut self, now: Time, by: ClientId, client: ClientId) {
        self.held_cancels.forget(by);
        self.cancel_client(now, client);
        self.cancel_is_sent(now, by, client);
    }

    fn give_up_held_cancel(&mut self, now: Time, by: ClientId) {
        self.held_cancels.forget(by);
        self.close_client(now, by, OF_IDLE);
    }

    /// A client has gone, or a connection that asked for a cancel.
    pub(super) fn forget_held_cancels(&mut self, id: ClientId) {
        self.held_cancels.forget(id);
        let asking = self.held_cancels.take_for(id);
        self.consequences
            .extend(asking.into_iter().map(Consequence::CancelIsOver));
    }
}
