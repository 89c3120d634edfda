//! The catalogs of all databases, and what concerns all of them.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use crate::catalog::code::Catalog;
use crate::catalog::publications::Publications;
use crate::catalog::schedule::State;
use foldhash::fast::RandomState;
use std::borrow::Borrow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

/// The catalogs of all databases that clients have used.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalogs {
    by_database: HashMap<Arc<str>, State, RandomState>,
    /// The databases of each name.
    by_name: HashMap<Box<str>, Vec<Arc<str>>, RandomState>,
    /// The databases of each identity: see [`Catalogs::keys_of`].
    by_identity: HashMap<Box<[u8]>, Vec<Arc<str>>, RandomState>,
    /// What each server reads.
    readers: HashMap<ServerId, Arc<str>, RandomState>,
    /// The pools of each database.
    pools: HashMap<Arc<str>, Vec<PoolId>, RandomState>,
    /// In how many pools statements must be searched for names. One test for all pools costs less.
    knowing: u32,
    /// Statements must be searched for names, because a client has sent a definition.
    any_defines: bool,
    /// Servers that work on definitions, with the names of their databases there.
    defining: BTreeMap<ServerId, Arc<str>>,
    /// These servers by these names.
    defining_in: HashMap<Arc<str>, BTreeSet<ServerId>, RandomState>,
    /// In how many pools a reading is due.
    due: u32,
    /// A database whose pools do not know yet that a reading is due.
    untold: Option<Arc<str>>,
    /// Transactions with definitions may have been prepared (PREPARE TRANSACTION), and any client may commit them.
    /// COMMIT PREPARED counts as an effect, so only texts with effects need be searched for it.
    any_prepared: bool,
    /// Servers to which a request was sent that may commit definitions, and whose pools do not know it yet.
    published: Vec<ServerId>,
    /// Whether definitions must wait in some database.
    any_debt: bool,
    /// Clients whose definitions wait because earlier ones have cost others too much.
    definers: Vec<ClientId>,
    /// Requests that may commit definitions, and wait for flights.
    publications: Publications,
}

/// Each database.
impl Catalogs {
    pub(crate) fn of(&self, database: &str) -> Option<&State> {
        self.by_database.get(database)
    }

    pub(crate) fn of_mut(&mut self, database: &str) -> Option<&mut State> {
        self.by_database.get_mut(database)
    }

    /// What is known of a database, or the beginning of that. `name`: its name on the server.
    pub(crate) fn of_new(&mut self, database: &Arc<str>, name: &str) -> &mut State {
        let by_name = &mut self.by_name;
        self.by_database.entry(database.clone()).or_insert_with(|| {
            by_name.entry(name.into()).or_default().push(database.clone());
            State::default()
        })
    }

    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &State)> {
        self.by_database.iter()
    }

    /// A server begins to read the catalog of a database. Returns the version that it reads.
    pub(crate) fn begin_reading(&mut self, database: &Arc<str>, reader: ServerId) -> Option<u64> {
        let version = self.by_database.get_mut(database)?.begin_reading(reader);
        self.readers.insert(reader, database.clone());
        Some(version)
    }

    /// A server does not read any more. Returns the database whose catalog it has read.
    pub(crate) fn take_read_by(&mut self, reader: ServerId) -> Option<Arc<str>> {
        let database = self.readers.remove(&reader)?;
        let reads = self.of(&database).is_some_and(|state| state.reader() == Some(reader));
        reads.then_some(database)
    }

    /// What was read of a database replaces what is known: see [`State::learns`].
    pub(crate) fn learns(&mut self, database: &Arc<str>, catalog: Catalog, too_much: bool) -> bool {
        let Some(state) = self.by_database.get_mut(database) else {
            return false;
        };
        let by_identity = &mut self.by_identity;
        if state.known().0.identity() != catalog.identity() {
            state
                .known()
                .0
                .identity()
                .inspect(|old| unlist(by_identity, *old, database));
            if let Some(identity) = catalog.identity() {
                by_identity.entry(identity.into()).or_default().push(database.clone());
            }
        }
        state.learns(catalog, too_much)
    }

    /// The keys under which a database is known: several names of its host may lead there, and its standbys are other
    /// hosts. `identity` is that of the database, if it is known, and `name` its name on the server. Two databases whose
    /// identities are known are the same if these are equal, others if they have one name.
    pub(crate) fn keys_of(&self, identity: Option<&[u8]>, name: &str) -> impl Iterator<Item = &Arc<str>> {
        let has_no_identity = |key: &&Arc<str>| self.of(key).is_some_and(|state| state.known().0.identity().is_none());
        let identified = identity.and_then(|identity| self.by_identity.get(identity));
        let named = self.by_name.get(name).into_iter().flatten();
        let named = named.filter(move |key| identity.is_none() || has_no_identity(key));
        identified.into_iter().flatten().chain(named)
    }

    /// A server of this database has been read. If it is a standby of a database that is known under other keys, too, it
    /// may not have replayed the definitions that were made there.
    pub(crate) fn is_identified(&mut self, database: &str, identity: Option<&[u8]>, name: &str) {
        let known = self.keys_of(identity, name).filter_map(|key| self.of(key));
        let awaited = known.map(State::awaited).max();
        if let (Some(awaited), Some(state)) = (awaited, self.of_mut(database)) {
            state.awaits_at_least(awaited);
        }
    }

    /// A pool uses this database.
    pub(crate) fn is_used_by(&mut self, database: &Arc<str>, pool: PoolId) {
        self.pools.entry(database.clone()).or_default().push(pool);
    }

    /// A pool does not use this database any more. Returns whether it was the last one.
    pub(crate) fn is_left_by(&mut self, database: &str, pool: PoolId) -> bool {
        let Some(pools) = self.pools.get_mut(database) else {
            return true;
        };
        pools.retain(|&id| id != pool);
        let is_unused = pools.is_empty();
        if is_unused {
            self.pools.remove(database);
        }
        is_unused
    }

    /// The pools of a database.
    pub(crate) fn pools_of(&self, database: &str) -> &[PoolId] {
        self.pools.get(database).map_or(&[], Vec::as_slice)
    }

    /// The last pool of a database has been closed. `name`: the database's name on the server.
    pub(crate) fn forget(&mut self, database: &str, name: &str) {
        let Some(state) = self.by_database.remove(database) else {
            return;
        };
        unlist(&mut self.by_name, name, database);
        let identity = state.known().0.identity();
        identity.inspect(|identity| unlist(&mut self.by_identity, *identity, database));
    }

    /// Whether the databases are listed by name and identity as they are.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn are_listed(&self) -> bool {
        let is_listed = |(database, state): (&Arc<str>, &State)| {
            let named = self.by_name.values().flatten().filter(|of| *of == database).count();
            let mut identities = self.by_identity.iter().filter(|(_, of)| of.contains(database));
            let identity = identities.next().map(|(identity, _)| &**identity);
            named == 1 && identity == state.known().0.identity() && identities.next().is_none()
        };
        let named: usize = self.by_name.values().map(Vec::len).sum();
        named == self.by_database.len() && self.all().all(is_listed)
    }
}

/// Takes a database out of the list of those that have something in common.
fn unlist<K, Q>(lists: &mut HashMap<K, Vec<Arc<str>>, RandomState>, common: &Q, database: &str)
where
    K: Eq + Hash + Borrow<Q>,
    Q: Eq + Hash + ?Sized,
{
    if let Some(list) = lists.get_mut(common) {
        list.retain(|of| **of != *database);
        if list.is_empty() {
            lists.remove(common);
        }
    }
}

/// What a pool must know of its catalog.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Its statements must be searched for names.
    names: bool,
    /// A reading is due.
    reading: bool,
}

impl Needs {
    /// `names`: statements must be searched for names; `reading`: a reading is due.
    pub(crate) fn new(names: bool, reading: bool) -> Self {
        Needs { names, reading }
    }
}

/// What pools must know.
impl Catalogs {
    /// Whether statements of some pool must be searched for names.
    #[inline(always)]
    pub(crate) fn may_know_names(&self) -> bool {
        self.knowing > 0 || self.any_defines
    }

    /// A client has sent a definition to this server, whose database has this name there: statements must be searched for
    /// names.
    pub(crate) fn defines(&mut self, server: ServerId, name: &str) {
        self.any_defines = true;
        if let Entry::Vacant(new) = self.defining.entry(server) {
            let name = new.insert(name.into()).clone();
            self.defining_in.entry(name).or_default().insert(server);
        }
    }

    /// The server works on definitions no longer, or is lost.
    pub(crate) fn defines_no_more(&mut self, server: ServerId) {
        let Some(name) = self.defining.remove(&server) else {
            return;
        };
        if let Some(servers) = self.defining_in.get_mut(&name) {
            servers.remove(&server);
            if servers.is_empty() {
                self.defining_in.remove(&name);
            }
        }
    }

    /// The servers that work on definitions.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn defining(&self) -> impl Iterator<Item = ServerId> {
        self.defining.keys().copied()
    }

    /// Those of them whose database has this name there.
    pub(crate) fn defining_in(&self, name: &str) -> impl Iterator<Item = ServerId> {
        self.defining_in.get(name).into_iter().flatten().copied()
    }

    /// The pools of a database know of its definitions. If no server works on others, statements need not be searched.
    pub(crate) fn pools_are_told(&mut self) {
        self.any_defines = !self.defining.is_empty();
    }

    /// Whether a reading is due in some pool.
    #[inline(always)]
    pub(crate) fn is_any_due(&self) -> bool {
        self.due > 0
    }

    /// A pool has other needs than before.
    pub(crate) fn count(&mut self, before: Needs, now: Needs) {
        self.knowing = self.knowing + u32::from(now.names) - u32::from(before.names);
        self.due = self.due + u32::from(now.reading) - u32::from(before.reading);
    }

    /// The pools of this database must be told that a reading is due.
    pub(crate) fn must_tell(&mut self, database: Arc<str>) {
        self.untold = Some(database);
    }

    pub(crate) fn take_untold(&mut self) -> Option<Arc<str>> {
        self.untold.take()
    }
}

/// Definitions.
impl Catalogs {
    /// Whether a transaction with definitions may have been prepared.
    #[inline]
    pub(crate) fn may_be_prepared(&self) -> bool {
        self.any_prepared
    }

    /// A transaction with definitions may be prepared.
    pub(crate) fn one_is_prepared(&mut self) {
        self.any_prepared = true;
    }

    /// A request was sent to this server that may commit definitions.
    pub(crate) fn publishes(&mut self, server: ServerId) {
        self.published.push(server);
    }

    /// Takes the servers to which such requests were sent.
    pub(crate) fn take_published(&mut self) -> Vec<ServerId> {
        std::mem::take(&mut self.published)
    }

    /// Whether definitions must wait in some database.
    #[inline]
    pub(crate) fn may_definitions_wait(&self) -> bool {
        self.any_debt
    }

    /// Definitions must wait in this database.
    pub(crate) fn definitions_must_wait(&mut self, database: Arc<str>) {
        self.any_debt = true;
        self.untold = Some(database);
    }

    /// Requests that may commit definitions, and wait for flights.
    #[inline]
    pub(crate) fn publications(&self) -> &Publications {
        &self.publications
    }

    #[inline]
    pub(crate) fn publications_mut(&mut self) -> &mut Publications {
        &mut self.publications
    }

    /// The definition of this client waits.
    pub(crate) fn definition_waits(&mut self, client: ClientId) {
        self.definers.push(client);
    }

    /// The clients whose definitions wait because of what earlier ones have cost.
    pub(crate) fn definers(&self) -> &[ClientId] {
        &self.definers
    }

    /// Takes those whose definitions wait.
    pub(crate) fn take_definers(&mut self, now: Time) -> Vec<ClientId> {
        let states = self.by_database.values_mut();
        // All of them, because each forgets a debt that is paid off.
        self.any_debt = states.fold(false, |any, state| state.must_definitions_wait(now) | any);
        std::mem::take(&mut self.definers)
    }
}
