//! The unnamed statement of a server.

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Unnamed {
    /// There is none.
    Nothing,
    /// The statement with this id.
    Statement(u64),
    /// The statement with this id, if its parameters have the types that its client was told: the server has been asked.
    Asked(u64),
    /// Something unknown.
    Foreign,
}
