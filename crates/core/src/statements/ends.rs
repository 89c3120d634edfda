//! Statements that end prepared statements, or list them, and the portals that will run such statements.

/// The prepared statements that a statement ends.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Ends {
    /// DEALLOCATE ALL, DISCARD ALL.
    All,
    /// DEALLOCATE of this name.
    Name(Box<[u8]>),
}

/// The most portals of a client that are followed because their statements end prepared statements.
const ENDING_PORTALS_MAX: usize = 64;

/// Portals of a client whose later requests need care.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct CarefulPortals {
    /// Names of portals, each with what its statement ends.
    ends: Vec<(Box<[u8]>, Ends)>,
    /// See [`CarefulPortals::may_list`].
    may_list: bool,
}

impl CarefulPortals {
    /// A portal is being bound; `ends` is what its statement ends.
    pub(super) fn binds(&mut self, portal: &[u8], ends: Option<Ends>) {
        self.ends.retain(|(of, _)| **of != *portal);
        if let Some(ends) = ends {
            if self.ends.len() == ENDING_PORTALS_MAX {
                self.ends.remove(0);
            }
            self.ends.push((portal.into(), ends));
        }
    }

    /// What the portal's statement ends, if it ends prepared statements.
    pub(super) fn ends_of(&self, portal: &[u8]) -> Option<&Ends> {
        self.ends.iter().find(|(of, _)| **of == *portal).map(|(_, ends)| ends)
    }

    /// Whether a portal or cursor may be open that reads `pg_prepared_statements` when its first row is asked for.
    pub(super) fn may_list(&self) -> bool {
        self.may_list
    }

    pub(super) fn set_may_list(&mut self, may_list: bool) {
        self.may_list = may_list;
    }

    /// Whether no portal needs care.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && !self.may_list
    }
}
