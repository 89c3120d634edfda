//! Where the conversation with one server stands.

use crate::base::reasons::Passing;
use crate::base::time::Time;
use crate::upstream::phase::{Begin, Intake};
use crate::upstream::reply_queue::ReplyQueue;
use pgweir_wire::TransactionStatus;

/// What a server owes, what it makes of the next message, and what became of the latest ones.
#[derive(Debug, pgweir_freeze::Freeze)]
pub(crate) struct Conversation {
    pub(crate) queue: ReplyQueue,
    pub(crate) passing: Passing,
    /// As of the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    pub(crate) intake: Intake,
    /// Syncs stand among the data of the copy-in: if it fails, which of them the server had swallowed is not known.
    pub(crate) sync_among_copy_data: bool,
    /// The FATAL message it has sent its client; its end follows.
    pub(crate) fatal: Option<Box<str>>,
    /// A deferred BEGIN that was sent to it.
    pub(crate) begin: Begin,
    /// The numbers of the pooler's latest segments behind a savepoint of its own: what fails in them fails nothing of the
    /// client's, see [`crate::preparing::own_names`].
    pub(crate) guarded: std::ops::Range<u64>,
    /// The number of the latest segment in which DISCARD ALL has run: it has taken effect though the segment fails.
    pub(crate) discarded_in: Option<u64>,
    /// A Query came between an Execute and its Sync: in PostgreSQL 18 an implicit transaction block may be open until the
    /// client's next Sync, which no Sync of ours may end. It is closed when its client is done.
    pub(crate) queried_in_pipeline: bool,
    /// When the query it runs began; the time limits count from it.
    pub(crate) request_time: Time,
    /// When it last answered ReadyForQuery.
    pub(crate) ready_time: Time,
    /// When it was first seen to have answered everything of a segment that its client has not ended. It means something
    /// only where it is later than `request_time`.
    pub(crate) quiet_since: Time,
}

impl Conversation {
    pub(crate) fn new(now: Time) -> Self {
        Conversation {
            queue: ReplyQueue::default(),
            passing: Passing::None,
            status: TransactionStatus::Idle,
            intake: Intake::Requests,
            sync_among_copy_data: false,
            fatal: None,
            begin: Begin::Settled,
            guarded: 0..0,
            discarded_in: None,
            queried_in_pipeline: false,
            request_time: now,
            ready_time: now,
            quiet_since: now,
        }
    }

    /// Nothing is owed and no transaction is open.
    pub(crate) fn is_clean(&self) -> bool {
        self.queue.is_empty()
            && !self.queue.segment_open()
            && self.status == TransactionStatus::Idle
            && self.intake == Intake::Requests
            && self.passing == Passing::None
            // Its end follows, and its client's.
            && self.fatal.is_none()
    }

    /// Whether a deferred BEGIN has been sent without its Sync, and nothing of its client's behind it.
    pub(crate) fn is_beginning(&self) -> bool {
        self.queue.segment_open() && self.only_begins()
    }

    /// Whether a deferred BEGIN is all that it has been asked.
    pub(crate) fn only_begins(&self) -> bool {
        self.begin == Begin::Owed && self.queue.all_ours()
    }

    /// Whether a cancel may go out though it could hit a deferred BEGIN: what is sent already must not run outside the
    /// transaction then. PostgreSQL does not say that it has begun before it says more.
    pub(crate) fn may_cancel_begin(&self) -> bool {
        self.begin != Begin::Owed || self.queue.is_one_whole_segment()
    }

    /// Whether it is in a copy that its client has not ended, or may come to be in one. Outside of copies it ignores their
    /// messages.
    pub(crate) fn may_copy(&self) -> bool {
        matches!(self.intake, Intake::CopyIn | Intake::CopyBoth) || self.queue.may_copy()
    }

    /// Whether it works on a segment of the pooler's that stands behind a savepoint.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.contains(&self.queue.segments_answered())
    }

    /// Whether all requests were answered and ended, in or outside of a transaction, and the next one is read as such.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.queue.is_empty() && !self.queue.segment_open() && self.intake == Intake::Requests
    }

    /// Whether a request is read as such, in a transaction that has not failed or outside of one.
    #[inline]
    pub(crate) fn takes_requests(&self) -> bool {
        self.intake == Intake::Requests && self.status != TransactionStatus::Failed
    }

    /// Whether its client is in the midst of a segment, and the server reads it as such.
    #[inline]
    pub(crate) fn is_in_segment(&self) -> bool {
        !self.queue.is_empty() && !matches!(self.intake, Intake::ToSync | Intake::CopyIn)
    }
}
