//! Statements that end prepared statements.

/// The prepared statements that a statement ends.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Ends {
    /// DEALLOCATE ALL, DISCARD ALL.
    All,
    /// DEALLOCATE of this name.
    Name(Box<[u8]>),
}

/// Names of portals, each with what its statement ends.
pub(crate) type BoundEnds = Vec<(Box<[u8]>, Ends)>;
