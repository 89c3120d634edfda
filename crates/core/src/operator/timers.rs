//! Everything that happens because time has passed.
//!
//! No timer is armed or disarmed on the forwarding path. A round every [`ROUND`] looks at all servers, which are few,
//! and at the heads of the queues. Clients are looked at every [`CLIENTS_ROUND`].

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{LoginFailure, PoolId, PoolKind};
use crate::base::reasons::Waiting;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::login::opening::share_a_limit;
use crate::operator::due::{self, ClientDue, Exceeded, PoolDue, ServerDue};
use crate::pooler::Pooler;
use crate::pools::pool;
use crate::server;
use pgweir_wire::write::ErrorText;
use std::time::Duration;

/// Time between two rounds: a timeout fires up to this much late.
const ROUND: Duration = Duration::from_millis(100);

/// Time between two rounds over all clients.
const CLIENTS_ROUND: Duration = Duration::from_millis(500);

/// If a pool has no server and its clients have waited for this long, another pool under the same limit gives one up.
const STARVED_AFTER: Duration = Duration::from_secs(1);

/// The message of query_wait_notify, in PgBouncer's words.
const QUEUED: ErrorText<'static> = ErrorText {
    severity: "NOTICE",
    sqlstate: "00000",
    message: "No server connection available in postgres backend, client being queued",
    detail: "",
    hint: "",
};

impl Pooler {
    pub(crate) fn run_timers(&mut self, now: Time) {
        if now < self.timers.next_round {
            return;
        }
        self.timers.next_round = now + ROUND;
        if self.admin.is_suspended() {
            return;
        }
        self.time_servers(now);
        self.time_listeners(now);
        self.time_moves(now);
        self.time_pools(now);
        self.time_deferred_begins(now);
        self.time_clients(now);
        if now >= self.timers.next_stats {
            self.timers.next_stats = now + self.shared.settings.stats_period;
            self.stats_round(now);
        }
    }

    fn time_servers(&mut self, now: Time) {
        for slot in self.servers.slots() {
            self.time_server(now, ServerId(slot));
        }
    }

    fn time_server(&mut self, now: Time, id: ServerId) {
        let Some(server) = self.servers.get(id.0) else { return };
        match due::of_server(now, server, self.pool(server.pool), &self.shared.settings) {
            ServerDue::Nothing => {}
            ServerDue::ConnectTimeout => {
                let failure = LoginFailure {
                    sqlstate: String::new(),
                    message: "connect timeout".into(),
                    temporary: true,
                };
                self.shared.requests.push_back(Request::Close(id.into()));
                self.server_lost(now, id, "connect timeout", Some(failure));
            }
            ServerDue::OpensSlowly => self.note_slow_opening(id),
            ServerDue::Close(reason) => self.close_server(now, id, reason),
            ServerDue::CancelAgain => self.cancel_again(now, id),
            ServerDue::LetRidersGo => self.let_riders_go(now, id),
            ServerDue::LookAtClient(client) => self.time_linked_client(now, client, id),
        }
    }

    /// A server that takes long to open is in doubt from now on: its host may swallow packets.
    fn note_slow_opening(&mut self, id: ServerId) {
        let server = self.server_mut(id);
        server.in_doubt = true;
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let pool = self.pool_mut(pool_id);
        pool.in_doubt += 1;
        if let Some(place) = pool.host_of(&endpoint) {
            pool.hosts.is_slow(place);
        }
    }

    fn time_linked_client(&mut self, now: Time, id: ClientId, server_id: ServerId) {
        let server = self.servers.get(server_id.0);
        let (Some(server), true) = (server, self.clients.get(id.0).is_some()) else {
            return;
        };
        if let Some(reason) = server.close_reason
            && self.shared.settings.server_fast_close
            && server.is_clean()
        {
            let hint = "The setting server_fast_close does not wait for the end of the session.";
            return self.fail_client(now, id, Trouble::Killed, reason.text(), "", hint);
        }
        self.note_quiet(now, server_id);
        let Some(Exceeded {
            trouble,
            message,
            setting,
        }) = self.limit_over(now, id, server_id)
        else {
            return;
        };
        if trouble != Trouble::ClientIdleTimeout {
            let age = (now - self.server_mut(server_id).connect_time).as_secs();
            let label = server::label(&self.servers, &self.pools, server_id);
            self.log(
                LogLevel::Log,
                format!("{label} closing because: {message} (age={age}s)"),
            );
        }
        let hint = format!("The limit is the setting {setting}.");
        self.fail_client(now, id, trouble, message, "", &hint);
    }

    fn limit_over(&self, now: Time, id: ClientId, server_id: ServerId) -> Option<Exceeded> {
        let (server, client) = (self.servers.get(server_id.0)?, self.clients.get(id.0)?);
        due::limit_over(now, server, client, self.pool(server.pool), &self.shared.settings)
    }

    /// Notes since when a server has had nothing to do in a segment that its client has not ended. No ReadyForQuery
    /// tells.
    fn note_quiet(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        let waits = server.conversation.queue.is_empty() && !server.is_clean();
        if waits
            && server.conversation.quiet_since <= server.conversation.request_time.max(server.conversation.ready_time)
        {
            server.conversation.quiet_since = now;
        }
    }

    fn time_pools(&mut self, now: Time) {
        for pool_id in pool::ids(&self.pools) {
            self.time_waiters(now, pool_id);
            // A server that was about to become free may have been given other work.
            self.wake_idle(now, pool_id);
            self.time_opening(now, pool_id);
            self.time_unused_pool(now, pool_id);
        }
    }

    fn time_unused_pool(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let due = due::of_pool(now, pool, &self.shared.settings);
        if due == PoolDue::Nothing || self.pool_is_referenced(pool_id) || self.keeps_warm(pool_id) {
            return;
        }
        if let PoolDue::Clean(unused) = due {
            let (user, database, age) = (&pool.key.user, &pool.key.database, unused.as_secs());
            let text = format!(
                "cleaning up idle pool for user {user} on db {database} because: pool idle timeout (age= {age}s)"
            );
            let idle: Vec<_> = pool.idle.iter().copied().collect();
            self.log(LogLevel::Log, text);
            for server in idle {
                self.close_server(now, server, "pool idle timeout");
            }
        }
        if self.pool(pool_id).servers == 0 {
            self.drop_pool(pool_id);
        }
    }

    fn pool_is_referenced(&self, pool_id: PoolId) -> bool {
        self.clients.iter().any(|(_, c)| c.pool == Some(pool_id))
    }

    fn time_waiters(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let (limit, notify) = (pool.settings.query_wait_timeout, self.shared.settings.query_wait_notify);
        let Some(shortest) = [limit, notify].into_iter().flatten().min() else {
            return;
        };
        // The queue is in order of arrival: after the first client that is within its limit, all are.
        let late: Vec<ClientId> = pool
            .waiting
            .iter()
            .take_while(|(_, since)| now - *since > shortest)
            .map(|(id, _)| id)
            .collect();
        for id in late {
            self.time_waiter(now, id, pool_id, limit, notify);
        }
    }

    /// Checks how long a client has waited for a server.
    fn time_waiter(
        &mut self,
        now: Time,
        id: ClientId,
        pool_id: PoolId,
        limit: Option<Duration>,
        notify: Option<Duration>,
    ) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let session = client.is_session();
        let Waiting::ForServer { since, notified, .. } = &mut client.waiting else {
            return;
        };
        if limit.is_some_and(|l| now - *since > l) {
            let pool = self.pool(pool_id);
            let failure = pool.failure.as_ref().filter(|_| pool.servers == pool.connecting);
            let detail = failure.map_or(String::new(), |failure| failure.cached().message);
            let hint = match self.pinned_servers(pool_id) {
                _ if failure.is_some() => "No server can be reached: see server_down_wait and the log.".into(),
                0 => "All servers of the pool are busy: see SHOW POOLS, pool_size and query_wait_timeout.".into(),
                pinned => format!(
                    "All servers of the pool are busy, and sessions keep {pinned} of them: see SHOW PINS, \
                     pin_idle_timeout, reserve_pool_size and query_wait_timeout."
                ),
            };
            self.fail_client(now, id, Trouble::QueryWaitTimeout, "query_wait_timeout", &detail, &hint);
        } else if !*notified && session && notify.is_some_and(|l| now - *since > l) {
            *notified = true;
            self.send(id, |w| w.notice(&QUEUED));
        }
    }

    fn time_opening(&mut self, now: Time, pool_id: PoolId) {
        if self.admin.is_ending() || self.pool_takes_no_clients_now(pool_id) {
            return;
        }
        self.open_servers_for_waiters(now, pool_id);
        let pool = self.pool(pool_id);
        let Some((waiter, since)) = pool.first_waiter() else {
            if pool.servers < pool.settings.min_size && self.keeps_warm(pool_id) && pool.connecting == 0 {
                self.open_server(now, pool_id, false);
            }
            return;
        };
        let waited = now - since;
        let uses_reserve = pool.settings.size > 0 && pool.settings.reserve_size > 0;
        if uses_reserve && waited > self.shared.settings.reserve_pool_timeout && pool.connecting == 0 {
            let in_reserve = pool.servers >= pool.settings.size;
            if self.open_server(now, pool_id, true) && in_reserve {
                self.log_use_of_reserve(waiter, pool_id);
            }
        }
        let pool = self.pool(pool_id);
        if waited > STARVED_AFTER && pool.servers == 0 && pool.retry_at.is_none_or(|t| t <= now) {
            self.make_way(now, pool_id);
        }
    }

    fn log_use_of_reserve(&mut self, waiter: ClientId, pool_id: PoolId) {
        let label = self.clients.get(waiter.0).map(|c| c.label(waiter, &self.pools));
        let why = match self.pinned_servers(pool_id) {
            0 => String::new(),
            pinned => format!(", as sessions keep {pinned} of the pool's servers (SHOW PINS)"),
        };
        let text = format!("{} taking connection from reserve_pool{why}", label.unwrap_or_default());
        self.log(LogLevel::Warning, text);
    }

    /// The number of servers whose clients keep them beyond the end of their transactions.
    fn pinned_servers(&self, pool_id: PoolId) -> usize {
        let servers = self.servers.iter().filter(|(_, s)| s.pool == pool_id);
        let clients = servers.filter_map(|(_, s)| self.clients.get(s.link?.0));
        clients.filter(|c| c.session.pinned.is_some()).count()
    }

    /// A pool gets no server, because other pools hold all that a shared limit allows. The largest of these gives up
    /// one server, when one is free. A listener is closed only if there is no other choice, because notifications may
    /// be lost with it.
    fn make_way(&mut self, now: Time, starved: PoolId) {
        let key = &self.pool(starved).key;
        let largest = pool::live(&self.pools)
            .filter(|(id, pool)| *id != starved && share_a_limit(&pool.key, key) && pool.servers > 0)
            .max_by_key(|(_, pool)| (pool.key.kind != PoolKind::Listener, pool.servers))
            .map(|(id, _)| id);
        let Some(largest) = largest else { return };
        let of_largest = || self.servers.iter().filter(|(_, s)| s.pool == largest);
        if of_largest().any(|(_, s)| s.close_reason == Some(CloseReason::Evicted)) {
            return;
        }
        let Some((slot, _)) = of_largest().find(|(_, s)| s.close_reason.is_none()) else {
            return;
        };
        let server = self.server_mut(ServerId(slot));
        server.close_reason = Some(CloseReason::Evicted);
        if server.is_idle() {
            self.close_and_wait(now, ServerId(slot));
        }
    }

    /// Whether min_pool_size applies: the pool has clients, or its database forces a user, so that no client is needed
    /// to know the user.
    fn keeps_warm(&self, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        let forced = self
            .shared
            .config
            .databases
            .get(&*pool.key.database)
            .is_some_and(|d| d.user.as_deref() == Some(&*pool.key.user));
        let configured = forced && pool.key.start.is_empty();
        self.serves_clients(pool_id) && (pool.clients > 0 || configured)
    }

    fn time_deferred_begins(&mut self, now: Time) {
        let Some(limit) = self.shared.settings.deferred_begin else {
            return;
        };
        while let Some(&(id, since)) = self.deferred.front() {
            let alive = self.clients.get(id.0).is_some_and(|c| {
                c.session.deferred_begin.is_some_and(|b| b.since == since && !b.failed) && c.link.is_none()
            });
            if alive && now - since <= limit {
                return;
            }
            self.deferred.pop_front();
            if alive && self.clients.get(id.0).is_some_and(|c| c.waiting == Waiting::No) {
                self.deferral_expired(now, id);
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
        }
    }

    fn end_client_in_time(&mut self, now: Time, id: ClientId, due: ClientDue) {
        match due {
            ClientDue::Nothing => {}
            ClientDue::LoginTimeout => {
                self.fail_client(now, id, Trouble::ClientLoginTimeout, "client_login_timeout", "", "");
            }
            ClientDue::CancelTimeout => self.close_client(now, id, "cancel_wait_timeout"),
            ClientDue::OwnIdleLimit => self.idle_limit_over(now, id),
            ClientDue::Exceeded(Exceeded {
                trouble,
                message,
                setting,
            }) => {
                let hint = format!("The limit is the setting {setting}.");
                self.fail_client(now, id, trouble, message, "", &hint);
            }
            ClientDue::IdleTimeout => {
                let hint = "The limit is the setting client_idle_timeout.";
                self.fail_client(now, id, Trouble::ClientIdleTimeout, "client_idle_timeout", "", hint);
            }
        }
    }
}
