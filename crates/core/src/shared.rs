//! What all connections of a pooler share.

use crate::base::outbox::Outbox;
use crate::base::request::{LogLevel, Request};
use crate::base::secret_names::SecretNames;
use crate::base::settings::Settings;
use crate::base::state_stats::StateStats;
use crate::base::weakness::Weakness;
use crate::catalog::catalogs::Catalogs;
use crate::pools::sizing::Sizings;
use crate::state::difference::Change;
use crate::state::shape::Shape;
use crate::state::shape_table::ShapeTable;
use crate::statements::internal::InternalStatements;
use crate::statements::table::StatementTable;
use pgweir_config::Config;
use pgweir_sql::Effects;
use std::collections::VecDeque;
use std::sync::Arc;

/// What all connections share: the outbox, requests to the driver, settings, tables.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Settings,
    /// What is to be written to connections.
    pub(crate) outbox: Outbox,
    /// Requests to the driver.
    pub(crate) requests: VecDeque<Request>,
    /// Clients' prepared statements, by content.
    pub(crate) statements: StatementTable,
    pub(crate) internal: InternalStatements,
    pub(crate) shapes: ShapeTable,
    pub(crate) catalogs: Catalogs,
    pub(crate) state_stats: StateStats,
    /// Limits on servers at work.
    pub(crate) sizings: Sizings,
    /// Pools wait for places under limits that they share: see [`Line`](crate::pools::places::Line).
    pub(crate) some_are_in_line: bool,
    /// The defect that has been brought back.
    #[cfg(feature = "weaknesses")]
    pub(crate) weakness: Option<crate::base::weakness::Weakness>,
}

impl Shared {
    /// Tables without clients' statements, shapes and catalogs. `internal` are the internal statements, whose names
    /// come from `names`.
    pub(crate) fn new(config: Arc<Config>, names: SecretNames, internal: InternalStatements) -> Self {
        Shared {
            settings: Settings::new(&config),
            config,
            outbox: Outbox::default(),
            requests: VecDeque::new(),
            statements: StatementTable::new(names),
            internal,
            shapes: ShapeTable::new(),
            catalogs: Catalogs::default(),
            state_stats: StateStats::default(),
            sizings: Sizings::default(),
            some_are_in_line: false,
            #[cfg(feature = "weaknesses")]
            weakness: None,
        }
    }

    /// Whether this defect has been brought back.
    #[inline(always)]
    pub(crate) fn is_weak(&self, weakness: Weakness) -> bool {
        #[cfg(feature = "weaknesses")]
        return self.weakness == Some(weakness);
        #[cfg(not(feature = "weaknesses"))]
        {
            let _ = weakness;
            false
        }
    }

    pub(crate) fn log(&mut self, level: LogLevel, text: String) {
        self.requests.push_back(Request::Log { level, text });
    }

    /// What a text with these effects may do because of the names in it.
    pub(crate) fn mentioned(&mut self, found: Effects, effects: Effects) -> Effects {
        // The text of an EXECUTE does not contain the names that are in the text of its statement.
        let executes = effects.intersects(Effects::PREPARE);
        let found = if executes { found | Effects::CODE } else { found };
        self.state_stats.mentions += u64::from(!found.is_empty());
        found
    }

    /// A shape after these changes. Reported settings are left out, because the server
    /// itself reports their new values.
    pub(crate) fn shape_with(&mut self, shape: &Arc<Shape>, set: &[Change]) -> Arc<Shape> {
        let reported = |name: &str| shape.get(name).is_some_and(|s| s.is_reported());
        // The report of a value beyond ASCII may be in another encoding than the database's.
        let beyond_ascii = |value: &Option<Arc<str>>| value.as_ref().is_some_and(|value| !value.is_ascii());
        let changes = set
            .iter()
            .filter(|(name, value)| !reported(name) || beyond_ascii(value));
        self.shapes
            .change(shape, changes.map(|(name, value)| (&**name, value.as_deref(), false)))
    }
}
