//! What is known of the PostgreSQL behind a limit: how many servers it has and allows, and whether it may be another one.

use super::{Share, Sizing, Sizings};
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use pgweir_sizing::Bounds;

/// The most servers of a host until a server has said how many connections it allows.
const SERVERS_MAX_AT_FIRST: u32 = 90;

/// The servers of all pools that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, pgweir_freeze::Freeze)]
pub(super) struct Servers {
    /// All of them, whatever their phase.
    all: u32,
    /// Those that are [up](crate::server::Server::is_up).
    up: u32,
}

impl Sizings {
    /// A pool has one more server, or has it when it gets its part in the limit.
    pub(crate) fn server_in(&mut self, pool: PoolId, share: Share) {
        self.servers_of(share, |servers| servers.all += 1);
        if let Some(sizing) = self.get_mut(share.sizing) {
            sizing.holders.insert(pool);
        }
    }

    /// A pool has one server less, or gives up its part in the limit. `is_last`: it has no other server.
    pub(crate) fn server_out(&mut self, pool: PoolId, share: Share, is_last: bool) {
        self.servers_of(share, |servers| servers.all -= 1);
        if let Some(sizing) = self.get_mut(share.sizing).filter(|_| is_last) {
            sizing.holders.remove(&pool);
        }
    }

    /// A server of a pool is up.
    pub(crate) fn is_up(&mut self, share: Share) {
        self.servers_of(share, |servers| servers.up += 1);
    }

    /// A server of a pool that was up is so no longer.
    pub(crate) fn is_down(&mut self, share: Share) {
        self.servers_of(share, |servers| servers.up -= 1);
    }

    fn servers_of(&mut self, share: Share, change: impl FnOnce(&mut Servers)) {
        if let Some(sizing) = self.get_mut(share.sizing) {
            change(&mut sizing.servers);
        }
    }

    /// Applies pool_size_max, and whether the limits are held. Returns what the log says of the limits that have
    /// changed.
    pub(crate) fn configure(&mut self, now: Time, servers_max: u32, held: bool) -> Vec<String> {
        let mut told = Vec::new();
        for sizing in self.all.iter_mut().flatten() {
            told.extend(sizing.set_bounds(now, servers_max));
            if sizing.controller.is_held() != held {
                sizing.controller.hold(held, now.0);
            }
        }
        told
    }
}

impl Sizing {
    /// All servers of its pools, whatever their phase.
    pub(crate) fn servers(&self) -> u32 {
        self.servers.all
    }

    /// The servers of its pools that are [up](crate::server::Server::is_up).
    pub(crate) fn servers_up(&self) -> u32 {
        self.servers.up
    }

    fn set_bounds(&mut self, now: Time, servers_max: u32) -> Option<String> {
        let bounds = bounds(servers_max, self.allowed);
        if bounds == self.bounds {
            return None;
        }
        self.bounds = bounds;
        let step = self.controller.set_bounds(bounds, now.0)?;
        self.tells(&step)
    }

    /// A server has told how many connections it allows. Returns what the log says if the limit has changed.
    pub(crate) fn learn_allowed(&mut self, now: Time, allowed: u32, servers_max: u32) -> Option<String> {
        self.allowed = Some(allowed);
        self.set_bounds(now, servers_max)
    }

    /// Whether it is known how many connections the server allows.
    pub(crate) fn knows_allowed(&self) -> bool {
        self.allowed.is_some()
    }

    /// The next server may belong to another PostgreSQL, or to one whose caches are empty. Returns what the log says if
    /// the limit has changed.
    pub(crate) fn restarted(&mut self, now: Time) -> Option<String> {
        self.allowed = None;
        let step = self.controller.restarted(now.0);
        self.tells(&step)
    }
}

/// The limits between which a controller chooses. `servers_max` is pool_size_max, `allowed` what the server allows, if
/// that is known.
pub(super) fn bounds(servers_max: u32, allowed: Option<u32>) -> Bounds {
    let max = match (servers_max, allowed) {
        (0, None) => SERVERS_MAX_AT_FIRST,
        (0, Some(allowed)) => allowed,
        (servers_max, None) => servers_max,
        (servers_max, Some(allowed)) => servers_max.min(allowed),
    };
    Bounds {
        min: 1,
        max: max.max(1),
    }
}
