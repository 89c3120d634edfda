//! Rules about connections: how many there are, what they do, how many may be.

use super::console::PoolerFacts;
use super::facts::{Facts, Sessions};
use super::finding::{Finding, PGBOUNCER_INI, POSTGRESQL_CONF, Severity};
use super::sizing;
use crate::progress::duration_words;
use crate::report::Unit;
use pgweir_maths::min_pool_size;
use std::time::Duration;

/// Shares of max_connections in use from which it gets tight, and from which the next burst fails.
const TIGHT_SHARE: f64 = 0.8;
const FULL_SHARE: f64 = 0.95;

/// So many idle connections cost something that can be measured, and more than this share of all is a crowd.
const IDLE_MANY: u32 = 50;
const IDLE_SHARE: f64 = 0.7;

/// A transaction may stay open and idle for so long before it harms: locks held, and vacuum held back.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(60);
const IDLE_IN_TRANSACTION_CRITICAL: Duration = Duration::from_secs(3600);

/// More at work at a time for each processor means that they wait for one another.
const ACTIVE_PER_CORE: f64 = 4.0;

/// max_connections of more than so many times the rule of thumb, and more than so many, invites a collapse.
const MAX_CONNECTIONS_FACTOR: u32 = 10;
const MAX_CONNECTIONS_MANY: u32 = 200;

/// A max_connections of more than so many times what there should be is a mistake even while few connections are open.
const MAX_CONNECTIONS_ABSURD: u32 = 5;

/// From so many new connections in a second on, opening them is work worth saving.
const OPENED_PER_SECOND: f64 = 5.0;

/// Counters since a later start than this say little.
const UPTIME_LEAST: Duration = Duration::from_secs(60);

pub(super) fn judge(facts: &Facts, pooler: Option<&PoolerFacts>) -> Vec<Finding> {
    let alone = [young(facts), idle_in_transaction(facts)];
    let rules = [room, idle, at_work, short_connections, limit];
    let pooled = rules.iter().filter_map(|rule| rule(facts, pooler));
    alone.into_iter().flatten().chain(pooled).collect()
}

/// A server that has only just started.
fn young(facts: &Facts) -> Option<Finding> {
    let uptime = facts.server.uptime;
    (uptime < UPTIME_LEAST).then(|| {
        let title = format!(
            "the server has been up for {} only: look again later",
            duration_words(uptime)
        );
        Finding::new("server.young", Severity::Advice, title)
            .evidence("what it counts since its start says little, and its caches are not filled yet")
    })
}

/// How near max_connections is.
fn room(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let sessions = &facts.sessions;
    let allowed = sizing::allowed(facts).max(1);
    let share = f64::from(sessions.total) / f64::from(allowed);
    let severity = match share {
        s if s >= FULL_SHARE => Severity::Critical,
        s if s >= TIGHT_SHARE => Severity::Warning,
        _ => Severity::Fine,
    };
    let title = format!("{} of {allowed} connections are in use", sessions.total);
    let finding = Finding::new("connections.room", severity, title).evidence(format!(
        "max_connections is {}, of which {} are reserved",
        facts.settings.memory.max_connections, facts.settings.reserved_connections
    ));
    Some(match severity {
        Severity::Fine => finding,
        _ => with_pool(finding, facts, pooler, true).risk(
            "what is above the limit is refused with \"too many clients already\"; a pooler queues it instead. More \
             max_connections costs memory and throughput, and a restart",
        ),
    })
}

/// Connections that do nothing.
fn idle(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let sessions = &facts.sessions;
    let known = sessions.total - sessions.hidden;
    if known == 0 {
        return None;
    }
    let share = f64::from(sessions.idle) / f64::from(known);
    let severity = match sessions.idle >= IDLE_MANY && share >= IDLE_SHARE {
        true => Severity::Warning,
        false => Severity::Fine,
    };
    let mut finding = Finding::new(
        "connections.idle",
        severity,
        format!("{} of {known} connections are idle", sessions.idle),
    )
    .evidence(format!("the longest for {}", duration_words(sessions.idle_longest)));
    if let Some(memory) = &facts.backends {
        let all = memory.mean_bytes() * u64::from(sessions.idle);
        finding = finding.evidence(format!(
            "a backend takes {} of its own on average, the largest {}; the idle ones together about {}",
            bytes(memory.mean_bytes()),
            bytes(memory.largest_bytes),
            bytes(all)
        ));
    }
    if severity == Severity::Fine {
        return Some(finding);
    }
    let finding =
        finding.evidence("every snapshot looks at them all, and their catalog caches take memory from the page cache");
    Some(with_pool(finding, facts, pooler, true).risk(
        "in transaction pooling servers are shared: PgBouncer then keeps no SET, LISTEN, temporary tables or advisory locks \
         across transactions, and pgweir keeps them",
    ))
}

/// Transactions that somebody forgot.
fn idle_in_transaction(facts: &Facts) -> Option<Finding> {
    let sessions = &facts.sessions;
    let longest = sessions.idle_in_transaction_longest;
    if sessions.idle_in_transaction == 0 || longest < IDLE_IN_TRANSACTION {
        let title = "no transaction has been idle for a minute";
        return (sessions.hidden == 0).then(|| Finding::new("connections.idle_in_transaction", Severity::Fine, title));
    }
    let severity = if longest >= IDLE_IN_TRANSACTION_CRITICAL {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let longest_words = duration_words(longest);
    let title = match sessions.idle_in_transaction {
        1 => format!("a connection is idle in a transaction, for {longest_words}"),
        many => format!("{many} connections are idle in a transaction, one for {longest_words}"),
    };
    let timeout = match facts.settings.idle_in_transaction_timeout_ms {
        0 => "idle_in_transaction_session_timeout is off".to_owned(),
        ms => format!(
            "idle_in_transaction_session_timeout is {}",
            duration_words(Duration::from_millis(ms))
        ),
    };
    Some(
        Finding::new("connections.idle_in_transaction", severity, title)
            .evidence(format!("the oldest: {}", sessions.idle_in_transaction_who))
            .evidence(timeout)
            .evidence("it keeps its locks, holds back vacuum, and occupies a server of any pooler")
            .change(POSTGRESQL_CONF, "idle_in_transaction_session_timeout = '1min'")
            .risk("applications that think for longer within a transaction lose their connection"),
    )
}

/// How many work at a time, and what they wait for.
fn at_work(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let sessions = &facts.sessions;
    let cores = facts.cores?;
    let per_core = sessions.active_mean / f64::from(cores.max(1));
    let locks = sessions.active_waits.get("Lock").copied().unwrap_or(0.0);
    let severity = match () {
        () if per_core > ACTIVE_PER_CORE => Severity::Warning,
        // Those that may not be seen may be at work.
        () if sessions.hidden * 2 > sessions.total => Severity::Unknown,
        () => Severity::Fine,
    };
    let title = match severity {
        Severity::Unknown => format!(
            "how many connections are at work cannot be told: this role is not allowed to see {} of {}",
            sessions.hidden, sessions.total
        ),
        _ => format!(
            "{:.1} connections are at work on {cores} processors on average",
            sessions.active_mean
        ),
    };
    let finding = at_work_evidence(Finding::new("connections.at_work", severity, title), sessions);
    match severity {
        Severity::Warning if locks > sessions.active_mean / 2.0 => Some(
            finding
                .evidence("most of them wait for a lock that another transaction holds; a smaller pool does not free it")
                .evidence(
                    "who holds it: SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
                ),
        ),
        Severity::Warning => Some(
            with_pool(finding, facts, pooler, false)
                .risk("a pool too small leaves processors idle: pgweir lab connections measures where the peak is"),
        ),
        _ => Some(finding),
    }
}

fn at_work_evidence(mut finding: Finding, sessions: &Sessions) -> Finding {
    finding = finding.evidence(format!(
        "seen {} times; the most at once: {}",
        sessions.looks, sessions.active_most
    ));
    if !sessions.active_waits.is_empty() {
        let mut waits: Vec<_> = sessions.active_waits.iter().collect();
        waits.sort_by(|a, b| b.1.total_cmp(a.1));
        let words: Vec<String> = waits.iter().map(|(event, mean)| format!("{event} {mean:.1}")).collect();
        finding = finding.evidence(format!("they are with (wait_event_type): {}", words.join(", ")));
    }
    match sessions.transactions_per_second {
        Some(tps) => finding.evidence(format!("{} transactions per second", Unit::Number.show(tps.round()))),
        None => finding,
    }
}

/// Adds transaction pooling, unless the pooler does it already.
fn with_mode(finding: Finding, pooler: Option<&PoolerFacts>) -> Finding {
    match pooler.is_some_and(PoolerFacts::is_in_transaction_mode) {
        true => finding,
        false => finding.change(PGBOUNCER_INI, "pool_mode = transaction"),
    }
}

/// Adds the size of the pool and what it follows from; where there would be several pools, also what bounds all of them.
/// `shared`: servers have to be shared for it, by transaction pooling.
fn with_pool(finding: Finding, facts: &Facts, pooler: Option<&PoolerFacts>, shared: bool) -> Finding {
    let finding = if shared { with_mode(finding, pooler) } else { finding };
    let Some(pool) = sizing::pool(facts, pooler) else {
        return finding;
    };
    if let Some(pooler) = pooler.filter(|pooler| pooler.finds_sizes()) {
        return finding.evidence(match pooler.found() {
            Some(found) => {
                format!("the pooler has found by experiment that {found} servers at work are best (SHOW SIZING)")
            }
            None => "the pooler finds by experiment how many servers are best (SHOW SIZING)".to_owned(),
        });
    }
    let finding = finding
        .evidence(format!("default_pool_size = {}: {}", pool.value, pool.because))
        .change(PGBOUNCER_INI, format!("default_pool_size = {}", pool.value));
    match sizing::all_pools(facts, pooler, facts.sessions.pools.saturating_mul(pool.value)) {
        Some(all) => finding
            .evidence(format!("max_db_connections = {}: {}", all.value, all.because))
            .change(PGBOUNCER_INI, format!("max_db_connections = {}", all.value)),
        None => finding,
    }
}

/// max_connections against the machine.
fn limit(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let (cores, pool) = (facts.cores?, sizing::pool(facts, pooler)?);
    let limit = facts.settings.memory.max_connections;
    let suggested = sizing::connections(facts, pooler)?;
    let many = limit > MAX_CONNECTIONS_MANY && limit > MAX_CONNECTIONS_FACTOR * pool.value && suggested.value < limit;
    let open = facts.sessions.total > suggested.value;
    let severity = match many {
        true if open || limit > MAX_CONNECTIONS_ABSURD * suggested.value => Severity::Warning,
        true => Severity::Advice,
        false => Severity::Fine,
    };
    let title = format!("max_connections is {limit} on {cores} processors");
    let finding = Finding::new("connections.limit", severity, title).evidence(format!(
        "about {} connections at work keep the processors busy: {}",
        pool.value, pool.because
    ));
    if !many {
        return Some(finding);
    }
    let standbys = match facts.server.in_recovery {
        true => "; a standby needs at least as many as its primary: change that one first",
        false => "; lower it here first and on standbys afterwards, which need at least as many",
    };
    Some(
        finding
            .evidence("if all of them get to work at once, throughput collapses; a queue before the server keeps it")
            .evidence(format!("max_connections = {}: {}", suggested.value, suggested.because))
            .change(POSTGRESQL_CONF, format!("max_connections = {}", suggested.value))
            .risk(format!(
                "needs a restart, and a pooler first: {} connections are open now, and what is above the limit is refused; \
                 pgweir lab connections measures the right number{standbys}",
                facts.sessions.total
            )),
    )
}

/// Connections opened for a transaction or two.
fn short_connections(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let opened = facts.sessions.opened_per_second?;
    let tps = facts.sessions.transactions_per_second.unwrap_or(0.0);
    let severity = if opened >= OPENED_PER_SECOND {
        Severity::Warning
    } else {
        Severity::Fine
    };
    let title = format!("{opened:.1} connections are opened per second");
    let finding = Finding::new("connections.opened", severity, title);
    let kept = min_pool_size(sizing::pool(facts, pooler).map_or(u32::MAX, |pool| pool.value));
    Some(match severity {
        Severity::Fine => finding,
        _ => with_mode(finding, pooler)
            .evidence(format!(
                "for {tps:.0} transactions per second; each costs a fork, a login, and empty caches"
            ))
            .change(PGBOUNCER_INI, format!("min_pool_size = {kept}"))
            .risk("clients connect to the pooler instead; pgweir lab connect measures what that saves"),
    })
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
pub(super) mod tests;
