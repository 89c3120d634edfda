//! Cancel requests: each goes from a client to the server that works for this client, and to no other server.
//!
//! A request names its client by the process id and the secret that the client got at login. It is passed on only while
//! the client's server works on a request of the client. While the server works on an internal request, the cancel
//! waits until that has ended. While a cancel is on its way, no internal request is sent and the server is not handed
//! out: PostgreSQL delivers the signal before it closes the cancel connection, and ignores it while idle.

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::request::{CancelEnd, Request};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::client::ClientPhase;
use crate::flow::held_cancels::{CANCEL_DONE, Found};
use crate::flow::logins::admitting;
use crate::login::cancel_keys::KeyForm;
use crate::pooler::Pooler;
use crate::reply::Reply;
use crate::server_side::ServerSide;
use crate::upstream::cancels::Asked;
use crate::upstream::job::Job;
use crate::upstream::phase::{AfterCancel, ServerPhase};
use hmac::{Hmac, KeyInit, Mac};
use pgweir_wire::CancelKey;
use pgweir_wire::write::ErrorText;
use sha2::Sha256;
use subtle::ConstantTimeEq;

impl ServerSide<'_> {
    /// Sends a cancel, unless one is already on its way: a second one would hit the same work.
    pub(crate) fn send_cancel(&mut self) {
        let server = &mut *self.server;
        if server.cancels.may_hit() || !server.conversation.may_cancel_begin() {
            return;
        }
        if let Some(key) = server.cancels.key().cloned() {
            server.cancels.one_is_sent();
            if let Some(flights) = &mut server.flights {
                flights.expose_riders();
            }
            self.shared.requests.push_back(Request::Cancel { server: self.id, key });
        }
    }

    /// Cancels the work of a server for its client, now or when the server begins it.
    pub(super) fn cancel_request(&mut self) {
        let asks_blindly = self.shared.is_weak(Weakness::CancelsQuestions);
        let server = &mut *self.server;
        if asks_blindly && !server.conversation.queue().is_empty() {
            return self.send_cancel();
        }
        let Some(segment) = server.conversation.queue().next_of_client() else {
            return;
        };
        let is_at_work = segment == server.conversation.queue().segments_answered() && !server.cancels.may_hit();
        if is_at_work && server.conversation.may_cancel_begin() {
            return self.send_cancel();
        }
        // A statement that is prepared for the client may wait for a lock. If the cancel comes too late for that, it hits
        // the client's message, or waits for it.
        let prepares =
            server.conversation.queue().prepares_for_client() && !server.conversation.is_guarded_before(segment);
        server.cancels.wait_for(segment);
        if prepares && !server.conversation.queue().works_for_client() {
            self.send_cancel();
        }
    }

    /// A message of the client waits until the server has looked at a plan, and that may wait for a lock. If it fails,
    /// the message goes on, and meets the cancel itself.
    fn cancel_look_at_plan(&mut self) {
        if self.server.conversation.queue().job() == Some(Job::CheckPlan) {
            self.send_cancel();
        }
    }

    /// Sends a cancel that had to wait, if the server now works on the segment that it is for. Returns whether the
    /// server has finished that segment.
    pub(crate) fn cancel_what_was_wanted(&mut self) -> bool {
        let server = &mut *self.server;
        let Some(segment) = server.cancels.wanted() else {
            return false;
        };
        let at = server.conversation.queue().segments_answered();
        let is_over = segment < at || server.conversation.queue().is_empty();
        if is_over {
            server.cancels.wait_for_none();
        } else if segment == at && !server.cancels.may_hit() && server.conversation.may_cancel_begin() {
            server.cancels.wait_for_none();
            self.send_cancel();
        }
        is_over
    }
}

impl Pooler {
    /// The cancel key of a client. It is computed, not stored, so idle clients need no memory for it.
    pub(crate) fn cancel_key_of(&self, id: ClientId) -> CancelKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.cancel_key).expect("any length of key will do");
        mac.update(&id.0.index.to_be_bytes());
        mac.update(&id.0.generation.to_be_bytes());
        let form = self.clients.get(id.0).map_or(KeyForm::Short, |client| client.key_form);
        CancelKey {
            process_id: admitting::process_id_told(&self.clients, id),
            secret: form.secret(&mac.finalize().into_bytes().into()),
        }
    }

    /// A CancelRequest came on the connection `by`, which is closed when the cancel has been carried out.
    pub(crate) fn cancel_request(&mut self, now: Time, by: ClientId, key: &CancelKey) {
        let Some(id) = self.client_of_key(key) else {
            return self.cancel_elsewhere(now, by, key);
        };
        // Who names a client correctly makes no room for connections that have proved nothing.
        let has_place = self.arrivals.cancel_comes();
        self.client_mut(by).phase = ClientPhase::Cancelling { has_place };
        match self.cancel_client(now, id) {
            true => self.cancel_is_sent(now, by, id),
            false => self.hold_cancel(now, by, id),
        }
    }

    /// The work of client `id` is being cancelled: the connection `by`, which asked, is closed when that is over.
    pub(super) fn cancel_is_sent(&mut self, now: Time, by: ClientId, id: ClientId) {
        let at = self.clients.get(id.0).and_then(|client| client.link);
        let closes_early = self.is_weak(Weakness::ClosesCancelEarly);
        let server = at.and_then(|id| self.servers.get_mut(id.0));
        let under_way = server.filter(|s| s.cancels.are_under_way() && !closes_early);
        let is_done = under_way.is_none();
        if let Some(server) = under_way {
            server.cancels.are_asked_by(by);
        }
        if is_done {
            self.close_client(now, by, CANCEL_DONE);
        }
    }

    /// The client with this key.
    fn client_of_key(&self, key: &CancelKey) -> Option<ClientId> {
        let mut named = admitting::clients_of_process(&self.process_ids, &self.clients, key.process_id);
        named.find(|id| {
            let Some(client) = self.clients.get(id.0) else {
                return false;
            };
            let secret = client.key_form.as_told(&key.secret);
            self.cancel_key_of(*id).secret.ct_eq(&secret).into()
        })
    }

    /// Closes the connections that asked to cancel this server's work, unless a cancel is still under way.
    pub(crate) fn end_cancelling(&mut self, now: Time, server_id: ServerId) {
        if let Some(server) = self.servers.get_mut(server_id.0)
            && !server.cancels.are_under_way()
        {
            let asked = server.cancels.take_asking();
            self.close_cancelling(now, asked);
        }
    }

    /// Closes connections whose cancel requests have been carried out.
    pub(crate) fn close_cancelling(&mut self, now: Time, (asked, reason): Asked) {
        for by in asked {
            self.close_client(now, by, reason);
        }
    }

    /// Cancels the request of a client. `false`: there is none that can be cancelled now.
    pub(crate) fn cancel_client(&mut self, now: Time, id: ClientId) -> bool {
        let Some(client) = self.clients.get(id.0) else {
            return false;
        };
        if !client.is_session() {
            self.cancel_console(id);
            return false;
        }
        match (self.found_by_cancel(id), client.link, client.waiting) {
            (Found::Waits, Some(server_id), Waiting::ForReplies) => {
                self.at(server_id).cancel_look_at_plan();
                return false;
            }
            (Found::Nothing | Found::Waits, ..) => return false,
            (Found::AtServer, Some(server_id), _) => {
                self.note_own_cancel(server_id);
                self.at(server_id).cancel_request();
            }
            (_, None, Waiting::Flying { server }) if !self.is_weak(Weakness::RefusesRiders) => {
                self.rider_cancels(id, server);
            }
            (_, link, _) => {
                self.cancel_waiting(now, id);
                if let Some(server_id) = link {
                    self.leave_unused(now, id, server_id);
                }
            }
        }
        true
    }

    /// Ends the wait of a client: its first request fails, up to its ReadyForQuery. A deferred transaction fails with
    /// it.
    pub(super) fn cancel_waiting(&mut self, now: Time, id: ClientId) {
        let message = "canceling statement due to user request";
        let detail = "it was waiting for a server";
        self.end_wait(now, id, &Trouble::CancelledWhileWaiting.text(message, detail, ""));
    }

    /// The pooler answers the request of a waiting client with this error, and drops the request.
    pub(crate) fn end_wait(&mut self, now: Time, id: ClientId, error: &ErrorText<'_>) {
        self.stop_waiting(id);
        let client = self.client_mut(id);
        client.waiting = Waiting::No;
        client.dropping = Dropping::Request;
        (client.request_time, client.defines_since) = (now, None);
        client.session.request_is_cancelled();
        self.shared.requests.push_back(Request::Resume(id.into()));
        self.send(id, |w| w.error(error));
    }

    /// A client leaves a server to which it has sent nothing.
    fn leave_unused(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        self.client_mut(id).link = None;
        self.abandon(now, server_id, Passing::None);
    }

    pub(crate) fn cancel_finished(&mut self, now: Time, server_id: ServerId, end: CancelEnd) {
        let is_weak = self.is_weak(Weakness::TrustsLateCancels);
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return;
        };
        if end == CancelEnd::NotKnown && !is_weak {
            // The cancel may hit whatever this server does next, so no other client gets the server.
            server.close_reason.get_or_insert(CloseReason::CancelMayCome);
        }
        if !server.cancels.one_is_over(end) {
            return;
        }
        self.end_cancelling(now, server_id);
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return;
        };
        match server.phase {
            ServerPhase::CancelPending(AfterCancel::CleanUp) => self.clean_up(now, server_id, true),
            ServerPhase::CancelPending(AfterCancel::Free) => self.server_is_free(server_id),
            ServerPhase::Draining => self.drained(now, server_id),
            // Internal requests had to wait for the cancel.
            ServerPhase::Linked => {
                if let Some(mut exchange) = self.replying(now, server_id).as_mut().and_then(Reply::exchange) {
                    exchange.make_what_was_reset();
                }
                if self.at(server_id).cancel_what_was_wanted() {
                    self.end_cancelling(now, server_id);
                }
                if let Some(mut reply) = self.replying(now, server_id) {
                    reply.replies_came();
                }
                self.release_if_clean(now, server_id);
            }
            _ => {}
        }
    }
}
