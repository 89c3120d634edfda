//! An operator's orders: pause, resume, reload, shut down.

use crate::client::ClientPhase;
use crate::console::ConsoleState;
use crate::ids::ClientId;
use crate::pooler::Pooler;
use crate::request::{Command, LogLevel, ReloadOutcome, Request};
use crate::time::Time;

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
    ending: Ending,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            paused: false,
            ending: Ending::No,
        }
    }
}

impl Admin {
    pub(crate) fn paused_all(&self) -> bool {
        self.paused
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending == Ending::Immediate
    }

    pub(crate) fn refuses_logins(&self) -> bool {
        self.ending != Ending::No
    }

    pub(crate) fn client_gone(&mut self, _id: ClientId) {}
}

impl Pooler {
    pub(crate) fn pause_progress(&mut self, _now: Time) {}
    pub(crate) fn shutdown_progress(&mut self, _now: Time) {}
    pub(crate) fn stats_round(&mut self, _now: Time) {}
    pub(crate) fn run_command(&mut self, _now: Time, command: Command) {
        match command {
            Command::Reload => self.requests.push_back(Request::Reload { by: None }),
            _ => {
                self.admin.ending = Ending::Immediate;
                self.requests.push_back(Request::Exit);
            }
        }
    }
    pub(crate) fn reloaded(&mut self, _now: Time, _by: Option<ClientId>, outcome: ReloadOutcome) {
        if let ReloadOutcome::Bad(problems) = outcome {
            for p in problems {
                self.log(LogLevel::Error, p);
            }
        }
    }
    pub(crate) fn console_access(&self, user: &str) -> Option<Access> {
        let g = &self.config.global;
        if g.admin_users.items().iter().any(|u| u == user) {
            Some(Access::Admin)
        } else {
            g.stats_users.items().iter().any(|u| u == user).then_some(Access::Stats)
        }
    }
    pub(crate) fn open_console(&mut self, _now: Time, id: ClientId, user: &str, access: Access, _x: Option<()>) {
        let _ = (access, user);
        if let Some(c) = self.clients.get_mut(id.0) {
            c.phase = ClientPhase::Startup;
        }
        let _: Option<ConsoleState> = None;
    }
}
