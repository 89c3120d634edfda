//! Channels of clients, listeners and their servers, compared with each other.

use super::must;
use crate::base::ids::{ClientId, ServerId};
use crate::notify::channels::Channels;
use crate::notify::moving::Moving;
use crate::pooler::Pooler;

impl Pooler {
    pub(super) fn check_listeners(&self) -> Result<(), String> {
        for (slot, server) in self.servers.iter().filter(|(_, s)| s.is_listening()) {
            let id = ServerId(slot);
            must(self.listeners.of_server(id).is_some(), || {
                format!("{id} listens for no listener, in pool {}", server.pool)
            })?;
        }
        for at in self.listeners.places() {
            self.check_listener(at)
                .map_err(|wrong| format!("listener {at}: {wrong}"))?;
        }
        for (mark, id) in self.listeners.marks() {
            let its = self
                .clients
                .get(id.0)
                .and_then(|c| c.channels.as_ref()?.moving().mark());
            must(its == Some(mark), || {
                format!("a mark is kept for {id}, which waits for {its:?}")
            })?;
        }
        for (slot, client) in self.clients.iter() {
            if let Some(channels) = &client.channels {
                let id = ClientId(slot);
                self.check_channels(id, channels)
                    .map_err(|wrong| format!("{id}: {wrong}"))?;
            }
        }
        Ok(())
    }

    fn check_listener(&self, at: usize) -> Result<(), String> {
        let Some(listener) = self.listeners.get(at) else {
            return Ok(());
        };
        listener.check()?;
        if let Some(id) = listener.server() {
            must(self.listeners.of_server(id) == Some(at), || {
                format!("its server {id} is not found")
            })?;
            let server = self.servers.get(id.0);
            let serves = server.is_some_and(|s| s.is_listening() || s.is_opening() || s.is_examined());
            must(serves, || {
                format!("its server {id} does not listen: {:?}", server.map(|s| &s.phase))
            })?;
        }
        let gone = listener
            .clients()
            .into_iter()
            .find(|id| self.clients.get(id.0).is_none());
        must(gone.is_none(), || format!("{gone:?} has gone"))
    }

    /// What a listener hears for a client, according to the client and to the listener. When channels move back to a
    /// server, the listener forgets them when it has passed the mark, and the client when the server has, too.
    fn check_channels(&self, id: ClientId, channels: &Channels) -> Result<(), String> {
        channels.check()?;
        let listeners = self.listeners.places().filter_map(|at| self.listeners.get(at));
        let requests: usize = listeners.map(|listener| listener.requests_of(id)).sum();
        must(requests == usize::from(channels.awaits_listener()), || {
            format!("{requests} requests for it are not answered")
        })?;
        if !channels.relies_on_listener() || matches!(channels.moving(), Moving::Back(_)) {
            return Ok(());
        }
        let listener = channels.listener().and_then(|at| self.listeners.get(at));
        let listener = listener.ok_or("has channels on a listener, and no listener")?;
        let heard = listener.channels_of(id);
        must(channels.heard().is_subset(&heard), || {
            format!("has {:?}, of which its listener hears {heard:?}", channels.heard())
        })
    }
}
