//! Delivering notifications to clients at the moments at which PostgreSQL would.

use crate::base::consequence::{ClientFailure, Consequence};
use crate::base::errors::Trouble;
use crate::base::ids::{ClientId, ServerId};
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::base::settings::Settings;
use crate::listening::Listening;
use crate::notify::channels::{Notification, PROCESS_ID, Told, UNHEARD_BYTES_MAX};
use crate::server::Server;
use pgweir_wire::{HEADER_BYTES, TransactionStatus, Writer};

impl Listening<'_> {
    /// Queues a notification or notice for a client; `later`: it comes after the notifications from the channels'
    /// former place.
    pub(crate) fn tell(&mut self, id: ClientId, message: &Told, later: bool) {
        let bytes_max = backlog_bytes_max(&self.shared.settings);
        let Some(channels) = self.channels_mut(id) else { return };
        if channels.queue(message.clone(), later) > bytes_max {
            return self.too_far_behind(id);
        }
        self.hear(id);
    }

    /// Sends a client the notifications that may be sent now; the others wait.
    pub(crate) fn hear(&mut self, id: ClientId) {
        if self.may_hear(id) {
            self.say_unheard(id);
        } else if let Some(channels) = self.clients.get_mut(id.0).and_then(|c| c.channels.as_mut()) {
            self.listeners.falls_behind(id, channels);
        }
    }

    /// Whether PostgreSQL would send a notification now: between transactions, and not inside a reply.
    fn may_hear(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(id.0) else {
            return false;
        };
        let holds_ready = client.channels.as_ref().is_some_and(|c| c.holds_ready());
        let server = client.link.and_then(|s| self.servers.get(s.0));
        client.is_session()
            && client.session.deferred_begin().is_none()
            && client.dropping == Dropping::Nothing
            && server.is_none_or(|s: &Server| holds_ready || s.is_clean())
            && !server.is_some_and(Server::is_inside_message)
    }

    /// Sends a client all waiting notifications. The caller knows that this is the right moment.
    pub(crate) fn say_unheard(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let Some(channels) = client.channels.as_mut().filter(|c| c.has_unheard()) else {
            return;
        };
        let messages = channels.take_unheard();
        self.shared.state_stats.notifications += messages.len() as u64;
        self.shared.outbox.insert(id.into(), |to| {
            for message in &messages {
                to.extend_from_slice(message);
            }
        });
    }

    /// Tries again to send the notifications that had to wait.
    pub(crate) fn hear_what_waits(&mut self) {
        for id in self.listeners.take_behind() {
            if let Some(channels) = self.channels_mut(id) {
                channels.is_tried_again();
            }
            self.hear(id);
        }
    }

    /// A notification from a client's server, which listens for the client. Returns whether the client gets it
    /// unchanged.
    pub(crate) fn own_server_notifies(&mut self, server_id: ServerId, message: &[u8]) -> bool {
        let Some(server) = self.servers.get(server_id.0) else {
            return false;
        };
        let listens = |id: &ClientId| self.clients.get(id.0).is_some_and(|c| c.channels.is_some());
        let Some(id) = server.link.filter(|id| listens(id) || self.keeps_session(*id)) else {
            return true;
        };
        let Ok(notification) = Notification::read(&message[HEADER_BYTES..]) else {
            return true;
        };
        if self.listeners.is_mark(&notification) {
            self.server_passed_mark(id, &notification);
            return false;
        }
        let own = self.is_own_server(id, notification.process_id);
        if let Some(channels) = self.channels_mut(id) {
            let later = channels.moving().is_back_and_passed();
            // The listener receives this notification, too, and delivers it.
            if !later && (channels.hears(notification.channel) || channels.moving().server_has_done()) {
                return false;
            }
            if later || channels.has_unheard() {
                let told = if own {
                    from_itself(self.process_id_told(id), message)
                } else {
                    message.into()
                };
                self.tell(id, &told, later);
                return false;
            }
        }
        if own {
            let told = from_itself(self.process_id_told(id), message);
            self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&told));
        }
        !own
    }

    /// The process id that a client was told.
    fn process_id_told(&self, id: ClientId) -> u32 {
        self.clients.get(id.0).map_or(0, |client| client.process_id)
    }

    /// Whether a client's server has this process id.
    fn is_own_server(&self, id: ClientId, process_id: u32) -> bool {
        let server = self.clients.get(id.0).and_then(|c| self.servers.get(c.link?.0));
        server.is_some_and(|s| s.cancels.process_id() == Some(process_id))
    }

    /// A notification as a client gets it: if the client may have sent it to itself, the notification names the process
    /// id that the client was told.
    pub(crate) fn told_to(&self, id: ClientId, process_id: u32, message: &Told) -> Told {
        let channels = self.clients.get(id.0).and_then(|c| c.channels.as_ref());
        if channels.is_some_and(|c| c.may_get_its_own()) && self.is_own_server(id, process_id) {
            from_itself(self.process_id_told(id), message)
        } else {
            message.clone()
        }
    }

    /// A client's transaction has ended, and its ReadyForQuery is due. Returns whether ReadyForQuery is held back until
    /// the listener has received the notifications that the client may have sent to itself in the transaction.
    pub(crate) fn transaction_ended(&mut self, id: ClientId, server_id: ServerId) -> bool {
        self.apply_unlistened(id);
        self.say_unheard(id);
        let clean = self.servers.get(server_id.0).is_some_and(|s| s.is_clean());
        let client = self.client_mut(id);
        let idle = clean && client.passing == Passing::None && client.waiting == Waiting::No;
        let Some(channels) = client.channels.as_deref_mut() else {
            return false;
        };
        channels.transaction_ended();
        // A request after the one that has ended may contain the NOTIFY.
        if !idle || !channels.take_notifies() {
            return false;
        }
        let Some(listener) = channels.listener().filter(|_| channels.relies_on_listener()) else {
            return false;
        };
        if !self.ask_barrier(listener, id) {
            return false;
        }
        let since = self.now;
        let client = self.client_mut(id);
        client.waiting = Waiting::ForListener { since };
        client.channels.as_mut().expect("looked at above").hold_ready();
        true
    }

    /// The listener has received everything that was sent before the client's transaction ended.
    pub(crate) fn barrier_passed(&mut self, id: ClientId) {
        if !self.channels_mut(id).is_some_and(|c| c.release_ready()) {
            return;
        }
        self.say_unheard(id);
        self.shared.outbox.insert(id.into(), |to| {
            Writer::new(to).ready_for_query(TransactionStatus::Idle);
        });
        self.goes_on(id);
        let always = self.shared.settings.probe_always;
        let client = self.client_mut(id);
        if always {
            client.session.uses_server();
        }
        self.release_if_clean(id);
    }

    /// A transaction with UNLISTEN has committed: removes those channels at the listener.
    pub(crate) fn apply_unlistened(&mut self, id: ClientId) {
        let Some(channels) = self.channels_mut(id) else { return };
        let Some(gone) = channels.commit_unlisten() else {
            return;
        };
        if let Some(listener) = channels.listener() {
            self.stop_hearing(listener, id, gone);
        }
    }

    /// More notifications wait for a client than `max_notification_backlog` allows.
    pub(crate) fn too_far_behind(&mut self, id: ClientId) {
        let bytes_max = backlog_bytes_max(&self.shared.settings);
        let detail = format!("expected at most {bytes_max} bytes of notifications to wait for a client");
        let hint = "Read from the connection while it is idle, and keep transactions of a connection that listens short. \
                    The limit is the setting max_notification_backlog.";
        self.consequences
            .push_back(Consequence::FailClient(Box::new(ClientFailure {
                client: id,
                trouble: Trouble::NotificationsUnread,
                message: "too many notifications wait for the client",
                detail,
                hint,
            })));
    }

    /// A client leaves: nothing listens for it any more.
    pub(crate) fn forget_channels(&mut self, id: ClientId) {
        let Some(channels) = self.clients.get_mut(id.0).and_then(|c| c.channels.take()) else {
            return;
        };
        if let Some(listener) = channels.listener() {
            self.stop_hearing_all(listener, id);
        }
        self.listeners.forget_client(&channels);
    }
}

/// The most bytes of notifications that may wait for one client.
pub(crate) fn backlog_bytes_max(settings: &Settings) -> usize {
    settings.notification_backlog_bytes.max(UNHEARD_BYTES_MAX)
}

/// A notification that a client has sent itself.
fn from_itself(process_id: u32, message: &[u8]) -> Told {
    let mut told = message.to_vec();
    told[PROCESS_ID].copy_from_slice(&process_id.to_be_bytes());
    told.into()
}
