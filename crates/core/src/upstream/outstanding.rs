//! Questions about the requests that a server has not answered.

use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::job::Job;
use crate::upstream::reply_queue::ReplyQueue;

impl ReplyQueue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a segment of the extended protocol has been begun and its Sync has not been sent.
    #[inline]
    pub(crate) fn segment_open(&self) -> bool {
        self.segment_open
    }

    /// Whether a Query sent now would be behind messages of the client's segment. Internal messages in front of it,
    /// such as a deferred BEGIN, do not count.
    pub(crate) fn in_pipeline(&self) -> bool {
        self.segment_open && self.back().is_none_or(|e| e.to != To::Skip)
    }

    /// Whether nothing has been executed in the segment that is open: it can be ended, and nothing is committed.
    pub(crate) fn segment_executes_nothing(&self) -> bool {
        self.segment_open && !self.segment_executes
    }

    /// Whether the server has answered everything, and nothing of the present segment has been sent to it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready_owed == 0 && !self.segment_sent && self.entries.len() == self.fakes as usize
    }

    /// The number of segments answered so far, which is the number of the segment that the server works on.
    pub(crate) fn segments_answered(&self) -> u64 {
        self.segments_answered
    }

    /// The number of the next segment, if none is open.
    pub(crate) fn segments_sent(&self) -> u64 {
        self.segments_answered + u64::from(self.ready_owed)
    }

    /// The number of the first unanswered segment that is a client's.
    pub(crate) fn next_of_client(&self) -> Option<u64> {
        let mut number = self.segments_answered;
        for entry in self.entries.iter() {
            if !entry.expect.ends_with_ready() {
                continue;
            }
            if !entry.is_internal() {
                return Some(number);
            }
            number += 1;
        }
        // A segment that the client has not ended yet. If its first message waits, nothing of it has been sent.
        self.segment_sent.then_some(number)
    }

    /// Whether all that stands in front of the client's next message are internal segments that prepare statements for
    /// it, and the message fails if one of them does.
    pub(crate) fn prepares_for_client(&self) -> bool {
        // The statement, or 0 for several.
        let mut prepared = None;
        for entry in self.entries.iter() {
            match (entry.to, entry.expect) {
                (To::Skip, Expect::Sync) if entry.uses == 0 => return false,
                (To::Skip, Expect::Sync) if prepared.is_some_and(|id| id != entry.uses) => prepared = Some(0),
                (To::Skip, Expect::Sync) => prepared = Some(entry.uses),
                (To::Skip, expect) if !expect.ends_with_ready() => {}
                (To::Forward | To::Replace, Expect::Query) => return prepared.is_some() && entry.executes,
                (To::Forward | To::Replace, Expect::Bind | Expect::Describe) => {
                    return prepared.is_some_and(|id| id != 0 && id == entry.uses);
                }
                _ => return false,
            }
        }
        false
    }

    /// Whether exactly one segment is outstanding, and it is complete.
    pub(crate) fn is_one_whole_segment(&self) -> bool {
        self.ready_owed == 1 && !self.segment_open
    }

    /// Whether the server works on a client's request.
    pub(crate) fn works_for_client(&self) -> bool {
        self.next_of_client() == Some(self.segments_answered)
    }

    /// Whether more than one unanswered segment is a client's.
    pub(crate) fn has_several_of_client(&self) -> bool {
        self.ready_owed - self.internal_ends + u32::from(self.segment_open) > 1
    }

    /// Whether the front is a Fake, which must be answered before any further reply of the server's.
    #[inline]
    pub(crate) fn fake_in_front(&self) -> bool {
        self.fakes > 0 && matches!(self.entries.front(), Some(Entry { to: To::Fake, .. }))
    }

    /// Whether no unanswered request could fail or end a transaction: at most statements are being prepared, and a
    /// deferred BEGIN is under way.
    pub(crate) fn only_prepares(&self) -> bool {
        let prepares =
            |e: &Entry| e.to == To::Skip || matches!(e.expect, Expect::Parse | Expect::ParseUnnamed | Expect::Describe);
        self.entries.iter().all(prepares)
    }

    /// Whether a copy can be part of what is owed.
    pub(crate) fn may_copy(&self) -> bool {
        self.may_copy > 0
    }

    /// Whether all unanswered requests are internal.
    pub(crate) fn all_ours(&self) -> bool {
        self.entries.iter().all(|e| e.to == To::Skip)
    }

    /// Whether an internal statement is among the unanswered requests.
    pub(crate) fn executes_ours(&self) -> bool {
        self.entries.iter().any(Entry::executes_ours)
    }

    /// Whether the next reply ends an internal segment.
    pub(crate) fn internal_sync_in_front(&self) -> bool {
        self.front()
            .is_some_and(|e| e.expect == Expect::Sync && e.to == To::Skip)
    }

    /// The pooler's own job that the reply that is due answers.
    pub(crate) fn job(&self) -> Option<Job> {
        match self.entries.front()?.to {
            To::Job(job) => Some(job),
            _ => None,
        }
    }

    /// Whether a request of this job is unanswered.
    pub(crate) fn owes_job(&self, job: Job) -> bool {
        self.entries.iter().any(|e| e.to == To::Job(job))
    }

    /// Whether an unanswered segment changes prepared statements: until it has succeeded or failed, their meaning for a
    /// message of a later segment is not known.
    #[inline]
    pub(crate) fn statements_in_doubt(&self) -> bool {
        self.changes_in_ended > 0
    }

    /// How many ReadyForQuery are owed.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn ends_owed(&self) -> usize {
        self.ready_owed as usize
    }

    /// Compares the counters with the entries.
    #[cfg(any(test, feature = "weaknesses"))]
    pub(crate) fn check(&self) -> Result<(), String> {
        let ends = |e: &&Entry| e.expect.ends_with_ready();
        let of_ended = self.entries.iter().rposition(|e| e.expect.ends_with_ready());
        let ended = of_ended.map_or(0, |at| at + 1);
        let changes = |entries: std::ops::Range<usize>| self.entries[entries].iter().filter(|e| e.changes).count();
        let internal = |e: &&Entry| e.expect.ends_with_ready() && e.is_internal();
        let counts = [
            (self.ready_owed, self.entries.iter().filter(ends).count()),
            (self.internal_ends, self.entries.iter().filter(internal).count()),
            (self.may_copy, self.entries.iter().filter(|e| e.may_copy()).count()),
            (self.fakes, self.entries.iter().filter(|e| e.to == To::Fake).count()),
            (self.changes_in_ended, changes(0..ended)),
            (self.changes_in_open, changes(ended..self.entries.len())),
        ];
        if self.segment_executes && !self.segment_sent || self.segment_sent && !self.segment_open {
            return Err("reply queue: a segment is sent or executes, and none is open".into());
        }
        match counts.iter().find(|(counted, there)| *counted as usize != *there) {
            Some(_) => Err(format!("reply queue: counted and there: {counts:?}")),
            None => Ok(()),
        }
    }

    /// Whether an earlier segment is unanswered: it may fail the transaction that a later request meets.
    pub(crate) fn segment_outstanding(&self) -> bool {
        self.ready_owed > 0
    }

    /// Whether an earlier segment of the client is unanswered. Internal segments do not count: one may follow whenever
    /// a message is looked at again.
    pub(crate) fn client_segment_outstanding(&self) -> bool {
        self.ready_owed > self.internal_ends
    }
}
