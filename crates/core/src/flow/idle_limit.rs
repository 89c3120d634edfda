//! `idle_session_timeout`: a time limit that belongs to a client's session and would end servers in the pool.
//!
//! PostgreSQL ends a session that has been idle for so long outside a transaction. A server that lies idle in its pool is
//! nobody's session, so before it is free a limit that its client has set there is taken back, and the server has to confirm
//! it. While the client has no server the pooler keeps the time, and says what PostgreSQL says; while it has one, the server
//! does.

use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::client::Client;
use crate::pooler::Pooler;
use crate::state::idle_limit::IDLE_LIMIT;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// Takes it back to what the server had after its login.
const LIFT: &str = "RESET idle_session_timeout";

impl Client {
    /// How long it may be idle by its own session's setting, now that it has no server that would tell.
    pub(crate) fn own_idle_limit(&self) -> Option<Duration> {
        self.session
            .shape
            .idle_limit()
            .filter(|_| self.session.deferred_begin.is_none())
    }
}

impl Pooler {
    /// A server without a client has a limit on idle sessions: takes it back before it lies idle.
    #[cold]
    pub(crate) fn lift_idle_limit(&mut self, now: Time, id: ServerId) {
        self.at(id).own_query(now, ServerPhase::LiftingLimit, LIFT);
    }

    /// The server has answered.
    pub(crate) fn idle_limit_lifted(&mut self, now: Time, id: ServerId) {
        let server = self.servers.get_mut(id.0).expect("looked up by the caller");
        if !server.is_clean() {
            return self.close_server(now, id, "idle_session_timeout could not be reset");
        }
        server.session.shape = self
            .shared
            .shapes
            .change(&server.session.shape, [(IDLE_LIMIT, None, false)]);
        self.server_is_free(now, id);
    }

    /// Says so as PostgreSQL does.
    pub(crate) fn idle_limit_over(&mut self, now: Time, id: ClientId) {
        let message = "terminating connection due to idle-session timeout";
        self.fail_client(now, id, Trouble::ClientIdleTimeout, message, "", "");
    }
}
