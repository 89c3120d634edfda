//! What the clients of a pool have been seen to do with sequences.

/// What the clients of a pool have been seen to do with sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, pgweir_freeze::Freeze)]
pub(crate) enum Sequences {
    /// Nothing that matters.
    #[default]
    Unused,
    /// nextval() or setval() by name: currval() may follow.
    Drawn,
    /// currval() or lastval(): any INSERT may draw what is asked for next.
    Asked,
}

/// What a server remembers of sequences: the values of currval() and lastval().
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Remembered {
    /// What its client has drawn, or nothing.
    OfClient,
    /// What others have drawn, or its client before it drew elsewhere. That ends only with the server's word.
    OfStrangers,
    /// The same; it has been told to forget, and has not confirmed it.
    Forgetting,
}
