//! The timers of the pooler. They are checked in rounds: see `operator/timers.rs`.

use crate::base::time::Time;

/// Every timer of the pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// A client that has not logged in: client_login_timeout.
    Login,
    /// The longest waiting client of a pool: query_wait_timeout, and the NOTICE of query_wait_notify before it.
    QueryWait,
    /// A pool whose first waiting client has waited long: reserve_pool_timeout.
    ReservePool,
    /// A failed connection is attempted again: server_login_retry.
    Reconnect,
    /// A BEGIN without a server: deferred_begin.
    DeferredBegin,
    /// A server that works on a query: query_timeout.
    Query,
    /// A transaction: transaction_timeout.
    Transaction,
    /// A transaction in which no message is sent: idle_transaction_timeout.
    IdleTransaction,
    /// A client that sends nothing: client_idle_timeout, and its own idle_session_timeout.
    ClientIdle,
    /// A pinned client that sends nothing: pin_idle_timeout.
    PinIdle,
    /// An idle server: server_idle_timeout.
    ServerIdle,
    /// An old server: server_lifetime.
    ServerLifetime,
    /// A server that is being connected or logged in: server_connect_timeout.
    ServerConnect,
    /// A server whose client has left: the time to drain it.
    Drain,
    /// Servers to keep ready: min_pool_size.
    MinPoolSize,
    /// A pool without clients: pool_idle_timeout, and autodb_idle_timeout if the pool's database was made from
    /// `*`.
    UnusedPool,
    /// A listener that is lost, or without clients ([`crate::listening`]); channels that wait for a
    /// listener.
    Listener,
    /// The console's averages, and the line in the log: stats_period.
    Stats,
}

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
