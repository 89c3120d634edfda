//! The prepared statements that one server holds, and how old their plans are.
//!
//! PostgreSQL refuses a plan whose rows DDL has changed since its Parse (0A000, "cached plan must not change result type").
//! A client that shares a statement must get that error exactly where its own Parse came before the DDL. So a logical clock
//! ticks whenever a client prepares or describes a statement, and each copy of a statement remembers the latest moment at
//! which its plan is known to have been good.

use crate::base::ids::ClientId;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::{OWN_ID_MAX, Statement};
use crate::statements::unnamed::Unnamed;
use foldhash::fast::{FixedState, RandomState};
use pgweir_wire::{ReadError, Reader};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// A moment of the logical clock; 0 is before everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) struct Moment(pub(crate) u64);

/// The shape of a statement's rows, as a hash: names, types, sizes and modifiers of the columns. Which table a column comes
/// from does not matter to PostgreSQL either: a table that was dropped and made again the same is no reason for 0A000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Rows(u64);

impl Rows {
    /// Of a statement that returns none: NoData.
    pub(crate) const NONE: Rows = Rows(0);

    /// Of a description that is too long to be read, or no description at all.
    pub(crate) const UNREAD: Rows = Rows(1);

    /// Reads the body of a RowDescription ("Message Formats").
    pub(crate) fn read(body: &[u8]) -> Result<Rows, ReadError> {
        let mut hasher = FixedState::default().build_hasher();
        let mut reader = Reader::new(body);
        for _ in 0..reader.i16()? {
            reader.cstr()?.hash(&mut hasher);
            // Its table and its number there.
            reader.bytes(6)?;
            // Type, size and modifier.
            reader.bytes(10)?.hash(&mut hasher);
            // Format.
            reader.bytes(2)?;
        }
        reader.end()?;
        Ok(Rows(hasher.finish().max(2)))
    }
}

/// A statement on a server.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct HeldStatement {
    pub(crate) statement: Arc<Statement>,
    /// Its plan gives the rows that the statement would have given at this moment.
    pub(crate) good: Moment,
    /// When it was last used: as good as `good`, once the server has answered without an error.
    used: Moment,
    /// When it was prepared.
    parsed: Moment,
    /// The types of its parameters, where its statement leaves one open and they are known.
    types: Option<Types>,
    pub(crate) rows: Option<Rows>,
    /// The server has refused it: it must be closed and prepared again in front of its next use.
    pub(crate) outdated: bool,
    /// A Describe of ours is on its way.
    pub(crate) asked: bool,
    /// It was prepared while its client had temporary objects, and may speak of them.
    beside_temporary: bool,
}

impl HeldStatement {
    /// Whether a client that relies on these types may use it; `None` where they are not known.
    #[inline]
    pub(crate) fn has_types(&self, types: &Types) -> Option<bool> {
        match &self.types {
            Some(known) => Some(known == types),
            None if *self.statement.types == *types.bytes() => Some(true),
            None => None,
        }
    }
}

/// The statements one server holds, least recently used first to go.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Held {
    /// The pooler's own, which nothing evicts, and when each was prepared.
    own: Vec<(Arc<Statement>, Moment)>,
    copies: lru::LruCache<u64, HeldStatement, RandomState>,
    /// Of the copies, those under a client's own name: there is one for a name, and the client's name ends it.
    own_names: HashMap<Box<[u8]>, u64, RandomState>,
    /// Everything sent before this has been answered.
    answered: Moment,
    /// The latest error.
    erred: Moment,
    /// Those that became as good as they are in the present transaction.
    provisional: Vec<u64>,
    /// What was prepared before may not exist, or be another statement: see [`Held::doubt`].
    doubted: Moment,
    /// Code of the present transaction may still run: a portal, a cursor, a deferred trigger.
    doubts_at_end: bool,
    /// Each transaction may run in another session: nothing outlives one.
    forgets: bool,
    /// Its client has temporary objects, or may have.
    temporary: bool,
    /// There was an error since the server was last idle.
    failed: bool,
    /// There was an error since the latest ReadyForQuery.
    segment_failed: bool,
    /// Something of the present transaction has been undone: DDL, maybe, that plans were made after.
    pub(crate) rolled_back: bool,
    /// The latest command tag was COMMIT.
    pub(crate) committed: bool,
    pub(crate) unnamed: Unnamed,
    /// Whose statements it may know by the client's own names.
    pub(crate) lends_to: Option<ClientId>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Held {
            own: Vec::new(),
            copies: lru::LruCache::unbounded_with_hasher(RandomState::default()),
            own_names: HashMap::default(),
            answered: Moment::default(),
            erred: Moment::default(),
            provisional: Vec::new(),
            doubted: Moment::default(),
            doubts_at_end: false,
            forgets: false,
            temporary: false,
            failed: false,
            segment_failed: false,
            rolled_back: false,
            committed: false,
            unnamed: Unnamed::Nothing,
            lends_to: None,
        }
    }

    /// Whether the server holds it; a hit makes it the most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, id: u64) -> bool {
        if id <= OWN_ID_MAX {
            return self.own.iter().any(|(s, _)| s.id == id);
        }
        self.copies.get(&id).is_some()
    }

    /// Whether the server holds this statement of the pooler's, and no client can have put another in its place.
    #[inline]
    pub(crate) fn trusts(&self, id: u64) -> bool {
        self.own.iter().any(|(s, good)| s.id == id && *good >= self.doubted)
    }

    /// At this moment a client may have ended any statement of the server's, and prepared another under the same name: a
    /// DEALLOCATE or PREPARE, or code of unknown effect, may have run. Until the present transaction has ended, more of it
    /// may run.
    pub(crate) fn doubt(&mut self, now: Moment) {
        self.doubted = now;
        self.doubts_at_end = true;
    }

    /// Whether each transaction may run in another session, so that what one has prepared is doubted in the next.
    pub(crate) fn forgets_between_transactions(&mut self, forgets: bool) {
        self.forgets = forgets;
        self.doubts_at_end |= forgets;
    }

    /// The transaction has ended; whether what [`Held::doubt`] says must be said once more, for the last time.
    #[inline]
    pub(crate) fn take_doubt_at_end(&mut self) -> bool {
        if self.forgets {
            self.unnamed = Unnamed::Foreign;
        }
        std::mem::replace(&mut self.doubts_at_end, self.forgets)
    }

    /// What may have run before this transaction has ended: nothing of it runs any more.
    pub(crate) fn doubt_for_good(&mut self, now: Moment) {
        self.doubted = now;
    }

    /// A client may have prepared a statement under any name that it knew.
    pub(crate) fn was_doubted(&self) -> bool {
        self.doubted > Moment::default()
    }

    /// A copy that was good before this moment only may be none, or another statement.
    #[inline]
    pub(crate) fn doubted(&self) -> Moment {
        self.doubted
    }

    /// A client's statement that is going to be used at this moment.
    #[inline]
    pub(crate) fn using(&mut self, id: u64, now: Moment) -> Option<&mut HeldStatement> {
        let copy = self.copies.get_mut(&id)?;
        let known = copy.good >= self.doubted;
        if known && copy.good < copy.used && copy.used < self.answered && copy.used > self.erred {
            copy.good = copy.used;
            self.provisional.push(id);
        }
        copy.used = now;
        Some(copy)
    }

    /// A client's statement, without its being used.
    pub(crate) fn copy_mut(&mut self, id: u64) -> Option<&mut HeldStatement> {
        self.copies.peek_mut(&id)
    }

    /// Whether the server holds it, as far as can be told.
    pub(crate) fn usable(&self, id: u64) -> bool {
        self.copies
            .peek(&id)
            .is_some_and(|c| !c.outdated && c.good >= self.doubted)
    }

    /// Whether the server holds it with a plan that is no older than this moment, as far as can be told.
    pub(crate) fn is_as_good_as(&self, id: u64, since: Moment) -> bool {
        self.usable(id) && self.copies.peek(&id).is_some_and(|c| c.good >= since)
    }

    /// Whether a Parse of it need not be asked of the server: temporary objects come and go with any statement.
    pub(crate) fn answers_parse(&self, statement: &Statement) -> bool {
        !self.temporary && statement.keeps && !statement.infers && self.usable(statement.id)
    }

    /// Its client has temporary objects from now on, or has none. What was prepared beside those that are gone may not be
    /// there for PostgreSQL's parser any more: its next use, and its next Parse, prepare it again.
    pub(crate) fn temporary_objects(&mut self, are_there: bool) {
        if std::mem::replace(&mut self.temporary, are_there) && !are_there {
            let beside = self.copies.iter_mut().filter(|(_, c)| c.beside_temporary);
            beside.for_each(|(_, c)| c.outdated = true);
        }
    }

    /// A statement that was prepared at this moment, or earlier than anybody knows (moment 0).
    pub(crate) fn insert(&mut self, statement: Arc<Statement>, now: Moment) {
        if statement.id <= OWN_ID_MAX {
            self.own.retain(|(s, _)| s.id != statement.id);
            return self.own.push((statement, now));
        }
        let copy = HeldStatement {
            good: now,
            used: now,
            parsed: now,
            types: None,
            rows: None,
            outdated: false,
            asked: false,
            beside_temporary: self.temporary,
            statement,
        };
        self.provisional.push(copy.statement.id);
        if copy.statement.is_own() {
            let name = copy.statement.server_name().into();
            let before = self.own_names.insert(name, copy.statement.id);
            if let Some(before) = before.filter(|&id| id != copy.statement.id) {
                self.copies.pop(&before);
            }
        }
        self.copies.put(copy.statement.id, copy);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.own.retain(|(s, _)| s.id != id);
        if let Some(copy) = self.copies.pop(&id) {
            self.forget_own_name(&copy.statement);
        }
    }

    /// The statement to close so that one more fits under `limit`. Never one under a client's own name: what the client has
    /// sent already may rely on it. They are closed when the server goes to somebody else.
    pub(crate) fn evict_for(&mut self, limit: usize) -> Option<Arc<Statement>> {
        if self.copies.len() < limit.max(1) {
            return None;
        }
        for _ in 0..=self.own_names.len() {
            let (id, copy) = self.copies.pop_lru()?;
            if !copy.statement.is_own() {
                return Some(copy.statement);
            }
            self.copies.put(id, copy);
        }
        None
    }

    fn forget_own_name(&mut self, statement: &Statement) {
        if statement.is_own() {
            self.own_names.remove(statement.server_name());
        }
    }

    /// Those under the pooler's names, its own included.
    pub(crate) fn all_under_our_names(&self) -> Vec<Arc<Statement>> {
        let copies = self.copies.iter().map(|(_, c)| &c.statement).filter(|s| !s.is_own());
        self.own.iter().map(|(s, _)| s).chain(copies).cloned().collect()
    }

    /// The pooler's own.
    pub(crate) fn all_own(&self) -> Vec<Arc<Statement>> {
        self.own.iter().map(|(s, _)| s.clone()).collect()
    }

    /// What it knows by this name of a client's.
    pub(crate) fn own_named(&self, name: &[u8]) -> Option<Arc<Statement>> {
        let copy = self.own_names.get(name).and_then(|id| self.copies.peek(id));
        copy.map(|c| c.statement.clone())
    }

    /// Those it knows by a client's own names; in the order of their names, so that it is always the same.
    pub(crate) fn own_names(&self) -> Vec<Arc<Statement>> {
        let own = self.own_names.values().filter_map(|id| self.copies.peek(id));
        let mut own: Vec<_> = own.map(|c| c.statement.clone()).collect();
        own.sort_unstable_by(|a, b| a.server_name().cmp(b.server_name()));
        own
    }

    pub(crate) fn take_all(&mut self) -> Vec<Arc<Statement>> {
        let mut all: Vec<_> = std::mem::take(&mut self.own).into_iter().map(|(s, _)| s).collect();
        all.extend(self.copies.iter().map(|(_, c)| c.statement.clone()));
        self.copies.clear();
        self.own_names.clear();
        all
    }

    /// Forgets all statements but those in `ids`.
    pub(crate) fn keep_only(&mut self, ids: &HashSet<u64>) {
        self.own.retain(|(s, _)| ids.contains(&s.id));
        let gone: Vec<u64> = self
            .copies
            .iter()
            .map(|(&id, _)| id)
            .filter(|id| !ids.contains(id))
            .collect();
        gone.iter().for_each(|id| drop(self.copies.pop(id)));
        self.own_names.retain(|_, id| ids.contains(id));
    }

    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Nothing is known for certain about any of a client's statements: each is prepared again in front of its next use.
    pub(crate) fn outdate_all(&mut self) {
        self.copies.iter_mut().for_each(|(_, c)| c.outdated = true);
    }

    /// The server has sent an error.
    pub(crate) fn note_error(&mut self, now: Moment) {
        self.erred = now;
        self.failed = true;
        self.segment_failed = true;
    }

    /// The server has sent ReadyForQuery: whether it has sent an error since the one before.
    #[inline]
    pub(crate) fn take_segment_failed(&mut self) -> bool {
        std::mem::take(&mut self.segment_failed)
    }

    /// The server has sent ReadyForQuery and owes nothing. `between` transactions; `in_block` before.
    pub(crate) fn note_ready(&mut self, now: Moment, between: bool, in_block: bool) {
        self.answered = now;
        if !between {
            return;
        }
        let lasts = !self.rolled_back && if in_block { self.committed } else { !self.failed };
        if lasts {
            self.provisional.clear();
        } else {
            // What was true in it need not be true any more.
            for id in self.provisional.drain(..) {
                if let Some(copy) = self.copies.peek_mut(&id) {
                    copy.good = Moment::default();
                }
            }
            self.erred = now;
        }
        (self.failed, self.rolled_back, self.committed) = (false, false, false);
    }

    /// The parameter types of a statement, which was asked for them at this moment; it may have been prepared again since.
    pub(crate) fn learn_types(&mut self, id: u64, asked: Moment, types: &Types) {
        if let Some(copy) = self.copies.peek_mut(&id).filter(|c| c.parsed <= asked) {
            copy.types.get_or_insert_with(|| types.clone());
        }
    }

    /// It has been prepared with these types.
    pub(crate) fn give_types(&mut self, id: u64, types: &Types) {
        if let Some(copy) = self.copies.peek_mut(&id) {
            copy.types = Some(types.clone());
        }
    }

    /// The server has described a statement at our or its client's wish, which had been sent at the moment `asked`.
    pub(crate) fn described(&mut self, id: u64, asked: Moment, rows: Rows) {
        if let Some(copy) = self.copies.peek_mut(&id) {
            copy.rows = Some(rows);
            copy.asked = false;
            if copy.good < asked && copy.good >= self.doubted {
                copy.good = asked;
                self.provisional.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::parse_settings::ParseSettings;
    use crate::statements::prepared::StatementTable;
    use pgweir_wire::Writer;
    use pgweir_wire::write::Column;

    fn statements(count: u8) -> Vec<Arc<Statement>> {
        let mut table = StatementTable::new(crate::base::secret_names::SecretNames::new([0; 32]));
        let text = |n: u8| table.intern(&[n], &[0, 0], &ParseSettings::default());
        (0..count).map(text).collect()
    }

    /// One statement, prepared at moment 1 in a transaction that has lasted.
    fn one_copy() -> (Held, u64) {
        let s = statements(1);
        let mut held = Held::new();
        held.insert(s[0].clone(), Moment(1));
        held.note_ready(Moment(1), true, false);
        (held, s[0].id)
    }

    fn good(held: &mut Held, id: u64) -> u64 {
        held.copy_mut(id).unwrap().good.0
    }

    #[test]
    fn the_least_recently_used_statement_goes_first() {
        let s = statements(3);
        let mut held = Held::new();
        held.insert(s[0].clone(), Moment(1));
        held.insert(s[1].clone(), Moment(1));
        assert!(held.touch(s[0].id));
        assert!(held.evict_for(3).is_none());
        assert_eq!(held.evict_for(2).unwrap().id, s[1].id);
        assert!(!held.touch(s[1].id) && held.touch(s[0].id));
    }

    #[test]
    fn a_name_of_the_client_is_not_evicted() {
        let mut table = StatementTable::new(crate::base::secret_names::SecretNames::new([0; 32]));
        let settings = ParseSettings::default();
        let own = table.intern_own(
            crate::statements::prepared::Kind::Own,
            b"a",
            b"select 1",
            &[0, 0],
            &settings,
            false,
        );
        let shared = table.intern(b"select 2", &[0, 0], &settings);
        let mut held = Held::new();
        held.insert(own.clone(), Moment(1));
        held.insert(shared.clone(), Moment(1));
        assert_eq!(held.evict_for(1).unwrap().id, shared.id);
        assert!(held.evict_for(1).is_none() && held.touch(own.id));
    }

    #[test]
    fn a_use_that_went_well_shows_that_the_plan_was_good_then() {
        let (mut held, id) = one_copy();
        held.using(id, Moment(5));
        held.using(id, Moment(6));
        assert_eq!(good(&mut held, id), 1, "neither has been answered");
        held.note_ready(Moment(7), true, false);
        held.using(id, Moment(8));
        assert_eq!(good(&mut held, id), 6);
    }

    #[test]
    fn a_use_before_an_error_shows_nothing() {
        let (mut held, id) = one_copy();
        held.using(id, Moment(5));
        held.note_error(Moment(6));
        held.note_ready(Moment(7), true, false);
        held.using(id, Moment(8));
        assert_eq!(good(&mut held, id), 1);
    }

    #[test]
    fn what_was_seen_in_a_transaction_counts_only_if_it_lasts() {
        for (committed, rolled_back, expected) in
            [(true, false, 5), (false, true, 0), (true, true, 0), (false, false, 0)]
        {
            let (mut held, id) = one_copy();
            held.described(id, Moment(5), Rows::NONE);
            held.note_ready(Moment(6), false, true);
            assert_eq!(good(&mut held, id), 5, "within the transaction");
            (held.committed, held.rolled_back) = (committed, rolled_back);
            held.note_ready(Moment(7), true, true);
            assert_eq!(good(&mut held, id), expected);
        }
    }

    #[test]
    fn what_was_prepared_beside_temporary_objects_is_prepared_again_without_them() {
        let s = statements(3);
        let (mut held, now) = (Held::new(), Moment(1));
        held.insert(s[0].clone(), now);
        held.temporary_objects(true);
        held.insert(s[1].clone(), now);
        assert!(held.usable(s[0].id) && !held.answers_parse(&s[0]));
        held.temporary_objects(true);
        assert!(held.usable(s[1].id));
        held.temporary_objects(false);
        held.insert(s[2].clone(), now);
        let answers = s.iter().map(|s| held.answers_parse(s));
        assert_eq!(answers.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn an_error_does_not_make_old_plans_doubtful() {
        let (mut held, id) = one_copy();
        held.note_error(Moment(1));
        held.note_ready(Moment(1), true, false);
        assert_eq!(good(&mut held, id), 1);
    }

    #[test]
    fn rows_are_the_same_by_names_and_types_only() {
        let rows = |name: &str, oid: u32, change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            let column = Column {
                name,
                type_oid: oid,
                type_bytes: 4,
            };
            Writer::new(&mut bytes).row_description(&[column]);
            let mut body = bytes.split_off(5);
            change(&mut body);
            Rows::read(&body).unwrap()
        };
        let a = rows("a", 23, &|_| {});
        assert_eq!(a, rows("a", 23, &|b| b[4..10].fill(7)), "another table");
        assert_eq!(a, rows("a", 23, &|b| *b.last_mut().unwrap() = 1), "binary");
        assert_ne!(a, rows("b", 23, &|_| {}));
        assert_ne!(a, rows("a", 20, &|_| {}));
        assert!(Rows::read(&[0, 1, b'a']).is_err());
        assert_ne!(Rows::read(&[0, 0]).unwrap(), Rows::NONE);
    }
}
