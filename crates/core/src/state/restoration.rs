//! Settings of a client that its server has not confirmed.

use crate::state::shape::Shape;
use pgweir_wire::ErrorFields;
use std::sync::Arc;

/// What a server says about settings that it refuses.
#[derive(Debug, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) struct RefusedSettings {
    sqlstate: String,
    message: String,
    detail: String,
    hint: String,
}

impl RefusedSettings {
    fn new(error: &ErrorFields<'_>) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        RefusedSettings {
            sqlstate: text(error.sqlstate),
            message: text(error.message),
            detail: text(error.detail),
            hint: text(error.hint),
        }
    }

    pub(crate) fn sqlstate(&self) -> &str {
        &self.sqlstate
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

/// How settings are sent, and which answer comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub(crate) enum Segments {
    /// In one segment, so an error undoes all of them.
    One,
    /// In two; the answer to the first one comes next.
    FirstOfTwo,
    /// In two; the answer to the second one comes next.
    SecondOfTwo,
}

/// One or two segments of restored settings that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Restoration {
    /// The server's settings when it has confirmed the segment. They follow ParameterStatus
    /// meanwhile.
    target: Arc<Shape>,
    segments: Segments,
    refused: Option<Box<RefusedSettings>>,
}

impl Restoration {
    pub(super) fn new(target: Arc<Shape>, segments: Segments) -> Self {
        Restoration {
            target,
            segments,
            refused: None,
        }
    }

    /// A segment has been answered. Returns whether another one follows.
    pub(super) fn takes_first_answer(&mut self) -> bool {
        let is_first = self.segments == Segments::FirstOfTwo;
        if is_first {
            self.segments = Segments::SecondOfTwo;
        }
        is_first
    }

    /// Whether an error undoes all of the settings: the server has made one transaction of them.
    pub(crate) fn is_one_transaction(&self) -> bool {
        self.segments == Segments::One
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
    pub(super) fn refuse(&mut self, error: &ErrorFields<'_>) {
        self.refused
            .get_or_insert_with(|| Box::new(RefusedSettings::new(error)));
    }

    /// The answer is complete. Returns the settings that the segment sets, and the server's refusal.
    pub(crate) fn ends(self) -> (Arc<Shape>, Option<RefusedSettings>) {
        (self.target, self.refused.map(|refused| *refused))
    }
}
