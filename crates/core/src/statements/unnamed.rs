//! The unnamed statement of a server.

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Unnamed {
    /// There is none.
    Nothing,
    /// The statement with this id.
    Statement(u64),
    /// Something unknown.
    Foreign,
}
