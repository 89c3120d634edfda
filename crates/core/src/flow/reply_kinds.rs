//! What becomes of a server's message, by its kind.

use crate::base::close_reason::CloseReason;
use crate::base::deeds::Question;
use crate::base::reasons::Passed;
use crate::flow::replies::{SEEN_WHOLE_BYTES_MAX, forwards};
use crate::reply::Reply;
use crate::statements::rows::Rows;
use crate::upstream::entry::{Entry, Expect};
use crate::upstream::phase::ServerPhase;
use pgweir_wire::{BackendTag, HEADER_BYTES, Header};

impl Reply<'_> {
    /// Handles one message that [`Server::passes_plainly`] has not handled and that is no complete ReadyForQuery.
    pub(super) fn message(&mut self, header: Header, bytes: &[u8], whole: bool) -> Passed {
        let Some(tag) = BackendTag::from_byte(header.tag) else {
            return self.misbehaves(format!("unknown pkt: {:?}", char::from(header.tag)));
        };
        if !whole && self.must_be_whole(tag) {
            if header.message_bytes as usize <= SEEN_WHOLE_BYTES_MAX {
                return Passed::NeedBytes;
            }
            // The beginning of a description is useful, too.
            if !describes(tag) {
                return self.misbehaves(format!("message {tag:?} of {} bytes", header.message_bytes));
            }
        }
        let body = &bytes[HEADER_BYTES.min(bytes.len())..];
        match tag {
            BackendTag::ErrorResponse => self.error(header.message_bytes as usize, bytes, whole),
            BackendTag::ParameterStatus => self.parameter_status(body),
            BackendTag::NotificationResponse => self.notification(),
            // Notices about the client's Parse were already sent; a client that is logging in gets none.
            BackendTag::NoticeResponse if self.is_of_session() => self.forward(),
            BackendTag::NoticeResponse => Passed::Skip,
            BackendTag::CopyInResponse | BackendTag::CopyBothResponse => self.copy_begins(tag),
            _ => self.part_of_reply(tag, body, whole),
        }
    }

    /// Forwards to the client, if the reply that is due is for it.
    fn forward(&self) -> Passed {
        if self.is_linked() && forwards(self.server) {
            Passed::Forward
        } else {
            Passed::Skip
        }
    }

    fn must_be_whole(&self, tag: BackendTag) -> bool {
        match tag {
            BackendTag::CommandComplete
            | BackendTag::ReadyForQuery
            | BackendTag::ParameterStatus
            | BackendTag::NotificationResponse => true,
            BackendTag::NoticeResponse => !self.is_linked(),
            tag => describes(tag) && self.server.conversation.queue().front().is_some_and(|e| e.uses() > 0),
        }
    }

    /// A message that belongs to the reply at the front of the queue.
    fn part_of_reply(&mut self, tag: BackendTag, body: &[u8], whole: bool) -> Passed {
        let forward = self.forward();
        let Some(expect) = self.server.conversation.queue().front().map(|e| e.expect()) else {
            return self.misbehaves(format!("unexpected message {tag:?}"));
        };
        match (tag, expect) {
            (BackendTag::BindComplete, Expect::Bind)
            | (BackendTag::ParseComplete, Expect::Parse | Expect::ParseUnnamed)
            | (BackendTag::CloseComplete, Expect::Close)
            | (BackendTag::RowDescription | BackendTag::NoData, Expect::Describe)
            | (BackendTag::EmptyQueryResponse | BackendTag::PortalSuspended, Expect::Execute) => {
                let entry = self.server.conversation.queue_mut().pop().expect("looked at above");
                if tag == BackendTag::ParseComplete
                    && entry
                        .replacement()
                        .is_some_and(|r| r.instead_of(b"42P05", b"").is_some())
                {
                    // The request should have failed: the pooler's record of the server's statements is wrong.
                    self.server.close_reason.get_or_insert(CloseReason::OutOfStep);
                }
                if expect == Expect::Execute {
                    self.ends_nothing(entry);
                } else if expect == Expect::Describe && entry.uses() > 0 {
                    let rows = match tag {
                        BackendTag::NoData => Rows::NONE,
                        _ if whole => Rows::read(body).unwrap_or(Rows::UNREAD),
                        _ => Rows::UNREAD,
                    };
                    self.described(entry, rows);
                }
            }
            (BackendTag::ParameterDescription, Expect::Describe)
                if whole && self.server.conversation.queue().front().is_some_and(|e| e.uses() > 0) =>
            {
                self.types_described(body);
            }
            (BackendTag::CommandComplete, Expect::Execute | Expect::Query) => self.command_completes(body),
            // Parts of a reply: RowDescription of a Query, ParameterDescription, CopyOutResponse, CopyDone, ...
            _ => {}
        }
        forward
    }

    fn notification(&mut self) -> Passed {
        if matches!(self.server.phase, ServerPhase::Listening) {
            return Passed::Asks(Question::ListenerHears);
        }
        // No client listens on a server without a client.
        if !self.is_linked() {
            return Passed::Skip;
        }
        match self.is_of_session() {
            true => self.asks(Question::OwnNotification),
            false => {
                self.flush();
                Passed::Skip
            }
        }
    }

    fn copy_begins(&mut self, tag: BackendTag) -> Passed {
        if !self.server.conversation.queue().front().is_some_and(Entry::may_copy) {
            return self.misbehaves("unexpected copy response".into());
        }
        let forward = self.forward();
        if tag == BackendTag::CopyBothResponse {
            self.server.conversation.copy_both_begins();
            return forward;
        }
        self.replies_came();
        if self.server.conversation.copy_in_begins() {
            return self.asks(Question::CopyInterrupted);
        }
        if matches!(self.server.phase, ServerPhase::Draining) {
            self.to().end_what_client_began();
        }
        forward
    }
}

/// Whether a message describes rows or parameters.
fn describes(tag: BackendTag) -> bool {
    matches!(tag, BackendTag::RowDescription | BackendTag::ParameterDescription)
}
