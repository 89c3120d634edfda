//! The listener connections, their channels, and the clients for which they listen.

use crate::base::ids::{ClientId, ServerId};
use crate::base::secret_names::SecretNames;
use crate::base::time::Time;
use crate::notify::channels::ChannelName;
use crate::notify::commands::command;
use foldhash::fast::RandomState;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A listener's application_name in pg_stat_activity.
pub(crate) const LISTENER_NAME: &str = "pgweir listener";

/// A listener's place in the table.
pub(crate) type ListenerId = usize;

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
pub(crate) struct Hearer {
    pub(crate) client: ClientId,
    /// `true`: the client gets notifications from the listener. `false`: the client's server still listens for it.
    pub(crate) told: bool,
}

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Listener {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) encoding: Arc<str>,
    pub(crate) server: Option<ServerId>,
    /// The listener listens to all its channels.
    pub(crate) up: bool,
    /// The listener was lost: when it is up again, its clients get a NOTICE about the gap.
    pub(crate) gap: bool,
    pub(crate) channels: HashMap<ChannelName, Vec<Hearer>, RandomState>,
    /// The channels of each client among its hearers.
    by_client: HashMap<ClientId, BTreeSet<ChannelName>, RandomState>,
    pub(crate) asked: VecDeque<Asked>,
    /// The latest request to the listener has failed.
    pub(crate) refused: bool,
    pub(crate) unused_since: Time,
}

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Listeners {
    pub(crate) all: Vec<Option<Listener>>,
    /// The internal channel for marks (see `listening/handover`).
    pub(crate) mark_channel: String,
    pub(crate) next_ticket: u64,
    /// Draws marks, because a client that can send to the channel must not guess one.
    pub(crate) random: ChaCha20Rng,
    pub(crate) marks: HashMap<u64, ClientId, RandomState>,
    /// Clients with notifications that they may not get yet.
    pub(crate) behind: Vec<ClientId>,
}

impl Listeners {
    /// `names` draws the name of the mark channel, so that several poolers of one
    /// database have different ones.
    pub(crate) fn new(names: &mut SecretNames, seed: [u8; 32]) -> Self {
        Listeners {
            all: Vec::new(),
            mark_channel: names.draw("mark"),
            next_ticket: 0,
            random: ChaCha20Rng::from_seed(seed),
            marks: HashMap::default(),
            behind: Vec::new(),
        }
    }

    /// The listener for clients with this database, user and encoding. If there is none, one is made.
    pub(crate) fn find_or_make(
        &mut self,
        now: Time,
        database: &Arc<str>,
        user: &Arc<str>,
        encoding: &Arc<str>,
    ) -> ListenerId {
        let is_it = |l: &Listener| l.database == *database && l.user == *user && l.encoding == *encoding;
        if let Some(at) = self.all.iter().position(|l| l.as_ref().is_some_and(is_it)) {
            return at;
        }
        let free = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        if free == self.all.len() {
            self.all.push(None);
        }
        self.all[free] = Some(Listener::new(now, database.clone(), user.clone(), encoding.clone()));
        free
    }

    pub(crate) fn new_mark(&mut self, client: ClientId) -> u64 {
        let mark = self.random.next_u64();
        self.marks.insert(mark, client);
        mark
    }

    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn client_of_mark(&self, mark: u64) -> Option<ClientId> {
        self.marks.get(&mark).copied()
    }

    pub(crate) fn forget_mark(&mut self, mark: u64) {
        self.marks.remove(&mark);
    }

    /// A client has left.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.marks.retain(|_, c| *c != client);
        self.behind.retain(|b| *b != client);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    pub(crate) fn is_up(&self, id: Option<ListenerId>) -> bool {
        id.and_then(|id| self.get(id)).is_some_and(|l| l.up)
    }

    /// From now on a client gets notifications on these channels from the listener.
    pub(crate) fn begin_telling(&mut self, id: ListenerId, client: ClientId, names: &BTreeSet<ChannelName>) {
        let Some(listener) = self.get_mut(id) else { return };
        listener.note_channels(client, names);
        for name in names {
            let hearers = listener.channels.entry(name.clone()).or_default();
            hearers.retain(|h| h.client != client);
            hearers.push(Hearer { client, told: true });
        }
    }

    pub(crate) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.all.get(id)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.all.get_mut(id)?.as_mut()
    }

    /// Whether this server belongs to a listener that hears channels for clients.
    pub(crate) fn is_heard(&self, server_id: ServerId) -> bool {
        let listener = self.of_server(server_id).and_then(|at| self.get(at));
        listener.is_some_and(|listener| !listener.channels.is_empty())
    }

    pub(crate) fn of_server(&self, server: ServerId) -> Option<ListenerId> {
        self.all
            .iter()
            .position(|l| l.as_ref().is_some_and(|l| l.server == Some(server)))
    }

    /// For the console: database, user, encoding, server, number of channels and number of clients of each listener.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, &str, &str, Option<ServerId>, usize, usize)> {
        self.all.iter().flatten().map(|l| {
            let server = l.server.filter(|_| l.up);
            (
                &*l.database,
                &*l.user,
                &*l.encoding,
                server,
                l.channels.len(),
                l.clients().len(),
            )
        })
    }
}

impl Listener {
    fn new(now: Time, database: Arc<str>, user: Arc<str>, encoding: Arc<str>) -> Self {
        Listener {
            database,
            user,
            encoding,
            server: None,
            up: false,
            gap: false,
            channels: HashMap::default(),
            by_client: HashMap::default(),
            asked: VecDeque::new(),
            refused: false,
            unused_since: now,
        }
    }

    /// The text of LISTEN to all its channels and to the channel for marks.
    pub(crate) fn listen_to_everything(&self, mark_channel: &str) -> Vec<u8> {
        let mut text = command("LISTEN", mark_channel.as_bytes());
        for name in self.channels.keys() {
            text.extend_from_slice(b"; ");
            text.extend_from_slice(&command("LISTEN", name));
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
            text.extend_from_slice(&command("LISTEN", name));
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
                text.extend_from_slice(&command("UNLISTEN", name));
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
    pub(crate) fn is_lost(&mut self) -> (bool, VecDeque<Asked>) {
        self.server = None;
        self.refused = false;
        let was_up = std::mem::replace(&mut self.up, false);
        self.gap |= was_up && !self.channels.is_empty();
        (was_up, std::mem::take(&mut self.asked))
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
        listener.up = true;
        listener.asked.push_back(Asked::Barrier(client(1)));
        let (was_up, asked) = listener.is_lost();
        assert!(was_up && asked.len() == 1 && !listener.gap);
        listener.up = true;
        listener.begin_hearing(client(1), &names(&["a"]));
        listener.is_lost();
        assert!(listener.gap && !listener.up && listener.asked.is_empty());
    }
}
