//! What a step wants to write, and to which connection.
//!
//! The core does not copy what it forwards: a [`Part`] is a range of the bytes that the driver passed in, or of the
//! outbox's arena, which holds the bytes that the pooler made. Neighbouring ranges are merged, so most inputs become
//! one part, which costs the driver one system call.

use crate::base::ids::ConnectionId;
use std::ops::Range;

/// Where a part's bytes are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the bytes passed to the `handle_*_bytes` call that is being answered.
    #[default]
    Input,
    /// In [`Outbox::arena`].
    Arena,
}

/// A run of bytes for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Who gets the bytes.
    pub to: ConnectionId,
    /// Where the bytes are.
    pub source: Source,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Part {
    /// The range within its source.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Parts in the order they must be written; order matters only between parts for the same connection.
#[derive(Debug, Default)]
pub struct Outbox {
    parts: Vec<Part>,
    arena: Vec<u8>,
    /// Where the forwarded bytes are: in the input, unless the pooler has kept them.
    source: Source,
    /// Where these bytes begin in the source.
    base: u32,
}

/// An arena that has grown beyond this is freed, bytes.
const ARENA_BYTES_KEPT_MAX: usize = 64 * 1024;

impl Outbox {
    /// The parts since the last [`Outbox::clear`].
    #[inline]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The bytes that the pooler made.
    pub fn arena(&self) -> &[u8] {
        &self.arena
    }

    /// The bytes of `part`, which must be a part of this outbox. `input` is the argument of the `handle_*_bytes` call
    /// that returned the part.
    #[inline]
    pub fn bytes<'a>(&'a self, part: &Part, input: &'a [u8]) -> &'a [u8] {
        match part.source {
            Source::Input => &input[part.range()],
            Source::Arena => &self.arena[part.range()],
        }
    }

    /// Removes all parts; the driver calls it after it has written or copied them.
    #[inline]
    pub fn clear(&mut self) {
        self.parts.clear();
        if self.arena.capacity() > ARENA_BYTES_KEPT_MAX {
            self.arena = Vec::new();
        } else {
            self.arena.clear();
        }
    }

    /// Forwards a range of the input.
    #[inline(always)]
    pub(crate) fn forward(&mut self, to: ConnectionId, range: Range<usize>) {
        self.push(Part {
            to,
            source: self.source,
            start: self.base + range.start as u32,
            end: self.base + range.end as u32,
        });
    }

    /// Until [`Outbox::ends_kept`], [`Outbox::forward`] forwards ranges of `bytes`, which the pooler has kept, and not
    /// of the input.
    pub(crate) fn begins_kept(&mut self, bytes: &[u8]) {
        (self.source, self.base) = (Source::Arena, self.arena.len() as u32);
        self.arena.extend_from_slice(bytes);
    }

    pub(crate) fn ends_kept(&mut self) {
        (self.source, self.base) = (Source::Input, 0);
    }

    /// Sends bytes that `write` appends to the arena.
    #[inline(always)]
    pub(crate) fn insert(&mut self, to: ConnectionId, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.arena.len() as u32;
        write(&mut self.arena);
        self.push(Part {
            to,
            source: Source::Arena,
            start,
            end: self.arena.len() as u32,
        });
    }

    #[inline(always)]
    fn push(&mut self, part: Part) {
        if part.start == part.end {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.to == part.to && last.source == part.source && last.end == part.start => {
                last.end = part.end
            }
            _ => self.parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{ClientId, Slot};

    #[test]
    fn neighbours_merge_and_strangers_do_not() {
        let a = ConnectionId::Client(ClientId(Slot {
            index: 0,
            generation: 0,
        }));
        let b = ConnectionId::Client(ClientId(Slot {
            index: 1,
            generation: 0,
        }));
        let mut out = Outbox::default();
        out.forward(a, 0..5);
        out.forward(a, 5..9);
        out.forward(b, 9..10);
        out.insert(b, |v| v.extend(*b"xy"));
        out.insert(b, |v| v.extend(*b"z"));
        out.insert(b, |_| {});
        assert_eq!(out.parts().len(), 3);
        let input = *b"0123456789";
        let sent: Vec<_> = out
            .parts()
            .iter()
            .map(|p| (p.to, out.bytes(p, &input).to_vec()))
            .collect();
        assert_eq!(
            sent,
            [(a, b"012345678".to_vec()), (b, b"9".to_vec()), (b, b"xyz".to_vec())]
        );
        out.clear();
        assert!(out.parts().is_empty() && out.arena().is_empty());
    }
}
