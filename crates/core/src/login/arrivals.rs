//! Connections that are not authenticated yet.
//!
//! Their number is limited to the free places under `max_client_conn` and a few more ([`ARRIVALS_RESERVE`]), so that
//! administrators and cancel requests get in when all places are taken. If another one comes, the oldest is closed, so
//! silent connections keep nobody out. A cancel request that names a client correctly is not closed for others.

use crate::base::ids::ClientId;
use std::collections::VecDeque;

/// Connections that may be logging in when `max_client_conn` clients have logged in.
pub(crate) const ARRIVALS_RESERVE: u32 = 16;

/// Cancel requests that name a client correctly, and whose connections are therefore not closed for others. Further ones
/// count as connections that are logging in.
pub(crate) const CANCELS_WITH_PLACE_MAX: u32 = 64;

/// If the queue is longer than this, the connections that have logged in or left are removed from it.
const SWEEP_MIN: usize = 64;

/// Connections that are logging in, oldest first.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Arrivals {
    /// May contain connections that have logged in or left.
    queue: VecDeque<ClientId>,
    count: u32,
    /// Connections of cancel requests that do not count among those that are logging in.
    cancels: u32,
}

impl Arrivals {
    /// A connection has been accepted, with this many places left under `max_client_conn`. Returns the one to close for
    /// it.
    pub(crate) fn come(
        &mut self,
        id: ClientId,
        places: u32,
        is_arriving: impl Fn(ClientId) -> bool,
    ) -> Option<ClientId> {
        self.queue.push_back(id);
        self.count += 1;
        if self.queue.len() > SWEEP_MIN + 2 * self.count as usize {
            self.queue.retain(|id| is_arriving(*id));
        }
        if self.count <= places.saturating_add(ARRIVALS_RESERVE) {
            return None;
        }
        std::iter::from_fn(|| self.queue.pop_front()).find(|id| is_arriving(*id))
    }

    /// How many are logging in.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// One of them has sent a cancel request that names a client correctly. Returns whether it gets a place apart from
    /// those that are logging in.
    pub(crate) fn cancel_comes(&mut self) -> bool {
        let has_place = self.cancels < CANCELS_WITH_PLACE_MAX;
        if has_place {
            self.cancels += 1;
            self.has_arrived();
        }
        has_place
    }

    /// The connection of a cancel request is closed; `has_place`: it had a place of its own.
    pub(crate) fn cancel_goes(&mut self, has_place: bool) {
        self.cancels -= u32::from(has_place);
    }

    /// How many cancel requests have a place of their own.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn cancels(&self) -> u32 {
        self.cancels
    }

    /// A connection has been authenticated, or is about to be closed without authentication.
    pub(crate) fn has_arrived(&mut self) {
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Slot;

    fn id(index: u32) -> ClientId {
        ClientId(Slot { index, generation: 0 })
    }

    #[test]
    fn the_one_that_takes_longest_goes_when_too_many_log_in() {
        let mut arrivals = Arrivals::default();
        for n in 0..ARRIVALS_RESERVE {
            assert_eq!(arrivals.come(id(n), 0, |_| true), None);
        }
        // The first of them has left meanwhile.
        let is_there = |who| who != id(0);
        assert_eq!(arrivals.come(id(100), 0, is_there), Some(id(1)));
        assert_eq!(arrivals.come(id(101), 2, is_there), None, "there are places for it");
    }

    #[test]
    fn those_who_are_through_are_swept_out() {
        let mut arrivals = Arrivals::default();
        for n in 0..1000 {
            assert_eq!(arrivals.come(id(n), 1000, |who| who == id(n)), None);
            arrivals.has_arrived();
        }
        assert!(arrivals.queue.len() <= SWEEP_MIN + 2);
    }
}
