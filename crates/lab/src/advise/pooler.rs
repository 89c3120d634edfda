//! Rules about a running PgBouncer or pgweir: sizes, waits, modes.

use super::console::{PoolFacts, PoolerFacts, SizingFacts};
use super::facts::Facts;
use super::finding::{Finding, PGBOUNCER_INI, Severity};
use super::sizing;
use pgweir_maths::min_pool_size;
use std::net::IpAddr;

/// A first in the queue that has waited for so long, microseconds, is one whom somebody notices.
const WAIT_NOTICED_US: u64 = 1_000_000;

/// Share of max_client_conn in use from which it gets tight.
const TIGHT_SHARE: f64 = 0.8;

pub(super) fn judge(pooler: &PoolerFacts, facts: Option<&Facts>) -> Vec<Finding> {
    let waits = pooler.pools.iter().filter_map(|pool| waits(pool, pooler, facts));
    let mut findings: Vec<Finding> = waits.collect();
    if findings.is_empty() {
        findings.push(Finding::new(
            "pooler.waits",
            Severity::Fine,
            "no client waits for a server",
        ));
    }
    findings.extend(pooler.pools.iter().filter_map(mode));
    findings.extend(pooler.pools.iter().filter_map(|pool| too_large(pool, pooler, facts)));
    findings.extend(sum(pooler, facts));
    findings.extend(pooler.sizings.iter().map(sizes));
    findings.extend(clients(pooler));
    findings.extend(prepared(pooler));
    findings.extend(warm(pooler, facts));
    findings.extend(loopback(pooler));
    findings
}

/// A queue: is it admission control at work, or a pool too small?
fn waits(pool: &PoolFacts, pooler: &PoolerFacts, facts: Option<&Facts>) -> Option<Finding> {
    if pool.clients_waiting == 0 {
        return None;
    }
    let noticed = pool.wait_longest_us >= WAIT_NOTICED_US;
    let size = pool.size();
    let pool_size = facts.and_then(|facts| sizing::pool(facts, Some(pooler)));
    let enough = pool_size.is_some_and(|sized| size >= u64::from(sized.value));
    let severity = if noticed { Severity::Warning } else { Severity::Advice };
    let waiting = match pool.clients_waiting {
        1 => "1 client waits".to_owned(),
        many => format!("{many} clients wait"),
    };
    let title = format!(
        "{waiting} for a server, the first for {} ms ({})",
        pool.wait_longest_us / 1000,
        pool.name()
    );
    let finding = queue_evidence(Finding::new("pooler.waits", severity, title), pool);
    let held = pool.mode == "session";
    Some(if pool.finds_size {
        let found = pooler.sizings.iter().all(SizingFacts::has_found);
        let mut finding = finding
            .evidence(match found {
                true => "its size is auto: pgweir has found by experiment that more servers at work would not do more (SHOW SIZING)",
                false => "its size is auto: pgweir looks for the best one by experiment while clients wait (SHOW SIZING)",
            })
            .risk("with sizing = hold, or a small pool_size_max, it cannot grow");
        finding.severity = Severity::Advice;
        finding
    } else if held && enough {
        finding
            .evidence("in session pooling a server stays with its client, at work or not, until that client leaves")
            .risk("more servers would be held in the same way; in transaction pooling a few serve all clients")
    } else if enough {
        finding
            .evidence(
                "the pool has as many servers as the processors can use: the queue keeps the server from collapse",
            )
            .risk(
                "a larger pool would move the queue into PostgreSQL; make transactions shorter, or the machine larger",
            )
    } else {
        larger(finding, pooler, facts)
    })
}

/// The figures of a queue.
fn queue_evidence(finding: Finding, pool: &PoolFacts) -> Finding {
    let mut finding = finding.evidence(format!(
        "{} servers at work, {} idle, pool_size {}",
        pool.servers_active,
        pool.servers_idle,
        pool.size()
    ));
    if pool.looks > 2 {
        finding = finding.evidence(format!(
            "clients waited at {} of {} looks",
            pool.looks_waiting, pool.looks
        ));
    }
    if let (Some(wait), Some(transaction)) = (pool.wait_mean_us, pool.transaction_mean_us) {
        finding = finding.evidence(format!(
            "on average a client waits {:.1} ms for transactions of {:.1} ms",
            wait as f64 / 1000.0,
            transaction as f64 / 1000.0
        ));
    }
    finding
}

/// The pool is too small.
fn larger(finding: Finding, pooler: &PoolerFacts, facts: Option<&Facts>) -> Finding {
    let finding = match facts.and_then(|facts| sizing::pool(facts, Some(pooler))) {
        Some(_) => {
            let finding = with_size(finding, pooler, facts);
            match pooler.version.starts_with("pgweir") && !pooler.finds_sizes() {
                true => finding.evidence(
                    "or default_pool_size = auto: then pgweir finds by experiment how many are best, and follows the load",
                ),
                false => finding,
            }
        }
        None => finding.evidence("how many servers are best depends on the processors: give their number with --cores"),
    };
    finding.risk("more servers at work; pgweir lab connections measures how many are best")
}

/// Adds the size that a pool should have. Where other pools find theirs, a line would end that.
fn with_size(finding: Finding, pooler: &PoolerFacts, facts: Option<&Facts>) -> Finding {
    let Some(sized) = facts.and_then(|facts| sizing::pool(facts, Some(pooler))) else {
        return finding;
    };
    match pooler.finds_sizes() {
        true => finding.evidence(format!(
            "{} servers would do ({}); with pool_size = auto in the entry of its database pgweir finds the size, as for others",
            sized.value, sized.because
        )),
        false => finding
            .evidence(format!("default_pool_size = {}: {}", sized.value, sized.because))
            .change(PGBOUNCER_INI, format!("default_pool_size = {}", sized.value)),
    }
}

/// Session pooling holds a server for each client.
fn mode(pool: &PoolFacts) -> Option<Finding> {
    if pool.mode != "session" || pool.clients_active + pool.clients_waiting < 2 {
        return None;
    }
    let severity = if pool.clients_waiting > 0 {
        Severity::Warning
    } else {
        Severity::Advice
    };
    Some(
        Finding::new(
            "pooler.mode",
            severity,
            format!("session pooling saves no server ({})", pool.name()),
        )
        .evidence(format!(
            "{} clients hold {} servers for as long as they are connected",
            pool.clients_active, pool.servers_active
        ))
        .change(PGBOUNCER_INI, "pool_mode = transaction")
        .risk(
            "PgBouncer keeps no SET, LISTEN, temporary tables or advisory locks across transactions, and pgweir does",
        ),
    )
}

/// A pool larger than the machine can use.
fn too_large(pool: &PoolFacts, pooler: &PoolerFacts, facts: Option<&Facts>) -> Option<Finding> {
    let facts = facts?;
    let cores = facts.cores?;
    let size = pool.size?;
    let most = u64::from(sizing::most_at_work(facts)?);
    if !pool.is_too_large(most) {
        return None;
    }
    let title = format!(
        "{} servers work at once on {cores} processors ({})",
        pool.servers_active,
        pool.name()
    );
    let finding = Finding::new("pooler.too_large", Severity::Warning, title).evidence(format!(
        "pool_size is {size}; beyond about {most} more servers only wait for one another"
    ));
    Some(
        with_size(finding, pooler, Some(facts))
            .risk("a pool too small leaves processors idle: pgweir lab connections measures where the peak is"),
    )
}

/// All pools together against max_connections.
fn sum(pooler: &PoolerFacts, facts: Option<&Facts>) -> Option<Finding> {
    let facts = facts?;
    let found = pooler.sizings.iter().map(|sizing| sizing.servers_max);
    let sum = found.fold(pooler.servers_allowed(PoolFacts::size), u64::saturating_add);
    let allowed = u64::from(sizing::allowed(facts));
    let title = format!("the pools may open {sum} servers, and PostgreSQL allows {allowed}");
    if sum <= allowed {
        return Some(Finding::new("pooler.sum", Severity::Fine, title));
    }
    let all = sizing::all_pools(facts, Some(pooler), u32::try_from(sum).unwrap_or(u32::MAX))?;
    Some(
        Finding::new("pooler.sum", Severity::Warning, title)
            .evidence("pool_size holds for each pair of database and user; reserve pools come on top")
            .evidence(format!("max_db_connections = {}: {}", all.value, all.because))
            .change(PGBOUNCER_INI, format!("max_db_connections = {}", all.value))
            .risk("pools then take turns; without a limit PostgreSQL refuses with \"too many clients already\""),
    )
}

/// What pgweir has found, or where its search begins.
fn sizes(sizing: &SizingFacts) -> Finding {
    let how = match (sizing.has_found(), sizing.is_held) {
        (true, _) => "as pgweir has found by experiment",
        (false, true) => "where pgweir's search was stopped before its first step",
        (false, false) => "where pgweir's search begins",
    };
    let title = format!("{} servers of {} may work at once, {how}", sizing.settled, sizing.hosts);
    let finding = match (sizing.is_held, &*sizing.reason) {
        (true, _) => Finding::new("pooler.sizing", Severity::Advice, title)
            .evidence("sizing is hold: this limit stays, whatever the load is")
            .change(PGBOUNCER_INI, "sizing = auto")
            .risk("experiments cost a few percent of the throughput while clients wait"),
        (false, "") => Finding::new("pooler.sizing", Severity::Fine, title)
            .evidence("clients have not waited for long enough yet to try another number"),
        (false, reason) => {
            Finding::new("pooler.sizing", Severity::Fine, title).evidence(format!("latest step: {reason}"))
        }
    };
    finding.evidence(format!(
        "{} more are held by clients with nothing for them to do; the host allows {}",
        sizing.held, sizing.servers_max
    ))
}

/// How near max_client_conn is.
fn clients(pooler: &PoolerFacts) -> Option<Finding> {
    let (limit, used) = (pooler.number("max_client_conn")?, pooler.clients?);
    let tight = used as f64 >= TIGHT_SHARE * limit as f64;
    let title = format!("{used} of {limit} client connections of the pooler are in use");
    Some(match tight {
        false => Finding::new("pooler.clients", Severity::Fine, title),
        true => Finding::new("pooler.clients", Severity::Warning, title)
            .change(PGBOUNCER_INI, format!("max_client_conn = {}", limit.saturating_mul(2)))
            .risk("each client is an open file: LimitNOFILE of the service has to be above it"),
    })
}

/// Prepared statements in transaction mode.
fn prepared(pooler: &PoolerFacts) -> Option<Finding> {
    let transaction = pooler.pools.iter().any(|pool| pool.mode == "transaction");
    if !transaction || pooler.number("max_prepared_statements") != Some(0) {
        return None;
    }
    Some(
        Finding::new(
            "pooler.prepared",
            Severity::Advice,
            "prepared statements are off in transaction pooling",
        )
        .evidence("max_prepared_statements is 0: drivers that prepare fail, or were told not to prepare")
        .change(PGBOUNCER_INI, "max_prepared_statements = 200")
        .risk("a little memory for each server"),
    )
}

/// A server on the pooler's own machine that is reached by TCP.
fn loopback(pooler: &PoolerFacts) -> Option<Finding> {
    let is_loopback = |host: &str| {
        let address = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        address || host == "localhost"
    };
    let is_own = |pool: &&PoolFacts| pool.host.as_deref().is_some_and(is_loopback);
    let pool = pooler.pools.iter().find(is_own)?;
    let host = pool.host.as_deref().unwrap_or_default();
    Some(
        Finding::new(
            "pooler.loopback",
            Severity::Advice,
            format!("servers on the pooler's own machine are reached by TCP ({})", pool.name()),
        )
        .evidence(format!(
            "host = {host}: through a Unix-domain socket a transaction costs the pooler 6 to 16 % less processor time (measured)"
        ))
        .change(PGBOUNCER_INI, format!("{} = host=/var/run/postgresql", pool.database))
        .risk(
            "keep the other keys of the line, such as port and dbname; the folder is one of the server's \
             unix_socket_directories; pg_hba.conf has lines of their own for Unix-domain sockets (local)",
        ),
    )
}

/// A pool that is empty after a quiet time forks all its servers at once.
fn warm(pooler: &PoolerFacts, facts: Option<&Facts>) -> Option<Finding> {
    if pooler.number("min_pool_size") != Some(0) || pooler.pools.is_empty() {
        return None;
    }
    let pool_size = facts.and_then(|facts| sizing::pool(facts, Some(pooler)));
    let kept = min_pool_size(pool_size.map_or(u32::MAX, |sized| sized.value));
    Some(
        Finding::new("pooler.warm", Severity::Advice, "pools may run empty")
            .evidence(
                "min_pool_size is 0: after a quiet time or a restart of the application all servers are forked at once",
            )
            .change(PGBOUNCER_INI, format!("min_pool_size = {kept}"))
            .risk("a few connections of PostgreSQL stay in use"),
    )
}

#[cfg(test)]
#[path = "pooler_tests.rs"]
mod tests;
