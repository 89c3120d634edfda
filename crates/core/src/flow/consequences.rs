//! Carrying out what an input means for other connections than its own: see [`crate::base::consequence`].

use crate::base::consequence::{ClientFailure, Consequence};
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::upstream::cancels::NOT_SENDING;
use crate::upstream::phase::ServerPhase;

impl Pooler {
    /// Carries out what a message, or another input, means for other connections. No connection may be in the middle of
    /// being handled.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time) {
        if !self.consequences.is_empty() {
            self.carry_out_consequences(now);
        }
    }

    /// In order: what one of them causes comes after those that are there already.
    #[inline(never)]
    fn carry_out_consequences(&mut self, now: Time) {
        while let Some(consequence) = self.consequences.pop_front() {
            match consequence {
                Consequence::ClientLeft { server, passing } => self.abandon(now, server, passing),
                Consequence::ServerIsFree(server) => self.give_away(now, server),
                Consequence::ServerMayBeFree(server) => self.release_if_clean(now, server),
                Consequence::ServerOut(pool) => self.fill_place(now, pool),
                Consequence::CloseServer(server, reason) => self.close_server(now, server, reason),
                Consequence::ClientKilled(server) => self.end_killed(now, server),
                Consequence::KillServer(server, reason) => self.kill_server(now, server, reason),
                Consequence::FailClient(failure) => self.fail_other(now, &failure),
                Consequence::CancelIsOver(by) => self.close_client(now, by, NOT_SENDING),
                Consequence::LoginHasServer { client, server } => self.login_has_server(now, client, server),
                Consequence::LoginNeedsServer(client) => self.login_needs_server(now, client),
                Consequence::LookupFailed { client, why } => self.lookup_failed(now, client, &why),
                Consequence::EndProcess => self.end_process(now),
            }
        }
    }

    /// A pool has one server fewer.
    fn fill_place(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pools.get(pool_id as usize).and_then(Option::as_ref);
        if pool.is_none() || self.admin.is_ending() {
            return;
        }
        self.wake_idle(now, pool_id);
        self.open_where_waited_longest(now, pool_id);
    }

    fn fail_other(&mut self, now: Time, failure: &ClientFailure) {
        if self.clients.get(failure.client.0).is_some() {
            self.fail_client(now, failure.client, failure.failure());
        }
    }

    /// Bytes of a client that has not logged in, or is on the console.
    #[inline(never)]
    pub(crate) fn bytes_of_no_session(&mut self, now: Time, client: ClientId, input: &[u8]) -> usize {
        let consumed = match self.clients.get(client.0).map(|client| &client.phase) {
            Some(ClientPhase::Startup(_)) => self.startup_bytes(now, client, input),
            Some(ClientPhase::Login(_)) => self.login_bytes(now, client, input),
            Some(ClientPhase::Console(_)) => self.console_bytes(now, client, input),
            Some(ClientPhase::Cancelling { .. } | ClientPhase::Session) | None => input.len(),
        };
        self.settle(now);
        consumed
    }

    /// Bytes of a server that has not logged in.
    #[inline(never)]
    pub(crate) fn bytes_of_new_server(&mut self, now: Time, server: ServerId, input: &[u8]) -> usize {
        let consumed = match self.servers.get(server.0).map(|server| &server.phase) {
            Some(ServerPhase::Securing) => self.ssl_answer(now, server, input),
            _ => self.server_login_bytes(now, server, input),
        };
        self.settle(now);
        consumed
    }
}
