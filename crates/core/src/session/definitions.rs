//! Definitions on their way: requests that change what code a database runs.
//!
//! The catalog tells what a text does by the names in it ([`crate::catalog::code`]). But a text runs later than it is
//! read, and perhaps for long. Meanwhile another client may change a function that the text calls. So from the moment
//! when a request is sent that may *commit* a definition, until the catalog has been read again,
//!
//! - every text of the database counts as code of unknown effect, also those that servers are running: a probe follows,
//!   and what no probe can see is reset before another client gets the server,
//! - no flight boards, and servers with flights are closed when those have landed.
//!
//! A definition inside a transaction block does nothing to others before the block ends. Until then only its own client
//! is affected, whose later texts are read for those that may end the block.

use crate::exchange::{Exchange, Wish};
use crate::reply::Reply;
use crate::server_side::ServerSide;
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;

/// What SHOW PINS says about a client whose server ran a text while code was changed.
const CHANGED_MEANWHILE: &[u8] = b"(code that was changed while it ran)";

impl ServerSide<'_> {
    /// Whether every text is read when it is about to run, and not only when it is prepared.
    fn reads_what_runs(&self) -> bool {
        self.shared.settings.keeps_sessions
            && self.pool.keeps_sessions()
            && self.shared.settings.max_prepared_statements > 0
    }

    /// Whether the server is surely inside a transaction block that no unanswered request can end.
    fn is_surely_in_block(&self) -> bool {
        let conversation = &self.server.conversation;
        self.reads_what_runs()
            && conversation.status == TransactionStatus::InTransaction
            && !conversation.queue.segment_outstanding()
            && !conversation.queue.in_pipeline()
    }
}

impl Exchange<'_> {
    /// A text that may change what code the database runs is about to be sent.
    #[cold]
    pub(crate) fn defines(&mut self, text: &[u8]) {
        let session = &mut self.server.session;
        session.defines = true;
        session.changes_defaults |= pgweir_sql::changes_defaults(text);
        // From now on all texts of this server are read.
        self.shared.catalogs.any_known = true;
        if !self.to().is_surely_in_block() || pgweir_sql::may_end_block(text) {
            self.publishes();
        }
    }

    /// A text is about to be sent: if it may end a block with definitions, these may be committed.
    #[inline]
    pub(crate) fn may_publish(&mut self, text: &[u8]) {
        if self.server.session.defines && pgweir_sql::may_end_block(text) {
            self.publishes();
        }
    }

    /// The next request may commit definitions.
    pub(crate) fn publishes(&mut self) {
        if !std::mem::replace(&mut self.server.session.publishes, true) {
            self.shared.catalogs.published.push(self.server_id);
            self.wish.get_or_insert(Wish::CatalogNews);
        }
    }

    /// Code that the client's unanswered texts run may be changed before they have ended.
    #[cold]
    pub(crate) fn code_may_change(&mut self) {
        let hidden = self.settings_of_functions();
        self.suspect(Effects::CODE, CHANGED_MEANWHILE, hidden);
        self.to().may_run(Effects::CODE);
        self.server.session.has_run_unknown_code();
    }
}

impl Reply<'_> {
    /// A request has been answered that may have committed definitions.
    #[cold]
    pub(crate) fn note_definitions(&mut self) {
        use crate::base::deeds::Deed;
        let is_idle = self.server.conversation.status == TransactionStatus::Idle;
        // The requests behind it may change more.
        let more = !self.server.conversation.queue.is_empty();
        let goes_on = more || !is_idle && !self.to().reads_what_runs();
        let session = &mut self.server.session;
        session.publishes &= goes_on;
        session.defines = more || !is_idle;
        if self.shared.settings.keeps_sessions {
            self.deeds.push(Deed::DoubtCatalog);
            if self.server.session.changes_defaults && is_idle {
                self.server.session.changes_defaults = more;
                self.deeds.push(Deed::ReplaceServers);
            }
        }
    }
}
