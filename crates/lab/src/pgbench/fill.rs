//! pgbench's own tables.

use super::{Child, Pgbench};
use crate::Result;
use crate::interrupt::Interrupt;
use crate::server::Server;
use std::ffi::OsString;
use std::time::Duration;

/// The longest time for filling: for each unit of scale, and in addition.
const SECONDS_MAX: (u64, u64) = (30, 600);

/// The size in bytes of tables and indexes for each unit of scale (100,000 accounts), measured on PostgreSQL 15 and 18.
pub const BYTES_PER_SCALE: u64 = 16 << 20;

/// Makes and fills pgbench's tables in the server's database, and reports its progress to `live`.
pub fn fill(
    pgbench: &Pgbench,
    server: &Server,
    scale: u32,
    interrupt: &Interrupt,
    mut live: impl FnMut(&str),
) -> Result<()> {
    let arguments = ["-i", "-I", "dtgvp", "-s", &scale.to_string()].map(OsString::from);
    live("");
    let child = Child::start(&pgbench.path, &arguments, server)?;
    let time_max = Duration::from_secs(SECONDS_MAX.1 + SECONDS_MAX.0 * u64::from(scale));
    child.finish(time_max, None, interrupt, |_| {}).map(drop)
}
