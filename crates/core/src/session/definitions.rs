//! Definitions on their way: requests that change what code a database runs.
//!
//! The catalog tells what a text does by the names in it ([`crate::catalog::code`]). But a text runs later than it is
//! read, and perhaps for long. Meanwhile another client may change a function that the text calls. So from the moment
//! when a request is sent that may *commit* a definition, until the catalog has been read again,
//!
//! - every text of the database counts as code that is not read, also those that servers are running: a probe follows,
//!   and what no probe can see is reset before another client gets the server,
//! - no flight boards, and servers with flights are closed when those have landed.
//!
//! A definition inside a transaction block does nothing to others before the block ends. Until then it affects only the
//! client that made it. The later texts of this client are read, because one of them may end the block. A transaction
//! that PREPARE TRANSACTION has ended may be committed by any client.

use crate::base::deeds::Deed;
use crate::base::message::{Message, Step};
use crate::exchange::{Exchange, Wish};
use crate::reply::Reply;
use crate::server_side::ServerSide;
use pgweir_sql::Effects;
use pgweir_wire::{Reader, TransactionStatus};

/// What SHOW PINS says about a client whose server ran a text while code was changed.
const CHANGED_MEANWHILE: &str = "(code that was changed while it ran)";

/// Stands for a text that is not known: COMMIT PREPARED of a transaction with definitions.
const MAY_OUTDATE_ALL: &[u8] = b"do 'alter role'";

impl ServerSide<'_> {
    /// Whether every text is read when it is about to run, and not only when it is prepared.
    fn reads_what_runs(&self) -> bool {
        self.shared.settings.keeps_sessions
            && self.pool.keeps_sessions()
            && self.shared.settings.max_prepared_statements > 0
    }

    /// Whether the next message surely runs inside a transaction block that no unanswered request can end. If a
    /// deferred BEGIN in front of it fails, it does not run.
    fn is_surely_in_block(&self) -> bool {
        let conversation = &self.server.conversation;
        let is_in_block = conversation.status() == TransactionStatus::InTransaction
            && !conversation.queue().segment_outstanding()
            && !conversation.queue().in_pipeline();
        self.reads_what_runs() && (is_in_block || conversation.is_beginning())
    }

    /// Whether a Query that is sent now is a transaction of its own, if its text has one statement.
    fn is_own_transaction(&self) -> bool {
        let conversation = &self.server.conversation;
        let queue = conversation.queue();
        conversation.status() == TransactionStatus::Idle
            && !conversation.is_beginning()
            && !queue.client_segment_outstanding()
            && !queue.in_pipeline()
    }
}

impl Exchange<'_> {
    /// A text that may change what code the database runs is about to be sent, or bound.
    #[cold]
    pub(crate) fn defines(&mut self, text: &[u8]) {
        let segment = self.server.conversation.queue().segments_sent();
        self.server.session.defines(pgweir_sql::outdates(text), segment);
        // From now on all texts of this server are read.
        let name = &self.pool.settings().server_database;
        self.shared.catalogs.defines(self.server_id, name);
    }

    /// A Query with these effects is about to be sent; `text` is `None` if it has not been read. `Some`: it may commit
    /// definitions, and must wait for flights.
    #[inline]
    pub(crate) fn asks_to_publish(&mut self, effects: Effects, text: Option<&[u8]>) -> Option<Step> {
        let may_concern = effects.intersects(Effects::DEFINES)
            || self.server.session.has_definitions()
            || self.shared.catalogs.may_be_prepared();
        let may_commit = may_concern && self.may_commit_definitions(effects, text);
        may_commit.then(|| self.asks_to_commit()).flatten()
    }

    #[cold]
    fn may_commit_definitions(&mut self, effects: Effects, text: Option<&[u8]>) -> bool {
        let concerns = effects.intersects(Effects::DEFINES)
            || self.server.session.has_definitions()
            || text.is_none_or(pgweir_sql::commits_prepared);
        let ends = text.is_none_or(pgweir_sql::may_end_block);
        concerns && (ends || !self.to().is_surely_in_block())
    }

    /// The next message may commit definitions. `Some`: it must wait for flights.
    fn asks_to_commit(&mut self) -> Option<Step> {
        let asks = !self.granted.publication && !self.server.session.may_publish();
        asks.then(|| self.wishes(Wish::Publication))
    }

    /// A Query is about to be sent; `text` is `None` if it has not been read. If its transaction has definitions, the
    /// Query may commit them.
    #[inline]
    pub(crate) fn query_may_publish(&mut self, text: Option<&[u8]>) {
        if self.concerns_definitions(text) {
            let ends = text.is_none_or(pgweir_sql::may_end_block);
            if ends || !self.to().is_surely_in_block() {
                self.publishes();
            }
        }
    }

    /// A statement is about to be bound to a portal. Only an Execute of the portal may commit definitions.
    #[inline]
    pub(crate) fn bind_may_publish(&mut self, portal: &[u8], text: &[u8], effects: Effects) {
        if self.concerns_definitions(Some(text)) {
            let harmless = !effects.intersects(Effects::DEFINES) && !pgweir_sql::may_end_block(text);
            self.server.session.binds_among_definitions(portal, harmless);
        }
    }

    /// Execute in a transaction with definitions. The pooler knows which statement the portal runs only if no other
    /// portal was bound later. `Some`: it must wait for flights.
    #[cold]
    pub(crate) fn execute_may_publish(&mut self, message: &Message<'_>) -> Option<Step> {
        let portal = Reader::new(message.body()).cstr().ok();
        let harmless = portal.is_some_and(|portal| self.server.session.is_harmless(portal));
        if harmless && self.to().is_surely_in_block() {
            return None;
        }
        let waits = self.asks_to_commit();
        if waits.is_none() {
            self.publishes();
        }
        waits
    }

    /// PostgreSQL is about to analyse a statement, which may change what code the database runs. `Some`: that must wait
    /// for flights.
    #[cold]
    pub(super) fn asks_to_analyse(&mut self) -> Option<Step> {
        if self.to().is_surely_in_block() {
            return None;
        }
        self.asks_to_commit()
    }

    /// PostgreSQL is about to analyse a statement, which may change what code the database runs. The next Sync may
    /// commit that.
    pub(super) fn analysis_may_publish(&mut self) {
        if !self.to().is_surely_in_block() {
            self.publishes();
        }
    }

    /// Whether the server's transaction has definitions, or the text commits some that were prepared.
    #[inline]
    fn concerns_definitions(&mut self, text: Option<&[u8]>) -> bool {
        if !self.server.session.has_definitions() && !self.shared.catalogs.may_be_prepared() {
            return false;
        }
        self.concerns_prepared(text)
    }

    #[cold]
    fn concerns_prepared(&mut self, text: Option<&[u8]>) -> bool {
        if self.server.session.has_definitions() {
            // Another client may commit the transaction.
            if text.is_none_or(pgweir_sql::prepares_transaction) {
                self.shared.catalogs.one_is_prepared();
            }
        } else if text.is_none_or(pgweir_sql::commits_prepared) {
            self.defines(MAY_OUTDATE_ALL);
        }
        if !self.to().is_own_transaction() {
            self.server.session.outdates_among_others();
        }
        self.server.session.has_definitions()
    }

    /// The next request may commit definitions.
    fn publishes(&mut self) {
        if self.server.session.publishes() {
            self.shared.catalogs.publishes(self.server_id);
            self.wish.get_or_insert(Wish::CatalogNews);
        }
    }

    /// Code that the client's unanswered texts run may be changed before they have ended.
    #[cold]
    pub(crate) fn code_may_change(&mut self) {
        let hidden = self.settings_of_functions();
        self.suspect_unread(Effects::CODE, CHANGED_MEANWHILE, hidden);
        self.server.runs_unknown_code(self.shared.statements.now());
    }
}

impl Reply<'_> {
    /// A request has been answered that may have committed definitions, or moved names.
    ///
    /// `failed`: it was a Query, which the server has refused.
    #[cold]
    pub(crate) fn note_changed_objects(&mut self, failed: bool) {
        let is_idle = self.server.conversation.status() == TransactionStatus::Idle;
        // The requests behind it may change more.
        let more = !self.server.conversation.queue().is_empty();
        if is_idle && self.server.session.take_moved_names(more) {
            self.server.held.names_have_moved(more);
            self.deeds.push(Deed::MoveNames);
        }
        if self.server.session.has_definitions() {
            self.note_definitions(is_idle, failed, more);
        }
    }

    fn note_definitions(&mut self, is_idle: bool, failed: bool, more: bool) {
        let goes_on = more || !is_idle && !self.to().reads_what_runs();
        self.server.session.definitions_answered(more || !is_idle, goes_on);
        if !self.server.session.has_definitions() {
            self.shared.catalogs.defines_no_more(self.id);
        }
        if self.shared.settings.keeps_sessions {
            self.deeds.push(Deed::DoubtCatalog);
            let segment = self.server.conversation.queue().segments_answered() - 1;
            if is_idle && let Some((of, is_sure)) = self.server.session.take_outdated(segment, failed, more) {
                self.deeds.push(Deed::ReplaceServers { of, is_sure });
            }
        }
    }
}
