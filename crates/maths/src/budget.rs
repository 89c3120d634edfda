//! The memory that the settings allow, against the memory that there is.
//!
//! ```text
//! (work_mem + maintenance_work_mem + temp_buffers) x max_connections
//!   + shared_buffers + wal_buffers + commit log
//!   + the rest of the machine                                           <= RAM
//! ```
//!
//! It is the worst case and not a forecast: every connection sorts, builds an index and fills temporary tables at once.
//! It is not the worst that can happen either: a query may use work_mem once for every sort and, times
//! hash_mem_multiplier, every hash in its plan, and parallel workers have their own.

use serde::{Deserialize, Serialize};

/// Left to the kernel, to agents, and to the page cache that writes need: a tenth of the machine's memory.
const REST_SHARE: u64 = 10;

/// The settings that the formula takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// work_mem.
    pub work_mem_bytes: u64,
    /// maintenance_work_mem.
    pub maintenance_work_mem_bytes: u64,
    /// temp_buffers.
    pub temp_buffers_bytes: u64,
    /// max_connections.
    pub max_connections: u32,
    /// shared_buffers.
    pub shared_buffers_bytes: u64,
    /// wal_buffers.
    pub wal_buffers_bytes: u64,
    /// Commit log and its like (transaction_buffers and friends, from PostgreSQL 17 on settings of their own).
    pub commit_log_bytes: u64,
    /// What else runs on the machine: kernel, agents, the page cache that writes need.
    pub rest_bytes: u64,
}

impl MemorySettings {
    /// With a share of the machine's memory for the rest of the machine.
    #[must_use]
    pub fn with_rest(self, ram_bytes: u64) -> Self {
        MemorySettings {
            rest_bytes: ram_bytes / REST_SHARE,
            ..self
        }
    }
}

/// The sums, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// work_mem + maintenance_work_mem + temp_buffers.
    pub per_connection_bytes: u64,
    /// That for every connection allowed.
    pub connections_bytes: u64,
    /// shared_buffers + wal_buffers + commit log.
    pub shared_bytes: u64,
    /// The rest of the machine.
    pub rest_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

impl Budget {
    /// Adds up; sums beyond 2^64 stay there.
    pub fn of(settings: &MemorySettings) -> Self {
        let per_connection_bytes = settings
            .work_mem_bytes
            .saturating_add(settings.maintenance_work_mem_bytes)
            .saturating_add(settings.temp_buffers_bytes);
        let connections_bytes = per_connection_bytes.saturating_mul(u64::from(settings.max_connections));
        let shared_bytes = settings
            .shared_buffers_bytes
            .saturating_add(settings.wal_buffers_bytes)
            .saturating_add(settings.commit_log_bytes);
        Budget {
            per_connection_bytes,
            connections_bytes,
            shared_bytes,
            rest_bytes: settings.rest_bytes,
            total_bytes: connections_bytes
                .saturating_add(shared_bytes)
                .saturating_add(settings.rest_bytes),
        }
    }

    /// The whole as a share of the machine's memory: above 1 it does not fit.
    pub fn share_of(&self, ram_bytes: u64) -> f64 {
        self.total_bytes as f64 / ram_bytes.max(1) as f64
    }

    /// For how many connections the machine's memory is enough in the worst case; 0 where the shared part alone is too much.
    pub fn connections_that_fit(&self, ram_bytes: u64) -> u64 {
        let left = ram_bytes.saturating_sub(self.shared_bytes.saturating_add(self.rest_bytes));
        left / self.per_connection_bytes.max(1)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// PostgreSQL's defaults, as after initdb.
    pub(crate) const DEFAULTS: MemorySettings = MemorySettings {
        work_mem_bytes: 4 * MIB,
        maintenance_work_mem_bytes: 64 * MIB,
        temp_buffers_bytes: 8 * MIB,
        max_connections: 100,
        shared_buffers_bytes: 128 * MIB,
        wal_buffers_bytes: 4 * MIB,
        commit_log_bytes: MIB,
        rest_bytes: 512 * MIB,
    };

    #[test]
    fn the_formula_with_the_defaults() {
        let budget = Budget::of(&DEFAULTS);
        assert_eq!(budget.per_connection_bytes, 76 * MIB);
        assert_eq!(budget.connections_bytes, 7600 * MIB);
        assert_eq!(budget.shared_bytes, 133 * MIB);
        assert_eq!(budget.total_bytes, 8245 * MIB);
        // Just too much for 8 GiB, which is 8192 MiB.
        assert!(budget.share_of(8 * GIB) > 1.0 && budget.share_of(9 * GIB) < 1.0);
        assert_eq!(budget.connections_that_fit(8 * GIB), (8192 - 133 - 512) / 76);
    }

    #[test]
    fn the_article_machine_with_its_largest_pool() {
        // 32 GB, shared_buffers 24 GB, 500 connections of pgbench.
        let settings = MemorySettings {
            shared_buffers_bytes: 24 * GIB,
            max_connections: 500,
            ..DEFAULTS
        };
        let budget = Budget::of(&settings);
        assert!(budget.share_of(32 * GIB) > 1.9, "{}", budget.share_of(32 * GIB));
        assert_eq!(budget.connections_that_fit(32 * GIB), (8 * 1024 - 5 - 512) / 76);
    }

    #[test]
    fn absurd_settings_saturate() {
        let settings = MemorySettings {
            work_mem_bytes: u64::MAX,
            max_connections: 262_143,
            ..DEFAULTS
        };
        let budget = Budget::of(&settings);
        assert_eq!(budget.total_bytes, u64::MAX);
        assert_eq!(budget.connections_that_fit(8 * GIB), 0);
        assert_eq!(Budget::of(&MemorySettings::default()).total_bytes, 0);
    }
}
