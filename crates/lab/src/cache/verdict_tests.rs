//! Verdicts on shared_buffers; many more are in the table of synthetic servers (`advise/servers.rs`).

use super::reads::Reads;
use super::usage::{UsageCounts, UsageLevel};
use super::verdict::*;
use std::time::Duration;

const GIB: u64 = 1 << 30;
const DAY: Option<Duration> = Some(Duration::from_secs(86_400));

/// A pool of `size` bytes with these shares (percent) of usage counts 0 to 5; the rest is unused. A tenth is dirty.
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

fn reads(misses_per_second: f64, miss_ms: Option<f64>) -> Option<Reads> {
    Some(Reads {
        hits_per_second: 50_000.0,
        misses_per_second,
        miss_ms,
        seconds: 2.0,
        details: None,
    })
}

/// The article's machine and its 7.5 GB of pgbench data.
const ARTICLE: Circumstances = Circumstances {
    size_bytes: 128 << 20,
    ram_bytes: Some(32 * GIB),
    cores: Some(8),
    page_cache_bytes: None,
    available_bytes: None,
    data_bytes: Some(7_680 << 20),
    read_relations_bytes: None,
    uptime: DAY,
    without_page_cache: false,
    reads_now: None,
    reads_before: None,
    active_mean: Some(8.0),
};

#[test]
fn the_verdict_says_what_decided_it() {
    let around = Circumstances {
        reads_now: reads(8_000.0, Some(0.4)),
        ..ARTICLE
    };
    let j = judge(Some(&usage(128 << 20, [40, 25, 15, 10, 5, 5])), &around);
    assert_eq!(
        (j.verdict, j.suggested_bytes, &j.decided_by[..]),
        (
            Verdict::TooSmall,
            Some(8 * GIB),
            &[Factor::Misses, Factor::DataSize][..]
        )
    );
    assert_eq!(
        j.summary,
        "shared_buffers (128 MB) is too small: try 8 GB and measure (decided by the cost of misses, the size of the databases)"
    );
    assert!(
        j.reasons[0].starts_with(
            "8,000 of 58,000 blocks a second were not in shared_buffers (86 % found, over 2 s); each costs"
        ),
        "{j:?}"
    );
    assert!(
        j.reasons
            .iter()
            .any(|r| r.contains("mean that blocks are given away too early")),
        "{j:?}"
    );
}

/// The same misses cost little where the page cache answers them, and there are few.
#[test]
fn what_a_miss_costs_decides_and_not_how_many_there_are() {
    let verdict = |misses, ms| {
        let around = Circumstances {
            size_bytes: 4 * GIB,
            reads_now: reads(misses, ms),
            ..ARTICLE
        };
        judge(Some(&usage(4 * GIB, [10, 15, 20, 20, 15, 20])), &around).verdict
    };
    assert_eq!(verdict(2_000.0, Some(0.02)), Verdict::Fits);
    assert_eq!(verdict(2_000.0, Some(0.5)), Verdict::TooSmall);
    assert_eq!(verdict(2_000.0, None), Verdict::Fits);
    assert_eq!(verdict(60_000.0, None), Verdict::TooSmall);
}

/// Guards against "fits" for slow disks: with track_io_timing off nobody knows what a miss costs, if it may be a read.
#[test]
fn data_beyond_the_memory_is_not_taken_for_copies_from_the_page_cache() {
    let of = |data, misses, ms| {
        let around = Circumstances {
            size_bytes: 4 * GIB,
            data_bytes: data,
            reads_now: reads(misses, ms),
            ..ARTICLE
        };
        judge(Some(&usage(4 * GIB, [10, 15, 20, 20, 15, 20])), &around)
    };
    let unknown = of(Some(2_000 * GIB), 1_500.0, None);
    assert_eq!(
        (unknown.verdict, &unknown.decided_by[..]),
        (Verdict::CannotTell, &[Factor::Memory, Factor::Misses][..])
    );
    assert!(unknown.summary.contains("set track_io_timing = on"), "{unknown:?}");
    assert!(
        unknown.reasons[0].contains("come from storage, it is about 0.5"),
        "{unknown:?}"
    );
    // Measured, or few, or all in memory, or costly as copies already.
    assert_eq!(of(Some(2_000 * GIB), 1_500.0, Some(0.03)).verdict, Verdict::Fits);
    assert_eq!(of(Some(2_000 * GIB), 1_500.0, Some(2.0)).verdict, Verdict::TooSmall);
    assert_eq!(of(Some(2_000 * GIB), 100.0, None).verdict, Verdict::Fits);
    assert_eq!(of(Some(20 * GIB), 1_500.0, None).verdict, Verdict::Fits);
    assert_eq!(of(Some(2_000 * GIB), 60_000.0, None).verdict, Verdict::TooSmall);
    // Not known: neither.
    assert_eq!(of(None, 1_500.0, None).verdict, Verdict::CannotTell);
}

#[test]
fn a_quiet_moment_is_judged_by_the_history() {
    let around = Circumstances {
        reads_now: Some(Reads::default()),
        reads_before: reads(8_000.0, Some(0.4)),
        ..ARTICLE
    };
    assert_eq!(judge(None, &around).verdict, Verdict::TooSmall);
    let unknown = Circumstances {
        reads_before: Some(Reads::default()),
        ram_bytes: None,
        ..around
    };
    let j = judge(None, &unknown);
    assert_eq!((j.verdict, j.suggested_bytes), (Verdict::CannotTell, None));
}

#[test]
fn a_suggestion_stays_within_machine_and_data() {
    let of = |size, data| {
        let around = Circumstances {
            size_bytes: size,
            data_bytes: Some(data),
            reads_now: reads(8_000.0, Some(0.4)),
            ..ARTICLE
        };
        judge(Some(&usage(size, [0, 5, 5, 10, 20, 60])), &around)
    };
    assert_eq!(of(12 * GIB, 900 * GIB).suggested_bytes, Some(13 * GIB));
    assert_eq!(of(128 << 20, 478 << 20).suggested_bytes, Some(640 << 20));
    let none = of(16 * GIB, 900 * GIB);
    assert_eq!((none.verdict, none.suggested_bytes), (Verdict::MachineTooSmall, None));
    assert!(none.summary.contains("no memory that would help"), "{none:?}");
}

/// A verdict without a change, and a change without a verdict, would be nonsense, whatever the facts are.
#[test]
fn a_change_belongs_to_a_verdict_that_asks_for_one() {
    for size in [128 << 20, 4 * GIB, 30 * GIB] {
        for shares in [[90, 5, 2, 1, 1, 1], [0, 0, 0, 0, 10, 90], [2, 1, 1, 1, 1, 1]] {
            for misses in [0.0, 500.0, 90_000.0] {
                for uptime in [10, 600, 100_000] {
                    let around = Circumstances {
                        size_bytes: size,
                        uptime: Some(Duration::from_secs(uptime)),
                        reads_now: reads(misses, None),
                        ..ARTICLE
                    };
                    let j = judge(Some(&usage(size, shares)), &around);
                    let asks = matches!(j.verdict, Verdict::TooSmall | Verdict::LargerThanNeeded);
                    assert_eq!(asks, j.suggested_bytes.is_some(), "{j:?}");
                    let smaller = j.suggested_bytes.is_some_and(|to| to < size);
                    assert_eq!(smaller, j.verdict == Verdict::LargerThanNeeded, "{j:?}");
                    assert!(!j.decided_by.is_empty() && !j.reasons.is_empty());
                }
            }
        }
    }
}
