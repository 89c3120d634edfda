//! Cancel requests that are passed on to peers: how many at a time, and which ones wait.

use crate::base::ids::ClientId;
use pgweir_wire::CancelKey;
use std::collections::{BTreeMap, VecDeque};

/// The requests for one peer.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct PeerPool {
    /// Requests that the driver is passing on. It ends each of them within 10 seconds.
    under_way: u32,
    /// The connections that asked, in order, with their keys. Each connection is here at most once, so
    /// `max_client_conn` limits their number. They are removed when `cancel_wait_timeout` has passed or when they
    /// leave.
    waiting: VecDeque<(ClientId, CancelKey)>,
}

impl PeerPool {
    /// The number of requests that the driver is passing on.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// All peers that requests have been passed on to.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct PeerPools(BTreeMap<u32, PeerPool>);

impl PeerPools {
    /// Adds a request for a peer.
    pub(crate) fn come(&mut self, peer: u32, by: ClientId, key: CancelKey) {
        self.0.entry(peer).or_default().waiting.push_back((by, key));
    }

    /// The next request that may be passed on now, counted as under way. `max` is the peer's pool_size.
    pub(crate) fn next(&mut self, peer: u32, max: Option<u32>) -> Option<(ClientId, CancelKey)> {
        let pool = self.0.get_mut(&peer)?;
        if max.is_some_and(|max| pool.under_way >= max) {
            return None;
        }
        let next = pool.waiting.pop_front()?;
        pool.under_way += 1;
        Some(next)
    }

    /// A request has ended.
    pub(crate) fn finished(&mut self, peer: u32) {
        if let Some(pool) = self.0.get_mut(&peer) {
            pool.under_way = pool.under_way.saturating_sub(1);
        }
    }

    /// A connection is gone: its request is dropped, unless it is under way.
    pub(crate) fn forget(&mut self, by: ClientId) {
        for pool in self.0.values_mut() {
            pool.waiting.retain(|(id, _)| *id != by);
        }
    }

    /// Drops the peers that are no longer in the configuration. Returns the connections that wait for them.
    pub(crate) fn keep(&mut self, is_peer: impl Fn(u32) -> bool) -> Vec<ClientId> {
        let gone = self.0.iter_mut().filter(|(peer, _)| !is_peer(**peer));
        let left = gone.flat_map(|(_, pool)| pool.waiting.drain(..)).map(|(by, _)| by);
        let left = left.collect();
        self.0.retain(|peer, pool| is_peer(*peer) || pool.under_way > 0);
        left
    }

    /// Each peer, and its requests.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &PeerPool)> {
        self.0.iter().map(|(peer, pool)| (*peer, pool))
    }
}
