//! Comparing cases that were measured in interleaved rounds.
//!
//! ```text
//! ln(figure of case c in round r) = case c + round r + noise
//! ```
//!
//! A round that is slow for all cases is no noise: the machine was busier then. Fitted by least squares, what is left over
//! is the noise. With two cases this is Student's paired test on the logarithms of the ratios. With more, all cases together
//! tell how large the noise is, beside what the two that are compared tell of their own; where those are clearly noisier
//! than all together, their own noise decides alone, so that quiet cases lend nothing to wild ones.

use super::ratio::{Ratio, half, ln};
use super::statistics::{mean, standard_deviation};
use super::student::f_above;

/// How many degrees of freedom the common noise of all cases counts for, when two cases are compared. Some cases are
/// noisier than others; the more the common noise counts, the less these two cases' own noise shows.
const COMMON_FREEDOM_MAX: usize = 4;

/// Two cases have a noise of their own where the common one would rarely make so much: once in twenty times.
const OWN_NOISE_CHANCE: f64 = 0.05;

/// The most rounds that are ever asked for.
const ROUNDS_MAX: u32 = 100;

/// Cases and the rounds that they were measured in.
#[derive(Debug, Clone)]
pub struct Rounds {
    /// Logarithms by case and round; None where a case has no figure.
    logarithms: Vec<Vec<Option<f64>>>,
    /// Of each case, in logarithms.
    effects: Vec<f64>,
    /// Variances and covariances of the effects, in units of the noise's variance.
    covariance: Vec<Vec<f64>>,
    /// Variance of the noise; None where no degree of freedom is left for it.
    variance: Option<f64>,
    freedom: usize,
    /// Cases with the same number were in a round together, or with others that were.
    group: Vec<usize>,
}

impl Rounds {
    /// Of cases whose first figures are of the same round, their second ones too, and so on.
    pub fn new<'a>(cases: impl IntoIterator<Item = &'a [f64]>) -> Self {
        Rounds::beginning(cases.into_iter().map(|figures| (0, figures)))
    }

    /// The same of cases that joined later: each with the number of its first round.
    pub fn beginning<'a>(cases: impl IntoIterator<Item = (usize, &'a [f64])>) -> Self {
        let logarithms: Vec<Vec<Option<f64>>> = cases
            .into_iter()
            .map(|(first, figures)| {
                let before = std::iter::repeat_n(None, first);
                before.chain(figures.iter().map(|figure| ln(*figure))).collect()
            })
            .collect();
        let rounds = logarithms.iter().map(Vec::len).max().unwrap_or(0);
        let group = groups(&logarithms, rounds);
        let mut found = Rounds {
            effects: vec![0.0; logarithms.len()],
            covariance: Vec::new(),
            variance: None,
            freedom: 0,
            group,
            logarithms,
        };
        found.fit(rounds);
        found
    }

    /// All figures with their case and round.
    fn cells(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.logarithms.iter().enumerate().flat_map(|(case, rounds)| {
            let told = rounds.iter().enumerate();
            told.filter_map(move |(round, figure)| Some((case, round, (*figure)?)))
        })
    }

    /// Least squares by the normal equations, with round 0 as the base of all rounds.
    fn fit(&mut self, rounds: usize) {
        let cases = self.logarithms.len();
        let unknowns = cases + rounds.saturating_sub(1);
        let places = |case: usize, round: usize| [Some(case), round.checked_sub(1).map(|at| cases + at)];
        let mut normal = vec![vec![0.0; unknowns]; unknowns];
        let mut right = vec![0.0; unknowns];
        for (case, round, figure) in self.cells() {
            for a in places(case, round).into_iter().flatten() {
                right[a] += figure;
                for b in places(case, round).into_iter().flatten() {
                    normal[a][b] += 1.0;
                }
            }
        }
        // What no figure tells of gets an immense variance in place of a division by 0.
        for (at, row) in normal.iter_mut().enumerate() {
            row[at] += 1e-9;
        }
        let inverse = inverse(normal);
        let solved: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
        let mut squares = 0.0;
        let (mut figures, mut used_rounds) = (0, vec![false; rounds]);
        for (case, round, figure) in self.cells() {
            let fitted: f64 = places(case, round).into_iter().flatten().map(|at| solved[at]).sum();
            squares += (figure - fitted).powi(2);
            figures += 1;
            used_rounds[round] = true;
        }
        let used_cases = (0..cases).filter(|case| self.measured(*case));
        let mut separate: Vec<usize> = used_cases.clone().map(|case| self.group[case]).collect();
        separate.sort_unstable();
        separate.dedup();
        let known = used_cases.count() + used_rounds.iter().filter(|used| **used).count();
        self.freedom = (figures + separate.len()).saturating_sub(known);
        self.variance = (self.freedom > 0).then(|| squares / self.freedom as f64);
        self.effects = solved[..cases].to_vec();
        self.covariance = inverse;
    }

    /// Variance of the noise of all cases, and its degrees of freedom; None where none is left.
    pub(super) fn noise_of_all(&self) -> Option<(f64, usize)> {
        Some((self.variance?, self.freedom))
    }

    /// Whether a case has any figure.
    fn measured(&self, case: usize) -> bool {
        self.logarithms[case].iter().any(Option::is_some)
    }

    /// The case with the greatest figures among these; None where none has any.
    pub fn best_of(&self, cases: impl IntoIterator<Item = usize>) -> Option<usize> {
        let measured = cases.into_iter().filter(|case| self.measured(*case));
        measured.max_by(|a, b| self.effects[*a].total_cmp(&self.effects[*b]))
    }

    /// `other` as a multiple of `base`; None where one of them has no figure.
    pub fn ratio(&self, base: usize, other: usize) -> Option<Ratio> {
        if !self.measured(base) || !self.measured(other) {
            return None;
        }
        if base == other {
            return Some(Ratio::from_ln(0.0, Some(0.0)));
        }
        let noise = self.noise(base, other);
        Some(Ratio::from_ln(
            noise.difference,
            noise.known.map(|(variance, freedom)| half(variance, freedom)),
        ))
    }

    /// With how many rounds half of the interval of this ratio would be `wanted`, in logarithms. None where nothing is
    /// known of the noise.
    pub fn rounds_for(&self, base: usize, other: usize, wanted: f64) -> Option<u32> {
        let (variance, freedom) = self.noise(base, other).known?;
        let now = self.logarithms[base].iter().zip(&self.logarithms[other]);
        let now = now.filter(|(a, b)| a.is_some() && b.is_some()).count().max(2) as f64;
        let enough = |rounds: u32| {
            let more = f64::from(rounds) / now;
            half(variance / more, freedom * more) <= wanted
        };
        // More rounds never widen the interval.
        let (mut few, mut many) = (now as u32, ROUNDS_MAX.max(now as u32));
        while few < many {
            let middle = few.midpoint(many);
            match enough(middle) {
                true => many = middle,
                false => few = middle + 1,
            }
        }
        Some(many)
    }

    fn noise(&self, base: usize, other: usize) -> Noise {
        let own: Vec<f64> = (self.logarithms[base].iter().zip(&self.logarithms[other]))
            .filter_map(|(a, b)| Some((*b)? - (*a)?))
            .collect();
        let covariance = &self.covariance;
        let unit = covariance[base][base] + covariance[other][other] - 2.0 * covariance[base][other];
        let together = self.variance.filter(|_| self.group[base] == self.group[other]);
        let difference = self.effects[other] - self.effects[base];
        let (Some(own_deviation), Some(variance)) = (standard_deviation(&own), together) else {
            return Noise {
                difference,
                known: together.map(|variance| (variance * unit, self.freedom as f64)),
            };
        };
        let own_freedom = own.len() - 1;
        // Of a difference of two runs, the variance is twice that of a run.
        let own_variance = own_deviation * own_deviation / 2.0;
        let common_freedom = self.freedom.saturating_sub(own_freedom).min(COMMON_FREEDOM_MAX);
        let times = own_variance / variance.max(f64::MIN_POSITIVE);
        let chance = f_above(times, own_freedom as f64, self.freedom as f64);
        if common_freedom > 0 && chance < OWN_NOISE_CHANCE {
            return Noise {
                difference: mean(&own).unwrap_or(difference),
                known: Some((2.0 * own_variance / own.len() as f64, own_freedom as f64)),
            };
        }
        let (own_weight, common_weight) = (own_freedom as f64, common_freedom as f64);
        let freedom = own_weight + common_weight;
        let mixed = (own_weight * own_variance + common_weight * variance) / freedom;
        Noise {
            difference,
            known: Some((mixed * unit, freedom)),
        }
    }
}

/// A difference of logarithms, with its variance and degrees of freedom.
struct Noise {
    difference: f64,
    known: Option<(f64, f64)>,
}

/// Gives each case the number of the first case that it is connected to by common rounds.
fn groups(logarithms: &[Vec<Option<f64>>], rounds: usize) -> Vec<usize> {
    let mut group: Vec<usize> = (0..logarithms.len()).collect();
    for round in 0..rounds {
        let has = |case: &usize| logarithms[*case].get(round).is_some_and(Option::is_some);
        let together: Vec<usize> = (0..logarithms.len()).filter(has).collect();
        for pair in together.windows(2) {
            let (from, to) = (group[pair[1]], group[pair[0]]);
            group.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
        }
    }
    group
}

/// Of a symmetric, positive definite matrix, by Gauss and Jordan.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let size = matrix.len();
    let mut inverse: Vec<Vec<f64>> = (0..size)
        .map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect())
        .collect();
    for pivot in 0..size {
        let scale = matrix[pivot][pivot];
        for values in [&mut matrix[pivot], &mut inverse[pivot]] {
            values.iter_mut().for_each(|value| *value /= scale);
        }
        let (pivot_row, pivot_inverse) = (matrix[pivot].clone(), inverse[pivot].clone());
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            for at in 0..size {
                matrix[row][at] -= factor * pivot_row[at];
                inverse[row][at] -= factor * pivot_inverse[at];
            }
        }
    }
    inverse
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `second` as a multiple of `first`, measured in the same rounds: Student's paired test.
pub fn paired(first: &[f64], second: &[f64]) -> Option<Ratio> {
    Rounds::new([first, second]).ratio(0, 1)
}

#[cfg(test)]
mod tests {
    use super::super::ratio::Told;
    use super::*;

    /// The paired test by hand: differences 1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4 of the sleep data that
    /// Student himself used (Biometrika 6, 1908; `t.test(extra ~ group, paired)` of R): t = 4.0621 with 9 degrees of
    /// freedom, 95 % between 0.7001142 and 2.4598858.
    #[test]
    fn students_own_data() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0_f64].map(f64::exp);
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4_f64].map(f64::exp);
        let ratio = paired(&first, &second).unwrap();
        let interval = ratio.interval.unwrap();
        assert!((ratio.ratio.ln() - 1.58).abs() < 1e-6);
        assert!((interval.low.ln() - 0.700_114_2).abs() < 1e-5, "{interval:?}");
        assert!((interval.high.ln() - 2.459_885_8).abs() < 1e-5, "{interval:?}");
    }

    /// A sweep of `lab buffers` that was once called noise: the sizes differ by a factor of two, and so did no two rounds.
    #[test]
    fn disjoint_bands_are_told_apart_in_a_sweep() {
        let sizes: [&[f64]; 4] = [
            &[17_900.0, 19_000.0],
            &[24_800.0, 28_100.0],
            &[33_000.0, 38_500.0],
            &[34_600.0, 44_100.0],
        ];
        let ratio = Rounds::new(sizes).ratio(0, 3).unwrap();
        assert_eq!(ratio.told(), Told::Differs, "{ratio}");
        // Two rounds of two cases alone know too little of the noise, and say so.
        let alone = paired(sizes[0], sizes[3]).unwrap();
        assert_eq!(alone.told(), Told::TooFewRounds, "{alone}");
    }

    #[test]
    fn what_slows_all_cases_down_is_no_noise() {
        let (alone, beside) = ([100.0, 50.0, 200.0], [81.0, 40.0, 161.0]);
        let ratio = paired(&alone, &beside).unwrap();
        assert_eq!(
            (ratio.told(), format!("{:.2}", ratio.ratio)),
            (Told::Differs, "0.80".to_owned())
        );
    }

    #[test]
    fn a_wild_pair_has_a_noise_of_its_own() {
        let quiet = [100.0, 101.0, 100.0, 101.0];
        let wild = [20.0, 300.0, 50.0, 400.0];
        let cases: Vec<&[f64]> = vec![&quiet, &quiet, &quiet, &quiet, &quiet, &quiet, &quiet, &wild];
        let ratio = Rounds::new(cases).ratio(0, 7).unwrap();
        let own = paired(&quiet, &wild).unwrap();
        let (found, own) = (ratio.interval.unwrap(), own.interval.unwrap());
        assert!((found.low / own.low - 1.0).abs() < 1e-6 && (found.high / own.high - 1.0).abs() < 1e-6);
    }

    /// A finer look joins the best level in later rounds.
    #[test]
    fn cases_that_joined_later_are_compared_by_what_they_share() {
        // Rounds 2 and 3 are half as fast for all.
        let best = [100.0, 102.0, 50.0, 51.0];
        let coarse = [80.0, 81.0];
        let fine = [45.0, 46.0];
        let rounds = Rounds::beginning([(0, &best[..]), (0, &coarse[..]), (2, &fine[..])]);
        let fine_to_coarse = rounds.ratio(1, 2).unwrap();
        assert!((fine_to_coarse.ratio - 0.9 / 0.797).abs() < 0.01, "{fine_to_coarse}");
        assert_eq!(rounds.best_of(0..3), Some(0));
    }

    #[test]
    fn one_round_proves_nothing_and_a_case_without_figures_has_no_ratio() {
        let rounds = Rounds::new([&[100.0][..], &[50.0][..], &[][..]]);
        assert_eq!(rounds.ratio(0, 1).unwrap().to_string(), "0.50: too few rounds to tell");
        assert_eq!((rounds.ratio(0, 2), rounds.rounds_for(0, 1, 0.1)), (None, None));
        assert_eq!(Rounds::new([]).best_of([]), None);
    }

    #[test]
    fn more_rounds_are_asked_for_where_they_help() {
        let rounds = Rounds::new([&[100.0, 140.0, 120.0][..], &[150.0, 110.0, 125.0][..]]);
        let (few, many) = (
            rounds.rounds_for(0, 1, 0.3).unwrap(),
            rounds.rounds_for(0, 1, 0.05).unwrap(),
        );
        assert!(3 < few && few < many && many <= ROUNDS_MAX, "{few} {many}");
    }
}
