//! What a run gave, beside the best that one fixed limit could have given.

use super::{Plant, best};

/// Seconds that a limiter has from cold, and after a change, to find the limit.
pub const SETTLING_SECONDS: f64 = 10.0;
const BIN_SECONDS: f64 = 0.1;

#[derive(Default, Clone, Copy)]
struct Bin {
    phase: usize,
    steps: f64,
    /// Sums over steps: rate at the limit as a share of the best rate, without noise; the limit.
    share: f64,
    limit: f64,
    /// Worth completed, and what the best fixed limit would have completed.
    done: f64,
    possible: f64,
}

/// Collects a run.
pub struct Judge {
    rates: Vec<Vec<f64>>,
    best: Vec<(f64, u32)>,
    /// Phases that are judged together.
    groups: Vec<Vec<usize>>,
    bins: Vec<Bin>,
    greatest: Vec<u32>,
}

/// What is said of one phase of a run.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// Completed from the tenth second of the phase on, as a share of what the best fixed limit completes.
    pub share: f64,
    /// Seconds until the limits of the following second give 95 % of the best, without noise.
    pub reached: f64,
    /// The worst second after that, as a share of the best, without noise.
    pub worst: f64,
    /// Mean limit from the tenth second on.
    pub limit: f64,
    /// The smallest limit that gives 99 % of the best.
    pub enough: u32,
    /// The greatest limit of the phase.
    pub greatest: u32,
}

/// Several verdicts in one.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// Mean and least share.
    pub share: f64,
    pub least: f64,
    /// Median and greatest time to 95 %.
    pub reached: f64,
    pub slowest: f64,
    /// The worst second after that.
    pub worst: f64,
    /// Mean limit, and the mean of the smallest that give 99 %.
    pub limit: f64,
    pub enough: f64,
    /// The greatest limit.
    pub greatest: u32,
}

impl Summary {
    /// The summary of `verdicts`.
    pub fn of(verdicts: &[Verdict]) -> Summary {
        let mean = |of: fn(&Verdict) -> f64| verdicts.iter().map(of).sum::<f64>() / verdicts.len() as f64;
        let least = |of: fn(&Verdict) -> f64| verdicts.iter().map(of).fold(f64::INFINITY, f64::min);
        Summary {
            share: mean(|v| v.share),
            least: least(|v| v.share),
            reached: median(verdicts.iter().map(|v| v.reached).collect()),
            slowest: -least(|v| -v.reached),
            worst: least(|v| v.worst),
            limit: mean(|v| v.limit),
            enough: mean(|v| f64::from(v.enough)),
            greatest: verdicts.iter().map(|v| v.greatest).max().unwrap_or(0),
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}

impl Judge {
    pub(super) fn new(plant: &Plant) -> Judge {
        let rates: Vec<Vec<f64>> = plant.phases.iter().map(|phase| plant.rates(phase)).collect();
        Judge {
            best: rates.iter().map(|rates| best(rates)).collect(),
            rates,
            groups: groups(plant),
            bins: Vec::new(),
            greatest: vec![0; plant.phases.len()],
        }
    }

    pub(super) fn step(&mut self, phase: usize, now: f64, seconds: f64, limit: u32, factor: f64) {
        let at = (now / BIN_SECONDS) as usize;
        if self.bins.len() <= at {
            self.bins.resize(
                at + 1,
                Bin {
                    phase,
                    ..Bin::default()
                },
            );
        }
        let bin = &mut self.bins[at];
        let best = self.best[phase].0;
        bin.steps += 1.0;
        bin.share += self.rates[phase][limit as usize] / best;
        bin.limit += f64::from(limit);
        bin.possible += best * factor * seconds;
        self.greatest[phase] = self.greatest[phase].max(limit);
    }

    pub(super) fn completed(&mut self, worth: f64) {
        if let Some(bin) = self.bins.last_mut() {
            bin.done += worth;
        }
    }

    /// The verdict on each phase that is judged, or on all together.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.groups.iter().map(|group| self.verdict(group)).collect()
    }

    fn verdict(&self, group: &[usize]) -> Verdict {
        let bins: Vec<&Bin> = self
            .bins
            .iter()
            .filter(|bin| group.contains(&bin.phase) && bin.steps > 0.0)
            .collect();
        let second = (1.0 / BIN_SECONDS) as usize;
        let seconds: Vec<f64> = bins
            .windows(second)
            .map(|of| of.iter().map(|b| b.share).sum::<f64>() / of.iter().map(|b| b.steps).sum::<f64>())
            .collect();
        let reached = seconds.iter().position(|&share| share >= 0.95);
        let after = reached.map_or(&[][..], |at| &seconds[at..]);
        let settled = &bins[((SETTLING_SECONDS / BIN_SECONDS) as usize).min(bins.len() / 2)..];
        let sum = |of: fn(&Bin) -> f64| settled.iter().map(|bin| of(bin)).sum::<f64>();
        Verdict {
            share: sum(|b| b.done) / sum(|b| b.possible),
            reached: reached.map_or(f64::INFINITY, |at| at as f64 * BIN_SECONDS),
            worst: after.iter().copied().fold(1.0, f64::min),
            limit: sum(|b| b.limit) / sum(|b| b.steps),
            enough: group.iter().map(|&phase| self.best[phase].1).max().unwrap_or(0),
            greatest: group.iter().map(|&phase| self.greatest[phase]).max().unwrap_or(0),
        }
    }
}

fn groups(plant: &Plant) -> Vec<Vec<usize>> {
    let judged = (0..plant.phases.len()).filter(|&phase| (plant.judged)(&plant.phases[phase]));
    if plant.together {
        vec![judged.collect()]
    } else {
        judged.map(|phase| vec![phase]).collect()
    }
}
