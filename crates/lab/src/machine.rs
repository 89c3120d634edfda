//! The machine that the lab runs on, and its limits.

use crate::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fs;

/// The facts about the machine that go with every result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// The name of the processor; empty if the system does not tell.
    pub cpu_model: String,
    /// Memory in bytes; 0 if the system does not tell.
    pub memory_bytes: u64,
    /// Kernel and its release.
    pub system: String,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let uname = rustix::system::uname();
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
            memory_bytes: meminfo_bytes("MemTotal").unwrap_or(0),
            system: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
        }
    }
}

/// A line of /proc/meminfo, such as `MemAvailable`, in bytes; `None` if there is no such line.
pub fn meminfo_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The highest limit of open files that a process may set for itself; `None` if there is none.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Raises the limit of open files of this process and its children to at least `wanted`.
pub fn raise_open_files(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    // Only root may exceed the hard limit.
    let maximum = limit.maximum.map(|hard| hard.max(wanted));
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        let hard = limit.maximum.unwrap_or(wanted);
        Error::new(format!(
            "{wanted} open files are needed, and the limit of this process is {hard}"
        ))
        .hint(format!(
            "raise it (ulimit -Hn {wanted}, as root; LimitNOFILE in a unit file), or ask for fewer clients"
        ))
    })
}
