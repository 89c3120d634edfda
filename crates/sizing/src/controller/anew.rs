//! Beginning anew: what was learnt no longer holds, because the server or the bounds are others.

use super::{Controller, Pace};
use crate::Bounds;
use crate::step::{Reason, Step};

impl Controller {
    /// The server was restarted, or the endpoint leads to another server: begins again at the first limit, or lower. A
    /// limit that is held stays, because nothing would raise it again. Returns the step.
    pub fn restarted(&mut self, now_us: u64) -> Step {
        let to = match self.held {
            true => self.base,
            false => self.base.min(self.ladder.at_most(self.start)),
        };
        let step = self.step_to(to, Reason::Restarted, now_us);
        self.map.forget(to);
        self.noise.forget();
        (self.pace, self.base_pace) = (Pace::default(), Pace::default());
        (self.surprises, self.odd, self.checks, self.connected) = (0, None, 0, 0);
        self.go(to, now_us);
        step
    }

    /// Other bounds hold from now on. What was learnt is forgotten; the limit stays, as far as the bounds allow it.
    /// Returns the step if the limit changes.
    pub fn set_bounds(&mut self, bounds: Bounds, now_us: u64) -> Option<Step> {
        let from = self.settled();
        let old = std::mem::replace(self, Controller::new(bounds, from, now_us));
        self.steps = old.steps;
        (self.held, self.weakness, self.start, self.connected) = (old.held, old.weakness, old.start, old.connected);
        let step = Step {
            at_us: now_us,
            from,
            to: self.settled(),
            reason: Reason::BoundsChanged(bounds),
        };
        (step.from != step.to).then(|| {
            self.steps.push(step);
            step
        })
    }
}
