//! Who pays for definitions: see [`crate::catalog::debt`].

use crate::base::message::Step;
use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::exchange::{Exchange, Wish};
use crate::session::catalogs::CatalogNews;
use crate::state::suspicion::Suspicion;
use pgweir_sql::Effects;

impl Exchange<'_> {
    /// A probe is sent. If the client has defined nothing itself, and the catalog is not up to date, it pays for the
    /// definitions of others.
    pub(super) fn pays_for_definitions(&mut self, about: &Suspicion) {
        let is_own = about.may_have(Effects::DEFINES) || self.server.session.has_definitions();
        if is_own || !about.may_have(Effects::CODE) || self.to().catalog_holds() {
            return;
        }
        let (database, now) = (self.pool.catalog_key().clone(), self.now);
        let state = self.shared.catalogs.of_mut(&database);
        if state.is_some_and(|state| state.costs_a_probe(now)) {
            self.shared.catalogs.definitions_must_wait(database.clone());
            let text = format!(
                "{database}: definitions have made too many probes of other clients necessary; the next ones wait for \
                 some seconds"
            );
            self.shared.log(LogLevel::Log, text);
        }
    }

    /// A message with these effects is about to be passed on. `Some`: it may be a definition that must wait until
    /// earlier ones cost nothing any more.
    #[inline]
    pub(super) fn asks_to_define(&mut self, effects: Effects) -> Option<Step> {
        let asks = self.shared.catalogs.may_definitions_wait()
            && effects.intersects(Effects::DEFINES)
            && !self.granted.definition;
        asks.then(|| self.wishes(Wish::Definition))
    }
}

impl CatalogNews<'_> {
    /// Whether a definition in the database of this pool must wait.
    pub(crate) fn must_definitions_wait(&mut self, now: Time, pool_id: PoolId) -> bool {
        let names = self.names_of(pool_id);
        let catalogs = &mut self.shared.catalogs;
        // All of them, because each forgets a debt that is paid off.
        names.iter().fold(false, |any, name| {
            let state = catalogs.of_mut(name);
            state.is_some_and(|state| state.must_definitions_wait(now)) | any
        })
    }
}
