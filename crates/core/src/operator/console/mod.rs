//! The admin console: database `pgbouncer`.
//!
//! It speaks the simple and the extended protocol, so any driver can use it. It has no transactions, but acknowledges
//! BEGIN and similar statements. While a command waits ([`crate::console::waiting::Waits`]), nothing is read from its
//! client.

mod orders;
mod show;
mod show_config;
mod show_lists;
mod show_pins;
mod show_pools;
mod show_sizing;
mod show_sockets;
mod show_stats;
mod talk;

use crate::base::access::Access;
use crate::base::errors::Trouble;
use crate::base::failure::Failure;
use crate::base::ids::ClientId;
use crate::base::request::LogLevel;
use crate::base::time::Time;
use crate::base::weakness::Weakness;
use crate::client::{Client, ClientPhase};
use crate::console::refusal::Refusal;
use crate::console::state::{self, ConsoleState, NoMessage};
use crate::flow::logins::admitting;
use crate::login::welcome::Welcome;
use crate::pooler::Pooler;
use orders::Done;
use pgweir_wire::TransactionStatus;
use talk::{Asked, Talk};

/// The version in SHOW VERSION and server_version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most bytes of tables for the commands that a client has sent at once. Without a limit, 64 kB of commands could
/// ask for gigabytes, and all other connections would wait until the tables are made.
const TABLES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The settings that the console reports at login, because drivers need them.
fn parameters(access: Access) -> [(&'static str, String); 8] {
    let superuser = if access == Access::Admin { "on" } else { "off" };
    [
        ("server_version", format!("{VERSION}/pgweir")),
        ("client_encoding", "UTF8".into()),
        ("server_encoding", "UTF8".into()),
        ("DateStyle", "ISO".into()),
        ("TimeZone", "GMT".into()),
        ("integer_datetimes", "on".into()),
        ("standard_conforming_strings", "on".into()),
        ("is_superuser", superuser.into()),
    ]
}

impl Pooler {
    /// Finishes the login of a client of the console.
    pub(crate) fn open_console(&mut self, now: Time, id: ClientId, access: Access) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let ClientPhase::Login(login) = &mut client.phase else {
            return;
        };
        let closing = login.take_closing();
        let user = login.user().to_string();
        let application_name = login.setting("application_name").unwrap_or_default().to_string();
        client.request_time = now;
        let console = ConsoleState::new(&user, access, &application_name);
        client.phase = ClientPhase::Console(Box::new(console));
        self.arrivals.has_arrived();
        admitting::give_process_id(
            &mut self.process_ids,
            &mut self.clients,
            id,
            self.shared.config.global.peer_id,
        );
        let key = self.cancel_key_of(id);
        self.admin.console_stats_mut().client_login_count += 1;
        let notice = self.shared.settings.login_notify_message.clone();
        self.send(id, |w| {
            let welcome = Welcome {
                closing: closing.as_deref(),
                key: &key,
                cut_name: None,
                notice: &notice,
                status: TransactionStatus::Idle,
            };
            welcome.write(w, parameters(access).iter().map(|(name, value)| (*name, &**value)));
        });
    }

    /// The conversation with a client of the console.
    fn talk(&mut self, id: ClientId) -> Option<Talk<'_>> {
        let client = self.clients.get_mut(id.0)?;
        let ClientPhase::Console(console) = &mut client.phase else {
            return None;
        };
        Some(Talk {
            id,
            peer: client.accepted.peer,
            request_time: &mut client.request_time,
            console,
            counts: self.admin.console_stats_mut(),
            shared: &mut self.shared,
        })
    }

    pub(crate) fn console_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let (mut at, mut tables_bytes) = (0, 0);
        while at < input.len() {
            if tables_bytes > TABLES_BYTES_MAX {
                let message = "too many tables of the console are asked for at once";
                self.fail_client(now, id, Failure::new(Trouble::ProtocolViolation, message));
                return input.len();
            }
            let Some(mut talk) = self.talk(id) else {
                return input.len();
            };
            if talk.console.is_busy() {
                return at;
            }
            let asked = match state::message(&input[at..]) {
                Ok(Some((tag, bytes))) => {
                    let body = state::body(&input[at..at + bytes]);
                    at += bytes;
                    talk.message(now, tag, body)
                }
                Ok(None) => return at,
                Err(NoMessage::Tag(tag)) => {
                    self.refuse_packet(now, id, tag);
                    return input.len();
                }
                Err(NoMessage::Length(why)) => {
                    self.fail_client(now, id, Failure::new(Trouble::ProtocolViolation, &why));
                    return input.len();
                }
            };
            tables_bytes += self.console_asks(now, id, asked);
            self.settle(now);
        }
        at
    }

    /// Does what a message asks. Returns the bytes of its table.
    fn console_asks(&mut self, now: Time, id: ClientId, asked: Asked) -> usize {
        match asked {
            Asked::Nothing => {}
            Asked::Close => self.close_client(now, id, "client close request"),
            Asked::Refuse(tag) => self.refuse_packet(now, id, tag),
            Asked::Table {
                show,
                access,
                formats,
                execute,
            } => {
                let is_query = execute.is_none();
                let tells_all = self.is_weak(Weakness::TellsWatchers);
                let access = if tells_all { Access::Admin } else { access };
                let table = self.view(now).table(show, access, &formats, is_query);
                let Some(mut talk) = self.talk(id) else { return 0 };
                let bytes = table.as_ref().map_or(0, Vec::len);
                match table {
                    Ok(rows) => talk.table(execute.as_ref(), rows),
                    Err(refusal) => talk.refuse(&refusal),
                }
                return bytes;
            }
            Asked::Order(command) => match self.console_order(now, id, &command) {
                Ok(done) => self.console_done(now, id, done),
                Err(refusal) => self.talk(id).into_iter().for_each(|mut talk| talk.refuse(&refusal)),
            },
        }
        0
    }

    /// Answers a command, or leaves its client waiting.
    fn console_done(&mut self, now: Time, id: ClientId, done: Done) {
        // KILL_CLIENT may have closed the very client that has sent it.
        let Some(mut talk) = self.talk(id) else { return };
        match done {
            Done::Tag(tag) => talk.complete(&tag),
            Done::Shutdown(ending) => {
                talk.complete("SHUTDOWN");
                self.shutdown(now, ending);
            }
            Done::Waits(waits) => {
                talk.console.begin_to_wait(waits);
                self.admin.client_waits(id);
                self.pause_progress();
            }
        }
    }

    /// A CancelRequest for a client of the console: its wait ends; the command stays in force.
    pub(crate) fn cancel_console(&mut self, id: ClientId) {
        if let Some(waits) = self.clients.get(id.0).and_then(Client::console_waits) {
            let refusal = Refusal::given_up(waits.verb(), "a cancel request");
            self.answer_console(id, Err(&refusal));
        } else if let Some(client) = self.clients.get(id.0) {
            let label = client.label(id, &self.pools);
            self.log(
                LogLevel::Warning,
                format!("{label} admin cancel request for non-waiting client?"),
            );
        }
    }

    /// The command that a console client waits for has ended.
    pub(crate) fn answer_console(&mut self, id: ClientId, outcome: Result<&str, &Refusal>) {
        self.admin.client_gone(id);
        if let Some(mut talk) = self.talk(id) {
            talk.wait_over(outcome);
        }
    }
}
