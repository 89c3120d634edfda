//! What a pooler must know of its process.

use crate::base::time::WallClock;

/// Facts about the process that a pooler needs.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Seed of every random number the pooler draws: cancel keys, salts, jitter. Must come from the operating system.
    pub seed: [u8; 32],
    /// The wall-clock time at [`Time`] zero.
    pub wall: WallClock,
    /// The user id of this process: a peer with the same id on a Unix-domain socket is an administrator as user
    /// `pgbouncer`.
    pub own_uid: u32,
    /// The name of this machine.
    pub host_name: String,
    /// File descriptors the process may open; only SHOW and warnings use it.
    pub open_files_max: u64,
}
