//! `-R`: another process replaces this one, with its listening sockets and all connections.
//!
//! ```text
//! new process                                 old process
//! Hello, and the form of its state  ───────>  accepts no clients any more; what it has begun outside the core ends
//!                                             stops, freezes its core
//!                            <──────────────  Listeners, Clock, State, Connections (with descriptors), End
//! thaws, watches all sockets, reads none
//! Ready  ──────────────────────────────────>
//!                            <──────────────  Go; from here on it uses none of them
//! goes on                                     carries the bytes of TLS connections until they end
//! ```
//!
//! Until it sends Go, the old process has changed nothing, so it goes on as before whatever happens to the new one. The
//! state that it has sent is out of date from then on. So it first writes a byte to the socket that came with End: if
//! the old process ends without a Go, the new one goes on only if that byte is not there.
//!
//! If the new process is built from other sources, or does not know the layout of the state, it takes over only the
//! listening sockets, and the old process serves its connections until they end.

mod arriving;
mod beginning;
mod channel;
mod leaving;
mod relay;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod sources_tests;

pub(crate) use beginning::Beginning;
pub(crate) use leaving::Succession;
pub(crate) use relay::Relay;

use crate::credentials::Credentials;
use crate::listener::unix_socket_path;
use crate::relayed::RelayedPeer;
use crate::socket::{self, SocketAddress};
use pgweir_core::{ConnectionId, Pooler, Time};
use pgweir_freeze::{Freeze, mix};
use rustix::process::Uid;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The first bytes of a process that wants to take over, before its layout of the state.
const HELLO: [u8; 8] = *b"pgweir-R";

/// A hash of what the state means and of the layout of everything that is handed over, except listening sockets.
const LAYOUT: u64 = mix(
    mix(mix(Pooler::STATE_LAYOUT, Clock::LAYOUT), SOURCES),
    <Vec<ConnectionRecord> as Freeze>::LAYOUT,
);

/// A hash of the sources of the program, from the build script. See `sources.rs`.
const SOURCES: u64 = number(env!("PGWEIR_SOURCES"));

/// The number with these decimal digits.
const fn number(digits: &str) -> u64 {
    match u64::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script has written no number"),
    }
}

/// Connections in one message: the kernel passes up to 253 descriptors at a time.
const BATCH: usize = 200;

/// The time in the core, the environment of the process, and what its configuration has.
#[derive(Debug, Freeze)]
struct Clock {
    now: Time,
    /// The system's monotonic clock at that moment, microseconds.
    monotonic_us: u64,
    /// NOTIFY_SOCKET, WATCHDOG_USEC.
    notify_socket: Option<String>,
    watchdog_us: Option<String>,
    /// How many users `auth_file` names.
    auth_users: usize,
    /// How many lines [databases] has.
    databases: usize,
    /// The settings in the file that say who may log in.
    login_lines: Vec<String>,
}

/// A connection that is handed over; its descriptor comes with it.
#[derive(Debug, Freeze)]
struct ConnectionRecord {
    id: ConnectionId,
    /// Its socket is a Unix-domain socket.
    is_unix: bool,
    /// Bytes that the core has not consumed.
    kept: Vec<u8>,
    /// Bytes that the socket has not taken.
    pending: Vec<u8>,
    /// The other side, if this connection has TLS: then its socket is one end of a pair.
    relayed: Option<RelayedPeer>,
}

/// The path of the socket where a process waits for one that replaces it.
pub(crate) fn socket_path(dir: &str, port: u16) -> String {
    format!("{}.take-over", unix_socket_path(dir, port))
}

/// Opens the socket where a process waits for one that replaces it.
fn listen(path: &str) -> io::Result<UnixListener> {
    match path.strip_prefix('@') {
        Some(name) => {
            let address = SocketAddr::from_abstract_name(name)?;
            UnixListener::bind_addr(&address)
        }
        None => {
            // No other process uses this file: it would also listen on the main socket, and this process could not have
            // started.
            let _ = std::fs::remove_file(path);
            let socket = UnixListener::bind(path)?;
            rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
            Ok(socket)
        }
    }
}

/// Whether a process of this system user may take part in a take-over by or from a process of the user `own`.
fn is_trusted(user: Uid, own: Uid) -> bool {
    user == own || user.is_root()
}

/// The system user to whom a socket belongs: the owner of its file, or, in the abstract namespace, of the process that
/// listens there. `None` if that cannot be found out.
fn owner(path: &str) -> Option<Uid> {
    match path.strip_prefix('@') {
        Some(_) => {
            let address = SocketAddress::unix(path).ok()?;
            // Not blocking: nobody may accept.
            let socket = socket::open(&address).ok()?;
            socket::connect(&socket, &address).ok()?;
            Some(Credentials::of_peer(&socket).ok()?.uid)
        }
        None => Some(Uid::from_raw(rustix::fs::lstat(path).ok()?.st_uid)),
    }
}

/// Why nobody can take over from this process, and what to do: it cannot wait at `path`.
pub(crate) fn cannot_wait(path: &str, error: &io::Error) -> String {
    let own = rustix::process::geteuid();
    let why = match owner(path) {
        Some(user) if user != own => format!(
            "it belongs to system user {}; remove it, and set unix_socket_dir to a directory in which only the user of \
             pgweir can make files",
            user.as_raw()
        ),
        _ => error.to_string(),
    };
    format!("could not listen on unix:{path}: {why}; no process can take over from this one (-R)")
}

/// The system's monotonic clock, microseconds.
fn monotonic_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}
