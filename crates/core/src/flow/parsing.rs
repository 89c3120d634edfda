//! Parse: the meaning of its name and its text for the client and for the server.

use crate::base::close_reason::CloseReason;
use crate::base::message::{Message, STATEMENT_BYTES_MAX, Step};
use crate::base::pin_reason::PinReason;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::session::inspection::uses_names;
use crate::statements::meaning::Meaning;
use crate::statements::parse_settings::ParseSettings;
use crate::statements::prepared::{Kind, Statement};
use crate::statements::table::StatementTable;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use crate::upstream::phase::Intake;
use crate::upstream::replacement::Instead;
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;
use pgweir_wire::frontend::Parse;
use std::sync::Arc;

/// Effects of statements that name prepared statements.
pub(super) const NAMING: Effects = Effects::PREPARE.union(Effects::STATEMENTS);

impl ServerSide<'_> {
    /// This statement is about to be executed.
    pub(crate) fn may_change_settings(&mut self, statement: Option<&Arc<Statement>>) {
        if let Some(statement) = statement {
            let now = self.shared.statements.now();
            self.server.may_set(statement.effects, now);
        }
        if statement.is_some_and(|s| s.effects.intersects(Effects::CODE)) {
            self.doubt_statements();
        }
        if let Some(statement) = statement.filter(|_| self.knows_names()) {
            self.runs_names_in(statement);
        }
    }
}

impl Exchange<'_> {
    pub(crate) fn parse(&mut self, message: &Message<'_>) -> Step {
        if message.total > STATEMENT_BYTES_MAX {
            return self.parse_unkept(message);
        }
        if !message.is_whole() {
            return Step::NeedBytes;
        }
        // A malformed body is refused by the server.
        let Ok(parse) = Parse::read(message.body()) else {
            return self.plain(message, Expect::Parse);
        };
        if self.server.session.parses_in_doubt()
            && let Some(step) = self.minds_misread(parse.query)
        {
            return step;
        }
        if parse.name.is_empty() {
            self.parse_unnamed(message, parse)
        } else {
            self.parse_named(message, parse)
        }
    }

    /// Parse of a statement that is too long to keep, or of one too many. It cannot be prepared on another server: it
    /// is forwarded with the client's name, and the client is pinned.
    #[cold]
    fn parse_unkept(&mut self, message: &Message<'_>) -> Step {
        if message.body().is_empty() {
            return Step::NeedBytes;
        }
        if self.keeps_session()
            && let Some(step) = self.runs_any_code(Effects::CODE, message)
        {
            return step;
        }
        let text = &message.body()[..message.body().len().min(crate::state::pins::STATEMENT_CHARS_SHOWN)];
        self.pin_by(PinReason::LongStatement, text);
        self.server.moves_names(self.shared.statements.now());
        let (client, server) = (&mut *self.client, &mut *self.server);
        server.close_reason.get_or_insert(CloseReason::StatementTooLong);
        if message.body().first() != Some(&0) {
            return self.plain(message, Expect::Parse);
        }
        // The unnamed statement is on the server, and nothing need be prepared or closed before its use.
        let before = client.statements.replace_unnamed(None);
        server.held.unnamed_becomes(Unnamed::Nothing);
        let effect = Effect {
            unnamed: Some(before),
            ..Effect::default()
        };
        self.pass_request(message, Entry::forward(Expect::ParseUnnamed).with(effect))
    }

    pub(crate) fn parse_unnamed(&mut self, message: &Message<'_>, parse: Parse<'_>) -> Step {
        let checks_run = self.to().analysis_may_run();
        let client = &mut *self.client;
        let server = &mut *self.server;
        let settings = client.session.shape().parse_settings();
        let in_doubt = server.session.settings_in_doubt() || server.session.local_in_doubt();
        let same = !in_doubt
            && client
                .statements
                .unnamed()
                .is_some_and(|s| s.matches(parse.query, parse.types, settings));
        let mut new = (!same).then(|| interned(&mut self.shared.statements, server, &parse, settings));
        let minded = new.as_ref().or(client.statements.unnamed());
        let minded = minded.filter(|s| !s.effects.is_empty() || checks_run).cloned();
        if let Some(statement) = &minded
            && let Some(step) = self.minds_parse(message, statement)
        {
            return step;
        }
        if let Some(statement) = &mut new
            && self.server.held.may_read_behind_set()
            && let Some(step) = self.unnamed_reads_behind_set(statement)
        {
            return step;
        }
        // Only now, because the statement is not parsed behind what its own analysis may set.
        if let Some(statement) = &minded {
            self.suspect_analysis(statement);
        }
        let client = &mut *self.client;
        let server = &mut *self.server;
        let mut effect = None;
        if let Some(statement) = new {
            effect = Some(Effect {
                unnamed: Some(client.statements.replace_unnamed(Some(statement))),
                ..Effect::default()
            });
        }
        let unnamed = client.statements.unnamed().expect("set above");
        server.held.unnamed_becomes(Unnamed::of(unnamed));
        let names = unnamed.effects.intersects(Effects::PREPARE) && uses_names(&unnamed.verdict);
        let entry = Entry::forward(Expect::ParseUnnamed);
        let entry = match effect {
            Some(effect) => entry.with(effect),
            None => entry,
        };
        if names {
            return self.parse_unnamed_naming(message, parse, entry);
        }
        self.pass_request(message, entry)
    }

    /// See [`Exchange::parse_naming`].
    #[cold]
    pub(crate) fn parse_unnamed_naming(&mut self, message: &Message<'_>, parse: Parse<'_>, entry: Entry) -> Step {
        if self.keeps_session() {
            self.lend_names(Effects::PREPARE, parse.query);
            self.suspect_analysis_of_named(parse.query);
        }
        self.pass_request(message, entry)
    }

    pub(crate) fn parse_named(&mut self, message: &Message<'_>, parse: Parse<'_>) -> Step {
        let client = &mut *self.client;
        if client.statements.meaning_of(parse.name).is_some() {
            return self.refuse_duplicate(message, parse);
        }
        if !client.statements.has_room_for(parse.query) {
            return self.parse_unkept(message);
        }
        if self.server.session.probe().is_some()
            || client.session.suspicion().is_some()
            || !client.session.pins().is_empty()
        {
            return self.parse_pinned(message, parse);
        }
        self.parse_shared(message, parse)
    }

    /// Parse of a client whose statements do not all come from Parse.
    #[cold]
    pub(crate) fn parse_pinned(&mut self, message: &Message<'_>, parse: Parse<'_>) -> Step {
        if !self.may_meet_prepare() {
            return self.parse_shared(message, parse);
        }
        let settings = self.client.session.shape().parse_settings().clone();
        let mut statement = self.intern_client_named(&parse, &settings);
        if let Some(step) = self.parse_must_wait(message, &mut statement) {
            return step;
        }
        if statement.effects.intersects(NAMING) && uses_names(&statement.verdict) && self.keeps_session() {
            self.lend_names(Effects::PREPARE, parse.query);
            self.suspect_analysis_of_named(parse.query);
        }
        self.parse_client_named(message, parse, statement)
    }

    /// Parse of a statement that the server gets under the client's name.
    #[cold]
    fn parse_client_named(&mut self, message: &Message<'_>, parse: Parse<'_>, statement: Arc<Statement>) -> Step {
        let meaning = Meaning::new(
            statement.clone(),
            self.shared.statements.tick(),
            self.pool.names_moved(),
        );
        self.client.statements.names_mut().set(parse.name, Some(meaning));
        self.to().client_name_comes(parse.name);
        self.lends(parse.name);
        self.parse_on_server(message, parse, &statement)
    }

    /// What the Parse of this statement must wait for, if anything. Behind a SET the statement may become another one.
    #[inline]
    fn parse_must_wait(&mut self, message: &Message<'_>, statement: &mut Arc<Statement>) -> Option<Step> {
        if (!statement.effects.is_empty() || self.to().analysis_may_run())
            && let Some(step) = self.minds_parse(message, statement)
        {
            return Some(step);
        }
        match self.server.held.may_read_behind_set() {
            true => self.reads_behind_set(statement),
            false => None,
        }
    }

    /// The statement of a Parse, which the server gets under the client's name.
    fn intern_client_named(&mut self, parse: &Parse<'_>, settings: &ParseSettings) -> Arc<Statement> {
        self.shared.statements.intern_client_named(
            Kind::ClientNamed,
            parse.name,
            parse.query,
            parse.types,
            settings,
            true,
        )
    }

    #[inline]
    pub(crate) fn parse_shared(&mut self, message: &Message<'_>, parse: Parse<'_>) -> Step {
        let client = &mut *self.client;
        let server = &mut *self.server;
        let settings = client.session.shape().parse_settings();
        let mut statement = match server.session.may_move_names() {
            // Names may have come to mean other objects than in other clients' copies.
            true => self
                .shared
                .statements
                .intern_for_one(parse.query, parse.types, settings),
            false => interned(&mut self.shared.statements, server, &parse, settings),
        };
        if let Some(step) = self.parse_must_wait(message, &mut statement) {
            return step;
        }
        let effects = statement.effects | self.to().effects_of_mentioned(&statement);
        if effects.intersects(NAMING) && self.keeps_session() {
            let lists = effects.intersects(Effects::STATEMENTS);
            statement = self.parse_naming(&parse, statement, lists);
        }
        if statement.settings.are_uncertain() {
            // Such a statement has only one copy, so the copy has the client's name, which SQL may use.
            if !statement.is_client_named() {
                statement = self.intern_client_named(&parse, &statement.settings);
            }
            self.to().close_client_named(parse.name);
            self.pool.stats_mut().client_parse_count += 1;
            return self.parse_client_named(message, parse, statement);
        }
        let client = &mut *self.client;
        let server = &mut *self.server;
        let meaning = Meaning::new(
            statement.clone(),
            self.shared.statements.tick(),
            self.pool.names_moved(),
        );
        client.statements.names_mut().set(parse.name, Some(meaning));
        self.pool.stats_mut().client_parse_count += 1;
        if server.held.touch(statement.id) {
            if may_fake(server)
                && (server.held.answers_parse(&statement, self.pool.names_moved())
                    || self.shared.is_weak(Weakness::AnswersStale))
            {
                let effect = Effect {
                    name: Some((parse.name.into(), None)),
                    ..Effect::default()
                };
                return self.answers_in_turn(message, Expect::Parse, effect);
            }
            // It is not known yet whether this Parse will meet a failed transaction, so the server must answer.
            self.to().close_held(&statement);
        } else {
            self.to().close_if_doubted(&statement);
        }
        self.to().make_room();
        self.parse_on_server(message, parse, &statement)
    }

    /// What a Parse must wait for, if its text does more than read and write data.
    #[cold]
    pub(crate) fn minds_parse(&mut self, message: &Message<'_>, statement: &Statement) -> Option<Step> {
        let session = &self.server.session;
        if (session.is_stranger() || session.has_temporary_schema())
            && let Some(step) = self.forget_before_parse(message, statement)
        {
            return Some(step);
        }
        if let Some(step) = self.settles_begin_before(&statement.query) {
            return Some(step);
        }
        if let Some(step) = self.analysis_waits(statement) {
            return Some(step);
        }
        let names = statement.effects.intersects(NAMING) && uses_names(&statement.verdict);
        let waits = (names && self.keeps_session())
            .then(|| self.waits_to_name(&statement.query))
            .flatten();
        waits.or_else(|| self.lends_before_segment(statement))
    }

    /// Parse of a statement that names prepared statements, or lists them. The result of an EXECUTE depends on what the
    /// client's name means now, so that statement is made known to the server first, and the EXECUTE is not shared. A
    /// statement that lists all prepared statements lists itself as well, under the client's name.
    #[cold]
    fn parse_naming(&mut self, parse: &Parse<'_>, statement: Arc<Statement>, lists: bool) -> Arc<Statement> {
        let settings = statement.settings.clone();
        if lists {
            self.to().client_name_comes(parse.name);
            self.lends(parse.name);
            return self.intern_client_named(parse, &settings);
        }
        if uses_names(&statement.verdict) {
            self.lend_names(Effects::PREPARE, parse.query);
            self.suspect_analysis_of_named(parse.query);
        }
        self.shared
            .statements
            .intern_for_one(parse.query, parse.types, &settings)
    }

    /// A Parse that gives the client a name and the server a statement.
    pub(crate) fn parse_on_server(
        &mut self,
        message: &Message<'_>,
        parse: Parse<'_>,
        statement: &Arc<Statement>,
    ) -> Step {
        self.suspect_analysis(statement);
        let now = self.shared.statements.now();
        let server = &mut *self.server;
        server.held.insert(statement.clone(), now);
        let effect = Effect {
            name: Some((parse.name.into(), None)),
            server_gains: Some(statement.clone()),
            ..Effect::default()
        };
        self.pool.stats_mut().server_parse_count += 1;
        self.to().asks(To::Forward, |r| {
            r.with(effect).parse(statement.server_name(), parse.query, parse.types);
        });
        if statement.infers {
            self.to().ask_for_types(message, parse.name, statement);
        }
        self.client.drop_message(message)
    }

    /// A Parse that must fail with 42P05 if it has no other error: it gets a name that an internal empty statement has
    /// just taken, and only the text of that error is replaced. An empty statement can be parsed in a failed
    /// transaction and whatever has happened to tables, unlike the statement with the client's name.
    pub(crate) fn refuse_duplicate(&mut self, message: &Message<'_>, parse: Parse<'_>) -> Step {
        let empty = self.shared.internal.scratch.clone();
        let name = empty.server_name();
        let instead = Instead::Named {
            ours: name.into(),
            theirs: parse.name.into(),
        };
        let entry = Entry::forward(Expect::Parse).replacing(*b"42P05", instead);
        self.to().prepare_scratch(&empty.query, &empty.types);
        self.asks_instead(message, |r| r.special(entry).parse(name, parse.query, parse.types))
    }
}

/// The statement of a Parse: shared with other clients that prepare the same, if it has the same meaning for them.
pub(crate) fn interned(
    statements: &mut StatementTable,
    server: &Server,
    parse: &Parse<'_>,
    settings: &ParseSettings,
) -> Arc<Statement> {
    let in_doubt = server.session.settings_in_doubt() || server.session.local_in_doubt();
    if !in_doubt && !pgweir_sql::belongs_to_session(parse.query) {
        let statement = statements.intern(parse.query, parse.types, settings);
        if !statement.reads_clock {
            return statement;
        }
    }
    statements.intern_for_one(parse.query, parse.types, settings)
}

/// Whether the pooler may answer without asking: no unanswered request can fail the transaction that this message will
/// meet. (An error in the segment of the message drops the message, too.)
pub(crate) fn may_fake(server: &Server) -> bool {
    !server.conversation.queue().segment_outstanding()
        && server.conversation.status() != TransactionStatus::Failed
        && server.conversation.intake() != Intake::CopyIn
}
