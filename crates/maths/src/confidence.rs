//! How sure a fitted law is, from the spread between rounds.
//!
//! Method: bootstrap over rounds. How far each round lies from the mean of its level, as a share of that mean, is put
//! into one bag for the whole sweep (three rounds of one level alone say too little of its noise); sweeps are then drawn
//! from that bag and fitted again, and the middle 95 % of what they say is the interval. It contains the noise of the
//! measurement; it does not contain that the law itself may be wrong, which `Usl::r_squared` tells.

use super::random::SplitMix64;
use super::ratio::{CONFIDENCE, Interval};
use super::recommend::Level;
use super::statistics::{mean, percentile};
use super::usl::{FitError, Point, Usl, fit};
use serde::{Deserialize, Serialize};

/// How many sweeps are drawn: enough for two digits of an interval's ends.
const RESAMPLES: usize = 500;

/// Intervals of a law's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Of lambda, in transactions per second.
    pub lambda: Interval,
    /// Of sigma.
    pub sigma: Interval,
    /// Of kappa.
    pub kappa: Interval,
    /// Of the peak, in clients; None where more than one resample in twenty has no peak at all.
    pub peak: Option<Interval>,
    /// How many sweeps were drawn.
    pub resamples: usize,
}

/// A law with how well it fits and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FittedUsl {
    /// The law.
    pub law: Usl,
    /// Share of the variance that it explains, 1 for all.
    pub r_squared: f64,
    /// None where a level has one round only: then the noise is not known.
    pub confidence: Option<Confidence>,
}

/// Fits a law to all rounds of all levels; the same seed draws the same sweeps.
pub fn fit_with_confidence(levels: &[Level], seed: u64) -> Result<FittedUsl, FitError> {
    let point = |clients: u32, tps: f64| Point {
        clients: f64::from(clients),
        tps,
    };
    let points: Vec<Point> = levels
        .iter()
        .flat_map(|level| level.tps.iter().map(move |&tps| point(level.clients, tps)))
        .collect();
    let law = fit(&points)?;
    Ok(FittedUsl {
        law,
        r_squared: law.r_squared(&points),
        confidence: intervals(levels, seed, RESAMPLES),
    })
}

fn intervals(levels: &[Level], seed: u64, resamples: usize) -> Option<Confidence> {
    let mut deviations = Vec::new();
    for level in levels {
        let (mean, rounds) = (mean(&level.tps)?, level.tps.len() as f64);
        if rounds < 2.0 {
            return None;
        }
        // The mean was drawn towards its own rounds: n - 1 of n degrees of freedom are left.
        let correction = (rounds / (rounds - 1.0)).sqrt();
        deviations.extend(level.tps.iter().map(|tps| correction * (tps / mean - 1.0)));
    }
    let mut random = SplitMix64::new(seed);
    let mut laws = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        let mut points = Vec::new();
        for level in levels {
            let mean = mean(&level.tps)?;
            for _ in &level.tps {
                let tps = mean * (1.0 + deviations[random.index(deviations.len())]);
                // A deviation of more than the whole is an outlier of another level.
                points.push(Point {
                    clients: f64::from(level.clients),
                    tps: tps.max(mean * 0.01),
                });
            }
        }
        laws.push(fit(&points).ok()?);
    }
    let interval = |values: &[f64]| {
        let tail = 50.0 * (1.0 - CONFIDENCE);
        Some(Interval {
            low: percentile(values, tail)?,
            high: percentile(values, 100.0 - tail)?,
        })
    };
    let of = |value: fn(&Usl) -> f64| interval(&laws.iter().map(value).collect::<Vec<_>>());
    let peaks: Vec<f64> = laws.iter().filter_map(Usl::peak).collect();
    Some(Confidence {
        lambda: of(|law| law.lambda)?,
        sigma: of(|law| law.sigma)?,
        kappa: of(|law| law.kappa)?,
        peak: interval(&peaks).filter(|_| peaks.len() as f64 >= CONFIDENCE * laws.len() as f64),
        resamples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Usl = Usl {
        lambda: 800.0,
        sigma: 0.03,
        kappa: 0.000_4,
    };

    /// A sweep with rounds that lie up to `noise` beside the law, evenly.
    fn sweep(random: &mut SplitMix64, rounds: usize, noise: f64) -> Vec<Level> {
        [1, 2, 4, 8, 16, 32, 64, 128, 256]
            .into_iter()
            .map(|clients| Level {
                clients,
                first_round: 0,
                tps: (0..rounds)
                    .map(|_| {
                        let share = random.index(2001) as f64 / 1000.0 - 1.0;
                        LAW.throughput(f64::from(clients)) * (1.0 + noise * share)
                    })
                    .collect(),
            })
            .collect()
    }

    #[test]
    fn intervals_contain_the_truth_about_as_often_as_they_say() {
        let mut random = SplitMix64::new(42);
        let truth = LAW.peak().unwrap();
        let mut hits = 0;
        for seed in 0..60 {
            let levels = sweep(&mut random, 3, 0.08);
            let interval = intervals(&levels, seed, 200).unwrap().peak.unwrap();
            assert!(interval.low < interval.high);
            hits += u32::from((interval.low..interval.high).contains(&truth));
        }
        // 95 % of 60 is 57; 50 or fewer would happen once in a thousand times.
        assert!(hits >= 51, "{hits} of 60");
    }

    #[test]
    fn less_noise_means_narrower_intervals() {
        let mut random = SplitMix64::new(1);
        let mut width = |noise| {
            let interval = fit_with_confidence(&sweep(&mut random, 3, noise), 5)
                .unwrap()
                .confidence
                .unwrap();
            let peak = interval.peak.unwrap();
            peak.high - peak.low
        };
        assert!(width(0.01) < width(0.1) / 3.0);
    }

    #[test]
    fn a_seed_repeats_and_one_round_gives_no_interval() {
        let mut random = SplitMix64::new(3);
        let levels = sweep(&mut random, 3, 0.05);
        assert_eq!(fit_with_confidence(&levels, 9), fit_with_confidence(&levels, 9));
        let single = sweep(&mut random, 1, 0.05);
        assert_eq!(fit_with_confidence(&single, 9).unwrap().confidence, None);
    }

    #[test]
    fn a_curve_without_a_peak_gets_none() {
        let levels: Vec<Level> = [1u32, 2, 4, 8, 16]
            .into_iter()
            .map(|clients| Level {
                clients,
                first_round: 0,
                tps: vec![99.0 * f64::from(clients), 101.0 * f64::from(clients)],
            })
            .collect();
        let fitted = fit_with_confidence(&levels, 9).unwrap();
        let peak = fitted.confidence.unwrap().peak;
        assert!(peak.is_none_or(|peak| peak.high > 100.0), "{fitted:?}");
    }
}
