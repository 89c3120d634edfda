//! Output that a socket has not taken yet.

/// Bytes waiting for one socket, in the order they must be sent.
///
/// ```text
/// 0 ..... sent ........ len ...... capacity
///         waiting       free
/// ```
///
/// It has no memory while it is empty: the buffer of a burst is freed when it has drained.
///
/// Invariant: `sent < bytes.len()`, or both are 0.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    sent: usize,
}

impl Pending {
    /// Bytes still to be sent.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes to send next.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Adds bytes after the waiting ones. The room of bytes already sent is used again before the buffer grows.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.sent > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The socket has taken `count` bytes of [`Pending::waiting`].
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        debug_assert!(self.sent <= self.bytes.len());
        if self.sent == self.bytes.len() {
            self.discard();
        }
    }

    /// Drops all waiting bytes, because the socket will never take them.
    pub(crate) fn discard(&mut self) {
        *self = Pending::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came() {
        let mut pending = Pending::default();
        let (mut came, mut left) = (Vec::new(), Vec::new());
        for round in 0..200u8 {
            let piece = vec![round; 1 + usize::from(round) % 17];
            came.extend_from_slice(&piece);
            pending.push(&piece);
            let take = (usize::from(round) * 7 % 13).min(pending.len());
            left.extend_from_slice(&pending.waiting()[..take]);
            pending.advance(take);
            assert_eq!(pending.len(), came.len() - left.len());
        }
        left.extend_from_slice(pending.waiting());
        pending.advance(pending.len());
        assert_eq!(left, came);
        assert!(pending.is_empty());
    }

    #[test]
    fn a_drained_buffer_gives_its_memory_back() {
        let mut pending = Pending::default();
        pending.push(&[1; 100_000]);
        pending.advance(99_999);
        assert!(!pending.is_empty() && pending.bytes.capacity() >= 100_000);
        pending.advance(1);
        assert_eq!((pending.len(), pending.bytes.capacity()), (0, 0));
    }

    #[test]
    fn a_slow_reader_does_not_make_the_buffer_grow_with_what_it_already_took() {
        let mut pending = Pending::default();
        pending.push(&[0; 1000]);
        for _ in 0..1000 {
            pending.advance(500);
            pending.push(&[0; 500]);
        }
        assert!(pending.bytes.capacity() <= 4000, "{}", pending.bytes.capacity());
    }
}
