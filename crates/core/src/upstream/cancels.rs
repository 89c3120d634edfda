//! Cancel requests for a server's work.

use crate::base::ids::ClientId;
use crate::base::request::CancelEnd;
use pgweir_wire::CancelKey;

// Why the connection of a CancelRequest is closed: PgBouncer's texts.

/// Its client has left, or what it was for has ended.
pub(crate) const NOT_SENDING: &str = "not sending cancel request for client that is now idle";
pub(crate) const SENT: &str = "successfully sent cancel request";
pub(crate) const NOT_SENT: &str = "failed to send cancel request";

/// What has become of the cancel requests of those who have asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Sending {
    /// No request was sent: what it was for has ended before.
    #[default]
    NotNeeded,
    Sent,
    Failed,
}

impl Sending {
    /// Why the connections that have asked are closed.
    fn text(self) -> &'static str {
        match self {
            Sending::NotNeeded => NOT_SENDING,
            Sending::Sent => SENT,
            Sending::Failed => NOT_SENT,
        }
    }
}

/// The connections that have asked for a cancel, and why they are closed.
pub(crate) type Asked = (Vec<ClientId>, &'static str);

/// The server's cancel key, and the cancels that are under way.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Cancels {
    key: Option<CancelKey>,
    /// Cancel requests on their way to the server.
    in_flight: u32,
    /// The segment that its client wants cancelled as soon as the server works on it.
    wanted: Option<u64>,
    /// The connections that sent these CancelRequests. They are closed after the signal was sent.
    by: Vec<ClientId>,
    sending: Sending,
}

impl Cancels {
    /// The server's cancel key.
    pub(crate) fn key(&self) -> Option<&CancelKey> {
        self.key.as_ref()
    }

    /// The process id of the server, as it has told it.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.key.as_ref().map(|key| key.process_id)
    }

    /// The server has sent its cancel key. `None`: the key cannot be used.
    pub(crate) fn key_is_told(&mut self, key: Option<CancelKey>) {
        self.key = key;
    }

    /// How many cancel requests are on their way to the server.
    #[inline]
    pub(crate) fn on_their_way(&self) -> u32 {
        self.in_flight
    }

    /// Whether a cancel request is on its way: it may hit whatever the server does.
    #[inline]
    pub(crate) fn may_hit(&self) -> bool {
        self.in_flight > 0
    }

    /// The segment that is to be cancelled as soon as the server works on it.
    #[inline]
    pub(crate) fn wanted(&self) -> Option<u64> {
        self.wanted
    }

    /// Whether a cancel is on its way, or waits until the server begins the segment that it is for.
    #[inline]
    pub(crate) fn are_under_way(&self) -> bool {
        self.in_flight > 0 || self.wanted.is_some()
    }

    /// A cancel request is sent.
    pub(crate) fn one_is_sent(&mut self) {
        self.in_flight += 1;
        self.sending = Sending::Sent;
    }

    /// A cancel request has ended. Returns whether none is on its way any more.
    pub(crate) fn one_is_over(&mut self, end: CancelEnd) -> bool {
        if end == CancelEnd::NotSent {
            self.sending = Sending::Failed;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.in_flight == 0
    }

    /// The client wants this segment cancelled, which the server does not work on yet.
    pub(crate) fn wait_for(&mut self, segment: u64) {
        self.wanted = Some(segment);
    }

    /// No segment waits to be cancelled any more.
    pub(crate) fn wait_for_none(&mut self) {
        self.wanted = None;
    }

    /// This connection has sent the CancelRequest, and is closed when it has been carried out.
    pub(crate) fn are_asked_by(&mut self, connection: ClientId) {
        self.by.push(connection);
    }

    /// The number of connections that have asked.
    pub(crate) fn asking(&self) -> usize {
        self.by.len()
    }

    /// Takes the connections that have asked.
    pub(crate) fn take_asking(&mut self) -> Asked {
        (std::mem::take(&mut self.by), std::mem::take(&mut self.sending).text())
    }
}
