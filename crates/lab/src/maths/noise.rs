//! Whether two sets of rounds differ, or may be two looks at the same thing.

use super::statistics::{mean, standard_deviation};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How sure an interval or a difference has to be; 19 of 20 is the custom.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The second set of rounds against the first, in percent of the first's mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Difference {
    /// Fewer than two rounds on a side, so nothing is known of the noise.
    Unknown {
        /// Difference of the means.
        percent: f64,
    },
    /// The interval of the difference, with 95 % confidence, contains 0.
    WithinNoise {
        /// Difference of the means.
        percent: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
    /// It does not.
    Real {
        /// Difference of the means.
        percent: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
}

impl Difference {
    /// Difference of the means, in percent of the first, whatever the verdict.
    pub fn percent(&self) -> f64 {
        match *self {
            Difference::Unknown { percent }
            | Difference::WithinNoise { percent, .. }
            | Difference::Real { percent, .. } => percent,
        }
    }

    /// Whether there is a difference beyond the noise.
    pub fn is_real(&self) -> bool {
        matches!(self, Difference::Real { .. })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Unknown { percent } => write!(f, "{percent:+.1} % (one round: the noise is not known)"),
            Difference::WithinNoise { percent, low, high } => {
                write!(f, "{percent:+.1} % (within the noise: {low:+.1} to {high:+.1} %)")
            }
            Difference::Real { percent, low, high } => write!(f, "{percent:+.1} % ({low:+.1} to {high:+.1} %)"),
        }
    }
}

/// Compares `second` with `first` by Welch's t test, which does not ask for equal variances or equal numbers of rounds.
/// None where a side is empty or the first's mean is 0.
pub fn compare(first: &[f64], second: &[f64]) -> Option<Difference> {
    let (a, b) = (mean(first)?, mean(second)?);
    if a == 0.0 {
        return None;
    }
    let percent = 100.0 * (b - a) / a.abs();
    let (Some(sd_a), Some(sd_b)) = (standard_deviation(first), standard_deviation(second)) else {
        return Some(Difference::Unknown { percent });
    };
    let (n_a, n_b) = (first.len() as f64, second.len() as f64);
    // Variances of the two means; their sum is the variance of the difference.
    let (v_a, v_b) = (sd_a * sd_a / n_a, sd_b * sd_b / n_b);
    let variance = v_a + v_b;
    let half = if variance > 0.0 {
        // Welch and Satterthwaite's degrees of freedom.
        let freedom = variance * variance / (v_a * v_a / (n_a - 1.0) + v_b * v_b / (n_b - 1.0));
        100.0 * variance.sqrt() * t_quantile((1.0 + CONFIDENCE) / 2.0, freedom) / a.abs()
    } else {
        0.0
    };
    let (low, high) = (percent - half, percent + half);
    Some(match low <= 0.0 && high >= 0.0 {
        true => Difference::WithinNoise { percent, low, high },
        false => Difference::Real { percent, low, high },
    })
}

/// The value that a t distribution stays below with this probability (0.5 to 1).
fn t_quantile(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if t_distribution(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Student's cumulative distribution for t at and above 0, by the incomplete beta function.
fn t_distribution(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22, Lentz's method).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on this side only; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    const TINY: f64 = 1e-300;
    let not_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / not_zero(1.0 + term * d);
            c = not_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// Logarithm of the gamma function for arguments above 0, by Stirling's series after shifting the argument above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_as_in_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.7062),
            (2.0, 4.3027),
            (4.0, 2.7764),
            (10.0, 2.2281),
            (30.0, 2.0423),
            (1e6, 1.9600),
        ] {
            let got = t_quantile(0.975, freedom);
            assert!((got - expected).abs() < 1e-4, "{freedom}: {got}");
        }
    }

    #[test]
    fn gamma_at_known_places() {
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
        assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-12);
        assert!((ln_gamma(2.0)).abs() < 1e-12);
    }

    #[test]
    fn welchs_test_by_hand() {
        // Means 100 and 110, both with variance 1 of three rounds: freedom 4, half interval 2.7764 * sqrt(2/3).
        let Some(Difference::Real { percent, low, high }) = compare(&[99.0, 100.0, 101.0], &[109.0, 110.0, 111.0])
        else {
            panic!("ten percent with a spread of one is a difference");
        };
        let half = 2.776_445 * (2.0f64 / 3.0).sqrt();
        assert!((percent - 10.0).abs() < 1e-9);
        assert!((low - (10.0 - half)).abs() < 1e-4 && (high - (10.0 + half)).abs() < 1e-4);
    }

    #[test]
    fn a_difference_within_the_noise_is_called_so() {
        // Through a pooler 377.9 alone and 377.5 with 1,000 idle clients, with a spread of a percent.
        let verdict = compare(&[375.9, 377.9, 379.9], &[375.5, 377.5, 379.5]).unwrap();
        assert!(!verdict.is_real(), "{verdict:?}");
        assert!(verdict.to_string().contains("within the noise"), "{verdict}");
        // Direct, the idle-scan row: 378.6 and 206.4.
        let verdict = compare(&[376.6, 378.6, 380.6], &[200.4, 206.4, 212.4]).unwrap();
        assert!(
            verdict.is_real() && (verdict.percent() + 45.48).abs() < 0.1,
            "{verdict:?}"
        );
    }

    #[test]
    fn one_round_proves_nothing_and_equal_rounds_are_equal() {
        assert_eq!(
            compare(&[100.0], &[200.0]),
            Some(Difference::Unknown { percent: 100.0 })
        );
        assert!(!compare(&[5.0, 5.0], &[5.0, 5.0]).unwrap().is_real());
        assert!(compare(&[5.0, 5.0], &[6.0, 6.0]).unwrap().is_real());
        assert_eq!((compare(&[], &[1.0]), compare(&[0.0, 0.0], &[1.0])), (None, None));
    }
}
