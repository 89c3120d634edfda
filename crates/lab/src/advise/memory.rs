//! Rules about memory: the budget, shared_buffers, huge pages and page tables.

use super::console::PoolerFacts;
use super::facts::Facts;
use super::finding::{Finding, POSTGRESQL_CONF, SYSCTL_CONF, Severity};
use super::sizing;
use crate::cache::{Factor, Verdict};
use crate::report::Unit;
use pgweir_maths::{Budget, SessionMemory, has_default_session_memory, session_memory_that_fits};

/// A worst case of so many times the memory: PostgreSQL's defaults on 8 GB are about 1, and nobody minds. Twice that is a
/// matter of judgement, three times a mistake, and with five times the next busy hour may end the server. PostgreSQL's own
/// defaults on a small machine are a matter of judgement, too.
const OVER: f64 = 1.5;
const FAR_OVER: f64 = 3.0;
const HOPELESS: f64 = 5.0;

/// PostgreSQL's default.
const MAX_CONNECTIONS_DEFAULT: u32 = 100;

/// From this size on, huge pages save what can be noticed.
const HUGE_PAGES_FROM_BYTES: u64 = 1 << 30;

/// Page tables of this share of the machine's memory are worth a warning.
const PAGE_TABLES_SHARE: f64 = 0.02;

/// A page table entry of 8 bytes maps 4 kB.
const BYTES_PER_ENTRY: u64 = 512;

pub(super) fn judge(facts: &Facts, pooler: Option<&PoolerFacts>) -> Vec<Finding> {
    let found = [budget(facts, pooler), shared_buffers(facts), huge_pages(facts)];
    found.into_iter().flatten().collect()
}

/// What the settings allow, with a share for the rest of the machine, and the machine's memory in bytes; None where that
/// is not known.
pub(super) fn budget_of(facts: &Facts) -> Option<(Budget, u64)> {
    let ram_bytes = facts.ram_bytes?;
    Some((Budget::of(&facts.settings.memory.with_rest(ram_bytes)), ram_bytes))
}

/// (work_mem + maintenance_work_mem + temp_buffers) x max_connections + shared memory + the rest <= RAM.
fn budget(facts: &Facts, pooler: Option<&PoolerFacts>) -> Option<Finding> {
    let (budget, ram) = budget_of(facts)?;
    let share = budget.share_of(ram);
    let settings = &facts.settings.memory;
    let defaults = settings.max_connections <= MAX_CONNECTIONS_DEFAULT && has_default_session_memory(settings);
    let severity = match share {
        s if s > OVER && defaults => Severity::Advice,
        s if s >= HOPELESS => Severity::Critical,
        s if s > FAR_OVER => Severity::Warning,
        s if s > OVER => Severity::Advice,
        _ => Severity::Fine,
    };
    let fits = match share {
        s if s > OVER => format!("{s:.1} times what the machine has"),
        s if s > 1.0 => "about what the machine has".to_owned(),
        _ => "it fits".to_owned(),
    };
    let title = format!(
        "the settings allow {} of memory in the worst case, and there are {}: {fits}",
        bytes(budget.total_bytes),
        bytes(ram)
    );
    let mut finding = Finding::new("memory.budget", severity, title);
    finding.evidence = budget_evidence(facts, &budget);
    match severity {
        Severity::Fine => Some(finding),
        _ => Some(smaller_budget(finding, facts, pooler, ram)),
    }
}

/// The sum, term by term.
fn budget_evidence(facts: &Facts, budget: &Budget) -> Vec<String> {
    let settings = facts.settings.memory;
    let multiplier = facts.settings.hash_mem_multiplier_thousandths as f64 / 1000.0;
    vec![
        format!(
            "(work_mem {} + maintenance_work_mem {} + temp_buffers {}) x max_connections {} = {}",
            bytes(settings.work_mem_bytes),
            bytes(settings.maintenance_work_mem_bytes),
            bytes(settings.temp_buffers_bytes),
            settings.max_connections,
            bytes(budget.connections_bytes)
        ),
        format!(
            "shared_buffers {} + wal_buffers {} + commit log {} = {}; {} are left to the rest of the machine",
            bytes(settings.shared_buffers_bytes),
            bytes(settings.wal_buffers_bytes),
            bytes(settings.commit_log_bytes),
            bytes(budget.shared_bytes),
            bytes(budget.rest_bytes)
        ),
        format!(
            "a query may use work_mem once for each sort, and {multiplier:.1} times that for each hash, in each parallel worker"
        ),
    ]
}

/// Adds the changes that make it fit: max_connections and shared_buffers as the other findings have them, then what each
/// connection may take.
fn smaller_budget(mut finding: Finding, facts: &Facts, pooler: Option<&PoolerFacts>, ram: u64) -> Finding {
    let now = facts.settings.memory.with_rest(ram);
    let mut wanted = now;
    let mut risks = Vec::new();
    if let Some(connections) = sizing::connections(facts, pooler).filter(|c| c.value < now.max_connections) {
        wanted.max_connections = connections.value;
        risks.push("max_connections needs a restart, and clients above it need a pooler");
        finding = finding
            .evidence(format!(
                "max_connections = {}: {}",
                connections.value, connections.because
            ))
            .change(POSTGRESQL_CONF, format!("max_connections = {}", connections.value));
    }
    if let Some(buffers) = sizing::shared_buffers(facts).suggested_bytes {
        wanted.shared_buffers_bytes = buffers;
        risks.push("shared_buffers needs a restart");
        finding = finding.change(POSTGRESQL_CONF, buffers_line(buffers));
    }
    for (memory, bytes) in session_memory_that_fits(&wanted, ram) {
        wanted = memory.set(wanted, bytes);
        risks.push(with_less(memory));
        finding = finding.change(POSTGRESQL_CONF, format!("{} = {}MB", memory.name(), bytes >> 20));
    }
    let after = Budget::of(&wanted);
    match risks.is_empty() {
        true => finding.evidence("these settings are modest already: only more memory makes the worst case fit"),
        false => finding
            .evidence(format!(
                "with these changes the worst case is {}",
                bytes(after.total_bytes)
            ))
            .risk(risks.join("; ")),
    }
}

/// What is slower with less of it.
fn with_less(memory: SessionMemory) -> &'static str {
    match memory {
        SessionMemory::Work => "with less work_mem large sorts and hashes use temporary files",
        SessionMemory::Maintenance => {
            "with less maintenance_work_mem VACUUM and CREATE INDEX take longer; a session that builds a large index can SET more"
        }
        SessionMemory::Temporary => "with less temp_buffers large temporary tables are read from files again",
    }
}

fn buffers_line(buffers: u64) -> String {
    format!("shared_buffers = {}MB", buffers >> 20)
}

/// The verdict of `pgweir cache`.
fn shared_buffers(facts: &Facts) -> Option<Finding> {
    let judgement = sizing::shared_buffers(facts);
    let severity = match judgement.verdict {
        Verdict::TooSmall if judgement.decided_by.contains(&Factor::Misses) => Severity::Warning,
        Verdict::MachineTooSmall => Severity::Warning,
        Verdict::LargerThanNeeded if judgement.decided_by.contains(&Factor::Memory) => Severity::Warning,
        Verdict::TooSmall | Verdict::LargerThanNeeded => Severity::Advice,
        Verdict::TooEarly | Verdict::CannotTell => Severity::Unknown,
        Verdict::Fits => Severity::Fine,
    };
    let mut finding = Finding::new("memory.shared_buffers", severity, judgement.summary);
    finding.evidence = judgement.reasons;
    Some(match judgement.suggested_bytes {
        None => finding,
        Some(suggested) => finding
            .change(POSTGRESQL_CONF, buffers_line(suggested))
            .risk("needs a restart; the page cache has less memory then; pgweir lab buffers measures the gain"),
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
        Severity::Fine => "huge pages are not in use, and would save little with so small a shared_buffers",
        _ => "huge pages are not in use",
    };
    let mut finding = Finding::new("memory.huge_pages", severity, title).evidence(known);
    finding.evidence.extend(now_words);
    if severity == Severity::Fine {
        return Some(finding);
    }
    if let Some(pages) = settings.shared_memory_huge_pages {
        finding = finding.change(SYSCTL_CONF, format!("vm.nr_hugepages = {pages}"));
    }
    Some(finding.change(POSTGRESQL_CONF, "huge_pages = on").risk(
        "needs a restart; with on, PostgreSQL does not start if the kernel has too few of them, and nothing else can use the \
         memory that is set aside for them",
    ))
}

fn bytes(number: u64) -> String {
    Unit::Bytes.show(number as f64)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
