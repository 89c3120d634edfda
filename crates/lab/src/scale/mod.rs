//! `pgweir lab scale`: whether many clients are as good as few, and how long one more waits beside them.
//!
//! From 64 clients to 19,900, all of which work without a pause: through pgweir, where a small pool serves them, and
//! direct, as far as the server has connections. Then one more client beside the most of them: in the same pool, where it
//! waits for its turn, in a pool of its own in the same pgweir, and direct.
//!
//! | file | decides |
//! |---|---|
//! | `counts` | which numbers of clients are measured which way, and why others are not |
//! | `lone` | the one client |
//! | `verdict` | what it means, in words |
//! | `page` | the report |

mod counts;
mod lone;
mod page;
mod verdict;

use crate::pgbench::{BYTES_PER_SCALE, Load, WorkloadArguments};
use crate::pooler::PoolerSettings;
use crate::results::Case;
use crate::rounds::{self, Planned};
use crate::session::{CommonArguments, Plan, Session, Target, fill_time};
use crate::throwaway::NOT_DURABLE;
use crate::{Error, Result};
use clap::Args;
use counts::Counts;
use lone::Lone;
use pgweir_maths::number_words;
use std::time::Duration;

/// Connections to the server that the measurement leaves to others, and to what looks at it.
const SPARE_CONNECTIONS: u32 = 8;

/// What PostgreSQL reserves for superusers where nobody has said otherwise.
const RESERVED_CONNECTIONS: u32 = 3;

/// Clients that log in within a second, supposed for the time that a run gets for it: direct, where PostgreSQL starts a
/// process for each, and through pgweir.
const LOGINS_PER_SECOND: (u32, u32) = (200, 2000);

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArguments,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub workload: WorkloadArguments,

    /// Numbers of clients
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = [64, 512, 2048, 8192, 19_900], value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub clients: Vec<u32>,

    /// The largest number of direct clients; by default as many as the server has room for, on a throwaway server 2,048
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub direct_max: Option<u32>,

    /// Server connections of the pool; by default what the rule of thumb says: processors x 2 + 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pool_size: Option<u32>,
}

impl Arguments {
    /// Servers of the pool.
    fn pool(&self) -> u32 {
        self.pool_size.unwrap_or_else(crate::pooler::pool_size_here)
    }

    /// The load of so many clients; `logins_per_second` decides the time for connecting.
    fn load(&self, clients: u32, logins_per_second: u32) -> Load {
        let mut load = Load::new(&self.workload, clients, self.common.seconds);
        load.vacuum &= !self.common.existing;
        load.connecting_seconds = clients / logins_per_second;
        load
    }
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let mut settings = vec![
        format!(
            "max_connections={}",
            counts::direct_on_throwaway(arguments).max(arguments.pool()) + SPARE_CONNECTIONS + RESERVED_CONNECTIONS
        ),
        "listen_addresses=".to_owned(),
        "shared_buffers=256MB".to_owned(),
        "max_wal_size=4GB".to_owned(),
    ];
    settings.extend(NOT_DURABLE.map(str::to_owned));
    let mut session = Session::open("scale", common, &settings, |target| plan(arguments, target))?;
    let mut counts = Counts::of(arguments, &session.target)?;
    let mut planned = planned(arguments, &counts);
    plan_progress(&mut session, arguments, &planned);
    if !common.existing {
        session.fill(&arguments.workload)?;
    }
    rounds::run(&mut session, &mut planned, common.rounds)?;
    let (pooled, direct): (Vec<Case>, Vec<Case>) = planned
        .into_iter()
        .map(|p| p.case)
        .partition(|case| case.path == "pgweir");
    let lone = match lone::measure(&mut session, arguments, &pooled) {
        Err(Error::Failed { message, .. }) if !rounds::server_is_gone(&session) => {
            counts.left_out.push(format!("one more client: {message}"));
            Lone::default()
        }
        outcome => outcome?,
    };
    let mut outcome = session
        .results
        .outcome(&session.machine, &session.target, &session.pgbench.version);
    outcome.workload = arguments.workload.words();
    outcome.rounds = common.rounds;
    outcome.seconds_per_run = common.seconds;
    outcome.conclusions = verdict::conclusions(&pooled, &direct, &lone, common.seconds);
    outcome.cases = pooled.iter().chain(&direct).chain(lone.cases()).cloned().collect();
    outcome.left_out = counts.left_out;
    let failed = outcome
        .cases
        .iter()
        .filter_map(|case| Some((&case.name, case.failure.as_ref()?)));
    outcome
        .left_out
        .extend(failed.map(|(name, why)| format!("{name}: {why}")));
    let report = page::draw(&pooled, &direct, &lone, &outcome);
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

/// Every number of clients, through pgweir and direct beside it.
fn planned(arguments: &Arguments, counts: &Counts) -> Vec<Planned> {
    let pool = arguments.pool();
    let mut planned = Vec::new();
    for &clients in &counts.pooled {
        let settings = PoolerSettings::new(pool, clients + SPARE_CONNECTIONS);
        planned.push(Planned::pooled(arguments.load(clients, LOGINS_PER_SECOND.1), settings));
        if counts.direct.contains(&clients) {
            planned.push(Planned::direct(arguments.load(clients, LOGINS_PER_SECOND.0)));
        }
    }
    planned
}

/// Time of all rounds, without filling.
fn time(arguments: &Arguments, planned: &[Planned]) -> Duration {
    let each: Duration = planned.iter().map(Planned::time).sum();
    (each + lone::time(arguments, planned)) * arguments.common.rounds
}

fn plan_progress(session: &mut Session, arguments: &Arguments, planned: &[Planned]) {
    let steps = (planned.len() + lone::STEPS) * arguments.common.rounds as usize;
    session.progress.plan(steps, time(arguments, planned));
    if !arguments.common.existing {
        session.progress.plan(1, fill_time(arguments.workload.scale));
    }
}

fn plan(arguments: &Arguments, target: &Target) -> Result<Plan> {
    let counts = Counts::of(arguments, target)?;
    let database = &arguments.common.database;
    let mut actions = Vec::new();
    if arguments.common.existing {
        actions.push(format!(
            "run {} in the database \"{database}\" as it is",
            arguments.workload.words()
        ));
    } else {
        let megabytes = (u64::from(arguments.workload.scale) * BYTES_PER_SCALE) >> 20;
        actions.push(format!(
            "create the database \"{database}\", fill it with about {megabytes} MB ({}), and drop it when done",
            arguments.workload.words()
        ));
    }
    let most = |counts: &[u32]| counts.last().copied().map_or(0.0, f64::from);
    actions.push(format!(
        "load it through pgweir with up to {} clients on {} connections, as hard as it goes",
        number_words(most(&counts.pooled)),
        number_words(f64::from(arguments.pool()))
    ));
    if !counts.direct.is_empty() {
        actions.push(format!(
            "open up to {} connections and load it with them, as hard as it goes",
            number_words(most(&counts.direct))
        ));
    }
    Ok(Plan {
        actions,
        time: time(arguments, &planned(arguments, &counts)) + fill_time(arguments.workload.scale),
    })
}
