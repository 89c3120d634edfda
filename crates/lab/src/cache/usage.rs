//! The usage counts of shared_buffers: how often the clock sweep would have to pass before a buffer is given away.
//!
//! Each buffer carries a count from 0 to 5 (BM_MAX_USAGE_COUNT of PostgreSQL's buf_internals.h). An access raises it, each
//! pass of the sweep in search of a victim lowers it, and a buffer at 0 is reused. So the histogram shows pressure: many
//! at 4 and 5 are pages in constant use; many at 0 and 1 are pages that nobody asked for again.

use serde::{Deserialize, Serialize};

/// Greatest usage count, PostgreSQL's BM_MAX_USAGE_COUNT.
pub const USAGE_COUNT_MAX: usize = 5;

/// Buffers with one usage count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLevel {
    /// How many.
    pub buffers: u64,
    /// How many of them differ from their block on disk.
    pub dirty: u64,
    /// How many of them a backend holds at this moment.
    pub pinned: u64,
}

/// The whole of shared_buffers by usage count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageCounts {
    /// Size of a buffer, PostgreSQL's block_size.
    pub block_bytes: u64,
    /// Buffers that hold a block, by usage count 0 to 5.
    pub levels: [UsageLevel; USAGE_COUNT_MAX + 1],
    /// Buffers that hold nothing yet.
    pub unused: u64,
}

impl UsageCounts {
    /// All buffers of the pool.
    pub fn buffers(&self) -> u64 {
        self.used() + self.unused
    }

    /// Those that hold a block.
    pub fn used(&self) -> u64 {
        self.levels.iter().map(|level| level.buffers).sum()
    }

    /// Those that must be written before they can be reused.
    pub fn dirty(&self) -> u64 {
        self.levels.iter().map(|level| level.dirty).sum()
    }

    /// Buffers of these usage counts as a share of all, 0 to 1.
    pub fn share(&self, counts: std::ops::RangeInclusive<usize>) -> f64 {
        let buffers: u64 = self.levels[counts].iter().map(|level| level.buffers).sum();
        buffers as f64 / self.buffers().max(1) as f64
    }

    /// Unused buffers as a share of all, 0 to 1.
    pub fn unused_share(&self) -> f64 {
        self.unused as f64 / self.buffers().max(1) as f64
    }
}
