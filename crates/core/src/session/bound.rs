//! What a Bind of a prepared statement may do to the session, by the statement and the values of its parameters.

use crate::base::message::{INSPECT_BYTES_MAX, Message, Step};
use crate::exchange::{Exchange, Wish};
use crate::preparing::client_named::Mentioned;
use crate::session::inspection::{ends_statements, setting_name, uses_names};
use crate::session::sequences::ASKS_LAST;
use crate::statements::prepared::Statement;
use pgweir_sql::{Effects, SearchPath};
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{HEADER_BYTES, Reader};

impl Exchange<'_> {
    /// Handles a Bind of a statement that may change the session. `Some`: it is not passed on now.
    pub(crate) fn suspect_bound(
        &mut self,
        statement: &Statement,
        names: &BindNames<'_>,
        message: &Message<'_>,
    ) -> Option<Step> {
        if !self.looks_at_texts() {
            return None;
        }
        let effects = self.effects_of_names_in(statement);
        let effects = self.adds_reading_names(effects, &statement.query);
        // Names that are lent to a part of the message would be lent again to the whole.
        if self.keeps_session() && needs_values(effects, statement, message) {
            return Some(Step::NeedBytes);
        }
        if let Some(step) = self.asks_to_define(effects) {
            return Some(step);
        }
        if self.keeps_session()
            && let Some(step) = self.bound_must_wait(statement, effects, message)
        {
            return Some(step);
        }
        let mut mentioned = self.lend_to_bound(statement, effects);
        mentioned.effects |= self.effects_of_unknown(effects, &statement.query, &statement.verdict);
        self.bind_may_publish(names.portal, &statement.query, effects);
        let values = message.is_whole().then(|| message.body());
        let effects = SearchPath::adds_to(effects, &statement.query, values);
        self.may_fetch_later(statement, names.portal);
        self.may_list_later(effects | mentioned.effects, &statement.query, Some(names.portal));
        let effects = self.to().before_text(effects | mentioned.effects, Some(statement.id));
        if !self.keeps_session() || effects.is_empty() {
            return None;
        }
        self.suspect_values(statement, effects, mentioned.hidden, names, message)
    }

    /// Whether the Bind of this statement must wait, for another server or for an answer.
    fn bound_must_wait(&mut self, statement: &Statement, effects: Effects, message: &Message<'_>) -> Option<Step> {
        if effects.intersects(ASKS_LAST) && self.wants_own_server() {
            return Some(self.wishes(Wish::OwnServer));
        }
        let (of_text, text) = (statement.effects, &statement.query);
        if !ends_statements(&statement.verdict)
            && let Some(step) = self.minds_sequences(message, of_text, effects, text)
        {
            return Some(step);
        }
        if uses_names(&statement.verdict) {
            return self.waits_to_lend(effects, text);
        }
        None
    }

    /// Lends the names that the text of the statement uses.
    fn lend_to_bound(&mut self, statement: &Statement, effects: Effects) -> Mentioned {
        if !self.keeps_session() {
            return Mentioned::default();
        }
        if let pgweir_sql::Statement::Prepare(name) = &statement.verdict
            && self.client.statements.meaning_of(name).is_some()
        {
            self.take_name(name);
        }
        if uses_names(&statement.verdict) {
            self.lend_names(effects, &statement.query)
        } else {
            Mentioned::default()
        }
    }

    /// Adds what the statement may do with the values of this Bind. `hidden` are settings that are known already.
    fn suspect_values(
        &mut self,
        statement: &Statement,
        mut effects: Effects,
        mut hidden: Vec<Box<str>>,
        names: &BindNames<'_>,
        message: &Message<'_>,
    ) -> Option<Step> {
        let mut parameters = Vec::new();
        if effects.intersects(Effects::PASSES) {
            let passed = self.to().settings_passed(&statement.query);
            effects = effects.without(Effects::PASSES);
            if passed.untold {
                effects |= Effects::UNTOLD;
            }
            hidden.extend(passed.names);
            parameters = passed.parameters;
        }
        if effects.intersects(Effects::SETTINGS | Effects::CODE) && statement.query.contains(&b'$') {
            if needs_values(effects, statement, message) {
                return Some(Step::NeedBytes);
            }
            parameters.extend(pgweir_sql::setting_parameters(&statement.query));
            let given = Given::read(message.body(), names);
            let told = |n: &u16| given.tells(*n) && statement.is_given_as_text(*n);
            if !message.is_whole() && !parameters.is_empty() || !parameters.iter().all(told) {
                effects |= Effects::UNTOLD;
            }
            hidden.extend(given.names());
        }
        hidden.extend(self.settings_named(effects, &statement.query));
        let effects = without_mere_ends(effects, &statement.verdict);
        self.suspect(effects, &statement.query, hidden);
        None
    }
}

/// Whether the values of a Bind may name settings, and have not come.
fn needs_values(effects: Effects, statement: &Statement, message: &Message<'_>) -> bool {
    let may_name = effects.intersects(Effects::SETTINGS | Effects::CODE) && statement.query.contains(&b'$');
    may_name && !message.is_whole() && message.total <= INSPECT_BYTES_MAX
}

/// A DEALLOCATE alone makes no prepared statement that could pin the client.
fn without_mere_ends(effects: Effects, verdict: &pgweir_sql::Statement) -> Effects {
    use pgweir_sql::Statement::{Deallocate, DeallocateAll};
    match verdict {
        Deallocate(_) | DeallocateAll => effects.without(Effects::PREPARE),
        _ => effects,
    }
}

/// The values of a Bind, as far as they have arrived; `None` is NULL.
struct Given<'a>(Vec<Option<&'a [u8]>>);

impl<'a> Given<'a> {
    fn read(body: &'a [u8], names: &BindNames<'_>) -> Self {
        let mut values = Vec::new();
        let mut read = || -> Option<()> {
            let mut reader = Reader::new(&body[names.wire_bytes()..]);
            let formats = usize::try_from(reader.i16().ok()?).ok()?;
            reader.bytes(formats * 2).ok()?;
            for _ in 0..reader.i16().ok()? {
                values.push(match usize::try_from(reader.i32().ok()?) {
                    Ok(length) => Some(reader.bytes(length).ok()?),
                    Err(_) => None,
                });
            }
            Some(())
        };
        debug_assert!(body.len() + HEADER_BYTES >= names.wire_bytes());
        read();
        Given(values)
    }

    /// The custom settings that these values name, as in `select set_config($1, $2, false)`.
    fn names(&self) -> impl Iterator<Item = Box<str>> {
        self.0.iter().flatten().filter_map(|value| setting_name(value))
    }

    /// Whether the setting that this parameter names (`$1` is 1) is known, or shown by `pg_settings`.
    fn tells(&self, number: u16) -> bool {
        match self.0.get(usize::from(number).wrapping_sub(1)) {
            Some(Some(value)) => value.is_ascii() && !value.contains(&b'.') || setting_name(value).is_some(),
            Some(None) => true,
            None => false,
        }
    }
}
