//! The limits that are tried.

use crate::Bounds;

/// The limits that the controller tries: each one up to 8, then each a quarter more than the one before.
///
/// ```text
/// 1 2 3 4 5 6 7 8 10 12 15 18 22 27 33 41 51 63 78 97 121 151 188 235 293 366 457 ...
/// ```
///
/// Invariant: ascending, never empty, the first is the least limit allowed and the last the greatest.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub(crate) struct Ladder {
    rungs: Vec<u32>,
}

impl Ladder {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let min = bounds.min.max(1);
        let max = bounds.max.max(min);
        let mut rungs = vec![min];
        let mut last = min;
        while last < max {
            last = last.saturating_add((last / 4).max(1)).min(max);
            rungs.push(last);
        }
        Ladder { rungs }
    }

    pub(crate) fn len(&self) -> usize {
        self.rungs.len()
    }

    pub(crate) fn limit(&self, at: usize) -> u32 {
        self.rungs[at]
    }

    /// The highest rung whose limit is not above `limit`; the lowest if all are.
    pub(crate) fn at_most(&self, limit: u32) -> usize {
        self.rungs.partition_point(|&rung| rung <= limit).saturating_sub(1)
    }

    /// The lowest rung whose limit is not below `limit`; the highest if all are.
    pub(crate) fn at_least(&self, limit: u32) -> usize {
        self.rungs
            .partition_point(|&rung| rung < limit)
            .min(self.rungs.len() - 1)
    }

    /// Natural logarithm of a rung's limit.
    pub(crate) fn position(&self, at: usize) -> f64 {
        f64::from(self.rungs[at]).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbs_from_the_least_to_the_greatest_limit() {
        for (min, max) in [(1, 1), (1, 2), (1, 500), (3, 17), (1, u32::MAX), (u32::MAX, u32::MAX)] {
            let ladder = Ladder::new(Bounds { min, max });
            assert_eq!((ladder.limit(0), ladder.limit(ladder.len() - 1)), (min, max));
            assert!(ladder.rungs.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(ladder.len() < 120, "{} rungs", ladder.len());
        }
    }

    #[test]
    fn finds_the_rungs_about_a_limit() {
        let ladder = Ladder::new(Bounds { min: 4, max: 100 });
        for (limit, at_most, at_least) in [(0, 4, 4), (4, 4, 4), (9, 8, 10), (10, 10, 10), (1_000, 100, 100)] {
            assert_eq!(ladder.limit(ladder.at_most(limit)), at_most);
            assert_eq!(ladder.limit(ladder.at_least(limit)), at_least);
        }
    }
}
