//! The process that owns the throwaway PostgreSQL, and removes it however its parent ends.
//!
//! It writes `ready` to standard output when PostgreSQL runs, or an error. On standard input it reads lines of
//! `restart` and settings, separated by tabs, and writes `ready` again. When its standard input ends, it ends.

use super::launch::launched;
use super::{SERVER_PORT, path_text};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The cluster, in the temporary folder.
pub const DATA_FOLDER: &str = "data";

/// The line that the keeper writes when PostgreSQL runs.
pub(super) const READY: &str = "ready";

/// The time that PostgreSQL has to accept connections.
const START_MAX: Duration = Duration::from_secs(60);

/// The time that PostgreSQL has to end after SIGINT, and then again after SIGQUIT.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How often to check whether PostgreSQL runs, or has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The most lines of a failed program's output that are shown.
const SHOWN_LINES_MAX: usize = 10;

/// The command to stop PostgreSQL and start it with the settings that follow, separated by tabs.
pub(super) const RESTART: &str = "restart";

/// Arguments of the keeper.
#[derive(Debug, Args)]
pub struct KeeperArguments {
    /// The temporary folder
    #[arg(long)]
    pub folder: PathBuf,

    /// Folder of PostgreSQL's programs
    #[arg(long)]
    pub bin_dir: PathBuf,

    /// User that PostgreSQL runs as; empty for the present user
    #[arg(long, default_value = "")]
    pub user: String,

    /// A setting of PostgreSQL, NAME=VALUE
    #[arg(long = "set")]
    pub settings: Vec<String>,

    /// Keep the folder
    #[arg(long)]
    pub keep: bool,
}

/// Makes and runs the cluster until standard input ends, and removes it.
pub fn keep(arguments: &KeeperArguments) -> ExitCode {
    // Ctrl-C is meant for the parent. The keeper ends when the parent has ended.
    let _ = rustix::process::setsid();
    let parent = watch_parent();
    let outcome = run(arguments, &parent);
    if !arguments.keep || outcome.is_err() {
        let _ = fs::remove_dir_all(&arguments.folder);
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            crate::say(&format!("{why}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The lines of standard input. The channel disconnects when standard input ends.
fn watch_parent() -> Receiver<String> {
    let (orders, parent) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if orders.send(line).is_err() {
                return;
            }
        }
    });
    parent
}

fn run(arguments: &KeeperArguments, parent: &Receiver<String>) -> Result<(), String> {
    make_cluster(arguments)?;
    let mut server = Server::start(arguments, &arguments.settings)?;
    loop {
        if !server.wait_until_ready(arguments, parent)? {
            return Ok(());
        }
        crate::say(&format!("{READY}\n"));
        io::stdout().flush().map_err(|e| e.to_string())?;
        let settings = loop {
            match parent.recv_timeout(LOOK_INTERVAL * 10) {
                Ok(order) => break settings_of(&order)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => server.check(arguments)?,
            }
        };
        drop(server);
        server = Server::start(arguments, &settings)?;
    }
}

fn settings_of(order: &str) -> Result<Vec<String>, String> {
    let mut words = order.split('\t');
    match words.next() {
        Some(RESTART) => Ok(words.map(str::to_owned).collect()),
        _ => Err(format!("expected an order, got \"{order}\"")),
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
    fn start(arguments: &KeeperArguments, settings: &[String]) -> Result<Self, String> {
        let mut command = program(arguments, "postgres")?;
        command.arg("-D").arg(arguments.folder.join(DATA_FOLDER));
        let folder = path_text(&arguments.folder)?;
        let fixed = [
            format!("unix_socket_directories={folder}"),
            format!("port={SERVER_PORT}"),
        ];
        for setting in fixed.iter().chain(settings) {
            command.arg("-c").arg(setting);
        }
        let child = to_log(&mut command, &log_file(arguments)).spawn();
        child.map(Server).map_err(|e| format!("postgres: {e}"))
    }

    /// Waits until PostgreSQL's pid file says that it is ready. False if the parent has ended in the meantime.
    fn wait_until_ready(&mut self, arguments: &KeeperArguments, parent: &Receiver<String>) -> Result<bool, String> {
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

    /// Fails if PostgreSQL has ended.
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

/// One of PostgreSQL's programs, run as the unprivileged user. It ends together with this process.
fn program(arguments: &KeeperArguments, name: &str) -> Result<Command, String> {
    let path = arguments.bin_dir.join(name);
    let mut command = launched(&arguments.user, path.as_os_str()).map_err(|e| e.to_string())?;
    command.current_dir(&arguments.folder);
    // Settings of the user's environment must not affect this cluster.
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
