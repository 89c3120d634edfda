//! The messages of a linked client, one after the other, until a rare case comes.

use crate::base::message::{INSPECT_BYTES_MAX, Message, STATEMENT_BYTES_MAX, Step};
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::exchange::{Exchange, Wish};
use crate::flow::binding::write_bind;
use crate::preparing::replanning::{Need, expected_rows, need_of};
use crate::statements::unnamed::Unnamed;
use crate::upstream::entry::Expect;
use pgweir_wire::frontend::BindNames;
use pgweir_wire::{FrontendTag, HEADER_BYTES, Header};

/// Why the next message was not handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There is no next message, or it must wait.
    Done,
    /// A message has shown that the catalog must be read. It was handled, or must wait.
    CatalogTold { goes_on: bool },
    /// The next message concerns other connections, or something must be done before it.
    Rare,
}

impl Exchange<'_> {
    /// Handles messages from `at` on.
    #[inline(always)]
    pub(crate) fn pass(&mut self, input: &[u8], at: &mut usize) -> Stopped {
        while *at < input.len() {
            if self.is_rare() {
                return Stopped::Rare;
            }
            if self.rest_goes_plainly(input, at) {
                continue;
            }
            let Some(message) = self.next_message(input, *at) else {
                return Stopped::Rare;
            };
            let step = match self.goes_plainly(&message) {
                Some(step) => step,
                None if self.may_ask_for_custom_settings(&message) => return Stopped::Rare,
                None => self.begins_request(&message),
            };
            if self.wish.is_some() {
                return self.stops_with_wish(step, &message, at);
            }
            if !self.takes_step(step, &message, at) {
                return Stopped::Done;
            }
        }
        Stopped::Done
    }

    #[cold]
    fn stops_with_wish(&mut self, step: Step, message: &Message<'_>, at: &mut usize) -> Stopped {
        match self.wish.take() {
            Some(Wish::CatalogNews) => Stopped::CatalogTold {
                goes_on: self.takes_step(step, message, at),
            },
            // The message is handled again after its wish was granted.
            _ => Stopped::Rare,
        }
    }

    /// Carries out the result of a message. Returns whether the next one can be handled.
    #[inline]
    fn takes_step(&mut self, step: Step, message: &Message<'_>, at: &mut usize) -> bool {
        match step {
            Step::Progress(bytes) => *at += bytes,
            Step::NeedBytes => self.client.needs_more(message),
            Step::Wait | Step::Closed => {}
        }
        matches!(step, Step::Progress(_))
    }

    /// Whether something must be checked or done before the next message.
    #[inline]
    fn is_rare(&self) -> bool {
        self.client.passing != Passing::None
            || self.client.waiting != Waiting::No
            || self.client.dropping != Dropping::Nothing
            || self.client.attends()
            || self.server.session.has_temporary_schema()
            || self.server.holds_back()
    }

    /// The next message, unless it is malformed, incomplete, or not meant for a server.
    #[inline]
    fn next_message<'m>(&self, input: &'m [u8], at: usize) -> Option<Message<'m>> {
        let header = Header::read(&input[at..]).ok()??;
        let tag = FrontendTag::from_byte(header.tag)?;
        let is_for_server = match tag {
            FrontendTag::Terminate | FrontendTag::Password => false,
            FrontendTag::Query => !self.shared.settings.disable_pqexec,
            _ => true,
        };
        let settings = &self.shared.settings;
        let may_be_too_long = header.message_bytes > settings.any_packet_bytes;
        let is_too_long = may_be_too_long && (tag.is_short() || header.message_bytes > settings.max_packet_bytes);
        if !is_for_server || is_too_long {
            return None;
        }
        Some(Message::new(tag, header, input, at))
    }

    /// The short way of the messages that nearly all traffic consists of. `None`: nothing was done, because a rare case
    /// may apply.
    #[inline(always)]
    fn goes_plainly(&mut self, message: &Message<'_>) -> Option<Step> {
        if !message.is_whole() || self.server.conversation.queue().statements_in_doubt() {
            return None;
        }
        match message.tag {
            FrontendTag::Bind => self.binds_plainly(message),
            FrontendTag::Query => self.asks_plainly(message),
            _ => None,
        }
    }

    /// The short way of the rest of a segment: complete Describe of a portal, Execute and Sync messages go to the
    /// server unchanged, in one piece. Returns whether there were some.
    #[inline(always)]
    fn rest_goes_plainly(&mut self, input: &[u8], at: &mut usize) -> bool {
        let conversation = &mut self.server.conversation;
        if !conversation.is_in_segment() || conversation.queue().statements_in_doubt() {
            return false;
        }
        let statements = &self.client.statements;
        let executes = !statements.has_careful_portals() && !self.server.session.has_definitions();
        let describes = !statements.has_untold_portal();
        let begin = *at;
        while let Some(Ok(Some(header))) = input.get(*at..).map(Header::read) {
            let end = *at + header.message_bytes as usize;
            if end > input.len() || header.message_bytes > self.shared.settings.any_packet_bytes {
                break;
            }
            match header.tag {
                b'E' if executes => conversation.queue_mut().push_part(Expect::Execute, 0),
                b'D' if describes && input.get(*at + HEADER_BYTES) == Some(&b'P') => {
                    conversation.queue_mut().push_part(Expect::Describe, 0);
                }
                b'S' => {
                    conversation.queue_mut().push_end(Expect::Sync);
                    *at = end;
                    break;
                }
                _ => break,
            }
            *at = end;
        }
        if *at == begin {
            return false;
        }
        self.pool.stats_mut().bytes_received += (*at - begin) as u64;
        self.shared.outbox.forward(self.server_id.into(), begin..*at);
        true
    }

    /// Sends a complete message to the server unchanged.
    #[inline(always)]
    fn forward_plainly(&mut self, message: &Message<'_>) -> Step {
        self.pool.stats_mut().bytes_received += message.total as u64;
        self.shared
            .outbox
            .forward(self.server_id.into(), message.at..message.at + message.total);
        Step::Progress(message.total)
    }

    /// A Query that changes nothing in the session, for a server that owes nothing. So no unanswered statement can
    /// change the client's encoding: see [`Exchange::may_be_misread`].
    #[inline(always)]
    fn asks_plainly(&mut self, message: &Message<'_>) -> Option<Step> {
        let conversation = &self.server.conversation;
        let is_usual = conversation.owes_nothing()
            && self.looks_at_texts()
            && self.tracks_statements()
            && self.client.statements.unnamed().is_none()
            && !self.client.statements.has_untold_portal()
            && !self.client.statements.has_careful_portals()
            && message.total <= INSPECT_BYTES_MAX
            && !self.client.session.shape().hides_ascii()
            && !self.to().knows_names();
        let [text @ .., 0] = message.body() else { return None };
        if !is_usual || !pgweir_sql::is_plain(text) {
            return None;
        }
        self.notes_beginning();
        self.server.held.unnamed_becomes(Unnamed::Nothing);
        self.server.conversation.queue_mut().push_end(Expect::Query);
        Some(self.forward_plainly(message))
    }

    /// A Bind of a statement that the server holds, that changes nothing in the session and whose rows the client
    /// knows. A statement whose text may have been misread has effects.
    #[inline(always)]
    fn binds_plainly(&mut self, message: &Message<'_>) -> Option<Step> {
        let is_usual = self.server.conversation.takes_requests()
            && self.tracks_statements()
            && !self.client.statements.has_careful_portals()
            && !self.to().knows_names();
        let names = BindNames::read(message.body()).ok().filter(|_| is_usual)?;
        let meaning = self.client.statements.named(names.statement)?;
        let statement = &**meaning.statement();
        let is_plain = statement.effects.is_empty()
            && !statement.ends_some()
            && statement
                .settings
                .is_surely(self.client.session.shape().parse_settings());
        meaning.told().filter(|_| is_plain)?;
        let told = expected_rows(meaning, message, names.portal);
        if need_of(meaning, self.server, told, self.shared.statements.now()) != Need::Nothing {
            return None;
        }
        let header = HEADER_BYTES + names.wire_bytes();
        write_bind(&mut self.shared.outbox, self.server_id, message, &names, statement);
        self.shared
            .outbox
            .forward(self.server_id.into(), message.at + header..message.at + message.total);
        let uses = statement.id;
        self.client.statements.take_untold_portal();
        self.notes_beginning();
        self.pool.stats_mut().bytes_received += message.total as u64;
        self.pool.stats_mut().bind_count += 1;
        self.server.conversation.queue_mut().push_part(Expect::Bind, uses);
        Some(Step::Progress(message.total))
    }

    /// Whether the client's prepared statements are tracked.
    #[inline]
    fn tracks_statements(&self) -> bool {
        self.shared.settings.tracks_statements_of(self.pool.settings())
    }

    /// A message for the server, perhaps the first of a request or a transaction.
    #[inline]
    pub(crate) fn begins_request(&mut self, message: &Message<'_>) -> Step {
        self.notes_beginning();
        self.request(message)
    }

    /// The times of a request and of a transaction count from their first messages.
    #[inline(always)]
    fn notes_beginning(&mut self) {
        if self.server.conversation.queue().is_empty() {
            self.server.conversation.query_begins(self.now);
            if self.server.is_clean() {
                self.client.xact_start = self.server.asked.unwrap_or(self.now);
            }
        }
    }
}

impl crate::client::Client {
    /// A message has come in part and need not be looked at again before enough of it has come. Where the end of the
    /// names in a Bind is not known, that is twice as much as has come. For a message longer than any statement the core
    /// never waits for the rest. If the client has no server, it waits for the message's beginning.
    #[cold]
    pub(crate) fn needs_more(&mut self, message: &Message<'_>) {
        let (tag, total) = (message.tag, message.total);
        let names_are_cut = tag == FrontendTag::Bind && BindNames::read(message.body()).is_err();
        self.needs_bytes = match tag {
            _ if names_are_cut => total.min(2 * message.bytes.len()) as u32,
            _ if total <= STATEMENT_BYTES_MAX => total as u32,
            _ if self.link.is_none() => Message::before_server_bytes(tag) as u32,
            _ => 0,
        };
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
