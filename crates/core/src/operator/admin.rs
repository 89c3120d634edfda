//! Operators' commands, from the console and by signals: pause, resume, kill, reload, shut down.

pub(crate) mod before;
mod dropping;
mod pausing;
mod reloading;
pub(crate) mod setting;
mod shutting_down;

use crate::base::request::{Command, LogLevel, Request};
use crate::base::time::Time;
use crate::console::orders::Ending;
use crate::pooler::Pooler;

impl Pooler {
    /// Runs the command of a signal.
    pub(crate) fn run_command(&mut self, now: Time, command: Command) {
        let ending = self.admin.is_shutting_down();
        let say = |pooler: &mut Pooler, text: &str| pooler.log(LogLevel::Log, text.into());
        match command {
            Command::Reload => {
                say(self, "got SIGHUP, re-reading config");
                self.shared.requests.push_back(Request::Reload { by: None });
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
            Command::Pause if self.pause(None).is_ok() => say(self, "got SIGUSR1, pausing all activity"),
            Command::Pause => say(self, "got SIGUSR1, but already paused"),
            Command::Resume if ending => say(self, "got SIGUSR2 while shutting down, ignoring"),
            Command::Resume if self.resume(now, None).is_ok() => say(self, "got SIGUSR2, continuing from PAUSE"),
            Command::Resume => say(self, "got SIGUSR2, but not paused"),
        }
    }
}
