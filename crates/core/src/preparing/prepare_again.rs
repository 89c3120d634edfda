//! Preparing a client's statement again where the server does not hold it.
//!
//! An internal Parse goes before the message that needs the statement. If the server refuses it, the client gets that
//! error for its message. If settings must be set for the Parse, the Parse gets a separate segment, unless the client's
//! segment has begun. Otherwise the internal Execute would make the client's segment a pipeline, in which SET LOCAL
//! needs no transaction block and VACUUM is refused.

use crate::base::message::Step;
use crate::base::weakness::Weakness;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use crate::state::difference::Change;
use crate::statements::parameter_types::Types;
use crate::statements::prepared::{INTERNAL_ID_MAX, Kind, Statement};
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use pgweir_sql::Effects;
use std::sync::Arc;

impl ServerSide<'_> {
    /// Makes sure that the server holds a statement before it is used.
    pub(crate) fn prepare(&mut self, statement: &Arc<Statement>) {
        self.prepare_with_types(statement, None);
    }

    /// Like [`ServerSide::prepare`]; if the statement must be prepared, its parameters get these types.
    pub(crate) fn prepare_with_types(&mut self, statement: &Arc<Statement>, types: Option<&Types>) {
        if statement.id <= INTERNAL_ID_MAX {
            return self.prepare_internal(statement);
        }
        if !self.server.held.touch(statement.id) {
            let open = self.server.conversation.queue().segment_open();
            self.close_if_doubted(statement);
            self.prepare_missing(statement, types, open);
        }
    }

    /// Makes sure that the server holds an internal statement. Where the pooler does not see everything that clients
    /// do, the statement is prepared before each use, because a client could have replaced it.
    #[inline]
    fn prepare_internal(&mut self, statement: &Arc<Statement>) {
        let sees_all = self.sees_all_of();
        let held = &mut self.server.held;
        if sees_all && held.trusts(statement.id) {
            return;
        }
        if held.touch(statement.id) {
            return self.prepare_again(statement);
        }
        let open = self.server.conversation.queue().segment_open();
        if !sees_all {
            self.close_name(statement.server_name());
        } else {
            self.close_if_doubted(statement);
        }
        self.prepare_missing(statement, None, open);
    }

    /// Whether the pooler looks at every message of this server's clients that could change its prepared statements.
    fn sees_all_of(&self) -> bool {
        self.shared.settings.keeps_sessions
            && self.server.nature.is_postgresql()
            && self.pool.nature().is_postgresql()
            && self.shared.settings.tracks_statements_of(self.pool.settings())
    }

    /// Before a Parse of a statement that the server does not hold: closes the statement that a client has prepared
    /// under its name, or may have prepared, if the client knew that name.
    pub(crate) fn close_if_doubted(&mut self, statement: &Statement) {
        // A name of the client's is closed in any case.
        if statement.is_client_named() {
            return;
        }
        let name = statement.server_name();
        if self.server.held.client_named(name).is_some() {
            self.close_client_named(name);
        } else if self.server.held.was_doubted() {
            self.close_name(name);
        }
    }

    /// Closes a statement that the server holds, and prepares it again.
    pub(crate) fn prepare_again(&mut self, statement: &Arc<Statement>) {
        self.prepare_again_with_types(statement, None);
    }

    /// Like [`ServerSide::prepare_again`], with these types for the parameters.
    pub(crate) fn prepare_again_with_types(&mut self, statement: &Arc<Statement>, types: Option<&Types>) {
        let open = self.server.conversation.queue().segment_open();
        self.close_held(statement);
        self.prepare_missing(statement, types, open);
    }

    /// Prepares a statement that the server does not hold. `open`: a segment was open before the Close messages that
    /// precede the Parse.
    fn prepare_missing(&mut self, statement: &Arc<Statement>, types: Option<&Types>, open: bool) {
        if statement.id > INTERNAL_ID_MAX && !statement.is_client_named() {
            self.make_room();
        }
        let now = self.shared.statements.now();
        // The server's earlier statement of that name ends, unless the server ignores these messages. A client that knows
        // the name of an internal statement may have one of its own under that name: if it stayed in the list of what
        // the server holds, the name would be closed once more when the server goes to another client.
        self.close_client_named(statement.server_name());
        if statement.is_client_named() {
            self.lends(statement.server_name());
        }
        let server = &mut *self.server;
        server.held.insert(statement.clone(), now);
        if let Some(types) = types {
            server.held.give_types(statement.id, types);
        }
        let counts = u64::from(statement.id > INTERNAL_ID_MAX);
        self.pool.stats_mut().server_parse_count += counts;
        self.shared.state_stats.parses_injected += counts;
        let effect = Effect {
            server_gains: Some(statement.clone()),
            ..Effect::default()
        };
        let entry = Entry::skip(Expect::Parse).with(effect);
        let types = match types.filter(|_| !self.shared.is_weak(Weakness::ForgetsTypes)) {
            Some(types) => types.bytes(),
            None => &statement.types,
        };
        self.send_parse(statement, statement.server_name(), types, entry, open);
    }

    /// Whether a statement is prepared in a separate segment, with these settings set for it: if a Parse in front of a
    /// Query fails, the server must not skip the Query. Behind a Query inside a pipeline there is no such segment,
    /// because its Sync would commit the open transaction of the pipeline.
    fn goes_apart(&self, statement: &Statement, settings: &[Change], open: bool) -> bool {
        (!settings.is_empty() || statement.is_client_named())
            && !open
            && !self.server.conversation.is_queried_in_pipeline()
    }

    /// Whether a statement would get a separate segment behind an unanswered segment of the client's. A cancel request
    /// that is meant for the client's segment could hit the separate one.
    #[cold]
    pub(crate) fn would_go_apart_too_early(&mut self, statement: &Statement) -> bool {
        let queue = self.server.conversation.queue();
        if queue.segment_open() || !queue.client_segment_outstanding() {
            return false;
        }
        let settings = self.settings_to_parse_under(statement);
        self.goes_apart(statement, &settings, false)
    }

    /// Sends an internal Parse, under the settings that the statement was first parsed under.
    fn send_parse(&mut self, statement: &Arc<Statement>, name: &[u8], types: &[u8], mut entry: Entry, open: bool) {
        let then = self.settings_to_parse_under(statement);
        let apart = self.goes_apart(statement, &then, open);
        if !then.is_empty() {
            // `set_back` is prepared before the Parse, which may fail: the messages that follow in the same write rely
            // on it.
            let set_back = self.shared.internal.set_back.clone();
            self.prepare(&set_back);
        }
        self.set_and_keep(&then);
        if statement.is_client_named() {
            self.close_name(statement.server_name());
        }
        if statement.kind == Kind::Sql {
            let effect = entry.take_effect().unwrap_or_default();
            self.run_text(&statement.query, &statement.types, effect);
        } else {
            self.asks(To::Skip, |r| r.special(entry).parse(name, &statement.query, types));
        }
        self.set_back(&then);
        if !then.is_empty() && statement.effects.intersects(Effects::PREPARE | Effects::STATEMENTS) {
            self.hides_settings_statements();
        }
        if apart {
            self.ends_apart(statement);
        }
    }

    /// Ends the separate segment in which a statement was prepared.
    pub(crate) fn ends_apart(&mut self, statement: &Statement) {
        self.asks(To::Skip, |r| r.using(statement.id).sync());
    }

    /// Closes whatever the server may hold under this name, such as an empty statement whose DEALLOCATE did not run.
    pub(crate) fn close_name(&mut self, name: &[u8]) {
        self.asks(To::Skip, |r| r.close(b'S', name));
    }

    /// Parses a query under the internal name for statements that are used once. What is left of it afterwards is
    /// hidden from clients like everything under internal names.
    pub(crate) fn prepare_scratch(&mut self, query: &[u8], types: &[u8]) {
        let scratch = self.shared.internal.scratch.clone();
        if self.server.held.touch(scratch.id) {
            self.close_held(&scratch);
        } else {
            self.close_name(scratch.server_name());
        }
        self.close_client_named(scratch.server_name());
        let now = self.shared.statements.now();
        let effect = Effect {
            server_gains: Some(scratch.clone()),
            ..Effect::default()
        };
        self.server.held.insert(scratch.clone(), now);
        self.asks(To::Skip, |r| r.with(effect).parse(scratch.server_name(), query, types));
    }

    /// Runs an internal statement in the midst of the client's segment.
    pub(crate) fn run_in_internal_portal(&mut self, statement: &Arc<Statement>, values: &[Option<&[u8]>]) {
        self.prepare(statement);
        let (name, portal) = (statement.server_name(), &*self.shared.internal.names.portal);
        let queue = self.server.conversation.queue_mut();
        queue.ask(self.id, &mut self.shared.outbox, To::Skip, |r| {
            r.run_in(portal, name, values);
        });
    }

    /// Closes the least recently used statements until one more fits. Portals that were bound before keep their plan,
    /// so this is safe anywhere in a segment.
    pub(crate) fn make_room(&mut self) {
        let limit = self.shared.settings.max_prepared_statements;
        while let Some(victim) = self.server.held.evict_for(limit) {
            self.close_held(&victim);
        }
    }

    pub(crate) fn close_held(&mut self, statement: &Arc<Statement>) {
        let server = &mut *self.server;
        server.held.remove(statement.id);
        let effect = Effect {
            server_loses: Some(statement.clone()),
            ..Effect::default()
        };
        self.asks(To::Skip, |r| r.with(effect).close(b'S', statement.server_name()));
    }
}

impl Exchange<'_> {
    /// Makes sure that the server's unnamed statement is the client's, before it is used. `Some`: it cannot be prepared
    /// yet.
    pub(crate) fn prepare_unnamed(&mut self) -> Option<Step> {
        let client = &mut *self.client;
        let server = &mut *self.server;
        match client.statements.unnamed() {
            Some(statement) if server.held.unnamed() == Unnamed::of(statement) => {}
            Some(statement) if server.held.unnamed() == Unnamed::Asked(statement.id) => {
                return Some(self.waits_for_replies());
            }
            Some(statement) if !statement.settings.are_uncertain() => {
                let statement = statement.clone();
                if self.to().would_go_apart_too_early(&statement) {
                    return Some(self.waits_for_replies());
                }
                let failed = self.server.conversation.is_surely_failed();
                let own_types = statement.own_types.as_deref().filter(|_| !failed);
                self.server.held.unnamed_becomes(match own_types {
                    Some(_) => Unnamed::Asked(statement.id),
                    None => Unnamed::Statement(statement.id),
                });
                let open = self.server.conversation.queue().segment_open();
                let entry = Entry::skip(Expect::ParseUnnamed);
                let types = own_types.unwrap_or(&statement.types);
                self.to().send_parse(&statement, b"", types, entry, open);
                if own_types.is_some() {
                    self.to().describe_internally(&statement, b"", To::Skip);
                    return Some(self.waits_for_answer());
                }
            }
            // Nobody knows how a statement that was parsed behind a SET was read: it does not exist.
            _ if server.held.unnamed() == Unnamed::Nothing => {}
            _ => {
                server.held.unnamed_becomes(Unnamed::Nothing);
                let effect = Effect {
                    server_unnamed: true,
                    ..Effect::default()
                };
                self.to().asks(To::Skip, |r| r.with(effect).close(b'S', b""));
            }
        }
        None
    }
}
