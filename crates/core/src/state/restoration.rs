//! Settings of a client that its server has not confirmed.

use crate::state::shape::Shape;
use std::sync::Arc;

/// One or two segments of restored settings that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Restoration {
    /// The server's settings when it has confirmed the segment. They follow ParameterStatus
    /// meanwhile.
    target: Arc<Shape>,
    in_two_segments: bool,
    /// Of two segments the first has been answered.
    first_is_answered: bool,
    /// The server's refusal: SQLSTATE and message.
    refused: Option<Box<(String, String)>>,
}

impl Restoration {
    pub(super) fn new(target: Arc<Shape>, in_two_segments: bool) -> Self {
        Restoration {
            target,
            in_two_segments,
            first_is_answered: false,
            refused: None,
        }
    }

    /// A segment has been answered. Returns whether another one follows.
    pub(super) fn takes_first_answer(&mut self) -> bool {
        self.in_two_segments && !std::mem::replace(&mut self.first_is_answered, true)
    }

    /// Whether an error undoes all of the settings: the server has made one transaction of them.
    pub(crate) fn is_one_transaction(&self) -> bool {
        !self.in_two_segments
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
