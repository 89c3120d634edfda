//! The measurement itself: alone and beside idle connections, direct and through pgweir, in turn.

use super::IdleArguments;
use super::fleet::{Fleet, backends, filling, memory_contexts};
use super::memory::{self, ProcessMemory, Source, SystemMemory};
use super::schedule::{Schedule, all_take};
use super::timeline::Timeline;
use super::wait_events::{Sampler, WaitEvents};
use super::workload::Row;
use crate::pooler::{Pooler, PoolerSettings};
use crate::results::Case;
use crate::rounds::{add_figures, server_is_gone};
use crate::server::Server;
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::number_words;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Connections of which the memory contexts are asked.
const CONTEXT_SAMPLE: usize = 10;

/// How the clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Direct,
    Pooled,
}

impl Way {
    /// As `result.json` calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Pooled => "pgweir",
        }
    }

    /// As people call it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Pooled => "through pgweir",
        }
    }
}

/// What the idle connections of one way took; the figures of the last round.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Taken {
    /// Idle connections that were open.
    pub(super) idle: usize,
    /// Server processes while they were.
    pub(super) backends: usize,
    /// Memory of those processes.
    pub(super) backend_memory: Option<ProcessMemory>,
    /// Why that is not known, or not as well as it could be.
    pub(super) backend_memory_missing: Option<String>,
    /// `pg_backend_memory_contexts` of some of them, mean bytes.
    pub(super) contexts_mean_bytes: Option<f64>,
    /// The machine's memory before, with them open, and after the load beside them.
    pub(super) before: Option<SystemMemory>,
    pub(super) open: Option<SystemMemory>,
    pub(super) after: Option<SystemMemory>,
    /// The pooler's own memory before and with them, bytes.
    pub(super) pooler_bytes: Option<(u64, u64)>,
}

/// Everything that was found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cases: BTreeMap<(Row, Way, bool), Case>,
    pub(super) events: BTreeMap<(Row, Way, bool), WaitEvents>,
    pub(super) taken: BTreeMap<Way, Taken>,
    /// Memory contexts of a backend that has done nothing yet, bytes.
    pub(super) fresh_contexts_bytes: Option<f64>,
    pub(super) timeline: Timeline,
    pub(super) left_out: Vec<String>,
}

/// Measures all rounds, whose steps are in the plan of the progress already.
pub(super) fn measure(session: &mut Session, arguments: &IdleArguments, schedule: Schedule) -> Result<Found> {
    let direct = session.target.server.clone();
    let rows = arguments.rows();
    let mut measuring = Measuring {
        arguments,
        filling: filling(&direct)?,
        local: direct.is_local(),
        schedule,
        found: Found::default(),
        session,
    };
    measuring.found.fresh_contexts_bytes = memory_contexts(&mut direct.connect()?);
    if measuring.local {
        measuring.found.timeline = Timeline::start();
    }
    let phases = arguments.ways().len() * 2;
    let mut count = 0;
    while let Some((way, with_idle)) = measuring.schedule.next() {
        let round = u32::try_from(count / phases).unwrap_or(u32::MAX);
        measuring.phase(&rows, way, with_idle, round)?;
        count += 1;
    }
    let failures: Vec<&String> = measuring
        .found
        .cases
        .values()
        .filter_map(|case| case.failure.as_ref())
        .collect();
    if failures.len() == measuring.found.cases.len()
        && let Some(first) = failures.first()
    {
        return Err(Error::new(first.as_str()));
    }
    let mut found = measuring.found;
    found.timeline.stop();
    Ok(found)
}

struct Measuring<'a> {
    arguments: &'a IdleArguments,
    session: &'a mut Session,
    filling: String,
    /// Whether this machine's memory is the server's.
    local: bool,
    /// What is still to come, and how many idle connections to open.
    schedule: Schedule,
    found: Found,
}

impl Measuring<'_> {
    /// One way in one condition: all rows.
    fn phase(&mut self, rows: &[Row], way: Way, with_idle: bool, round: u32) -> Result<()> {
        let direct = self.session.target.server.clone();
        let foreign = backends(&mut direct.connect()?)?.len();
        let pooler = match way {
            Way::Direct => None,
            Way::Pooled => {
                let clients_max = self.arguments.clients + u32::try_from(self.schedule.idle).unwrap_or(u32::MAX) + 10;
                Some(Pooler::start(
                    &direct,
                    &PoolerSettings::new(self.arguments.pool_size, clients_max),
                )?)
            }
        };
        let server = match &pooler {
            Some(pooler) => pooler.server(&direct)?,
            None => direct.clone(),
        };
        let fleet = match with_idle {
            true => Some(self.open_fleet(&server, &direct, way, pooler.as_ref())?),
            false => None,
        };
        for row in rows {
            self.run((*row, way, with_idle), &server, round)?;
        }
        if let Some(fleet) = fleet {
            if let Some(taken) = self.found.taken.get_mut(&way).filter(|_| self.local) {
                taken.after = SystemMemory::now();
            }
            self.found.timeline.note(format!("closed, {}", way.words()));
            // The pooler first: it holds its servers longer than its clients.
            drop(pooler);
            fleet.close(&direct, foreign, &self.session.interrupt)?;
        }
        Ok(())
    }

    fn open_fleet(&mut self, server: &Server, direct: &Server, way: Way, pooler: Option<&Pooler>) -> Result<Fleet> {
        let mut taken = Taken {
            before: self.local.then(SystemMemory::now).flatten(),
            ..Taken::default()
        };
        let pooler_before = pooler.and_then(|p| memory::of_process(p.pid()));
        self.found.timeline.note(format!(
            "{} idle, {}",
            number_words(self.schedule.idle as f64),
            way.words()
        ));
        let what = format!(
            "opening {} idle connections, {}",
            number_words(self.schedule.idle as f64),
            way.words()
        );
        let planned = self.schedule.opening.all(way, self.schedule.idle);
        self.session.progress.begin(&what, planned);
        let (began, wanted) = (Instant::now(), self.schedule.idle);
        let progress = &mut self.session.progress;
        let live = |open: usize| {
            if let Some(time) = all_take(wanted, open, began.elapsed()) {
                progress.expect(time);
            }
            progress.live(&format!("{} open", number_words(open as f64)));
        };
        crate::machine::raise_open_files(self.schedule.idle as u64 * FILES_PER_CONNECTION + SPARE_FILES)?;
        let opened = Fleet::open(
            server,
            self.schedule.idle,
            &self.filling,
            self.local,
            &self.session.interrupt,
            live,
        );
        let mut fleet = opened.inspect_err(|_| self.session.progress.done("failed"))?;
        self.session
            .progress
            .done(&format!("{} open", number_words(fleet.len() as f64)));
        self.schedule.opening.took(way, fleet.len(), fleet.opened_in);
        let (steps, time) = self.schedule.rest_with_runs();
        self.session.progress.plan_rest_as_measured(steps, time);
        if fleet.short_of_memory {
            self.go_on_with(fleet.len(), way);
        }
        if fleet.len() == 0 {
            return Err(
                Error::new("this machine has too little memory left for idle connections")
                    .hint("end what takes it, or measure from another machine"),
            );
        }
        self.look_at_backends(&mut taken, &mut fleet, direct, way)?;
        taken.pooler_bytes = pooler_before.zip(pooler.and_then(|p| memory::of_process(p.pid())));
        self.found.taken.insert(way, taken);
        Ok(fleet)
    }

    /// Memory was short: from now on so many are enough.
    fn go_on_with(&mut self, idle: usize, way: Way) {
        self.found.left_out.push(format!(
            "Only {} of {} idle connections were opened, {}: the memory of this machine came to its end.",
            number_words(idle as f64),
            number_words(self.schedule.idle as f64),
            way.words()
        ));
        self.schedule.idle = idle;
    }

    fn look_at_backends(&mut self, taken: &mut Taken, fleet: &mut Fleet, direct: &Server, way: Way) -> Result<()> {
        let pids = backends(&mut direct.connect()?)?;
        taken.idle = fleet.len();
        taken.backends = pids.len();
        taken.open = self.local.then(SystemMemory::now).flatten();
        let of_processes = match self.local {
            true => memory::of_backends(&pids),
            false => Err("the server is on another machine, whose processes cannot be seen from here".to_owned()),
        };
        match of_processes {
            Ok(found) => {
                if found.source != Source::Pss {
                    taken.backend_memory_missing = Some(
                        "the proportional set size of the server's processes is for root and for the server's user to read"
                            .to_owned(),
                    );
                }
                taken.backend_memory = Some(found);
            }
            Err(why) => taken.backend_memory_missing = Some(why),
        }
        if way == Way::Direct {
            let contexts = fleet.memory_contexts(CONTEXT_SAMPLE);
            taken.contexts_mean_bytes = pgweir_maths::mean(&contexts);
            if taken.backend_memory.is_none() {
                taken.backend_memory = taken.contexts_mean_bytes.map(|mean_bytes| ProcessMemory {
                    source: Source::MemoryContexts,
                    processes: contexts.len(),
                    mean_bytes,
                    page_tables_mean_bytes: 0.0,
                });
            }
        }
        Ok(())
    }

    /// One run of pgbench.
    fn run(&mut self, key: (Row, Way, bool), server: &Server, round: u32) -> Result<()> {
        let (row, way, with_idle) = key;
        let arguments = self.arguments;
        let pool_size = (way == Way::Pooled).then_some(arguments.pool_size);
        let condition = if with_idle { "with idle" } else { "alone" };
        let name = format!("{}, {}, {condition}", row.word(), way.words());
        let case = self
            .found
            .cases
            .entry(key)
            .or_insert_with(|| Case::new(&name, way.word(), arguments.clients, pool_size));
        let session = &mut *self.session;
        if case.failure.is_some() {
            session.progress.unplan(1, arguments.run_time());
            return Ok(());
        }
        let folder = session.results.folder();
        let load = row.load(
            folder,
            arguments.scale,
            arguments.protocol,
            arguments.clients,
            arguments.common.seconds,
        )?;
        session
            .progress
            .begin(&format!("{name}, round {}", round + 1), arguments.run_time());
        let sampler = Sampler::start(&session.target.server)?;
        let progress = &mut session.progress;
        let live = |live: crate::pgbench::Live| progress.live(&format!("{} TPS", number_words(live.tps)));
        let own_thread_each = pool_size.is_some_and(|size| size < arguments.clients);
        match load.run(&session.pgbench, server, own_thread_each, &session.interrupt, live) {
            Ok(measured) => {
                add_figures(case, &measured);
                case.command.clone_from(&measured.command);
                let file = format!(
                    "{}-{}-{}-round-{}",
                    row.word(),
                    way.word(),
                    condition.replace(' ', "-"),
                    round + 1
                );
                session.results.raw(&file, &measured.raw)?;
                self.found.events.entry(key).or_default().add(&sampler.finish()?);
                session
                    .progress
                    .done(&format!("{} TPS", number_words(measured.summary.tps)));
                Ok(())
            }
            Err(Error::Failed { message, .. }) if !server_is_gone(session) => {
                session.progress.done("failed");
                case.failure = Some(message);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }
}

/// Open files of one of our idle connections: its socket, and its event loop's.
const FILES_PER_CONNECTION: u64 = 5;

/// Open files of everything else.
const SPARE_FILES: u64 = 100;
