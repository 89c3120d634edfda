//! Interleaved rounds: all cases once, then all cases again, so that a drift of the machine affects all cases alike.

use crate::pgbench::{Load, Measured};
use crate::pooler::{Pooler, PoolerSettings};
use crate::progress::duration_words;
use crate::results::{Case, Outcome};
use crate::server::Server;
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::number_words;
use std::time::Duration;

/// The least rounds that tell something of the noise.
const ROUNDS_LEAST: u32 = 3;

/// A pool that finds its size searches for so long at most before it is measured, seconds.
const SEARCH_SECONDS_MAX: u32 = 10;

/// How a load reaches the server.
#[derive(Debug, Clone)]
pub enum Path {
    /// Over direct connections.
    Direct,
    /// Through a pooler that is started for this run.
    Pooled(PoolerSettings),
}

/// A case, and how it is measured.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The case. The figures are added to it.
    pub case: Case,
    /// Direct or through a pooler.
    pub path: Path,
    /// The load of pgbench.
    pub load: Load,
    /// Another server address than the session's, such as one with TLS.
    pub server: Option<Server>,
}

impl Planned {
    /// pgbench directly on the server.
    pub fn direct(load: Load) -> Self {
        let case = Case::new(
            format!("direct, {}", clients_words(load.clients)),
            "direct",
            load.clients,
            None,
        );
        Planned {
            case,
            path: Path::Direct,
            load,
            server: None,
        }
    }

    /// pgbench through a pool.
    pub fn pooled(load: Load, settings: PoolerSettings) -> Self {
        let name = format!(
            "pgweir, pool of {}, {}",
            settings.pool_size,
            clients_words(load.clients)
        );
        let case = Case::new(name, "pgweir", load.clients, Some(settings.pool_size));
        Planned {
            case,
            path: Path::Pooled(settings),
            load,
            server: None,
        }
    }

    /// pgbench through a pool that finds out how many servers should work, at most so many.
    pub fn finding_its_size(load: Load, servers_max: u32, clients_max: u32) -> Self {
        let name = format!("pgweir, pool size auto, {}", clients_words(load.clients));
        let case = Case::new(name, "pgweir", load.clients, None);
        let settings = PoolerSettings {
            finds_size: true,
            ..PoolerSettings::new(servers_max, clients_max)
        };
        Planned {
            case,
            ..Planned::pooled(load, settings)
        }
    }

    /// The load that comes before the one that is measured: the pooler begins anew in each run, and searches.
    fn search(&self) -> Option<Load> {
        let searches = matches!(&self.path, Path::Pooled(settings) if settings.finds_size);
        searches.then(|| Load {
            seconds: (2 * self.load.seconds).min(SEARCH_SECONDS_MAX),
            ..self.load.clone()
        })
    }

    /// The same case under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.case.name = name.into();
        self
    }

    /// The time that a run of it should take.
    pub fn time(&self) -> Duration {
        let time = |load: &Load| Duration::from_secs(u64::from(load.seconds + load.connecting_seconds));
        let search = self.search().map_or(Duration::ZERO, |load| time(&load));
        search + time(&self.load) + Duration::from_millis(300)
    }

    /// Measures it once more and adds the figures to the case.
    pub fn measure(&mut self, session: &mut Session, round: u32) -> Result<Measured> {
        session
            .progress
            .begin(&format!("{}, round {}", self.case.name, round + 1), self.time());
        let measured = self.run(session);
        match &measured {
            Ok(measured) => {
                add_figures(&mut self.case, measured);
                self.case.command.clone_from(&measured.command);
                session.results.raw(
                    &format!("{}-round-{}", file_name(&self.case.name), round + 1),
                    &measured.raw,
                )?;
                session.progress.done(&figures_words(measured));
            }
            Err(Error::Interrupted { .. }) => {}
            Err(Error::Failed { message, .. }) => {
                session.progress.done(&format!("failed: {}", gist(message)));
                self.case.failure = Some(message.clone());
            }
        }
        measured
    }

    fn run(&mut self, session: &mut Session) -> Result<Measured> {
        let direct = self.server.clone().unwrap_or_else(|| session.target.server.clone());
        match self.path.clone() {
            Path::Direct => self.load_on(session, &direct, false, None),
            Path::Pooled(settings) => {
                let pooler = Pooler::start(&direct, &settings)?;
                let server = pooler.server(&direct)?;
                let own_thread_each = settings.pool_size < self.load.clients;
                if let Some(search) = self.search() {
                    let progress = &mut session.progress;
                    search.run(&session.pgbench, &server, own_thread_each, &session.interrupt, |live| {
                        progress.live(&format!("searching, {} TPS", number_words(live.tps)));
                    })?;
                }
                self.load_on(session, &server, own_thread_each, Some(&pooler))
            }
        }
    }

    /// Runs the load, and measures the pooler's memory in the meantime.
    fn load_on(
        &mut self,
        session: &mut Session,
        server: &Server,
        own_thread_each: bool,
        pooler: Option<&Pooler>,
    ) -> Result<Measured> {
        let progress = &mut session.progress;
        let mut memory_max = None;
        let measured = self
            .load
            .run(&session.pgbench, server, own_thread_each, &session.interrupt, |live| {
                progress.live(&format!("{} TPS", number_words(live.tps)));
                memory_max = memory_max.max(pooler.and_then(Pooler::memory_bytes));
            })?;
        if let Some(bytes) = memory_max {
            #[expect(clippy::cast_precision_loss, reason = "bytes of a process")]
            self.case.add("pooler_memory_bytes", bytes as f64);
        }
        Ok(measured)
    }
}

/// Measures all cases `rounds` times in turn. If all of them fail, the first failure is the error.
pub fn run(session: &mut Session, planned: &mut [Planned], rounds: u32) -> Result<()> {
    for number in 0..rounds {
        round(session, planned, number)?;
    }
    fail_if_all_failed(planned)
}

/// Measures all cases once, every second time in the opposite order. A case that has failed is left out from then on.
pub fn round(session: &mut Session, planned: &mut [Planned], number: u32) -> Result<()> {
    let mut order: Vec<usize> = (0..planned.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    for at in order {
        if planned[at].case.failure.is_some() {
            session.progress.unplan(1, planned[at].time());
            continue;
        }
        match planned[at].measure(session, number) {
            Err(e @ Error::Interrupted { .. }) => return Err(e),
            Err(e) if server_is_gone(session) => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// The failure of the first case, if all have failed.
pub fn fail_if_all_failed(planned: &[Planned]) -> Result<()> {
    match planned.iter().find_map(|p| p.case.failure.clone()) {
        Some(failure) if planned.iter().all(|p| p.case.failure.is_some()) => Err(Error::new(failure)),
        _ => Ok(()),
    }
}

/// Whether all cases have failed.
pub fn server_is_gone(session: &Session) -> bool {
    session.target.connect().is_err()
}

/// Adds throughput and latency of a run.
pub fn add_figures(case: &mut Case, measured: &Measured) {
    let summary = &measured.summary;
    case.add("tps", summary.tps);
    case.add("latency_mean_ms", summary.latency_mean_ms);
    for (name, share) in [
        ("latency_p50_ms", 0.5),
        ("latency_p95_ms", 0.95),
        ("latency_p99_ms", 0.99),
    ] {
        if let Some(ms) = measured.latencies.percentile_ms(share) {
            case.add(name, ms);
        }
    }
    if let Some(ms) = summary.connection_ms {
        case.add("connection_ms", ms);
    }
    if summary.failed > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a count of transactions")]
        case.add("failed_transactions", summary.failed as f64);
    }
}

/// The most informative line of a failure: the server's message, otherwise pgbench's first complaint, which comes after
/// a line of the lab's own.
fn gist(message: &str) -> &str {
    let server = message.lines().find(|line| line.contains("FATAL:"));
    let line = server.or(message.lines().nth(1)).unwrap_or(message);
    line.trim()
}

fn figures_words(measured: &Measured) -> String {
    let tps = number_words(measured.summary.tps);
    match measured.latencies.percentile_ms(0.95) {
        Some(p95) => format!("{tps} TPS, p95 {} ms", number_words(p95)),
        None => format!("{tps} TPS"),
    }
}

/// How much longer to measure, where the noise decides: `--rounds 12 in place of 3, which takes about 8 min`. `needed` is
/// None where one round says nothing of the noise.
pub fn longer_words(outcome: &Outcome, needed: Option<u32>) -> String {
    let now = outcome.rounds.max(1);
    let rounds = needed.unwrap_or(ROUNDS_LEAST).max(now + 1);
    let time = Duration::from_secs_f64(outcome.seconds * f64::from(rounds) / f64::from(now));
    format!(
        "--rounds {rounds} in place of {now}, which takes about {}",
        duration_words(time)
    )
}

/// `1 client`, `8 clients`
pub fn clients_words(clients: u32) -> String {
    if clients == 1 {
        "1 client".to_owned()
    } else {
        format!("{} clients", number_words(f64::from(clients)))
    }
}

/// A name for a file: letters, digits and dashes.
fn file_name(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_measuring_is_told_with_its_time() {
        let outcome = Outcome {
            rounds: 3,
            seconds: 120.0,
            ..Outcome::default()
        };
        assert_eq!(
            longer_words(&outcome, Some(12)),
            "--rounds 12 in place of 3, which takes about 8 min"
        );
        let once = Outcome { rounds: 1, ..outcome };
        assert_eq!(
            longer_words(&once, None),
            "--rounds 3 in place of 1, which takes about 6 min"
        );
    }

    #[test]
    fn the_gist_of_a_failure() {
        let aborted = "pgbench failed\n    pgbench: error: client 0 aborted\n    pgbench: error: Run was aborted";
        assert_eq!(gist(aborted), "pgbench: error: client 0 aborted");
        let ended = format!("{aborted}\n    FATAL:  terminating connection");
        assert_eq!(gist(&ended), "FATAL:  terminating connection");
        assert_eq!(gist("pgbench made no transaction"), "pgbench made no transaction");
    }
}
