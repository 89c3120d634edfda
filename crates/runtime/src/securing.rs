//! TLS handshakes, and reading from connections with TLS.

use crate::connection::{AfterRead, Facts};
use crate::credentials::Credentials;
use crate::event_loop::EventLoop;
use crate::reading::READ_BYTES;
use crate::socket::SocketAddress;
use crate::tls::{End, LEFT, TlsContexts, TlsSession};
use crate::transport::Transport;
use crate::turns::Origin;
use pgweir_config::Problem;
use pgweir_core::{ClientId, ConnectionId, ServerId, TlsChange, TlsFacts, TriedTls};
use std::net::{IpAddr, Ipv4Addr};

/// The core has asked for TLS although the settings have switched it off.
pub(crate) const NO_CONTEXT: &str = "TLS is off";

/// The address of the other side.
pub(crate) fn peer_address(transport: &Transport) -> IpAddr {
    match SocketAddress::of_peer(transport.socket()) {
        Ok(SocketAddress::Tcp(address)) => address.ip(),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

/// The other side, for queues in which origins take turns.
pub(crate) fn origin(transport: &Transport) -> Origin {
    match SocketAddress::of_peer(transport.socket()) {
        Ok(SocketAddress::Tcp(address)) => Origin::of(address.ip()),
        _ => Origin::LocalUser(
            Credentials::of_peer(transport.socket())
                .ok()
                .map(|peer| peer.uid.as_raw()),
        ),
    }
}

impl EventLoop {
    /// Begins a handshake with a client. Bytes that the client has sent before belong to the handshake only if the
    /// client began with TLS.
    pub(crate) fn secure_client(&mut self, client: ClientId, direct: bool) {
        let id = ConnectionId::Client(client);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let early = std::mem::take(&mut connection.kept);
        debug_assert!(
            direct || early.is_empty(),
            "the core consumes what comes with an SSLRequest"
        );
        self.begin_handshake(id, TlsSession::accept(&self.tls, early, direct));
    }

    /// Begins a handshake with a server.
    pub(crate) fn secure_server(&mut self, server: ServerId, host: &str, direct: bool) {
        let id = ConnectionId::Server(server);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let address = peer_address(&connection.transport);
        self.begin_handshake(id, TlsSession::connect(&self.tls, host, address, direct));
    }

    fn begin_handshake(&mut self, id: ConnectionId, tls: Option<Result<TlsSession, rustls::Error>>) {
        match tls {
            Some(Ok(tls)) => {
                self.records.resize(READ_BYTES, 0);
                self.connections.secure(id, tls);
            }
            Some(Err(e)) => self.not_secured(id, &e.to_string()),
            None => self.not_secured(id, NO_CONTEXT),
        }
    }

    /// Reads records. Returns the number of plain bytes in them, and whether to read on; `None` if the connection has
    /// ended.
    #[cold]
    pub(crate) fn receive_records(&mut self, id: ConnectionId, into: &mut [u8]) -> Option<(usize, AfterRead)> {
        if !self.connections.has_turn(id) {
            self.look_who_waits(id);
            return None;
        }
        let mut out = Vec::new();
        let connection = self.connections.get(id)?;
        let tls = connection.tls.as_mut()?;
        let progress = tls.receive(&mut connection.transport, &mut self.records, into, &mut out);
        if progress.bytes > 0 {
            connection.facts.clear(Facts::SPOKE_LAST);
        }
        let more = progress.more || progress.end.is_none() && connection.facts.has(Facts::READ_CLOSED);
        let is_drained = !more || progress.is_blocked;
        if is_drained {
            connection.facts.clear(Facts::READABLE);
        }
        self.connections.write_records(id, &out);
        match progress.end {
            Some(End::NotSecured(why)) => {
                self.not_secured(id, &why);
                return None;
            }
            Some(End::Closed) => {
                self.closed(id);
                return None;
            }
            None => {}
        }
        if let Some(facts) = progress.secured {
            self.secured(id, facts);
        }
        let after = if is_drained { AfterRead::Enough } else { AfterRead::More };
        Some((progress.bytes, after))
    }

    /// If the other side has closed the connection before it got an answer, the handshake does not wait for its turn.
    fn look_who_waits(&mut self, id: ConnectionId) {
        let waits_in_vain = self.connections.get(id).is_some_and(|connection| {
            let has_answered = connection.tls.as_ref().is_some_and(|tls| tls.has_answered());
            connection.facts.has(Facts::READ_CLOSED) && !has_answered
        });
        if waits_in_vain {
            self.not_secured(id, LEFT);
        }
    }

    fn secured(&mut self, id: ConnectionId, facts: TlsFacts) {
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_secured(self.now, client, facts),
            ConnectionId::Server(server) => self.pooler.handle_server_secured(self.now, server, facts),
        }
        self.settle();
    }

    fn not_secured(&mut self, id: ConnectionId, why: &str) {
        match id {
            ConnectionId::Client(client) => self.pooler.handle_client_not_secured(self.now, client, why),
            ConnectionId::Server(server) => self.pooler.handle_server_not_secured(self.now, server, why),
        }
        self.settle();
    }

    /// Reads the files for a SET of a setting of TLS. Unless all of them can be used, TLS stays as it was.
    pub(crate) fn try_tls(&mut self, change: TlsChange) {
        let tried = TlsContexts::load_or_problem(change.config());
        let (tls, outcome) = match tried {
            Ok(tls) => (Some(tls), Ok(())),
            Err(problem) => {
                let what = "TLS settings could not be applied, still using old configuration";
                let message = format!("{what}: {}", problem.message);
                (None, Err(Problem { message, ..problem }))
            }
        };
        if self.pooler.handle_tls_tried(self.now, change, outcome) == TriedTls::Used
            && let Some(tls) = tls
        {
            self.tls = tls;
        }
        self.settle();
    }
}
