//! `queue_target`: where all clients would wait for too long, some are refused early, and the others wait less.
//!
//! This follows CoDel: a queue that empties now and then is only a burst, and is left alone. A queue that stays too
//! long for a whole interval does not shrink by itself; then some clients are refused, and more of them in each further
//! interval.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::pool_id::{PoolId, PoolKind};
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::time::Time;
use crate::client::Client;
use crate::pooler::Pooler;
use std::time::Duration;

/// The most clients that are refused in one round of the timers.
const REFUSED_MAX: usize = 1024;

/// Whether an error can end a client's wait without ending its connection: the client waits at the beginning of a
/// request, outside a transaction.
fn may_be_refused(client: &Client) -> bool {
    let has_flown = client.flight.as_ref().is_some_and(|f| f.runs_again());
    client.is_session()
        && matches!(client.waiting, Waiting::ForServer { .. })
        && client.passing == Passing::None
        && client.dropping == Dropping::Nothing
        && client.session.deferred_begin().is_none()
        && !has_flown
}

/// The DETAIL of a refusal.
fn detail(waiting: usize, wait: Option<Duration>) -> String {
    let wait = match wait {
        Some(wait) => format!("and would have waited for about {} ms", wait.as_millis()),
        None => "and no server has become free for seconds".into(),
    };
    format!("It was the last of {waiting} clients that wait, {wait}.")
}

const HINT: &str = "The limit is the setting queue_target. Try again later, or see SHOW POOLS, pool_size and weight.";

impl Pooler {
    /// Refuses some of a pool's clients, if they would wait for longer than `queue_target`.
    pub(super) fn relieve_queue(&mut self, now: Time, pool_id: PoolId) {
        let Some(target) = self.shared.settings.queue_target else {
            return;
        };
        let takes_none = self.pool_takes_no_clients_now(pool_id);
        let pool = self.pool_mut(pool_id);
        let may_serve = !takes_none && pool.key().kind == PoolKind::Clients;
        let too_many = pool.look_at_queue(now, may_serve, target);
        if too_many > 0 {
            self.refuse_last(now, pool_id, too_many.min(REFUSED_MAX));
        }
    }

    /// Refuses up to `count` clients that may be refused: each time the client that would be served last in the group
    /// with the most waiting clients for its weight.
    fn refuse_last(&mut self, now: Time, pool_id: PoolId, count: usize) {
        let may = |id: ClientId| self.clients.get(id.0).is_some_and(may_be_refused);
        for id in self.pool(pool_id).waiting().last(count, may) {
            let pool = self.pool(pool_id);
            let waiting = pool.waiting().len();
            let detail = detail(waiting, pool.pressure().expected_wait(waiting));
            let message = "too many clients wait for a server";
            self.log_pooler_error(id, message);
            self.shared.state_stats.refused_early += 1;
            self.end_wait(now, id, &Trouble::QueueTooLong.text(message, &detail, HINT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_tells_the_place_and_the_wait() {
        assert_eq!(
            detail(60, Some(Duration::from_micros(1_234_567))),
            "It was the last of 60 clients that wait, and would have waited for about 1234 ms."
        );
        assert_eq!(
            detail(2, None),
            "It was the last of 2 clients that wait, and no server has become free for seconds."
        );
    }
}
