//! The sweep of the number of clients: doubling, until it has clearly collapsed, then finer around the peak.

use super::Arguments;
use crate::pgbench::Load;
use crate::rounds::{self, Planned};
use crate::session::Session;
use crate::{Error, Result};
use pgweir_maths::{Level, Rounds};
use std::time::Duration;

/// Below this share of the best so far, twice in a row, throughput has collapsed: more clients only take time.
const COLLAPSED_SHARE: f64 = 0.6;

/// Levels of the finer look and pool sizes, as they mostly are, for an estimate of the time.
const FINE_EXPECTED: usize = 3;
const POOLS_EXPECTED: usize = 4;

/// Throughput direct over the number of clients.
pub(super) struct Sweep<'a> {
    arguments: &'a Arguments,
    /// The levels, by clients.
    pub(super) levels: Vec<Planned>,
    /// Clients of the levels that the finer look has added.
    fine: Vec<u32>,
    /// What was not measured, and why.
    pub(super) left_out: Vec<String>,
}

impl<'a> Sweep<'a> {
    /// Nothing measured yet.
    pub(super) fn new(arguments: &'a Arguments, most: u32) -> Self {
        let mut counts = arguments.clients.clone();
        if counts.is_empty() {
            counts = doubling(most);
        }
        counts.sort_unstable();
        counts.dedup();
        let mut sweep = Sweep {
            arguments,
            levels: Vec::new(),
            fine: Vec::new(),
            left_out: Vec::new(),
        };
        sweep.levels = counts
            .into_iter()
            .map(|clients| Planned::direct(sweep.load(clients)))
            .collect();
        sweep
    }

    /// The load with so many clients.
    pub(super) fn load(&self, clients: u32) -> Load {
        let mut load = Load::new(&self.arguments.workload, clients, self.arguments.common.seconds);
        load.vacuum &= !self.arguments.common.existing;
        // Each of them has PostgreSQL start a process.
        load.connecting_seconds = clients / 200;
        load
    }

    /// Runs of all rounds, and their time, before any is made: those of the sweep, and what is to be expected of the finer
    /// look and of the pools.
    pub(super) fn expected(&self) -> (usize, Duration) {
        let levels: Duration = self.levels.iter().map(Planned::time).sum();
        let (later, later_time) = self.expected_after(FINE_EXPECTED);
        let rounds = self.arguments.common.rounds;
        (
            self.levels.len() * rounds as usize + later,
            levels * rounds + later_time,
        )
    }

    /// The same of what comes after the sweep; `fine` levels of the finer look among it.
    fn expected_after(&self, fine: usize) -> (usize, Duration) {
        let fine = if self.arguments.clients.is_empty() { fine } else { 0 };
        let pools = match (self.arguments.direct_only, self.arguments.pool_sizes.len()) {
            (true, _) => 0,
            // And direct beside them.
            (false, 0) => POOLS_EXPECTED + 1,
            (false, sizes) => sizes + 1,
        };
        let runs = (fine + pools) * self.arguments.common.rounds as usize;
        let run_time = self.levels.last().map_or(Duration::ZERO, Planned::time);
        (runs, run_time * u32::try_from(runs).unwrap_or(u32::MAX))
    }

    /// The most clients that gave figures.
    pub(super) fn most_measured(&self) -> u32 {
        let measured = self.levels.iter().filter(|level| !level.case.values("tps").is_empty());
        measured.map(|level| level.load.clients).max().unwrap_or(1)
    }

    /// The round of a level's first figure: the levels of the finer look joined in the rounds after those of the sweep.
    fn first_round(&self, clients: u32) -> usize {
        if self.fine.contains(&clients) {
            self.arguments.common.rounds as usize
        } else {
            0
        }
    }

    /// For the law and the comparison of levels.
    pub(super) fn for_maths(&self) -> Vec<Level> {
        let level = |level: &Planned| Level {
            clients: level.load.clients,
            first_round: self.first_round(level.load.clients),
            tps: level.case.values("tps").to_vec(),
        };
        self.levels
            .iter()
            .map(level)
            .filter(|level| !level.tps.is_empty())
            .collect()
    }

    /// How the levels compare, in their order.
    pub(super) fn rounds(&self) -> Rounds {
        Rounds::beginning(
            self.levels
                .iter()
                .map(|l| (self.first_round(l.load.clients), l.case.values("tps"))),
        )
    }

    /// All levels: the first round upwards, which ends where throughput has collapsed or the server refuses; then the
    /// other rounds.
    pub(super) fn coarse(&mut self, session: &mut Session) -> Result<()> {
        let rounds = self.arguments.common.rounds;
        let (mut best, mut collapsed) = (0.0_f64, 0);
        let mut until = self.levels.len();
        for at in 0..self.levels.len() {
            match self.levels[at].measure(session, 0) {
                Err(e @ Error::Interrupted { .. }) => return Err(e),
                Err(e) if at == 0 || rounds::server_is_gone(session) => return Err(e),
                Err(e) => {
                    let Error::Failed { message, .. } = e else { continue };
                    self.leave_out_from(
                        at,
                        &format!("the server did not bear {} ({message})", self.levels[at].case.name),
                    );
                    until = at;
                    break;
                }
                Ok(measured) => {
                    best = best.max(measured.summary.tps);
                    collapsed = if measured.summary.tps < COLLAPSED_SHARE * best {
                        collapsed + 1
                    } else {
                        0
                    };
                    if collapsed == 2 && at + 1 < self.levels.len() {
                        self.leave_out_from(at + 1, "throughput had clearly collapsed before");
                        until = at + 1;
                        break;
                    }
                }
            }
        }
        for level in self.levels.drain(until..) {
            session.progress.unplan(rounds as usize, level.time() * rounds);
        }
        self.more_rounds(session, rounds - 1, &(0..until).collect::<Vec<_>>(), 1)
    }

    fn leave_out_from(&mut self, at: usize, why: &str) {
        let names: Vec<String> = self.levels[at..]
            .iter()
            .map(|level| level.load.clients.to_string())
            .collect();
        self.left_out
            .push(format!("direct with {} clients: {why}", names.join(", ")));
    }

    /// Two levels between the best and its neighbours, and the best once more beside them. Not where the user chose.
    pub(super) fn fine(&mut self, session: &mut Session) -> Result<()> {
        if !self.arguments.clients.is_empty() {
            return Ok(());
        }
        let Some(best) = self.best() else { return Ok(()) };
        let counts: Vec<u32> = self.levels.iter().map(|level| level.load.clients).collect();
        let added = between(&counts, best);
        if added.is_empty() {
            return Ok(());
        }
        let best_clients = counts[best];
        self.fine.clone_from(&added);
        self.levels.extend(
            added
                .iter()
                .map(|clients| Planned::direct(self.load(*clients)))
                .collect::<Vec<_>>(),
        );
        self.levels.sort_by_key(|level| level.load.clients);
        let of_interest: Vec<usize> = (0..self.levels.len())
            .filter(|i| added.contains(&self.levels[*i].load.clients) || self.levels[*i].load.clients == best_clients)
            .collect();
        let rounds = self.arguments.common.rounds;
        let time: Duration = of_interest.iter().map(|i| self.levels[*i].time()).sum();
        let (later, later_time) = self.expected_after(0);
        session
            .progress
            .plan_rest(of_interest.len() * rounds as usize + later, time * rounds + later_time);
        self.more_rounds(session, rounds, &of_interest, 0)
    }

    /// The level with the greatest throughput.
    fn best(&self) -> Option<usize> {
        let middle = |i: &usize| self.levels[*i].case.spread("tps").map_or(0.0, |tps| tps.middle);
        (0..self.levels.len()).max_by(|a, b| middle(a).total_cmp(&middle(b)))
    }

    /// Measures these levels in turn, downwards every second time. A level measured before counts its rounds on.
    fn more_rounds(&mut self, session: &mut Session, rounds: u32, which: &[usize], first: u32) -> Result<()> {
        for round in 0..rounds {
            let mut order = which.to_vec();
            if (round + first) % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let number = u32::try_from(self.levels[at].case.values("tps").len()).unwrap_or(0);
                match self.levels[at].measure(session, number) {
                    Err(e @ Error::Interrupted { .. }) => return Err(e),
                    Err(e) if rounds::server_is_gone(session) => return Err(e),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// 1, 2, 4, ... and the most itself.
fn doubling(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = std::iter::successors(Some(1_u32), |n| n.checked_mul(2))
        .take_while(|n| *n < most)
        .collect();
    // A last step that is no step is left out.
    if counts
        .last()
        .is_some_and(|last| f64::from(*last) * 1.25 > f64::from(most))
        && counts.len() > 1
    {
        counts.pop();
    }
    counts.push(most);
    counts
}

/// The geometric middles between a level and its neighbours, where there is a whole number between.
fn between(counts: &[u32], best: usize) -> Vec<u32> {
    let middle = |a: u32, b: u32| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two numbers of that type"
        )]
        let middle = (f64::from(a) * f64::from(b)).sqrt().round() as u32;
        (a < middle && middle < b).then_some(middle)
    };
    let below = best
        .checked_sub(1)
        .and_then(|below| middle(counts[below], counts[best]));
    let above = counts.get(best + 1).and_then(|above| middle(counts[best], *above));
    below.into_iter().chain(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_doubles_up_to_the_most() {
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(doubling(100), [1, 2, 4, 8, 16, 32, 64, 100]);
        assert_eq!(doubling(70), [1, 2, 4, 8, 16, 32, 70]);
    }

    #[test]
    fn the_fine_levels_lie_beside_the_best() {
        let counts = [1, 2, 4, 8, 16];
        assert_eq!(between(&counts, 3), [6, 11]);
        assert_eq!(between(&counts, 4), [11]);
        assert_eq!(between(&counts, 0), [] as [u32; 0]);
        assert_eq!(between(&counts, 1), [3]);
    }
}
