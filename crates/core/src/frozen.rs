//! The state of a pooler as bytes, with which another process goes on.
//!
//! A thawed pooler does exactly what the frozen one would have done: the simulation proves it, by freezing and thawing
//! in the middle of its stories. Sockets, look-ups under way and questions to directories belong to the driver: see
//! [`Pooler::handle_taken_over`].

use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::request::Request;
use crate::base::surroundings::Surroundings;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::login::process_ids::ProcessIds;
use crate::operator::admin::before::Before;
use crate::pooler::Pooler;
use crate::shared::Shared;
use pgweir_config::Config;
use pgweir_freeze::{Damaged, Freeze, Reader, Writer};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a process that takes over must know of the earlier one, beside its state.
#[derive(Debug)]
pub struct Predecessor {
    /// What of its configuration is compared with that of this process.
    before: Before,
}

/// Names each part of the state once, with its place in a [`Pooler`]. Parts that refer to shapes by address (idle
/// lists) come after the table of shapes.
macro_rules! parts {
    ($($part:ident: $type:ty = $first:ident $(. $rest:ident)?;)+) => {
        #[derive(Freeze)]
        struct Parts {
            $($part: $type,)+
        }

        impl Pooler {
            /// The whole state as bytes. Before the call, the outbox must have been written and all requests polled.
            pub fn freeze(&self) -> Vec<u8> {
                debug_assert!(self.shared.requests.is_empty() && self.shared.outbox.parts().is_empty());
                let mut out = Writer::default();
                $(self.$first$(.$rest)?.freeze(&mut out);)+
                self.process_ids.next().freeze(&mut out);
                self.before_change().freeze(&mut out);
                out.into_bytes()
            }
        }
    };
}

parts! {
    settings: crate::base::settings::Settings = shared.settings;
    shapes: crate::state::shape_table::ShapeTable = shared.shapes;
    statements: crate::statements::table::StatementTable = shared.statements;
    internal: crate::statements::internal::InternalStatements = shared.internal;
    catalogs: crate::catalog::catalogs::Catalogs = shared.catalogs;
    state_stats: crate::base::state_stats::StateStats = shared.state_stats;
    sizings: crate::pools::sizing::Sizings = shared.sizings;
    random: rand_chacha::ChaCha20Rng = random;
    cancel_key: [u8; 32] = cancel_key;
    mock_key: pgweir_auth::MockKey = mock_key;
    scram_keys: pgweir_auth::ScramKeyCache = scram_keys;
    clients: crate::base::slab::Slab<crate::client::Client> = clients;
    servers: crate::base::slab::Slab<crate::server::Server> = servers;
    pools: Vec<Option<crate::pools::pool::Pool>> = pools;
    pool_index: crate::pools::index::PoolIndex = pool_index;
    databases: crate::pools::databases::Databases = databases;
    listeners: crate::notify::hub::Listeners = listeners;
    admin: crate::console::orders::Orders = admin;
    arrivals: crate::login::arrivals::Arrivals = arrivals;
    lookups: crate::login::lookups::Lookups = lookups;
    natures: crate::upstream::nature::Natures = natures;
    peers: crate::pools::peers::PeerPools = peers;
    held_cancels: crate::pools::held_cancels::HeldCancels = held_cancels;
    timers: crate::base::timers::Timers = timers;
    deferred: VecDeque<(crate::base::ids::ClientId, crate::base::time::Time)> = deferred;
    boarding: Vec<crate::base::pool_id::PoolId> = boarding;
    client_count: u32 = client_count;
}

/// The process ids that clients were told in BackendKeyData.
fn told_process_ids(parts: &Parts, next: u32) -> ProcessIds {
    let clients = parts.clients.iter();
    let told = clients.map(|(slot, client)| (slot.index, client.process_id));
    let told: Vec<_> = told.filter(|(_, process_id)| *process_id != 0).collect();
    ProcessIds::again(next, &told)
}

impl Pooler {
    /// A hash of the layout of the state. Bytes of another layout cannot be thawed.
    pub const STATE_LAYOUT: u64 = Parts::LAYOUT;

    /// The pooler that [`Pooler::freeze`] has turned into `bytes`, and what [`Pooler::handle_taken_over`] must know.
    /// Until then it uses `config` as its configuration, but the settings of the earlier process: with these the new
    /// ones are compared. Its time continues where it stopped. It is long because it names all parts of a pooler.
    pub fn thaw(
        bytes: &[u8],
        config: Arc<Config>,
        surroundings: Surroundings,
    ) -> Result<(Pooler, Predecessor), Damaged> {
        let mut from = Reader::new(bytes);
        let parts = Parts::thaw(&mut from)?;
        let next_process_id = u32::thaw(&mut from)?;
        let predecessor = Predecessor {
            before: Before::thaw(&mut from)?,
        };
        if !from.is_at_end() {
            return Err(Damaged);
        }
        let process_ids = told_process_ids(&parts, next_process_id);
        let pooler = Pooler {
            shared: Shared {
                settings: parts.settings,
                config,
                outbox: Default::default(),
                requests: VecDeque::new(),
                statements: parts.statements,
                internal: parts.internal,
                shapes: parts.shapes,
                catalogs: parts.catalogs,
                state_stats: parts.state_stats,
                sizings: parts.sizings,
                some_are_in_line: parts.databases.some_are_in_line(),
                #[cfg(feature = "weaknesses")]
                weakness: None,
            },
            surroundings,
            random: parts.random,
            cancel_key: parts.cancel_key,
            mock_key: parts.mock_key,
            scram_keys: parts.scram_keys,
            clients: parts.clients,
            servers: parts.servers,
            pools: parts.pools,
            pool_index: parts.pool_index,
            databases: parts.databases,
            listeners: parts.listeners,
            admin: parts.admin,
            process_ids,
            arrivals: parts.arrivals,
            lookups: parts.lookups,
            natures: parts.natures,
            peers: parts.peers,
            held_cancels: parts.held_cancels,
            // The driver looks all names up again.
            names: Default::default(),
            timers: parts.timers,
            deferred: parts.deferred,
            boarding: parts.boarding,
            consequences: VecDeque::new(),
            client_count: parts.client_count,
        };
        if pooler.is_whole() {
            Ok((pooler, predecessor))
        } else {
            Err(Damaged)
        }
    }

    /// All connections, which the driver must have.
    pub fn connections(&self) -> Vec<ConnectionId> {
        let clients = self.clients.slots().into_iter().map(|slot| ClientId(slot).into());
        let servers = self.servers.slots().into_iter().map(|slot| ServerId(slot).into());
        clients.chain(servers).collect()
    }

    /// Whether this process is about to end.
    pub fn is_ending(&self) -> bool {
        self.admin.is_shutting_down()
    }

    /// The first call after [`Pooler::thaw`] in another process. `has` says which connections the driver has got from
    /// the earlier process. A server that was being connected is connected again; other missing connections are closed.
    /// Questions about clients are asked again. The configuration of this process is applied like a RELOAD.
    pub fn handle_taken_over(&mut self, now: Time, predecessor: Predecessor, has: impl Fn(ConnectionId) -> bool) {
        for id in self.connections().into_iter().filter(|id| !has(*id)) {
            match id {
                ConnectionId::Client(client) => self.handle_client_closed(now, client),
                ConnectionId::Server(server) => self.connect_again_or_lose(now, server),
            }
        }
        for slot in self.clients.slots() {
            self.ask_others_again(ClientId(slot));
        }
        for slot in self.servers.slots() {
            self.have_keys_derived_again(ServerId(slot));
        }
        let config = self.shared.config.clone();
        if !self.is_weak(Weakness::KeepsOldServers) {
            self.use_config(now, config, predecessor.before);
        }
        self.settle(now);
    }

    fn connect_again_or_lose(&mut self, now: Time, id: ServerId) {
        match self.servers.get(id.0) {
            Some(_) if self.is_weak(Weakness::ForgetsAttempts) => {}
            Some(server) if server.connected.is_none() => {
                let endpoint = server.endpoint.clone();
                self.shared
                    .requests
                    .push_back(Request::Connect { server: id, endpoint });
            }
            _ => self.handle_server_closed(now, id),
        }
    }

    /// Whether all references between clients, servers and pools are valid.
    fn is_whole(&self) -> bool {
        let has_pool = |id| self.pools.get(id as usize).is_some_and(Option::is_some);
        let client_ok = |(_, client): (_, &crate::client::Client)| {
            client.pool.is_none_or(has_pool) && client.link.is_none_or(|s| self.servers.get(s.0).is_some())
        };
        let server_ok = |(_, server): (_, &crate::server::Server)| {
            let mut aboard = server.flights.iter().flat_map(|flights| flights.iter());
            has_pool(server.pool)
                && server.link.is_none_or(|c| self.clients.get(c.0).is_some())
                && aboard.all(|a| a.client().is_none_or(|c| self.clients.get(c.0).is_some()))
        };
        self.clients.iter().all(client_ok) && self.servers.iter().all(server_ok) && self.pool_index.ids().all(has_pool)
    }
}
