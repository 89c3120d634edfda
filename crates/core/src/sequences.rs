//! What a session has drawn from sequences, for currval() and lastval().
//!
//! These values live in the server process and cannot be made again on another server. So, in pools whose clients draw
//! from sequences by name or ask for such values, a client gets the server it had last if nobody has used it since, and
//! others leave that server to it as long as there is another; whoever asks keeps the server from then on
//! ([`crate::pins::PinReason::Sequences`]). Where the server has served someone else, or the client has been elsewhere in
//! between, what it remembers is discarded first: PostgreSQL then says that nothing has been drawn yet (55000), and nobody
//! meets another client's values nor old ones of its own. Only the server's word that it has forgotten them counts.

use crate::idle_list::IdleList;
use crate::ids::{ClientId, ServerId};
use crate::link::Acquired;
use crate::pooler::Pooler;
use crate::reply_queue::{Entry, Expect};
use crate::request::Request;
use crate::server::Server;
use crate::slab::Slab;
use crate::time::Time;
use pgweir_sql::Effects;
use pgweir_wire::TransactionStatus;

/// What the clients of a pool have been seen to do with sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Sequences {
    /// Nothing that matters.
    #[default]
    Unused,
    /// nextval() or setval() by name: currval() may follow.
    Drawn,
    /// currval() or lastval(): any INSERT may draw what is asked for next.
    Asked,
}

impl Pooler {
    /// A text of the client's may draw from sequences, ask what was drawn, or do what nobody knows.
    pub(crate) fn uses_sequences(&mut self, server_id: ServerId, effects: Effects) {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        let asks = effects.intersects(Effects::SEQUENCE);
        if asks || effects.intersects(Effects::DRAWS) {
            server.claimed = true;
            pool.sequences = pool
                .sequences
                .max(if asks { Sequences::Asked } else { Sequences::Drawn });
        }
        // In a pool that has been asked before, this was done when the link was made.
        if (asks || effects.intersects(Effects::CODE)) && server.stranger && !server.forgets_sequences {
            self.forget_before(server_id);
        }
    }

    /// Code of which nobody knows what it does may ask what others have drawn. While a catalog is being read, everything
    /// counts as code; only what the text itself runs is meant then.
    pub(crate) fn code_may_ask(&mut self, server_id: ServerId, of_text: Effects, effects: Effects) {
        let code = if self.catalog_holds(server_id) {
            effects
        } else {
            of_text
        };
        if code.intersects(Effects::CODE) {
            self.uses_sequences(server_id, Effects::CODE);
        }
    }

    /// The client's next request may ask for what others have drawn: the server forgets that first. What the client itself
    /// has drawn in this transaction is forgotten, too, and its question gets 55000: once in the life of a pool.
    #[cold]
    fn forget_before(&mut self, server_id: ServerId) {
        let server = self.server_mut(server_id);
        if server.is_clean() {
            let shape = server.shape.clone();
            self.discard_sequences(server_id);
            return self.send_settings(server_id, &[], shape);
        }
        if server.queue.is_empty() && server.status == TransactionStatus::Failed || server.copy_in {
            return;
        }
        let in_segment = server.queue.segment_open();
        self.run_discard(server_id);
        if !in_segment {
            self.server_mut(server_id).queue.push(Entry::skip(Expect::Sync));
            self.send(server_id, |w| w.sync());
        }
    }

    /// The pool's first question comes from a client whose last server lies idle, while it was given another: it goes
    /// there, if it has done nothing here yet, and its message is looked at again.
    #[cold]
    pub(crate) fn goes_to_own_server(&mut self, now: Time, id: ClientId, server_id: ServerId) -> bool {
        let client = self.client_mut(id);
        // Being linked here was a visit; before it the client was where it belongs.
        let visits = client.visits.wrapping_sub(1);
        let may_go = client.pins.is_empty() && client.suspicion.is_none() && client.deferred_begin.is_none();
        let server = self.server_mut(server_id);
        let pool_id = server.pool;
        if !may_go || !server.stranger || !server.visited_anew || !server.is_clean() || self.settings.link_adversarial {
            return false;
        }
        let pool = self.pool(pool_id);
        let Some(own) = own_server(&pool.idle, &self.servers, id, visits).and_then(|at| pool.idle.get(at)) else {
            return false;
        };
        self.pool_mut(pool_id).sequences = Sequences::Asked;
        self.pool_mut(pool_id).forget_idle(own);
        self.server_mut(server_id).last_client = None;
        self.release(now, server_id);
        self.client_mut(id).visits = visits;
        if let Acquired::Server(_) = self.link(now, id, own) {
            self.requests.push_back(Request::Resume(id.into()));
        }
        true
    }

    /// A client was just linked to a server: may it meet values that others have drawn? What is sent begins a segment of
    /// restored settings, which the caller ends.
    pub(crate) fn sequences_on_link(&mut self, server_id: ServerId) {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize]
            .as_ref()
            .expect("a server's pool lives");
        let asked = pool.sequences == Sequences::Asked;
        // Adversarial linking gives way to none but those who name a sequence.
        server.claimed = asked && !self.settings.link_adversarial || server.claimed && !server.stranger;
        if asked && server.stranger {
            self.discard_sequences(server_id);
        }
    }

    /// The server has said so.
    pub(crate) fn forgot_sequences(&mut self, server_id: ServerId) {
        let server = self.server_mut(server_id);
        server.stranger = false;
        server.forgets_sequences = false;
    }

    fn discard_sequences(&mut self, server_id: ServerId) {
        self.begin_restoring(server_id);
        self.run_discard(server_id);
    }

    fn run_discard(&mut self, server_id: ServerId) {
        let statement = self.own_statements.discard_sequences.clone();
        self.server_mut(server_id).forgets_sequences = true;
        // The unnamed portal may be the client's, to be executed once more.
        self.run_in_own_portal(server_id, &statement, &[]);
    }
}

/// Where in the idle list the server is that this client had last, if nobody else has had it since and the client has had no
/// other; `visits` is [`Client::visits`](crate::client::Client::visits).
pub(crate) fn own_server(idle: &IdleList, servers: &Slab<Server>, id: ClientId, visits: u32) -> Option<usize> {
    let is_own = |s: &ServerId| servers.get(s.0).is_some_and(|s| s.was_last_visited_by(id, visits));
    idle.iter().position(is_own)
}
