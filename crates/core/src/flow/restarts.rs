//! PostgreSQL was restarted, or its address leads to another one: the limit on servers at work begins again.

use crate::base::pool_id::PoolId;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::pools::sizing::SizingId;
use std::collections::BTreeSet;

impl Pooler {
    /// A server of this pool that was up has ended by itself, and has been counted out. If it was the last one of its
    /// host, the next one may belong to another PostgreSQL.
    pub(crate) fn note_end(&mut self, now: Time, pool_id: PoolId) {
        let Some(share) = self.pool(pool_id).share() else {
            return;
        };
        let sizing = self.shared.sizings.get(share.sizing());
        if sizing.is_some_and(|sizing| sizing.servers_up() == 0) {
            self.limit_begins_anew(now, share.sizing());
        }
    }

    /// The next servers of these pools may belong to another PostgreSQL, although servers are left. Each limit begins
    /// again once, however many of these pools share it.
    pub(crate) fn limits_begin_anew(&mut self, now: Time, pools: &[PoolId]) {
        let shares = pools.iter().filter_map(|id| self.pool(*id).share());
        let sizings: BTreeSet<SizingId> = shares.map(|share| share.sizing()).collect();
        for id in sizings {
            self.limit_begins_anew(now, id);
        }
    }

    fn limit_begins_anew(&mut self, now: Time, id: SizingId) {
        let sizing = self.shared.sizings.get_mut(id);
        if let Some(text) = sizing.and_then(|sizing| sizing.restarted(now)) {
            self.log(LogLevel::Log, text);
        }
    }
}
