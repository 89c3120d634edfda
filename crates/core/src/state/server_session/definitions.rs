//! Requests on their way to a server that may change what code its database runs: see
//! [`crate::session::definitions`].

use super::ServerSession;

impl ServerSession {
    /// A request that was sent may change what code the database runs, and the transaction has not ended.
    #[inline]
    pub(crate) fn has_definitions(&self) -> bool {
        self.defines
    }

    /// An unanswered request may commit such a change.
    #[inline]
    pub(crate) fn may_publish(&self) -> bool {
        self.publishes
    }

    /// A request that may change code is about to be sent; perhaps it changes the settings of new sessions.
    pub(crate) fn defines(&mut self, changes_defaults: bool) {
        self.defines = true;
        self.changes_objects = true;
        self.changes_defaults |= changes_defaults;
    }

    /// While the transaction has definitions, a portal is being bound. `harmless`: its statement defines nothing and
    /// ends no block.
    pub(crate) fn binds_among_definitions(&mut self, portal: &[u8], harmless: bool) {
        self.harmless_portal = harmless.then(|| portal.into());
    }

    /// Whether this portal was bound last, and is harmless.
    pub(crate) fn is_harmless(&self, portal: &[u8]) -> bool {
        self.harmless_portal.as_deref() == Some(portal)
    }

    /// The next request may commit definitions. Returns whether none did so far.
    pub(crate) fn publishes(&mut self) -> bool {
        !std::mem::replace(&mut self.publishes, true)
    }

    /// A request that may have committed definitions is answered. `more`: the transaction, or a request behind it, may
    /// define more. `goes_on`: and may commit it.
    pub(crate) fn definitions_answered(&mut self, more: bool, goes_on: bool) {
        self.publishes &= goes_on;
        self.defines = more;
        self.harmless_portal = self.harmless_portal.take().filter(|_| more);
    }

    /// A request that may create, rename or move objects that statements name is about to be sent.
    pub(crate) fn moves_names(&mut self) {
        self.moves_names = true;
        self.changes_objects = true;
    }

    /// A request that was sent may create, rename or move objects that statements name, and its transaction has not
    /// ended.
    #[inline]
    pub(crate) fn may_move_names(&self) -> bool {
        self.moves_names
    }

    /// The transaction has ended. Returns whether it may have moved names. `more`: requests behind it may move more.
    pub(crate) fn take_moved_names(&mut self, more: bool) -> bool {
        let moved = self.moves_names;
        self.moves_names &= more;
        moved
    }

    /// At each ReadyForQuery it must be looked at what became of definitions and of names that may have moved.
    #[inline]
    pub(crate) fn changes_objects(&self) -> bool {
        self.changes_objects
    }

    /// It has been looked at: what is left must be looked at again.
    pub(crate) fn changed_objects_are_noted(&mut self) {
        self.changes_objects = self.defines || self.moves_names;
    }

    /// The transaction has ended. Returns whether it may have changed the settings that new sessions begin with.
    /// `more`: requests behind it may change them too.
    pub(crate) fn take_changed_defaults(&mut self, more: bool) -> bool {
        let changed = self.changes_defaults;
        self.changes_defaults &= more;
        changed
    }
}
