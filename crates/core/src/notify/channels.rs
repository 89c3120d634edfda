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
pub(crate) const NAME_BYTES_MAX: usize = pgweir_sql::IDENTIFIER_BYTES_MAX;

/// A channel's name, in the encoding of the clients that use it.
pub(crate) type ChannelName = Arc<[u8]>;

/// A whole NotificationResponse or NoticeResponse, shared by all clients that get it.
pub(crate) type Told = Arc<[u8]>;

/// The channels of a client that has used LISTEN.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct Channels {
    /// The client's listener.
    listener: Option<ListenerId>,
    /// The channels that the listener hears for the client; channels to which the client's server listens are not in
    /// this list.
    pub(super) heard: BTreeSet<ChannelName>,
    pub(super) moving: Moving,
    /// Notifications that have not been sent to the client yet.
    unheard: VecDeque<Told>,
    /// Notifications that must come after those that the former place of the channels still has to deliver.
    later: VecDeque<Told>,
    /// Bytes in `unheard` and `later`.
    unheard_bytes: usize,
    /// The client may have sent a notification, perhaps to itself, in its present transaction.
    notifies: bool,
    /// The client's ReadyForQuery waits until the listener has heard the notifications of its transaction (recording
    /// E17).
    holds_ready: bool,
    /// Channels of UNLISTEN in the present transaction, on a server that does not listen for the client; `None`: all.
    unlistened: Vec<Option<Box<[u8]>>>,
    /// The present transaction may also have listened to channels.
    listens_anew: bool,
}

impl Channels {
    /// The client's listener.
    pub(crate) fn listener(&self) -> Option<ListenerId> {
        self.listener
    }

    /// The client's database, user and encoding ask for this listener. Returns whether the client has it now: a
    /// listener that the client still uses belongs to the client's former encoding. The channels move back to the
    /// server before the client gets another listener.
    pub(crate) fn may_use(&mut self, listener: ListenerId) -> bool {
        if self.heard.is_empty() {
            self.listener = Some(listener);
        }
        self.listener == Some(listener)
    }

    /// The channels that the listener hears for the client.
    pub(crate) fn heard(&self) -> &BTreeSet<ChannelName> {
        &self.heard
    }

    /// Whether the listener hears channels for the client.
    pub(crate) fn relies_on_listener(&self) -> bool {
        !self.heard.is_empty()
    }

    pub(crate) fn hears(&self, channel: &[u8]) -> bool {
        self.heard.contains(channel)
    }

    /// The client sends a text that may contain a NOTIFY.
    pub(crate) fn may_notify(&mut self) {
        self.notifies = true;
    }

    /// Whether the client may have sent a notification in its present transaction.
    pub(crate) fn notifies(&self) -> bool {
        self.notifies
    }

    /// The client's transaction has ended. Returns whether the client may have sent a notification in it.
    pub(crate) fn take_notifies(&mut self) -> bool {
        std::mem::take(&mut self.notifies)
    }

    /// Whether a notification from the client's server may be one that the client has sent to itself.
    pub(crate) fn may_get_its_own(&self) -> bool {
        self.notifies || self.holds_ready
    }

    /// The client's ReadyForQuery is held back until the listener has heard the notifications of its transaction.
    pub(crate) fn hold_ready(&mut self) {
        self.holds_ready = true;
    }

    /// Whether the client's ReadyForQuery is held back.
    pub(crate) fn holds_ready(&self) -> bool {
        self.holds_ready
    }

    /// The listener has heard the notifications of the transaction. Returns whether ReadyForQuery was held back.
    pub(crate) fn release_ready(&mut self) -> bool {
        std::mem::take(&mut self.holds_ready)
    }

    /// A text that concerns channels goes to a server that does not listen for the client. `runs`: it also runs.
    pub(crate) fn note_unlisten(&mut self, text: &[u8], runs: bool) {
        let unlistens = pgweir_sql::may_unlisten(text);
        self.listens_anew |= !unlistens || pgweir_sql::may_listen(text);
        if runs && unlistens {
            self.unlistened.extend(pgweir_sql::unlistened(text));
        }
    }

    /// Whether the present transaction has run UNLISTEN.
    pub(crate) fn has_unlistened(&self) -> bool {
        !self.unlistened.is_empty()
    }

    /// The present transaction was rolled back, perhaps to a savepoint only: the channels stay as they are.
    pub(crate) fn forget_unlisten(&mut self) {
        self.unlistened.clear();
    }

    /// The present transaction has committed. If it has run UNLISTEN, removes the channels and returns them. PostgreSQL
    /// delivers none of the notifications that have come during the transaction, unless the transaction has also begun
    /// to listen again.
    pub(crate) fn commit_unlisten(&mut self) -> Option<BTreeSet<ChannelName>> {
        let listens_anew = std::mem::take(&mut self.listens_anew);
        let unlistened = std::mem::take(&mut self.unlistened);
        if unlistened.is_empty() {
            return None;
        }
        let gone = self.take_unlistened(&unlistened);
        if !listens_anew {
            self.drop_unheard(&gone);
        }
        Some(gone)
    }

    /// Queues a notification or notice; `later`: it comes after the notifications from the channels' former place.
    /// Returns whether more than [`UNHEARD_BYTES_MAX`] wait now.
    pub(crate) fn queue(&mut self, message: Told, later: bool) -> bool {
        self.unheard_bytes += message.len();
        match later {
            true => self.later.push_back(message),
            false => self.unheard.push_back(message),
        }
        self.unheard_bytes > UNHEARD_BYTES_MAX
    }

    /// Whether notifications wait that may be sent at the next moment at which PostgreSQL would send them.
    pub(crate) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// Takes the notifications that are sent to the client now.
    pub(crate) fn take_unheard(&mut self) -> VecDeque<Told> {
        self.unheard_bytes = self.later.iter().map(|told| told.len()).sum();
        std::mem::take(&mut self.unheard)
    }

    /// Removes the channels that these UNLISTEN commands name, and returns them; `None` names all.
    fn take_unlistened(&mut self, unlistened: &[Option<Box<[u8]>>]) -> BTreeSet<ChannelName> {
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
    fn drop_unheard(&mut self, gone: &BTreeSet<ChannelName>) {
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
    pub(super) fn forget_later(&mut self) {
        let bytes: usize = self.later.drain(..).map(|m| m.len()).sum();
        self.unheard_bytes -= bytes;
    }

    /// Compares the counter of bytes with the notifications.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self) -> Result<(), String> {
        let bytes: usize = self.unheard.iter().chain(&self.later).map(|told| told.len()).sum();
        match bytes == self.unheard_bytes {
            true => Ok(()),
            false => Err(format!("{bytes} bytes wait, {} counted", self.unheard_bytes)),
        }
    }

    /// Both places have passed the mark: the notifications from the new place come next.
    pub(super) fn join(&mut self) {
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
