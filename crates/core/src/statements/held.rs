//! The prepared statements that one server holds, and how old their plans are.
//!
//! PostgreSQL refuses a plan whose rows DDL has changed since its Parse (0A000, "cached plan must not change result
//! type"). A client that shares a statement must get that error only if its Parse came before the DDL. So a logical
//! clock ticks whenever a client prepares or describes a statement, and each copy of a statement remembers the latest
//! moment at which its plan is known to have been good.

mod copies;
mod doubt;
mod held_statement;
mod transaction;

use crate::base::ids::ClientId;
use crate::statements::held::copies::Copies;
pub(crate) use crate::statements::held::held_statement::HeldStatement;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::{INTERNAL_ID_MAX, Statement};
use crate::statements::rows::Rows;
use crate::statements::unnamed::Unnamed;
use foldhash::fast::RandomState;
use std::collections::HashSet;
use std::sync::Arc;

/// A moment of the logical clock; 0 is before everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub(crate) struct Moment(pub(in crate::statements) u64);

/// The most statements that are remembered because the server could not prepare them.
const REFUSED_MAX: usize = 64;

/// The statements that one server holds. The least recently used one is evicted first.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Held {
    /// The internal statements, which are never evicted, and when each was prepared.
    internal: Vec<(Arc<Statement>, Moment)>,
    copies: Copies,
    /// Everything that was sent before this moment has been answered.
    answered: Moment,
    /// The moment of the latest error.
    erred: Moment,
    /// The copies whose `good` was set in the present transaction.
    provisional: Vec<u64>,
    /// The copies that were sent since the server last owed nothing.
    unproven: HashSet<u64, RandomState>,
    /// A statement that was prepared before this moment may be gone or replaced: see [`Held::doubt`].
    doubted: Moment,
    /// Code of the present transaction may still run: a portal, a cursor, a deferred trigger.
    doubts_at_end: bool,
    /// Since this moment the server may have read constants under other settings than those that are known of its
    /// client: see [`Held::reads_otherwise`].
    otherwise: Option<Moment>,
    /// See [`Held::text_may_set_reading`].
    behind_set: bool,
    /// Since this moment the server's transaction may have created, renamed or moved objects.
    names_move_since: Option<Moment>,
    /// Each transaction may run in another session, so no statement is relied on beyond its transaction.
    forgets: bool,
    /// The server's client has temporary objects, or may have.
    temporary: bool,
    /// There was an error since the server was last idle.
    failed: bool,
    /// There was an error since the latest ReadyForQuery.
    segment_failed: bool,
    /// A part of the present transaction has been undone, perhaps DDL that plans rely on.
    rolled_back: bool,
    /// The latest command tag was COMMIT.
    committed: bool,
    unnamed: Unnamed,
    /// See [`Held::may_keep_text`].
    ran_text: bool,
    /// The client under whose names the server may hold statements.
    lends_to: Option<ClientId>,
    /// The statement that was prepared for a message that waits for an answer about it; 0: none.
    awaited: u64,
    /// Statements under that client's names that the server could not prepare when they were last lent.
    refused: Vec<u64>,
    /// The counts of changes, of the client's names and of the client-named copies, when all client-named statements
    /// were last found to be the client's.
    agreed: Option<(u64, u64)>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Held {
            internal: Vec::new(),
            copies: Copies::new(),
            answered: Moment::default(),
            unproven: HashSet::default(),
            erred: Moment::default(),
            provisional: Vec::new(),
            doubted: Moment::default(),
            doubts_at_end: false,
            otherwise: None,
            behind_set: false,
            names_move_since: None,
            forgets: false,
            temporary: false,
            failed: false,
            segment_failed: false,
            rolled_back: false,
            committed: false,
            unnamed: Unnamed::Nothing,
            ran_text: false,
            lends_to: None,
            awaited: 0,
            refused: Vec::new(),
            agreed: None,
        }
    }

    /// Whether the server holds this statement. If it does, the statement becomes the most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, id: u64) -> bool {
        if id <= INTERNAL_ID_MAX {
            return self.internal.iter().any(|(s, _)| s.id == id);
        }
        self.copies.use_mut(id).is_some()
    }

    /// A client's statement that may be about to be used. If it was used before and that went well, its plan was good then.
    #[inline]
    pub(crate) fn using(&mut self, id: u64) -> Option<&mut HeldStatement> {
        let copy = self.copies.use_mut(id)?;
        let known = copy.good >= self.doubted;
        if known && copy.good < copy.used && copy.used < self.answered && copy.used > self.erred {
            copy.good = copy.used;
            self.provisional.push(id);
        }
        Some(copy)
    }

    /// The statement is about to be used, at this moment.
    pub(crate) fn is_used(&mut self, id: u64, now: Moment) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.is_used(now);
        }
    }

    /// Whether the server holds this statement of a client's. This does not count as a use.
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.copies.get(id).is_some()
    }

    /// An internal Describe of a statement is being sent.
    pub(crate) fn is_asked(&mut self, id: u64) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.asked = true;
        }
    }

    /// The server has refused or ignored an internal Describe of a statement.
    pub(crate) fn is_not_asked(&mut self, id: u64) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.asked = false;
        }
    }

    /// The copy must be closed and prepared again before its next use.
    pub(crate) fn outdate(&mut self, id: u64) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.outdated = true;
        }
    }

    /// Whether the server holds this statement, as far as is known.
    pub(crate) fn usable(&self, id: u64) -> bool {
        self.copies
            .get(id)
            .is_some_and(|c| !c.outdated && (c.good >= self.doubted || c.stays()))
    }

    /// Whether the server holds this statement with a plan that is not older than `since`, as far as is known.
    pub(crate) fn is_as_good_as(&self, id: u64, since: Moment) -> bool {
        self.usable(id) && self.copies.get(id).is_some_and(|c| c.is_good_since(since))
    }

    /// Whether the statement exists only as the server's copy, and code may have put another one in its place.
    #[cold]
    pub(crate) fn may_be_replaced(&self, id: u64) -> bool {
        self.copies
            .get(id)
            .is_some_and(|c| c.stays() && c.parsed < self.doubted)
    }

    /// Whether the server has been sent this statement and may still refuse it.
    #[inline]
    pub(crate) fn may_refuse(&self, id: u64) -> bool {
        self.unproven.contains(&id)
    }

    /// The server's client has temporary objects from now on, or no longer has any. In the second case, statements that
    /// were prepared while it had some may refer to objects that PostgreSQL no longer finds: they are prepared again at
    /// their next use or Parse.
    pub(crate) fn temporary_objects(&mut self, are_there: bool) {
        if std::mem::replace(&mut self.temporary, are_there) && !are_there {
            let beside = self.copies.all_mut().filter(|c| c.beside_temporary && !c.stays());
            beside.for_each(|c| c.outdated = true);
        }
    }

    /// Adds a statement that was prepared at this moment; 0 if the moment is not known.
    pub(crate) fn insert(&mut self, statement: Arc<Statement>, now: Moment) {
        if statement.id <= INTERNAL_ID_MAX {
            self.internal.retain(|(s, _)| s.id != statement.id);
            return self.internal.push((statement, now));
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
        self.refused.retain(|id| *id != copy.statement.id);
        self.provisional.push(copy.statement.id);
        self.unproven.insert(copy.statement.id);
        self.copies.insert(copy);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.internal.retain(|(s, _)| s.id != id);
        self.copies.remove(id);
    }

    /// The statement to close so that one more fits under `limit`. Never a client-named one: messages that the client
    /// has sent may rely on it. Those are closed when the server goes to another client.
    pub(crate) fn evict_for(&mut self, limit: usize) -> Option<Arc<Statement>> {
        self.copies.evict_for(limit)
    }

    pub(crate) fn all_under_internal_names(&self) -> Vec<Arc<Statement>> {
        let internal = self.internal.iter().map(|(s, _)| s);
        internal.chain(self.copies.shared()).cloned().collect()
    }

    pub(crate) fn all_internal(&self) -> Vec<Arc<Statement>> {
        self.internal.iter().map(|(s, _)| s.clone()).collect()
    }

    /// The statement that the server holds under this name of a client's.
    pub(crate) fn client_named(&self, name: &[u8]) -> Option<Arc<Statement>> {
        self.copies.named(name).cloned()
    }

    /// Whether an internal text may have been run on the server, to prepare statements under clients' names. If such a
    /// text has failed, the internal statement that ran it may still be there.
    pub(crate) fn may_keep_text(&self) -> bool {
        self.ran_text
    }

    /// An internal text may be run on the server.
    pub(crate) fn runs_text(&mut self) {
        self.ran_text = true;
    }

    /// Whether all client-named statements are known to be this client's: neither they nor the client's names have
    /// changed since the two were last compared. `changes` is [`Names::changes`].
    ///
    /// [`Names::changes`]: crate::statements::client_names::Names::changes
    pub(crate) fn agrees_with(&self, client: ClientId, changes: u64) -> bool {
        self.lends_to == Some(client) && self.agreed == Some((changes, self.copies.client_named_changes()))
    }

    /// All client-named statements are this client's.
    pub(crate) fn note_agreement(&mut self, changes: u64) {
        self.agreed = Some((changes, self.copies.client_named_changes()));
    }

    /// The client-named statements, sorted by name, so that the order is always the same.
    pub(crate) fn all_client_named(&self) -> Vec<Arc<Statement>> {
        self.copies.named_except(|_| false)
    }

    /// Like [`Held::all_client_named`], without those that are `kept`.
    pub(crate) fn client_named_except(&self, kept: impl Fn(&Statement) -> bool) -> Vec<Arc<Statement>> {
        self.copies.named_except(kept)
    }

    pub(crate) fn client_named_len(&self) -> usize {
        self.copies.named_len()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Arc<Statement>> {
        let mut all: Vec<_> = std::mem::take(&mut self.internal).into_iter().map(|(s, _)| s).collect();
        all.extend(self.copies.take_all());
        all
    }

    /// Forgets all statements but those in `ids`.
    pub(crate) fn keep_only(&mut self, ids: &HashSet<u64>) {
        self.internal.retain(|(s, _)| ids.contains(&s.id));
        self.copies.keep_only(ids);
    }

    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// The server may have lost any of the clients' statements: each is prepared again before its next use, unless its
    /// copy stays.
    pub(crate) fn outdate_all(&mut self) {
        let replaceable = self.copies.all_mut().filter(|c| !c.stays());
        replaceable.for_each(|c| c.outdated = true);
    }

    /// Whether the statement exists only as the server's copy: see [`HeldStatement::stays`].
    #[cold]
    pub(crate) fn stays(&self, id: u64) -> bool {
        self.copies.get(id).is_some_and(HeldStatement::stays)
    }

    /// The server's unnamed statement, as far as is known.
    #[inline(always)]
    pub(crate) fn unnamed(&self) -> Unnamed {
        self.unnamed
    }

    #[inline(always)]
    pub(crate) fn unnamed_becomes(&mut self, unnamed: Unnamed) {
        self.unnamed = unnamed;
    }

    /// The client under whose names the server may hold statements.
    #[inline(always)]
    pub(crate) fn lends_to(&self) -> Option<ClientId> {
        self.lends_to
    }

    /// The server may hold statements under this client's names from now on, or under nobody's.
    pub(crate) fn lends_names_to(&mut self, client: Option<ClientId>) {
        if self.lends_to != client {
            self.refused.clear();
        }
        self.lends_to = client;
    }

    /// The server has refused or ignored the Parse of a statement that was to be lent.
    pub(crate) fn is_refused(&mut self, id: u64) {
        if self.refused.len() == REFUSED_MAX {
            self.refused.remove(0);
        }
        self.refused.push(id);
    }

    /// Whether the server has not prepared this statement when it was last lent to the present client.
    pub(crate) fn was_refused(&self, id: u64) -> bool {
        self.refused.contains(&id)
    }

    /// The server has told the parameter types of a statement. The Describe was sent at the moment `asked`; the
    /// statement may have been prepared again since.
    pub(crate) fn learn_types(&mut self, id: u64, asked: Moment, types: &Types) {
        if let Some(copy) = self.copies.get_mut(id).filter(|c| c.parsed <= asked) {
            copy.types.get_or_insert_with(|| types.clone());
        }
    }

    /// The statement has been prepared with these types.
    pub(crate) fn give_types(&mut self, id: u64, types: &Types) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.types = Some(types.clone());
        }
    }

    /// The server has described a statement. The Describe, of the client's or internal, was sent at the moment `asked`.
    pub(crate) fn described(&mut self, id: u64, asked: Moment, rows: Rows) {
        if let Some(copy) = self.copies.get_mut(id) {
            copy.rows = Some(rows);
            copy.asked = false;
            if copy.good < asked && (copy.good >= self.doubted || copy.stays()) {
                copy.good = asked;
                self.provisional.push(id);
            }
        }
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
