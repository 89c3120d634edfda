//! What a login to a server says is carried out here: from the open socket to the first free moment of the server.

use crate::base::ids::ServerId;
use crate::base::pool_id::{LoginFailure, PoolId, PoolKind};
use crate::base::request::{Connected, LogLevel, Request};
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::upstream::phase::ServerPhase;
use crate::upstream::server_login::{ServerLogin, ServerLoginStep};
use pgweir_auth::ServerAuth;
use pgweir_wire::TransactionStatus;
use rand_core::RngCore;

impl Pooler {
    /// The socket is open: ask for TLS, or say who we are.
    pub(crate) fn server_connected(&mut self, now: Time, id: ServerId, connected: Connected) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        server.connected = Some(connected);
        server.since = now;
        if self.asks_for_tls(id) {
            self.ask_for_tls(id);
        } else {
            self.begin_server_login(now, id);
        }
    }

    /// Says who we are.
    pub(crate) fn begin_server_login(&mut self, now: Time, id: ServerId) {
        let mut nonce = [0; 18];
        self.random.fill_bytes(&mut nonce);
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool = self.pools[server.pool as usize].as_ref();
        let pool = pool.expect("a server's pool lives");
        let user = pool.settings.server_user.as_bytes();
        let mut auth = ServerAuth::new(user, pool.credential.clone(), nonce);
        if let Some(end_point) = server.tls.as_ref().and_then(|tls| tls.end_point.clone()) {
            auth = auth.bind_to(end_point);
        }
        server.phase = ServerPhase::Login(Box::new(ServerLogin::new(auth)));
        server.since = now;
        let packet = pool.startup_packet();
        self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&packet));
        if self.shared.settings.log_connections {
            let label = self.server_label(id);
            let server = self.server_mut(id);
            let local = server.connected.map_or(String::new(), |c| c.local.to_string());
            let secured = server.tls.as_ref().map_or(String::new(), |tls| format!(" tls={tls}"));
            let text = format!("{label} new connection to server (from {local}){secured}");
            self.log(LogLevel::Log, text);
        }
    }

    /// `S-0x…: db/user@address:port`, as PgBouncer writes it.
    pub(crate) fn server_label(&self, id: ServerId) -> String {
        let Some(server) = self.servers.get(id.0) else {
            return id.to_string();
        };
        let key = &self.pool(server.pool).key;
        match &server.connected {
            Some(c) => format!("{id}: {}/{}@{}", key.database, key.user, c.remote),
            None => format!("{id}: {}/{}@{}", key.database, key.user, server.endpoint),
        }
    }

    /// The socket could not be opened. `why` is "connect failed" or "server DNS lookup failed": what log parsers look for.
    pub(crate) fn server_connect_failed(&mut self, now: Time, id: ServerId, why: &str) {
        let failure = LoginFailure {
            sqlstate: String::new(),
            message: why.into(),
            temporary: true,
        };
        self.server_lost(now, id, why, Some(failure));
    }

    pub(crate) fn server_login_bytes(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(server) = self.servers.get_mut(id.0) else {
                return input.len();
            };
            let ServerPhase::Login(login) = &mut server.phase else {
                // Logged in: what follows is no part of the login.
                if at < input.len() {
                    self.shared.requests.push_back(Request::Resume(id.into()));
                }
                return at;
            };
            let (bytes, step) = login.handle_bytes(&input[at..], &mut self.scram_keys);
            if let ServerLoginStep::NeedBytes = step {
                return at;
            }
            at += bytes;
            self.follow_server_login(now, id, step);
        }
    }

    /// Does what a login to a server says.
    fn follow_server_login(&mut self, now: Time, id: ServerId, step: ServerLoginStep<'_>) {
        match step {
            ServerLoginStep::NeedBytes | ServerLoginStep::Nothing => {}
            ServerLoginStep::Send(payload) => self.send(id, |w| w.password(&payload)),
            ServerLoginStep::ParameterStatus(body) => {
                if let Some(mut reply) = self.replying(now, id) {
                    reply.parameter_status(body);
                }
            }
            ServerLoginStep::CancelKey(key) => self.server_mut(id).cancels.key = key,
            ServerLoginStep::GiveUp(failure) => self.login_failed(now, id, failure),
            ServerLoginStep::Refused { failure, severity } => {
                let text = format!("server login failed: {severity} {}", failure.message);
                self.log(LogLevel::Warning, text);
                self.login_failed(now, id, failure);
            }
            ServerLoginStep::Welcome => self.server_welcomes(now, id),
            ServerLoginStep::Misbehaves(what) => self.server_misbehaves(now, id, &what),
        }
    }

    pub(crate) fn login_failed(&mut self, now: Time, id: ServerId, failure: LoginFailure) {
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_lost(now, id, "login failed", Some(failure));
    }

    /// The first ReadyForQuery.
    fn server_welcomes(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        // From here on it counts as a server that is up, whatever closes it.
        server.phase = ServerPhase::ConnectQuery;
        server.session.base = server.session.shape.clone();
        server.conversation.ready_time = now;
        let pool_id = server.pool;
        let pool = self.pool_mut(pool_id);
        pool.note_success();
        match pool.settings.connect_query.clone() {
            Some(query) => self.at(id).own_query(now, ServerPhase::ConnectQuery, &query),
            None => self.login_finished(now, id),
        }
    }

    /// connect_query is through, or what a new server was asked after it.
    pub(crate) fn login_finished(&mut self, now: Time, id: ServerId) {
        let server = self.server_mut(id);
        if server.conversation.status != TransactionStatus::Idle {
            return self.close_server(now, id, "connect query left a transaction open");
        }
        if let Some(reason) = server.close_reason {
            return self.close_server(now, id, reason.text());
        }
        let pool_id = server.pool;
        if !std::mem::replace(&mut server.introduced, true) && self.must_ask_new_server(pool_id) {
            return self.at(id).ask_new_server();
        }
        // What connect_query has set is how servers of this pool look.
        let server = self.server_mut(id);
        server.session.base = server.session.shape.clone();
        let base = server.session.base.clone();
        let text = format!("{} login finished", self.server_label(id));
        self.log(LogLevel::Debug, text);
        let is_first = self.pool_mut(pool_id).welcome.replace(base).is_none();
        if is_first && !self.pool(pool_id).key.kind.is_replication() {
            self.welcome_known(pool_id);
        }
        if self.pool(pool_id).key.kind == PoolKind::Listener {
            return self.listener_logged_in(now, id);
        }
        self.look_after_catalog(now, pool_id);
        self.server_is_free(now, id);
    }

    /// Whether what a new server has made by itself must be known. In session pooling, DISCARD ALL behind each client returns
    /// to the role's defaults, but not to what connect_query has set.
    fn must_ask_new_server(&self, pool_id: PoolId) -> bool {
        let pool = self.pool(pool_id);
        let has_query = pool.settings.connect_query.is_some() && pool.key.kind == PoolKind::Clients;
        self.shares_sessions(pool_id) || self.shared.settings.keeps_sessions && has_query
    }
}
