//! Connections that have not proven who they are.
//!
//! They count, too: beyond the free places under `max_client_conn` there is room for a few more
//! ([`ARRIVALS_RESERVE`]), so that administrators and cancel requests get in when all places are taken. When still more
//! come, the one that has taken longest is closed: whoever connects and says nothing keeps nobody out.

use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::time::Time;
use crate::client::{Client, ClientPhase};
use crate::pooler::Pooler;
use std::collections::VecDeque;

/// Connections that may be logging in when `max_client_conn` clients have logged in.
pub(crate) const ARRIVALS_RESERVE: u32 = 16;

/// Entries of connections that have logged in or gone are swept out of the queue above this many.
const SWEEP_MIN: usize = 64;

/// Those who are logging in, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Also some that have logged in or gone since.
    queue: VecDeque<ClientId>,
    count: u32,
}

impl Client {
    /// Whether it has not been authenticated.
    pub(crate) fn is_arriving(&self) -> bool {
        !self.counted
            && matches!(
                self.phase,
                ClientPhase::Startup | ClientPhase::Cancelling | ClientPhase::Login(_)
            )
    }
}

impl Pooler {
    /// A connection has come.
    pub(crate) fn arrived(&mut self, now: Time, id: ClientId) {
        let clients = &self.clients;
        let arrivals = &mut self.arrivals;
        arrivals.queue.push_back(id);
        arrivals.count += 1;
        if arrivals.queue.len() > SWEEP_MIN + 2 * arrivals.count as usize {
            let arriving = |id: &ClientId| clients.get(id.0).is_some_and(Client::is_arriving);
            arrivals.queue.retain(arriving);
        }
        let places = self.shared.settings.max_client_conn.saturating_sub(self.client_count);
        if self.arrivals.count > places.saturating_add(ARRIVALS_RESERVE) {
            self.turn_one_away(now);
        }
    }

    /// A connection has been authenticated, or is about to be forgotten without.
    pub(crate) fn arrives_no_more(&mut self) {
        self.arrivals.count -= 1;
    }

    #[cold]
    fn turn_one_away(&mut self, now: Time) {
        while let Some(id) = self.arrivals.queue.pop_front() {
            if self.clients.get(id.0).is_some_and(Client::is_arriving) {
                let message = "no more connections allowed (max_client_conn)";
                let detail = "more connections came than may be logging in, and this one has taken longest";
                let hint = "Log in without delay, or raise max_client_conn.";
                return self.fail_client(now, id, Trouble::TooManyClients, message, detail, hint);
            }
        }
    }
}
