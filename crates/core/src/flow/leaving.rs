//! What happens to a server whose client has left: cancel, drain, roll back, check, or close.
//!
//! A server with bytes in flight is never given to another client.
//!
//! A client may have sent several segments. A cancel ends one of them, and the server goes on with the next: it could
//! run a DELETE without the SET ROLE in front of it. So nothing is cancelled while another segment of the client is
//! behind. If that takes long, the connection is reset with the cancel: then the server runs none of them.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pin_reason::Cleanup;
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::{LogLevel, Request};
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::phase::{Intake, ServerPhase};
use pgweir_wire::TransactionStatus;
use std::time::Duration;

/// On a server whose client has left: how long an internal request may run before it is cancelled, and how long several
/// segments of the client may run before the connection is reset.
const WORK_TIME_MAX: Duration = Duration::from_secs(1);

impl ServerSide<'_> {
    /// Sends an internal query to a server without a client.
    pub(crate) fn internal_query(&mut self, now: Time, phase: ServerPhase, query: &str) {
        let server = &mut *self.server;
        server.phase = phase;
        server.since = now;
        server.conversation.query_begins(now);
        server.held.unnamed_becomes(Unnamed::Nothing);
        self.asks(To::Skip, |r| r.query(query.as_bytes()));
    }

    /// Sends what ends the client's copy and its segment. PostgreSQL rolls back what a connection has begun and not
    /// completed when it ends, but a Sync would commit it: so the segment fails first.
    pub(crate) fn end_what_client_began(&mut self) {
        let owes_sync =
            self.server.conversation.intake() == Intake::ToSync || self.server.conversation.queue().segment_open();
        let would_commit = owes_sync && self.server.conversation.intake() == Intake::Requests;
        if self.server.conversation.intake() == Intake::CopyIn {
            self.server.conversation.takes_requests_from_here();
            self.send(|w| w.copy_fail("client disconnected"));
        }
        if owes_sync {
            self.server.conversation.takes_requests_from_here();
            if would_commit && !self.shared.is_weak(Weakness::CommitsForTheGone) {
                self.fail_segment();
            }
            // This Sync ends a request of the client: a cancel may hit it.
            self.asks(To::Forward, |r| r.sync());
        }
    }
}

impl ServerSide<'_> {
    /// Cancels the client's work on a server without a client, unless another segment of the client is behind it.
    /// Internal requests may finish.
    fn cancel_running(&mut self) {
        let queue = self.server.conversation.queue();
        let is_last = !queue.has_several_of_client() || self.shared.is_weak(Weakness::CancelsAmongSegments);
        if queue.works_for_client() && is_last {
            self.send_cancel();
        }
    }

    /// A server without a client is still draining. Cancels also requests that it has begun meanwhile, and an internal
    /// request that has run for too long. If that is a restoration, the server goes to no client.
    fn cancel_again(&mut self, takes_long: bool) {
        if takes_long && !self.server.conversation.queue().is_empty() {
            self.send_cancel();
        } else {
            self.cancel_running();
        }
    }

    /// Runs server_reset_query; `seed` chooses what random() returns afterwards.
    pub(crate) fn reset(&mut self, now: Time, seed: u32) {
        let Some(query) = self.shared.settings.server_reset_query.clone() else {
            return;
        };
        let keeps = self.shared.settings.keeps_sessions && self.server.nature.is_postgresql();
        if keeps && self.pool.settings().mode == PoolMode::Session {
            self.reset_session(now, &query, seed);
        } else {
            self.internal_query(now, ServerPhase::Resetting, &query);
        }
    }
}

impl Pooler {
    /// The linked client has left; `passing`: whether it left inside a message.
    pub(crate) fn abandon(&mut self, now: Time, id: ServerId, passing: Passing) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        if server.is_clean() && !matches!(passing, Passing::Forward(_)) && server.session.restoration().is_none() {
            return self.release(now, id);
        }
        if server.flies() && self.flies_on_alone(now, id) {
            return;
        }
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool = self.pools[server.pool as usize]
            .as_ref()
            .expect("a server's pool lives");
        server.link = None;
        server.cancels.wait_for_none();
        // The pooler cannot invent the rest of a message; a walsender ends only with its connection.
        let hopeless = matches!(passing, Passing::Forward(_))
            || server.conversation.intake() == Intake::CopyBoth
            || pool.key().kind.is_replication()
            || server.conversation.fatal().is_some()
            // No request is unanswered, but the server is inside a message.
            || server.conversation.queue().is_empty() && server.conversation.passing() != Passing::None;
        if hopeless {
            return self.abort(now, id, "client disconnected while sending a message");
        }
        server.phase = ServerPhase::Draining;
        server.since = now;
        self.at(id).end_what_client_began();
        if self.server_mut(id).conversation.queue().is_empty() {
            self.drained(now, id);
        } else {
            self.at(id).cancel_running();
        }
        self.end_cancelling(now, id);
    }

    /// A server is still draining.
    pub(crate) fn drains_on(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        let takes_long = now - server.since > WORK_TIME_MAX;
        if server.flights.as_ref().is_some_and(|flights| flights.has_riders()) {
            // The client that has left has the flight at the front. If the cancel hits a later flight, that one is run
            // again.
            if takes_long {
                self.at(id).send_cancel();
            }
            return;
        }
        let is_weak = self.is_weak(Weakness::CancelsAmongSegments);
        if takes_long && server.conversation.queue().has_several_of_client() && !is_weak {
            return self.abort(
                now,
                id,
                "client disconnected while several of its requests were running",
            );
        }
        self.at(id).cancel_again(takes_long);
    }

    /// Ends a connection so that its server runs nothing more: the running statement is cancelled, and later messages
    /// are never read.
    fn abort(&mut self, now: Time, id: ServerId, reason: &'static str) {
        let mut side = self.at(id);
        if side.server.conversation.queue().works_for_client() {
            side.send_cancel();
        }
        self.shared.requests.push_back(Request::Abort(id));
        self.server_lost(now, id, reason, None);
    }

    /// All replies have come: ends the transaction, or frees the server.
    pub(crate) fn drained(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        // A cancel on its way must not hit the internal requests that follow.
        if !server.conversation.queue().is_empty() || server.cancels.may_hit() {
            return;
        }
        if server.conversation.status() != TransactionStatus::Idle {
            server.held.unnamed_becomes(Unnamed::Nothing);
            return self.at(id).asks(To::Skip, |r| r.query(b"ROLLBACK"));
        }
        self.release(now, id);
    }

    /// server_reset_query has finished: the server's session is as it was after the login, except for settings that it
    /// reports to be different.
    pub(crate) fn reset_done(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        if server.conversation.status() != TransactionStatus::Idle {
            return self.close_server(now, id, "reset query failed");
        }
        debug_assert!(server.is_clean());
        let cleanup = server.session.take_cleanup();
        if cleanup == Cleanup::Settings
            && let Some(mut reply) = self.replying(now, id)
        {
            reply.forget_explicit_settings();
        }
        match self.at(id).shows_traces() {
            Some(reason) => self.close_server(now, id, reason),
            None => self.server_is_free(id),
        }
    }

    /// Runs the check query on a server that has been idle for a long time.
    pub(crate) fn test_server(&mut self, now: Time, id: ServerId) {
        let Some(query) = self.shared.settings.server_check_query.clone() else {
            return;
        };
        self.at(id).internal_query(now, ServerPhase::Testing, &query);
        self.note_soon_free(id);
    }

    /// An internal query has failed.
    pub(crate) fn internal_query_failed(&mut self, now: Time, id: ServerId, severity: &[u8], message: &[u8]) {
        let Some(server) = self.servers.get(id.0) else { return };
        if matches!(server.phase, ServerPhase::Listening) {
            return self.listen(now, |listening| listening.listener_refuses(id, message));
        }
        let reason = match server.phase {
            ServerPhase::Resetting => "reset query failed",
            ServerPhase::LiftingLimit => "idle_session_timeout could not be reset",
            ServerPhase::Testing => "test query failed",
            ServerPhase::ConnectQuery => {
                let severity = String::from_utf8_lossy(severity);
                let message = String::from_utf8_lossy(message);
                // PgBouncer's words; it goes on with the server, too.
                let text = format!("S: error while executing exec_on_query: {severity}: {message}");
                return self.log(LogLevel::Error, text);
            }
            _ => return,
        };
        let text = format!("{id}: {reason}: {}", String::from_utf8_lossy(message));
        self.log(LogLevel::Warning, text);
        self.close_server(now, id, reason);
    }

    /// Closes a server connection, with Terminate if nothing is in flight.
    pub(crate) fn close_server(&mut self, now: Time, id: ServerId, reason: &str) {
        let Some(server) = self.servers.get(id.0) else { return };
        if server.connected.is_some() && server.is_clean() {
            self.send(id, |w| w.terminate());
        }
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_lost(now, id, reason, None);
    }

    /// Takes a client out of its queue.
    pub(crate) fn stop_waiting(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.waiting == Waiting::ToDefine {
            self.shared.catalogs.publications_mut().ends(id);
        }
        if let (Waiting::Flying { server }, None) = (client.waiting, client.link) {
            client.waiting = Waiting::No;
            return self.rider_leaves(id, server);
        }
        if let Waiting::ForServer { ticket, .. } = client.waiting {
            client.waiting = Waiting::No;
            client.flight = None;
            if let Some(pool_id) = client.pool {
                self.pool_mut(pool_id).waiting_mut().remove(ticket);
            }
        }
    }
}
