//! How long clients wait: `query_wait_timeout`, `query_wait_notify`, and the global `query_timeout`. While a client waits,
//! the `query_timeout` of its user does not count, as in PgBouncer.
//!
//! A client waits in the queue of its pool, or its flight stands behind another client's on a server
//! ([`crate::upstream::flights`]). All count from when it began to wait until a server can begin its transaction. If the
//! flight runs again, `query_timeout` also counts the time for which a server has worked on it.

use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Waiting;
use crate::base::time::Time;
use crate::operator::shortage;
use crate::pooler::Pooler;
use pgweir_wire::write::ErrorText;
use std::time::Duration;

/// The DETAIL for a client whose flight stands behind another client's.
const SENT: &str = "The transaction was sent to a server that still works for another client. The server will run it, \
                    and its reply will be dropped.";

/// The HINT for such a client.
const SENT_HINT: &str = "See SHOW SERVERS EXTENDED, pipeline_depth, query_wait_timeout and query_timeout.";

/// The message of query_wait_notify, in PgBouncer's words.
const QUEUED: ErrorText<'static> = ErrorText {
    severity: "NOTICE",
    sqlstate: "00000",
    message: "No server connection available in postgres backend, client being queued",
    detail: "",
    hint: "",
};

/// A limit on a wait that is over: what the client is told.
struct Over {
    trouble: Trouble,
    /// The name of the setting is the message, as in PgBouncer.
    setting: &'static str,
}

/// Limits on a wait.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// query_timeout for all users.
    query: Option<Duration>,
    /// query_wait_timeout of the pool.
    timeout: Option<Duration>,
    /// query_wait_notify.
    notify: Option<Duration>,
}

impl Limits {
    /// The limit that is over first.
    fn shortest(&self) -> Option<Duration> {
        [self.query, self.timeout, self.notify].into_iter().flatten().min()
    }

    /// The limit that is over, if any. If both are, PgBouncer names query_timeout. `asked`: how long ago the client sent
    /// its request.
    fn over(&self, waited: Duration, asked: Duration) -> Option<Over> {
        let over = |limit: Option<Duration>, time: Duration, trouble, setting| {
            let is_over = limit.is_some_and(|limit| time > limit);
            is_over.then_some(Over { trouble, setting })
        };
        over(self.query, asked, Trouble::QueryTimeout, "query_timeout")
            .or_else(|| over(self.timeout, waited, Trouble::QueryWaitTimeout, "query_wait_timeout"))
    }

    fn notice_is_due(&self, waited: Duration) -> bool {
        self.notify.is_some_and(|limit| waited > limit)
    }
}

impl Pooler {
    fn limits_on_waits(&self, pool_id: PoolId) -> Limits {
        Limits {
            query: self.shared.settings.query_timeout,
            timeout: self.pool(pool_id).settings().query_wait_timeout,
            notify: self.shared.settings.query_wait_notify,
        }
    }

    /// Checks how long the clients of a pool's queue have waited.
    pub(super) fn time_waiters(&mut self, now: Time, pool_id: PoolId) {
        let limits = self.limits_on_waits(pool_id);
        let Some(shortest) = limits.shortest() else { return };
        // The queue is in order of arrival: after the first client that is within its limit, all are.
        let queue = self.pool(pool_id).waiting().iter();
        let late: Vec<ClientId> = queue
            .take_while(|(_, since)| now - *since > shortest)
            .map(|(id, _)| id)
            .collect();
        for id in late {
            self.time_waiter(now, id, pool_id, limits);
        }
    }

    fn time_waiter(&mut self, now: Time, id: ClientId, pool_id: PoolId, limits: Limits) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let (session, asked) = (client.is_session(), now - client.request_time);
        let Waiting::ForServer { since, notified, .. } = &mut client.waiting else {
            return;
        };
        if let Some(Over { trouble, setting }) = limits.over(now - *since, asked) {
            let pinned = shortage::pinned_servers(&self.servers, &self.clients, self.pool(pool_id));
            let (detail, hint) = shortage::why_it_waited(self.pool(pool_id), pinned, setting);
            let failure = Failure::new(trouble, setting).with_detail(&detail).with_hint(&hint);
            self.fail_client(now, id, failure);
        } else if !*notified && session && limits.notice_is_due(now - *since) {
            *notified = true;
            self.send(id, |w| w.notice(&QUEUED));
        }
    }

    /// Checks how long a server has worked on the flight at the front, and how long clients have waited behind that.
    pub(super) fn time_flights(&mut self, now: Time, id: ServerId) {
        if !self.servers.get(id.0).is_some_and(|server| server.flies()) {
            return;
        }
        let side = self.at(id);
        let Some(flights) = &mut side.server.flights else {
            return;
        };
        flights.front_is_at_work(now, side.pool, &mut side.shared.state_stats);
        let pool_id = side.server.pool;
        let limits = self.limits_on_waits(pool_id);
        let (Some(shortest), Some(flights)) = (limits.shortest(), self.flights_of(id)) else {
            return;
        };
        let riders = flights.riders().filter(|(_, since)| now - *since > shortest);
        let riders: Vec<ClientId> = riders.map(|(client, _)| client).collect();
        for client in riders {
            self.time_rider(now, client, id, limits);
        }
    }

    /// A client waits behind the flight of another one. If it waits for too long, it is closed. The server runs its
    /// flight in any case, and nobody gets the reply.
    fn time_rider(&mut self, now: Time, id: ClientId, server_id: ServerId, limits: Limits) {
        let Some(flights) = self.flights_of(server_id) else {
            return;
        };
        let Some(since) = flights.rides_since(id) else { return };
        if let Some(Over { trouble, setting }) = limits.over(now - since, now - since) {
            let failure = Failure::new(trouble, setting).with_detail(SENT).with_hint(SENT_HINT);
            self.fail_client(now, id, failure);
        } else if limits.notice_is_due(now - since) && flights.notify_rider(id) {
            self.send(id, |w| w.notice(&QUEUED));
        }
    }
}
