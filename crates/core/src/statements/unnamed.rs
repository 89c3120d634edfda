//! What a server's unnamed statement is.

/// What a server's unnamed statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Unnamed {
    /// There is none.
    Nothing,
    /// The statement with this id.
    Statement(u64),
    /// Something unknown.
    Foreign,
}
