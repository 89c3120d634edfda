//! What a text may do by the names that it mentions, according to the catalog of its database.

use crate::catalog::known::{Known, UNKNOWN};
use crate::exchange::{Exchange, Wish};
use crate::server_side::ServerSide;
use crate::statements::prepared::Statement;
use pgweir_sql::{Effects, Passed};

impl ServerSide<'_> {
    /// Whether statements of this server's client must be looked at for names.
    #[inline(always)]
    pub(crate) fn knows_names(&self) -> bool {
        self.shared.catalogs.may_know_names() && self.pool_knows_names()
    }

    #[cold]
    fn pool_knows_names(&self) -> bool {
        self.server.session.has_definitions() || self.pool.catalog_matters()
    }

    /// Whether the analysis of some statement may have effects.
    #[inline(always)]
    pub(crate) fn analysis_may_run(&self) -> bool {
        self.shared.catalogs.may_know_names() && self.pool.catalog().is_some_and(|known| known.analysis_may_run())
    }

    /// Whether a text mentions a function that calls LISTEN or UNLISTEN.
    pub(crate) fn names_listen(&mut self, text: &[u8]) -> bool {
        self.known_by()
            .is_some_and(|known| known.effects_of(text, Effects::NONE).intersects(Effects::LISTEN))
    }

    /// The settings that a text names in calls of routines that use an argument as the name of a setting.
    pub(crate) fn settings_passed(&mut self, text: &[u8]) -> Passed {
        self.known_by()
            .map(|known| known.settings_passed_in(text))
            .unwrap_or_default()
    }

    /// A prepared statement is about to be executed.
    pub(crate) fn runs_names_in(&mut self, statement: &Statement) {
        if let Some(known) = self.known_by() {
            let found = known.effects_of_prepared(statement);
            self.may_run(found);
        }
    }

    /// What a statement may do because of the names in it.
    pub(crate) fn effects_of_mentioned(&mut self, statement: &Statement) -> Effects {
        if !self.knows_names() {
            return Effects::NONE;
        }
        self.known_by()
            .map_or(Effects::NONE, |known| known.effects_of_prepared(statement))
    }

    /// Routines that a text mentions may do this. The pooler does not see a DEALLOCATE and a PREPARE in a routine, as
    /// it does in a text: they may replace a statement.
    fn may_run(&mut self, found: Effects) {
        self.server.may_set(found, self.shared.statements.now());
        if found.intersects(Effects::CODE | Effects::PREPARE | Effects::ENDS) {
            self.doubt_statements();
        }
    }

    /// Whether a text that has no effects by itself mentions no name with effects, as far as an up-to-date catalog
    /// shows.
    pub(crate) fn mentions_nothing(&mut self, text: &[u8]) -> bool {
        let is_nothing = |known: &mut Known| known.holds() && known.effects_of(text, Effects::NONE).is_empty();
        !self.knows_names() || self.known_by().is_none_or(is_nothing)
    }

    /// Like [`ServerSide::mentions_nothing`], for a prepared statement.
    pub(crate) fn mentions_nothing_in(&mut self, statement: &Statement) -> bool {
        let is_nothing = |known: &mut Known| known.holds() && known.effects_of_prepared(statement).is_empty();
        !self.knows_names() || self.known_by().is_none_or(is_nothing)
    }

    /// Whether the catalog that is known of the server's database is up to date.
    pub(crate) fn catalog_holds(&mut self) -> bool {
        self.known_by().is_none_or(|known| known.holds())
    }

    fn known_by(&mut self) -> Option<&mut Known> {
        self.pool.catalog_mut()
    }
}

impl Exchange<'_> {
    /// What a Query may do, including the effects of the names that it mentions; `effects` are those
    /// of the text itself.
    pub(crate) fn effects_of_names(&mut self, text: &[u8], effects: Effects) -> Effects {
        let own = effects.without(Effects::ROUTINES);
        let Some(known) = self.to().pool.catalog_mut() else {
            return own;
        };
        if !known.matters() && !effects.intersects(Effects::ROUTINES) {
            return own;
        }
        let (found, any) = (known.effects_of(text, effects), known.effects_of_any());
        self.to().may_run(found);
        self.meets_unknown(found);
        self.runs_any(any);
        (own | self.shared.mentioned(found, effects) | any).without(Effects::ROUTINES)
    }

    /// A text runs; `any`: what every text may do, because the catalog is not up to date.
    fn runs_any(&mut self, any: Effects) {
        if !any.is_empty() && self.keeps_session() {
            self.server.runs_unknown_code(self.shared.statements.now());
        }
    }

    /// A text calls a routine that the catalog does not know: the routine was created after the reading.
    fn meets_unknown(&mut self, found: Effects) {
        if found.contains(UNKNOWN) {
            let now = self.now;
            self.to().catalog_may_be_old(now);
            self.wish.get_or_insert(Wish::CatalogNews);
        }
    }

    /// What a prepared statement may do, including the effects of the names that it mentions; the
    /// verdict is kept.
    pub(crate) fn effects_of_names_in(&mut self, statement: &Statement) -> Effects {
        let own = statement.effects.without(Effects::ROUTINES);
        let Some(known) = self.to().pool.catalog_mut() else {
            return own;
        };
        if !known.matters() && !statement.effects.intersects(Effects::ROUTINES) {
            return own;
        }
        let (found, any) = (known.effects_of_prepared(statement), known.effects_of_any());
        self.meets_unknown(found);
        self.runs_any(any);
        (own | self.shared.mentioned(found, statement.effects) | any).without(Effects::ROUTINES)
    }

    /// What the analysis of a statement may do: at most what the names in it do.
    pub(super) fn effects_of_analysis(&mut self, statement: &Statement) -> Effects {
        let Some(known) = self.to().pool.catalog_mut() else {
            return Effects::NONE;
        };
        if !known.analysis_may_run() {
            return Effects::NONE;
        }
        let (found, any) = (known.effects_of_prepared(statement), known.effects_of_any());
        self.meets_unknown(found);
        self.runs_any(any);
        // An argument that names a setting is used only when the routine runs.
        (self.shared.mentioned(found, Effects::NONE) | any).without(Effects::ROUTINES | Effects::PASSES)
    }

    /// Settings that functions of this client's database set and `pg_settings` does not show.
    pub(crate) fn settings_of_functions(&self) -> Vec<Box<str>> {
        let known = self.pool.catalog();
        known.map_or_else(Vec::new, |k| k.hidden_settings().to_vec())
    }
}
