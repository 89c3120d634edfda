//! What is believed of the throughput at each limit.
//!
//! The map holds, for each rung of the ladder, the mean of the logarithm of the work done in a second; and, as a matrix
//! of covariances, how far the errors of each two rungs go together. It rests on two assumptions:
//!
//! - Throughput changes little between neighbouring limits: the difference between two limits is a random walk over the
//!   logarithm of the limit. So a measurement at one limit says something of those near it.
//! - As time passes, the throughput at all limits rises and falls together by much (the workload drifts), and the
//!   differences change by little. So what was measured long ago at another limit says little of the difference; two
//!   measurements close in time say much.
//!
//! A measurement is then worked in by the rules of probability (a Kalman filter). The test of significance is the mean
//! of a difference divided by its deviation.

/// Variance of the difference between two limits, of which one is e times the other, before anything is known: doubling
/// the limit changes throughput by about 40 %.
const SHAPE_VARIANCE: f64 = 0.23;
/// Variance of the level before anything is known: any throughput is possible.
const LEVEL_VARIANCE: f64 = 100.0;

/// The map; positions are natural logarithms of limits.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Map {
    positions: Vec<f64>,
    means: Vec<f64>,
    /// Row by row; symmetric.
    covariances: Vec<f64>,
    /// A column of the matrix, while a measurement is worked in.
    column: Vec<f64>,
}

/// By how much one limit is better than another: logarithm of the ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Map {
    pub(crate) fn new(positions: Vec<f64>) -> Self {
        let count = positions.len();
        let mut map = Map {
            positions,
            means: vec![0.0; count],
            covariances: vec![0.0; count * count],
            column: vec![0.0; count],
        };
        map.forget(0);
        map
    }

    /// Forgets all that was measured.
    pub(crate) fn forget(&mut self, around: usize) {
        self.means.fill(0.0);
        self.covariances.fill(LEVEL_VARIANCE);
        self.blur_shape(SHAPE_VARIANCE, around);
    }

    /// A measurement contradicts the differences: they may be wrong by as much as if nothing had been measured.
    pub(crate) fn doubt(&mut self, around: usize) {
        self.blur_shape(SHAPE_VARIANCE, around);
    }

    /// Time has passed: the level may have changed by `level` (a variance), and the differences by `shape` (a variance
    /// for limits of which one is e times the other).
    pub(crate) fn drift(&mut self, level: f64, shape: f64, around: usize) {
        self.blur_level(level);
        if self.difference(0, around).deviation < 1.0 && self.difference(self.means.len() - 1, around).deviation < 1.5 {
            self.blur_shape(shape, around);
        }
    }

    fn blur_level(&mut self, variance: f64) {
        for value in &mut self.covariances {
            *value += variance;
        }
    }

    /// Makes the differences from `around` less certain. Rungs on the same side share the way up to the nearer one.
    fn blur_shape(&mut self, variance: f64, around: usize) {
        let count = self.means.len();
        let centre = self.positions[around];
        for i in 0..count {
            let a = self.positions[i] - centre;
            for j in 0..count {
                let b = self.positions[j] - centre;
                if a * b > 0.0 {
                    self.covariances[i * count + j] += variance * a.abs().min(b.abs());
                }
            }
        }
    }

    /// The logarithm of the work per second at rung `at` was measured, with this variance.
    pub(crate) fn measure(&mut self, at: usize, value: f64, variance: f64) {
        let count = self.means.len();
        let total = self.covariances[at * count + at] + variance;
        let error = value - self.means[at];
        for i in 0..count {
            self.column[i] = self.covariances[i * count + at];
        }
        for i in 0..count {
            let gain = self.column[i] / total;
            self.means[i] += gain * error;
            for j in 0..count {
                self.covariances[i * count + j] -= gain * self.column[j];
            }
        }
    }

    /// The mean at rung `at`, and its variance.
    pub(crate) fn belief(&self, at: usize) -> (f64, f64) {
        (self.means[at], self.covariances[at * self.means.len() + at])
    }

    /// By how much `at` is better than `than`.
    pub(crate) fn difference(&self, at: usize, than: usize) -> Difference {
        let count = self.means.len();
        let variance = self.covariances[at * count + at] + self.covariances[than * count + than]
            - 2.0 * self.covariances[at * count + than];
        Difference {
            mean: self.means[at] - self.means[than],
            deviation: variance.max(0.0).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Map {
        Map::new([1.0f64, 2.0, 4.0, 8.0, 16.0].iter().map(|limit| limit.ln()).collect())
    }

    #[test]
    fn the_farther_a_limit_the_less_is_known_of_it() {
        let mut map = map();
        map.measure(2, 5.0, 0.0001);
        let deviation = |rung| map.difference(rung, 2).deviation;
        assert_eq!(deviation(2), 0.0);
        assert!(deviation(1) < deviation(0) && deviation(3) < deviation(4));
        assert!((map.belief(2).0 - 5.0).abs() < 1e-3);
        assert!((map.belief(4).0 - 5.0).abs() < 1e-3, "{:?}", map.belief(4));
    }

    #[test]
    fn turns_tell_a_step_from_a_drift() {
        let mut map = map();
        // The workload gains 5 % from window to window; the other limit gives 10 % more.
        for turn in 0..40 {
            let other = turn % 2 == 1;
            map.drift(0.0025, 0.0, 1);
            map.measure(
                if other { 2 } else { 1 },
                0.05 * f64::from(turn) + if other { 0.1 } else { 0.0 },
                0.0001,
            );
        }
        let found = map.difference(2, 1);
        assert!((found.mean - 0.1).abs() < 0.02, "{found:?}");
        assert!(found.deviation < 0.02, "{found:?}");
    }

    #[test]
    fn what_lies_between_two_measured_limits_is_believed_to_lie_between_their_results() {
        let mut map = map();
        map.measure(0, 1.0, 1e-6);
        map.measure(4, 3.0, 1e-6);
        assert!((map.belief(2).0 - 2.0).abs() < 1e-3, "{:?}", map.belief(2));
    }

    #[test]
    fn stays_a_map_after_a_million_windows() {
        let mut map = map();
        for turn in 0..1_000_000u32 {
            let rung = [2, 1, 2, 3, 2, 0, 2, 4][turn as usize % 8];
            map.drift(1e-4, 1e-5, 2);
            map.measure(rung, f64::from(turn % 7) / 100.0, 1e-3);
        }
        for rung in 0..5 {
            assert!(
                map.belief(rung).1 > 0.0 && map.belief(rung).1 < 1.0,
                "{:?}",
                map.belief(rung)
            );
            assert!(map.difference(rung, 2).deviation < 0.3);
        }
    }
}
