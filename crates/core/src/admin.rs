//! An operator's orders, from the console and by signals: pause, resume, kill, reload, shut down.

use crate::client::{ClientPhase, Waiting};
use crate::console::Waits;
use crate::console::refusal::Refusal;
use crate::errors::Trouble;
use crate::ids::{ClientId, ConnectionId, ServerId};
use crate::pool::{PoolId, PoolKind};
use crate::pooler::Pooler;
use crate::request::{Command, LogLevel, ReloadOutcome, Request};
use crate::server::ServerPhase;
use crate::settings::{PoolSettings, Settings};
use crate::stats::{Periods, Stats};
use crate::time::Time;
use pgweir_config::{AuthType, Changes, Config};
use std::sync::Arc;

/// Why servers are closed under PAUSE; PgBouncer's words.
const PAUSE_MODE: &str = "pause mode";

/// Why servers are closed after RECONNECT; PgBouncer's words.
const CLOSE_NEEDED: &str = "close_needed";

/// Why servers are closed after a RELOAD; PgBouncer's words.
const DATABASE_CHANGED: &str = "database configuration changed";

/// What clients hear when the process ends; PgBouncer's words.
const SHUTTING_DOWN: &str = "server shutting down";

/// What clients hear after KILL and KILL_CLIENT; PgBouncer's words.
const FORCED: &str = "admin forced disconnect";

/// What a console user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Admin,
    /// SHOW, but for secrets.
    Stats,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It does not.
    No,
    /// When no server is in use.
    WaitForServers,
    /// When no client is left.
    WaitForClients,
    /// Now.
    Immediate,
}

/// Orders in force.
#[derive(Debug)]
pub(crate) struct Admin {
    paused: bool,
    suspended: bool,
    ending: Ending,
    /// Console clients that wait for what they ordered.
    pub(crate) waiters: Vec<ClientId>,
    /// [`Pooler::pause_progress`] is at work: closing a server calls it again.
    progressing: bool,
    /// What the console counts for itself.
    pub(crate) console_stats: Stats,
    pub(crate) periods: Periods,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            paused: false,
            suspended: false,
            ending: Ending::No,
            waiters: Vec::new(),
            progressing: false,
            console_stats: Stats::default(),
            periods: Periods::default(),
        }
    }
}

impl Admin {
    /// No client gets a server now, whatever its database.
    #[inline]
    pub(crate) fn paused_all(&self) -> bool {
        self.paused || matches!(self.ending, Ending::WaitForServers | Ending::Immediate)
    }

    /// Nothing is read from clients and servers, and no time runs out.
    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// The process is about to exit: nothing new is begun.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending == Ending::Immediate
    }

    pub(crate) fn refuses_logins(&self) -> bool {
        self.ending != Ending::No
    }

    /// Clients that would have to wait for a server are told to go instead.
    pub(crate) fn refuses_waiters(&self) -> bool {
        self.paused_all() && self.ending != Ending::No
    }

    pub(crate) fn client_gone(&mut self, id: ClientId) {
        self.waiters.retain(|waiter| *waiter != id);
    }
}

impl Pooler {
    /// What a user may do on the console; `None` where it has no business there. Under `auth_type = any` names prove
    /// nothing, so everyone is an administrator, as in PgBouncer.
    pub(crate) fn console_access(&self, user: &str) -> Option<Access> {
        let g = &self.config.global;
        if g.auth_type == AuthType::Any || g.admin_users.contains(user) {
            Some(Access::Admin)
        } else {
            g.stats_users.contains(user).then_some(Access::Stats)
        }
    }

    /// Whether SUSPEND is about this connection: not the console's clients, nor those who log in, to it perhaps.
    pub(crate) fn is_suspendable(&self, id: ConnectionId) -> bool {
        match id {
            ConnectionId::Client(id) => self.clients.get(id.0).is_some_and(|client| client.is_session()),
            ConnectionId::Server(_) => true,
        }
    }

    /// PAUSE: no client gets a server, and servers are closed as they become free.
    pub(crate) fn pause(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        if self.admin.paused || self.admin.suspended {
            return Err(Refusal::not_in_state("already paused"));
        }
        match database {
            None => self.admin.paused = true,
            Some(database) => drop(self.databases.paused.insert(database.into())),
        }
        self.pause_progress(now);
        Ok(())
    }

    /// RESUME: undoes PAUSE, KILL and SUSPEND. Without a database it undoes what was ordered without one; where there is
    /// nothing of the kind, it resumes every database.
    pub(crate) fn resume(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        match database {
            None if self.admin.suspended => {
                self.admin.suspended = false;
                self.read_everyone();
            }
            None if self.admin.paused => self.admin.paused = false,
            None if !self.databases.paused.is_empty() => self.databases.paused.clear(),
            None => return Err(Refusal::not_in_state("pooler is not paused")),
            Some(database) => {
                if !self.databases.paused.remove(database) {
                    return Err(Refusal::not_in_state(format!("database {database} is not paused")));
                }
            }
        }
        let given_up = Refusal::given_up("PAUSE", "RESUME");
        for id in self.admin.waiters.clone() {
            let resumed = match self.console_waits(id) {
                Some(Waits::Paused(None)) => !self.admin.paused,
                Some(Waits::Paused(Some(d))) => !self.admin.paused && !self.databases.paused.contains(&**d),
                _ => false,
            };
            if resumed {
                self.answer_console(id, Err(&given_up));
            }
        }
        for pool_id in self.pool_ids() {
            self.open_servers_for_waiters(now, pool_id);
        }
        Ok(())
    }

    /// SUSPEND: everything written so far goes out, and nothing more is read.
    pub(crate) fn suspend(&mut self) -> Result<(), Refusal> {
        if self.admin.ending != Ending::No {
            return Err(Refusal::not_in_state("pooler is shutting down"));
        }
        if self.admin.paused || self.admin.suspended {
            return Err(Refusal::not_in_state("already paused"));
        }
        self.admin.suspended = true;
        Ok(())
    }

    fn read_everyone(&mut self) {
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
        self.requests.extend(clients.chain(servers).map(Request::Resume));
    }

    /// RECONNECT: servers are closed as they become free; new ones may be opened at once.
    pub(crate) fn reconnect(&mut self, now: Time, database: Option<&str>) {
        self.replace_servers(now, CLOSE_NEEDED, |pooler, pool| pooler.is_within(pool, database));
    }

    fn replace_servers(&mut self, now: Time, reason: &'static str, of: impl Fn(&Pooler, PoolId) -> bool) {
        for slot in self.servers.slots() {
            let Some(server) = self.servers.get(slot) else { continue };
            if !of(self, server.pool) {
                continue;
            }
            if server.is_idle() {
                self.close_server(now, ServerId(slot), reason);
            } else if let Some(server) = self.servers.get_mut(slot) {
                server.close_reason.get_or_insert(reason);
            }
        }
    }

    /// KILL: clients and servers are dropped, and new clients wait for RESUME.
    pub(crate) fn kill(&mut self, now: Time, database: Option<&str>) -> Result<(), Refusal> {
        if self.admin.paused || self.admin.suspended {
            return Err(Refusal::not_in_state("already paused"));
        }
        match database {
            Some(database) => drop(self.databases.paused.insert(database.into())),
            None => {
                let configured: Vec<Arc<str>> = self.config.databases.keys().map(|d| d.as_str().into()).collect();
                let made: Vec<Arc<str>> = self.live_pools().map(|(_, p)| p.key.database.clone()).collect();
                self.databases.paused.extend(configured.into_iter().chain(made));
            }
        }
        self.drop_connections(now, Trouble::Killed, FORCED, |pooler, pool| {
            pooler.is_within(pool, database)
        });
        Ok(())
    }

    /// Closes clients, and then all servers, of some pools.
    fn drop_connections(
        &mut self,
        now: Time,
        why: Trouble,
        message: &'static str,
        of: impl Fn(&Pooler, PoolId) -> bool,
    ) {
        for slot in self.clients.slots() {
            let pool = self.clients.get(slot).and_then(|client| client.pool);
            if pool.is_some_and(|pool| of(self, pool)) {
                self.fail_client(now, ClientId(slot), why, message, "", "");
            }
        }
        for slot in self.servers.slots() {
            let pool = self.servers.get(slot).map(|server| server.pool);
            if let Some(pool) = pool.filter(|&pool| of(self, pool)) {
                self.close_server(now, ServerId(slot), message);
                // That was no failure of the server's.
                self.forget_failures(pool);
            }
        }
    }

    fn forget_failures(&mut self, pool_id: PoolId) {
        let pool = self.pool_mut(pool_id);
        pool.failure = None;
        pool.failures_in_a_row = 0;
        pool.retry_at = None;
    }

    /// KILL_CLIENT: drops one client and its server.
    pub(crate) fn kill_client(&mut self, now: Time, number: u32) -> Result<(), Refusal> {
        let id = self.client_by_number(number).ok_or_else(Refusal::no_such_client)?;
        let link = self.clients.get(id.0).and_then(|client| client.link);
        if let Some(server) = link.and_then(|server| self.servers.get_mut(server.0)) {
            // Nobody else gets it.
            server.close_reason.get_or_insert(FORCED);
        }
        self.fail_client(now, id, Trouble::Killed, FORCED, "", "");
        if let Some(server) = link {
            self.close_server(now, server, FORCED);
        }
        Ok(())
    }

    fn is_within(&self, pool_id: PoolId, database: Option<&str>) -> bool {
        database.is_none_or(|database| *self.pool(pool_id).key.database == *database)
    }

    /// A server has become free or has gone, or an order came: closes free servers that are paused, and answers the
    /// console clients whose wait is over.
    #[inline]
    pub(crate) fn pause_progress(&mut self, now: Time) {
        let nothing = !self.admin.paused_all() && self.databases.paused.is_empty() && self.admin.waiters.is_empty();
        if !nothing && !self.admin.progressing {
            self.admin.progressing = true;
            self.close_paused_servers(now);
            self.answer_waiters();
            self.admin.progressing = false;
            self.shutdown_progress(now);
        }
    }

    fn close_paused_servers(&mut self, now: Time) {
        for pool_id in self.pool_ids() {
            if self.pool_takes_no_clients_now(pool_id) {
                for server in self.pool(pool_id).idle.clone() {
                    self.close_server(now, server, PAUSE_MODE);
                }
            }
        }
    }

    fn answer_waiters(&mut self) {
        for id in self.admin.waiters.clone() {
            let Some(waits) = self.console_waits(id) else { continue };
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

    fn any_server(&self, database: Option<&str>, matches: impl Fn(&crate::server::Server) -> bool) -> bool {
        self.servers
            .iter()
            .any(|(_, s)| matches(s) && self.is_within(s.pool, database))
    }

    fn answer_console(&mut self, id: ClientId, outcome: Result<&str, &Refusal>) {
        self.admin.client_gone(id);
        self.console_answered(id, outcome);
    }

    /// SHUTDOWN, in one of its ways; a later order replaces an earlier one.
    pub(crate) fn shutdown(&mut self, now: Time, how: Ending) {
        if self.admin.ending == Ending::Immediate {
            return;
        }
        if how == Ending::Immediate {
            return self.exit_now(now);
        }
        self.stop_listening();
        self.admin.ending = how;
        if self.admin.suspended {
            self.admin.suspended = false;
            self.read_everyone();
        }
        if self.admin.refuses_waiters() {
            for slot in self.clients.slots() {
                let waiting = self.clients.get(slot).map(|c| c.waiting);
                if matches!(waiting, Some(Waiting::ForServer { .. })) {
                    self.refuse_for_shutdown(now, ClientId(slot));
                }
            }
        }
        self.pause_progress(now);
        self.shutdown_progress(now);
    }

    fn stop_listening(&mut self) {
        if self.admin.ending == Ending::No {
            self.requests.push_back(Request::StopListening);
        }
    }

    pub(crate) fn refuse_for_shutdown(&mut self, now: Time, id: ClientId) {
        self.fail_client(now, id, Trouble::ShuttingDown, SHUTTING_DOWN, "", "");
    }

    /// A client or a server has gone: ends the process if that is what it waited for.
    pub(crate) fn shutdown_progress(&mut self, now: Time) {
        let text = match self.admin.ending {
            Ending::WaitForClients if !self.has_clients() => "client connections dropped, exiting",
            Ending::WaitForServers if !self.any_server_in_use() => "server connections dropped, exiting",
            _ => return,
        };
        self.log(LogLevel::Log, text.into());
        self.exit_now(now);
    }

    /// Clients other than the console's, those that are logging in included.
    fn has_clients(&self) -> bool {
        let logging_in = |phase: &ClientPhase| matches!(phase, ClientPhase::Login(_));
        self.client_count > 0 || self.clients.iter().any(|(_, c)| logging_in(&c.phase))
    }

    fn any_server_in_use(&self) -> bool {
        self.servers.iter().any(|(_, server)| {
            !matches!(
                server.phase,
                ServerPhase::Connecting | ServerPhase::Login(_) | ServerPhase::ConnectQuery | ServerPhase::Idle
            )
        })
    }

    /// Tells every client, takes leave of every server, and ends the process.
    fn exit_now(&mut self, now: Time) {
        if self.admin.ending == Ending::Immediate {
            return;
        }
        self.stop_listening();
        self.admin.ending = Ending::Immediate;
        for slot in self.clients.slots() {
            match self.clients.get(slot).map(|c| &c.phase) {
                Some(ClientPhase::Startup) => self.close_client(now, ClientId(slot), SHUTTING_DOWN),
                Some(_) => self.refuse_for_shutdown(now, ClientId(slot)),
                None => {}
            }
        }
        for slot in self.servers.slots() {
            self.close_server(now, ServerId(slot), SHUTTING_DOWN);
        }
        self.requests.push_back(Request::Exit);
    }

    /// A signal.
    pub(crate) fn run_command(&mut self, now: Time, command: Command) {
        let ending = self.admin.ending != Ending::No;
        let say = |pooler: &mut Pooler, text: &str| pooler.log(LogLevel::Log, text.into());
        match command {
            Command::Reload => {
                say(self, "got SIGHUP, re-reading config");
                self.requests.push_back(Request::Reload { by: None });
            }
            Command::ShutdownWaitForClients if !ending => {
                say(self, "got SIGTERM, shutting down, waiting for all clients disconnect");
                self.shutdown(now, Ending::WaitForClients);
            }
            Command::ShutdownWaitForServers if !ending => {
                say(
                    self,
                    "got SIGINT, shutting down, waiting for all servers connections to be released",
                );
                self.shutdown(now, Ending::WaitForServers);
            }
            Command::ShutdownWaitForClients => {
                say(self, "got SIGTERM while shutting down, fast exit");
                self.exit_now(now);
            }
            Command::ShutdownWaitForServers => {
                say(self, "got SIGINT while shutting down, fast exit");
                self.exit_now(now);
            }
            Command::ShutdownImmediate => {
                say(self, "got SIGQUIT, fast exit");
                self.exit_now(now);
            }
            Command::Pause if ending => say(self, "got SIGUSR1 while shutting down, ignoring"),
            Command::Pause if self.pause(now, None).is_ok() => say(self, "got SIGUSR1, pausing all activity"),
            Command::Pause => say(self, "got SIGUSR1, but already paused"),
            Command::Resume if ending => say(self, "got SIGUSR2 while shutting down, ignoring"),
            Command::Resume if self.resume(now, None).is_ok() => say(self, "got SIGUSR2, continuing from PAUSE"),
            Command::Resume => say(self, "got SIGUSR2, but not paused"),
        }
    }

    /// The configuration has been read again. A bad one changes nothing.
    pub(crate) fn reloaded(&mut self, now: Time, by: Option<ClientId>, outcome: ReloadOutcome) {
        let answer = match outcome {
            ReloadOutcome::Bad(problems) => {
                for problem in &problems {
                    self.log(LogLevel::Error, problem.clone());
                }
                self.log(LogLevel::Error, "RELOAD failed, the old configuration stays".into());
                Err(Refusal::reload_failed(&problems))
            }
            ReloadOutcome::New(config, warnings) => {
                let reload = self.config.reload((*config).clone());
                let kept = reload.warnings.iter().map(ToString::to_string);
                for warning in warnings.into_iter().chain(kept) {
                    self.log(LogLevel::Warning, warning);
                }
                self.log(LogLevel::Log, what_changed(&reload.changes));
                self.use_config(now, Arc::new(reload.config), &reload.changes);
                Ok(())
            }
        };
        if let Some(id) = by.filter(|id| self.console_waits(*id) == Some(&Waits::Reloaded)) {
            self.answer_console(id, answer.as_ref().map(|()| "RELOAD"));
        }
    }

    /// SET: a setting has another value until the next RELOAD.
    pub(crate) fn change_setting(&mut self, now: Time, key: &str, value: &str) -> Result<(), Refusal> {
        let mut config = (*self.config).clone();
        config
            .set(key, value)
            .map_err(|problem| Refusal::set_failed(&problem))?;
        let changes = Changes::between(&self.config, &config);
        self.use_config(now, Arc::new(config), &changes);
        Ok(())
    }

    /// Goes over to another configuration: everything that is read from it counts from now on.
    fn use_config(&mut self, now: Time, config: Arc<Config>, changes: &Changes) {
        self.settings = Settings::new(&config);
        self.config = config;
        for pool_id in self.pool_ids() {
            self.refresh_pool(now, pool_id, changes);
        }
        let (config, databases) = (&self.config, &mut self.databases);
        databases.paused.retain(|name| config.database(name).is_some());
        databases.disabled.retain(|name| config.database(name).is_some());
        self.make_pools_to_keep_warm(now);
        for pool_id in self.pool_ids() {
            self.open_servers_for_waiters(now, pool_id);
        }
    }

    /// What a new configuration means for one pool.
    fn refresh_pool(&mut self, now: Time, pool_id: PoolId, changes: &Changes) {
        let key = self.pool(pool_id).key.clone();
        let Some(entry) = self.config.database(&key.database) else {
            let message = "database removed";
            self.drop_connections(now, Trouble::Killed, message, |_, pool| pool == pool_id);
            return self.drop_pool(pool_id);
        };
        let serves_clients = key.kind != PoolKind::AuthQuery;
        if serves_clients && entry.user.as_deref().is_some_and(|forced| *forced != *key.user) {
            // Its clients belong to the pool of another user now.
            self.drop_connections(now, Trouble::Killed, DATABASE_CHANGED, |_, pool| pool == pool_id);
            return self.drop_pool(pool_id);
        }
        let settings = PoolSettings::new(&self.config, &entry, &key.user);
        let auto = !self.config.databases.contains_key(&*key.database);
        let credential = self.stored_credential(&key.database, &key.user);
        let entry_changed =
            changes.databases.contains_key(&*key.database) || changes.databases.contains_key("*") && auto;
        let secret_changed = entry_changed || changes.auth_users.contains(&*key.user);
        let pool = self.pool_mut(pool_id);
        let other_servers = pool.settings.needs_new_servers(&settings);
        pool.settings = settings;
        pool.auto = auto;
        if secret_changed {
            pool.credential = credential;
        }
        if other_servers {
            pool.welcome = None;
            pool.known_startup_values.clear();
            pool.next_endpoint = 0;
            self.replace_servers(now, DATABASE_CHANGED, |_, pool| pool == pool_id);
        }
        if other_servers || secret_changed {
            self.forget_failures(pool_id);
        }
    }
}

/// The names of what a RELOAD changed, for the log; values may be secrets.
fn what_changed(changes: &Changes) -> String {
    let settings = changes
        .settings
        .iter()
        .filter(|c| !c.needs_restart)
        .map(|c| c.name.to_string());
    let databases = changes
        .databases
        .iter()
        .map(|(name, change)| format!("database {name} ({change:?})"));
    let users = changes
        .users
        .iter()
        .chain(&changes.auth_users)
        .map(|name| format!("user {name}"));
    let peers = changes.peers.iter().map(|id| format!("peer {id}"));
    let names: Vec<String> = settings.chain(databases).chain(users).chain(peers).collect();
    if names.is_empty() {
        "RELOAD: nothing changed".into()
    } else {
        format!("RELOAD: changed {}", names.join(", "))
    }
}
