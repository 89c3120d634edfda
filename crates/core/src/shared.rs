//! What all connections of a pooler share.

use crate::base::outbox::Outbox;
use crate::base::request::{LogLevel, Request};
use crate::base::settings::Settings;
use crate::base::state_stats::StateStats;
use crate::catalog::catalog_reading::Catalogs;
use crate::session::session_state::ShapeTable;
use crate::statements::prepared::{OwnStatements, StatementTable};
use pgweir_config::Config;
use std::collections::VecDeque;
use std::sync::Arc;

/// What all connections share: what they write to, ask for, and know.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Settings,
    /// What is to be written to connections.
    pub(crate) outbox: Outbox,
    /// What the driver is to do.
    pub(crate) requests: VecDeque<Request>,
    /// Clients' prepared statements, by content.
    pub(crate) statements: StatementTable,
    pub(crate) own_statements: OwnStatements,
    pub(crate) shapes: ShapeTable,
    pub(crate) catalogs: Catalogs,
    pub(crate) state_stats: StateStats,
    /// The defect that was brought back.
    #[cfg(feature = "weaknesses")]
    pub(crate) weakness: Option<crate::base::weakness::Weakness>,
}

impl Shared {
    pub(crate) fn log(&mut self, level: LogLevel, text: String) {
        self.requests.push_back(Request::Log { level, text });
    }
}
