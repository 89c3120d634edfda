//! The messages of a logged-in server, one by one: which of them go to the client.

use crate::base::deeds::Deed;
use crate::base::reasons::{Passed, Passing};
use crate::base::weakness::Weakness;
use crate::flow::piece::Piece;
use crate::reply::Reply;
use crate::server::Server;
use crate::server_side::ServerSide;
use crate::upstream::entry::To;
use pgweir_wire::{HEADER_BYTES, Header, Writer};

/// The longest message that must be complete before it is handled: ParameterStatus, CommandComplete and the like,
/// bytes.
pub(crate) const SEEN_WHOLE_BYTES_MAX: usize = 1024 * 1024;

/// ReadyForQuery, bytes.
const READY_BYTES: usize = HEADER_BYTES + 1;

impl ServerSide<'_> {
    /// Gives the linked client the replies that come from the pooler.
    #[inline]
    pub(crate) fn give_fakes(&mut self) {
        if self.may_give_fakes() {
            self.give_fakes_in_front();
        }
    }

    /// Whether a reply that comes from the pooler is due. After a FATAL message the client gets nothing more.
    #[inline]
    fn may_give_fakes(&self) -> bool {
        self.is_fake_next() && self.server.conversation.fatal().is_none()
    }

    /// Whether the next reply comes from the pooler. It waits for the rest of a message of which the client has got the
    /// beginning.
    #[inline]
    fn is_fake_next(&self) -> bool {
        let conversation = &self.server.conversation;
        conversation.queue().fake_in_front()
            && (conversation.passing() == Passing::None || self.shared.is_weak(Weakness::AnswersInsideMessages))
    }

    #[cold]
    fn give_fakes_in_front(&mut self) {
        while self.server.conversation.queue().fake_in_front() {
            let entry = self.server.conversation.queue_mut().pop().expect("looked at above");
            if let (Some(tag), Some(client)) = (entry.expect().fake_tag(), self.server.link) {
                let outbox = &mut self.shared.outbox;
                outbox.insert(client.into(), |bytes| Writer::new(bytes).empty(tag));
            }
        }
    }
}

impl Reply<'_> {
    /// Handles messages until one concerns other connections. Returns what became of that message, which is handled
    /// unless the result is a question. `None`: the whole input is handled.
    ///
    /// It is long because it is the loop of the forwarding path: what is common stands in front, and each branch ends
    /// the loop or goes on in its own way.
    #[inline(always)]
    pub(crate) fn pass(&mut self, input: &[u8], at: &mut usize) -> Option<(Passed, Piece)> {
        loop {
            self.pass_plainly(input, at);
            if *at >= input.len() {
                break;
            }
            if let Some(&[b'Z', 0, 0, 0, 5, status]) = input[*at..].first_chunk()
                && self.server.conversation.passing() == Passing::None
                && !self.server.conversation.queue().fake_in_front()
            {
                self.run.end = *at;
                let piece = Piece::whole(*at, READY_BYTES);
                *at = piece.end;
                let passed = self.ready(&[status]);
                match self.settle_here(passed, piece) {
                    None => continue,
                    further => return further,
                }
            }
            if self.server.conversation.passing() != Passing::None {
                self.pass_rest(input.len(), at);
                continue;
            }
            let header = match Header::read_within(&input[*at..], self.shared.settings.longest_reply) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(_) => match self.odd_header(input, *at) {
                    Ok(header) => header,
                    Err(further) => return Some(further),
                },
            };
            let total = header.message_bytes as usize;
            let end = input.len().min(*at + total);
            let left = (*at + total - end) as u32;
            let piece = Piece { at: *at, end, left };
            let bytes = &input[*at..end];
            // Nearly all messages decide nothing.
            if self.is_linked() && self.server.passes_plainly(header.tag, bytes, left == 0) {
                if left > 0 {
                    self.server.conversation.goes_on_with(Passing::Forward(left));
                }
                *at = end;
                continue;
            }
            self.run.end = *at;
            if matches!(header.tag, b'D' | b'd')
                && !self.server.conversation.queue().fake_in_front()
                && !self.server.conversation.queue().is_empty()
            {
                if !self.row(bytes, &piece) {
                    break;
                }
                *at = end;
                continue;
            }
            // An asynchronous message, too, shows that the server has gone on to the next request or the end of the
            // segment.
            if self.server.conversation.queue().fake_in_front() {
                self.flush();
                self.give_fakes();
            }
            let passed = match header.tag {
                b'Z' if piece.is_whole() => self.odd_ready(&bytes[HEADER_BYTES..]),
                _ => self.message(header, bytes, piece.is_whole()),
            };
            if passed == Passed::NeedBytes {
                break;
            }
            *at = end;
            if let Some(further) = self.settle_here(passed, piece) {
                return Some(further);
            }
        }
        self.input_ends(*at);
        None
    }

    /// Carries out what becomes of a message. Returns it if it concerns other connections, too.
    #[inline(always)]
    fn settle_here(&mut self, passed: Passed, piece: Piece) -> Option<(Passed, Piece)> {
        let passed = self.settle(passed, &piece);
        let goes_on = matches!(passed, Passed::Forward | Passed::Skip) && self.deeds.is_empty();
        (!goes_on).then_some((passed, piece))
    }

    /// All of the input is handled, up to `at`.
    #[inline(always)]
    fn input_ends(&mut self, at: usize) {
        self.run.end = at;
        if self.server.flies() {
            self.note_part_of_flight();
        }
        self.flush();
        // The reply may have waited in front of a Flush.
        self.give_fakes();
    }

    /// The header of a message that is longer than `max_packet_size`, or that no PostgreSQL sends. The limit is for what
    /// a client gets, not for what the pooler asks for itself. If the client may not get the message, it is closed
    /// before the message is handled.
    #[cold]
    fn odd_header(&mut self, input: &[u8], at: usize) -> Result<Header, (Passed, Piece)> {
        let header = match Header::read(&input[at..]) {
            Ok(header) => header.expect("all of it has come"),
            Err(error) => {
                self.run.end = at;
                let (end, left) = (input.len(), 0);
                return Err((
                    self.misbehaves(format!("bad pkt header: {error}")),
                    Piece { at, end, left },
                ));
            }
        };
        if !self.is_of_session() || !forwards(self.server) {
            return Ok(header);
        }
        self.run.end = at;
        self.flush();
        self.deeds.push(Deed::TooLong(header.message_bytes));
        Err((Passed::Skip, Piece::whole(at, 0)))
    }

    /// Gives the client the replies that come from the pooler. The client may have waited until all replies before them
    /// had come.
    #[inline]
    fn give_fakes(&mut self) {
        if self.to().is_fake_next() {
            self.to().give_fakes();
            self.replies_came();
        }
    }

    /// A ReadyForQuery after a reply that the pooler gives itself, or a malformed one.
    #[cold]
    fn odd_ready(&mut self, body: &[u8]) -> Passed {
        self.ready(body)
    }

    /// Passes complete messages that go to the client unchanged and decide nothing.
    #[inline(always)]
    fn pass_plainly(&mut self, input: &[u8], at: &mut usize) {
        if self.client.is_none() || self.server.conversation.passing() != Passing::None {
            return;
        }
        let longest = self.shared.settings.longest_reply;
        while let Some(Ok(Some(header))) = input.get(*at..).map(|rest| Header::read_within(rest, longest)) {
            if header.tag == b'Z' {
                return;
            }
            let end = *at + header.message_bytes as usize;
            let Some(bytes) = input.get(*at..end) else { return };
            if !self.server.passes_plainly(header.tag, bytes, true) {
                return;
            }
            *at = end;
        }
    }

    /// The rest of a message whose beginning has been handled.
    fn pass_rest(&mut self, input_bytes: usize, at: &mut usize) {
        let (Passing::Forward(left) | Passing::Skip(left)) = self.server.conversation.passing() else {
            return;
        };
        let bytes = (input_bytes - *at).min(left as usize);
        let rest = left - bytes as u32;
        let forward = matches!(self.server.conversation.passing(), Passing::Forward(_)) && self.is_linked();
        self.server.conversation.goes_on_with(match (rest, forward) {
            (0, _) => Passing::None,
            (_, true) => Passing::Forward(rest),
            (_, false) => Passing::Skip(rest),
        });
        *at += bytes;
        if !forward {
            self.run = *at..*at;
        }
    }

    /// Carries out what becomes of a message, except for what comes after it. For a question, nothing is known yet.
    #[inline(always)]
    pub(crate) fn settle(&mut self, passed: Passed, piece: &Piece) -> Passed {
        match passed {
            Passed::Forward | Passed::ForwardAndRelease | Passed::ForwardAndTurn => {
                if self.is_linked() {
                    self.run.end = piece.end;
                } else {
                    self.run = piece.end..piece.end;
                }
                if piece.left > 0 {
                    self.server.conversation.goes_on_with(Passing::Forward(piece.left));
                }
                if passed == Passed::ForwardAndRelease {
                    // Bytes after the last ReadyForQuery are asynchronous messages for the same client.
                    debug_assert!(self.server.conversation.queue().is_empty());
                    self.flush();
                } else if passed == Passed::ForwardAndTurn {
                    self.flush();
                }
            }
            Passed::Skip | Passed::SkipAndRelease => {
                self.flush();
                self.run = piece.end..piece.end;
                if piece.left > 0 {
                    if !self.is_linked() && self.server.conversation.queue().is_empty() {
                        // The server would be idle inside a message.
                        return self.misbehaves("unexpected long message".into());
                    }
                    self.server.conversation.goes_on_with(Passing::Skip(piece.left));
                }
            }
            Passed::NeedBytes | Passed::Closed | Passed::Asks(_) => {}
        }
        passed
    }

    /// A row, or data of a copy, that is not passed plainly. `false`: more of it must come first.
    fn row(&mut self, bytes: &[u8], piece: &Piece) -> bool {
        let forward = self.is_linked() && forwards(self.server);
        if !forward {
            if let Some(job) = self.server.conversation.queue().job() {
                if !piece.is_whole() && bytes.len() + piece.left as usize <= SEEN_WHOLE_BYTES_MAX {
                    return false;
                }
                self.answer_row(job, bytes);
            } else {
                self.captured_row(bytes, piece.is_whole());
            }
            self.flush();
            self.run = piece.end..piece.end;
        }
        if !piece.is_whole() {
            self.server.conversation.goes_on_with(if forward {
                Passing::Forward(piece.left)
            } else {
                Passing::Skip(piece.left)
            });
        }
        true
    }

    /// A row of auth_query.
    fn captured_row(&mut self, message: &[u8], whole: bool) {
        if let Some(login) = self.client().filter(|_| whole).and_then(|c| c.login_mut()) {
            login.handle_lookup_message(message);
        }
    }
}

/// Whether the reply that is due goes to the client.
#[inline]
pub(super) fn forwards(server: &Server) -> bool {
    match server.conversation.queue().front() {
        Some(entry) => !matches!(entry.to(), To::Skip | To::Job(_) | To::Swallow),
        // Asynchronous messages between requests.
        None => true,
    }
}
