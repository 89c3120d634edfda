//! How the clients of a pool use sequences.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, pgweir_freeze::Freeze)]
pub(crate) enum Sequences {
    /// No text has named a sequence function.
    #[default]
    Unused,
    /// A text has called nextval() or setval(): currval() may follow.
    Drawn,
    /// A text has called currval() or lastval(): from now on any INSERT may be followed by such a call.
    Asked,
}

/// Whose values of currval() and lastval() a server remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Remembered {
    /// Values of its present client, or none.
    OfClient,
    /// Values of other clients, or outdated values of its present client, until the server confirms DISCARD SEQUENCES.
    OfStrangers,
    /// As `OfStrangers`; DISCARD SEQUENCES has been sent and not been confirmed.
    Forgetting,
}
