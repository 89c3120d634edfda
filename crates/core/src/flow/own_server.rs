//! The server on which a client has drawn from sequences.

use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::Acquired;
use crate::base::request::Request;
use crate::base::slab::Slab;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::pools::idle_list::IdleList;
use crate::server::Server;
use crate::state::sequences::Sequences;

impl Pooler {
    /// A pool's first question about sequences comes from a client that was linked to another server although its last
    /// server is idle. If the client has done nothing on the new server yet, it moves to its last server, and its
    /// message is looked at again.
    #[cold]
    pub(crate) fn goes_to_own_server(&mut self, now: Time, id: ClientId, server_id: ServerId) -> bool {
        let client = self.client_mut(id);
        // The link to this server was a visit; the visit before it was to the last server.
        let visits = client.session.visits().wrapping_sub(1);
        let pool_id = self.server_mut(server_id).pool;
        let pool = self.pool(pool_id);
        let Some(own) = own_server(pool.idle(), &self.servers, id, visits).and_then(|at| pool.idle().get(at)) else {
            return false;
        };
        self.pool_mut(pool_id).uses_sequences(Sequences::Asked);
        self.pool_mut(pool_id).forget_idle(own);
        self.server_mut(server_id).session.visit_is_undone();
        self.release(now, server_id);
        self.client_mut(id).session.visit_is_undone();
        if let Acquired::Server(_) = self.link(now, id, own) {
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
        true
    }
}

/// The place in the idle list of the server that this client had last, if no other client has had that server since and
/// the client has had no other server; `visits` is
/// [`ClientSession::visits`](crate::state::client_session::ClientSession::visits).
pub(crate) fn own_server(idle: &IdleList, servers: &Slab<Server>, id: ClientId, visits: u32) -> Option<usize> {
    let is_last = |s: &ServerId| {
        servers
            .get(s.0)
            .is_some_and(|s| s.session.was_last_visited_by(id, visits))
    };
    idle.iter().position(is_last)
}
