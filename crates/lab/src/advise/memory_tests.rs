//! The rules about memory; whole servers are in the table of `servers.rs`.

use super::super::connections::tests::{find, quiet};
use super::super::facts::{HugePages, MachineFacts};
use super::*;

const GIB: u64 = 1 << 30;

#[test]
fn the_defaults_are_about_what_eight_gigabytes_are() {
    // 76 MB x 100 + 133 MB + a tenth of 8 GB.
    let findings = judge(&quiet(), None);
    let budget = find(&findings, "memory.budget");
    assert_eq!(
        (budget.severity, budget.changes.len()),
        (Severity::Fine, 0),
        "{budget:?}"
    );
    assert!(budget.title.ends_with("about what the machine has"), "{budget:?}");
    assert!(
        budget.evidence[0].contains("(work_mem 4 MB + maintenance_work_mem 64 MB + temp_buffers 8 MB)"),
        "{budget:?}"
    );
}

#[test]
fn what_is_changed_fits() {
    let mut facts = quiet();
    facts.settings.memory.work_mem_bytes = GIB;
    facts.settings.memory.max_connections = 500;
    facts.ram_bytes = Some(24 * GIB);
    let finding = budget(&facts, None).unwrap();
    assert_eq!(finding.severity, Severity::Critical);
    let lines: Vec<&str> = finding.changes.iter().map(|change| change.line.as_str()).collect();
    assert_eq!(lines, ["max_connections = 100", "work_mem = 147MB"]);
    assert!(
        finding.evidence.last().unwrap().contains("the worst case is 23.9"),
        "{finding:?}"
    );
    facts.ram_bytes = None;
    assert_eq!(budget(&facts, None), None);
}

/// Guards against max_connections = 20, where maintenance_work_mem is the cause: 2 GB for each of 100 connections.
#[test]
fn the_setting_that_is_the_cause_is_changed() {
    for memory in [SessionMemory::Maintenance, SessionMemory::Temporary] {
        let (name, mut facts) = (memory.name(), quiet());
        facts.ram_bytes = Some(24 * GIB);
        facts.settings.memory = memory.set(facts.settings.memory, 2 * GIB);
        let finding = budget(&facts, None).unwrap();
        assert_eq!(finding.severity, Severity::Critical, "{finding:?}");
        let lines: Vec<&str> = finding.changes.iter().map(|change| change.line.as_str()).collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with(&format!("{name} = ")),
            "{lines:?}"
        );
        assert!(
            !finding.risk.contains("restart") && finding.risk.contains(name),
            "{finding:?}"
        );
    }
}

/// Guards against "with these changes" and the risk of a restart where there are none.
#[test]
fn no_changes_are_no_changes() {
    let mut facts = quiet();
    facts.ram_bytes = Some(GIB);
    facts.settings.memory.max_connections = 20;
    facts.settings.memory.shared_buffers_bytes = GIB / 2;
    facts.data_bytes = Some(GIB / 2);
    let finding = budget(&facts, None).unwrap();
    assert_eq!(
        (finding.severity, finding.changes.len(), &*finding.risk),
        (Severity::Advice, 0, ""),
        "{finding:?}"
    );
    assert!(
        !finding.evidence.iter().any(|e| e.contains("with these changes")),
        "{finding:?}"
    );
}

#[test]
fn page_tables_of_many_connections_over_a_large_pool() {
    let mut facts = quiet();
    assert_eq!(huge_pages(&facts).unwrap().severity, Severity::Fine);
    facts.settings.memory.shared_buffers_bytes = 16 * GIB;
    facts.settings.memory.max_connections = 1000;
    facts.ram_bytes = Some(64 * GIB);
    let finding = huge_pages(&facts).unwrap();
    // 16 GB / 512 = 32 MB for each of 1,000.
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.evidence[0].contains("32 MB") && finding.evidence[0].contains("31.2 GB"),
        "{finding:?}"
    );
    assert!(finding.changes.iter().any(|c| c.line == "huge_pages = on"));
    facts.settings.huge_pages_status = Some("on".to_owned());
    assert_eq!(huge_pages(&facts).unwrap().severity, Severity::Fine);
}

#[test]
fn before_17_the_kernel_s_pool_tells_whether_they_are_used() {
    let mut facts = quiet();
    facts.settings.memory.shared_buffers_bytes = 2 * GIB;
    facts.settings.memory.max_connections = 20;
    assert_eq!(huge_pages(&facts).unwrap().severity, Severity::Advice);
    let pages = HugePages {
        total: 1100,
        free: 50,
        size_bytes: 2 << 20,
    };
    facts.machine = Some(MachineFacts {
        huge_pages: pages,
        ..MachineFacts::default()
    });
    assert_eq!(huge_pages(&facts).unwrap().severity, Severity::Fine);
}
