//! What statements may do by the names they mention: the catalog of their database tells (see [`crate::catalog`]).

use crate::catalog::Catalog;
use crate::ids::{ClientId, ServerId};
use crate::pooler::Pooler;
use crate::prepared::Statement;
use foldhash::fast::RandomState;
use pgweir_sql::Effects;
use std::collections::HashMap;
use std::sync::Arc;

/// Verdicts on prepared statements that a pool keeps; beyond it, it forgets all and looks again.
const VERDICTS_MAX: usize = 4096;

/// What a pool knows of its database; there where some name matters, or where nothing is known.
#[derive(Debug)]
pub(crate) struct Known {
    catalog: Arc<Catalog>,
    /// Whether it still holds.
    holds: bool,
    /// Of prepared statements, by id.
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

    /// Whether this is what [`Known::new`] would give.
    pub(crate) fn is(&self, catalog: &Arc<Catalog>, holds: bool) -> bool {
        Arc::ptr_eq(&self.catalog, catalog) && self.holds == holds
    }

    fn effects_of(&self, text: &[u8]) -> Effects {
        let effects = self.catalog.names.effects_in(text);
        if (!effects.is_empty() || !self.holds) && pgweir_sql::is_definition(text) {
            effects | Effects::DEFINES
        } else {
            effects
        }
    }

    /// What any statement may do as well: where what is known does not hold, anything.
    fn effects_of_any(&self) -> Effects {
        if self.holds { Effects::NONE } else { Effects::CODE }
    }

    fn effects_of_prepared(&mut self, statement: &Statement) -> Effects {
        if let Some(&known) = self.verdicts.get(&statement.id) {
            return known;
        }
        if self.verdicts.len() >= VERDICTS_MAX {
            self.verdicts.clear();
        }
        let effects = self.effects_of(&statement.query);
        self.verdicts.insert(statement.id, effects);
        effects
    }
}

impl Pooler {
    /// Whether statements of this server's client must be looked at for names.
    #[inline(always)]
    pub(crate) fn knows_names(&self, server_id: ServerId) -> bool {
        self.catalogs.any_known && self.pool_knows_names(server_id)
    }

    #[cold]
    fn pool_knows_names(&self, server_id: ServerId) -> bool {
        self.servers
            .get(server_id.0)
            .and_then(|s| self.pools[s.pool as usize].as_ref())
            .is_some_and(|pool| pool.catalog.is_some())
    }

    /// Whether a text mentions a function that listens, or ends listening.
    pub(crate) fn names_listen(&mut self, server_id: ServerId, text: &[u8]) -> bool {
        self.known_by(server_id)
            .is_some_and(|known| known.effects_of(text).intersects(Effects::LISTEN))
    }

    /// What a Query may do by the names it mentions; `effects` are those of the text itself.
    pub(crate) fn effects_of_names(&mut self, server_id: ServerId, text: &[u8], effects: Effects) -> Effects {
        let Some(known) = self.known_by(server_id) else {
            return Effects::NONE;
        };
        let (found, any) = (known.effects_of(text), known.effects_of_any());
        self.may_run(server_id, found);
        self.mentioned(found, effects) | any
    }

    /// The same of a prepared statement; the verdict is kept.
    pub(crate) fn effects_of_names_in(&mut self, server_id: ServerId, statement: &Statement) -> Effects {
        let Some(known) = self.known_by(server_id) else {
            return Effects::NONE;
        };
        let (found, any) = (known.effects_of_prepared(statement), known.effects_of_any());
        self.mentioned(found, statement.effects) | any
    }

    fn mentioned(&mut self, found: Effects, effects: Effects) -> Effects {
        // EXECUTE mentions nothing that its statement does.
        let executes = effects.intersects(Effects::PREPARE);
        let found = if executes { found | Effects::CODE } else { found };
        self.state_stats.mentions += u64::from(!found.is_empty());
        found
    }

    /// A prepared statement is going to be executed.
    pub(crate) fn runs_names_in(&mut self, server_id: ServerId, statement: &Statement) {
        if let Some(known) = self.known_by(server_id) {
            let found = known.effects_of_prepared(statement);
            self.may_run(server_id, found);
        }
    }

    fn may_run(&mut self, server_id: ServerId, found: Effects) {
        self.server_mut(server_id).may_set(found);
        if found.intersects(Effects::CODE) {
            self.doubt_statements(server_id);
        }
    }

    /// Whether what is known of the server's database is as it is now.
    pub(crate) fn catalog_holds(&mut self, server_id: ServerId) -> bool {
        self.known_by(server_id).is_none_or(|known| known.holds)
    }

    fn known_by(&mut self, server_id: ServerId) -> Option<&mut Known> {
        let pool_id = self.servers.get(server_id.0)?.pool;
        self.pool_mut(pool_id).catalog.as_deref_mut()
    }

    /// Settings that functions of this client's database make and `pg_settings` does not show.
    pub(crate) fn settings_of_functions(&self, id: ClientId) -> Vec<Box<str>> {
        let pool = self.clients.get(id.0).and_then(|c| c.pool);
        let known = pool.and_then(|p| self.pool(p).catalog.as_ref());
        known.map_or_else(Vec::new, |k| k.catalog.hidden.clone())
    }
}
