//! The clients of a test.

use super::Rig;
use super::transcript::messages;
use pgweir_core::{Accepted, Address, ClientId, ConnectionId, ServerId};
use pgweir_wire::{CancelKey, ProtocolVersion, StartupPacket, TransactionStatus};

/// The end of a Parse that tells no types of parameters.
pub const NO_TYPES: &[u8] = &[0, 0];

impl Rig {
    /// A client that connects and sends nothing.
    pub fn silent_client(&mut self) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5000).into());
        let id = self.pooler.handle_accept(
            self.now,
            Accepted {
                peer,
                local: peer,
                peer_uid: None,
            },
        );
        self.settle(&[]);
        id
    }

    /// A client connects and asks for a database; its login may still wait.
    pub fn client_begins(&mut self, parameters: &[(&str, &str)]) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5000).into());
        let accepted = Accepted {
            peer,
            local: peer,
            peer_uid: None,
        };
        self.client_begins_at(accepted, parameters)
    }

    /// The same over a connection with these facts.
    pub fn client_begins_at(&mut self, accepted: Accepted, parameters: &[(&str, &str)]) -> ClientId {
        let id = self.pooler.handle_accept(self.now, accepted);
        self.settle(&[]);
        let mut packet = Vec::new();
        let parameters = parameters.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        StartupPacket::write_startup(&mut packet, ProtocolVersion::V3_0, parameters);
        self.comes(id, &packet);
        id
    }

    /// A client logs in to `db`, with a first server if one is needed.
    pub fn client(&mut self) -> ClientId {
        let id = self.client_begins(&[("user", "u"), ("database", "db")]);
        self.servers_log_in();
        let welcome = self.told(id);
        assert!(
            welcome.ends_with(&["ReadyForQuery I".into()]),
            "not welcome: {welcome:?}"
        );
        id
    }

    /// A client logs in; returns it and its cancel key.
    pub fn client_with_key(&mut self) -> (ClientId, CancelKey) {
        let id = self.client_begins(&[("user", "u"), ("database", "db")]);
        self.servers_log_in();
        let key = self.key_told(id);
        self.told(id);
        (id, key)
    }

    /// A client logs in to the console.
    pub fn console(&mut self) -> ClientId {
        let id = self.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
        assert_eq!(self.told(id).last().map(String::as_str), Some("ReadyForQuery I"));
        id
    }

    /// A client of the console, and the key with which it can be cancelled.
    pub fn console_with_key(&mut self) -> (ClientId, CancelKey) {
        let id = self.client_begins(&[("user", "boss"), ("database", "pgbouncer")]);
        let key = self.key_told(id);
        self.told(id);
        (id, key)
    }

    /// A client sends a Query.
    pub fn query(&mut self, client: ClientId, text: &str) {
        self.says(client, |w| w.query(text.as_bytes()));
    }

    pub fn client_leaves(&mut self, id: ClientId) {
        self.closed.insert(id.into());
        self.pooler.handle_client_closed(self.now, id);
        self.settle(&[]);
    }

    /// Sends a CancelRequest on a connection of its own; returns that connection.
    pub fn cancel_request(&mut self, key: &CancelKey) -> ClientId {
        let peer = Address::Tcp(([127, 0, 0, 1], 5001).into());
        let id = self.pooler.handle_accept(
            self.now,
            Accepted {
                peer,
                local: peer,
                peer_uid: None,
            },
        );
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, key);
        self.comes(id, &packet);
        id
    }

    /// The cancel key in the messages to a client, which are not removed.
    pub fn key_told(&self, id: ClientId) -> CancelKey {
        let welcome = messages(&self.written[&id.into()]);
        let (_, body) = welcome.iter().find(|(tag, _)| *tag == b'K').expect("BackendKeyData");
        CancelKey::read(body).expect("a key")
    }

    /// The server that a client is linked to.
    pub fn server_of(&self, id: ClientId) -> Option<ServerId> {
        match self.pooler.linked(id.into())? {
            ConnectionId::Server(server) => Some(server),
            ConnectionId::Client(_) => None,
        }
    }

    /// On this server, auth_query finds this password for user `u`.
    pub fn finds_secret(&mut self, server: ServerId, password: &str) {
        self.told(server);
        self.says(server, |w| {
            w.empty(b'1');
            w.empty(b'2');
            w.data_row(2, [Some(&b"u"[..]), Some(password.as_bytes())]);
            w.command_complete("SELECT 1");
            w.ready_for_query(TransactionStatus::Idle);
        });
    }
}
