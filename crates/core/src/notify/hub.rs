//! The listener connections, their channels, and the clients for which they listen.

use crate::base::ids::{ClientId, ServerId};
use crate::base::secret_names::SecretNames;
use crate::base::time::Time;
use crate::notify::channels::ChannelName;
use foldhash::fast::RandomState;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A listener's application_name in pg_stat_activity.
pub(crate) const LISTENER_NAME: &str = "pgweir listener";

/// A listener's place in the table.
pub(crate) type ListenerId = usize;

/// A request to a listener that it has not answered, in order.
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
    /// `true`: it gets notifications from the listener. `false`: its own server still
    /// listens for it.
    pub(crate) told: bool,
}

/// One listener.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Listener {
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) encoding: Arc<str>,
    pub(crate) server: Option<ServerId>,
    /// It listens to all its channels.
    pub(crate) up: bool,
    /// It was lost: when it is up again, its clients get a NOTICE about the gap.
    pub(crate) gap: bool,
    pub(crate) channels: HashMap<ChannelName, Vec<Hearer>, RandomState>,
    pub(crate) asked: VecDeque<Asked>,
    /// Its latest request has failed.
    pub(crate) refused: bool,
    pub(crate) unused_since: Time,
}

/// All listeners.
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
    pub(crate) fn begin_telling(&mut self, id: ListenerId, client: ClientId, names: &[ChannelName]) {
        let Some(listener) = self.get_mut(id) else { return };
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

    /// Whether a client's channels are on this server.
    pub(crate) fn is_heard(&self, server_id: ServerId) -> bool {
        let listener = self.of_server(server_id).and_then(|at| self.get(at));
        listener.is_some_and(|listener| !listener.channels.is_empty())
    }

    pub(crate) fn of_server(&self, server: ServerId) -> Option<ListenerId> {
        self.all
            .iter()
            .position(|l| l.as_ref().is_some_and(|l| l.server == Some(server)))
    }

    /// Database, user, encoding, server, number of channels and of clients of each, for
    /// the console.
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
    /// All its clients, each once.
    pub(crate) fn clients(&self) -> Vec<ClientId> {
        let mut clients: Vec<ClientId> = self.channels.values().flatten().map(|h| h.client).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }
}
