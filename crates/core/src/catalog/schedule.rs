//! When the catalogs of databases are read.

use crate::base::ids::{ClientId, ServerId};
use crate::base::request::Endpoint;
use crate::base::time::Time;
use crate::catalog::code::{Catalog, CatalogRows, Draft};
use crate::catalog::debt::Debt;
use crate::catalog::replicas::{Awaited, Position};
use foldhash::fast::RandomState;
use pgweir_wire::{HEADER_BYTES, backend};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The shortest pause between two readings of one catalog: a migration changes functions one by one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(250);

/// A pause is this many times as long as the reading before it, up to [`AGE_MAX`](crate::session::catalogs).
pub(crate) const PAUSE_TIMES: u32 = 20;

/// The catalogs of all databases that clients have used.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalogs {
    pub(crate) by_database: HashMap<Arc<str>, State, RandomState>,
    /// Whether statements of any pool must be searched for names. One test for all pools costs less.
    pub(crate) any_known: bool,
    /// Whether a reading is due in any pool.
    pub(crate) any_due: bool,
    /// A database whose pools do not know yet that a reading is due.
    pub(crate) untold: Option<Arc<str>>,
    /// Transactions with definitions may have been prepared (PREPARE TRANSACTION), and any client may commit them.
    /// COMMIT PREPARED counts as an effect, so only texts with effects need be searched for it.
    pub(crate) any_prepared: bool,
    /// Servers to which a request was sent that may commit definitions, and whose pools do not know it yet.
    pub(crate) published: Vec<ServerId>,
    /// Whether definitions must wait in some database.
    pub(crate) any_debt: bool,
    /// Clients whose definitions wait.
    pub(crate) definers: Vec<ClientId>,
}

/// What is known of one database.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct State {
    /// The catalog as it was last read.
    pub(crate) read: Arc<Catalog>,
    /// Whether `read` is up to date. If not, every statement counts as code that is not read.
    pub(crate) holds: bool,
    /// The number of changes that may have made the catalog outdated.
    pub(crate) version: u64,
    /// The server that is reading it.
    pub(crate) reader: Option<ServerId>,
    /// When the latest reading ended, with or without success.
    pub(crate) tried_at: Option<Time>,
    /// The pause after the latest reading. It does not apply if the catalog is only old.
    pub(crate) pause: Duration,
    /// When the next reading is due.
    pub(crate) due: Option<Time>,
    /// Since when waiting clients have delayed the reading.
    pub(crate) put_off: Option<Time>,
    /// Number of failed readings in a row.
    pub(crate) failures: u32,
    /// The log already says that the catalog is too large.
    pub(crate) told_too_much: bool,
    /// What a standby must have replayed before its catalog counts.
    pub(crate) awaited: Awaited,
    /// The server that was read last is a standby.
    pub(crate) of_standby: bool,
    /// Hosts that have been read since the last change.
    pub(crate) hosts_read: Vec<Endpoint>,
    /// What definitions have cost other clients.
    pub(crate) debt: Debt,
}

impl Default for State {
    fn default() -> Self {
        State {
            read: Arc::default(),
            holds: false,
            version: 0,
            reader: None,
            tried_at: None,
            pause: PAUSE_MIN,
            due: None,
            put_off: None,
            failures: 0,
            told_too_much: false,
            awaited: Awaited::Nothing,
            of_standby: false,
            hosts_read: Vec::new(),
            debt: Debt::default(),
        }
    }
}

/// A reading of the catalog that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Reading {
    pub(crate) version: u64,
    pub(crate) began: Time,
    /// How far the server was before that; unknown until it has told.
    pub(crate) position: Position,
    pub(crate) draft: Draft,
    pub(crate) rows: u64,
    /// Why it failed; the first reason is kept.
    pub(crate) failed: Option<Failure>,
}

/// Why a reading of the catalog has failed.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) enum Failure {
    /// The server has refused one of the reading's statements.
    Refused { sqlstate: Box<str>, message: Box<str> },
    /// A row of the answer was not understood.
    NotUnderstood,
    /// The connection to the server was closed. Perhaps that is a consequence of the reading.
    ServerLost,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Failure::Refused { message, .. } => message,
            Failure::NotUnderstood => "an unexpected row",
            Failure::ServerLost => "the server connection was closed",
        })
    }
}

impl Reading {
    /// The server has refused one of the reading's statements.
    pub(crate) fn is_refused(&mut self, sqlstate: &[u8], message: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into();
        self.fails(Failure::Refused {
            sqlstate: text(sqlstate),
            message: text(message),
        });
    }

    pub(crate) fn fails(&mut self, failure: Failure) {
        self.failed.get_or_insert(failure);
    }
}

impl State {
    /// A reading is due after the pause, which is short while definitions wait.
    pub(crate) fn wants(&mut self, now: Time) {
        let pause = match self.debt.is_high(now) {
            true => PAUSE_MIN,
            false => self.pause,
        };
        let from = self.tried_at.map_or(now, |at| now.max(at + pause));
        self.due = Some(self.due.map_or(from, |due| due.min(from)));
    }

    /// The catalog may be outdated.
    pub(crate) fn doubts(&mut self, now: Time) {
        self.changes();
        self.failures = 0;
        self.wants(now);
    }

    /// The catalog is being changed: a reading now would come too early.
    pub(crate) fn changes(&mut self) {
        self.version += 1;
        self.holds = false;
        self.hosts_read.clear();
    }
}

impl Catalogs {
    /// The last pool of a database has been closed.
    pub(crate) fn forget(&mut self, database: &str) {
        self.by_database.remove(database);
    }
}

impl Reading {
    /// The server tells how far its write-ahead log has got.
    pub(crate) fn position_row(&mut self, message: &[u8]) {
        match Position::read(message) {
            Some(position) => self.position = position,
            None => self.fails(Failure::NotUnderstood),
        }
    }

    /// A complete row of the catalog.
    pub(crate) fn row(&mut self, rows: CatalogRows, message: &[u8]) {
        self.rows += 1;
        let understood = backend::data_row(&message[HEADER_BYTES..]).is_ok_and(|row| self.draft.add_row(rows, &row));
        if !understood {
            self.fails(Failure::NotUnderstood);
        }
    }
}
