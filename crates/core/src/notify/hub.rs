//! All listener connections, and the marks of the moves of channels.

use crate::base::ids::{ClientId, ListenerId, ServerId};
use crate::base::secret_names::SecretNames;
use crate::base::time::Time;
use crate::notify::channels::{ChannelName, Channels, Notification};
use crate::notify::listener::{Asked, Listener};
use foldhash::fast::RandomState;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A listener's application_name in pg_stat_activity.
pub(crate) const LISTENER_NAME: &str = "pgweir listener";

/// Database, user and encoding.
type ListenerKey = (Arc<str>, Arc<str>, Arc<str>);

#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Listeners {
    all: Vec<Option<Listener>>,
    /// Their places, by database, user and encoding.
    by_key: BTreeMap<ListenerKey, ListenerId>,
    by_server: HashMap<ServerId, ListenerId, RandomState>,
    /// Places of listeners that are no longer kept.
    free: Vec<ListenerId>,
    /// The internal channel for marks (see `listening/handover`).
    mark_channel: String,
    next_ticket: u64,
    /// Draws marks, because a client that can send to the channel must not guess one.
    random: ChaCha20Rng,
    marks: HashMap<u64, ClientId, RandomState>,
    /// Clients with notifications that they may not get yet, each once; some may have left.
    behind: Vec<ClientId>,
}

impl Listeners {
    /// `names` draws the name of the mark channel, so that several poolers of one
    /// database have different ones.
    pub(crate) fn new(names: &mut SecretNames, seed: [u8; 32]) -> Self {
        Listeners {
            all: Vec::new(),
            by_key: BTreeMap::new(),
            by_server: HashMap::default(),
            free: Vec::new(),
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
        let key = (database.clone(), user.clone(), encoding.clone());
        if let Some(at) = self.by_key.get(&key) {
            return *at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[at] = Some(Listener::new(now, database.clone(), user.clone(), encoding.clone()));
        self.by_key.insert(key, at);
        at
    }

    /// The name of the internal channel for marks.
    pub(crate) fn mark_channel(&self) -> &str {
        &self.mark_channel
    }

    /// Whether a channel is the internal one.
    pub(crate) fn is_mark_channel(&self, name: &[u8]) -> bool {
        name == self.mark_channel.as_bytes()
    }

    /// Whether a notification is a mark.
    pub(crate) fn is_mark(&self, notification: &Notification<'_>) -> bool {
        self.is_mark_channel(notification.channel)
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

    /// The marks that are on their way, with their clients.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn marks(&self) -> impl Iterator<Item = (u64, ClientId)> {
        self.marks.iter().map(|(&mark, &client)| (mark, client))
    }

    pub(crate) fn forget_mark(&mut self, mark: u64) {
        self.marks.remove(&mark);
    }

    /// A client may not get notifications yet. If some wait, they are tried again later.
    pub(crate) fn falls_behind(&mut self, client: ClientId, channels: &mut Channels) {
        if channels.falls_behind() {
            self.behind.push(client);
        }
    }

    /// Returns the clients whose notifications had to wait, and empties the list.
    pub(crate) fn take_behind(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.behind)
    }

    /// A client has left.
    pub(crate) fn forget_client(&mut self, channels: &Channels) {
        if let Some(mark) = channels.moving().mark() {
            self.forget_mark(mark);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn is_up(&self, id: Option<ListenerId>) -> bool {
        id.and_then(|id| self.get(id)).is_some_and(Listener::is_up)
    }

    /// From now on a client gets notifications on these channels from the listener.
    pub(crate) fn begin_telling(&mut self, id: ListenerId, client: ClientId, names: &BTreeSet<ChannelName>) {
        if let Some(listener) = self.get_mut(id) {
            listener.begin_telling(client, names);
        }
    }

    /// The places of all listeners; a place may be free.
    pub(crate) fn places(&self) -> std::ops::Range<ListenerId> {
        0..self.all.len()
    }

    /// A listener that nobody uses is no longer kept.
    pub(crate) fn remove(&mut self, id: ListenerId) {
        let Some(listener) = self.all[id].take() else { return };
        let (database, user, encoding) = listener.key();
        self.by_key.remove(&(database.clone(), user.clone(), encoding.clone()));
        self.free.push(id);
    }

    /// The connection of a listener is being opened.
    pub(crate) fn opens(&mut self, id: ListenerId, server: ServerId) {
        if let Some(listener) = self.get_mut(id) {
            listener.is_opened(server);
            self.by_server.insert(server, id);
        }
    }

    /// The connection of a listener is lost. Returns the listener, whether it listened to all its channels, and the
    /// requests that it has not answered.
    pub(crate) fn loses(&mut self, server: ServerId) -> Option<(ListenerId, bool, VecDeque<Asked>)> {
        let id = self.by_server.remove(&server)?;
        let (was_up, asked) = self.get_mut(id)?.is_lost();
        Some((id, was_up, asked))
    }

    /// The clients of those listeners of a database and user that have no connection.
    pub(crate) fn clients_unconnected(&self, database: &Arc<str>, user: &Arc<str>) -> Vec<ClientId> {
        let first = (database.clone(), user.clone(), Arc::from(""));
        let following = self.by_key.range(first..);
        let of_login = following.take_while(|((of, by, _), _)| of == database && by == user);
        let listeners = of_login.filter_map(|(_, at)| self.get(*at));
        let unconnected = listeners.filter(|listener| listener.server().is_none());
        unconnected.flat_map(Listener::clients).collect()
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
        listener.is_some_and(Listener::is_needed)
    }

    pub(crate) fn of_server(&self, server: ServerId) -> Option<ListenerId> {
        self.by_server.get(&server).copied()
    }

    /// For the console: database, user, encoding, server, number of channels and number of clients of each listener.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, &str, &str, Option<ServerId>, usize, usize)> {
        self.all.iter().flatten().map(|l| {
            let server = l.server().filter(|_| l.is_up());
            (
                &**l.database(),
                &**l.user(),
                l.encoding(),
                server,
                l.channel_count(),
                l.clients().len(),
            )
        })
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
