//! Prepared statements under the names that their client has given them, for SQL that names them.
//!
//! In PostgreSQL, statements of Parse and of SQL-level PREPARE share one namespace: EXECUTE runs either, DEALLOCATE and
//! Close end either, `pg_prepared_statements` shows both. Servers know a client's statements by internal names. So
//! before a text that may name statements, the pooler prepares the named ones once more on the client's server, under
//! the client's names: they are *lent*. They stay there while the server serves this client, and are closed before the
//! first message of the next client.
//!
//! A PREPARE that is alone in a Query gives the client a name, like a Parse, and does not pin it: where a server lacks
//! the statement, the text is run again. A probe finds a PREPARE among other statements of a Query, in the extended
//! protocol or in code, and pins the client ([`crate::base::pin_reason::PinReason::PreparedStatements`]). Until the
//! probe has answered, and while the client is pinned, its Parse goes to the server under the client's name, so that
//! the server checks whether that name is taken.

use crate::base::message::Step;
use crate::base::pin_reason::{Cleanup, PinReason};
use crate::base::secret_names::could_be_internal;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::preparing::lending::surely_uses;
use crate::server_side::ServerSide;
use crate::statements::client_names::{NAMES_BY_SQL_MAX, StatementName};
use crate::statements::held::Moment;
use crate::statements::prepared::{Kind, NAME_BYTES_MAX, Statement};
use crate::upstream::entry::To;
use crate::upstream::phase::Intake;
use pgweir_sql::{Effects, SearchPath};
use pgweir_wire::TransactionStatus;
use std::sync::Arc;

/// What is known of the statements that a text mentions.
#[derive(Debug, Default)]
pub(crate) struct Mentioned {
    /// The effects of all of them.
    pub(crate) effects: Effects,
    /// Settings that they name and `pg_settings` does not show.
    pub(crate) hidden: Vec<Box<str>>,
}

/// Whether this is what PostgreSQL keeps of a longer name in a Parse, with a part of a character at its end. SQL cannot
/// spell it, and no message can.
fn ends_within_character(name: &[u8]) -> bool {
    name.len() == NAME_BYTES_MAX && std::str::from_utf8(name).is_err_and(|error| error.error_len().is_none())
}

impl ServerSide<'_> {
    /// Adds the settings that `text`, an EXECUTE, names by the arguments that it gives to the statement `named`.
    fn names_given(&mut self, named: &Statement, text: &[u8], mentioned: &mut Mentioned) {
        let mut given = Vec::new();
        if mentioned.effects.intersects(Effects::SETTINGS) {
            given = pgweir_sql::setting_parameters(&named.query);
        }
        if mentioned.effects.intersects(Effects::PASSES) {
            let passed = self.settings_passed(&named.query);
            mentioned.effects = mentioned.effects.without(Effects::PASSES);
            given.extend(passed.parameters);
            if passed.untold {
                mentioned.effects |= Effects::UNTOLD;
            }
            mentioned.hidden.extend(passed.names);
        }
        if !given.is_empty() {
            let as_text = given.iter().all(|number| named.is_given_as_text(*number));
            match pgweir_sql::constant_arguments(text).filter(|_| as_text) {
                Some(constants) => mentioned.hidden.extend(constants),
                None => mentioned.effects |= Effects::UNTOLD,
            }
        }
    }

    /// Notes that the server is about to hold a statement under this name of its client's.
    ///
    /// A name beyond ASCII has other bytes under another client_encoding: a Close with the bytes that are known would
    /// leave the statement there, for the next client. So DISCARD ALL removes it before the server goes to another
    /// client.
    pub(crate) fn lends(&mut self, name: &[u8]) {
        let server = &mut *self.server;
        server.held.lends_names_to(server.link);
        server.held.runs_text();
        if !name.is_ascii() {
            server.session.needs(Cleanup::Discard);
        }
    }

    /// Closes the statement that the server holds under a client's name that has ended or has no meaning. That may be
    /// the empty statement of a DEALLOCATE that failed.
    pub(crate) fn close_client_named(&mut self, name: &[u8]) {
        if let Some(named) = self.server.held.client_named(name) {
            self.close_held(&named);
        }
    }

    /// The names of statements that a probe must not report as a reason for a pin: those of SQL-level PREPARE that the
    /// pooler follows, and its own where the probe counts all statements because they are not tracked. Names that are
    /// not ASCII stay reasons. Only a client that is pinned has more than [`NAMES_ASKED_MAX`]; it stays so.
    pub(crate) fn names_that_need_no_pin(&mut self, tracked: bool) -> Vec<Box<[u8]>> {
        let held = &self.server.held;
        let named = match held.client_named_len() {
            0..=NAMES_ASKED_MAX => held.all_client_named(),
            _ => Vec::new(),
        };
        let by_sql = named
            .iter()
            .filter(|s| s.kind == Kind::Sql && s.server_name().is_ascii());
        let own = match tracked {
            true => Vec::new(),
            false => self.server.held.all_under_internal_names(),
        };
        by_sql.chain(&own).map(|s| s.server_name().into()).collect()
    }
}

/// The most client-named statements on a server of which a probe is told that they are no reason for a pin. Each of them
/// costs a moment in each probe.
const NAMES_ASKED_MAX: usize = 2 * NAMES_BY_SQL_MAX;

impl Exchange<'_> {
    /// Notes that the client's server is about to hold a statement under this name of the client's.
    pub(crate) fn lends(&mut self, name: &[u8]) {
        self.client.statements.will_be_lent();
        self.to().lends(name);
    }

    /// Prepares the statements that a text with these effects may name, under the client's names, before the text runs.
    pub(crate) fn lend_names(&mut self, effects: Effects, text: &[u8]) -> Mentioned {
        let mut all = self.client_named_in(effects, text);
        self.leaves_out_what_fails(effects, &mut all);
        self.lend_all(effects, text, all)
    }

    /// Prepares these of the client's statements, which a text with these effects may name.
    pub(crate) fn lend_all(&mut self, effects: Effects, text: &[u8], all: Vec<(Arc<Statement>, Moment)>) -> Mentioned {
        let mut mentioned = Mentioned::default();
        let guarded = self.to().lends_behind_savepoint() && !(all.len() == 1 && surely_uses(effects, text));
        // The server's statements are doubted once, and only if the server is about to get such a name. Otherwise two
        // such names would make each other doubtful, and a message that waits would repeat the doubts whenever it is
        // looked at again.
        let held = &self.server.held;
        let comes = |(named, since): &&(Arc<Statement>, Moment)| {
            could_be_internal(named.server_name()) && !held.is_as_good_as(named.id, *since)
        };
        if let Some((named, _)) = all.iter().find(comes) {
            self.to().client_name_comes(named.server_name());
        }
        let may_execute = effects.intersects(Effects::PREPARE | Effects::CODE);
        for (named, since) in all {
            let effects = self.effects_of_names_in(&named);
            mentioned.effects |= SearchPath::adds_to(effects, &named.query, None);
            self.to().names_given(&named, text, &mut mentioned);
            if may_execute && self.is_unread_by_name(&named) {
                mentioned.effects |= pgweir_sql::UNREAD;
            }
            mentioned.hidden.extend(pgweir_sql::hidden_settings(&named.query));
            self.to().lend(&named, since, guarded);
            self.to().runs_names_in(&named);
        }
        // These statements may change settings, on which later statements depend.
        self.server.may_set(mentioned.effects, self.shared.statements.now());
        mentioned
    }

    /// Whether a text that names this statement may run another one, or runs it with values that are not followed.
    pub(crate) fn is_unread_by_name(&self, named: &Statement) -> bool {
        // If the statement is an EXECUTE itself, the values that it gives are not followed. Under another
        // client_encoding a name beyond ASCII may mean another statement. And code may have replaced a statement that
        // is not prepared again.
        let is_unread =
            named.names_statements() || !named.server_name().is_ascii() || self.server.held.may_be_replaced(named.id);
        is_unread && !self.shared.is_weak(Weakness::TrustsNested)
    }

    /// Whether a text must wait before names are lent for it. Lent names are prepared in internal segments. Behind an
    /// unanswered segment of the client's, such a segment could run in a failed transaction, or be taken for the data
    /// of a copy. Names that are lent behind a savepoint also wait until the BEGIN of the transaction block has been
    /// answered. A text that reads `pg_prepared_statements` also waits until the server has answered earlier
    /// segments that close statements: if such a segment fails, the statements still exist and must be closed again.
    pub(crate) fn waits_to_lend(&mut self, effects: Effects, text: &[u8]) -> Option<Step> {
        let server = &*self.server;
        if effects.intersects(Effects::STATEMENTS) && server.conversation.queue().client_segment_outstanding() {
            return Some(self.waits_for_replies());
        }
        let begins = server.conversation.is_beginning();
        let queue = server.conversation.queue();
        let waits = begins || !queue.segment_open() && queue.client_segment_outstanding();
        if !waits && !self.will_know_what_is_set() {
            return None;
        }
        let names = self.client_named_in(effects, text);
        let held = &self.server.held;
        if names.iter().all(|(named, since)| held.is_as_good_as(named.id, *since))
            || begins && names.len() == 1 && surely_uses(effects, text)
        {
            return None;
        }
        if begins {
            self.to().asks(To::Skip, |r| r.sync());
        }
        Some(self.waits_for_replies())
    }

    /// The statements of [`Exchange::names_in`] under the client's names; see [`Exchange::client_named`].
    pub(crate) fn client_named_in(&mut self, effects: Effects, text: &[u8]) -> Vec<(Arc<Statement>, Moment)> {
        let names = self.names_in(effects, text);
        names.iter().filter_map(|name| self.client_named(name)).collect()
    }

    /// The statements that [`Exchange::lend_names`] would lend.
    pub(crate) fn statements_mentioned(&self, effects: Effects, text: &[u8]) -> Vec<Arc<Statement>> {
        let names = self.names_in(effects, text);
        let client = &*self.client;
        names
            .iter()
            .filter_map(|name| client.statements.meaning_of(name).cloned())
            .collect()
    }

    /// Adds [`Effects::STATEMENTS`] to the effects of a text that is about to run, if it names a statement that reads
    /// `pg_prepared_statements`, or may name one that was too long to be read: such a statement, too, must find all of
    /// the client's names.
    pub(crate) fn adds_reading_names(&self, effects: Effects, text: &[u8]) -> Effects {
        let reads = |s: &Arc<Statement>| s.effects.intersects(Effects::STATEMENTS);
        let may_be_long = self.client.session.pins().contains(PinReason::LongStatement);
        if effects.intersects(Effects::PREPARE)
            && (may_be_long || self.statements_mentioned(effects, text).iter().any(reads))
        {
            return effects | Effects::STATEMENTS;
        }
        effects
    }

    /// The client's names that a text with these effects may use.
    fn names_in(&self, effects: Effects, text: &[u8]) -> Vec<StatementName> {
        let naming = effects.intersects(Effects::PREPARE | Effects::STATEMENTS);
        if !naming && !effects.intersects(Effects::CODE) {
            return Vec::new();
        }
        let client = &*self.client;
        let Some(names) = client.statements.names().filter(|names| names.len() > 0) else {
            return Vec::new();
        };
        let server = &*self.server;
        let unfit = server.conversation.is_surely_failed() || server.conversation.is_queried_in_pipeline();
        if unfit || matches!(server.conversation.intake(), Intake::ToSync | Intake::CopyIn) {
            return Vec::new();
        }
        let begins = server.conversation.is_beginning();
        let in_block = begins || server.conversation.status() == TransactionStatus::InTransaction;
        // Code may run EXECUTE. In the midst of a segment, a PREPARE before the code would make the segment a pipeline.
        // PREPARE takes the snapshot of its transaction, and SET TRANSACTION and LOCK must come before that.
        let may_prepare = !server.conversation.queue().segment_open() || begins;
        let runs_code = effects.intersects(Effects::CODE)
            && may_prepare
            && !(in_block && pgweir_sql::begins_without_snapshot(text));
        // A text that names statements itself uses no others. Otherwise a routine that it calls may use any.
        let names_some = || pgweir_sql::effects(text).intersects(Effects::PREPARE);
        let mut found = if effects.intersects(Effects::STATEMENTS) {
            names.all()
        } else if naming && names_some() {
            names.mentioned_in(text)
        } else if runs_code {
            names.made_by_sql()
        } else {
            Vec::new()
        };
        if naming && !self.shared.is_weak(Weakness::TrustsNested) {
            names.add_nested(&mut found);
        }
        names.in_order(&mut found);
        found
    }

    /// The statement of this name, in the form that servers hold under the client's name, and since when the client has
    /// it. It is not shared with other clients if the client's present settings would give its constants another
    /// meaning.
    fn client_named(&mut self, name: &[u8]) -> Option<(Arc<Statement>, Moment)> {
        let client = &mut *self.client;
        client.statements.will_be_lent();
        if ends_within_character(name) {
            return None;
        }
        let meaning = client.statements.named(name)?;
        let (since, of) = (meaning.since(), meaning.statement());
        if of.settings.are_uncertain() && of.is_client_named() {
            return Some((of.clone(), since));
        }
        let alone = !of.settings.reads_alike(client.session.shape().parse_settings());
        // A statement that was lent before the server had told its types leaves them open: it must not infer others
        // later.
        let keeps_types = |named: &Statement| of.kind == Kind::Sql || *named.types == *meaning.types();
        let fits = |named: &&Arc<Statement>| (!alone || named.is_private) && keeps_types(named);
        if let Some(known) = meaning.as_client_named().filter(fits) {
            return Some((known.clone(), since));
        }
        let kind = if of.is_client_named() {
            of.kind
        } else {
            Kind::ClientNamed
        };
        let named = self.shared.statements.intern_client_named(
            kind,
            name,
            &of.query,
            meaning.types(),
            &of.settings,
            alone || of.is_private,
        );
        client.statements.named_mut(name)?.is_named_by_sql(named.clone());
        Some((named, since))
    }

    /// Closes the statements that the server, which was just linked to a client, holds under names that this client
    /// does not use. The Close messages begin a restoration's segment, which the caller ends.
    #[cold]
    pub(crate) fn take_names_back(&mut self) {
        let client = &*self.client;
        let names = client.statements.names();
        let changes = names.map_or(0, |names| names.changes());
        if self.server.held.agrees_with(self.id, changes) {
            return;
        }
        let is_of_client = |named: &Statement| {
            let meaning = names.and_then(|names| names.get(named.server_name()));
            meaning.is_some_and(|meaning| meaning.is_held_as(named.id))
        };
        let server = &mut *self.server;
        let gone = server.held.client_named_except(is_of_client);
        let keeps_some = gone.len() < server.held.client_named_len();
        server.held.lends_names_to(keeps_some.then_some(self.id));
        for named in gone {
            self.to().close_held(&named);
        }
        self.server.held.note_agreement(changes);
    }
}
