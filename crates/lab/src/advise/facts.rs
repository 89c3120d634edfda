//! What is known of a server. What could not be seen is None, and no rule guesses it.

use crate::cache::{Reads, ServerFacts, UsageCounts};
use pgweir_maths::MemorySettings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything the rules look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    /// The server.
    pub server: ServerFacts,
    /// Its settings.
    pub settings: Settings,
    /// Its client connections.
    pub sessions: Sessions,
    /// Memory of its machine.
    pub ram_bytes: Option<u64>,
    /// Processors of its machine.
    pub cores: Option<u32>,
    /// Disks that work side by side, as the user says.
    pub spindles: u32,
    /// Size of all databases.
    pub data_bytes: Option<u64>,
    /// Size of the connected database's tables and indexes that were read while looking.
    pub read_relations_bytes: Option<u64>,
    /// Blocks asked for while looking.
    pub reads_now: Option<Reads>,
    /// The same since the counters began.
    pub reads_before: Option<Reads>,
    /// Usage counts of shared_buffers.
    pub usage: Option<UsageCounts>,
    /// What /proc says of the machine.
    pub machine: Option<MachineFacts>,
    /// What backends use.
    pub backends: Option<BackendMemory>,
}

/// Settings of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// What the memory budget takes; `rest_bytes` is 0.
    pub memory: MemorySettings,
    /// hash_mem_multiplier, in thousandths.
    pub hash_mem_multiplier_thousandths: u64,
    /// superuser_reserved_connections and reserved_connections.
    pub reserved_connections: u32,
    /// max_wal_senders where replicas count in max_connections, which is before PostgreSQL 12; 0 otherwise.
    pub replicas: u32,
    /// idle_in_transaction_session_timeout, milliseconds; 0: none.
    pub idle_in_transaction_timeout_ms: u64,
    /// huge_pages: on, off or try.
    pub huge_pages: String,
    /// huge_pages_status, from PostgreSQL 17 on: whether they are in use.
    pub huge_pages_status: Option<String>,
    /// shared_memory_size_in_huge_pages, from PostgreSQL 15 on; None where the system has none.
    pub shared_memory_huge_pages: Option<u64>,
}

/// Client connections other than ours, over all looks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sessions {
    /// How many: the most at one look.
    pub total: u32,
    /// Pairs of a database and a user among them: so many pools a pooler would have.
    pub pools: u32,
    /// Those whose state may not be seen, at the last look.
    pub hidden: u32,
    /// Between transactions: the fewest at one look.
    pub idle: u32,
    /// The longest time one has been idle.
    pub idle_longest: Duration,
    /// In a transaction, and doing nothing: the most at one look.
    pub idle_in_transaction: u32,
    /// The longest of those transactions, at any look.
    pub idle_in_transaction_longest: Duration,
    /// Whose that is: `pid 4242, user bob, application psql`.
    pub idle_in_transaction_who: String,
    /// At work: mean over the looks.
    pub active_mean: f64,
    /// At work: most at one look.
    pub active_most: u32,
    /// What those at work were doing, by wait_event_type; `CPU` for those that did not wait. Mean over the looks.
    pub active_waits: BTreeMap<String, f64>,
    /// New connections in a second, from PostgreSQL 14 on.
    pub opened_per_second: Option<f64>,
    /// Transactions in a second, our own not counted.
    pub transactions_per_second: Option<f64>,
    /// How often was looked.
    pub looks: u32,
    /// For how long.
    pub watched: Duration,
    /// Whether a signal ended that before its time.
    pub ended_early: bool,
}

/// What /proc/meminfo says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// Cached: the page cache.
    pub page_cache_bytes: u64,
    /// MemAvailable.
    pub available_bytes: u64,
    /// PageTables of all processes together.
    pub page_tables_bytes: u64,
    /// Huge pages.
    pub huge_pages: HugePages,
}

/// The kernel's pool of huge pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// HugePages_Total.
    pub total: u64,
    /// HugePages_Free.
    pub free: u64,
    /// Hugepagesize.
    pub size_bytes: u64,
}

/// Memory of client backends that is theirs alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BackendMemory {
    /// How many were looked at.
    pub backends: u32,
    /// Their private memory together (RssAnon of /proc/PID/status).
    pub private_bytes: u64,
    /// Their page tables together (VmPTE).
    pub page_table_bytes: u64,
    /// The largest private memory of one, page tables included.
    pub largest_bytes: u64,
}

impl BackendMemory {
    /// What one takes on average, page tables included.
    pub fn mean_bytes(&self) -> u64 {
        (self.private_bytes + self.page_table_bytes) / u64::from(self.backends.max(1))
    }
}
