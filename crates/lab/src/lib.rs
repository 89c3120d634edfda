//! The laboratory: it measures a user's own PostgreSQL, and gives advice from the results.
//!
//! It decides what to measure, in which order and how often, and what the figures mean. It does not pool, and it makes
//! no load itself: the load generator is PostgreSQL's pgbench, the pooler is this program as another process, and every
//! figure about the server comes from PostgreSQL's views and extensions or from the operating system.
//!
//! `top` measures nothing: it shows what a pooler's console says.
//!
//! Like the runtime, it may call the system (clippy.toml). The arithmetic is in `pgweir-maths`, which may not.
// Allowed only in cache/resident.rs, which says why.
#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods)]
// They panic where the reader has closed the pipe: `say` and `tell` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod advise;
pub mod buffers;
pub mod cache;
mod certificate;
mod commands;
pub mod compare;
pub mod connect;
pub mod connections;
mod console;
mod error;
pub mod idle;
pub mod interrupt;
pub mod machine;
pub mod pgbench;
pub mod pooler;
pub mod progress;
pub mod report;
pub mod results;
pub mod rounds;
pub mod scale;
pub mod server;
pub mod session;
pub mod throwaway;
pub mod top;

/// Writes to the standard output. Whoever reads it may have left early (`| head`), which is no error.
pub fn say(text: &str) {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Writes to the standard error, whose reader may have left early, too (`2>&1 | head`). A command goes on then: it may
/// have changes to take back.
pub fn tell(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

pub use commands::{Command, LabCommand, run};
pub use error::{Error, Result};
