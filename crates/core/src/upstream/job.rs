//! What the pooler asks a server for itself.

/// What a request of the pooler's own is for, and what the rows of its answer say. It fits a byte: each entry of a reply
/// queue has room for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Job {
    /// Its reply does not matter, not even an error: see [`crate::server_side::ServerSide::query_for_nothing`].
    Nothing,
    /// It belongs to a restoration, whose Sync tells how it ended: see [`crate::session::restoration`].
    Restore,
    /// What became of a session: see [`crate::session::probe`].
    Probe(ProbeRows),
    /// A part of a reading of the catalog without rows: see [`crate::session::catalog_reading`].
    ReadCatalog,
    /// How far the server's write-ahead log has got.
    ReadPosition,
    /// The objects of the catalog.
    ReadObjects,
    /// The sources of the routines.
    ReadSources,
    /// A step of a move of channels: see [`crate::listening::handover`].
    MoveChannels,
    /// The channels that a session listens to.
    ListChannels,
    /// Whether a statement's plan is still valid: see [`crate::preparing::replanning`].
    CheckPlan,
    /// Whether the client may make a call that the pooler carries out: see `flow/signals.rs`.
    AskRight,
}

impl Job {
    /// The same job, for a request whose rows do not matter.
    pub(crate) fn without_rows(self) -> Job {
        match self {
            Job::Probe(_) => Job::Probe(ProbeRows::Ignored),
            Job::ReadPosition | Job::ReadObjects | Job::ReadSources => Job::ReadCatalog,
            Job::ListChannels => Job::MoveChannels,
            Job::Nothing | Job::Restore | Job::ReadCatalog | Job::MoveChannels | Job::CheckPlan | Job::AskRight => self,
        }
    }
}

/// What the rows say that answer a request of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum ProbeRows {
    /// The request has no rows, or they do not matter.
    Ignored,
    /// The name and the earlier value of a time limit that the probe lifts for itself, or of client_encoding.
    LiftedLimit,
    /// The reasons for pins, and whether the session has a schema for temporary objects.
    Pins,
    /// The name and the value of a setting.
    Setting,
    /// One value.
    Value,
    /// The last row: whether the session has a schema for temporary objects.
    TemporarySchema,
}

const _: () = assert!(size_of::<Job>() == 1);
