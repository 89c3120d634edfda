//! Who is at the other end of a Unix-domain socket: SO_PEERCRED.
//!
//! The process id is 0 if the process belongs to another PID namespace, such as another container's. rustix does not
//! foresee this: its type for process ids cannot be 0.

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::process::Uid;
use std::io;
use std::os::fd::AsFd;

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
        Ok(Credentials::new(credentials.uid(), credentials.pid()))
    }

    fn new(uid: u32, pid: i32) -> Credentials {
        Credentials {
            uid: Uid::from_raw(uid),
            pid: u32::try_from(pid).ok().filter(|pid| *pid > 0),
        }
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

    /// Such a process has id 0, which is no id.
    #[test]
    fn the_user_is_known_without_a_process() {
        let found = Credentials::new(1000, 0);
        assert_eq!((found.uid.as_raw(), found.pid), (1000, None));
        assert_eq!(found.process(), "a process of another PID namespace");
    }
}
