//! The commands of the console that change something.

use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::console::grammar::{Command, Shutdown};
use crate::console::orders::Ending;
use crate::console::refusal::Refusal;
use crate::console::waiting::Waits;
use crate::operator::admin::setting::{SetProgress, set_tag};
use crate::pooler::Pooler;
use crate::pools::choice::Choice;
use pgweir_config::{CONSOLE_DATABASE, Config};

/// How such a command ends.
#[derive(Debug)]
pub(super) enum Done {
    /// With CommandComplete and this tag.
    Tag(String),
    /// With CommandComplete; then the process ends in this way.
    Shutdown(Ending),
    /// Later.
    Waits(Waits),
}

impl Done {
    fn tag(tag: impl Into<String>) -> Done {
        Done::Tag(tag.into())
    }
}

impl Pooler {
    /// Runs a command that changes something: only for administrators, and written to the log.
    pub(super) fn console_order(&mut self, now: Time, id: ClientId, command: &Command) -> Result<Done, Refusal> {
        match command {
            Command::Set { key, value } => {
                let progress = self.change_setting(now, id, key, value)?;
                Ok(match progress {
                    SetProgress::Done => Done::Tag(set_tag(key, value)),
                    SetProgress::Waits(order) => Done::Waits(Waits::Set(order)),
                })
            }
            Command::Suspend => {
                self.log(LogLevel::Log, issued("SUSPEND", None));
                self.admin.suspend()?;
                Ok(Done::tag("SUSPEND"))
            }
            Command::KillClient(client) => {
                let client = client_number(client).ok_or_else(Refusal::bad_client_id)?;
                self.log(LogLevel::Log, format!("KILL_CLIENT {client} command issued"));
                self.kill_client(now, client)?;
                Ok(Done::tag("KILL_CLIENT"))
            }
            Command::Reload => {
                self.log(LogLevel::Log, issued("RELOAD", None));
                let order = self.admin.next_order(id);
                self.shared.requests.push_back(Request::Reload { by: Some(order) });
                Ok(Done::Waits(Waits::Reloaded(order)))
            }
            Command::Shutdown(how) => {
                let (verb, ending) = match how {
                    Shutdown::Now => ("SHUTDOWN", Ending::Immediate),
                    Shutdown::WaitForClients => ("SHUTDOWN WAIT_FOR_CLIENTS", Ending::WaitForClients),
                    Shutdown::WaitForServers => ("SHUTDOWN WAIT_FOR_SERVERS", Ending::WaitForServers),
                };
                self.log(LogLevel::Log, issued(verb, None));
                Ok(Done::Shutdown(ending))
            }
            _ => self.database_order(now, command),
        }
    }

    /// Runs a command about one database, or about all of them if none is named.
    fn database_order(&mut self, now: Time, command: &Command) -> Result<Done, Refusal> {
        let (verb, database) = command.about_database().expect("every other order has been dealt with");
        if let Some(database) = database {
            must_know(&self.shared.config, database, &verb.to_ascii_lowercase())?;
            if matches!(command, Command::Resume(_) | Command::Enable(_)) && !self.is_listed(database) {
                return Err(Refusal::no_such_database(database));
            }
        }
        self.log(LogLevel::Log, issued(verb, database));
        let owned = || database.map(str::to_string);
        match (command, database) {
            (Command::Pause(_), _) => {
                self.pause(database)?;
                return Ok(Done::Waits(Waits::Paused(owned())));
            }
            (Command::WaitClose(_), _) => return Ok(Done::Waits(Waits::Closed(owned()))),
            (Command::Resume(_), _) => self.resume(now, database)?,
            (Command::Reconnect(_), _) => self.reconnect(now, Choice::Within(database)),
            (Command::Kill(_), _) => self.kill(now, database)?,
            (Command::Disable(_), Some(database)) => self.databases.disable(database),
            (Command::Enable(_), Some(database)) => self.databases.enable(database),
            _ => {}
        }
        Ok(Done::tag(verb))
    }

    /// Whether SHOW DATABASES has a database, other than the console's.
    fn is_listed(&self, database: &str) -> bool {
        self.shared.config.databases.contains_key(database)
            || self.pool_index.has_database(database)
            || self.databases.ordered().any(|name| &**name == database)
    }
}

/// The line of the log about a command.
fn issued(verb: &str, database: Option<&str>) -> String {
    match database {
        Some(database) => format!("{verb} '{database}' command issued"),
        None => format!("{verb} command issued"),
    }
}

/// Checks whether a command may name this database.
fn must_know(config: &Config, database: &str, verb: &str) -> Result<(), Refusal> {
    if database == CONSOLE_DATABASE {
        return Err(Refusal::console_database(verb, database));
    }
    let is_known = config.database(database).is_some();
    is_known
        .then_some(())
        .ok_or_else(|| Refusal::no_such_database(database))
}

/// The number of a client: decimal, or hexadecimal after `0x`. No client has a number that is too large.
fn client_number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    is_number.then(|| u32::from_str_radix(digits, radix).unwrap_or(u32::MAX))
}
