//! The unnamed statement of a server.

use crate::statements::prepared::Statement;

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Unnamed {
    /// There is none.
    Nothing,
    /// The statement with this id.
    Statement(u64),
    /// The statement with this id, which was parsed behind a SET that may have changed how it was read: it cannot be
    /// prepared again as it was.
    BehindSet(u64),
    /// The statement with this id, if its parameters have the types that its client was told: the server has been asked.
    Asked(u64),
    /// Something unknown.
    Foreign,
}

impl Unnamed {
    /// The statement that was just parsed.
    pub(crate) fn of(statement: &Statement) -> Unnamed {
        match statement.settings.are_uncertain() {
            true => Unnamed::BehindSet(statement.id),
            false => Unnamed::Statement(statement.id),
        }
    }
}
