//! PAUSE, RESUME, SUSPEND, and the console clients that wait for them.

use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::pool_id::PoolId;
use crate::base::request::Request;
use crate::base::time::Time;
use crate::client::Client;
use crate::console::orders::{Ending, Halt};
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::pooler::Pooler;
use crate::pools::pool;
use crate::server::Server;

/// The reason for closing servers under PAUSE, in PgBouncer's words.
const PAUSE_MODE: &str = "pause mode";

impl Pooler {
    /// PAUSE: no client gets a server, and servers are closed when they become free.
    pub(crate) fn pause(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        if self.admin.halt != Halt::No {
            return Err(Refusal::not_in_state("already paused"));
        }
        match database {
            None => self.admin.halt = Halt::Paused,
            Some(database) => drop(self.databases.paused.insert(database.into())),
        }
        self.pause_progress(now);
        Ok(())
    }

    /// RESUME: undoes PAUSE, KILL and SUSPEND. Without a database it undoes the commands given without one. If there
    /// were none, it resumes every database.
    pub(crate) fn resume(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        match database {
            None if self.admin.is_suspended() => {
                self.admin.halt = Halt::No;
                self.read_everyone();
            }
            None if self.admin.halt == Halt::Paused => self.admin.halt = Halt::No,
            None if !self.databases.paused.is_empty() => self.databases.paused.clear(),
            None => return Err(Refusal::not_in_state("pooler is not paused")),
            Some(database) => {
                if !self.databases.paused.remove(database) {
                    return Err(Refusal::not_in_state(format!("database {database} is not paused")));
                }
            }
        }
        let given_up = Refusal::given_up("PAUSE", "RESUME");
        let paused = self.admin.halt == Halt::Paused;
        for id in self.admin.waiters.clone() {
            let resumed = match self.clients.get(id.0).and_then(Client::console_waits) {
                Some(Waits::Paused(None)) => !paused,
                Some(Waits::Paused(Some(d))) => !paused && !self.databases.paused.contains(&**d),
                _ => false,
            };
            if resumed {
                self.answer_console(id, Err(&given_up));
            }
        }
        for pool_id in pool::ids(&self.pools) {
            self.open_servers_for_waiters(now, pool_id);
        }
        Ok(())
    }

    /// SUSPEND: pending output is still written, and nothing more is read.
    pub(crate) fn suspend(&mut self) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        if self.admin.halt != Halt::No {
            return Err(Refusal::not_in_state("already paused"));
        }
        self.admin.halt = Halt::Suspended;
        Ok(())
    }

    pub(super) fn read_everyone(&mut self) {
        let clients = self
            .clients
            .slots()
            .into_iter()
            .map(|slot| ConnectionId::from(ClientId(slot)));
        let servers = self
            .servers
            .slots()
            .into_iter()
            .map(|slot| ConnectionId::from(ServerId(slot)));
        self.shared.requests.extend(clients.chain(servers).map(Request::Resume));
    }

    pub(super) fn is_within(&self, pool_id: PoolId, database: Option<&str>) -> bool {
        database.is_none_or(|database| *self.pool(pool_id).key.database == *database)
    }

    /// Whether no PAUSE is in force, and no command waits for its end.
    #[inline]
    pub(crate) fn has_no_orders(&self) -> bool {
        !self.admin.paused_all() && self.databases.paused.is_empty() && self.admin.waiters.is_empty()
    }

    /// A server has become free or was closed, or a command was given. Closes free servers that are paused, and answers
    /// the console clients whose commands have ended.
    #[inline]
    pub(crate) fn pause_progress(&mut self, now: Time) {
        if !self.has_no_orders() && !self.admin.progressing {
            self.admin.progressing = true;
            self.close_paused_servers(now);
            self.answer_waiters();
            self.admin.progressing = false;
            self.shutdown_progress(now);
        }
    }

    fn close_paused_servers(&mut self, now: Time) {
        for pool_id in pool::ids(&self.pools) {
            if self.pool_takes_no_clients_now(pool_id) {
                for server in self.pool(pool_id).idle.iter().copied().collect::<Vec<_>>() {
                    self.close_server(now, server, PAUSE_MODE);
                }
                self.close_listeners(now, pool_id, PAUSE_MODE);
            }
        }
    }

    fn answer_waiters(&mut self) {
        for id in self.admin.waiters.clone() {
            let Some(waits) = self.clients.get(id.0).and_then(Client::console_waits) else {
                continue;
            };
            let over = match waits {
                Waits::Paused(database) => !self.any_server(database.as_deref(), |_| true),
                Waits::Closed(database) => !self.any_server(database.as_deref(), |s| s.close_reason.is_some()),
                Waits::Reloaded => false,
            };
            if over {
                let verb = waits.verb();
                self.answer_console(id, Ok(verb));
            }
        }
    }

    fn any_server(&self, database: Option<&str>, matches: impl Fn(&Server) -> bool) -> bool {
        self.servers
            .iter()
            .any(|(_, s)| matches(s) && self.is_within(s.pool, database))
    }
}
