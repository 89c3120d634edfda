//! A BEGIN that has not been sent to a server.

use crate::base::time::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct DeferredBegin {
    /// When the client sent it.
    pub(crate) since: Time,
    pub(crate) by: By,
    /// The transaction has failed: a statement in it was cancelled while it waited for a server.
    pub(crate) failed: bool,
    /// The BEGIN is sent because `deferred_begin` has passed, not because the client has sent another message.
    pub(crate) expired: bool,
}

/// How a client sent its BEGIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum By {
    /// As a Query, which leaves no portal behind.
    Query,
    /// By Bind and Execute. Their unnamed portal, which cannot be executed again, exists in the
    /// transaction.
    Portal,
}
