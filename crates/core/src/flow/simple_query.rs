//! Query messages.

use crate::base::close_reason::CloseReason;
use crate::base::message::{INSPECT_BYTES_MAX, Message, Step};
use crate::base::settings::PoolMode;
use crate::base::weakness::Weakness;
use crate::exchange::{Exchange, Wish};
use crate::session::long_query::LongQuery;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect};
use pgweir_sql::statement::STATEMENT_BYTES_MAX;
use pgweir_sql::{Condensed, Effects, Returns, begins_code};
use pgweir_wire::{HEADER_BYTES, Reader};

/// What is read of a Query.
struct Read<'m> {
    /// Its text, if it is read.
    text: Option<&'m [u8]>,
    /// What has come of a long one that passes while it arrives.
    long: Option<Box<Condensed>>,
}

impl Exchange<'_> {
    pub(crate) fn query(&mut self, message: &Message<'_>, tracked: bool) -> Step {
        // The Query takes the place of the unnamed portal, and DECLARE makes portals.
        self.client.statements.take_untold_portal();
        // The statements that the pooler must recognise are short; a text that changes the session need not be.
        let looks = self.looks_at_texts();
        let read_bytes_max = if looks {
            INSPECT_BYTES_MAX
        } else if tracked {
            HEADER_BYTES + STATEMENT_BYTES_MAX + 1
        } else {
            self.notes_query_in_pipeline();
            return self.plain(message, Expect::Query);
        };
        let Read { text, long } = match self.text_of_query(message, looks, read_bytes_max) {
            Ok(read) => read,
            Err(step) => return step,
        };
        if let Some(text) = text.filter(|text| tracked && looks && self.is_plain(text)) {
            return self.plain_query(message, text);
        }
        if let Some(step) = text.and_then(|text| self.wishes_of(text)) {
            return step;
        }
        let verdict = text.map_or(pgweir_sql::Statement::Other, pgweir_sql::classify);
        if tracked {
            let prepares = matches!(verdict, pgweir_sql::Statement::Prepare(_));
            if prepares && self.server.conversation.queue().segment_outstanding() && self.server.awaits_settings() {
                return self.waits_for_replies();
            }
        }
        self.notes_query_in_pipeline();
        let mut returns = text.filter(|_| looks).and_then(|text| Returns::of(&verdict, text));
        let inspected = looks.then(|| match text {
            Some(_) => self.inspect_text(message, text, &verdict),
            None => self.inspect_long(message, long),
        });
        let may = match inspected.transpose() {
            Ok(may) => may,
            Err(step) => return step,
        };
        if returns.is_none() && may.is_some_and(|may| may.intersects(Effects::RESETS)) {
            returns = text.and_then(Returns::among);
        }
        let names = may.is_some_and(|may| may.intersects(Effects::PREPARE) && !may.intersects(Effects::STATEMENTS));
        let executes = tracked && names && text.is_some_and(pgweir_sql::only_executes);
        let effect = self.effect_of_query(message, text, verdict, may, tracked);
        let mut entry = Entry::forward(Expect::Query);
        if let Some(effect) = effect {
            entry = entry.with(effect);
        }
        if executes {
            entry = entry.executing();
        }
        self.send_query(message, entry, returns)
    }

    /// What a Query changes if it succeeds; `found`: the possible effects of its text, if it has been read.
    fn effect_of_query(
        &mut self,
        message: &Message<'_>,
        text: Option<&[u8]>,
        verdict: pgweir_sql::Statement,
        found: Option<Effects>,
        tracked: bool,
    ) -> Option<Effect> {
        let mut effect = match tracked {
            true => self.effect_on_statements(message, text, verdict, found),
            // Internal statements end with those of the client.
            false if ends_all(&verdict) => Some(self.discard_all_statements(Effect::default())),
            false => None,
        };
        if self.client.relies_on_listener()
            && message.is_whole()
            && let Some(text) = message.body().strip_suffix(b"\0")
            && pgweir_sql::may_unlisten(text)
        {
            effect.get_or_insert_default().unlistens = pgweir_sql::unlistened(text);
        }
        effect
    }

    /// Reads the text of a Query. `looks`: texts are looked at, also those longer than `read_bytes_max` if they are
    /// kept.
    fn text_of_query<'m>(
        &mut self,
        message: &Message<'m>,
        looks: bool,
        read_bytes_max: usize,
    ) -> Result<Read<'m>, Step> {
        if message.total <= read_bytes_max && !message.is_whole() {
            return Err(Step::NeedBytes);
        }
        let mut long = None;
        if looks && message.total > INSPECT_BYTES_MAX {
            match self.begins_long(message) {
                LongQuery::IsKept if !message.is_whole() => return Err(Step::NeedBytes),
                LongQuery::IsKept => {}
                LongQuery::Passes(condensed) => long = Some(condensed),
            }
        }
        let is_read = message.is_whole() && (message.total <= read_bytes_max || looks && long.is_none());
        let text = match message.body() {
            [text @ .., 0] if is_read => Some(text),
            _ => None,
        };
        Ok(Read { text, long })
    }

    /// Whether a text surely changes nothing in any session.
    fn is_plain(&mut self, text: &[u8]) -> bool {
        !self.to().knows_names() && pgweir_sql::is_plain(text) && !self.may_be_misread(text)
    }

    /// What a text needs from other connections before it is sent.
    fn wishes_of(&mut self, text: &[u8]) -> Option<Step> {
        if !self.granted.signal && pgweir_sql::is_signal(text) {
            return Some(self.wishes(Wish::Signal));
        }
        if pgweir_sql::may_need_database_alone(text) {
            return self.wants_database_alone(text);
        }
        None
    }

    /// The changes that a Query makes to prepared statements, if they are tracked; `found`: the possible effects of its
    /// text, if it has been read.
    fn effect_on_statements(
        &mut self,
        message: &Message<'_>,
        text: Option<&[u8]>,
        verdict: pgweir_sql::Statement,
        found: Option<Effects>,
    ) -> Option<Effect> {
        let mut effect = self.destroys_unnamed(message, text);
        let sets_locally = matches!(verdict, pgweir_sql::Statement::SetLocal(_));
        match verdict {
            pgweir_sql::Statement::Deallocate(name) if self.client.statements.meaning_of(&name).is_some() => {
                effect = Some(self.deallocates(&name, effect.unwrap_or_default()));
            }
            pgweir_sql::Statement::DeallocateAll | pgweir_sql::Statement::DiscardAll => {
                effect = Some(self.discard_all_statements(effect.unwrap_or_default()));
            }
            pgweir_sql::Statement::Prepare(name) if self.keeps_session() => {
                let text = text.expect("it has been classified");
                if self.follows_prepare(&name, text) {
                    effect = Some(self.prepares(&name, text, effect.unwrap_or_default()));
                }
            }
            _ => {}
        }
        let may = self.may_do(message, found);
        if may.intersects(Effects::PREPARE) && effect.as_ref().is_none_or(|e| e.server_lost_all.is_none()) {
            let effect = effect.get_or_insert_default();
            effect.may_end_statements = true;
            if let Some(text) = text {
                effect.deallocates = pgweir_sql::deallocated(text);
                effect.before_deallocate = pgweir_sql::statements_before_deallocate(text);
            }
        }
        // The text may change settings, on which later statements depend.
        let mut sets = found.unwrap_or(may);
        if text.is_none() && found.is_some() {
            // Whether a long text moves names is judged when its last byte has come.
            sets = sets.without(Effects::NAMES);
        }
        if sets_locally {
            sets |= Effects::LOCAL;
        }
        let is_code = begins_code(message.body());
        if is_code {
            sets |= Effects::CODE;
        }
        self.server.may_set(sets, self.shared.statements.now());
        // A DEALLOCATE ALL stays in effect if the commit behind it fails, and no command tag tells of it then.
        let may_end_unseen = text.is_some_and(pgweir_sql::may_end_with_deallocate_all);
        if may_end_unseen || self.may_replace_statements(message, text, found, is_code) {
            self.to().doubt_statements();
        }
        effect
    }

    /// A Query that changes nothing in the session, as a quick look at its text has shown.
    fn plain_query(&mut self, message: &Message<'_>, text: &[u8]) -> Step {
        debug_assert_eq!(pgweir_sql::classify(text), pgweir_sql::Statement::Other);
        debug_assert!(crate::base::secret_names::effects_of(text).is_empty());
        debug_assert!(!pgweir_sql::is_signal(text) && !pgweir_sql::may_need_database_alone(text));
        debug_assert!(!begins_code(message.body()));
        self.notes_query_in_pipeline();
        let entry = Entry::forward(Expect::Query);
        let entry = match self.destroys_unnamed(message, Some(text)) {
            Some(effect) => entry.with(effect),
            None => entry,
        };
        self.pass_request(message, entry)
    }

    /// A Query between an Execute and its Sync leaves PostgreSQL 18 in a state in which the next command fails with
    /// XX000, also an internal one or another client's. Internal messages in front of the Query have no such effect.
    #[inline]
    fn notes_query_in_pipeline(&mut self) {
        let server = &mut *self.server;
        if server.conversation.queue().in_pipeline()
            && self.pool.settings().mode != PoolMode::Session
            && !self.shared.is_weak(Weakness::TrustsPipelines)
        {
            server.close_reason.get_or_insert(CloseReason::QueryInPipeline);
            server.conversation.query_comes_in_pipeline();
        }
    }

    /// A Query destroys the unnamed statement (recording E15). Returns the effect that restores it if the Query fails
    /// before that.
    #[inline]
    fn destroys_unnamed(&mut self, message: &Message<'_>, text: Option<&[u8]>) -> Option<Effect> {
        // A malformed Query fails before it destroys the unnamed statement, which may be another client's.
        let is_sound = text.is_some_and(|text| Reader::new(message.body()).cstr() == Ok(text));
        self.server
            .held
            .unnamed_becomes(if is_sound { Unnamed::Nothing } else { Unnamed::Foreign });
        let unnamed = self.client.statements.replace_unnamed(None)?;
        Some(Effect {
            unnamed: Some(Some(unnamed)),
            ..Effect::default()
        })
    }

    /// Whether a Query may end the server's statements and prepare others under their names. `found`: as for `may_do`.
    /// `is_code` is the result of [`begins_code`].
    fn may_replace_statements(
        &mut self,
        message: &Message<'_>,
        text: Option<&[u8]>,
        found: Option<Effects>,
        is_code: bool,
    ) -> bool {
        let effects = match found {
            Some(found) => found,
            // No client's statement is there, and internal ones are prepared in front of each use. So all that matters
            // is whether statements that are prepared later may find their names taken.
            None if self.server.held.len() == 0 && self.server.held.was_doubted() => return false,
            None if text.is_some_and(pgweir_sql::is_plain) => return false,
            None if message.is_whole() => crate::base::secret_names::effects_of(message.body()),
            None => return true,
        };
        is_code || effects.intersects(Effects::CODE)
    }

    /// The possible effects of a Query on its client's prepared statements; `found`: the possible effects of its text,
    /// if it has been read. An incomplete text may do anything.
    fn may_do(&self, message: &Message<'_>, found: Option<Effects>) -> Effects {
        if !self.client.statements.has_names() {
            Effects::NONE
        } else if let Some(found) = found {
            found
        } else if message.is_whole() {
            pgweir_sql::effects(message.body())
        } else {
            Effects::ALL
        }
    }
}

/// Whether a statement ends all prepared statements.
fn ends_all(verdict: &pgweir_sql::Statement) -> bool {
    use pgweir_sql::Statement::{DeallocateAll, DiscardAll};
    matches!(verdict, DeallocateAll | DiscardAll)
}
