//! Names of prepared statements whose text was read in the server's present transaction, where prepared statements are
//! not tracked.
//!
//! A text is judged when its Parse is sent, and a probe after the transaction asks what the text has done. So a Bind in
//! the same transaction need not be judged. In any other transaction, the name may mean a statement that an earlier
//! client has left there, or one whose effects no probe asks about any more.

/// The most names of one transaction that are kept.
const NAMED_MAX: usize = 64;

/// Numbers of segments: see [`ReplyQueue::segments_sent`](crate::upstream::reply_queue::ReplyQueue::segments_sent).
#[derive(Debug, Default, pgweir_freeze::Freeze)]
pub(super) struct Parsed {
    /// Parse messages of earlier segments do not count: their transaction has ended, or one of them may have been
    /// refused or ignored.
    since: u64,
    /// The segment of the latest Parse of the unnamed statement.
    unnamed: Option<u64>,
    /// The segment of the latest Parse of the unnamed statement by the client that has the server. Another client's may be
    /// there otherwise, or one that this client has replaced on another server.
    unnamed_is_own: Option<u64>,
    /// The segments of the latest Parse messages of other names.
    named: Vec<(Box<[u8]>, u64)>,
}

impl Parsed {
    /// A text with this name was judged, and its Parse belongs to this segment.
    pub(super) fn note(&mut self, name: &[u8], segment: u64) {
        if name.is_empty() {
            self.unnamed = Some(segment);
            return;
        }
        let since = self.since;
        self.named.retain(|(known, at)| *at >= since && **known != *name);
        if self.named.len() < NAMED_MAX {
            self.named.push((name.into(), segment));
        }
    }

    /// Whether the text that this name stands for in this segment has been judged. `answered`: the server has answered
    /// all earlier segments.
    pub(super) fn knows(&self, name: &[u8], segment: u64, answered: bool) -> bool {
        let at = match name {
            b"" => self.unnamed,
            _ => self.named.iter().find(|(known, _)| **known == *name).map(|(_, at)| *at),
        };
        at.is_some_and(|at| at >= self.since && (at == segment || answered))
    }

    /// Another client gets the server.
    #[inline(always)]
    pub(super) fn is_lent(&mut self) {
        self.unnamed_is_own = None;
    }

    /// The client sends a Parse of the unnamed statement in this segment, whether or not its text was judged.
    pub(super) fn unnamed_comes(&mut self, segment: u64) {
        self.unnamed_is_own = Some(segment);
    }

    /// Whether the server's unnamed statement, if there is one, is surely that of the client that has the server.
    pub(super) fn unnamed_is_own(&self) -> bool {
        self.unnamed_is_own.is_some()
    }

    /// This segment has failed, and the server may have ignored a Parse in it.
    pub(super) fn fails(&mut self, segment: u64) {
        self.counts_from(segment + 1);
        self.unnamed_is_own = self.unnamed_is_own.filter(|at| *at != segment);
    }

    /// Segments before this one do not count any more.
    #[inline(always)]
    pub(super) fn counts_from(&mut self, segment: u64) {
        self.since = segment;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_until_its_transaction_ends_or_a_segment_fails() {
        for name in [&b""[..], b"s"] {
            let mut parsed = Parsed::default();
            assert!(!parsed.knows(name, 0, true));
            parsed.note(name, 3);
            assert!(parsed.knows(name, 3, false), "in the same segment");
            assert!(parsed.knows(name, 4, true), "in a later one of the transaction");
            assert!(!parsed.knows(name, 4, false), "the Parse may have been refused");
            assert!(!parsed.knows(b"other", 3, true));
            parsed.counts_from(4);
            assert!(!parsed.knows(name, 4, true));
            parsed.note(name, 4);
            assert!(parsed.knows(name, 4, false));
        }
    }

    #[test]
    fn a_name_for_which_there_is_no_room_is_not_known() {
        let mut parsed = Parsed::default();
        let name = |n: usize| n.to_string().into_bytes();
        (0..=NAMED_MAX).for_each(|n| parsed.note(&name(n), 1));
        assert!(parsed.knows(&name(NAMED_MAX - 1), 1, false));
        assert!(!parsed.knows(&name(NAMED_MAX), 1, false));
        parsed.counts_from(2);
        parsed.note(b"x", 2);
        assert!(parsed.knows(b"x", 2, false));
    }
}
