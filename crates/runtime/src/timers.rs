//! The driver's own timers; all others are the core's.

use pgweir_core::ids::Slot;
use pgweir_core::{ServerId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Every timer of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A connection that the core has closed has had its time to take its output and go.
    Closing(Slot),
    /// A cancel request that the server has neither taken nor refused.
    Cancel(Slot),
    /// A Unix-domain socket had no room for another connection: try again.
    ConnectAgain(ServerId),
    /// The client being refused for want of file descriptors has had its time.
    Refusal,
    /// No file descriptor could be had at all: look again whether there is one.
    AcceptAgain,
}

impl Timer {
    /// How long after it is set.
    pub(crate) fn duration(self) -> Duration {
        match self {
            // Long enough for a slow network to carry an error message, short enough not to pile up.
            Timer::Closing(_) => Duration::from_secs(5),
            // The contract of Request::Cancel.
            Timer::Cancel(_) => Duration::from_secs(10),
            Timer::ConnectAgain(_) => Duration::from_millis(20),
            // A round trip for SSLRequest and one for the startup packet.
            Timer::Refusal => Duration::from_millis(250),
            Timer::AcceptAgain => Duration::from_millis(100),
        }
    }
}

/// Timers that are set. A timer whose subject is gone by then finds nobody under its id.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BinaryHeap<Reverse<(Time, Timer)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, now: Time, timer: Timer) {
        self.due.push(Reverse((now + timer.duration(), timer)));
    }

    /// When the first one is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one that is due.
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
