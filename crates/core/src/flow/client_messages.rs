//! A logged-in client's messages, on their way to a server.
//!
//! This is half of the forwarding path (the other half is [`crate::flow::server_messages`]): it reads message headers,
//! adds an entry to the server's reply queue for each request, and forwards ranges of the input. Only Parse, Bind,
//! Describe and Close of prepared statements and short simple queries are read further.

use crate::base::ids::{ClientId, ServerId};
use crate::base::message::{Message, Step};
use crate::base::reasons::Passing;
#[cfg(feature = "weaknesses")]
use crate::base::weakness::Weakness;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::pooler::Pooler;
use crate::server::Server;
use crate::session::inspection::calls_large_objects;
use crate::upstream::entry::{Effect, Entry, Expect, To};
use crate::upstream::phase::Intake;
use crate::upstream::requests::Requests;
use pgweir_sql::Effects;
use pgweir_wire::{FrontendTag, HEADER_BYTES, TransactionStatus};

/// The possible effects of a function that is called by its OID.
const CALLED: Effects = pgweir_sql::UNREAD
    .union(Effects::SERVER_BOUND)
    .union(Effects::SEQUENCE)
    .union(Effects::DEFINES);

/// Stands for the text of a FunctionCall. A function that is called so can neither end a transaction block nor commit a
/// prepared transaction.
const CALL: &[u8] = b"select";

impl Exchange<'_> {
    /// What becomes of a message that the server would ignore, that ends its copy, or that must wait for replies;
    /// `None`: it is none of these.
    #[inline]
    fn stops(&mut self, message: &Message<'_>, tracked: bool) -> Option<Step> {
        let client = &mut *self.client;
        let server = &mut *self.server;
        if server.conversation.intake() == Intake::ToSync && message.tag != FrontendTag::Sync {
            return Some(client.drop_message(message));
        }
        if server.conversation.intake() == Intake::CopyIn && is_request(message.tag) {
            let message = format!(
                "unexpected message type 0x{:02X} during COPY from stdin",
                message.tag as u8
            );
            return Some(self.fails(message, "expected CopyData, CopyDone or CopyFail".into()));
        }
        if server.conversation.queue_mut().is_full() && !server.conversation.is_copying() && self.is_far_ahead() {
            return Some(self.waits_for_replies());
        }
        let server = &*self.server;
        if tracked && server.conversation.queue().segment_outstanding() && waits_behind(server, message.tag) {
            return Some(self.waits_for_replies());
        }
        None
    }

    /// A message for a linked server.
    pub(crate) fn request(&mut self, message: &Message<'_>) -> Step {
        let tracked = self.shared.settings.tracks_statements_of(self.pool.settings());
        if let Some(step) = self.stops(message, tracked) {
            return step;
        }
        let (client, server, pool) = (&mut *self.client, &mut *self.server, &mut *self.pool);
        pool.stats_mut().bytes_received += message.bytes.len() as u64;
        let suspected = client.session.suspected_texts();
        #[cfg(feature = "weaknesses")]
        if self.shared.is_weak(Weakness::CountsReplies) {
            std::hint::black_box(server.conversation.queue().check().is_ok());
        }
        let step = match message.tag {
            FrontendTag::Query => self.query(message, tracked),
            FrontendTag::Parse if tracked => self.parse(message),
            FrontendTag::Bind if tracked => self.bind(message),
            FrontendTag::Describe if tracked => self.describe(message),
            FrontendTag::Close if tracked => self.close(message),
            FrontendTag::Execute => self.execute(message),
            FrontendTag::Parse => self.parse_untracked(message),
            FrontendTag::Bind => self.bind_untracked(message),
            FrontendTag::Describe => self.describe_untracked(message),
            FrontendTag::Close => self.close_untracked(message),
            FrontendTag::FunctionCall => self.function_call(message, tracked),
            FrontendTag::Sync => self.sync(message),
            // The server answers with an error and then ignores everything up to Sync: it must not count as free.
            FrontendTag::Flush if message.total > HEADER_BYTES && server.conversation.intake() != Intake::CopyIn => {
                self.plain(message, Expect::MalformedFlush)
            }
            FrontendTag::Flush => {
                let step = self.forward(message);
                // Replies that need not wait for the server are sent now.
                self.to().give_fakes();
                step
            }
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail
                if !server.conversation.may_copy() =>
            {
                client.drop_message(message)
            }
            FrontendTag::CopyData | FrontendTag::CopyDone | FrontendTag::CopyFail => self.copy(message),
            FrontendTag::Terminate | FrontendTag::Password => unreachable!("dealt with before the link"),
        };
        if let Step::NeedBytes | Step::Wait = step {
            // The message comes again when it is complete, and its bytes are counted then.
            self.pool.stats_mut().bytes_received -= message.bytes.len() as u64;
        } else {
            self.note_suspected(suspected);
        }
        step
    }

    /// Too many of the client's requests have not been answered. Those that only the pooler must answer are answered
    /// now. If too many are left, the client waits. In a segment without its Sync no ReadyForQuery ends the wait: so
    /// the server is told to send its replies, and the last of them lets the client go on.
    #[cold]
    fn is_far_ahead(&mut self) -> bool {
        self.to().give_fakes();
        let queue = self.server.conversation.queue_mut();
        if !queue.is_full() {
            return false;
        }
        if queue.segment_open() {
            self.asks_for_replies();
        }
        true
    }

    /// In a segment without its Sync: tells the server to send its replies. The last of them lets the client go on, if
    /// it waits for replies.
    pub(crate) fn asks_for_replies(&mut self) {
        let queue = self.server.conversation.queue_mut();
        if queue.back().is_none_or(|e| e.expect() != Expect::Pause) {
            queue.push(Entry::fake(Expect::Pause));
            self.to().send(|w| w.flush());
        }
    }

    #[inline(always)]
    fn sync(&mut self, message: &Message<'_>) -> Step {
        let conversation = &mut self.server.conversation;
        if conversation.intake() == Intake::CopyIn {
            conversation.sync_sent_among_copy_data();
            return self.forward(message);
        }
        conversation.takes_requests_from_here();
        self.plain(message, Expect::Sync)
    }

    /// CopyData, CopyDone or CopyFail where the server may be copying.
    fn copy(&mut self, message: &Message<'_>) -> Step {
        let conversation = &mut self.server.conversation;
        let copies = conversation.intake() == Intake::CopyIn;
        if message.tag == FrontendTag::CopyData {
            if !copies {
                conversation.queue_mut().copy_data_sent();
            }
            return self.forward(message);
        }
        if copies {
            conversation.takes_requests_from_here();
            return self.forward(message);
        }
        self.plain(message, Expect::CopyEnd)
    }

    #[cold]
    fn function_call(&mut self, message: &Message<'_>, tracked: bool) -> Step {
        if !message.is_whole() && message.body().len() < size_of::<u32>() {
            return Step::NeedBytes;
        }
        let is_unread = self.looks_at_texts() && !calls_large_objects(message.body());
        if is_unread && let Some(step) = self.asks_to_publish(CALLED, Some(CALL)) {
            return step;
        }
        if self.keeps_session()
            && let Some(step) = self.runs_any_code(Effects::CODE, message)
        {
            return step;
        }
        if is_unread {
            self.server.moves_names(self.shared.statements.now());
            if self.keeps_session() {
                let hidden = self.settings_of_functions();
                self.suspect_unread(CALLED, "function call", hidden);
            } else {
                self.defines(b"");
            }
            self.query_may_publish(Some(CALL));
        }
        if tracked {
            self.to().doubt_statements();
        }
        self.plain(message, Expect::FunctionCall)
    }

    /// A message that is forwarded unchanged and answered in its turn.
    #[inline]
    pub(crate) fn plain(&mut self, message: &Message<'_>, expect: Expect) -> Step {
        self.pass_request(message, Entry::forward(expect))
    }

    /// A message that is forwarded unchanged, with what is known of its reply.
    #[inline]
    pub(crate) fn pass_request(&mut self, message: &Message<'_>, entry: Entry) -> Step {
        self.server.conversation.queue_mut().push(entry);
        self.forward(message)
    }

    /// A message that the pooler answers itself in its turn: [`To::Fake`].
    ///
    /// [`To::Fake`]: crate::upstream::entry::To::Fake
    pub(crate) fn answers_in_turn(&mut self, message: &Message<'_>, expect: Expect, effect: Effect) -> Step {
        self.server
            .conversation
            .queue_mut()
            .push(Entry::fake(expect).with(effect));
        self.client.drop_message(message)
    }

    /// Sends internal requests instead of the client's message; the client gets their replies.
    pub(crate) fn asks_instead(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Requests<'_>)) -> Step {
        self.to().asks(To::Forward, write);
        self.client.drop_message(message)
    }

    /// Forwards the part of a message that has come; the rest is forwarded when it comes.
    #[inline]
    pub(crate) fn forward(&mut self, message: &Message<'_>) -> Step {
        self.forward_rest(message, 0)
    }

    /// Forwards a message from its byte `from` on.
    #[inline]
    pub(crate) fn forward_rest(&mut self, message: &Message<'_>, from: usize) -> Step {
        let have = message.bytes.len();
        self.shared
            .outbox
            .forward(self.server_id.into(), message.at + from..message.at + have);
        if have < message.total {
            let client = &mut *self.client;
            client.passing = Passing::Forward((message.total - have) as u32);
        }
        Step::Progress(have)
    }
}

impl Pooler {
    #[inline]
    pub(crate) fn server_mut(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(id.0).expect("a linked server lives")
    }

    #[inline]
    pub(crate) fn client_mut(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(id.0).expect("the caller looked it up")
    }
}

/// Whether a message is a request, which would end a copy-in with an error.
fn is_request(tag: FrontendTag) -> bool {
    use FrontendTag::{Bind, Close, Describe, Execute, FunctionCall, Parse, Query};
    matches!(tag, Query | Parse | Bind | Describe | Execute | Close | FunctionCall)
}

/// Whether a message waits for the replies that the server owes, because these decide which statements there are.
fn waits_behind(server: &Server, tag: FrontendTag) -> bool {
    let queue = server.conversation.queue();
    // Before a pipelined ROLLBACK has been carried out, nothing can be prepared in the failed transaction.
    let has_failed = || server.conversation.status() == TransactionStatus::Failed && queue.client_segment_outstanding();
    touches_statements(tag) && (queue.statements_in_doubt() || has_failed())
        || tag == FrontendTag::Parse && server.awaits_settings()
}

/// Whether a message uses or changes prepared statements; a Query destroys the unnamed one.
fn touches_statements(tag: FrontendTag) -> bool {
    use FrontendTag::{Bind, Close, Describe, Parse, Query};
    matches!(tag, Parse | Bind | Describe | Close | Query)
}
