//! Giving servers back, and handing them to the next clients.

use crate::base::close_reason::CloseReason;
use crate::base::consequence::Consequence;
use crate::base::ids::ServerId;
use crate::base::pin_reason::Cleanup;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::Acquired;
use crate::base::request::Request;
use crate::base::settings::PoolMode;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::flow::logins::opening::servers_soon_free;
use crate::pooler::Pooler;
use crate::reply::Reply;
use crate::session::catalogs::may_read_now;
use crate::upstream::nature::Nature;
use crate::upstream::phase::{AfterCancel, ServerPhase};
use rand_core::RngCore;

impl Reply<'_> {
    /// Gives back a server that its client no longer needs, if nothing else must be done with it and no client waits
    /// for it. `false`: nothing was done.
    #[inline(always)]
    pub(crate) fn lies_idle(&mut self) -> bool {
        let Some((_, client)) = &mut self.client else {
            return false;
        };
        let (server, pool) = (&mut *self.server, &mut *self.pool);
        let is_wanted = pool.key().kind == PoolKind::Clients
            && pool.settings().mode != PoolMode::Session
            && !self.shared.settings.server_reset_query_always
            && !self.shared.catalogs.is_any_due()
            && pool.waiting().is_empty()
            && pool.share().is_none()
            && !self.shared.some_are_in_line;
        let is_as_it_was = server.session.cleanup() == Cleanup::Nothing
            && !server.is_to_end(self.now)
            && !server.session.leaves_traces()
            && !server.cancels.may_hit()
            && server.session.shape().idle_limit().is_none();
        if !is_wanted || !is_as_it_was || client.channels.is_some() || client.session.pinned().is_some() {
            return false;
        }
        debug_assert!(server.is_clean() && client.session.pins().is_empty());
        client.link = None;
        client.request_time = self.now;
        server.link = None;
        server.phase = ServerPhase::Idle;
        server.since = self.now;
        pool.idle_mut().push_back(self.id, server.session.shape());
        true
    }
}

impl Pooler {
    /// The linked server is clean and its client no longer needs it.
    pub(crate) fn release(&mut self, now: Time, server_id: ServerId) {
        self.charge(now, server_id);
        self.work_ends(now, server_id);
        let server = self.servers.get_mut(server_id.0).expect("the caller looked it up");
        let client_id = server.link.take();
        let client = client_id.and_then(|id| self.clients.get(id.0));
        let has_served = client.is_none_or(|client| client.is_session());
        // A cancel of the client's work must not hit the requests that clean the session.
        let must_wait = server.cancels.may_hit();
        if must_wait {
            server.phase = ServerPhase::CancelPending(AfterCancel::CleanUp);
            server.since = now;
        }
        if let Some((id, client)) = client_id.and_then(|id| Some((id, self.clients.get_mut(id.0)?))) {
            client.link = None;
            client.session.leaves_server();
            client.request_time = now;
            if client.channels.is_some() {
                self.listen(now, |listening| listening.hear(id));
            }
        }
        if !must_wait {
            self.clean_up(now, server_id, has_served);
        }
    }

    /// Cleans the session of a server without a client, if that is necessary, before another client may get it.
    /// `has_served`: it has worked for a client that had logged in. Behind others, PgBouncer does not send
    /// server_reset_query.
    pub(crate) fn clean_up(&mut self, now: Time, server_id: ServerId, has_served: bool) {
        let server = self.servers.get_mut(server_id.0).expect("the caller looked it up");
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        let cleanup = server.session.take_cleanup();
        let cleanup = if server.close_reason.is_none() {
            cleanup
        } else {
            Cleanup::Nothing
        };
        let leaves_traces = server.session.leaves_traces();
        let is_console = server.nature == Nature::Console;
        let session = pool.settings().mode == PoolMode::Session;
        let used_by_clients = has_served && pool.key().kind == PoolKind::Clients;
        let replication = pool.key().kind.is_replication();
        let shares = pool.shares_sessions() && !is_console;
        if replication {
            return self.close_server(now, server_id, "replication client was closed");
        }
        if leaves_traces {
            return self.close_server(now, server_id, CloseReason::TracesLeft.text());
        }
        if cleanup == Cleanup::Discard {
            self.shared.state_stats.discards += 1;
            self.server_mut(server_id).held.temporary_objects(false);
            let seed = self.random.next_u32();
            return self.at(server_id).reset_session(now, "DISCARD ALL", seed);
        }
        if cleanup == Cleanup::Settings && shares && !self.is_weak(Weakness::KeepsUnknownSettings) {
            let seed = self.random.next_u32();
            return self.at(server_id).reset_settings(now, seed);
        }
        if cleanup == Cleanup::Plans && self.at(server_id).functions_may_keep_plans() {
            return self.at(server_id).discard_plans(now);
        }
        let reset = used_by_clients && !is_console && (session || self.shared.settings.server_reset_query_always);
        if reset && self.shared.settings.server_reset_query.is_some() {
            let seed = self.random.next_u32();
            self.at(server_id).reset(now, seed);
        } else {
            self.server_is_free(server_id);
        }
    }

    /// A server is clean and has no client.
    pub(crate) fn server_is_free(&mut self, server_id: ServerId) {
        self.consequences.push_back(Consequence::ServerIsFree(server_id));
    }

    /// A clean server without a client goes to the first waiting client or to the idle list, or is closed.
    pub(crate) fn give_away(&mut self, now: Time, server_id: ServerId) {
        self.work_ends(now, server_id);
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return;
        };
        if !server.is_clean() {
            debug_assert!(false, "a server that is not clean is free");
            return self.close_server(now, server_id, "it is not clean");
        }
        debug_assert!(server.link.is_none());
        let pool_id = server.pool;
        if server.cancels.may_hit() {
            server.phase = ServerPhase::CancelPending(AfterCancel::Free);
            server.since = now;
            return;
        }
        if let Some(CloseReason::Evicted(full)) = server.close_reason {
            return self.close_and_wait(now, server_id, full);
        }
        if let Some(reason) = server.close_reason {
            let pooling = self.pool(pool_id).settings();
            let text = reason.text_at_release(self.shared.settings.server_fast_close && !pooling.shares_servers());
            return self.close_server(now, server_id, text);
        }
        if server.has_served && server.is_expired(now) {
            return self.close_server(now, server_id, "server lifetime over");
        }
        if server.session.shape().idle_limit().is_some() && !self.shared.is_weak(Weakness::KeepsIdleLimits) {
            return self.at(server_id).lift_idle_limit(now);
        }
        let claimed = server.session.is_claimed();
        if self.shared.catalogs.is_any_due()
            && may_read_now(self.pool(pool_id), now, claimed)
            && self.read_catalog(now, server_id)
        {
            return;
        }
        let shares = self.pool(pool_id).share().is_some();
        let may_serve = !self.pool_takes_no_clients_now(pool_id) && (!shares || self.may_take_turn(pool_id, server_id));
        if may_serve && self.serve_waiter(now, pool_id, server_id) {
            if shares {
                self.turn_taken(pool_id);
            }
        } else {
            if self.pool(pool_id).key().kind.is_replication() {
                // The replication client has left, or waits for RESUME and gets a new server then.
                return self.close_server(now, server_id, "replication client was closed");
            }
            self.becomes_idle(now, pool_id, server_id);
        }
    }

    /// No client of its pool takes this server now.
    fn becomes_idle(&mut self, now: Time, pool_id: PoolId, server_id: ServerId) {
        let server = self.servers.get_mut(server_id.0).expect("nobody took it");
        server.phase = ServerPhase::Idle;
        server.since = now;
        self.put_back(pool_id, server_id);
        self.pause_progress();
        if self.pool(pool_id).share().is_some() {
            self.wake_idle(now, pool_id);
        }
        if self.shared.some_are_in_line {
            self.open_where_waited_longest(now, pool_id);
        }
    }

    /// Puts a server that nobody has taken into the idle list.
    pub(crate) fn put_back(&mut self, pool_id: PoolId, server_id: ServerId) {
        let server = self.servers.get(server_id.0).expect("nobody took it");
        let pool = self.pools[pool_id as usize].as_mut().expect("a server's pool lives");
        pool.idle_mut().push_back(server_id, server.session.shape());
    }

    /// Gives idle servers to waiting clients: the server that was meant for them is being tested for another client, or
    /// is gone.
    pub(crate) fn wake_idle(&mut self, now: Time, pool_id: PoolId) {
        if self.pool(pool_id).share().is_some() {
            self.list_waiters(pool_id);
            return self.start_waiters(now, pool_id);
        }
        while self.has_idle_for_waiters(pool_id) {
            let Some(server_id) = self.pool_mut(pool_id).idle_mut().pop_back() else {
                return;
            };
            let server = self.servers.get(server_id.0);
            if server.is_some_and(|s| s.must_be_tested(now, &self.shared.settings)) {
                self.test_server(now, server_id);
            } else if !self.serve_waiter(now, pool_id, server_id) {
                return self.put_back(pool_id, server_id);
            }
        }
    }

    /// Whether there are idle servers while more clients wait than servers will soon be free.
    pub(crate) fn has_idle_for_waiters(&self, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        !pool.waiting().is_empty()
            && pool.idle().front().is_some()
            && !self.pool_takes_no_clients_now(pool_id)
            && pool.waiting().len() > servers_soon_free(&self.servers, pool)
    }

    /// Gives a free server to the first waiting client, or closes it if that client needs another one.
    pub(crate) fn serve_waiter(&mut self, now: Time, pool_id: PoolId, server_id: ServerId) -> bool {
        let traces = self
            .servers
            .get(server_id.0)
            .is_some_and(|s| s.session.has_temporary_schema());
        if traces && self.replaced_for_waiter(now, pool_id, server_id) {
            return true;
        }
        while let Some((client_id, since)) = self.pool_mut(pool_id).waiting_mut().pop() {
            if self.clients.get(client_id.0).is_none() {
                continue;
            }
            let flight = self.client_mut(client_id).flight.take();
            let linked = self.link(now, client_id, server_id);
            match (linked, flight) {
                (Acquired::Server(_), Some(flight)) => self.takes_off(now, client_id, server_id, flight, since),
                (Acquired::Server(_), None) => self.shared.requests.push_back(Request::Resume(client_id.into())),
                _ => {}
            }
            return true;
        }
        false
    }
}
