//! The new process: it asks for everything, and takes it over.

use super::channel::{Channel, Kind};
use super::{Clock, ConnectionRecord, HELLO, LAYOUT, is_trusted, monotonic_us, owner};
use crate::credentials::Credentials;
use crate::listener::{ListenPlace, Listener};
use crate::socket::SocketAddress;
use crate::start_error::StartError;
use pgweir_config::Holdings;
use pgweir_freeze::from_bytes;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Uid, geteuid};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the old process may take to finish its work, and then for each message.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// How long it may take to send everything.
const ALL_WAIT_MAX: Duration = Duration::from_secs(120);

/// How long a process that has closed the channel may take to end.
const END_WAIT: Duration = Duration::from_secs(1);

/// The process that this one replaces.
#[derive(Debug)]
pub(crate) struct Predecessor {
    channel: Channel,
    pid: Option<Pid>,
    /// Has a byte to read as soon as that process has gone on; came with [`Kind::End`].
    goes_on: Option<UnixStream>,
}

/// What that process has handed over.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) listeners: Vec<Listener>,
    /// The socket where it waits for processes that want to replace it.
    pub(crate) gate: Option<OwnedFd>,
    /// `None` if it keeps its connections.
    pub(crate) taken: Option<Taken>,
}

/// The state of its core, and its connections.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) state: Vec<u8>,
    clock: Clock,
    connections: Vec<(ConnectionRecord, OwnedFd)>,
}

impl Predecessor {
    /// The process that waits at this socket; `None` if there is none. It must have the same system user, or be root:
    /// in a directory such as /tmp every user of the machine can wait. Until that is known, this process sends it
    /// nothing, and uses nothing that it sends.
    pub(crate) fn at(path: &str) -> Result<Option<Predecessor>, StartError> {
        Self::of_user(path, geteuid(), WAIT_MAX)
    }

    /// Like [`Predecessor::at`], for a process of the system user `own`, which must answer in this time.
    fn of_user(path: &str, own: Uid, wait_max: Duration) -> Result<Option<Predecessor>, StartError> {
        let failed = |source: io::Error| StartError::TakeOver {
            place: path.into(),
            source,
        };
        let stranger = |user: Uid| StartError::ForeignPredecessor {
            place: path.into(),
            user: user.as_raw(),
        };
        let stream = match connect(path, wait_max) {
            Ok(stream) => stream,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(None),
            Err(e) => match owner(path) {
                Some(user) if !is_trusted(user, own) => return Err(stranger(user)),
                _ if e == Errno::CONNREFUSED => return Ok(None),
                _ if e == Errno::AGAIN => {
                    let text = "the process that waits there does not answer";
                    return Err(failed(io::Error::new(io::ErrorKind::TimedOut, text)));
                }
                _ => return Err(failed(e.into())),
            },
        };
        let peer = Credentials::of_peer(&stream).map_err(failed)?;
        if !is_trusted(peer.uid, own) {
            return Err(stranger(peer.uid));
        }
        Ok(Some(Predecessor {
            channel: Channel::new(stream, wait_max).map_err(failed)?,
            pid: peer.pid.and_then(|pid| Pid::from_raw(pid.cast_signed())),
            goes_on: None,
        }))
    }

    /// The process id, for the log.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.map_or(0, |pid| pid.as_raw_nonzero().get())
    }

    /// Asks for everything and waits for it.
    pub(crate) fn inherit(&mut self) -> io::Result<Inherited> {
        match self.channel.say_hello() {
            // Its refusal waits to be read.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            said => said?,
        }
        let asked = Instant::now();
        let mut inherited = Inherited::default();
        let (mut clock, mut state, mut connections) = (None, None, Vec::new());
        loop {
            if asked.elapsed() > ALL_WAIT_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let message = self.channel.receive()?;
            match message.kind {
                Kind::Refused => return Err(io::Error::other(String::from_utf8_lossy(&message.bytes).into_owned())),
                Kind::Listeners => inherited.take_listeners(&message.bytes, message.descriptors)?,
                Kind::Clock => clock = Some(from_bytes(&message.bytes).map_err(|_| damaged())?),
                Kind::State => state = Some(message.bytes),
                Kind::Connections => {
                    let records: Vec<ConnectionRecord> = from_bytes(&message.bytes).map_err(|_| damaged())?;
                    if records.len() != message.descriptors.len() {
                        return Err(damaged());
                    }
                    connections.extend(records.into_iter().zip(message.descriptors));
                }
                Kind::End => {
                    self.goes_on = message.descriptors.into_iter().next().map(UnixStream::from);
                    break;
                }
                Kind::Ready | Kind::ReadyToListen | Kind::Go => return Err(damaged()),
            }
        }
        if let (Some(clock), Some(state)) = (clock, state) {
            inherited.taken = Some(Taken {
                state,
                clock,
                connections,
            });
        }
        Ok(inherited)
    }

    /// Tells the old process that this one is ready. When this returns without an error, the old process no longer uses
    /// what it has handed over. If the old process has ended, this one takes over, unless the old one resumed
    /// service first: then what it has handed over is out of date.
    pub(crate) fn take_place(&mut self, with_connections: bool) -> io::Result<()> {
        let kind = match with_connections {
            true => Kind::Ready,
            false => Kind::ReadyToListen,
        };
        let told = self.channel.send(kind, &[], &[]).and_then(|()| self.channel.receive());
        match told {
            Ok(message) if message.kind == Kind::Go => Ok(()),
            Ok(_) => Err(damaged()),
            Err(_) if self.has_died() && (!with_connections || self.has_waited_to_its_end()) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Whether the old process, which has died, did not go on serving its clients before.
    fn has_waited_to_its_end(&mut self) -> bool {
        let Some(goes_on) = &mut self.goes_on else { return false };
        goes_on.set_nonblocking(true).is_ok() && matches!(goes_on.read(&mut [0]), Ok(0))
    }

    /// Whether the old process has ended, or ends within [`END_WAIT`]. Blocks that long.
    pub(crate) fn has_died(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let asked = Instant::now();
        while asked.elapsed() < END_WAIT {
            if rustix::process::test_kill_process(pid).is_err() || is_zombie(pid) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

/// Connects to a Unix-domain socket. While the other process accepts nobody, the kernel lets only a few connect. The
/// others wait: with a time limit, after which this is [`Errno::AGAIN`].
fn connect(path: &str, wait_max: Duration) -> Result<UnixStream, Errno> {
    let address = SocketAddress::unix(path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::INVAL))?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(wait_max))?;
    crate::socket::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Whether a process has ended, and its parent has not waited for it yet.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what the old process sent is damaged")
}

impl Channel {
    fn say_hello(&mut self) -> io::Result<()> {
        let mut hello = HELLO.to_vec();
        hello.extend_from_slice(&LAYOUT.to_le_bytes());
        self.stream().write_all(&hello)
    }
}

impl Inherited {
    /// A line for each socket: `tcp ADDRESS`, `unix PORT PATH` or `gate`. The first two begin with `given` if a service
    /// manager has opened the socket.
    fn take_listeners(&mut self, text: &[u8], sockets: Vec<OwnedFd>) -> io::Result<()> {
        let text = std::str::from_utf8(text).map_err(|_| damaged())?;
        for (line, socket) in text.lines().zip(sockets) {
            let (is_given, line) = match line.strip_prefix("given ") {
                Some(line) => (true, line),
                None => (false, line),
            };
            let mut words = line.splitn(3, ' ');
            let place = match (words.next(), words.next(), words.next()) {
                (Some("tcp"), Some(address), None) => ListenPlace::Tcp(address.parse().map_err(|_| damaged())?),
                (Some("unix"), Some(port), Some(path)) => ListenPlace::Unix {
                    path: path.into(),
                    port: port.parse().map_err(|_| damaged())?,
                },
                (Some("gate"), None, None) => {
                    self.gate = Some(socket);
                    continue;
                }
                _ => return Err(damaged()),
            };
            // The event loop accepts until none is left, so accept() must not block.
            let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
            if !listens || rustix::io::ioctl_fionbio(&socket, true).is_err() {
                return Err(damaged());
            }
            self.listeners.push(match is_given {
                true => Listener::given(socket, place),
                false => Listener::inherited(socket, place),
            });
        }
        Ok(())
    }
}

impl Taken {
    /// The instant of the core's time zero.
    pub(crate) fn started(&self) -> Instant {
        let since = monotonic_us().saturating_sub(self.clock.monotonic_us);
        let age = Duration::from_micros(self.clock.now.0 + since);
        let now = Instant::now();
        now.checked_sub(age).unwrap_or(now)
    }

    /// NOTIFY_SOCKET and WATCHDOG_USEC of the old process.
    pub(crate) fn service_manager(&mut self) -> (Option<String>, Option<String>) {
        (self.clock.notify_socket.take(), self.clock.watchdog_us.take())
    }

    /// What the old process has that logins need.
    pub(super) fn holdings(&self) -> Holdings {
        Holdings {
            users: self.clock.auth_users,
            databases: self.clock.databases,
            lines: self.clock.login_lines.clone(),
        }
    }

    /// The connections with their sockets.
    pub(super) fn connections(self) -> Vec<(ConnectionRecord, OwnedFd)> {
        self.connections
    }
}

#[cfg(test)]
#[path = "arriving_tests.rs"]
mod tests;
