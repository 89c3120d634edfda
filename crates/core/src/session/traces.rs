//! What a session leaves behind on its server that other clients would notice: see [`crate::flow::traces`].

use crate::base::pool_id::PoolKind;
use crate::base::settings::PoolMode;
use crate::exchange::Exchange;
use crate::server_side::ServerSide;
use pgweir_sql::Effects;

/// Effects that DISCARD ALL does not undo, nor any other statement.
const LEAVE_TRACES: Effects = Effects::LOAD
    .union(Effects::SEED)
    .union(Effects::SERVER_BOUND)
    .union(Effects::NATIVE);

impl ServerSide<'_> {
    /// Notes the traces of a text with these effects, in a pool in session pooling.
    pub(crate) fn note_traces(&mut self, effects: Effects) {
        if !effects.intersects(LEAVE_TRACES) {
            return;
        }
        let server = &mut *self.server;
        let pool = &*self.pool;
        if pool.settings().mode == PoolMode::Session && pool.key().kind == PoolKind::Clients {
            server.session.will_keep_traces();
        }
    }
}

impl Exchange<'_> {
    /// A client sets a custom setting, or tries to set one.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if !name.contains('.') || !self.keeps_session() {
            return;
        }
        self.client.session.note_custom_setting(name);
        self.server.session.note_custom_setting(name);
    }
}

impl Exchange<'_> {
    /// If a client has `pg_temp` in its search_path, every object that it creates may be temporary. Returns
    /// whether a probe will ask.
    #[cold]
    pub(crate) fn suspect_creation(&mut self) -> bool {
        let keeps = self.keeps_session();
        if keeps {
            let text = b"(with pg_temp in search_path)";
            self.suspect(Effects::TEMPORARY, text, Vec::new());
        }
        keeps
    }
}
