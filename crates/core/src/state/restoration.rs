//! Settings of a client that its server has not confirmed.

use crate::state::shape::Shape;
use std::sync::Arc;

/// A segment of restored settings that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Restoration {
    /// The server's settings when it has confirmed the segment. They follow ParameterStatus
    /// meanwhile.
    target: Arc<Shape>,
    /// Another segment follows the one that is answered next.
    in_two_segments: bool,
    /// The server's refusal: SQLSTATE and message.
    refused: Option<Box<(String, String)>>,
}

impl Restoration {
    pub(super) fn new(target: Arc<Shape>, in_two_segments: bool) -> Self {
        Restoration {
            target,
            in_two_segments,
            refused: None,
        }
    }

    /// A segment has been answered. Returns whether another one follows.
    pub(super) fn takes_first_answer(&mut self) -> bool {
        std::mem::take(&mut self.in_two_segments)
    }

    /// The server's settings when it has confirmed the segment.
    pub(crate) fn target(&self) -> &Arc<Shape> {
        &self.target
    }

    /// The server reports a setting before it has confirmed the segment.
    pub(super) fn aims_at(&mut self, target: Arc<Shape>) {
        self.target = target;
    }

    /// The server has refused a message of the segment. The first refusal counts.
    pub(super) fn refuse(&mut self, sqlstate: &[u8], message: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let refused = || Box::new((text(sqlstate), text(message)));
        self.refused.get_or_insert_with(refused);
    }

    /// The answer is complete. Returns the settings that the segment sets, and the server's refusal: SQLSTATE and
    /// message.
    pub(crate) fn ends(self) -> (Arc<Shape>, Option<(String, String)>) {
        (self.target, self.refused.map(|refused| *refused))
    }
}
