//! What PostgreSQL runs when it only analyses a statement: at a Parse, or when a Describe needs the statement again.
//!
//! Analysis reads the constants of a text. To read a constant of an array, a row or a range that contains a domain, it
//! runs the checks of the domain: `select '{x}'::positive[]`, `insert into t values ('{x}')`. Nothing else of a
//! database runs then. So where no domain has effects, a Parse has none.

use crate::base::message::Step;
use crate::exchange::Exchange;
use crate::session::inspection::ONLY_ASKS;
use crate::statements::prepared::Statement;
use pgweir_sql::Effects;
use std::sync::Arc;

impl Exchange<'_> {
    /// PostgreSQL is about to analyse this statement.
    #[inline]
    pub(crate) fn suspect_analysis(&mut self, statement: &Arc<Statement>) {
        if self.to().analysis_may_run() && self.keeps_session() {
            self.suspect_checks(statement);
        }
    }

    /// PostgreSQL is about to analyse this statement. `Some`: it may define what flights run, and must wait for them.
    #[inline]
    pub(crate) fn analysis_waits(&mut self, statement: &Statement) -> Option<Step> {
        let may_run = self.to().analysis_may_run() && self.keeps_session();
        let defines = may_run && self.effects_of_analysis(statement).intersects(Effects::DEFINES);
        defines.then(|| self.asks_to_analyse()).flatten()
    }

    /// What the Parse or Describe of a text that names prepared statements must wait for.
    pub(crate) fn waits_to_name(&mut self, text: &[u8]) -> Option<Step> {
        let waits = self.waits_to_lend(Effects::PREPARE, text);
        let named = self.statements_mentioned(Effects::PREPARE, text);
        waits.or_else(|| named.iter().find_map(|statement| self.analysis_waits(statement)))
    }

    /// PostgreSQL is about to analyse the statements that this text, an EXECUTE, names.
    pub(crate) fn suspect_analysis_of_named(&mut self, text: &[u8]) {
        for statement in self.statements_mentioned(Effects::PREPARE, text) {
            self.suspect_analysis(&statement);
        }
    }

    #[cold]
    fn suspect_checks(&mut self, statement: &Arc<Statement>) {
        let effects = self.effects_of_analysis(statement);
        if effects.is_empty() {
            return;
        }
        self.to().runs_names_in(statement);
        let effects = self.to().before_text(effects, Some(statement.id)).without(ONLY_ASKS);
        if effects.is_empty() {
            return;
        }
        let hidden = self.settings_named(effects, &statement.query);
        self.suspect(effects, &statement.query, hidden);
        if effects.intersects(Effects::DEFINES) {
            self.analysis_may_publish();
        }
    }
}
