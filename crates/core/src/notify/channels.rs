//! The channels that a listener connection hears for a client, and notifications that have not been sent to the client
//! yet.
//!
//! A client gets notifications only when PostgreSQL would send them: between its transactions, that is before
//! ReadyForQuery or while it is idle. Until then they wait here, up to [`UNHEARD_BYTES_MAX`].

use crate::notify::hub::ListenerId;
use crate::notify::moving::Moving;
use pgweir_wire::{BackendTag, HEADER_BYTES, ReadError, Reader};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The most bytes of notifications that may wait for one client: in the core for the end of its transaction, or in the
/// driver for the client to read them. A client that is further behind is closed, so that it costs other clients
/// neither memory nor time.
pub const UNHEARD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The place of the process id in a NotificationResponse.
pub(crate) const PROCESS_ID: std::ops::Range<usize> = HEADER_BYTES..HEADER_BYTES + 4;

/// The longest name of a channel (NAMEDATALEN - 1), bytes.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// A channel's name, in the encoding of the clients that use it.
pub(crate) type ChannelName = Arc<[u8]>;

/// A whole NotificationResponse or NoticeResponse, shared by all clients that get it.
pub(crate) type Told = Arc<[u8]>;

/// The channels of a client that has used LISTEN.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Channels {
    /// The client's listener.
    pub(crate) listener: Option<ListenerId>,
    /// The channels that the listener hears for the client; channels to which the client's server listens are not in
    /// this list.
    pub(crate) heard: BTreeSet<ChannelName>,
    pub(crate) moving: Moving,
    /// Notifications that have not been sent to the client yet.
    pub(crate) unheard: VecDeque<Told>,
    /// Notifications that must come after those that the former place of the channels still has to deliver.
    pub(crate) later: VecDeque<Told>,
    /// Bytes in `unheard` and `later`.
    pub(crate) unheard_bytes: usize,
    /// The client may have sent a notification, perhaps to itself, in its present transaction.
    pub(crate) notifies: bool,
    /// The client's ReadyForQuery waits until the listener has heard the notifications of its transaction (recording
    /// E17).
    pub(crate) holds_ready: bool,
    /// Channels of UNLISTEN in the present transaction, on a server that does not listen for the client; `None`: all.
    pub(crate) unlistened: Vec<Option<Box<[u8]>>>,
    /// The present transaction may also have listened to channels.
    pub(crate) listens_anew: bool,
}

impl Channels {
    pub(crate) fn hears(&self, channel: &[u8]) -> bool {
        self.heard.contains(channel)
    }

    /// Removes the channels that these UNLISTEN commands name, and returns them; `None` names all.
    pub(crate) fn take_unlistened(&mut self, unlistened: &[Option<Box<[u8]>>]) -> BTreeSet<ChannelName> {
        if unlistened.iter().any(Option::is_none) {
            return std::mem::take(&mut self.heard);
        }
        let mut gone = BTreeSet::new();
        for name in unlistened.iter().flatten() {
            if name.len() <= NAME_BYTES_MAX {
                gone.extend(self.heard.take(&**name));
            } else {
                // PostgreSQL cuts a name that is too long, between two characters.
                let cut = (NAME_BYTES_MAX - 3..=NAME_BYTES_MAX).filter_map(|bytes| self.heard.take(&name[..bytes]));
                gone.extend(cut);
            }
        }
        gone
    }

    /// The client no longer listens to these channels: drops their notifications.
    pub(crate) fn drop_unheard(&mut self, gone: &BTreeSet<ChannelName>) {
        let stays = |told: &Told| {
            let is_notification = told.first() == Some(&(BackendTag::NotificationResponse as u8));
            let notification = Notification::read(&told[HEADER_BYTES..])
                .ok()
                .filter(|_| is_notification);
            notification.is_none_or(|n| !gone.contains(n.channel))
        };
        self.unheard.retain(stays);
        self.later.retain(stays);
        self.unheard_bytes = self.unheard.iter().chain(&self.later).map(|told| told.len()).sum();
    }

    /// A move is given up: drops the notifications that came from the new place, because the old one delivers them,
    /// too.
    pub(crate) fn forget_later(&mut self) {
        let bytes: usize = self.later.drain(..).map(|m| m.len()).sum();
        self.unheard_bytes -= bytes;
    }

    /// Both places have passed the mark: the notifications from the new place come next.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisten_names_a_channel_as_postgresql_cuts_its_name() {
        let long = [b'x'; NAME_BYTES_MAX + 9];
        let mut channels = Channels::default();
        let heard = [
            &b"a"[..],
            b"b",
            &long[..NAME_BYTES_MAX - 2],
            &long[..NAME_BYTES_MAX - 4],
        ];
        channels.heard = heard.into_iter().map(ChannelName::from).collect();
        let gone = channels.take_unlistened(&[Some(b"a".as_slice().into()), Some(long.as_slice().into())]);
        assert_eq!(gone.len(), 2);
        assert!(!channels.hears(b"a") && !channels.hears(&long[..NAME_BYTES_MAX - 2]));
        assert!(channels.hears(b"b") && channels.hears(&long[..NAME_BYTES_MAX - 4]));
        assert_eq!(channels.take_unlistened(&[None]).len(), 2);
        assert!(channels.heard.is_empty());
    }
}
