//! What the controller did, and why, in words.

use crate::Bounds;
use std::collections::VecDeque;
use std::fmt;

/// Steps that are kept.
const KEPT: usize = 32;

/// The limit has changed, or the controller has begun to look anew.
#[derive(Debug, Clone, Copy, PartialEq, pgweir_freeze::Freeze)]
pub struct Step {
    /// When, in microseconds of the caller's clock.
    pub at_us: u64,
    /// The limit before.
    pub from: u32,
    /// The limit from now on.
    pub to: u32,
    /// Why.
    pub reason: Reason,
}

/// Why the limit has changed.
#[derive(Debug, Clone, Copy, PartialEq, pgweir_freeze::Freeze)]
pub enum Reason {
    /// More servers do more.
    MoreWork {
        /// Difference in work per second, in percent.
        percent: f64,
        /// Deviation of that figure, in percent.
        deviation: f64,
    },
    /// Fewer servers do as much or more.
    FewerSuffice {
        /// Difference in work per second, in percent; a small loss is below 0.
        percent: f64,
        /// Deviation of that figure, in percent.
        deviation: f64,
    },
    /// At the same limit, much more or much less work is done than before; what was learnt no longer holds.
    WorkloadChanged {
        /// Difference in work per second, in percent.
        percent: f64,
    },
    /// Other classes of requests take most of the time.
    MixChanged {
        /// Share of the service time that moved, in percent.
        percent: f64,
    },
    /// The server was restarted, or the endpoint leads to another one.
    Restarted,
    /// Other bounds hold, and the limit before is not one of those that are tried between them.
    BoundsChanged(Bounds),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::MoreWork { percent, deviation } => {
                write!(f, "more servers do {percent:.1} % more (deviation {deviation:.1})")
            }
            Reason::FewerSuffice { percent, deviation } if *percent < 0.0 => {
                write!(
                    f,
                    "fewer servers do only {:.1} % less (deviation {deviation:.1})",
                    -percent
                )
            }
            Reason::FewerSuffice { percent, deviation } => {
                write!(f, "fewer servers do {percent:.1} % more (deviation {deviation:.1})")
            }
            Reason::WorkloadChanged { percent } if *percent < 0.0 => {
                write!(f, "workload changed: {:.0} % less work at the same limit", -percent)
            }
            Reason::WorkloadChanged { percent } => {
                write!(f, "workload changed: {percent:.0} % more work at the same limit")
            }
            Reason::MixChanged { percent } => {
                write!(f, "mix changed: {percent:.0} % of the service time is of other classes")
            }
            Reason::Restarted => write!(f, "server restarted or replaced"),
            Reason::BoundsChanged(bounds) => {
                write!(f, "between {} and {} servers are allowed now", bounds.min, bounds.max)
            }
        }
    }
}

/// The latest steps, oldest first.
#[derive(Debug, Clone, Default, pgweir_freeze::Freeze)]
pub(crate) struct Steps {
    kept: VecDeque<Step>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Steps {
            kept: VecDeque::with_capacity(KEPT),
        }
    }

    /// Keeps a step. A server that is restarted again and again adds only one, so that the others stay.
    pub(crate) fn push(&mut self, step: Step) {
        let is_restart = |step: &Step| step.reason == Reason::Restarted;
        if is_restart(&step) && step.from == step.to && self.kept.back().is_some_and(is_restart) {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(step);
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.kept.iter()
    }
}
