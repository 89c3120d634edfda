//! Carries out the steps of a login to a server, from the open socket to the first ReadyForQuery.

use crate::base::ids::ServerId;
use crate::base::pool_id::LoginFailure;
use crate::base::request::{Connected, LogLevel, Request};
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::server;
use crate::upstream::phase::ServerPhase;
use crate::upstream::server_login::{ServerLogin, ServerLoginStep};
use pgweir_auth::ServerAuth;
use rand_core::RngCore;

impl Pooler {
    /// The socket is open: sends an SSLRequest or the startup packet.
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

    /// Sends the startup packet.
    pub(crate) fn begin_server_login(&mut self, now: Time, id: ServerId) {
        let mut nonce = [0; 18];
        self.random.fill_bytes(&mut nonce);
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        let pool = self.pools[server.pool as usize].as_ref();
        let pool = pool.expect("a server's pool lives");
        let user = pool.settings.server_user.as_bytes();
        let target = pool.settings.target;
        let mut auth = ServerAuth::new(user, pool.credential.clone(), nonce);
        if let Some(end_point) = server.tls.as_ref().and_then(|tls| tls.end_point.clone()) {
            auth = auth.bind_to(end_point);
        }
        server.phase = ServerPhase::Login(Box::new(ServerLogin::new(auth, target)));
        server.since = now;
        let packet = pool.startup_packet();
        self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&packet));
        if self.shared.settings.log_connections {
            let label = server::label(&self.servers, &self.pools, id);
            let server = self.server_mut(id);
            let local = server.connected.map_or(String::new(), |c| c.local.to_string());
            let secured = server.tls.as_ref().map_or(String::new(), |tls| format!(" tls={tls}"));
            let text = format!("{label} new connection to server (from {local}){secured}");
            self.log(LogLevel::Log, text);
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
                // The login ended inside the input: the rest is no part of it.
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

    /// Carries out a step of a login to a server.
    fn follow_server_login(&mut self, now: Time, id: ServerId, step: ServerLoginStep<'_>) {
        match step {
            ServerLoginStep::NeedBytes | ServerLoginStep::Nothing => {}
            ServerLoginStep::Send(payload) => self.send(id, |w| w.password(&payload)),
            ServerLoginStep::Ask(query) => self.send(id, |w| w.query(query.as_bytes())),
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
            ServerLoginStep::Welcome(None) => self.server_welcomes(now, id, true),
            ServerLoginStep::Welcome(Some(why)) => self.second_choice(now, id, why),
            ServerLoginStep::Unwanted(why) => self.server_is_unwanted(now, id, why),
            ServerLoginStep::Misbehaves(what) => self.server_misbehaves(now, id, &what),
        }
    }

    pub(crate) fn login_failed(&mut self, now: Time, id: ServerId, failure: LoginFailure) {
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_lost(now, id, "login failed", Some(failure));
    }

    /// A server is ready. `is_wanted`: it matches `target_session_attrs`.
    pub(crate) fn server_welcomes(&mut self, now: Time, id: ServerId, is_wanted: bool) {
        let server = self.server_mut(id);
        // From here on it counts as a server that has logged in, even if it is closed.
        server.phase = ServerPhase::ConnectQuery;
        server.session.base = server.session.shape.clone();
        server.conversation.ready_time = now;
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let was_in_doubt = std::mem::take(&mut server.in_doubt);
        let pool = self.pool_mut(pool_id);
        pool.in_doubt -= u32::from(was_in_doubt);
        pool.note_success(&endpoint, is_wanted);
        if is_wanted {
            self.retire_second_choices(now, pool_id);
        }
        self.note_soon_free(id);
        self.introduce(now, id);
    }
}
