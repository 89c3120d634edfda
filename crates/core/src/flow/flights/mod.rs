//! Several clients' short transactions outstanding on one server (see [`crate::upstream::flights`]).
//!
//! A client that has to wait for a server, and whose next segment is a flight, hands that to the pooler ([`recognizing`]). It
//! is sent to a server that works for others, or to the first that is free ([`boarding`]). At each ReadyForQuery the link
//! moves to the client whose flight is next ([`landing`]). What a cancel or a lost server has spoilt for others is run again
//! ([`mishaps`]).

use crate::base::ids::ServerId;
use crate::pooler::Pooler;
use crate::upstream::flights::Flights;

pub(crate) mod boarding;
pub(crate) mod landing;
pub(crate) mod mishaps;
pub(crate) mod recognizing;

impl Pooler {
    /// The flights of a server, where some have begun on it.
    pub(crate) fn flights_of(&mut self, id: ServerId) -> Option<&mut Flights> {
        self.servers.get_mut(id.0)?.flights.as_deref_mut()
    }
}
