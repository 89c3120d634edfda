//! Opening servers for waiting clients, and freeing places under limits that pools share.

use crate::base::close_reason::{CloseReason, FullLimit};
use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::request::Request;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::login::lookups::UNPROVEN_DATABASES_MAX;
use crate::pooler::Pooler;
use crate::pools::databases::Databases;
use crate::pools::opening::{MayOpen, OPENING_AT_ONCE_MAX, SharedLimit, counts_together, share_a_limit};
use crate::pools::pool::{self, Pool};
use crate::server::Server;
use crate::upstream::phase::ServerPhase;
use rand_core::RngCore;
use std::time::Duration;

/// If the pools of a host have as many servers as the host allows, a server stays with its pool for at least this long.
/// Otherwise pools that take turns would open a connection for each transaction.
const HOST_SLICE: Duration = Duration::from_millis(100);

impl Pooler {
    /// Opens as many servers as waiting clients need and limits allow.
    pub(crate) fn open_servers_for_waiters(&mut self, now: Time, pool_id: PoolId) {
        loop {
            let pool = self.pool(pool_id);
            // For a full pool, the limits that pools share need not be looked at.
            if pool.share().is_none() && pool.is_full(0, false) {
                return;
            }
            if !self.lacks_servers(pool_id) || pool.connecting() >= OPENING_AT_ONCE_MAX {
                return;
            }
            if self.is_silent(now, pool_id) {
                return;
            }
            if self.pool_takes_no_clients_now(pool_id) || !self.open_server(now, pool_id, false) {
                return;
            }
        }
    }

    /// Whether more clients wait than servers will soon be there for.
    fn lacks_servers(&self, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        let wanted = self.room_to_work(pool_id).map_or(usize::MAX, |room| room as usize);
        let opening = pool.surely_connecting() as usize + servers_soon_free(&self.servers, pool);
        pool.waiting().len().min(wanted) > opening
    }

    /// Clients wait although a server was opened for each that the limits allow: the oldest attempt without an answer
    /// makes way for one at another host. This happens once in a round of the timers, so that slow hosts cause no storm
    /// of connections.
    pub(crate) fn give_up_silent_attempt(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        if pool.in_doubt() == 0 || !pool.may_retry(now) || !self.lacks_servers(pool_id) {
            return;
        }
        let silent = self.servers.iter().filter(|(_, s)| s.pool == pool_id && s.in_doubt);
        let Some((slot, server)) = silent.min_by_key(|(_, server)| server.connect_time) else {
            return;
        };
        let age = now - server.connect_time;
        let Some(place) = pool.host_of(&server.endpoint) else {
            return;
        };
        let Some(better) = pool.hosts().better_than_silent(now, place, age) else {
            return;
        };
        let pause_max = self.shared.settings.server_login_retry;
        let hosts = self.pool_mut(pool_id).hosts_mut();
        hosts.turn_from_silent(now, place, better, pause_max);
        // Its host has been told. The clients are not: the next attempt follows at once.
        self.server_mut(ServerId(slot)).is_former = true;
        self.close_server(now, ServerId(slot), "no answer, another host is tried");
        self.settle(now);
    }

    /// A shared limit keeps a pool from opening a server, and attempts of another pool that have had no answer count for
    /// it. The latest of them makes way, unless it is the only one of its pool: PgBouncer makes one at a time. A pool
    /// with several hosts gives up attempts by itself.
    pub(crate) fn take_silent_place(&mut self, now: Time, pool_id: PoolId) {
        if !self.lacks_servers(pool_id) || self.is_silent(now, pool_id) {
            return;
        }
        let Some(limit) = self.shared_limit_reached(now, pool_id) else {
            return;
        };
        let key = self.pool(pool_id).key();
        let spare = self.servers.iter().filter(|(_, server)| {
            let pool = pool::of(&self.pools, server.pool);
            server.is_silent(now) && pool.connecting() > 1 && limit.is_shared(pool.key(), key)
        });
        let Some((slot, _)) = spare.max_by_key(|(_, server)| server.connect_time) else {
            return;
        };
        // Its clients are not told: other attempts are under way.
        self.server_mut(ServerId(slot)).is_former = true;
        self.close_server(now, ServerId(slot), "no answer, another pool needs its place");
        self.settle(now);
    }

    /// Whether the only host of a pool has not answered an attempt for long: it gets no further ones meanwhile.
    fn is_silent(&self, now: Time, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        let is_silent = |id: &ServerId| self.servers.get(id.0).is_some_and(|server| server.is_silent(now));
        pool.connecting() > 0 && pool.settings().endpoints.len() == 1 && pool.members().iter().any(is_silent)
    }

    /// A server will soon be free: see [`Server::is_soon_free`].
    pub(crate) fn note_soon_free(&mut self, id: ServerId) {
        let servers = &self.servers;
        let Some(server) = servers.get(id.0) else { return };
        let Some(pool) = self.pools[server.pool as usize].as_mut() else {
            return;
        };
        pool.note_soon_free(id, |other| servers.get(other.0).is_some_and(Server::is_soon_free));
    }

    /// Opens one more server, if the limits allow it. `reserve`: the reserve pool may be used.
    pub(crate) fn open_server(&mut self, now: Time, pool_id: PoolId, reserve: bool) -> bool {
        let may = self.may_open(now, pool_id, reserve);
        if may {
            self.connect(now, pool_id);
        }
        may
    }

    /// Whether the limits allow one more server now. If a shared limit does not, an idle server of another pool is
    /// closed; its place goes to the client that has waited longest, see [`Pooler::open_where_waited_longest`].
    pub(crate) fn may_open(&mut self, now: Time, pool_id: PoolId, reserve: bool) -> bool {
        if self.waits_for_other_names(pool_id) {
            return false;
        }
        if let Some(sizing) = self.full_host(pool_id) {
            let had_its_slice = |server: &Server| now - server.connect_time >= HOST_SLICE;
            if let Some(id) = self.evicted(pool_id, |pool| pool.shares(sizing), had_its_slice) {
                self.close_and_wait(now, id, FullLimit::Host);
            }
            return false;
        }
        let beside = servers_beside(&self.pools, &self.databases, pool_id);
        match self.pool(pool_id).may_open(now, &self.databases, beside, reserve) {
            MayOpen::Yes => return true,
            MayOpen::No => {}
            MayOpen::Instead(limit) => {
                let key = self.pool(pool_id).key();
                let shares = |pool: &Pool| limit.is_shared(pool.key(), key);
                if let Some(id) = self.evicted(pool_id, shares, |_| true) {
                    self.close_and_wait(now, id, limit.as_reason());
                }
            }
        }
        false
    }

    /// Whether servers are being opened for as many databases of clients that are not authenticated as is allowed:
    /// see [`UNPROVEN_DATABASES_MAX`].
    fn waits_for_other_names(&self, pool_id: PoolId) -> bool {
        self.pool(pool_id).is_untried() && self.room_for_unproven() == 0
    }

    /// For how many more databases of clients that are not authenticated a server may be opened.
    fn room_for_unproven(&self) -> usize {
        let is_being_tried = |pool: &Pool| pool.is_unproven() && pool.servers() > 0;
        let tried = pool::live(&self.pools).filter(|(_, pool)| is_being_tried(pool)).count();
        UNPROVEN_DATABASES_MAX.saturating_sub(tried)
    }

    /// The shared limit that keeps a pool from opening a server, if a shared limit is the reason.
    pub(crate) fn shared_limit_reached(&self, now: Time, pool_id: PoolId) -> Option<SharedLimit> {
        let beside = servers_beside(&self.pools, &self.databases, pool_id);
        match self.pool(pool_id).may_open(now, &self.databases, beside, false) {
            MayOpen::Instead(limit) => Some(limit),
            MayOpen::Yes | MayOpen::No => None,
        }
    }

    /// Whether the limits allow one more server now, and no other pool must give one up for it.
    pub(crate) fn limits_allow_one_more(&self, now: Time, pool_id: PoolId) -> bool {
        let beside = servers_beside(&self.pools, &self.databases, pool_id);
        let may = self.pool(pool_id).may_open(now, &self.databases, beside, false);
        matches!(may, MayOpen::Yes) && self.full_host(pool_id).is_none()
    }

    /// The server that makes way for another pool: the longest idle one of the pools that share a limit; `None` if none
    /// is idle, or one is being closed already.
    fn evicted(
        &self,
        for_pool: PoolId,
        shares: impl Fn(&Pool) -> bool,
        may_end: impl Fn(&Server) -> bool,
    ) -> Option<ServerId> {
        let is_closing = |s: &Server| matches!(s.phase, ServerPhase::Closing) && shares(pool::of(&self.pools, s.pool));
        if self.servers.iter().any(|(_, s)| is_closing(s)) {
            return None;
        }
        let idle = pool::live(&self.pools)
            .filter(|(id, pool)| *id != for_pool && shares(pool))
            .filter(|(_, pool)| pool.servers() > pool.settings().min_size)
            .filter_map(|(_, pool)| pool.idle().front());
        let known = idle.filter_map(|id| Some((self.servers.get(id.0)?, id)));
        let found = known
            .filter(|(server, _)| may_end(server))
            .min_by_key(|(server, _)| server.since);
        found.map(|(_, id)| id)
    }

    /// Ends an idle server and counts it until PostgreSQL has closed the connection, so that limits also hold at
    /// PostgreSQL.
    pub(crate) fn close_and_wait(&mut self, now: Time, id: ServerId, full: FullLimit) {
        let server = self.server_mut(id);
        let (pool_id, was_up) = (server.pool, server.is_up());
        server.phase = ServerPhase::Closing;
        server.since = now;
        server.close_reason = Some(CloseReason::Evicted(full));
        let pool = self.pool_mut(pool_id);
        pool.forget_idle(id);
        if let Some(share) = pool.share().filter(|_| was_up) {
            self.shared.sizings.is_down(share);
        }
        self.send(id, |w| w.terminate());
    }

    /// Begins to open a server of a pool.
    pub(crate) fn connect(&mut self, now: Time, pool_id: PoolId) -> ServerId {
        let shape = self.shared.shapes.empty();
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        let (endpoint, in_doubt) = pool.take_endpoint(now);
        pool.is_used(now);
        let expires = now + pool.lifetime(|| self.random.next_u64());
        let mut server = Server::new(now, pool_id, endpoint.clone(), shape, expires);
        server.in_doubt = in_doubt;
        let id = ServerId(self.servers.insert_with(|_| server));
        self.databases.server_in(pool, id);
        if let Some(share) = pool.share() {
            self.shared.sizings.server_in(share);
        }
        self.shared
            .requests
            .push_back(Request::Connect { server: id, endpoint });
        id
    }

    /// A server of this pool has freed a place under shared limits, which goes to the client that has waited longest.
    /// Pools that share the limit of the same host are left out: [`Pooler::host_has_place`] has asked them.
    pub(crate) fn open_where_waited_longest(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        let (key, sizing) = (pool.key(), pool.share().map(|share| share.sizing()));
        let mut waited: Vec<(Time, PoolId)> = pool::live(&self.pools)
            .filter(|(_, pool)| share_a_limit(pool.key(), key))
            .filter(|(_, pool)| !sizing.is_some_and(|sizing| pool.shares(sizing)))
            .filter_map(|(id, pool)| Some((pool.first_waiter()?.1, id)))
            .collect();
        waited.sort_unstable();
        // Thousands of invented names may wait. For each of them all pools would be counted, only to find that there is
        // no room.
        let mut room = self.room_for_unproven();
        for (_, id) in waited {
            if self.pool(id).is_untried() {
                let Some(left) = room.checked_sub(1) else { continue };
                room = left;
            }
            self.open_servers_for_waiters(now, id);
        }
    }
}

/// The number of servers of a pool that will soon be free: see [`Server::is_soon_free`].
pub(crate) fn servers_soon_free(servers: &Slab<Server>, pool: &Pool) -> usize {
    let soon = |id: &&ServerId| servers.get(id.0).is_some_and(Server::is_soon_free);
    pool.soon_free().iter().filter(soon).count()
}

/// The servers of other pools under the same limits.
fn servers_beside(pools: &[Option<Pool>], databases: &Databases, pool_id: PoolId) -> u32 {
    let key = pool::of(pools, pool_id).key();
    if !databases.has_replication() && !key.kind.is_replication() {
        return 0;
    }
    let beside = pool::live(pools).filter(|(id, pool)| *id != pool_id && counts_together(pool.key(), key));
    beside.map(|(_, pool)| pool.servers()).sum()
}
