//! The timers of the driver. All other timers are the core's.

use crate::verifier::QuestionId;
use pgweir_core::ids::Slot;
use pgweir_core::{ServerId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Every timer of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Ends the time that a connection has to take its last output after the core has closed it.
    Closing(Slot),
    /// Ends a cancel request that the server has neither taken nor refused.
    Cancel(Slot),
    /// Tries again to connect to a Unix-domain socket whose queue was full.
    ConnectAgain(ServerId),
    /// Tries once more to connect to a host that has not answered.
    ConnectBeside(ServerId),
    /// Ends the time for refusing a client for lack of file descriptors.
    Refusal,
    /// Looks at the serial numbers of zones: after `dns_zone_check_period`.
    Zones,
    /// Looks again for a file descriptor, after none could be had.
    AcceptAgain,
    /// Ends the time in which a question that a login waits for should be answered: after `client_login_timeout`.
    Question(QuestionId),
}

impl Timer {
    /// The time from setting a timer to its end.
    pub(crate) fn duration(self) -> Duration {
        match self {
            // Long enough for a slow network to carry an error message; short enough that connections do not pile up.
            Timer::Closing(_) => Duration::from_secs(5),
            // As the documentation of Request::Cancel says.
            Timer::Cancel(_) => Duration::from_secs(10),
            Timer::ConnectAgain(_) => Duration::from_millis(20),
            // As often as the core tries a host that refuses connections.
            Timer::ConnectBeside(_) => Duration::from_secs(1),
            // One round trip for SSLRequest and one for the startup packet.
            Timer::Refusal => Duration::from_millis(250),
            Timer::AcceptAgain => Duration::from_millis(100),
            // If the period is off, a RELOAD may switch it on.
            Timer::Zones => Duration::from_secs(1),
            // If `client_login_timeout` is off.
            Timer::Question(_) => Duration::from_secs(60),
        }
    }
}

/// Timers that are set. A timer whose object is gone does nothing when it is due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BinaryHeap<Reverse<(Time, Timer)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, now: Time, timer: Timer) {
        self.due.push(Reverse((now + timer.duration(), timer)));
    }

    /// Sets a timer with a given duration.
    pub(crate) fn set_in(&mut self, now: Time, duration: Duration, timer: Timer) {
        self.due.push(Reverse((now + duration, timer)));
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns a timer that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.due.pop().map(|Reverse((_, timer))| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_when_they_are_due_in_order() {
        let mut timers = Timers::default();
        timers.set(Time(0), Timer::Refusal);
        timers.set(Time(0), Timer::AcceptAgain);
        assert_eq!(timers.next(), Some(Time(100_000)));
        assert_eq!(timers.pop(Time(99_999)), None);
        assert_eq!(timers.pop(Time(300_000)), Some(Timer::AcceptAgain));
        assert_eq!(timers.pop(Time(300_000)), Some(Timer::Refusal));
        assert_eq!(timers.pop(Time(300_000)), None);
    }
}
