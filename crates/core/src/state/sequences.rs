//! What the clients of a pool have been seen to do with sequences.

/// What the clients of a pool have been seen to do with sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Sequences {
    /// Nothing that matters.
    #[default]
    Unused,
    /// nextval() or setval() by name: currval() may follow.
    Drawn,
    /// currval() or lastval(): any INSERT may draw what is asked for next.
    Asked,
}
