//! A choice of pools.

use crate::base::pool_id::PoolId;
use crate::pools::pool::{self, Pool};

/// The pools that an operator's command or a change of the configuration is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// The pools of a database, or all pools if none is named.
    Within(Option<&'a str>),
    One(PoolId),
}

impl Choice<'_> {
    /// Whether the command applies to this pool.
    pub(crate) fn includes(self, pools: &[Option<Pool>], id: PoolId) -> bool {
        match self {
            Choice::Within(database) => database.is_none_or(|name| *pool::of(pools, id).key.database == *name),
            Choice::One(pool) => pool == id,
        }
    }
}
