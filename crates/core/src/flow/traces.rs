//! Traces that a server keeps of the sessions it has served, and clients that would notice them.
//!
//! A PostgreSQL process that has had temporary objects keeps their schema until it ends: `pg_my_temp_schema()` is not
//! 0, `current_schemas(true)` lists the schema, and `temp_buffers` can no longer be set. So a client that asks for
//! these, and whose session has had no temporary objects, gets another server when its transaction begins: an idle one
//! without the schema, or a new one. This happens at most once for each server that gets the schema.
//!
//! Likewise a custom setting (`app.tenant`) that any client has set on a server is then empty for all others, and no
//! longer unknown (recording F2). A client that asks for a custom setting that it has not set moves to an idle server
//! that does not know the setting, if there is one.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{INSPECT_BYTES_MAX, Message, Messages, Step};
use crate::base::pin_reason::Cleanup;
use crate::base::pool_id::PoolId;
use crate::base::reasons::{Acquired, Waiting};
use crate::base::settings::PoolMode;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::pools::pool::Pool;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::session::inspection::setting_name;
use crate::state::probe::Probe;
use crate::state::shape::{Shape, TEMP_BUFFERS};
use crate::upstream::entry::To;
use crate::upstream::job::{Job, ProbeRows};
use crate::upstream::phase::{Intake, ServerPhase};
use pgweir_sql::Effects;
use pgweir_wire::frontend::{BindNames, Parse};
use pgweir_wire::{FrontendTag, TransactionStatus};

/// Why a server is closed and replaced by a new one.
const SCHEMA_WOULD_SHOW: &str = "its temporary schema would show";

/// Asks whether the session has a schema for temporary objects.
const REMAINS: &str = "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

/// Resets the settings as DISCARD ALL does, discards the plans that were made under others, and keeps everything else.
const RESET_SETTINGS: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DISCARD PLANS";

/// Asks the same, and has the session's statistics reported now, as at its end.
const REMAINS_AND_FLUSH: &str =
    "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 FROM pg_catalog.pg_stat_force_next_flush()";

/// How many messages are read to find out what a transaction will ask for.
const MESSAGES_AHEAD_MAX: usize = 32;

impl Pooler {
    /// An idle server with a temporary schema was chosen for a client. Returns this server; or one without the schema,
    /// if the client would notice; or `None`, if the server was closed to make room for a new one.
    #[cold]
    pub(crate) fn instead_of_traces(
        &mut self,
        now: Time,
        id: ClientId,
        pool_id: PoolId,
        chosen: ServerId,
    ) -> Option<ServerId> {
        let client = self.clients.get(id.0).expect("looked up by the caller");
        let servers = &self.servers;
        let pool = self.pools[pool_id as usize].as_mut().expect("looked up by the caller");
        let minds = servers.get(chosen.0).is_some_and(|server| minds_traces(client, server));
        if !minds || !may_replace(pool, now) {
            return Some(chosen);
        }
        let shape = client.session.shape();
        let untouched = |s: &ServerId| {
            servers
                .get(s.0)
                .is_some_and(|s| !s.session.has_temporary_schema() && !s.session.is_claimed())
        };
        let alike = |s: &ServerId| servers.get(s.0).is_some_and(|s| Shape::same(s.session.shape(), shape));
        let best = pool
            .idle()
            .iter()
            .rposition(|s| untouched(s) && alike(s))
            .or_else(|| pool.idle().iter().rposition(untouched));
        match best {
            Some(at) => {
                let found = pool.idle_mut().remove(at);
                let shape = &servers.get(chosen.0).expect("idle servers live").session.shape();
                pool.idle_mut().push_back(chosen, shape);
                found
            }
            None => {
                self.replace(now, chosen);
                None
            }
        }
    }

    /// A server with a temporary schema is free, and the next waiting client would notice the schema: a new server
    /// replaces it.
    #[cold]
    pub(crate) fn replaced_for_waiter(&mut self, now: Time, pool_id: PoolId, server_id: ServerId) -> bool {
        let pool = self.pool(pool_id);
        let waiter = pool.waiting().front().and_then(|(id, _)| self.clients.get(id.0));
        let server = self.servers.get(server_id.0);
        let minds = may_replace(pool, now)
            && waiter
                .zip(server)
                .is_some_and(|(client, server)| minds_traces(client, server));
        if minds {
            self.replace(now, server_id);
        }
        minds
    }

    fn replace(&mut self, now: Time, server_id: ServerId) {
        self.shared.state_stats.servers_replaced += 1;
        self.close_server(now, server_id, SCHEMA_WOULD_SHOW);
    }

    /// A client's message for a server with traces: the client may have to move to another server. `None`: it stays.
    #[cold]
    pub(crate) fn mind_traces(
        &mut self,
        now: Time,
        id: ClientId,
        server_id: ServerId,
        message: &Message<'_>,
    ) -> Option<Step> {
        let client = self.clients.get(id.0).expect("looked up by the caller");
        let server = self.servers.get(server_id.0).expect("a linked server lives");
        let begins = may_change_server(client, server);
        let pool_id = server.pool;
        let shows_schema = server.session.has_temporary_schema()
            && !client.session.had_temporary()
            && may_replace(self.pool(pool_id), now);
        let shows_names = server.session.knows_custom_settings();
        if !begins || !(shows_schema || shows_names) || !self.keeps_session(id) {
            return None;
        }
        if !message.is_whole() && message.total <= INSPECT_BYTES_MAX {
            return Some(Step::NeedBytes);
        }
        let mut names = Vec::new();
        if !(shows_schema && asks_for_traces(client, message)) {
            if !shows_names {
                return None;
            }
            names = unknown_settings(client, server, message);
            if names.is_empty() || untouched_by(self.pool(pool_id), &self.servers, &names).is_none() {
                return None;
            }
        }
        // Earlier requests must be answered first: they may have begun a transaction.
        if self.server_mut(server_id).is_clean() {
            self.release_if_clean(now, server_id);
        }
        let client = self.client_mut(id);
        if client.link.is_some() {
            client.waiting = Waiting::ForReplies;
            return Some(Step::Wait);
        }
        let acquired = if names.is_empty() {
            client.session.minds_traces_if(true);
            self.acquire(now, id)
        } else {
            match untouched_by(self.pool(pool_id), &self.servers, &names) {
                Some(found) => {
                    self.pool_mut(pool_id).forget_idle(found);
                    self.link(now, id, found)
                }
                None => self.acquire(now, id),
            }
        };
        match acquired {
            Acquired::Server(_) => None,
            Acquired::Wait => Some(Step::Wait),
            Acquired::Closed => Some(Step::Closed),
        }
    }
}

impl Exchange<'_> {
    /// Whether a message that takes no short way may ask for a custom setting that only other sessions have set on the
    /// server: then [`Pooler::mind_traces`] must see it. What takes a short way has no effects, so it asks for none.
    #[inline]
    pub(crate) fn may_ask_for_custom_settings(&self, message: &Message<'_>) -> bool {
        self.server.session.knows_custom_settings() && self.asks_for_unknown_settings(message)
    }

    #[cold]
    fn asks_for_unknown_settings(&self, message: &Message<'_>) -> bool {
        let is_partial = !message.is_whole() && message.total <= INSPECT_BYTES_MAX;
        may_change_server(self.client, self.server)
            && (is_partial || !unknown_settings(self.client, self.server, message).is_empty())
    }
}

impl ServerSide<'_> {
    /// Resets the session of a server whose client has left, and asks for the traces that remain. random() gets a new
    /// seed, which DISCARD ALL does not give it.
    pub(crate) fn reset_session(&mut self, now: Time, query: &str, seed: u32) {
        self.server.session.plans_mislead_no_more();
        self.internal_query(now, ServerPhase::Resetting, query);
        self.seed_and_ask(seed);
    }

    /// Resets what code that is not read may have left and no probe shows: custom settings of any name, and the seed
    /// of random(). `seed` chooses the next one.
    pub(crate) fn reset_settings(&mut self, now: Time, seed: u32) {
        self.shared.state_stats.resets += 1;
        // The code may have prepared other statements under the names of those that the server holds.
        self.doubt_statements();
        self.server.held.outdate_all();
        self.server.session.needs(Cleanup::Settings);
        self.server.session.plans_mislead_no_more();
        self.internal_query(now, ServerPhase::Resetting, RESET_SETTINGS);
        self.seed_and_ask(seed);
    }

    /// Gives random() a seed that no client knows, and asks for the traces that remain.
    fn seed_and_ask(&mut self, seed: u32) {
        let flushes = self.pool.settings().mode == PoolMode::Session && reports_when_told(self.server);
        let remains = if flushes { REMAINS_AND_FLUSH } else { REMAINS };
        let seed = f64::from(seed) / f64::from(u32::MAX);
        let question = format!("SELECT pg_catalog.setseed({seed:.10}); {remains}");
        self.server.session.probe_begins(Probe::default());
        let job = Job::Probe(ProbeRows::TemporarySchema);
        self.asks(To::Job(job), |r| r.query(question.as_bytes()));
    }

    /// Why a server that was reset must not serve another client.
    pub(crate) fn shows_traces(&self) -> Option<&'static str> {
        let keeps = self.shared.settings.keeps_sessions && self.pool.settings().mode == PoolMode::Session;
        (keeps && self.server.session.has_temporary_schema()).then_some(SCHEMA_WOULD_SHOW)
    }
}

/// Whether the server has `pg_stat_force_next_flush()`.
fn reports_when_told(server: &Server) -> bool {
    server.session.shape().server_major().is_some_and(|major| major >= 15)
}

/// Whether a new connection is likely to succeed: while none can be opened, a server with traces is better than
/// none.
fn may_replace(pool: &Pool, now: Time) -> bool {
    pool.may_retry(now)
}

/// Whether a linked client is outside of transactions and segments, and not pinned, as far as its server has answered.
fn may_change_server(client: &Client, server: &Server) -> bool {
    server.conversation.status() == TransactionStatus::Idle
        && !server.conversation.queue().segment_open()
        && server.conversation.intake() == Intake::Requests
        && client.session.pins().is_empty()
}

/// Whether a client without a server would notice the temporary schema of this one.
fn minds_traces(client: &Client, server: &Server) -> bool {
    let buffers = |shape: &Shape| shape.value(TEMP_BUFFERS).cloned();
    server.session.has_temporary_schema()
        && (client.session.minds_traces()
            || buffers(client.session.shape()).is_some_and(|wanted| buffers(server.session.shape()) != Some(wanted)))
}

/// Whether a message, or one that has come after it, asks whether there is a temporary schema.
fn asks_for_traces(client: &Client, message: &Message<'_>) -> bool {
    // For such a session the schema is a part of the meaning of every name.
    if client.session.shape().creates_temporary() {
        return true;
    }
    let asks = |effects: Effects| effects.intersects(Effects::TEMPORARY_SCHEMA);
    let of_message = |tag: u8, body: &[u8]| match FrontendTag::from_byte(tag) {
        _ if body.len() > INSPECT_BYTES_MAX => false,
        Some(FrontendTag::Query) => {
            let text = body.strip_suffix(&[0]).unwrap_or(body);
            let executed = match pgweir_sql::classify(text) {
                pgweir_sql::Statement::Execute(name) => client.statements.meaning_of(&name),
                _ => None,
            };
            asks(pgweir_sql::effects(text)) || executed.is_some_and(|s| asks(s.effects))
        }
        Some(FrontendTag::Parse) => Parse::read(body).is_ok_and(|parse| asks(pgweir_sql::effects(parse.query))),
        Some(FrontendTag::Bind) => BindNames::read(body)
            .ok()
            .and_then(|names| client.statements.meaning_of(names.statement))
            .is_some_and(|statement| asks(statement.effects)),
        _ => false,
    };
    let first = message.bytes.first().copied().unwrap_or_default();
    if of_message(first, message.body()) {
        return true;
    }
    let mut behind = Messages::new(message.behind);
    (0..MESSAGES_AHEAD_MAX)
        .map_while(|_| behind.next())
        .any(|(tag, body)| of_message(tag, body))
}

/// Custom settings that a message asks for, which this server knows and the client's session does not.
fn unknown_settings(client: &Client, server: &Server, message: &Message<'_>) -> Vec<Box<str>> {
    let text = match message.tag {
        FrontendTag::Query => message.body().strip_suffix(&[0]),
        FrontendTag::Parse => Parse::read(message.body()).ok().map(|p| p.query),
        FrontendTag::Bind => BindNames::read(message.body())
            .ok()
            .and_then(|names| client.statements.meaning_of(names.statement))
            .map(|statement| &*statement.query),
        _ => None,
    };
    let text = text.filter(|text| text.len() <= INSPECT_BYTES_MAX).unwrap_or_default();
    let strange = |name: &str| {
        server.session.knows_custom_setting(name)
            && !client.session.knows_custom_setting(name)
            && client.session.shape().get(name).is_none()
    };
    if let Some(name) = pgweir_sql::setting_shown(text) {
        return setting_name(name).into_iter().filter(|n| strange(n)).collect();
    }
    if !pgweir_sql::effects(text).intersects(Effects::CURRENT_SETTING) {
        return Vec::new();
    }
    let constants = pgweir_sql::between_quotes(text);
    constants.filter_map(setting_name).filter(|n| strange(n)).collect()
}

/// An idle server on which no client has set any of these settings.
fn untouched_by(pool: &Pool, servers: &Slab<Server>, names: &[Box<str>]) -> Option<ServerId> {
    let knows_none =
        |s: &Server| !s.session.is_claimed() && names.iter().all(|name| !s.session.knows_custom_setting(name));
    let mut idle = pool.idle().iter().rev();
    idle.find(|id| servers.get(id.0).is_some_and(knows_none)).copied()
}
