//! One set of rounds as a multiple of another, and how sure that is.
//!
//! Throughput and latency vary by shares and not by amounts, so everything is reckoned with logarithms: a difference of
//! logarithms is a ratio, and the ratio of A to B is the inverse of that of B to A. Intervals are Student's, with 95 %
//! confidence. Rounds that were measured side by side are compared by [`super::Rounds`], others by [`unpaired`].

use super::statistics::{mean, standard_deviation};
use super::student::t_quantile;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How sure an interval has to be; 19 of 20 is the custom.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Two figures are called alike where no difference was found, and one of so many times would have been.
const TELLING_TIMES: f64 = 1.25;

/// With two rounds beside ten, Welch's 95 % hold in 89 of 100 experiments only; with three or more on both sides in 93 to 97.
const UNPAIRED_ROUNDS_LEAST: usize = 3;

/// From where to where a value lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a ratio tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The interval does not contain 1.
    Differs,
    /// It does, and is narrow: no difference that matters.
    Alike,
    /// It does, and is wide; or there is none, because nothing is known of the noise.
    TooFewRounds,
}

/// The second as a multiple of the first: geometric means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// 2 for twice as much.
    pub ratio: f64,
    /// None where a side has too few rounds to know the noise.
    pub interval: Option<Interval>,
}

impl Ratio {
    /// From a difference of logarithms and half of its interval.
    pub(super) fn from_ln(difference: f64, half: Option<f64>) -> Self {
        let interval = half.filter(|half| half.is_finite()).map(|half| Interval {
            low: (difference - half).exp(),
            high: (difference + half).exp(),
        });
        Ratio {
            ratio: difference.exp(),
            interval,
        }
    }

    /// What can be said of it.
    pub fn told(&self) -> Told {
        match self.interval {
            Some(Interval { low, high }) if low > 1.0 || high < 1.0 => Told::Differs,
            Some(Interval { low, high }) if low * TELLING_TIMES >= 1.0 && high <= TELLING_TIMES => Told::Alike,
            _ => Told::TooFewRounds,
        }
    }

    /// Whether there is a difference beyond the noise.
    pub fn differs(&self) -> bool {
        self.told() == Told::Differs
    }

    /// `0.49, between 0.41 and 0.58`, without what it tells.
    pub fn figures(&self) -> String {
        self.times("")
    }

    /// `0.49 times as much, between 0.41 and 0.58`, where `what` is ` times as much`.
    pub fn times(&self, what: &str) -> String {
        let ratio = times(self.ratio);
        match self.interval {
            Some(Interval { low, high }) => format!("{ratio}{what}, between {} and {}", times(low), times(high)),
            None => format!("{ratio}{what}"),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.figures())?;
        match self.told() {
            Told::Differs => Ok(()),
            Told::Alike => f.write_str(": no difference beyond the noise"),
            Told::TooFewRounds => f.write_str(": too few rounds to tell"),
        }
    }
}

/// A multiple with two digits at least: `0.012`, `0.49`, `1.02`, `83.7`, `250`.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 99.95 => format!("{r:.0}"),
        r if r >= 9.995 => format!("{r:.1}"),
        r if r >= 0.0995 => format!("{r:.2}"),
        r if r >= 0.00995 => format!("{r:.3}"),
        r => format!("{r:.4}"),
    }
}

/// `second` as a multiple of `first`, whose rounds were not measured side by side: two runs of the laboratory. Welch's
/// interval, which asks for neither equal noise nor equal numbers of rounds; no interval where a side has too few of them.
/// None where a side has no figure above 0.
pub fn unpaired(first: &[f64], second: &[f64]) -> Option<Ratio> {
    let (first, second) = (logarithms(first), logarithms(second));
    let difference = mean(&second)? - mean(&first)?;
    let few = first.len().min(second.len()) < UNPAIRED_ROUNDS_LEAST;
    let (Some(sd_a), Some(sd_b), false) = (standard_deviation(&first), standard_deviation(&second), few) else {
        return Some(Ratio::from_ln(difference, None));
    };
    let (n_a, n_b) = (first.len() as f64, second.len() as f64);
    // Variances of the two means; their sum is the variance of the difference.
    let (v_a, v_b) = (sd_a * sd_a / n_a, sd_b * sd_b / n_b);
    let variance = v_a + v_b;
    if variance <= 0.0 {
        return Some(Ratio::from_ln(difference, Some(0.0)));
    }
    // Welch and Satterthwaite's degrees of freedom.
    let freedom = variance * variance / (v_a * v_a / (n_a - 1.0) + v_b * v_b / (n_b - 1.0));
    Some(Ratio::from_ln(difference, Some(half(variance, freedom))))
}

/// Half of the interval of something with this variance.
pub(super) fn half(variance: f64, freedom: f64) -> f64 {
    variance.sqrt() * t_quantile((1.0 + CONFIDENCE) / 2.0, freedom)
}

/// Of what is above 0.
fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter_map(ln).collect()
}

/// None of what has no logarithm.
pub(super) fn ln(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exp(values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| value.exp()).collect()
    }

    /// The sets of Welch's test as the English Wikipedia prints it ("Welch's t-test", example 1), taken as
    /// logarithms: t and degrees of freedom are published, and the interval follows from them.
    #[test]
    fn welchs_published_examples() {
        let a1 = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4,
        ];
        let b1 = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4,
        ];
        let difference = mean(&b1).unwrap() - mean(&a1).unwrap();
        let interval = unpaired(&exp(&a1), &exp(&b1)).unwrap().interval.unwrap();
        // t = -2.46, 25.0 degrees of freedom.
        let expected = difference / 2.46 * t_quantile(0.975, 25.0);
        let half = (interval.high.ln() - interval.low.ln()) / 2.0;
        assert!((half / expected - 1.0).abs() < 0.005, "{half} {expected}");
        assert!((interval.low.ln() + half - difference).abs() < 1e-9);
    }

    #[test]
    fn equal_spread_by_hand() {
        // Logarithms 0 and 1 with variance 0.01 of three rounds each: 4 degrees of freedom, half 2.776 sqrt(0.02 / 3).
        let ratio = unpaired(&exp(&[-0.1, 0.0, 0.1]), &exp(&[0.9, 1.0, 1.1])).unwrap();
        let half = 2.776_445 * (0.02f64 / 3.0).sqrt();
        let interval = ratio.interval.unwrap();
        assert!((ratio.ratio.ln() - 1.0).abs() < 1e-9);
        assert!((interval.low.ln() - (1.0 - half)).abs() < 1e-5 && (interval.high.ln() - (1.0 + half)).abs() < 1e-5);
    }

    #[test]
    fn three_things_can_be_told() {
        let differs = unpaired(&[376.6, 378.6, 380.6], &[200.4, 206.4, 212.4]).unwrap();
        assert_eq!(
            (differs.told(), differs.to_string().as_str()),
            (Told::Differs, "0.55, between 0.51 and 0.58")
        );
        let alike = unpaired(&[375.9, 377.9, 379.9], &[375.5, 377.5, 379.5]).unwrap();
        assert_eq!(alike.told(), Told::Alike);
        assert_eq!(
            alike.to_string(),
            "1.00, between 0.99 and 1.01: no difference beyond the noise"
        );
        let few = unpaired(&[17_900.0, 19_000.0], &[34_600.0, 44_100.0]).unwrap();
        assert_eq!(few.told(), Told::TooFewRounds);
        assert!(few.to_string().ends_with(": too few rounds to tell"), "{few}");
        let one = unpaired(&[100.0], &[50.0, 60.0]).unwrap();
        assert_eq!(one.to_string(), "0.55: too few rounds to tell");
    }

    /// Guards against a ratio from medians beside a difference from means, and against one below 0.
    #[test]
    fn figures_agree_and_stay_above_0() {
        let (a, b) = ([10_000.0, 30_000.0, 31_000.0], [9_000.0, 9_900.0, 40_000.0]);
        let (there, back) = (unpaired(&a, &b).unwrap(), unpaired(&b, &a).unwrap());
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        let (there, back) = (there.interval.unwrap(), back.interval.unwrap());
        assert!(there.low > 0.0 && (there.low * back.high - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_ratio() {
        assert_eq!((unpaired(&[], &[1.0]), unpaired(&[0.0, 0.0], &[1.0])), (None, None));
        let equal = unpaired(&[5.0; 3], &[6.0; 3]).unwrap();
        assert_eq!(equal.to_string(), "1.20, between 1.20 and 1.20");
    }
}
