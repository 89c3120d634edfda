//! The facts as inputs of `pgweir_maths`. All rules ask here, so that a report says one number for each size.

use super::console::PoolerFacts;
use super::facts::Facts;
use crate::cache::{self, Circumstances, Judgement};
use pgweir_maths::{
    ConnectionInputs, PoolInputs, Sized, TogetherInputs, connections_that_fit, max_connections, pool_size,
};

/// Servers of a pool; None where neither the processors are known nor what pgweir has found.
pub(super) fn pool(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Sized> {
    pool_size(&PoolInputs {
        cores: facts.cores,
        spindles: facts.spindles,
        measured: pooler.and_then(PoolerFacts::found),
    })
}

/// Servers that all pools together may have at work, whatever the processors are waiting for; None where those are not known.
pub(super) fn most_at_work(facts: &Facts) -> Option<u32> {
    Some(pgweir_maths::most_at_work(facts.cores?, facts.spindles))
}

/// Connections that PostgreSQL allows to ordinary roles.
pub(super) fn allowed(facts: &Facts) -> u32 {
    let settings = &facts.settings;
    settings
        .memory
        .max_connections
        .saturating_sub(settings.reserved_connections)
}

/// max_db_connections, where the pools may have `wanted` servers together; None where nothing is to be bounded.
pub(super) fn all_pools(facts: &Facts, pooler: Option<&PoolerFacts>, wanted: u32) -> Option<Sized> {
    pgweir_maths::all_pools(&TogetherInputs {
        cores: facts.cores,
        spindles: facts.spindles,
        pool_size: pool(facts, pooler).map_or(0, |pool| pool.value),
        allowed: allowed(facts),
        wanted: Some(wanted),
    })
}

/// Servers that the pools of a pooler may have together once its user has followed the advice on them.
fn servers_wanted(facts: &Facts, pooler: &PoolerFacts) -> u32 {
    let most = u64::from(most_at_work(facts).unwrap_or(u32::MAX));
    let suggested = pool(facts, Some(pooler)).map_or(u64::MAX, |pool| u64::from(pool.value));
    let servers = pooler.servers_allowed(|pool| match pool.is_too_large(most) {
        true => pool.size().min(suggested),
        false => pool.size(),
    });
    // The search of pgweir may go as far as PostgreSQL allows where pool_size_max does not bound it: that follows
    // max_connections, and not the other way round.
    let searched = pooler
        .sizings
        .iter()
        .map(|sizing| match sizing.servers_max >= u64::from(allowed(facts)) {
            true => (2 * sizing.settled).saturating_add(sizing.held).min(sizing.servers_max),
            false => sizing.servers_max,
        });
    let servers = searched.fold(servers, u64::saturating_add);
    let servers = u32::try_from(servers).unwrap_or(u32::MAX);
    match servers > allowed(facts) {
        true => all_pools(facts, Some(pooler), servers).map_or(servers, |all| all.value),
        false => servers,
    }
}

/// max_connections, with a pooler before the server; None where no size of a pool is known.
pub(super) fn connections(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Sized> {
    let sessions = &facts.sessions;
    let pooler = pooler.filter(|pooler| !pooler.pools.is_empty());
    let pools = pooler.map_or(sessions.pools, |pooler| {
        u32::try_from(pooler.pools.len()).unwrap_or(u32::MAX)
    });
    Some(max_connections(&ConnectionInputs {
        pools,
        pool_size: pool(facts, pooler)?.value,
        servers: pooler.map(|pooler| servers_wanted(facts, pooler)),
        // The most connections and the most servers, which were not seen at the same moment.
        other_applications: pooler.map(|pooler| {
            let servers = u32::try_from(pooler.servers_most).unwrap_or(u32::MAX);
            sessions.total.saturating_sub(servers)
        }),
        replicas: facts.settings.replicas,
        reserved: facts.settings.reserved_connections,
        peak: None,
        fits: facts
            .ram_bytes
            .map(|ram| connections_that_fit(&facts.settings.memory.with_rest(ram), ram)),
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
