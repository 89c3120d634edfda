//! The messages of a linked client, one after the other, as long as nothing rare is about.

use crate::base::message::{Message, STATEMENT_BYTES_MAX, Step};
use crate::base::reasons::{Dropping, Passing, Waiting};
use crate::exchange::{Exchange, Wish};
use crate::upstream::reply_queue::{Entry, Expect};
use pgweir_wire::{FrontendTag, Header};

/// Why no further message was dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// There is none, or it must wait.
    Done,
    /// A message has shown that the catalog is to be read; it has been dealt with, or must wait.
    CatalogTold { goes_on: bool },
    /// The next message concerns others, or something must be done in front of it.
    Rare,
}

impl Exchange<'_> {
    /// Deals with messages from `at` on.
    pub(crate) fn pass(&mut self, input: &[u8], at: &mut usize) -> Stopped {
        while *at < input.len() {
            if self.is_rare() {
                return Stopped::Rare;
            }
            let Some(message) = self.next_message(input, *at) else {
                return Stopped::Rare;
            };
            let step = match self.goes_plainly(&message) {
                Some(step) => step,
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
            Some(Wish::CatalogRead) => Stopped::CatalogTold {
                goes_on: self.takes_step(step, message, at),
            },
            // The message is dealt with again when it has been granted.
            _ => Stopped::Rare,
        }
    }

    /// What has come of a message; whether the next one can be dealt with.
    #[inline]
    fn takes_step(&mut self, step: Step, message: &Message<'_>, at: &mut usize) -> bool {
        match step {
            Step::Progress(bytes) => *at += bytes,
            Step::NeedBytes => self.client.needs_whole(message.tag, message.total),
            Step::Wait | Step::Closed => {}
        }
        matches!(step, Step::Progress(_))
    }

    /// Whether something must be looked at, or done, in front of the next message.
    #[inline]
    fn is_rare(&self) -> bool {
        self.client.passing != Passing::None
            || self.client.waiting != Waiting::No
            || self.client.dropping != Dropping::Nothing
            || self.client.attends()
            || self.server.session.has_traces()
            || self.server.holds_back()
    }

    /// The next message, unless it is malformed, has not come, or is none for a server.
    #[inline]
    fn next_message<'m>(&self, input: &'m [u8], at: usize) -> Option<Message<'m>> {
        let header = Header::read(&input[at..]).ok()??;
        let tag = FrontendTag::from_byte(header.tag)?;
        let is_for_server = match tag {
            FrontendTag::Terminate | FrontendTag::Password => false,
            FrontendTag::Query => !self.shared.settings.disable_pqexec,
            _ => true,
        };
        if !is_for_server || header.message_bytes > self.shared.settings.max_packet_bytes {
            return None;
        }
        Some(Message::new(tag, header, input, at))
    }

    /// The short way of Execute, Sync and Describe of a portal: in the midst of a segment they go to the server as they are.
    /// `None`: nothing was done, as something rare may be about.
    #[inline]
    fn goes_plainly(&mut self, message: &Message<'_>) -> Option<Step> {
        let client = &*self.client;
        let expect = match message.tag {
            FrontendTag::Execute if client.statements.bound_ends.is_none() && client.session.bound_reset.is_none() => {
                Expect::Execute
            }
            FrontendTag::Describe if client.statements.bound.is_none() && message.describes_portal() => {
                Expect::Describe
            }
            FrontendTag::Sync => Expect::Sync,
            _ => return None,
        };
        if !message.is_whole()
            || !self.server.conversation.is_in_segment()
            || self.server.conversation.queue.statements_in_doubt()
        {
            return None;
        }
        self.server.conversation.queue.push(Entry::forward(expect));
        self.pool.stats.bytes_received += message.total as u64;
        self.shared
            .outbox
            .forward(self.server_id.into(), message.at..message.at + message.total);
        Some(Step::Progress(message.total))
    }

    /// A message for the server, which may be the first of a request or of a transaction.
    #[inline]
    pub(crate) fn begins_request(&mut self, message: &Message<'_>) -> Step {
        if self.server.conversation.queue.is_empty() {
            self.server.conversation.request_time = self.now;
            if self.server.is_clean() {
                self.client.xact_start = self.now;
            }
        }
        self.request(message)
    }
}

impl crate::client::Client {
    /// A message has come in part: it is not worth looking at again before the rest has come. Of a Bind its names are enough,
    /// and what is longer than a statement is never awaited to its end.
    #[cold]
    pub(crate) fn needs_whole(&mut self, tag: FrontendTag, total: usize) {
        if tag != FrontendTag::Bind && total <= STATEMENT_BYTES_MAX {
            self.needs_bytes = total as u32;
        }
    }
}
