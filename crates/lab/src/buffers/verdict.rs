//! Which size is enough, and what prewarming gives. Pure: figures in, sentences out.

use super::size::written;
use crate::report::Unit;
use pgweir_maths::{Enough, Ratio, Rounds, Spread, Told, smallest_enough};

/// The rounds of one size.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Level {
    pub(super) bytes: u64,
    /// Transactions per second, one for each round.
    pub(super) cold: Vec<f64>,
    pub(super) warm: Vec<f64>,
    /// Whether all the data fits, so that a larger one can hold no more of it.
    pub(super) holds_all: bool,
}

/// What follows from all levels, ascending by size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// The smallest size that is enough; none where the largest is the best by far and does not hold all the data, so that
    /// more may be better still, and none where the noise decides.
    pub(super) enough_bytes: Option<u64>,
    /// Where the noise decides: how many rounds would tell, as far as that can be known.
    pub(super) more_rounds: Option<Option<u32>>,
    pub(super) sentences: Vec<String>,
}

/// Cold cases, then prewarmed ones, all of which ran in the same rounds.
pub(super) fn rounds_of(levels: &[Level]) -> Rounds {
    let (cold, warm) = (levels.iter().map(|l| &l.cold[..]), levels.iter().map(|l| &l.warm[..]));
    Rounds::new(cold.chain(warm))
}

/// Judges. With data in memory where that was measured, because a server is warm most of its life; cold otherwise.
pub(super) fn judge(levels: &[Level]) -> Verdict {
    let rounds = rounds_of(levels);
    let has_warm = levels.iter().any(|level| !level.warm.is_empty());
    let first = if has_warm { levels.len() } else { 0 };
    let mut verdict = Verdict {
        enough_bytes: None,
        more_rounds: None,
        sentences: Vec::new(),
    };
    let sizes = first..first + levels.len();
    if let (Some(best), Some(enough)) = (rounds.best_of(sizes.clone()), smallest_enough(&rounds, sizes)) {
        let curve = Curve {
            levels,
            warm: has_warm,
            best: best - first,
        };
        curve.judge(enough, first, &mut verdict);
    }
    verdict.sentences.extend(prewarming(levels, &rounds));
    verdict
}

/// The levels in the state that counts.
struct Curve<'a> {
    levels: &'a [Level],
    warm: bool,
    best: usize,
}

impl Curve<'_> {
    /// Throughput of a level; None where it failed.
    fn tps(&self, at: usize) -> Option<f64> {
        let level = &self.levels[at];
        Spread::of(if self.warm { &level.warm } else { &level.cold }).map(|tps| tps.middle)
    }

    /// `1,278 TPS, prewarmed, with `shared_buffers = 4GB``
    fn words(&self, at: usize) -> String {
        let state = if self.warm { "prewarmed" } else { "cold" };
        let size = written(self.levels[at].bytes);
        let tps = Unit::Number.show(self.tps(at).unwrap_or(0.0));
        format!("{tps} TPS, {state}, with `shared_buffers = {size}`")
    }

    /// Adds the sentence, and what follows from it.
    fn judge(&self, enough: Enough, first: usize, verdict: &mut Verdict) {
        let measured: Vec<usize> = (0..self.levels.len()).filter(|at| self.tps(*at).is_some()).collect();
        let (Some(&least), Some(&most)) = (measured.first(), measured.last()) else {
            return;
        };
        let best = Unit::Number.show(self.tps(self.best).unwrap_or(0.0));
        let size = |at: usize| written(self.levels[at].bytes);
        let sentence = match enough {
            _ if measured.len() == 1 => format!("{}; one size alone says nothing about others.", self.words(least)),
            Enough::Noise { rounds } => {
                verdict.more_rounds = Some(rounds);
                format!(
                    "The rounds are too few and too different to say which size is enough, so none is recommended: {}, and at \
                     best {}.",
                    self.words(least),
                    self.words(self.best)
                )
            }
            Enough::At(at) if at - first == most && !self.levels[most].holds_all => format!(
                "Throughput still grows up to the largest size: {}, and {}. More may be better still.",
                self.words(least),
                self.words(most)
            ),
            Enough::At(at) => {
                let at = at - first;
                verdict.enough_bytes = Some(self.levels[at].bytes);
                match at {
                    _ if at == least => format!(
                        "For this load the size makes little difference, and the smallest is enough: {}; the best of all is \
                         {best}.",
                        self.words(at)
                    ),
                    _ if at == most => format!(
                        "`shared_buffers = {}` is best for this load: {}, and {}. It holds all the data, so more gives no \
                         more.",
                        size(at),
                        self.words(at),
                        self.words(least)
                    ),
                    _ => format!(
                        "`shared_buffers = {}` is enough for this load: {}, and {}; more gives no more ({best} TPS at best).",
                        size(at),
                        self.words(at),
                        self.words(least)
                    ),
                }
            }
        };
        verdict.sentences.push(sentence);
    }
}

/// What prewarming gives where it gives most.
fn prewarming(levels: &[Level], rounds: &Rounds) -> Option<String> {
    let gains = (0..levels.len()).filter_map(|at| Some((at, rounds.ratio(at, levels.len() + at)?)));
    let gains: Vec<(usize, Ratio)> = gains.collect();
    let (at, gain) = gains.iter().max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))?;
    let tps = |figures: &[f64]| Unit::Number.show(Spread::of(figures).map_or(0.0, |tps| tps.middle));
    let level = &levels[*at];
    Some(match gain.told() {
        Told::Differs if gain.ratio > 1.0 => format!(
            "Prewarming gives most with {}: {} TPS in place of {} on a cold server, {}. After a restart, \
             `pgweir cache warm` does it: indexes first.",
            written(level.bytes),
            tps(&level.warm),
            tps(&level.cold),
            gain.times(" times as many")
        ),
        Told::Differs => "Prewarming gave nothing at any size.".to_owned(),
        Told::Alike => "Prewarming made no difference beyond the noise at any size.".to_owned(),
        Told::TooFewRounds => format!(
            "The rounds are too few to tell what prewarming gives: with {}, where it seems to give most, {}.",
            written(level.bytes),
            gain.times(" times as many TPS")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(megabytes: u64, cold: f64, warm: f64) -> Level {
        // A noise of one percent that no two cases share.
        let rounds = |tps: f64, first: usize| match tps > 0.0 {
            true => [0.99, 1.0, 1.01]
                .iter()
                .cycle()
                .skip(first)
                .take(3)
                .map(|r| tps * r)
                .collect(),
            false => Vec::new(),
        };
        let place = usize::try_from(megabytes.ilog2()).unwrap();
        Level {
            bytes: megabytes << 20,
            cold: rounds(cold, place),
            warm: rounds(warm, place + 1),
            holds_all: false,
        }
    }

    /// 7.5 GB of data, 8 processors, 32 GB (the PostgreSQL 10 article): 4 GB with the indexes prewarmed is enough.
    #[test]
    fn the_articles_figures() {
        let levels = [
            level(128, 173.0, 204.0),
            level(4096, 362.0, 1278.0),
            level(8192, 380.0, 1203.0),
            level(24576, 381.0, 1281.0),
        ];
        let verdict = judge(&levels);
        assert_eq!(verdict.enough_bytes, Some(4096 << 20));
        assert_eq!(
            verdict.sentences[0],
            "`shared_buffers = 4GB` is enough for this load: 1,278 TPS, prewarmed, with `shared_buffers = 4GB`, and 204 TPS, \
             prewarmed, with `shared_buffers = 128MB`; more gives no more (1,281 TPS at best)."
        );
        let prewarming = &verdict.sentences[1];
        assert!(
            prewarming.starts_with(
                "Prewarming gives most with 4GB: 1,278 TPS in place of 362 on a cold server, 3.53 times as many, between"
            ),
            "{prewarming}"
        );
    }

    #[test]
    fn a_curve_that_still_grows_recommends_nothing() {
        let verdict = judge(&[
            level(128, 100.0, 100.0),
            level(256, 100.0, 200.0),
            level(512, 100.0, 400.0),
        ]);
        assert_eq!(verdict.enough_bytes, None);
        assert!(
            verdict.sentences[0]
                .contains("still grows up to the largest size: 100.0 TPS, prewarmed, with `shared_buffers = 128MB`"),
            "{verdict:?}"
        );
    }

    /// Guards against a recommendation from the accidents of a busy machine; the figures were measured on one.
    #[test]
    fn noise_recommends_nothing() {
        let noisy = |megabytes: u64, warm: [f64; 3]| Level {
            bytes: megabytes << 20,
            warm: warm.to_vec(),
            ..Level::default()
        };
        let verdict = judge(&[
            noisy(64, [7_700.0, 9_951.0, 13_700.0]),
            noisy(256, [4_400.0, 12_333.0, 12_900.0]),
            noisy(512, [6_600.0, 7_557.0, 12_400.0]),
        ]);
        assert_eq!(verdict.enough_bytes, None);
        assert!(
            verdict
                .more_rounds
                .is_some_and(|rounds| rounds.is_some_and(|rounds| rounds > 10)),
            "{verdict:?}"
        );
        assert!(
            verdict.sentences[0]
                .starts_with("The rounds are too few and too different to say which size is enough, so none"),
            "{verdict:?}"
        );
    }

    /// Guards against calling disjoint bands noise: two rounds of 17.9 and 19.0 thousand against 34.6 and 44.1.
    #[test]
    fn disjoint_bands_are_no_noise() {
        let two = |megabytes: u64, cold: [f64; 2], warm: [f64; 2]| Level {
            bytes: megabytes << 20,
            cold: cold.to_vec(),
            warm: warm.to_vec(),
            holds_all: megabytes == 1024,
        };
        let verdict = judge(&[
            two(128, [15_100.0, 17_000.0], [17_900.0, 19_000.0]),
            two(256, [19_600.0, 23_400.0], [22_800.0, 26_100.0]),
            two(1024, [29_000.0, 35_900.0], [34_600.0, 44_100.0]),
        ]);
        assert_eq!(verdict.enough_bytes, Some(1 << 30), "{verdict:?}");
    }

    /// More shared_buffers than data is waste, however steep the curve was up to there.
    #[test]
    fn the_largest_is_enough_when_all_the_data_is_in_it() {
        let mut levels = [level(128, 100.0, 100.0), level(256, 100.0, 400.0)];
        levels[1].holds_all = true;
        let verdict = judge(&levels);
        assert_eq!(verdict.enough_bytes, Some(256 << 20));
        assert!(
            verdict.sentences[0]
                .starts_with("`shared_buffers = 256MB` is best for this load: 400 TPS, prewarmed, with"),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_flat_curve_needs_the_smallest() {
        let verdict = judge(&[level(128, 100.0, 101.0), level(256, 101.0, 100.0)]);
        assert_eq!(verdict.enough_bytes, Some(128 << 20));
        assert!(
            verdict.sentences[0].starts_with("For this load the size makes little difference"),
            "{verdict:?}"
        );
        assert_eq!(
            verdict.sentences[1],
            "Prewarming made no difference beyond the noise at any size."
        );
    }

    /// Where pg_prewarm is not to be had, the cold figures are all there is.
    #[test]
    fn without_prewarming_the_cold_figures_count() {
        let verdict = judge(&[level(128, 100.0, 0.0), level(256, 300.0, 0.0), level(512, 301.0, 0.0)]);
        assert_eq!(verdict.enough_bytes, Some(256 << 20));
        assert_eq!(verdict.sentences.len(), 1);
        assert!(
            verdict.sentences[0].contains("300 TPS, cold, with `shared_buffers = 256MB`, and 100.0 TPS, cold"),
            "{verdict:?}"
        );
    }

    #[test]
    fn one_size_and_none() {
        let verdict = judge(&[level(128, 100.0, 0.0)]);
        assert_eq!(verdict.enough_bytes, None);
        assert!(verdict.sentences[0].contains("one size alone"));
        assert_eq!(judge(&[]).sentences, [""; 0]);
    }
}
