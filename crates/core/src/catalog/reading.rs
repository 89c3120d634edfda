//! A reading of a database's catalog: what the server has told so far.

use crate::base::time::Time;
use crate::catalog::code::{CatalogRows, Draft};
use crate::catalog::replicas::Position;
use pgweir_wire::{HEADER_BYTES, backend};

/// A reading of the catalog that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Reading {
    /// The version of what is known that it replaces.
    version: u64,
    began: Time,
    /// How far the server was before that; unknown until it has told.
    position: Position,
    draft: Draft,
    rows: u64,
    /// Why it failed; the first reason is kept.
    failed: Option<Failure>,
}

/// What a reading has told, when it has ended without an error.
pub(crate) struct Told {
    /// How far the server was.
    pub(crate) position: Position,
    pub(crate) draft: Draft,
    /// The number of rows.
    pub(crate) rows: u64,
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

/// SQLSTATEs, or classes of them, after which another try cannot succeed soon: no privilege, no such table or function,
/// a server that is not PostgreSQL.
const HOPELESS: [&str; 2] = ["42", "0A"];

impl Failure {
    /// Whether another try cannot succeed soon.
    pub(super) fn is_hopeless(&self) -> bool {
        match self {
            Failure::Refused { sqlstate, .. } => HOPELESS.iter().any(|class| sqlstate.starts_with(class)),
            Failure::NotUnderstood | Failure::ServerLost => false,
        }
    }
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
    pub(crate) fn new(now: Time, version: u64) -> Reading {
        Reading {
            version,
            began: now,
            position: Position::UNKNOWN,
            draft: Draft::default(),
            rows: 0,
            failed: None,
        }
    }

    /// The version of what is known that it replaces, and when it began.
    pub(crate) fn of(&self) -> (u64, Time) {
        (self.version, self.began)
    }

    /// Its end.
    pub(crate) fn end(self) -> Result<Told, Failure> {
        match self.failed {
            None => Ok(Told {
                position: self.position,
                draft: self.draft,
                rows: self.rows,
            }),
            Some(failure) => Err(failure),
        }
    }

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
