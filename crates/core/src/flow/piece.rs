//! The place of a server's message in the bytes that have come, and what becomes of it.

use crate::base::reasons::Passed;

/// The place of a message in the input, as far as it has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// Bytes of the message that are still to come.
    pub(crate) left: u32,
}

impl Piece {
    #[inline]
    pub(crate) fn whole(at: usize, bytes: usize) -> Self {
        let end = at + bytes;
        Piece { at, end, left: 0 }
    }

    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.left == 0
    }
}

impl Passed {
    /// A message that concerns no client. `is_done`: nothing more is owed.
    pub(crate) fn skip_and_release_if(is_done: bool) -> Passed {
        match is_done {
            true => Passed::SkipAndRelease,
            false => Passed::Skip,
        }
    }
}
