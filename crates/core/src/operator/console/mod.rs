//! The admin console: database `pgbouncer`.
//!
//! It speaks the simple and the extended protocol, so that any driver can read it; it has no transactions, but BEGIN and
//! its kin are acknowledged. A command that waits ([`Waits`]) leaves the client busy: nothing of it is read until the
//! answer is there.

mod actions;
mod columns;
mod extended;
mod grammar;
pub(crate) mod refusal;
mod rows;
mod show;
mod show_config;
mod show_lists;
mod show_pins;
mod show_pools;
mod show_sockets;
mod show_stats;
mod waiting;

pub(crate) use waiting::Waits;

use crate::base::access::Access;
use crate::base::errors::Trouble;
use crate::base::ids::ClientId;
use crate::base::request::{LogLevel, Request};
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::login::welcome::Welcome;
use crate::pooler::Pooler;
use actions::Done;
use foldhash::fast::RandomState;
use grammar::Command;
use pgweir_wire::{FrontendTag, HEADER_BYTES, Header, ReadError, Reader, TransactionStatus, Writer};
use refusal::Refusal;
use rows::Formats;
use std::collections::HashMap;

/// The longest message the console reads, bytes.
const MESSAGE_BYTES_MAX: u32 = 64 * 1024;

/// The version SHOW VERSION and server_version tell.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client on the console.
#[derive(Debug)]
pub(crate) struct ConsoleState {
    user: String,
    access: Access,
    application_name: String,
    /// BEGIN came, and neither COMMIT nor ROLLBACK yet; only ReadyForQuery tells.
    in_transaction: bool,
    /// What it waits for; nothing is read from it meanwhile.
    waits: Option<Waits>,
    /// The command it waits for came by Execute: its ReadyForQuery comes with Sync.
    extended: bool,
    /// An error has answered everything up to the next Sync.
    ignoring_to_sync: bool,
    statements: HashMap<Box<[u8]>, Command, RandomState>,
    portals: HashMap<Box<[u8]>, extended::Portal, RandomState>,
}

impl ConsoleState {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// It waits for the outcome of a command; nothing is read from it meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.waits.is_some()
    }

    fn status(&self) -> TransactionStatus {
        if self.in_transaction {
            TransactionStatus::InTransaction
        } else {
            TransactionStatus::Idle
        }
    }
}

/// The parameters the console reports at login: what drivers must know to talk to it.
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
        client.phase = ClientPhase::Console(Box::new(ConsoleState {
            user: user.into(),
            access,
            application_name,
            in_transaction: false,
            waits: None,
            extended: false,
            ignoring_to_sync: false,
            statements: HashMap::default(),
            portals: HashMap::default(),
        }));
        self.arrivals.has_arrived();
        self.give_process_id(id);
        let key = self.cancel_key_of(id, self.clients.get(id.0).map_or(4, |c| c.cancel_key_bytes));
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

    /// What a console client waits for.
    pub(crate) fn console_waits(&self, id: ClientId) -> Option<&Waits> {
        match &self.clients.get(id.0)?.phase {
            ClientPhase::Console(console) => console.waits.as_ref(),
            _ => None,
        }
    }

    fn console(&mut self, id: ClientId) -> Option<&mut ConsoleState> {
        match &mut self.clients.get_mut(id.0)?.phase {
            ClientPhase::Console(console) => Some(console),
            _ => None,
        }
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
            let bad = |message: String| (Trouble::ProtocolViolation, message);
            let message = match Header::read(&input[at..]) {
                Ok(None) => return at,
                Err(error) => Err(bad(error.to_string())),
                Ok(Some(header)) if header.message_bytes > MESSAGE_BYTES_MAX => Err(bad(format!(
                    "message is too long for the console: expected at most {MESSAGE_BYTES_MAX} bytes, got {}",
                    header.message_bytes
                ))),
                Ok(Some(header)) => match FrontendTag::from_byte(header.tag) {
                    Some(tag) => Ok((tag, header.message_bytes as usize)),
                    None => Err(bad(format!("invalid frontend message type {}", header.tag))),
                },
            };
            let (tag, bytes) = match message {
                Ok(message) => message,
                Err((trouble, message)) => {
                    self.fail_client(now, id, trouble, &message, "", "");
                    return input.len();
                }
            };
            if at + bytes > input.len() {
                return at;
            }
            let body = &input[at + HEADER_BYTES..at + bytes];
            at += bytes;
            self.console_message(now, id, tag, body);
        }
        at
    }

    fn console_message(&mut self, now: Time, id: ClientId, tag: FrontendTag, body: &[u8]) {
        let Some(console) = self.console(id) else { return };
        if console.ignoring_to_sync && !matches!(tag, FrontendTag::Sync | FrontendTag::Terminate) {
            return;
        }
        match tag {
            FrontendTag::Terminate => self.close_client(now, id, "client close request"),
            FrontendTag::Query => self.console_query(now, id, body),
            FrontendTag::Sync => {
                console.ignoring_to_sync = false;
                if !console.in_transaction {
                    console.portals.clear();
                }
                self.console_ready(id);
            }
            // Nothing is held back here.
            FrontendTag::Flush => {}
            // Outside a copy these are ignored, as PostgreSQL does.
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
        let console = self.console(id).expect("the caller looked it up");
        console.extended = false;
        // A Query ends the unnamed statement and its portal.
        console.statements.remove(&b""[..]);
        console.portals.remove(&b""[..]);
        let command = query_text(body).and_then(|text| Command::parse(&text));
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

    /// What becomes of a command that has been taken.
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
                    console.waits = Some(waits);
                }
                self.admin.waiters.push(id);
                self.pause_progress(now);
            }
        }
    }

    /// CommandComplete, and what follows it.
    fn console_completes(&mut self, id: ClientId, tag: &str) {
        self.send(id, |w| w.command_complete(tag));
        self.console_ready_unless_extended(id);
    }

    fn console_ready_unless_extended(&mut self, id: ClientId) {
        if self.console(id).is_some_and(|c| !c.extended) {
            self.console_ready(id);
        }
    }

    fn console_ready(&mut self, id: ClientId) {
        let Some(console) = self.console(id) else { return };
        let status = console.status();
        self.send(id, |w| w.ready_for_query(status));
    }

    /// Tells a console client that it does not get what it asked for.
    fn console_refuses(&mut self, id: ClientId, refusal: &Refusal) {
        if self.shared.settings.log_pooler_errors
            && let Some(client) = self.clients.get(id.0)
        {
            let text = format!("{} pooler error: {}", self.client_label(id, client), refusal.message);
            self.log(LogLevel::Warning, text);
        }
        self.send(id, |w| w.error(&refusal.text()));
    }

    /// A CancelRequest for a client of the console. Its wait ends; what it ordered stands.
    pub(crate) fn cancel_console(&mut self, id: ClientId) {
        if let Some(waits) = self.console_waits(id) {
            let refusal = Refusal::given_up(waits.verb(), "a cancel request");
            self.answer_console(id, Err(&refusal));
        }
    }

    /// The command a console client waits for has come to its end.
    pub(crate) fn console_answered(&mut self, id: ClientId, outcome: Result<&str, &Refusal>) {
        let Some(console) = self.console(id) else { return };
        console.waits = None;
        match outcome {
            Ok(tag) => self.console_completes(id, tag),
            Err(refusal) => {
                self.console_refuses(id, refusal);
                match self.console(id) {
                    Some(console) if console.extended => console.ignoring_to_sync = true,
                    _ => self.console_ready(id),
                }
            }
        }
        self.shared.requests.push_back(Request::Resume(id.into()));
    }
}

/// The text of a Query.
fn query_text(body: &[u8]) -> Result<String, Refusal> {
    let mut reader = Reader::new(body);
    let read = |reader: &mut Reader<'_>| -> Result<Vec<u8>, ReadError> {
        let text = reader.cstr()?.to_vec();
        reader.end()?;
        Ok(text)
    };
    let text = read(&mut reader).map_err(|error| Refusal::protocol(error.to_string()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
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
