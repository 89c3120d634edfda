//! Places for servers under limits that several pools share: which pools have servers, and which wait for a place.

use crate::base::pool_id::{PoolId, PoolKey};
use crate::base::time::Time;
use crate::pools::pool::Pool;
use std::collections::BTreeSet;

/// Why a pool waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, pgweir_freeze::Freeze)]
pub(crate) enum Line {
    /// `max_db_connections` of its database is reached.
    Database,
    /// `max_user_connections` of its user is reached, or the size of a pool in which its servers count.
    User,
    /// Servers are being opened for as many databases that may not exist as is allowed.
    Untried,
}

impl Line {
    /// Whether two pools would stand in the same line.
    pub(crate) fn is_same(self, one: &PoolKey, other: &PoolKey) -> bool {
        match self {
            Line::Database => one.database == other.database,
            Line::User => one.user == other.user,
            Line::Untried => true,
        }
    }
}

/// The place of a pool in a line: since when its first client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(super) struct InLine {
    pub(super) line: Line,
    pub(super) since: Time,
}

/// The pools of one database or user.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(super) struct Places {
    /// Those that have servers.
    pub(super) holders: BTreeSet<PoolId>,
    /// Those that wait for a place, the longest wait first. A pool whose first client has left since, or was served,
    /// stands before its turn.
    pub(super) line: BTreeSet<(Time, PoolId)>,
}

impl Places {
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.line.is_empty()
    }
}

impl Pool {
    /// The line in which it waits for a place.
    pub(crate) fn in_line(&self) -> Option<Line> {
        self.in_line.map(|place| place.line)
    }

    /// Its servers that are closed to make room for other pools.
    pub(crate) fn closing(&self) -> u32 {
        self.closing
    }

    /// One of its servers is closed to make room for another pool.
    pub(crate) fn one_makes_room(&mut self) {
        self.closing += 1;
    }

    /// Such a server is gone.
    pub(crate) fn room_is_made(&mut self) {
        self.closing -= 1;
    }
}
