//! Counts for the limits that several pools share, and operators' commands for databases.

use crate::base::errors::Trouble;
use crate::base::ids::ServerId;
use crate::base::pool_id::{PoolId, PoolKey, PoolKind};
use crate::base::time::Time;
use crate::pools::opening::SharedLimit;
use crate::pools::places::{InLine, Line, Places};
use crate::pools::pool::Pool;
use foldhash::fast::RandomState;
use pgweir_config::Config;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Counts over several pools, and operators' commands for databases.
///
/// Every count goes through [`Databases`].
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Databases {
    by_name: HashMap<Arc<str>, Group, RandomState>,
    by_user: HashMap<Arc<str>, Group, RandomState>,
    /// Pools with servers of databases that may not exist, and those that wait until some of these are told apart.
    untried: Places,
    /// Pools that wait for a place.
    in_line: u32,
    /// Replication connections to servers.
    replication_servers: u32,
    /// Databases under PAUSE.
    paused: HashSet<Arc<str>, RandomState>,
    /// Databases under DISABLE.
    disabled: HashSet<Arc<str>, RandomState>,
}

/// The pools of a database or a user, and their connections.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
struct Group {
    counts: Counts,
    places: Places,
}

/// Connections of a database or a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) struct Counts {
    servers: u32,
    clients: u32,
}

impl Counts {
    /// Connections to servers.
    pub(crate) fn servers(self) -> u32 {
        self.servers
    }

    /// Connections of clients.
    pub(crate) fn clients(self) -> u32 {
        self.clients
    }
}

impl Databases {
    /// Whether there are replication connections to servers.
    pub(crate) fn has_replication(&self) -> bool {
        self.replication_servers > 0
    }

    /// PAUSE of a database.
    pub(crate) fn pause(&mut self, database: &str) {
        self.paused.insert(database.into());
    }

    /// Whether a database is under PAUSE.
    pub(crate) fn is_paused(&self, database: &str) -> bool {
        self.paused.contains(database)
    }

    /// Whether any database is under PAUSE.
    #[inline]
    pub(crate) fn some_are_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// RESUME of a database. Returns whether it was under PAUSE.
    pub(crate) fn resume(&mut self, database: &str) -> bool {
        self.paused.remove(database)
    }

    /// RESUME of all databases.
    pub(crate) fn resume_all(&mut self) {
        self.paused.clear();
    }

    /// DISABLE of a database.
    pub(crate) fn disable(&mut self, database: &str) {
        self.disabled.insert(database.into());
    }

    /// ENABLE of a database.
    pub(crate) fn enable(&mut self, database: &str) {
        self.disabled.remove(database);
    }

    /// Whether a database is under DISABLE.
    pub(crate) fn is_disabled(&self, database: &str) -> bool {
        self.disabled.contains(database)
    }

    /// Databases under PAUSE or DISABLE; some of them twice.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = &Arc<str>> {
        self.paused.iter().chain(&self.disabled)
    }

    /// Forgets operators' commands for databases that are no longer in the configuration.
    pub(crate) fn keep(&mut self, is_database: impl Fn(&str) -> bool) {
        self.paused.retain(|name| is_database(name));
        self.disabled.retain(|name| is_database(name));
    }

    /// Connections of a database.
    pub(crate) fn of_database(&self, name: &str) -> Counts {
        self.by_name.get(name).map(|group| group.counts).unwrap_or_default()
    }

    /// Connections of a user.
    pub(crate) fn of_user(&self, name: &str) -> Counts {
        self.by_user.get(name).map(|group| group.counts).unwrap_or_default()
    }

    /// Changes what is known of a database and of a user.
    fn change(&mut self, database: &Arc<str>, user: &Arc<str>, change: impl Fn(&mut Group)) {
        change_group(&mut self.by_name, database, &change);
        change_group(&mut self.by_user, user, &change);
    }

    /// Counts a client in, unless a limit forbids it. Client connections count for the user who logged in, even if the
    /// servers log in as another user.
    pub(crate) fn client_in(
        &mut self,
        config: &Config,
        pool: &mut Pool,
        login_user: &str,
    ) -> Result<(), (Trouble, &'static str)> {
        let of_database = self.of_database(&pool.key.database);
        let of_user = self.of_user(login_user);
        let of_user_max = config.max_user_client_connections(login_user).unwrap_or(0);
        let reached = |limit: u32, count: u32| limit > 0 && count >= limit;
        if reached(pool.settings.max_db_client_connections, of_database.clients) {
            return Err((Trouble::TooManyClients, "max_db_client_connections"));
        }
        if reached(of_user_max, of_user.clients) {
            return Err((Trouble::TooManyClients, "max_user_client_connections"));
        }
        pool.clients += 1;
        self.change(&pool.key.database, &login_user.into(), |group| {
            group.counts.clients += 1
        });
        Ok(())
    }

    /// `login_user`: the user who logged in, if the database forces another user on the servers.
    pub(crate) fn client_out(&mut self, pool: &mut Pool, login_user: Option<&str>) {
        pool.clients -= 1;
        let user = login_user.map_or_else(|| pool.key.user.clone(), Arc::from);
        self.change(&pool.key.database, &user, |group| group.counts.clients -= 1);
    }

    /// A server of a pool is being opened.
    pub(crate) fn server_in(&mut self, pool_id: PoolId, pool: &mut Pool, id: ServerId) {
        if pool.is_unproven() {
            self.untried.holders.insert(pool_id);
        }
        pool.members.push(id);
        pool.connecting += 1;
        self.change(&pool.key.database, &pool.key.user, |group| {
            group.counts.servers += 1;
            group.places.holders.insert(pool_id);
        });
        self.replication_servers += u32::from(pool.key.kind.is_replication());
    }

    /// A server of a pool is gone. `connecting`: it had not logged in.
    pub(crate) fn server_out(&mut self, pool_id: PoolId, pool: &mut Pool, id: ServerId, connecting: bool) {
        pool.members.retain(|member| *member != id);
        pool.connecting -= u32::from(connecting);
        let was_last = pool.members.is_empty();
        if was_last {
            self.untried.holders.remove(&pool_id);
        }
        self.change(&pool.key.database, &pool.key.user, |group| {
            group.counts.servers -= 1;
            if was_last {
                group.places.holders.remove(&pool_id);
            }
        });
        self.replication_servers -= u32::from(pool.key.kind.is_replication());
    }

    /// The pools with servers that count for a limit, and others.
    pub(crate) fn holders(&self, limit: SharedLimit, key: &PoolKey) -> impl Iterator<Item = PoolId> {
        let group = match limit {
            SharedLimit::Database => self.by_name.get(&key.database),
            SharedLimit::User | SharedLimit::Pool => self.by_user.get(&key.user),
        };
        group.into_iter().flat_map(|group| group.places.holders.iter().copied())
    }

    /// The number of databases that may not exist and for which servers are open.
    pub(crate) fn being_tried(&self) -> usize {
        self.untried.holders.len()
    }

    /// A server has confirmed that the database of this pool exists.
    pub(crate) fn exists(&mut self, pool_id: PoolId) {
        self.untried.holders.remove(&pool_id);
    }

    /// Whether any pool waits for a place.
    #[inline]
    pub(crate) fn some_are_in_line(&self) -> bool {
        self.in_line > 0
    }

    /// A pool may open no server for its waiting clients: it waits in a line, by the wait of its first client.
    pub(crate) fn enters_line(&mut self, line: Line, pool_id: PoolId, pool: &mut Pool) {
        self.leaves_line(pool_id, pool);
        if let Some((_, since)) = pool.first_waiter() {
            pool.in_line = Some(InLine { line, since });
            self.in_line += 1;
            self.change_line(line, &pool.key, |line| {
                line.insert((since, pool_id));
            });
        }
    }

    /// A pool waits in no line any more. Returns the line in which it was.
    pub(crate) fn leaves_line(&mut self, pool_id: PoolId, pool: &mut Pool) -> Option<Line> {
        let InLine { line, since } = pool.in_line.take()?;
        self.in_line -= 1;
        self.change_line(line, &pool.key, |line| {
            line.remove(&(since, pool_id));
        });
        Some(line)
    }

    fn change_line(&mut self, line: Line, key: &PoolKey, change: impl Fn(&mut BTreeSet<(Time, PoolId)>)) {
        match line {
            Line::Database => change_group(&mut self.by_name, &key.database, |group| change(&mut group.places.line)),
            Line::User => change_group(&mut self.by_user, &key.user, |group| change(&mut group.places.line)),
            Line::Untried => change(&mut self.untried.line),
        }
    }

    /// Whether the line in which a pool waits has it.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn knows_place_of(&self, pool_id: PoolId, pool: &Pool) -> bool {
        pool.in_line.is_none_or(|place| {
            let places = self.places_of(place.line, &pool.key);
            places.is_some_and(|places| places.line.contains(&(place.since, pool_id)))
        })
    }

    /// The pool that has waited longest in these lines of a database and a user.
    pub(crate) fn first_of_lines(&self, lines: &[Line], key: &PoolKey) -> Option<(Time, PoolId)> {
        lines.iter().filter_map(|line| self.first_in_line(*line, key)).min()
    }

    fn first_in_line(&self, line: Line, key: &PoolKey) -> Option<(Time, PoolId)> {
        self.places_of(line, key)?.line.first().copied()
    }

    fn places_of(&self, line: Line, key: &PoolKey) -> Option<&Places> {
        match line {
            Line::Database => Some(&self.by_name.get(&key.database)?.places),
            Line::User => Some(&self.by_user.get(&key.user)?.places),
            Line::Untried => Some(&self.untried),
        }
    }

    /// Users with connections.
    pub(crate) fn users(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_user.keys()
    }
}

/// Changes what is known of a database or a user, which is forgotten if nothing is left of it.
fn change_group(table: &mut HashMap<Arc<str>, Group, RandomState>, name: &Arc<str>, change: impl FnOnce(&mut Group)) {
    let group = table.entry(name.clone()).or_default();
    change(group);
    if group.counts == Counts::default() && group.places.is_empty() {
        table.remove(name);
    }
}

/// The most pools that clients of one database and user can cause by different values of [`PoolKey::start`]. Each may
/// have as many servers as the first.
pub(crate) const START_POOLS_MAX: usize = 16;

/// Why a client gets no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPool {
    NoSuchDatabase,
    /// The server's name of the database is longer than names can be.
    TooLongName,
    /// See [`START_POOLS_MAX`].
    TooManyStarts,
}

/// Whether clients may have a pool with this key, which has other startup parameters for its servers, beside `pools`:
/// those of the same database and user.
pub(crate) fn may_start_otherwise<'k>(key: &PoolKey, pools: impl Iterator<Item = &'k PoolKey>) -> bool {
    let like = |k: &&PoolKey| k.kind == PoolKind::Clients && !k.start.is_empty();
    // Pools for replication are closed when their clients leave.
    key.start.is_empty() || key.kind.is_replication() || pools.filter(like).count() < START_POOLS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_nobody_are_not_kept() {
        let mut databases = Databases::default();
        let (database, user) = ("d".into(), "u".into());
        databases.change(&database, &user, |group| group.counts.servers += 2);
        assert_eq!(databases.of_database("d").servers, 2);
        databases.change(&database, &user, |group| group.counts.servers -= 2);
        assert!(databases.by_name.is_empty() && databases.by_user.is_empty());
    }
}
