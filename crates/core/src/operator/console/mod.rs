//! The admin console: database `pgbouncer`.
//!
//! It speaks the simple and the extended protocol, so any driver can use it. It has no transactions, but acknowledges
//! BEGIN and similar statements. While a command waits ([`Waits`]), nothing is read from its client.

mod actions;
mod extended;
mod show;
mod show_config;
mod show_lists;
mod show_pins;
mod show_pools;
mod show_sockets;
mod show_stats;

use crate::base::access::Access;
use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::console::grammar::Command;
use crate::console::refusal::Refusal;
use crate::console::rows::{self, Formats};
use crate::console::state::{self, ConsoleState};
use crate::console::waiting::Waits;
use crate::login::welcome::Welcome;
use crate::pooler::Pooler;
use actions::Done;
use pgweir_wire::{FrontendTag, TransactionStatus, Writer};

/// The version in SHOW VERSION and server_version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The parameters that the console reports at login, because drivers need them.
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
    pub(crate) fn open_console(&mut self, now: Time, id: ClientId, user: &str, access: Access) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let ClientPhase::Login(login) = &mut client.phase else {
            return;
        };
        let closing = login.take_closing();
        let application_name = login.setting("application_name").unwrap_or_default().to_string();
        client.request_time = now;
        let console = ConsoleState::new(user, access, &application_name);
        client.phase = ClientPhase::Console(Box::new(console));
        self.arrivals.has_arrived();
        self.give_process_id(id);
        let key = self.cancel_key_of(id);
        self.admin.console_stats.client_login_count += 1;
        self.send(id, |w| {
            let welcome = Welcome {
                closing: closing.as_deref(),
                key: &key,
                notice: "",
                status: TransactionStatus::Idle,
            };
            welcome.write(w, parameters(access).iter().map(|(name, value)| (*name, &**value)));
        });
    }

    /// The command whose end a console client waits for.
    pub(crate) fn console_waits(&self, id: ClientId) -> Option<&Waits> {
        match &self.clients.get(id.0)?.phase {
            ClientPhase::Console(console) => console.waits(),
            _ => None,
        }
    }

    fn console(&mut self, id: ClientId) -> Option<&mut ConsoleState> {
        match &mut self.clients.get_mut(id.0)?.phase {
            ClientPhase::Console(console) => Some(console),
            _ => None,
        }
    }

    /// The state of a console client that the caller has looked up.
    fn console_mut(&mut self, id: ClientId) -> &mut ConsoleState {
        self.console(id).expect("the caller looked it up")
    }

    pub(crate) fn console_bytes(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        while at < input.len() {
            let Some(console) = self.console(id) else {
                return input.len();
            };
            if console.is_busy() {
                return at;
            }
            let (tag, bytes) = match state::message(&input[at..]) {
                Ok(Some(message)) => message,
                Ok(None) => return at,
                Err(why) => {
                    self.fail_client(now, id, Trouble::ProtocolViolation, &why, "", "");
                    return input.len();
                }
            };
            let body = state::body(&input[at..at + bytes]);
            at += bytes;
            self.console_message(now, id, tag, body);
        }
        at
    }

    fn console_message(&mut self, now: Time, id: ClientId, tag: FrontendTag, body: &[u8]) {
        let Some(console) = self.console(id) else { return };
        if console.ignores(tag) {
            return;
        }
        match tag {
            FrontendTag::Terminate => self.close_client(now, id, "client close request"),
            FrontendTag::Query => self.console_query(now, id, body),
            FrontendTag::Sync => {
                console.sync();
                self.console_ready(id);
            }
            // The console sends everything at once.
            FrontendTag::Flush => {}
            // Outside COPY these messages are ignored, as in PostgreSQL.
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail => {}
            FrontendTag::Parse
            | FrontendTag::Bind
            | FrontendTag::Describe
            | FrontendTag::Execute
            | FrontendTag::Close => self.console_extended(now, id, tag, body),
            FrontendTag::FunctionCall => {
                self.console_refuses(
                    id,
                    &Refusal::protocol("function calls are not supported on the console"),
                );
                self.console_ready(id);
            }
            FrontendTag::Password => {
                let message = "unexpected password message";
                self.fail_client(now, id, Trouble::ProtocolViolation, message, "", "");
            }
        }
    }

    fn console_query(&mut self, now: Time, id: ClientId, body: &[u8]) {
        self.console_mut(id).begin_query();
        let command = state::query_text(body).and_then(|text| Command::parse(&text));
        let mut reply = Vec::new();
        let done = command.and_then(|command| {
            let formats = Formats::default();
            if let Some(columns) = command.columns() {
                rows::describe(&mut reply, columns, &formats);
            }
            self.console_command(now, id, &command, &formats, &mut reply)
        });
        match done {
            Ok(done) => {
                self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply));
                self.console_done(now, id, done);
            }
            Err(refusal) => {
                self.console_refuses(id, &refusal);
                self.console_ready(id);
            }
        }
    }

    /// Answers a command, or leaves its client waiting.
    fn console_done(&mut self, now: Time, id: ClientId, done: Done) {
        match done {
            Done::Tag(tag) => self.console_completes(id, &tag),
            Done::Empty => {
                self.send(id, |w| w.empty(b'I'));
                self.console_ready_unless_extended(id);
            }
            Done::Shutdown(ending) => {
                self.console_completes(id, "SHUTDOWN");
                self.shutdown(now, ending);
            }
            Done::Waits(waits) => {
                if let Some(console) = self.console(id) {
                    console.begin_to_wait(waits);
                }
                self.admin.waiters.push(id);
                self.pause_progress(now);
            }
        }
    }

    /// Sends CommandComplete and, for a Query, ReadyForQuery.
    fn console_completes(&mut self, id: ClientId, tag: &str) {
        self.send(id, |w| w.command_complete(tag));
        self.console_ready_unless_extended(id);
    }

    fn console_ready_unless_extended(&mut self, id: ClientId) {
        if self.console(id).is_some_and(|c| c.is_simple()) {
            self.console_ready(id);
        }
    }

    fn console_ready(&mut self, id: ClientId) {
        let Some(console) = self.console(id) else { return };
        let status = console.status();
        self.send(id, |w| w.ready_for_query(status));
    }

    /// Sends a console client an error.
    fn console_refuses(&mut self, id: ClientId, refusal: &Refusal) {
        if self.shared.settings.log_pooler_errors
            && let Some(client) = self.clients.get(id.0)
        {
            let text = format!("{} pooler error: {}", self.client_label(id, client), refusal.message);
            self.log(LogLevel::Warning, text);
        }
        self.send(id, |w| w.error(&refusal.text()));
    }

    /// A CancelRequest for a client of the console: its wait ends; the command stays in force.
    pub(crate) fn cancel_console(&mut self, id: ClientId) {
        if let Some(waits) = self.console_waits(id) {
            let refusal = Refusal::given_up(waits.verb(), "a cancel request");
            self.answer_console(id, Err(&refusal));
        }
    }

    /// The command that a console client waits for has ended.
    pub(crate) fn console_answered(&mut self, id: ClientId, outcome: Result<&str, &Refusal>) {
        let Some(console) = self.console(id) else { return };
        console.wait_no_more();
        match outcome {
            Ok(tag) => self.console_completes(id, tag),
            Err(refusal) => {
                self.console_refuses(id, refusal);
                match self.console(id) {
                    Some(console) if !console.is_simple() => console.ignore_to_sync(),
                    _ => self.console_ready(id),
                }
            }
        }
        self.shared.requests.push_back(Request::Resume(id.into()));
    }
}

/// Appends a NOTICE.
fn notice(to: &mut Vec<u8>, message: &str, detail: &str) {
    Writer::new(to).notice(&pgweir_wire::write::ErrorText {
        severity: "NOTICE",
        sqlstate: "00000",
        message,
        detail,
        hint: "",
    });
}
