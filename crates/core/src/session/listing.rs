//! Portals and cursors that read `pg_prepared_statements`.
//!
//! PostgreSQL reads the view when the first row of a portal or cursor is asked for, which may be long after its Bind or
//! DECLARE. Before an Execute or a text that may ask for it, the server must hold the client's names, and no internal
//! ones, as before a text that reads the view itself.

use crate::base::message::Step;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::statements::held::Moment;
use crate::statements::prepared::Statement;
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

impl Exchange<'_> {
    /// A text with these effects is about to run, or is bound to `portal`.
    pub(super) fn may_list_later(&mut self, effects: Effects, text: &[u8], portal: Option<&[u8]>) {
        if !effects.intersects(Effects::STATEMENTS) || self.shared.is_weak(Weakness::ListsAtBind) {
            return;
        }
        if let Some(portal) = portal {
            self.client.statements.binds_listing(portal);
        }
        if effects.intersects(Effects::CODE) || pgweir_sql::contains(text, b"declare") {
            self.client.statements.opens_listing_cursor();
        }
    }

    /// In a new transaction there are no portals, and no cursors whose rows have not been read.
    pub(crate) fn forgets_portals(&mut self) {
        if self.client.statements.has_careful_portals() && self.server.is_clean() && !self.server.owes_client() {
            self.client.statements.portals_are_gone();
        }
    }

    /// What a Query may do because it may ask for rows of an open cursor.
    pub(super) fn effects_of_open_cursors(&self) -> Effects {
        match self.client.statements.cursors_may_list() {
            true => Effects::STATEMENTS,
            false => Effects::NONE,
        }
    }

    /// A statement is bound to a portal. FETCH, MOVE and code may ask for rows of an open cursor, and so does what ends
    /// the transaction: the rows of cursors WITH HOLD are read then.
    pub(super) fn may_fetch_later(&mut self, statement: &Statement, portal: &[u8]) {
        if !self.effects_of_open_cursors().is_empty()
            && (statement.effects.intersects(Effects::CODE)
                || pgweir_sql::belongs_to_session(&statement.query)
                || pgweir_sql::may_end_block(&statement.query))
        {
            self.client.statements.binds_listing(portal);
        }
    }

    /// A statement is about to be parsed or described. If it reads the view, the names are lent now if the segment has not
    /// begun: in the segment, a name that cannot be prepared again would be the client's error. `Some`: it must wait.
    #[cold]
    pub(crate) fn lends_before_segment(&mut self, statement: &Statement) -> Option<Step> {
        let effects = statement.effects | self.to().effects_of_mentioned(statement);
        if self.is_in_segment() || !effects.intersects(Effects::STATEMENTS) || !self.keeps_session() {
            return None;
        }
        let waits = self.waits_to_lend(Effects::STATEMENTS, b"");
        if waits.is_none() {
            self.lend_names(Effects::STATEMENTS, b"");
        }
        waits
    }

    /// Whether the client has begun a segment. A deferred BEGIN does not count.
    fn is_in_segment(&self) -> bool {
        let conversation = &self.server.conversation;
        conversation.queue().segment_open() && !conversation.is_beginning()
    }

    /// Names are about to be lent to a text with these effects. In the midst of a segment, names that this
    /// server has refused to prepare are left out, and those that were lent a moment ago and may still be refused.
    pub(crate) fn leaves_out_what_fails(&mut self, effects: Effects, names: &mut Vec<(Arc<Statement>, Moment)>) {
        if effects.intersects(Effects::STATEMENTS) && self.is_in_segment() {
            let held = &self.server.held;
            names.retain(|(named, _)| !held.was_refused(named.id) && !held.may_refuse(named.id));
        }
    }

    /// An Execute may read the view. Names were lent when its portal was bound, or its cursor declared: only statements
    /// that were prepared on the server since have other names there. What the server holds under the client's own name
    /// is not prepared again, though it may be outdated: its table may be gone. `Some`: it must wait.
    #[cold]
    pub(crate) fn shows_names_now(&mut self) -> Option<Step> {
        // In a failed transaction nothing can be prepared, and ROLLBACK asks for no rows.
        let failed = self.server.conversation.status() == TransactionStatus::Failed;
        if self.keeps_session() && !failed {
            if let Some(step) = self.waits_to_lend(Effects::STATEMENTS, b"") {
                return Some(step);
            }
            let mut names = self.client_named_in(Effects::STATEMENTS, b"");
            let (held, client) = (&self.server.held, &self.client.statements);
            names.retain(|(named, since)| {
                let meant = client.meaning_of(named.server_name());
                let has_other_name = || !held.holds(named.id) && meant.is_some_and(|of| held.holds(of.id));
                held.is_as_good_as(named.id, *since) || has_other_name()
            });
            self.leaves_out_what_fails(Effects::STATEMENTS, &mut names);
            self.lend_all(Effects::STATEMENTS, b"", names);
        }
        self.to().hide_statements(None);
        None
    }
}
