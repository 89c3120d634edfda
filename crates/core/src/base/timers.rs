//! The timers of the pooler. No timer is set for a single client or server: what is due is found in rounds (see
//! `operator/timers.rs`, and `operator/due.rs` for the rules).
//!
//! | what is looked at | settings |
//! |---|---|
//! | a client that has not logged in, and does not wait for a pool that has had a server | client_login_timeout |
//! | the longest waiting client of a pool | query_wait_timeout, the global query_timeout, and query_wait_notify for the NOTICE before |
//! | a pool whose first waiting client has waited long | reserve_pool_timeout |
//! | a failed connection, to attempt it again | server_login_retry |
//! | a BEGIN without a server | deferred_begin |
//! | a server that works on a query | query_timeout |
//! | a transaction | transaction_timeout |
//! | a transaction in which no message is sent | idle_transaction_timeout |
//! | a client that sends nothing | client_idle_timeout, unless session pooling has given it a server, and the client's idle_session_timeout |
//! | a pinned client that sends nothing | pin_idle_timeout |
//! | an idle server | server_idle_timeout |
//! | an old server | server_lifetime |
//! | a server that is being connected or logged in | server_connect_timeout |
//! | a server whose client has left, and that must become idle | |
//! | servers to keep ready | min_pool_size |
//! | a pool without clients and servers | pool_idle_timeout, and autodb_idle_timeout if its database was made from `*` |
//! | a listener that is lost, or without clients; channels that wait for a listener | |
//! | the console's averages, and the line in the log | stats_period |

use crate::base::time::Time;

/// When each timer is due.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Timers {
    pub(crate) next_round: Time,
    pub(crate) next_stats: Time,
    pub(crate) next_clients: Time,
}

impl Timers {
    pub(crate) fn new(now: Time) -> Self {
        Timers {
            next_round: now,
            next_stats: now,
            next_clients: now,
        }
    }

    pub(crate) fn next_round(&self) -> Time {
        self.next_round
    }
}
