//! What /proc tells of the server's processes and machine. Any user may read these files.

use super::facts::{BackendMemory, HugePages, MachineFacts};
use crate::machine::meminfo_bytes;
use std::fs;

/// Memory of these processes; those that are gone are left out, None where none can be read.
pub(super) fn backend_memory(pids: &[i32]) -> Option<BackendMemory> {
    let mut sum = BackendMemory::default();
    for pid in pids {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        let (Some(private), Some(tables)) = (kilobytes(&status, "RssAnon"), kilobytes(&status, "VmPTE")) else {
            continue;
        };
        sum.backends += 1;
        sum.private_bytes += private;
        sum.page_table_bytes += tables;
        sum.largest_bytes = sum.largest_bytes.max(private + tables);
    }
    (sum.backends > 0).then_some(sum)
}

/// This machine.
pub(super) fn machine() -> Option<MachineFacts> {
    Some(MachineFacts {
        page_cache_bytes: meminfo_bytes("Cached")?,
        available_bytes: meminfo_bytes("MemAvailable")?,
        page_tables_bytes: meminfo_bytes("PageTables")?,
        huge_pages: HugePages {
            total: plain("HugePages_Total").unwrap_or(0),
            free: plain("HugePages_Free").unwrap_or(0),
            size_bytes: meminfo_bytes("Hugepagesize").unwrap_or(0),
        },
    })
}

/// A line `Name:   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// A line of /proc/meminfo without a unit.
fn plain(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_status() {
        let text = "Name:\tpostgres\nVmPTE:\t     104 kB\nRssAnon:\t    2048 kB\nRssAnonX:\t1 kB\n";
        assert_eq!(
            (kilobytes(text, "RssAnon"), kilobytes(text, "VmPTE")),
            (Some(2 << 20), Some(104 << 10))
        );
        assert_eq!((kilobytes(text, "Rss"), kilobytes(text, "Name")), (None, None));
    }

    #[test]
    fn processes_that_are_gone_are_left_out() {
        let own = i32::try_from(std::process::id()).unwrap();
        let memory = backend_memory(&[own, i32::MAX]).unwrap();
        assert!(memory.backends == 1 && memory.private_bytes > 0);
        // Guards against a mean above the largest, which left page tables out.
        assert_eq!(memory.largest_bytes, memory.mean_bytes());
        assert_eq!(backend_memory(&[i32::MAX]), None);
    }
}
