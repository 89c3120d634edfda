//! One database on several hosts: when what was read of it counts (see [`crate::catalog::replicas`]).
//!
//! - The catalog of a primary counts if no definition was on its way. Then its position is what standbys must have
//!   replayed.
//! - The catalog of a standby counts if the standby had replayed that much before.
//! - Entries of \[databases\] with several hosts have one catalog for all of them. After definitions it counts when every
//!   host to which a server is open has been read.

use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::catalog::replicas::Position;
use crate::catalog::schedule::State;
use crate::pools::pool::{self, Pool};
use crate::session::catalogs::CatalogNews;
use std::sync::Arc;

impl CatalogNews<'_> {
    /// Whether what was read of a server at this position holds for its host: the server has replayed all definitions,
    /// and `is_current`: none has come meanwhile.
    pub(super) fn holds(&self, now: Time, database: &Arc<str>, position: Position, is_current: bool) -> bool {
        let trusts = self.shared.is_weak(Weakness::TrustsReplicas);
        let state = self.shared.catalogs.of(database);
        is_current && state.is_some_and(|state| trusts || state.counts(now, position))
    }

    /// Whether what was read of a server replaces what is known. A standby that lags tells of older code than a host that
    /// has been read since the last definition.
    pub(super) fn is_kept(&self, database: &Arc<str>, holds: bool) -> bool {
        let state = self.shared.catalogs.of(database);
        holds || state.is_some_and(State::has_read_no_host) || self.shared.is_weak(Weakness::TrustsReplicas)
    }

    /// A server has been read. Returns whether it is a standby that has replayed definitions.
    pub(super) fn host_is_read(
        &mut self,
        now: Time,
        database: &Arc<str>,
        reader: ServerId,
        position: Position,
        holds: bool,
    ) -> bool {
        let Some(state) = self.shared.catalogs.of_mut(database) else {
            return false;
        };
        let replayed = state.host_is_read(position, holds);
        if holds {
            let Some(reader) = self.servers.get(reader.0) else {
                return false;
            };
            state.holds_for(&reader.endpoint);
            if let Some(lsn) = position.of_primary()
                && pool::of(self.pools, reader.pool).catalog_key() == database
            {
                self.primary_is_read(reader.pool, lsn);
            }
            if !self.all_hosts_are_read(database)
                && let Some(state) = self.shared.catalogs.of_mut(database)
            {
                state.lacks_host(now);
            }
        }
        if let Some(state) = self.shared.catalogs.of_mut(database).filter(|s| !s.known().1) {
            state.wants(now);
        }
        replayed
    }

    /// The pools whose servers certainly belong to the same PostgreSQL as those of this one, under whatever addresses, or
    /// to its standbys. The second value tells whether a pool is known to lead to standbys.
    pub(crate) fn pools_of_cluster(&self, pool_id: PoolId) -> Vec<(PoolId, bool)> {
        let catalogs = &self.shared.catalogs;
        let state_of = |pool: &Pool| catalogs.of(pool.catalog_key());
        let cluster_of = |pool: &Pool| state_of(pool).and_then(|state| state.known().0.cluster());
        let this = pool::of(self.pools, pool_id);
        let cluster = cluster_of(this);
        let belongs = |pool: &Pool| {
            pool.settings().endpoints == this.settings().endpoints || cluster.is_some() && cluster_of(pool) == cluster
        };
        let found = pool::live(self.pools).filter(|(_, pool)| belongs(pool));
        found
            .map(|(id, pool)| (id, state_of(pool).is_some_and(State::is_of_standby)))
            .collect()
    }

    /// A primary has been read behind all definitions in the database of this pool.
    fn primary_is_read(&mut self, pool_id: PoolId, lsn: u64) {
        for name in self.names_of(pool_id) {
            if let Some(state) = self.shared.catalogs.of_mut(&name) {
                state.primary_is_read(lsn);
            }
        }
    }

    /// Whether every host of this database to which a server is open has been read since the last definition.
    fn all_hosts_are_read(&self, database: &Arc<str>) -> bool {
        let Some(state) = self.shared.catalogs.of(database) else {
            return true;
        };
        if !state.has_definitions() || self.shared.is_weak(Weakness::TrustsReplicas) {
            return true;
        }
        let mut pools = self.pools_of(std::slice::from_ref(database));
        pools.retain(|&id| pool::of(self.pools, id).settings().endpoints.len() > 1);
        let mut open = self.servers.iter().map(|(_, server)| server).filter(|s| s.is_up());
        open.all(|server| !pools.contains(&server.pool) || state.has_read(&server.endpoint))
    }

    /// A server of this pool has logged in, perhaps on a host that has not been read.
    pub(super) fn look_at_hosts(&mut self, now: Time, pool_id: PoolId) {
        let pool = pool::of(self.pools, pool_id);
        if pool.settings().endpoints.len() == 1 {
            return;
        }
        let database = pool.catalog_key().clone();
        if self.all_hosts_are_read(&database) {
            return;
        }
        if let Some(state) = self.shared.catalogs.of_mut(&database) {
            state.lacks_host(now);
        }
        self.tell_pools(&database);
    }

    /// Whether a server leaves a reading to those of other hosts, because its own host has been read since the last
    /// definition. If the servers of hosts that were not read have been closed meanwhile, what is known holds.
    pub(super) fn leaves_reading_to_other_hosts(&mut self, database: &Arc<str>, server: ServerId) -> bool {
        let state = self.shared.catalogs.of(database);
        let Some(state) = state.filter(|state| state.is_read_in_part()) else {
            return false;
        };
        // It may not count as open yet.
        let server = self.servers.get(server.0);
        if !server.is_some_and(|server| state.has_read(&server.endpoint)) {
            return false;
        }
        if !self.all_hosts_are_read(database) {
            return true;
        }
        if let Some(state) = self.shared.catalogs.of_mut(database) {
            state.lacks_no_host();
        }
        self.tell_pools(database);
        true
    }
}
