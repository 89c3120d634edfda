//! The rules about connections; whole servers are in the table of `servers.rs`.

use super::super::facts::{BackendMemory, Sessions, Settings};
use super::*;
use crate::cache::ServerFacts;
use pgweir_maths::MemorySettings;

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
            replicas: 0,
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
            pools: 1,
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
        read_relations_bytes: None,
        reads_now: None,
        reads_before: None,
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
    let findings = judge(&quiet(), None);
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
    let findings = judge(&facts, None);
    let idle = find(&findings, "connections.idle");
    assert_eq!(idle.severity, Severity::Warning);
    assert!(idle.evidence.iter().any(|e| e.contains("4.88 GB")), "{idle:?}");
    assert!(idle.changes.iter().any(|c| c.line == "pool_mode = transaction"));
    assert_eq!(find(&findings, "connections.limit").severity, Severity::Warning);
    assert!(
        find(&findings, "connections.limit").changes[0]
            .line
            .eq("max_connections = 100")
    );
}

#[test]
fn nearly_full_is_critical_and_four_fifths_a_warning() {
    let severity = |total| {
        let mut facts = quiet();
        facts.sessions.total = total;
        room(&facts, None).unwrap().severity
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
    let findings = judge(&facts, None);
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
    let findings = judge(&facts, None);
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
    let findings = judge(&facts, None);
    let crowd = find(&findings, "connections.at_work");
    assert_eq!(crowd.severity, Severity::Warning);
    assert!(
        crowd.evidence.iter().any(|e| e.contains("LWLock 30.0, CPU 10.0")),
        "{crowd:?}"
    );
    assert_eq!(crowd.changes[0].line, "default_pool_size = 5");
    assert_eq!(find(&findings, "connections.opened").severity, Severity::Warning);
}
