//! LISTEN, UNLISTEN and NOTIFY in clients' messages, and moves that wait.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{INSPECT_BYTES_MAX, Message, STATEMENT_BYTES_MAX, Step};
use crate::base::pin_reason::PinReason;
use crate::base::reasons::Waiting;
use crate::client::Client;
use crate::listening::Listening;
use crate::notify::moving::Moving;
use crate::upstream::phase::Intake;
use pgweir_sql::Condensed;
use pgweir_wire::FrontendTag;
use pgweir_wire::frontend::{BindNames, Parse};
use std::time::Duration;

/// How long a client waits for its listener to get a mark, or a notification that the client has sent to itself; after
/// that the listener is closed.
const MOVE_TIME_MAX: Duration = Duration::from_secs(5);

impl Listening<'_> {
    /// Looks at a message of a client that has a listener, before the message goes to the server. `Some`: it is not
    /// sent now.
    pub(crate) fn mind_channels(&mut self, id: ClientId, server_id: ServerId, message: &Message<'_>) -> Option<Step> {
        let channels = self.clients.get(id.0)?.channels.as_ref()?;
        if !channels.relies_on_listener() && channels.moving().is_at_rest() {
            return None;
        }
        let server = self.servers.get(server_id.0)?;
        // A cancel on its way would hit the internal requests that move channels.
        let is_under_cancel = server.cancels.may_hit();
        let replies_are_due = channels.relies_on_listener()
            && !server.conversation.queue().is_empty()
            && !server.conversation.queue().segment_open();
        if channels.notifies()
            && replies_are_due
            && message.tag != FrontendTag::Flush
            && server.conversation.intake() != Intake::CopyIn
        {
            // Notifications that the previous request sent to the client itself come before the reply to this one. A
            // copy message waits, too, until the copy has begun: if half of a copy message without a copy had been
            // forwarded, ReadyForQuery could not be held back.
            self.client_mut(id).waiting = Waiting::ForReplies;
            return Some(Step::Wait);
        }
        let text = self.text_of(id, message)?;
        if !message.is_whole() && message.tag != FrontendTag::Bind {
            return self.is_kept(server_id, message, &text).then_some(Step::NeedBytes);
        }
        let concerns = self.concerns(server_id, &text);
        let notifies = pgweir_sql::may_notify(&text);
        // A text that outdates the list of channels, and then waits for something else, would outdate the next list, too.
        let waits_for_list = concerns && self.channels_mut(id).is_some_and(|channels| channels.is_server_asked());
        if (concerns || notifies) && replies_are_due || concerns && is_under_cancel || waits_for_list {
            // The meaning of this text depends on the results of the requests before it, and its notifications must not
            // be delivered together with theirs.
            self.client_mut(id).waiting = Waiting::ForReplies;
            return Some(Step::Wait);
        }
        let channels = self.channels_mut(id)?;
        if notifies {
            channels.may_notify();
        }
        if !concerns {
            return None;
        }
        self.channels_may_have_changed(id);
        self.move_back_for(id, server_id, &text)
    }

    /// Whether the rest of a message must come before it is sent; `text` is the part of its text that has come.
    fn is_kept(&mut self, server_id: ServerId, message: &Message<'_>, text: &[u8]) -> bool {
        match message.tag {
            FrontendTag::Query if message.total > INSPECT_BYTES_MAX => {
                let mut condensed = Condensed::default();
                condensed.feed(text);
                message.total <= STATEMENT_BYTES_MAX && self.long_text_concerns(server_id, &condensed)
            }
            _ => message.total <= INSPECT_BYTES_MAX,
        }
    }

    /// A text that asks for or changes the client's channels is about to be sent: if the listener hears some, they move
    /// to the server first. In a transaction they cannot; then the replies show which ones it ends.
    fn move_back_for(&mut self, id: ClientId, server_id: ServerId, text: &[u8]) -> Option<Step> {
        let channels = self.clients.get(id.0)?.channels.as_ref()?;
        if !channels.relies_on_listener() {
            return None;
        }
        let (listener, may_move) = (channels.listener(), *channels.moving() == Moving::No);
        if may_move && self.servers.get(server_id.0)?.is_clean() {
            self.move_back(id, server_id, text);
            if !self.listeners.is_up(listener) {
                self.move_without_listener(id);
            }
            return Some(Step::Wait);
        }
        self.channels_mut(id)?.note_listens(text);
        None
    }

    /// Whether a Query that passes while it arrives may ask for or change the session's channels, as far as it has
    /// come.
    fn long_text_concerns(&mut self, server_id: ServerId, condensed: &Condensed) -> bool {
        match condensed.so_far() {
            Some(text) => self.concerns(server_id, text),
            None => condensed.asks_for_channels(),
        }
    }

    fn concerns(&mut self, server_id: ServerId, text: &[u8]) -> bool {
        pgweir_sql::may_concern_channels(text) || self.at(server_id).names_listen(text)
    }

    /// The last byte of a Query that has passed while it arrived has come. Returns whether the text may ask for or
    /// end channels that the client has on its listener, and not on its server.
    #[cold]
    pub(crate) fn mind_long_text(&mut self, id: ClientId, server_id: ServerId) -> bool {
        let relies = |client: &Client| client.channels.as_ref().is_some_and(|c| c.relies_on_listener());
        let Some(client) = self.clients.get_mut(id.0).filter(|client| relies(client)) else {
            return false;
        };
        let Some(condensed) = client.long_text.take() else {
            return false;
        };
        let concerns = match condensed.so_far() {
            Some(text) => pgweir_sql::may_end_or_list_channels(text) || self.at(server_id).names_listen(text),
            None => condensed.asks_for_channels(),
        };
        if condensed.so_far().is_none_or(pgweir_sql::may_notify)
            && let Some(channels) = self.channels_mut(id)
        {
            channels.may_notify();
        }
        if let Some(client) = self.clients.get_mut(id.0) {
            client.long_text = Some(condensed);
        }
        concerns
    }

    /// The text that a message runs.
    pub(crate) fn text_of(&self, id: ClientId, message: &Message<'_>) -> Option<Vec<u8>> {
        let body = message.body();
        match message.tag {
            FrontendTag::Query => Some(body.strip_suffix(b"\0").unwrap_or(body).to_vec()),
            FrontendTag::Parse if message.is_whole() => Some(Parse::read(body).ok()?.query.to_vec()),
            FrontendTag::Parse => Some(Vec::new()),
            FrontendTag::Bind => {
                let names = BindNames::read(body).ok()?;
                Some(
                    self.clients
                        .get(id.0)?
                        .statements
                        .meaning_of(names.statement)?
                        .query
                        .to_vec(),
                )
            }
            _ => None,
        }
    }

    /// Continues moves that wait for a listener to log in, and ends those that take too long.
    pub(crate) fn time_moves(&mut self) {
        if !self.shared.settings.keeps_sessions && self.listeners.is_empty() {
            return;
        }
        self.hear_what_waits();
        let mut slow = Vec::new();
        for slot in self.servers.slots() {
            let Some(client) = self.servers.get(slot).and_then(|s| self.clients.get(s.link?.0)) else {
                continue;
            };
            match (client.waiting, &client.channels) {
                (Waiting::ForListener { since }, Some(channels)) => {
                    let owes = channels.holds_ready() || channels.moving().is_owed_by_listener();
                    slow.extend(channels.listener().filter(|_| owes && self.now - since > MOVE_TIME_MAX));
                }
                _ if client.session.pins().contains(PinReason::Listening) => self.move_on(ServerId(slot)),
                _ => {}
            }
        }
        for listener in slow {
            // A listener that keeps clients waiting too long.
            if let Some(server_id) = self.listeners.get(listener).and_then(|l| l.server()) {
                self.close_listener(server_id, "listener does not answer");
            }
        }
    }
}
