//! A pool's part in the limit of its host, and what it is charged for the work of its servers.

use crate::base::time::Time;
use std::time::Duration;

/// A pool's mean service time follows this many of its latest requests.
const MEAN_WEIGHT: u64 = 16;

/// Work that takes this many times as long as the mean of its pool, and at least [`LONG_MIN`], no longer counts:
/// waiting clients do not wait for its end.
const LONG_TIMES: u64 = 20;
const LONG_MIN: Duration = Duration::from_millis(200);

/// Work that takes this long no longer counts in a pool that has completed nothing yet.
const LONG_AT_FIRST: Duration = Duration::from_secs(5);

/// The class of work whose requests are not known: nothing is learnt from it.
pub(crate) const UNKNOWN: u32 = 0;

/// The place of a [`Sizing`](super::Sizing) among all.
pub(crate) type SizingId = u32;

/// What a server does that counts for the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Work {
    pub(super) since: Time,
    /// Requests of one class cost about the same; [`UNKNOWN`] before the first request, and for flights, which count
    /// one by one.
    pub(super) class: u32,
    /// What its pool has been charged for it in advance, microseconds.
    pub(super) charged_us: u64,
    /// The work takes far longer than other work, and no longer counts for the limit.
    pub(super) is_long: bool,
}

impl Work {
    /// When it began.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// Whether it has just begun, so that its class is not known.
    #[inline]
    pub(crate) fn has_no_class(&self) -> bool {
        self.class == UNKNOWN
    }

    /// It is work for a request of this class.
    #[inline]
    pub(crate) fn is_of(&mut self, class: u32) {
        self.class = class;
    }

    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }
}

/// A pool's part in the limit of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Share {
    pub(super) sizing: SizingId,
    /// Its turn among the pools of the host: service time that it has had, divided by its weight.
    pub(super) turn: u64,
    /// Mean service time of its requests, microseconds times [`MEAN_WEIGHT`].
    mean: u64,
    /// The turn under which the pool stands among those that wait. Its turn may have changed since.
    pub(super) listed: Option<u64>,
    /// It stands among those that wait for a place: see [`Sizings::owes`](super::Sizings::owes).
    pub(super) is_owed: bool,
    pub(super) weight: u32,
}

impl Share {
    /// The limit of which it is a part.
    #[inline]
    pub(crate) fn sizing(&self) -> SizingId {
        self.sizing
    }

    pub(super) fn new(sizing: SizingId, turn: u64, weight: u32) -> Self {
        Share {
            sizing,
            turn,
            mean: 0,
            listed: None,
            is_owed: false,
            weight: weight.max(1),
        }
    }

    /// A pool with a greater weight gets its turn more often.
    pub(crate) fn set_weight(&mut self, weight: u32) {
        self.weight = weight.max(1);
    }

    /// How long work may take and still count.
    pub(super) fn long(&self) -> Duration {
        match self.mean {
            0 => LONG_AT_FIRST,
            _ => LONG_MIN.max(Duration::from_micros(LONG_TIMES * self.expected_us())),
        }
    }

    pub(super) fn expected_us(&self) -> u64 {
        self.mean / MEAN_WEIGHT
    }

    /// Replaces what was charged in advance by what the work has cost. While work is long it takes no place under the
    /// limit, and costs nothing. Otherwise a report that runs for an hour would delay its pool for an hour, and would
    /// raise the mean so much that no work counts as long.
    pub(super) fn settle(&mut self, work: &Work, took_us: u64) {
        let weight = u64::from(self.weight);
        let cost_us = match work.is_long {
            true => took_us.min(self.long().as_micros() as u64),
            false => took_us,
        };
        self.turn = self.turn.saturating_sub(work.charged_us / weight) + cost_us / weight;
        self.mean = match self.mean {
            0 => cost_us.max(1) * MEAN_WEIGHT,
            mean => mean - mean / MEAN_WEIGHT + cost_us,
        };
    }
}
