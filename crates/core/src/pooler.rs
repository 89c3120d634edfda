//! The pooler itself: the one struct that a driver holds.
//!
//! This file holds the state and the contract; what happens on each input is in the files named after it.

use crate::base::consequence::Consequence;
use crate::base::dns::DnsFacts;
use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::outbox::Outbox;
use crate::base::pool_id::{LoginFailure, PoolId};
use crate::base::request::{
    Accepted, CancelEnd, Command, Connected, LogLevel, OrderId, ReloadOutcome, Request, TlsChange, TriedTls,
};
use crate::base::secret_names::SecretNames;
use crate::base::slab::Slab;
use crate::base::surroundings::Surroundings;
use crate::base::time::Time;
use crate::base::tls::TlsFacts;
use crate::base::verification::Verified;
use crate::client::{Client, ClientPhase};
use crate::pools::databases::Databases;
use crate::pools::held_cancels::HeldCancels;
use crate::pools::index::PoolIndex;
use crate::pools::peers::PeerPools;
use crate::pools::pool::{self, Pool};
use crate::server::Server;
use crate::shared::Shared;
use crate::statements::internal::InternalStatements;
use crate::upstream::nature::Natures;
use crate::upstream::phase::ServerPhase;
use pgweir_auth::ScramKeyCache;
use pgweir_config::{Config, Problem};
use pgweir_wire::Writer;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;

/// One worker's clients, servers and pools.
pub struct Pooler {
    pub(crate) shared: Shared,
    pub(crate) surroundings: Surroundings,
    pub(crate) random: ChaCha20Rng,
    /// Key of the cancel secrets.
    pub(crate) cancel_key: [u8; 32],
    pub(crate) mock_key: pgweir_auth::MockKey,
    pub(crate) scram_keys: ScramKeyCache,
    pub(crate) clients: Slab<Client>,
    pub(crate) servers: Slab<Server>,
    pub(crate) pools: Vec<Option<Pool>>,
    pub(crate) pool_index: PoolIndex,
    pub(crate) databases: Databases,
    pub(crate) peers: PeerPools,
    pub(crate) held_cancels: HeldCancels,
    pub(crate) names: DnsFacts,
    pub(crate) listeners: crate::notify::hub::Listeners,
    pub(crate) admin: crate::console::orders::Orders,
    pub(crate) process_ids: crate::login::process_ids::ProcessIds,
    pub(crate) arrivals: crate::login::arrivals::Arrivals,
    pub(crate) lookups: crate::login::lookups::Lookups,
    /// The endpoints whose latest server was not PostgreSQL, and what that server was.
    pub(crate) natures: Natures,
    pub(crate) timers: crate::base::timers::Timers,
    /// Clients with a deferred BEGIN, oldest first; entries whose BEGIN has gone are skipped.
    pub(crate) deferred: VecDeque<(ClientId, Time)>,
    /// Pools in which clients have begun to wait with flights: see [`Pooler::handle_turn_end`].
    pub(crate) boarding: Vec<PoolId>,
    /// What the input that is being handled means for other connections. Empty between two inputs.
    pub(crate) consequences: VecDeque<Consequence>,
    /// Clients that are logged in or logging in, without those of the console.
    pub(crate) client_count: u32,
}

impl Pooler {
    /// A pooler without connections. Servers for `min_pool_size` are requested by the first [`Pooler::handle_timeout`].
    pub fn new(config: Arc<Config>, surroundings: Surroundings, now: Time) -> Self {
        let mut random = ChaCha20Rng::from_seed(surroundings.seed);
        let mut key = || {
            let mut key = [0; 32];
            random.fill_bytes(&mut key);
            key
        };
        let cancel_key = key();
        let mock_key = crate::login::lookups::mock_key(&config, pgweir_auth::MockKey::new(key()));
        let mut names = SecretNames::new(key());
        let internal = InternalStatements::new(&mut names);
        let listeners = crate::notify::hub::Listeners::new(&mut names, key());
        let process_ids = crate::login::process_ids::ProcessIds::new(random.next_u64());
        let scram_keys = ScramKeyCache::new(crate::login::lookups::scram_keys_kept_max(&config));
        let shared = Shared::new(config, names, internal);
        let mut pooler = Pooler {
            shared,
            surroundings,
            random,
            cancel_key,
            mock_key,
            scram_keys,
            clients: Slab::new(),
            servers: Slab::new(),
            pools: Vec::new(),
            pool_index: PoolIndex::default(),
            databases: Databases::default(),
            peers: PeerPools::default(),
            held_cancels: HeldCancels::default(),
            names: DnsFacts::default(),
            listeners,
            admin: Default::default(),
            process_ids,
            arrivals: Default::default(),
            lookups: Default::default(),
            natures: Natures::default(),
            timers: crate::base::timers::Timers::new(now),
            deferred: VecDeque::new(),
            boarding: Vec::new(),
            consequences: VecDeque::new(),
            client_count: 0,
        };
        pooler.make_pools_to_keep_warm(now);
        pooler
    }

    /// The bytes that the last `handle_*` call wants to have written. Write or copy them and call [`Outbox::clear`]
    /// before the next `handle_*` call.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.shared.outbox
    }

    /// Whether [`Pooler::poll_request`] would return a request.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.shared.requests.is_empty()
    }

    /// The next request, in order.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.shared.requests.pop_front()
    }

    /// When [`Pooler::handle_timeout`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.timers.next_round();
        let others = [self.shared.sizings.due(), self.held_cancels.next_look()];
        let due = others
            .into_iter()
            .flatten()
            .filter(|_| !self.admin.is_suspended())
            .min();
        Some(due.map_or(next, |due| due.min(next)))
    }

    /// Whether the driver should read bytes of this connection now. After `false` it reads nothing until a
    /// [`Request::Resume`]; bytes that were read and not consumed stay with the driver.
    #[inline]
    pub fn may_read(&self, id: ConnectionId) -> bool {
        let is_suspended = self.admin.is_suspended();
        match id {
            ConnectionId::Server(_) => !is_suspended,
            // SUSPEND stops reading from sessions only: others are on the console, or may be on their way to it.
            ConnectionId::Client(id) if is_suspended && self.clients.get(id.0).is_some_and(Client::is_session) => false,
            ConnectionId::Client(id) => self.clients.get(id.0).is_some_and(Client::is_heard),
        }
    }

    /// Whether a server works on a request of a client, and nothing that the client sends meanwhile is read, not even
    /// Terminate. If such a client has closed its side of the connection, it has left, even if bytes from it are still
    /// unread.
    pub fn is_served_unheard(&self, id: ClientId) -> bool {
        self.clients.get(id.0).is_some_and(Client::is_served_unheard)
    }

    /// How many bytes of this connection the driver should have, including those it kept, before it passes them on:
    /// with fewer the core cannot handle anything. 0: the driver passes on whatever comes. The value holds until the
    /// next `handle_*_bytes` call for this connection.
    #[inline]
    pub fn needs_bytes(&self, id: ConnectionId) -> usize {
        let ConnectionId::Client(id) = id else { return 0 };
        let client = self.clients.get(id.0).filter(|_| !self.hides_needs());
        client.map_or(0, |client| client.needs_bytes as usize)
    }

    /// The connection at the other end of the link, to which bytes of `id` are forwarded. Back-pressure is the driver's
    /// task: it does not read `id` while more bytes than its limit are pending for the linked connection.
    #[inline]
    pub fn linked(&self, id: ConnectionId) -> Option<ConnectionId> {
        match id {
            ConnectionId::Client(id) => self.clients.get(id.0)?.link.map(Into::into),
            ConnectionId::Server(id) => self.servers.get(id.0)?.link.map(Into::into),
        }
    }

    /// A client connected.
    pub fn handle_accept(&mut self, now: Time, accepted: Accepted) -> ClientId {
        let shape = self.shared.shapes.empty();
        let id = ClientId(self.clients.insert_with(|_| Client::new(now, accepted, shape)));
        self.arrived(now, id);
        self.settle(now);
        id
    }

    /// Bytes from a client: those kept from the last call, then those that have just come. Returns how many were
    /// consumed. The driver keeps the rest (an incomplete message, or messages of a client that waits for a server) and
    /// passes it again, in front of the next bytes or at a [`Request::Resume`].
    #[inline(always)]
    pub fn handle_client_bytes(&mut self, now: Time, client: ClientId, input: &[u8]) -> usize {
        let Some(c) = self.clients.get_mut(client.0) else {
            return input.len();
        };
        c.needs_bytes = 0;
        match &c.phase {
            ClientPhase::Session => self.session_bytes(now, client, input),
            _ => self.bytes_of_no_session(now, client, input),
        }
    }

    /// The handshake that [`Request::SecureClient`] asked for is finished.
    pub fn handle_client_secured(&mut self, _now: Time, client: ClientId, facts: TlsFacts) {
        if let Some(client) = self.clients.get_mut(client.0) {
            client.tls = Some(Box::new(facts));
        }
    }

    /// The handshake that [`Request::SecureClient`] asked for has failed. A request closes the connection.
    pub fn handle_client_not_secured(&mut self, now: Time, client: ClientId, why: &str) {
        self.client_not_secured(now, client, why);
        self.settle(now);
    }

    /// The client closed its connection, or the connection broke. Its id is no longer valid.
    pub fn handle_client_closed(&mut self, now: Time, client: ClientId) {
        self.client_vanished(now, client);
        self.settle(now);
    }

    /// Whether the flights of other clients stand behind that of the linked client. While they do, the driver reads a
    /// server until [`crate::notify::channels::UNHEARD_BYTES_MAX`] bytes wait for that client.
    #[inline]
    pub fn others_stand_behind(&self, server: ServerId) -> bool {
        let flights = self.servers.get(server.0).and_then(|s| s.flights.as_ref());
        flights.is_some_and(|flights| flights.has_riders())
    }

    /// So many bytes, more than [`crate::notify::channels::UNHEARD_BYTES_MAX`], wait for a client to read them. A client
    /// that gets notifications without a running request is closed, if they are more than `max_notification_backlog`. If flights of others stand behind its own, the client
    /// must read its reply within some time. For the others back-pressure is enough.
    pub fn handle_client_behind(&mut self, now: Time, client: ClientId, bytes: usize) {
        self.client_is_behind(now, client, bytes);
        self.settle(now);
    }

    /// The socket that [`Request::Connect`] asked for is open.
    pub fn handle_server_connected(&mut self, now: Time, server: ServerId, connected: Connected) {
        self.server_connected(now, server, connected);
        self.settle(now);
    }

    /// The socket that [`Request::Connect`] asked for could not be opened. The id is no longer valid. `why` is "connect
    /// failed" or "server DNS lookup failed": what log parsers look for.
    pub fn handle_server_connect_failed(&mut self, now: Time, server: ServerId, why: &str) {
        let failure = LoginFailure::temporary(why);
        self.server_lost(now, server, why, Some(failure));
        self.settle(now);
    }

    /// The handshake that [`Request::SecureServer`] asked for is finished.
    pub fn handle_server_secured(&mut self, now: Time, server: ServerId, facts: TlsFacts) {
        self.server_secured(now, server, facts);
        self.settle(now);
    }

    /// The handshake that [`Request::SecureServer`] asked for has failed. A request closes the connection.
    pub fn handle_server_not_secured(&mut self, now: Time, server: ServerId, why: &str) {
        self.server_not_secured(now, server, why);
        self.settle(now);
    }

    /// Bytes from a server; as [`Pooler::handle_client_bytes`].
    #[inline(always)]
    pub fn handle_server_bytes(&mut self, now: Time, server: ServerId, input: &[u8]) -> usize {
        match self.servers.get(server.0).map(|s| &s.phase) {
            None => input.len(),
            Some(ServerPhase::Securing | ServerPhase::Connecting | ServerPhase::Login(_)) => {
                self.bytes_of_new_server(now, server, input)
            }
            Some(_) if self.shared.sizings.some() => {
                let consumed = self.reply_bytes(now, server, input);
                self.note_rest(now, server);
                self.settle(now);
                consumed
            }
            Some(_) => self.reply_bytes(now, server, input),
        }
    }

    /// The server closed its connection, or the connection broke. Its id is no longer valid.
    pub fn handle_server_closed(&mut self, now: Time, server: ServerId) {
        self.server_closed(now, server);
        self.settle(now);
    }

    /// A [`Request::Cancel`] for this server has ended.
    pub fn handle_cancel_finished(&mut self, now: Time, server: ServerId, end: CancelEnd) {
        self.cancel_finished(now, server, end);
        self.settle(now);
    }

    /// A [`Request::PassOn`] has succeeded or failed.
    pub fn handle_passed_on(&mut self, now: Time, peer: u32, by: ClientId, end: CancelEnd) {
        self.passed_on(now, peer, by, end);
        self.settle(now);
    }

    /// A host name was resolved again, and no longer has the addresses in `gone`.
    pub fn handle_names(&mut self, now: Time, names: DnsFacts, name: &str, gone: &[std::net::IpAddr]) {
        self.names_known(now, names, name, gone);
        self.settle(now);
    }

    /// The answer to a [`Request::Verify`].
    pub fn handle_verified(&mut self, now: Time, asker: ConnectionId, answer: Verified) {
        match asker {
            ConnectionId::Client(client) => self.verified(now, client, answer),
            ConnectionId::Server(server) => self.server_keys_derived(now, server, answer),
        }
        self.settle(now);
    }

    /// The time asked for by [`Pooler::poll_timeout`] has come (calling it early does no harm).
    pub fn handle_timeout(&mut self, now: Time) {
        if self.shared.sizings.some() {
            self.tick_sizings(now);
        }
        self.look_at_held_cancels(now);
        self.settle(now);
        self.run_timers(now);
        self.settle(now);
    }

    /// Whether [`Pooler::handle_turn_end`] has something to do.
    #[inline]
    pub fn awaits_turn_end(&self) -> bool {
        !self.boarding.is_empty() || self.admin.is_due() || self.shared.catalogs.publications().are_due()
    }

    /// The driver has passed on all input that it knows of. Until then the core collects the flights of waiting
    /// clients, so that each server gets them in one write, and leaves the ends of PAUSE and SHUTDOWN, which close
    /// connections, for when no connection is being handled.
    pub fn handle_turn_end(&mut self, now: Time) {
        self.look_at_due_publications();
        self.board_all(now);
        self.settle(now);
        self.follow_orders(now);
        self.settle(now);
    }

    /// A signal.
    pub fn handle_command(&mut self, now: Time, command: Command) {
        self.run_command(now, command);
        self.settle(now);
    }

    /// The answer to a [`Request::Reload`].
    pub fn handle_reload(&mut self, now: Time, by: Option<OrderId>, outcome: ReloadOutcome) {
        self.reloaded(now, by, outcome);
        self.settle(now);
    }

    /// The answer to a [`Request::TryTls`]: why the files cannot be used, or that they can.
    pub fn handle_tls_tried(&mut self, now: Time, change: TlsChange, outcome: Result<(), Problem>) -> TriedTls {
        let tried = self.tls_tried(now, change, outcome);
        self.settle(now);
        tried
    }

    pub(crate) fn pool(&self, id: PoolId) -> &Pool {
        pool::of(&self.pools, id)
    }

    pub(crate) fn pool_mut(&mut self, id: PoolId) -> &mut Pool {
        self.pools[id as usize]
            .as_mut()
            .expect("a connection's pool lives as long as the connection")
    }

    pub(crate) fn log(&mut self, level: LogLevel, text: String) {
        self.shared.log(level, text);
    }

    /// Whether this client's session state is restored on each server that it gets.
    pub(crate) fn keeps_session(&self, id: ClientId) -> bool {
        let pool = self.clients.get(id.0).and_then(|c| c.pool);
        self.shared.settings.keeps_sessions && pool.is_some_and(|p| self.pool(p).keeps_sessions())
    }

    /// Writes internal messages to a connection.
    pub(crate) fn send(&mut self, to: impl Into<ConnectionId>, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(to.into(), |bytes| write(&mut Writer::new(bytes)));
    }
}
