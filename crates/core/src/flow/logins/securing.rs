//! TLS for clients and servers, as far as the core decides about it: when it is requested, when it is accepted, and
//! what a failure means. The driver does the handshake.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::LoginFailure;
use crate::base::request::{Address, Endpoint, LogLevel, Request};
use crate::base::time::Time;
use crate::base::tls::TlsFacts;
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use crate::server;
use crate::upstream::phase::ServerPhase;
use pgweir_config::SslMode;
use pgweir_wire::StartupPacket;

impl Pooler {
    /// Whether a client may secure its connection now.
    pub(crate) fn offers_tls(&self, id: ClientId) -> bool {
        let is_possible = |address: Address| matches!(address, Address::Tcp(_));
        self.shared.settings.client_sslmode != SslMode::Disable
            && self
                .clients
                .get(id.0)
                .is_some_and(|c| c.tls.is_none() && is_possible(c.accepted.peer))
    }

    /// Whether a client must secure its connection before it can log in.
    pub(crate) fn must_use_tls(&self, id: ClientId) -> bool {
        self.shared.settings.client_sslmode >= SslMode::Require && self.offers_tls(id)
    }

    /// SSLRequest, or GSSENCRequest, which is always declined.
    pub(crate) fn encryption_requested(&mut self, now: Time, id: ClientId, is_tls: bool) {
        if self.clients.get(id.0).is_some_and(|c| c.tls.is_some()) {
            return self.reject(now, id, &Rejection::encrypted_twice());
        }
        let is_granted = is_tls && self.offers_tls(id);
        let answer = if is_granted { b'S' } else { b'N' };
        self.shared.outbox.insert(id.into(), |to| to.push(answer));
        if is_granted {
            let request = Request::SecureClient {
                client: id,
                direct: false,
            };
            self.shared.requests.push_back(request);
        }
    }

    pub(crate) fn client_secured(&mut self, id: ClientId, facts: TlsFacts) {
        if let Some(client) = self.clients.get_mut(id.0) {
            client.tls = Some(Box::new(facts));
        }
    }

    /// The connection is no longer usable: no error can be sent on it.
    pub(crate) fn client_not_secured(&mut self, now: Time, id: ClientId, why: &str) {
        let Some(client) = self.clients.get(id.0) else { return };
        let text = format!("{} TLS handshake error: {why}", client.label(id, &self.pools));
        self.log(LogLevel::Warning, text);
        self.close_client(now, id, "TLS handshake failed");
    }

    /// Whether a server is asked for TLS.
    pub(crate) fn asks_for_tls(&self, id: ServerId) -> bool {
        self.servers.get(id.0).is_some_and(|server| {
            let mode = self.pool(server.pool).settings.server_tls.mode;
            mode != SslMode::Disable && matches!(server.endpoint, Endpoint::Tcp { .. })
        })
    }

    /// Sends an SSLRequest to a server.
    pub(crate) fn ask_for_tls(&mut self, id: ServerId) {
        self.server_mut(id).phase = ServerPhase::Securing;
        self.shared.outbox.insert(id.into(), StartupPacket::write_ssl_request);
    }

    /// The answer to an SSLRequest. No bytes may follow it in the clear: they would be taken for bytes that TLS
    /// protects (CVE-2021-23222). Nothing else that a server sends instead can be trusted, not even an error
    /// (CVE-2024-10977).
    pub(crate) fn ssl_answer(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let server = self.server_mut(id);
        let host = match &server.endpoint {
            Endpoint::Tcp { host, .. } => host.clone(),
            Endpoint::Unix { .. } => String::new(),
        };
        let pool = server.pool;
        let must = self.pool(pool).settings.server_tls.mode >= SslMode::Require;
        match input {
            [] => {}
            b"S" => {
                let request = Request::SecureServer { server: id, host };
                self.shared.requests.push_back(request);
            }
            b"N" if !must => self.begin_server_login(now, id),
            b"N" => self.server_not_secured(now, id, "server refused SSL"),
            [b'S' | b'N', ..] => {
                self.server_not_secured(now, id, "received unencrypted data after SSL response");
            }
            _ => self.server_not_secured(now, id, "bad sslreq answer"),
        }
        input.len()
    }

    pub(crate) fn server_secured(&mut self, now: Time, id: ServerId, facts: TlsFacts) {
        if let Some(server) = self.servers.get_mut(id.0) {
            server.tls = Some(Box::new(facts));
            self.begin_server_login(now, id);
        }
    }

    /// A server connection does not meet the configuration's demands for TLS.
    pub(crate) fn server_not_secured(&mut self, now: Time, id: ServerId, why: &str) {
        if self.servers.get(id.0).is_none() {
            return;
        }
        let text = format!("{} {why}", server::label(&self.servers, &self.pools, id));
        self.log(LogLevel::Warning, text);
        let failure = LoginFailure {
            sqlstate: String::new(),
            message: format!("cannot connect to the server: {why}"),
            temporary: true,
        };
        self.login_failed(now, id, failure);
    }
}
