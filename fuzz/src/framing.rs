//! Checks a stream that the pooler writes.

use pgweir_core::{ConnectionId, Source};
use pgweir_wire::{BackendTag, FrontendTag, Header, StartupPacket, TransactionStatus};

/// A complete message from the pooler: its tag and its body.
pub type Message = (u8, Vec<u8>);

/// Splits a stream into messages, and fails if it is not a sequence of messages.
///
/// Bytes that the pooler makes itself (in the outbox's arena) must begin between two messages. The rest of a forwarded
/// message must come from the same connection as its beginning. Otherwise an error of the pooler's would be read as
/// part of another connection's data.
#[derive(Debug, Default)]
pub struct Framing {
    rest: Vec<u8>,
    /// The source of the message whose rest is `rest`.
    from: Option<ConnectionId>,
    /// Single bytes that must still answer an SSLRequest or GSSENCRequest, or the startup packet that has not come.
    pub unframed: usize,
}

/// The direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToClient,
    ToServer,
}

impl Framing {
    /// A stream that begins with a startup packet.
    pub fn with_startup_packet() -> Self {
        Framing {
            unframed: 1,
            ..Framing::default()
        }
    }

    /// Takes one part; returns the messages that it completes.
    pub fn push(&mut self, way: Direction, source: Source, from: Option<ConnectionId>, bytes: &[u8]) -> Vec<Message> {
        if !self.rest.is_empty() {
            assert_eq!(
                source,
                Source::Input,
                "words of our own were put into the middle of a message: {:?} after {:?}",
                String::from_utf8_lossy(bytes),
                String::from_utf8_lossy(&self.rest),
            );
            assert_eq!(
                from, self.from,
                "a message was continued with bytes of another connection"
            );
        }
        self.from = from;
        self.rest.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let mut at = 0;
        while at < self.rest.len() {
            let rest = &self.rest[at..];
            if self.unframed > 0 {
                match way {
                    Direction::ToClient if matches!(rest[0], b'N' | b'S') => {
                        self.unframed -= 1;
                        at += 1;
                        continue;
                    }
                    // In this case the pooler closes the connection.
                    Direction::ToClient => self.unframed = 0,
                    Direction::ToServer => {
                        let Some(total) = StartupPacket::packet_bytes(rest).expect("our own startup packet") else {
                            break;
                        };
                        self.unframed -= 1;
                        messages.push((0, rest[..total].to_vec()));
                        at += total;
                        continue;
                    }
                }
            }
            let Some(header) = Header::read(rest).expect("a header that the pooler writes") else {
                break;
            };
            let known = match way {
                Direction::ToClient => BackendTag::from_byte(header.tag).is_some(),
                Direction::ToServer => FrontendTag::from_byte(header.tag).is_some(),
            };
            assert!(known, "unknown message {:?} {way:?}", char::from(header.tag));
            let total = header.message_bytes as usize;
            if rest.len() < total {
                break;
            }
            let body = rest[5..total].to_vec();
            if way == Direction::ToClient && header.tag == b'Z' {
                assert!(TransactionStatus::read(&body).is_some(), "ReadyForQuery {body:?}");
            }
            messages.push((header.tag, body));
            at += total;
        }
        self.rest.drain(..at);
        messages
    }
}
