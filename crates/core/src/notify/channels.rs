//! What a client hears through a listener connection, and the notifications it has not been sent yet.
//!
//! A notification reaches a client only where PostgreSQL would send it: between its transactions, in front of
//! ReadyForQuery or while it is idle. Until then it waits here, and no longer than [`UNHEARD_BYTES_MAX`] allows.

use crate::notify::hub::ListenerId;
use crate::notify::moving::Moving;
use pgweir_wire::{HEADER_BYTES, ReadError, Reader};
use std::collections::VecDeque;
use std::sync::Arc;

/// Notifications that may wait for one client, bytes: for the end of its transaction in the core, or for it to read in the
/// driver. A client that is further behind is closed, so that it costs nobody else memory or time.
pub const UNHEARD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where the process id of a NotificationResponse lies in the message.
pub(crate) const PROCESS_ID: std::ops::Range<usize> = HEADER_BYTES..HEADER_BYTES + 4;

/// The longest name (NAMEDATALEN - 1), bytes.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// A channel's name, in the encoding of those who use it.
pub(crate) type ChannelName = Arc<[u8]>;

/// A whole NotificationResponse or NoticeResponse, shared by all who get it.
pub(crate) type Told = Arc<[u8]>;

/// One client's listening, once it has listened.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Channels {
    /// Who hears for it.
    pub(crate) listener: Option<ListenerId>,
    /// The channels that its listener hears for it; those of its own server are not among them.
    pub(crate) heard: Vec<ChannelName>,
    pub(crate) moving: Moving,
    /// What it has not been sent yet.
    pub(crate) unheard: VecDeque<Told>,
    /// What comes behind all that its channels' former place still has to tell.
    pub(crate) later: VecDeque<Told>,
    /// Bytes of both.
    pub(crate) unheard_bytes: usize,
    /// It may have notified somebody, perhaps itself, in its present transaction.
    pub(crate) notifies: bool,
    /// Its ReadyForQuery is held until the listener has heard what its own transaction sent (recording E17).
    pub(crate) holds_ready: bool,
    /// UNLISTEN inside a transaction on a server that does not listen for it: the channel, or all.
    pub(crate) unlistened: Vec<Option<Box<[u8]>>>,
}

impl Channels {
    pub(crate) fn hears(&self, channel: &[u8]) -> bool {
        self.heard.iter().any(|c| **c == *channel)
    }

    /// What the new place has told of a move that is given up; the old one tells it, too.
    pub(crate) fn forget_later(&mut self) {
        let bytes: usize = self.later.drain(..).map(|m| m.len()).sum();
        self.unheard_bytes -= bytes;
    }

    /// Both places have passed the mark: what the new one has told comes next.
    pub(crate) fn join(&mut self) {
        self.unheard.append(&mut self.later);
    }
}

/// A NotificationResponse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification<'a> {
    pub(crate) process_id: u32,
    pub(crate) channel: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads the body of the message.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ReadError> {
        let mut reader = Reader::new(body);
        Ok(Notification {
            process_id: reader.u32()?,
            channel: reader.cstr()?,
            payload: reader.cstr()?,
        })
    }
}
