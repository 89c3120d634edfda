//! Portals and cursors that read `pg_prepared_statements`.
//!
//! PostgreSQL reads the view when the first row of a portal is asked for, which may be long after its Bind or DECLARE.
//! Until the transaction ends, each later text and Execute may be the one that asks for it. Before it runs, the server
//! must hold the client's names, and no internal ones, as before a text that reads the view itself.

use crate::base::message::Step;
use crate::exchange::Exchange;
use pgweir_sql::Effects;

impl Exchange<'_> {
    /// A text with these effects is about to run, or a portal to be bound to it.
    pub(super) fn may_list_later(&mut self, effects: Effects) {
        if effects.intersects(Effects::STATEMENTS) {
            self.client.statements.set_portals_may_list(true);
        }
    }

    /// Whether a portal or cursor that reads the view may be open. In a new transaction none is: what a cursor WITH HOLD
    /// returns was read when its transaction ended.
    pub(crate) fn portals_may_list(&mut self) -> bool {
        if !self.client.statements.portals_may_list() {
            return false;
        }
        let begins_anew = self.server.is_clean() && self.server.conversation.queue().is_empty();
        self.client.statements.set_portals_may_list(!begins_anew);
        !begins_anew
    }

    /// What a text may do because it may ask for rows of an open portal or cursor.
    pub(super) fn effects_of_open_portals(&mut self) -> Effects {
        match self.portals_may_list() {
            true => Effects::STATEMENTS,
            false => Effects::NONE,
        }
    }

    /// An Execute may read the view. `Some`: it must wait.
    #[cold]
    pub(crate) fn shows_names_now(&mut self) -> Option<Step> {
        if self.keeps_session() {
            if let Some(step) = self.waits_to_lend(Effects::STATEMENTS, b"") {
                return Some(step);
            }
            self.lend_names(Effects::STATEMENTS, b"");
        }
        self.to().hide_statements(None);
        None
    }
}
