//! The sweep: each size cold and prewarmed, in turn.

use super::restart::Restarter;
use super::warming::{Warmed, block_counts, drop_page_cache, prewarm};
use super::{Arguments, size};
use crate::pgbench::{Load, Measured};
use crate::results::Case;
use crate::rounds::{add_figures, server_is_gone};
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::number_words;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time of a restart, for the time told beforehand.
const RESTART_TIME: Duration = Duration::from_millis(1500);

/// Everything that was found.
#[derive(Default)]
pub(super) struct Found {
    /// By size, and whether prewarmed.
    pub(super) cases: BTreeMap<(u64, bool), Case>,
    /// What prewarming has read, by size.
    pub(super) warmed: BTreeMap<u64, Warmed>,
    /// Why the page cache was not emptied.
    pub(super) page_cache_kept: Option<String>,
}

/// How long it takes.
pub(super) fn time(arguments: &Arguments, sizes: usize, states: &[bool]) -> Duration {
    let round: Duration = states.iter().map(|warm| run_time(arguments, *warm)).sum();
    let runs = u32::try_from(sizes).unwrap_or(u32::MAX);
    round.saturating_mul(runs.saturating_mul(arguments.common.rounds))
}

fn run_time(arguments: &Arguments, warm: bool) -> Duration {
    let settle = if warm { arguments.settle } else { 0 };
    Duration::from_secs(u64::from(arguments.common.seconds) + u64::from(settle)) + RESTART_TIME
}

/// Measures all sizes, every second round from the other end; these steps are in the plan of the progress already.
pub(super) fn measure(
    session: &mut Session,
    arguments: &Arguments,
    sizes: &[u64],
    states: &[bool],
    restarter: &mut Restarter,
    data_dir: Option<&Path>,
) -> Result<Found> {
    let mut found = Found::default();
    for round in 0..arguments.common.rounds {
        let mut order: Vec<(u64, bool)> = sizes.iter().flat_map(|s| states.iter().map(|w| (*s, *w))).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for key in order {
            run(session, arguments, key, round, restarter, data_dir, &mut found)?;
        }
    }
    match found.cases.values().find_map(|case| case.failure.clone()) {
        Some(failure) if found.cases.values().all(|case| case.failure.is_some()) => Err(Error::new(failure)),
        _ => Ok(found),
    }
}

/// A server that has just been started, with its caches as wanted.
struct Prepared {
    /// Why the page cache was not emptied.
    page_cache_kept: Option<String>,
    /// What prewarming has read, and how long that took.
    warmed: Option<(Warmed, Duration)>,
}

fn prepare(
    session: &mut Session,
    arguments: &Arguments,
    (bytes, warm): (u64, bool),
    restarter: &mut Restarter,
    data_dir: Option<&Path>,
) -> Result<Prepared> {
    restarter.restart(&mut session.target, bytes, &session.interrupt)?;
    let mut client = session.target.connect()?;
    let page_cache_kept = match arguments.prewarmed {
        true => None,
        false => drop_page_cache(&mut client, data_dir).err(),
    };
    let started = Instant::now();
    let warmed = match warm {
        true => Some((prewarm(&mut client, bytes, &session.interrupt)?, started.elapsed())),
        false => None,
    };
    drop(client);
    session.interrupt.check()?;
    Ok(Prepared {
        page_cache_kept,
        warmed,
    })
}

fn run(
    session: &mut Session,
    arguments: &Arguments,
    (bytes, warm): (u64, bool),
    round: u32,
    restarter: &mut Restarter,
    data_dir: Option<&Path>,
    found: &mut Found,
) -> Result<()> {
    let state = if warm { "prewarmed" } else { "cold" };
    let name = format!("shared_buffers = {}, {state}", size::written(bytes));
    let case = found
        .cases
        .entry((bytes, warm))
        .or_insert_with(|| Case::new(&name, "direct", arguments.clients, None));
    if case.failure.is_some() {
        session.progress.unplan(1, run_time(arguments, warm));
        return Ok(());
    }
    session
        .progress
        .begin(&format!("{name}, round {}", round + 1), run_time(arguments, warm));
    let prepared = prepare(session, arguments, (bytes, warm), restarter, data_dir)?;
    if prepared.page_cache_kept.is_some() {
        found.page_cache_kept = prepared.page_cache_kept;
    }
    if let Some((warmed, time)) = prepared.warmed {
        case.add("prewarm_seconds", time.as_secs_f64());
        found.warmed.insert(bytes, warmed);
    }
    match load(session, arguments, warm) {
        Ok((measured, before)) => {
            add_figures(case, &measured);
            let after = block_counts(&session.target)?;
            if after.1 > before.1 {
                case.add("hit_percent", (after.0 - before.0) / (after.1 - before.1) * 100.0);
            }
            case.command.clone_from(&measured.command);
            session.results.raw(
                &format!("{}-{state}-round-{}", size::written(bytes), round + 1),
                &measured.raw,
            )?;
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

/// Runs the load, after it has settled; returns also the counters of blocks from before.
fn load(session: &mut Session, arguments: &Arguments, warm: bool) -> Result<(Measured, (f64, f64))> {
    let load = Load::new(&arguments.workload, arguments.clients, arguments.common.seconds);
    let server = session.target.server.clone();
    if warm && arguments.settle > 0 {
        let settling = Load {
            seconds: arguments.settle,
            ..load.clone()
        };
        let progress = &mut session.progress;
        settling.run(&session.pgbench, &server, false, &session.interrupt, |live| {
            progress.live(&format!("settling, {} TPS", number_words(live.tps)));
        })?;
    }
    let before = block_counts(&session.target)?;
    let progress = &mut session.progress;
    let measured = load.run(&session.pgbench, &server, false, &session.interrupt, |live| {
        progress.live(&format!("{} TPS", number_words(live.tps)));
    })?;
    Ok((measured, before))
}
