//! TLS connections whose bytes an earlier process carries ([`crate::takeover`]). The socket of such a connection is one
//! end of a pair, and tells nothing about the network.

use crate::connections::Connections;
use crate::securing;
use crate::socket::SocketAddress;
use crate::transport::{Received, Transport};
use crate::turns::Origin;
use pgweir_core::ConnectionId;
use pgweir_freeze::Freeze;
use rustix::net::SocketAddrUnix;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The other side of a TLS connection whose bytes an earlier process carries.
#[derive(Debug, Clone, PartialEq, Eq, Freeze)]
pub(crate) struct RelayedPeer {
    pub(crate) address: SocketAddr,
    /// The host of a server, as in the configuration.
    pub(crate) host: String,
}

impl RelayedPeer {
    /// The other side of a TLS connection; `None` if the connection has just ended.
    pub(crate) fn of(transport: &Transport, host: &str) -> Option<RelayedPeer> {
        match SocketAddress::of_peer(transport.socket()) {
            Ok(SocketAddress::Tcp(address)) => Some(RelayedPeer {
                address,
                host: host.to_owned(),
            }),
            _ => None,
        }
    }
}

/// The other sides of all these connections.
pub(crate) type RelayedPeers = HashMap<ConnectionId, RelayedPeer>;

impl Connections {
    /// The other side of a connection, for queues in which origins take turns.
    pub(crate) fn origin(&mut self, id: ConnectionId) -> Option<Origin> {
        match self.relayed.get(&id) {
            Some(peer) => Some(Origin::of(peer.address.ip())),
            None => self.get(id).map(|connection| securing::origin(&connection.transport)),
        }
    }
}

/// Tells the process that carries the bytes of a server's connection to reset that connection, and to send nothing
/// more to it. That process closes its end of the pair when it has done so.
///
/// The sign is a name that is bound to this end of the pair. It needs no buffer space, and the other process sees it
/// even after this end is closed. An end without a name is closed in an orderly way.
pub(crate) fn ask_for_reset(transport: &mut Transport) {
    // Without an address the kernel chooses a name (unix(7), "Autobind feature").
    let _ = rustix::net::bind(transport.socket(), &SocketAddrUnix::new_unnamed());
    transport.finish_sending();
}

/// What is known of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side has not closed it.
    Open,
    /// The other side has sent so much that this was not found out. Nothing reports that the rest can be read.
    Unknown,
    /// The other side has closed it.
    Closed,
}

/// The most bytes that one call of [`end`] throws away.
const THROWN_AWAY_BYTES_MAX: usize = 64 * 1024;

/// Whether the other side has closed this connection. What it has sent before is thrown away.
pub(crate) fn end(transport: &mut Transport) -> End {
    let mut thrown_away = [0; 4096];
    let mut left = THROWN_AWAY_BYTES_MAX;
    while left > 0 {
        match transport.receive(&mut thrown_away) {
            Received::Bytes(count) => left = left.saturating_sub(count),
            Received::WouldBlock => return End::Open,
            Received::Closed => return End::Closed,
        }
    }
    End::Unknown
}

/// Whether [`ask_for_reset`] was called for the other end of a pair.
pub(crate) fn is_to_be_reset(plain: &Transport) -> bool {
    let name = rustix::net::getpeername(plain.socket()).ok().flatten();
    let name = name.and_then(|any| SocketAddrUnix::try_from(any).ok());
    // Where there is no name, rustix reports an empty one.
    name.is_some_and(|name| name.abstract_name().is_some_and(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Sent;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Transport, Transport) {
        let (here, there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        there.set_nonblocking(true).unwrap();
        (Transport::new(here.into()), Transport::new(there.into()))
    }

    /// Whether the end of a connection has not come, when everything has been read.
    fn is_open(transport: &mut Transport) -> bool {
        loop {
            match end(transport) {
                End::Unknown => {}
                end => return end == End::Open,
            }
        }
    }

    /// A server that sends without end must not hold up all other connections.
    #[test]
    fn one_call_throws_away_only_so_much() {
        let (mut here, mut there) = pair();
        let mut sent = 0;
        while let Sent::Bytes(count @ 1..) = there.send(&[7; 65536]) {
            sent += count;
        }
        assert!(sent > THROWN_AWAY_BYTES_MAX);
        assert_eq!(end(&mut here), End::Unknown);
        let mut left = 0;
        while let Received::Bytes(count) = here.receive(&mut [0; 4096]) {
            left += count;
        }
        assert!((1..=sent - THROWN_AWAY_BYTES_MAX).contains(&left), "{left} of {sent}");
        assert_eq!(end(&mut here), End::Open);
    }

    #[test]
    fn an_orderly_end_asks_for_no_reset() {
        let (mut here, mut there) = pair();
        there.send(b"last");
        there.finish_sending();
        drop(there);
        assert!(!is_to_be_reset(&here));
        assert_eq!(here.receive(&mut [0; 8]), Received::Bytes(4));
        assert_eq!(here.receive(&mut [0; 8]), Received::Closed);
        assert!(!is_to_be_reset(&here));
    }

    #[test]
    fn a_reset_is_asked_for_even_if_the_pair_is_full() {
        for closes in [false, true] {
            let (mut here, mut there) = pair();
            while let Sent::Bytes(1..) = there.send(&[7; 65536]) {}
            assert!(!is_to_be_reset(&here));
            ask_for_reset(&mut there);
            let mut left = (!closes).then_some(there);
            assert!(left.as_mut().is_none_or(is_open));
            assert!(is_to_be_reset(&here));
            assert!(matches!(here.receive(&mut [0; 8]), Received::Bytes(_)));
            drop(here);
            assert!(left.as_mut().is_none_or(|there| end(there) == End::Closed));
        }
    }
}
