//! Who is at the other end of a Unix-domain socket: SO_PEERCRED.
//!
//! The process id is 0 if the process belongs to another PID namespace, such as another container's. rustix does not
//! foresee this: its type for process ids cannot be 0.

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::process::Uid;
use std::io;
use std::os::fd::AsFd;

/// The user id that the kernel gives where there is none.
const NO_USER: u32 = u32::MAX;

/// The process that has connected, or listens, when it did so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) uid: Uid,
    /// `None`: the process cannot be seen from here.
    pub(crate) pid: Option<u32>,
}

impl Credentials {
    /// Those of the other end.
    pub(crate) fn of_peer(socket: &impl AsFd) -> io::Result<Credentials> {
        let credentials = getsockopt(socket, PeerCredentials)?;
        Credentials::new(credentials.uid(), credentials.pid()).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// `None`: the socket has no other end on this machine, or no Unix-domain one.
    fn new(uid: u32, pid: i32) -> Option<Credentials> {
        (uid != NO_USER).then(|| Credentials {
            uid: Uid::from_raw(uid),
            pid: u32::try_from(pid).ok().filter(|pid| *pid > 0),
        })
    }

    /// The process, for the log.
    pub(crate) fn process(&self) -> String {
        match self.pid {
            Some(pid) => format!("process {pid}"),
            None => "a process of another PID namespace".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_is_this_process() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let found = Credentials::of_peer(&socket).unwrap();
        assert_eq!(found.pid, Some(std::process::id()));
        assert_eq!(found.uid, rustix::process::geteuid());
        assert_eq!(found.process(), format!("process {}", std::process::id()));
    }

    /// Guards against a panic when a TCP client has left before its address was asked for.
    #[test]
    fn a_tcp_socket_tells_nobody() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(Credentials::of_peer(&socket).is_err());
    }

    /// Such a process has id 0, which is no id.
    #[test]
    fn the_user_is_known_without_a_process() {
        let found = Credentials::new(1000, 0).unwrap();
        assert_eq!((found.uid.as_raw(), found.pid), (1000, None));
        assert_eq!(found.process(), "a process of another PID namespace");
    }
}
