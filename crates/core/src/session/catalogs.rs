//! When a database's catalog is read, and by which server (see [`crate::catalog::code`]).
//!
//! The first server of a database reads the catalog before it serves a client. Later readings are done by a server that
//! has become free; clients that wait for a server come first. While the catalog is not known, or no longer valid,
//! every statement of the database counts as unknown code: its transaction is followed by a probe. So only the
//! statements that the first server of a database would serve wait for a reading.
//!
//! A catalog belongs to a database, however many entries of \[databases\] lead there, to a primary or a standby. What
//! several servers of one database know of it: see [`crate::session::replicas`].
//!
//! Knowledge of a catalog becomes invalid after a transaction that made functions, triggers, views or extensions which
//! may matter, after the loss of a server, and after RECONNECT and KILL. Because other sessions may change the catalog,
//! it is read again when a server logs in and the knowledge is older than [`AGE_MAX`].

use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::catalog::code::Draft;
use crate::catalog::known::Known;
use crate::catalog::reading::Reading;
use crate::catalog::schedule::{AGE_MAX, State};
use crate::pools::pool::{self, Pool};
use crate::server::Server;
use crate::shared::Shared;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a due reading leaves alone a server that its last client claims: see [`crate::session::sequences`].
const CLAIMS_RESPECTED: Duration = Duration::from_secs(1);

/// Whether a reading is due and a free server of this pool may do it; `claimed`: the client that had the server last
/// claims it.
pub(crate) fn may_read_now(pool: &Pool, now: Time, claimed: bool) -> bool {
    let due = pool.reading_due();
    due.is_some_and(|due| !claimed || now >= due + CLAIMS_RESPECTED)
}

/// What is known of the catalogs of databases, and the pools that use it.
pub(crate) struct CatalogNews<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) pools: &'a mut [Option<Pool>],
    pub(crate) servers: &'a Slab<Server>,
}

impl CatalogNews<'_> {
    /// Whether a pool's servers are shared by sessions whose state is kept.
    fn shares_sessions(&self, pool_id: PoolId) -> bool {
        self.shared.settings.keeps_sessions && pool::of(self.pools, pool_id).shares_sessions()
    }

    /// A server of this pool has logged in, or the pool's settings have changed: the catalog may have to be read again.
    pub(crate) fn look_after(&mut self, now: Time, pool_id: PoolId) {
        if self.shares_sessions(pool_id) {
            self.look_at_hosts(now, pool_id);
            let pool = pool::of(self.pools, pool_id);
            let state = self
                .shared
                .catalogs
                .of_new(pool.catalog_key(), &pool.settings().server_database);
            if state.is_older_than(AGE_MAX, now) {
                state.wants(now);
            }
        }
        self.tell_pool(pool_id);
    }

    /// The knowledge of a database's catalog is no longer valid: its servers were replaced or changed.
    pub(crate) fn doubt(&mut self, now: Time, pool_id: PoolId) {
        for database in self.names_of(pool_id) {
            if let Some(state) = self.shared.catalogs.of_mut(&database) {
                state.doubts(now);
            }
            self.tell_pools(&database);
        }
    }

    /// A request that may commit definitions was sent to a server of this pool: what is known of the catalog is no
    /// longer valid. It is read again after the answer. Returns the pools of the database whose servers are shared.
    pub(crate) fn code_may_change(&mut self, now: Time, pool_id: PoolId) -> Vec<PoolId> {
        // A pool in session pooling reads no catalog, but a standby may be used later, which has to replay the definitions.
        let pool = pool::of(self.pools, pool_id);
        let name = &pool.settings().server_database;
        self.shared.catalogs.of_new(pool.catalog_key(), name);
        for database in &self.names_of(pool_id) {
            if let Some(state) = self.shared.catalogs.of_mut(database) {
                state.definitions_come(now);
            }
            self.tell_pools(database);
        }
        self.sharing(pool_id)
    }

    /// The pools whose servers are shared, and work with the database of this pool.
    pub(crate) fn sharing(&self, pool_id: PoolId) -> Vec<PoolId> {
        let mut databases = self.names_of(pool_id);
        databases.push(pool::of(self.pools, pool_id).catalog_key().clone());
        let mut pools = self.pools_of(&databases);
        pools.retain(|&id| self.shares_sessions(id));
        pools
    }

    /// Objects of a database may have been created, renamed or moved: names in statements may mean other objects. What
    /// was prepared before does not answer a later Parse.
    pub(crate) fn names_have_moved(&mut self, pool_id: PoolId) -> Vec<PoolId> {
        let mut databases = self.names_of(pool_id);
        databases.push(pool::of(self.pools, pool_id).catalog_key().clone());
        let now = self.shared.statements.tick();
        let of_database = self.pools_of(&databases);
        for &id in &of_database {
            self.pools[id as usize].as_mut().expect("just listed").names_move(now);
        }
        of_database
    }

    /// The pools of these databases.
    pub(super) fn pools_of(&self, databases: &[Arc<str>]) -> Vec<PoolId> {
        let catalogs = &self.shared.catalogs;
        let all = databases.iter().flat_map(|database| catalogs.pools_of(database));
        let mut pools: Vec<PoolId> = all.copied().collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// The keys under which the catalog of a pool's database is known.
    pub(super) fn names_of(&self, pool_id: PoolId) -> Vec<Arc<str>> {
        let pool = pool::of(self.pools, pool_id);
        let (database, catalogs) = (pool.catalog_key(), &self.shared.catalogs);
        let state = catalogs.of(database);
        let identity = state.and_then(|state| state.known().0.identity());
        // A pool in session pooling reads no catalog, so only the name of its database is known.
        let same = catalogs.keys_of(identity, &pool.settings().server_database).cloned();
        let separates = self.shared.is_weak(Weakness::SeparatesEntries);
        let mut names: Vec<Arc<str>> = same.filter(|name| name != database && !separates).collect();
        names.extend(state.map(|_| database.clone()));
        names
    }

    /// Whether an unanswered request may commit definitions in this database.
    fn is_being_changed(&self, database: &Arc<str>) -> bool {
        // Thousands of databases may be read meanwhile. A database that was renamed has its old name for earlier servers.
        let mut databases = vec![database.clone()];
        if let Some(&pool_id) = self.shared.catalogs.pools_of(database).first() {
            databases.extend(self.names_of(pool_id));
        }
        let pools = self.pools_of(&databases);
        let name = |&id: &PoolId| &*pool::of(self.pools, id).settings().server_database;
        let names: BTreeSet<&str> = pools.iter().map(name).collect();
        let defining = names
            .into_iter()
            .flat_map(|name| self.shared.catalogs.defining_in(name));
        let servers = defining.filter_map(|id| self.servers.get(id.0));
        let mut changing = servers.filter(|server| server.session.may_publish());
        changing.any(|server| self.names_of(server.pool).contains(database))
    }

    /// Lets a server without a client read the catalog now, if a reading is due. Returns the version that the server
    /// reads.
    pub(crate) fn begin_reading(&mut self, now: Time, pool_id: PoolId, server_id: ServerId) -> Option<u64> {
        let pool = pool::of(self.pools, pool_id);
        let (database, anyone_waits) = (pool.catalog_key().clone(), !pool.waiting().is_empty());
        let state = self.shared.catalogs.of(&database)?;
        if !state.may_be_read(now, false) || !state.may_be_read(now, true) && self.is_being_changed(&database) {
            return None;
        }
        if self.leaves_reading_to_other_hosts(&database, server_id) {
            return None;
        }
        let state = self.shared.catalogs.of_mut(&database)?;
        if anyone_waits && state.lets_clients_go_first(now) {
            return None;
        }
        let version = self.shared.catalogs.begin_reading(&database, server_id)?;
        self.tell_pools(&database);
        Some(version)
    }

    /// The reading of this server has ended, or has failed. A RELOAD may have given the server's pool another database
    /// meanwhile. Returns whether the server is a standby that has replayed definitions.
    pub(crate) fn reading_ended(&mut self, now: Time, reader: ServerId, reading: Reading) -> bool {
        let Some(database) = self.shared.catalogs.take_read_by(reader) else {
            return false;
        };
        let database = &database;
        let is_being_changed = self.is_being_changed(database);
        let Some(state) = self.shared.catalogs.of_mut(database) else {
            return false;
        };
        let mut replayed = false;
        let is_current = state.reading_ends(now, reading.of()) && !is_being_changed;
        match reading.end() {
            Ok(told) => {
                state.reading_succeeded();
                if let Some(server) = self.servers.get(reader.0) {
                    let name = &pool::of(self.pools, server.pool).settings().server_database;
                    let identity = told.draft.identity();
                    self.shared.catalogs.is_identified(database, identity, name);
                }
                let position = told.position;
                let holds = self.holds(now, database, position, is_current);
                if self.is_kept(database, holds) {
                    self.known(database, told.draft, told.rows);
                }
                replayed = self.host_is_read(now, database, reader, position, holds);
            }
            Err(failure) => {
                let level = match state.reading_failed(now, &failure) {
                    true => LogLevel::Warning,
                    false => LogLevel::Debug,
                };
                let text = format!(
                    "{database}: cannot tell what functions do to sessions; every transaction will be followed by a \
                     probe: {failure}"
                );
                self.shared.log(level, text);
            }
        }
        self.tell_pools(database);
        replayed
    }

    fn known(&mut self, database: &Arc<str>, draft: Draft, rows: u64) {
        let too_much = draft.is_too_much();
        let read = draft.finish();
        let text = format!(
            "{database}: read what {rows} functions, tables and views do to sessions: {} names matter",
            read.names()
        );
        self.shared.log(LogLevel::Debug, text);
        if self.shared.catalogs.learns(database, read, too_much) {
            let text = format!(
                "{database}: has too many functions to know what they do to sessions; every transaction will be followed \
                 by a probe"
            );
            self.shared.log(LogLevel::Warning, text);
        }
    }

    /// Tells the pools of a database that a reading is due, because a message has shown that too little is known.
    pub(crate) fn tell_untold(&mut self) {
        if let Some(database) = self.shared.catalogs.take_untold() {
            self.tell_pools(&database);
        }
    }

    /// Gives all pools of a database its current catalog.
    pub(super) fn tell_pools(&mut self, database: &Arc<str>) {
        for pool_id in self.pools_of(std::slice::from_ref(database)) {
            self.tell_pool(pool_id);
        }
    }

    fn tell_pool(&mut self, pool_id: PoolId) {
        if self.shared.is_weak(Weakness::LooksAtAllPools) {
            self.pools.iter_mut().flatten().for_each(Pool::names_catalog);
        }
        let needs = |news: &Self| pool::of(news.pools, pool_id).needs_of_catalog();
        let before = needs(self);
        self.tell_one_pool(pool_id);
        let now = needs(self);
        self.shared.catalogs.count(before, now);
        self.shared.catalogs.pools_are_told();
    }

    fn tell_one_pool(&mut self, pool_id: PoolId) {
        let reads = self.shares_sessions(pool_id);
        let pool = self.pools[pool_id as usize].as_mut().expect("looked up by the caller");
        let state = self.shared.catalogs.of(pool.catalog_key()).filter(|_| reads);
        pool.must_read_catalog(state.and_then(State::due));
        let Some(state) = state else {
            pool.learn_catalog(None);
            return;
        };
        let (catalog, holds) = state.known();
        if !pool.catalog().is_some_and(|known| known.is(catalog, holds)) {
            pool.learn_catalog(Some(Known::new(catalog.clone(), holds)));
        }
    }
}
