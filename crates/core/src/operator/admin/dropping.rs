//! RECONNECT, KILL, KILL_CLIENT.

use crate::base::close_reason::CloseReason;
use crate::base::consequence::Consequence;
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::{ClientId, ServerId};
use crate::base::time::Time;
use crate::console::refusal::Refusal;
use crate::operator::numbers;
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use crate::pools::pool;

/// The message to a client after KILL_CLIENT.
const FORCED: &str = CloseReason::Killed.text();

/// The message to clients after KILL, in PgBouncer's words.
const KILLED: &str = "database removed";

impl Pooler {
    /// Closes the servers of some pools when they become free; new ones may be opened at once.
    pub(crate) fn replace_servers(&mut self, now: Time, reason: CloseReason, of: Choice<'_>) {
        self.doubt_catalogs(now, of);
        self.doubt_natures(reason, of);
        for slot in self.servers.slots() {
            let Some(server) = self.servers.get(slot) else { continue };
            if !of.includes(&self.pools, server.pool) {
                continue;
            }
            if server.is_idle() {
                self.close_server(now, ServerId(slot), reason.text());
            } else if let Some(server) = self.servers.get_mut(slot) {
                server.is_former |= reason.means_other_servers();
                server.close_reason.get_or_insert(reason);
                let is_asked = server.session.probe().is_some();
                if let Some(client) = server.link.filter(|_| is_asked) {
                    self.between(now, client, ServerId(slot)).waits_for_probe();
                }
            }
        }
    }

    /// The next servers of these pools may be something else than those before, also if their addresses are the same.
    fn doubt_natures(&mut self, reason: CloseReason, of: Choice<'_>) {
        if !matches!(reason, CloseReason::Reconnect | CloseReason::DatabaseChanged) {
            return;
        }
        for (id, pool) in pool::live(&self.pools) {
            if of.includes(&self.pools, id) {
                for endpoint in &pool.settings().endpoints {
                    self.natures.doubt(endpoint, &pool.settings().server_database);
                }
            }
        }
    }

    /// RECONNECT: servers are closed when they become free, and new ones are attempted at once, at every host. The
    /// limits on servers at work begin again.
    pub(crate) fn reconnect(&mut self, now: Time, of: Choice<'_>) {
        let mut pools = pool::ids(&self.pools);
        pools.retain(|pool_id| of.includes(&self.pools, *pool_id));
        self.limits_begin_anew(now, &pools);
        self.replace_servers(now, CloseReason::Reconnect, of);
        for pool_id in pool::ids(&self.pools) {
            if of.includes(&self.pools, pool_id) {
                self.pool_mut(pool_id).forget_failures();
            }
        }
    }

    /// KILL: clients and servers are closed, and new clients wait for RESUME.
    pub(crate) fn kill(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        self.admin.may_kill()?;
        match database {
            Some(database) => self.databases.pause(database),
            None => {
                let configured = self.shared.config.databases.keys().map(String::as_str);
                let made = pool::live(&self.pools).map(|(_, pool)| &*pool.key().database);
                for database in configured.chain(made) {
                    self.databases.pause(database);
                }
            }
        }
        self.drop_connections(now, Trouble::Killed, KILLED, Choice::Within(database));
        Ok(())
    }

    /// Closes all clients, and then all servers, of some pools.
    pub(super) fn drop_connections(&mut self, now: Time, why: Trouble, message: &'static str, of: Choice<'_>) {
        self.doubt_catalogs(now, of);
        for slot in self.clients.slots() {
            let pool = self.clients.get(slot).and_then(|client| client.pool);
            if pool.is_some_and(|pool| of.includes(&self.pools, pool)) {
                self.fail_client(now, ClientId(slot), Failure::new(why, message));
            }
        }
        for slot in self.servers.slots() {
            let pool = self.servers.get(slot).map(|server| server.pool);
            if pool.is_some_and(|pool| of.includes(&self.pools, pool)) {
                self.consequences
                    .push_back(Consequence::KillServer(ServerId(slot), message));
            }
        }
    }

    /// Closes a server whose client has been closed.
    pub(crate) fn kill_server(&mut self, now: Time, id: ServerId, reason: &str) {
        let Some(pool) = self.servers.get(id.0).map(|server| server.pool) else {
            return;
        };
        self.close_server(now, id, reason);
        // This does not count as a failure of the server.
        self.pool_mut(pool).forget_failures();
    }

    /// The next servers may have another database, or functions may have been changed without the pooler.
    fn doubt_catalogs(&mut self, now: Time, of: Choice<'_>) {
        for pool_id in pool::ids(&self.pools) {
            if of.includes(&self.pools, pool_id) {
                self.catalogs().doubt(now, pool_id);
            }
        }
    }

    /// KILL_CLIENT: closes one client and its server. If other clients' transactions have been sent to that server, it
    /// is closed when it has answered them.
    pub(crate) fn kill_client(&mut self, now: Time, number: u32) -> Result<(), Refusal> {
        let id = numbers::client_by_number(&self.clients, number).ok_or_else(Refusal::no_such_client)?;
        let link = self.clients.get(id.0).and_then(|client| client.link);
        if let Some(server) = link.and_then(|server| self.servers.get_mut(server.0)) {
            // No other client gets it.
            server.close_reason.get_or_insert(CloseReason::Killed);
        }
        self.fail_in_any_state(now, id, Failure::new(Trouble::Killed, FORCED));
        self.consequences.extend(link.map(Consequence::ClientKilled));
        Ok(())
    }

    /// The client of a server was closed by KILL_CLIENT.
    pub(crate) fn end_killed(&mut self, now: Time, server: ServerId) {
        match self.flights_of(server).is_some_and(|flights| flights.has_riders()) {
            true => self.at(server).send_cancel(),
            false => self.close_server(now, server, FORCED),
        }
    }
}
