//! A client, a server, their pool and what all connections share, for unit tests of layers without a pooler.

use crate::base::address::Address;
use crate::base::ids::{ClientId, ConnectionId, ServerId, Slot};
use crate::base::pool_id::{PoolKey, PoolKind};
use crate::base::request::{Accepted, Endpoint};
use crate::base::secret_names::SecretNames;
use crate::base::settings::PoolSettings;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::exchange::{Exchange, Granted};
use crate::pools::pool::Pool;
use crate::reply::Reply;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::shared::Shared;
use crate::state::shape::Shape;
use crate::statements::internal::InternalStatements;
use crate::upstream::phase::ServerPhase;
use pgweir_auth::Credential;
use pgweir_wire::{HEADER_BYTES, Header};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CLIENT: ClientId = ClientId(Slot {
    index: 1,
    generation: 0,
});

pub(crate) const SERVER: ServerId = ServerId(Slot {
    index: 2,
    generation: 0,
});

/// The present time of all these tests.
pub(crate) const NOW: Time = Time(1_000_000);

/// A client that has logged in, and a server that is idle.
pub(crate) struct Alone {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) pool: Pool,
    pub(crate) shared: Shared,
}

impl Alone {
    pub(crate) fn new() -> Alone {
        let ini = "[databases]\ndb = host=h\n[pgbouncer]\nauth_type = any\nlisten_addr = *\npool_mode = transaction\n";
        let files = |_: &str| -> std::io::Result<Vec<u8>> { Ok(ini.into()) };
        let config = pgweir_config::load("test.ini", &files).unwrap().config;
        let entry = config.database("db").unwrap();
        let key = PoolKey {
            database: "db".into(),
            user: "u".into(),
            kind: PoolKind::Clients,
            start: Box::default(),
        };
        let pool = Pool::new(
            Time(0),
            key,
            PoolSettings::new(&config, &entry, "u"),
            Credential::Nothing,
        );
        let mut names = SecretNames::new([7; 32]);
        let internal = InternalStatements::new(&mut names);
        let mut shared = Shared::new(Arc::new(config), names, internal);
        let empty = shared.shapes.empty();
        let reported = [
            ("DateStyle", Some("ISO, MDY"), true),
            ("server_version", Some("18.4"), true),
        ];
        let shape = shared.shapes.change(&empty, reported);
        let unix = Address::Unix { port: 1, pid: None };
        let accepted = Accepted {
            peer: unix,
            local: unix,
            peer_uid: None,
        };
        let endpoint = Endpoint::Unix {
            path: "/tmp/.s.PGSQL.1".into(),
            port: 1,
        };
        let mut client = Client::new(Time(0), accepted, shape.clone());
        client.phase = ClientPhase::Session;
        client.pool = Some(0);
        let expires = Time(0) + Duration::from_secs(3600);
        let mut server = Server::new(Time(0), 0, endpoint, shape, expires);
        server.phase = ServerPhase::Idle;
        Alone {
            client,
            server,
            pool,
            shared,
        }
    }

    /// Like [`Alone::new`], but the client is linked to the server.
    pub(crate) fn linked() -> Alone {
        let mut alone = Alone::new();
        alone.server.phase = ServerPhase::Linked;
        alone.server.link = Some(CLIENT);
        alone.client.link = Some(SERVER);
        alone
    }

    /// The client's shape after this change of a setting that no server reports.
    pub(crate) fn with(&mut self, name: &str, value: &str) -> Arc<Shape> {
        let shape = self.client.session.shape();
        self.shared.shapes.change(shape, [(name, Some(value), false)])
    }

    pub(crate) fn exchange(&mut self) -> Exchange<'_> {
        Exchange {
            now: NOW,
            id: CLIENT,
            server_id: SERVER,
            client: &mut self.client,
            server: &mut self.server,
            pool: &mut self.pool,
            shared: &mut self.shared,
            wish: None,
            granted: Granted::default(),
        }
    }

    pub(crate) fn server_side(&mut self) -> ServerSide<'_> {
        ServerSide {
            id: SERVER,
            server: &mut self.server,
            pool: &mut self.pool,
            shared: &mut self.shared,
        }
    }

    /// A message of the server is handled.
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply {
            now: NOW,
            id: SERVER,
            client: self.server.link.map(|id| (id, &mut self.client)),
            server: &mut self.server,
            pool: &mut self.pool,
            shared: &mut self.shared,
            deeds: Vec::new(),
            run: 0..0,
        }
    }

    /// The messages written to a connection since the last call: tags and bodies.
    pub(crate) fn written(&mut self, to: impl Into<ConnectionId>) -> Vec<(char, Vec<u8>)> {
        let to = to.into();
        let outbox = &self.shared.outbox;
        let parts = outbox.parts().iter().filter(|part| part.to == to);
        let bytes: Vec<u8> = parts.flat_map(|part| outbox.bytes(part, &[])).copied().collect();
        let mut rest = &bytes[..];
        let mut messages = Vec::new();
        while let Some(header) = Header::read(rest).unwrap() {
            let (message, behind) = rest.split_at(header.message_bytes as usize);
            messages.push((char::from(header.tag), message[HEADER_BYTES..].to_vec()));
            rest = behind;
        }
        assert!(rest.is_empty(), "a part of a message");
        self.shared.outbox.clear();
        messages
    }

    /// The tags of the same messages.
    pub(crate) fn written_tags(&mut self, to: impl Into<ConnectionId>) -> String {
        self.written(to).into_iter().map(|(tag, _)| tag).collect()
    }
}
