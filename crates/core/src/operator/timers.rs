//! Everything that happens because time has passed.
//!
//! No timer is armed or disarmed on the forwarding path: a round every [`ROUND`] looks at servers (few), at the heads of
//! queues, and every [`CLIENTS_ROUND`] at clients.

use crate::base::close_reason::CloseReason;
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::pooler::Pooler;
use crate::upstream::phase::ServerPhase;
use std::time::Duration;

/// Time between two rounds; every timeout is kept to within it.
const ROUND: Duration = Duration::from_millis(100);

/// Time between two looks at all clients.
const CLIENTS_ROUND: Duration = Duration::from_millis(500);

/// How long an abandoned server may take to end what its client began, before it is closed.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// How long clients of a pool without any server may wait before another pool under the same limit gives one up.
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
        self.next_turns();
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
        let over = |limit: Option<Duration>, since: Time| limit.is_some_and(|l| now - since > l);
        match server.phase {
            ServerPhase::Connecting | ServerPhase::Login(_) => {
                if over(self.shared.settings.server_connect_timeout, server.connect_time) {
                    let failure = crate::base::pool_id::LoginFailure {
                        sqlstate: String::new(),
                        message: "connecting to the server took longer than server_connect_timeout".into(),
                        temporary: true,
                    };
                    self.shared
                        .requests
                        .push_back(crate::base::request::Request::Close(id.into()));
                    self.server_lost(now, id, "connect timeout", Some(failure));
                }
            }
            ServerPhase::Idle => self.time_idle_server(now, id),
            // See time_listeners.
            ServerPhase::Listening => {}
            ServerPhase::Linked => self.time_linked_server(now, id),
            ServerPhase::Draining
            | ServerPhase::Resetting
            | ServerPhase::LiftingLimit
            | ServerPhase::Reading
            | ServerPhase::ConnectQuery => {
                let drains = matches!(server.phase, ServerPhase::Draining);
                if now - server.since > DRAIN_TIME_MAX {
                    self.close_server(now, id, "server did not become idle in time");
                } else if drains {
                    self.cancel_again(now, id);
                }
            }
            ServerPhase::Testing | ServerPhase::CancelPending | ServerPhase::Closing => {
                if now - server.since > DRAIN_TIME_MAX {
                    self.close_server(now, id, "test query timeout");
                }
            }
        }
    }

    fn time_idle_server(&mut self, now: Time, id: ServerId) {
        let server = self.servers.get(id.0).expect("looked up by the caller");
        let pool = self.pool(server.pool);
        let reason = if let Some(reason) = server.close_reason {
            reason.text()
        } else if server.is_expired(now) {
            "server lifetime over"
        } else if pool.settings.size > 0 && pool.servers > pool.settings.size && pool.waiting.is_empty() {
            "reserve server is not needed any more"
        } else if self
            .shared
            .settings
            .server_idle_timeout
            .is_some_and(|l| now - server.since > l)
            && pool.servers > pool.settings.min_size
        {
            "server idle timeout"
        } else {
            return;
        };
        self.close_server(now, id, reason);
    }

    fn time_linked_server(&mut self, now: Time, id: ServerId) {
        let server = self.servers.get(id.0).expect("looked up by the caller");
        let Some(client_id) = server.link else { return };
        if self.clients.get(client_id.0).is_none() {
            return;
        }
        if let (Some(reason), true, true) = (
            server.close_reason,
            self.shared.settings.server_fast_close,
            server.is_clean(),
        ) {
            let hint = "The setting server_fast_close does not wait for the end of the session.";
            return self.fail_client(now, client_id, Trouble::Killed, reason.text(), "", hint);
        }
        self.note_quiet(now, id);
        let Some((trouble, message, setting)) = self.limit_over(now, id) else {
            return;
        };
        if trouble != Trouble::ClientIdleTimeout {
            let server = self.server_mut(id);
            let age = (now - server.connect_time).as_secs();
            let text = format!("{} closing because: {message} (age={age}s)", self.server_label(id));
            self.log(LogLevel::Log, text);
        }
        let hint = format!("The limit is the setting {setting}.");
        self.fail_client(now, client_id, trouble, message, "", &hint);
    }

    /// Notes since when a server has had nothing to do in a segment that its client has not ended: no ReadyForQuery tells.
    fn note_quiet(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        let waits = server.queue.is_empty() && !server.is_clean();
        if waits && server.quiet_since <= server.request_time.max(server.ready_time) {
            server.quiet_since = now;
        }
    }

    /// Which time limit a linked client has exceeded, the words for it, and its setting.
    ///
    /// A request of which a part has been sent is at work, also where its client must send the rest: query_timeout. A
    /// client that has begun something and owes the next message, be it a COMMIT, a Sync or the rest of a message, is idle
    /// in a transaction: idle_transaction_timeout. transaction_timeout counts both.
    fn limit_over(&self, now: Time, id: ServerId) -> Option<(Trouble, &'static str, &'static str)> {
        let server = self.servers.get(id.0)?;
        let client = self.clients.get(server.link?.0)?;
        let settings = &self.pool(server.pool).settings;
        let over = |limit: Option<Duration>, since: Time| limit.is_some_and(|l| now - since > l);
        let working = !server.queue.is_empty();
        let amid_message = matches!(client.passing, Passing::Forward(_));
        let in_transaction = !server.is_clean() || amid_message;
        let idle_since = if server.queue.segment_open() || server.ignoring_to_sync {
            server.quiet_since
        } else {
            server.ready_time
        };
        if working && over(settings.query_timeout, server.request_time) {
            return Some((Trouble::QueryTimeout, "query timeout", "query_timeout"));
        }
        if in_transaction && over(settings.transaction_timeout, client.xact_start) {
            let words = ("transaction timeout", "transaction_timeout");
            return Some((Trouble::TransactionTimeout, words.0, words.1));
        }
        if working {
            return None;
        }
        if in_transaction {
            let words = ("idle transaction timeout", "idle_transaction_timeout");
            return over(settings.idle_transaction_timeout, idle_since).then_some((
                Trouble::IdleTransactionTimeout,
                words.0,
                words.1,
            ));
        }
        if over(settings.client_idle_timeout, server.ready_time) {
            return Some((Trouble::ClientIdleTimeout, "client_idle_timeout", "client_idle_timeout"));
        }
        if client.pins.of_session() && over(self.shared.settings.pin_idle_timeout, server.ready_time) {
            return Some((Trouble::PinIdleTimeout, "pin_idle_timeout", "pin_idle_timeout"));
        }
        None
    }

    fn time_pools(&mut self, now: Time) {
        for pool_id in self.pool_ids() {
            self.time_waiters(now, pool_id);
            self.time_opening(now, pool_id);
            self.time_unused_pool(now, pool_id);
        }
    }

    fn time_unused_pool(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let has_listener = pool.key.kind == PoolKind::Listener && pool.servers > 0;
        if pool.clients > 0 || !pool.waiting.is_empty() || has_listener {
            return;
        }
        let unused = now - pool.last_used;
        let over = |limit: Option<Duration>| limit.is_some_and(|l| unused > l);
        let idle_pool = over(self.shared.settings.pool_idle_timeout);
        let auto_database =
            pool.auto && pool.servers == 0 && (over(self.shared.settings.autodb_idle_timeout) || pool.is_unproven());
        if !idle_pool && !auto_database || self.pool_is_referenced(pool_id) || self.keeps_warm(pool_id) {
            return;
        }
        let key = pool.key.clone();
        if idle_pool {
            let text = format!(
                "cleaning up idle pool for user {} on db {} because: pool idle timeout (age= {}s)",
                key.user,
                key.database,
                unused.as_secs()
            );
            self.log(LogLevel::Log, text);
            for server in self.pool(pool_id).idle.iter().copied().collect::<Vec<_>>() {
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
        // The queue is in order of arrival: nobody behind the first who is in time is late.
        let late: Vec<ClientId> = pool
            .waiting
            .iter()
            .take_while(|(_, since)| now - *since > shortest)
            .map(|(id, _)| id)
            .collect();
        for id in late {
            let Some(client) = self.clients.get_mut(id.0) else {
                continue;
            };
            let session = client.is_session();
            let Waiting::ForServer { since, notified, .. } = &mut client.waiting else {
                continue;
            };
            if limit.is_some_and(|l| now - *since > l) {
                let hint = match self.pinned_servers(pool_id) {
                    0 => "All servers of the pool are busy: see SHOW POOLS, pool_size and query_wait_timeout.".into(),
                    pinned => format!(
                        "All servers of the pool are busy, and sessions keep {pinned} of them: see SHOW PINS, \
                         pin_idle_timeout, reserve_pool_size and query_wait_timeout."
                    ),
                };
                self.fail_client(now, id, Trouble::QueryWaitTimeout, "query_wait_timeout", "", &hint);
            } else if !*notified && session && notify.is_some_and(|l| now - *since > l) {
                *notified = true;
                let notice = pgweir_wire::write::ErrorText {
                    severity: "NOTICE",
                    sqlstate: "00000",
                    message: "No server connection available in postgres backend, client being queued",
                    detail: "",
                    hint: "",
                };
                self.send(id, |w| w.notice(&notice));
            }
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
                let label = self
                    .clients
                    .get(waiter.0)
                    .map(|c| self.client_label(waiter, c))
                    .unwrap_or_default();
                let why = match self.pinned_servers(pool_id) {
                    0 => String::new(),
                    pinned => format!(", as sessions keep {pinned} of the pool's servers (SHOW PINS)"),
                };
                self.log(
                    LogLevel::Warning,
                    format!("{label} taking connection from reserve_pool{why}"),
                );
            }
        }
        let pool = self.pool(pool_id);
        if waited > STARVED_AFTER && pool.servers == 0 && pool.retry_at.is_none_or(|t| t <= now) {
            self.make_way(now, pool_id);
        }
    }

    /// Servers of a pool whose clients keep them beyond the end of their transactions.
    fn pinned_servers(&self, pool_id: PoolId) -> usize {
        let servers = self.servers.iter().filter(|(_, s)| s.pool == pool_id);
        let clients = servers.filter_map(|(_, s)| self.clients.get(s.link?.0));
        clients.filter(|c| c.pinned.is_some()).count()
    }

    /// A pool gets no server because others hold all that a shared limit allows: the largest of them gives one up when it
    /// next has one free.
    fn make_way(&mut self, now: Time, starved: PoolId) {
        let key = self.pool(starved).key.clone();
        let shares = |pool: &crate::pools::pool::Pool| pool.key.database == key.database || pool.key.user == key.user;
        let largest = self
            .live_pools()
            .filter(|(id, pool)| *id != starved && shares(pool) && pool.servers > 0)
            .max_by_key(|(_, pool)| pool.servers)
            .map(|(id, _)| id);
        let Some(largest) = largest else { return };
        let already = self
            .servers
            .iter()
            .any(|(_, s)| s.pool == largest && s.close_reason == Some(CloseReason::Evicted));
        let victim = self
            .servers
            .iter()
            .find(|(_, s)| s.pool == largest && s.close_reason.is_none())
            .map(|(s, _)| s);
        if let (false, Some(slot)) = (already, victim) {
            let server = self.servers.get_mut(slot).expect("found above");
            server.close_reason = Some(CloseReason::Evicted);
            if server.is_idle() {
                self.close_and_wait(now, ServerId(slot));
            }
        }
    }

    /// Whether min_pool_size applies: the pool has clients, or its database forces a user, so that it needs none.
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
            let alive = self
                .clients
                .get(id.0)
                .is_some_and(|c| c.deferred_begin.is_some_and(|b| b.since == since && !b.failed) && c.link.is_none());
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
        let login = self.shared.settings.client_login_timeout;
        if now < self.timers.next_clients {
            return;
        }
        self.timers.next_clients = now + CLIENTS_ROUND;
        for slot in self.clients.slots() {
            // Closing one client may end others: the last one lets a shutdown go on.
            let Some(client) = self.clients.get(slot) else { continue };
            let id = ClientId(slot);
            match client.phase {
                ClientPhase::Startup | ClientPhase::Login(_)
                    // Who waits in a pool's queue is under query_wait_timeout.
                    if !matches!(client.waiting, Waiting::ForServer { .. })
                        && login.is_some_and(|l| now - client.connect_time > l) =>
                {
                    self.fail_client(now, id, Trouble::ClientLoginTimeout, "client_login_timeout", "", "");
                }
                ClientPhase::Cancelling if self.shared.settings.cancel_wait_timeout.is_some_and(|l| now - client.connect_time > l) => {
                    self.close_client(now, id, "cancel_wait_timeout");
                }
                ClientPhase::Session if client.link.is_none() && client.waiting == Waiting::No => {
                    let limit = client.pool.and_then(|p| self.pool(p).settings.client_idle_timeout);
                    let idle = now - client.request_time;
                    if client.own_idle_limit().is_some_and(|l| idle > l) {
                        self.idle_limit_over(now, id);
                    } else if limit.is_some_and(|l| idle > l) {
                        let hint = "The limit is the setting client_idle_timeout.";
                        self.fail_client(now, id, Trouble::ClientIdleTimeout, "client_idle_timeout", "", hint);
                    }
                }
                _ => {}
            }
        }
    }
}
