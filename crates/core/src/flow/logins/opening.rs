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
use crate::pools::opening::{MayOpen, OPENING_AT_ONCE_MAX, SharedLimit, counts_together};
use crate::pools::places::Line;
use crate::pools::pool::{self, Pool};
use crate::pools::sizing::Sizing;
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
            if !self.wants_a_server(now, pool_id) || !self.open_server(now, pool_id, false) {
                return;
            }
        }
    }

    /// Whether a server would be opened for the waiting clients of a pool now, if the limits allow it.
    pub(crate) fn wants_a_server(&self, now: Time, pool_id: PoolId) -> bool {
        self.lacks_servers(pool_id)
            && self.pool(pool_id).connecting() < OPENING_AT_ONCE_MAX
            && !self.is_silent(now, pool_id)
            && !self.pool_takes_no_clients_now(pool_id)
    }

    /// Whether more clients wait than servers will soon be there for.
    pub(crate) fn lacks_servers(&self, pool_id: PoolId) -> bool {
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
        let silent = self.servers_of(pool_id).filter(|(_, server)| server.in_doubt);
        let Some((id, server)) = silent.min_by_key(|(_, server)| server.connect_time) else {
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
        self.server_mut(id).is_former = true;
        self.close_server(now, id, "no answer, another host is tried");
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
        let several = self
            .pools_under(limit, pool_id)
            .filter(|id| self.pool(*id).connecting() > 1);
        let silent = several
            .flat_map(|id| self.servers_of(id))
            .filter(|(_, server)| server.is_silent(now));
        let Some((id, _)) = silent.max_by_key(|(_, server)| server.connect_time) else {
            return;
        };
        // Its clients are not told: other attempts are under way.
        self.server_mut(id).is_former = true;
        self.close_server(now, id, "no answer, another pool needs its place");
        self.settle(now);
    }

    /// The servers of a pool.
    fn servers_of(&self, pool_id: PoolId) -> impl Iterator<Item = (ServerId, &Server)> {
        let members = self.pool(pool_id).members().iter();
        members.filter_map(|id| Some((*id, self.servers.get(id.0)?)))
    }

    /// The pools with servers that count for a limit together with those of this pool.
    pub(crate) fn pools_under(&self, limit: SharedLimit, pool_id: PoolId) -> impl Iterator<Item = PoolId> {
        let key = self.pool(pool_id).key();
        let holders = self.databases.holders(limit, key);
        holders.filter(move |id| limit.is_shared(self.pool(*id).key(), key))
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
            self.enters_line(Line::Untried, pool_id);
            return false;
        }
        if let Some(sizing) = self.full_host(pool_id) {
            let had_its_slice = |server: &Server| now - server.connect_time >= HOST_SLICE;
            let holders = self.shared.sizings.get(sizing).into_iter().flat_map(Sizing::holders);
            if let Some(id) = self.evicted(pool_id, holders, had_its_slice) {
                self.close_and_wait(now, id, FullLimit::Host);
            }
            self.waits_for_host(pool_id);
            return false;
        }
        let beside = servers_beside(&self.pools, &self.databases, pool_id);
        match self.pool(pool_id).may_open(now, &self.databases, beside, reserve) {
            MayOpen::Yes => return true,
            MayOpen::No => {}
            MayOpen::Instead(limit) => {
                if let Some(id) = self.evicted(pool_id, self.pools_under(limit, pool_id), |_| true) {
                    self.close_and_wait(now, id, limit.as_reason());
                }
                self.enters_line(limit.line(), pool_id);
            }
        }
        false
    }

    /// Clients of a pool wait until its host has a place.
    pub(crate) fn waits_for_host(&mut self, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        if let Some(share) = pool.share_if_waited_for() {
            self.shared.sizings.owes(pool_id, share);
        }
    }

    fn enters_line(&mut self, line: Line, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        self.databases.enters_line(line, pool_id, pool);
        self.shared.some_are_in_line = self.databases.some_are_in_line();
    }

    /// No client of this pool waits for a place any more.
    pub(crate) fn leaves_line(&mut self, pool_id: PoolId) {
        let pool = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        if self.databases.leaves_line(pool_id, pool).is_some() {
            self.shared.some_are_in_line = self.databases.some_are_in_line();
        }
    }

    /// Whether servers are being opened for as many databases of clients that are not authenticated as is allowed:
    /// see [`UNPROVEN_DATABASES_MAX`].
    fn waits_for_other_names(&self, pool_id: PoolId) -> bool {
        self.pool(pool_id).is_untried() && self.room_for_unproven() == 0
    }

    /// For how many more databases of clients that are not authenticated a server may be opened.
    fn room_for_unproven(&self) -> usize {
        UNPROVEN_DATABASES_MAX.saturating_sub(self.databases.being_tried())
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

    /// The server that makes way for another pool: the longest idle one of the pools under a limit, `holders`; `None` if
    /// none is idle, or one is being closed already.
    fn evicted(
        &self,
        for_pool: PoolId,
        holders: impl Iterator<Item = PoolId>,
        may_end: impl Fn(&Server) -> bool,
    ) -> Option<ServerId> {
        let mut found: Option<(Time, ServerId)> = None;
        for id in holders {
            let pool = self.pool(id);
            if pool.closing() > 0 {
                return None;
            }
            if id != for_pool
                && pool.servers() > pool.settings().min_size
                && let Some(id) = pool.idle().front()
                && let Some(server) = self.servers.get(id.0).filter(|server| may_end(server))
                && found.is_none_or(|(since, _)| server.since < since)
            {
                found = Some((server.since, id));
            }
        }
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
        pool.one_makes_room();
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
        self.databases.server_in(pool_id, pool, id);
        if let Some(share) = pool.share() {
            self.shared.sizings.server_in(pool_id, share);
        }
        self.shared
            .requests
            .push_back(Request::Connect { server: id, endpoint });
        id
    }

    /// A server of this pool has freed a place under shared limits, or may make room because it is idle: the client that
    /// has waited longest gets a server.
    pub(crate) fn open_where_waited_longest(&mut self, now: Time, pool_id: PoolId) {
        let own = self.pools[pool_id as usize].as_mut().expect("the caller looked it up");
        if own.in_line().is_none() {
            self.databases.enters_line(Line::Database, pool_id, own);
        }
        let key = own.key().clone();
        let mut lines = vec![Line::Database, Line::User, Line::Untried];
        // Pools that had their turn and still wait.
        let mut again = Vec::new();
        while let Some((since, next)) = self.databases.first_of_lines(&lines, &key) {
            let pool = self.pools[next as usize].as_mut().expect("pools in line live");
            let Some(line) = self.databases.leaves_line(next, pool) else {
                break;
            };
            match pool.first_waiter() {
                None => continue,
                // Its client of that time waits no longer.
                Some((_, waits_since)) if waits_since > since => {
                    self.databases.enters_line(line, next, pool);
                    continue;
                }
                Some(_) => {}
            }
            self.open_servers_for_waiters(now, next);
            let pool = self.pools[next as usize].as_mut().expect("looked up above");
            if let Some(line) = self.databases.leaves_line(next, pool) {
                again.push((line, next));
                // The limit is reached: no other pool in its line gets a place.
                let is_of_line = line.is_same(pool.key(), &key);
                if is_of_line && self.shared_limit_reached(now, next) != Some(SharedLimit::Pool) {
                    lines.retain(|other| *other != line);
                }
            }
        }
        for (line, id) in again {
            self.enters_line(line, id);
        }
        self.shared.some_are_in_line = self.databases.some_are_in_line();
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
    let holders = databases.holders(SharedLimit::Pool, key);
    let beside = holders.filter(|id| *id != pool_id && counts_together(pool::of(pools, *id).key(), key));
    beside.map(|id| pool::of(pools, id).servers()).sum()
}
