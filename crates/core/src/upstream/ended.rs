//! What the reply queue says about a request that has ended.

use crate::upstream::entry::{Expect, Ready, To};
use std::collections::HashSet;

/// The request that a ReadyForQuery has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(super) expect: Expect,
    pub(super) to: To,
    pub(super) ready: Ready,
}

impl Ended {
    /// The request itself.
    #[inline]
    pub(crate) fn expect(&self) -> Expect {
        self.expect
    }

    /// Who gets the reply.
    #[inline]
    pub(crate) fn to(&self) -> To {
        self.to
    }

    /// What becomes of the ReadyForQuery.
    #[inline]
    pub(crate) fn ready(&self) -> Ready {
        self.ready
    }

    /// Whether the linked client gets the ReadyForQuery, as usual.
    #[inline]
    pub(crate) fn passes(&self) -> bool {
        self.to == To::Forward && self.ready == Ready::Passes
    }
}

/// What requests gain behind one that has ended all statements: see [`ReplyQueue::all_ended_in_front`].
///
/// [`ReplyQueue::all_ended_in_front`]: crate::upstream::reply_queue::ReplyQueue::all_ended_in_front
#[derive(Debug, Default)]
pub(crate) struct GainedLater {
    pub(super) statements: HashSet<u64>,
    pub(super) names: HashSet<Box<[u8]>>,
}

impl GainedLater {
    /// The statements that the server gains.
    pub(crate) fn statements(&self) -> &HashSet<u64> {
        &self.statements
    }

    /// The names that the client gains.
    pub(crate) fn names(&self) -> &HashSet<Box<[u8]>> {
        &self.names
    }
}
