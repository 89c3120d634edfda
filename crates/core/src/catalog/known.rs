//! What statements may do because of the names in them, according to the catalog of their database (see
//! [`crate::catalog::code`]).

use crate::catalog::code::Catalog;
use crate::statements::parameter_types;
use crate::statements::prepared::Statement;
use foldhash::fast::RandomState;
use pgweir_sql::{Effects, Passed};
use std::collections::HashMap;
use std::sync::Arc;

/// The most verdicts on prepared statements that a pool keeps. When there are more, it forgets all of them.
const VERDICTS_MAX: usize = 4096;

/// What a routine that is not in the catalog may do.
pub(crate) const UNKNOWN: Effects = pgweir_sql::UNREAD.union(Effects::ROUTINES);

impl Catalog {
    /// What a Bind may do because of these types of its parameters: a count and OIDs, as in Parse.
    pub(crate) fn effects_of_types(&self, types: &[u8]) -> Effects {
        let oids = parameter_types::oids(types).iter();
        let effects = oids.filter_map(|oid| self.types.get(&u32::from_be_bytes(*oid)));
        effects.fold(Effects::NONE, |all, one| all | *one)
    }
}

/// What a pool knows of its database's catalog.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Known {
    catalog: Arc<Catalog>,
    /// Whether `catalog` is up to date.
    holds: bool,
    /// Verdicts on prepared statements, by id.
    verdicts: HashMap<u64, Effects, RandomState>,
}

impl Known {
    pub(crate) fn new(catalog: Arc<Catalog>, holds: bool) -> Self {
        Known {
            catalog,
            holds,
            verdicts: HashMap::default(),
        }
    }

    /// Whether the catalog is up to date.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// What some text may do because of the names in it.
    pub(crate) fn effects_of_all_names(&self) -> Effects {
        self.catalog.names.all()
    }

    /// What the names in a text do, without what else it may do: see [`Known::effects_of`].
    pub(crate) fn effects_of_names_in(&self, text: &[u8]) -> Effects {
        self.catalog.names.effects_in(text)
    }

    /// The settings that a text names in calls of routines that use an argument as the name of a setting.
    pub(crate) fn settings_passed_in(&self, text: &[u8]) -> Passed {
        self.catalog.names.passed_in(text)
    }

    /// Settings that functions set and `pg_settings` does not show.
    pub(crate) fn hidden_settings(&self) -> &[Box<str>] {
        &self.catalog.hidden
    }

    /// Whether texts must be searched for names.
    pub(crate) fn matters(&self) -> bool {
        !self.holds || !self.catalog.names.is_empty()
    }

    /// Whether routines may keep plans whose constants depend on settings.
    pub(crate) fn may_read_constants(&self) -> bool {
        !self.holds || !self.catalog.reads_no_constants
    }

    /// Whether routines may keep plans.
    pub(crate) fn may_keep_plans(&self) -> bool {
        !self.holds || !self.catalog.keeps_no_plans
    }

    /// Whether the analysis of some statement may have effects.
    pub(crate) fn analysis_may_run(&self) -> bool {
        !self.holds || self.catalog.analysis_runs
    }

    /// Whether this is what [`Known::new`] would give.
    pub(crate) fn is(&self, catalog: &Arc<Catalog>, holds: bool) -> bool {
        Arc::ptr_eq(&self.catalog, catalog) && self.holds == holds
    }

    /// What a text may do because of the names in it. `of_text`: the effects that the text shows without its names.
    pub(crate) fn effects_of(&self, text: &[u8], of_text: Effects) -> Effects {
        self.effects_with(text, of_text, Effects::NONE)
    }

    /// [`Known::effects_of`]; `of_types`: what the values of its parameters may do.
    fn effects_with(&self, text: &[u8], of_text: Effects, of_types: Effects) -> Effects {
        let mut effects = self.catalog.names.effects_in(text) | of_types;
        if of_text.intersects(Effects::ROUTINES) && !self.knows_all_in(text) {
            effects |= UNKNOWN;
        }
        if (!effects.is_empty() || !self.holds) && pgweir_sql::is_definition(text) {
            effects | Effects::DEFINES
        } else {
            effects
        }
    }

    /// Whether the catalog contains all routines that a text calls. If the catalog is not up to date, these names may
    /// mean other routines by now: every text counts as code that is not read ([`Known::effects_of_any`]), but pins its
    /// client only if it calls a routine that the catalog does not contain.
    pub(crate) fn knows_all_in(&self, text: &[u8]) -> bool {
        self.catalog.knows_all(&pgweir_sql::called(text))
    }

    /// What every statement may do in addition: if the catalog is not up to date, anything.
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
        let of_types = self.catalog.effects_of_types(&statement.types);
        let effects = self.effects_with(&statement.query, statement.effects, of_types);
        self.verdicts.insert(statement.id, effects);
        effects
    }
}
