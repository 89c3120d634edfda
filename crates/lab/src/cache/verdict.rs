//! The verdict on shared_buffers.
//!
//! No figure decides alone. A low usage count in a full pool means pages that nobody asked for again (the article on
//! pg_buffercache) or, with many misses, pages that were given away before they were: churn. Many misses cost little where
//! the page cache answers them, and mostly 4 and 5 without misses is a working set that fits. So, in this order:
//!
//! | question | decides |
//! |---|---|
//! | does it leave the page cache anything? | memory |
//! | do all databases fit into it? | size of the databases |
//! | has it had time to fill? | uptime, unused buffers |
//! | what do the misses cost, beside what the server does? | misses, their cost, dirty buffers |
//! | are its pages asked for again? | usage counts |
//! | could the machine hold more? | memory |

use super::io::MissDetails;
use super::reads::Reads;
use super::usage::UsageCounts;
use super::verdict_words::{reasons, summary};
use pgweir_maths::{round_up_bytes, shared_buffers_most, shared_buffers_start};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// More than this share of all buffers is "mostly".
const MOSTLY: f64 = 0.5;

/// A pool with a larger share of unused buffers has never been full.
const UNFILLED_SHARE: f64 = 0.05;

/// Below this uptime nothing is judged that time could change; below the other one an unfilled pool is not.
const UPTIME_LEAST: Duration = Duration::from_secs(60);
pub(super) const UPTIME_MIN: Duration = Duration::from_secs(3600);

/// With fewer blocks asked for in a second, a look at the server tells nothing, and its history is asked.
const ASKED_LEAST: f64 = 100.0;

/// A miss takes so long at least: the copy from the page cache, and taking a buffer from another block. Where there is no
/// page cache below, it is a read from storage. Milliseconds.
pub(super) const MISS_MS_LEAST: f64 = 0.02;
pub(super) const MISS_MS_WITHOUT_PAGE_CACHE: f64 = 0.5;

/// A read from storage, where nothing has measured it: an SSD of the network, or a good one with a queue. Milliseconds.
const STORAGE_MS: f64 = 0.5;

/// Of the memory beside shared_buffers, what the page cache can have, where it cannot be seen.
const PAGE_CACHE_SHARE: f64 = 0.9;

/// So long it takes to write a dirty buffer, which is a copy to the page cache, where nothing has measured it. Milliseconds.
const WRITE_MS_LEAST: f64 = 0.02;

/// Misses are costly where they take this share of what the server does, or more.
const COSTLY_SHARE: f64 = 0.05;

/// A shared_buffers beyond this share of the machine's memory leaves the page cache too little to absorb writes.
const STARVING_SHARE: f64 = 0.8;

/// Where what is read (or, if that is not known, all databases) is so many times what the machine could give, a larger shared_buffers finds little more.
const HOPELESS_TIMES: f64 = 4.0;

/// What the databases grow by before anybody looks again.
const GROWTH: f64 = 1.25;

/// Dirty buffers of this share absorb writes: a pool with so many is not called too large.
const WRITING_SHARE: f64 = 0.25;

/// PostgreSQL's default, and the least that is recommended. From the other one on, saving memory is worth a restart.
const LEAST_BYTES: u64 = 128 << 20;
const WORTH_SAVING_BYTES: u64 = 1 << 30;

/// What is said of the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Misses cost what a larger one would save.
    TooSmall,
    /// Misses cost much, and the machine has no memory that would help.
    MachineTooSmall,
    /// Neither too small nor too large.
    Fits,
    /// Much of it holds what nobody asks for, or nothing.
    LargerThanNeeded,
    /// The server has not been up for long enough.
    TooEarly,
    /// Too little is known.
    CannotTell,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Factor {
    /// How many misses there are in a second, and what one costs.
    Misses,
    /// Usage counts.
    UsageCounts,
    /// Dirty buffers.
    DirtyBuffers,
    /// Buffers that hold nothing.
    UnusedBuffers,
    /// Size of all databases.
    DataSize,
    /// Memory of the machine, the page cache among it.
    Memory,
    /// How long the server has been up.
    Uptime,
}

/// What is known beside the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// shared_buffers.
    pub size_bytes: u64,
    /// Memory of the server's machine, where it can be seen or was given.
    pub ram_bytes: Option<u64>,
    /// Processors of the same.
    pub cores: Option<u32>,
    /// The operating system's page cache, where it can be seen.
    pub page_cache_bytes: Option<u64>,
    /// What the page cache can hold (MemAvailable), where it can be seen.
    pub available_bytes: Option<u64>,
    /// Size of all databases together, where it may be asked for.
    pub data_bytes: Option<u64>,
    /// Size of the connected database's tables and indexes that were read while looking: more than the working set. None
    /// where the load is mostly in other databases.
    pub read_relations_bytes: Option<u64>,
    /// Since the server's start.
    pub uptime: Option<Duration>,
    /// Whether the storage bypasses the operating system's cache (Aurora).
    pub without_page_cache: bool,
    /// Blocks asked for while looking.
    pub reads_now: Option<Reads>,
    /// The same since the counters began.
    pub reads_before: Option<Reads>,
    /// Sessions at work, on average.
    pub active_mean: Option<f64>,
}

/// A verdict with its reasons and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// What decided, the most important first.
    pub decided_by: Vec<Factor>,
    /// In one sentence.
    pub summary: String,
    /// The evidence, one sentence each.
    pub reasons: Vec<String>,
    /// shared_buffers to try next, where the verdict asks for another; a restart is needed for it.
    pub suggested_bytes: Option<u64>,
}

/// What the misses cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MissCost {
    pub(super) reads: Reads,
    /// Of one, milliseconds: the read, and writing the dirty buffer in its place where there is one.
    pub(super) ms: f64,
    /// Share of what the server does, 0 to 1 and beyond.
    pub(super) share: f64,
    /// The same where nothing has measured the reads, and those blocks come from storage which the page cache cannot hold.
    pub(super) most: Option<Dear>,
}

/// What misses may cost at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dear {
    /// Of one, milliseconds.
    pub(super) ms: f64,
    /// Share of what the server does.
    pub(super) share: f64,
}

/// Judges. `usage` is None where the histogram cannot be seen.
pub fn judge(usage: Option<&UsageCounts>, around: &Circumstances) -> Judgement {
    let cost = miss_cost(usage, around);
    let (verdict, decided_by, suggested_bytes) = decide(usage, around, cost.as_ref());
    Judgement {
        verdict,
        summary: summary(verdict, around.size_bytes, suggested_bytes, &decided_by),
        reasons: reasons(usage, around, cost.as_ref()),
        decided_by,
        suggested_bytes,
    }
}

impl MissCost {
    pub(super) fn is_much(&self) -> bool {
        self.share >= COSTLY_SHARE
    }

    /// Whether they may cost much, or little: nothing tells.
    pub(super) fn may_be_much(&self) -> bool {
        !self.is_much() && self.most.is_some_and(|most| most.share >= COSTLY_SHARE)
    }
}

/// Of the look where the server was at work, else of its history; None where neither tells.
fn miss_cost(usage: Option<&UsageCounts>, around: &Circumstances) -> Option<MissCost> {
    let now = around.reads_now.filter(|reads| reads.asked_per_second() >= ASKED_LEAST);
    let before = around.reads_before.filter(|reads| reads.asked_per_second() > 0.0);
    let reads = now.or(before)?;
    let details = reads.details;
    let least = match around.without_page_cache {
        true => MISS_MS_WITHOUT_PAGE_CACHE,
        false => MISS_MS_LEAST,
    };
    let measured = details.and_then(|details| details.read_ms).or(reads.miss_ms);
    let ms = measured.unwrap_or(least).max(MISS_MS_LEAST) + write_ms(usage, around, details.as_ref());
    let cores = around.cores.map_or(f64::INFINITY, f64::from);
    let busy = around.active_mean.unwrap_or(1.0).min(cores).max(1.0);
    // A larger shared_buffers does not save what large scans read.
    let saved = 1.0 - details.map_or(0.0, |details| details.ring_share);
    let share = |ms: f64| reads.misses_per_second * saved * ms / 1000.0 / busy;
    let from_storage = match measured.is_none() && !around.without_page_cache {
        true => beyond_page_cache(around),
        false => 0.0,
    };
    let most = (from_storage > 0.0).then(|| {
        let ms = ms + from_storage * STORAGE_MS;
        Dear { ms, share: share(ms) }
    });
    Some(MissCost {
        reads,
        ms,
        share: share(ms),
        most,
    })
}

/// The share of the data outside shared_buffers that the page cache cannot hold either; all of it where that is not known.
fn beyond_page_cache(around: &Circumstances) -> f64 {
    let beside = |ram: u64| (ram.saturating_sub(around.size_bytes) as f64 * PAGE_CACHE_SHARE) as u64;
    let page_cache = around.available_bytes.or(around.ram_bytes.map(beside));
    let Some((data, page_cache)) = around.data_bytes.zip(page_cache) else {
        return 1.0;
    };
    let outside = data.saturating_sub(around.size_bytes).max(1);
    1.0 - (page_cache as f64 / outside as f64).min(1.0)
}

/// What writing dirty buffers adds to a miss: as pg_stat_io counts it, else as if a buffer in the way of a block were as
/// likely to be dirty as any. Storage without a page cache (Aurora) takes no blocks from the server.
fn write_ms(usage: Option<&UsageCounts>, around: &Circumstances, details: Option<&MissDetails>) -> f64 {
    match details {
        Some(details) => details.writes_per_miss * details.write_ms.unwrap_or(WRITE_MS_LEAST),
        None if around.without_page_cache => 0.0,
        None => usage.map_or(0.0, dirty_share) * WRITE_MS_LEAST,
    }
}

pub(super) fn dirty_share(usage: &UsageCounts) -> f64 {
    usage.dirty() as f64 / usage.used().max(1) as f64
}

type Decision = (Verdict, Vec<Factor>, Option<u64>);

fn decide(usage: Option<&UsageCounts>, around: &Circumstances, cost: Option<&MissCost>) -> Decision {
    let size = around.size_bytes;
    let most = around
        .ram_bytes
        .map(|ram| shared_buffers_most(ram, around.without_page_cache));
    let whole = around
        .data_bytes
        .map(|data| round_up_bytes((data as f64 * GROWTH) as u64).max(LEAST_BYTES));
    let starves = around
        .ram_bytes
        .is_some_and(|ram| size as f64 > STARVING_SHARE * ram as f64);
    if starves && !around.without_page_cache {
        let wanted = most.map(|most| whole.map_or(most, |whole| whole.min(most)));
        return (Verdict::LargerThanNeeded, vec![Factor::Memory], wanted);
    }
    if around.data_bytes.is_some_and(|data| data <= size) {
        let saving = whole.filter(|whole| size >= WORTH_SAVING_BYTES && *whole <= size / 2);
        let verdict = saving.map_or(Verdict::Fits, |_| Verdict::LargerThanNeeded);
        return (verdict, vec![Factor::DataSize], saving);
    }
    if around.uptime.is_some_and(|uptime| uptime < UPTIME_LEAST) {
        return (Verdict::TooEarly, vec![Factor::Uptime], None);
    }
    if let Some(usage) = usage.filter(|usage| usage.unused_share() > UNFILLED_SHARE) {
        return unfilled(usage, around);
    }
    match cost {
        Some(cost) if cost.is_much() => costly(usage, around, most),
        // The data is larger than the memory, or nobody knows: a miss is a copy or a read from storage.
        Some(cost) if cost.may_be_much() => (Verdict::CannotTell, vec![Factor::Memory, Factor::Misses], None),
        Some(_) => cheap(usage, size),
        None => unknown_cost(usage, around),
    }
}

/// Some of it has never been used.
fn unfilled(usage: &UsageCounts, around: &Circumstances) -> Decision {
    if around.uptime.is_some_and(|uptime| uptime < UPTIME_MIN) {
        return (Verdict::TooEarly, vec![Factor::Uptime, Factor::UnusedBuffers], None);
    }
    // Nothing had to give way yet, so that it holds whatever has been read.
    let held = (usage.used() * usage.block_bytes) as f64 * GROWTH;
    let suggested = round_up_bytes(held as u64).max(LEAST_BYTES);
    let saving = Some(suggested).filter(|suggested| {
        usage.unused_share() > MOSTLY
            && around.size_bytes >= WORTH_SAVING_BYTES
            && *suggested <= around.size_bytes / 3 * 2
    });
    let verdict = saving.map_or(Verdict::Fits, |_| Verdict::LargerThanNeeded);
    (verdict, vec![Factor::UnusedBuffers], saving)
}

/// It is full, or may be, and misses cost much.
fn costly(usage: Option<&UsageCounts>, around: &Circumstances, most: Option<u64>) -> Decision {
    let mut factors = vec![Factor::Misses];
    if usage.is_some_and(|usage| dirty_share(usage) > WRITING_SHARE) {
        factors.push(Factor::DirtyBuffers);
    }
    let start = around
        .ram_bytes
        .map(|ram| shared_buffers_start(ram, around.without_page_cache));
    let asked_for = around.read_relations_bytes.or(around.data_bytes);
    let hopeless = asked_for
        .zip(most)
        .is_some_and(|(data, most)| data as f64 > HOPELESS_TIMES * most as f64)
        && start.is_some_and(|start| around.size_bytes >= start)
        && usage.is_some_and(|usage| usage.share(4..=5) <= MOSTLY);
    let Some(larger) = larger(around, start, most).filter(|_| !hopeless) else {
        factors.push(Factor::Memory);
        return (Verdict::MachineTooSmall, factors, None);
    };
    if around.data_bytes.is_some() {
        factors.push(Factor::DataSize);
    }
    (Verdict::TooSmall, factors, Some(larger))
}

/// It is full, and misses cost little.
fn cheap(usage: Option<&UsageCounts>, size: u64) -> Decision {
    let cold = usage.filter(|usage| usage.share(0..=1) > MOSTLY && dirty_share(usage) <= WRITING_SHARE);
    match cold.and_then(|usage| smaller(usage, size)) {
        Some(saving) => (
            Verdict::LargerThanNeeded,
            vec![Factor::Misses, Factor::UsageCounts],
            Some(saving),
        ),
        None => (Verdict::Fits, vec![Factor::Misses], None),
    }
}

/// Nothing is known of misses: the usage counts alone, or how it compares with the machine.
fn unknown_cost(usage: Option<&UsageCounts>, around: &Circumstances) -> Decision {
    let start = around
        .ram_bytes
        .map(|ram| shared_buffers_start(ram, around.without_page_cache));
    let most = around
        .ram_bytes
        .map(|ram| shared_buffers_most(ram, around.without_page_cache));
    let hot = usage.is_some_and(|usage| usage.share(4..=5) > MOSTLY);
    let far_below = start.is_some_and(|start| around.size_bytes <= start / 2) && around.data_bytes.is_some();
    let factors = match (hot, far_below) {
        (true, _) => vec![Factor::UsageCounts],
        (false, true) => vec![Factor::Memory, Factor::DataSize],
        (false, false) => return (Verdict::CannotTell, vec![Factor::Misses], None),
    };
    match larger(around, start, most) {
        Some(larger) => (Verdict::TooSmall, factors, Some(larger)),
        None => (
            Verdict::MachineTooSmall,
            vec![Factor::UsageCounts, Factor::Memory],
            None,
        ),
    }
}

/// The next size up: the usual starting point where that is far, else twice the size; no more than there is data, with what
/// it grows by, and no more than the machine should give.
fn larger(around: &Circumstances, start: Option<u64>, most: Option<u64>) -> Option<u64> {
    let wanted = start.unwrap_or(0).max(around.size_bytes.saturating_mul(2));
    let whole = around.data_bytes.map_or(u64::MAX, |data| (data as f64 * GROWTH) as u64);
    let allowed = round_up_bytes(wanted.min(whole).min(most.unwrap_or(u64::MAX)));
    (allowed > around.size_bytes).then_some(allowed)
}

/// What is asked for again (usage count 2 and above), with half as much on top; None where that saves less than a third.
fn smaller(usage: &UsageCounts, size: u64) -> Option<u64> {
    let wanted: u64 = usage.levels[2..].iter().map(|level| level.buffers).sum::<u64>() * usage.block_bytes;
    let suggested = round_up_bytes((wanted + wanted / 2).max(LEAST_BYTES));
    (suggested <= size / 3 * 2).then_some(suggested)
}
