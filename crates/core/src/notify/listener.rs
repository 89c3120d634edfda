//! One listener connection, its channels, and the clients for which it listens.

use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::notify::channels::ChannelName;
use foldhash::fast::RandomState;
use pgweir_sql::channel_command;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A request to a listener that the listener has not answered yet.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum Asked {
    /// Settings.
    Settings,
    /// LISTEN to all its channels.
    Everything,
    /// LISTEN to channels that a client moves here.
    Channels(ClientId, u64),
    /// An empty query: when it is answered, the listener has heard everything that was
    /// sent before.
    Barrier(ClientId),
    /// UNLISTEN.
    Unlisten,
}

/// A client that listens to a channel.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Hearer {
    client: ClientId,
    /// `true`: the client gets notifications from the listener. `false`: the client's server still listens for it.
    told: bool,
}

/// The connection of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Connection {
    /// There is none.
    No,
    /// It is being opened, or does not listen to all channels yet.
    Opens(ServerId),
    /// It listens to all channels.
    IsUp(ServerId),
}

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Listener {
    database: Arc<str>,
    user: Arc<str>,
    encoding: Arc<str>,
    connection: Connection,
    /// The listener was lost: when it is up again, its clients get a NOTICE about the gap.
    gap: bool,
    channels: HashMap<ChannelName, Vec<Hearer>, RandomState>,
    /// The channels of each client among its hearers.
    by_client: HashMap<ClientId, BTreeSet<ChannelName>, RandomState>,
    asked: VecDeque<Asked>,
    /// The latest request to the listener has failed.
    refused: bool,
    unused_since: Time,
}

impl Listener {
    pub(super) fn new(now: Time, database: Arc<str>, user: Arc<str>, encoding: Arc<str>) -> Self {
        Listener {
            database,
            user,
            encoding,
            connection: Connection::No,
            gap: false,
            channels: HashMap::default(),
            by_client: HashMap::default(),
            asked: VecDeque::new(),
            refused: false,
            unused_since: now,
        }
    }

    pub(crate) fn database(&self) -> &Arc<str> {
        &self.database
    }

    pub(crate) fn user(&self) -> &Arc<str> {
        &self.user
    }

    pub(crate) fn encoding(&self) -> &str {
        &self.encoding
    }

    /// Its connection, if there is one.
    pub(crate) fn server(&self) -> Option<ServerId> {
        match self.connection {
            Connection::No => None,
            Connection::Opens(server) | Connection::IsUp(server) => Some(server),
        }
    }

    /// Whether it listens to all its channels.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.connection, Connection::IsUp(_))
    }

    /// Whether it has channels to listen to.
    pub(crate) fn is_needed(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Whether nobody has listened here for longer than this.
    pub(crate) fn is_unused_for(&self, now: Time, time: Duration) -> bool {
        !self.is_needed() && now - self.unused_since > time
    }

    /// A client is about to use it.
    pub(crate) fn is_looked_for(&mut self, now: Time) {
        self.unused_since = now;
    }

    /// Its connection is being opened.
    pub(super) fn is_opened(&mut self, server: ServerId) {
        self.connection = Connection::Opens(server);
    }

    /// A request is sent to it.
    pub(crate) fn is_asked(&mut self, asked: Asked) {
        self.asked.push_back(asked);
    }

    /// The listener has answered its request with an error.
    pub(crate) fn refuses(&mut self) {
        self.refused = true;
    }

    /// It has answered a request. Returns the request, and whether it was refused.
    pub(crate) fn answers(&mut self) -> (Option<Asked>, bool) {
        let refused = std::mem::take(&mut self.refused);
        (self.asked.pop_front(), refused)
    }

    /// It listens to all its channels. Returns whether notifications may have been lost before.
    pub(crate) fn is_up_now(&mut self) -> bool {
        if let Connection::Opens(server) = self.connection {
            self.connection = Connection::IsUp(server);
        }
        std::mem::take(&mut self.gap)
    }

    /// The clients that get notifications on a channel from here.
    pub(crate) fn clients_told(&self, channel: &[u8]) -> Vec<ClientId> {
        let hearers = self.channels.get(channel).into_iter().flatten();
        hearers.filter(|h| h.told).map(|h| h.client).collect()
    }

    /// The text of LISTEN to all its channels and to the channel for marks.
    pub(crate) fn listen_to_everything(&self, mark_channel: &str) -> Vec<u8> {
        let mut text = channel_command("LISTEN", mark_channel.as_bytes());
        for name in self.channels.keys() {
            text.extend_from_slice(b"; ");
            text.extend_from_slice(&channel_command("LISTEN", name));
        }
        text
    }

    /// A client's server listens to these channels, and the listener is to listen to them, too. Returns the text of
    /// LISTEN. The text also names channels that the listener listens to already: if an earlier LISTEN is refused, this
    /// one is refused, too.
    pub(crate) fn begin_hearing(&mut self, client: ClientId, names: &BTreeSet<ChannelName>) -> Vec<u8> {
        self.note_channels(client, names);
        let mut text = Vec::new();
        for name in names {
            text.extend_from_slice(&channel_command("LISTEN", name));
            text.extend_from_slice(b"; ");
            let hearers = self.channels.entry(name.clone()).or_default();
            if !hearers.iter().any(|h| h.client == client) {
                hearers.push(Hearer { client, told: false });
            }
        }
        text
    }

    /// A client no longer listens to these channels here. Returns the text of UNLISTEN for those to which nobody
    /// listens any more.
    pub(crate) fn stop_hearing(&mut self, now: Time, client: ClientId, names: &BTreeSet<ChannelName>) -> Vec<u8> {
        if let Some(its) = self.by_client.get_mut(&client) {
            for name in names {
                its.remove(name);
            }
            if its.is_empty() {
                self.by_client.remove(&client);
            }
        }
        let mut text = Vec::new();
        for name in names {
            let Some(hearers) = self.channels.get_mut(name) else {
                continue;
            };
            hearers.retain(|h| h.client != client);
            if hearers.is_empty() {
                self.channels.remove(name);
                text.extend_from_slice(&channel_command("UNLISTEN", name));
                text.extend_from_slice(b"; ");
            }
        }
        if self.channels.is_empty() {
            self.unused_since = now;
        }
        text
    }

    /// The channels to which a client listens here, in order.
    pub(crate) fn channels_of(&self, client: ClientId) -> BTreeSet<ChannelName> {
        self.by_client.get(&client).cloned().unwrap_or_default()
    }

    fn note_channels(&mut self, client: ClientId, names: &BTreeSet<ChannelName>) {
        if !names.is_empty() {
            self.by_client.entry(client).or_default().extend(names.iter().cloned());
        }
    }

    /// The listener's connection is gone. Returns whether it listened, and the requests that it has not answered.
    pub(super) fn is_lost(&mut self) -> (bool, VecDeque<Asked>) {
        let was_up = self.is_up();
        self.connection = Connection::No;
        self.refused = false;
        self.gap |= was_up && !self.channels.is_empty();
        (was_up, std::mem::take(&mut self.asked))
    }

    /// The database, user and encoding of its clients.
    pub(super) fn key(&self) -> (&Arc<str>, &Arc<str>, &Arc<str>) {
        (&self.database, &self.user, &self.encoding)
    }

    /// From now on a client gets notifications on these channels from here.
    pub(super) fn begin_telling(&mut self, client: ClientId, names: &BTreeSet<ChannelName>) {
        self.note_channels(client, names);
        for name in names {
            let hearers = self.channels.entry(name.clone()).or_default();
            hearers.retain(|h| h.client != client);
            hearers.push(Hearer { client, told: true });
        }
    }

    /// The number of its channels.
    pub(super) fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// The number of requests for this client's channels that it has not answered.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn requests_of(&self, client: ClientId) -> usize {
        let is_its = |asked: &&Asked| matches!(asked, Asked::Channels(id, _) if *id == client);
        self.asked.iter().filter(is_its).count()
    }

    /// Compares the hearers of each channel with the channels of each client.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, hearers) in &self.channels {
            let knows = |hearer: &Hearer| self.by_client.get(&hearer.client).is_some_and(|its| its.contains(name));
            if hearers.is_empty() || !hearers.iter().all(knows) {
                return Err(format!(
                    "{name:?} is heard for {hearers:?}, of whom some do not listen to it"
                ));
            }
        }
        for (client, its) in &self.by_client {
            let hears = |name: &ChannelName| {
                let hearers = self.channels.get(name).into_iter().flatten();
                hearers.filter(|hearer| hearer.client == *client).count() == 1
            };
            if its.is_empty() || !its.iter().all(hears) {
                return Err(format!(
                    "{client} listens to {its:?}, of which some are not heard for it"
                ));
            }
        }
        Ok(())
    }

    /// All clients of the listener, each once.
    pub(crate) fn clients(&self) -> Vec<ClientId> {
        let mut clients: Vec<ClientId> = self.by_client.keys().copied().collect();
        clients.sort_unstable();
        clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Slot;

    fn client(index: u32) -> ClientId {
        ClientId(Slot { index, generation: 0 })
    }

    fn names(names: &[&str]) -> BTreeSet<ChannelName> {
        names.iter().map(|name| ChannelName::from(name.as_bytes())).collect()
    }

    fn listener() -> Listener {
        Listener::new(Time(0), "db".into(), "user".into(), "UTF8".into())
    }

    #[test]
    fn a_channel_is_left_with_the_last_client_that_listens_to_it() {
        let mut listener = listener();
        let text = listener.begin_hearing(client(1), &names(&["a", "b"]));
        assert_eq!(text, b"LISTEN \"a\"; LISTEN \"b\"; ");
        listener.begin_hearing(client(2), &names(&["b"]));
        assert_eq!(listener.channels_of(client(1)), names(&["a", "b"]));
        let text = listener.stop_hearing(Time(7), client(1), &names(&["a", "b", "c"]));
        assert_eq!(text, b"UNLISTEN \"a\"; ");
        assert_eq!(listener.unused_since, Time(0), "another client listens to b");
        let text = listener.stop_hearing(Time(8), client(2), &names(&["b"]));
        assert_eq!(text, b"UNLISTEN \"b\"; ");
        assert_eq!(listener.unused_since, Time(8));
        assert!(listener.clients().is_empty() && listener.by_client.is_empty());
    }

    #[test]
    fn a_gap_is_remembered_only_if_somebody_listened() {
        let mut listener = listener();
        let server = ServerId(Slot {
            index: 7,
            generation: 0,
        });
        listener.is_opened(server);
        assert!(!listener.is_up_now() && listener.is_up());
        listener.asked.push_back(Asked::Barrier(client(1)));
        let (was_up, asked) = listener.is_lost();
        assert!(was_up && asked.len() == 1 && !listener.gap);
        listener.is_opened(server);
        listener.is_up_now();
        listener.begin_hearing(client(1), &names(&["a"]));
        listener.is_lost();
        assert!(listener.gap && listener.server().is_none() && listener.asked.is_empty());
        listener.is_opened(server);
        listener.is_lost();
        listener.is_opened(server);
        assert!(listener.is_up_now(), "the gap began before the latest connection");
    }
}
