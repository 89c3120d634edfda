//! Socket calls, and addresses as the core names them.

use crate::defer_accept::set_defer_accept;
use crate::log::Log;
use crate::settings::TcpSettings;
use pgweir_core::{Address, LogLevel};
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
        _ => Address::Unix {
            port: unix_port,
            pid: None,
        },
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

/// An unconnected socket of the family of `address`.
pub(crate) fn open(address: &SocketAddress) -> rustix::io::Result<OwnedFd> {
    let family = match address {
        SocketAddress::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        SocketAddress::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        SocketAddress::Unix(_) => AddressFamily::UNIX,
    };
    rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)
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
///
/// A connection works without each of them. So one that the system refuses is logged, once, and the others are set.
pub(crate) fn set_tcp_options(socket: impl AsFd, tcp: &TcpSettings, log: &mut Log) {
    let socket = socket.as_fd();
    let mut report = |option: &str, outcome: rustix::io::Result<()>| {
        if let Err(e) = outcome {
            let text = format!("the system refuses {option} of TCP connections, which go on without it: {e}");
            log.write_once(LogLevel::Warning, &text);
        }
    };
    report("TCP_NODELAY", sockopt::set_tcp_nodelay(socket, true));
    report("tcp_keepalive", sockopt::set_socket_keepalive(socket, tcp.keepalive));
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    if tcp.keepalive && tcp.keepidle_seconds > 0 {
        let outcome = sockopt::set_tcp_keepidle(socket, seconds(tcp.keepidle_seconds));
        report("tcp_keepidle", outcome);
    }
    if tcp.keepalive && tcp.keepintvl_seconds > 0 {
        let outcome = sockopt::set_tcp_keepintvl(socket, seconds(tcp.keepintvl_seconds));
        report("tcp_keepintvl", outcome);
    }
    if tcp.keepalive && tcp.keepcnt > 0 {
        report("tcp_keepcnt", sockopt::set_tcp_keepcnt(socket, tcp.keepcnt));
    }
    if tcp.user_timeout_ms > 0 {
        let outcome = sockopt::set_tcp_user_timeout(socket, tcp.user_timeout_ms);
        report("tcp_user_timeout", outcome);
    }
    if tcp.socket_buffer_bytes > 0 {
        let bytes = tcp.socket_buffer_bytes;
        let send = sockopt::set_socket_send_buffer_size(socket, bytes);
        report(
            "tcp_socket_buffer",
            send.and(sockopt::set_socket_recv_buffer_size(socket, bytes)),
        );
    }
}

/// Gives a socket the system's values again of options that a RELOAD may have taken away. A size of its buffers stays:
/// the system cannot be made to choose it again.
fn forget_tcp_options(socket: impl AsFd) -> rustix::io::Result<()> {
    let fresh = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_tcp_keepidle(&socket, sockopt::tcp_keepidle(&fresh)?)?;
    sockopt::set_tcp_keepintvl(&socket, sockopt::tcp_keepintvl(&fresh)?)?;
    sockopt::set_tcp_keepcnt(&socket, sockopt::tcp_keepcnt(&fresh)?)?;
    sockopt::set_tcp_user_timeout(&socket, sockopt::tcp_user_timeout(&fresh)?)
}

/// Sets the options of a listening TCP socket: those of the sockets that it will accept, and its own.
pub(crate) fn set_listener_options(socket: impl AsFd, tcp: &TcpSettings, log: &mut Log) {
    if let Err(e) = forget_tcp_options(&socket) {
        let text = format!("the options of TCP connections keep their earlier values: {e}");
        log.write_once(LogLevel::Warning, &text);
    }
    set_tcp_options(&socket, tcp, log);
    if let Err(e) = set_defer_accept(socket, tcp.defer_accept_seconds) {
        let text = format!("the system refuses tcp_defer_accept, and clients are accepted at once: {e}");
        log.write_once(LogLevel::Warning, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::LogSettings;
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
        set_tcp_options(&listener, &tcp, &mut Log::new(false, false));
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(sockopt::tcp_nodelay(&accepted).unwrap());
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), Duration::from_secs(77));
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), 4321);
    }

    /// A connection must not end because of an option that it does not need.
    #[test]
    fn a_refused_option_is_logged_once_and_costs_no_other_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::new(false, false);
        let settings = LogSettings {
            logfile: path.to_str().unwrap().to_owned(),
            ..LogSettings::default()
        };
        log.open(&settings).unwrap();
        let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
        // Linux takes at most 32767 seconds.
        let tcp = TcpSettings {
            keepalive: true,
            keepidle_seconds: 32768,
            keepcnt: 7,
            user_timeout_ms: 4321,
            ..Default::default()
        };
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            set_tcp_options(&listener, &tcp, &mut log);
            assert!(sockopt::tcp_nodelay(&listener).unwrap());
            assert_eq!(sockopt::tcp_keepcnt(&listener).unwrap(), 7);
            assert_eq!(sockopt::tcp_user_timeout(&listener).unwrap(), 4321);
            assert_eq!(lines(), 1);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("the system refuses tcp_keepidle of TCP connections"),
            "{text}"
        );
        // After a RELOAD it is said again.
        log.configure(&settings);
        set_tcp_options(TcpListener::bind("127.0.0.1:0").unwrap(), &tcp, &mut log);
        assert_eq!(lines(), 2);
    }

    #[test]
    fn names_of_unix_sockets() {
        assert!(matches!(SocketAddress::unix("/tmp/.s.PGSQL.1"), Ok(SocketAddress::Unix(a)) if a.path().is_some()));
        let abstract_one = SocketAddress::unix("@pgweir");
        assert!(matches!(abstract_one, Ok(SocketAddress::Unix(a)) if a.abstract_name() == Some(b"pgweir")));
        assert!(SocketAddress::unix(&"x".repeat(200)).is_err());
    }
}
