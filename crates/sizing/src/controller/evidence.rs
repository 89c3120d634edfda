//! What a window is good for, and what follows from it.

use super::{Controller, GAP_SECONDS, GAP_SPACINGS, Weakness};
use crate::meter::Window;
use crate::step::{Reason, Step};

/// A window with fewer completions says nothing.
const COMPLETIONS_MIN: f64 = 1.0;
/// What a probe without a completion counts as: half a completion, with a deviation of a factor of 4.
const NONE_COMPLETIONS: f64 = 0.5;
const NONE_VARIANCE: f64 = 2.0;
/// A window that has no completions for this share of its time, or for GAP_SECONDS, is left out; at most this many
/// in a row.
const GAP_SHARE: f64 = 0.25;
const STALLS_MAX: u32 = 3;
/// If a higher limit does away with the queue, the clients are still there if they use this share of the base's
/// servers.
const STILL_THERE: f64 = 0.85;
/// In a window that counts as one with a queue, no request waits for at most this share of the time.
pub(super) const DRY_SHARE: f64 = 0.05;
/// How much the differences between limits may change in a second, as a variance.
const SHAPE_DRIFT: f64 = 1e-4;
/// How much the level may change from window to window: a share of the noise, and an absolute part for each second.
const LEVEL_DRIFT_SHARE: f64 = 0.25;
const LEVEL_DRIFT: f64 = 1e-4;
/// A window that shows nothing does not make the controller forget: the next one is still compared with what was known
/// before. In each window that shows nothing the level may change as in others, but at most this many count.
const UNSEEN_MAX: u32 = 40;
/// A window that differs from the expected by more than this many deviations, and by more than this, may mean that the
/// workload has changed; two such windows in a row mean it.
const CHANGE_DEVIATIONS: f64 = 4.0;
const CHANGE_MIN: f64 = 0.15;
/// A difference is known if its deviation is below this. Probes that contradict a known one put all differences in
/// doubt.
const KNOWN_DEVIATION: f64 = 0.15;
/// Share of the service time in other classes that means that the mix has changed.
const STRANGE: f64 = 0.5;
/// If requests take this many times as long as usual, too many may be at work, even if nobody waits.
const SUSPICIOUS: f64 = 1.5;
/// Probes in the check that follows.
const CHECKS: u32 = 12;
/// Fewer servers at work are not worth a check.
const CHECKED_MIN: f64 = 2.0;
/// So many servers at work are worth checks for as long as they promise something.
const CROWDED_MIN: f64 = 12.0;

/// What a window is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing: nobody waited, or the servers stood still.
    Nothing,
    /// Clients waited: the window shows what its limit gives.
    Queued,
    /// Nobody waited, but something has changed: fewer servers may do more.
    Check,
}

/// Whether a window shows another workload.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Surprise {
    No,
    /// It does, and the next one must confirm it.
    First,
    Confirmed(Reason),
}

impl Controller {
    pub(super) fn use_of(&mut self, window: &Window) -> Use {
        let active = window.active.min(f64::from(self.limit()));
        if window.effective < COMPLETIONS_MIN || self.is_stalled(window) {
            return Use::Nothing;
        }
        if window.dry <= DRY_SHARE {
            if self.at == self.base {
                (self.checks, self.usual) = (0, (window.slowness, active));
            }
            return Use::Queued;
        }
        // A higher limit may do away with the queue: then it shows what all clients together can use.
        if self.at > self.base && active > STILL_THERE * f64::from(self.settled()) {
            return Use::Queued;
        }
        if self.at == self.base
            && (self.is_suspicious(window, active) || self.checks > 0 || self.is_crowded(window, active))
        {
            return Use::Check;
        }
        Use::Nothing
    }

    /// Whether the servers stood still during the window. If they do so again and again, that is how they work.
    fn is_stalled(&mut self, window: &Window) -> bool {
        let spacing = window.seconds / window.effective;
        let stalled = window.gap > GAP_SECONDS.min(GAP_SHARE * window.seconds).max(GAP_SPACINGS * spacing);
        self.stalls = if stalled && self.stalls < STALLS_MAX {
            self.stalls + 1
        } else {
            0
        };
        self.stalls > 0
    }

    /// Whether fewer servers might do more although nobody waits: requests have become slower, or other requests have
    /// come. If so, a check begins.
    fn is_suspicious(&mut self, window: &Window, active: f64) -> bool {
        let slower = window.slowness / self.usual.0;
        let faster = slower < 1.0 / SUSPICIOUS && active > self.usual.1 / SUSPICIOUS;
        // More servers at work than there are: the requests began long before the window, in a standstill.
        let old = window.active > SUSPICIOUS * f64::from(self.working);
        if old || active < CHECKED_MIN || !(slower > SUSPICIOUS || faster || window.strange >= STRANGE) {
            return false;
        }
        self.checks = CHECKS;
        self.usual = (window.slowness, active);
        self.meter.forget_shares();
        self.map.forget(self.base);
        true
    }

    /// Whether so many servers work that some may be in each other's way, although nobody waits. Noise can hide that from
    /// the checks of a change, so these have no number: each must promise more than it costs.
    fn is_crowded(&mut self, window: &Window, active: f64) -> bool {
        if active < CROWDED_MIN {
            return false;
        }
        (self.checks, self.usual) = (1, (window.slowness, active));
        true
    }

    /// Nothing was completed. At another limit than the base this says a little: that this limit is not much better.
    pub(super) fn learn_nothing_came(&mut self, since_us: u64, now_us: u64) -> Option<Step> {
        if self.at != self.base && self.base_pace.speed > 0.0 && self.meter.somebody_waits() {
            let seconds = now_us.saturating_sub(since_us) as f64 / 1e6;
            let ratio = NONE_COMPLETIONS / (seconds * self.base_pace.speed);
            self.map.measure(
                self.at,
                self.map.belief(self.base).0 + ratio.ln().min(0.0),
                NONE_VARIANCE,
            );
            self.tried_us[self.at] = now_us;
        }
        self.rest(now_us);
        None
    }

    /// Works the window into the map, and moves if that shows a better limit.
    pub(super) fn learn(&mut self, window: &Window, now_us: u64) -> Option<Step> {
        let value = match self.weakness {
            Some(Weakness::SignTurned) => -window.rate.ln(),
            None => window.rate.ln(),
        };
        let variance = self.noise.variance(window);
        (self.pace.service, self.pace.speed) = (window.service, window.effective / window.seconds);
        if self.at == self.base {
            self.base_pace = self.pace;
            self.noise.saw(self.at, value, window);
        }
        let elapsed = now_us.saturating_sub(self.measured_us) as f64 / 1e6;
        self.measured_us = now_us;
        self.tried_us[self.at] = now_us;
        let probation = self.probation > 0;
        self.probation -= u32::from(probation && self.at == self.base);
        let level = if probation {
            0.0
        } else {
            let windows = f64::from(1 + self.unseen.min(UNSEEN_MAX));
            LEVEL_DRIFT_SHARE * variance * windows + LEVEL_DRIFT * elapsed
        };
        self.unseen = 0;
        self.map.drift(level, SHAPE_DRIFT * elapsed, self.base);
        let surprise = if probation {
            Surprise::No
        } else {
            self.surprise(window, value, variance)
        };
        match surprise {
            Surprise::No => {
                self.map.measure(self.at, value, variance);
                let step = self.better(window, now_us);
                let probed = self.at != self.base;
                self.next(probed, now_us);
                step
            }
            Surprise::First => {
                self.go(self.base, now_us);
                None
            }
            Surprise::Confirmed(reason) => {
                self.odd = None;
                self.map.forget(self.base);
                self.map.measure(self.at, value, variance);
                let step = self.step_to(self.base, reason, now_us);
                self.next(false, now_us);
                Some(step)
            }
        }
    }

    /// Whether a probe contradicts what is known of its limit. The first such probe is left out and repeated; after the
    /// second, all known differences are in doubt.
    fn contradiction(&mut self, surprising: bool) -> Surprise {
        let known = self.map.difference(self.at, self.base).deviation < KNOWN_DEVIATION;
        if !surprising || !known {
            self.odd = None;
            return Surprise::No;
        }
        if self.odd.take() == Some(self.at) {
            self.map.doubt(self.base);
            return Surprise::No;
        }
        self.odd = Some(self.at);
        Surprise::First
    }

    /// Whether the workload is another one than before. A single window at the base that looks like it is left out.
    fn surprise(&mut self, window: &Window, value: f64, variance: f64) -> Surprise {
        let (mean, belief) = self.map.belief(self.at);
        let error = value - mean;
        let surprising = belief < 1.0 && error.abs() > CHANGE_MIN.max(CHANGE_DEVIATIONS * (belief + variance).sqrt());
        if self.at != self.base {
            return self.contradiction(surprising);
        }
        let strange = window.strange >= STRANGE;
        if !surprising && !strange {
            self.surprises = 0;
            return Surprise::No;
        }
        self.surprises += 1;
        if self.surprises < 2 {
            return Surprise::First;
        }
        self.surprises = 0;
        Surprise::Confirmed(if strange {
            self.meter.forget_shares();
            Reason::MixChanged {
                percent: window.strange * 100.0,
            }
        } else {
            Reason::WorkloadChanged {
                percent: error.exp_m1() * 100.0,
            }
        })
    }
}
