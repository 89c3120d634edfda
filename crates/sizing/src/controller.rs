//! The experiments: which limit is tried next, for how long, and what follows from it.

use crate::Bounds;
use crate::ladder::Ladder;
use crate::map::Map;
use crate::meter::{Meter, Window};
use crate::noise::Noise;
use crate::step::{Reason, Step, Steps};

/// A limit e times as great must do this much more (as a logarithm).
const PRICE: f64 = 0.02;
/// A difference counts if it is so many deviations.
const SIGNIFICANT: f64 = 2.0;
/// A gain below this is not worth a step.
const GAIN_MIN: f64 = 0.003;
/// A probe must be expected to gain this much, as a mean over what is possible.
const HOPE_MIN: f64 = 0.001;
/// What a probe costs must be regained within this time.
const HORIZON_SECONDS: f64 = 15.0;
/// How far a probe may go up and down: factors of the limit.
const UP: f64 = 2.0;
const DOWN: f64 = 16.0;

/// Completions that a window should have.
const COMPLETIONS: f64 = 40.0;
/// Shortest window.
const WINDOW_SECONDS_MIN: f64 = 0.05;
/// Shortest pause after the limit has changed.
const PAUSE_SECONDS_MIN: f64 = 0.01;
/// Longest pause, and longest window that is planned.
const PLANNED_SECONDS_MAX: f64 = 1.0;
/// Share of the time in which nobody may wait.
const DRY_SHARE: f64 = 0.05;
/// How much the differences between limits may change in a second, as a variance.
const SHAPE_DRIFT: f64 = 1e-4;
/// Level drift of a window: a share of the noise, and an absolute part for each second.
const LEVEL_DRIFT_SHARE: f64 = 0.25;
const LEVEL_DRIFT: f64 = 1e-4;
/// A window beyond so many deviations, and by so much, may mean that the workload has changed; two in a row do.
const CHANGE_DEVIATIONS: f64 = 4.0;
const CHANGE_MIN: f64 = 0.15;
/// Share of the service time in other classes that means that the mix has changed.
const STRANGE: f64 = 0.5;

/// Limits well above and below the base are tried again after this time, or later if that costs more than this share of
/// the work.
const STALE_SECONDS: f64 = 3.0;
const STALE_COST: f64 = 0.003;
/// The servers stand still if nothing has been completed for so long: seconds, and the usual time between two.
const GAP_SECONDS: f64 = 0.1;
const GAP_SPACINGS: f64 = 10.0;
/// Requests that take so many times as long as usual may have too many beside them, even if nobody waits.
const SUSPICIOUS: f64 = 1.5;
/// Probes after that.
const CHECKS: u32 = 12;

/// A defect that the tests can ask for, to prove that they would find it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// Takes less work for more.
    SignTurned,
}

/// What a window is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// The limit has just changed; requests of the old limit are still at work.
    Settling,
    /// A window is open.
    Measuring,
}

/// Finds the limit on servers at work.
#[derive(Debug, Clone)]
pub struct Controller {
    ladder: Ladder,
    map: Map,
    meter: Meter,
    noise: Noise,
    steps: Steps,
    weakness: Option<Weakness>,
    held: bool,
    start: usize,
    /// The limit found so far, and the one in force: equal unless another one is being tried.
    base: usize,
    at: usize,
    doing: Doing,
    due_us: u64,
    /// When the last window ended, and the open one began.
    measured_us: u64,
    began_us: u64,
    /// Mean service time and completions per second at the limit in force, as far as known.
    service: f64,
    speed: f64,
    /// Windows in a row in which the workload looked changed.
    surprises: u32,
    /// When each limit was last measured.
    tried_us: Vec<u64>,
    /// Probes that are still allowed although nobody waits.
    checks: u32,
    /// Slowness and active servers when the limit was last known to be good.
    usual: (f64, f64),
}

impl Controller {
    /// A controller that begins at the limit `start`.
    pub fn new(bounds: Bounds, start: u32, now_us: u64) -> Self {
        let bounds = Bounds {
            min: bounds.min.max(1),
            max: bounds.max.max(bounds.min).max(1),
        };
        let ladder = Ladder::new(bounds);
        let start = ladder.at_most(start);
        Controller {
            map: Map::new((0..ladder.len()).map(|rung| ladder.position(rung)).collect()),
            meter: Meter::new(now_us),
            noise: Noise::default(),
            steps: Steps::new(),
            weakness: None,
            held: false,
            start,
            base: start,
            at: start,
            doing: Doing::Settling,
            due_us: now_us,
            measured_us: now_us,
            began_us: now_us,
            service: 0.0,
            speed: 0.0,
            surprises: 0,
            tried_us: vec![now_us; ladder.len()],
            checks: 0,
            usual: (0.0, 0.0),
            ladder,
        }
    }

    #[doc(hidden)]
    pub fn with_weakness(self, weakness: Weakness) -> Self {
        Controller {
            weakness: Some(weakness),
            ..self
        }
    }

    /// A request has been completed after `service_us` at a server. `class` groups requests of about equal cost;
    /// `waited` says that another request was waiting at this moment.
    pub fn completed(&mut self, now_us: u64, class: u32, service_us: u64, waited: bool) {
        self.meter.completed(now_us, class, service_us, waited);
    }

    /// Servers that may have a request outstanding now.
    pub fn limit(&self) -> u32 {
        self.ladder.limit(self.at)
    }

    /// The limit apart from experiments.
    pub fn settled(&self) -> u32 {
        self.ladder.limit(self.base)
    }

    /// When [`Controller::tick`] wants to be called next.
    pub fn due_us(&self) -> u64 {
        self.due_us
    }

    /// The latest steps, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter()
    }

    /// Stops all experiments and keeps the limit, or goes on.
    pub fn hold(&mut self, held: bool, now_us: u64) {
        self.held = held;
        self.go(self.base, now_us);
    }

    /// The server was restarted, or the endpoint leads to another server: begins softly.
    pub fn restarted(&mut self, now_us: u64) {
        let to = self.base.min(self.start);
        self.step_to(to, Reason::Restarted, now_us);
        self.map.forget(to);
        self.noise.forget();
        (self.service, self.speed) = (0.0, 0.0);
        self.go(to, now_us);
    }

    /// Does what is due. Returns a step if one was taken; [`Controller::limit`] may have changed in any case.
    pub fn tick(&mut self, now_us: u64) -> Option<Step> {
        if now_us < self.due_us {
            return None;
        }
        if self.held {
            self.due_us = now_us + 1_000_000;
            return None;
        }
        if self.doing == Doing::Settling {
            self.doing = Doing::Measuring;
            self.open(now_us);
            return None;
        }
        let silent = self.at != self.base && self.is_silent(now_us);
        if self.meter.effective() < COMPLETIONS && !silent && !self.overdue(now_us) {
            self.due_us = now_us + micros(WINDOW_SECONDS_MIN);
            return None;
        }
        let window = self.meter.end(now_us);
        match window.map(|window| (window, self.judge(&window))) {
            Some((window, Use::Queued | Use::Check)) => self.learn(&window, now_us),
            Some((_, Use::Nothing)) | None => {
                self.surprises = 0;
                self.noise.interrupt();
                self.map.forget_level();
                self.go(self.base, now_us);
                None
            }
        }
    }

    fn open(&mut self, now_us: u64) {
        self.meter.begin(now_us);
        self.began_us = now_us;
        let wanted = if self.speed > 0.0 {
            COMPLETIONS / self.speed
        } else {
            0.0
        };
        let seconds = wanted
            .max(2.0 * self.service)
            .clamp(WINDOW_SECONDS_MIN, PLANNED_SECONDS_MAX);
        self.due_us = now_us + micros(seconds);
    }

    /// The servers seem to stand still.
    fn is_silent(&self, now_us: u64) -> bool {
        self.meter.silence(now_us) > GAP_SECONDS.max(GAP_SPACINGS / self.speed)
    }

    /// The window has waited for completions long enough.
    fn overdue(&self, now_us: u64) -> bool {
        let open = now_us.saturating_sub(self.began_us) as f64 / 1e6;
        let probing = self.at != self.base;
        open > if probing && self.service < 0.2 { 0.5 } else { 2.0 }
    }

    /// What the window is good for.
    fn judge(&mut self, window: &Window) -> Use {
        let active = window.active.min(f64::from(self.limit()));
        let base = f64::from(self.ladder.limit(self.base));
        if window.gap > GAP_SECONDS.max(GAP_SPACINGS * window.seconds / window.effective) {
            return Use::Nothing;
        }
        if window.dry <= DRY_SHARE {
            if self.at == self.base {
                (self.checks, self.usual) = (0, (window.slowness, active));
            }
            return Use::Queued;
        }
        if self.at > self.base && active > 1.02 * base {
            return Use::Queued;
        }
        if self.at != self.base || window.effective < COMPLETIONS / 2.0 {
            return Use::Nothing;
        }
        if self.checks > 0 {
            return Use::Check;
        }
        let slower = window.slowness / self.usual.0;
        let suspicious = slower > SUSPICIOUS
            || slower < 1.0 / SUSPICIOUS && active > self.usual.1 / SUSPICIOUS
            || window.strange >= STRANGE;
        if active < 2.0 || !suspicious {
            return Use::Nothing;
        }
        self.checks = CHECKS;
        self.usual = (window.slowness, active);
        self.meter.forget_shares();
        self.map.forget(self.base);
        Use::Check
    }

    fn learn(&mut self, window: &Window, now_us: u64) -> Option<Step> {
        self.service = window.service;
        self.speed = window.effective / window.seconds;
        let mut value = window.rate.ln();
        if self.weakness == Some(Weakness::SignTurned) {
            value = -value;
        }
        let variance = self.noise.variance(window.effective);
        if self.at == self.base {
            self.noise.saw(self.at, value, window.effective);
        }
        let elapsed = now_us.saturating_sub(self.measured_us) as f64 / 1e6;
        self.measured_us = now_us;
        self.tried_us[self.at] = now_us;
        self.map.drift(
            LEVEL_DRIFT_SHARE * variance + LEVEL_DRIFT * elapsed,
            SHAPE_DRIFT * elapsed,
            self.base,
        );
        match self.surprise(window, value, variance) {
            Surprise::No => {}
            Surprise::First => {
                self.go(self.base, now_us);
                return None;
            }
            Surprise::Confirmed(reason) => {
                self.map.forget(self.base);
                self.map.measure(self.at, value, variance);
                let step = self.step_to(self.base, reason, now_us);
                self.next(false, now_us);
                return Some(step);
            }
        }
        self.map.measure(self.at, value, variance);
        let step = self.better(now_us);
        self.next(step.is_none() && self.at != self.base, now_us);
        step
    }

    /// Whether the workload is another one than before. A single window that looks like it is left out.
    fn surprise(&mut self, window: &Window, value: f64, variance: f64) -> Surprise {
        let (mean, belief) = self.map.belief(self.at);
        let error = value - mean;
        if self.at != self.base {
            let wrong = error.abs() > CHANGE_MIN.max(CHANGE_DEVIATIONS * (belief + variance).sqrt());
            if wrong && self.map.difference(self.at, self.base).deviation < 0.15 {
                self.map.doubt(self.base);
            }
            return Surprise::No;
        }
        let surprising = belief < 1.0 && error.abs() > CHANGE_MIN.max(CHANGE_DEVIATIONS * (belief + variance).sqrt());
        if !surprising && window.strange < STRANGE {
            self.surprises = 0;
            return Surprise::No;
        }
        self.surprises += 1;
        if self.surprises < 2 {
            return Surprise::First;
        }
        self.surprises = 0;
        if window.strange >= STRANGE {
            self.meter.forget_shares();
            return Surprise::Confirmed(Reason::MixChanged {
                percent: window.strange * 100.0,
            });
        }
        Surprise::Confirmed(Reason::WorkloadChanged {
            percent: error.exp_m1() * 100.0,
        })
    }

    /// Moves to a limit that is significantly better.
    fn better(&mut self, now_us: u64) -> Option<Step> {
        let (low, high) = self.range();
        let best = (low..=high).max_by(|&a, &b| self.gain(a).0.total_cmp(&self.gain(b).0))?;
        let (gain, deviation) = self.gain(best);
        if best == self.base || gain < GAIN_MIN || gain < SIGNIFICANT * self.noise.doubt() * deviation {
            return None;
        }
        let percent = self.map.difference(best, self.base).mean.exp_m1() * 100.0;
        let deviation = deviation * 100.0;
        let reason = if best > self.base {
            Reason::MoreWork { percent, deviation }
        } else {
            Reason::FewerSuffice { percent, deviation }
        };
        Some(self.step_to(best, reason, now_us))
    }

    /// Chooses the limit of the next window; `back`: the base is due.
    fn next(&mut self, back: bool, now_us: u64) {
        let to = if back { None } else { self.probe() };
        self.checks -= u32::from(self.checks > 0 && to.is_some());
        self.go(to.unwrap_or(self.base), now_us);
    }

    /// The limit that is worth trying: what could be gained until the horizon outweighs what the trial may cost.
    fn probe(&self) -> Option<usize> {
        let (low, high) = self.range();
        let window = (COMPLETIONS / self.speed)
            .max(3.0 * self.service)
            .max(WINDOW_SECONDS_MIN)
            * 1.5;
        let windows = (HORIZON_SECONDS / window).clamp(10.0, 300.0);
        if let Some(rung) = self.stale(window) {
            return Some(rung);
        }
        let mut best = (0.0, None);
        for rung in (low..=high).filter(|&rung| rung != self.base) {
            let (gain, deviation) = self.gain(rung);
            let hope = mean_above(gain, deviation);
            let value = hope * windows - mean_above(-gain, deviation);
            if hope > HOPE_MIN && value > best.0 {
                best = (value, Some(rung));
            }
        }
        best.1
    }

    /// A limit well above or below the base that has not been tried for long, as a check on what is believed.
    fn stale(&self, window: f64) -> Option<usize> {
        if self.checks > 0 {
            return None;
        }
        let (base, last) = (f64::from(self.settled()), self.ladder.len() - 1);
        let (up, down) = (
            self.ladder.at_most((base * 2.0) as u32),
            self.ladder.at_most((base / 2.0) as u32),
        );
        let sides = [
            (up, self.ladder.at_least((base * 1.5) as u32)..=last),
            (down, 0..=self.ladder.at_most((base / 1.5) as u32)),
        ];
        for (rung, side) in sides {
            if rung == self.base || side.contains(&self.base) {
                continue;
            }
            let (gain, deviation) = self.gain(rung);
            let wait = (mean_above(-gain, deviation) * window / STALE_COST).max(STALE_SECONDS);
            let tried = side.map(|rung| self.tried_us[rung]).max().unwrap_or(0);
            if self.measured_us > tried + micros(wait) {
                return Some(rung);
            }
        }
        None
    }

    fn range(&self) -> (usize, usize) {
        let base = f64::from(self.settled());
        if self.checks > 0 {
            let high = self.usual.1.min(base) / 1.5;
            return (
                self.ladder.at_most((high / DOWN) as u32),
                self.ladder.at_most(high as u32),
            );
        }
        let high = self.ladder.at_most((base * UP) as u32).max(self.base + 1);
        (
            self.ladder.at_most((base / DOWN) as u32),
            high.min(self.ladder.len() - 1),
        )
    }

    /// By how much `rung` is better than the base, its price included, and the deviation of that.
    fn gain(&self, rung: usize) -> (f64, f64) {
        let difference = self.map.difference(rung, self.base);
        let price = if self.checks > 0 { -PRICE } else { PRICE };
        let price = price * (self.ladder.position(rung) - self.ladder.position(self.base));
        (difference.mean - price, difference.deviation)
    }

    fn step_to(&mut self, to: usize, reason: Reason, now_us: u64) -> Step {
        let step = Step {
            at_us: now_us,
            from: self.ladder.limit(self.base),
            to: self.ladder.limit(to),
            reason,
        };
        self.base = to;
        self.steps.push(step);
        step
    }

    /// Puts the limit of rung `to` in force, and opens a window, after a pause if the limit has changed.
    fn go(&mut self, to: usize, now_us: u64) {
        if to == self.at {
            self.doing = Doing::Measuring;
            self.open(now_us);
            return;
        }
        let ratio = f64::from(self.ladder.limit(to)) / f64::from(self.ladder.limit(self.at));
        let pause = (1.25 * self.service * ratio.max(1.0)).clamp(PAUSE_SECONDS_MIN, PLANNED_SECONDS_MAX);
        self.at = to;
        self.doing = Doing::Settling;
        self.due_us = now_us + micros(pause);
    }
}

/// Mean of what is above 0 of a normal distribution.
fn mean_above(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = (-z * z / 2.0).exp() * 0.398_942_280_4;
    deviation * (z * below(z) + density)
}

/// The normal distribution function, by Abramowitz and Stegun 26.2.17 (error below 1e-7).
fn below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let tail = (-z * z / 2.0).exp()
        * 0.398_942_280_4
        * t
        * (0.319_381_53 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    if z >= 0.0 { 1.0 - tail } else { tail }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}
