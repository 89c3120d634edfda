//! Other ways to choose a limit, to compare with: what docs/decisions/0025-sizing.md gives figures for.
//!
//! They see completions and service times, and nothing of classes.

use crate::plant::Limiter;

const WINDOW_US: u64 = 100_000;

/// What a window has seen.
#[derive(Debug, Default)]
struct Tally {
    began_us: u64,
    completions: f64,
    service_us: f64,
    waited: f64,
}

impl Tally {
    fn completed(&mut self, service_us: u64, waited: bool) {
        self.completions += 1.0;
        self.service_us += service_us as f64;
        self.waited += f64::from(u8::from(waited));
    }

    /// Ends the window: the one that was, or none if too little was completed.
    fn end(&mut self, now_us: u64, least: f64) -> Option<(f64, Tally)> {
        let seconds = (now_us - self.began_us) as f64 / 1e6;
        if self.completions < least || seconds <= 0.0 {
            return None;
        }
        let next = Tally {
            began_us: now_us,
            ..Tally::default()
        };
        Some((seconds, std::mem::replace(self, next)))
    }

    fn begin(&mut self, now_us: u64) {
        *self = Tally {
            began_us: now_us,
            ..Tally::default()
        };
    }
}

/// Netflix's Gradient2 with its usual constants: the limit follows long-term over present service time.
pub struct Gradient {
    tally: Tally,
    limit: f64,
    long_us: f64,
    max: f64,
}

impl Gradient {
    pub fn new(start: u32, max: u32) -> Self {
        Gradient {
            tally: Tally::default(),
            limit: f64::from(start),
            long_us: 0.0,
            max: f64::from(max),
        }
    }
}

impl Limiter for Gradient {
    fn completed(&mut self, _: u64, _: u32, service_us: u64, waited: bool) {
        self.tally.completed(service_us, waited);
    }
    fn tick(&mut self, now_us: u64, _: u32, _: u32) -> u64 {
        if let Some((seconds, tally)) = self.tally.end(now_us, 10.0) {
            let short_us = tally.service_us / tally.completions;
            self.long_us += (short_us - self.long_us) * if self.long_us == 0.0 { 1.0 } else { 2.0 / 601.0 };
            if self.long_us / short_us > 2.0 {
                self.long_us *= 0.95;
            }
            let active = tally.service_us / 1e6 / seconds;
            if active >= self.limit / 2.0 {
                let gradient = (1.5 * self.long_us / short_us).clamp(0.5, 1.0);
                let wanted = self.limit * gradient + 4.0;
                self.limit = (self.limit * 0.8 + wanted * 0.2).clamp(1.0, self.max);
            }
        }
        now_us + WINDOW_US
    }
    fn limit(&self) -> u32 {
        self.limit as u32
    }
    fn restarted(&mut self, _: u64) {}
}

/// Vegas: the queue in the server is the limit times what of the service time is above its minimum.
pub struct Vegas {
    tally: Tally,
    limit: f64,
    least_us: f64,
    windows: u32,
    max: f64,
}

impl Vegas {
    pub fn new(start: u32, max: u32) -> Self {
        let (limit, max) = (f64::from(start), f64::from(max));
        Vegas {
            tally: Tally::default(),
            limit,
            least_us: f64::INFINITY,
            windows: 0,
            max,
        }
    }
}

impl Limiter for Vegas {
    fn completed(&mut self, _: u64, _: u32, service_us: u64, waited: bool) {
        self.tally.completed(service_us, waited);
    }
    fn tick(&mut self, now_us: u64, _: u32, _: u32) -> u64 {
        if let Some((_, tally)) = self.tally.end(now_us, 10.0) {
            let mean_us = tally.service_us / tally.completions;
            self.windows += 1;
            let forget = self.windows.is_multiple_of(300);
            self.least_us = if forget { mean_us } else { self.least_us.min(mean_us) };
            let queue = self.limit * (1.0 - self.least_us / mean_us);
            let log = self.limit.log10().max(1.0);
            if queue <= log {
                self.limit += 6.0 * log;
            } else if queue < 3.0 * log {
                self.limit += log;
            } else if queue > 6.0 * log {
                self.limit -= log;
            }
            self.limit = self.limit.clamp(1.0, self.max);
        }
        now_us + WINDOW_US
    }
    fn limit(&self) -> u32 {
        self.limit as u32
    }
    fn restarted(&mut self, _: u64) {}
}

/// Extremum seeking, as .NET's thread pool does: a wave on the limit; the limit follows the throughput that swings with it.
pub struct Wave {
    tally: Tally,
    base: f64,
    high: bool,
    settling: bool,
    rates: [f64; 2],
    slope: f64,
    max: f64,
}

impl Wave {
    pub fn new(start: u32, max: u32) -> Self {
        let (base, max) = (f64::from(start), f64::from(max));
        Wave {
            tally: Tally::default(),
            base,
            high: false,
            settling: true,
            rates: [0.0; 2],
            slope: 0.0,
            max,
        }
    }
}

impl Limiter for Wave {
    fn completed(&mut self, _: u64, _: u32, service_us: u64, waited: bool) {
        self.tally.completed(service_us, waited);
    }
    fn tick(&mut self, now_us: u64, _: u32, _: u32) -> u64 {
        if self.settling {
            self.settling = false;
            self.tally.begin(now_us);
            return now_us + WINDOW_US;
        }
        let Some((seconds, tally)) = self.tally.end(now_us, 20.0) else {
            return now_us + WINDOW_US;
        };
        self.rates[usize::from(self.high)] = tally.completions / seconds;
        if self.high && self.rates[0] > 0.0 && tally.waited > 0.9 * tally.completions {
            let up = f64::from(self.limit()).ln();
            self.high = false;
            let swing = (up - f64::from(self.limit()).ln()).max(0.05);
            let slope = (self.rates[1] / self.rates[0]).ln() / swing - 0.02;
            self.slope += (slope.clamp(-1.0, 1.0) - self.slope) * 0.5;
            self.base = (self.base * (self.slope * 0.7).exp()).clamp(1.0, self.max);
        } else {
            self.high = !self.high;
        }
        self.settling = true;
        now_us + (tally.service_us / tally.completions) as u64 + 10_000
    }
    fn limit(&self) -> u32 {
        let limit = if self.high {
            (self.base * 1.15).max(self.base + 1.0)
        } else {
            self.base / 1.15
        };
        limit.round().clamp(1.0, self.max) as u32
    }
    fn restarted(&mut self, _: u64) {}
}

/// Hill climbing by pairs: the limit and another one by turns, until a t test says which is better. Steps that succeed
/// double, steps that fail in both directions become smaller.
pub struct Pairs {
    tally: Tally,
    base: f64,
    step: f64,
    up: bool,
    failed: bool,
    trying: bool,
    settling: bool,
    before: f64,
    sums: [f64; 3],
    max: f64,
}

impl Pairs {
    pub fn new(start: u32, max: u32) -> Self {
        let (tally, base, max) = (Tally::default(), f64::from(start), f64::from(max));
        let (step, up, failed, trying, settling) = (2.0, true, false, false, true);
        Pairs {
            tally,
            base,
            step,
            up,
            failed,
            trying,
            settling,
            before: 0.0,
            sums: [0.0; 3],
            max,
        }
    }

    fn other(&self) -> f64 {
        let other = if self.up {
            (self.base * self.step).max(self.base + 1.0)
        } else {
            self.base / self.step
        };
        if self.up {
            other.min(self.max)
        } else {
            other.min(self.base - 1.0).max(1.0)
        }
    }

    /// A pair is complete: the logarithm of the other limit's rate over the base's.
    fn pair(&mut self, ratio: f64) {
        let worth = ratio - 0.02 * (self.other() / self.base).ln();
        for (sum, value) in self.sums.iter_mut().zip([1.0, worth, worth * worth]) {
            *sum += value;
        }
        let [count, sum, squares] = self.sums;
        let mean = sum / count;
        let variance = ((squares - sum * mean).max(0.0) + 2.0 * 0.01) / (count + 1.0);
        let t = mean / (variance / count).sqrt();
        if t > 2.5 {
            self.base = self.other();
            self.step = (self.step * self.step).min(2.0);
            self.failed = false;
        } else if t < -1.5 || count >= 12.0 {
            if self.failed {
                self.step = if self.step < 1.3 { 2.0 } else { self.step.sqrt() };
            }
            self.failed = !self.failed;
            self.up = !self.up;
        } else {
            return;
        }
        self.sums = [0.0; 3];
    }
}

impl Limiter for Pairs {
    fn completed(&mut self, _: u64, _: u32, service_us: u64, waited: bool) {
        self.tally.completed(service_us, waited);
    }
    fn tick(&mut self, now_us: u64, _: u32, _: u32) -> u64 {
        if self.settling {
            self.settling = false;
            self.tally.begin(now_us);
            return now_us + 50_000;
        }
        let Some((seconds, tally)) = self.tally.end(now_us, 40.0) else {
            return now_us + 50_000;
        };
        let rate = (tally.completions / seconds).ln();
        let queue = tally.waited > 0.9 * tally.completions;
        if self.trying {
            self.pair(rate - self.before);
        }
        self.before = rate;
        self.trying = !self.trying && queue && self.other() != self.base;
        self.settling = true;
        now_us + (1.25 * tally.service_us / tally.completions) as u64 + 10_000
    }
    fn limit(&self) -> u32 {
        (if self.trying { self.other() } else { self.base }).round() as u32
    }
    fn restarted(&mut self, _: u64) {}
}
