//! LISTEN and NOTIFY: which client gets which notifications, and when; moving channels between servers and listeners.
//!
//! What is known of listeners, channels and moves is in [`crate::notify`].

mod commands;
mod handover;
mod listener;
mod notifications;

use crate::base::consequence::Consequence;
use crate::base::ids::ListenerId;
use crate::base::ids::{ClientId, ServerId};
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::client::Client;
use crate::exchange::{Exchange, Granted};
use crate::notify::channels::Channels;
use crate::notify::hub::Listeners;
use crate::pools::pool::{self, Pool};
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::shared::Shared;
use std::collections::VecDeque;

pub(crate) use listener::UNUSED_TIME_MAX;
pub(crate) use notifications::backlog_bytes_max;

/// All clients that listen, with their servers and the listeners. No connection is opened, linked or closed from here.
pub(crate) struct Listening<'a> {
    pub(crate) now: Time,
    pub(crate) clients: &'a mut Slab<Client>,
    pub(crate) servers: &'a mut Slab<Server>,
    pub(crate) pools: &'a mut [Option<Pool>],
    pub(crate) listeners: &'a mut Listeners,
    pub(crate) shared: &'a mut Shared,
    /// Listeners without a server: one is opened for each.
    pub(crate) missing: Vec<ListenerId>,
    /// What follows for clients and servers.
    pub(crate) consequences: VecDeque<Consequence>,
}

impl Listening<'_> {
    fn channels_mut(&mut self, id: ClientId) -> Option<&mut Channels> {
        self.clients.get_mut(id.0)?.channels.as_deref_mut()
    }

    fn client_mut(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(id.0).expect("the caller looked it up")
    }

    fn server_mut(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(id.0).expect("the caller looked it up")
    }

    /// The server that is linked to a client.
    fn link_of(&self, id: ClientId) -> Option<ServerId> {
        self.clients.get(id.0)?.link
    }

    /// Whether a client's session state is restored on each server that it gets.
    fn keeps_session(&self, id: ClientId) -> bool {
        let pool = self.clients.get(id.0).and_then(|c| c.pool);
        self.shared.settings.keeps_sessions && pool.is_some_and(|id| pool::of(self.pools, id).keeps_sessions())
    }

    fn at(&mut self, id: ServerId) -> ServerSide<'_> {
        let server = self.servers.get_mut(id.0).expect("the caller looked it up");
        let pool = self.pools[server.pool as usize].as_mut();
        ServerSide {
            id,
            pool: pool.expect("a server's pool lives"),
            server,
            shared: self.shared,
        }
    }

    fn between(&mut self, id: ClientId, server_id: ServerId) -> Exchange<'_> {
        let server = self.servers.get_mut(server_id.0).expect("the caller looked it up");
        let pool = self.pools[server.pool as usize].as_mut();
        Exchange {
            now: self.now,
            id,
            server_id,
            client: self.clients.get_mut(id.0).expect("the caller looked it up"),
            pool: pool.expect("a server's pool lives"),
            server,
            shared: self.shared,
            wish: None,
            granted: Granted::default(),
        }
    }

    fn close_listener(&mut self, server_id: ServerId, reason: &'static str) {
        self.consequences.push_back(Consequence::CloseServer(server_id, reason));
    }

    /// The server of a client may be free now.
    fn release_if_clean(&mut self, id: ClientId) {
        self.consequences
            .extend(self.link_of(id).map(Consequence::ServerMayBeFree));
    }
}
