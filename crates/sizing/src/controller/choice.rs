//! Which limit is the best by the map, and which one is tried next.

use super::evidence::DRY_SHARE;
use super::{Controller, micros};
use crate::meter::Window;
use crate::normal;
use crate::step::{Reason, Step};
use std::ops::{Range, RangeInclusive};

/// A limit e times as great must do this much more, as a logarithm: doubling the limit must give 1.4 %.
const PRICE: f64 = 0.02;
/// A difference counts if it is at least this many deviations.
const SIGNIFICANT: f64 = 2.0;
/// A gain below this is not worth a step.
const GAIN_MIN: f64 = 0.003;
/// A probe must be expected to gain this much, as a mean over what is possible.
const HOPE_MIN: f64 = 0.003;
/// What a probe costs must be regained within this time.
const HORIZON_SECONDS: f64 = 15.0;
/// A probe and the pauses about it, in windows.
const PROBE_WINDOWS: f64 = 1.5;
/// How far a probe may go up and down: factors of the limit.
const UP: f64 = 2.0;
const DOWN: f64 = 16.0;
/// A higher limit is tried first if its difference has more than this deviation: if requests are slow, going up costs
/// little and going down costs much.
const UNKNOWN: f64 = 0.3;
/// A check without a queue begins this far below the servers at work, so that a queue appears.
const BELOW_ACTIVE: f64 = 1.5;
/// Limits from half to twice the base are tried again after this many seconds, or later if a trial would then cost more
/// than this share of the work. The half and the double are tried more often.
const STALE: (f64, f64) = (15.0, 0.000_7);
const STALE_END: (f64, f64) = (3.0, 0.003);
const STALE_AT: f64 = 2.0;
/// A trial counts as one of the half or the double if its limit is at least this factor away from the base.
const STALE_FROM: f64 = 1.5;

impl Controller {
    /// Moves to a limit that is significantly better.
    pub(super) fn better(&mut self, window: &Window, now_us: u64) -> Option<Step> {
        let best = self
            .range()
            .max_by(|&a, &b| self.gain(a).0.total_cmp(&self.gain(b).0))?;
        let (gain, deviation) = self.gain(best);
        if best == self.base || gain < GAIN_MIN || gain < SIGNIFICANT * self.noise.doubt() * deviation {
            return None;
        }
        let percent = self.map.difference(best, self.base).mean.exp_m1() * 100.0;
        let deviation = deviation * 100.0;
        if best < self.base {
            return Some(self.step_to(best, Reason::FewerSuffice { percent, deviation }, now_us));
        }
        // If the new limit has done away with the queue, no more than the servers at work are needed.
        let shows_all = best == self.at && window.dry > DRY_SHARE;
        let needed = if shows_all {
            self.ladder.at_least(window.active.ceil() as u32)
        } else {
            best
        };
        let to = best.min(needed.max(self.base + 1));
        Some(self.step_to(to, Reason::MoreWork { percent, deviation }, now_us))
    }

    /// Chooses the limit of the next window; after a probe it is the base's turn.
    pub(super) fn next(&mut self, probed: bool, now_us: u64) {
        let to = if probed { None } else { self.probe() };
        self.checks -= u32::from(self.checks > 0 && to.is_some());
        self.go(to.unwrap_or(self.base), now_us);
    }

    /// The limit that is worth trying: what could be gained until the horizon outweighs what the trial may cost.
    fn probe(&self) -> Option<usize> {
        if let Some(rung) = self.odd
            && self.range().contains(&rung)
        {
            return self.odd;
        }
        let highest = *self.range().end();
        if highest > self.base && self.gain(highest).1 > UNKNOWN {
            return Some(highest);
        }
        let window = PROBE_WINDOWS * self.window_seconds();
        if let Some(rung) = self.stale(window) {
            return Some(rung);
        }
        let windows = HORIZON_SECONDS / window;
        let mut best = (0.0, None);
        for rung in self.range().filter(|&rung| rung != self.base) {
            let (gain, deviation) = self.gain(rung);
            let hope = normal::mean_above(gain, deviation);
            let value = hope * windows - normal::mean_above(-gain, deviation);
            if hope > HOPE_MIN && value > best.0 {
                best = (value, Some(rung));
            }
        }
        best.1
    }

    /// A limit from half to twice the base that has not been tried for long, as a check on what is believed.
    fn stale(&self, window: f64) -> Option<usize> {
        if self.checks > 0 {
            return None;
        }
        let base = f64::from(self.settled());
        let high = self.ladder.at_most((base * STALE_AT) as u32).min(self.highest());
        let low = self.lowest(base / STALE_AT);
        let above = self.ladder.at_least((base * STALE_FROM) as u32).min(high)..self.ladder.len();
        let below = 0..self.ladder.at_most((base / STALE_FROM) as u32).max(low) + 1;
        let ends = [(high, above, STALE_END), (low, below, STALE_END)];
        let inner = (low..high).map(|rung| (rung, rung..rung + 1, STALE));
        let is_stale = |rung: usize, tried: Range<usize>, (seconds, share): (f64, f64)| {
            let (gain, deviation) = self.gain(rung);
            let wait = seconds.max(normal::mean_above(-gain, deviation) * window / share);
            let tried_us = self.tried_us[tried].iter().max().copied().unwrap_or(0);
            rung != self.base && self.measured_us > tried_us + micros(wait)
        };
        ends.into_iter()
            .chain(inner)
            .find(|(rung, tried, often)| is_stale(*rung, tried.clone(), *often))
            .map(|of| of.0)
    }

    /// The rungs that may be chosen now.
    fn range(&self) -> RangeInclusive<usize> {
        let base = f64::from(self.settled());
        if self.checks > 0 {
            let high = self.usual.1.min(base) / BELOW_ACTIVE;
            return self.ladder.at_most((high / DOWN) as u32)..=self.ladder.at_most(high as u32);
        }
        let high = self.ladder.at_most((base * UP) as u32).max(self.base + 1);
        self.lowest(base / DOWN)..=high.min(self.highest())
    }

    /// The highest rung for which servers can be connected.
    fn highest(&self) -> usize {
        self.ladder.at_most(self.reach).max(self.base)
    }

    /// The rung at `limit`, or a higher one if that is needed for the requests that do not end.
    fn lowest(&self, limit: f64) -> usize {
        self.ladder
            .at_most(limit as u32)
            .max(self.ladder.at_least(self.floor))
            .min(self.base)
    }

    /// By how much `rung` is better than the base, less its price, and the deviation of that. While nobody waits, the
    /// lower limit has the price, because it makes clients wait.
    fn gain(&self, rung: usize) -> (f64, f64) {
        let difference = self.map.difference(rung, self.base);
        let price = if self.checks > 0 { -PRICE } else { PRICE };
        let distance = self.ladder.position(rung) - self.ladder.position(self.base);
        (difference.mean - price * distance, difference.deviation)
    }
}
