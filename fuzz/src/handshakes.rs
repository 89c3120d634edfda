//! TLS as the driver does it: the core sees plain bytes, and the facts of the handshake.

use crate::world::World;
use pgweir_core::{ClientId, ConnectionId, PeerCertificate, ServerId, TlsFacts};
use std::sync::Arc;

/// The end of a handshake.
#[derive(Debug, Clone, Copy)]
pub enum Handshake {
    /// It succeeds; the peer shows no certificate.
    Nameless,
    /// It succeeds; the peer's certificate names this user.
    Named(&'static str),
    Failed,
}

impl World {
    /// The core asks for a handshake with a client. What is kept of a client that has begun directly is TLS; nothing
    /// else may be kept: it would be taken for bytes that TLS protects.
    pub(crate) fn secure_client(&mut self, client: ClientId, direct: bool) {
        let id = ConnectionId::Client(client);
        if !self.is_alive(id) {
            return;
        }
        let client = &mut self.clients[self.places[&id]];
        assert!(
            direct || client.kept.is_empty(),
            "bytes of before the handshake are kept"
        );
        assert!(!client.secured, "{} is secured twice", client.id);
        client.kept.clear();
        client.securing = true;
        client.secured = true;
        self.handshakes.push(id);
    }

    /// The core asks for a handshake with a server.
    pub(crate) fn secure_server(&mut self, server: ServerId) {
        let id = ConnectionId::Server(server);
        if !self.is_alive(id) {
            return;
        }
        let server = &mut self.servers[self.places[&id]];
        assert!(server.connected, "a handshake on a socket that is not open");
        assert!(server.kept.is_empty(), "bytes of before the handshake are kept");
        server.securing = true;
        self.handshakes.push(id);
    }

    /// The handshake of one connection ends.
    pub fn finish_handshake(&mut self, which: usize, end: Handshake) {
        let id = self.handshakes.swap_remove(which);
        let place = self.places[&id];
        let name = match end {
            Handshake::Nameless => None,
            Handshake::Named(name) => Some(name),
            Handshake::Failed => return self.handshake_fails(id),
        };
        let facts = facts(name);
        match id {
            ConnectionId::Client(id) => {
                self.clients[place].securing = false;
                self.pooler.handle_client_secured(self.now, id, facts);
            }
            ConnectionId::Server(id) => {
                self.servers[place].securing = false;
                self.pooler.handle_server_secured(self.now, id, facts);
            }
        }
        self.settle();
    }

    /// Nothing may be written to the connection any more: no error can be sent on it.
    fn handshake_fails(&mut self, id: ConnectionId) {
        self.handshakes.push(id);
        match id {
            ConnectionId::Client(id) => self.pooler.handle_client_not_secured(self.now, id, "no"),
            ConnectionId::Server(id) => self.pooler.handle_server_not_secured(self.now, id, "no"),
        }
        self.settle();
        assert!(!self.is_alive(id), "{id:?} stays open after its handshake has failed");
    }
}

/// The facts of a handshake whose peer's certificate names this user, if it has shown one.
pub fn facts(name: Option<&str>) -> TlsFacts {
    let peer = name.map(|name| {
        Arc::new(PeerCertificate {
            common_name: Some(name.to_string()),
        })
    });
    TlsFacts {
        protocol: "TLSv1.3",
        cipher: "TLS_AES_256_GCM_SHA384",
        end_point: Some(b"hash".as_slice().into()),
        peer,
    }
}
