//! The order among the flows of one level: the groups of a pool, or the clients of a group.

use crate::pools::fair::flow::{Flow, units};
use crate::pools::fair::heap::{Heap, Place};

/// A flow waits because of its earlier use for about this time at most, microseconds, if the load of the others stays
/// the same. Without a limit, a client that has run one long query would wait for hours among thousands
/// that run short ones.
const DEBT_WAIT_US_MAX: u64 = 1_000_000;

/// The shortest time between two requests that counts as a pause, microseconds. A program that only waits for its
/// answers needs less.
const PAUSE_US_MIN: u64 = 5_000;

/// A client goes first only if its pause is at least this many halves of the mean pause: if all clients pause alike,
/// none goes first.
const PAUSE_HALVES: u64 = 3;

/// The mean pause is that of about this many latest pauses. With fewer, a load generator that the operating system does
/// not run for 20 ms would raise it.
const PAUSES_MAX: u64 = 1024;

/// Flows that go first because they have paused may together use at most this much more server time, in microseconds,
/// than the others use at the same time. So these flows take at most half of the servers while others wait.
const AHEAD_US_MAX: u64 = 1_000_000;

/// How a flow arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arriving {
    /// Order of arrival.
    pub(in crate::pools) number: u64,
    pub(in crate::pools) weight: u32,
    /// How long it has not used a server, microseconds.
    pub(in crate::pools) paused_us: u64,
    /// The servers that the flows of the level share.
    pub(in crate::pools) servers: u32,
}

/// Flows that wait. Each has a number that the caller chooses.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Level {
    /// The number of the level: no other level of the pool has had it.
    id: u64,
    /// Virtual time: the largest tag that was served.
    now: u64,
    /// The tag that new flows get: the average tag of flows that have always waited or been served. If new flows began
    /// at `now`, and such flows came all the time, only these would be served, and virtual time would stand still.
    fresh: u64,
    /// What flows that have paused may still use before others do, units of virtual time.
    ahead: u64,
    /// The sum of the latest pauses, microseconds, and their number.
    pauses_us: u64,
    pauses: u64,
    order: Heap,
    /// Sum of the weights of the flows that wait.
    weights: u64,
}

impl Level {
    /// `id` is not 0.
    pub(crate) fn new(id: u64) -> Self {
        Level {
            id,
            now: 0,
            fresh: 0,
            ahead: units(AHEAD_US_MAX),
            pauses_us: 0,
            pauses: 0,
            order: Heap::default(),
            weights: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The flow that is served next.
    pub(crate) fn first(&self) -> Option<u32> {
        self.order.first()
    }

    /// All flows, the one that is served last at the front.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = u32> + use<> {
        self.order.iter_back()
    }

    /// All flows, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.order.iter()
    }

    /// The largest distance of a tag from virtual time.
    fn debt_max(&self, servers: u32) -> u64 {
        units(DEBT_WAIT_US_MAX) / self.weights.max(1) * u64::from(servers.max(1))
    }

    /// A flow begins to wait.
    pub(crate) fn insert(&mut self, flow: &mut Flow, what: u32, arriving: Arriving) {
        self.weights += u64::from(arriving.weight);
        let is_owed = self.resume(flow, &arriving);
        self.order.insert(Place::new(flow.tag, is_owed, arriving.number), what);
    }

    /// A flow comes back: it has no credit for the time in which it did not wait, and its debt is limited. Returns
    /// whether it goes before flows with the same tag.
    fn resume(&mut self, flow: &mut Flow, arriving: &Arriving) -> bool {
        if flow.level != self.id {
            self.begin(flow);
            return false;
        }
        let debt = flow.tag.saturating_sub(self.now);
        let has_paused = self.is_long_pause(arriving.paused_us)
            // The pause is at least as long as the debt: alone on one server, the flow would use at most half of it.
            && debt.saturating_mul(arriving.weight.into()) <= units(arriving.paused_us);
        flow.goes_ahead = has_paused && debt > 0 && self.ahead > 0;
        if flow.tag < self.now || flow.goes_ahead || has_paused && debt == 0 {
            flow.tag = self.now;
            return true;
        }
        flow.tag = flow.tag.min(self.now.saturating_add(self.debt_max(arriving.servers)));
        false
    }

    /// Whether a flow has paused for much longer than others do. The pause counts in the mean from now on.
    fn is_long_pause(&mut self, us: u64) -> bool {
        let mean = self.pauses_us.checked_div(self.pauses).unwrap_or(0);
        let long = mean * PAUSE_HALVES / 2;
        let is_long = us >= PAUSE_US_MIN.max(long);
        match self.pauses {
            PAUSES_MAX => self.pauses_us -= mean,
            _ => self.pauses += 1,
        }
        // A client that was away for an hour says nothing about the others.
        self.pauses_us += us.min(2 * long + PAUSE_US_MIN);
        is_long
    }

    /// A flow is served: virtual time advances to its tag.
    pub(crate) fn advance_to(&mut self, what: u32) {
        if let Some(place) = self.order.place_of(what) {
            self.reach(place);
        }
    }

    /// Takes out a flow that gets a server.
    pub(crate) fn serve(&mut self, what: u32, weight: u32) {
        if let Some(place) = self.remove(what, weight) {
            self.reach(place);
        }
    }

    fn reach(&mut self, place: Place) {
        self.now = self.now.max(place.tag());
    }

    /// Takes out a flow. Returns its place.
    pub(crate) fn remove(&mut self, what: u32, weight: u32) -> Option<Place> {
        let place = self.order.remove(what)?;
        self.weights -= u64::from(weight);
        Some(place)
    }

    /// A flow has used a server for `us` microseconds. `waits`: its number, if it waits.
    pub(crate) fn charge(&mut self, flow: &mut Flow, us: u64, weight: u32, servers: u32, waits: Option<u32>) {
        if flow.level != self.id {
            self.begin(flow);
        }
        let weight = u64::from(weight.max(1));
        self.share_out(us, weight, servers);
        let tag_max = self.now.saturating_add(self.debt_max(servers)).max(flow.tag);
        let tag = flow.tag.saturating_add(units(us) / weight).min(tag_max);
        let used = (tag - flow.tag).saturating_mul(weight);
        flow.tag = tag;
        self.ahead = match flow.goes_ahead {
            true => self.ahead.saturating_sub(used),
            false => (self.ahead + used).min(units(AHEAD_US_MAX)),
        };
        if let Some(what) = waits
            && let Some(place) = self.order.place_of(what)
        {
            self.order.change(what, place.moved_to(flow.tag));
        }
    }

    /// A server has worked for `us` microseconds: each of the flows that wait or are served has got its part of them on
    /// average. The flows that are served are assumed to have this weight, too. Even if that is wrong, a new flow waits
    /// no longer than one with the greatest debt.
    fn share_out(&mut self, us: u64, weight: u64, servers: u32) {
        let served = weight.saturating_mul(servers.max(1).into());
        let part = units(us) / self.weights.saturating_add(served);
        let latest = self.now.saturating_add(self.debt_max(servers));
        self.fresh = self.fresh.max(self.now).saturating_add(part).min(latest);
    }

    /// A flow that this level does not know gets its first tag.
    fn begin(&self, flow: &mut Flow) {
        (flow.level, flow.tag, flow.goes_ahead) = (self.id, self.now.max(self.fresh), false);
    }

    /// Compares the sum of the weights with a recount.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self, weight_of: impl Fn(u32) -> u32) -> Result<(), String> {
        self.order.check()?;
        let sum: u64 = self.iter().map(|what| u64::from(weight_of(what))).sum();
        match sum == self.weights {
            true => Ok(()),
            false => Err(format!("weights of {} counted, {sum} there", self.weights)),
        }
    }
}

#[cfg(test)]
#[path = "level_tests.rs"]
mod tests;
