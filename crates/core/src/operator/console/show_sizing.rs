//! SHOW SIZING and SHOW SIZING STEPS: the limits on servers at work.

use crate::base::time::Time;
use crate::console::rows::Rows;
use crate::operator::view::View;
use crate::pools::sizing::{Sizing, SizingId};
use std::time::Duration;

impl View<'_> {
    /// One row for each host whose pools have the size `auto`.
    pub(super) fn show_sizing(&self, rows: &mut Rows<'_>) {
        for (id, sizing) in self.sizings.iter() {
            self.show_sizing_of(id, sizing, rows);
        }
    }

    /// The latest steps of each host, oldest first.
    pub(super) fn show_sizing_steps(&self, rows: &mut Rows<'_>) {
        for (_, sizing) in self.sizings.iter() {
            for step in sizing.controller().steps() {
                rows.push(&[
                    (&*sizing.hosts()).into(),
                    self.wall.text(Time(step.at_us)).to_string().into(),
                    step.from.into(),
                    step.to.into(),
                    step.reason.to_string().into(),
                ]);
            }
        }
    }

    fn show_sizing_of(&self, id: SizingId, sizing: &Sizing, rows: &mut Rows<'_>) {
        let controller = sizing.controller();
        let servers = || {
            self.servers
                .iter()
                .map(|(_, s)| s)
                .filter(|s| self.pool(s.pool).shares(id))
        };
        let held = servers().filter(|s| s.link.is_some() && s.work.is_none()).count();
        let idle = servers().filter(|s| s.is_idle()).count();
        let opening = servers().filter(|s| s.is_opening()).count();
        let pools = sizing.pools().iter().map(|pool| self.pool(*pool));
        let waiting: usize = pools.map(|pool| pool.waiting().len()).sum();
        let (step, reason) = match controller.steps().next_back() {
            None => (String::new(), String::new()),
            Some(step) => {
                let ago = Duration::from_micros(self.now.us_since(Time(step.at_us))).as_secs();
                (
                    format!("{} to {}, {ago} s ago", step.from, step.to),
                    step.reason.to_string(),
                )
            }
        };
        rows.push(&[
            (&*sizing.hosts()).into(),
            if controller.is_held() { "hold" } else { "auto" }.into(),
            controller.limit().into(),
            controller.settled().into(),
            sizing.working().into(),
            sizing.long().into(),
            held.into(),
            idle.into(),
            opening.into(),
            waiting.into(),
            sizing.pools().len().into(),
            sizing.servers_max().into(),
            sizing.rate().into(),
            (&*step).into(),
            (&*reason).into(),
        ]);
    }
}
