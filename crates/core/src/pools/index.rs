//! Finds pools by what they are for, and places for new ones. No look-up takes longer because there are more pools:
//! clients cause pools by naming databases.

use crate::base::pool_id::{PoolId, PoolKey};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The places of all pools in the table of pools.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct PoolIndex {
    by_key: HashMap<PoolKey, PoolId, RandomState>,
    /// The pools of each database and user.
    by_login: BTreeMap<(Arc<str>, Arc<str>), Vec<PoolId>>,
    /// Places of pools that were dropped.
    free: Vec<PoolId>,
}

impl PoolIndex {
    /// The pool with this key.
    pub(crate) fn get(&self, key: &PoolKey) -> Option<PoolId> {
        self.by_key.get(key).copied()
    }

    /// The pools of this database and user, whatever they are for.
    pub(crate) fn of_login(&self, database: &Arc<str>, user: &Arc<str>) -> &[PoolId] {
        let login = (database.clone(), user.clone());
        self.by_login.get(&login).map_or(&[], Vec::as_slice)
    }

    /// Whether a database has pools.
    pub(crate) fn has_database(&self, database: &str) -> bool {
        let first = (Arc::from(database), Arc::from(""));
        let next = self.by_login.range(first..).next();
        next.is_some_and(|((found, _), _)| **found == *database)
    }

    /// All pools.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PoolId> {
        self.by_key.values().copied()
    }

    /// The number of pools.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Gives a new pool its place. The place after the last one counts as free.
    pub(crate) fn insert(&mut self, key: PoolKey) -> PoolId {
        let id = self.free.pop().unwrap_or(self.by_key.len() as PoolId);
        let login = (key.database.clone(), key.user.clone());
        self.by_login.entry(login).or_default().push(id);
        self.by_key.insert(key, id);
        id
    }

    /// A pool is dropped.
    pub(crate) fn remove(&mut self, key: &PoolKey) {
        let Some(id) = self.by_key.remove(key) else { return };
        self.free.push(id);
        let login = (key.database.clone(), key.user.clone());
        if let Some(pools) = self.by_login.get_mut(&login) {
            pools.retain(|other| *other != id);
            if pools.is_empty() {
                self.by_login.remove(&login);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::pool_id::PoolKind;

    fn key(database: &str, user: &str, kind: PoolKind) -> PoolKey {
        PoolKey {
            database: database.into(),
            user: user.into(),
            kind,
            start: Box::default(),
        }
    }

    #[test]
    fn places_of_dropped_pools_are_used_again() {
        let mut index = PoolIndex::default();
        let keys = ["a", "b", "c"].map(|database| key(database, "u", PoolKind::Clients));
        let places = keys.clone().map(|key| index.insert(key));
        assert_eq!(places, [0, 1, 2]);
        index.remove(&keys[1]);
        index.remove(&keys[1]);
        assert_eq!(index.get(&keys[1]), None);
        assert_eq!(index.insert(key("d", "u", PoolKind::Clients)), 1);
        assert_eq!(index.insert(key("e", "u", PoolKind::Clients)), 3);
        assert_eq!(index.len(), 4);
    }

    #[test]
    fn a_database_has_pools_until_the_last_is_dropped() {
        let mut index = PoolIndex::default();
        let (one, two) = (key("db", "u", PoolKind::Clients), key("db", "v", PoolKind::Listener));
        index.insert(one.clone());
        index.insert(two.clone());
        index.insert(key("db2", "u", PoolKind::Clients));
        assert!(index.has_database("db") && index.has_database("db2"));
        assert!(!index.has_database("d") && !index.has_database("db1") && !index.has_database("e"));
        index.remove(&one);
        assert!(index.has_database("db"));
        index.remove(&two);
        assert!(!index.has_database("db") && index.has_database("db2"));
    }

    #[test]
    fn the_pools_of_a_login_have_all_kinds() {
        let mut index = PoolIndex::default();
        let clients = index.insert(key("db", "u", PoolKind::Clients));
        let listener = index.insert(key("db", "u", PoolKind::Listener));
        index.insert(key("db", "v", PoolKind::Clients));
        assert_eq!(index.of_login(&"db".into(), &"u".into()), [clients, listener]);
        assert!(index.of_login(&"db".into(), &"w".into()).is_empty());
    }
}
