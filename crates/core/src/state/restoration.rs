//! Settings of a client that its server has not confirmed.

use crate::state::shape::Shape;
use std::sync::Arc;

/// A segment of restored settings that the server has not answered completely.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Restoration {
    /// The server's settings when it has confirmed the segment. They follow ParameterStatus
    /// meanwhile.
    pub(crate) target: Arc<Shape>,
    /// The server's refusal: SQLSTATE and message.
    pub(crate) refused: Option<Box<(String, String)>>,
}
