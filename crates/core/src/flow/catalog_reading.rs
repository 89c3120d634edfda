//! Servers that read a database's catalog: see [`crate::session::catalogs`].

use crate::base::close_reason::CloseReason;
use crate::base::ids::ServerId;
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::catalog::reading::{Failure, Reading};
use crate::client::Client;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::session::catalogs::{CatalogNews, may_read_now};
use crate::upstream::phase::ServerPhase;

impl Pooler {
    pub(crate) fn catalogs(&mut self) -> CatalogNews<'_> {
        CatalogNews {
            shared: &mut self.shared,
            pools: &mut self.pools,
            servers: &self.servers,
        }
    }

    /// A message has shown that too little is known of a database's catalog, or may change the catalog: tells the pools
    /// of that database.
    #[cold]
    pub(crate) fn tell_catalog_news(&mut self, now: Time) {
        for server_id in self.shared.catalogs.take_published() {
            if !self.is_weak(Weakness::TrustsRunningTexts) {
                self.code_may_change(now, server_id);
            }
        }
        self.catalogs().tell_untold();
    }

    /// A request that may change what code a database runs was sent to this server: the texts that other servers are
    /// running count as code that is not read.
    fn code_may_change(&mut self, now: Time, by: ServerId) {
        let Some(pool_id) = self.servers.get(by.0).map(|server| server.pool) else {
            return;
        };
        let pools = self.catalogs().code_may_change(now, pool_id);
        let servers: Vec<ServerId> = self.members_of(&pools).collect();
        for id in servers {
            let at_work = |s: &&mut Server| id != by && !s.is_clean();
            let Some(server) = self.servers.get_mut(id.0).filter(at_work) else {
                continue;
            };
            match server.link {
                // The other flights may have begun.
                Some(_)
                    if server
                        .flights
                        .as_ref()
                        .is_some_and(|flights| !flights.is_empty() && !flights.is_plain_alone()) =>
                {
                    server.close_reason.get_or_insert(CloseReason::StateUnknown);
                }
                // Before a probe has been answered, the client's settings are not known, and internal requests run no
                // code.
                Some(client)
                    if server.conversation.runs_texts()
                        && self.clients.get(client.0).is_some_and(Client::is_session) =>
                {
                    self.is_no_flight(now, id);
                    self.between(now, client, id).code_may_change();
                }
                None if server.flies() || matches!(server.phase, ServerPhase::Draining) => {
                    server.close_reason.get_or_insert(CloseReason::StateUnknown);
                }
                _ => {}
            }
        }
    }

    /// A server without a client is free: if a reading is due, the server does it. Returns whether it does.
    #[cold]
    pub(crate) fn read_catalog(&mut self, now: Time, server_id: ServerId) -> bool {
        let pool_id = self.server_mut(server_id).pool;
        let shares = self.shared.settings.keeps_sessions && self.pool(pool_id).shares_sessions();
        if !shares || self.pool_takes_no_clients_now(pool_id) || self.admin.is_ending() {
            return false;
        }
        let Some(version) = self.catalogs().begin_reading(now, pool_id, server_id) else {
            return false;
        };
        self.at(server_id).send_catalog_reading(now, version);
        self.note_soon_free(server_id);
        true
    }

    /// If a reading of the catalog is due, and no server has become free, an idle one does it: other pools may wait for
    /// what it tells.
    #[cold]
    pub(crate) fn read_catalog_idly(&mut self, now: Time, pool_id: PoolId) {
        let pool = self.pool(pool_id);
        if pool.reading_due().is_none() {
            return;
        }
        let idle: Vec<ServerId> = pool.idle().iter().copied().collect();
        for id in idle {
            let claimed = self.server_mut(id).session.is_claimed();
            if may_read_now(self.pool(pool_id), now, claimed) && self.read_catalog(now, id) {
                return self.pool_mut(pool_id).forget_idle(id);
            }
        }
    }

    /// The segment that reads the catalog has ended: the server is free.
    pub(crate) fn catalog_read(&mut self, now: Time, server_id: ServerId) {
        let server = self.server_mut(server_id);
        let pool_id = server.pool;
        if let Some(reading) = server.reading.take()
            && self.catalogs().reading_ended(now, server_id, *reading)
        {
            // On the standby, names have moved only now.
            self.names_have_moved(pool_id);
        }
        // If the reading failed in an internal transaction block, that is rolled back first.
        let server = self.server_mut(server_id);
        server.phase = ServerPhase::Draining;
        match server.is_clean() && !server.cancels.may_hit() {
            true => self.clean_up(now, server_id, false),
            false => self.drained(now, server_id),
        }
    }

    /// A server that was reading the catalog is gone.
    pub(crate) fn catalog_lost(&mut self, now: Time, server_id: ServerId, mut reading: Reading) {
        if self.admin.is_ending() {
            return;
        }
        reading.fails(Failure::ServerLost);
        self.catalogs().reading_ended(now, server_id, reading);
    }
}
