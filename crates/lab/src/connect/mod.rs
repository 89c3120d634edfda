//! `pgweir lab connect`: what a connection costs, and what pooling takes of that.
//!
//! Two looks at the same thing. pgbench with `-C`, a connection for each `SELECT 1`, beside clients that stay: how many
//! short connections the server bears. And connections opened one at a time, step by step with a clock: where the time
//! goes. Each direct and through pgweir with the same login; on a throwaway server with TLS, with SCRAM and with both.

mod page;
mod verdict;
mod ways;

use crate::pgbench::Load;
use crate::pooler::{Pooler, PoolerSettings};
use crate::results::{Case, Outcome};
use crate::rounds::{self, Planned, clients_words};
use crate::session::{CommonArguments, Plan, Session, Target};
use crate::{Error, Result};
use clap::Args;
use std::time::{Duration, Instant};
use ways::Way;

/// Connections opened step by step in each round, at most so many and for so long.
const PROBES_MAX: usize = 200;
const PROBE_TIME_MAX: Duration = Duration::from_secs(3);

/// Loads whose clients stay connected: direct and pooled.
const STAYING: u32 = 2;

/// Ends of the names of cases.
const FOR_EACH: &str = ", connection for each";
const ONE_AT_A_TIME: &str = ", one at a time";

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArguments,

    /// Clients that connect again and again
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: u32,

    /// Server connections of the pool; by default what the rule of thumb says: processors x 2 + 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pool_size: Option<u32>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let settings = [
        format!("max_connections={}", 2 * arguments.clients + 30),
        "listen_addresses=".to_owned(),
    ];
    let mut session = Session::open("connect", common, &settings, |target| Ok(plan(arguments, target)))?;
    let mut left_out = Vec::new();
    let ways = ways::find(&mut session, port, &settings, &mut left_out)?;
    let pool_size = arguments.pool_size.unwrap_or_else(crate::pooler::pool_size_here);
    let script = session.results.folder().join("raw").join("select-1.sql");
    std::fs::write(&script, "select 1;\n")?;
    let mut planned = loads(arguments, &ways, pool_size, &script);
    let time: Duration = planned.iter().map(Planned::time).sum();
    session.progress.plan(
        (planned.len() + ways.len()) * common.rounds as usize,
        (time + PROBE_TIME_MAX) * common.rounds,
    );
    let mut steps: Vec<Case> = ways
        .iter()
        .map(|way| Case::new(format!("{}{ONE_AT_A_TIME}", way.name()), way.path(), 1, None))
        .collect();
    for round in 0..common.rounds {
        rounds::round(&mut session, &mut planned, round)?;
        for (way, case) in ways.iter().zip(&mut steps) {
            probe(&mut session, way, pool_size, case, round)?;
        }
    }
    rounds::fail_if_all_failed(&planned)?;
    let outcome = outcome(&session, arguments, &planned, &steps, left_out);
    let report = page::draw(&outcome, &steps);
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

/// What was measured, and what it means.
fn outcome(
    session: &Session,
    arguments: &Arguments,
    planned: &[Planned],
    steps: &[Case],
    left_out: Vec<String>,
) -> Outcome {
    let mut outcome = session
        .results
        .outcome(&session.machine, &session.target, &session.pgbench.version);
    outcome.workload = "SELECT 1".to_owned();
    outcome.rounds = arguments.common.rounds;
    outcome.seconds_per_run = arguments.common.seconds;
    let loads = planned.iter().map(|planned| planned.case.clone());
    outcome.cases = loads.chain(steps.iter().cloned()).collect();
    outcome.left_out = left_out;
    for case in &outcome.cases {
        if let Some(failure) = &case.failure {
            outcome.left_out.push(format!("{}: {failure}", case.name));
        }
    }
    outcome.conclusions = verdict::conclusions(&outcome.cases);
    outcome
}

fn plan(arguments: &Arguments, target: &Target) -> Plan {
    let common = &arguments.common;
    let ways = match target.is_throwaway() {
        true => ways::ON_THROWAWAY,
        false => ways::ON_USERS_MAX,
    };
    let each_round = Duration::from_secs(u64::from(common.seconds + 1)) * (ways + STAYING) + PROBE_TIME_MAX * ways;
    Plan {
        actions: vec![
            if common.existing {
                format!("run SELECT 1 in the database \"{}\"", common.database)
            } else {
                format!("create the database \"{}\", and drop it when done", common.database)
            },
            format!(
                "open and close connections with {} clients, as fast as it goes",
                arguments.clients
            ),
        ],
        time: each_round * common.rounds,
    }
}

/// Clients that stay, direct and pooled; then, for each way, clients that connect anew.
fn loads(arguments: &Arguments, ways: &[Way], pool_size: u32, script: &std::path::Path) -> Vec<Planned> {
    let stay = Load::of_file(script, arguments.clients, arguments.common.seconds);
    let anew = Load {
        connect_each: true,
        ..stay.clone()
    };
    let load = |way: &Way, load: &Load| {
        let mut planned = match pooler_settings(way, pool_size, arguments.clients + 10) {
            None => Planned::direct(load.clone()),
            Some(settings) => Planned::pooled(load.clone(), settings),
        };
        planned.server = Some(way.server.clone());
        planned
    };
    let clients = clients_words(arguments.clients);
    let first_of = |path| ways.iter().find(|way| way.path() == path);
    let staying = [path_of(false), path_of(true)].into_iter().filter_map(first_of);
    let staying = staying.map(|way| load(way, &stay).named(format!("{}, {clients} that stay", way.name())));
    let anew = ways
        .iter()
        .map(|way| load(way, &anew).named(format!("{}{FOR_EACH}", way.name())));
    staying.chain(anew).collect()
}

/// The pooler of a way; None where it is direct.
fn pooler_settings(way: &Way, pool_size: u32, clients_max: u32) -> Option<PoolerSettings> {
    Some(PoolerSettings {
        auth_type: way.pooled_auth?,
        tls: way.login.tls,
        ..PoolerSettings::new(pool_size, clients_max)
    })
}

/// Opens connections one after the other, and adds the medians of their parts.
fn probe(session: &mut Session, way: &Way, pool_size: u32, case: &mut Case, round: u32) -> Result<()> {
    if case.failure.is_some() {
        return Ok(());
    }
    session
        .progress
        .begin(&format!("{}, round {}", case.name, round + 1), PROBE_TIME_MAX);
    let (pooler, server) = match pooler_settings(way, pool_size, 20) {
        None => (None, way.server.clone()),
        Some(settings) => {
            let pooler = Pooler::start(&way.server, &settings)?;
            let server = pooler.server(&way.server)?;
            (Some(pooler), server)
        }
    };
    let started = Instant::now();
    // The first warms up: the pooler opens its connection to the server.
    let mut outcome = server.probe();
    let mut times = Vec::new();
    while outcome.is_ok() && times.len() < PROBES_MAX && started.elapsed() < PROBE_TIME_MAX {
        session.interrupt.check()?;
        outcome = server.probe().inspect(|probed| times.push(*probed));
    }
    drop(pooler);
    if let Err(e) = outcome {
        if rounds::server_is_gone(session) {
            return Err(e);
        }
        session.progress.done("failed");
        case.failure = Some(e.to_string());
        return Ok(());
    }
    let ms = |part: &dyn Fn(&crate::server::ConnectTimes) -> Duration| {
        let values: Vec<f64> = times.iter().map(|t| part(t).as_secs_f64() * 1000.0).collect();
        pgweir_maths::median(&values).unwrap_or(0.0)
    };
    case.add("transport_ms", ms(&|t| t.transport));
    case.add("tls_ms", ms(&|t| t.tls));
    case.add("login_ms", ms(&|t| t.login));
    case.add("first_query_ms", ms(&|t| t.first_query));
    let total = ms(&crate::server::ConnectTimes::total);
    case.add("connect_total_ms", total);
    session.progress.done(&format!("{total:.2} ms"));
    Ok(())
}

/// So that a way can be told from a case.
fn path_of(pooled: bool) -> &'static str {
    if pooled { "pgweir" } else { "direct" }
}

/// For the ways: a server that cannot be connected to is left out and not an error.
fn reason(error: Error) -> Result<String> {
    match error {
        Error::Failed { message, .. } => Ok(message),
        interrupted @ Error::Interrupted { .. } => Err(interrupted),
    }
}
