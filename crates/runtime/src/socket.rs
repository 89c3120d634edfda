//! Socket calls, and addresses as the core names them.

use crate::settings::TcpSettings;
use pgweir_core::Address;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Every socket is non-blocking, and programs that this process starts do not inherit it.
pub(crate) const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// An address to bind or connect a socket to.
#[derive(Debug, Clone)]
pub(crate) enum SocketAddress {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

impl SocketAddress {
    /// The address of a Unix-domain socket; a path that begins with `@` is in the abstract namespace.
    pub(crate) fn unix(path: &str) -> io::Result<Self> {
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        Ok(SocketAddress::Unix(address))
    }

    /// The address of the other side of a connected socket.
    pub(crate) fn of_peer(socket: impl AsFd) -> io::Result<Self> {
        let any = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
        Self::of(any).ok_or_else(|| io::Error::from(Errno::AFNOSUPPORT))
    }

    fn of(any: SocketAddrAny) -> Option<Self> {
        match any.address_family() {
            AddressFamily::UNIX => SocketAddrUnix::try_from(any).ok().map(SocketAddress::Unix),
            _ => SocketAddr::try_from(any).ok().map(SocketAddress::Tcp),
        }
    }
}

/// The TCP address in `any`; for any other kind, a Unix-domain socket with this port.
pub(crate) fn address_or_unix(any: Option<SocketAddrAny>, unix_port: u16) -> Address {
    match any.map(SocketAddr::try_from) {
        Some(Ok(address)) => Address::Tcp(plain_ipv4(address)),
        _ => Address::Unix { port: unix_port },
    }
}

/// Shows the IPv4 client of an IPv6 socket under its IPv4 address, as PgBouncer does.
fn plain_ipv4(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The local address of a connected socket.
pub(crate) fn local_address(socket: impl AsFd, unix_port: u16) -> Address {
    address_or_unix(rustix::net::getsockname(socket).ok(), unix_port)
}

/// An unconnected socket of the family of `address`. A TCP socket gets the options of `tcp`.
pub(crate) fn open(address: &SocketAddress, tcp: &TcpSettings) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddress::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        SocketAddress::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        SocketAddress::Unix(_) => AddressFamily::UNIX,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?;
    if family != AddressFamily::UNIX {
        set_tcp_options(&socket, tcp)?;
    }
    Ok(socket)
}

/// Begins to connect. `INPROGRESS` means that an event will report the outcome.
pub(crate) fn connect(socket: impl AsFd, address: &SocketAddress) -> rustix::io::Result<()> {
    match address {
        SocketAddress::Tcp(address) => rustix::net::connect(socket, address),
        SocketAddress::Unix(address) => rustix::net::connect(socket, address),
    }
}

/// Binds a socket, which will listen.
pub(crate) fn bind(socket: impl AsFd, address: &SocketAddress) -> rustix::io::Result<()> {
    match address {
        SocketAddress::Tcp(address) => rustix::net::bind(socket, address),
        SocketAddress::Unix(address) => rustix::net::bind(socket, address),
    }
}

/// Whether a connection attempt has succeeded.
pub(crate) fn is_connected(socket: impl AsFd) -> bool {
    matches!(rustix::net::getpeername(socket), Ok(Some(_)))
}

/// The error of a connection attempt that has failed.
pub(crate) fn error(socket: impl AsFd) -> Option<io::Error> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(e)) | Err(e) => Some(e.into()),
    }
}

/// Sets the options of PostgreSQL's and PgBouncer's TCP connections. Accepted sockets inherit those of the listening
/// one.
pub(crate) fn set_tcp_options(socket: impl AsFd, tcp: &TcpSettings) -> rustix::io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, tcp.keepalive)?;
    if tcp.keepalive {
        if tcp.keepidle_seconds > 0 {
            sockopt::set_tcp_keepidle(socket, Duration::from_secs(tcp.keepidle_seconds.into()))?;
        }
        if tcp.keepintvl_seconds > 0 {
            sockopt::set_tcp_keepintvl(socket, Duration::from_secs(tcp.keepintvl_seconds.into()))?;
        }
        if tcp.keepcnt > 0 {
            sockopt::set_tcp_keepcnt(socket, tcp.keepcnt)?;
        }
    }
    if tcp.user_timeout_ms > 0 {
        sockopt::set_tcp_user_timeout(socket, tcp.user_timeout_ms)?;
    }
    if tcp.socket_buffer_bytes > 0 {
        sockopt::set_socket_send_buffer_size(socket, tcp.socket_buffer_bytes)?;
        sockopt::set_socket_recv_buffer_size(socket, tcp.socket_buffer_bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn accepted_sockets_inherit_the_options_of_the_listening_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpSettings {
            keepalive: true,
            keepidle_seconds: 77,
            user_timeout_ms: 4321,
            ..Default::default()
        };
        set_tcp_options(&listener, &tcp).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), Duration::from_secs(77));
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 4321);
    }

    #[test]
    fn names_of_unix_sockets() {
        assert!(matches!(SocketAddress::unix("/tmp/.s.PGSQL.1"), Ok(SocketAddress::Unix(a)) if a.path().is_some()));
        let abstract_one = SocketAddress::unix("@pgweir");
        assert!(matches!(abstract_one, Ok(SocketAddress::Unix(a)) if a.abstract_name() == Some(b"pgweir")));
        assert!(SocketAddress::unix(&"x".repeat(200)).is_err());
    }
}
