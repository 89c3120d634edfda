//! `pgweir lab connections`: how many connections this server is fastest with, and what to set accordingly.
//!
//! Benchmark your own server with your own scripts, take the concurrency at the peak, and let what is above it wait in a
//! pool: the method of the articles, in three parts. A sweep of the number of clients, doubling; a finer one around the
//! peak; and through pgweir, with the most clients of the sweep, a sweep of pool sizes.

mod judge;
mod page;
mod sweep;

use crate::pgbench::{BYTES_PER_SCALE, WorkloadArguments};
use crate::pooler::PoolerSettings;
use crate::rounds::{self, Planned};
use crate::session::{CommonArguments, Plan, Session, Target, fill_time};
use crate::{Error, Result};
use clap::Args;
use pgweir_maths::number_words;
use std::time::Duration;
use sweep::Sweep;

/// The most clients of a sweep where the user does not say, and for each processor.
const CLIENTS_MAX: (u32, u32) = (64, 16);

/// Connections that the sweep leaves to others.
const SPARE_CONNECTIONS: u32 = 5;

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArguments,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub workload: WorkloadArguments,

    /// The largest number of clients to try
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=20_000))]
    pub clients_max: Option<u32>,

    /// Measure exactly these numbers of clients
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', conflicts_with = "clients_max", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub clients: Vec<u32>,

    /// Pool sizes to measure through pgweir; by default sizes around the peak
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pool_sizes: Vec<u32>,

    /// Measure only without a pooler
    #[arg(long, conflicts_with = "pool_sizes")]
    pub direct_only: bool,

    /// Processors of the server, if it is another machine
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,

    /// Disks of the server that work in parallel
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub spindles: u32,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let cpus = u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1);
    let wished = match (&arguments.clients[..], arguments.clients_max) {
        ([], Some(most)) => most,
        ([], None) => CLIENTS_MAX.0.max(CLIENTS_MAX.1 * cpus),
        (list, _) => list.iter().copied().max().unwrap_or(1),
    };
    let settings = [
        format!(
            "max_connections={}",
            wished + 2 * SPARE_CONNECTIONS + judge::RESERVED_CONNECTIONS
        ),
        "listen_addresses=".to_owned(),
        "shared_buffers=256MB".to_owned(),
        "max_wal_size=4GB".to_owned(),
    ];
    let mut session = Session::open("connections", &arguments.common, &settings, |target| {
        plan(arguments, target, wished)
    })?;
    let most = most_clients(&session.target, wished, arguments)?;
    let mut sweep = Sweep::new(arguments, most);
    let (runs, time) = sweep.expected();
    session.progress.plan(runs, time);
    if !arguments.common.existing {
        session.progress.plan(1, fill_time(arguments.workload.scale));
        session.fill(&arguments.workload)?;
    }
    let around = judge::surroundings(&session, arguments)?;
    sweep.coarse(&mut session)?;
    sweep.fine(&mut session)?;
    let recommendation = judge::from_direct(&sweep, &around)?;
    let pooled = if arguments.direct_only {
        Vec::new()
    } else {
        pools(arguments, &mut session, &sweep, &recommendation)?
    };
    let judged = judge::all(&sweep, recommendation, pooled, &around);
    let mut outcome = session
        .results
        .outcome(&session.machine, &session.target, &session.pgbench.version);
    judge::tell(&judged, arguments, &mut outcome);
    outcome.left_out.extend(sweep.left_out);
    let report = page::draw(&judged, &outcome);
    let Session {
        results,
        target,
        progress,
        ..
    } = session;
    drop(progress);
    target.close()?;
    results.finish(outcome, &report)
}

/// What the server's limit leaves of the wish.
fn most_clients(target: &Target, wished: u32, arguments: &Arguments) -> Result<u32> {
    let free = target.facts.connections_free().saturating_sub(SPARE_CONNECTIONS);
    let asked_for = arguments.clients_max.is_some() || !arguments.clients.is_empty();
    if free < 2 || (asked_for && free < wished) {
        return Err(Error::new(format!(
            "{wished} clients are more than the server has room for: of {} connections {} are in use",
            target.facts.connections_max, target.facts.connections_used
        ))
        .hint("ask for fewer with --clients-max, or raise max_connections for the measurement"));
    }
    Ok(wished.min(free))
}

fn plan(arguments: &Arguments, target: &Target, wished: u32) -> Result<Plan> {
    let most = most_clients(target, wished, arguments)?;
    let common = &arguments.common;
    let mut actions = Vec::new();
    if common.existing {
        actions.push(format!(
            "run {} in the database \"{}\" as it is",
            arguments.workload.words(),
            common.database
        ));
    } else {
        let megabytes = (u64::from(arguments.workload.scale) * BYTES_PER_SCALE) >> 20;
        actions.push(format!(
            "create the database \"{}\", fill it with about {megabytes} MB ({}), and drop it when done",
            common.database,
            arguments.workload.words()
        ));
    }
    actions.push(format!(
        "load the server with 1 to {most} connections, as hard as it goes"
    ));
    let (_, time) = Sweep::new(arguments, most).expected();
    Ok(Plan {
        actions,
        time: time + fill_time(arguments.workload.scale),
    })
}

/// Pool sizes, with the most clients that the server took direct; then a pool that finds its size, and those clients direct.
fn pools(
    arguments: &Arguments,
    session: &mut Session,
    sweep: &Sweep,
    recommendation: &pgweir_maths::Recommendation,
) -> Result<Vec<Planned>> {
    let clients = sweep.most_measured();
    let mut sizes = arguments.pool_sizes.clone();
    if sizes.is_empty() {
        sizes = judge::sizes_to_try(recommendation, clients);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let load = sweep.load(clients);
    let mut planned: Vec<Planned> = sizes
        .iter()
        .map(|size| Planned::pooled(load.clone(), PoolerSettings::new(*size, clients + SPARE_CONNECTIONS)))
        .collect();
    planned.push(Planned::finding_its_size(
        load.clone(),
        clients,
        clients + SPARE_CONNECTIONS,
    ));
    let mut beside = Planned::direct(load);
    beside.case.name += ", beside the pools";
    planned.push(beside);
    let rounds = arguments.common.rounds;
    let time: Duration = planned.iter().map(Planned::time).sum();
    session
        .progress
        .plan_rest(planned.len() * rounds as usize, time * rounds);
    match rounds::run(session, &mut planned, rounds) {
        // What was measured direct is worth its report.
        Err(e @ Error::Failed { .. }) if !rounds::server_is_gone(session) => {
            crate::tell(&format!("pgweir: through pgweir nothing could be measured: {e}\n"));
            Ok(planned)
        }
        outcome => outcome.map(|()| planned),
    }
}

/// `8 clients (1,234 TPS)`
fn level_words(clients: u32, tps: f64) -> String {
    format!("{} ({} TPS)", rounds::clients_words(clients), number_words(tps))
}
