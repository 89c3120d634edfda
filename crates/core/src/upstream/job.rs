//! What the pooler asks a server for itself.

/// What a request of the pooler's own is for, and what the rows of its answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Job {
    /// Its reply does not matter, not even an error: see [`crate::server_side::ServerSide::query_for_nothing`].
    Nothing,
    /// It belongs to a restoration, whose Sync tells how it ended: see [`crate::session::restoration`].
    Restore,
    /// What became of a session: see [`crate::session::probe`].
    Probe(ProbeRows),
    /// What a database's catalog holds: see [`crate::session::catalog_reading`].
    ReadCatalog(CatalogRows),
    /// The channels that a session listens to, or a step of their move: see [`crate::listening::handover`].
    MoveChannels(ChannelRows),
    /// Whether a statement's plan is still valid: see [`crate::preparing::replanning`].
    CheckPlan,
}

impl Job {
    /// The same job, for a request whose rows do not matter.
    pub(crate) fn without_rows(self) -> Job {
        match self {
            Job::Probe(_) => Job::Probe(ProbeRows::Ignored),
            Job::ReadCatalog(_) => Job::ReadCatalog(CatalogRows::Ignored),
            Job::MoveChannels(_) => Job::MoveChannels(ChannelRows::Ignored),
            Job::Nothing | Job::Restore | Job::CheckPlan => self,
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

/// What the rows say that answer a request of a catalog reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum CatalogRows {
    /// The request has no rows, or they do not matter.
    Ignored,
    /// An object of the catalog.
    Object,
    /// The source of a routine.
    Source,
}

/// What the rows say that answer a request about channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum ChannelRows {
    /// The request has no rows.
    Ignored,
    /// A channel that the session listens to.
    Channel,
}
