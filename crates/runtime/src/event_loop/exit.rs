//! The end of the process.

use super::EventLoop;
use crate::timers::Timer;
use std::time::Duration;

/// How long the process waits for its output to be sent before it ends.
const EXIT_WAIT: Duration = Duration::from_secs(1);

impl EventLoop {
    /// The core asks for the end of the process.
    pub(crate) fn exit(&mut self) {
        self.connections.flush_all();
        self.service_manager.stopping();
        self.exit_at.get_or_insert(self.now + EXIT_WAIT);
    }

    /// Whether the core has asked for the end of the process.
    pub(crate) fn is_exiting(&self) -> bool {
        self.exit_at.is_some()
    }

    /// After the core has been handed over: drops the closed connections whose time for their last output is over.
    pub(crate) fn run_closing_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            if let Timer::Closing(slot) = timer {
                self.closing.remove(slot);
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.exit_at
            .is_some_and(|at| at <= self.now || !self.has_output_on_its_way())
    }
}
