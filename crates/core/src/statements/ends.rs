//! What ends prepared statements.

/// Which prepared statements something ends.
#[derive(Debug, Clone, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Ends {
    /// DEALLOCATE ALL, DISCARD ALL.
    All,
    /// DEALLOCATE of this name.
    Name(Box<[u8]>),
}

/// Portals by their names, and what they end.
pub(crate) type BoundEnds = Vec<(Box<[u8]>, Ends)>;
