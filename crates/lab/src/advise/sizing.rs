//! The facts as inputs of `pgweir_maths`. All rules ask here, so that a report says one number for each size.

use super::console::PoolerFacts;
use super::facts::Facts;
use super::memory::settings_with_rest;
use crate::cache::{self, Circumstances, Judgement};
use pgweir_maths::{Budget, ConnectionInputs, MemorySettings, PoolInputs, Sized, max_connections, pool_size};

/// work_mem supposed where only the number of connections is asked for: PostgreSQL's default.
const WORK_MEM_BYTES: u64 = 4 << 20;

/// Servers of a pool; None where the processors are not known.
pub(super) fn pool(facts: &Facts) -> Option<Sized> {
    pool_size(&PoolInputs {
        cores: facts.cores,
        spindles: facts.spindles,
        measured: None,
    })
}

/// More servers at work for each processor than this only wait for one another.
const SERVERS_PER_CORE: u32 = 4;

/// Servers that all pools together may have at work, whatever the processors are waiting for; None where those are not known.
pub(super) fn most_at_work(facts: &Facts) -> Option<u32> {
    let cores = facts.cores?;
    Some(SERVERS_PER_CORE.saturating_mul(cores).saturating_add(facts.spindles))
}

/// max_db_connections, where the pools may have `wanted` servers together; None where nothing is to be bounded.
pub(super) fn all_pools(facts: &Facts, wanted: u32) -> Option<Sized> {
    let settings = &facts.settings;
    let allowed = settings
        .memory
        .max_connections
        .saturating_sub(settings.reserved_connections);
    // A tenth stays free for applications that do not come through the pooler.
    let allowed = (allowed.saturating_mul(9) / 10).max(1);
    let most = most_at_work(facts).unwrap_or(u32::MAX);
    let value = most.min(allowed);
    let because = match most <= allowed {
        true => format!(
            "all pools together may have {wanted} servers, and beyond about {most}, {SERVERS_PER_CORE} for each processor, they \
             only wait for one another (it holds for each database)"
        ),
        false => {
            format!("all pools together may have {wanted} servers, and PostgreSQL has room for {allowed} beside others")
        }
    };
    (wanted > value).then_some(Sized { value, because })
}

/// max_connections, with a pooler before the server; None where the processors are not known.
pub(super) fn connections(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Sized> {
    let sessions = &facts.sessions;
    let (pools, other_applications) = match pooler {
        Some(pooler) => {
            let servers: u64 = pooler
                .pools
                .iter()
                .map(|pool| pool.servers_active + pool.servers_idle)
                .sum();
            let servers = u32::try_from(servers).unwrap_or(u32::MAX);
            (pooler.pools.len() as u32, sessions.total.saturating_sub(servers))
        }
        // All of them come through the pooler then.
        None => (sessions.pools, 0),
    };
    let fits = settings_with_rest(facts).map(|(settings, ram)| {
        let settings = MemorySettings {
            work_mem_bytes: settings.work_mem_bytes.min(WORK_MEM_BYTES),
            ..settings
        };
        u32::try_from(Budget::of(&settings).connections_that_fit(ram)).unwrap_or(u32::MAX)
    });
    Some(max_connections(&ConnectionInputs {
        pools,
        pool_size: pool(facts)?.value,
        other_applications,
        replicas: facts.settings.replicas,
        reserved: facts.settings.reserved_connections,
        peak: None,
        fits,
    }))
}

/// The verdict of `pgweir cache`.
pub(super) fn shared_buffers(facts: &Facts) -> Judgement {
    let around = Circumstances {
        size_bytes: facts.settings.memory.shared_buffers_bytes,
        ram_bytes: facts.ram_bytes,
        cores: facts.cores,
        page_cache_bytes: facts.machine.as_ref().map(|machine| machine.page_cache_bytes),
        available_bytes: facts.machine.as_ref().map(|machine| machine.available_bytes),
        data_bytes: facts.data_bytes,
        read_relations_bytes: facts.read_relations_bytes,
        uptime: Some(facts.server.uptime),
        without_page_cache: facts.server.without_page_cache,
        reads_now: facts.reads_now,
        reads_before: facts.reads_before,
        active_mean: Some(facts.sessions.active_mean),
    };
    cache::judge(facts.usage.as_ref(), &around)
}
