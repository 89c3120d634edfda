//! The loss of a server connection: its consequences for the pool, the client and others.

use crate::base::consequence::Consequence;
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{LoginFailure, PoolId, PoolKind};
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::{Endpoint, LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::pools::hosts::RETRY_PAUSE_MAX;
use crate::pools::opening::Hope;
use crate::server::{self, Server};
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// PgBouncer's words for the end of a server that nobody asked for, and of its client.
pub(super) const SERVER_CRASHED: &str = "server conn crashed?";

/// If two servers of a pool end by themselves within this time, and neither has served a client, the second one counts
/// as one that could not be opened.
const EARLY: Duration = RETRY_PAUSE_MAX;

/// Who has ended the connection of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    Server,
    Pooler,
}

impl Pooler {
    /// The connection of a server is closed, and not by the pooler.
    pub(crate) fn server_closed(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        let pool_id = server.pool;
        // If the server was reading a catalog, the failed reading is noted separately.
        if server.reading.is_none() {
            self.catalogs().doubt(now, pool_id);
        }
        self.server_ended(now, id, SERVER_CRASHED);
    }

    /// A server has ended its connection, has said that it will, or broke the protocol. If the server was never of use,
    /// this counts as a failed attempt to open it; otherwise the pooler would open the next one at once, in an endless
    /// loop.
    pub(crate) fn server_ended(&mut self, now: Time, id: ServerId, reason: &str) {
        let Some(server) = self.servers.get(id.0) else { return };
        let (pool_id, is_examined) = (server.pool, server.is_examined());
        // The pooler may have ended the connection, to make room for a server of another pool.
        let ends_itself = !matches!(server.phase, ServerPhase::Closing) && server.close_reason.is_none();
        let ends_early = ends_itself && !server.is_opening() && !server.has_served && now - server.connect_time < EARLY;
        let was_of_no_use = is_examined || ends_early && self.pool_mut(pool_id).ends_early_again(now, EARLY);
        let failure = was_of_no_use.then(|| LoginFailure::temporary(reason));
        self.server_gone(now, id, reason, failure, EndedBy::Server);
    }

    /// The pooler gives up a server connection, or could not open it. `failure`: why it could not be opened, if known.
    pub(crate) fn server_lost(&mut self, now: Time, id: ServerId, reason: &str, failure: Option<LoginFailure>) {
        self.server_gone(now, id, reason, failure, EndedBy::Pooler);
    }

    /// A server connection is gone, for any reason.
    fn server_gone(&mut self, now: Time, id: ServerId, reason: &str, failure: Option<LoginFailure>, by: EndedBy) {
        let Some(server) = self.servers.get(id.0) else { return };
        let reason = match server.phase {
            ServerPhase::Closing => server.close_reason.map_or(reason, |of| of.text()),
            _ => reason,
        };
        if self.shared.settings.log_disconnections {
            let age = (now - server.connect_time).as_secs();
            let flights = match server.flights.as_ref().map_or(0, |flights| flights.len()) {
                0 => String::new(),
                outstanding => format!(", {outstanding} flights outstanding"),
            };
            let text = format!(
                "{} closing because: {reason} (age={age}s{flights})",
                server::label(&self.servers, &self.pools, id)
            );
            self.log(LogLevel::Log, text);
        }
        let mut server = self.servers.remove(id.0).expect("looked up above");
        self.count_out(now, id, &server, reason, failure);
        // A client that has got the server's FATAL message may leave before the server does.
        let ended_itself = by == EndedBy::Server || server.conversation.fatal().is_some();
        if ended_itself && server.is_up() {
            self.note_end(now, server.pool);
        }
        if server.session.has_definitions() {
            self.shared.catalogs.defines_no_more(id);
            self.catalogs().doubt(now, server.pool);
        }
        if server.session.may_move_names() {
            self.names_have_moved(server.pool);
        }
        if let Some(reading) = server.reading.take() {
            self.catalog_lost(now, id, *reading);
        }
        self.flights_lost(now, &mut server, reason);
        if let Some(client) = server.link.take() {
            self.client_lost_its_server(now, client, &server, reason);
        }
        self.close_cancelling(now, server.cancels.take_asking());
        self.pause_progress();
        self.consequences.push_back(Consequence::ServerOut(server.pool));
    }

    /// Removes the server from its pool's counts.
    fn count_out(&mut self, now: Time, id: ServerId, server: &Server, reason: &str, failure: Option<LoginFailure>) {
        let pool_id = server.pool;
        let connecting = server.is_opening();
        let pool = self.pools[pool_id as usize].as_mut().expect("a server's pool lives");
        self.databases.server_out(pool_id, pool, id, connecting);
        if matches!(server.phase, ServerPhase::Closing) {
            pool.room_is_made();
        }
        pool.is_used(now);
        let pool_is_empty = pool.servers() == 0;
        if let Some(share) = pool.share_mut() {
            let sizings = &mut self.shared.sizings;
            sizings.is_lost(share, server.work);
            sizings.server_out(pool_id, *share, pool_is_empty);
            if server.is_up() {
                sizings.is_down(*share);
            }
        }
        pool.doubt_ends(server.in_doubt);
        if server.is_idle() {
            pool.forget_idle(id);
        }
        let given = server.credential_given();
        if connecting {
            let lost = || LoginFailure::temporary("server closed the connection during login");
            let failure = failure.unwrap_or_else(lost);
            match server.is_former || !self.pool_mut(pool_id).counts_as_failure(given, &failure) {
                true => self.pool_mut(pool_id).attempt_is_void(&server.endpoint),
                false => self.opening_failed(now, pool_id, &server.endpoint, failure),
            }
        } else if let Some(failure) = failure {
            self.opening_failed(now, pool_id, &server.endpoint, failure);
        } else if server.is_examined() {
            // The server was still being examined when the pooler closed it: its host has not failed.
            self.pool_mut(pool_id).note_success(&server.endpoint);
        }
        if self.pool(pool_id).key().kind == PoolKind::Listener {
            self.listen(now, |listening| listening.listener_lost(id, reason));
            let failure = self.pool(pool_id).failure().cloned();
            if let Some(failure) = failure.filter(|f| connecting && !f.temporary) {
                self.listen(now, |listening| listening.listener_refused(pool_id, &failure));
            }
        }
    }

    /// A server could not be opened, or ended before it was of use. Clients that are logging in get the error at once,
    /// unless another server will be free for them; others wait if waiting may help.
    fn opening_failed(&mut self, now: Time, pool_id: PoolId, endpoint: &Endpoint, failure: LoginFailure) {
        let retry_max = self.shared.settings.server_login_retry;
        let may_wait = failure.temporary && self.shared.settings.server_down_wait;
        let pool = self.pools[pool_id as usize].as_mut().expect("a server's pool lives");
        let hope = pool.note_failure(now, endpoint, &failure, retry_max);
        self.natures.doubt(endpoint, &pool.settings().server_database);
        self.lookups.note_failure(pool, &failure, now + retry_max);
        if !failure.temporary {
            self.lookups.forget_user(&pool.key().user);
        }
        if hope != Hope::None {
            return;
        }
        let waiting: Vec<_> = pool.waiting().iter().map(|(id, _)| id).collect();
        // Another host may have told more.
        let failure = pool.failure().cloned().unwrap_or(failure);
        for id in waiting {
            let Some(client) = self.clients.get(id.0) else { continue };
            if matches!(client.phase, ClientPhase::Login(_)) || !may_wait {
                self.stop_waiting(id);
                self.refuse_for_login_failure(now, id, &failure);
            }
        }
    }

    /// The linked server is gone. A client that got a FATAL message from the server needs no error from the pooler.
    fn client_lost_its_server(&mut self, now: Time, id: ClientId, server: &Server, reason: &str) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        client.link = None;
        if self.awaits_auth_query(id) {
            return self.give_up_lookup(now, id, reason);
        }
        let client = self.client_mut(id);
        // A client that got the server's FATAL message is closed.
        if client.may_go_elsewhere() && server.conversation.fatal().is_none() {
            // Only once: if the restored settings themselves end the server, they would end the next one, too.
            client.session.goes_elsewhere();
            client.waiting = Waiting::No;
            return self.shared.requests.push_back(Request::Resume(id.into()));
        }
        if client.may_log_in_elsewhere() {
            client.session.goes_elsewhere();
            client.waiting = Waiting::No;
            return self.consequences.push_back(Consequence::LoginNeedsServer(id));
        }
        if server.conversation.fatal().is_some() || matches!(server.conversation.passing(), Passing::Forward(_)) {
            self.log_pooler_error(id, SERVER_CRASHED);
            return self.close_client(now, id, SERVER_CRASHED);
        }
        self.tell_server_lost(now, id, reason);
    }

    /// A client gets the error that its server is gone, and is closed. The log has PgBouncer's words, the client those that
    /// drivers look for.
    pub(crate) fn tell_server_lost(&mut self, now: Time, id: ClientId, reason: &str) {
        let message = "server closed the connection unexpectedly";
        let hint = "The open transaction is lost. If COMMIT was sent, check whether it took effect.";
        let failure = Failure::new(Trouble::ServerConnectionLost, message)
            .with_detail(reason)
            .with_hint(hint);
        self.fail_and_log(now, id, failure, reason);
    }
}
