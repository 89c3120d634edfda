//! What a client's names for prepared statements and portals mean.

use crate::statements::client_names::{Names, StatementName};
use crate::statements::ends::{CarefulPortals, Does, PortalBefore};
use crate::statements::meaning::Meaning;
use crate::statements::prepared::Statement;
use std::collections::HashSet;
use std::sync::Arc;

/// A portal whose rows the client has not been told.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Bound {
    pub(crate) portal: Box<[u8]>,
    /// The client's name for its statement, and the statement's id.
    pub(crate) name: StatementName,
    pub(crate) statement: u64,
}

/// A client's prepared statements, and what is known of its portals.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct ClientStatements {
    names: Option<Box<Names>>,
    unnamed: Option<Arc<Statement>>,
    /// The latest portal, if a Describe of it would be the first to tell the rows of its statement.
    bound: Option<Box<Bound>>,
    /// Portals whose requests need care: see [`CarefulPortals`].
    careful_portals: Option<Box<CarefulPortals>>,
    /// See [`ClientStatements::may_be_lent`].
    may_be_lent: bool,
}

impl ClientStatements {
    /// A portal is being bound.
    #[inline(always)]
    pub(crate) fn binds(&mut self, portal: &[u8], does: Option<Does>) {
        if self.careful_portals.is_some() || does.is_some() {
            self.change_careful_portals(|portals| portals.binds(portal, does));
        }
    }

    /// The Bind of a portal is sent. Returns the portal before it, if one of both needs care.
    #[inline(always)]
    pub(crate) fn take_replaced_portal(&mut self) -> Option<PortalBefore> {
        self.careful_portals.as_ref()?;
        let mut before = None;
        self.change_careful_portals(|portals| before = portals.take_replaced());
        before
    }

    /// The Bind that was handled is over. If it was not sent, its portal means what it meant before.
    #[cold]
    pub(crate) fn keeps_portal(&mut self) {
        if let Some(before) = self.take_replaced_portal() {
            self.restore_portal(before);
        }
    }

    /// The Bind of a portal was refused or ignored.
    pub(crate) fn restore_portal(&mut self, before: PortalBefore) {
        self.change_careful_portals(|portals| portals.restore(before));
    }

    /// What an Execute of the portal does, if it needs care.
    pub(crate) fn does_by_portal(&self, portal: &[u8]) -> Option<&Does> {
        self.careful_portals.as_ref()?.of(portal)
    }

    /// Whether the portal's statement lists prepared statements.
    pub(crate) fn portal_lists(&self, portal: &[u8]) -> bool {
        self.careful_portals
            .as_ref()
            .is_some_and(|all| all.portal_lists(portal))
    }

    /// The statement of the portal that is being bound lists prepared statements.
    pub(crate) fn binds_listing(&mut self, portal: &[u8]) {
        self.change_careful_portals(|portals| portals.lists(portal));
    }

    /// Whether a cursor may be open that lists prepared statements when its first row is asked for.
    pub(crate) fn cursors_may_list(&self) -> bool {
        self.careful_portals.as_ref().is_some_and(|all| all.cursors_may_list())
    }

    /// A text is about to run that may open such a cursor.
    pub(crate) fn opens_listing_cursor(&mut self) {
        self.change_careful_portals(CarefulPortals::opens_listing_cursor);
    }

    /// No transaction is open: the client has no portals, and no cursors whose rows have not been read.
    pub(crate) fn portals_are_gone(&mut self) {
        self.careful_portals = None;
    }

    #[cold]
    fn change_careful_portals(&mut self, change: impl FnOnce(&mut CarefulPortals)) {
        let mut portals = self.careful_portals.take().unwrap_or_default();
        change(&mut portals);
        self.careful_portals = Some(portals).filter(|portals| !portals.is_empty());
    }

    /// Whether requests that use some portal need care: its statement ends prepared statements, lists them or resets
    /// settings.
    #[inline(always)]
    pub(crate) fn has_careful_portals(&self) -> bool {
        self.careful_portals.is_some()
    }

    /// The client's names, if it has had some.
    #[inline(always)]
    pub(crate) fn names(&self) -> Option<&Names> {
        self.names.as_deref()
    }

    /// Whether only the client's server knows under which settings one of its named statements was read.
    pub(crate) fn some_are_uncertain(&self) -> bool {
        self.names().is_some_and(Names::some_are_uncertain)
    }

    pub(crate) fn names_mut(&mut self) -> &mut Names {
        self.names.get_or_insert_default()
    }

    /// What a name means; the empty name means nothing.
    #[inline(always)]
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Meaning> {
        self.names()?.get(name)
    }

    /// Like [`ClientStatements::named`], to change it.
    pub(crate) fn named_mut(&mut self, name: &[u8]) -> Option<&mut Meaning> {
        self.names.as_mut()?.get_mut(name)
    }

    /// Ends a name; returns what it meant.
    pub(crate) fn end(&mut self, name: &[u8]) -> Option<Meaning> {
        self.names.as_mut()?.set(name, None)
    }

    /// Ends all names; returns what they meant, if the client has had some.
    pub(crate) fn end_all(&mut self) -> Option<Vec<(StatementName, Meaning)>> {
        self.names.as_mut().map(|names| names.take_all())
    }

    /// Ends all names but those in `names`.
    pub(crate) fn keep_only(&mut self, names: &HashSet<StatementName>) {
        if let Some(of_client) = &mut self.names {
            of_client.keep_only(names);
        }
    }

    #[inline(always)]
    pub(crate) fn unnamed(&self) -> Option<&Arc<Statement>> {
        self.unnamed.as_ref()
    }

    /// Gives the client another unnamed statement, or none; returns the one before.
    pub(crate) fn replace_unnamed(&mut self, statement: Option<Arc<Statement>>) -> Option<Arc<Statement>> {
        std::mem::replace(&mut self.unnamed, statement)
    }

    /// Whether a Describe of the latest portal would be the first to tell the rows of its statement.
    #[inline(always)]
    pub(crate) fn has_untold_portal(&self) -> bool {
        self.bound.is_some()
    }

    /// A Describe of this portal would be the first to tell the rows of its statement.
    pub(crate) fn portal_is_untold(&mut self, bound: Bound) {
        self.bound = Some(Box::new(bound));
    }

    /// Another portal is bound, or the rows are about to be told: returns the portal whose rows were not told.
    #[inline(always)]
    pub(crate) fn take_untold_portal(&mut self) -> Option<Box<Bound>> {
        self.bound.take()
    }

    /// Whether a server may hold statements under the client's names. Once this is so, it stays so until the client
    /// ends: each such server would suit the client better than others.
    #[inline]
    pub(crate) fn may_be_lent(&self) -> bool {
        self.may_be_lent
    }

    /// Statements may be lent to the client: see [`crate::preparing::client_named`].
    pub(crate) fn will_be_lent(&mut self) {
        self.may_be_lent = true;
    }

    /// Whether the client has named statements.
    pub(crate) fn has_names(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.len() > 0)
    }

    /// Whether one more named statement can be kept.
    pub(crate) fn has_room_for(&self, query: &[u8]) -> bool {
        self.names.as_ref().is_none_or(|names| names.have_room_for(query.len()))
    }

    /// The same for a statement of SQL-level PREPARE.
    pub(crate) fn has_room_for_prepare(&self, text: &[u8]) -> bool {
        self.names
            .as_ref()
            .is_none_or(|names| names.have_room_for_prepare(text.len()))
    }

    /// The client has this client_encoding now.
    pub(crate) fn encoding_becomes(&mut self, encoding: &str) {
        if let Some(names) = &mut self.names {
            names.encoding_becomes(encoding);
        }
    }

    /// The statement that a Bind of this name uses, and whether the client has not been told what it returns.
    #[inline(always)]
    pub(crate) fn of_bind(&self, name: &[u8]) -> (Option<Arc<Statement>>, bool) {
        if name.is_empty() {
            return (self.unnamed.clone(), false);
        }
        let meaning = self.named(name);
        let is_untold = meaning.is_some_and(|meaning| meaning.told().is_none());
        (meaning.map(|meaning| meaning.statement().clone()), is_untold)
    }

    /// What a name means in this client's session.
    pub(crate) fn meaning_of(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named(name).map(Meaning::statement)
        }
    }
}
