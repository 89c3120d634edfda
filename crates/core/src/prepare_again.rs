//! Preparing a client's statement again where the server does not hold it.
//!
//! A Parse of ours goes in front of the message that needs the statement. If the server refuses it, the client gets that
//! error for its message. Where settings must be made for the Parse it is a segment of its own, if the client's has not
//! begun yet: an Execute of ours in the client's segment would make it a pipeline, in which SET LOCAL needs no
//! transaction block and VACUUM is refused.

use crate::ids::{ClientId, ServerId};
use crate::parameter_types::Types;
use crate::pooler::Pooler;
use crate::prepared::{Kind, OWN_ID_MAX, Statement};
use crate::reply_queue::{Effect, Entry, Expect};
use crate::server::Unnamed;
use crate::settings::PoolMode;
use pgweir_wire::{TransactionStatus, Writer};
use std::sync::Arc;

impl Pooler {
    /// Makes sure that the server's unnamed statement is the client's, before it is used.
    pub(crate) fn ensure_unnamed(&mut self, id: ClientId, server_id: ServerId) {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        match &client.unnamed {
            Some(statement) if server.unnamed == Unnamed::Statement(statement.id) => {}
            Some(statement) => {
                let statement = statement.clone();
                server.unnamed = Unnamed::Statement(statement.id);
                let open = server.queue.segment_open();
                let entry = Entry::skip(Expect::ParseUnnamed);
                self.parse_again(server_id, &statement, b"", &statement.types, entry, open);
            }
            None if server.unnamed == Unnamed::Nothing => {}
            None => {
                server.unnamed = Unnamed::Nothing;
                let effect = Effect {
                    server_unnamed: true,
                    ..Effect::default()
                };
                server.queue.push(Entry::skip(Expect::Close).with(effect));
                self.outbox
                    .insert(server_id.into(), |b| Writer::new(b).close(b'S', b""));
            }
        }
    }

    /// Makes sure that the server holds a statement, before it is used.
    pub(crate) fn ensure_held(&mut self, server_id: ServerId, statement: &Arc<Statement>) {
        self.ensure_held_with(server_id, statement, None);
    }

    /// The same with these types for its parameters, if it must be prepared.
    pub(crate) fn ensure_held_with(&mut self, server_id: ServerId, statement: &Arc<Statement>, types: Option<&Types>) {
        if statement.id <= OWN_ID_MAX {
            return self.ensure_own(server_id, statement);
        }
        if !self.server_mut(server_id).held.touch(statement.id) {
            let open = self.server_mut(server_id).queue.segment_open();
            self.close_strangers(server_id, statement);
            self.hold(server_id, statement, types, open);
        }
    }

    /// The same of a statement of the pooler's. Where not everything that clients do is seen, it is prepared in front of
    /// each use: a client could have put another in its place.
    #[inline]
    fn ensure_own(&mut self, server_id: ServerId, statement: &Arc<Statement>) {
        let sees_all = self.sees_all_of(server_id);
        let held = &mut self.server_mut(server_id).held;
        if sees_all && held.trusts(statement.id) {
            return;
        }
        if held.touch(statement.id) {
            return self.prepare_anew(server_id, statement);
        }
        let open = self.server_mut(server_id).queue.segment_open();
        if !sees_all {
            self.close_whatever(server_id, statement.server_name());
        } else {
            self.close_strangers(server_id, statement);
        }
        self.hold(server_id, statement, None, open);
    }

    /// Whether every message of this server's clients that could change its prepared statements is looked at.
    fn sees_all_of(&self, server_id: ServerId) -> bool {
        let pool = self.servers.get(server_id.0).map(|s| self.pool(s.pool));
        self.settings.keeps_sessions
            && self.settings.max_prepared_statements > 0
            && pool.is_some_and(|p| p.settings.mode != PoolMode::Session)
    }

    /// In front of a Parse of a statement that the server does not hold: a client that knew its name may have used that.
    pub(crate) fn close_strangers(&mut self, server_id: ServerId, statement: &Statement) {
        // What has a client's name is closed in any case.
        if !statement.is_own() && self.server_mut(server_id).held.was_doubted() {
            self.close_whatever(server_id, statement.server_name());
        }
    }

    /// Closes a statement that the server holds, and prepares it again.
    pub(crate) fn prepare_anew(&mut self, server_id: ServerId, statement: &Arc<Statement>) {
        self.prepare_anew_with(server_id, statement, None);
    }

    /// The same with these types for its parameters.
    pub(crate) fn prepare_anew_with(&mut self, server_id: ServerId, statement: &Arc<Statement>, types: Option<&Types>) {
        let open = self.server_mut(server_id).queue.segment_open();
        self.inject_close(server_id, statement);
        self.hold(server_id, statement, types, open);
    }

    /// Prepares a statement that the server does not hold. `open` is whether a segment had begun before the Close messages
    /// that belong to this.
    fn hold(&mut self, server_id: ServerId, statement: &Arc<Statement>, types: Option<&Types>, open: bool) {
        if statement.id > OWN_ID_MAX && !statement.is_own() {
            self.make_room(server_id);
        }
        let now = self.statements.now();
        if statement.is_own() {
            self.lends(server_id);
        }
        let server = self.server_mut(server_id);
        server.held.insert(statement.clone(), now);
        if let Some(types) = types {
            server.held.give_types(statement.id, types);
        }
        let pool = server.pool;
        let counts = u64::from(statement.id > OWN_ID_MAX);
        self.pool_mut(pool).stats.server_parse_count += counts;
        self.state_stats.parses_injected += counts;
        let effect = Effect {
            server_gains: Some(statement.clone()),
            ..Effect::default()
        };
        let entry = Entry::skip(Expect::Parse).with(effect);
        let types = types.map_or(&*statement.types, Types::bytes);
        self.parse_again(server_id, statement, statement.server_name(), types, entry, open);
    }

    /// A Parse of our own, under the settings that the statement was first parsed under.
    fn parse_again(
        &mut self,
        server_id: ServerId,
        statement: &Arc<Statement>,
        name: &[u8],
        types: &[u8],
        entry: Entry,
        open: bool,
    ) {
        let then = self.settings_to_parse_under(server_id, statement);
        // In front of a Query a Parse that fails must not take the Query along. A Sync commits what is left open behind a
        // Query inside a pipeline.
        let apart =
            (!then.is_empty() || statement.is_own()) && !open && !self.server_mut(server_id).queried_in_pipeline;
        self.set_for_parse(server_id, &then);
        if statement.is_own() {
            self.close_whatever(server_id, statement.server_name());
        }
        if statement.kind == Kind::Sql {
            let effect = entry.effect.map(|e| *e).unwrap_or_default();
            self.run_text(server_id, &statement.query, &statement.types, effect);
        } else {
            self.server_mut(server_id).queue.push(entry);
            self.outbox.insert(server_id.into(), |b| {
                Writer::new(b).parse(name, &statement.query, types)
            });
        }
        self.set_back(server_id, &then);
        if apart {
            let queue = &mut self.server_mut(server_id).queue;
            queue.push(Entry::skip(Expect::Sync).using(statement.id));
            self.send(server_id, |w| w.sync());
        }
    }

    /// Closes what a client's name may still mean to its server: a statement that was made to be deallocated and was not.
    pub(crate) fn close_whatever(&mut self, server_id: ServerId, name: &[u8]) {
        self.server_mut(server_id).queue.push(Entry::skip(Expect::Close));
        self.outbox
            .insert(server_id.into(), |b| Writer::new(b).close(b'S', name));
    }

    /// The name for what is used once is closed, to be given to something by the Parse that the caller sends next. What is
    /// left of it is hidden from clients like all that is under our names.
    pub(crate) fn takes_scratch(&mut self, server_id: ServerId) {
        let scratch = self.own_statements.scratch.clone();
        if self.server_mut(server_id).held.touch(scratch.id) {
            self.inject_close(server_id, &scratch);
        } else {
            self.close_whatever(server_id, scratch.server_name());
        }
        let now = self.statements.now();
        let effect = Effect {
            server_gains: Some(scratch.clone()),
            ..Effect::default()
        };
        let server = self.server_mut(server_id);
        server.held.insert(scratch, now);
        server.queue.push(Entry::skip(Expect::Parse).with(effect));
    }

    /// The settings, with their values then, in which the present differs or may differ from when a statement was first
    /// parsed: constants in it must be read as they were then (recording E12). Usually there are none.
    fn settings_to_parse_under(&mut self, server_id: ServerId, statement: &Statement) -> Vec<(Arc<str>, Arc<str>)> {
        let server = self.servers.get(server_id.0).expect("looked up by the caller");
        // What has no constants is read alike, and in a failed transaction no setting can be made.
        let in_doubt = server.settings_in_doubt || server.local_in_doubt && statement.has_constants;
        if server.status == TransactionStatus::Failed {
            return Vec::new();
        }
        if statement.id <= OWN_ID_MAX || !in_doubt && *server.shape.parse_settings() == statement.settings {
            return Vec::new();
        }
        let differs = |(name, then): &&(Arc<str>, Arc<str>)| {
            server.shape.get(name).is_some_and(|now| in_doubt || now.value != *then)
        };
        statement.settings.pairs().filter(differs).cloned().collect()
    }

    /// Makes settings for a Parse of our own, in the same segment. What they were is kept on the server: something in
    /// this very segment may have changed them, and only the server knows. They end with the transaction at the latest, so
    /// what the client has set for its session stays what it is.
    fn set_for_parse(&mut self, server_id: ServerId, settings: &[(Arc<str>, Arc<str>)]) {
        let statement = self.own_statements.set_for_parse.clone();
        for (name, value) in settings {
            let kept = self.kept_name(name);
            let values = [name.as_bytes(), value.as_bytes(), kept.as_bytes()];
            self.run_in_own_portal(server_id, &statement, &values.map(Some));
        }
    }

    /// Gives settings the values that [`Pooler::set_for_parse`] has kept.
    fn set_back(&mut self, server_id: ServerId, settings: &[(Arc<str>, Arc<str>)]) {
        let statement = self.own_statements.set_back.clone();
        for (name, _) in settings {
            let kept = self.kept_name(name);
            self.run_in_own_portal(server_id, &statement, &[Some(name.as_bytes()), Some(kept.as_bytes())]);
        }
    }

    /// The custom setting that keeps a setting's value.
    fn kept_name(&self, name: &str) -> String {
        [&self.own_statements.names.kept_prefix, ".", name].concat()
    }

    /// Runs a statement of our own in the midst of the client's segment.
    pub(crate) fn run_in_own_portal(
        &mut self,
        server_id: ServerId,
        statement: &Arc<Statement>,
        values: &[Option<&[u8]>],
    ) {
        self.ensure_held(server_id, statement);
        let queue = &mut self.server_mut(server_id).queue;
        for expect in [Expect::Bind, Expect::Execute, Expect::Close] {
            queue.push(Entry::skip(expect));
        }
        let (name, portal) = (statement.server_name(), &*self.own_statements.names.portal);
        self.outbox.insert(server_id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            writer.bind_portal(portal, name, values);
            writer.execute_portal(portal);
            writer.close(b'P', portal);
        });
    }

    /// Closes the least recently used statements until one more fits. Portals bound before keep their plan, so this is
    /// safe anywhere in a batch.
    pub(crate) fn make_room(&mut self, server_id: ServerId) {
        let limit = self.settings.max_prepared_statements;
        while let Some(victim) = self.server_mut(server_id).held.evict_for(limit) {
            self.inject_close(server_id, &victim);
        }
    }

    pub(crate) fn inject_close(&mut self, server_id: ServerId, statement: &Arc<Statement>) {
        let server = self.server_mut(server_id);
        server.held.remove(statement.id);
        let effect = Effect {
            server_loses: Some(statement.clone()),
            ..Effect::default()
        };
        server.queue.push(Entry::skip(Expect::Close).with(effect));
        let name = statement.server_name();
        self.outbox
            .insert(server_id.into(), |b| Writer::new(b).close(b'S', name));
    }
}
