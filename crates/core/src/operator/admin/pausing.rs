//! PAUSE, RESUME, SUSPEND, and the console clients that wait for them.

use crate::base::ids::{ClientId, ConnectionId, ServerId};
use crate::base::request::Request;
use crate::base::time::Time;
use crate::client::Client;
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use crate::pools::pool;
use crate::server::Server;

/// The reason for closing servers under PAUSE, in PgBouncer's words.
const PAUSE_MODE: &str = "pause mode";

impl Pooler {
    pub(crate) fn pause(&mut self, database: Option<&str>) -> Result<(), Refusal> {
        self.admin.pause(&mut self.databases, database)?;
        self.pause_progress();
        Ok(())
    }

    pub(crate) fn resume(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        let was_suspended = self.admin.is_suspended();
        self.admin.resume(&mut self.databases, database)?;
        if was_suspended && !self.admin.is_suspended() {
            self.read_everyone(now);
        }
        let given_up = Refusal::given_up("PAUSE", "RESUME");
        for id in self.admin.waiters().to_vec() {
            let waits = self.clients.get(id.0).and_then(Client::console_waits);
            if waits.is_some_and(|waits| self.admin.is_resumed(&self.databases, waits)) {
                self.answer_console(id, Err(&given_up));
            }
        }
        for pool_id in pool::ids(&self.pools) {
            self.wake_idle(now, pool_id);
            self.open_servers_for_waiters(now, pool_id);
        }
        Ok(())
    }

    /// SUSPEND is over: clients and servers are read again.
    pub(super) fn read_everyone(&mut self, now: Time) {
        let clients = self.clients.slots().into_iter();
        let clients = clients.map(|slot| ConnectionId::from(ClientId(slot)));
        let servers = self.servers.slots().into_iter();
        let servers = servers.map(|slot| ConnectionId::from(ServerId(slot)));
        self.shared.requests.extend(clients.chain(servers).map(Request::Resume));
        self.resume_held_cancels(now);
    }

    /// Whether no PAUSE is in force, and no command waits for its end.
    #[inline]
    pub(crate) fn has_no_orders(&self) -> bool {
        !self.admin.paused_all() && !self.databases.some_are_paused() && self.admin.waiters().is_empty()
    }

    /// A server has become free or was closed, or a command was given. The caller may be at work on any connection, so
    /// what follows is done at the end of the turn.
    #[inline]
    pub(crate) fn pause_progress(&mut self) {
        if !self.has_no_orders() {
            self.admin.becomes_due();
        }
    }

    /// Closes free servers that are paused, answers the console clients whose commands have ended, and ends the process
    /// if SHUTDOWN has waited for what has happened.
    pub(crate) fn follow_orders(&mut self, now: Time) {
        while self.admin.take_due() {
            self.close_paused_servers(now);
            self.answer_waiters();
            self.end_if_due(now);
        }
    }

    fn close_paused_servers(&mut self, now: Time) {
        for pool_id in pool::ids(&self.pools) {
            if self.pool_takes_no_clients_now(pool_id) {
                for server in self.pool(pool_id).idle().iter().copied().collect::<Vec<_>>() {
                    self.close_server(now, server, PAUSE_MODE);
                }
                self.close_listeners(now, pool_id, PAUSE_MODE);
            }
        }
    }

    fn answer_waiters(&mut self) {
        for id in self.admin.waiters().to_vec() {
            let Some(waits) = self.clients.get(id.0).and_then(Client::console_waits) else {
                continue;
            };
            let any_server = |database: Option<&str>, matches: fn(&Server) -> bool| {
                let within = Choice::Within(database);
                let mut servers = self.servers.iter();
                servers.any(|(_, s)| matches(s) && within.includes(&self.pools, s.pool))
            };
            let over = match waits {
                Waits::Paused(database) => !any_server(database.as_deref(), |_| true),
                Waits::Closed(database) => !any_server(database.as_deref(), |s| s.close_reason.is_some()),
                Waits::Reloaded(_) | Waits::Set(_) => false,
            };
            if over {
                let verb = waits.verb();
                self.answer_console(id, Ok(verb));
            }
        }
    }
}
