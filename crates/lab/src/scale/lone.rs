//! One client: alone, and beside a pool that thousands of clients saturate.

use super::{Arguments, LOGINS_PER_SECOND, SPARE_CONNECTIONS};
use crate::pgbench::{Child, Load};
use crate::pooler::{Pooler, PoolerSettings};
use crate::results::Case;
use crate::rounds::{self, Planned};
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::number_words;
use std::time::Duration;

/// Steps of a round, for the progress: five measurements, and the coming of the others.
pub(super) const STEPS: usize = 6;

/// How many turns the one client should get in a pool where it waits for each turn, and the longest time for that,
/// seconds.
const TURNS: f64 = 4.0;
const TURNS_SECONDS_MAX: u32 = 120;

/// Time for the others to connect, beyond the planned one.
const CONNECTING_OVERDUE: Duration = Duration::from_secs(60);

/// Seconds of the others beyond those of the one client's runs; they are ended when it is done.
const CROWD_SPARE_SECONDS: u32 = 600;

/// The one client's figures. Nothing where it was not measured.
#[derive(Debug, Default)]
pub(super) struct Lone {
    /// The others.
    pub(super) crowd: u32,
    /// With nothing else on the server.
    pub(super) alone_direct: Option<Case>,
    pub(super) alone_pooled: Option<Case>,
    /// Beside the others: in their pool, in one of its own in the same pgweir, direct.
    pub(super) shared: Option<Case>,
    pub(super) own: Option<Case>,
    pub(super) direct: Option<Case>,
}

impl Lone {
    /// In the order in which they are shown.
    pub(super) fn cases(&self) -> impl Iterator<Item = &Case> {
        [
            &self.alone_direct,
            &self.alone_pooled,
            &self.direct,
            &self.own,
            &self.shared,
        ]
        .into_iter()
        .flatten()
    }
}

/// What a round should take.
pub(super) fn time(arguments: &Arguments, planned: &[Planned]) -> Duration {
    let most = planned.iter().map(|p| p.load.clients).max().unwrap_or(0);
    let runs = Duration::from_secs(u64::from(arguments.common.seconds) + 1) * 5;
    runs + connecting_time(most)
}

fn connecting_time(clients: u32) -> Duration {
    Duration::from_secs(u64::from(clients / LOGINS_PER_SECOND.1) + 2)
}

/// Measures it in every round, beside as many others as `pooled` has at most.
pub(super) fn measure(session: &mut Session, arguments: &Arguments, pooled: &[Case]) -> Result<Lone> {
    let measured = pooled.iter().filter(|case| case.spread("tps").is_some());
    let Some(most) = measured.max_by_key(|case| case.clients) else {
        return Err(Error::new("through pgweir nothing could be measured"));
    };
    let crowd = most.clients;
    let others = format!("{} clients", number_words(f64::from(crowd)));
    let mut alone = alone(arguments);
    let mut beside = beside(arguments, most, &others);
    for round in 0..arguments.common.rounds {
        let direct = session.target.server.clone();
        let settings = PoolerSettings {
            own_pool: true,
            ..PoolerSettings::new(arguments.pool(), crowd + SPARE_CONNECTIONS)
        };
        let pooler = Pooler::start(&direct, &settings)?;
        let (shared, own) = (pooler.server(&direct)?, pooler.server_by_own_pool(&direct)?);
        alone[0].server = Some(direct.clone());
        alone[1].server = Some(own.clone());
        rounds::round(session, &mut alone, round)?;
        let mut others_at_work = begin_crowd(session, arguments, crowd, &shared, &beside)?;
        for (planned, server) in beside.iter_mut().zip([direct, own, shared]) {
            planned.server = Some(server);
        }
        rounds::round(session, &mut beside, round)?;
        others_at_work.check_at_work().map_err(|e| e.context(&others))?;
    }
    let [alone_direct, alone_pooled] = alone.map(|p| Some(p.case));
    let [direct, own, shared] = beside.map(|p| Some(p.case));
    Ok(Lone {
        crowd,
        alone_direct,
        alone_pooled,
        shared,
        own,
        direct,
    })
}

/// A load of one client.
fn one(arguments: &Arguments, name: String, path: &str, pool_size: Option<u32>, seconds: u32) -> Planned {
    let mut load = Load::new(&arguments.workload, 1, seconds);
    load.vacuum = false;
    let mut planned = Planned::direct(load).named(name);
    planned.case.path = path.to_owned();
    planned.case.pool_size = pool_size;
    planned
}

/// With nothing else on the server: direct, and through pgweir.
fn alone(arguments: &Arguments) -> [Planned; 2] {
    let seconds = arguments.common.seconds;
    [
        one(
            arguments,
            "one client, direct, alone".to_owned(),
            "direct",
            None,
            seconds,
        ),
        one(
            arguments,
            "one client, pgweir, alone".to_owned(),
            "pgweir",
            Some(1),
            seconds,
        ),
    ]
}

/// Beside the others, whose load alone was `crowd`: direct, in a pool of its own, in their pool for some turns at least.
fn beside(arguments: &Arguments, crowd: &Case, others: &str) -> [Planned; 3] {
    let seconds = arguments.common.seconds;
    let turn_seconds = crowd
        .spread("tps")
        .map_or(0.0, |tps| f64::from(crowd.clients) / tps.middle);
    let turns = seconds_for(turn_seconds).max(seconds);
    let own = format!("one client, own pool, beside {others}");
    let shared = format!("one client, same pool as {others}");
    [
        one(
            arguments,
            format!("one client, direct, beside {others}"),
            "direct",
            None,
            seconds,
        ),
        one(arguments, own, "pgweir", Some(1), seconds),
        one(arguments, shared, "pgweir", Some(arguments.pool()), turns),
    ]
}

/// Has the others connect and work, until what is returned is dropped.
fn begin_crowd(
    session: &mut Session,
    arguments: &Arguments,
    crowd: u32,
    server: &crate::server::Server,
    beside: &[Planned],
) -> Result<Child> {
    let words = format!("{} clients connect and begin to work", number_words(f64::from(crowd)));
    session.progress.begin(&words, connecting_time(crowd));
    let mut load = arguments.load(crowd, LOGINS_PER_SECOND.1);
    load.vacuum = false;
    load.seconds = CROWD_SPARE_SECONDS + 2 * beside.iter().map(|p| p.load.seconds).sum::<u32>();
    let own_thread_each = arguments.pool() < crowd;
    let mut child = load.start_behind(&session.pgbench, server, own_thread_each)?;
    child
        .wait_until_at_work(connecting_time(crowd) + CONNECTING_OVERDUE, &session.interrupt)
        .map_err(|e| e.context(format!("{} clients", number_words(f64::from(crowd)))))?;
    session.progress.done("at work");
    Ok(child)
}

/// Seconds for some turns of this length.
fn seconds_for(turn_seconds: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is bounded then"
    )]
    let seconds = (TURNS * turn_seconds).ceil() as u32;
    seconds.min(TURNS_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a run that ends before its client had a turn.
    #[test]
    fn the_one_client_has_time_for_some_turns() {
        // 19,900 clients that share 2,000 transactions per second.
        assert_eq!(seconds_for(9.95), 40);
        assert_eq!(seconds_for(0.5), 2);
        assert_eq!(seconds_for(f64::INFINITY), 120);
    }
}
