//! The copies of clients' statements on one server.

use super::HeldStatement;
use crate::statements::prepared::{Statement, kept};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most bytes of texts that are kept of the copies under internal names on one server.
const SHARED_BYTES_MAX: usize = 32 << 20;

/// The copies of clients' statements on one server, by statement.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(super) struct Copies {
    /// The copies under internal names. The least recently used one is evicted first.
    shared: lru::LruCache<u64, HeldStatement, RandomState>,
    /// Bytes of the texts of these.
    shared_bytes: usize,
    /// The copies under names of the server's client. They are never evicted, because messages that the client has sent
    /// may rely on them. They are closed when the server goes to another client.
    client_named: HashMap<u64, HeldStatement, RandomState>,
    /// The client-named copies, by name: at most one for each name.
    by_name: HashMap<Box<[u8]>, u64, RandomState>,
    /// How often the client-named copies have changed.
    client_named_changes: u64,
}

impl Copies {
    pub(super) fn new() -> Self {
        Copies {
            shared: lru::LruCache::unbounded_with_hasher(RandomState::default()),
            shared_bytes: 0,
            client_named: HashMap::default(),
            by_name: HashMap::default(),
            client_named_changes: 0,
        }
    }

    /// A copy that is about to be used. It becomes the most recently used one.
    #[inline]
    pub(super) fn use_mut(&mut self, id: u64) -> Option<&mut HeldStatement> {
        match self.shared.get_mut(&id) {
            None if !self.client_named.is_empty() => self.client_named.get_mut(&id),
            found => found,
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<&HeldStatement> {
        match self.shared.peek(&id) {
            None if !self.client_named.is_empty() => self.client_named.get(&id),
            found => found,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut HeldStatement> {
        match self.shared.peek_mut(&id) {
            None if !self.client_named.is_empty() => self.client_named.get_mut(&id),
            found => found,
        }
    }

    /// All copies, in no order.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut HeldStatement> {
        let shared = self.shared.iter_mut().map(|(_, copy)| copy);
        shared.chain(self.client_named.values_mut())
    }

    /// Adds a copy. A client-named one takes the place of the copy that had its name.
    pub(super) fn insert(&mut self, copy: HeldStatement) {
        let id = copy.statement.id;
        if !copy.statement.is_client_named() {
            debug_assert!(!copy.stays(), "a copy that stays must not be evicted");
            self.shared_bytes += copy.statement.query.len();
            if let Some(before) = self.shared.put(id, copy) {
                self.shared_bytes -= before.statement.query.len();
            }
            return;
        }
        self.client_named_changes += 1;
        let before = self.by_name.insert(copy.statement.server_name().into(), id);
        if let Some(before) = before.filter(|&before| before != id) {
            self.client_named.remove(&before);
        }
        self.client_named.insert(id, copy);
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(copy) = self.shared.pop(&id) {
            self.shared_bytes -= copy.statement.query.len();
            return;
        }
        if let Some(copy) = self.client_named.remove(&id) {
            self.client_named_changes += 1;
            self.by_name.remove(copy.statement.server_name());
        }
    }

    /// Takes out the least recently used copy under an internal name, if there are `limit` of them or more, or too many
    /// bytes.
    pub(super) fn evict_for(&mut self, limit: usize) -> Option<Arc<Statement>> {
        if self.shared.len() < limit.max(1) && self.shared_bytes < SHARED_BYTES_MAX {
            return None;
        }
        let (_, copy) = self.shared.pop_lru()?;
        self.shared_bytes -= copy.statement.query.len();
        Some(copy.statement)
    }

    /// The statements under internal names, the most recently used one first.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Arc<Statement>> {
        self.shared.iter().map(|(_, copy)| &copy.statement)
    }

    /// The statement under this name of a client's.
    pub(super) fn named(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        if self.by_name.is_empty() {
            return None;
        }
        let id = self.by_name.get(kept(name))?;
        self.client_named.get(id).map(|copy| &copy.statement)
    }

    /// The client-named statements that are not `kept`, sorted by name, so that the order is always the same.
    pub(super) fn named_except(&self, kept: impl Fn(&Statement) -> bool) -> Vec<Arc<Statement>> {
        let all = self.client_named.values().map(|copy| &copy.statement);
        let mut named: Vec<_> = all.filter(|statement| !kept(statement)).cloned().collect();
        named.sort_unstable_by(|a, b| a.server_name().cmp(b.server_name()));
        named
    }

    /// How often the client-named copies have changed.
    pub(super) fn client_named_changes(&self) -> u64 {
        self.client_named_changes
    }

    /// Forgets all copies. Returns their statements, always in the same order.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Statement>> {
        let all = self.shared().cloned().chain(self.named_except(|_| false)).collect();
        self.shared.clear();
        self.shared_bytes = 0;
        self.client_named.clear();
        self.by_name.clear();
        self.client_named_changes += 1;
        all
    }

    /// Forgets all copies but those in `ids`.
    pub(super) fn keep_only(&mut self, ids: &HashSet<u64>) {
        let shared = self.shared.iter().map(|(&id, _)| id);
        let gone: Vec<u64> = shared.filter(|id| !ids.contains(id)).collect();
        gone.iter().for_each(|&id| self.remove(id));
        self.client_named.retain(|id, _| ids.contains(id));
        self.by_name.retain(|_, id| ids.contains(id));
        self.client_named_changes += 1;
    }

    pub(super) fn named_len(&self) -> usize {
        self.client_named.len()
    }

    pub(super) fn len(&self) -> usize {
        self.shared.len() + self.client_named.len()
    }
}
