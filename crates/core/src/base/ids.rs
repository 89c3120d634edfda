//! Ids of connections.

use std::fmt;

/// The lowest process id that a client is told at login: no process on Linux has an id above 2^22.
pub(crate) const CLIENT_IDS_FROM: u32 = (1 << 22) + 1;

/// Bits of a generation: the generation, the index and the kind of a connection must fit a 64-bit token.
const GENERATION_BITS: u32 = 30;

/// A place in a slab, and how often the place was used before. An id is used again only after its generation has
/// wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub struct Slot {
    /// Place in the slab. Places are small numbers and are reused, so a driver may index an array of its own
    /// with them.
    pub index: u32,
    /// How many values this place held before this one, modulo 2^30.
    pub generation: u32,
}

impl Slot {
    /// The same place for the next value.
    pub fn next(self) -> Slot {
        Slot {
            index: self.index,
            generation: (self.generation + 1) & ((1 << GENERATION_BITS) - 1),
        }
    }

    fn token(self, kind: u64) -> u64 {
        kind << 62 | u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

/// A listener's place in the table of listeners.
pub(crate) type ListenerId = usize;

/// A client connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub struct ClientId(pub Slot);

/// A server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub struct ServerId(pub Slot);

/// A client or server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, pgweir_freeze::Freeze)]
pub enum ConnectionId {
    /// A client connection.
    Client(ClientId),
    /// A server connection.
    Server(ServerId),
}

impl ConnectionId {
    /// The id as one number, for an event loop's token. Tokens from 2^63 on are free for the driver's own use.
    pub fn token(self) -> u64 {
        match self {
            ConnectionId::Client(ClientId(slot)) => slot.token(0),
            ConnectionId::Server(ServerId(slot)) => slot.token(1),
        }
    }

    /// The id of a token made by [`ConnectionId::token`]; `None` for the driver's own tokens.
    pub fn from_token(token: u64) -> Option<Self> {
        let slot = Slot {
            index: token as u32,
            generation: (token >> 32) as u32 & ((1 << GENERATION_BITS) - 1),
        };
        match token >> 62 {
            0 => Some(ConnectionId::Client(ClientId(slot))),
            1 => Some(ConnectionId::Server(ServerId(slot))),
            _ => None,
        }
    }
}

impl From<ClientId> for ConnectionId {
    fn from(id: ClientId) -> Self {
        ConnectionId::Client(id)
    }
}

impl From<ServerId> for ConnectionId {
    fn from(id: ServerId) -> Self {
        ConnectionId::Server(id)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C-0x{:x}", self.0.token(0))
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-0x{:x}", self.0.token(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_leave_room_for_the_driver() {
        let slot = Slot {
            index: u32::MAX,
            generation: (1 << GENERATION_BITS) - 1,
        };
        for id in [
            ConnectionId::Client(ClientId(slot)),
            ConnectionId::Server(ServerId(slot)),
        ] {
            assert_eq!(ConnectionId::from_token(id.token()), Some(id));
            assert!(id.token() < 1 << 63);
        }
        assert_eq!(ConnectionId::from_token(1 << 63), None);
        assert_eq!(slot.next().generation, 0);
    }
}
