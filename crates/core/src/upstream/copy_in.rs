//! COPY FROM STDIN: what becomes of the replies that are owed when a server begins to read data.

use crate::upstream::entry::{Entry, Expect, To};
use crate::upstream::reply_queue::ReplyQueue;

/// The part of a copy-in that had been sent when the server began the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyBegun {
    /// Its end was sent.
    pub(super) ended: bool,
    /// A Sync was sent behind some of its data: the server swallows it, unless the copy failed on that data.
    pub(super) sync_among_data: bool,
    /// A request was sent among its data: the server takes that for a protocol violation and ignores it.
    pub(super) interrupted: bool,
}

impl ReplyQueue {
    /// CopyData was sent to a server that has not begun the copy-in.
    pub(crate) fn copy_data_sent(&mut self) {
        if let Some(last) = self.entries.last_mut() {
            last.data_behind = true;
        }
    }

    /// The server swallowed the Syncs it met in copy-in mode (E7). Called when CopyInResponse comes for the front
    /// entry: drops the Syncs behind it up to the end of the copy, and this end. A further end may be that of the next
    /// copy of the same Query.
    pub(super) fn enter_copy_in(&mut self) -> CopyBegun {
        let end = self.entries.iter().skip(1).position(|e| e.expect == Expect::CopyEnd);
        let among = end.map_or(self.entries.len(), |at| at + 1);
        let is_request = |e: &Entry| {
            let is_none = matches!(e.expect, Expect::Sync | Expect::MalformedFlush | Expect::CopyEnd);
            !is_none && e.to != To::Fake
        };
        let interrupted = self.entries.iter().take(among).skip(1).any(is_request);
        let mut begun = CopyBegun {
            ended: end.is_some(),
            sync_among_data: false,
            interrupted,
        };
        let mut data = self.entries.front().is_some_and(|e| e.data_behind);
        let mut swallows = false;
        let mut data_of_next = false;
        let with_end = among + usize::from(begun.ended);
        let kept = self.entries.retain_first(with_end, |e| {
            let swallowed = matches!(e.expect, Expect::Sync | Expect::MalformedFlush);
            begun.sync_among_data |= swallowed && data;
            data |= swallowed && e.data_behind;
            swallows |= swallowed;
            let is_end = e.expect == Expect::CopyEnd;
            data_of_next |= is_end && e.data_behind;
            if swallowed && e.expect.ends_with_ready() {
                self.segments_answered += 1;
                self.ready_owed -= 1;
                self.internal_ends -= u32::from(e.is_internal());
            }
            !swallowed && !is_end
        });
        if let Some(front) = self.entries.front_mut().filter(|_| begun.ended) {
            front.data_behind = data_of_next;
        }
        if swallows {
            // The copy's end, and a Sync behind it, may have been sent long ago.
            let last = self.entries.iter().rfind(|e| e.expect != Expect::CopyEnd);
            self.segment_open = last.is_some_and(|e| !e.expect.ends_with_ready());
            self.segment_sent = self.segment_open;
            self.segment_executes = self.segment_open;
            self.ends_were_removed(kept);
        }
        begun
    }

    /// Entries that end segments were removed from the front of the queue, where `kept` entries are left. If no end
    /// stands behind these, a segment among them may be open now.
    fn ends_were_removed(&mut self, kept: usize) {
        let front = &self.entries[..kept];
        let is_end = |e: &Entry| e.expect.ends_with_ready();
        let ends = front.iter().filter(|e| is_end(e)).count();
        if self.ready_owed as usize > ends {
            // An end stands behind them.
            return;
        }
        let ended = front.iter().rposition(is_end).map_or(0, |last| last + 1);
        let changes = self.changes_in_ended + self.changes_in_open;
        self.changes_in_ended = front[..ended].iter().filter(|e| e.changes).count() as u32;
        self.changes_in_open = changes - self.changes_in_ended;
    }
}
