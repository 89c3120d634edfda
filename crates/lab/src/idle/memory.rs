//! Memory of the machine and of server processes, as /proc tells it (proc(5)).

use serde::Serialize;
use std::fs;
use std::path::Path;

/// The machine's memory at one moment, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SystemMemory {
    /// All there is.
    pub total_bytes: u64,
    /// What programs could still get without swapping; where the container has less, what it has left.
    pub available_bytes: u64,
    /// What nothing uses.
    pub free_bytes: u64,
    /// The page cache: file pages, without shared memory such as `shared_buffers`.
    pub page_cache_bytes: u64,
    /// Page tables of all processes, which PSS does not contain.
    pub page_tables_bytes: u64,
}

impl SystemMemory {
    /// Now; `None` where there is no /proc.
    pub fn now() -> Option<Self> {
        let mut memory = SystemMemory::parse(&fs::read_to_string("/proc/meminfo").ok()?)?;
        if let Some(left) = container_left(Path::new("/sys/fs/cgroup")) {
            memory.available_bytes = memory.available_bytes.min(left);
        }
        Some(memory)
    }

    fn parse(meminfo: &str) -> Option<Self> {
        let field = |name| kilobytes_of(meminfo, name);
        Some(SystemMemory {
            total_bytes: field("MemTotal")?,
            available_bytes: field("MemAvailable")?,
            free_bytes: field("MemFree")?,
            page_cache_bytes: field("Cached")?.saturating_sub(field("Shmem")?),
            page_tables_bytes: field("PageTables").unwrap_or(0),
        })
    }
}

/// What the limit of a container (cgroup version 2) leaves; its page cache can be given up and counts as left.
fn container_left(group: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let files = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    Some((limit + files.unwrap_or(0)).saturating_sub(used))
}

/// How the memory of a process was found out, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Proportional set size: its own pages, and its share of each page that several processes have.
    Pss,
    /// Anonymous resident pages, some of which it may share with the postmaster since the fork.
    ResidentAnonymous,
    /// What PostgreSQL's allocator has, of `pg_backend_memory_contexts`: less than the process takes.
    MemoryContexts,
}

impl Source {
    /// In words for a report.
    pub fn words(self) -> &'static str {
        match self {
            Source::Pss => "PSS, from `/proc/PID/smaps_rollup`",
            Source::ResidentAnonymous => "anonymous resident memory, from `/proc/PID/status`",
            Source::MemoryContexts => "memory contexts of a sample, from `pg_backend_memory_contexts`",
        }
    }
}

/// Memory of a set of processes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProcessMemory {
    /// How it was found out.
    pub source: Source,
    /// Processes looked at.
    pub processes: usize,
    /// On average, without page tables.
    pub mean_bytes: f64,
    /// Page tables, on average; 0 where not known.
    pub page_tables_mean_bytes: f64,
}

/// Memory of the processes of a local server, or why it cannot be told.
pub fn of_backends(pids: &[u32]) -> Result<ProcessMemory, String> {
    let folder = |pid: &u32| Path::new("/proc").join(pid.to_string());
    let is_postgres =
        |pid: &u32| fs::read_to_string(folder(pid).join("comm")).is_ok_and(|name| name.trim() == "postgres");
    let pids: Vec<&u32> = pids.iter().filter(|pid| is_postgres(pid)).collect();
    if pids.is_empty() {
        return Err(
            "the server's processes are not in this machine's /proc: it runs elsewhere or in a container".to_owned(),
        );
    }
    let read = |file: &str| -> Vec<String> {
        pids.iter()
            .filter_map(|pid| fs::read_to_string(folder(pid).join(file)).ok())
            .collect()
    };
    let statuses = read("status");
    let page_tables_mean_bytes = mean(statuses.iter().filter_map(|text| kilobytes_of(text, "VmPTE")));
    let found = |source, values: Vec<u64>| {
        (!values.is_empty()).then(|| ProcessMemory {
            source,
            processes: values.len(),
            mean_bytes: mean(values.iter().copied()),
            page_tables_mean_bytes,
        })
    };
    let pss = read("smaps_rollup")
        .iter()
        .filter_map(|text| kilobytes_of(text, "Pss"))
        .collect();
    found(Source::Pss, pss)
        .or_else(|| {
            let anonymous = statuses
                .iter()
                .filter_map(|text| kilobytes_of(text, "RssAnon"))
                .collect();
            found(Source::ResidentAnonymous, anonymous)
        })
        .ok_or_else(|| "/proc tells nothing of the memory of the server's processes".to_owned())
}

/// PSS of one process of ours, or what comes near; `None` where /proc does not tell.
pub fn of_process(pid: u32) -> Option<u64> {
    let folder = Path::new("/proc").join(pid.to_string());
    let of = |file: &str, name: &str| kilobytes_of(&fs::read_to_string(folder.join(file)).ok()?, name);
    of("smaps_rollup", "Pss").or_else(|| of("status", "RssAnon"))
}

/// A line such as `Pss:     1234 kB`, in bytes.
fn kilobytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn mean(values: impl Iterator<Item = u64>) -> f64 {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value as f64));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_cache_is_without_shared_memory() {
        let text = "MemTotal:       8000 kB\nMemFree:        100 kB\nMemAvailable:   5000 kB\nBuffers:   7 kB\n\
            Cached:         4000 kB\nSwapCached:     1 kB\nShmem:          1000 kB\nPageTables:     30 kB\n";
        let memory = SystemMemory::parse(text).unwrap();
        assert_eq!((memory.total_bytes, memory.available_bytes), (8000 << 10, 5000 << 10));
        assert_eq!(
            (memory.page_cache_bytes, memory.page_tables_bytes),
            (3000 << 10, 30 << 10)
        );
        assert_eq!(SystemMemory::parse("MemTotal: 8000 kB\n"), None);
    }

    #[test]
    fn pss_is_the_sum_and_not_one_of_its_parts() {
        let rollup = "55e0-7ffd ---p 00000000 00:00 0      [rollup]\nRss:     30000 kB\nPss:     25829 kB\nPss_Dirty:  19000 kB\nPss_Anon:  17888 kB\n";
        assert_eq!(kilobytes_of(rollup, "Pss"), Some(25829 << 10));
        assert_eq!(kilobytes_of("VmPTE:\t     192 kB\n", "VmPTE"), Some(192 << 10));
        assert_eq!(kilobytes_of("Threads:\t1\n", "Threads"), None);
    }

    #[test]
    fn a_container_has_less_than_its_machine() {
        let group = tempfile::tempdir().unwrap();
        let write = |file, text| fs::write(group.path().join(file), text).unwrap();
        assert_eq!(container_left(group.path()), None);
        write("memory.max", "1000000\n");
        write("memory.current", "700000\n");
        write("memory.stat", "anon 600000\ninactive_file 50000\nactive_file 9\n");
        assert_eq!(container_left(group.path()), Some(350_000));
        write("memory.max", "max\n");
        assert_eq!(container_left(group.path()), None);
    }

    /// Process ids from a server elsewhere name other programs here.
    #[test]
    fn a_process_that_is_not_postgres_is_not_measured() {
        let error = of_backends(&[std::process::id()]).unwrap_err();
        assert!(error.contains("not in this machine's /proc"), "{error}");
        assert!(of_process(std::process::id()).unwrap() > 100_000);
    }
}
