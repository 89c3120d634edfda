//! `idle_session_timeout`: a time limit that belongs to a client's session and would end idle servers of the pool.
//!
//! PostgreSQL ends a session that has been idle for this time outside of a transaction. An idle server of the pool is
//! no client's session, so a limit that its client has set is reset before the server is free, and the server must
//! confirm it. While the client has no server the pooler enforces the limit, with PostgreSQL's error; while the client
//! has a server, that server does.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::server_side::ServerSide;
use crate::state::idle_limit::IDLE_LIMIT;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// Resets the limit to the value after the server's login.
const LIFT: &str = "RESET idle_session_timeout";

impl Client {
    /// How long the client's setting lets it be idle while it has no server that would enforce the limit.
    pub(crate) fn own_idle_limit(&self) -> Option<Duration> {
        self.session
            .shape()
            .idle_limit()
            .filter(|_| self.session.deferred_begin().is_none())
    }
}

impl ServerSide<'_> {
    /// A server without a client has a limit on idle sessions: resets it before the server becomes idle.
    #[cold]
    pub(crate) fn lift_idle_limit(&mut self, now: Time) {
        self.internal_query(now, ServerPhase::LiftingLimit, LIFT);
    }
}

impl Pooler {
    /// The server has answered the RESET.
    pub(crate) fn idle_limit_lifted(&mut self, now: Time, id: ServerId) {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        if !server.is_clean() {
            return self.close_server(now, id, "idle_session_timeout could not be reset");
        }
        let (shape, lifted) = (server.session.shape(), [(IDLE_LIMIT, None, false)]);
        let shape = self.shared.shapes.change(shape, lifted);
        server.session.has_settings(shape);
        self.server_is_free(id);
    }

    /// Sends the client PostgreSQL's error and closes it.
    pub(crate) fn idle_limit_over(&mut self, now: Time, id: ClientId) {
        let message = "terminating connection due to idle-session timeout";
        self.fail_client(now, id, Failure::new(Trouble::ClientIdleTimeout, message));
    }
}
