//! `pgweir lab buffers`: how large shared_buffers has to be for a load, and what prewarming gives.
//!
//! The server is restarted with one size after the other; after each restart the load runs once on the empty buffers and
//! once after pg_prewarm has filled them, indexes first. That a server restarts is nothing to happen by accident: it is
//! a throwaway one, or one of this machine whose data directory and restart command the user gives.
//!
//! | file | decides |
//! |---|---|
//! | `size` | which sizes |
//! | `restart` | how the server gets another size, and its own one back |
//! | `warming` | what cold and prewarmed mean |
//! | `measure` | what runs when |
//! | `verdict` | what it means, in words |
//! | `page` | the report |

mod measure;
mod page;
mod restart;
mod size;
mod verdict;
mod warming;

use crate::machine::Machine;
use crate::pgbench::{BYTES_PER_SCALE, WorkloadArguments};
use crate::report::Unit;
use crate::session::{CommonArguments, Plan, Session, Target, fill_time};
use crate::throwaway::{DATA_FOLDER, NOT_DURABLE};
use crate::{Error, Result};
use clap::Args;
use pgweir_maths::number_words;
use restart::{LocalServer, Restarter};
use std::path::PathBuf;

/// Connections beside those of pgbench.
const SPARE_CONNECTIONS: u32 = 10;

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArguments,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub workload: WorkloadArguments,

    /// Sizes of shared_buffers, such as 128MB,1GB; by default from a sixteenth of the data to all of it
    #[arg(long, value_name = "SIZE,SIZE,...", value_delimiter = ',', value_parser = size::parse)]
    pub sizes: Vec<u64>,

    /// Clients of pgbench
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,

    /// Measure the prewarmed server alone, and leave the page cache as it is: like a server that has been at work for long
    #[arg(long)]
    pub prewarmed: bool,

    /// Seconds of the same load before each run on a prewarmed server, not measured: the run finds what the load leaves in
    /// shared_buffers
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub settle: u32,

    /// Data directory of the server, which must be on this machine
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "restart_command",
        conflicts_with = "throwaway"
    )]
    pub data_dir: Option<PathBuf>,

    /// Command that restarts that server, such as "pg_ctlcluster 15 main restart"
    #[arg(long, value_name = "COMMAND", requires = "data_dir")]
    pub restart_command: Option<String>,
}

impl Arguments {
    /// Settings of a throwaway PostgreSQL beside shared_buffers.
    fn throwaway_settings(&self) -> Vec<String> {
        let mut settings = vec![
            format!("max_connections={}", self.clients + SPARE_CONNECTIONS),
            "listen_addresses=".to_owned(),
            "max_wal_size=4GB".to_owned(),
        ];
        settings.extend(NOT_DURABLE.map(str::to_owned));
        settings
    }

    /// Whether prewarmed: the states in which each size is measured, where `missing` says why nothing can be prewarmed.
    fn states(&self, missing: Option<&String>) -> Result<&'static [bool]> {
        match (missing, self.prewarmed) {
            (None, true) => Ok(&[true]),
            (None, false) => Ok(&[false, true]),
            (Some(_), false) => Ok(&[false]),
            (Some(why), true) => Err(Error::new(format!("nothing can be prewarmed: {why}"))),
        }
    }

    /// Bytes of the data that the lab makes.
    fn data_bytes(&self) -> u64 {
        u64::from(self.workload.scale) * BYTES_PER_SCALE
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let sizes = sizes_that_fit(arguments)?;
    let settings = arguments.throwaway_settings();
    let mut session = Session::open("buffers", &arguments.common, &settings, |target| {
        plan(arguments, &sizes, target)
    })?;
    let prewarm = warming::find_prewarm(&session.target)?;
    let states = arguments.states(prewarm.as_ref().err())?;
    let runs = sizes.len() * states.len() * arguments.common.rounds as usize;
    session
        .progress
        .plan(runs, measure::time(arguments, sizes.len(), states));
    if !arguments.common.existing {
        session.progress.plan(1, fill_time(arguments.workload.scale));
        session.fill(&arguments.workload)?;
    }
    let data_dir = match &session.target.cluster {
        Some(cluster) => Some(cluster.folder().join(DATA_FOLDER)),
        None => arguments.data_dir.clone(),
    };
    // Declared after the session, so that the server is as it was before the session drops its database.
    let mut restarter = match (&arguments.data_dir, &arguments.restart_command) {
        (Some(folder), Some(command)) => Restarter::Local(LocalServer::new(&session.target, folder, command)?),
        _ => Restarter::Throwaway(settings),
    };
    let found = measure::measure(
        &mut session,
        arguments,
        &sizes,
        states,
        &mut restarter,
        data_dir.as_deref(),
    )?;
    if let Restarter::Local(server) = &mut restarter {
        server.restore()?;
    }
    let Session {
        results,
        target,
        machine,
        pgbench,
        ..
    } = session;
    let mut outcome = results.outcome(&machine, &target, &pgbench.version);
    let verdict = page::complete(&mut outcome, arguments, &found, prewarm.err());
    let report = page::report(&outcome, arguments, &found, &verdict);
    target.close()?;
    results.finish(outcome, &report)
}

/// The sizes to measure, where the server can be restarted with them.
fn sizes_that_fit(arguments: &Arguments) -> Result<Vec<u64>> {
    if !arguments.common.throwaway && arguments.data_dir.is_none() {
        return Err(Error::new(
            "shared_buffers changes with a restart only, and this is not told how to restart the server",
        )
        .hint("--data-dir FOLDER --restart-command COMMAND restarts a server of this machine, again and again")
        .hint("--throwaway measures a temporary server of its own"));
    }
    let memory_bytes = Machine::here().memory_bytes;
    let sizes = sizes(arguments, memory_bytes);
    if let Some(largest) = sizes.last().filter(|size| memory_bytes > 0 && **size > memory_bytes) {
        return Err(Error::new(format!(
            "shared_buffers = {} is more than the memory of this machine, {}",
            size::written(*largest),
            Unit::Bytes.show(memory_bytes as f64)
        )));
    }
    Ok(sizes)
}

/// Ascending, each once.
fn sizes(arguments: &Arguments, memory_bytes: u64) -> Vec<u64> {
    let mut sizes = match arguments.sizes.is_empty() {
        true => size::around(arguments.data_bytes(), memory_bytes),
        false => arguments.sizes.clone(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn plan(arguments: &Arguments, sizes: &[u64], target: &Target) -> Result<Plan> {
    if target.facts.connections_free() < arguments.clients + SPARE_CONNECTIONS / 2 {
        return Err(Error::new(format!(
            "{} clients are more than the server has room for: of {} connections {} are in use",
            arguments.clients, target.facts.connections_max, target.facts.connections_used
        ))
        .hint("ask for fewer --clients, or raise max_connections for the measurement"));
    }
    let states = arguments.states(None)?;
    let restarts = (sizes.len() * states.len()) as u32 * arguments.common.rounds + 1;
    let mut actions = Vec::new();
    if let (Some(folder), Some(command)) = (&arguments.data_dir, &arguments.restart_command) {
        actions.push(format!(
            "restart the server {} times by \"{command}\": all its connections are closed each time",
            number_words(f64::from(restarts))
        ));
        actions.push(format!(
            "set shared_buffers in {} to sizes from {} to {}, and put that file back in the end",
            folder.join("postgresql.auto.conf").display(),
            sizes.first().map(|s| size::written(*s)).unwrap_or_default(),
            sizes.last().map(|s| size::written(*s)).unwrap_or_default()
        ));
    }
    if !arguments.common.existing {
        actions.push(format!(
            "create database {} with pgbench's tables, {}, and drop it afterwards",
            arguments.common.database,
            Unit::Bytes.show(arguments.data_bytes() as f64)
        ));
    }
    actions.push(format!(
        "create the extension pg_prewarm in database {}",
        arguments.common.database
    ));
    actions.push(format!(
        "load it with {} clients of pgbench, {}",
        number_words(f64::from(arguments.clients)),
        arguments.workload.words()
    ));
    Ok(Plan {
        actions,
        time: fill_time(arguments.workload.scale) + measure::time(arguments, sizes.len(), states),
    })
}
