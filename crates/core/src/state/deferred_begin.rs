//! A BEGIN that has not been sent to a server.

use crate::base::time::Time;
use pgweir_wire::{FrontendTag, Header};

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct DeferredBegin {
    /// When the client sent it.
    since: Time,
    by: By,
    stage: Stage,
}

/// What has become of a BEGIN that no server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Stage {
    /// It waits for the client's next message, or goes to a server because of that message.
    Deferred,
    /// It is sent because `deferred_begin` has passed, not because the client has sent another message.
    Expired,
    /// The transaction has failed: a statement in it was cancelled while it waited for a server, or the server has
    /// refused the BEGIN.
    Failed,
}

impl DeferredBegin {
    pub(crate) fn new(since: Time, by: By) -> Self {
        DeferredBegin {
            since,
            by,
            stage: Stage::Deferred,
        }
    }

    /// The server has refused the BEGIN. The client, which believes that it is in a transaction, is told that the
    /// transaction has failed.
    pub(crate) fn of_failed(since: Time) -> Self {
        DeferredBegin {
            stage: Stage::Failed,
            ..DeferredBegin::new(since, By::Query)
        }
    }

    /// A statement of the transaction was cancelled.
    pub(super) fn fails(&mut self) {
        self.stage = Stage::Failed;
    }

    /// The deferral is over.
    pub(super) fn expires(&mut self) {
        if self.stage == Stage::Deferred {
            self.stage = Stage::Expired;
        }
    }

    /// The client has sent these bytes.
    pub(super) fn may_have_company(&mut self, bytes: &[u8]) {
        if self.stage == Stage::Expired && has_request(bytes) {
            self.stage = Stage::Deferred;
        }
    }

    /// When the client sent it.
    pub(crate) fn since(self) -> Time {
        self.since
    }

    /// How the client sent it.
    pub(crate) fn by(self) -> By {
        self.by
    }

    /// Whether the transaction has failed.
    pub(crate) fn has_failed(self) -> bool {
        self.stage == Stage::Failed
    }

    /// Whether the BEGIN is sent because `deferred_begin` has passed.
    pub(crate) fn has_expired(self) -> bool {
        self.stage == Stage::Expired
    }
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

/// Whether a message in these bytes asks for something. PostgreSQL ignores copy messages outside of a copy and has
/// nothing to flush, and no cancel can hit its answer to a Sync.
fn has_request(mut bytes: &[u8]) -> bool {
    while let Some(tag) = bytes.first().map(|&byte| FrontendTag::from_byte(byte)) {
        if !tag.is_some_and(|tag| tag.asks_nothing() || tag == FrontendTag::Sync) {
            return true;
        }
        bytes = match Header::read_of_client(bytes) {
            Ok(Some(header)) => bytes.get(header.message_bytes as usize..).unwrap_or_default(),
            Ok(None) => return false,
            Err(_) => return true,
        };
    }
    false
}
