//! A BEGIN that no server has seen yet.

use crate::base::time::Time;

/// A BEGIN that no server has seen yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct DeferredBegin {
    /// When the client sent it.
    pub(crate) since: Time,
    pub(crate) by: By,
    /// The transaction has failed: a statement in it was cancelled while it waited for a server.
    pub(crate) failed: bool,
    /// It goes to a server because its time is up, and not because the client has asked for anything.
    pub(crate) expired: bool,
}

/// How a client sent its BEGIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum By {
    /// As a Query, which leaves no portal behind.
    Query,
    /// By Bind and Execute: its unnamed portal, which cannot be run again, can be seen in the transaction.
    Portal,
}
