//! How sure the peak of a fitted law is, from the noise of the rounds.
//!
//! Method: of all peaks, those belong to the interval with which the law fits hardly worse than with the best one, as Student's
//! t with 95 % confidence says (Donaldson and Schnabel 1987, likelihood method). For each peak the other numbers of the law are
//! those that suit it best. The noise is what the fitted law leaves over. Where the law clearly misses the levels by more than
//! their rounds differ, it is by how much the law misses them.

use super::ratio::{CONFIDENCE, Interval};
use super::recommend::Level;
use super::rounds::Rounds;
use super::student::{f_above, t_quantile};
use super::sweep::Sweep;
use super::usl::{FitError, Usl, fit, logarithms, squares};
use serde::{Deserialize, Serialize};

/// A law misses the levels where chance alone would rarely make so much: once in twenty times.
const MISSES_CHANCE: f64 = 0.05;

/// A peak beyond so many times the most clients is no different from none.
const FAR_TIMES: f64 = 1000.0;

/// The ends of an interval are exact to this share of them.
const EXACT_SHARE: f64 = 1e-4;

/// Steps of the search for the sigma that suits a peak.
const STEPS_MAX: usize = 30;

/// With more contention than this one client is the best there is.
const SIGMA_MOST: f64 = 0.9999;

/// A law with how well it fits and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FittedUsl {
    /// The law. Its lambda is the mean of what it was in each round.
    pub law: Usl,
    /// Share of the variance within the rounds that it explains, 1 for all.
    pub r_squared: f64,
    /// Where its peak lies, in clients, with 95 % confidence. None where a level has one round only, because then the noise is
    /// not known, and where the noise leaves it open whether there is a peak at all.
    pub peak: Option<Interval>,
}

/// Fits a law to all rounds of all levels.
pub fn fit_with_confidence(levels: &[Level]) -> Result<FittedUsl, FitError> {
    let sweep = Sweep::of(levels)?;
    let law = fit(&sweep);
    let all = sweep.squares_beside(&vec![0.0; levels.len()]);
    let left = squares(&sweep, law);
    Ok(FittedUsl {
        law,
        // Where all levels are alike, a law that says so is perfect.
        r_squared: if all > 0.0 { 1.0 - left / all } else { 1.0 },
        peak: peak(&sweep, levels, law),
    })
}

fn peak(sweep: &Sweep, levels: &[Level], law: Usl) -> Option<Interval> {
    let found = law.peak()?;
    let limit = squares(sweep, law) + margin(sweep, levels, law)?;
    let far = FAR_TIMES * sweep.clients.iter().copied().fold(1.0, f64::max);
    let fits = |peak: f64| best_with_peak(sweep, peak, law.sigma) <= limit;
    if found > far || !fits(found) || fits(far) {
        return None;
    }
    let low = if fits(1.0) { 1.0 } else { edge(fits, found, 1.0) };
    Some(Interval {
        low,
        high: edge(fits, found, far),
    })
}

/// By how much more than the best law another one may miss the figures, in squares.
fn margin(sweep: &Sweep, levels: &[Level], law: Usl) -> Option<f64> {
    if levels.iter().any(|level| level.tps.len() < 2) {
        return None;
    }
    let (figures, rounds) = sweep.size;
    let left = squares(sweep, law);
    let freedom = figures.checked_sub(rounds + 2).filter(|freedom| *freedom > 0)?;
    let all = Rounds::beginning(levels.iter().map(|level| (level.first_round, &level.tps[..])));
    let (variance, own_freedom) = all.noise_of_all()?;
    // What the law misses of the levels themselves, and for how many of them.
    let missed_freedom = freedom.saturating_sub(own_freedom) as f64;
    let missed = (left - variance * own_freedom as f64) / missed_freedom;
    let misses = missed_freedom > 0.0 && f_above(missed / variance, missed_freedom, own_freedom as f64) < MISSES_CHANCE;
    let (variance, freedom) = match misses {
        true => (missed, missed_freedom),
        false => (left / freedom as f64, freedom as f64),
    };
    Some(variance * t_quantile((1.0 + CONFIDENCE) / 2.0, freedom).powi(2))
}

/// Between a peak that fits and one that does not: the last that fits.
fn edge(fits: impl Fn(f64) -> bool, mut inside: f64, mut outside: f64) -> f64 {
    while (outside / inside).ln().abs() > EXACT_SHARE {
        let middle = (inside * outside).sqrt();
        match fits(middle) {
            true => inside = middle,
            false => outside = middle,
        }
    }
    inside
}

/// The least sum of squared errors of a law with this peak, by Gauss and Newton from a sigma.
fn best_with_peak(sweep: &Sweep, peak: f64, from: f64) -> f64 {
    let with = |sigma: f64| Usl {
        lambda: 1.0,
        sigma,
        kappa: (1.0 - sigma) / (peak * peak),
    };
    let mut sigma = from.min(SIGMA_MOST);
    let mut least = squares(sweep, with(sigma));
    for _ in 0..STEPS_MAX {
        let law = with(sigma);
        // d ln X / d sigma
        let slope =
            |n: &f64| (n - 1.0) * (n / (peak * peak) - 1.0) / (1.0 + law.sigma * (n - 1.0) + law.kappa * n * (n - 1.0));
        let slopes: Vec<f64> = sweep.clients.iter().map(slope).collect();
        let mut step = sweep.error_times(&logarithms(sweep, law), &slopes) / sweep.product(&slopes, &slopes);
        let before = least;
        while step.abs() > 1e-9 {
            let next = (sigma + step).clamp(0.0, SIGMA_MOST);
            let squares = squares(sweep, with(next));
            if squares < least {
                (sigma, least) = (next, squares);
                break;
            }
            step /= 4.0;
        }
        if least > before * (1.0 - 1e-9) {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::super::random::SplitMix64;
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
    fn less_noise_means_narrower_intervals() {
        let mut random = SplitMix64::new(1);
        let mut width = |noise| {
            let peak = fit_with_confidence(&sweep(&mut random, 3, noise))
                .unwrap()
                .peak
                .unwrap();
            peak.high - peak.low
        };
        assert!(width(0.01) < width(0.1) / 3.0);
    }

    #[test]
    fn one_round_gives_no_interval() {
        let mut random = SplitMix64::new(3);
        assert!(
            fit_with_confidence(&sweep(&mut random, 3, 0.05))
                .unwrap()
                .peak
                .is_some()
        );
        assert_eq!(fit_with_confidence(&sweep(&mut random, 1, 0.05)).unwrap().peak, None);
    }

    /// A round that is half as fast for all levels says nothing of the peak.
    #[test]
    fn a_slow_round_does_not_widen_the_interval() {
        let mut random = SplitMix64::new(5);
        let even = sweep(&mut random, 3, 0.05);
        let mut drifted = even.clone();
        drifted.iter_mut().for_each(|level| level.tps[1] /= 2.0);
        let peak = |levels: &[Level]| fit_with_confidence(levels).unwrap().peak.unwrap();
        let (even, drifted) = (peak(&even), peak(&drifted));
        assert!((even.low / drifted.low - 1.0).abs() < 1e-3 && (even.high / drifted.high - 1.0).abs() < 1e-3);
    }

    /// Levels that joined in faster rounds look faster, and are not.
    #[test]
    fn later_rounds_do_not_move_the_peak() {
        let exact = |clients: u32, factors: &[f64], first_round| Level {
            clients,
            first_round,
            tps: factors.iter().map(|f| f * LAW.throughput(f64::from(clients))).collect(),
        };
        let mut levels: Vec<Level> = [1, 4, 16, 256].map(|n| exact(n, &[1.0, 1.0], 0)).into();
        levels.push(exact(64, &[1.0, 1.0, 1.5, 1.5], 0));
        levels.extend([32, 128].map(|n| exact(n, &[1.5, 1.5], 2)));
        let law = fit_with_confidence(&levels).unwrap().law;
        assert!(
            (law.peak().unwrap() / LAW.peak().unwrap() - 1.0).abs() < 1e-3,
            "{law:?}"
        );
        assert!((law.lambda / LAW.lambda / 1.5f64.sqrt() - 1.0).abs() < 1e-3, "{law:?}");
    }

    /// More rounds do not make a law surer that misses the levels.
    #[test]
    fn a_law_that_misses_the_levels_is_less_sure() {
        let width = |dent: f64, rounds| {
            let mut levels = sweep(&mut SplitMix64::new(7), rounds, 0.01);
            levels[5].tps.iter_mut().for_each(|tps| *tps *= dent);
            let peak = fit_with_confidence(&levels).unwrap().peak.unwrap();
            (peak.high / peak.low).ln()
        };
        assert!(width(0.8, 3) > 5.0 * width(1.0, 3));
        assert!(
            width(0.8, 30) > 0.8 * width(0.8, 3),
            "{} {}",
            width(0.8, 30),
            width(0.8, 3)
        );
        assert!(width(1.0, 30) < 0.5 * width(1.0, 3));
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
        assert_eq!(fit_with_confidence(&levels).unwrap().peak, None);
    }
}
