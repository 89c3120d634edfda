//! Requests that may commit definitions, and wait until no client's flight stands behind another one.
//!
//! A flight behind another one begins when the server has run the one in front, and nothing can stop it. If the code
//! that the one in front runs were replaced meanwhile, the one behind it would run in a session that the new code has
//! changed. So the definition waits until it can be sent: see [`crate::flow::publications`].

use crate::base::ids::ClientId;
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use std::time::Duration;

/// A client whose next request may commit definitions.
#[derive(Debug, pgweir_freeze::Freeze)]
struct Publication {
    client: ClientId,
    /// The pools whose clients may run what it defines. Their flights do not stand behind others meanwhile.
    pools: Vec<PoolId>,
    since: Time,
}

/// All of them.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Publications {
    all: Vec<Publication>,
    /// A flight has ended since they were looked at.
    are_due: bool,
}

impl Publications {
    /// Whether no flight may be sent behind another one in this pool.
    #[inline]
    pub(crate) fn concern(&self, pool: PoolId) -> bool {
        self.all.iter().any(|publication| publication.pools.contains(&pool))
    }

    /// A client's request waits. If it has waited before, it has waited since then.
    pub(crate) fn one_waits(&mut self, now: Time, client: ClientId, pools: Vec<PoolId>) {
        match self.all.iter_mut().find(|publication| publication.client == client) {
            Some(publication) => publication.pools = pools,
            None => self.all.push(Publication {
                client,
                pools,
                since: now,
            }),
        }
    }

    /// A client's request waits no longer: it is sent, or the client has cancelled it or left.
    #[inline]
    pub(crate) fn ends(&mut self, client: ClientId) {
        if !self.all.is_empty() {
            self.all.retain(|publication| publication.client != client);
        }
    }

    /// The clients, and the pools that each waits for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (ClientId, &[PoolId])> {
        self.all
            .iter()
            .map(|publication| (publication.client, &*publication.pools))
    }

    /// The pools for which a client has waited for this long.
    pub(crate) fn pools_awaited_for(&self, now: Time, least: Duration) -> Vec<PoolId> {
        let long = self.all.iter().filter(|publication| now - publication.since >= least);
        long.flat_map(|publication| publication.pools.iter().copied()).collect()
    }

    /// A flight has ended: perhaps none stands behind another one any more.
    #[inline]
    pub(crate) fn flight_has_ended(&mut self) {
        self.are_due = !self.all.is_empty();
    }

    /// Whether they must be looked at.
    #[inline]
    pub(crate) fn are_due(&self) -> bool {
        self.are_due
    }

    /// They are being looked at.
    pub(crate) fn are_looked_at(&mut self) {
        self.are_due = false;
    }
}
