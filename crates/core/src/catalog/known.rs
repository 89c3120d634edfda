//! What statements may do by the names they mention: the catalog of their database tells (see [`crate::catalog::code`]).

use crate::catalog::code::Catalog;
use crate::statements::prepared::Statement;
use foldhash::fast::RandomState;
use pgweir_sql::Effects;
use std::collections::HashMap;
use std::sync::Arc;

/// Verdicts on prepared statements that a pool keeps; beyond it, it forgets all and looks again.
pub(crate) const VERDICTS_MAX: usize = 4096;

/// What a routine may do that the catalog does not know.
pub(crate) const UNKNOWN: Effects = pgweir_sql::UNREAD.union(Effects::ROUTINES);

/// What a pool knows of its database; there where some name matters, or where nothing is known.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Known {
    pub(crate) catalog: Arc<Catalog>,
    /// Whether it still holds.
    pub(crate) holds: bool,
    /// Of prepared statements, by id.
    pub(crate) verdicts: HashMap<u64, Effects, RandomState>,
}

impl Known {
    pub(crate) fn new(catalog: Arc<Catalog>, holds: bool) -> Self {
        Known {
            catalog,
            holds,
            verdicts: HashMap::default(),
        }
    }

    /// Whether texts must be looked at for names.
    pub(crate) fn matters(&self) -> bool {
        !self.holds || !self.catalog.names.is_empty()
    }

    /// Whether this is what [`Known::new`] would give.
    pub(crate) fn is(&self, catalog: &Arc<Catalog>, holds: bool) -> bool {
        Arc::ptr_eq(&self.catalog, catalog) && self.holds == holds
    }

    /// `of_text` is what the text does by itself.
    pub(crate) fn effects_of(&self, text: &[u8], of_text: Effects) -> Effects {
        let mut effects = self.catalog.names.effects_in(text);
        if of_text.intersects(Effects::ROUTINES) && !self.knows_all_in(text) {
            effects |= UNKNOWN;
        }
        if (!effects.is_empty() || !self.holds) && pgweir_sql::is_definition(text) {
            effects | Effects::DEFINES
        } else {
            effects
        }
    }

    /// Whether all routines that a text calls have been judged.
    pub(crate) fn knows_all_in(&self, text: &[u8]) -> bool {
        self.holds && self.catalog.knows_all(&pgweir_sql::called(text))
    }

    /// What any statement may do as well: where what is known does not hold, anything.
    pub(crate) fn effects_of_any(&self) -> Effects {
        if self.holds { Effects::NONE } else { Effects::CODE }
    }

    pub(crate) fn effects_of_prepared(&mut self, statement: &Statement) -> Effects {
        if let Some(&known) = self.verdicts.get(&statement.id) {
            return known;
        }
        if self.verdicts.len() >= VERDICTS_MAX {
            self.verdicts.clear();
        }
        let effects = self.effects_of(&statement.query, statement.effects);
        self.verdicts.insert(statement.id, effects);
        effects
    }
}
