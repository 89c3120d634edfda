//! Looking up, once for each message, the connections that it concerns.

use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::client_side::ClientSide;
use crate::exchange::{Exchange, Granted};
use crate::pooler::Pooler;
use crate::reply::Reply;
use crate::server_side::ServerSide;

impl Pooler {
    /// A logged-in client and its pool.
    #[inline]
    pub(crate) fn client_side(&mut self, now: Time, id: ClientId) -> Option<ClientSide<'_>> {
        let client = self.clients.get_mut(id.0)?;
        let pool = self.pools[client.pool? as usize].as_mut();
        Some(ClientSide {
            now,
            id,
            pool: pool.expect("a client's pool lives"),
            client,
            shared: &mut self.shared,
            deferred: &mut self.deferred,
        })
    }

    /// The server with this id, which must exist, and its pool.
    #[inline]
    pub(crate) fn at(&mut self, id: ServerId) -> ServerSide<'_> {
        let server = self.servers.get_mut(id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize].as_mut();
        ServerSide {
            id,
            pool: pool.expect("a server's pool lives"),
            server,
            shared: &mut self.shared,
        }
    }

    /// A client and the server that is linked to it.
    #[inline(always)]
    pub(crate) fn between(&mut self, now: Time, id: ClientId, server_id: ServerId) -> Exchange<'_> {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize].as_mut();
        Exchange {
            now,
            id,
            server_id,
            client: self.clients.get_mut(id.0).expect("the caller looked it up"),
            pool: pool.expect("a server's pool lives"),
            server,
            shared: &mut self.shared,
            wish: None,
            granted: Granted::default(),
        }
    }

    /// A server, if it exists, and its client.
    #[inline(always)]
    pub(crate) fn replying(&mut self, now: Time, id: ServerId) -> Option<Reply<'_>> {
        let server = self.servers.get_mut(id.0)?;
        let client = match server.link {
            Some(client) => Some((client, self.clients.get_mut(client.0)?)),
            None => None,
        };
        let pool = self.pools[server.pool as usize].as_mut();
        Some(Reply {
            now,
            id,
            client,
            pool: pool.expect("a server's pool lives"),
            server,
            shared: &mut self.shared,
            deeds: Vec::new(),
            run: 0..0,
        })
    }
}
