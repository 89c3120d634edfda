//! The channels that a listener connection hears for a client, and notifications that have not been sent to the client
//! yet.
//!
//! A client gets notifications only when PostgreSQL would send them: between its transactions, that is before
//! ReadyForQuery or while it is idle. Until then they wait here, up to `max_notification_backlog`.

use crate::base::ids::ListenerId;
use crate::notify::moving::Moving;
use crate::statements::internal::CHANNELS_LISTED;
use pgweir_wire::{BackendTag, HEADER_BYTES, ReadError, Reader};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The least value of `max_notification_backlog`: the bytes of notifications that may wait for one client, in the core for
/// the end of its transaction, or in the driver for the client to read them. A client that is further behind is closed,
/// so that it costs other clients neither memory nor time. The driver says of a client for which more than this waits
/// how much it is.
pub const UNHEARD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most channels of one client that a listener hears. A client with more stays on its server.
///
/// PostgreSQL 15 to 18 compare the name in each LISTEN and UNLISTEN with the names of all channels of the session, at
/// the commit, and nothing can interrupt this. All clients of a listener wait meanwhile. Programs that listen for a queue
/// or a cache (Oban, Graphile Worker, Procrastinate, PostgREST) use fewer than ten channels.
pub const CHANNELS_MAX: usize = 64;
const _: () = assert!(
    CHANNELS_LISTED == CHANNELS_MAX + 1,
    "one more shows that they are too many"
);

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
    /// A listener has not answered the latest request for this client, which the client may have made pointless since.
    pub(super) awaits_listener: bool,
    /// How often in succession the listener was lost while it worked on a request for this client.
    pub(super) lost_requests: u8,
    /// Notifications that have not been sent to the client yet.
    unheard: VecDeque<Told>,
    /// Notifications that must come after those that the former place of the channels still has to deliver.
    later: VecDeque<Told>,
    /// Bytes in `unheard` and `later`.
    unheard_bytes: usize,
    /// The client is in the list of clients whose notifications have to wait ([`crate::notify::hub`]).
    is_behind: bool,
    /// The client may have sent a notification, perhaps to itself, in its present transaction.
    notifies: bool,
    /// The client's ReadyForQuery waits until the listener has heard the notifications of its transaction (recording
    /// E17).
    holds_ready: bool,
    /// Those of `heard` that UNLISTEN in the present transaction names, on a server that does not listen for the client.
    ///
    /// Invariant: a part of `heard`, however many texts with UNLISTEN the transaction runs.
    unlistened: BTreeSet<ChannelName>,
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

    /// A text that concerns channels goes to a server that does not listen for the client.
    pub(crate) fn note_listens(&mut self, text: &[u8]) {
        self.listens_anew |= !pgweir_sql::may_unlisten(text) || pgweir_sql::may_listen(text);
    }

    /// Whether the present transaction has run UNLISTEN of channels that the listener hears.
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
        let gone = std::mem::take(&mut self.unlistened);
        if gone.is_empty() {
            return None;
        }
        self.heard.retain(|name| !gone.contains(name));
        if !listens_anew {
            self.drop_unheard(&gone);
        }
        Some(gone)
    }

    /// Queues a notification or notice; `later`: it comes after the notifications from the channels' former place.
    /// Returns how many bytes wait now.
    pub(crate) fn queue(&mut self, message: Told, later: bool) -> usize {
        self.unheard_bytes += message.len();
        match later {
            true => self.later.push_back(message),
            false => self.unheard.push_back(message),
        }
        self.unheard_bytes
    }

    /// Whether notifications wait that may be sent at the next moment at which PostgreSQL would send them.
    pub(crate) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// If notifications wait, the client is behind from now on. Returns whether it is and was not before.
    pub(super) fn falls_behind(&mut self) -> bool {
        self.has_unheard() && !std::mem::replace(&mut self.is_behind, true)
    }

    /// The client is taken from the list of clients whose notifications have to wait.
    pub(crate) fn is_tried_again(&mut self) {
        self.is_behind = false;
    }

    /// Takes the notifications that are sent to the client now.
    pub(crate) fn take_unheard(&mut self) -> VecDeque<Told> {
        self.unheard_bytes = self.later.iter().map(|told| told.len()).sum();
        std::mem::take(&mut self.unheard)
    }

    /// The present transaction has run UNLISTEN of this channel, or of all.
    pub(crate) fn note_unlistened(&mut self, name: Option<&[u8]>) {
        let Some(name) = name else {
            return self.unlistened.clone_from(&self.heard);
        };
        // PostgreSQL cuts a name that is too long, between two characters.
        let ends = if name.len() <= NAME_BYTES_MAX {
            name.len()..=name.len()
        } else {
            NAME_BYTES_MAX - 3..=NAME_BYTES_MAX
        };
        self.unlistened
            .extend(ends.filter_map(|end| self.heard.get(&name[..end]).cloned()));
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

    fn hearing(names: &[&[u8]]) -> Channels {
        Channels {
            heard: names.iter().copied().map(ChannelName::from).collect(),
            ..Channels::default()
        }
    }

    #[test]
    fn unlisten_names_a_channel_as_postgresql_cuts_its_name() {
        let long = [b'x'; NAME_BYTES_MAX + 9];
        let mut channels = hearing(&[b"a", b"b", &long[..NAME_BYTES_MAX - 2], &long[..NAME_BYTES_MAX - 4]]);
        channels.note_unlistened(Some(b"a"));
        channels.note_unlistened(Some(&long));
        assert_eq!(channels.commit_unlisten().map(|gone| gone.len()), Some(2));
        assert!(!channels.hears(b"a") && !channels.hears(&long[..NAME_BYTES_MAX - 2]));
        assert!(channels.hears(b"b") && channels.hears(&long[..NAME_BYTES_MAX - 4]));
        channels.note_unlistened(None);
        assert_eq!(channels.commit_unlisten().map(|gone| gone.len()), Some(2));
        assert!(channels.heard.is_empty());
    }

    /// Guards against a transaction that fills the memory: each UNLISTEN of each of its texts was kept until its end.
    #[test]
    fn a_transaction_keeps_no_more_of_its_unlistens_than_there_are_channels() {
        let mut channels = hearing(&[b"a", b"b"]);
        for name in ["a", "a", "other", "other", "a"].repeat(100) {
            channels.note_unlistened(Some(name.as_bytes()));
        }
        assert_eq!(channels.unlistened.len(), 1);
        for _ in 0..100 {
            channels.note_unlistened(None);
        }
        assert_eq!(channels.unlistened.len(), 2);
        channels.forget_unlisten();
        channels.note_unlistened(Some(b"other"));
        assert!(!channels.has_unlistened());
    }
}
