//! Rules about connections: how many there are, what they do, how many may be.

use super::facts::Facts;
use super::finding::{Finding, PGBOUNCER_INI, POSTGRESQL_CONF, Severity};
use crate::maths::{round_connections, rule_of_thumb};
use crate::progress::duration_words;
use crate::report::Unit;
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

/// max_connections of so many times the rule of thumb, and at least so many, invites a collapse.
const MAX_CONNECTIONS_FACTOR: u32 = 10;
const MAX_CONNECTIONS_MANY: u32 = 200;

/// From so many new connections in a second on, opening them is work worth saving.
const OPENED_PER_SECOND: f64 = 5.0;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let rules = [room, idle, idle_in_transaction, at_work, limit, short_connections];
    rules.iter().filter_map(|rule| rule(facts)).collect()
}

/// How near max_connections is.
fn room(facts: &Facts) -> Option<Finding> {
    let sessions = &facts.sessions;
    let allowed = facts
        .settings
        .memory
        .max_connections
        .saturating_sub(facts.settings.reserved_connections)
        .max(1);
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
        _ => finding.change(PGBOUNCER_INI, "pool_mode = transaction").risk(
            "what is above the limit is refused with \"too many clients already\"; a pooler queues it instead. More \
                 max_connections costs memory and throughput, and a restart",
        ),
    })
}

/// Connections that do nothing.
fn idle(facts: &Facts) -> Option<Finding> {
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
    let pool = round_connections(2.0 * sessions.active_mean.max(f64::from(starting_point(facts))));
    Some(
        finding
            .evidence("every snapshot looks at them all, and their catalog caches take memory from the page cache")
            .change(PGBOUNCER_INI, "pool_mode = transaction")
            .change(PGBOUNCER_INI, format!("default_pool_size = {pool}"))
            .risk("transaction pooling shares servers: read what your pooler keeps of a session (docs/differences.md)"),
    )
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
fn at_work(facts: &Facts) -> Option<Finding> {
    let sessions = &facts.sessions;
    let cores = facts.cores?;
    let per_core = sessions.active_mean / f64::from(cores.max(1));
    let severity = if per_core > ACTIVE_PER_CORE {
        Severity::Warning
    } else {
        Severity::Fine
    };
    let title = format!(
        "{:.1} connections are at work on {cores} processors on average",
        sessions.active_mean
    );
    let mut finding = Finding::new("connections.at_work", severity, title).evidence(format!(
        "seen {} times; the most at once: {}",
        sessions.looks, sessions.active_most
    ));
    if !sessions.active_waits.is_empty() {
        let mut waits: Vec<_> = sessions.active_waits.iter().collect();
        waits.sort_by(|a, b| b.1.total_cmp(a.1));
        let words: Vec<String> = waits.iter().map(|(event, mean)| format!("{event} {mean:.1}")).collect();
        finding = finding.evidence(format!("they are with (wait_event_type): {}", words.join(", ")));
    }
    if let Some(tps) = sessions.transactions_per_second {
        finding = finding.evidence(format!("{} transactions per second", Unit::Number.show(tps.round())));
    }
    if severity == Severity::Fine {
        return Some(finding);
    }
    let pool = round_connections(f64::from(starting_point(facts)));
    Some(
        finding
            .change(PGBOUNCER_INI, format!("default_pool_size = {pool}"))
            .risk("a pool too small leaves processors idle: pgweir lab connections measures where the peak is"),
    )
}

/// max_connections against the machine.
fn limit(facts: &Facts) -> Option<Finding> {
    let cores = facts.cores?;
    let thumb = starting_point(facts);
    let limit = facts.settings.memory.max_connections;
    let many = limit >= MAX_CONNECTIONS_MANY && limit > MAX_CONNECTIONS_FACTOR * thumb;
    let severity = if many { Severity::Warning } else { Severity::Fine };
    let title = format!("max_connections is {limit} on {cores} processors");
    let finding = Finding::new("connections.limit", severity, title).evidence(format!(
        "the rule of thumb for connections at work, cores x 2 + spindles, says {thumb} ({cores} x 2 + {})",
        facts.spindles
    ));
    if !many {
        return Some(finding);
    }
    let suggested = round_connections(f64::from(MAX_CONNECTIONS_FACTOR * thumb)).max(100);
    Some(
        finding
            .evidence("if all of them get to work at once, throughput collapses; a queue before the server keeps it")
            .change(POSTGRESQL_CONF, format!("max_connections = {suggested}"))
            .risk(
                "needs a restart, and applications that open more connections than that are refused unless they go \
                 through a pooler; pgweir lab connections measures the right number",
            ),
    )
}

/// Connections opened for a transaction or two.
fn short_connections(facts: &Facts) -> Option<Finding> {
    let opened = facts.sessions.opened_per_second?;
    let tps = facts.sessions.transactions_per_second.unwrap_or(0.0);
    let severity = if opened >= OPENED_PER_SECOND {
        Severity::Warning
    } else {
        Severity::Fine
    };
    let title = format!("{opened:.1} connections are opened per second");
    let finding = Finding::new("connections.opened", severity, title);
    Some(match severity {
        Severity::Fine => finding,
        _ => finding
            .evidence(format!(
                "for {tps:.0} transactions per second; each costs a fork, a login, and empty caches"
            ))
            .change(PGBOUNCER_INI, "pool_mode = transaction")
            .change(PGBOUNCER_INI, "min_pool_size = 5")
            .risk("clients connect to the pooler instead; pgweir lab connect measures what that saves"),
    })
}

/// Cores x 2 + spindles; as for two processors where nothing is known.
fn starting_point(facts: &Facts) -> u32 {
    rule_of_thumb(facts.cores.unwrap_or(2), facts.spindles)
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::facts::{BackendMemory, Sessions, Settings};
    use super::*;
    use crate::cache::ServerFacts;
    use crate::maths::MemorySettings;

    const MIB: u64 = 1 << 20;

    /// A quiet server with PostgreSQL's defaults on 2 processors and 8 GB, as in the article on idle connections.
    pub(in super::super) fn quiet() -> Facts {
        Facts {
            server: ServerFacts {
                version: "15.18".to_owned(),
                version_number: 150_018,
                database: "shop".to_owned(),
                user: "mon".to_owned(),
                block_bytes: 8192,
                buffers: 16384,
                uptime: Duration::from_secs(1_000_000),
                in_recovery: false,
                without_page_cache: false,
                backend_pid: 1,
                local: true,
            },
            settings: Settings {
                memory: MemorySettings {
                    work_mem_bytes: 4 * MIB,
                    maintenance_work_mem_bytes: 64 * MIB,
                    temp_buffers_bytes: 8 * MIB,
                    max_connections: 100,
                    shared_buffers_bytes: 128 * MIB,
                    wal_buffers_bytes: 4 * MIB,
                    commit_log_bytes: MIB,
                    rest_bytes: 0,
                },
                hash_mem_multiplier_thousandths: 2000,
                reserved_connections: 3,
                idle_in_transaction_timeout_ms: 0,
                huge_pages: "try".to_owned(),
                huge_pages_status: None,
                shared_memory_huge_pages: Some(71),
            },
            sessions: Sessions {
                total: 4,
                idle: 3,
                active_mean: 1.0,
                active_most: 1,
                looks: 10,
                ..Sessions::default()
            },
            ram_bytes: Some(8 << 30),
            cores: Some(2),
            spindles: 1,
            data_bytes: Some(100 * MIB),
            usage: None,
            machine: None,
            backends: None,
        }
    }

    pub(in super::super) fn find<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
        findings
            .iter()
            .find(|f| f.id == id)
            .unwrap_or_else(|| panic!("no {id} in {findings:?}"))
    }

    #[test]
    fn a_quiet_server_is_fine() {
        let findings = judge(&quiet());
        assert!(
            findings
                .iter()
                .all(|f| f.severity == Severity::Fine && f.changes.is_empty()),
            "{findings:?}"
        );
        assert_eq!(findings.len(), 5);
    }

    #[test]
    fn a_thousand_idle_connections_are_counted_with_their_memory() {
        // Article A: 1,000 idle connections took 4.8 GB.
        let mut facts = quiet();
        facts.settings.memory.max_connections = 1500;
        facts.sessions = Sessions {
            total: 1100,
            idle: 1000,
            active_mean: 2.0,
            looks: 10,
            ..Sessions::default()
        };
        facts.backends = Some(BackendMemory {
            backends: 1100,
            private_bytes: 1100 * 4 * MIB,
            page_table_bytes: 1100 * MIB,
            largest_bytes: 9 * MIB,
        });
        let findings = judge(&facts);
        let idle = find(&findings, "connections.idle");
        assert_eq!(idle.severity, Severity::Warning);
        assert!(idle.evidence.iter().any(|e| e.contains("4.88 GB")), "{idle:?}");
        assert!(idle.changes.iter().any(|c| c.line == "pool_mode = transaction"));
        assert_eq!(find(&findings, "connections.limit").severity, Severity::Warning);
        assert!(
            find(&findings, "connections.limit").changes[0]
                .line
                .starts_with("max_connections = 100")
        );
    }

    #[test]
    fn nearly_full_is_critical_and_four_fifths_a_warning() {
        let severity = |total| {
            let mut facts = quiet();
            facts.sessions.total = total;
            room(&facts).unwrap().severity
        };
        assert_eq!(
            (severity(97), severity(93), severity(80)),
            (Severity::Critical, Severity::Critical, Severity::Warning)
        );
        assert_eq!(severity(77), Severity::Fine);
    }

    #[test]
    fn a_forgotten_transaction() {
        let mut facts = quiet();
        facts.sessions.idle_in_transaction = 1;
        facts.sessions.idle_in_transaction_longest = Duration::from_secs(59);
        assert_eq!(idle_in_transaction(&facts).unwrap().severity, Severity::Fine);
        facts.sessions.idle_in_transaction_longest = Duration::from_secs(600);
        facts.sessions.idle_in_transaction_who = "pid 42, user bob".to_owned();
        let finding = idle_in_transaction(&facts).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        assert!(
            finding.title.contains("10 min") && finding.evidence[0].contains("pid 42"),
            "{finding:?}"
        );
        facts.sessions.idle_in_transaction_longest = Duration::from_secs(7200);
        assert_eq!(idle_in_transaction(&facts).unwrap().severity, Severity::Critical);
    }

    #[test]
    fn what_is_hidden_is_not_called_fine() {
        let mut facts = quiet();
        facts.sessions = Sessions {
            total: 4,
            hidden: 4,
            looks: 1,
            ..Sessions::default()
        };
        let findings = judge(&facts);
        assert!(
            findings
                .iter()
                .all(|f| f.id != "connections.idle" && f.id != "connections.idle_in_transaction")
        );
    }

    #[test]
    fn without_the_machine_its_rules_are_silent() {
        let mut facts = quiet();
        facts.cores = None;
        let findings = judge(&facts);
        assert!(
            findings
                .iter()
                .all(|f| f.id != "connections.at_work" && f.id != "connections.limit"),
            "{findings:?}"
        );
    }

    #[test]
    fn a_crowd_at_work_and_connections_opened_all_the_time() {
        let mut facts = quiet();
        facts.sessions.active_mean = 40.0;
        facts.sessions.active_waits = [("LWLock".to_owned(), 30.0), ("CPU".to_owned(), 10.0)].into();
        facts.sessions.opened_per_second = Some(60.0);
        let findings = judge(&facts);
        let crowd = find(&findings, "connections.at_work");
        assert_eq!(crowd.severity, Severity::Warning);
        assert!(
            crowd.evidence.iter().any(|e| e.contains("LWLock 30.0, CPU 10.0")),
            "{crowd:?}"
        );
        assert_eq!(crowd.changes[0].line, "default_pool_size = 5");
        assert_eq!(find(&findings, "connections.opened").severity, Severity::Warning);
    }
}
