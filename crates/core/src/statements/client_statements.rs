//! What a client's names for prepared statements and portals mean.

use crate::statements::client_names::{Names, StatementName};
use crate::statements::ends::{BoundEnds, Ends};
use crate::statements::prepared::Statement;
use std::sync::Arc;

/// The most portals of a client that are followed because their statements end prepared statements.
const BOUND_ENDS_MAX: usize = 64;

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
    pub(crate) names: Option<Box<Names>>,
    pub(crate) unnamed: Option<Arc<Statement>>,
    /// The latest portal, if a Describe of it would be the first to tell the rows of its statement.
    pub(crate) bound: Option<Box<Bound>>,
    /// Portals of statements that end prepared statements.
    pub(crate) bound_ends: Option<Box<BoundEnds>>,
}

impl ClientStatements {
    /// A portal is being bound; `ends` is what its statement ends.
    pub(crate) fn binds(&mut self, portal: &[u8], ends: Option<Ends>) {
        if let Some(bound) = &mut self.bound_ends {
            bound.retain(|(of, _)| **of != *portal);
        }
        if let Some(ends) = ends {
            let bound = self.bound_ends.get_or_insert_default();
            if bound.len() == BOUND_ENDS_MAX {
                bound.remove(0);
            }
            bound.push((portal.into(), ends));
        } else if self.bound_ends.as_ref().is_some_and(|bound| bound.is_empty()) {
            self.bound_ends = None;
        }
    }

    pub(crate) fn names_mut(&mut self) -> &mut Names {
        self.names.get_or_insert_default()
    }

    /// Whether one more named statement can be kept.
    pub(crate) fn has_room_for(&self, query: &[u8]) -> bool {
        self.names.as_ref().is_none_or(|names| names.have_room_for(query.len()))
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
        let meaning = self.names.as_ref().and_then(|names| names.get(name));
        let is_untold = meaning.is_some_and(|meaning| meaning.told.is_none());
        (meaning.map(|meaning| meaning.statement.clone()), is_untold)
    }

    /// What a name means in this client's session.
    pub(crate) fn meaning_of(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.names.as_ref()?.get(name).map(|m| &m.statement)
        }
    }
}
