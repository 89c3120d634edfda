//! The load of one run of pgbench, and its result.

use super::latencies::Latencies;
use super::output::{Live, Summary, summary_of};
use super::{Child, Pgbench};
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::{Error, Result, machine};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The most transactions whose latency is kept; of more, a sample is kept. A line of the log has about 40 bytes.
const LATENCIES_MAX: f64 = 500_000.0;

/// The most transactions per second that the size of the log is planned for.
const TPS_SUPPOSED_MAX: f64 = 100_000.0;

/// Open files of pgbench besides its connections and the log of each thread.
const SPARE_FILES: u64 = 64;

/// The most clients of one pgbench thread. Before each wait a thread asks the kernel about all its connections (ppoll).
/// With thousands of connections this takes more time than the work itself: with 8,192 clients of a pool and `SELECT`s,
/// on two processors, two threads made 10,500 transactions per second, and sixty-four made 18,600.
const CLIENTS_PER_THREAD_MAX: u32 = 128;

/// pgbench's `-T` begins before its clients are connected. With many clients it gets this many seconds for connecting,
/// or this many times the expected time, and is told when to end.
const CONNECTING_MAX: (u32, u32) = (60, 10);

/// A run that exceeds its planned time by this counts as stuck; in addition for each hundred clients, because at the
/// end pgbench waits until each of them has ended its transaction.
const OVERDUE: Duration = Duration::from_secs(60);
const OVERDUE_PER_HUNDRED_CLIENTS: Duration = Duration::from_secs(1);

/// The load: pgbench's options of the same names. Flatten it into a command's arguments.
#[derive(Debug, Clone, Args)]
pub struct WorkloadArguments {
    /// A script of pgbench: tpcb-like, simple-update, select-only; with a weight as NAME@WEIGHT; may be repeated
    #[arg(short, long, value_name = "NAME[@WEIGHT]")]
    pub builtin: Vec<String>,

    /// A script of your own, as for pgbench; with a weight as FILE@WEIGHT; may be repeated
    #[arg(short, long, value_name = "FILE[@WEIGHT]")]
    pub file: Vec<String>,

    /// Define a variable for the scripts, as for pgbench; may be repeated
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub variables: Vec<String>,

    /// Protocol of the queries
    #[arg(short = 'M', long, value_enum, default_value_t = Protocol::Simple)]
    pub protocol: Protocol,

    /// Size of pgbench's tables: 100,000 accounts, about 16 MB, for each unit
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub scale: u32,

    /// SQL that makes the tables of your own scripts, run once in the lab's database
    #[arg(long, value_name = "FILE")]
    pub setup: Option<PathBuf>,
}

/// How queries are sent (pgbench's `-M`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// As text.
    Simple,
    /// Parsed each time.
    Extended,
    /// Parsed once for each connection.
    Prepared,
}

impl Protocol {
    /// pgbench's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        }
    }
}

/// One of the scripts of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Where it comes from.
    pub source: ScriptSource,
    /// NAME or FILE, with `@WEIGHT` if it has one.
    pub name: String,
}

/// The origin of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptSource {
    /// It is in pgbench.
    Builtin,
    /// The user wrote it.
    File,
}

impl WorkloadArguments {
    /// The scripts that the user asked for; by default pgbench's default script.
    pub fn scripts(&self) -> Vec<Script> {
        let named = |source, names: &[String]| -> Vec<Script> {
            names
                .iter()
                .map(|name| Script {
                    source,
                    name: name.clone(),
                })
                .collect()
        };
        let mut scripts = named(ScriptSource::Builtin, &self.builtin);
        scripts.extend(named(ScriptSource::File, &self.file));
        if scripts.is_empty() {
            scripts = named(ScriptSource::Builtin, &["tpcb-like".to_owned()]);
        }
        scripts
    }

    /// In words, such as `tpcb-like, simple protocol, scale 10`.
    pub fn words(&self) -> String {
        let names: Vec<String> = self.scripts().into_iter().map(|script| script.name).collect();
        format!(
            "{}, {} protocol, scale {}",
            names.join(" + "),
            self.protocol.word(),
            self.scale
        )
    }
}

/// One run of pgbench.
#[derive(Debug, Clone)]
pub struct Load {
    /// The scripts; not empty.
    pub scripts: Vec<Script>,
    /// Variables, NAME=VALUE.
    pub variables: Vec<String>,
    /// How queries are sent.
    pub protocol: Protocol,
    /// Concurrent clients.
    pub clients: u32,
    /// Measured time.
    pub seconds: u32,
    /// The expected seconds for connecting all clients, which come before the measured time. 0 if they do not matter.
    pub connecting_seconds: u32,
    /// A new connection for each transaction.
    pub connect_each: bool,
    /// Let pgbench vacuum its tables and empty its history before the run, so that all runs find the same tables.
    pub vacuum: bool,
}

/// The result of one run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The figures of pgbench's summary.
    pub summary: Summary,
    /// Latencies of single transactions, or of a sample. Empty with `-C`, or if no transaction has ended.
    pub latencies: Latencies,
    /// The progress lines.
    pub intervals: Vec<Live>,
    /// The command, for a shell.
    pub command: String,
    /// The whole output of pgbench.
    pub raw: String,
}

impl Load {
    /// One script of ours, in a file, once for each transaction.
    pub fn of_file(file: &std::path::Path, clients: u32, seconds: u32) -> Self {
        Load {
            scripts: vec![Script {
                source: ScriptSource::File,
                name: file.display().to_string(),
            }],
            variables: Vec::new(),
            protocol: Protocol::Simple,
            clients,
            seconds,
            connecting_seconds: 0,
            connect_each: false,
            vacuum: false,
        }
    }

    /// The load of the arguments, with this many clients, for this many seconds.
    pub fn new(workload: &WorkloadArguments, clients: u32, seconds: u32) -> Self {
        Load {
            scripts: workload.scripts(),
            variables: workload.variables.clone(),
            protocol: workload.protocol,
            clients,
            seconds,
            connecting_seconds: 0,
            connect_each: false,
            vacuum: workload.file.is_empty(),
        }
    }

    /// Threads of pgbench. More threads than processors only disturb, unless each would have many clients. pgbench
    /// refuses more threads than clients.
    ///
    /// pgbench waits for an answer inside PREPARE (`prepareCommand`), and the thread's other clients wait in the
    /// meantime. Some of them may have the server that PREPARE needs: with fewer servers than clients in a thread, and
    /// transactions of several statements, pgbench would stop for ever. In that case [`Load::run`] gives each client
    /// its own thread.
    fn threads(&self, own_thread_each: bool) -> u32 {
        // In a transaction of one statement, no client has a server that another client waits for.
        let one_statement = self
            .scripts
            .iter()
            .all(|s| s.source == ScriptSource::Builtin && s.name.starts_with("select"));
        if own_thread_each && self.protocol == Protocol::Prepared && !one_statement {
            return self.clients;
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = u32::try_from(cpus).unwrap_or(1);
        self.clients
            .min(cpus)
            .max(self.clients.div_ceil(CLIENTS_PER_THREAD_MAX))
    }

    /// The same, but fewer if the limit of open files leaves no room for the log of each.
    fn threads_that_files_allow(&self, own_thread_each: bool) -> Result<u32> {
        let wanted = self.threads(own_thread_each);
        let connections = u64::from(self.clients) + SPARE_FILES;
        if machine::raise_open_files(connections + u64::from(wanted)).is_ok() {
            return Ok(wanted);
        }
        let least = if wanted == self.clients { wanted } else { 1 };
        let room = machine::open_files_max().map_or(u64::MAX, |limit| limit.saturating_sub(connections));
        let threads = wanted.min(u32::try_from(room).unwrap_or(u32::MAX)).max(least);
        machine::raise_open_files(connections + u64::from(threads))?;
        Ok(threads)
    }

    /// The most seconds for connecting, if connecting takes time.
    fn connecting_max(&self) -> u32 {
        match self.connecting_seconds {
            0 => 0,
            seconds => CONNECTING_MAX.0 + CONNECTING_MAX.1 * seconds,
        }
    }

    /// Starts it as a background load for another measurement, for `seconds` at most. Its figures are not kept.
    pub fn start_behind(&self, pgbench: &Pgbench, server: &Server, own_thread_each: bool) -> Result<Child> {
        let threads = self.threads_that_files_allow(own_thread_each)?;
        let mut arguments: Vec<OsString> = vec!["--progress=1".into()];
        arguments.extend(self.arguments(self.seconds + self.connecting_max(), threads));
        Child::start(&pgbench.path, &arguments, server)
    }

    /// Runs it. `own_thread_each`: a pooler with fewer servers than clients is in between.
    pub fn run(
        &self,
        pgbench: &Pgbench,
        server: &Server,
        own_thread_each: bool,
        interrupt: &Interrupt,
        mut live: impl FnMut(Live),
    ) -> Result<Measured> {
        let threads = self.threads_that_files_allow(own_thread_each)?;
        let logs = tempfile::Builder::new().prefix("pgweir-lab-").tempdir()?;
        let seconds = self.seconds + self.connecting_max();
        let work_time = (self.connecting_seconds > 0).then(|| Duration::from_secs(u64::from(self.seconds)));
        let sampling = (LATENCIES_MAX / (TPS_SUPPOSED_MAX * f64::from(self.seconds))).clamp(0.000_1, 1.0);
        let mut arguments: Vec<OsString> = ["--progress=1", "--log"].map(OsString::from).into();
        arguments.push(format!("--log-prefix={}/log", logs.path().display()).into());
        if sampling < 1.0 {
            arguments.push(format!("--sampling-rate={sampling}").into());
        }
        let plain = self.arguments(seconds, threads);
        arguments.extend(plain.iter().cloned());
        let mut intervals = Vec::new();
        let child = Child::start(&pgbench.path, &arguments, server)?;
        let time_max =
            Duration::from_secs(u64::from(seconds)) + OVERDUE + OVERDUE_PER_HUNDRED_CLIENTS * (self.clients / 100);
        let written = child.finish(time_max, work_time, interrupt, |progress| {
            intervals.push(progress);
            live(progress);
        })?;
        let raw = format!("{}\n{}", written.errors.join("\n"), written.output);
        let summary = summary_of(&written.output)?;
        if summary.transactions == 0 {
            return Err(Error::new(format!(
                "pgbench made no transaction in {seconds} s, connecting included"
            ))
            .hint("give each run more time with --seconds"));
        }
        let words: Vec<String> = plain.iter().map(|word| shell_quoted(&word.to_string_lossy())).collect();
        Ok(Measured {
            summary,
            latencies: Latencies::read(logs.path())?,
            intervals,
            command: format!("pgbench {} {}", words.join(" "), shell_quoted(&server.libpq_words())),
            raw,
        })
    }

    fn arguments(&self, seconds: u32, threads: u32) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if !self.vacuum {
            arguments.push("-n".into());
        }
        for script in &self.scripts {
            arguments.push(
                if script.source == ScriptSource::File {
                    "-f"
                } else {
                    "-b"
                }
                .into(),
            );
            arguments.push(script.name.clone().into());
        }
        for variable in &self.variables {
            arguments.extend(["-D".into(), variable.into()]);
        }
        for (option, value) in [
            ("-M", self.protocol.word().to_owned()),
            ("-c", self.clients.to_string()),
            ("-j", threads.to_string()),
            ("-T", seconds.to_string()),
        ] {
            arguments.extend([option.into(), value.into()]);
        }
        if self.connect_each {
            arguments.push("-C".into());
        }
        arguments
    }
}

/// As one word for a shell.
pub fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(clients: u32, protocol: Protocol) -> Load {
        Load {
            scripts: vec![Script {
                source: ScriptSource::File,
                name: "my script.sql@3".to_owned(),
            }],
            variables: vec!["n=5".to_owned()],
            protocol,
            clients,
            seconds: 7,
            connecting_seconds: 0,
            connect_each: true,
            vacuum: false,
        }
    }

    #[test]
    fn arguments_are_pgbenchs() {
        let arguments = load(1, Protocol::Extended).arguments(9, 1);
        let text: Vec<_> = arguments.iter().map(|a| shell_quoted(&a.to_string_lossy())).collect();
        assert_eq!(
            text.join(" "),
            "-n -f 'my script.sql@3' -D n=5 -M extended -c 1 -j 1 -T 9 -C"
        );
    }

    /// Guards against a pgbench that stops for ever: while one client of a thread waits in PREPARE for a server of a
    /// small pool, the thread does not serve its other clients, which have the servers.
    #[test]
    fn prepared_clients_of_a_small_pool_have_threads_of_their_own() {
        assert_eq!(load(300, Protocol::Prepared).threads(true), 300);
        let cpus = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        assert_eq!(load(300, Protocol::Prepared).threads(false), cpus.clamp(3, 300));
        assert_eq!(load(100, Protocol::Simple).threads(true), cpus.min(100));
    }

    /// Guards against a load generator that is slower than the server that it measures.
    #[test]
    fn many_clients_have_many_threads() {
        let cpus = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        assert_eq!(load(19_900, Protocol::Simple).threads(true), cpus.max(156));
        assert_eq!(load(1, Protocol::Simple).threads(true), 1);
    }
}
