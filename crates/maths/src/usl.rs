//! The Universal Scalability Law (Gunther 1993) and its fit to a sweep of concurrency.
//!
//! ```text
//! X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))
//! ```
//!
//! X is throughput in transactions per second, N the number of clients at work; lambda is what one client alone does,
//! sigma the share of the work that has to queue (a lock, a disk, the processors), kappa the price of every pair of
//! clients that must agree (cache lines, snapshots, the scheduler). With kappa above 0 throughput has a peak and falls
//! behind it.

use super::sweep::Sweep;
use serde::{Deserialize, Serialize};

/// A law with its three numbers; sigma and kappa are never negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// Transactions per second of one client alone.
    pub lambda: f64,
    /// Contention: share of the work that queues, 0 and above.
    pub sigma: f64,
    /// Coherency: cost of each pair of clients, 0 and above.
    pub kappa: f64,
}

/// A number of the law that changes the throughput with the most clients by less than this share has no effect.
const EFFECT_LEAST: f64 = 1e-3;

/// So many starting values are followed to their end.
const STARTS_MAX: usize = 2;

/// Why no law could be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Three unknowns need three levels.
    #[error("a fit needs throughput at 3 different numbers of clients or more, got {0}")]
    TooFewLevels(usize),
    /// Division by clients and throughput.
    #[error("a fit needs at least 1 client and throughput above 0 in every measurement")]
    NotPositive,
}

impl Usl {
    /// Transactions per second of `clients`.
    pub fn throughput(&self, clients: f64) -> f64 {
        self.lambda * clients / (1.0 + self.sigma * (clients - 1.0) + self.kappa * clients * (clients - 1.0))
    }

    /// Where throughput is greatest: sqrt((1 - sigma) / kappa), at least 1. None without coherency cost: then more
    /// clients never mean less throughput.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    /// The fewest clients that reach `share` (0 to 1) of the throughput at `at_clients`, which is not beyond the peak.
    pub fn clients_for(&self, share: f64, at_clients: f64) -> f64 {
        let wanted = share * self.throughput(at_clients);
        // Throughput rises up to the peak: halve the interval until it is narrower than anyone can use.
        let (mut below, mut above) = (1.0, at_clients.max(1.0));
        if self.throughput(below) >= wanted {
            return below;
        }
        while above - below > 1e-6 * above {
            let middle = (below + above) / 2.0;
            if self.throughput(middle) < wanted {
                below = middle;
            } else {
                above = middle;
            }
        }
        above
    }
}

/// The law with the least sum of squared errors of the logarithms, with sigma and kappa not below 0. A round that was slow
/// for all levels is no error: lambda is the mean of what it is in each round.
///
/// Above 0 their logarithms are what is fitted, by Levenberg and Marquardt's method. Where one of them has no effect on any
/// level it may be 0: then each set of numbers that are 0 is tried (sigma, kappa, both), and the best is taken.
pub(super) fn fit(sweep: &Sweep) -> Usl {
    let most = sweep.clients.iter().copied().fold(1.0, f64::max);
    let both = fit_free(sweep, most, (true, true));
    let has_both = both.sigma * most > EFFECT_LEAST && both.kappa * most * most > EFFECT_LEAST;
    let sets: &[(bool, bool)] = if has_both {
        &[]
    } else {
        &[(true, false), (false, true), (false, false)]
    };
    let bound = sets.iter().map(|free| fit_free(sweep, most, *free));
    let shape = least(sweep, std::iter::once(both).chain(bound));
    Usl {
        lambda: sweep.mean_beside(&logarithms(sweep, shape)).exp(),
        ..shape
    }
}

/// ln X of one transaction per second at one client, by level.
pub(super) fn logarithms(sweep: &Sweep, shape: Usl) -> Vec<f64> {
    let unit = Usl { lambda: 1.0, ..shape };
    sweep.clients.iter().map(|n| unit.throughput(*n).ln()).collect()
}

/// The sum of squared errors of a law with the lambda of each round that suits it best.
pub(super) fn squares(sweep: &Sweep, shape: Usl) -> f64 {
    sweep.squares_beside(&logarithms(sweep, shape))
}

/// From the starting values that suit the figures best.
fn fit_free(sweep: &Sweep, most: f64, free: (bool, bool)) -> Usl {
    let mut starts = starts(most, free);
    starts.sort_by(|a, b| squares(sweep, *a).total_cmp(&squares(sweep, *b)));
    starts.truncate(STARTS_MAX);
    least(sweep, starts.into_iter().map(|start| refine(sweep, start, free)))
}

fn least(sweep: &Sweep, laws: impl Iterator<Item = Usl>) -> Usl {
    laws.min_by(|a, b| squares(sweep, *a).total_cmp(&squares(sweep, *b)))
        .expect("there are starting values for every set")
}

/// Starting values over the magnitudes that the numbers can have.
fn starts(most: f64, (sigma_free, kappa_free): (bool, bool)) -> Vec<Usl> {
    let sigmas: &[f64] = if sigma_free { &[0.5, 0.05, 0.002] } else { &[0.0] };
    // A peak at the end of the sweep, in its middle and at its beginning.
    let kappas: &[f64] = match kappa_free {
        true => &[most.powi(-2), 1.0 / most, most.powf(-0.5)],
        false => &[0.0],
    };
    let of_sigma = |&sigma: &f64| {
        kappas.iter().map(move |&kappa| Usl {
            lambda: 1.0,
            sigma,
            kappa,
        })
    };
    sigmas.iter().flat_map(of_sigma).collect()
}

/// Most steps of one fit; it usually takes ten to thirty.
const STEPS_MAX: usize = 200;

/// Levenberg and Marquardt from one start, over the logarithms of what is free.
fn refine(sweep: &Sweep, start: Usl, free: (bool, bool)) -> Usl {
    let mut law = start;
    let mut error = squares(sweep, law);
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let [sigma, kappa] = step(sweep, law, free, damping);
        // A step of more than e^2 in any number leaves the region where the linearisation means anything.
        let scale = 2.0 / 2.0f64.max(sigma.abs()).max(kappa.abs());
        let next = Usl {
            sigma: law.sigma * (scale * sigma).exp(),
            kappa: law.kappa * (scale * kappa).exp(),
            ..law
        };
        let next_error = squares(sweep, next);
        if next_error < error {
            let gained = (error - next_error) / error;
            (law, error) = (next, next_error);
            damping = (damping / 5.0).max(1e-12);
            if gained < 1e-12 {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    law
}

/// What the linearised problem adds to ln sigma and to ln kappa; 0 for what is not free.
fn step(sweep: &Sweep, law: Usl, (sigma_free, kappa_free): (bool, bool), damping: f64) -> [f64; 2] {
    let below = |n: f64| 1.0 + law.sigma * (n - 1.0) + law.kappa * n * (n - 1.0);
    let by_sigma: Vec<f64> = (sweep.clients.iter())
        .map(|n| -law.sigma * (n - 1.0) / below(*n))
        .collect();
    let by_kappa: Vec<f64> = (sweep.clients.iter())
        .map(|n| -law.kappa * n * (n - 1.0) / below(*n))
        .collect();
    let at = logarithms(sweep, law);
    let if_free = |free, number| if free { number } else { 0.0 };
    let damped = |of: &[f64]| sweep.product(of, of) * (1.0 + damping) + f64::MIN_POSITIVE;
    let (ss, kk) = (damped(&by_sigma), damped(&by_kappa));
    let sk = if_free(sigma_free && kappa_free, sweep.product(&by_sigma, &by_kappa));
    let (sr, kr) = (sweep.error_times(&at, &by_sigma), sweep.error_times(&at, &by_kappa));
    let determinant = ss * kk - sk * sk;
    match (sigma_free, kappa_free) {
        (true, true) if determinant > 0.0 => [(kk * sr - sk * kr) / determinant, (ss * kr - sk * sr) / determinant],
        _ => [if_free(sigma_free, sr / ss), if_free(kappa_free, kr / kk)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::recommend::Level;
    use super::*;

    const LEVELS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

    fn curve(throughput: impl Fn(f64) -> f64) -> Vec<Level> {
        let level = |&clients: &u32| Level {
            clients,
            first_round: 0,
            tps: vec![throughput(f64::from(clients))],
        };
        LEVELS.iter().map(level).collect()
    }

    fn fitted(levels: &[Level]) -> Usl {
        fit(&Sweep::of(levels).unwrap())
    }

    fn close(got: f64, expected: f64, tolerance: f64) -> bool {
        (got - expected).abs() <= tolerance * expected.abs()
    }

    #[test]
    fn exact_curves_give_their_numbers_back() {
        for (lambda, sigma, kappa) in [
            (995.65, 0.026_71, 0.000_769),
            (1500.0, 0.3, 1e-5),
            (60.0, 0.000_5, 4e-6),
            (1e5, 0.9, 0.01),
            (0.5, 0.01, 0.1),
        ] {
            let law = Usl { lambda, sigma, kappa };
            let found = fitted(&curve(|n| law.throughput(n)));
            assert!(close(found.lambda, lambda, 1e-4), "{law:?} {found:?}");
            assert!(close(found.sigma, sigma, 1e-3), "{law:?} {found:?}");
            assert!(close(found.kappa, kappa, 1e-3), "{law:?} {found:?}");
            assert!(close(found.peak().unwrap(), law.peak().unwrap(), 1e-3));
        }
    }

    #[test]
    fn the_bounds_hold_where_they_bind() {
        let law = fitted(&curve(|n| 100.0 * n));
        assert!(
            close(law.lambda, 100.0, 1e-6) && law.sigma < 1e-9 && law.kappa < 1e-12,
            "{law:?}"
        );

        // Faster than linear: an unbounded fit would say sigma < 0.
        let law = fitted(&curve(|n| 100.0 * n.powf(1.1)));
        assert!(law.sigma >= 0.0 && law.kappa >= 0.0 && law.sigma < 1e-6, "{law:?}");

        // Amdahl's law has no peak.
        let amdahl = Usl {
            lambda: 200.0,
            sigma: 0.05,
            kappa: 0.0,
        };
        let law = fitted(&curve(|n| amdahl.throughput(n)));
        assert!(close(law.sigma, 0.05, 1e-3), "{law:?}");
        assert!(law.peak().is_none_or(|peak| peak > 1e4), "{law:?}");
    }

    #[test]
    fn the_peak_is_where_the_law_is_greatest() {
        let law = Usl {
            lambda: 100.0,
            sigma: 0.02,
            kappa: 0.000_5,
        };
        let peak = law.peak().unwrap();
        assert!(
            law.throughput(peak) > law.throughput(peak * 1.05) && law.throughput(peak) > law.throughput(peak * 0.95)
        );
        // More contention than work: one client is the best there is.
        assert_eq!(Usl { sigma: 1.5, ..law }.peak(), Some(1.0));
    }

    #[test]
    fn clients_for_a_share_of_the_peak() {
        let law = Usl {
            lambda: 100.0,
            sigma: 0.02,
            kappa: 0.000_5,
        };
        let peak = law.peak().unwrap();
        let knee = law.clients_for(0.95, peak);
        assert!(knee < peak && close(law.throughput(knee), 0.95 * law.throughput(peak), 1e-4));
        assert_eq!(law.clients_for(0.0, peak), 1.0);
    }

    #[test]
    fn too_little_to_fit() {
        let level = |clients, tps: &[f64]| Level {
            clients,
            first_round: 0,
            tps: tps.to_vec(),
        };
        let why = |levels: &[Level]| Sweep::of(levels).unwrap_err();
        let (one, two) = (level(1, &[10.0]), level(2, &[20.0, 19.0]));
        assert_eq!(why(&[one.clone(), two.clone()]), FitError::TooFewLevels(2));
        assert_eq!(
            why(&[one.clone(), two.clone(), level(3, &[])]),
            FitError::TooFewLevels(2)
        );
        assert_eq!(why(&[one, two, level(3, &[9.0, 0.0])]), FitError::NotPositive);
    }
}
