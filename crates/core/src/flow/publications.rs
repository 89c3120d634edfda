//! Definitions wait for flights: see [`crate::catalog::publications`].
//!
//! Flights are short, so this takes a millisecond. But a flight may wait for a lock that the client with the definition
//! holds, and PostgreSQL does not know that the two wait for each other. So after [`FLIGHTS_TIME`] the flight in front
//! is cancelled, if nothing of its reply has come. It runs again, alone on its server, and its client does not notice.
//! After [`FLIGHTS_TIME_MAX`] it is cancelled in any case, as the victim of a deadlock, and a client that does not read
//! its reply is closed.

use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::reasons::Waiting;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::pooler::Pooler;
use crate::server::Server;
use std::time::Duration;

/// How long a definition waits for flights before they make way.
const FLIGHTS_TIME: Duration = Duration::from_millis(100);

/// How long it waits for flights that cannot be run again, because their replies have begun.
const FLIGHTS_TIME_MAX: Duration = Duration::from_secs(1);

impl Pooler {
    /// A client's message may commit definitions. If it must wait for flights, the client keeps its server. Returns
    /// whether it waits.
    #[cold]
    pub(crate) fn waits_to_publish(&mut self, now: Time, id: ClientId, server_id: ServerId) -> bool {
        let pool_id = self.server_mut(server_id).pool;
        let pools = self.catalogs().sharing(pool_id);
        if self.is_weak(Weakness::PublishesAmongFlights) || !self.any_riders(&pools) {
            self.shared.catalogs.publications_mut().ends(id);
            if self.client_mut(id).waiting == Waiting::ToDefine {
                self.waits_no_longer(id);
            }
            return false;
        }
        self.shared.catalogs.publications_mut().one_waits(now, id, pools);
        self.begins_to_wait(now, id, server_id);
        true
    }

    /// Whether the last byte of a long Query must wait, because the Query may commit definitions.
    #[cold]
    pub(crate) fn last_byte_waits(&mut self, now: Time, id: ClientId) -> bool {
        let link = self.clients.get(id.0).and_then(|client| client.link);
        link.is_some_and(|server_id| self.waits_to_publish(now, id, server_id))
    }

    /// Whether a flight stands behind another one on a server of these pools.
    fn any_riders(&self, pools: &[PoolId]) -> bool {
        let has_riders = |server: &Server| server.flights.as_ref().is_some_and(|flights| flights.has_riders());
        let mut servers = self.members_of(pools).filter_map(|id| self.servers.get(id.0));
        servers.any(has_riders)
    }

    /// If a flight has ended, perhaps none stands behind another one any more.
    #[inline]
    pub(crate) fn look_at_due_publications(&mut self) {
        if self.shared.catalogs.publications().are_due() {
            self.look_at_publications();
        }
    }

    /// Lets those go on for which no flight stands behind another one any more. Until they have been handled, none is
    /// sent behind another one.
    #[cold]
    fn look_at_publications(&mut self) {
        self.shared.catalogs.publications_mut().are_looked_at();
        let waiting = self.shared.catalogs.publications().waiting();
        let free = waiting.filter(|(_, pools)| !self.any_riders(pools));
        let free: Vec<ClientId> = free.map(|(client, _)| client).collect();
        for id in free {
            if self.clients.get(id.0).is_some_and(|c| c.waiting == Waiting::ToDefine) {
                self.waits_no_longer(id);
                self.shared.requests.push_back(Request::Resume(id.into()));
            }
        }
    }

    /// Flights that hold up definitions for too long make way. Forgets clients that wait no longer.
    pub(crate) fn time_publications(&mut self, now: Time) {
        self.look_at_publications();
        let waiting = self.shared.catalogs.publications().waiting();
        let waits = |id: &ClientId| self.clients.get(id.0).is_some_and(|c| c.waiting == Waiting::ToDefine);
        let over: Vec<ClientId> = waiting.map(|(client, _)| client).filter(|id| !waits(id)).collect();
        for id in over {
            self.shared.catalogs.publications_mut().ends(id);
        }
        let awaited_for = |least| self.shared.catalogs.publications().pools_awaited_for(now, least);
        let (pools, at_last) = (awaited_for(FLIGHTS_TIME), awaited_for(FLIGHTS_TIME_MAX));
        if pools.is_empty() {
            return;
        }
        for slot in self.servers.slots() {
            let pool = self.servers.get(slot).map(|server| server.pool);
            if let Some(pool) = pool.filter(|pool| pools.contains(pool)) {
                self.makes_way(now, ServerId(slot), at_last.contains(&pool));
                self.settle(now);
            }
        }
    }

    /// If flights stand behind the one at the front, that is cancelled. It runs again alone, or its client gets the
    /// error if that is not possible (`at_last`).
    fn makes_way(&mut self, now: Time, id: ServerId, at_last: bool) {
        let server = self.server_mut(id);
        let Some(flights) = server.flights.as_mut().filter(|flights| flights.has_riders()) else {
            return;
        };
        let is_unread = at_last && flights.front_is_unread_for(now, FLIGHTS_TIME_MAX);
        if let Some(client) = server.link.filter(|_| is_unread) {
            return self.close_client(now, client, "client does not read its reply");
        }
        if !server.cancels.are_under_way() && flights.front_makes_way(at_last) {
            self.at(id).send_cancel();
        }
    }
}
