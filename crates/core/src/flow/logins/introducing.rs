//! Examining a new server, from its first ReadyForQuery until it is free.
//!
//! The first question is for its nature ([`crate::upstream::nature`]). Another pooler would pass internal
//! requests to one of its servers, and a console would not understand them. So neither gets any other internal request.
//!
//! What `connect_query` makes stays: the clients of the server share it, as in PgBouncer.

use crate::base::close_reason::CloseReason;
use crate::base::ids::ServerId;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use crate::pools::pool;
use crate::server;
use crate::server_side::ServerSide;
use crate::state::probe::Probe;
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::To;
use crate::upstream::job::{Job, ProbeRows};
use crate::upstream::nature::{CONNECTIONS_ALLOWED, Nature, QUESTION, could_be_postgresql};
use crate::upstream::phase::{Introduction, ServerPhase};
use pgweir_wire::TransactionStatus;

/// The first version of PostgreSQL with login event triggers.
const LOGIN_TRIGGERS_SINCE: u32 = 17;

/// Removes what login event triggers have left in a new server's session, except settings, and asks whether the session
/// has a schema for temporary objects. Each direct connection has such things for itself; here all clients of the
/// server would share them.
const EMPTY: &str = "CLOSE ALL; DEALLOCATE ALL; DISCARD TEMP; DISCARD SEQUENCES; \
    SELECT pg_catalog.pg_advisory_unlock_all(); SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0";

impl Pooler {
    /// Sends the next question to a new server, or frees it after the last one.
    pub(crate) fn introduce(&mut self, now: Time, id: ServerId) {
        while !self.asks_next(now, id) {}
    }

    /// Takes the next step in the introduction of a new server. `false`: there was nothing to ask, and the step after it
    /// follows.
    fn asks_next(&mut self, now: Time, id: ServerId) -> bool {
        if self.is_unfit(now, id) {
            return true;
        }
        let server = self.server_mut(id);
        match server.introduction {
            Introduction::Begins => {
                server.introduction = Introduction::NatureAsked;
                let must = self.must_ask_nature(id);
                self.at(id).asks_if(must, now, QUESTION, ProbeRows::Value)
            }
            Introduction::NatureAsked => {
                server.introduction = Introduction::LimitAsked;
                self.nature_known(now, id);
                let mut side = self.at(id);
                let must = side.must_ask_limit();
                side.asks_if(must, now, CONNECTIONS_ALLOWED, ProbeRows::Value)
            }
            Introduction::LimitAsked => {
                server.introduction = Introduction::Emptied;
                let mut side = self.at(id);
                let must = side.must_be_emptied();
                side.asks_if(must, now, EMPTY, ProbeRows::TemporarySchema)
            }
            Introduction::Emptied => {
                server.introduction = Introduction::Queried;
                self.runs_connect_query(now, id)
            }
            Introduction::Queried => {
                server.introduction = Introduction::Done;
                let mut side = self.at(id);
                let asks = side.must_ask_new_server();
                if asks {
                    side.ask_new_server();
                }
                asks
            }
            Introduction::Done => {
                self.introduced(now, id);
                true
            }
        }
    }

    /// Closes a new server that cannot be used.
    fn is_unfit(&mut self, now: Time, id: ServerId) -> bool {
        let server = self.server_mut(id);
        let left_open = server.conversation.status() != TransactionStatus::Idle;
        let reason = match server.close_reason {
            _ if left_open => "connect query left a transaction open",
            // The next server may fail in the same way, too.
            Some(reason @ (CloseReason::NatureUnknown | CloseReason::StateUnknown)) => reason.text(),
            Some(reason) => {
                self.close_server(now, id, reason.text_at_login());
                return true;
            }
            None => return false,
        };
        // This counts as a failed attempt, which is not repeated at once.
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_ended(now, id, reason);
        true
    }

    fn runs_connect_query(&mut self, now: Time, id: ServerId) -> bool {
        let pool_id = self.server_mut(id).pool;
        let query = self.pool(pool_id).settings().connect_query.clone();
        let query = query.filter(|_| self.server_mut(id).nature != Nature::Console);
        if let Some(query) = &query {
            self.at(id).internal_query(now, ServerPhase::ConnectQuery, query);
        }
        query.is_some()
    }

    /// The examination of a new server is finished.
    fn introduced(&mut self, now: Time, id: ServerId) {
        // The settings made by connect_query are those of the pool's servers.
        let server = self.server_mut(id);
        let pool_id = server.pool;
        server.session.starts_here();
        let (base, endpoint) = (server.session.base().clone(), server.endpoint.clone());
        let text = format!("{} login finished", server::label(&self.servers, &self.pools, id));
        self.log(LogLevel::Debug, text);
        let pool = self.pool_mut(pool_id);
        pool.note_success(&endpoint);
        let is_wanted = !pool
            .host_of(&endpoint)
            .is_some_and(|at| pool.hosts().is_known_unwanted(at));
        let is_first = pool.learn_welcome(base);
        self.databases.exists(pool_id);
        if is_wanted {
            self.retire_second_choices(now, pool_id);
        }
        if is_first && self.pool(pool_id).key().kind == PoolKind::AuthQuery {
            self.open_where_waited_longest(now, pool_id);
        }
        if is_first && !self.pool(pool_id).key().kind.is_replication() {
            self.welcome_known(now, pool_id);
        }
        if self.pool(pool_id).key().kind == PoolKind::Listener {
            return self.listen(now, |listening| listening.listener_logged_in(id));
        }
        self.catalogs().look_after(now, pool_id);
        self.server_is_free(id);
    }

    /// Whether a new server must be asked for its nature: session state will be kept for its clients, or it does not
    /// look like PostgreSQL, or the one before was not. If it cannot be PostgreSQL, it is what the one before was.
    fn must_ask_nature(&mut self, id: ServerId) -> bool {
        let server = self.server_mut(id);
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let is_suspicious = !could_be_postgresql(server.cancels.key());
        let pool = self.pool(pool_id);
        if pool.key().kind != PoolKind::Clients {
            return false;
        }
        let database = &pool.settings().server_database;
        if is_suspicious && let Some(nature) = self.natures.of_no_postgresql(&endpoint, database) {
            self.server_mut(id).nature = nature;
            return false;
        }
        let keeps = self.shared.settings.keeps_sessions && pool.settings().shares_servers();
        keeps || is_suspicious || self.natures.is_known_otherwise(&endpoint, database)
    }

    /// The nature of a new server is known: it counts for the pool.
    fn nature_known(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        let (pool_id, nature, endpoint) = (server.pool, server.nature, server.endpoint.clone());
        server.held.forgets_between_transactions(!nature.is_postgresql());
        if self.pool(pool_id).key().kind != PoolKind::Clients {
            return;
        }
        let database = &pool::of(&self.pools, pool_id).settings().server_database;
        if self.natures.learn(endpoint, database, nature) != nature {
            let text = format!("{} {}", server::label(&self.servers, &self.pools, id), nature.words());
            self.log(LogLevel::Warning, text);
        }
        let members = self.pool(pool_id).members().iter();
        let natures = members.filter_map(|id| Some(self.servers.get(id.0)?.nature));
        let worst = natures.max().unwrap_or_default();
        if self.pool(pool_id).nature() != worst {
            self.pool_changes_nature(now, pool_id, id, worst);
        }
    }

    /// The pool must learn again which values its servers accept and which settings they have. The servers opened
    /// before are replaced. If they are PostgreSQL, they still have the settings of their last clients, and
    /// restorations in a pool of poolers do not undo these. If they are poolers, it is not known what clients have done
    /// there.
    fn pool_changes_nature(&mut self, now: Time, pool_id: PoolId, new: ServerId, nature: Nature) {
        let pool = self.pool_mut(pool_id);
        pool.changes_nature(nature);
        self.replace_servers(now, CloseReason::NatureChanged, Choice::One(pool_id));
        let server = self.server_mut(new);
        (server.close_reason, server.is_former) = (None, false);
        self.catalogs().look_after(now, pool_id);
    }
}

impl ServerSide<'_> {
    /// Whether the settings that a new server has by itself must be known. In session pooling, DISCARD ALL after each
    /// client restores the role's defaults, but not what connect_query has set.
    fn must_ask_new_server(&self) -> bool {
        let (pool, settings) = (&self.pool, &self.shared.settings);
        let has_query = pool.settings().connect_query.is_some() && pool.key().kind == PoolKind::Clients;
        let forgets = self.shared.is_weak(Weakness::ForgetsConnectQuery);
        !forgets
            && settings.keeps_sessions
            && (pool.shares_sessions() || has_query && self.server.nature.is_postgresql())
    }

    /// Whether it must be known how many connections a new server's PostgreSQL allows.
    fn must_ask_limit(&self) -> bool {
        let sizings = &self.shared.sizings;
        let sizing = self.pool.share().and_then(|share| sizings.get(share.sizing()));
        self.server.nature.is_postgresql() && sizing.is_some_and(|sizing| !sizing.knows_allowed())
    }

    /// Whether login event triggers may have left something in a new server's session that its clients would share.
    fn must_be_emptied(&self) -> bool {
        let has_triggers = |major| major >= LOGIN_TRIGGERS_SINCE;
        self.shared.settings.keeps_sessions
            && self.pool.shares_sessions()
            && self.server.nature.is_postgresql()
            && self.server.session.base().server_major().is_some_and(has_triggers)
    }

    /// A new server has answered [`EMPTY`]. If it has refused, it is not used.
    pub(crate) fn emptied(&mut self, probe: &Probe) {
        if let Some(failed) = probe.failed() {
            let text = format!(
                "{}: cannot remove what a login event trigger may have left: {failed}",
                self.id
            );
            self.shared.log(LogLevel::Warning, text);
            self.server.close_reason.get_or_insert(CloseReason::StateUnknown);
        } else if probe.has_temporary_schema() {
            self.server.session.gains_temporary_schema();
        }
    }

    /// Asks a new server a question if it must be asked. Returns whether it was.
    fn asks_if(&mut self, must: bool, now: Time, question: &str, rows: ProbeRows) -> bool {
        if must {
            self.ask_simply(now, question, rows);
        }
        must
    }

    /// Asks a new server a question, by a query that even a console answers.
    fn ask_simply(&mut self, now: Time, question: &str, rows: ProbeRows) {
        let server = &mut *self.server;
        server.phase = ServerPhase::ConnectQuery;
        server.since = now;
        server.conversation.query_begins(now);
        server.held.unnamed_becomes(Unnamed::Nothing);
        server.session.probe_begins(Probe::default());
        self.asks(To::Job(Job::Probe(rows)), |r| r.query(question.as_bytes()));
    }

    /// A server has answered [`CONNECTIONS_ALLOWED`]. If it is to be replaced, the others may be at another PostgreSQL.
    pub(crate) fn limit_told(&mut self, probe: &Probe) {
        if self.server.close_reason.is_some() {
            return;
        }
        let told = probe.value().and_then(|value| value.parse::<u32>().ok());
        let servers_max = self.shared.settings.pool_size_max;
        let sizing = self
            .pool
            .share()
            .and_then(|share| self.shared.sizings.get_mut(share.sizing()));
        let (Some(allowed), Some(sizing)) = (told, sizing) else {
            return;
        };
        if let Some(text) = sizing.learn_allowed(self.server.since, allowed, servers_max) {
            self.shared.log(LogLevel::Log, text);
        }
    }

    /// A server has answered [`QUESTION`]. If the answer does not tell what it is, the server is not used.
    pub(crate) fn nature_told(&mut self, probe: &Probe) {
        let told = self.server.cancels.process_id();
        let answered = probe.value().and_then(|value| value.parse().ok());
        let is_weak = self.shared.is_weak(Weakness::TakesErrorsForConsoles);
        self.server.nature = match (probe.failed(), answered) {
            (None, Some(answered)) => Nature::by_answer(told, answered),
            (Some(_), _) if probe.has_failed_on_console() || is_weak => Nature::Console,
            (failed, _) => {
                let reason = CloseReason::NatureUnknown;
                let text = format!("{}: {}: {}", self.id, reason.text(), failed.unwrap_or("no answer"));
                self.shared.log(LogLevel::Warning, text);
                self.server.close_reason.get_or_insert(reason);
                return;
            }
        };
    }
}
