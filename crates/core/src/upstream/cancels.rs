//! Cancel requests for what a server works on.

use crate::base::ids::ClientId;
use pgweir_wire::CancelKey;

/// What a cancel of a server's work needs, and which cancels are under way.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Cancels {
    pub(crate) key: Option<CancelKey>,
    /// Cancel requests on their way to it.
    pub(crate) in_flight: u32,
    /// The segment that its client wants cancelled, when the server gets to it.
    pub(crate) wanted: Option<u64>,
    /// The connections that have asked for the cancels above. They are closed when the signal has been sent.
    pub(crate) by: Vec<ClientId>,
}
