//! What must be minded before a server gets another client: its schema for temporary objects, and plans of functions that
//! may not suit that client. All of it is rare, and asked for at once.

use super::ServerSession;

/// The server has a schema for temporary objects, since a client made some: see [`crate::preparing::replanning`].
const TEMPORARY_SCHEMA: u8 = 1;

/// Since the plans of functions were last discarded, names of the database may have come to mean other objects.
const NAMES_MOVED: u8 = 1 << 1;

/// Since the plans of functions were last discarded, a client may have made temporary objects.
const BESIDE_TEMPORARY: u8 = 1 << 2;

/// The client may have made temporary objects in a text in front of which no plans could be discarded.
const OVERDUE: u8 = 1 << 3;

/// A set of the bits above.
#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
pub(super) struct Notable(u8);

impl ServerSession {
    /// Whether something must be minded before the server gets a client.
    #[inline]
    pub(crate) fn is_notable(&self) -> bool {
        self.notable.0 != 0
    }

    /// The server has a schema for temporary objects, since a client made some.
    #[inline]
    pub(crate) fn has_temporary_schema(&self) -> bool {
        self.notable.0 & TEMPORARY_SCHEMA != 0
    }

    /// The server has, or may have, a schema for temporary objects. Returns whether that is new.
    pub(crate) fn gains_temporary_schema(&mut self) -> bool {
        let had = self.has_temporary_schema();
        self.notable.0 |= TEMPORARY_SCHEMA;
        !had
    }

    /// Names of the database may mean other objects than in the plans that functions keep.
    pub(crate) fn plans_are_older_than_names(&mut self) {
        self.notable.0 |= NAMES_MOVED;
    }

    /// The client may make temporary objects, which others do not find.
    pub(crate) fn plans_are_beside_temporary(&mut self) {
        self.notable.0 |= BESIDE_TEMPORARY;
    }

    /// Whether the plans that functions keep may not suit the client that has just got the server. What a client has
    /// planned beside its own temporary objects, it may find again.
    pub(crate) fn plans_may_mislead(&self) -> bool {
        let beside = self.notable.0 & BESIDE_TEMPORARY != 0 && self.visited_anew;
        beside || self.notable.0 & NAMES_MOVED != 0
    }

    /// A text may make temporary objects, and the plans of functions cannot be discarded in front of it.
    pub(crate) fn plans_are_overdue(&mut self) {
        self.notable.0 |= OVERDUE;
    }

    /// Whether the plans of functions must be discarded behind the client's text.
    pub(crate) fn has_overdue_plans(&self) -> bool {
        self.notable.0 & OVERDUE != 0
    }

    /// DISCARD PLANS was sent for the client that has the server, and nothing else misleads it.
    pub(crate) fn plans_are_overdue_no_more(&mut self) {
        self.notable.0 &= !OVERDUE;
    }

    /// DISCARD PLANS was sent, and nothing else misleads.
    pub(crate) fn plans_mislead_no_more(&mut self) {
        self.notable.0 &= TEMPORARY_SCHEMA;
    }

    /// The plans of functions were discarded, and no client has run anything since.
    pub(crate) fn has_new_plans(&self) -> bool {
        self.plans_are_new
    }

    /// DISCARD PLANS is on its way, or (`false`) a request that may make plans.
    pub(crate) fn plans_become_new(&mut self, are_new: bool) {
        self.plans_are_new = are_new;
    }
}
