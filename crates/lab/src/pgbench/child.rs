//! One run of pgbench as a child process, which ends at the latest with this process.

use super::output::{Live, progress_of};
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::throwaway::launched;
use crate::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often to check for a signal.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The most lines of its complaints that are shown.
const COMPLAINTS_MAX: usize = 3;

/// After all its clients are connected, it works this long before its first progress line (`--progress=1`).
const FIRST_PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// A running pgbench, killed when dropped.
#[derive(Debug)]
pub struct Child {
    process: Process,
    errors: Receiver<String>,
    output: Option<JoinHandle<String>>,
}

/// pgbench's output after it has ended without an error.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) output: String,
    /// Standard error, including the progress lines.
    pub(super) errors: Vec<String>,
}

impl Child {
    /// Starts it, from a thread that lasts as long as it should run. Environment and last argument name the server.
    pub(super) fn start(program: &Path, arguments: &[OsString], server: &Server) -> Result<Self> {
        let error = |e: std::io::Error| Error::new(format!("could not run {}: {e}", program.display()));
        let mut command = launched("", program.as_os_str()).map_err(error)?;
        command.args(arguments).arg(server.libpq_words());
        command
            .envs(server.libpq_environment())
            .env("LC_ALL", "C")
            .env_remove("PGCLIENTENCODING");
        // Ctrl-C at the terminal is meant for this process. pgbench ends because this process ends it.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().map_err(error)?;
        let (sender, errors) = channel();
        if let Some(stderr) = process.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let output = process.stdout.take().map(|mut stdout| {
            thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stdout.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        });
        Ok(Child {
            process,
            errors,
            output,
        })
    }

    /// Waits until its clients are connected and make transactions: until its first line of progress.
    pub fn wait_until_at_work(&mut self, time_max: Duration, interrupt: &Interrupt) -> Result<()> {
        let started = Instant::now();
        let mut lines = Vec::new();
        loop {
            interrupt.check()?;
            match self.errors.recv_timeout(LOOK_INTERVAL) {
                Ok(line) if progress_of(&line).is_some_and(|live| live.tps > 0.0) => return Ok(()),
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(format!("pgbench ended early{}", complaints(&lines))));
                }
                Err(RecvTimeoutError::Timeout) if started.elapsed() > time_max => {
                    return Err(Error::new(format!(
                        "pgbench made no transaction within {} s{}",
                        time_max.as_secs(),
                        complaints(&lines)
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Fails if it has ended, with its complaints.
    pub fn check_at_work(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(_) => {
                let lines: Vec<String> = self.errors.try_iter().collect();
                Err(Error::new(format!("pgbench ended early{}", complaints(&lines))))
            }
        }
    }

    /// Waits for its end, at most `time_max`, and passes on its progress. If `work_time` is given, pgbench is told to
    /// end when all its clients have been connected for that time.
    pub(super) fn finish(
        mut self,
        time_max: Duration,
        mut work_time: Option<Duration>,
        interrupt: &Interrupt,
        mut live: impl FnMut(Live),
    ) -> Result<Written> {
        let started = Instant::now();
        let mut lines = Vec::new();
        let mut at_work_since = None;
        loop {
            interrupt.check()?;
            if let Some(since) = at_work_since
                && work_time.take_if(|time| Instant::elapsed(&since) >= *time).is_some()
            {
                self.tell_that_time_is_up();
            }
            match self.errors.recv_timeout(LOOK_INTERVAL) {
                Ok(line) => {
                    if let Some(progress) = progress_of(&line) {
                        at_work_since = at_work_since.or_else(|| Instant::now().checked_sub(FIRST_PROGRESS_AFTER));
                        live(progress);
                    }
                    lines.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if started.elapsed() > time_max => {
                    return Err(Error::new(format!(
                        "pgbench did not end within {} s{}",
                        time_max.as_secs(),
                        complaints(&lines)
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let status = self.process.wait()?;
        let output = self
            .output
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        interrupt.check()?;
        match (status.success(), status.signal()) {
            (true, _) => Ok(Written { output, errors: lines }),
            (_, Some(signal)) => Err(Error::new(format!(
                "pgbench was ended by signal {signal}{}",
                complaints(&lines)
            ))),
            _ => Err(Error::new(format!("pgbench failed{}", complaints(&lines)))),
        }
    }
}

impl Child {
    /// Sends the signal of pgbench's own timer (`-T`), which began before its clients were connected.
    fn tell_that_time_is_up(&self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // If it has ended, there is no process to signal.
            let _ = kill_process(pid, Signal::ALARM);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// The first lines that are not progress lines. Lines that repeat for many clients are shown once.
fn complaints(lines: &[String]) -> String {
    let mut found: Vec<&str> = Vec::new();
    for line in lines {
        let is_complaint =
            line.contains("error:") || line.contains("fatal:") || line.contains("FATAL:") || line.contains("aborted");
        // "pgbench: error: client 7 script 0 aborted ...": the same for each client.
        let kind = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        if is_complaint && !found.iter().any(|f| kind(f) == kind(line)) {
            found.push(line);
        }
    }
    if found.is_empty() {
        found = lines
            .iter()
            .map(String::as_str)
            .filter(|line| progress_of(line).is_none())
            .collect();
    }
    found
        .iter()
        .take(COMPLAINTS_MAX)
        .map(|line| format!("\n    {line}"))
        .collect()
}
