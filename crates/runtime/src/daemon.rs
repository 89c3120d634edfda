//! Running in the background.
//!
//! The program does not fork, which is unsafe with threads. It starts itself once more. The second process becomes the
//! leader of its own session, reports on its standard output when it is ready, and then leaves the terminal. The first
//! process waits for that. So `pgweir -d` fails if the start fails, and when it succeeds, the pooler accepts clients.

use crate::start_error::StartError;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

/// The environment variable that tells the second process that it is the second.
const MARK: &str = "PGWEIR_IN_BACKGROUND";

/// What the second process writes when it is ready.
const READY: &[u8] = b"ready\n";

/// Whether this process is the one in the background.
pub(crate) fn is_second() -> bool {
    env::var_os(MARK).is_some()
}

/// Starts the second process with the arguments of this one, and waits until it is ready.
pub(crate) fn start_second() -> Result<(), StartError> {
    let program = env::current_exe().map_err(StartError::Daemon)?;
    let mut child = Command::new(program)
        .args(env::args_os().skip(1))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(StartError::Daemon)?;
    let mut said = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        let mut bytes = [0; READY.len()];
        while said.len() < READY.len() {
            match output.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(StartError::Daemon(e)),
            }
        }
    }
    if said == READY {
        return Ok(());
    }
    let status = child.wait().map_err(StartError::Daemon)?.code().unwrap_or(1);
    Err(StartError::DaemonEnded { status })
}

/// In the second process, at its start: leaves the terminal's session, so that the terminal's signals do not reach it.
pub(crate) fn leave_session() {
    let _ = rustix::process::setsid();
}

/// What the second process needs to leave the terminal.
#[derive(Debug)]
pub(crate) struct Background {
    /// Replaces the terminal's streams.
    null: File,
}

impl Background {
    /// Opens everything, before this process is responsible for connections.
    pub(crate) fn prepare() -> Result<Self, StartError> {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null");
        let null = null.map_err(StartError::Daemon)?;
        Ok(Background { null })
    }

    /// When clients can connect: closes the terminal's streams, and tells the first process. Streams that stay open
    /// harm nobody.
    pub(crate) fn tell_ready(self) {
        let _ = rustix::stdio::dup2_stdin(&self.null);
        let _ = rustix::stdio::dup2_stderr(&self.null);
        let mut output = io::stdout();
        let _ = output.write_all(READY).and_then(|()| output.flush());
        let _ = rustix::stdio::dup2_stdout(&self.null);
    }
}
