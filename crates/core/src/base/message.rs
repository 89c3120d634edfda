//! A client's message, as far as it has come, and what is done about it.

use pgweir_wire::{FrontendTag, HEADER_BYTES, Header};

/// The longest message that a client without a server must have sent in full before it gets one, bytes; of a longer one
/// this much. A Parse may be as long as [`STATEMENT_BYTES_MAX`].
const BEFORE_SERVER_BYTES_MAX: usize = 64 * 1024;

/// The longest Parse message that is kept, bytes. A longer one goes to the server as it is, and pins its client.
pub(crate) const STATEMENT_BYTES_MAX: usize = 1024 * 1024;

/// The longest message whose text is read, bytes; a longer one is passed on as it comes.
pub(crate) const INSPECT_BYTES_MAX: usize = 64 * 1024;

/// The outcome of one step over the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// This many bytes are dealt with.
    Progress(usize),
    /// The message cannot be dealt with before more of it has come.
    NeedBytes,
    /// The client waits; a Resume will follow.
    Wait,
    /// The client is closed.
    Closed,
}

/// One message at the front of the rest of the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) tag: FrontendTag,
    /// Where it begins in the input.
    pub(crate) at: usize,
    /// Bytes of the whole message.
    pub(crate) total: usize,
    /// As much of it as is there, header included.
    pub(crate) bytes: &'a [u8],
    /// What is there behind it.
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

    /// Whether so much of it is there that its client may take a server for it: half a message holds none.
    #[inline]
    pub(crate) fn may_take_server(&self) -> bool {
        self.is_whole() || self.is_mostly_to_come()
    }

    /// Whether it is so long that it goes through in pieces, and the first of them is there.
    #[cold]
    fn is_mostly_to_come(&self) -> bool {
        let most = match self.tag {
            FrontendTag::Parse => STATEMENT_BYTES_MAX,
            _ => BEFORE_SERVER_BYTES_MAX,
        };
        self.bytes.len() >= most
    }

    /// Whether Describe of this portal follows; `None` where what follows has not come.
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

    /// Bytes of those that were taken.
    pub(crate) fn read_bytes(&self) -> usize {
        self.at
    }

    /// Tag and body of the next one.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let rest = &self.bytes[self.at..];
        let header = Header::read(rest).ok()??;
        let message = rest.get(..header.message_bytes as usize)?;
        self.at += message.len();
        Some((header.tag, &message[HEADER_BYTES..]))
    }
}
