//! Restarting the server with another shared_buffers, and in the end as it was.

use super::size;
use crate::interrupt::Interrupt;
use crate::server::query_error;
use crate::session::Target;
use crate::{Error, Result};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Settings of `ALTER SYSTEM`, which go before postgresql.conf. The lab adds its line to this file while the server is
/// about to be restarted and puts the file back in the end: a server that does not start with a size can then still be
/// brought back, which ALTER SYSTEM could not do.
const AUTO_CONF: &str = "postgresql.auto.conf";

/// Time for the restart command, and again for the server to answer.
const RESTART_MAX: Duration = Duration::from_secs(120);

/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Lines of the restart command's output that are shown where it fails.
const SHOWN_LINES_MAX: usize = 5;

/// A way to restart the server.
pub(super) enum Restarter {
    /// The throwaway cluster, with these settings beside shared_buffers.
    Throwaway(Vec<String>),
    /// A server of this machine.
    Local(LocalServer),
}

impl Restarter {
    /// Restarts the server with a size, and waits until it answers and has it.
    pub(super) fn restart(&mut self, target: &mut Target, bytes: u64, interrupt: &Interrupt) -> Result<()> {
        match self {
            Restarter::Throwaway(settings) => {
                let mut settings = settings.clone();
                settings.push(format!("shared_buffers={}", size::setting(bytes)));
                target.restart(&settings)?;
            }
            Restarter::Local(server) => server.restart(bytes, interrupt)?,
        }
        let context = |e: Error| {
            e.context(format!(
                "after the restart with shared_buffers = {}",
                size::written(bytes)
            ))
        };
        let has = wait_for_size(target, interrupt).map_err(context)?;
        if has == bytes {
            return Ok(());
        }
        Err(Error::new(format!(
            "the server has shared_buffers = {} after the restart, and not {}",
            size::written(has),
            size::written(bytes)
        ))
        .hint("does the restart command restart the server of this data directory, and does it set shared_buffers itself?"))
    }
}

/// The size that the server has, as soon as it answers.
fn wait_for_size(target: &Target, interrupt: &Interrupt) -> Result<u64> {
    let started = Instant::now();
    loop {
        match target.connect() {
            Ok(mut client) => {
                let query = "select setting::int8 * current_setting('block_size')::int8 from pg_settings where name = 'shared_buffers'";
                let row = client.query_one(query, &[]).map_err(|e| query_error(&e))?;
                return Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0));
            }
            Err(e) if started.elapsed() > RESTART_MAX => return Err(e),
            Err(_) => interrupt.sleep(LOOK_INTERVAL)?,
        }
    }
}

/// A server of this machine, its settings changed; as it was when dropped.
pub(super) struct LocalServer {
    auto_conf: PathBuf,
    /// What the file holds without us.
    as_it_was: String,
    command: String,
    changed: bool,
}

impl LocalServer {
    /// Of this data directory. Fails where the connection leads to another server, or where the file cannot be written.
    pub(super) fn new(target: &Target, data_dir: &Path, command: &str) -> Result<Self> {
        let mut client = target.connect()?;
        // NULL for roles that may not see it; then the restart will tell.
        let row = client
            .query_one(
                "select (select setting from pg_settings where name = 'data_directory')",
                &[],
            )
            .map_err(|e| query_error(&e))?;
        let told: Option<String> = row.get(0);
        let canonical = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Some(told) = told.filter(|told| canonical(Path::new(told)) != canonical(data_dir)) {
            return Err(Error::new(format!(
                "the server's data directory is {told}, and not {}",
                data_dir.display()
            )));
        }
        let auto_conf = data_dir.join(AUTO_CONF);
        let failed = |e: std::io::Error| {
            Error::new(format!("could not change {}: {e}", auto_conf.display()))
                .hint("run this as the server's user, or as root")
        };
        let as_it_was = fs::read_to_string(&auto_conf).map_err(failed)?;
        fs::OpenOptions::new().write(true).open(&auto_conf).map_err(failed)?;
        Ok(LocalServer {
            auto_conf,
            as_it_was,
            command: command.to_owned(),
            changed: false,
        })
    }

    fn restart(&mut self, bytes: u64, interrupt: &Interrupt) -> Result<()> {
        interrupt.check()?;
        let newline = if self.as_it_was.is_empty() || self.as_it_was.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let text = format!(
            "{}{newline}shared_buffers = '{}'\n",
            self.as_it_was,
            size::setting(bytes)
        );
        self.changed = true;
        self.write(&text)?;
        self.run()
    }

    /// Puts the file back and restarts the server once more.
    pub(super) fn restore(&mut self) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        self.write(&self.as_it_was)?;
        self.changed = false;
        self.run()
    }

    /// In place, so that owner and permissions stay.
    fn write(&self, text: &str) -> Result<()> {
        fs::write(&self.auto_conf, text)
            .map_err(|e| Error::new(format!("could not write {}: {e}", self.auto_conf.display())))
    }

    fn run(&self) -> Result<()> {
        // Its output into a file: a server that the command leaves running may keep it open. Where there is no place for
        // a file the server has to be restarted all the same.
        let output = tempfile::NamedTempFile::new();
        let into = || match output.as_ref().map(tempfile::NamedTempFile::reopen) {
            Ok(Ok(file)) => Stdio::from(file),
            _ => Stdio::null(),
        };
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::null());
        command.stdout(into()).stderr(into());
        // Ctrl-C at the terminal is for us, and not for the server that this starts.
        command.process_group(0);
        let mut process = command
            .spawn()
            .map_err(|e| Error::new(format!("could not run \"{}\": {e}", self.command)))?;
        let started = Instant::now();
        let status = loop {
            match process.try_wait()? {
                Some(status) => break status,
                None if started.elapsed() > RESTART_MAX => {
                    let _ = process.kill();
                    let _ = process.wait();
                    return Err(Error::new(format!(
                        "the restart command \"{}\" did not end within {} s",
                        self.command,
                        RESTART_MAX.as_secs()
                    )));
                }
                // To the end, whatever signals come: a restart is not to be left half done.
                None => thread::sleep(LOOK_INTERVAL),
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = output
            .and_then(|output| fs::read_to_string(output.path()))
            .unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].join("\n    ");
        Err(Error::new(format!(
            "the restart command \"{}\" failed with {status}\n    {last}",
            self.command
        )))
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        if self.changed {
            // Restored before anything is said: whoever reads the messages may have left, or may have stopped reading.
            let restored = self.restore();
            crate::tell(&match restored {
                Ok(()) => format!(
                    "put {} back, and restarted the server with it\n",
                    self.auto_conf.display()
                ),
                Err(e) => format!("pgweir: {e}\n"),
            });
        }
    }
}
