//! Everything that happens because time has passed.
//!
//! No timer is armed or disarmed on the forwarding path. A round every [`ROUND`] looks at all servers, which are few,
//! and at the heads of the queues. Clients are looked at every [`CLIENTS_ROUND`].

use crate::base::close_reason::{CloseReason, FullLimit};
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{LoginFailure, PoolId};
use crate::base::reasons::Waiting;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::operator::due::{self, ClientDue, Exceeded, PoolDue, ServerDue};
use crate::operator::shortage;
use crate::pooler::Pooler;
use crate::pools::pool;
use crate::server;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// Time between two rounds: a timeout fires up to this much late.
const ROUND: Duration = Duration::from_millis(100);

/// Time between two rounds over all clients.
const CLIENTS_ROUND: Duration = Duration::from_millis(500);

/// If a pool has no server and its clients have waited for this long, another pool under the same limit gives one up.
const STARVED_AFTER: Duration = Duration::from_secs(1);

impl Pooler {
    pub(crate) fn run_timers(&mut self, now: Time) {
        if now < self.timers.next_round {
            return;
        }
        self.timers.next_round = now + ROUND;
        if self.admin.is_suspended() {
            return;
        }
        for slot in self.servers.slots() {
            self.time_server(now, ServerId(slot));
            self.time_flights(now, ServerId(slot));
            if self.shared.sizings.some() {
                self.time_work(now, ServerId(slot));
            }
            self.settle(now);
        }
        self.time_listeners(now);
        self.listen(now, |listening| listening.time_moves());
        self.settle(now);
        self.time_definers(now);
        self.time_publications(now);
        self.keep_blocks_of_definers();
        self.time_pools(now);
        self.time_deferred_begins(now);
        self.time_clients(now);
        if now >= self.timers.next_stats {
            self.timers.next_stats = now + self.shared.settings.stats_period;
            self.lookups.forget_old_secrets(now, &self.shared.config);
            self.stats_round(now);
        }
    }

    fn time_server(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        // A long transaction is charged while it runs, so that its client's group does not get further servers
        // meanwhile.
        if matches!(server.phase, ServerPhase::Linked) && now - server.since >= ROUND {
            self.charge(now, id);
        }
        let Some(server) = self.servers.get(id.0) else { return };
        match due::of_server(now, server, self.pool(server.pool), &self.shared.settings) {
            ServerDue::Nothing => {}
            ServerDue::ConnectTimeout => {
                let failure = LoginFailure::temporary("connect timeout");
                self.shared.requests.push_back(Request::Close(id.into()));
                self.server_lost(now, id, "connect timeout", Some(failure));
            }
            ServerDue::OpensSlowly => {
                let side = self.at(id);
                side.server.in_doubt = true;
                side.pool.opens_slowly(&side.server.endpoint);
            }
            ServerDue::Close(reason) => self.close_server(now, id, reason),
            ServerDue::CancelAgain => self.drains_on(now, id),
            ServerDue::EndFlight => self.is_no_flight(now, id),
            ServerDue::CloseClient(client) => self.close_client(now, client, "client does not read its reply"),
            ServerDue::LookAtClient(client) => self.time_linked_client(now, client, id),
        }
    }

    fn time_linked_client(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let (Some(server), Some(client)) = (self.servers.get_mut(server_id.0), self.clients.get(id.0)) else {
            return;
        };
        if let Some(reason) = server.close_reason
            && self.shared.settings.server_fast_close
            && server.is_clean()
        {
            let hint = "The setting server_fast_close does not wait for the end of the session.";
            return self.fail_client(now, id, Failure::new(Trouble::Killed, reason.text()).with_hint(hint));
        }
        due::note_open_segment(now, server);
        let pool = pool::of(&self.pools, server.pool);
        let Some(exceeded) = due::limit_over(now, server, client, pool, &self.shared.settings) else {
            return;
        };
        let Exceeded { trouble, message, .. } = exceeded;
        if trouble != Trouble::ClientIdleTimeout && self.shared.settings.log_disconnections {
            let age = (now - server.connect_time).as_secs();
            let label = server::label(&self.servers, &self.pools, server_id);
            // PgBouncer closes the server, and parsers of its log look for these words.
            let text = format!("{label} closing because: {message} (age={age}s); kept if it can be cleaned");
            self.log(LogLevel::Log, text);
        }
        self.fail_client(now, id, Failure::new(trouble, message).with_hint(&exceeded.hint()));
    }

    fn time_pools(&mut self, now: Time) {
        for pool_id in pool::ids(&self.pools) {
            self.time_waiters(now, pool_id);
            self.relieve_queue(now, pool_id);
            // A server that was about to become free may have been given other work.
            self.wake_idle(now, pool_id);
            if self.shared.catalogs.is_any_due() {
                self.read_catalog_idly(now, pool_id);
            }
            self.time_opening(now, pool_id);
            self.replace_outdated_servers(now, pool_id);
            self.time_unused_pool(now, pool_id);
            self.settle(now);
        }
    }

    fn time_unused_pool(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let due = due::of_pool(now, pool, &self.shared.settings);
        let is_referenced = || self.clients.iter().any(|(_, c)| c.pool == Some(pool_id));
        let gets_servers = || pool.settings().min_size > 0 && shortage::keeps_warm(pool, &self.shared.config);
        if due == PoolDue::Nothing || is_referenced() || gets_servers() {
            return;
        }
        if let PoolDue::Clean(unused) = due {
            let (user, database, age) = (&pool.key().user, &pool.key().database, unused.as_secs());
            let text = format!(
                "cleaning up idle pool for user {user} on db {database} because: pool idle timeout (age= {age}s)"
            );
            self.log(LogLevel::Log, text);
        }
        if self.pool(pool_id).servers() == 0 {
            self.drop_pool(now, pool_id);
        }
    }

    fn time_opening(&mut self, now: Time, pool_id: PoolId) {
        if self.pool(pool_id).first_waiter().is_none() {
            self.leaves_line(pool_id);
        }
        if self.admin.is_ending() || self.pool_takes_no_clients_now(pool_id) {
            return;
        }
        self.open_servers_for_waiters(now, pool_id);
        self.give_up_silent_attempt(now, pool_id);
        self.seek_better_host(now, pool_id);
        let pool = self.pool(pool_id);
        let Some((waiter, since)) = pool.first_waiter() else {
            if pool.servers() < pool.settings().min_size
                && shortage::keeps_warm(pool, &self.shared.config)
                && pool.connecting() == 0
                && pool.may_warm(now)
                && self.limits_allow_one_more(now, pool_id)
            {
                self.open_server(now, pool_id, false);
            }
            return;
        };
        self.take_silent_place(now, pool_id);
        let pool = self.pool(pool_id);
        let waited = now - since;
        let uses_reserve = pool.settings().size > 0 && pool.settings().reserve_size > 0;
        if uses_reserve && waited > self.shared.settings.reserve_pool_timeout && pool.connecting() == 0 {
            let in_reserve = pool.servers() >= pool.settings().size;
            if self.open_server(now, pool_id, true) && in_reserve {
                let pinned = shortage::pinned_servers(&self.servers, &self.clients, self.pool(pool_id));
                let label = self.clients.get(waiter.0).map(|c| c.label(waiter, &self.pools));
                self.log(
                    LogLevel::Warning,
                    shortage::use_of_reserve(&label.unwrap_or_default(), pinned),
                );
            }
        }
        let pool = self.pool(pool_id);
        if waited > STARVED_AFTER && pool.servers() == 0 && pool.may_retry(now) {
            let gives_way = self.gives_way_to(now, pool_id);
            if let Some((server_id, full)) = gives_way {
                let server = self.server_mut(server_id);
                server.close_reason = Some(CloseReason::Evicted(full));
                if server.is_idle() {
                    self.close_and_wait(now, server_id, full);
                }
            }
        }
    }

    /// The server of another pool that makes room for a pool without a server, if a limit that pools share is in the
    /// way. Pools that do not count for this limit keep their servers.
    fn gives_way_to(&self, now: Time, starved: PoolId) -> Option<(ServerId, FullLimit)> {
        let (pools, servers) = (&self.pools, &self.servers);
        if let Some(sizing) = self.full_host(starved) {
            let holders = self.shared.sizings.get(sizing)?.holders();
            let id = shortage::gives_way(now, pools, servers, starved, holders)?;
            return Some((id, FullLimit::Host));
        }
        let limit = self.shared_limit_reached(now, starved)?;
        let id = shortage::gives_way(now, pools, servers, starved, self.pools_under(limit, starved))?;
        Some((id, limit.as_reason()))
    }

    fn time_deferred_begins(&mut self, now: Time) {
        let Some(limit) = self.shared.settings.deferred_begin else {
            return;
        };
        while let Some(&(id, since)) = self.deferred.front() {
            let alive = self.clients.get(id.0).is_some_and(|c| {
                c.session
                    .deferred_begin()
                    .is_some_and(|b| b.since() == since && !b.has_failed())
                    && c.link.is_none()
            });
            if alive && now - since <= limit {
                return;
            }
            self.deferred.pop_front();
            if alive && self.clients.get(id.0).is_some_and(|c| c.waiting == Waiting::No) {
                self.deferral_expired(now, id);
                self.settle(now);
            }
        }
    }

    fn time_clients(&mut self, now: Time) {
        if now < self.timers.next_clients {
            return;
        }
        self.timers.next_clients = now + CLIENTS_ROUND;
        for slot in self.clients.slots() {
            // Closing one client may close others: the last one may end the process.
            let Some(client) = self.clients.get(slot) else { continue };
            let pool = client.pool.map(|p| self.pool(p));
            let due = due::of_client(now, client, pool, &self.shared.settings);
            self.end_client_in_time(now, ClientId(slot), due);
            self.settle(now);
        }
    }

    fn end_client_in_time(&mut self, now: Time, id: ClientId, due: ClientDue) {
        match due {
            ClientDue::Nothing => {}
            ClientDue::LoginTimeout => {
                let failure = Failure::new(Trouble::ClientLoginTimeout, "client_login_timeout");
                self.fail_in_any_state(now, id, failure);
            }
            ClientDue::ServerDown => {
                let hint = "No server has let the pooler in since it was started: see the log.";
                let message = "client_login_timeout (server down)";
                self.fail_client(
                    now,
                    id,
                    Failure::new(Trouble::ClientLoginTimeout, message).with_hint(hint),
                );
            }
            ClientDue::CancelTimeout => self.close_client(now, id, "cancel_wait_timeout"),
            ClientDue::OwnIdleLimit => self.idle_limit_over(now, id),
            ClientDue::Exceeded(exceeded) => {
                let Exceeded { trouble, message, .. } = exceeded;
                self.fail_client(now, id, Failure::new(trouble, message).with_hint(&exceeded.hint()));
            }
            ClientDue::IdleTimeout => {
                let hint = "The limit is the setting client_idle_timeout.";
                let failure = Failure::new(Trouble::ClientIdleTimeout, "client_idle_timeout").with_hint(hint);
                self.fail_client(now, id, failure);
            }
        }
    }
}
