//! What is still to come, and how long it takes: from what has been measured, never from what is supposed.

use super::fleet::{Fleet, filling, open_one};
use super::measure::Way;
use crate::Result;
use crate::interrupt::Interrupt;
use crate::server::Server;
use std::collections::VecDeque;
use std::time::Duration;

/// Connections that are opened for an estimate, at most.
const SAMPLE_MAX: usize = 16;

/// So many open connections tell how long all of them will take.
const TELLING_LEAST: usize = 20;

/// Time to open one idle connection of many, several at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpeningTimes {
    direct: Duration,
    pooled: Duration,
}

impl OpeningTimes {
    /// Opens a few connections in the way that all will be opened, after one that fills the server's own caches. After a few
    /// clients the caches of a pool's servers are full. So queries through the pool take as long as on connections that
    /// have run them before.
    pub(super) fn sample(server: &Server, idle: usize) -> Result<Self> {
        let filling = filling(server)?;
        drop(open_one(server, &filling)?);
        let wanted = idle.clamp(1, SAMPLE_MAX);
        let mut fleet = Fleet::open(
            server,
            wanted,
            &filling,
            server.is_local(),
            &Interrupt::default(),
            |_| (),
        )?;
        let again = fleet.fill_again(&filling)?;
        Ok(OpeningTimes::of_sample(fleet.len(), fleet.opened_in, again))
    }

    /// So many were opened in this time, and ran their queries once more in that.
    fn of_sample(connections: usize, opened: Duration, again: Duration) -> Self {
        OpeningTimes {
            direct: each(connections, opened),
            pooled: each(connections, again),
        }
    }

    /// Time for so many.
    pub(super) fn all(&self, way: Way, connections: usize) -> Duration {
        let each = match way {
            Way::Direct => self.direct,
            Way::Pooled => self.pooled,
        };
        each * u32::try_from(connections).unwrap_or(u32::MAX)
    }

    /// So many took so long.
    pub(super) fn took(&mut self, way: Way, connections: usize, time: Duration) {
        let each = each(connections, time);
        match way {
            Way::Direct => self.direct = each,
            Way::Pooled => self.pooled = each,
        }
    }
}

fn each(connections: usize, time: Duration) -> Duration {
    time / u32::try_from(connections.max(1)).unwrap_or(u32::MAX)
}

/// How long all of `wanted` take, where `open` of them took so long; None while that tells too little.
pub(super) fn all_take(wanted: usize, open: usize, took: Duration) -> Option<Duration> {
    (open >= TELLING_LEAST).then(|| took.mul_f64(wanted as f64 / open as f64))
}

/// The rest of a measurement.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// Ways still to come, each with or without idle connections.
    phases: VecDeque<(Way, bool)>,
    /// Runs of each phase, and the time of one.
    runs: usize,
    run_time: Duration,
    /// Idle connections of a phase.
    pub(super) idle: usize,
    pub(super) opening: OpeningTimes,
}

impl Schedule {
    pub(super) fn new(
        phases: impl IntoIterator<Item = (Way, bool)>,
        (runs, run_time): (usize, Duration),
        idle: usize,
        opening: OpeningTimes,
    ) -> Self {
        Schedule {
            phases: phases.into_iter().collect(),
            runs,
            run_time,
            idle,
            opening,
        }
    }

    /// The next phase, which is no longer to come.
    pub(super) fn next(&mut self) -> Option<(Way, bool)> {
        self.phases.pop_front()
    }

    /// Steps to come: each run is one, and each opening.
    pub(super) fn steps(&self) -> usize {
        let openings = self.phases.iter().filter(|(_, with_idle)| *with_idle).count();
        self.phases.len() * self.runs + openings
    }

    /// Time to come.
    pub(super) fn time(&self) -> Duration {
        let opening = |(way, with_idle): &(Way, bool)| match with_idle {
            true => self.opening.all(*way, self.idle),
            false => Duration::ZERO,
        };
        let runs = u32::try_from(self.phases.len() * self.runs).unwrap_or(u32::MAX);
        self.run_time * runs + self.phases.iter().map(opening).sum::<Duration>()
    }

    /// The same, and the runs of the phase under way.
    pub(super) fn rest_with_runs(&self) -> (usize, Duration) {
        let runs = u32::try_from(self.runs).unwrap_or(u32::MAX);
        (self.steps() + self.runs, self.time() + self.run_time * runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_measured_replaces_what_was_sampled() {
        let round = [
            (Way::Direct, false),
            (Way::Pooled, false),
            (Way::Direct, true),
            (Way::Pooled, true),
        ];
        let phases = round.into_iter().chain(round);
        let tenth = OpeningTimes::of_sample(16, 16 * SECOND / 10, 16 * SECOND / 10);
        let mut schedule = Schedule::new(phases, (3, 10 * SECOND), 1000, tenth);
        // 8 phases of 3 runs, 4 openings of 100 s.
        assert_eq!((schedule.steps(), schedule.time()), (28, 640 * SECOND));
        for _ in 0..3 {
            schedule.next();
        }
        assert_eq!(schedule.steps(), 15 + 3);
        // The direct ones took 40 s: the direct opening to come is planned with that.
        schedule.opening.took(Way::Direct, 1000, 40 * SECOND);
        assert_eq!(
            schedule.rest_with_runs(),
            (18 + 3, (150 + 100 + 40 + 100 + 30) * SECOND)
        );
    }

    /// Guards against the time of one connection alone, times all: 16 at once on two processors took 1,040 ms.
    #[test]
    fn a_sample_is_of_connections_that_are_opened_at_once() {
        let mut opening = OpeningTimes::of_sample(16, Duration::from_millis(1040), Duration::from_millis(160));
        assert_eq!(opening.all(Way::Direct, 2000), 130 * SECOND);
        assert_eq!(opening.all(Way::Pooled, 2000), 20 * SECOND);
        // Memory was short, and 500 of 2,000 were opened.
        opening.took(Way::Direct, 500, 50 * SECOND);
        assert_eq!(opening.all(Way::Direct, 500), 50 * SECOND);
        assert_eq!(opening.all(Way::Pooled, 500), 5 * SECOND);
    }

    #[test]
    fn the_first_ones_tell_how_long_all_take() {
        assert_eq!(all_take(1000, 250, 100 * SECOND), Some(400 * SECOND));
        assert_eq!(all_take(1000, 1000, 390 * SECOND), Some(390 * SECOND));
        assert_eq!(all_take(1000, 19, SECOND), None);
    }
}
