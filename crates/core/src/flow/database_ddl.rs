//! Statements about databases that concern open servers.
//!
//! Some need a database without connections: DROP DATABASE, ALTER DATABASE .. RENAME, CREATE DATABASE .. TEMPLATE.
//!
//! PostgreSQL refuses them (55006) while other sessions are connected to the database. If no client is logged in there,
//! the idle servers serve nobody, so they are closed first. PostgreSQL itself waits up to five seconds for their end.
//! Otherwise all servers stay: direct connections of those clients would be in the way, too.

use crate::base::admits::{Admits, NO_SUCH_DATABASE};
use crate::base::close_reason::CloseReason;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::time::Time;
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use crate::upstream::phase::ServerPhase;
use pgweir_sql::Outdated;
use std::time::Duration;

/// The servers of a pool are replaced at most once in this time because the settings of new sessions have changed: a text
/// may claim such changes again and again.
const REPLACEMENTS_APART: Duration = Duration::from_secs(5);

/// For this time no server is opened in advance in the pools that were cleared: a little longer than PostgreSQL waits.
/// A client that needs a server gets one: the statement may have been refused.
const KEPT_CLEAR: Duration = Duration::from_secs(6);

impl Pooler {
    /// See [`CatalogNews::names_have_moved`]. What servers hold as unnamed statements is prepared again, too. The plans of
    /// functions are discarded when the server gets its next client.
    #[cold]
    pub(crate) fn names_have_moved(&mut self, pool_id: PoolId) {
        let pools = self.catalogs().names_have_moved(pool_id);
        let servers: Vec<ServerId> = self.members_of(&pools).collect();
        for server_id in servers {
            let server = self.server_mut(server_id);
            server.held.outdate_unnamed();
            server.session.plans_are_older_than_names();
        }
    }

    /// A client's statement needs a database without connections: closes the idle servers that are in its way.
    #[cold]
    pub(crate) fn clear_database(&mut self, now: Time, id: ClientId, database: &[u8]) {
        let Some(pool_id) = self.clients.get(id.0).and_then(|c| c.pool) else {
            return;
        };
        let mut pools = self.catalogs().pools_of_cluster(pool_id);
        // Sessions on standbys are in nobody's way.
        pools.retain(|&(id, of_standby)| {
            let is_there = self.pool(id).settings().server_database.as_bytes() == database;
            is_there && (!of_standby || id == pool_id)
        });
        let pools: Vec<PoolId> = pools.into_iter().map(|(id, _)| id).collect();
        let others = pools.iter().map(|&of| self.pool(of).clients_beside(of == pool_id));
        if others.sum::<u32>() > 0 {
            return;
        }
        for pool_id in pools {
            self.clear_pool(now, pool_id);
        }
    }

    /// The client of server `id` has changed the settings that new sessions begin with, or who may begin one as which
    /// role. The servers of this PostgreSQL whose sessions began before are closed when they are free. So new clients
    /// find the new settings, no client finds one value on one server and another value on the next, nobody is served by
    /// the role that had his role's name before, and PostgreSQL judges the next login of the role or to the database.
    ///
    /// `is_sure`: this has happened, and needs rights. Otherwise any client may claim it, as often as it likes.
    #[cold]
    pub(crate) fn sessions_outdated(&mut self, now: Time, id: ServerId, of: &Outdated, is_sure: bool) {
        let Some(pool_id) = self.servers.get(id.0).map(|server| server.pool) else {
            return;
        };
        let pools = self.catalogs().pools_of_cluster(pool_id);
        let mut pools: Vec<PoolId> = pools.into_iter().map(|(id, _)| id).collect();
        pools.retain(|&id| {
            let settings = self.pool(id).settings();
            of.include(&settings.server_user, &settings.server_database)
        });
        for pool_id in pools {
            self.pool_mut(pool_id).outdates_servers(is_sure || *of != Outdated::All);
            match is_sure {
                true => self.replace_outdated(now, pool_id),
                false => self.replace_outdated_servers(now, pool_id),
            }
        }
    }

    /// Replaces the servers of a pool if they are outdated, unless that was done a short time ago.
    pub(crate) fn replace_outdated_servers(&mut self, now: Time, pool_id: PoolId) {
        if self.pool(pool_id).is_replacement_due(now, REPLACEMENTS_APART) {
            self.replace_outdated(now, pool_id);
        }
    }

    /// Closes the servers of a pool when they are free. Its catalog is read again, too: the default search_path belongs
    /// to what is known of it.
    fn replace_outdated(&mut self, now: Time, pool_id: PoolId) {
        self.pool_mut(pool_id).is_replaced(now);
        self.replace_servers(now, CloseReason::DefaultsChanged, Choice::One(pool_id));
    }

    /// A statement on server `id` has made a database or a role, or given a role a right. Logins that this PostgreSQL
    /// has refused, and may now admit, are tried again for the next client that needs them, without the pause of
    /// `server_login_retry`.
    #[cold]
    pub(crate) fn try_logins_again(&mut self, now: Time, id: ServerId, admits: Admits) {
        let Some(pool_id) = self.servers.get(id.0).map(|server| server.pool) else {
            return;
        };
        if admits.may_undo(NO_SUCH_DATABASE) {
            self.lookups.forget_absent();
        }
        if let Admits::CreateRole | Admits::AlterRole = admits {
            self.lookups.forget_secrets(now);
        }
        for (pool_id, _) in self.catalogs().pools_of_cluster(pool_id) {
            let pool = self.pool_mut(pool_id);
            if pool.failure().is_some_and(|failure| admits.may_end(failure)) {
                pool.try_again(now);
            }
        }
    }

    fn clear_pool(&mut self, now: Time, pool_id: PoolId) {
        self.catalogs().doubt(now, pool_id);
        self.pool_mut(pool_id).keep_clear(now + KEPT_CLEAR);
        for slot in self.servers.slots() {
            let id = ServerId(slot);
            let Some(server) = self.servers.get_mut(slot).filter(|s| s.pool == pool_id) else {
                continue;
            };
            match server.phase {
                ServerPhase::Linked | ServerPhase::Connecting | ServerPhase::Securing | ServerPhase::Login(_) => {}
                ServerPhase::Listening if self.listeners.is_heard(id) => {}
                ServerPhase::Idle | ServerPhase::Listening => self.close_server(now, id, CloseReason::InTheWay.text()),
                // A server at work is closed when it has finished.
                _ => drop(server.close_reason.get_or_insert(CloseReason::InTheWay)),
            }
        }
    }
}
