//! The limit on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit before it was raised, and after; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// The soft limit at the start of the process.
    pub(crate) given: u64,
    /// The present limit.
    pub(crate) now: u64,
    /// The limit that only root could raise.
    pub(crate) hard: u64,
}

/// Raises the soft limit to the hard limit, because every client and server takes a descriptor.
pub(crate) fn raise_open_files() -> OpenFiles {
    let limit = getrlimit(Resource::Nofile);
    let given = limit.current.unwrap_or(u64::MAX);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let now = if given < hard && setrlimit(Resource::Nofile, raised).is_ok() {
        hard
    } else {
        given
    };
    OpenFiles { given, now, hard }
}
