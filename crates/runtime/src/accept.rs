//! Accepting clients, even when file descriptors run out.

use crate::connection::{Connection, Facts};
use crate::credentials::Credentials;
use crate::event_loop::EventLoop;
use crate::interfaces;
use crate::listener::{ListenPlace, Listener};
use crate::log::Log;
use crate::reading::READ_BYTES;
use crate::refusal::{Outcome, Refusal};
use crate::settings::{Settings, TcpSettings};
use crate::socket;
use crate::timers::Timer;
use crate::token::Subject;
use crate::transport::Transport;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use pgweir_core::{Accepted, Address, LogLevel, Time};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Clients accepted in one turn, before other connections get theirs.
const ACCEPTS_PER_TURN_MAX: usize = 64;

/// Rounds of accepting before the listening sockets are closed, so that a flood cannot put off the end.
const LAST_ROUNDS_MAX: usize = 64;

/// A lack of file descriptors, and any other failure, is logged at most this often.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// When a failure was logged last.
#[derive(Debug, Default)]
struct LoggedSeldom(Option<Time>);

impl LoggedSeldom {
    /// The failure has come again. Returns whether it is to be logged.
    fn comes(&mut self, now: Time) -> bool {
        let logs = self.0.is_none_or(|at| now.since(at) >= FAILURE_LOG_INTERVAL);
        if logs {
            self.0 = Some(now);
        }
        logs
    }
}

/// The listening sockets, and the descriptor kept in reserve for when descriptors run out.
#[derive(Debug)]
pub(crate) struct Accepting {
    listeners: Vec<Listener>,
    /// A descriptor that is given up so that one client can be accepted and refused with an error. Without it the
    /// client would stay in the kernel's queue, and the kernel would wake the event loop for it again and again.
    reserve: Option<OwnedFd>,
    /// The client that is being refused. Further clients wait in the kernel's queue.
    refusal: Option<Refusal>,
    /// Nothing is accepted until a descriptor is free: when the refused client is closed, or when an attempt of the
    /// timer succeeds.
    is_starved: bool,
    /// No client is accepted while another process is taking over.
    is_held: bool,
    starved: LoggedSeldom,
    failed: LoggedSeldom,
    /// The turn in which the core was told this machine's addresses.
    told_machine_at: Option<Time>,
}

/// Outcome of one attempt to accept.
enum Accept {
    Client(OwnedFd, Option<SocketAddrAny>),
    /// This client is gone already; others may wait behind it.
    Gone,
    Nobody,
    NoDescriptor(io::Error),
    /// The next attempt may fail in the same way.
    Failed(io::Error),
}

impl Accept {
    fn failed(e: Errno) -> Accept {
        match e {
            // Linux also reports errors of the network that belong to the new connection (accept(2), "Error handling").
            Errno::INTR
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::PROTO
            | Errno::TIMEDOUT => Accept::Gone,
            Errno::AGAIN => Accept::Nobody,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Accept::NoDescriptor(e.into()),
            e => Accept::Failed(e.into()),
        }
    }
}

impl Accepting {
    /// Watches `listeners`.
    pub(crate) fn new(listeners: Vec<Listener>, registry: &Registry) -> io::Result<Self> {
        for (index, listener) in listeners.iter().enumerate() {
            let fd = listener.socket.as_raw_fd();
            registry.register(
                &mut SourceFd(&fd),
                Subject::Listener(index as u32).token(),
                Interest::READABLE,
            )?;
        }
        Ok(Accepting {
            listeners,
            reserve: reserve(),
            refusal: None,
            is_starved: false,
            is_held: false,
            starved: LoggedSeldom::default(),
            failed: LoggedSeldom::default(),
            told_machine_at: None,
        })
    }

    /// Whether clients may be waiting for which no further event comes.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_starved && !self.is_held && self.listeners.iter().any(|l| l.readable && !l.rests)
    }

    /// Stops listening.
    pub(crate) fn stop(&mut self) {
        self.listeners.clear();
    }

    /// Stops listening, except on Unix-domain sockets: peers send cancel requests there while a shutdown waits, and
    /// administrators reach the console. A socket whose event could not be given its new index is closed, too.
    pub(crate) fn stop_tcp(&mut self, registry: &Registry) {
        self.listeners
            .retain(|listener| matches!(listener.place, ListenPlace::Unix { .. }));
        let mut index = 0;
        self.listeners.retain_mut(|listener| {
            let token = Subject::Listener(index).token();
            let fd = listener.socket.as_raw_fd();
            let is_watched = registry
                .reregister(&mut SourceFd(&fd), token, Interest::READABLE)
                .is_ok();
            listener.readable |= is_watched;
            index += u32::from(is_watched);
            is_watched
        });
    }

    /// While `is_held` is true, no client is accepted: clients wait in the kernel's queue.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// A line for each socket, as [`crate::takeover`] reads it, and the sockets.
    pub(crate) fn description(&self) -> (String, Vec<BorrowedFd<'_>>) {
        let line = |listener: &Listener| match &listener.place {
            ListenPlace::Tcp(address) => format!("{}tcp {address}\n", given(listener)),
            ListenPlace::Unix { path, port } => format!("{}unix {port} {path}\n", given(listener)),
        };
        let sockets = self.listeners.iter().map(|listener| listener.socket.as_fd());
        (self.listeners.iter().map(line).collect(), sockets.collect())
    }

    /// Stops listening; the sockets and their files belong to another process now.
    pub(crate) fn give_away(&mut self, registry: &Registry) {
        for listener in &mut self.listeners {
            listener.leaves_file = true;
            let _ = registry.deregister(&mut SourceFd(&listener.socket.as_raw_fd()));
        }
        self.stop();
    }

    /// From now on the sockets and their files belong to this process, except those of a service manager. They get the
    /// settings of this process.
    pub(crate) fn own(&mut self, settings: &Settings, log: &mut Log) {
        for listener in &mut self.listeners {
            listener.leaves_file = listener.is_given;
            if let Err(e) = listener.use_settings(&settings.listen) {
                log.write(LogLevel::Warning, &e.to_string());
            }
        }
        self.use_tcp_settings(&settings.tcp, log);
    }

    /// Sockets that are accepted from now on inherit these options.
    pub(crate) fn use_tcp_settings(&mut self, tcp: &TcpSettings, log: &mut Log) {
        for listener in &self.listeners {
            if let ListenPlace::Tcp(_) = listener.place {
                socket::set_listener_options(&listener.socket, tcp, log);
            }
        }
    }

    /// The addresses of this machine have not been told in this turn, or other rules have come since.
    pub(crate) fn ask_for_machine_again(&mut self) {
        self.told_machine_at = None;
    }

    /// Tries again to get a descriptor, and to accept where that has failed.
    pub(crate) fn try_again(&mut self) {
        for listener in &mut self.listeners {
            listener.rests = false;
        }
        if self.refusal.is_none() {
            self.reserve = self.reserve.take().or_else(reserve);
            self.is_starved = false;
        }
    }

    fn accept(&mut self, index: usize) -> Accept {
        match rustix::net::acceptfrom_with(&self.listeners[index].socket, socket::FLAGS) {
            Ok((socket, peer)) => Accept::Client(socket, peer),
            Err(e) => Accept::failed(e),
        }
    }

    /// accept() has failed. No further event tells of the clients that wait, so it must be tried again after a while.
    /// Returns whether the failure is to be logged.
    fn rest(&mut self, index: usize, now: Time) -> bool {
        self.listeners[index].rests = true;
        self.failed.comes(now)
    }
}

fn reserve() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}

impl EventLoop {
    /// A listening socket has connections waiting.
    pub(crate) fn accept(&mut self, index: u32) {
        if let Some(listener) = self.accepting.listeners.get_mut(index as usize) {
            listener.readable = true;
            self.accept_some(index as usize);
        }
    }

    /// Continues where the last turn stopped to let other connections have theirs.
    pub(crate) fn accept_ready(&mut self) {
        for index in 0..self.accepting.listeners.len() {
            if self.accepting.listeners.get(index).is_some_and(|l| l.readable) {
                self.accept_some(index);
            }
        }
    }

    /// Accepts every client that waits in the kernel's queue, and reads what it has sent: a socket that is closed would
    /// reset them, and a client that has not sent its startup packet does not keep a shutdown waiting.
    pub(crate) fn accept_everyone(&mut self) {
        for listener in &mut self.accepting.listeners {
            listener.readable = true;
        }
        let mut rounds = 0;
        while self.accepting.is_ready() && rounds < LAST_ROUNDS_MAX {
            self.accept_ready();
            rounds += 1;
        }
        for client in self.pooler.clients_at_startup() {
            if let Some(connection) = self.connections.get(client.into()) {
                connection.facts.set(Facts::READABLE);
                self.connections.make_ready(client.into());
            }
        }
        self.read_ready(&mut vec![0; READ_BYTES]);
    }

    fn accept_some(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if self.accepting.is_starved || self.accepting.is_held {
                return;
            }
            // The core may have asked in the meantime to stop listening.
            if self.accepting.listeners.get(index).is_none_or(|l| l.rests) {
                return;
            }
            match self.accepting.accept(index) {
                Accept::Client(socket, peer) => self.welcome(index, socket, peer),
                Accept::Gone => {}
                Accept::Nobody => {
                    self.accepting.listeners[index].readable = false;
                    return;
                }
                Accept::NoDescriptor(e) => return self.starve(index, &e),
                Accept::Failed(e) => {
                    if self.accepting.rest(index, self.now) {
                        let place = &self.accepting.listeners[index].place;
                        let text = format!("accept() failed on {place}: {e}");
                        self.log.write(LogLevel::Error, &text);
                    }
                    return self.timers.set(self.now, Timer::AcceptAgain);
                }
            }
        }
    }

    fn welcome(&mut self, index: usize, socket: OwnedFd, peer: Option<SocketAddrAny>) {
        if let ListenPlace::Tcp(_) = self.accepting.listeners[index].place {
            self.tell_machine();
        }
        let accepted = match &self.accepting.listeners[index].place {
            ListenPlace::Tcp(_) => {
                let peer = socket::address_or_unix(peer, 0);
                Accepted {
                    peer,
                    local: socket::local_address(&socket, 0),
                    peer_uid: None,
                }
            }
            ListenPlace::Unix { port, .. } => {
                let credentials = Credentials::of_peer(&socket).ok();
                let pid = credentials.and_then(|of| of.pid);
                Accepted {
                    peer: Address::Unix { port: *port, pid },
                    local: Address::Unix { port: *port, pid: None },
                    peer_uid: credentials.map(|of| of.uid.as_raw()),
                }
            }
        };
        let client = self.pooler.handle_accept(self.now, accepted);
        let fd = socket.as_raw_fd();
        let token = Subject::Connection(client.into()).token();
        let mut connection = Connection::new(Transport::new(socket), client.0.generation);
        if let Address::Unix { .. } = accepted.peer {
            connection.facts.set(Facts::UNIX);
        }
        self.connections.insert(client.into(), connection);
        if let Err(e) = self
            .poll
            .registry()
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
        {
            self.log
                .write(LogLevel::Error, &format!("could not watch a client's socket: {e}"));
            // The core may have refused it already.
            self.settle();
            if self.connections.get(client.into()).is_some() {
                self.closed(client.into());
            }
            return;
        }
        self.settle();
    }

    /// Tells the core the addresses of this machine, once in a turn: an address may have moved to another machine. If
    /// descriptors have run out, the last known addresses count: without any, a rule that rejects this machine would be
    /// passed over.
    fn tell_machine(&mut self) {
        if self.pooler.asks_for_machine()
            && self.accepting.told_machine_at != Some(self.now)
            && let Ok(machine) = interfaces::machine()
        {
            self.pooler.handle_machine(machine);
            self.accepting.told_machine_at = Some(self.now);
        }
    }

    /// There is no descriptor for the next client: gives up the reserve to refuse it with an error.
    fn starve(&mut self, index: usize, error: &io::Error) {
        self.accepting.is_starved = true;
        if self.accepting.starved.comes(self.now) {
            let text = format!(
                "accept() failed: {error}; clients are refused until file descriptors are free (HINT: raise the limit \
                 on open files, LimitNOFILE= or ulimit -n, or lower max_client_conn)"
            );
            self.log.write(LogLevel::Warning, &text);
        }
        self.accepting.reserve = None;
        if let Accept::Client(socket, _) = self.accepting.accept(index) {
            let fd = socket.as_raw_fd();
            let interest = Interest::READABLE;
            if self
                .poll
                .registry()
                .register(&mut SourceFd(&fd), Subject::Refusal.token(), interest)
                .is_ok()
            {
                self.accepting.refusal = Some(Refusal::new(Transport::new(socket)));
                return self.timers.set(self.now, Timer::Refusal);
            }
        }
        self.timers.set(self.now, Timer::AcceptAgain);
    }

    pub(crate) fn handle_refusal_event(&mut self) {
        if let Some(refusal) = &mut self.accepting.refusal
            && let Outcome::Over = refusal.step()
        {
            self.accepting.refusal = None;
            self.accepting.try_again();
        }
    }

    /// The time for refusing a client is over. (The timer may be that of an earlier client; then the present one gets a
    /// little less time.)
    pub(crate) fn finish_refusal(&mut self) {
        self.accepting.refusal = None;
        self.accepting.try_again();
    }
}

/// The beginning of the description of a socket that a service manager has opened.
fn given(listener: &Listener) -> &'static str {
    match listener.is_given {
        true => "given ",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};

    /// A socket that does not listen: accept() fails.
    fn broken() -> Listener {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, socket::FLAGS, None);
        Listener::inherited(socket.unwrap(), ListenPlace::Tcp("127.0.0.1:0".parse().unwrap()))
    }

    /// No event comes for clients that wait already: without a further attempt they would wait for the next client.
    #[test]
    fn after_a_failure_accepting_is_tried_again() {
        let poll = mio::Poll::new().unwrap();
        let mut accepting = Accepting::new(vec![broken(), broken()], poll.registry()).unwrap();
        assert!(matches!(accepting.accept(0), Accept::Failed(_)));
        assert!(accepting.rest(0, Time(0)));
        assert!(accepting.is_ready(), "the other socket is not concerned");
        assert!(!accepting.rest(1, Time(1)), "logged just now");
        assert!(!accepting.is_ready(), "the event loop may sleep");
        accepting.try_again();
        assert!(accepting.is_ready());
        let later = Time(0) + FAILURE_LOG_INTERVAL;
        assert!(accepting.rest(0, later) && !accepting.rest(1, later));
    }

    #[test]
    fn a_client_that_is_gone_does_not_keep_others_waiting() {
        for e in [Errno::CONNABORTED, Errno::PROTO, Errno::NETDOWN, Errno::INTR] {
            assert!(matches!(Accept::failed(e), Accept::Gone), "{e}");
        }
        assert!(matches!(Accept::failed(Errno::AGAIN), Accept::Nobody));
        assert!(matches!(Accept::failed(Errno::NFILE), Accept::NoDescriptor(_)));
        assert!(matches!(Accept::failed(Errno::PERM), Accept::Failed(_)));
    }
}
