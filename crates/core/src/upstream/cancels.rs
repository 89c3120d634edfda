//! Cancel requests for a server's work.

use crate::base::ids::ClientId;
use pgweir_wire::CancelKey;

/// The server's cancel key, and the cancels that are under way.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Cancels {
    pub(crate) key: Option<CancelKey>,
    /// Cancel requests on their way to the server.
    pub(crate) in_flight: u32,
    /// The segment that its client wants cancelled as soon as the server works on it.
    pub(crate) wanted: Option<u64>,
    /// The connections that sent these CancelRequests. They are closed after the signal was sent.
    pub(crate) by: Vec<ClientId>,
}
