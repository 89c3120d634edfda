//! Counts for the limits that several pools share, and operators' commands for databases.

use crate::base::pool_id::{PoolKey, PoolKind};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Counts over several pools, and operators' commands for databases.
///
/// Every count goes through [`Databases`], so that several workers can share it later.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Databases {
    by_name: HashMap<Arc<str>, Counts, RandomState>,
    by_user: HashMap<Arc<str>, Counts, RandomState>,
    /// Replication connections to servers.
    pub(crate) replication_servers: u32,
    /// Databases under PAUSE.
    pub(crate) paused: HashSet<Arc<str>, RandomState>,
    /// Databases under DISABLE.
    pub(crate) disabled: HashSet<Arc<str>, RandomState>,
}

/// Connections of a database or a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(crate) struct Counts {
    pub(crate) servers: u32,
    pub(crate) clients: u32,
}

impl Databases {
    /// Connections of a database.
    pub(crate) fn of_database(&self, name: &str) -> Counts {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// Connections of a user.
    pub(crate) fn of_user(&self, name: &str) -> Counts {
        self.by_user.get(name).copied().unwrap_or_default()
    }

    /// Changes the counts of a database and of a user.
    pub(crate) fn change(&mut self, database: &Arc<str>, user: &Arc<str>, change: impl Fn(&mut Counts)) {
        for (table, name) in [(&mut self.by_name, database), (&mut self.by_user, user)] {
            let counts = table.entry(name.clone()).or_default();
            change(counts);
            if *counts == Counts::default() {
                table.remove(name);
            }
        }
    }

    /// Users with connections.
    pub(crate) fn users(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_user.keys()
    }
}

/// The most pools that clients of one database and user can cause by different values of [`PoolKey::start`]. Each may
/// have as many servers as the first.
pub(crate) const START_POOLS_MAX: usize = 16;

/// Why a client gets no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPool {
    NoSuchDatabase,
    /// See [`START_POOLS_MAX`].
    TooManyStarts,
}

/// Whether clients of this database and user may have one more pool beside `pools`, with other startup parameters for
/// its servers.
pub(crate) fn may_start_otherwise<'k>(key: &PoolKey, pools: impl Iterator<Item = &'k PoolKey>) -> bool {
    let like = |k: &&PoolKey| {
        k.database == key.database && k.user == key.user && k.kind == PoolKind::Clients && !k.start.is_empty()
    };
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
        databases.change(&database, &user, |c| c.servers += 2);
        assert_eq!(databases.of_database("d").servers, 2);
        databases.change(&database, &user, |c| c.servers -= 2);
        assert!(databases.by_name.is_empty() && databases.by_user.is_empty());
    }
}
