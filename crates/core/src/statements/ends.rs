//! Statements that end prepared statements or channels, or list statements, and the portals that will run them.

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

/// What an Execute of a portal does to prepared statements and channels.
#[derive(Debug, pgweir_freeze::Freeze)]
struct CarefulPortal {
    name: Box<[u8]>,
    ends: Option<Ends>,
    lists: bool,
}

/// Portals and cursors of a client whose later requests need care.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct CarefulPortals {
    portals: Vec<CarefulPortal>,
    /// See [`CarefulPortals::cursors_may_list`].
    cursors_may_list: bool,
}

impl CarefulPortals {
    /// A portal is being bound; `ends` is what its statement ends.
    pub(super) fn binds(&mut self, portal: &[u8], ends: Option<Ends>) {
        self.portals.retain(|of| *of.name != *portal);
        if ends.is_some() {
            self.add(portal, ends, false);
        }
    }

    /// The statement of the portal that is being bound lists prepared statements.
    pub(super) fn lists(&mut self, portal: &[u8]) {
        match self.portals.iter_mut().find(|of| *of.name == *portal) {
            Some(of) => of.lists = true,
            None => self.add(portal, None, true),
        }
    }

    fn add(&mut self, portal: &[u8], ends: Option<Ends>, lists: bool) {
        if self.portals.len() == CAREFUL_PORTALS_MAX {
            self.portals.remove(0);
        }
        let name = portal.into();
        self.portals.push(CarefulPortal { name, ends, lists });
    }

    fn of(&self, portal: &[u8]) -> Option<&CarefulPortal> {
        self.portals.iter().find(|of| *of.name == *portal)
    }

    /// What the portal's statement ends.
    pub(super) fn ends_of(&self, portal: &[u8]) -> Option<&Ends> {
        self.of(portal)?.ends.as_ref()
    }

    /// Whether the portal's statement lists prepared statements.
    pub(super) fn portal_lists(&self, portal: &[u8]) -> bool {
        self.of(portal).is_some_and(|of| of.lists)
    }

    /// Whether a cursor may be open that lists prepared statements when its first row is asked for.
    pub(super) fn cursors_may_list(&self) -> bool {
        self.cursors_may_list
    }

    /// A text is about to run that may open such a cursor.
    pub(super) fn opens_listing_cursor(&mut self) {
        self.cursors_may_list = true;
    }

    /// The present transaction has ended, and with it all portals and cursors that list.
    pub(super) fn list_no_more(&mut self) {
        for of in &mut self.portals {
            of.lists = false;
        }
        self.portals.retain(|of| of.ends.is_some());
        self.cursors_may_list = false;
    }

    /// Whether no portal or cursor needs care.
    pub(super) fn is_empty(&self) -> bool {
        self.portals.is_empty() && !self.cursors_may_list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_may_end_statements_and_list_them() {
        let mut portals = CarefulPortals::default();
        portals.binds(b"p", Some(Ends::All));
        portals.lists(b"p");
        assert_eq!(portals.ends_of(b"p"), Some(&Ends::All));
        assert!(portals.portal_lists(b"p"));
        portals.list_no_more();
        assert_eq!(portals.ends_of(b"p"), Some(&Ends::All));
        assert!(!portals.portal_lists(b"p"));
        portals.binds(b"p", None);
        assert!(portals.is_empty());
    }
}
