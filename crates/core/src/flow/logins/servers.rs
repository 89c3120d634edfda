//! Carries out the steps of a login to a server, from the open socket to the first ReadyForQuery.

use crate::base::ids::ServerId;
use crate::base::pool_id::LoginFailure;
use crate::base::request::{Connected, LogLevel, Request};
use crate::base::time::Time;
use crate::base::verification::{Verification, Verified};
use crate::pooler::Pooler;
use crate::server;
use crate::server_side::ServerSide;
use crate::upstream::phase::ServerPhase;
use crate::upstream::server_login::{ServerLogin, ServerLoginStep};
use pgweir_auth::{Derivation, ServerAuth};
use rand_core::RngCore;

impl Pooler {
    /// The socket is open: sends an SSLRequest or the startup packet.
    pub(crate) fn server_connected(&mut self, now: Time, id: ServerId, connected: Connected) {
        let Some(server) = self.servers.get_mut(id.0) else {
            return;
        };
        server.connected = Some(connected);
        server.since = now;
        if !self.at(id).asks_for_tls() {
            self.begin_server_login(now, id);
        }
    }

    /// Sends the startup packet.
    pub(crate) fn begin_server_login(&mut self, now: Time, id: ServerId) {
        let mut nonce = [0; 18];
        self.random.fill_bytes(&mut nonce);
        if self.servers.get(id.0).is_some() {
            self.at(id).begin_login(now, nonce);
        }
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
            ServerLoginStep::Derive(derivation) => self.have_keys_derived(id, derivation),
            ServerLoginStep::Ask(query) => self.send(id, |w| w.query(query.as_bytes())),
            ServerLoginStep::ParameterStatus(body) => {
                if let Some(mut reply) = self.replying(now, id) {
                    reply.parameter_status(body);
                    let deeds = reply.deeds;
                    self.carry_out(now, id, deeds);
                }
            }
            ServerLoginStep::CancelKey(key) => self.server_mut(id).cancels.key_is_told(key),
            ServerLoginStep::GiveUp { failure, log } => {
                let label = server::label(&self.servers, &self.pools, id);
                self.log(LogLevel::Error, format!("{label} {log}"));
                self.login_failed(now, id, "failed to answer authreq", failure);
            }
            ServerLoginStep::Refused { failure, severity } => {
                let reason = self.log_refusal(id, &severity, &failure.message);
                self.login_failed(now, id, &reason, failure);
            }
            ServerLoginStep::Welcome(None) => self.server_welcomes(now, id, true),
            ServerLoginStep::Welcome(Some(why)) => self.second_choice(now, id, why),
            ServerLoginStep::Unwanted(why) => self.server_is_unwanted(now, id, why),
            ServerLoginStep::Misbehaves(what) => self.server_misbehaves(now, id, &what),
        }
    }

    /// A derivation that would take long is left to the driver; the server waits for the proof.
    fn have_keys_derived(&mut self, id: ServerId, derivation: Derivation) {
        self.shared.requests.push_back(Request::Verify {
            asker: id.into(),
            question: Box::new(Verification::Keys(derivation)),
        });
    }

    /// Another process has asked for the keys of this login, and has got the answer: asks again.
    pub(crate) fn have_keys_derived_again(&mut self, id: ServerId) {
        if let Some(server) = self.servers.get(id.0)
            && let ServerPhase::Login(login) = &server.phase
            && let Some(derivation) = login.keys_being_derived()
        {
            self.have_keys_derived(id, derivation);
        }
    }

    /// The keys for a login have been derived. The server may be gone.
    pub(crate) fn server_keys_derived(&mut self, now: Time, id: ServerId, answer: Verified) {
        let derived = match answer {
            Verified::Keys(keys) => Ok(keys),
            Verified::Wrong(why) => Err(why),
            Verified::Right | Verified::SystemUser(_) => return,
        };
        if let Some(server) = self.servers.get_mut(id.0)
            && let ServerPhase::Login(login) = &mut server.phase
            && let Some(step) = login.keys_derived(derived, &mut self.scram_keys)
        {
            self.follow_server_login(now, id, step);
        }
    }

    /// A server has refused the login. PgBouncer has another line for a pool that has had a server, and for replication.
    /// Returns why the connection ends.
    fn log_refusal(&mut self, id: ServerId, severity: &str, message: &str) -> String {
        self.log(LogLevel::Warning, format!("server login failed: {severity} {message}"));
        let pool_id = self.server_mut(id).pool;
        let pool = self.pool(pool_id);
        let is_replication = pool.key().kind.is_replication();
        if is_replication || pool.welcome().is_some() {
            self.log(LogLevel::Error, format!("S: login failed: {severity}: {message}"));
        }
        match is_replication {
            true => format!("login failed: {message}"),
            false => message.to_owned(),
        }
    }

    pub(crate) fn login_failed(&mut self, now: Time, id: ServerId, reason: &str, failure: LoginFailure) {
        self.shared.requests.push_back(Request::Close(id.into()));
        self.server_lost(now, id, reason, Some(failure));
    }

    /// A server has let the pooler in. `is_wanted`: it matches `target_session_attrs`. Whether the attempt to open it
    /// has succeeded shows when the server has been examined: see [`Pooler::introduce`].
    pub(crate) fn server_welcomes(&mut self, now: Time, id: ServerId, is_wanted: bool) {
        let server = self.server_mut(id);
        // From here on it counts as a server that has logged in, even if it is closed.
        server.phase = ServerPhase::ConnectQuery;
        server.session.starts_here();
        server.conversation.is_idle_since(now);
        let (pool_id, endpoint) = (server.pool, server.endpoint.clone());
        let was_in_doubt = std::mem::take(&mut server.in_doubt);
        let pool = self.pool_mut(pool_id);
        pool.doubt_ends(was_in_doubt);
        pool.note_login(&endpoint, is_wanted);
        if let Some(share) = pool.share() {
            self.shared.sizings.is_up(share);
        }
        self.note_soon_free(id);
        self.introduce(now, id);
    }
}

impl ServerSide<'_> {
    /// Sends the startup packet.
    fn begin_login(&mut self, now: Time, nonce: [u8; 18]) {
        let settings = self.pool.settings();
        let mut auth = ServerAuth::new(settings.server_user.as_bytes(), self.pool.credential().clone(), nonce);
        if let Some(end_point) = self.server.tls.as_ref().and_then(|tls| tls.end_point.clone()) {
            auth = auth.bind_to(end_point);
        }
        self.server.phase = ServerPhase::Login(Box::new(ServerLogin::new(auth, settings.target)));
        self.server.since = now;
        let packet = self.pool.startup_packet();
        self.shared
            .outbox
            .insert(self.id.into(), |to| to.extend_from_slice(&packet));
        if self.shared.settings.log_connections {
            let label = self.server.label(self.id, self.pool.key());
            let local = self.server.connected.map_or(String::new(), |c| c.local.to_string());
            let tls = self.server.tls.as_ref();
            let secured = tls.map_or(String::new(), |tls| format!(" tls={tls}"));
            let text = format!("{label} new connection to server (from {local}){secured}");
            self.shared.log(LogLevel::Log, text);
        }
    }
}
