//! A sweep of concurrency as logarithms, each beside the others of its round.
//!
//! ```text
//! ln(throughput of level c in round r) = ln(law at c) + round r + noise
//! ```
//!
//! As with [`super::Rounds`], a round that was slow for all levels says nothing of the law. So from each figure the mean of its round
//! is taken, from what was measured and from what a law says of the same levels.

use super::recommend::Level;
use super::rounds::dot;
use super::usl::FitError;

/// Three unknowns need three levels.
const LEVELS_LEAST: usize = 3;

/// The figures, as sums by level.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    /// Of each level.
    pub(super) clients: Vec<f64>,
    /// Figures and rounds.
    pub(super) size: (usize, usize),
    /// What was measured beside the mean of its round: the sum by level, and of all squares.
    measured: Vec<f64>,
    measured_squares: f64,
    /// Sums of products of two levels' numbers, each beside the mean of its round.
    products: Vec<Vec<f64>>,
    /// The mean of the rounds' means, and the share of each level in it.
    mean: f64,
    shares: Vec<f64>,
}

impl Sweep {
    pub(super) fn of(levels: &[Level]) -> Result<Self, FitError> {
        let positive = |tps: &f64| *tps > 0.0 && tps.is_finite();
        if !levels
            .iter()
            .all(|level| level.clients >= 1 && level.tps.iter().all(positive))
        {
            return Err(FitError::NotPositive);
        }
        let mut clients: Vec<u32> = levels.iter().filter(|l| !l.tps.is_empty()).map(|l| l.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        if clients.len() < LEVELS_LEAST {
            return Err(FitError::TooFewLevels(clients.len()));
        }
        let rounds = by_round(levels);
        let count = levels.len();
        let mut sweep = Sweep {
            clients: levels.iter().map(|level| f64::from(level.clients)).collect(),
            size: (rounds.iter().map(Vec::len).sum(), rounds.len()),
            measured: vec![0.0; count],
            measured_squares: 0.0,
            products: vec![vec![0.0; count]; count],
            mean: 0.0,
            shares: vec![0.0; count],
        };
        rounds.iter().for_each(|round| sweep.add(round));
        Ok(sweep)
    }

    fn add(&mut self, round: &[(usize, f64)]) {
        let (share, of_all) = (1.0 / round.len() as f64, 1.0 / self.size.1 as f64);
        let mean = share * round.iter().map(|(_, ln)| ln).sum::<f64>();
        self.mean += of_all * mean;
        for (level, ln) in round {
            self.measured[*level] += ln - mean;
            self.measured_squares += (ln - mean).powi(2);
            self.shares[*level] += of_all * share;
            self.products[*level][*level] += 1.0;
            for (other, _) in round {
                self.products[*level][*other] -= share;
            }
        }
    }

    /// The mean over the rounds of what was measured beside these logarithms of the levels.
    pub(super) fn mean_beside(&self, levels: &[f64]) -> f64 {
        self.mean - dot(&self.shares, levels)
    }

    /// The sum of squared differences between what was measured and these logarithms of the levels.
    pub(super) fn squares_beside(&self, levels: &[f64]) -> f64 {
        // Rounding may leave less than nothing.
        (self.measured_squares - 2.0 * dot(&self.measured, levels) + self.product(levels, levels)).max(0.0)
    }

    /// The sum of products of these differences with other numbers of the levels.
    pub(super) fn error_times(&self, levels: &[f64], others: &[f64]) -> f64 {
        dot(&self.measured, others) - self.product(levels, others)
    }

    /// The sum of products of two numbers of each level.
    pub(super) fn product(&self, a: &[f64], b: &[f64]) -> f64 {
        self.products.iter().zip(a).map(|(row, a)| a * dot(row, b)).sum()
    }
}

/// Of each round its levels, with the logarithms of their throughput.
fn by_round(levels: &[Level]) -> Vec<Vec<(usize, f64)>> {
    let count = levels.iter().map(|level| level.first_round + level.tps.len()).max();
    let mut rounds = vec![Vec::new(); count.unwrap_or(0)];
    for (at, level) in levels.iter().enumerate() {
        for (round, tps) in level.tps.iter().enumerate() {
            rounds[level.first_round + round].push((at, tps.ln()));
        }
    }
    rounds.retain(|round| !round.is_empty());
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(clients: u32, first_round: usize, tps: &[f64]) -> Level {
        Level {
            clients,
            first_round,
            tps: tps.to_vec(),
        }
    }

    /// Round 1 has ln 1, 3 and 5, and round 2 has 10 and 14: by hand.
    #[test]
    fn sums_are_of_what_lies_beside_the_mean_of_the_round() {
        let levels = [
            level(1, 0, &[1.0f64.exp()]),
            level(2, 0, &[3.0f64.exp(), 10.0f64.exp()]),
            level(4, 0, &[5.0f64.exp(), 14.0f64.exp()]),
        ];
        let sweep = Sweep::of(&levels).unwrap();
        assert_eq!(sweep.size, (5, 2));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        // -2, 0 and 2 beside 3; -2 and 2 beside 12.
        close(sweep.squares_beside(&[0.0; 3]), 16.0);
        close(sweep.mean_beside(&[0.0; 3]), 7.5);
        // Beside 0, 1 and 5 what is left is 1, 2 and 0, whose mean is 1, and 9 and 9.
        let law = [0.0, 1.0, 5.0];
        close(sweep.squares_beside(&law), 2.0);
        close(sweep.mean_beside(&law), 5.0);
        // 0, 1 and -1 times -2, -1 and 3.
        close(sweep.error_times(&law, &law), -4.0);
        // -2, -1 and 3; -2 and 2.
        close(sweep.product(&law, &law), 22.0);
    }
}
