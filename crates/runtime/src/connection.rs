//! What the driver keeps for an open connection: as little as possible, because most connections are idle.

use crate::pending::Pending;
use crate::tls::TlsSession;
use crate::transport::{Received, Transport};

/// One open connection, to a client or a server. An idle one has no buffer.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    /// Set with [`Facts::TLS`], from the beginning of the handshake. Then the socket's bytes are records of TLS.
    pub(crate) tls: Option<Box<TlsSession>>,
    /// The generation of its slot. Events of other generations are for connections that are gone.
    pub(crate) generation: u32,
    pub(crate) facts: Facts,
    /// Received bytes that the core has not consumed: an incomplete message, or the messages of a client that waits for
    /// a server.
    pub(crate) kept: Vec<u8>,
    /// Output that the socket has not taken, as bytes of the socket.
    pub(crate) pending: Pending,
}

/// Facts from edge-triggered events that must be remembered, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts(u16);

impl Facts {
    /// The socket may hold bytes that were not received: set by an event, cleared by a read that returned fewer bytes
    /// than there was room for.
    pub(crate) const READABLE: Facts = Facts(1);
    /// The other side sends no more. After a short read there is still an end-of-file to be read.
    pub(crate) const READ_CLOSED: Facts = Facts(1 << 1);
    /// Both sides are closed or the connection broke.
    pub(crate) const HUNG_UP: Facts = Facts(1 << 2);
    /// The event loop reports room for output. It is asked to do so after the first short write.
    pub(crate) const WATCHES_ROOM: Facts = Facts(1 << 3);
    /// A write failed. Further output is discarded, but the other side's last messages are still read.
    pub(crate) const WRITE_FAILED: Facts = Facts(1 << 4);
    /// The connection is in the ready list.
    pub(crate) const IN_READY: Facts = Facts(1 << 5);
    /// The connection is in the list of those that are not read until another connection's output has drained.
    pub(crate) const IN_HELD_BACK: Facts = Facts(1 << 6);
    /// Output was the last thing that happened: the other side may not have read it yet.
    pub(crate) const SPOKE_LAST: Facts = Facts(1 << 7);

    /// A Unix-domain socket: the kernel reports room after each read of the other side, even if not asked to.
    pub(crate) const UNIX: Facts = Facts(1 << 8);
    /// The connection has a [`TlsSession`].
    pub(crate) const TLS: Facts = Facts(1 << 9);
    /// An earlier process carries the bytes of this TLS connection ([`crate::relayed`]).
    pub(crate) const RELAYED: Facts = Facts(1 << 10);
    /// Output for the connection is in [`Sends`](crate::sends::Sends).
    pub(crate) const QUEUED: Facts = Facts(1 << 11);
    /// Output is not sent as it is: it is discarded or encrypted.
    pub(crate) const WRITES_OTHERWISE: Facts = Facts(Self::WRITE_FAILED.0 | Self::TLS.0 | Self::QUEUED.0);

    /// Whether one of these facts is known.
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

/// Whether to go on reading a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRead {
    /// There may be more.
    More,
    /// All bytes were read, or the connection may not be read now, or it is gone.
    Enough,
}

/// Outcome of [`Connection::receive`].
#[derive(Debug)]
pub(crate) enum Input {
    /// This many bytes, at least one, and whether there may be more.
    Bytes(usize, AfterRead),
    /// No bytes are there now.
    Nothing,
    /// The other side closed the connection, or it broke.
    Closed,
}

/// A buffer of kept bytes that is more than this many times as large as its contents is replaced by a smaller one.
const KEPT_SLACK_MAX: usize = 4;

impl Connection {
    pub(crate) fn new(transport: Transport, generation: u32) -> Self {
        Connection {
            transport,
            tls: None,
            generation,
            facts: Facts::default(),
            kept: Vec::new(),
            pending: Pending::default(),
        }
    }

    /// One read of the socket of a connection without TLS.
    #[inline(always)]
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Input {
        match self.transport.receive(into) {
            Received::Bytes(count) => {
                self.facts.clear(Facts::SPOKE_LAST);
                // A short read has drained the socket (epoll(7), question 9), unless an end-of-file follows.
                let more = count == into.len() || self.facts.has(Facts::READ_CLOSED);
                if !more {
                    self.facts.clear(Facts::READABLE);
                }
                Input::Bytes(count, if more { AfterRead::More } else { AfterRead::Enough })
            }
            Received::WouldBlock => {
                self.facts.clear(Facts::READABLE);
                Input::Nothing
            }
            Received::Closed => Input::Closed,
        }
    }

    /// Replaces the kept bytes by `rest`, in a buffer of about its size.
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
        Connection::new(Transport::new(OwnedFd::from(UnixStream::pair().unwrap().0)), 0)
    }

    #[test]
    fn an_idle_connection_is_small_and_owns_no_buffer() {
        assert!(
            size_of::<Option<Connection>>() <= 80,
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
