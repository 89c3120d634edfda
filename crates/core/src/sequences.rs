//! What a session has drawn from sequences, for currval() and lastval().
//!
//! These values live in the server process and cannot be made again on another server. So, in pools whose clients draw
//! from sequences by name or ask for such values, a client gets the server it had last if nobody has used it since, and
//! others leave that server to it as long as there is another; whoever asks keeps the server from then on
//! ([`crate::pins::PinReason::Sequences`]). Where the server has served someone else, what it remembers is discarded
//! first: PostgreSQL then says that nothing has been drawn yet (55000), and nobody meets another client's values.

use crate::idle_list::IdleList;
use crate::ids::{ClientId, ServerId};
use crate::pooler::Pooler;
use crate::reply_queue::{Entry, Expect};
use crate::server::Server;
use crate::slab::Slab;
use pgweir_sql::Effects;
use pgweir_wire::Writer;

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
    /// A text of the client's may draw from sequences, or ask what was drawn.
    pub(crate) fn uses_sequences(&mut self, id: ClientId, server_id: ServerId, effects: Effects) {
        let server = self.servers.get_mut(server_id.0).expect("a linked server lives");
        let pool = self.pools[server.pool as usize]
            .as_mut()
            .expect("a server's pool lives");
        server.claimed = true;
        let before = pool.sequences;
        let asked = effects.intersects(Effects::SEQUENCE);
        pool.sequences = before.max(if asked { Sequences::Asked } else { Sequences::Drawn });
        // The pool's first question comes when the link has been made. Within a transaction the client may have drawn
        // the value itself.
        let untouched = server.is_clean() && server.stranger && !self.client_mut(id).pins.of_session();
        if asked && before != Sequences::Asked && untouched {
            self.discard_sequences(server_id);
            let shape = self.server_mut(server_id).shape.clone();
            self.send_settings(server_id, &[], shape);
        }
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

    fn discard_sequences(&mut self, server_id: ServerId) {
        self.begin_restoring(server_id);
        let statement = self.own_statements.discard_sequences.clone();
        self.ensure_held(server_id, &statement);
        let server = self.server_mut(server_id);
        server.stranger = false;
        server.queue.push(Entry::skip(Expect::Bind));
        server.queue.push(Entry::skip(Expect::Execute));
        let name = statement.server_name();
        self.outbox.insert(server_id.into(), |bytes| {
            let mut writer = Writer::new(bytes);
            writer.bind_text(name, &[]);
            writer.execute();
        });
    }
}

/// Where in the idle list the server is that this client had last, if nobody else has had it since.
pub(crate) fn own_server(idle: &IdleList, servers: &Slab<Server>, id: ClientId) -> Option<usize> {
    let is_own = |s: &ServerId| servers.get(s.0).is_some_and(|s| s.claimed && s.last_client == Some(id));
    idle.iter().position(is_own)
}
