//! Settings of a client that its server has not confirmed.

use crate::state::shape::Shape;
use std::sync::Arc;

/// A segment of restored settings that the server has not answered to the end.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Restoration {
    /// What the server looks like once it has confirmed. It follows the server's reports meanwhile.
    pub(crate) target: Arc<Shape>,
    /// Why the server refused: SQLSTATE and message.
    pub(crate) refused: Option<Box<(String, String)>>,
}
