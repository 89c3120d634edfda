//! Moving a client's channels from its server to a listener connection, and back.
//!
//! LISTEN runs on the client's server, as it was sent, in any transaction. So PostgreSQL itself decides whether it
//! takes effect (commit, rollback, savepoints) and when. While a server listens for its client, the client is pinned to
//! it. *Away*: the channels move to the listener connection of the client's pool, and the server is free. *Back*:
//! before a statement that asks for or changes the client's channels, they move to the server that the client has, and
//! PostgreSQL itself answers.
//!
//! No notification is lost or delivered twice on the way. Both places listen for a while, and the server sends a
//! *mark*, an internal notification. All notifications of a database are in one queue, so both places see the mark at
//! the same point: notifications before it are delivered by the old place, later ones by the new place.
//!
//! ```text
//! server    LISTEN a ... a1 a2 mark         UNLISTEN *
//! listener                LISTEN a   a2 mark a3 a4
//! client                  a1 a2          a3 a4
//! ```

use crate::base::close_reason::CloseReason;
use crate::base::ids::ListenerId;
use crate::base::ids::{ClientId, ServerId};
use crate::base::pin_reason::PinReason;
use crate::base::reasons::{Passing, Waiting};
use crate::base::request::Request;
use crate::listening::Listening;
use crate::notify::channels::Notification;
use crate::notify::moving::{Advanced, Answered, Moving, number};
use crate::upstream::job::Job;
use pgweir_sql::channel_command;

impl Listening<'_> {
    /// Takes the next step of the move to the listener, if the client is between transactions and its server listens
    /// for it.
    pub(crate) fn move_on(&mut self, server_id: ServerId) {
        let Some(server) = self.servers.get(server_id.0) else {
            return;
        };
        let Some(id) = server.link.filter(|&id| self.keeps_session(id)) else {
            return;
        };
        let busy =
            server.session.restoration().is_some() || server.session.probe().is_some() || server.cancels.may_hit();
        if !server.is_clean() || busy {
            return;
        }
        let client = self.client_mut(id);
        // Half of a copy message, which the server ignores, may have been forwarded: the next try comes after the other
        // half.
        if client.waiting != Waiting::No
            || client.passing != Passing::None
            || !client.session.pins().contains(PinReason::Listening)
            || !client.is_session()
        {
            return;
        }
        let channels = client.channels.get_or_insert_default();
        let (asks, goes) = match channels.moving() {
            Moving::No => (!channels.awaits_listener(), false),
            Moving::Wanted { listens, .. } => (false, *listens),
            _ => (false, false),
        };
        if goes {
            self.move_away(id, server_id);
        } else if asks && self.listener_of(id).is_some() {
            self.ask_channels(id, server_id);
        }
    }

    fn ask_channels(&mut self, id: ClientId, server_id: ServerId) {
        self.channels_mut(id).expect("made by the caller").asks_server();
        let statement = self.shared.internal.listening_channels.clone();
        let deferrable = self.server_mut(server_id).session.shape().is_deferrable();
        let asks = Job::ListChannels;
        if deferrable {
            self.at(server_id).begin_internal(asks);
        }
        self.at(server_id).runs_for(asks, &statement, &[]);
        if deferrable {
            self.at(server_id).commit_internal(asks);
        }
        self.at(server_id).end_internal_segment();
        if deferrable {
            self.at(server_id).rollback_internal();
        }
    }

    /// The client may have changed its channels: the channels that its server has listed are no longer valid.
    pub(crate) fn channels_may_have_changed(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let Some(channels) = client.channels.as_mut() else {
            return;
        };
        if !client.session.pins().contains(PinReason::Listening) {
            channels.listens_no_more();
        }
        let Some(gone) = channels.may_have_changed() else {
            return;
        };
        if let Some(listener) = channels.listener() {
            self.stop_hearing(listener, id, gone);
        }
    }

    /// Sends the mark, after which the server can stop listening.
    fn move_away(&mut self, id: ClientId, server_id: ServerId) {
        let mark = self.listeners.new_mark(id);
        let process_id = self.process_id_of(server_id);
        let channels = self.channels_mut(id).expect("looked up by the caller");
        if !channels.move_away(mark, process_id) {
            return;
        }
        self.client_mut(id).waiting = Waiting::ForListener { since: self.now };
        self.send_mark(server_id, mark);
        self.at(server_id).end_internal_segment();
    }

    /// Moves the client's channels to its server, which is clean. If there is no listener,
    /// [`Listening::move_without_listener`] must follow.
    pub(crate) fn move_back(&mut self, id: ClientId, server_id: ServerId, text: &[u8]) {
        let mark = self.listeners.new_mark(id);
        let process_id = self.process_id_of(server_id);
        let channels = self.channels_mut(id).expect("looked up by the caller");
        let names = channels.move_back(mark, process_id);
        self.client_mut(id).waiting = Waiting::ForListener { since: self.now };
        self.between(id, server_id).pin_by(PinReason::Listening, text);
        for name in &names {
            self.at(server_id).internal_command(&channel_command("LISTEN", name));
        }
        self.send_mark(server_id, mark);
        self.at(server_id).end_internal_segment();
    }

    fn send_mark(&mut self, server_id: ServerId, mark: u64) {
        let channel = self.listeners.mark_channel().as_bytes();
        let (listen, mut notify) = (channel_command("LISTEN", channel), channel_command("NOTIFY", channel));
        self.at(server_id).internal_command(&listen);
        notify.extend_from_slice(format!(", '{mark}'").as_bytes());
        self.at(server_id).internal_command(&notify);
    }

    /// The server has answered a step of a move, perhaps with an error.
    pub(crate) fn move_answered(&mut self, server_id: ServerId) {
        let Some(server) = self.servers.get_mut(server_id.0) else {
            return;
        };
        let failed = server.session.move_ends();
        let Some(id) = server.link else { return };
        let Some(channels) = self.channels_mut(id) else { return };
        match channels.server_answers(failed) {
            Answered::Nothing => {}
            Answered::Listed(names) if names.is_empty() => self.listens_no_more(id),
            Answered::Listed(names) => self.want_channels(id, names),
            Answered::Refused(mark) => {
                self.listeners.forget_mark(mark);
                self.goes_on(id);
            }
            Answered::Marked { away: true } => {
                self.at(server_id).internal_command(b"UNLISTEN *");
                self.at(server_id).end_internal_segment();
            }
            Answered::Marked { away: false } => self.unlisten_marks(server_id),
            Answered::Done => {
                if failed {
                    let server = self.server_mut(server_id);
                    server.close_reason.get_or_insert(CloseReason::ChannelsUnknown);
                }
                // The caller decides whether the server is released.
                self.moved(id);
            }
        }
    }

    /// The server no longer listens to the channel for marks.
    fn unlisten_marks(&mut self, server_id: ServerId) {
        let unlisten = channel_command("UNLISTEN", self.listeners.mark_channel().as_bytes());
        self.at(server_id).internal_command(&unlisten);
        self.at(server_id).end_internal_segment();
    }

    /// The server has sent its client all notifications before a mark.
    pub(crate) fn server_passed_mark(&mut self, id: ClientId, mark: &Notification<'_>) {
        let is_its = self.channels_mut(id).is_some_and(|c| c.server_passes(mark));
        if is_its && self.moved(id) {
            self.release_if_clean(id);
        }
    }

    /// A listener has received all notifications before a mark. All listeners of the database receive all marks.
    pub(crate) fn listener_passed_mark(&mut self, listener: ListenerId, mark: &Notification<'_>) {
        let Some(id) = number(mark.payload).and_then(|mark| self.listeners.client_of_mark(mark)) else {
            return;
        };
        if self.channels_mut(id).is_some_and(|c| c.is_marked_by(listener, mark)) {
            self.listener_has_passed(id);
        }
    }

    /// The listener has passed the mark, or there is no listener that could. The list of the channels that the listener
    /// hears for the client changes only when the server has passed the mark, too: until then the list decides which of
    /// the two delivers a notification that the server receives.
    pub(crate) fn listener_has_passed(&mut self, id: ClientId) {
        let Some(channels) = self.channels_mut(id) else { return };
        if !channels.listener_passes() {
            return;
        }
        match (channels.listener(), channels.moved_away().cloned()) {
            (Some(listener), Some(names)) => self.listeners.begin_telling(listener, id, &names),
            // From here on the server receives what the listener receives.
            (Some(listener), None) => self.stop_hearing_all(listener, id),
            (None, _) => {}
        }
        if self.moved(id) {
            self.release_if_clean(id);
        }
    }

    /// The listener is lost, or was lost when the move began. A client whose channels move back gets notifications from
    /// its server at once; a client whose channels were moving away stays, if its server still listens.
    pub(crate) fn move_without_listener(&mut self, id: ClientId) {
        let Some(channels) = self.channels_mut(id) else { return };
        if let Some((names, mark)) = channels.stay_without_listener() {
            if let Some(listener) = channels.listener() {
                self.stop_hearing(listener, id, names);
            }
            self.listeners.forget_mark(mark);
            if let Some(server_id) = self.link_of(id) {
                self.unlisten_marks(server_id);
            }
            return self.goes_on(id);
        }
        if matches!(channels.moving(), Moving::Back(_)) {
            self.tell_of_gap(&[id]);
            if let Some(channels) = self.channels_mut(id) {
                channels.listener_hears_nothing();
            }
        }
        self.listener_has_passed(id);
    }

    fn process_id_of(&self, server_id: ServerId) -> Option<u32> {
        self.servers.get(server_id.0)?.cancels.process_id()
    }

    /// Ends the move if both places have passed the mark and the server has finished.
    fn moved(&mut self, id: ClientId) -> bool {
        let Some(channels) = self.channels_mut(id) else {
            return false;
        };
        let advanced = channels.advance();
        if advanced == Advanced::NoMove {
            return false;
        }
        if let Advanced::Over { mark, away } = advanced {
            self.listeners.forget_mark(mark);
            if away {
                self.shared.state_stats.listens_moved += 1;
                self.listens_no_more(id);
            }
            self.goes_on(id);
        }
        self.hear(id);
        advanced != Advanced::UnderWay
    }

    /// The client's server no longer listens for it.
    fn listens_no_more(&mut self, id: ClientId) {
        let client = self.clients.get_mut(id.0).expect("looked up by the caller");
        let stats = &mut self.shared.state_stats;
        client.session.pins_end([PinReason::Listening], stats);
        if let Some(channels) = client.channels.as_mut() {
            channels.listens_no_more();
        }
    }

    /// A client that waited for the listener may go on.
    pub(crate) fn goes_on(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id.0)
            && matches!(client.waiting, Waiting::ForListener { .. })
        {
            client.waiting = Waiting::No;
            self.shared.requests.push_back(Request::Resume(id.into()));
        }
    }
}
