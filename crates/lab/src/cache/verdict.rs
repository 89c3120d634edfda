//! The verdict on shared_buffers, from its usage counts.
//!
//! The rule is that of the article on pg_buffercache: mostly 4 and 5 means that the pool is too small, mostly 0 and 1, or
//! unused, that it is larger than needed. Where to start from: 25 % of the machine's memory, 75 % on a managed service
//! whose storage bypasses the operating system's cache. What PostgreSQL does not use, the operating system's cache does:
//! it must stay large enough to absorb writes and put them in order.

use super::usage::UsageCounts;
use crate::report::Unit;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// More than this share of all buffers is "mostly".
const MOSTLY: f64 = 0.5;

/// Counts say little of a server that has not yet seen its usual load.
const UPTIME_MIN: Duration = Duration::from_secs(3600);

/// Where shared_buffers starts, as a share of the machine's memory.
const START_SHARE: f64 = 0.25;

/// The same on a managed service without a second cache below.
const START_SHARE_WITHOUT_PAGE_CACHE: f64 = 0.75;

/// PostgreSQL's default, and the least that a recommendation goes down to.
const LEAST_BYTES: u64 = 128 << 20;

/// What the histogram says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Pages in constant use fill it, and there are more.
    TooSmall,
    /// Neither.
    Fits,
    /// Much of it holds what nobody asks for, or nothing.
    LargerThanNeeded,
    /// The server has not been up for long enough, or has done too little.
    TooEarly,
}

/// What is known beside the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Memory of the server's machine, where it can be seen or was given.
    pub ram_bytes: Option<u64>,
    /// Size of all databases together, where it may be asked for.
    pub data_bytes: Option<u64>,
    /// Since the server's start.
    pub uptime: Option<Duration>,
    /// Whether the storage bypasses the operating system's cache (Aurora).
    pub without_page_cache: bool,
}

/// A verdict with its reasons and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// In one sentence.
    pub summary: String,
    /// The evidence, one sentence each.
    pub reasons: Vec<String>,
    /// shared_buffers to try next, where the verdict asks for another; a restart is needed for it.
    pub suggested_bytes: Option<u64>,
}

/// Judges a histogram.
pub fn judge(usage: &UsageCounts, around: &Circumstances) -> Judgement {
    let size = usage.buffers() * usage.block_bytes;
    let hot = usage.share(4..=5);
    let cold = usage.share(0..=1);
    let unused = usage.unused_share();
    let dirty = usage.dirty() as f64 / usage.buffers().max(1) as f64;

    let mut reasons = vec![format!(
        "of {} buffers ({}) {} have usage count 4 or 5, {} have 0 or 1, {} hold nothing; {} are dirty",
        Unit::Number.show(usage.buffers() as f64),
        show_bytes(size),
        percent(hot),
        percent(cold),
        percent(unused),
        percent(dirty)
    )];
    if let Some(data) = around.data_bytes {
        reasons.push(match data <= size {
            true => format!("all databases together ({}) fit into it", show_bytes(data)),
            false => format!(
                "all databases together are {}, {:.1} times its size",
                show_bytes(data),
                data as f64 / size.max(1) as f64
            ),
        });
    }
    let start = start_bytes(around);
    if let (Some(ram), Some(start)) = (around.ram_bytes, start) {
        let share = if around.without_page_cache {
            START_SHARE_WITHOUT_PAGE_CACHE
        } else {
            START_SHARE
        };
        reasons.push(format!(
            "it is {} of the machine's memory ({}); the usual starting point is {}, {}",
            percent(size as f64 / ram.max(1) as f64),
            show_bytes(ram),
            percent(share),
            show_bytes(start)
        ));
    }

    // Nothing that is not cached can be hot: a pool that holds all data is large enough, however hot.
    let holds_everything = around.data_bytes.is_some_and(|data| data <= size);
    let young = around.uptime.is_some_and(|uptime| uptime < UPTIME_MIN);
    let verdict = match () {
        () if hot > MOSTLY && !(holds_everything && unused > 0.0) => Verdict::TooSmall,
        () if hot > MOSTLY => Verdict::Fits,
        () if unused > MOSTLY && young => Verdict::TooEarly,
        () if cold + unused > MOSTLY => Verdict::LargerThanNeeded,
        () => Verdict::Fits,
    };
    if let (true, Some(uptime)) = (young, around.uptime) {
        reasons.push(format!(
            "the server has been up for {} only: look again after a day of the usual load",
            show_minutes(uptime)
        ));
    }
    let suggested_bytes = match verdict {
        Verdict::TooSmall => larger(size, start, around),
        Verdict::LargerThanNeeded => smaller(usage, size),
        Verdict::Fits | Verdict::TooEarly => None,
    };
    let summary = summary(verdict, size, suggested_bytes);
    Judgement {
        verdict,
        summary,
        reasons,
        suggested_bytes,
    }
}

fn summary(verdict: Verdict, size: u64, suggested: Option<u64>) -> String {
    let size = show_bytes(size);
    match (verdict, suggested) {
        (Verdict::TooSmall, Some(to)) => format!(
            "shared_buffers ({size}) is too small: most of it is in constant use; try {} and measure",
            show_bytes(to)
        ),
        (Verdict::TooSmall, None) => format!(
            "shared_buffers ({size}) is too small for what is in constant use, but the machine has no memory to give it: \
             more memory, or less data to read"
        ),
        (Verdict::LargerThanNeeded, Some(to)) => format!(
            "shared_buffers ({size}) is larger than needed: most of it is unused or not asked for again; {} would do",
            show_bytes(to)
        ),
        (Verdict::LargerThanNeeded, None) => {
            format!("shared_buffers ({size}) is larger than needed, and small enough to leave it so")
        }
        (Verdict::Fits, _) => format!("shared_buffers ({size}) fits the load"),
        (Verdict::TooEarly, _) => {
            format!("too early for a verdict on shared_buffers ({size}): most of it is not filled yet")
        }
    }
}

fn start_bytes(around: &Circumstances) -> Option<u64> {
    let share = if around.without_page_cache {
        START_SHARE_WITHOUT_PAGE_CACHE
    } else {
        START_SHARE
    };
    around.ram_bytes.map(|ram| round_up((ram as f64 * share) as u64))
}

/// The next size up: the usual starting point where that is far, else twice the size, within 40 % of the machine's memory
/// (the manual, "Resource Consumption": more is unlikely to work better) or the service's share.
fn larger(size: u64, start: Option<u64>, around: &Circumstances) -> Option<u64> {
    let most = around
        .ram_bytes
        .map(|ram| (ram as f64 * if around.without_page_cache { 0.75 } else { 0.4 }) as u64);
    let wanted = match (around.data_bytes, start) {
        (_, Some(start)) if start > size.saturating_mul(2) => start,
        _ => size.saturating_mul(2),
    };
    // No more than there is data, with a tenth for what it grows by.
    let wanted = around.data_bytes.map_or(wanted, |data| wanted.min(data + data / 10));
    let allowed = round_up(wanted.min(most.unwrap_or(u64::MAX)));
    (allowed > size).then_some(allowed)
}

/// What is asked for again (usage count 2 and above), with half as much on top; None where that saves less than a third.
fn smaller(usage: &UsageCounts, size: u64) -> Option<u64> {
    let wanted: u64 = usage.levels[2..].iter().map(|level| level.buffers).sum::<u64>() * usage.block_bytes;
    let suggested = round_up((wanted + wanted / 2).max(LEAST_BYTES));
    (suggested <= size / 3 * 2).then_some(suggested)
}

/// To a multiple of 128 MB below 1 GB, of 256 MB below 8 GB, of 1 GB above.
fn round_up(bytes: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    let step = match bytes {
        b if b < GIB => GIB / 8,
        b if b < 8 * GIB => GIB / 4,
        _ => GIB,
    };
    bytes.div_ceil(step) * step
}

fn show_bytes(bytes: u64) -> String {
    Unit::Bytes.show(bytes as f64)
}

fn percent(share: f64) -> String {
    match share {
        s if s > 0.0 && s < 0.01 => "less than 1 %".to_owned(),
        s => format!("{:.0} %", 100.0 * s),
    }
}

fn show_minutes(time: Duration) -> String {
    match time.as_secs() / 60 {
        0 => "less than a minute".to_owned(),
        1 => "a minute".to_owned(),
        n => format!("{n} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::usage::UsageLevel;
    use super::*;

    const GIB: u64 = 1 << 30;
    const DAY: Option<Duration> = Some(Duration::from_secs(86_400));

    /// A pool of `size` bytes with these shares (percent) of usage counts 0 to 5; the rest is unused.
    fn usage(size: u64, shares: [u64; 6]) -> UsageCounts {
        let buffers = size / 8192;
        let mut counts = UsageCounts {
            block_bytes: 8192,
            ..UsageCounts::default()
        };
        for (level, share) in counts.levels.iter_mut().zip(shares) {
            *level = UsageLevel {
                buffers: buffers * share / 100,
                dirty: buffers * share / 1000,
                pinned: 0,
            };
        }
        counts.unused = buffers - counts.used();
        counts
    }

    /// The article's machine and its 7.5 GB of pgbench data.
    const ARTICLE: Circumstances = Circumstances {
        ram_bytes: Some(32 * GIB),
        data_bytes: Some(7_680 << 20),
        uptime: DAY,
        without_page_cache: false,
    };

    #[test]
    fn mostly_4_and_5_is_too_small_as_the_article_says() {
        // 128 MB before 7.5 GB of data.
        let j = judge(&usage(128 << 20, [8, 9, 7, 6, 10, 60]), &ARTICLE);
        assert_eq!(j.verdict, Verdict::TooSmall, "{j:?}");
        // The article's best was from 4 GB on; a quarter of the memory is 8 GB.
        assert_eq!(j.suggested_bytes, Some(8 * GIB));
        assert!(
            j.summary.contains("too small") && j.reasons[1].contains("60.0 times"),
            "{j:?}"
        );
    }

    #[test]
    fn mostly_0_and_1_or_unused_is_larger_than_needed_as_the_article_says() {
        // 24 GB before 7.5 GB of data: the rest holds nothing.
        let j = judge(&usage(24 * GIB, [3, 12, 4, 3, 2, 8]), &ARTICLE);
        assert_eq!(j.verdict, Verdict::LargerThanNeeded, "{j:?}");
        assert!(j.suggested_bytes.is_some_and(|to| to < 12 * GIB), "{j:?}");
        // Full, but of pages that nobody asked for again.
        let j = judge(
            &usage(8 * GIB, [40, 35, 10, 5, 5, 5]),
            &Circumstances {
                data_bytes: Some(100 * GIB),
                ..ARTICLE
            },
        );
        assert_eq!(j.verdict, Verdict::LargerThanNeeded, "{j:?}");
    }

    #[test]
    fn a_mixture_fits() {
        let j = judge(&usage(4 * GIB, [10, 15, 20, 20, 15, 20]), &ARTICLE);
        assert_eq!((j.verdict, j.suggested_bytes), (Verdict::Fits, None));
    }

    #[test]
    fn hot_data_that_fits_whole_needs_no_more() {
        let j = judge(&usage(8 * GIB, [2, 3, 3, 4, 10, 60]), &ARTICLE);
        assert_eq!(j.verdict, Verdict::Fits, "{j:?}");
        assert!(j.reasons.iter().any(|r| r.contains("fit into it")));
    }

    #[test]
    fn a_young_server_gets_no_verdict_of_an_empty_pool() {
        let young = Circumstances {
            uptime: Some(Duration::from_secs(180)),
            ..ARTICLE
        };
        let j = judge(&usage(8 * GIB, [1, 2, 1, 1, 1, 4]), &young);
        assert_eq!(j.verdict, Verdict::TooEarly);
        assert!(j.reasons.iter().any(|r| r.contains("up for 3 minutes")), "{j:?}");
        // What is hot already is hot.
        assert_eq!(
            judge(&usage(128 << 20, [0, 0, 0, 0, 20, 80]), &young).verdict,
            Verdict::TooSmall
        );
    }

    #[test]
    fn a_suggestion_stays_within_the_machine() {
        let j = judge(
            &usage(12 * GIB, [0, 5, 5, 10, 20, 60]),
            &Circumstances {
                data_bytes: Some(900 * GIB),
                ..ARTICLE
            },
        );
        assert_eq!(j.suggested_bytes, Some(13 * GIB), "{j:?}");
        let j = judge(
            &usage(16 * GIB, [0, 5, 5, 10, 20, 60]),
            &Circumstances {
                data_bytes: Some(900 * GIB),
                ..ARTICLE
            },
        );
        assert_eq!((j.verdict, j.suggested_bytes), (Verdict::TooSmall, None));
        assert!(j.summary.contains("no memory to give"), "{j:?}");
        // Memory unknown: twice the size.
        let unknown = Circumstances {
            uptime: DAY,
            ..Circumstances::default()
        };
        assert_eq!(
            judge(&usage(GIB, [0, 5, 5, 10, 20, 60]), &unknown).suggested_bytes,
            Some(2 * GIB)
        );
    }

    #[test]
    fn a_small_pool_is_left_as_it_is() {
        let j = judge(&usage(128 << 20, [10, 20, 2, 1, 1, 1]), &ARTICLE);
        assert_eq!((j.verdict, j.suggested_bytes), (Verdict::LargerThanNeeded, None));
    }

    #[test]
    fn a_managed_service_without_a_second_cache_starts_at_three_quarters() {
        let around = Circumstances {
            without_page_cache: true,
            data_bytes: Some(900 * GIB),
            ..ARTICLE
        };
        let j = judge(&usage(8 * GIB, [0, 5, 5, 10, 20, 60]), &around);
        assert_eq!(j.suggested_bytes, Some(24 * GIB));
    }
}
