//! A few numbers and what is typical of them.

use serde::{Deserialize, Serialize};

/// Middle, least and greatest of the rounds of one measurement, in the unit of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Their geometric mean, so that the ratio of two middles is the ratio that comparisons speak of; the median where a
    /// round is not above 0.
    pub middle: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many rounds there were.
    pub rounds: usize,
}

impl Spread {
    /// Of these rounds; None where there is none or one is not a number.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        let (min, max) = (percentile(rounds, 0.0)?, percentile(rounds, 100.0)?);
        let middle = geometric_mean(rounds).or_else(|| median(rounds))?;
        Some(Spread {
            // Logarithms and back lose a digit, which equal rounds shall not.
            middle: middle.clamp(min, max),
            min,
            max,
            rounds: rounds.len(),
        })
    }
}

/// None of nothing, or where one is not above 0.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Option<Vec<f64>> = values.iter().copied().map(super::ratio::ln).collect();
    mean(&logarithms?).map(f64::exp)
}

/// Arithmetic mean; None of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Of a sample, with n - 1 below the line; None of fewer than two.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() >= 2)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The middle value, or the mean of the two middle ones; None of nothing, or where one is not a number.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The value below which `percent` of 100 lie, linear between neighbours (as PostgreSQL's percentile_cont).
/// None of nothing, or where one is not a number.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent.clamp(0.0, 100.0) / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_as_postgresql_says() {
        // select percentile_cont(array[0, 0.5, 0.95, 1]) within group (order by v) from (values (15), (20), (35), (40), (50)) t(v)
        let values = [40.0, 15.0, 50.0, 20.0, 35.0];
        let all: Vec<_> = [0.0, 50.0, 95.0, 100.0]
            .iter()
            .map(|&p| percentile(&values, p).unwrap())
            .collect();
        assert_eq!(all, [15.0, 35.0, 48.0, 50.0]);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!((median(&[]), median(&[f64::NAN])), (None, None));
    }

    #[test]
    fn deviation_of_a_sample() {
        let deviation = standard_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((deviation - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(standard_deviation(&[1.0]), None);
    }

    #[test]
    fn the_middle_is_the_geometric_mean_where_there_is_one() {
        let spread = Spread::of(&[50.0, 100.0, 200.0]).unwrap();
        assert!((spread.middle - 100.0).abs() < 1e-9);
        assert_eq!((spread.min, spread.max, spread.rounds), (50.0, 200.0, 3));
        assert_eq!(Spread::of(&[0.0, 3.0, 4.0]).unwrap().middle, 3.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
