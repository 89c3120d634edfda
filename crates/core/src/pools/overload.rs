//! Whether the queue of a pool stays too long.

use crate::base::time::Time;
use crate::pools::wait_queue::Traffic;
use std::time::Duration;

/// The shortest time for which a queue must stay too long. It is CoDel's interval. A burst is shorter: a pool serves it
/// within one turn of its servers.
const INTERVAL: Duration = Duration::from_millis(100);

/// In each interval, the numbers of earlier intervals lose one part in this many.
const FADES: u64 = 8;

/// The most doublings: in the first interval one client is refused, in each further one twice as many as before. So
/// 10,000 clients too many are refused within 1.4 s.
const DOUBLES_MAX: u32 = 16;

/// How fast a pool serves its queue, and for how long that has been too slow.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Pressure {
    /// When the present interval began.
    began: Time,
    /// Clients that were served, in thousandths, and the time that this took, microseconds. Both fade.
    served: u64,
    us: u64,
    /// Intervals in a row in which the queue was too long.
    too_long: u32,
}

impl Pressure {
    /// How long the last of `waiting` clients will wait; `None` if nobody has been served.
    pub(crate) fn expected_wait(&self, waiting: usize) -> Option<Duration> {
        let us = (waiting as u64).saturating_mul(1000).saturating_mul(self.us);
        us.checked_div(self.served).map(Duration::from_micros)
    }

    /// Forgets all numbers, because nobody is being served or nobody waits. No client is refused.
    pub(crate) fn rests(&mut self, now: Time) -> usize {
        *self = Pressure {
            began: now,
            ..Pressure::default()
        };
        0
    }

    /// Looks at a queue of `waiting` clients, of which the oldest has waited for `oldest`. `traffic` is the traffic
    /// since the interval began. Returns how many clients are to be refused.
    pub(crate) fn look(
        &mut self,
        now: Time,
        traffic: Traffic,
        waiting: usize,
        oldest: Duration,
        target: Duration,
    ) -> usize {
        let elapsed = now.us_since(self.began);
        if traffic.fewest == 0 {
            return self.rests(now);
        }
        self.began = now;
        self.served = self.served - self.served / FADES + traffic.served * 1000;
        self.us = self.us - self.us / FADES + elapsed;
        let wait = self.expected_wait(traffic.fewest);
        let is_whole = elapsed >= INTERVAL.as_micros() as u64;
        if !is_whole || oldest <= target || wait.is_some_and(|wait| wait <= target) {
            self.too_long = 0;
            return 0;
        }
        let refused = 1 << self.too_long;
        self.too_long = (self.too_long + 1).min(DOUBLES_MAX);
        // The number of clients that are served within the target.
        let in_time = self.served.saturating_mul(target.as_micros() as u64) / self.us.max(1) / 1000;
        waiting.saturating_sub(in_time as usize).min(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(200);

    /// Looks after each interval of 100 ms: clients served, fewest that waited; returns how many are refused.
    fn refused(intervals: &[(u64, usize)]) -> Vec<usize> {
        let mut pressure = Pressure::default();
        let mut now = Time(0);
        let look = |&(served, fewest): &(u64, usize)| {
            now = now + INTERVAL;
            let traffic = Traffic { served, fewest };
            pressure.look(now, traffic, fewest, Duration::from_secs(1), TARGET)
        };
        intervals.iter().map(look).collect()
    }

    #[test]
    fn a_queue_that_empties_is_a_burst() {
        assert_eq!(refused(&[(10, 0), (10, 1000), (10, 0), (10, 0)]), [0, 1, 0, 0]);
    }

    #[test]
    fn a_queue_that_stays_too_long_loses_more_and_more() {
        // 100 ms for 10 clients: 20 are served in time.
        let intervals = [(10, 1000); 8];
        assert_eq!(refused(&intervals), [1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(refused(&[(10, 22), (10, 22), (10, 22)]), [1, 2, 2]);
        assert_eq!(refused(&[(10, 20), (10, 20)]), [0, 0]);
        assert_eq!(refused(&[(10, 1000), (10, 1000), (10, 20), (10, 1000)]), [1, 2, 0, 1]);
    }

    #[test]
    fn nobody_is_refused_before_somebody_has_waited_too_long() {
        let mut pressure = Pressure::default();
        let traffic = Traffic { served: 0, fewest: 50 };
        let mut look = |at: u64, oldest: Duration| pressure.look(Time(at), traffic, 50, oldest, TARGET);
        assert_eq!(look(100_000, TARGET), 0);
        assert_eq!(look(200_000, TARGET * 2), 1);
        assert_eq!(pressure.expected_wait(50), None);
    }

    #[test]
    fn the_expected_wait_follows_the_speed() {
        let mut pressure = Pressure::default();
        for n in 1..100u64 {
            let traffic = Traffic { served: 5, fewest: 1 };
            pressure.look(Time(n * 100_000), traffic, 1, Duration::ZERO, TARGET);
        }
        let wait = pressure.expected_wait(100).unwrap();
        assert!((1990..2010).contains(&wait.as_millis()), "{wait:?}");
    }
}
