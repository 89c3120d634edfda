//! The five bytes before every message after the startup packet.

use crate::frontend::FrontendTag;
use thiserror::Error;

/// Bytes of a message header: one tag, four of length.
pub const HEADER_BYTES: usize = 5;

/// The longest message that PostgreSQL sends or accepts (`PQ_LARGE_MESSAGE_LIMIT` is `MaxAllocSize - 1`): 1 GB less two
/// bytes.
pub const MESSAGE_BYTES_MAX: u32 = 0x3fff_fffe;

/// The longest of the messages of a client that have no reason to be long (`PQ_SMALL_MESSAGE_LIMIT`), as the length field
/// counts it.
pub const SHORT_MESSAGE_BYTES_MAX: u32 = 10_000;

/// A message header, split from its body.
///
/// ```text
/// tag | length (big endian, counts itself and the body)
///  1  | 4
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The tag byte; its meaning depends on the direction.
    pub tag: u8,
    /// The length in bytes of the whole message, including the header: always at least [`HEADER_BYTES`].
    pub message_bytes: u32,
}

/// The length of the longest message that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub struct Longest {
    body_bytes: u32,
}

impl Longest {
    /// The longest message of the protocol.
    pub const ANY: Longest = Longest {
        body_bytes: MESSAGE_BYTES_MAX - 4,
    };

    /// Messages of at most so many bytes, with their header. A header alone is never too long.
    pub fn of_message(bytes: u32) -> Longest {
        Longest {
            body_bytes: bytes.saturating_sub(HEADER_BYTES as u32).min(Self::ANY.body_bytes),
        }
    }
}

/// A length field that no peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("invalid message length: expected 4 to {longest}, got {length} in message {tag:?}", tag = char::from(*tag))]
pub struct HeaderError {
    /// The tag byte before it.
    pub tag: u8,
    /// The length field as received.
    pub length: u32,
    /// The highest length that such a message may have.
    pub longest: u32,
}

impl Header {
    /// The header at the beginning of `bytes`; `None` if it is not complete.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
        Self::read_within(bytes, Longest::ANY)
    }

    /// The same; a message longer than `longest` is an error.
    #[inline(always)]
    pub fn read_within(bytes: &[u8], longest: Longest) -> Result<Option<Header>, HeaderError> {
        let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        if length.wrapping_sub(4) > longest.body_bytes {
            let longest = longest.body_bytes + 4;
            return Err(HeaderError { tag, length, longest });
        }
        Ok(Some(Header {
            tag,
            message_bytes: length + 1,
        }))
    }

    /// The same, of a client: some kinds of messages are never long.
    pub fn read_of_client(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
        let is_short = |tag: &u8| FrontendTag::from_byte(*tag).is_some_and(FrontendTag::is_short);
        match bytes.first().is_some_and(is_short) {
            true => Self::read_within(bytes, Longest::of_message(SHORT_MESSAGE_BYTES_MAX + 1)),
            false => Self::read(bytes),
        }
    }

    /// Bytes of the body.
    #[inline]
    pub fn body_bytes(self) -> u32 {
        self.message_bytes - HEADER_BYTES as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_whole_or_not_at_all() {
        let message = [b'Q', 0, 0, 0, 6, b'x', 0, b'!'];
        for cut in 0..HEADER_BYTES {
            assert_eq!(Header::read(&message[..cut]), Ok(None));
        }
        let header = Header::read(&message).unwrap().unwrap();
        assert_eq!(
            header,
            Header {
                tag: b'Q',
                message_bytes: 7
            }
        );
        assert_eq!(header.body_bytes(), 2);
    }

    #[test]
    fn lengths_no_peer_may_send_are_refused() {
        for length in [0u32, 3, 0x3fff_ffff, u32::MAX] {
            let mut message = vec![b'D'];
            message.extend(length.to_be_bytes());
            let (tag, longest) = (b'D', MESSAGE_BYTES_MAX);
            assert_eq!(Header::read(&message), Err(HeaderError { tag, length, longest }));
        }
        assert!(Header::read(&[b'S', 0, 0, 0, 4]).unwrap().is_some());
    }

    #[test]
    fn a_message_may_be_as_long_as_the_limit() {
        let header = |length: u32| [&b"D"[..], &length.to_be_bytes()].concat();
        let reads = |length, longest| Header::read_within(&header(length), longest).is_ok();
        for (bytes, longest) in [(1000, 999), (5, 4), (0, 4), (u32::MAX, MESSAGE_BYTES_MAX)] {
            let limit = Longest::of_message(bytes);
            assert!(reads(longest, limit) && !reads(longest + 1, limit), "{bytes}");
            assert!(!reads(3, limit) && !reads(0, limit) && !reads(u32::MAX, limit));
        }
    }
}
