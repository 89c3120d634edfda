//! Listening sockets that a service manager has opened (sd_listen_fds(3)). They are used instead of `listen_addr`,
//! `listen_port` and `unix_socket_dir`.

use crate::listener::{ListenPlace, Listener};
use rustix::fd::AsRawFd;
use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// The first descriptor that a service manager passes.
const FIRST_DESCRIPTOR: i32 = 3;

/// A larger number counts as an error.
const SOCKETS_MAX: i32 = 256;

/// The descriptors that `LISTEN_FDS` counts; none if the variables are for another process. Call it before the process
/// opens any file: a descriptor that the service manager has not opened would become the process's own.
pub(crate) fn descriptors() -> io::Result<Vec<OwnedFd>> {
    let count = count(
        std::env::var("LISTEN_PID").ok().as_deref(),
        std::env::var("LISTEN_FDS").ok().as_deref(),
        std::process::id(),
    )?;
    (FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + count).map(adopt).collect()
}

/// The listening sockets behind these descriptors.
pub(crate) fn sockets(descriptors: Vec<OwnedFd>, port: u16) -> io::Result<Vec<Listener>> {
    descriptors.into_iter().map(|socket| listener(socket, port)).collect()
}

fn count(pid: Option<&str>, sockets: Option<&str>, own_pid: u32) -> io::Result<i32> {
    let (Some(pid), Some(sockets)) = (pid, sockets) else {
        return Ok(0);
    };
    if pid.parse() != Ok(own_pid) {
        return Ok(0);
    }
    let count = sockets.parse().ok().filter(|count| (0..=SOCKETS_MAX).contains(count));
    count.ok_or_else(|| {
        invalid(format!(
            "LISTEN_FDS is \"{sockets}\", expected a number up to {SOCKETS_MAX}"
        ))
    })
}

#[expect(unsafe_code, reason = "the number comes from the environment")]
fn adopt(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: if it is not open, the call only says so.
    let flags = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) });
    if flags.is_err() {
        return Err(invalid(format!("descriptor {number} of LISTEN_FDS is not open")));
    }
    // SAFETY: it is open, the service manager has opened it for this process, and nothing else here owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn listener(socket: OwnedFd, port: u16) -> io::Result<Listener> {
    let number = socket.as_raw_fd();
    let listens = sockopt::socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket).unwrap_or(false);
    if !listens {
        return Err(invalid(format!(
            "descriptor {number} of LISTEN_FDS is no listening stream socket"
        )));
    }
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let place = place(rustix::net::getsockname(&socket)?, port).ok_or_else(|| {
        invalid(format!(
            "descriptor {number} of LISTEN_FDS is neither a TCP nor a Unix socket"
        ))
    })?;
    Ok(Listener::given(socket, place))
}

fn place(name: SocketAddrAny, port: u16) -> Option<ListenPlace> {
    if let Ok(address) = SocketAddr::try_from(name.clone()) {
        return Some(ListenPlace::Tcp(address));
    }
    let name = SocketAddrUnix::try_from(name).ok()?;
    let path = match (name.path_bytes(), name.abstract_name()) {
        (Some(path), _) => String::from_utf8_lossy(path).into_owned(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => return None,
    };
    Some(ListenPlace::Unix { path, port })
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn variables_for_another_process_are_not_for_this_one() {
        assert_eq!(count(Some("7"), Some("2"), 7).unwrap(), 2);
        assert_eq!(count(Some("8"), Some("2"), 7).unwrap(), 0);
        assert_eq!(count(None, Some("2"), 7).unwrap(), 0);
        assert!(count(Some("7"), Some("many"), 7).is_err() && count(Some("7"), Some("-1"), 7).is_err());
    }

    /// Closing a descriptor that is not open ends a debug build, and in another one closes somebody else's.
    #[test]
    fn a_descriptor_that_is_not_open_is_not_taken() {
        let error = adopt(1_000_000).unwrap_err();
        assert_eq!(error.to_string(), "descriptor 1000000 of LISTEN_FDS is not open");
    }

    #[test]
    fn only_sockets_that_listen_are_taken() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        assert_eq!(listener(tcp.into(), 6432).unwrap().place, ListenPlace::Tcp(address));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").to_str().unwrap().to_string();
        let unix = UnixListener::bind(&path).unwrap();
        let taken = listener(unix.into(), 6432).unwrap();
        assert_eq!(
            taken.place,
            ListenPlace::Unix {
                path: path.clone(),
                port: 6432
            }
        );
        drop(taken);
        assert!(std::fs::exists(path).unwrap(), "it is the service manager's to remove");
        assert!(listener(UnixStream::pair().unwrap().0.into(), 6432).is_err());
    }
}
