//! Reading statements for what they may do to the session, on their way to a server.
//!
//! Only `session_state = full` looks. The verdict on a prepared statement is kept with the statement; a Query is read each
//! time. Text that is too long to be read whole counts as code of which nothing is known.

use crate::base::message::{Message, Step};
use crate::base::reasons::Waiting;
use crate::exchange::{Exchange, Wish};
use crate::preparing::own_names::Mentioned;
use crate::server_side::ServerSide;
use crate::statements::prepared::Statement;
use crate::upstream::entry::{Entry, Ready};
use pgweir_sql::Returns;
use pgweir_sql::{Condensed, Effects};

/// The longest name a custom setting may have to be looked for among parameters, bytes.
const SETTING_NAME_BYTES_MAX: usize = 128;

/// Constants of a text that may be names of settings and are taken for such.
const NAMED_SETTINGS_MAX: usize = 32;

/// What a text that nobody has read may have done.
const UNREAD: Effects = pgweir_sql::UNREAD.union(Effects::SETTINGS).union(Effects::ENDS);

/// `lo_open`, `lo_close`, `loread`, `lowrite` and the others of libpq's, by number: they leave nothing in the session.
const LARGE_OBJECTS: [u32; 14] = [715, 764, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172];

/// What leaves nothing to ask about behind it.
const ONLY_ASKS: Effects = Effects::DRAWS
    .union(Effects::STATEMENTS)
    .union(Effects::TEMPORARY_SCHEMA)
    .union(Effects::CURRENT_SETTING)
    .union(Effects::LOCAL);

impl ServerSide<'_> {
    /// Does what must be done before a text with these effects runs, and says which of them are left to ask about after
    /// it. `runs` is the statement that runs, where it is a prepared one.
    pub(super) fn prepare_for(&mut self, effects: Effects, runs: Option<u64>) -> Effects {
        if effects.intersects(Effects::STATEMENTS) {
            self.hide_statements(runs);
        }
        effects.without(ONLY_ASKS)
    }

    /// The session is about to look at its prepared statements: those under the pooler's names are closed, to be prepared
    /// again when they are used next.
    fn hide_statements(&mut self, but: Option<u64>) {
        for statement in self.server.held.all_under_our_names() {
            if Some(statement.id) != but {
                self.inject_close(&statement);
            }
        }
        if self.pool.lends {
            // What a PREPARE of ours that failed has left.
            let preparing = self.shared.own_statements.names.preparing.clone();
            self.close_whatever(&preparing);
        }
    }
}

impl Exchange<'_> {
    /// Whether this client's session is kept for it from server to server.
    pub(crate) fn keeps_session(&self) -> bool {
        self.shared.settings.keeps_sessions && self.pool.keeps_sessions()
    }

    /// Whether texts are read for what they do to sessions, be it in session pooling.
    #[inline]
    pub(crate) fn looks_at_texts(&self) -> bool {
        self.shared.settings.keeps_sessions && self.pool.nature.is_postgresql()
    }

    /// A text is about to be passed on: what it may do, or the step where its message is not passed on yet. It is `None`
    /// where it is too long to be read.
    pub(crate) fn inspect_text(
        &mut self,
        message: &Message<'_>,
        text: Option<&[u8]>,
        verdict: &pgweir_sql::Statement,
    ) -> Result<Effects, Step> {
        let Some(text) = text else {
            if self.keeps_session() {
                if let Some(step) = self.uses_sequences(UNREAD, message) {
                    return Err(step);
                }
                self.suspect(UNREAD, b"(a long statement)", Vec::new());
            }
            return Ok(Effects::ALL);
        };
        if let pgweir_sql::Statement::SetLocal(name) = verdict {
            self.note_custom_setting(std::str::from_utf8(name).unwrap_or_default());
        }
        let effects = crate::base::secret_names::effects_of(text);
        let looks = !effects.is_empty() || self.to().knows_names();
        if looks && let Some(step) = self.inspect_effects(message, effects, text, verdict) {
            return Err(step);
        }
        Ok(effects)
    }

    /// The same of a Query whose text is too long to be kept: what is left of it without its constants is judged when its
    /// last byte is on its way, as nothing of it runs before.
    #[cold]
    pub(crate) fn inspect_long(&mut self, message: &Message<'_>) -> Result<Effects, Step> {
        if self.keeps_session() {
            // What it asks is known when it has passed.
            if let Some(step) = self.uses_sequences(Effects::CODE, message) {
                return Err(step);
            }
            let mut condensed = Box::<Condensed>::default();
            condensed.feed(message.body());
            self.client.long_text = Some(condensed);
            if message.is_whole() {
                self.long_text_ends();
            }
        }
        Ok(Effects::ALL)
    }

    /// The last byte of a long Query is on its way.
    #[cold]
    pub(crate) fn long_text_ends(&mut self) {
        let Some(condensed) = self.client.long_text.take() else {
            return;
        };
        let Some(text) = condensed.finish() else {
            return self.suspect(UNREAD, b"(a long statement)", Vec::new());
        };
        let effects = pgweir_sql::effects(&text);
        let mut effects = self.effects_of_names(&text, effects).without(ONLY_ASKS);
        if effects.intersects(Effects::PASSES | Effects::PREPARE) {
            effects = effects.without(Effects::PASSES) | pgweir_sql::UNREAD;
        }
        if !effects.is_empty() {
            self.suspect_text(effects, &text, Vec::new());
        }
    }

    /// `Some`: the text is not passed on self.now. As a rule it is looked at again, on another server maybe.
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
        if !self.keeps_session() {
            self.to().prepare_for(effects, None);
            self.to().note_traces(effects);
            return None;
        }
        if effects.intersects(Effects::SEQUENCE) && self.wants_own_server() {
            return Some(self.wishes(Wish::OwnServer));
        }
        if !ends_statements(verdict)
            && let Some(step) = self.minds_sequences(message, of_text, effects, text)
        {
            return Some(step);
        }
        let uses_names = uses_names(verdict);
        if uses_names && let Some(step) = self.waits_to_lend(effects, text) {
            return Some(step);
        }
        let mut mentioned = if uses_names {
            self.lend_names(effects, text)
        } else {
            Mentioned::default()
        };
        mentioned.effects |= self.effects_of_unknown(effects, verdict);
        let mut effects = self.to().prepare_for(effects | mentioned.effects, None);
        let prepares = matches!(verdict, pgweir_sql::Statement::Prepare(_));
        if effects.intersects(Effects::SETTINGS) && !prepares && !pgweir_sql::setting_parameters(text).is_empty() {
            // Of a PREPARE in other company: what EXECUTE gives it nobody follows.
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
        let effects = if self.follows_names_in(verdict) {
            effects.without(Effects::PREPARE)
        } else {
            effects
        };
        if !effects.is_empty() {
            self.suspect_text(effects, text, mentioned.hidden);
        }
        None
    }

    /// Parse at the beginning of a segment, on a server that may remember what others have drawn from sequences: as a rule its
    /// Bind follows, and what is done in front of that within the segment makes it a pipeline, in which not every statement
    /// may run.
    #[cold]
    pub(crate) fn forget_before_parse(&mut self, message: &Message<'_>, statement: &Statement) -> Option<Step> {
        let server = &mut *self.server;
        let (_now, open) = (
            server.conversation.request_time,
            server.conversation.queue.segment_open(),
        );
        let ours = server.conversation.only_begins();
        if open && !ours || !self.keeps_session() || ends_statements(&statement.verdict) {
            return None;
        }
        let effects = self.effects_of_names_in(statement);
        let (of_text, text) = (statement.effects, &statement.query);
        self.minds_sequences(message, of_text, effects, text)
    }

    /// See [`Exchange::uses_sequences`]. What the statements do that the text names counts as well.
    pub(super) fn minds_sequences(
        &mut self,
        message: &Message<'_>,
        of_text: Effects,
        effects: Effects,
        text: &[u8],
    ) -> Option<Step> {
        let mut effects = self.to().sequence_effects(of_text, effects);
        for statement in self.statements_mentioned(effects, text) {
            effects |= self.effects_of_names_in(&statement);
        }
        self.uses_sequences(effects, message)
    }

    /// What EXECUTE may do where nobody knows what it executes: what others than the client's PREPARE have made.
    pub(super) fn effects_of_unknown(&self, effects: Effects, verdict: &pgweir_sql::Statement) -> Effects {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll, Execute, Prepare};
        if !effects.intersects(Effects::PREPARE) || !self.keeps_session() {
            return Effects::NONE;
        }
        let client = &*self.client;
        match verdict {
            Prepare(_) | Deallocate(_) | DeallocateAll | DiscardAll => Effects::NONE,
            Execute(name) if client.statements.meaning_of(name).is_some() => Effects::NONE,
            _ if self.may_meet_prepare() => pgweir_sql::UNREAD,
            _ => Effects::NONE,
        }
    }

    fn suspect_text(&mut self, effects: Effects, text: &[u8], mut hidden: Vec<Box<str>>) {
        hidden.extend(self.settings_named(effects, text));
        self.suspect(effects, text, hidden);
    }

    /// Settings that a text with these effects may make and `pg_settings` does not show.
    pub(super) fn settings_named(&mut self, effects: Effects, text: &[u8]) -> Vec<Box<str>> {
        if !effects.intersects(Effects::SETTINGS | Effects::CODE) {
            return Vec::new();
        }
        let mut names = pgweir_sql::hidden_settings(text);
        let of_functions = self.settings_of_functions();
        if !of_functions.is_empty() {
            // A function may be given the name of a setting.
            let constants = text.split(|&b| b == b'\'').skip(1).step_by(2);
            names.extend(constants.filter_map(setting_name).take(NAMED_SETTINGS_MAX));
            names.extend(of_functions);
        }
        names
    }

    /// A Query that has been looked at, behind everything that must precede it.
    pub(crate) fn send_query(&mut self, message: &Message<'_>, mut entry: Entry, returns: Option<Returns>) -> Step {
        let Some(returns) = returns.filter(|_| message.is_whole()) else {
            return self.pass_request(message, entry);
        };
        let ready = self.return_to_startup(&returns);
        entry.ready = ready;
        let step = self.pass_request(message, entry);
        match ready {
            Ready::Decides => {
                let client = &mut *self.client;
                client.session.reset_among = Some(Box::new(returns));
                client.waiting = Waiting::ForReplies;
            }
            Ready::Passes | Ready::Makes | Ready::Told => {}
        }
        step
    }
}

/// Whether a text, as a whole, ends statements: it acts on the client's names without the server's knowing them.
pub(super) fn ends_statements(verdict: &pgweir_sql::Statement) -> bool {
    use pgweir_sql::Statement::{Deallocate, DeallocateAll, DiscardAll};
    matches!(verdict, Deallocate(_) | DeallocateAll | DiscardAll)
}

/// Whether a text, as a whole, may use what its client has prepared: PREPARE itself does not, and what it gives a name to runs
/// later.
pub(crate) fn uses_names(verdict: &pgweir_sql::Statement) -> bool {
    !ends_statements(verdict) && !matches!(verdict, pgweir_sql::Statement::Prepare(_))
}

/// Whether a FunctionCall calls a function for large objects; its body begins with the function's number.
pub(crate) fn calls_large_objects(body: &[u8]) -> bool {
    let number = body.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    number.is_some_and(|number| LARGE_OBJECTS.contains(&number))
}

/// `app.tenant`, `role`: a name that pg_settings does not show.
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
    (custom || text.eq_ignore_ascii_case("role") || text.eq_ignore_ascii_case("session_authorization"))
        .then(|| text.to_ascii_lowercase().into())
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
