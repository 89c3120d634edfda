//! What is still to come, and how long it takes: from what has been measured, never from what is supposed.

use super::fleet::{filling, open_one};
use super::measure::Way;
use crate::Result;
use crate::server::{Server, query_error};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time to open one idle connection of many, several at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpeningTimes {
    direct: Duration,
    pooled: Duration,
}

impl OpeningTimes {
    /// Opens two connections, of which the first fills the server's own caches. After a few clients the caches of a
    /// pool's servers are full. So queries through the pool take as long as on a connection that has run them before.
    pub(super) fn sample(server: &Server) -> Result<Self> {
        let filling = filling(server)?;
        drop(open_one(server, &filling)?);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let started = Instant::now();
        let mut client = open_one(server, &filling)?;
        let direct = started.elapsed();
        let again = Instant::now();
        client.batch_execute(&filling).map_err(|e| query_error(&e))?;
        let each = |time: Duration| time / u32::try_from(cpus).unwrap_or(1);
        Ok(OpeningTimes {
            direct: each(direct),
            pooled: each(again.elapsed()),
        })
    }

    /// As the same for all ways, where nothing could be sampled.
    #[cfg(test)]
    fn both(time: Duration) -> Self {
        OpeningTimes {
            direct: time,
            pooled: time,
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
        let each = time / u32::try_from(connections.max(1)).unwrap_or(u32::MAX);
        match way {
            Way::Direct => self.direct = each,
            Way::Pooled => self.pooled = each,
        }
    }
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
        let mut schedule = Schedule::new(phases, (3, 10 * SECOND), 1000, OpeningTimes::both(SECOND / 10));
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
}
