//! The state of the conversation with one server.

use crate::base::reasons::Passing;
use crate::base::time::Time;
use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::parsed::Parsed;
use crate::upstream::phase::{Begin, Intake};
use crate::upstream::reply_queue::ReplyQueue;
use pgweir_wire::TransactionStatus;

/// The replies that a server owes, how it will treat the next message, and what the latest messages did.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Conversation {
    queue: ReplyQueue,
    passing: Passing,
    parsed: Parsed,
    /// The status that the last ReadyForQuery reported.
    status: TransactionStatus,
    intake: Intake,
    /// Syncs are among the data of the copy-in: if it fails, it is not known which of them the server has swallowed.
    sync_among_copy_data: bool,
    /// When the client was sent a FATAL message of the server; the connection ends next.
    fatal: Option<Time>,
    /// A deferred BEGIN that was sent to the server.
    begin: Begin,
    /// The numbers of the latest internal segments behind an internal savepoint: see [`crate::preparing::client_named`].
    guarded: std::ops::Range<u64>,
    /// The number of the latest segment in which DISCARD ALL has run: it takes effect even if its segment fails.
    discarded_in: Option<u64>,
    /// The number of the latest segment in which a failed transaction block may end, or be rolled back to a savepoint.
    block_may_end_in: Option<u64>,
    /// A Query came between an Execute and its Sync. In PostgreSQL 18 an implicit block may then be open until the client's
    /// next Sync, and no internal Sync may end that block. The server is closed when its client is done.
    queried_in_pipeline: bool,
    /// When the server's present query began; the time limits count from then.
    request_time: Time,
    /// When the server last sent ReadyForQuery.
    ready_time: Time,
    /// When the server was first seen to wait for the rest of the client's segment. Valid only if later than `request_time`.
    quiet_since: Time,
}

impl Conversation {
    pub(crate) fn new(now: Time) -> Self {
        Conversation {
            queue: ReplyQueue::default(),
            passing: Passing::None,
            parsed: Parsed::default(),
            status: TransactionStatus::Idle,
            intake: Intake::Requests,
            sync_among_copy_data: false,
            fatal: None,
            begin: Begin::Settled,
            guarded: 0..0,
            discarded_in: None,
            block_may_end_in: None,
            queried_in_pipeline: false,
            request_time: now,
            ready_time: now,
            quiet_since: now,
        }
    }

    /// The replies that the server owes.
    #[inline(always)]
    pub(crate) fn queue(&self) -> &ReplyQueue {
        &self.queue
    }

    /// The queue of these replies, for a request that is sent or a reply that has come.
    #[inline(always)]
    pub(crate) fn queue_mut(&mut self) -> &mut ReplyQueue {
        &mut self.queue
    }

    /// What becomes of the rest of a message of which a part has come.
    #[inline(always)]
    pub(crate) fn passing(&self) -> Passing {
        self.passing
    }

    /// A part of a message has come, or its rest: `passing` says what becomes of what still follows.
    #[inline(always)]
    pub(crate) fn goes_on_with(&mut self, passing: Passing) {
        self.passing = passing;
    }

    /// The status that the last ReadyForQuery reported.
    #[inline(always)]
    pub(crate) fn status(&self) -> TransactionStatus {
        self.status
    }

    /// A statement is about to be bound that may end the transaction block, or roll it back to a savepoint.
    #[cold]
    pub(crate) fn block_may_end(&mut self) {
        self.block_may_end_in = Some(self.queue.segments_sent());
    }

    /// Whether the next message meets a failed transaction block: no unanswered message may end the block, or roll it
    /// back to a savepoint. If such a message fails, the server ignores what follows in its segment.
    #[inline]
    pub(crate) fn is_surely_failed(&self) -> bool {
        self.status == TransactionStatus::Failed
            && self
                .block_may_end_in
                .is_none_or(|segment| segment < self.queue.segments_answered())
    }

    /// A ReadyForQuery reports this status. Returns whether a transaction block was open before.
    #[inline(always)]
    pub(crate) fn reports(&mut self, status: TransactionStatus) -> bool {
        if status == TransactionStatus::Idle {
            self.parsed.counts_from(self.queue.segments_answered());
        }
        std::mem::replace(&mut self.status, status) != TransactionStatus::Idle
    }

    /// A FATAL message of the server has come that the linked client gets, or that concerns a client which has left.
    pub(crate) fn ends_by_fatal(&mut self, now: Time) {
        self.fatal = Some(now);
    }

    /// When the client was sent a FATAL message of the server.
    #[inline]
    pub(crate) fn fatal(&self) -> Option<Time> {
        self.fatal
    }

    /// A deferred BEGIN that was sent to the server.
    #[inline]
    pub(crate) fn begin(&self) -> Begin {
        self.begin
    }

    /// A deferred BEGIN is being sent.
    pub(crate) fn begin_is_sent(&mut self) {
        self.begin = Begin::Owed;
    }

    /// The server has begun the transaction, or the client has been told that there is none.
    pub(crate) fn begin_is_settled(&mut self) {
        self.begin = Begin::Settled;
    }

    /// The server has refused the request at the front. If it belongs to a deferred BEGIN, no transaction has begun.
    pub(crate) fn begin_may_be_refused(&mut self) {
        if self.begin == Begin::Owed {
            let is_internal = |e: &Entry| e.to == To::Skip && e.expect != Expect::Sync;
            self.begin = match self.queue.front().is_some_and(is_internal) {
                true => Begin::Refused,
                false => Begin::Settled,
            };
        }
    }

    /// An internal savepoint is being made: errors of the next segments do not fail the client's transaction.
    pub(crate) fn guard_begins(&mut self) {
        let first = self.queue.segments_sent();
        if self.guarded.end != first {
            self.guarded.start = first;
        }
    }

    /// The segments behind the internal savepoint have been sent.
    pub(crate) fn guard_ends(&mut self) {
        self.guarded.end = self.queue.segments_sent();
    }

    /// DISCARD ALL has run in the present segment.
    pub(crate) fn discards_all(&mut self) {
        self.discarded_in = Some(self.queue.segments_answered());
    }

    /// Whether DISCARD ALL has run in the present segment.
    pub(crate) fn has_discarded_all(&self) -> bool {
        self.discarded_in == Some(self.queue.segments_answered())
    }

    /// A Query is being sent between an Execute and its Sync.
    pub(crate) fn query_comes_in_pipeline(&mut self) {
        self.queried_in_pipeline = true;
    }

    /// Whether a Query came between an Execute and its Sync, so that an implicit transaction block may be open.
    #[inline]
    pub(crate) fn is_queried_in_pipeline(&self) -> bool {
        self.queried_in_pipeline
    }

    /// A ReadyForQuery has come; `may_be_open`: it does not end what a Query in a pipeline has left open. Returns
    /// whether there was such a Query.
    #[inline(always)]
    pub(crate) fn take_queried_in_pipeline(&mut self, may_be_open: bool) -> bool {
        let was_queried = self.queried_in_pipeline;
        self.queried_in_pipeline &= may_be_open;
        was_queried
    }

    /// When the server was first seen to have answered everything of a segment that its client has not ended.
    pub(crate) fn quiet_since(&self) -> Time {
        self.quiet_since
    }

    /// The server is seen to have answered everything of a segment that its client has not ended.
    pub(crate) fn is_seen_quiet(&mut self, now: Time) {
        if self.quiet_since <= self.request_time.max(self.ready_time) {
            self.quiet_since = now;
        }
    }

    /// What the server does with the next message.
    #[inline]
    pub(crate) fn intake(&self) -> Intake {
        self.intake
    }

    /// When the server's present query began.
    #[inline]
    pub(crate) fn request_time(&self) -> Time {
        self.request_time
    }

    /// When the server last sent ReadyForQuery.
    pub(crate) fn ready_time(&self) -> Time {
        self.ready_time
    }

    /// A query begins.
    #[inline]
    pub(crate) fn query_begins(&mut self, now: Time) {
        self.request_time = now;
    }

    /// The server has been idle since `then`.
    pub(crate) fn is_idle_since(&mut self, then: Time) {
        self.ready_time = then;
    }

    /// The server has nothing to do for its client yet, or no longer; the times of the client's next request count from
    /// `now`.
    #[inline]
    pub(crate) fn is_idle_from(&mut self, now: Time) {
        self.request_time = now;
        self.ready_time = now;
    }

    /// The message that ends a copy-in, or the Sync up to which the server ignores messages, has been sent; or a
    /// ReadyForQuery has come.
    #[inline]
    pub(crate) fn takes_requests_from_here(&mut self) {
        self.intake = Intake::Requests;
    }

    /// A part of a segment has failed: the server ignores everything up to the next Sync. Returns the entries of the
    /// requests that it ignores; the first is the request that failed.
    pub(crate) fn segment_fails(&mut self) -> Vec<Entry> {
        self.parsed.fails(self.queue.segments_answered());
        let taken = self.queue.take_to_sync();
        self.intake = match self.queue.is_empty() {
            true => Intake::ToSync,
            false => Intake::Requests,
        };
        taken
    }

    /// Where prepared statements are not tracked: the client's Parse of this name is about to be sent, and its text was
    /// judged.
    pub(crate) fn text_is_judged(&mut self, name: &[u8]) {
        self.parsed.note(name, self.queue.segments_sent());
    }

    /// Another client gets the server.
    #[inline(always)]
    pub(crate) fn is_lent(&mut self) {
        self.parsed.is_lent();
    }

    /// Where prepared statements are not tracked: a Parse of the client's unnamed statement is about to be sent.
    pub(crate) fn unnamed_comes(&mut self) {
        self.parsed.unnamed_comes(self.queue.segments_sent());
    }

    /// Where prepared statements are not tracked: whether the server's unnamed statement is surely the client's own.
    pub(crate) fn unnamed_is_own(&self) -> bool {
        self.parsed.unnamed_is_own()
    }

    /// Where prepared statements are not tracked: whether the text that this name stands for was judged in the present
    /// transaction.
    pub(crate) fn knows_text_of(&self, name: &[u8]) -> bool {
        let answered = !self.queue.client_segment_outstanding();
        self.parsed.knows(name, self.queue.segments_sent(), answered)
    }

    /// The server has begun to take CopyData for the request at the front. Returns whether a request was sent among the
    /// data: the server takes that for a protocol violation.
    pub(crate) fn copy_in_begins(&mut self) -> bool {
        let begun = self.queue.enter_copy_in();
        if !begun.ended {
            self.intake = Intake::CopyIn;
        }
        self.sync_among_copy_data = begun.sync_among_data;
        begun.interrupted
    }

    /// Streaming replication has begun.
    pub(crate) fn copy_both_begins(&mut self) {
        self.intake = Intake::CopyBoth;
    }

    /// A Sync was sent among the data of a copy-in.
    pub(crate) fn sync_sent_among_copy_data(&mut self) {
        self.sync_among_copy_data = true;
    }

    /// A command has succeeded: if it was a copy-in, the server has swallowed the Syncs among the data.
    #[inline]
    pub(crate) fn command_succeeds(&mut self) {
        self.sync_among_copy_data = false;
    }

    /// A command has failed. Returns whether it was a copy-in with Syncs among its data.
    pub(crate) fn command_fails(&mut self) -> bool {
        std::mem::take(&mut self.sync_among_copy_data)
    }

    /// Nothing is owed and no transaction is open.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.queue.is_empty()
            && !self.queue.segment_open()
            && self.status == TransactionStatus::Idle
            && self.intake == Intake::Requests
            && self.passing == Passing::None
            // After a FATAL message the connection ends, and with it the client's.
            && self.fatal.is_none()
    }

    /// Whether the server is in a transaction block, or owes answers to its client's requests.
    pub(crate) fn runs_texts(&self) -> bool {
        self.status != TransactionStatus::Idle || self.queue.next_of_client().is_some()
    }

    /// Whether a deferred BEGIN has been sent without its Sync, and no message of the client behind it.
    pub(crate) fn is_beginning(&self) -> bool {
        self.queue.segment_open() && self.only_begins()
    }

    /// Whether a deferred BEGIN is the only request of the client that the server has not answered.
    pub(crate) fn only_begins(&self) -> bool {
        self.begin == Begin::Owed && self.queue.all_ours()
    }

    /// Whether a cancel may be sent now. If the cancel hits a deferred BEGIN, no message behind the BEGIN may run
    /// outside the transaction. Only the next reply shows whether PostgreSQL has begun the transaction.
    pub(crate) fn may_cancel_begin(&self) -> bool {
        self.begin != Begin::Owed || self.queue.is_one_whole_segment()
    }

    /// Whether the server is in a copy that its client has not ended, or may begin one. Outside of a copy the server
    /// ignores copy messages.
    pub(crate) fn may_copy(&self) -> bool {
        self.is_copying() || self.queue.may_copy()
    }

    /// Whether the server is in a copy that its client has not ended: it reads what the client sends.
    pub(crate) fn is_copying(&self) -> bool {
        matches!(self.intake, Intake::CopyIn | Intake::CopyBoth)
    }

    /// Whether the server works on an internal segment behind an internal savepoint.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.contains(&self.queue.segments_answered())
    }

    /// Whether there is such a segment in front of this one.
    pub(crate) fn is_guarded_before(&self, segment: u64) -> bool {
        self.guarded.start < segment && self.guarded.end > self.queue.segments_answered()
    }

    /// Whether the server has answered all requests, no segment is open, and the server is neither in a copy nor
    /// ignoring messages up to Sync.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.queue.is_empty() && !self.queue.segment_open() && self.intake == Intake::Requests
    }

    /// Whether the server carries out the next request: it is outside of a transaction or in one that has not failed.
    #[inline]
    pub(crate) fn takes_requests(&self) -> bool {
        self.intake == Intake::Requests && self.status != TransactionStatus::Failed
    }

    /// Whether the client has begun a segment, and the server is not ignoring it.
    #[inline]
    pub(crate) fn is_in_segment(&self) -> bool {
        !self.queue.is_empty() && !matches!(self.intake, Intake::ToSync | Intake::CopyIn)
    }
}
