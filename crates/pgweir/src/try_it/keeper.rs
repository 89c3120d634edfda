//! The process that holds the throwaway PostgreSQL, and cleans up however the pooler ends.

use super::{SERVER_PORT, path_text};
use crate::arguments::KeeperArguments;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The cluster, in the temporary folder.
pub(crate) const DATA_FOLDER: &str = "data";

/// What the keeper says when PostgreSQL runs.
pub(crate) const READY: &str = "ready";

/// Time for PostgreSQL to accept connections.
const START_MAX: Duration = Duration::from_secs(60);

/// Time for PostgreSQL to end after SIGINT, and then again after SIGQUIT.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How often to look whether PostgreSQL has come up, or has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How much of a failed program's output is shown, lines.
const SHOWN_LINES_MAX: usize = 10;

/// Makes and runs the cluster until standard input ends; removes it.
pub(crate) fn keep(arguments: &KeeperArguments) -> ExitCode {
    // Ctrl-C is for the pooler; we end when it has ended.
    let _ = rustix::process::setsid();
    let parent = watch_parent();
    let outcome = run(arguments, &parent);
    if !arguments.keep || outcome.is_err() {
        let _ = fs::remove_dir_all(&arguments.folder);
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The other end disconnects when our standard input ends.
fn watch_parent() -> Receiver<()> {
    let (alive, parent) = channel::<()>();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        drop(alive);
    });
    parent
}

fn run(arguments: &KeeperArguments, parent: &Receiver<()>) -> Result<(), String> {
    make_cluster(arguments)?;
    let mut server = Server::start(arguments)?;
    if !server.wait_until_ready(arguments, parent)? {
        return Ok(());
    }
    println!("{READY}");
    io::stdout().flush().map_err(|e| e.to_string())?;
    loop {
        match parent.recv_timeout(LOOK_INTERVAL * 10) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => server.check(arguments)?,
        }
    }
}

fn make_cluster(arguments: &KeeperArguments) -> Result<(), String> {
    let log = arguments.folder.join("initdb.log");
    let data = arguments.folder.join(DATA_FOLDER);
    let mut command = program(arguments, "initdb")?;
    command
        .arg("-D")
        .arg(&data)
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    let status = to_log(&mut command, &log)
        .status()
        .map_err(|e| format!("initdb: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("initdb failed\n{}", last_lines(&log)))
    }
}

/// PostgreSQL, which is stopped when dropped.
struct Server(Child);

impl Server {
    fn start(arguments: &KeeperArguments) -> Result<Self, String> {
        let mut command = program(arguments, "postgres")?;
        command.arg("-D").arg(arguments.folder.join(DATA_FOLDER));
        let folder = path_text(&arguments.folder)?;
        let settings = [
            ("listen_addresses", String::new()),
            ("unix_socket_directories", folder),
            ("port", SERVER_PORT.to_string()),
            ("max_connections", arguments.connections_max.to_string()),
            // Durability is of no use to a cluster that is thrown away.
            ("fsync", "off".to_owned()),
            ("synchronous_commit", "off".to_owned()),
            ("full_page_writes", "off".to_owned()),
        ];
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let child = to_log(&mut command, &log_file(arguments)).spawn();
        child.map(Server).map_err(|e| format!("postgres: {e}"))
    }

    /// Waits until PostgreSQL says in its pid file that it is ready; false where the pooler has ended meanwhile.
    fn wait_until_ready(&mut self, arguments: &KeeperArguments, parent: &Receiver<()>) -> Result<bool, String> {
        let started = Instant::now();
        let pid_file = arguments.folder.join(DATA_FOLDER).join("postmaster.pid");
        while started.elapsed() < START_MAX {
            // The eighth line is the status (PostgreSQL, src/include/utils/pidfile.h).
            let status = fs::read_to_string(&pid_file).unwrap_or_default();
            if status.lines().nth(7).is_some_and(|s| s.trim() == "ready") {
                return Ok(true);
            }
            self.check(arguments)?;
            if let Err(RecvTimeoutError::Disconnected) = parent.recv_timeout(LOOK_INTERVAL) {
                return Ok(false);
            }
        }
        Err(format!(
            "not ready after {} s\n{}",
            START_MAX.as_secs(),
            last_lines(&log_file(arguments))
        ))
    }

    /// Fails where PostgreSQL has ended.
    fn check(&mut self, arguments: &KeeperArguments) -> Result<(), String> {
        match self.0.try_wait() {
            Ok(Some(status)) => Err(format!(
                "postgres ended with {status}\n{}",
                last_lines(&log_file(arguments))
            )),
            _ => Ok(()),
        }
    }

    fn has_ended_within(&mut self, time: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < time {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(LOOK_INTERVAL);
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // Fast shutdown, then immediate shutdown (PostgreSQL manual, "Shutting Down the Server").
        for signal in [Signal::INT, Signal::QUIT] {
            if let Some(pid) = pid {
                let _ = kill_process(pid, signal);
            }
            if self.has_ended_within(STOP_MAX) {
                return;
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of PostgreSQL's programs, to be run as the unprivileged user and to end with us.
fn program(arguments: &KeeperArguments, name: &str) -> Result<Command, String> {
    let ourselves = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(ourselves);
    command.arg("try-launch").arg("--user").arg(&arguments.user);
    command.arg("--parent").arg(std::process::id().to_string()).arg("--");
    command.arg(arguments.bin_dir.join(name)).current_dir(&arguments.folder);
    // Settings of the user's environment are not for this cluster.
    for variable in ["PGDATA", "PGPORT", "PGHOST", "PGOPTIONS"] {
        command.env_remove(OsStr::new(variable));
    }
    Ok(command)
}

fn to_log<'c>(command: &'c mut Command, log: &Path) -> &'c mut Command {
    command.stdin(Stdio::null());
    match File::create(log).and_then(|file| Ok((file.try_clone()?, file))) {
        Ok((output, errors)) => command.stdout(output).stderr(errors),
        Err(_) => command.stdout(Stdio::null()).stderr(Stdio::null()),
    }
}

fn log_file(arguments: &KeeperArguments) -> PathBuf {
    arguments.folder.join("postgres.log")
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].join("\n")
}
