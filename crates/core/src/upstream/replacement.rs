//! Errors that a client gets in place of those of the server.

/// An error that does not go to the client unchanged, and what the client gets instead.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct Replacement {
    pub(super) sqlstate: [u8; 5],
    /// 25P02 is replaced, too: what fails the transaction is the error that the client gets.
    pub(super) or_failed: bool,
    pub(super) instead: Instead,
    /// The names of statements that could not be prepared for a Query, and what the client gets instead if that one is
    /// missing.
    pub(super) unprepared: Vec<(Box<[u8]>, Instead)>,
}

impl Replacement {
    /// What the client gets instead of an error with this SQLSTATE and message, if it is the error that is replaced.
    pub(crate) fn instead_of(&self, sqlstate: &[u8], message: &[u8]) -> Option<&Instead> {
        if sqlstate == self.sqlstate && !self.unprepared.is_empty() {
            // If another statement is missing, the client gets the server's error.
            let missing = self.unprepared.iter().find(|(name, _)| mentions(message, name));
            return missing.map(|(_, instead)| instead);
        }
        (sqlstate == self.sqlstate || self.or_failed && sqlstate == b"25P02").then_some(&self.instead)
    }
}

/// Whether a message names this statement, with any quotes.
fn mentions(message: &[u8], name: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = |at: usize| {
        let behind = message[at..].strip_prefix(name);
        behind.is_some_and(|behind| !behind.first().is_some_and(is_of_name))
            && !message[..at].last().is_some_and(is_of_name)
    };
    !name.is_empty() && (0..message.len()).any(is_name)
}

/// What a client gets instead of an error that names something internal.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Instead {
    /// These bytes.
    Error(Vec<u8>),
    /// The error, with `theirs`, the client's name of the statement, instead of the name on the server.
    Named { ours: Box<[u8]>, theirs: Box<[u8]> },
}
