//! One server process.

use super::analyse::Catalog;
use super::audit::Ran;
use super::catalog_locks::{CatalogLocks, Wait};
use super::copy::CopyIn;
use super::cursor::Cursor;
use super::defaults::RoleDefault;
use super::error::ServerError;
use super::execute::Plan;
use super::objects::{HeldCursor, Locks};
use super::output::Output;
use super::pace::Pace;
use super::settings::{INVALID_NAME, Settings};
use super::simple::SimpleRun;
use super::statement::{Prepared, Statement};
use super::transaction::{Block, Level, Shared, Transaction, Writes};
use pgweir_wire::frontend::FrontendTag;
use pgweir_wire::{CancelKey, HEADER_BYTES, Header, TransactionStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The version of PostgreSQL that is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// PostgreSQL 15.
    V15,
    /// PostgreSQL 18.
    V18,
}

impl Version {
    /// Major version number.
    pub fn major(self) -> u32 {
        match self {
            Version::V15 => 15,
            Version::V18 => 18,
        }
    }

    /// Whether the messages after a completed Execute belong to an implicit transaction block, which only Sync ends. In
    /// PostgreSQL 15 a Query commits what was executed before it without a Sync.
    fn pipelines_are_blocks(self) -> bool {
        self.major() >= 18
    }

    /// The value of `server_version`.
    pub fn text(self) -> &'static str {
        match self {
            Version::V15 => "15.18",
            Version::V18 => "18.4",
        }
    }
}

/// The server end of one connection.
///
/// Give it bytes with [`Session::receive`], then take what it sent with [`Session::take_sent`]. While it is busy
/// ([`Session::busy_until`]) it keeps its input; call [`Session::advance`] when that time has come.
#[derive(Debug)]
pub struct Session {
    pub(super) version: Version,
    pub(super) key: CancelKey,
    input: Vec<u8>,
    pub(super) pace: Pace,
    /// It pauses before the first message of its input until this time.
    pausing: Option<u64>,
    /// The error with which the message fails after the pause.
    pause_ends_with: Option<ServerError>,
    /// It has already paused before that message.
    has_paused: bool,
    pub(super) catalog_locks: Option<CatalogLocks>,
    pub(super) out: Output,
    pub(super) phase: Phase,
    /// An extended message has failed: everything up to Sync is ignored.
    pub(super) skip_to_sync: bool,
    /// The default settings of its user and database.
    pub(super) defaults: Rc<[RoleDefault]>,
    pub(super) settings: Settings,
    pub(super) transaction: Transaction,
    pub(super) unnamed: Option<Rc<Prepared>>,
    pub(super) statements: BTreeMap<Vec<u8>, Rc<Prepared>>,
    pub(super) portals: BTreeMap<Vec<u8>, Portal>,
    /// Cursors declared WITH HOLD.
    pub(super) cursors: BTreeMap<String, HeldCursor>,
    pub(super) locks: Locks,
    /// The channels that it listens to.
    pub(super) channels: BTreeSet<String>,
    /// How many of the database's notifications it has read, while it listens.
    pub(super) heard: usize,
    pub(super) met_undefined: bool,
    /// Statements that have begun to run since they were last asked for.
    pub(super) ran: Vec<Ran>,
    pub(super) user: String,
    pub(super) database: String,
}

#[derive(Debug)]
pub(super) enum Phase {
    Startup,
    Ready,
    CopyIn(CopyIn, Caller),
    /// pg_sleep until this time.
    Sleeping(u64, Caller),
    Closed,
}

/// What goes on when an interrupted statement ends.
#[derive(Debug)]
pub(super) enum Caller {
    Simple(SimpleRun),
    Execute { portal: Vec<u8>, rows_max: u64 },
}

/// Whether a portal can run, and if not, with which error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortalState {
    Ready,
    /// It has run and returns no rows, or has failed: 55000.
    Spent,
    /// Its transaction failed and its plan was released: 25P02.
    Released,
    /// Left by a Query that failed: PostgreSQL reads freed memory when it is executed.
    Dangling,
}

#[derive(Debug)]
pub(super) struct Portal {
    pub(super) prepared: Rc<Prepared>,
    pub(super) plan: Plan,
    /// The columns that are sent in binary.
    pub(super) binary: Vec<bool>,
    /// Level of the transaction it belongs to.
    pub(super) level_id: u32,
    pub(super) state: PortalState,
    /// It has not ended: a ROLLBACK of a failed transaction warns of it.
    pub(super) needs_cleanup: bool,
}

impl Portal {
    /// A portal that cannot run, because the statement failed before or after it was known to the portal.
    pub(super) fn unusable(prepared: Option<Rc<Prepared>>, level_id: u32, state: PortalState) -> Portal {
        let empty = || Prepared {
            statement: None,
            params: Vec::new(),
            columns: None,
            from_sql: false,
            is_of_pooler: false,
        };
        Portal {
            prepared: prepared.unwrap_or_else(|| Rc::new(empty())),
            plan: Plan::Empty,
            binary: Vec::new(),
            level_id,
            state,
            needs_cleanup: true,
        }
    }

    pub(super) fn cursor(&mut self) -> Option<&mut Cursor> {
        match &mut self.plan {
            Plan::Cursor(cursor) => Some(cursor),
            _ => None,
        }
    }
}

impl Session {
    /// A process that has just accepted a connection.
    pub fn new(version: Version, key: CancelKey) -> Self {
        Session {
            version,
            key,
            input: Vec::new(),
            pace: Pace::AtOnce,
            pausing: None,
            pause_ends_with: None,
            has_paused: false,
            catalog_locks: None,
            out: Output::default(),
            phase: Phase::Startup,
            skip_to_sync: false,
            defaults: Rc::default(),
            settings: Settings::new(version),
            transaction: Transaction::new(),
            unnamed: None,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            cursors: BTreeMap::new(),
            locks: Locks::default(),
            channels: BTreeSet::new(),
            heard: 0,
            met_undefined: false,
            ran: Vec::new(),
            user: String::new(),
            database: String::new(),
        }
    }

    /// The same, at another pace.
    pub fn at_pace(self, pace: Pace) -> Self {
        Session { pace, ..self }
    }

    /// The same, with these default settings.
    pub fn with_defaults(self, defaults: Rc<[RoleDefault]>) -> Self {
        Session { defaults, ..self }
    }

    /// The same, with other sessions that lock catalogs now and then.
    pub fn with_catalog_locks(self, locks: Option<CatalogLocks>) -> Self {
        Session {
            catalog_locks: locks,
            ..self
        }
    }

    /// Its database and user, empty before login.
    pub fn owner(&self) -> (&str, &str) {
        (&self.database, &self.user)
    }

    /// Whether a request made it do something at which a real server reads freed memory, and may crash or send
    /// anything.
    pub fn met_undefined(&self) -> bool {
        self.met_undefined
    }

    /// Its cancel key.
    pub fn key(&self) -> &CancelKey {
        &self.key
    }

    /// Takes bytes from the client and does everything that is possible at `now_us`.
    pub fn receive(&mut self, shared: &mut Shared, now_us: u64, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        self.input.extend_from_slice(bytes);
        self.work(shared, now_us);
    }

    /// The bytes that were sent since the last call.
    pub fn take_sent(&mut self) -> Vec<u8> {
        self.out.take_sent()
    }

    /// Statements that have begun to run since the last call.
    pub fn take_ran(&mut self) -> Vec<Ran> {
        std::mem::take(&mut self.ran)
    }

    /// The bytes that were written since the last call, including those that wait for a Flush, a Sync or the end of a
    /// statement.
    pub fn take_written(&mut self) -> Vec<u8> {
        self.out.take_written()
    }

    /// Until when a statement keeps it busy, microseconds.
    pub fn busy_until(&self) -> Option<u64> {
        match self.phase {
            Phase::Sleeping(until, _) => Some(until),
            _ => self.pausing,
        }
    }

    /// Whether it has closed the connection. Bytes that it has sent before can still be taken.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether login is over.
    pub fn is_logged_in(&self) -> bool {
        !matches!(self.phase, Phase::Startup | Phase::Closed)
    }

    /// Whether no transaction, no statement and no failed sequence is open: a server must be in this state when it gets
    /// another client.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Ready)
            && self.pausing.is_none()
            && !self.skip_to_sync
            && self.transaction.block == Block::Default
    }

    /// Whether the next command will fail with XX000: in PostgreSQL 18 a Sync that ends an implicit block in which a
    /// Query has run leaves the transaction open.
    pub fn is_out_of_step(&self) -> bool {
        self.transaction.block == Block::Started && !self.transaction.command_started
    }

    /// Input that has not been read: an incomplete message, or the messages after a statement that runs.
    pub fn unread(&self) -> &[u8] {
        &self.input
    }

    /// What the transaction status byte would be now.
    pub fn status(&self) -> TransactionStatus {
        match self.transaction.block {
            Block::Default | Block::Started => TransactionStatus::Idle,
            Block::Implicit | Block::InProgress => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// How many named prepared statements it holds.
    pub fn statements(&self) -> usize {
        self.statements.len()
    }

    /// Its application_name.
    pub fn application_name(&self) -> &str {
        self.settings.application_name()
    }

    /// PL/pgSQL is loaded, as by the first code that runs.
    pub(super) fn load_plpgsql(&mut self) {
        for name in self.settings.reserve_prefix() {
            let message = format!("{INVALID_NAME} \"{name}\", removing it");
            self.out.report(&ServerError::warning("42602", message));
        }
    }

    /// PL/pgSQL is loaded on another server of the client's, so that there are no messages about it here.
    pub fn load_plpgsql_unseen(&mut self) {
        self.settings.reserve_prefix();
    }

    /// A setting's value, or `None` where there is no such setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.get(name).ok()
    }

    /// Goes on if the time until which it was busy has come, and reads notifications while it is idle.
    pub fn advance(&mut self, shared: &mut Shared, now_us: u64) {
        if self.is_idle() && self.has_to_hear(shared) {
            self.tell_notifications(shared);
            self.out.flush();
        }
        if self.busy_until().is_some_and(|until| until <= now_us) {
            if self.pausing.take().is_some() {
                match self.pause_ends_with.take() {
                    Some(e) => self.fail_first_message(shared, e),
                    None => self.has_paused = true,
                }
            }
            if let Phase::Sleeping(..) = self.phase
                && let Phase::Sleeping(_, caller) = std::mem::replace(&mut self.phase, Phase::Ready)
            {
                self.resume(shared, now_us, caller, None);
            }
            self.work(shared, now_us);
        }
    }

    /// A CancelRequest with its key: ends a statement that keeps it busy, and otherwise does nothing.
    pub fn cancel(&mut self, shared: &mut Shared, now_us: u64) {
        if let Phase::Sleeping(..) = self.phase {
            let Phase::Sleeping(_, caller) = std::mem::replace(&mut self.phase, Phase::Ready) else {
                unreachable!("just seen");
            };
            let extended = matches!(caller, Caller::Execute { .. });
            let e = ServerError::error("57014", "canceling statement due to user request");
            self.fail(shared, &e, extended);
            self.work(shared, now_us);
        } else if self.pausing.take().is_some() {
            self.pause_ends_with = None;
            let e = ServerError::error("57014", "canceling statement due to user request");
            self.fail_first_message(shared, e);
            self.work(shared, now_us);
        }
    }

    /// Whether it is busy with an internal query, which a client's cancel must never hit.
    pub fn is_asked(&self) -> bool {
        let Ok(Some(header)) = Header::read(&self.input) else {
            return false;
        };
        let body = self.input.get(HEADER_BYTES..header.message_bytes as usize);
        let name = |nth: usize| {
            body.and_then(|body| body.split(|b| *b == 0).nth(nth))
                .unwrap_or_default()
        };
        let prepared = match header.tag {
            b'B' => self.statements.get(name(1)),
            b'E' => self.portals.get(name(0)).map(|portal| &portal.prepared),
            _ => None,
        };
        let asks = |s: &Statement| matches!(s, Statement::Ties | Statement::Made | Statement::Remains);
        self.pausing.is_some() && prepared.and_then(|p| p.statement.as_ref()).is_some_and(asks)
    }

    /// A cancel ends the message before which it pauses, without any effect of the message.
    fn fail_first_message(&mut self, shared: &mut Shared, ended: ServerError) {
        let Ok(Some(header)) = Header::read(&self.input) else {
            return;
        };
        let unnamed = header.tag == b'P' && self.input.get(HEADER_BYTES) == Some(&0);
        if unnamed || header.tag == b'Q' {
            // PostgreSQL drops it before the first point at which a cancel can interrupt.
            self.unnamed = None;
        }
        self.input.drain(..header.message_bytes as usize);
        let extended = !matches!(header.tag, b'Q' | b'F');
        let e = self.start_command().err().unwrap_or(ended);
        self.fail(shared, &e, extended);
    }

    /// Ends the connection with FATAL, as an administrator's command does.
    pub fn terminate(&mut self) {
        if !self.is_closed() {
            self.fatal(&ServerError::fatal(
                "57P01",
                "terminating connection due to administrator command",
            ));
        }
    }

    /// The client closed its end.
    pub fn client_closed(&mut self) {
        self.abort_all();
        self.pausing = None;
        self.phase = Phase::Closed;
    }

    fn work(&mut self, shared: &mut Shared, now_us: u64) {
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.phase {
                Phase::Closed => {
                    at = input.len();
                    break;
                }
                Phase::Sleeping(..) => break,
                Phase::Ready if self.pausing.is_some() => break,
                Phase::Startup => match self.startup(rest) {
                    Some(consumed) => at += consumed,
                    None => break,
                },
                Phase::Ready | Phase::CopyIn(..) => match Header::read(rest) {
                    Ok(None) => {
                        if let Some(&tag) = rest.first() {
                            self.check_tag(tag);
                        }
                        if !self.is_closed() {
                            break;
                        }
                    }
                    // PostgreSQL logs "invalid message length" and closes without a word to the client, but an unknown
                    // tag is noticed first.
                    Err(e) => {
                        self.check_tag(e.tag);
                        self.client_closed();
                    }
                    Ok(Some(header)) => {
                        self.check_tag(header.tag);
                        let bytes = header.message_bytes as usize;
                        if self.is_closed() {
                            continue;
                        }
                        if rest.len() < bytes {
                            break;
                        }
                        if self.pauses(header.tag, &rest[..bytes], now_us) {
                            break;
                        }
                        at += bytes;
                        self.message(shared, now_us, header.tag, &rest[HEADER_BYTES..bytes]);
                    }
                },
            }
        }
        input.drain(..at);
        self.input = input;
    }

    /// Whether it pauses now, before a message that has come completely.
    fn pauses(&mut self, tag: u8, message: &[u8], now_us: u64) -> bool {
        if std::mem::take(&mut self.has_paused) || self.skip_to_sync || !matches!(self.phase, Phase::Ready) {
            return false;
        }
        let Some(tag) = FrontendTag::from_byte(tag) else {
            return false;
        };
        let pause = match self.wait_for_lock(tag, message, now_us) {
            Some(wait) => Some(wait),
            None => self.pace.pause_us(tag).map(|us| Wait { us, ends_with: None }),
        };
        if let Some(Wait { us, ends_with }) = pause {
            (self.pausing, self.pause_ends_with) = (Some(now_us.saturating_add(us)), ends_with);
        }
        self.pausing.is_some()
    }

    /// Refuses tags that no client sends, before it reads the length.
    fn check_tag(&mut self, tag: u8) {
        if let Phase::CopyIn(..) = self.phase {
            self.check_copy_tag(tag);
        } else if FrontendTag::from_byte(tag).is_none() || tag == FrontendTag::Password as u8 {
            self.fatal(&ServerError::fatal(
                "08P01",
                format!("invalid frontend message type {tag}"),
            ));
        }
    }

    fn message(&mut self, shared: &mut Shared, now_us: u64, tag: u8, body: &[u8]) {
        let Some(tag) = FrontendTag::from_byte(tag) else {
            return;
        };
        if let Phase::CopyIn(..) = self.phase {
            self.copy_in_message(shared, now_us, tag, body);
            return;
        }
        if self.skip_to_sync && tag != FrontendTag::Sync && tag != FrontendTag::Terminate {
            return;
        }
        let (result, extended) = match tag {
            FrontendTag::Query => (self.query(shared, now_us, body), false),
            FrontendTag::FunctionCall => (self.function_call(shared, body), false),
            FrontendTag::Parse => (self.parse(body), true),
            FrontendTag::Bind => (self.bind(shared, body), true),
            FrontendTag::Describe => (self.describe(body), true),
            FrontendTag::Execute => (self.execute(shared, now_us, body), true),
            FrontendTag::Close => (self.close(body), true),
            FrontendTag::Flush if !body.is_empty() => (Err(ServerError::protocol("invalid message format")), true),
            FrontendTag::Flush => {
                self.out.flush();
                (Ok(()), true)
            }
            FrontendTag::Sync if !body.is_empty() => {
                self.skip_to_sync = false;
                (Err(ServerError::protocol("invalid message format")), false)
            }
            FrontendTag::Sync => {
                self.skip_to_sync = false;
                if self.transaction.block == Block::Implicit {
                    self.transaction.block = Block::Started;
                }
                self.finish_command(shared);
                self.ready(shared);
                (Ok(()), false)
            }
            FrontendTag::Terminate => {
                self.client_closed();
                (Ok(()), false)
            }
            // They are left over from a COPY that has failed, and are ignored.
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail => (Ok(()), false),
            FrontendTag::Password => (Ok(()), false),
        };
        if let Err(e) = result {
            self.fail(shared, &e, extended);
        }
    }

    /// Goes on after a sleep or a copy-in. `tag` is the tag of the statement that has ended; none if rows follow.
    pub(super) fn resume(&mut self, shared: &mut Shared, now_us: u64, caller: Caller, tag: Option<String>) {
        let (result, extended) = match caller {
            Caller::Simple(run) => (self.simple_resume(shared, now_us, run, tag), false),
            Caller::Execute { portal, rows_max } => (self.execute_resume(shared, now_us, &portal, rows_max, tag), true),
        };
        if let Err(e) = result {
            self.fail(shared, &e, extended);
        }
    }

    /// The main loop's reaction to an error.
    pub(super) fn fail(&mut self, shared: &Shared, e: &ServerError, extended: bool) {
        if e.severity == "FATAL" {
            self.fatal(e);
            return;
        }
        self.out.report(e);
        self.abort_current();
        if extended {
            self.skip_to_sync = true;
        } else {
            self.ready(shared);
        }
    }

    pub(super) fn fatal(&mut self, e: &ServerError) {
        self.out.report(e);
        self.client_closed();
    }

    /// Sends notifications, changed settings, and then ReadyForQuery.
    pub(super) fn ready(&mut self, shared: &Shared) {
        if self.status() == TransactionStatus::Idle {
            self.tell_notifications(shared);
        }
        self.tell_ready();
    }

    /// Sends changed settings, and then ReadyForQuery.
    pub(super) fn tell_ready(&mut self) {
        for (name, value) in self.settings.changes_to_tell() {
            self.out
                .write(|w| w.parameter_status(name.as_bytes(), value.as_bytes()));
        }
        let status = self.status();
        self.out.write(|w| w.ready_for_query(status));
        self.out.flush();
    }

    /// The meaning of names for the analyser.
    pub(super) fn catalog(&self) -> Catalog<'_> {
        Catalog {
            settings: &self.settings,
            temporary: &self.transaction.temporary,
            statements: &self.statements,
            cursors: &self.cursors,
        }
    }

    /// `start_xact_command`.
    pub(super) fn start_command(&mut self) -> Result<(), ServerError> {
        let first = !std::mem::replace(&mut self.transaction.command_started, true);
        match self.transaction.block {
            // Sync has ended the implicit block, and no command has ended the rest of it.
            Block::Started if first => {
                return Err(ServerError::error(
                    "XX000",
                    "StartTransactionCommand: unexpected state STARTED",
                ));
            }
            Block::Default => {
                self.transaction.block = Block::Started;
                self.transaction.pipelining = false;
                self.transaction.next_level_id = 0;
                self.transaction.push(None, self.settings.snapshot());
            }
            Block::Started if self.transaction.pipelining && self.version.pipelines_are_blocks() => {
                self.transaction.block = Block::Implicit;
            }
            _ => {}
        }
        Ok(())
    }

    /// `finish_xact_command`.
    pub(super) fn finish_command(&mut self, shared: &mut Shared) {
        let started = std::mem::replace(&mut self.transaction.command_started, false);
        if started && self.transaction.block == Block::Started {
            self.commit(shared);
        }
    }

    /// Commits the transaction's writes and ends it.
    pub(super) fn commit(&mut self, shared: &mut Shared) {
        for (key, value) in std::mem::take(&mut self.transaction.writes).iter() {
            match value {
                Some(value) => shared.table.insert(*key, value.clone()),
                None => shared.table.remove(key),
            };
        }
        self.settings.commit();
        self.commit_objects(shared);
        self.end_transaction();
    }

    /// Undoes all of the transaction and ends it.
    pub(super) fn abort_all(&mut self) {
        if let Some(Level {
            settings,
            temporary,
            temporary_schema,
            ..
        }) = self.transaction.levels.first()
        {
            self.settings.restore(settings);
            self.transaction.temporary = temporary.clone();
            self.transaction.temporary_schema = *temporary_schema;
        }
        self.cursors.retain(|_, cursor| cursor.level_id.is_none());
        self.end_transaction();
    }

    fn end_transaction(&mut self) {
        self.transaction.block = Block::Default;
        self.transaction.levels.clear();
        self.transaction.writes = Rc::new(Writes::new());
        self.transaction.announced = Rc::default();
        self.portals.clear();
    }

    /// `AbortCurrentTransaction`: a block becomes a failed one, anything else ends.
    fn abort_current(&mut self) {
        self.transaction.command_started = false;
        match self.transaction.block {
            Block::Default => {}
            Block::Started | Block::Implicit => self.abort_all(),
            Block::InProgress => {
                self.transaction.block = Block::Failed;
                self.undo_innermost();
                let innermost = self.transaction.level_id();
                for portal in self.portals.values_mut().filter(|p| p.level_id >= innermost) {
                    portal.needs_cleanup = false;
                    if portal.state != PortalState::Dangling {
                        portal.state = PortalState::Released;
                    }
                }
            }
            Block::Failed => {}
        }
    }

    /// Settings and rows as they were when the innermost level began.
    pub(super) fn undo_innermost(&mut self) {
        if let Some(level) = self.transaction.levels.last() {
            self.settings.restore(&level.settings);
            self.transaction.writes = level.writes.clone();
            self.transaction.temporary = level.temporary.clone();
            self.transaction.temporary_schema = level.temporary_schema;
            self.transaction.announced = level.announced.clone();
            let innermost = level.id;
            self.cursors
                .retain(|_, cursor| cursor.level_id.is_none_or(|id| id < innermost));
        }
    }
}
