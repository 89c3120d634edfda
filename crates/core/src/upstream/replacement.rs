//! Errors that a client gets in place of those of the server.

/// An error that does not go to the client unchanged, and what the client gets instead.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Replacement {
    pub(super) sqlstate: [u8; 5],
    /// 25P02 is replaced, too: what fails the transaction is the error that the client gets.
    pub(super) or_failed: bool,
    pub(super) instead: Instead,
    /// The names of statements that could not be prepared for a Query, with the error of each.
    pub(super) unprepared: Vec<(Box<[u8]>, Vec<u8>)>,
}

impl Replacement {
    /// What the client gets instead of an error with this SQLSTATE, if it is the error that is replaced.
    pub(crate) fn instead_of(&self, sqlstate: &[u8]) -> Option<&Instead> {
        (sqlstate == self.sqlstate || self.or_failed && sqlstate == b"25P02").then_some(&self.instead)
    }

    /// The error of the statement that this error says is missing. `None`: another statement is missing.
    pub(crate) fn error_of_missing(&self, message: &[u8]) -> Option<&[u8]> {
        let named = self.unprepared.iter().find(|(name, _)| mentions(message, name));
        named.map(|(_, error)| &**error)
    }

    /// Whether the replaced error may be about a statement that could be prepared.
    pub(crate) fn depends_on_name(&self, sqlstate: &[u8]) -> bool {
        sqlstate == self.sqlstate && !self.unprepared.is_empty()
    }
}

/// Whether a message names this statement, with any quotes.
fn mentions(message: &[u8], name: &[u8]) -> bool {
    let is_of_name = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let ends = message
        .windows(name.len().max(1))
        .enumerate()
        .filter(|(_, w)| *w == name);
    let mut found = ends.map(|(at, _)| {
        (
            at.checked_sub(1).and_then(|at| message.get(at)),
            message.get(at + name.len()),
        )
    });
    found.any(|(before, behind)| !is_of_name(before) && !is_of_name(behind))
}

/// What a client gets instead of an error that names something internal.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Instead {
    /// These bytes.
    Error(Vec<u8>),
    /// The error, with `theirs`, the client's name of the statement, instead of the name on the server.
    Named { ours: Box<[u8]>, theirs: Box<[u8]> },
}
