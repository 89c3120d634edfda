//! Reading statements, on their way to a server, for what they may do to the session.
//!
//! Only `session_state = full` does this. The verdict on a prepared statement is kept with the statement; a Query is
//! read each time. A text that is too long to be read counts as code that is not read, except for a Query
//! ([`crate::session::long_query`]).

use crate::base::message::{Message, Step};
use crate::base::reasons::Waiting;
use crate::catalog::known::Known;
use crate::exchange::{Exchange, Wish};
use crate::preparing::client_named::Mentioned;
use crate::server_side::ServerSide;
use crate::session::sequences::ASKS_LAST;
use crate::statements::prepared::{Statement, UNREAD};
use crate::upstream::entry::{Entry, Ready};
use pgweir_sql::{Effects, Returns, SearchPath};

/// The longest name of a custom setting that is looked for among constants and values, bytes.
const SETTING_NAME_BYTES_MAX: usize = 128;

/// The most constants of a text that are taken for names of settings.
const NAMED_SETTINGS_MAX: usize = 32;

/// `lo_open`, `lo_close`, `loread`, `lowrite` and the others of libpq's, by number: they leave nothing in the session.
const LARGE_OBJECTS: [u32; 14] = [715, 764, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172];

/// Effects that change nothing in the session, so that no probe has to ask about them.
pub(super) const ONLY_ASKS: Effects = Effects::DRAWS
    .union(Effects::DRAWN)
    .union(Effects::STATEMENTS)
    .union(Effects::TEMPORARY_SCHEMA)
    .union(Effects::CURRENT_SETTING)
    .union(Effects::LOCAL)
    .union(Effects::READING)
    .union(Effects::NAMES)
    .union(Effects::TRAPS_CANCEL)
    .union(Effects::FOLDS);

impl ServerSide<'_> {
    /// Does what must be done before a text with these effects runs, and returns the effects that a probe must ask
    /// about afterwards. `runs` is the statement, if it is a prepared one.
    pub(super) fn before_text(&mut self, effects: Effects, runs: Option<u64>) -> Effects {
        if effects.intersects(Effects::STATEMENTS) {
            self.hide_statements(runs);
        }
        effects.without(ONLY_ASKS)
    }

    /// The session is about to read `pg_prepared_statements`: statements under internal names are closed, and prepared
    /// again before their next use.
    pub(crate) fn hide_statements(&mut self, but: Option<u64>) {
        for statement in self.server.held.all_under_internal_names() {
            if Some(statement.id) != but {
                self.close_held(&statement);
            }
        }
        if self.server.held.may_keep_text() {
            // A failed internal PREPARE may have left this statement.
            let preparing = self.shared.internal.names.preparing.clone();
            self.close_name(&preparing);
        }
    }
}

impl Exchange<'_> {
    /// Whether this client's session follows it from server to server.
    pub(crate) fn keeps_session(&self) -> bool {
        self.shared.settings.keeps_sessions && self.pool.keeps_sessions()
    }

    /// Whether texts are read for what they do to sessions, in session pooling too.
    #[inline]
    pub(crate) fn looks_at_texts(&self) -> bool {
        self.shared.settings.keeps_sessions && self.pool.nature().is_postgresql()
    }

    /// Inspects a text that is about to be passed on. Returns its effects, or the step if its message is not passed on
    /// yet. `text` is `None` if it is too long to be read.
    pub(crate) fn inspect_text(
        &mut self,
        message: &Message<'_>,
        text: Option<&[u8]>,
        verdict: &pgweir_sql::Statement,
    ) -> Result<Effects, Step> {
        let is_whole = text.is_some();
        let Some(text) = text.filter(|text| !self.may_be_misread(text)) else {
            if is_whole && self.keeps_session() && self.will_know_encoding() {
                return Err(self.waits_for_replies());
            }
            let waits = self.unread_waits().or_else(|| self.runs_unread(message));
            return waits.map_or(Ok(Effects::ALL), Err);
        };
        if let pgweir_sql::Statement::SetLocal(name) = verdict {
            self.note_custom_setting(std::str::from_utf8(name).unwrap_or_default());
        }
        self.forgets_portals();
        let effects = crate::base::secret_names::effects_of(text) | self.effects_of_open_cursors();
        self.may_move_names(effects);
        let looks = !effects.is_empty() || self.to().knows_names();
        if looks && let Some(step) = self.inspect_effects(message, effects, text, verdict) {
            return Err(step);
        }
        Ok(effects)
    }

    /// A text that is not read may be about to run. `Some`: it must wait. Nothing may have been sent for its message
    /// before: the answer would have to be awaited, and the message would send it again.
    #[cold]
    pub(crate) fn unread_waits(&mut self) -> Option<Step> {
        let waits = self.asks_to_define(Effects::DEFINES);
        waits.or_else(|| self.asks_to_publish(Effects::DEFINES, None))
    }

    /// A text that is not read is about to run, and need not wait for other connections. `Some`: it is not passed on
    /// now.
    #[cold]
    pub(crate) fn runs_unread(&mut self, message: &Message<'_>) -> Option<Step> {
        if self.keeps_session() {
            if let Some(step) = self.runs_any_code(UNREAD, message) {
                return Some(step);
            }
            self.suspect_unread(UNREAD, "(a statement that is not read)", Vec::new());
        } else {
            self.defines(b"");
        }
        self.query_may_publish(None);
        self.may_move_names(Effects::NAMES);
        None
    }

    /// A text with these effects is about to be sent.
    pub(super) fn may_move_names(&mut self, effects: Effects) {
        if effects.intersects(Effects::NAMES) {
            self.server.moves_names(self.shared.statements.now());
        }
    }

    /// What matters to other clients in session pooling: traces that no reset removes, and definitions.
    pub(super) fn note_in_session_pool(&mut self, effects: Effects, text: &[u8]) {
        self.to().note_traces(effects);
        if effects.intersects(Effects::DEFINES) {
            self.defines(text);
        }
        self.query_may_publish(Some(text));
    }

    /// `Some`: the text is not passed on now. Usually it is inspected again later, perhaps on another server.
    #[cold]
    fn inspect_effects(
        &mut self,
        message: &Message<'_>,
        effects: Effects,
        text: &[u8],
        verdict: &pgweir_sql::Statement,
    ) -> Option<Step> {
        let of_text = effects;
        let effects = self.effects_of_names(text, effects);
        if let Some(step) = self.asks_to_define(effects) {
            return Some(step);
        }
        let with_named = self.with_effects_of_named(effects, text, verdict);
        if let Some(step) = self.asks_to_publish(with_named, Some(text)) {
            return Some(step);
        }
        if !self.keeps_session() {
            self.to().before_text(effects, None);
            self.note_in_session_pool(effects, text);
            return None;
        }
        if effects.intersects(ASKS_LAST) && self.wants_own_server() {
            return Some(self.wishes(Wish::OwnServer));
        }
        if !ends_statements(verdict)
            && let Some(step) = self.minds_sequences(message, of_text, effects, text)
        {
            return Some(step);
        }
        let uses_names = uses_names(verdict);
        let effects = self.adds_reading_names(effects, text);
        if uses_names && let Some(step) = self.waits_to_lend(effects, text) {
            return Some(step);
        }
        let mut mentioned = if uses_names {
            self.lend_names(effects, text)
        } else {
            Mentioned::default()
        };
        mentioned.effects |= self.effects_of_unknown(effects, text, verdict);
        let effects = SearchPath::adds_to(effects, text, None);
        self.may_list_later(effects | mentioned.effects, text, None);
        let effects = self.to().before_text(effects | mentioned.effects, None);
        let effects = self.adds_untold(effects, text, verdict, &mut mentioned);
        let effects = if self.follows_names_in(verdict, text) {
            effects.without(Effects::PREPARE)
        } else {
            effects
        };
        if !effects.is_empty() {
            self.suspect_text(effects, text, mentioned.hidden);
        }
        self.query_may_publish(Some(text));
        None
    }

    /// Adds that a Query gives settings values that the pooler does not learn.
    fn adds_untold(
        &mut self,
        mut effects: Effects,
        text: &[u8],
        verdict: &pgweir_sql::Statement,
        mentioned: &mut Mentioned,
    ) -> Effects {
        let prepares = matches!(verdict, pgweir_sql::Statement::Prepare(_));
        if effects.intersects(Effects::SETTINGS) && !prepares && !pgweir_sql::setting_parameters(text).is_empty() {
            // The text contains a PREPARE among other statements. The pooler does not follow the values that an EXECUTE
            // gives it.
            effects |= Effects::UNTOLD;
        }
        if effects.intersects(Effects::PASSES) {
            let passed = self.to().settings_passed(text);
            effects = effects.without(Effects::PASSES);
            if passed.untold || !passed.parameters.is_empty() {
                effects |= Effects::UNTOLD;
            }
            mentioned.hidden.extend(passed.names);
        }
        effects
    }

    /// Handles a Parse at the beginning of a segment, on a server that may remember other clients' values of sequences, or
    /// that has a temporary schema. Usually the Bind follows. A DISCARD between the two would make the segment a
    /// pipeline, in which some statements are refused.
    #[cold]
    pub(crate) fn forget_before_parse(&mut self, message: &Message<'_>, statement: &Statement) -> Option<Step> {
        let server = &mut *self.server;
        let (_now, open) = (
            server.conversation.request_time(),
            server.conversation.queue().segment_open(),
        );
        let ours = server.conversation.only_begins();
        if open && !ours || !self.keeps_session() || ends_statements(&statement.verdict) {
            return None;
        }
        let effects = self.effects_of_names_in(statement);
        let (of_text, text) = (statement.effects, &statement.query);
        self.minds_sequences(message, of_text, effects, text)
    }

    /// Calls [`Exchange::uses_sequences`] with the effects of the text and of the statements that it names; before it,
    /// [`Exchange::minds_plans`].
    pub(super) fn minds_sequences(
        &mut self,
        message: &Message<'_>,
        of_text: Effects,
        effects: Effects,
        text: &[u8],
    ) -> Option<Step> {
        let mut named = Effects::NONE;
        for statement in self.statements_mentioned(effects, text) {
            named |= self.effects_of_names_in(&statement);
        }
        if let Some(step) = self.minds_plans(message, effects | named, text) {
            return Some(step);
        }
        let effects = self.to().sequence_effects(of_text, effects) | named;
        self.uses_sequences(effects, message)
    }

    /// Adds to the effects of a text those of the prepared statements that it names.
    fn with_effects_of_named(&mut self, effects: Effects, text: &[u8], verdict: &pgweir_sql::Statement) -> Effects {
        if !effects.intersects(Effects::PREPARE) || !self.keeps_session() || !uses_names(verdict) {
            return effects;
        }
        let mut all = effects | self.effects_of_unknown(effects, text, verdict);
        for named in self.statements_mentioned(effects, text) {
            all |= self.effects_of_names_in(&named);
            if self.is_unread_by_name(&named) {
                all |= pgweir_sql::UNREAD;
            }
        }
        all
    }

    /// What an EXECUTE may do if the pooler does not know its statement: it did not follow the PREPARE that made the
    /// statement, or does not track statements.
    pub(super) fn effects_of_unknown(&self, effects: Effects, text: &[u8], verdict: &pgweir_sql::Statement) -> Effects {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll, Execute, Prepare};
        if !effects.intersects(Effects::PREPARE) || !self.keeps_session() || !self.may_execute(effects, text) {
            return Effects::NONE;
        }
        let client = &*self.client;
        let tracked = self.shared.settings.tracks_statements_of(self.pool.settings());
        match verdict {
            Prepare(_) | Deallocate(_) | DeallocateAll | DiscardAll => Effects::NONE,
            Execute(name) if client.statements.meaning_of(name).is_some() => Effects::NONE,
            Execute(name) if !tracked && self.server.conversation.knows_text_of(name) => Effects::NONE,
            _ if !tracked || self.may_meet_prepare() => pgweir_sql::UNREAD,
            _ => Effects::NONE,
        }
    }

    /// Whether a text with these effects may run an EXECUTE: its own, or one in code that it runs.
    fn may_execute(&self, effects: Effects, text: &[u8]) -> bool {
        let of_names = |known: &Known| known.effects_of_names_in(text).intersects(Effects::PREPARE);
        effects.intersects(Effects::CODE)
            || pgweir_sql::contains(text, b"execute")
            || self.pool.catalog().is_some_and(of_names)
    }

    pub(super) fn suspect_text(&mut self, effects: Effects, text: &[u8], mut hidden: Vec<Box<str>>) {
        hidden.extend(self.settings_named(effects, text));
        self.suspect(effects, text, hidden);
    }

    /// Settings that a text with these effects may set and `pg_settings` does not show.
    pub(super) fn settings_named(&mut self, effects: Effects, text: &[u8]) -> Vec<Box<str>> {
        if !effects.intersects(Effects::SETTINGS | Effects::CODE) {
            return Vec::new();
        }
        let mut names = pgweir_sql::hidden_settings(text);
        let of_functions = self.settings_of_functions();
        if !of_functions.is_empty() {
            // The text may give the name of a setting to a function.
            let constants = pgweir_sql::between_quotes(text);
            names.extend(constants.filter_map(setting_name).take(NAMED_SETTINGS_MAX));
            names.extend(of_functions);
        }
        names
    }

    /// Sends a Query that has been inspected, after everything that must precede it.
    pub(crate) fn send_query(&mut self, message: &Message<'_>, mut entry: Entry, returns: Option<Returns>) -> Step {
        let Some(returns) = returns.filter(|_| message.is_whole()) else {
            return self.pass_request(message, entry);
        };
        let ready = self.return_to_startup(&returns);
        entry = entry.with_ready(ready);
        let step = self.pass_request(message, entry);
        match ready {
            Ready::Decides => {
                let client = &mut *self.client;
                client.session.resets(returns);
                client.waiting = Waiting::ForReplies;
            }
            Ready::Passes | Ready::Makes | Ready::Told => {}
        }
        step
    }
}

/// Whether a text, as a whole, ends statements. The pooler handles it by the client's names, which the server need not
/// know.
pub(super) fn ends_statements(verdict: &pgweir_sql::Statement) -> bool {
    use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll};
    matches!(verdict, Deallocate(_) | DeallocateAll | DiscardAll)
}

/// Whether a text, as a whole, may use what its client has prepared. PREPARE itself does not: the text that it names
/// runs later.
pub(crate) fn uses_names(verdict: &pgweir_sql::Statement) -> bool {
    !ends_statements(verdict) && !matches!(verdict, pgweir_sql::Statement::Prepare(_))
}

/// Whether a FunctionCall calls a function for large objects; its body begins with the function's number.
pub(crate) fn calls_large_objects(body: &[u8]) -> bool {
    let number = body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    number.is_some_and(|number| LARGE_OBJECTS.contains(&number))
}

/// Reads a value such as `app.tenant` or `role` as the name of a setting that `pg_settings` does not show.
pub(crate) fn setting_name(value: &[u8]) -> Option<Box<str>> {
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|t| t.len() <= SETTING_NAME_BYTES_MAX)?;
    let is_word = |word: &str| {
        !word.starts_with(|c: char| c.is_ascii_digit() || c == '$')
            && !word.is_empty()
            && word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
    };
    let custom = text.contains('.') && text.split('.').all(is_word);
    let name = text.to_ascii_lowercase();
    let hidden = pgweir_sql::is_hidden(&name) || name.as_bytes() == pgweir_sql::SEED;
    (custom || hidden && !name.contains('.')).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_could_name_a_custom_setting_is_taken_for_one() {
        assert_eq!(setting_name(b"app.Tenant").as_deref(), Some("app.tenant"));
        assert_eq!(setting_name(b"role").as_deref(), Some("role"));
        for no in ["3.14", "a", "", ".", "a.", "x y.z", "datestyle"] {
            assert_eq!(setting_name(no.as_bytes()), None, "{no}");
        }
    }
}
