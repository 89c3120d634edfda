//! Several clients' short transactions outstanding on one server (see [`crate::upstream::flights`]).
//!
//! If a client has to wait for a server, and its next segment is a flight, the client hands the flight to the pooler
//! ([`recognizing`]). The flight is sent to a server that works for others, or to the first that is free
//! ([`boarding`]). At each ReadyForQuery the link moves to the client whose flight is next ([`landing`]). Flights that
//! were hit by another client's cancel, or whose server was lost, are run again ([`mishaps`]).

use crate::base::ids::ServerId;
use crate::pooler::Pooler;
use crate::upstream::flights::Flights;

pub(crate) mod boarding;
pub(crate) mod landing;
pub(crate) mod mishaps;
pub(crate) mod recognizing;

impl Pooler {
    /// The flights of a server, if any has ever begun on it.
    pub(crate) fn flights_of(&mut self, id: ServerId) -> Option<&mut Flights> {
        self.servers.get_mut(id.0)?.flights.as_deref_mut()
    }
}
