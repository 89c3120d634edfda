//! When the catalogs of databases are read.

use crate::base::ids::ServerId;
use crate::base::time::Time;
use crate::catalog::code::{Catalog, Draft};
use foldhash::fast::RandomState;
use pgweir_wire::{HEADER_BYTES, backend};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The shortest pause between two readings of a database; a migration changes its functions one by one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(250);

/// Pauses are this many times as long as the reading before them, up to [`AGE_MAX`](crate::flow::catalog_reading).
pub(crate) const PAUSE_TIMES: u32 = 20;

/// Catalogs of all databases that clients have used.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Catalogs {
    pub(crate) by_database: HashMap<Arc<str>, State, RandomState>,
    /// Whether some pool's statements must be looked at for names: one look for all that need not be.
    pub(crate) any_known: bool,
    /// Whether some pool's servers are to read.
    pub(crate) any_due: bool,
    /// A database whose pools have not been told yet that it is to be read.
    pub(crate) untold: Option<Arc<str>>,
}

/// What is known of one database.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct State {
    /// As it was last read.
    pub(crate) read: Arc<Catalog>,
    /// Whether `read` is what counts; if not, everything is code.
    pub(crate) holds: bool,
    /// Counts what has made the catalog another.
    pub(crate) version: u64,
    /// The server that reads it.
    pub(crate) reader: Option<ServerId>,
    /// When the last reading ended, well or not.
    pub(crate) tried_at: Option<Time>,
    /// How long to let it be after that, unless what is known is merely old.
    pub(crate) pause: Duration,
    /// When it is to be read again.
    pub(crate) due: Option<Time>,
    /// Since when clients that waited have gone before it.
    pub(crate) put_off: Option<Time>,
    /// Failed readings in a row.
    pub(crate) failures: u32,
    /// The log has been told that it is too large.
    pub(crate) told_too_much: bool,
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
        }
    }
}

/// A server's reading of the catalog that has not been answered to the end.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Reading {
    pub(crate) version: u64,
    pub(crate) began: Time,
    pub(crate) draft: Draft,
    pub(crate) rows: u64,
    /// Why it failed: SQLSTATE, where the server gave one, and message.
    pub(crate) failed: Option<(Box<str>, Box<str>)>,
}

impl Reading {
    /// The server refused one of its statements; the first reason counts.
    pub(crate) fn fails(&mut self, sqlstate: &[u8], message: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into();
        self.failed.get_or_insert_with(|| (text(sqlstate), text(message)));
    }
}

impl State {
    /// It is to be read, as soon as the pause is over.
    pub(crate) fn wants(&mut self, now: Time) {
        let from = self.tried_at.map_or(now, |at| now.max(at + self.pause));
        self.due = Some(self.due.map_or(from, |due| due.min(from)));
    }

    /// What is known may not be so any more.
    pub(crate) fn doubts(&mut self, now: Time) {
        self.version += 1;
        self.holds = false;
        self.failures = 0;
        self.wants(now);
    }
}

impl Catalogs {
    /// The last pool of a database is gone.
    pub(crate) fn forget(&mut self, database: &str) {
        self.by_database.remove(database);
    }
}

impl Reading {
    /// A whole row of the catalog.
    pub(crate) fn row(&mut self, message: &[u8]) {
        self.rows += 1;
        let understood = backend::data_row(&message[HEADER_BYTES..]).is_ok_and(|row| self.draft.add_row(&row));
        if !understood {
            self.fails(b"", b"a row of another shape than expected");
        }
    }
}
