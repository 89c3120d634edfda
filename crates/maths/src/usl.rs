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

use serde::{Deserialize, Serialize};

/// One measurement: clients at work, and the transactions per second that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of clients, at least 1.
    pub clients: f64,
    /// Transactions per second, above 0.
    pub tps: f64,
}

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

    /// Share of the points' variance that the law explains: 1 is a perfect fit, 0 as good as their mean, negative worse.
    pub fn r_squared(&self, points: &[Point]) -> f64 {
        let mean = points.iter().map(|p| p.tps).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|p| (p.tps - mean).powi(2)).sum();
        let left = squared_error(self, points);
        match total > 0.0 {
            true => 1.0 - left / total,
            // All points equal: a law that meets them is perfect.
            false if left <= 1e-12 * mean * mean => 1.0,
            false => 0.0,
        }
    }
}

/// The law with the least sum of squared errors in transactions per second, with sigma and kappa not below 0.
///
/// The bounds are kept by trying each set of numbers that are 0 (none, sigma, kappa, both) and taking the best; within
/// a set the others are positive because their logarithms are what is fitted, by Levenberg and Marquardt's method.
pub fn fit(points: &[Point]) -> Result<Usl, FitError> {
    let valid = |p: &Point| p.clients >= 1.0 && p.clients.is_finite() && p.tps > 0.0 && p.tps.is_finite();
    if !points.iter().all(valid) {
        return Err(FitError::NotPositive);
    }
    let mut levels: Vec<f64> = points.iter().map(|p| p.clients).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    if levels.len() < 3 {
        return Err(FitError::TooFewLevels(levels.len()));
    }
    let best = [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .flat_map(|free| starts(points, free).into_iter().map(move |start| (start, free)))
        .map(|(start, free)| refine(points, start, free))
        .min_by(|a, b| squared_error(a, points).total_cmp(&squared_error(b, points)));
    Ok(best.expect("there are starting values for every set"))
}

fn squared_error(law: &Usl, points: &[Point]) -> f64 {
    points.iter().map(|p| (law.throughput(p.clients) - p.tps).powi(2)).sum()
}

/// Starting values over the magnitudes that the numbers can have, each with the lambda that suits them best.
fn starts(points: &[Point], (sigma_free, kappa_free): (bool, bool)) -> Vec<Usl> {
    let greatest = points.iter().map(|p| p.clients).fold(1.0, f64::max);
    let sigmas: &[f64] = if sigma_free { &[0.5, 0.05, 0.002] } else { &[0.0] };
    // A peak at the end of the sweep, in its middle and at its beginning.
    let kappas: &[f64] = match kappa_free {
        true => &[greatest.powi(-2), 1.0 / greatest, greatest.powf(-0.5)],
        false => &[0.0],
    };
    sigmas
        .iter()
        .flat_map(|&sigma| kappas.iter().map(move |&kappa| (sigma, kappa)))
        .map(|(sigma, kappa)| {
            // X is linear in lambda: its least squares in closed form.
            let shape = Usl {
                lambda: 1.0,
                sigma,
                kappa,
            };
            let (mut xy, mut xx) = (0.0, 0.0);
            for p in points {
                let x = shape.throughput(p.clients);
                xy += x * p.tps;
                xx += x * x;
            }
            Usl {
                lambda: xy / xx,
                ..shape
            }
        })
        .collect()
}

/// Most steps of one fit; it usually takes ten to thirty.
const STEPS_MAX: usize = 200;

/// Levenberg and Marquardt from one start, over the logarithms of lambda and of what is free.
fn refine(points: &[Point], start: Usl, (sigma_free, kappa_free): (bool, bool)) -> Usl {
    let mut law = start;
    let mut error = squared_error(&law, points);
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let (jtj, jtr) = normal_equations(points, &law, (sigma_free, kappa_free));
        let trace: f64 = (0..3).map(|a| jtj[a][a]).sum();
        let mut damped = jtj;
        for (a, row) in damped.iter_mut().enumerate() {
            // The last term keeps a row solvable in which nothing (more) depends on its number.
            row[a] += damping * row[a] + 1e-14 * trace;
        }
        let step = solve(damped, jtr);
        // A step of more than e^2 in any number leaves the region where the linearisation means anything.
        let scale = 2.0 / step.iter().fold(2.0f64, |most, s| most.max(s.abs()));
        let next = Usl {
            lambda: law.lambda * (scale * step[0]).exp(),
            sigma: law.sigma * (scale * step[1]).exp(),
            kappa: law.kappa * (scale * step[2]).exp(),
        };
        let next_error = squared_error(&next, points);
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

/// Normal equations of the linearised problem; a number that is not free gets an empty row.
fn normal_equations(points: &[Point], law: &Usl, (sigma_free, kappa_free): (bool, bool)) -> ([[f64; 3]; 3], [f64; 3]) {
    let (mut jtj, mut jtr) = ([[0.0; 3]; 3], [0.0; 3]);
    for p in points {
        let n = p.clients;
        let x = law.throughput(n);
        let below = 1.0 + law.sigma * (n - 1.0) + law.kappa * n * (n - 1.0);
        let if_free = |free, derivative| if free { derivative } else { 0.0 };
        // d X / d ln lambda, d X / d ln sigma, d X / d ln kappa
        let j = [
            x,
            if_free(sigma_free, -x * law.sigma * (n - 1.0) / below),
            if_free(kappa_free, -x * law.kappa * n * (n - 1.0) / below),
        ];
        for a in 0..3 {
            jtr[a] += j[a] * (p.tps - x);
            for b in 0..3 {
                jtj[a][b] += j[a] * j[b];
            }
        }
    }
    (jtj, jtr)
}

/// Solves a symmetric, positive definite system by elimination with pivots.
fn solve(mut a: [[f64; 3]; 3], mut b: [f64; 3]) -> [f64; 3] {
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))
            .unwrap_or(column);
        a.swap(column, pivot);
        b.swap(column, pivot);
        if a[column][column].abs() < f64::MIN_POSITIVE {
            continue;
        }
        for row in column + 1..3 {
            let factor = a[row][column] / a[column][column];
            let above = a[column];
            for (cell, value) in a[row].iter_mut().zip(above).skip(column) {
                *cell -= factor * value;
            }
            b[row] -= factor * b[column];
        }
    }
    let mut x = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|k| a[row][k] * x[k]).sum();
        if a[row][row].abs() >= f64::MIN_POSITIVE {
            x[row] = (b[row] - known) / a[row][row];
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

    fn curve(law: Usl, levels: &[f64]) -> Vec<Point> {
        let point = |&clients: &f64| Point {
            clients,
            tps: law.throughput(clients),
        };
        levels.iter().map(point).collect()
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
            let found = fit(&curve(law, &LEVELS)).unwrap();
            assert!(close(found.lambda, lambda, 1e-4), "{law:?} {found:?}");
            assert!(close(found.sigma, sigma, 1e-3), "{law:?} {found:?}");
            assert!(close(found.kappa, kappa, 1e-3), "{law:?} {found:?}");
            assert!(close(found.peak().unwrap(), law.peak().unwrap(), 1e-3));
        }
    }

    #[test]
    fn the_bounds_hold_where_they_bind() {
        let straight: Vec<Point> = LEVELS
            .iter()
            .map(|&n| Point {
                clients: n,
                tps: 100.0 * n,
            })
            .collect();
        let law = fit(&straight).unwrap();
        assert!(
            close(law.lambda, 100.0, 1e-6) && law.sigma < 1e-9 && law.kappa < 1e-12,
            "{law:?}"
        );

        // Faster than linear: an unbounded fit would say sigma < 0.
        let above: Vec<Point> = LEVELS
            .iter()
            .map(|&n| Point {
                clients: n,
                tps: 100.0 * n.powf(1.1),
            })
            .collect();
        let law = fit(&above).unwrap();
        assert!(law.sigma >= 0.0 && law.kappa >= 0.0 && law.sigma < 1e-6, "{law:?}");

        // Amdahl's law has no peak.
        let amdahl = Usl {
            lambda: 200.0,
            sigma: 0.05,
            kappa: 0.0,
        };
        let law = fit(&curve(amdahl, &LEVELS)).unwrap();
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
        let two = [
            Point {
                clients: 1.0,
                tps: 10.0,
            },
            Point {
                clients: 2.0,
                tps: 20.0,
            },
            Point {
                clients: 2.0,
                tps: 19.0,
            },
        ];
        assert_eq!(fit(&two), Err(FitError::TooFewLevels(2)));
        let zero = [
            Point {
                clients: 1.0,
                tps: 10.0,
            },
            Point { clients: 2.0, tps: 0.0 },
            Point { clients: 3.0, tps: 9.0 },
        ];
        assert_eq!(fit(&zero), Err(FitError::NotPositive));
    }

    #[test]
    fn r_squared_tells_a_good_law_from_a_bad_one() {
        let law = Usl {
            lambda: 100.0,
            sigma: 0.02,
            kappa: 0.000_5,
        };
        let points = curve(law, &LEVELS);
        assert!(law.r_squared(&points) > 0.999_999);
        assert!(Usl { lambda: 10.0, ..law }.r_squared(&points) < 0.0);
    }
}
