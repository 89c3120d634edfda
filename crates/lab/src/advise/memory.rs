//! Rules about memory: the budget, shared_buffers, huge pages and page tables.

use super::facts::Facts;
use super::finding::{Finding, POSTGRESQL_CONF, Severity};
use crate::cache::{self, Circumstances, Verdict};
use crate::maths::{Budget, MemorySettings};
use crate::report::Unit;

/// Left to the kernel, to agents, and to the page cache that writes need: a tenth of the machine's memory.
const REST_SHARE: u64 = 10;

/// A worst case that does not fit is common and a matter of judgement; one of so many times the memory is not.
const FAR_OVER: f64 = 3.0;

/// From this size on, huge pages save what can be noticed.
const HUGE_PAGES_FROM_BYTES: u64 = 1 << 30;

/// Page tables of this share of the machine's memory are worth a warning.
const PAGE_TABLES_SHARE: f64 = 0.02;

/// A page table entry of 8 bytes maps 4 kB.
const BYTES_PER_ENTRY: u64 = 512;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    [budget, shared_buffers, huge_pages]
        .iter()
        .filter_map(|rule| rule(facts))
        .collect()
}

/// What the settings allow, with a share for the rest of the machine, and the machine's memory in bytes; None where that
/// is not known.
pub(super) fn budget_of(facts: &Facts) -> Option<(Budget, u64)> {
    let ram_bytes = facts.ram_bytes?;
    let settings = MemorySettings {
        rest_bytes: ram_bytes / REST_SHARE,
        ..facts.settings.memory
    };
    Some((Budget::of(&settings), ram_bytes))
}

/// (work_mem + maintenance_work_mem + temp_buffers) x max_connections + shared memory + the rest <= RAM.
fn budget(facts: &Facts) -> Option<Finding> {
    let settings = facts.settings.memory;
    let (budget, ram) = budget_of(facts)?;
    let share = budget.share_of(ram);
    let severity = match share {
        s if s > FAR_OVER => Severity::Warning,
        s if s > 1.0 => Severity::Advice,
        _ => Severity::Fine,
    };
    let fits = if share > 1.0 {
        "more than the machine has"
    } else {
        "it fits"
    };
    let multiplier = facts.settings.hash_mem_multiplier_thousandths as f64 / 1000.0;
    let finding = Finding::new(
        "memory.budget",
        severity,
        format!("the settings allow {} of memory in the worst case, and there are {}: {fits}", bytes(budget.total_bytes), bytes(ram)),
    )
    .evidence(format!(
        "(work_mem {} + maintenance_work_mem {} + temp_buffers {}) x max_connections {} = {}",
        bytes(settings.work_mem_bytes),
        bytes(settings.maintenance_work_mem_bytes),
        bytes(settings.temp_buffers_bytes),
        settings.max_connections,
        bytes(budget.connections_bytes)
    ))
    .evidence(format!(
        "shared_buffers {} + wal_buffers {} + commit log {} = {}; {} are left to the rest of the machine",
        bytes(settings.shared_buffers_bytes),
        bytes(settings.wal_buffers_bytes),
        bytes(settings.commit_log_bytes),
        bytes(budget.shared_bytes),
        bytes(budget.rest_bytes)
    ))
    .evidence(format!(
        "a query may use work_mem once for each sort, and {multiplier:.1} times that for each hash, in each parallel worker"
    ));
    if severity == Severity::Fine {
        return Some(finding);
    }
    let fit = budget.connections_that_fit(ram);
    let finding = finding.evidence(format!("in the worst case the memory is enough for {fit} connections"));
    Some(match fit {
        0 => finding
            .change(POSTGRESQL_CONF, format!("shared_buffers = {}MB", (ram / 4) >> 20))
            .risk("needs a restart; more blocks are then read from the page cache"),
        _ => finding.change(POSTGRESQL_CONF, format!("max_connections = {}", fit.max(20))).risk(
            "needs a restart, and a pooler for clients above it. Lower work_mem instead makes large sorts and hashes use \
             temporary files",
        ),
    })
}

/// The verdict of `pgweir cache`.
fn shared_buffers(facts: &Facts) -> Option<Finding> {
    let around = Circumstances {
        ram_bytes: facts.ram_bytes,
        data_bytes: facts.data_bytes,
        uptime: Some(facts.server.uptime),
        without_page_cache: facts.server.without_page_cache,
    };
    let judgement = cache::judge(facts.usage.as_ref()?, &around);
    let severity = match judgement.verdict {
        Verdict::TooSmall => Severity::Warning,
        Verdict::LargerThanNeeded if judgement.suggested_bytes.is_some() => Severity::Advice,
        _ => Severity::Fine,
    };
    let mut finding = Finding::new("memory.shared_buffers", severity, judgement.summary);
    finding.evidence = judgement.reasons;
    Some(match judgement.suggested_bytes {
        None => finding,
        Some(suggested) => finding
            .change(POSTGRESQL_CONF, format!("shared_buffers = {}MB", suggested >> 20))
            .risk("needs a restart, and what it takes the page cache loses; pgweir lab buffers measures what it gives"),
    })
}

/// Whether page tables eat what huge pages would save.
fn huge_pages(facts: &Facts) -> Option<Finding> {
    let settings = &facts.settings;
    let size = settings.memory.shared_buffers_bytes;
    let used = match (settings.huge_pages.as_str(), settings.huge_pages_status.as_deref()) {
        ("off", _) | (_, Some("off")) => false,
        ("on", _) | (_, Some("on")) => true,
        // try, before PostgreSQL 17: they are used if the kernel had enough at the start, and then they are not free.
        _ => facts.machine.as_ref().is_some_and(|machine| {
            let pages = &machine.huge_pages;
            pages.total.saturating_sub(pages.free) > 0
        }),
    };
    let worst = size / BYTES_PER_ENTRY * u64::from(settings.memory.max_connections);
    let now = facts.machine.as_ref().map(|machine| machine.page_tables_bytes);
    let known = format!(
        "each backend that has touched all of shared_buffers ({}) has page tables of {} for it: {} for {} connections",
        bytes(size),
        bytes(size / BYTES_PER_ENTRY),
        bytes(worst),
        settings.memory.max_connections
    );
    let now_words = now.map(|now| format!("page tables of the whole machine take {} now", bytes(now)));
    if used {
        return Some(Finding::new(
            "memory.huge_pages",
            Severity::Fine,
            "shared memory is in huge pages",
        ));
    }
    let over = |ram: u64| now.unwrap_or(0).max(worst) as f64 > PAGE_TABLES_SHARE * ram as f64;
    let severity = match () {
        () if size < HUGE_PAGES_FROM_BYTES => Severity::Fine,
        () if facts.ram_bytes.is_some_and(over) => Severity::Warning,
        () => Severity::Advice,
    };
    let title = match severity {
        Severity::Fine => "huge pages are not in use, and shared_buffers is too small to miss them",
        _ => "huge pages are not in use",
    };
    let mut finding = Finding::new("memory.huge_pages", severity, title).evidence(known);
    finding.evidence.extend(now_words);
    if severity == Severity::Fine {
        return Some(finding);
    }
    if let Some(pages) = settings.shared_memory_huge_pages {
        finding = finding.change("sysctl.conf", format!("vm.nr_hugepages = {pages}"));
    }
    Some(finding.change(POSTGRESQL_CONF, "huge_pages = on").risk(
        "needs a restart; with on PostgreSQL does not start where the kernel has too few, and what is set aside for them \
         nothing else can use",
    ))
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

#[cfg(test)]
mod tests {
    use super::super::connections::tests::{find, quiet};
    use super::super::facts::{HugePages, MachineFacts};
    use super::*;
    use crate::cache::{UsageCounts, UsageLevel};

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_defaults_do_not_quite_fit_into_eight_gigabytes() {
        // 76 MB x 100 + 133 MB + a tenth of 8 GB.
        let findings = judge(&quiet());
        let budget = find(&findings, "memory.budget");
        assert_eq!(budget.severity, Severity::Advice);
        assert!(
            budget.evidence[0].contains("(work_mem 4 MB + maintenance_work_mem 64 MB + temp_buffers 8 MB)"),
            "{budget:?}"
        );
        assert!(budget.changes[0].line.starts_with("max_connections = 9"), "{budget:?}");
    }

    #[test]
    fn far_over_is_a_warning_and_a_large_machine_is_fine() {
        let mut facts = quiet();
        facts.settings.memory.work_mem_bytes = GIB;
        assert_eq!(budget(&facts).unwrap().severity, Severity::Warning);
        facts.ram_bytes = Some(1024 * GIB);
        let fine = budget(&facts).unwrap();
        assert!(fine.severity == Severity::Fine && fine.changes.is_empty() && fine.title.ends_with("it fits"));
        facts.ram_bytes = None;
        assert_eq!(budget(&facts), None);
    }

    #[test]
    fn shared_memory_alone_beyond_the_machine() {
        let mut facts = quiet();
        facts.settings.memory.shared_buffers_bytes = 9 * GIB;
        let finding = budget(&facts).unwrap();
        assert_eq!(finding.changes[0].line, "shared_buffers = 2048MB");
    }

    #[test]
    fn the_histogram_becomes_a_finding() {
        let mut facts = quiet();
        let mut usage = UsageCounts {
            block_bytes: 8192,
            ..UsageCounts::default()
        };
        usage.levels[5] = UsageLevel {
            buffers: 16_000,
            dirty: 100,
            pinned: 0,
        };
        usage.levels[0] = UsageLevel {
            buffers: 384,
            dirty: 0,
            pinned: 0,
        };
        facts.usage = Some(usage);
        facts.data_bytes = Some(7 * GIB);
        let finding = shared_buffers(&facts).unwrap();
        assert_eq!(
            (finding.severity, finding.changes[0].line.as_str()),
            (Severity::Warning, "shared_buffers = 2048MB")
        );
        facts.usage = None;
        assert_eq!(shared_buffers(&facts), None);
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
}
