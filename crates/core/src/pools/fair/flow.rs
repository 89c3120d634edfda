//! What one flow has used.

use crate::base::time::Time;

/// Units of virtual time for each microsecond of a flow with the weight 1.
const UNITS: u64 = 1 << 10;

/// What a client, or a group of clients, has used in one level of the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Flow {
    /// The number of the level whose virtual time the other fields refer to; 0 for a flow that has not waited.
    pub(super) level: u64,
    /// What it has used. Never less than the level's virtual time at which it last began to wait.
    pub(super) tag: u64,
    /// It goes first although it has used more than others, because it has paused.
    pub(super) goes_ahead: bool,
    /// Server time up to this moment has been charged.
    pub(super) charged_until: Time,
}

impl Flow {
    /// Server time since `since` that has not been charged, microseconds. From now on it counts as charged.
    pub(crate) fn take_uncharged_us(&mut self, since: Time, now: Time) -> u64 {
        let from = since.max(self.charged_until);
        self.charged_until = now;
        now.us_since(from)
    }
}

/// Server time in units of virtual time, for a flow with the weight 1. At least one microsecond counts: otherwise a
/// flow with shorter transactions would be served for ever.
pub(super) fn units(us: u64) -> u64 {
    us.max(1).saturating_mul(UNITS)
}
