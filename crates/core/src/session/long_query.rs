//! Queries that are too long to be kept. They pass while they arrive, and their text is judged without its constants
//! when its last byte is forwarded: PostgreSQL runs nothing before that byte.
//!
//! Nothing can be sent in front of such a text any more. So a text is kept until it is complete, and then handled like
//! a short one, if its beginning shows that it uses names of prepared statements or reads `pg_prepared_statements`. If
//! only a later part shows that, or if the text is longer than [`STATEMENT_BYTES_MAX`], the server is made to refuse
//! it: its last byte, the zero behind the text, is replaced.

use crate::base::message::{Message, STATEMENT_BYTES_MAX, Step};
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::session::inspection::ONLY_ASKS;
use crate::statements::prepared::UNREAD;
use pgweir_sql::{Condensed, Effects, SearchPath};
use pgweir_wire::Writer;
use pgweir_wire::write::ErrorText;

/// As much of a long Query is read before any of it is passed on.
const BEGINNING_BYTES: usize = 4096;

/// The SQLSTATE of PostgreSQL's refusal of a Query without a zero byte at its end.
const NOT_ENDED: [u8; 5] = *b"08P01";

const STATEMENTS: &str = "a long query cannot name prepared statements or read pg_prepared_statements";
const CHANNELS: &str = "a long query cannot end or list the channels of LISTEN";

/// What becomes of a Query that is too long to be kept.
pub(crate) enum LongQuery {
    /// It is kept all the same, until it is complete.
    IsKept,
    /// It passes while it arrives. This much of it has been read.
    Passes(Box<Condensed>),
}

impl Exchange<'_> {
    /// Decides about a Query of which nothing has been passed on.
    #[cold]
    pub(crate) fn begins_long(&mut self, message: &Message<'_>) -> LongQuery {
        let mut condensed = Box::<Condensed>::default();
        condensed.feed(message.body());
        let may_be_kept = message.is_whole() || message.total <= STATEMENT_BYTES_MAX;
        let is_short_yet = !message.is_whole() && message.bytes.len() < BEGINNING_BYTES;
        if may_be_kept && (is_short_yet || self.uses_names_of(&condensed)) {
            return LongQuery::IsKept;
        }
        LongQuery::Passes(condensed)
    }

    /// Whether a text must not run before the names of prepared statements that it uses are known to the server, or
    /// before others are hidden from it.
    fn uses_names_of(&mut self, condensed: &Condensed) -> bool {
        let reads_view = |effects: Effects| effects.intersects(Effects::STATEMENTS);
        let Some(text) = condensed.so_far() else {
            // The text may contain any name of the database.
            let known = self.pool.catalog();
            return condensed.lists_statements() || known.is_some_and(|k| reads_view(k.effects_of_all_names()));
        };
        let effects = pgweir_sql::effects(text);
        let known = self.pool.catalog();
        let found = known.map_or(Effects::NONE, |known| known.effects_of_names_in(text));
        reads_view(effects | found)
            || effects.intersects(Effects::PREPARE)
                && self.keeps_session()
                && !self.statements_mentioned(Effects::PREPARE, text).is_empty()
    }

    /// Inspects the beginning of a Query that passes while it arrives.
    #[cold]
    pub(crate) fn inspect_long(
        &mut self,
        message: &Message<'_>,
        condensed: Option<Box<Condensed>>,
    ) -> Result<Effects, Step> {
        if self.shared.catalogs.may_definitions_wait()
            && pgweir_sql::is_definition(message.body())
            && let Some(step) = self.asks_to_define(Effects::DEFINES)
        {
            return Err(step);
        }
        if message.is_whole()
            && let Some(step) = self.asks_to_publish(Effects::DEFINES, None)
        {
            return Err(step);
        }
        if self.keeps_session() {
            // Whether the text calls currval() or lastval() is known only after it has passed.
            if let Some(step) = self.runs_any_code(Effects::CODE, message) {
                return Err(step);
            }
        }
        self.client.long_text = Some(condensed.unwrap_or_else(|| {
            let mut condensed = Box::<Condensed>::default();
            condensed.feed(message.body());
            condensed
        }));
        if message.is_whole() {
            self.long_text_ends();
        }
        Ok(Effects::ALL)
    }

    /// The last byte of a long Query has come; its first bytes were sent before. Returns whether the text may run. If
    /// not, the last byte must be replaced: then the server refuses the text, and the client gets another error.
    /// `concerns_channels`: the text may ask for or end channels that the client does not have on its server.
    #[cold]
    pub(crate) fn sent_text_ends(&mut self, concerns_channels: bool) -> bool {
        let condensed = self.client.long_text.take();
        let uses_names = condensed.as_ref().is_some_and(|c| self.uses_names_of(c));
        self.client.long_text = condensed;
        if uses_names || concerns_channels {
            self.client.long_text = None;
            self.refuse_long(if uses_names { STATEMENTS } else { CHANNELS });
            return false;
        }
        let before = self.client.session.suspected_texts();
        self.long_text_ends();
        self.note_suspected(before);
        true
    }

    /// The client gets this error instead of the server's.
    fn refuse_long(&mut self, message: &'static str) {
        let mut reply = Vec::new();
        Writer::new(&mut reply).error(&ErrorText {
            severity: "ERROR",
            sqlstate: "54000",
            message,
            detail: "The text is longer than 64 kB, and its beginning was sent before this was known.",
            hint: "Send this statement in a query of its own, or put it at the beginning of a text of at most 1 MB.",
        });
        self.server
            .conversation
            .queue_mut()
            .last_query_is_refused(NOT_ENDED, reply);
    }

    /// The last byte of a long Query is on its way.
    #[cold]
    fn long_text_ends(&mut self) {
        let condensed = self.client.long_text.take();
        let Some(condensed) = condensed.filter(|_| !self.shared.is_weak(Weakness::TrustsLongTexts)) else {
            return;
        };
        let Some(text) = condensed.finish() else {
            self.may_move_names(Effects::NAMES);
            match self.keeps_session() {
                true => self.suspect_unread(UNREAD, "(a long statement)", Vec::new()),
                false => {
                    self.to().note_traces(UNREAD);
                    self.defines(b"");
                }
            }
            return self.query_may_publish(None);
        };
        let effects = pgweir_sql::effects(&text);
        let mut effects = self.effects_of_names(&text, effects);
        self.may_move_names(effects);
        if !self.keeps_session() {
            return self.note_in_session_pool(effects, &text);
        }
        if effects.intersects(SearchPath::SETS) {
            // The value may be among the constants that were left out.
            effects |= Effects::TEMPORARY;
        }
        effects = effects.without(ONLY_ASKS);
        if effects.intersects(Effects::PASSES | Effects::PREPARE) {
            effects = effects.without(Effects::PASSES) | pgweir_sql::UNREAD;
        }
        if !effects.is_empty() {
            self.suspect_text(effects, &text, Vec::new());
        }
        self.query_may_publish(Some(&text));
    }
}
