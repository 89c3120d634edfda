//! What the driver remembers of an open connection: as little as possible, since most of them are idle.

use crate::pending::Pending;
use crate::transport::Transport;

/// One open connection, client's or server's. An idle one owns no buffer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    /// Which life of its slot this is; events of other lives are not for it.
    pub(crate) generation: u32,
    pub(crate) facts: Facts,
    /// Bytes received that the core has not consumed: a message cut short, or a client that waits for a server.
    pub(crate) kept: Vec<u8>,
    /// Bytes to be sent that the socket has not taken.
    pub(crate) pending: Pending,
}

/// What edge-triggered events have told and must not be forgotten, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts(u16);

impl Facts {
    /// The socket may hold bytes that were not received: set by an event, cleared by a read that came up short.
    pub(crate) const READABLE: Facts = Facts(1);
    /// The peer has closed its side: a short read is not the end, there is an end-of-file to be read behind it.
    pub(crate) const READ_CLOSED: Facts = Facts(1 << 1);
    /// Both sides are closed or the connection broke.
    pub(crate) const HUNG_UP: Facts = Facts(1 << 2);
    /// The event loop reports room for output. Asked for by the first short write, not before.
    pub(crate) const WATCHES_ROOM: Facts = Facts(1 << 3);
    /// A write failed; output is discarded, and what the peer said before it went is still read.
    pub(crate) const WRITE_FAILED: Facts = Facts(1 << 4);
    /// Stands in the ready list.
    pub(crate) const IN_READY: Facts = Facts(1 << 5);
    /// Stands in the list of those whose reading waits for another connection's output to drain.
    pub(crate) const IN_HELD_BACK: Facts = Facts(1 << 6);
    /// The last thing that happened was output of ours: the peer may not have read it yet.
    pub(crate) const SPOKE_LAST: Facts = Facts(1 << 7);

    /// A Unix-domain socket: its kernel reports room after every read of the peer, whether asked for or not.
    pub(crate) const UNIX: Facts = Facts(1 << 8);

    #[inline]
    pub(crate) fn has(self, fact: Facts) -> bool {
        self.0 & fact.0 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, fact: Facts) {
        self.0 |= fact.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, fact: Facts) {
        self.0 &= !fact.0;
    }
}

/// A kept buffer may be this many times as large as what it holds before it is replaced by one that fits.
const KEPT_SLACK_MAX: usize = 4;

impl Connection {
    pub(crate) fn new(transport: Transport, generation: u32) -> Self {
        Connection {
            transport,
            generation,
            facts: Facts::default(),
            kept: Vec::new(),
            pending: Pending::default(),
        }
    }

    /// Replaces what is kept by `rest`, in a buffer of about its size.
    #[inline]
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            if self.kept.capacity() > 0 {
                self.kept = Vec::new();
            }
            return;
        }
        self.kept.clear();
        if self.kept.capacity() > rest.len().saturating_mul(KEPT_SLACK_MAX) {
            self.kept = Vec::new();
        }
        self.kept.reserve_exact(rest.len());
        self.kept.extend_from_slice(rest);
    }

    /// Drops the first `consumed` kept bytes.
    pub(crate) fn consume_kept(&mut self, consumed: usize) {
        if consumed >= self.kept.len() {
            self.kept = Vec::new();
        } else if consumed > 0 {
            self.kept.drain(..consumed);
            self.kept.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    fn connection() -> Connection {
        Connection::new(Transport::Plain(OwnedFd::from(UnixStream::pair().unwrap().0)), 0)
    }

    #[test]
    fn an_idle_connection_is_small_and_owns_no_buffer() {
        assert!(
            size_of::<Option<Connection>>() <= 72,
            "{}",
            size_of::<Option<Connection>>()
        );
        let mut c = connection();
        c.keep(b"half a messa");
        c.keep(b"");
        assert_eq!(c.kept.capacity(), 0);
        c.keep(b"half a messa");
        c.consume_kept(12);
        assert_eq!(c.kept.capacity(), 0);
    }

    #[test]
    fn what_is_kept_shrinks_with_its_content() {
        let mut c = connection();
        c.keep(&[7; 100_000]);
        c.consume_kept(99_990);
        assert_eq!(c.kept, [7; 10]);
        assert!(c.kept.capacity() < 100);
        c.keep(&[7; 100_000]);
        c.keep(&[8; 5]);
        assert_eq!(c.kept, [8; 5]);
        assert!(c.kept.capacity() < 100);
    }

    #[test]
    fn facts_are_independent() {
        let mut f = Facts::default();
        f.set(Facts::READABLE);
        f.set(Facts::SPOKE_LAST);
        f.clear(Facts::READABLE);
        assert!(f.has(Facts::SPOKE_LAST) && !f.has(Facts::READABLE) && !f.has(Facts::HUNG_UP));
    }
}
