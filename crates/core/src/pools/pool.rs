//! Pools: one for each database and user, and more if clients ask for settings that only a new connection can have.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::{LoginFailure, PoolId, PoolKey, PoolKind};
use crate::base::request::Endpoint;
use crate::base::settings::{PoolMode, PoolSettings};
use crate::base::stats::Stats;
use crate::base::time::Time;
use crate::catalog::known::Known;
use crate::pools::classes::Classes;
use crate::pools::hosts::Hosts;
use crate::pools::idle_list::IdleList;
use crate::pools::overload::Pressure;
use crate::pools::places::InLine;
use crate::pools::pool_login::PoolLogin;
use crate::pools::sizing::{Share, SizingId};
use crate::pools::startup_values::StartupValues;
use crate::pools::wait_queue::WaitQueue;
use crate::state::sequences::Sequences;
use crate::state::shape::Shape;
use crate::statements::held::Moment;
use crate::upstream::nature::Nature;
use pgweir_config::TargetSessionAttrs;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

/// One pool.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Pool {
    pub(super) key: PoolKey,
    pub(super) settings: PoolSettings,
    pub(super) login: PoolLogin,
    /// How its clients use sequences.
    pub(super) sequences: Sequences,
    /// Idle servers, longest idle first.
    pub(super) idle: IdleList,
    pub(super) waiting: WaitQueue,
    /// Its part in the limit on servers at work of its host, if its size is `auto`.
    pub(super) share: Option<Share>,
    /// Whether its queue stays too long.
    pub(super) pressure: Pressure,
    /// How short the flights of its clients are, by class; `None` until a flight has been answered.
    pub(super) classes: Option<Box<Classes>>,
    /// Servers that had room for another flight when they were last looked at.
    pub(super) roomy: VecDeque<ServerId>,
    /// All its server connections, whatever their phase, in the order of their opening.
    pub(super) members: Vec<ServerId>,
    /// The servers among them that are connecting or logging in.
    pub(super) connecting: u32,
    /// See [`Pool::closing`].
    pub(super) closing: u32,
    /// See [`Pool::in_line`].
    pub(super) in_line: Option<InLine>,
    /// Servers that were being tested for a waiting client, or read the catalog. Some may have finished since: see
    /// [`crate::server::Server::is_soon_free`].
    pub(super) soon_free: Vec<ServerId>,
    /// Logged-in clients.
    pub(super) clients: u32,
    /// The settings of its servers after login; `None` until the first one has logged in.
    pub(super) welcome: Option<Arc<Shape>>,
    /// Startup parameter values that a server has accepted, and the reported values.
    pub(super) startup_values: StartupValues,
    /// Its catalog is that of its entry of \[databases\] alone.
    #[cfg(feature = "weaknesses")]
    pub(super) has_own_catalog: bool,
    /// See [`Pool::catalog_key`].
    pub(super) catalog_key: Arc<str>,
    /// What the functions of its database do; `None` while no name in a statement can matter.
    pub(super) catalog: Option<Box<Known>>,
    /// When names in statements last came to mean other objects of its database, as far as texts have shown.
    pub(super) names_moved: Moment,
    /// When one of its servers must read the catalog.
    pub(super) reading_due: Option<Time>,
    pub(super) failure: Option<LoginFailure>,
    /// No connection is attempted before this time.
    pub(super) retry_at: Option<Time>,
    /// The latest attempt because its servers may admit logins that they have refused: see [`Pool::try_again`].
    pub(super) tried_again: Option<Time>,
    /// No server is opened in advance before this time.
    pub(super) kept_clear: Option<Time>,
    /// The same, because no host could be reached.
    pub(super) warms_at: Option<Time>,
    /// When one of its servers last ended early: see [`Pool::ends_early_again`].
    pub(super) early_end: Option<Time>,
    /// New sessions begin with other settings, or another role, than its servers, or may be refused.
    pub(super) outdated: bool,
    /// So what its servers have told about logins no longer holds.
    pub(super) judges_anew: bool,
    /// When its servers were last replaced for that.
    pub(super) replaced_at: Option<Time>,
    pub(super) hosts: Hosts,
    /// Servers that are being opened in doubt: see [`Hosts`].
    pub(super) in_doubt: u32,
    /// Its database is made from `*`.
    pub(super) auto: bool,
    /// When it last had a client or a server.
    pub(super) last_used: Time,
    pub(super) stats: Stats,
    /// The worst nature among its servers.
    pub(super) nature: Nature,
}

impl Pool {
    /// Whether its clients' sessions may move between servers.
    pub(crate) fn keeps_sessions(&self) -> bool {
        self.nature.is_postgresql() && self.settings.mode != PoolMode::Session && !self.key.kind.is_replication()
    }

    /// Whether clients notice which of its servers they get, even if the servers have equal settings.
    #[inline]
    pub(crate) fn ties_clients(&self) -> bool {
        self.sequences != Sequences::Unused
    }

    /// The number of its logged-in clients, without the one who asks. `asker_is_of_it`: that one is among them.
    pub(crate) fn clients_beside(&self, asker_is_of_it: bool) -> u32 {
        self.clients - u32::from(asker_is_of_it)
    }

    /// Whether its servers count for this limit on servers at work.
    pub(crate) fn shares(&self, sizing: SizingId) -> bool {
        self.share.is_some_and(|share| share.sizing() == sizing)
    }

    /// Whether its servers serve the sessions of several clients in turn.
    pub(crate) fn shares_sessions(&self) -> bool {
        self.nature.is_postgresql() && self.settings.mode != PoolMode::Session && self.key.kind == PoolKind::Clients
    }

    pub(crate) fn new(now: Time, key: PoolKey, settings: PoolSettings, credential: pgweir_auth::Credential) -> Self {
        let hosts = Hosts::new(settings.endpoints.len());
        let waiting = WaitQueue::new(settings.fair_by);
        Pool {
            catalog_key: catalog_key(&settings, None),
            key,
            settings,
            login: PoolLogin::new(credential, Time(0)),
            sequences: Sequences::Unused,
            idle: IdleList::default(),
            waiting,
            share: None,
            pressure: Pressure::default(),
            classes: None,
            roomy: VecDeque::new(),
            members: Vec::new(),
            connecting: 0,
            closing: 0,
            in_line: None,
            soon_free: Vec::new(),
            clients: 0,
            welcome: None,
            startup_values: StartupValues::default(),
            #[cfg(feature = "weaknesses")]
            has_own_catalog: false,
            catalog: None,
            names_moved: Moment::default(),
            reading_due: None,
            failure: None,
            retry_at: None,
            tried_again: None,
            kept_clear: None,
            warms_at: None,
            early_end: None,
            outdated: false,
            judges_anew: false,
            replaced_at: None,
            hosts,
            in_doubt: 0,
            auto: false,
            last_used: now,
            stats: Stats::default(),
            nature: Nature::PostgreSql,
        }
    }

    /// Identifies its database. Several entries of \[databases\] may lead to one database.
    pub(crate) fn catalog_key(&self) -> &Arc<str> {
        &self.catalog_key
    }

    /// Its settings have changed.
    pub(crate) fn names_catalog(&mut self) {
        #[cfg(feature = "weaknesses")]
        let entry = self.has_own_catalog.then_some(&*self.key.database);
        #[cfg(not(feature = "weaknesses"))]
        let entry = None;
        self.catalog_key = catalog_key(&self.settings, entry);
    }

    /// Its catalog becomes that of its entry of \[databases\] alone.
    #[cfg(feature = "weaknesses")]
    pub(crate) fn separates_catalog(&mut self) {
        self.has_own_catalog = true;
        self.names_catalog();
    }

    /// Whether the servers of two pools are certainly those of one PostgreSQL: they have the same hosts and ports, in
    /// any order. Behind another pooler there may be several, one for each database.
    pub(crate) fn is_of_same_postgresql(&self, other: &Pool) -> bool {
        let (here, there) = (&self.settings, &other.settings);
        let has_all = |some: &[Endpoint], all: &[Endpoint]| some.iter().all(|endpoint| all.contains(endpoint));
        let are_postgresql = self.nature.is_postgresql() && other.nature.is_postgresql();
        has_all(&here.endpoints, &there.endpoints)
            && has_all(&there.endpoints, &here.endpoints)
            && (are_postgresql || here.server_database == there.server_database)
    }

    /// The place of a host in the list; `None` if a RELOAD has removed it.
    pub(crate) fn host_of(&self, endpoint: &Endpoint) -> Option<usize> {
        self.settings.endpoints.iter().position(|other| other == endpoint)
    }

    /// Takes a server out of the idle list, if it is there.
    pub(crate) fn forget_idle(&mut self, id: ServerId) {
        self.idle.forget(id);
    }

    /// The client that has waited longest, and since when it waits.
    pub(crate) fn first_waiter(&self) -> Option<(ClientId, Time)> {
        self.waiting.iter().next()
    }
}

/// The pool of a connection.
pub(crate) fn of(pools: &[Option<Pool>], id: PoolId) -> &Pool {
    pools[id as usize]
        .as_ref()
        .expect("a connection's pool lives as long as the connection")
}

/// Identifies a database by its hosts. Of a list of hosts, entries may want others: some the primary, some standbys.
/// `entry`: the catalog is that of this entry of \[databases\] alone.
fn catalog_key(settings: &PoolSettings, entry: Option<&str>) -> Arc<str> {
    let mut key = entry.map_or_else(String::new, |entry| format!("[{entry}] "));
    for endpoint in &settings.endpoints {
        match endpoint {
            Endpoint::Tcp { host, port } => write!(key, "{host}:{port} "),
            Endpoint::Unix { path, .. } => write!(key, "{path} "),
        }
        .expect("a String takes all");
    }
    if settings.endpoints.len() > 1 && settings.target != TargetSessionAttrs::Any {
        write!(key, "({}) ", settings.target.word()).expect("a String takes all");
    }
    key += &settings.server_database;
    key.into()
}

/// All pools with their ids.
pub(crate) fn live(pools: &[Option<Pool>]) -> impl Iterator<Item = (PoolId, &Pool)> {
    let places = pools.iter().enumerate();
    places.filter_map(|(id, pool)| Some((id as PoolId, pool.as_ref()?)))
}

/// The ids of all pools.
pub(crate) fn ids(pools: &[Option<Pool>]) -> Vec<PoolId> {
    live(pools).map(|(id, _)| id).collect()
}
