//! TLS for clients and servers, as far as the core decides about it: when it is requested, when it is accepted, and
//! what a failure means. The driver does the handshake.

use crate::base::address::Address;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::LoginFailure;
use crate::base::request::{Endpoint, LogLevel, Request};
use crate::base::time::Time;
use crate::base::tls::TlsFacts;
use crate::client::ClientPhase;
use crate::flow::logins::arrival::{Arrival, Next};
use crate::login::rejection::Rejection;
use crate::pooler::Pooler;
use crate::server;
use crate::server_side::ServerSide;
use crate::upstream::phase::ServerPhase;
use pgweir_config::SslMode;
use pgweir_wire::StartupPacket;

impl Arrival<'_> {
    /// Whether a client may secure its connection now.
    pub(super) fn offers_tls(&self) -> bool {
        let is_possible = matches!(self.client.accepted.peer, Address::Tcp(_));
        self.shared.settings.client_sslmode != SslMode::Disable && self.client.tls.is_none() && is_possible
    }

    /// Whether a client must secure its connection before it can log in.
    pub(super) fn must_use_tls(&self) -> bool {
        self.shared.settings.client_sslmode >= SslMode::Require && self.offers_tls()
    }

    /// SSLRequest, or GSSENCRequest, which is always declined.
    pub(super) fn encryption_requested(&mut self, is_tls: bool) -> Next {
        if self.client.tls.is_some() {
            return Next::Reject(Rejection::encrypted_twice());
        }
        if let ClientPhase::Startup(requests) = &mut self.client.phase
            && !requests.comes(is_tls)
        {
            return Next::Reject(Rejection::asked_twice(is_tls));
        }
        let is_granted = is_tls && self.offers_tls();
        let answer = if is_granted { b'S' } else { b'N' };
        self.shared.outbox.insert(self.id.into(), |to| to.push(answer));
        if is_granted {
            self.begin_handshake(false);
        }
        Next::Nothing
    }

    /// `direct`: the client begins TLS without an SSLRequest.
    pub(super) fn begin_handshake(&mut self, direct: bool) {
        let client = self.id;
        self.shared.requests.push_back(Request::SecureClient { client, direct });
    }
}

/// What the answer to an SSLRequest means.
enum SslAnswer {
    NeedBytes,
    /// TLS begins.
    Granted,
    /// The login goes on without TLS.
    Declined,
    /// The connection must not be used.
    Unacceptable(&'static str),
}

impl SslAnswer {
    /// No bytes may follow the answer in the clear: they would be taken for bytes that TLS protects (CVE-2021-23222).
    /// Nothing else that a server sends instead can be trusted, not even an error (CVE-2024-10977).
    fn read(input: &[u8], mode: SslMode) -> SslAnswer {
        match input {
            [] => SslAnswer::NeedBytes,
            b"S" => SslAnswer::Granted,
            b"N" if mode < SslMode::Require => SslAnswer::Declined,
            b"N" => SslAnswer::Unacceptable("server refused SSL"),
            [b'S' | b'N', ..] => SslAnswer::Unacceptable("received unencrypted data after SSL response"),
            _ => SslAnswer::Unacceptable("bad sslreq answer"),
        }
    }
}

impl ServerSide<'_> {
    /// Sends an SSLRequest, or begins a handshake at once, if the connection is to use TLS. Returns whether it is.
    pub(super) fn asks_for_tls(&mut self) -> bool {
        let is_possible = matches!(self.server.endpoint, Endpoint::Tcp { .. });
        let tls = &self.pool.settings().server_tls;
        let (asks, direct) = (is_possible && tls.mode != SslMode::Disable, tls.is_direct);
        if asks {
            self.server.phase = ServerPhase::Securing;
            if direct {
                self.begin_handshake(true);
            } else {
                let outbox = &mut self.shared.outbox;
                outbox.insert(self.id.into(), StartupPacket::write_ssl_request);
            }
        }
        asks
    }

    /// `direct`: without an SSLRequest.
    fn begin_handshake(&mut self, direct: bool) {
        let host = match &self.server.endpoint {
            Endpoint::Tcp { host, .. } => host.clone(),
            Endpoint::Unix { .. } => String::new(),
        };
        let server = self.id;
        self.shared
            .requests
            .push_back(Request::SecureServer { server, host, direct });
    }
}

impl Pooler {
    /// The connection is no longer usable: no error can be sent on it.
    pub(crate) fn client_not_secured(&mut self, now: Time, id: ClientId, why: &str) {
        if let Some(mut arrival) = self.arrival(id) {
            arrival.log(LogLevel::Warning, &format!("TLS handshake error: {why}"));
            self.close_client(now, id, "TLS handshake failed");
        }
    }

    /// The answer to an SSLRequest.
    pub(crate) fn ssl_answer(&mut self, now: Time, id: ServerId, input: &[u8]) -> usize {
        let mut side = self.at(id);
        match SslAnswer::read(input, side.pool.settings().server_tls.mode) {
            SslAnswer::NeedBytes => {}
            SslAnswer::Granted => side.begin_handshake(false),
            SslAnswer::Declined => self.begin_server_login(now, id),
            SslAnswer::Unacceptable(why) => self.server_is_not_secure(now, id, why, why),
        }
        input.len()
    }

    pub(crate) fn server_secured(&mut self, now: Time, id: ServerId, facts: TlsFacts) {
        if let Some(server) = self.servers.get_mut(id.0) {
            let text = format!("SSL established: {facts}");
            server.tls = Some(Box::new(facts));
            if self.shared.settings.log_connections {
                let label = server::label(&self.servers, &self.pools, id);
                self.log(LogLevel::Log, format!("{label} {text}"));
            }
            self.begin_server_login(now, id);
        }
    }

    /// The handshake with a server has failed.
    pub(crate) fn server_not_secured(&mut self, now: Time, id: ServerId, why: &str) {
        self.server_is_not_secure(now, id, "TLS handshake failed", &format!("TLS handshake error: {why}"));
    }

    /// A server connection does not meet the configuration's demands for TLS. `reason`: why it is closed.
    fn server_is_not_secure(&mut self, now: Time, id: ServerId, reason: &str, why: &str) {
        if self.servers.get(id.0).is_none() {
            return;
        }
        let text = format!("{} {why}", server::label(&self.servers, &self.pools, id));
        self.log(LogLevel::Warning, text);
        let failure = LoginFailure::temporary(format!("cannot connect to the server: {why}"));
        self.login_failed(now, id, reason, failure);
    }
}
