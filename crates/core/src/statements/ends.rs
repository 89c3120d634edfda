//! Statements that end prepared statements or channels, list statements or reset settings, and the portals that will
//! run them.

use pgweir_sql::Returns;

/// What a statement ends.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Ends {
    /// DEALLOCATE ALL, DISCARD ALL.
    All,
    /// DEALLOCATE of this name.
    Name(Box<[u8]>),
    /// UNLISTEN of this channel; `None`: of all.
    Channels(Option<Box<[u8]>>),
}

/// The most portals of a client that are followed because their statements end something or list prepared statements.
const CAREFUL_PORTALS_MAX: usize = 64;

/// What an Execute of a portal does to prepared statements, channels and settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Does {
    ends: Option<Ends>,
    returns: Option<Returns>,
    lists: bool,
}

impl Does {
    /// What a statement does that ends this and resets these settings; `None`: nothing.
    pub(crate) fn of(ends: Option<Ends>, returns: Option<Returns>) -> Option<Self> {
        let lists = false;
        (ends.is_some() || returns.is_some()).then_some(Does { ends, returns, lists })
    }

    /// The prepared statements or channels that it ends.
    pub(crate) fn ends(&self) -> Option<&Ends> {
        self.ends.as_ref()
    }

    /// The settings that it resets.
    pub(crate) fn returns(&self) -> Option<&Returns> {
        self.returns.as_ref()
    }
}

/// A portal, and what its statement did before a Bind gave it another one.
pub(crate) type PortalBefore = (Box<[u8]>, Does);

/// Portals and cursors of a client whose later requests need care.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct CarefulPortals {
    portals: Vec<PortalBefore>,
    /// The portal of the Bind that is being handled, if its message has not been sent.
    replaced: Option<PortalBefore>,
    /// See [`CarefulPortals::cursors_may_list`].
    cursors_may_list: bool,
}

impl CarefulPortals {
    /// A portal is being bound. A Bind that waits is handled again.
    pub(super) fn binds(&mut self, portal: &[u8], does: Option<Does>) {
        if let Some(before) = self.replaced.take() {
            self.restore(before);
        }
        self.replaced = Some((portal.into(), self.take(portal)));
        self.put(portal, does.unwrap_or_default());
    }

    /// The Bind is sent. Returns the portal before it.
    pub(super) fn take_replaced(&mut self) -> Option<PortalBefore> {
        self.replaced.take()
    }

    /// The Bind of a portal was refused or ignored.
    pub(super) fn restore(&mut self, (portal, does): PortalBefore) {
        self.take(&portal);
        self.put(&portal, does);
    }

    /// The statement of the portal that is being bound lists prepared statements.
    pub(super) fn lists(&mut self, portal: &[u8]) {
        let does = self.take(portal);
        self.put(portal, Does { lists: true, ..does });
    }

    fn take(&mut self, portal: &[u8]) -> Does {
        let at = self.portals.iter().position(|(name, _)| **name == *portal);
        at.map_or_else(Does::default, |at| self.portals.remove(at).1)
    }

    fn put(&mut self, portal: &[u8], does: Does) {
        if does == Does::default() {
            return;
        }
        if self.portals.len() == CAREFUL_PORTALS_MAX {
            self.portals.remove(0);
        }
        self.portals.push((portal.into(), does));
    }

    /// What an Execute of the portal does, if it needs care.
    pub(super) fn of(&self, portal: &[u8]) -> Option<&Does> {
        let found = self.portals.iter().find(|(name, _)| **name == *portal);
        found.map(|(_, does)| does)
    }

    /// Whether the portal's statement lists prepared statements.
    pub(super) fn portal_lists(&self, portal: &[u8]) -> bool {
        self.of(portal).is_some_and(|does| does.lists)
    }

    /// Whether a cursor may be open that lists prepared statements when its first row is asked for.
    pub(super) fn cursors_may_list(&self) -> bool {
        self.cursors_may_list
    }

    /// A text is about to run that may open such a cursor.
    pub(super) fn opens_listing_cursor(&mut self) {
        self.cursors_may_list = true;
    }

    /// Whether no portal or cursor needs care.
    pub(super) fn is_empty(&self) -> bool {
        self.portals.is_empty() && self.replaced.is_none() && !self.cursors_may_list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends_all() -> Does {
        Does::of(Some(Ends::All), None).unwrap()
    }

    #[test]
    fn a_portal_may_end_statements_and_list_them() {
        let mut portals = CarefulPortals::default();
        portals.binds(b"p", Some(ends_all()));
        portals.lists(b"p");
        assert_eq!(portals.of(b"p").unwrap().ends, Some(Ends::All));
        assert!(portals.portal_lists(b"p"));
        portals.binds(b"p", None);
        portals.take_replaced();
        portals.binds(b"p", None);
        portals.take_replaced();
        assert!(portals.is_empty());
    }

    #[test]
    fn a_bind_that_is_handled_again_or_refused_restores_what_it_found() {
        let mut portals = CarefulPortals::default();
        portals.binds(b"p", Some(ends_all()));
        portals.take_replaced();
        portals.binds(b"p", None);
        portals.binds(b"p", None);
        assert_eq!(portals.of(b"p"), None);
        let before = portals.take_replaced().unwrap();
        assert_eq!(before, (b"p"[..].into(), ends_all()));
        portals.restore(before);
        assert_eq!(portals.of(b"p"), Some(&ends_all()));
    }
}
