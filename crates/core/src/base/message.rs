//! A client's message, as far as it has arrived, and the outcome of handling it.

use pgweir_wire::{FrontendTag, HEADER_BYTES, Header};

/// A client without a server gets one only when this many bytes of its message have arrived, or all of it if it is
/// shorter. For a Parse the number is [`STATEMENT_BYTES_MAX`].
const BEFORE_SERVER_BYTES_MAX: usize = 64 * 1024;

/// The longest Parse message that is kept, bytes. A longer one is sent to the server unchanged, and pins its client.
pub(crate) const STATEMENT_BYTES_MAX: usize = 1024 * 1024;

/// The longest message whose text is read, bytes. A longer one is passed on as it arrives.
pub(crate) const INSPECT_BYTES_MAX: usize = 64 * 1024;

/// The error about a message of no known type: PgBouncer's words, and PostgreSQL's.
pub(crate) fn unknown_packet(tag: u8) -> String {
    format!("unknown pkt: invalid frontend message type {tag}")
}

/// The error about a header that no message has: PgBouncer's words.
pub(crate) fn bad_header(header: &[u8]) -> String {
    let digits: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("bad packet header: '{digits}'")
}

/// The outcome of one step over the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// This many bytes have been handled.
    Progress(usize),
    /// More of the message must arrive before it can be handled.
    NeedBytes,
    /// The client waits; `Resume` will follow.
    Wait,
    /// The client is closed.
    Closed,
}

/// The first message of the input that has not been handled yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) tag: FrontendTag,
    /// Where the message begins in the input.
    pub(crate) at: usize,
    /// Length of the whole message, bytes.
    pub(crate) total: usize,
    /// The bytes of the message that have arrived, header included.
    pub(crate) bytes: &'a [u8],
    /// The bytes behind the message that have arrived.
    pub(crate) behind: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message with this header that begins at `at`.
    #[inline]
    pub(crate) fn new(tag: FrontendTag, header: Header, input: &'a [u8], at: usize) -> Self {
        let total = header.message_bytes as usize;
        let (bytes, behind) = input[at..].split_at(total.min(input.len() - at));
        Message {
            tag,
            at,
            total,
            bytes,
            behind,
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.len() == self.total
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Whether enough of it has arrived for its client to take a server.
    #[inline]
    pub(crate) fn may_take_server(&self) -> bool {
        self.is_whole() || self.is_mostly_to_come()
    }

    /// Whether it is so long that it is passed on in pieces, and the first piece has arrived.
    #[cold]
    fn is_mostly_to_come(&self) -> bool {
        self.bytes.len() >= Message::before_server_bytes(self.tag)
    }

    /// The number of bytes of a long message that must have arrived before its client takes a server.
    pub(crate) fn before_server_bytes(tag: FrontendTag) -> usize {
        match tag {
            FrontendTag::Parse => STATEMENT_BYTES_MAX,
            _ => BEFORE_SERVER_BYTES_MAX,
        }
    }

    /// Whether a Describe of this portal follows; `None` if the next message has not arrived.
    pub(crate) fn describes_next(&self, portal: &[u8]) -> Option<bool> {
        let behind = self.behind.get(..HEADER_BYTES + portal.len() + 2)?;
        let (named, end) = behind[HEADER_BYTES..].split_at(1 + portal.len());
        Some(behind[0] == b'D' && named[0] == b'P' && named[1..] == *portal && end == [0])
    }
}

/// Whole messages from the front of some bytes.
pub(crate) struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Messages { bytes, at: 0 }
    }

    /// Bytes of the messages that [`Messages::next`] has returned.
    pub(crate) fn read_bytes(&self) -> usize {
        self.at
    }

    /// Tag and body of the next message.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let rest = &self.bytes[self.at..];
        let header = Header::read(rest).ok()??;
        let message = rest.get(..header.message_bytes as usize)?;
        self.at += message.len();
        Some((header.tag, &message[HEADER_BYTES..]))
    }
}
