//! Console commands, carried out.

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
    /// Carries a command out. Rows and notices go to `reply`.
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

    /// A command that changes something: for administrators, and written to the log.
    fn console_order(&mut self, now: Time, id: ClientId, command: &Command) -> Result<Done, Refusal> {
        match command {
            Command::Set { key, value } => {
                self.change_setting(now, key, value)?;
                self.log(LogLevel::Log, format!("SET {key}={value} command issued"));
                Ok(Done::tag(format!("SET {key}={value}")))
            }
            Command::Pause(database) => {
                let database = self.known(database, "pause")?;
                self.log_order("PAUSE", database);
                self.pause(now, database)?;
                Ok(Done::Waits(Waits::Paused(database.map(str::to_string))))
            }
            Command::Resume(database) => {
                let database = self.known(database, "resume")?;
                self.log_order("RESUME", database);
                self.resume(now, database)?;
                Ok(Done::tag("RESUME"))
            }
            Command::Suspend => {
                self.log_order("SUSPEND", None);
                self.suspend()?;
                Ok(Done::tag("SUSPEND"))
            }
            Command::Disable(database) => {
                let database = self.known_database(database, "disable")?;
                self.log_order("DISABLE", Some(database));
                self.databases.disabled.insert(database.into());
                Ok(Done::tag("DISABLE"))
            }
            Command::Enable(database) => {
                let database = self.known_database(database, "enable")?;
                self.log_order("ENABLE", Some(database));
                self.databases.disabled.remove(database);
                Ok(Done::tag("ENABLE"))
            }
            Command::Reconnect(database) => {
                let database = self.known(database, "reconnect")?;
                self.log_order("RECONNECT", database);
                self.reconnect(now, database);
                Ok(Done::tag("RECONNECT"))
            }
            Command::Kill(database) => {
                let database = self.known(database, "kill")?;
                self.log_order("KILL", database);
                self.kill(now, database)?;
                Ok(Done::tag("KILL"))
            }
            Command::KillClient(client) => {
                let client = client.parse().map_err(|_| Refusal::bad_client_id())?;
                self.log(LogLevel::Log, format!("KILL_CLIENT {client} command issued"));
                self.kill_client(now, client)?;
                Ok(Done::tag("KILL_CLIENT"))
            }
            Command::WaitClose(database) => {
                let database = self.known(database, "wait_close")?;
                self.log_order("WAIT_CLOSE", database);
                Ok(Done::Waits(Waits::Closed(database.map(str::to_string))))
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
            _ => unreachable!("no order"),
        }
    }

    fn log_order(&mut self, verb: &str, database: Option<&str>) {
        let text = match database {
            Some(database) => format!("{verb} '{database}' command issued"),
            None => format!("{verb} command issued"),
        };
        self.log(LogLevel::Log, text);
    }

    fn known<'d>(&self, database: &'d Option<String>, verb: &str) -> Result<Option<&'d str>, Refusal> {
        database.as_deref().map(|d| self.known_database(d, verb)).transpose()
    }

    fn known_database<'d>(&self, database: &'d str, verb: &str) -> Result<&'d str, Refusal> {
        if database == CONSOLE_DATABASE {
            return Err(Refusal::console_database(verb, database));
        }
        let known = self.shared.config.database(database).is_some();
        known
            .then_some(database)
            .ok_or_else(|| Refusal::no_such_database(database))
    }
}
