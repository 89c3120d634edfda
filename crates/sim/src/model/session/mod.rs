//! One server process.

mod main_loop;

pub use main_loop::drops_unnamed;

use super::audit::Ran;
use super::catalog_locks::CatalogLocks;
use super::copy::CopyIn;
use super::defaults::RoleDefault;
use super::error::ServerError;
use super::idle_limit::IdleLimit;
use super::left_behind::LeftBehind;
use super::objects::{HeldCursor, Locks};
use super::output::Output;
use super::pace::Pace;
use super::portal::Portal;
use super::settings::{INVALID_NAME, Settings};
use super::simple::SimpleRun;
use super::statement::{Prepared, Statement};
use super::transaction::{Block, Shared, Transaction};
use super::version::Version;
use pgweir_wire::{CancelKey, HEADER_BYTES, Header, TransactionStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

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
    /// It is on a replica, whose code lags behind.
    pub(super) on_replica: bool,
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
    /// Its latest value of the sequence, for currval().
    pub(super) drawn: Option<i64>,
    pub(super) left: LeftBehind,
    pub(super) idle_limit: IdleLimit,
    /// The channels that it listens to.
    pub(super) channels: BTreeSet<String>,
    /// How many of the database's notifications it has read, while it listens.
    pub(super) heard: usize,
    pub(super) met_undefined: bool,
    /// Statements that have begun to run since they were last asked for.
    pub(super) ran: Vec<Ran>,
    /// The token of the statement that has begun last.
    pub(super) running: Option<String>,
    /// Tokens of statements that a cancel has ended, since they were last asked for.
    pub(super) undone: Vec<String>,
    /// Tokens of the statements that have run since the last Sync, outside of a transaction block.
    pub(super) unsynced: Vec<String>,
    /// Tokens of statements that a Sync has committed, since they were last asked for.
    pub(super) synced: Vec<String>,
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
            on_replica: false,
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
            drawn: None,
            left: LeftBehind::default(),
            idle_limit: IdleLimit::default(),
            channels: BTreeSet::new(),
            heard: 0,
            met_undefined: false,
            ran: Vec::new(),
            running: None,
            undone: Vec::new(),
            unsynced: Vec::new(),
            synced: Vec::new(),
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

    /// The same, on a standby.
    pub fn on_standby(mut self) -> Self {
        self.settings.is_on_standby();
        self
    }

    /// The same on a replica, whose code lags behind.
    pub fn on_replica(mut self) -> Self {
        self.on_replica = true;
        self
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

    /// Tokens of statements that a cancel has ended, since the last call.
    pub fn take_undone(&mut self) -> Vec<String> {
        std::mem::take(&mut self.undone)
    }

    /// Tokens of statements that a Sync has committed, since the last call.
    pub fn take_synced(&mut self) -> Vec<String> {
        std::mem::take(&mut self.synced)
    }

    /// What a client has got that another client has decided, since the last call.
    pub fn take_foreign(&mut self) -> Option<String> {
        self.left.take_foreign()
    }

    /// The bytes that were written since the last call, including those that wait for a Flush, a Sync or the end of a
    /// statement.
    pub fn take_written(&mut self) -> Vec<u8> {
        self.out.take_written()
    }

    /// Names of its prepared statements, and whether the pooler has made them for itself.
    pub fn statement_names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.statements
            .iter()
            .filter_map(|(name, prepared)| Some((std::str::from_utf8(name).ok()?, prepared.is_of_pooler)))
    }

    /// Whether the statement of this name begins a transaction block.
    pub fn statement_begins_block(&self, name: &[u8]) -> bool {
        let prepared = self.prepared(name);
        prepared.is_ok_and(|prepared| matches!(prepared.statement, Some(Statement::Begin { .. })))
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
            self.report(&ServerError::warning("42602", message));
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
        self.end_if_idle_too_long(now_us);
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
            self.undone.extend(self.running.take());
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
        let asks = |s: &Statement| matches!(s, Statement::Ties | Statement::Made | Statement::Remains { .. });
        self.pausing.is_some() && prepared.and_then(|p| p.statement.as_ref()).is_some_and(asks)
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
        self.idle_limit.ends();
        self.phase = Phase::Closed;
    }
}
