//! `pgweir lab idle`: what connections cost that do nothing.
//!
//! A connection that has looked at many tables keeps what it learnt in its own memory, and every snapshot, lock and
//! process switch knows of it. So three loads run alone and beside idle connections, direct and through pgweir, where idle
//! clients hold no server. What is looked at: throughput and latency, memory, and what the working sessions wait for.
//!
//! | file | decides |
//! |---|---|
//! | `workload` | the three loads |
//! | `fleet` | the idle connections: how they are opened, filled and closed |
//! | `measure` | what runs when |
//! | `schedule` | what is still to come, and how long that takes |
//! | `memory`, `timeline`, `wait_events` | what is looked at meanwhile |
//! | `verdict` | what it means, in words |
//! | `page` | the report |

mod fleet;
mod measure;
mod memory;
mod page;
mod schedule;
mod timeline;
mod verdict;
mod wait_events;
mod workload;

pub use workload::Row;

use crate::pgbench::{BYTES_PER_SCALE, Protocol, WorkloadArguments};
use crate::report::Unit;
use crate::session::{CommonArguments, Plan, Session, Target, fill_time};
use crate::throwaway::NOT_DURABLE;
use crate::{Error, Result};
use clap::Args;
use measure::Way;
use memory::SystemMemory;
use pgweir_maths::number_words;
use schedule::{OpeningTimes, Schedule};
use std::time::Duration;

/// Idle connections where nothing limits them: as many as in the article that this reproduces.
const IDLE_DEFAULT: u32 = 1000;

/// Connections beside the idle ones, pgbench's and the pool's: those that look.
const SPARE_CONNECTIONS: u32 = 8;

/// Memory that a backend is supposed to take, for the default alone: about what PostgreSQL 15 to 18 take.
const BACKEND_BYTES_SUPPOSED: u64 = 20 << 20;

/// Share of the available memory that the default may take.
const MEMORY_SHARE_MAX: f64 = 0.7;

/// Measure what idle connections cost: throughput, latency and memory, direct and through pgweir
#[derive(Debug, Clone, Args)]
pub struct IdleArguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: CommonArguments,

    /// Idle connections; by default 1,000, or as many as max_connections and the memory allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub idle: Option<u32>,

    /// Clients of pgbench beside them
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,

    /// Servers of the pool, through pgweir
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pool_size: u32,

    /// Load to measure; by default all; may be repeated
    #[arg(long = "row", value_enum, value_name = "ROW")]
    pub row: Vec<Row>,

    /// Protocol of the queries
    #[arg(short = 'M', long, value_enum, default_value_t = Protocol::Simple)]
    pub protocol: Protocol,

    /// Size of pgbench's tables: 100,000 accounts, about 16 MB, for each unit
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub scale: u32,

    /// Measure only without a pooler
    #[arg(long)]
    pub direct_only: bool,
}

impl IdleArguments {
    /// The loads, in their order.
    fn rows(&self) -> Vec<Row> {
        let wanted = |row: &Row| self.row.is_empty() || self.row.contains(row);
        Row::ALL.into_iter().filter(wanted).collect()
    }

    fn ways(&self) -> &'static [Way] {
        if self.direct_only {
            &[Way::Direct]
        } else {
            &[Way::Direct, Way::Pooled]
        }
    }

    /// What a round measures, one after the other, and whether beside idle connections; each round from the other end.
    fn order(&self, round: u32) -> Vec<(Way, bool)> {
        let both = |with_idle| self.ways().iter().map(move |way| (*way, with_idle));
        let mut order: Vec<_> = both(false).chain(both(true)).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// All phases of all rounds.
    fn schedule(&self, idle: usize, opening: OpeningTimes) -> Schedule {
        let phases = (0..self.common.rounds).flat_map(|round| self.order(round));
        Schedule::new(phases, (self.rows().len(), self.run_time()), idle, opening)
    }

    /// How long a run takes.
    fn run_time(&self) -> Duration {
        Duration::from_secs(u64::from(self.common.seconds)) + Duration::from_millis(400)
    }

    /// Connections beside the idle ones.
    fn other_connections(&self) -> u32 {
        self.clients.max(self.pool_size) + SPARE_CONNECTIONS
    }

    /// Settings of a throwaway PostgreSQL.
    fn throwaway_settings(&self) -> Vec<String> {
        let connections = self.idle.unwrap_or(IDLE_DEFAULT) + self.other_connections() + SPARE_CONNECTIONS;
        let mut settings = vec![
            format!("max_connections={connections}"),
            "shared_buffers=256MB".to_owned(),
        ];
        settings.extend(NOT_DURABLE.map(str::to_owned));
        settings
    }
}

/// Runs it.
pub fn run(arguments: &IdleArguments) -> Result<()> {
    let mut schedule = None;
    let mut session = Session::open("idle", &arguments.common, &arguments.throwaway_settings(), |target| {
        let idle = idle_connections(arguments, target)?;
        let planned = arguments.schedule(idle as usize, OpeningTimes::sample(&target.server, idle as usize)?);
        let plan = plan(arguments, idle, &planned);
        schedule = Some(planned);
        Ok(plan)
    })?;
    let schedule = schedule.expect("a session that is open has been planned");
    session.progress.plan(schedule.steps(), schedule.time());
    if !arguments.common.existing {
        session.progress.plan(1, fill_time(arguments.scale));
        session.fill(&WorkloadArguments {
            builtin: Vec::new(),
            file: Vec::new(),
            variables: Vec::new(),
            protocol: arguments.protocol,
            scale: arguments.scale,
            setup: None,
        })?;
    }
    let found = measure::measure(&mut session, arguments, schedule)?;
    let Session {
        results,
        target,
        machine,
        pgbench,
        ..
    } = session;
    let mut outcome = results.outcome(&machine, &target, &pgbench.version);
    page::complete(&mut outcome, arguments, &found);
    target.close()?;
    let report = page::report(&outcome, arguments, &found);
    results.finish(outcome, &report)
}

/// How many idle connections there will be.
fn idle_connections(arguments: &IdleArguments, target: &Target) -> Result<u32> {
    let allowed = target
        .facts
        .connections_free()
        .saturating_sub(arguments.other_connections());
    if let Some(wanted) = arguments.idle {
        if wanted <= allowed {
            return Ok(wanted);
        }
        return Err(Error::new(format!(
            "{} idle connections beside {} clients are more than the server allows: {} of its connections are free",
            number_words(f64::from(wanted)),
            number_words(f64::from(arguments.clients)),
            number_words(f64::from(target.facts.connections_free()))
        ))
        .hint(format!(
            "ask for --idle {allowed} at most, raise max_connections, or measure a --throwaway server"
        )));
    }
    let mut idle = IDLE_DEFAULT.min(allowed);
    if let Some(memory) = SystemMemory::now().filter(|_| target.server.is_local()) {
        let fits = memory.available_bytes as f64 * MEMORY_SHARE_MAX / BACKEND_BYTES_SUPPOSED as f64;
        idle = idle.min(fits as u32);
    }
    match idle {
        0 => Err(Error::new("the server has no connections left for idle ones")
            .hint("use fewer --clients, raise max_connections, or measure a --throwaway server")),
        idle => Ok(idle),
    }
}

fn plan(arguments: &IdleArguments, idle: u32, schedule: &Schedule) -> Plan {
    let bytes = u64::from(arguments.scale) * BYTES_PER_SCALE;
    let mut actions = Vec::new();
    if !arguments.common.existing {
        actions.push(format!(
            "create database {} with pgbench's tables, {}, and drop it afterwards",
            arguments.common.database,
            Unit::Bytes.show(bytes as f64)
        ));
    }
    actions.push(format!(
        "open {} idle connections, again and again, which take memory of the server: about {} together",
        number_words(f64::from(idle)),
        Unit::Bytes.show(f64::from(idle) * BACKEND_BYTES_SUPPOSED as f64)
    ));
    actions.push(format!(
        "load it with {} clients of pgbench",
        number_words(f64::from(arguments.clients))
    ));
    Plan {
        actions,
        time: fill_time(arguments.scale) + schedule.time(),
    }
}
