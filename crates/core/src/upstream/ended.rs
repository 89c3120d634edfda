//! What the reply queue says about a request that has ended.

use crate::upstream::entry::{Expect, Ready, To};

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
