//! Opening and closing the connections of listeners, and what LISTEN and NOTIFY need of the pooler.

use crate::base::ids::ListenerId;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::time::Time;
use crate::listening::{Listening, UNUSED_TIME_MAX, backlog_bytes_max};
use crate::pooler::Pooler;
use crate::server::Server;
use std::collections::VecDeque;

impl Pooler {
    /// So many bytes wait for a client to read them that the driver asks whether to keep them.
    pub(crate) fn client_is_behind(&mut self, now: Time, id: ClientId, bytes: usize) {
        let Some(client) = self.clients.get(id.0) else { return };
        let (link, hears) = (
            client.link,
            client.channels.as_ref().is_some_and(|c| c.relies_on_listener()),
        );
        let flights = link.and_then(|server| self.flights_of(server));
        if let Some(flights) = flights.filter(|flights| !flights.is_empty()) {
            return flights.is_unread(now);
        }
        let at_work = link.and_then(|s| self.servers.get(s.0)).is_some_and(|s| !s.is_clean());
        if hears && !at_work && bytes > backlog_bytes_max(&self.shared.settings) {
            self.listen(now, |listening| listening.too_far_behind(id));
        }
    }

    /// Takes a step of LISTEN and NOTIFY, and opens the listeners that it needs.
    pub(crate) fn listen<R>(&mut self, now: Time, step: impl FnOnce(&mut Listening<'_>) -> R) -> R {
        let mut listening = Listening {
            now,
            clients: &mut self.clients,
            servers: &mut self.servers,
            pools: &mut self.pools,
            listeners: &mut self.listeners,
            shared: &mut self.shared,
            missing: Vec::new(),
            consequences: VecDeque::new(),
        };
        let result = step(&mut listening);
        let missing = std::mem::take(&mut listening.missing);
        self.consequences.append(&mut listening.consequences);
        for at in missing {
            self.open_listener(now, at);
        }
        result
    }

    fn open_listener(&mut self, now: Time, at: ListenerId) {
        let Some(listener) = self.listeners.get(at).filter(|l| l.server().is_none()) else {
            return;
        };
        let (database, user) = (listener.database().clone(), listener.user().clone());
        let Some(pool_id) = self.pool_for(now, &database, &user, PoolKind::Listener) else {
            return;
        };
        if self.admin.is_ending() || self.pool_takes_no_clients_now(pool_id) {
            return;
        }
        // The credential for the servers of its clients.
        let of_login = self.pool_index.of_login(&database, &user).iter();
        let of_clients = of_login
            .map(|id| self.pool(*id))
            .find(|p| p.key().kind == PoolKind::Clients);
        if let Some((credential, as_of)) = of_clients.map(|p| (p.credential().clone(), p.credential_as_of())) {
            self.pool_mut(pool_id).logs_in_with(credential, as_of);
        }
        if !self.may_open(now, pool_id, false) {
            return;
        }
        let server = self.connect(now, pool_id);
        self.listeners.opens(at, server);
    }

    /// Opens missing listeners and closes unused ones.
    pub(crate) fn time_listeners(&mut self, now: Time) {
        for at in self.listeners.places() {
            let Some(listener) = self.listeners.get(at) else {
                continue;
            };
            let unused = listener.is_unused_for(now, UNUSED_TIME_MAX);
            match listener.server() {
                None if listener.is_needed() => self.open_listener(now, at),
                None if unused => self.listeners.remove(at),
                Some(server_id) if unused => self.close_server(now, server_id, "nobody listens any more"),
                Some(server_id) => self.time_listener(now, server_id),
                None => {}
            }
        }
    }

    fn time_listener(&mut self, now: Time, server_id: ServerId) {
        let server = self.servers.get(server_id.0).filter(|s| s.is_listening());
        let Some(server) = server else { return };
        if self.pool_takes_no_clients_now(server.pool) {
            self.close_server(now, server_id, "pause mode");
        } else if let Some(reason) = server.close_reason {
            self.close_server(now, server_id, reason.text());
        }
    }

    /// Closes the listeners of a pool that is paused.
    pub(crate) fn close_listeners(&mut self, now: Time, pool_id: PoolId, reason: &str) {
        for id in self.pool(pool_id).members().to_vec() {
            if self.servers.get(id.0).is_some_and(Server::is_listening) {
                self.close_server(now, id, reason);
            }
        }
    }
}
