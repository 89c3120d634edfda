//! The request that the server has refused.

use crate::flow::error_text::{Refusal, renamed};
use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::replacement::{Instead, Replacement};

/// The request that was refused: the front of the reply queue, as it was.
pub(super) struct Refused {
    pub(super) expect: Expect,
    pub(super) to: To,
    pub(super) replacement: Option<Replacement>,
    pub(super) uses: u64,
}

impl Refused {
    pub(super) fn of(front: &Entry) -> Self {
        Refused {
            expect: front.expect(),
            to: front.to(),
            replacement: front.replacement().cloned(),
            uses: front.uses(),
        }
    }

    /// The error that the client gets instead.
    pub(super) fn instead_of(&self, error: &Refusal<'_>) -> Option<Vec<u8>> {
        let replacement = self.replacement.as_ref()?;
        match replacement.instead_of(error.fields.sqlstate, error.fields.message)? {
            Instead::Error(reply) => Some(reply.clone()),
            Instead::Named { ours, theirs } => renamed(&error.kept(), ours, theirs),
        }
    }

    /// The request was internal, and no client gets the error.
    pub(super) fn is_skipped(&self) -> bool {
        self.to == To::Skip
    }
}
