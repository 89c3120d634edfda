//! The verdict on shared_buffers in words.

use super::usage::UsageCounts;
use super::verdict::{Circumstances, Factor, MISS_MS_WITHOUT_PAGE_CACHE, MissCost, UPTIME_MIN, Verdict, dirty_share};
use crate::report::Unit;
use pgweir_maths::shared_buffers_start;
use std::time::Duration;

/// Blocks read by large scans are named from this share of the misses on.
const RINGS_NAMED: f64 = 0.01;

/// One sentence: the verdict, and what decided it.
pub(super) fn summary(verdict: Verdict, size: u64, suggested: Option<u64>, decided_by: &[Factor]) -> String {
    let size = bytes(size);
    let by: Vec<&str> = decided_by.iter().map(|factor| factor.words()).collect();
    let by = format!("decided by {}", by.join(", "));
    let to = suggested.map(bytes).unwrap_or_default();
    match verdict {
        Verdict::TooSmall => format!("shared_buffers ({size}) is too small: try {to} and measure ({by})"),
        Verdict::MachineTooSmall => format!(
            "misses of shared_buffers ({size}) cost much, and this machine has no memory that would help: it needs more memory, or \
             less data to read ({by})"
        ),
        Verdict::LargerThanNeeded if decided_by.contains(&Factor::Memory) => {
            format!("shared_buffers ({size}) leaves the page cache too little: {to} would do ({by})")
        }
        Verdict::LargerThanNeeded => format!("shared_buffers ({size}) is larger than needed: {to} would do ({by})"),
        Verdict::Fits if decided_by.contains(&Factor::DataSize) => {
            format!("shared_buffers ({size}) holds all databases, so that more would not help ({by})")
        }
        Verdict::Fits => format!("shared_buffers ({size}) fits the load ({by})"),
        Verdict::TooEarly => {
            format!("too early for a verdict on shared_buffers ({size}): it is still being filled ({by})")
        }
        Verdict::CannotTell if decided_by.contains(&Factor::Memory) => format!(
            "whether shared_buffers ({size}) is too small cannot be told: a miss may be a read from storage, as not all data is \
             sure to fit into memory, and nothing measures it; set track_io_timing = on and look again ({by})"
        ),
        Verdict::CannotTell => {
            format!("no verdict on shared_buffers ({size}): no block was asked for; look while the server is at work")
        }
    }
}

impl Factor {
    fn words(self) -> &'static str {
        match self {
            Factor::Misses => "the cost of misses",
            Factor::UsageCounts => "the usage counts",
            Factor::DirtyBuffers => "dirty buffers",
            Factor::UnusedBuffers => "unused buffers",
            Factor::DataSize => "the size of the databases",
            Factor::Memory => "the machine's memory",
            Factor::Uptime => "the time since the server's start",
        }
    }
}

/// The evidence.
pub(super) fn reasons(usage: Option<&UsageCounts>, around: &Circumstances, cost: Option<&MissCost>) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.extend(cost.map(|cost| misses(cost, around)));
    reasons.extend(usage.map(histogram));
    let churns = cost.is_some_and(MissCost::is_much);
    if usage.is_some_and(|usage| usage.share(0..=1) > 0.5 && usage.unused_share() < 0.05) && churns {
        reasons.push("low usage counts in a full shared_buffers with so many misses mean that blocks are given away too early, and not that \
             there is room".to_owned());
    }
    reasons.extend(sizes(around));
    reasons.extend(memory(around));
    if let Some(uptime) = around.uptime.filter(|uptime| *uptime < UPTIME_MIN) {
        reasons.push(format!(
            "the server has been up for {} only: look again after a day of the usual load",
            minutes(uptime)
        ));
    }
    reasons
}

fn misses(cost: &MissCost, around: &Circumstances) -> String {
    let reads = &cost.reads;
    let details = reads.details;
    let measured = details.and_then(|details| details.read_ms).or(reads.miss_ms);
    let how = match (measured, details) {
        (Some(_), Some(_)) => format!(
            "{:.3} ms (pg_stat_io, with the dirty buffers that sessions wrote)",
            cost.ms
        ),
        (Some(_), None) => format!("{:.3} ms (track_io_timing, and writing dirty buffers)", cost.ms),
        (None, _) if around.without_page_cache => format!(
            "about {MISS_MS_WITHOUT_PAGE_CACHE} ms, the usual time of storage without a page cache (track_io_timing is off)"
        ),
        (None, _) => format!(
            "{:.3} ms at least, the time of a copy from the page cache (track_io_timing is off)",
            cost.ms
        ),
    };
    let rings = match details.map_or(0.0, |details| details.ring_share) {
        share if share < RINGS_NAMED => String::new(),
        share => format!(
            "; large scans read {} of these blocks through a ring of a few buffers, and a larger shared_buffers would not \
             save them",
            percent(share)
        ),
    };
    let most = cost.most.map_or_else(String::new, |most| {
        format!(
            "; if the blocks that the page cache cannot hold come from storage, it is about {:.2} ms and {}",
            most.ms,
            together(most.share)
        )
    });
    format!(
        "{} of {} blocks a second were not in shared_buffers ({} found, over {}){rings}; each costs {how}, together {}{most}",
        Unit::Number.show(reads.misses_per_second.round()),
        Unit::Number.show(reads.asked_per_second().round()),
        hits(reads.hit_share()),
        over(reads.seconds),
        together(cost.share)
    )
}

/// Of what the server does; of a server that does next to nothing now, judged by its history, that would be more than all.
fn together(share: f64) -> String {
    match share {
        s if s > 1.0 => format!("{s:.1} seconds of waiting in each second"),
        s => format!("{} of what the server does", percent(s)),
    }
}

fn histogram(usage: &UsageCounts) -> String {
    format!(
        "of {} buffers {} have usage count 4 or 5, {} have 0 or 1, {} hold nothing; {} of the used ones are dirty",
        Unit::Number.show(usage.buffers() as f64),
        percent(usage.share(4..=5)),
        percent(usage.share(0..=1)),
        percent(usage.unused_share()),
        percent(dirty_share(usage))
    )
}

fn sizes(around: &Circumstances) -> Option<String> {
    let data = around.data_bytes?;
    let read = around
        .read_relations_bytes
        .map(|read| format!("; tables and indexes of {} were read while looking", bytes(read)));
    let size = around.size_bytes;
    Some(match data <= size {
        true => format!(
            "all databases together ({}) fit into it{}",
            bytes(data),
            read.unwrap_or_default()
        ),
        false => format!(
            "all databases together are {}, {:.1} times its size{}",
            bytes(data),
            data as f64 / size.max(1) as f64,
            read.unwrap_or_default()
        ),
    })
}

fn memory(around: &Circumstances) -> Option<String> {
    let ram = around.ram_bytes?;
    let start = shared_buffers_start(ram, around.without_page_cache);
    let cache = match (around.available_bytes, around.data_bytes) {
        (Some(cache), Some(data)) if data <= around.size_bytes.saturating_add(cache) => format!(
            "; the page cache can hold the rest of the data ({}), so that most misses are copies from there",
            bytes(cache)
        ),
        (Some(cache), _) => format!("; the page cache can hold {}", bytes(cache)),
        _ => String::new(),
    };
    let now = around
        .page_cache_bytes
        .map_or_else(String::new, |now| format!("; it has {} now", bytes(now)));
    Some(format!(
        "it is {} of the machine's memory ({}); the usual starting point is {}{cache}{now}",
        percent(around.size_bytes as f64 / ram.max(1) as f64),
        bytes(ram),
        bytes(start)
    ))
}

fn bytes(bytes: u64) -> String {
    Unit::Bytes.show(bytes as f64)
}

fn percent(share: f64) -> String {
    match share {
        s if s > 0.0 && s < 0.01 => "less than 1 %".to_owned(),
        s => format!("{:.0} %", 100.0 * s),
    }
}

/// `99.98 %`: near 100 the digits matter.
fn hits(share: f64) -> String {
    match share {
        s if s >= 0.99 => format!("{:.2} %", 100.0 * s),
        s => format!("{:.0} %", 100.0 * s),
    }
}

fn over(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s => crate::progress::duration_words(Duration::from_secs_f64(s)),
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() / 60 {
        0 => "less than a minute".to_owned(),
        1 => "a minute".to_owned(),
        n => format!("{n} minutes"),
    }
}
