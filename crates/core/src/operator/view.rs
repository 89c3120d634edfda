//! What the tables of the console and the log show: everything in the pooler, to read only.

use crate::base::dns::DnsFacts;
use crate::base::ids::ClientId;
use crate::base::pool_id::PoolId;
use crate::base::settings::Settings;
use crate::base::slab::Slab;
use crate::base::state_stats::StateStats;
use crate::base::time::{Time, WallClock};
use crate::client::Client;
use crate::console::orders::Orders;
use crate::notify::hub::Listeners;
use crate::operator::numbers;
use crate::pooler::Pooler;
use crate::pools::databases::Databases;
use crate::pools::peers::PeerPools;
use crate::pools::pool::{self, Pool};
use crate::pools::sizing::Sizings;
use crate::server::Server;
use crate::state::shape_table::ShapeTable;
use crate::statements::table::StatementTable;
use pgweir_config::Config;

/// The pooler at one moment. Nothing can be changed through it.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) now: Time,
    /// The wall-clock time at [`Time`] zero.
    pub(super) wall: &'a WallClock,
    pub(super) config: &'a Config,
    pub(super) settings: &'a Settings,
    pub(super) clients: &'a Slab<Client>,
    pub(super) servers: &'a Slab<Server>,
    /// By [`PoolId`].
    pub(super) pools: &'a [Option<Pool>],
    pub(super) databases: &'a Databases,
    pub(super) peers: &'a PeerPools,
    pub(super) names: &'a DnsFacts,
    pub(super) listeners: &'a Listeners,
    pub(super) orders: &'a Orders,
    pub(super) statements: &'a StatementTable,
    pub(super) shapes: &'a ShapeTable,
    pub(super) state_stats: &'a StateStats,
    pub(super) sizings: &'a Sizings,
}

impl Pooler {
    pub(super) fn view(&self, now: Time) -> View<'_> {
        View {
            now,
            wall: &self.surroundings.wall,
            config: &self.shared.config,
            settings: &self.shared.settings,
            clients: &self.clients,
            servers: &self.servers,
            pools: &self.pools,
            databases: &self.databases,
            peers: &self.peers,
            names: &self.names,
            listeners: &self.listeners,
            orders: &self.admin,
            statements: &self.shared.statements,
            shapes: &self.shared.shapes,
            state_stats: &self.shared.state_stats,
            sizings: &self.shared.sizings,
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn pool(&self, id: PoolId) -> &'a Pool {
        pool::of(self.pools, id)
    }

    /// All pools with their ids.
    pub(super) fn live_pools(&self) -> impl Iterator<Item = (PoolId, &'a Pool)> + use<'a> {
        pool::live(self.pools)
    }

    /// The client with this number in the column `id`.
    pub(super) fn client_by_number(&self, wanted: u32) -> Option<ClientId> {
        numbers::client_by_number(self.clients, wanted)
    }
}
