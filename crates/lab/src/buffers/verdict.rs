//! Which size is enough, and what prewarming gives. Pure: figures in, sentences out.

use super::size::written;
use crate::maths::{Difference, compare, median};
use crate::report::Unit;

/// A size that reaches this share of the best throughput is enough.
const ENOUGH_SHARE: f64 = 0.95;

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
    /// more may be better still.
    pub(super) enough_bytes: Option<u64>,
    pub(super) sentences: Vec<String>,
}

/// Judges. With data in memory where that was measured, because a server is warm most of its life; cold otherwise.
pub(super) fn judge(levels: &[Level]) -> Verdict {
    let has_warm = levels.iter().any(|level| !level.warm.is_empty());
    let rounds = |level: &Level| {
        if has_warm {
            level.warm.clone()
        } else {
            level.cold.clone()
        }
    };
    let measured: Vec<(u64, Vec<f64>, f64)> = levels
        .iter()
        .filter_map(|level| Some((level.bytes, rounds(level), median(&rounds(level))?)))
        .collect();
    let mut sentences = Vec::new();
    let mut enough_bytes = None;
    let best = measured.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    if let (Some(best), Some(first), Some(last)) = (best, measured.first(), measured.last()) {
        let is_enough = |level: &&(u64, Vec<f64>, f64)| {
            let same = compare(&best.1, &level.1).is_some_and(|d| !d.is_real() && level.1.len() > 1);
            level.2 >= best.2 * ENOUGH_SHARE || (same && level.2 >= best.2 * 0.85)
        };
        let enough = measured.iter().find(is_enough).unwrap_or(best);
        let state = if has_warm { "prewarmed" } else { "cold" };
        let tps = |value: f64| Unit::Number.show(value);
        if measured.len() == 1 {
            sentences.push(format!(
                "{} TPS, {state}, with `shared_buffers = {}`; one size alone says nothing about others.",
                tps(first.2),
                written(first.0)
            ));
        } else if enough.0 != first.0 && is_noise(&first.1, &enough.1) {
            sentences.push(format!(
                "The rounds differ more than the sizes do, so that nothing can be said: {} TPS, {state}, with {} and {} with {}, \
                 a difference within the noise. Measure with more or longer rounds, or when the machine is quieter.",
                tps(first.2),
                written(first.0),
                tps(enough.2),
                written(enough.0)
            ));
        } else if enough.0 == last.0 && levels.last().is_some_and(|level| level.holds_all) {
            enough_bytes = Some(last.0);
            sentences.push(format!(
                "`shared_buffers = {}` is best for this load: {} TPS, {state}, against {} with {}. It holds all the data, so \
                 more gives no more.",
                written(last.0),
                tps(last.2),
                tps(first.2),
                written(first.0)
            ));
        } else if enough.0 == last.0 {
            sentences.push(format!(
                "Throughput, {state}, still grows up to the largest size: {} TPS with {}, {} with {}. More may be better still.",
                tps(first.2),
                written(first.0),
                tps(last.2),
                written(last.0)
            ));
        } else {
            enough_bytes = Some(enough.0);
            sentences.push(if enough.0 == first.0 {
                format!(
                    "For this load the size makes little difference: the smallest, `shared_buffers = {}`, has {} TPS, {state}, \
                     and the best of all {}.",
                    written(first.0),
                    tps(first.2),
                    tps(best.2)
                )
            } else {
                format!(
                    "`shared_buffers = {}` is enough for this load: {} TPS, {state}, against {} with {}; more gives no more \
                     ({} at best).",
                    written(enough.0),
                    tps(enough.2),
                    tps(first.2),
                    written(first.0),
                    tps(best.2)
                )
            });
        }
    }
    sentences.extend(prewarming(levels));
    Verdict {
        enough_bytes,
        sentences,
    }
}

/// Whether rounds are known to differ as much as the two do.
fn is_noise(first: &[f64], second: &[f64]) -> bool {
    matches!(compare(first, second), Some(Difference::WithinNoise { .. }))
}

/// What prewarming gives where it gives most.
fn prewarming(levels: &[Level]) -> Option<String> {
    let gains = levels.iter().filter_map(|level| {
        let change = compare(&level.cold, &level.warm)?;
        Some((level, change, median(&level.cold)?, median(&level.warm)?))
    });
    let (level, change, cold, warm) = gains.max_by(|a, b| (a.3 / a.2).total_cmp(&(b.3 / b.2)))?;
    let tps = |value: f64| Unit::Number.show(value);
    if !change.is_real() && level.cold.len() > 1 {
        return Some("Prewarming made no difference beyond the noise at any size.".to_owned());
    }
    if warm <= cold {
        return Some("Prewarming gave nothing at any size.".to_owned());
    }
    let doubt = if change.is_real() {
        ""
    } else {
        " (one round: the noise is not known)"
    };
    Some(format!(
        "Prewarming gives most with {}: {} TPS in place of {} on a cold server, {:.1} times as many{doubt}. After a restart, \
         `pgweir cache warm` does it: indexes first.",
        written(level.bytes),
        tps(warm),
        tps(cold),
        warm / cold
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(megabytes: u64, cold: f64, warm: f64) -> Level {
        let rounds = |tps: f64| {
            if tps > 0.0 {
                vec![tps * 0.98, tps, tps * 1.02]
            } else {
                Vec::new()
            }
        };
        Level {
            bytes: megabytes << 20,
            cold: rounds(cold),
            warm: rounds(warm),
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
            verdict.sentences,
            [
                "`shared_buffers = 4GB` is enough for this load: 1,278 TPS, prewarmed, against 204 with 128MB; more gives no \
                 more (1,281 at best).",
                "Prewarming gives most with 4GB: 1,278 TPS in place of 362 on a cold server, 3.5 times as many. After a \
                 restart, `pgweir cache warm` does it: indexes first.",
            ]
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
            verdict.sentences[0].contains("still grows up to the largest size: 100 TPS with 128MB, 400 with 512MB")
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
            verdict.sentences[0]
                .contains("9,951 TPS, prewarmed, with 64MB and 12,333 with 256MB, a difference within the noise"),
            "{verdict:?}"
        );
    }

    /// More shared_buffers than data is waste, however steep the curve was up to there.
    #[test]
    fn the_largest_is_enough_when_all_the_data_is_in_it() {
        let mut levels = [level(128, 100.0, 100.0), level(256, 100.0, 400.0)];
        levels[1].holds_all = true;
        let verdict = judge(&levels);
        assert_eq!(verdict.enough_bytes, Some(256 << 20));
        assert_eq!(
            verdict.sentences[0],
            "`shared_buffers = 256MB` is best for this load: 400 TPS, prewarmed, against 100 with 128MB. It holds all the \
             data, so more gives no more."
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
            verdict.sentences[0].contains("300 TPS, cold, against 100 with 128MB"),
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
