//! The bytes of a connection's socket: plain messages, or the records of TLS ([`crate::tls`]).

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An open, non-blocking TCP or Unix-domain socket.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
}

/// Outcome of [`Transport::receive`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes were received, at least one.
    Bytes(usize),
    /// No bytes are there now. An event reports when there are.
    WouldBlock,
    /// The other side closed the connection, or it broke: no more bytes will come.
    Closed,
}

/// Outcome of [`Transport::send`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// This many bytes were taken: all, some or none. If not all were taken, an event reports when there is room.
    Bytes(usize),
    /// The connection is broken: it will take no more bytes.
    Failed,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Transport { socket }
    }

    /// The socket's number, for registration with the event loop.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The socket itself, for its options and names.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Receives the bytes that have arrived, at most as many as `into` holds; one system call.
    #[inline]
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Received {
        debug_assert!(!into.is_empty());
        loop {
            return match rustix::net::recv(&self.socket, &mut *into, RecvFlags::empty()) {
                Ok((0, _)) => Received::Closed,
                Ok((count, _)) => Received::Bytes(count),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Received::WouldBlock,
                Err(_) => Received::Closed,
            };
        }
    }

    /// Whether the other side has closed or broken the connection, and all its bytes have been received.
    pub(crate) fn is_at_end(&mut self) -> bool {
        !matches!(
            rustix::net::recv(&self.socket, &mut [0u8; 1][..], RecvFlags::PEEK),
            Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR)
        )
    }

    /// Sends the beginning of `bytes`; one system call.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Sent {
        loop {
            return match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => Sent::Bytes(count),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Sent::Bytes(0),
                Err(_) => Sent::Failed,
            };
        }
    }

    /// Sends the beginning of the slices; one system call.
    pub(crate) fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let mut no_control = SendAncillaryBuffer::default();
        loop {
            return match rustix::net::sendmsg(&self.socket, slices, &mut no_control, SendFlags::NOSIGNAL) {
                Ok(count) => Sent::Bytes(count),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Sent::Bytes(0),
                Err(_) => Sent::Failed,
            };
        }
    }

    /// Makes the end of the connection a reset: the other side can no longer read bytes that it has not read yet, and
    /// its next write fails. A Unix-domain socket has no reset; there the other side's next write fails in any case.
    pub(crate) fn reset(&mut self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// Tells the other side that nothing more will be sent.
    pub(crate) fn finish_sending(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }
}
