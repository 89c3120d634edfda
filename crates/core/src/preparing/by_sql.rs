//! PREPARE and DEALLOCATE that are alone in a Query: the pooler follows them, so that they do not pin their client.

use crate::base::pin_reason::PinReason;
use crate::exchange::Exchange;
use crate::statements::meaning::Meaning;
use crate::statements::prepared::{Kind, Statement};
use crate::upstream::entry::{Effect, To};
use crate::upstream::phase::Intake;
use pgweir_sql::Effects;
use std::sync::Arc;

impl Exchange<'_> {
    /// Whether the pooler itself follows what a Query does to statements, so that no probe has to ask.
    pub(crate) fn follows_names_in(&self, verdict: &pgweir_sql::Statement, text: &[u8]) -> bool {
        use pgweir_sql::Statement::{Deallocate, DeallocateAll, Execute, Prepare};
        let client = &*self.client;
        match verdict {
            Deallocate(_) | DeallocateAll => true,
            Prepare(name) => self.shared.settings.max_prepared_statements > 0 && self.follows_prepare(name, text),
            Execute(name) => client.statements.meaning_of(name).is_some(),
            _ => false,
        }
    }

    /// Whether the statement of this PREPARE can be kept for the client.
    pub(crate) fn follows_prepare(&self, name: &[u8], text: &[u8]) -> bool {
        let statements = &self.client.statements;
        statements.meaning_of(name).is_some() || statements.has_room_for_prepare(text)
    }

    /// Whether the server may hold statements of SQL-level PREPARE that are not among the client's names.
    pub(crate) fn may_meet_prepare(&self) -> bool {
        let client = &*self.client;
        let suspicion = client.session.suspicion();
        let probe = self.server.session.probe();
        self.is_pinned_by_prepare()
            || suspicion.is_some_and(|s| s.may_have(Effects::PREPARE))
            || probe.is_some_and(|p| p.may_find_prepared())
    }

    /// Whether the client keeps its server because of statements of SQL-level PREPARE that are not among its names, or
    /// because the probe that could have told has failed.
    pub(crate) fn is_pinned_by_prepare(&self) -> bool {
        let pins = self.client.session.pins();
        pins.contains(PinReason::PreparedStatements) || pins.contains(PinReason::UnknownState)
    }

    /// Handles a PREPARE that is alone in a Query: the client gets a name, unless the server refuses it.
    pub(crate) fn prepares(&mut self, name: &[u8], text: &[u8], mut effect: Effect) -> Effect {
        let server = &mut *self.server;
        let session = &server.session;
        let in_doubt = session.parses_in_doubt() || session.may_move_names();
        if self.client.statements.meaning_of(name).is_some() {
            self.take_name(name);
            effect.must_be_refused = true;
            return effect;
        }
        let settings = self.client.session.shape().parse_settings().clone();
        let mut statement =
            self.shared
                .statements
                .intern_client_named(Kind::Sql, name, text, &[0, 0], &settings, in_doubt);
        // The types of its parameters follow from the objects that are found in its path.
        let session = &self.server.session;
        let path_in_doubt = session.parses_in_doubt() || session.local_in_doubt();
        let reads_otherwise = statement.has_constants && self.server.held.may_read_behind_set();
        if reads_otherwise || path_in_doubt && pgweir_sql::has_parameters(text) {
            self.settings_are_uncertain(&mut statement);
        }
        let meaning = Meaning::new(
            statement.clone(),
            self.shared.statements.tick(),
            self.pool.names_moved(),
        );
        self.client.statements.names_mut().set(name, Some(meaning));
        self.to().client_name_comes(name);
        let now = self.shared.statements.now();
        let server = &mut *self.server;
        server.held.insert(statement.clone(), now);
        self.lends(name);
        effect.name = Some((name.into(), None));
        effect.server_gains = Some(statement);
        effect
    }

    /// Handles a DEALLOCATE of one of the client's names, which is about to run; returns what it changes if it
    /// succeeds. The server keeps the shared statement for others. The DEALLOCATE ends an empty statement that was made
    /// for it. So the server itself answers, and answers with an error in a failed transaction.
    pub(crate) fn deallocates(&mut self, name: &[u8], mut effect: Effect) -> Effect {
        if let Some(named) = self.server.held.client_named(name)
            && self.server.held.stays(named.id)
        {
            // If the DEALLOCATE fails, the name must mean this statement as before.
            effect.name = self.client.forget_name(name).and_then(|e| e.name);
            self.server.held.remove(named.id);
            effect.server_loses = Some(named);
            return effect;
        }
        effect.name = self.end_name(name).and_then(|e| e.name);
        effect.server_loses = Some(self.make_empty(name));
        effect
    }

    /// Handles a PREPARE of a name that the client already uses: the server must refuse it. So the server gets an empty
    /// statement of that name, unless it holds the client's. The client's statement itself may be impossible to prepare
    /// again.
    pub(crate) fn take_name(&mut self, name: &[u8]) {
        let held = &self.server.held;
        let knows = held.client_named(name).is_some_and(|named| held.usable(named.id));
        if !knows && self.server.conversation.intake() != Intake::CopyIn {
            let empty = self.make_empty(name);
            let now = self.shared.statements.now();
            self.server.held.insert(empty, now);
        }
    }

    /// Prepares an empty statement under a client's name.
    fn make_empty(&mut self, name: &[u8]) -> Arc<Statement> {
        // A cancel request that hits this Parse must not skip the Query behind it.
        let goes_apart =
            !self.server.conversation.queue().segment_open() && !self.server.conversation.is_queried_in_pipeline();
        let settings = self.client.session.shape().parse_settings().clone();
        let empty = self
            .shared
            .statements
            .intern_client_named(Kind::ClientNamed, name, b"", &[0, 0], &settings, true);
        self.to().client_name_comes(name);
        // If the server ignores these messages, it still holds the earlier statement of that name.
        self.to().close_client_named(name);
        self.lends(name);
        // No transaction status makes the server refuse these two. But a cancel request may hit them, or the server may
        // ignore them.
        self.to().close_name(name);
        let made = Effect {
            server_gains: Some(empty.clone()),
            ..Effect::default()
        };
        self.to().asks(To::Skip, |r| r.with(made).parse(name, b"", &[0, 0]));
        if goes_apart {
            self.to().ends_apart(&empty);
        }
        empty
    }
}
