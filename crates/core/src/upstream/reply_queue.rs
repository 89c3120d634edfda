//! The replies that a server owes, in order.
//!
//! Every request that reaches a server leaves an [`Entry`]; replies are matched from the front. `Forward` replies go to
//! the client of their segment, which is linked when they come; `Skip` replies answer internal requests and go to no
//! client; `Fake` replies never come from the server: the pooler sends them when the entry comes to the front. This one
//! queue serves injected Parse, restored settings, deferred BEGIN, pipelining and recovery from errors. Nothing is
//! repaired in the byte stream afterwards.
//!
//! Rules: the PostgreSQL manual, "Message Flow", sections "Extended Query", "Pipelining" and "COPY Operations";
//! recordings E3 (everything up to Sync is ignored after an error, a Query included) and E7 (Sync during copy-in has no
//! reply).

use crate::statements::prepared::{INTERNAL_ID_MAX, Statement};
use crate::upstream::ended::Ended;
use crate::upstream::entry::{Effect, Entry, Expect, Ready, To, is_internal, may_copy};
use crate::upstream::fifo::Fifo;
use crate::upstream::job::Job;
use crate::upstream::replacement::Instead;
use std::sync::Arc;

/// Entries in the order of their requests.
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(crate) struct ReplyQueue {
    pub(super) entries: Fifo<Entry>,
    /// Entries that a ReadyForQuery ends.
    pub(super) ready_owed: u32,
    /// Internal entries that a ReadyForQuery ends.
    pub(super) internal_ends: u32,
    /// Entries whose reply may contain a copy.
    pub(super) may_copy: u32,
    /// Entries of kind [`To::Fake`].
    pub(super) fakes: u32,
    /// The last request belongs to the extended protocol: a Sync must follow before the server is between segments.
    pub(super) segment_open: bool,
    /// Something of the segment that is open has been sent to the server.
    pub(super) segment_sent: bool,
    /// An Execute of the segment that is open has been sent to the server.
    pub(super) segment_executes: bool,
    /// Entries that a ReadyForQuery ended, since the server logged in.
    pub(super) segments_answered: u64,
    /// Entries that change prepared statements, in segments that have been ended by a Sync or Query.
    pub(super) changes_in_ended: u32,
    /// Entries that change prepared statements, in the segment that is open.
    pub(super) changes_in_open: u32,
    /// The number of entries when the request at the front ended all statements. 0: it has not.
    pub(super) ended_by_front: u32,
    /// The queue has been too long, and is not yet short enough for the client's next request to be read.
    is_full: bool,
}

/// With more entries in the queue, the client's next request is not read. An entry may take many times as much memory
/// as its message has bytes. And a full socket does not slow down requests that the pooler answers itself.
const REQUESTS_MAX: usize = 16 * 1024;

impl ReplyQueue {
    /// Adds a part of the client's segment without rare facts: no Parse, no end of a copy, no request that a
    /// ReadyForQuery ends.
    #[inline(always)]
    pub(crate) fn push_part(&mut self, expect: Expect, uses: u64) {
        debug_assert!(matches!(expect, Expect::Bind | Expect::Describe | Expect::Execute));
        (self.segment_open, self.segment_sent) = (true, true);
        if expect == Expect::Execute {
            self.segment_executes = true;
            self.may_copy += 1;
        }
        self.entries.push_back(Entry {
            uses,
            ..Entry::forward(expect)
        });
    }

    /// Adds a Query or Sync of the client without rare facts.
    #[inline(always)]
    pub(crate) fn push_end(&mut self, expect: Expect) {
        debug_assert!(expect.ends_with_ready());
        self.segment_ends();
        self.may_copy += u32::from(expect == Expect::Query);
        self.entries.push_back(Entry::forward(expect));
    }

    /// A request that a ReadyForQuery ends is being added.
    #[inline(always)]
    fn segment_ends(&mut self) {
        self.changes_in_ended += std::mem::take(&mut self.changes_in_open);
        self.ready_owed += 1;
        (self.segment_open, self.segment_sent, self.segment_executes) = (false, false, false);
    }

    #[inline]
    pub(crate) fn push(&mut self, mut entry: Entry) {
        self.may_copy += u32::from(entry.may_copy());
        if entry.expect == Expect::ParseUnnamed || entry.rare.is_some() {
            entry.changes = changes_statements(&entry);
            self.changes_in_open += u32::from(entry.changes);
        }
        if entry.expect.ends_with_ready() {
            self.segment_ends();
            self.internal_ends += u32::from(entry.is_internal());
        } else if matches!(entry.to, To::Fake) {
            self.fakes += 1;
            self.segment_open = true;
        } else if entry.expect != Expect::CopyEnd {
            (self.segment_open, self.segment_sent) = (true, true);
            self.segment_executes |= entry.expect == Expect::Execute;
        }
        self.entries.push_back(entry);
    }

    /// Whether the message with this tag, one of the frequent ones, is a part of the reply that is due, goes to the
    /// client unchanged, and concerns nobody else. The entry is removed if the message ends it.
    ///
    /// `false` means: not known.
    #[inline(always)]
    pub(crate) fn passes_plainly(&mut self, tag: u8) -> bool {
        let Some(front) = self.entries.front() else {
            return false;
        };
        if !matches!(front.to, To::Forward) {
            return false;
        }
        match (tag, front.expect) {
            (b'D' | b'd', _) | (b'T', Expect::Query) => return true,
            (b'1', Expect::Parse | Expect::ParseUnnamed) | (b'2', Expect::Bind) | (b'3', Expect::Close) => {}
            (b'T' | b'n', Expect::Describe) if front.uses == 0 => {}
            _ => return false,
        }
        self.drop_front();
        true
    }

    /// Like [`ReplyQueue::passes_plainly`], for CommandComplete.
    #[inline(always)]
    pub(crate) fn completes_command(&mut self) -> bool {
        match self.entries.front() {
            Some(Entry {
                to: To::Forward,
                expect,
                changes,
                ..
            }) => match expect {
                Expect::Execute if !*changes => self.drop_front(),
                Expect::Query if !*changes => {}
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    /// Whether the client's next request must wait, because too many have not been answered. Then it waits until only
    /// half as many are left.
    #[inline]
    pub(crate) fn is_full(&mut self) -> bool {
        let entries = self.entries.len();
        self.is_full = entries > REQUESTS_MAX || self.is_full && entries > REQUESTS_MAX / 2;
        self.is_full
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(crate) fn back(&self) -> Option<&Entry> {
        self.entries.last()
    }

    pub(crate) fn back_mut(&mut self) -> Option<&mut Entry> {
        self.entries.last_mut()
    }

    /// The latest internal Close and Parse belong to this job.
    pub(crate) fn preparing_is_for(&mut self, job: Job) {
        let ours = |e: &&mut Entry| e.to == To::Skip && matches!(e.expect, Expect::Parse | Expect::Close);
        for entry in self.entries.iter_mut().rev().take(2).take_while(ours) {
            entry.belongs_to(job);
        }
    }

    /// This many more texts of the latest request have made the client's session suspect.
    #[cold]
    pub(crate) fn note_suspected(&mut self, texts: u32) {
        if let Some(back) = self.entries.last_mut() {
            back.suspected = back.suspected.saturating_add(texts.min(u8::MAX.into()) as u8);
        }
    }

    /// The number of suspected texts in the requests that fail with the front: a Query or FunctionCall alone, or all up
    /// to the Sync.
    pub(crate) fn suspected_with_front(&self) -> u32 {
        let end = match self.front().map(|front| front.expect) {
            Some(expect) if expect.is_whole_request() => 1,
            _ => usize::MAX,
        };
        let failed = self.entries.iter().take(end).take_while(|e| e.expect != Expect::Sync);
        failed.map(|e| u32::from(e.suspected)).sum()
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Entry> {
        self.entries.front_mut()
    }

    /// Removes the front, and the entries behind it that no reply ends.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.count_out(entry.expect, entry.to, entry.ready, entry.changes);
        self.drop_copy_end();
        Some(entry)
    }

    /// Removes the front, if a ReadyForQuery ends it.
    #[inline(always)]
    pub(crate) fn take_end(&mut self) -> Option<Ended> {
        let front = self.entries.front().filter(|e| e.expect.ends_with_ready())?;
        let ended = Ended {
            expect: front.expect,
            to: front.to,
            ready: front.ready,
        };
        self.drop_front();
        Some(ended)
    }

    /// Removes the front, if there is one.
    #[inline(always)]
    pub(crate) fn drop_front(&mut self) {
        let Some(&Entry {
            expect,
            to,
            ready,
            changes,
            ..
        }) = self.entries.front()
        else {
            return;
        };
        self.entries.drop_front();
        self.count_out(expect, to, ready, changes);
        self.drop_copy_end();
    }

    #[inline(always)]
    fn count_out(&mut self, expect: Expect, to: To, ready: Ready, changes: bool) {
        self.ended_by_front = 0;
        if changes {
            // Ended segments stand in front of the one that is open.
            match self.ready_owed {
                0 => self.changes_in_open -= 1,
                _ => self.changes_in_ended -= 1,
            }
        }
        if expect.ends_with_ready() {
            self.ready_owed -= 1;
            self.internal_ends -= u32::from(is_internal(to, ready));
            self.segments_answered += 1;
        }
        self.may_copy -= u32::from(may_copy(expect, to));
        self.fakes -= u32::from(to == To::Fake);
    }

    /// An internal segment has been put in front of the client's, which has begun.
    pub(crate) fn segment_goes_on(&mut self) {
        self.segment_open = true;
        self.segment_sent = false;
    }

    /// After an error in a segment: removes everything up to the next Sync, which stays, or everything if no Sync has
    /// been sent. The first removed entry is the request that failed.
    pub(crate) fn take_to_sync(&mut self) -> Vec<Entry> {
        let end = self
            .entries
            .iter()
            .position(|e| e.expect == Expect::Sync)
            .unwrap_or(self.entries.len());
        let taken: Vec<Entry> = self.entries.take_front(end);
        for entry in &taken {
            self.count_out(entry.expect, entry.to, entry.ready, entry.changes);
        }
        taken
    }

    /// An internal segment that ends with an internal Sync has failed. If the client's next message, or the internal
    /// Describe that goes in front of it, then fails with 26000 (the statement is missing) or, `in_block`, with 25P02 (the
    /// transaction has failed), the client gets this error instead. `follows`: this error may itself be the consequence of
    /// an earlier one, which is the one to tell. `names`: the statements that were to be prepared. `false`: the front does
    /// not end such a segment.
    pub(crate) fn replace_behind_internal_parse(
        &mut self,
        in_block: bool,
        follows: bool,
        names: &[Box<[u8]>],
        error: impl FnOnce() -> Vec<u8>,
    ) -> bool {
        let ours = |e: &Entry| e.expect == Expect::Sync && matches!(e.to, To::Skip) && e.uses > 0;
        if !self.front().is_some_and(ours) {
            return false;
        }
        // Several such segments may follow each other.
        let skipped = self.entries.iter().take_while(|e| e.to == To::Skip);
        let behind = skipped.enumerate().filter(|(_, e)| e.expect == Expect::Sync).last();
        let last = behind.map_or(0, |(sync, _)| sync);
        // Internal Close messages may come between it and the client's message.
        let describes = |e: &Entry| e.expect == Expect::Describe && matches!(e.to, To::Skip);
        let of_client = |e: &&mut Entry| describes(e) || !matches!(e.to, To::Skip | To::Job(_) | To::Fake);
        let Some(next) = self.entries.iter_mut().skip(last + 1).find(of_client) else {
            return true;
        };
        if follows && next.has_other_error() {
            return true;
        }
        match describes(next) {
            true => next.replace_error(*b"26000", Instead::Error(error())),
            false if next.expect == Expect::Query => next.lacks(names, error()),
            false => next.replace(*b"26000", Instead::Error(error())),
        }
        // Bind and Describe look for their statement before they check the transaction. It is there if what failed came
        // behind its Parse.
        if in_block {
            next.replaces_failed();
        }
        true
    }

    /// The server will refuse the client's latest Query with this SQLSTATE; the client gets another error.
    pub(crate) fn last_query_is_refused(&mut self, sqlstate: [u8; 5], error: Vec<u8>) {
        let is_it = |e: &&mut Entry| e.expect == Expect::Query && e.to == To::Forward;
        if let Some(query) = self.entries.iter_mut().rev().find(is_it) {
            query.replace(sqlstate, Instead::Error(error));
        }
    }

    /// If the front ends an internal segment that has failed: what the client gets instead of the error of its next
    /// message.
    pub(crate) fn error_behind_internal_segment(&mut self) -> Option<&mut Vec<u8>> {
        if !self.internal_sync_in_front() {
            return None;
        }
        let entry = self.entries.iter_mut().find(|e| e.to != To::Skip)?;
        match &mut entry.rare.as_mut()?.replacement.as_mut()?.instead {
            Instead::Error(error) => Some(error),
            Instead::Named { .. } => None,
        }
    }

    /// Removes markers at the front that no reply ends.
    #[inline]
    fn drop_copy_end(&mut self) {
        while self.entries.front().is_some_and(|e| e.expect == Expect::CopyEnd) {
            self.entries.pop_front();
        }
    }
}

/// Whether a request changes the meaning of statements; internal requests concern no client.
#[inline]
pub(super) fn changes_statements(entry: &Entry) -> bool {
    let is_internal = |s: &Option<Arc<Statement>>| s.as_ref().is_some_and(|s| s.id <= INTERNAL_ID_MAX);
    let of_clients = |e: &Effect| !is_internal(&e.server_gains) && !is_internal(&e.server_loses);
    entry.expect == Expect::ParseUnnamed || entry.effect().is_some_and(of_clients)
}

#[cfg(test)]
#[path = "reply_queue_tests.rs"]
mod tests;
