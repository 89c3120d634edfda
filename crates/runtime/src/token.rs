//! The subjects of poll events.

use mio::Token;
use pgweir_core::ConnectionId;
use pgweir_core::ids::Slot;

const _: () = assert!(
    usize::BITS == 64,
    "a connection id fits an event token only where a token has 64 bits"
);

/// Generations of the driver's objects have 24 bits, so that they fit below bit 63 together with kind and slot.
pub(crate) const GENERATION_MASK: u32 = (1 << 24) - 1;

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A client or server connection of the core, or a server whose socket is being opened.
    Connection(ConnectionId),
    /// The inbox has messages.
    Inbox,
    /// Connections wait at the listening socket of this number.
    Listener(u32),
    /// The connection that is being refused for lack of file descriptors.
    Refusal,
    /// A connection that the core has closed and that still has output to send.
    Closing(Slot),
    /// The connection of a cancel request.
    Cancel(Slot),
    /// A process wants to replace this one.
    Gate,
    /// The process that wants to replace this one.
    Successor,
    /// A TLS connection whose bytes are carried to the process that has taken over.
    Relay(Slot),
}

impl Subject {
    /// The subject as an event token.
    pub(crate) fn token(self) -> Token {
        let own =
            |kind: u64, slot: Slot| 1 << 63 | kind << 56 | u64::from(slot.generation) << 32 | u64::from(slot.index);
        let none = |index| Slot { index, generation: 0 };
        let number = match self {
            Subject::Connection(id) => id.token(),
            Subject::Inbox => own(0, none(0)),
            Subject::Listener(index) => own(1, none(index)),
            Subject::Refusal => own(2, none(0)),
            Subject::Closing(slot) => own(3, slot),
            Subject::Cancel(slot) => own(4, slot),
            Subject::Gate => own(5, none(0)),
            Subject::Successor => own(6, none(0)),
            Subject::Relay(slot) => own(7, slot),
        };
        Token(number as usize)
    }

    /// The subject of an event token made by [`Subject::token`].
    #[inline(always)]
    pub(crate) fn of(token: Token) -> Subject {
        let number = token.0 as u64;
        if let Some(id) = ConnectionId::from_token(number) {
            return Subject::Connection(id);
        }
        let slot = Slot {
            index: number as u32,
            generation: (number >> 32) as u32 & GENERATION_MASK,
        };
        match number >> 56 & 0x7f {
            0 => Subject::Inbox,
            1 => Subject::Listener(slot.index),
            2 => Subject::Refusal,
            3 => Subject::Closing(slot),
            4 => Subject::Cancel(slot),
            5 => Subject::Gate,
            6 => Subject::Successor,
            _ => Subject::Relay(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgweir_core::{ClientId, ServerId};

    #[test]
    fn every_subject_survives_its_token() {
        let slot = Slot {
            index: u32::MAX,
            generation: GENERATION_MASK,
        };
        let subjects = [
            Subject::Connection(ConnectionId::Client(ClientId(slot))),
            Subject::Connection(ConnectionId::Server(ServerId(slot))),
            Subject::Inbox,
            Subject::Listener(7),
            Subject::Refusal,
            Subject::Closing(slot),
            Subject::Cancel(slot),
            Subject::Gate,
            Subject::Successor,
            Subject::Relay(slot),
        ];
        for subject in subjects {
            assert_eq!(Subject::of(subject.token()), subject);
        }
    }
}
