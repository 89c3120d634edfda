//! The commands of the console.

use crate::base::access::Access;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::console::columns;
use crate::console::grammar::{Command, Show, Shutdown};
use crate::console::orders::Ending;
use crate::console::refusal::Refusal;
use crate::console::rows::{Formats, Rows};
use crate::console::waiting::Waits;
use crate::operator::console::notice;
use crate::pooler::Pooler;
use pgweir_config::CONSOLE_DATABASE;
use pgweir_wire::TransactionStatus;

/// How a command ends.
#[derive(Debug)]
pub(super) enum Done {
    /// With CommandComplete and this tag.
    Tag(String),
    /// With EmptyQueryResponse.
    Empty,
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

/// The NOTICE of SHOW HELP.
const HELP: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE|FDS
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW PINS|LISTENERS|STATE_STATS|POOLS EXTENDED|SESSION <client_id>
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tSET key = arg
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tSUSPEND
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tWAIT_CLOSE [<db>]";

impl Pooler {
    /// Runs a command. Rows and notices are appended to `reply`.
    pub(super) fn console_command(
        &mut self,
        now: Time,
        id: ClientId,
        command: &Command,
        formats: &Formats,
        reply: &mut Vec<u8>,
    ) -> Result<Done, Refusal> {
        if let Some(client) = self.clients.get_mut(id.0) {
            client.request_time = now;
        }
        let access = self.console_mut(id).access();
        if access != Access::Admin && !command.is_for_everyone() {
            return Err(Refusal::admin_only());
        }
        self.admin.console_stats.xact_count += 1;
        self.admin.console_stats.query_count += 1;
        match command {
            Command::Empty => return Ok(Done::Empty),
            Command::Help => notice(reply, "Console usage", HELP),
            Command::Show(Show::Session(number)) if self.client_by_number(*number).is_none() => {
                return Err(Refusal::no_such_client());
            }
            Command::Show(show) => {
                self.console_show(now, *show, access, formats, reply);
            }
            Command::SetApplicationName(name) => self.console_mut(id).application_name.clone_from(name),
            Command::SetSession => notice(reply, "SET ignored", ""),
            Command::Begin => self.console_mut(id).set_status(TransactionStatus::InTransaction),
            Command::Commit | Command::Rollback => self.console_mut(id).set_status(TransactionStatus::Idle),
            Command::Acknowledge(_) => {}
            _ => return self.console_order(now, id, command),
        }
        Ok(Done::tag(match command {
            Command::Help | Command::Show(_) => "SHOW",
            Command::SetApplicationName(_) | Command::SetSession => "SET",
            Command::Begin => "BEGIN",
            Command::Commit => "COMMIT",
            Command::Rollback => "ROLLBACK",
            Command::Acknowledge(tag) => tag,
            _ => unreachable!("an order, dealt with above"),
        }))
    }

    fn console_show(&mut self, now: Time, show: Show, access: Access, formats: &Formats, reply: &mut Vec<u8>) {
        let mut rows = Rows::new(columns::columns(show), formats);
        self.show(now, show, access, &mut rows);
        reply.append(&mut rows.bytes);
    }

    /// Runs a command that changes something: only for administrators, and written to the
    /// log.
    fn console_order(&mut self, now: Time, id: ClientId, command: &Command) -> Result<Done, Refusal> {
        match command {
            Command::Set { key, value } => {
                self.change_setting(now, key, value)?;
                self.log(LogLevel::Log, format!("SET {key}={value} command issued"));
                Ok(Done::tag(format!("SET {key}={value}")))
            }
            Command::Suspend => {
                self.log_order("SUSPEND", None);
                self.suspend()?;
                Ok(Done::tag("SUSPEND"))
            }
            Command::KillClient(client) => {
                let client = client_number(client).ok_or_else(Refusal::bad_client_id)?;
                self.log(LogLevel::Log, format!("KILL_CLIENT {client} command issued"));
                self.kill_client(now, client)?;
                Ok(Done::tag("KILL_CLIENT"))
            }
            Command::Reload => {
                self.log_order("RELOAD", None);
                self.shared.requests.push_back(Request::Reload { by: Some(id) });
                Ok(Done::Waits(Waits::Reloaded))
            }
            Command::Shutdown(how) => {
                let (verb, ending) = match how {
                    Shutdown::Now => ("SHUTDOWN", Ending::Immediate),
                    Shutdown::WaitForClients => ("SHUTDOWN WAIT_FOR_CLIENTS", Ending::WaitForClients),
                    Shutdown::WaitForServers => ("SHUTDOWN WAIT_FOR_SERVERS", Ending::WaitForServers),
                };
                self.log_order(verb, None);
                Ok(Done::Shutdown(ending))
            }
            _ => self.database_order(now, command),
        }
    }

    /// Runs a command about one database, or about all of them if none is named.
    fn database_order(&mut self, now: Time, command: &Command) -> Result<Done, Refusal> {
        let (verb, database) = command.about_database().expect("every other order has been dealt with");
        if let Some(database) = database {
            self.must_know(database, &verb.to_ascii_lowercase())?;
        }
        self.log_order(verb, database);
        let owned = || database.map(str::to_string);
        match (command, database) {
            (Command::Pause(_), _) => {
                self.pause(now, database)?;
                return Ok(Done::Waits(Waits::Paused(owned())));
            }
            (Command::WaitClose(_), _) => return Ok(Done::Waits(Waits::Closed(owned()))),
            (Command::Resume(_), _) => self.resume(now, database)?,
            (Command::Reconnect(_), _) => self.reconnect(now, database),
            (Command::Kill(_), _) => self.kill(now, database)?,
            (Command::Disable(_), Some(database)) => drop(self.databases.disabled.insert(database.into())),
            (Command::Enable(_), Some(database)) => drop(self.databases.disabled.remove(database)),
            _ => {}
        }
        Ok(Done::tag(verb))
    }

    fn log_order(&mut self, verb: &str, database: Option<&str>) {
        let text = match database {
            Some(database) => format!("{verb} '{database}' command issued"),
            None => format!("{verb} command issued"),
        };
        self.log(LogLevel::Log, text);
    }

    /// Checks whether a command may name this database.
    fn must_know(&self, database: &str, verb: &str) -> Result<(), Refusal> {
        if database == CONSOLE_DATABASE {
            return Err(Refusal::console_database(verb, database));
        }
        let is_known = self.shared.config.database(database).is_some();
        is_known
            .then_some(())
            .ok_or_else(|| Refusal::no_such_database(database))
    }
}

/// The number of a client: decimal, or hexadecimal after `0x`.
fn client_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
