//! What a server was asked before the pooler carries out a call for a client.

use crate::base::ids::ServerId;
use pgweir_sql::SignalCall;

/// The question whether a call means PostgreSQL's own function, and whether the client may call it.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct AskedRight {
    call: SignalCall,
    server: ServerId,
    /// The number of the segment that the call would be in. Once another segment has been sent, the answer is too old.
    segment: u64,
    granted: bool,
}

impl AskedRight {
    /// The question has been sent to this server.
    pub(crate) fn new(call: SignalCall, server: ServerId, segment: u64) -> Self {
        AskedRight {
            call,
            server,
            segment,
            granted: false,
        }
    }

    /// Whether the question was about this call, at this place.
    pub(crate) fn is_about(&self, call: SignalCall, server: ServerId, segment: u64) -> bool {
        (self.call, self.server, self.segment) == (call, server, segment)
    }

    /// The server has said yes.
    pub(crate) fn grant(&mut self) {
        self.granted = true;
    }

    /// Whether the server has said yes.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }
}
