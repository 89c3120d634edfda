//! The least that is enough: of sizes in ascending order, the smallest whose throughput is that of the best.

use super::ratio::Ratio;
use super::rounds::Rounds;

/// A size is clearly too small where, with 95 % confidence, it has less than this share of another's throughput.
pub const ENOUGH_SHARE: f64 = 0.95;

/// It is clearly enough where it has more than this share of every other's with the same confidence.
const SURELY_SHARE: f64 = 0.90;

/// What a sweep of sizes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    /// This case is enough, and all smaller ones are too small.
    At(usize),
    /// The noise decides which one it is; so many rounds would tell, where that can be known.
    Noise {
        /// At least more than were measured; None after one round.
        rounds: Option<u32>,
    },
}

/// Judges these cases, which are in ascending order of their size. None where none was measured.
///
/// A size is compared with every other one and not with the best alone: which one is best is a matter of noise, too.
pub fn smallest_enough(rounds: &Rounds, sizes: std::ops::Range<usize>) -> Option<Enough> {
    let best = rounds.best_of(sizes.clone())?;
    for size in sizes.clone().filter(|size| rounds.ratio(best, *size).is_some()) {
        let others = || sizes.clone().filter(move |other| *other != size);
        let ratios = || others().filter_map(|other| Some((other, rounds.ratio(other, size)?)));
        if ratios().any(|(_, ratio)| ratio.interval.is_some_and(|interval| interval.high < ENOUGH_SHARE)) {
            continue;
        }
        let unsure = |ratio: &Ratio| ratio.interval.is_none_or(|interval| interval.low < SURELY_SHARE);
        let needed: Vec<Option<u32>> = ratios()
            .filter(|(_, ratio)| unsure(ratio))
            .map(|(other, ratio)| rounds.rounds_for(other, size, telling_half(ratio.ratio)))
            .collect();
        return Some(match needed.is_empty() {
            true => Enough::At(size),
            false => Enough::Noise {
                rounds: needed.into_iter().max().flatten(),
            },
        });
    }
    Some(Enough::At(best))
}

/// Half of an interval around this ratio, in logarithms, that is narrow enough to leave one of the two limits outside.
fn telling_half(ratio: f64) -> f64 {
    (ratio / SURELY_SHARE).ln().max((ENOUGH_SHARE / ratio).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(curve: &[f64], noise: &[f64]) -> Enough {
        // The noise moves on from case to case, so that it is not the round's.
        let figure = |at: usize, tps: f64, round: usize| tps * (1.0 + noise[(round * 2 + at) % noise.len()]);
        let cases: Vec<Vec<f64>> = (curve.iter().enumerate())
            .map(|(at, tps)| (0..noise.len()).map(|round| figure(at, *tps, round)).collect())
            .collect();
        smallest_enough(&Rounds::new(cases.iter().map(Vec::as_slice)), 0..curve.len()).unwrap()
    }

    #[test]
    fn a_clear_curve_has_a_smallest_size() {
        let quiet = [-0.01, 0.0, 0.01];
        // The article on shared_buffers, prewarmed: 128 MB, 4, 8 and 24 GB.
        assert_eq!(judge(&[204.0, 1278.0, 1203.0, 1281.0], &quiet), Enough::At(1));
        assert_eq!(judge(&[100.0, 200.0, 400.0], &quiet), Enough::At(2));
        assert_eq!(judge(&[100.0, 100.0, 99.0], &quiet), Enough::At(0));
    }

    #[test]
    fn noise_recommends_nothing_and_says_how_long_to_measure() {
        let Enough::Noise { rounds: Some(rounds) } = judge(&[90.0, 100.0, 104.0], &[-0.3, 0.0, 0.35]) else {
            panic!("the smallest may be enough or not");
        };
        assert!(rounds > 10, "{rounds}");
        assert_eq!(judge(&[90.0, 100.0], &[0.0]), Enough::Noise { rounds: None });
        assert_eq!(smallest_enough(&Rounds::new([]), 0..0), None);
    }
}
