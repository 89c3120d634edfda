//! One client of the console: its messages, the replies, and the commands that concern no other connection.

use crate::base::access::Access;
use crate::base::address::Address;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::stats::Stats;
use crate::base::time::Time;
use crate::console::grammar::{Command, Show};
use crate::console::portals::{Batch, Execute, Execution};
use crate::console::refusal::Refusal;
use crate::console::rows::Formats;
use crate::console::state::{self, ConsoleState};
use crate::shared::Shared;
use pgweir_config::CONSOLE_DATABASE;
use pgweir_wire::write::ErrorText;
use pgweir_wire::{FrontendTag, TransactionStatus, Writer};

/// The NOTICE of SHOW HELP.
const HELP: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE|FDS
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW PINS|LISTENERS|SIZING|SIZING STEPS|STATE_STATS|POOLS EXTENDED|SERVERS EXTENDED|SESSION <client_id>
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

/// What a message of a console's client asks of the pooler.
#[derive(Debug)]
pub(super) enum Asked {
    /// Nothing: the message has been answered.
    Nothing,
    /// The connection is closed, as the client wishes.
    Close,
    /// The connection is closed with an error, because the protocol does not allow a message of this kind.
    Refuse(u8),
    /// A table, for this Execute or for a Query.
    Table {
        show: Show,
        access: Access,
        formats: Formats,
        execute: Option<Execute>,
    },
    /// A command that changes something.
    Order(Command),
}

/// A client of the console while one message is handled. No other connection can be reached from here.
#[derive(Debug)]
pub(super) struct Talk<'a> {
    pub(super) id: ClientId,
    pub(super) peer: Address,
    pub(super) request_time: &'a mut Time,
    pub(super) console: &'a mut ConsoleState,
    /// The counters of the console.
    pub(super) counts: &'a mut Stats,
    pub(super) shared: &'a mut Shared,
}

impl Talk<'_> {
    pub(super) fn message(&mut self, now: Time, tag: FrontendTag, body: &[u8]) -> Asked {
        if self.console.ignores(tag) {
            return Asked::Nothing;
        }
        match tag {
            FrontendTag::Terminate => return Asked::Close,
            FrontendTag::Password => return Asked::Refuse(b'p'),
            FrontendTag::Query => return self.query(now, body),
            FrontendTag::Execute => return self.execute(now, body),
            FrontendTag::Sync => {
                self.console.sync();
                self.ready();
            }
            // The console sends everything at once.
            FrontendTag::Flush => {}
            // Outside COPY these messages are ignored, as in PostgreSQL.
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail => {}
            FrontendTag::Parse | FrontendTag::Bind | FrontendTag::Describe | FrontendTag::Close => {
                self.console.begin_extended();
                match self.console.portals_mut().handle(tag, body) {
                    Ok(reply) => self.append(&reply),
                    Err(refusal) => self.refuse(&refusal),
                }
            }
            FrontendTag::FunctionCall => {
                self.error(&Refusal::protocol("unsupported packet type for admin console: 70"));
                self.ready();
            }
        }
        Asked::Nothing
    }

    fn query(&mut self, now: Time, body: &[u8]) -> Asked {
        self.console.begin_query();
        match state::query_text(body).and_then(|text| Command::parse(&text)) {
            Ok(command) => self.run(now, command, Formats::default(), None),
            // Who may not give the command need not hear how it is completed.
            Err(refusal) if refusal.is_about_argument() && self.console.access() != Access::Admin => {
                self.refused(&Refusal::admin_only())
            }
            Err(refusal) => self.refused(&refusal),
        }
    }

    fn execute(&mut self, now: Time, body: &[u8]) -> Asked {
        self.console.begin_extended();
        let execute = match Execute::read(body) {
            Ok(execute) => execute,
            Err(refusal) => return self.refused(&refusal),
        };
        match self.console.portals_mut().execute(execute.portal()) {
            Ok(Execution::Run(command, formats)) => self.run(now, command, formats, Some(execute)),
            Ok(Execution::GoOn) => {
                self.more_rows(&execute);
                Asked::Nothing
            }
            Err(refusal) => self.refused(&refusal),
        }
    }

    /// Runs a command, or asks the pooler to.
    fn run(&mut self, now: Time, command: Command, formats: Formats, execute: Option<Execute>) -> Asked {
        *self.request_time = now;
        let access = self.console.access();
        if access != Access::Admin && !command.is_for_everyone() {
            return self.refused(&Refusal::admin_only());
        }
        self.counts.xact_count += 1;
        self.counts.query_count += 1;
        let tag = match command {
            Command::Empty => {
                self.write(|w| w.empty(b'I'));
                self.ready_unless_extended();
                return Asked::Nothing;
            }
            Command::Show(show) => {
                return Asked::Table {
                    show,
                    access,
                    formats,
                    execute,
                };
            }
            Command::Help => {
                self.notice("Console usage", HELP);
                "SHOW"
            }
            Command::SetApplicationName(name) => {
                self.console.set_application_name(name);
                "SET"
            }
            Command::SetSession => {
                self.notice("SET ignored", "");
                "SET"
            }
            Command::Begin => {
                self.console.set_status(TransactionStatus::InTransaction);
                "BEGIN"
            }
            Command::Commit => {
                self.console.set_status(TransactionStatus::Idle);
                "COMMIT"
            }
            Command::Rollback => {
                self.console.set_status(TransactionStatus::Idle);
                "ROLLBACK"
            }
            Command::Acknowledge(tag) => tag,
            order => return Asked::Order(order),
        };
        self.complete(tag);
        Asked::Nothing
    }

    /// Sends a table to a client that has asked for it by a Query, or keeps its rows for this Execute.
    pub(super) fn table(&mut self, execute: Option<&Execute>, rows: Vec<u8>) {
        match execute {
            None => {
                self.append(&rows);
                self.complete("SHOW");
            }
            Some(execute) => match self.console.portals_mut().keep_rows(execute, rows) {
                Ok(()) => self.more_rows(execute),
                Err(refusal) => self.refuse(&refusal),
            },
        }
    }

    /// Sends as many rows of a portal as an Execute asks for.
    fn more_rows(&mut self, execute: &Execute) {
        match self.console.portals_mut().next_rows(execute) {
            Ok(Batch::Last(rows)) => {
                self.append(&rows);
                self.complete("SHOW");
            }
            Ok(Batch::More(rows)) => {
                self.append(&rows);
                // PortalSuspended
                self.write(|w| w.empty(b's'));
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// The command that the client waits for has ended.
    pub(super) fn wait_over(&mut self, outcome: Result<&str, &Refusal>) {
        self.console.wait_no_more();
        match outcome {
            Ok(tag) => self.complete(tag),
            Err(refusal) => self.refuse(refusal),
        }
        self.shared.requests.push_back(Request::Resume(self.id.into()));
    }

    /// Sends CommandComplete and, for a Query, ReadyForQuery.
    pub(super) fn complete(&mut self, tag: &str) {
        self.write(|w| w.command_complete(tag));
        self.ready_unless_extended();
    }

    fn ready_unless_extended(&mut self) {
        if self.console.is_simple() {
            self.ready();
        }
    }

    fn ready(&mut self) {
        let status = self.console.status();
        self.write(|w| w.ready_for_query(status));
    }

    fn refused(&mut self, refusal: &Refusal) -> Asked {
        self.refuse(refusal);
        Asked::Nothing
    }

    /// Answers a command with an error.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        self.error(refusal);
        if self.console.is_simple() {
            self.ready();
        } else {
            self.console.ignore_to_sync();
        }
    }

    fn error(&mut self, refusal: &Refusal) {
        if self.shared.settings.log_pooler_errors {
            let (user, peer) = (self.console.user(), self.peer);
            let label = format!("{}: {CONSOLE_DATABASE}/{user}@{peer}", self.id);
            let text = format!("{label} pooler error: {}", refusal.message());
            self.shared.log(LogLevel::Warning, text);
        }
        self.write(|w| w.error(&refusal.text()));
    }

    fn notice(&mut self, message: &str, detail: &str) {
        self.write(|w| {
            w.notice(&ErrorText {
                severity: "NOTICE",
                sqlstate: "00000",
                message,
                detail,
                hint: "",
            })
        });
    }

    fn append(&mut self, bytes: &[u8]) {
        self.shared
            .outbox
            .insert(self.id.into(), |to| to.extend_from_slice(bytes));
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.shared
            .outbox
            .insert(self.id.into(), |to| write(&mut Writer::new(to)));
    }
}
