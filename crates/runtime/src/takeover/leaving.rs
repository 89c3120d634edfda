//! The old process: it hands everything over, or goes on as if no process had asked.

use super::channel::{Channel, Kind};
use super::relay::Relay;
use super::{BATCH, Clock, ConnectionRecord, HELLO, LAYOUT, is_trusted, listen, monotonic_us};
use crate::connection::Facts;
use crate::credentials::Credentials;
use crate::event_loop::EventLoop;
use crate::relayed::RelayedPeer;
use crate::token::Subject;
use mio::Interest;
use mio::unix::SourceFd;
use pgweir_core::{Command, ConnectionId, LogLevel, Time};
use pgweir_freeze::to_bytes;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// The most processes that may wait to be served.
const GATE_BACKLOG: i32 = 8;

/// How long a process that connects may take to send its request.
const HELLO_WAIT: Duration = Duration::from_secs(1);

/// How long TLS handshakes may take to end. After that, connections in the midst of one are lost.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(1);

/// How long cancel requests and a RELOAD may take to end. After that, cancel requests are given up, so that nobody can
/// prevent a take-over by them, and a process that wants to take over during a RELOAD is refused.
const REST_WAIT: Duration = Duration::from_secs(5);

/// Time between two checks whether all of these have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How long the other process may take to receive everything. No client is served meanwhile.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// How long handing over may take until all is sent, which includes the freezing of the state. After that the take-over
/// is given up, and this process goes on.
const SENDING_MAX: Duration = Duration::from_secs(5);

/// The socket where a process can ask to replace this one, and the process that has asked.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    gate: Option<Gate>,
    successor: Option<Successor>,
    /// Another process has replaced this one.
    pub(crate) is_over: bool,
}

/// The socket, which is removed with its file.
#[derive(Debug)]
struct Gate {
    socket: UnixListener,
    path: String,
    /// The file now belongs to another process.
    is_given_away: bool,
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.is_given_away && !self.path.starts_with('@') {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A process that wants to replace this one.
#[derive(Debug)]
struct Successor {
    stream: UnixStream,
    pid: i32,
    since: Time,
    said: Vec<u8>,
}

/// Bytes of the first message: what the process is, and the layout of state that it knows.
const HELLO_BYTES: usize = HELLO.len() + size_of::<u64>();

impl Successor {
    /// The layout of state that it knows; `None` until it has sent it, an error if it is not pgweir.
    fn layout(&self) -> Option<Result<u64, ()>> {
        let (hello, layout) = self.said.split_first_chunk::<{ HELLO.len() }>()?;
        let layout = u64::from_le_bytes(layout.try_into().ok()?);
        Some(if *hello == HELLO { Ok(layout) } else { Err(()) })
    }
}

/// A TLS connection whose bytes this process will carry, and this process's end of the pair.
type Kept = (ConnectionId, OwnedFd);

impl Succession {
    /// Waits at `path`, or at a socket that was taken over.
    pub(crate) fn new(path: String, inherited: Option<OwnedFd>, registry: &mio::Registry) -> io::Result<Succession> {
        let is_inherited = inherited.is_some();
        let socket = match inherited {
            Some(socket) => UnixListener::from(socket),
            None => listen(&path)?,
        };
        socket.set_nonblocking(true)?;
        let fd = socket.as_raw_fd();
        registry.register(&mut SourceFd(&fd), Subject::Gate.token(), Interest::READABLE)?;
        let gate = Gate {
            socket,
            path,
            is_given_away: is_inherited,
        };
        Ok(Succession {
            gate: Some(gate),
            ..Succession::default()
        })
    }

    /// When to check again whether handshakes, cancel requests and RELOADs have ended.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        self.successor.as_ref().map(|_| now + LOOK_AGAIN)
    }

    /// Stops waiting; the socket and its file now belong to another process.
    pub(crate) fn give_away(&mut self, registry: &mio::Registry) {
        if let Some(gate) = &mut self.gate {
            gate.is_given_away = true;
            let _ = registry.deregister(&mut SourceFd(&gate.socket.as_raw_fd()));
        }
        self.gate = None;
    }

    /// From now on the socket and its file belong to this process. So listen() is called again, because
    /// SO_PEERCRED shows connecting processes the process that called it last.
    pub(crate) fn own(&mut self) {
        if let Some(gate) = &mut self.gate {
            let _ = rustix::net::listen(&gate.socket, GATE_BACKLOG);
            gate.is_given_away = false;
        }
    }
}

impl EventLoop {
    /// A process has connected to the gate. It must have the same user, or be root.
    pub(crate) fn handle_gate_event(&mut self) {
        while let Some(Ok((stream, _))) = self.succession.gate.as_ref().map(|gate| gate.socket.accept()) {
            let own = rustix::process::geteuid();
            let Ok(peer) = Credentials::of_peer(&stream).and_then(|peer| {
                stream.set_nonblocking(true)?;
                Ok(peer)
            }) else {
                continue;
            };
            if !is_trusted(peer.uid, own) {
                let text = format!(
                    "refused to be taken over: {} belongs to system user {}",
                    peer.process(),
                    peer.uid.as_raw()
                );
                self.log.write(LogLevel::Warning, &text);
                continue;
            }
            if self.succession.successor.is_some() {
                Channel::refuse(stream, HELLO_WAIT, "another process is taking over already");
                continue;
            }
            let fd = stream.as_raw_fd();
            let token = Subject::Successor.token();
            if self
                .poll
                .registry()
                .register(&mut SourceFd(&fd), token, Interest::READABLE)
                .is_ok()
            {
                self.succession.successor = Some(Successor {
                    stream,
                    pid: peer.pid.unwrap_or_default().cast_signed(),
                    since: self.now,
                    said: Vec::new(),
                });
            }
        }
    }

    /// Serves the process that wants to take over, if there is one.
    pub(crate) fn attend_to_successor(&mut self) {
        let Some(successor) = &mut self.succession.successor else {
            return;
        };
        let waited = self.now.since(successor.since);
        while successor.said.len() < HELLO_BYTES {
            let mut bytes = [0; HELLO_BYTES];
            match successor.stream.read(&mut bytes[successor.said.len()..]) {
                Ok(0) => return self.refuse_successor("it has gone"),
                Ok(count) => successor
                    .said
                    .extend_from_slice(&bytes[successor.said.len()..][..count]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && waited < HELLO_WAIT => return,
                Err(_) => return self.refuse_successor("it does not say what it wants"),
            }
        }
        let Some(Ok(layout)) = successor.layout() else {
            return self.refuse_successor("it does not speak as pgweir does");
        };
        if self.pooler.is_ending() || self.is_exiting() {
            return self.refuse_successor("this process is shutting down");
        }
        self.accepting.hold(true);
        let is_late = waited >= REST_WAIT;
        if is_late && self.reloads_under_way > 0 {
            return self.refuse_successor("a RELOAD has not ended in time");
        }
        if is_late && !self.give_up_cancels("another process takes over") {
            return self.refuse_successor("cancel requests have not ended in time");
        }
        let rests = self.cancels.iter().next().is_none() && self.reloads_under_way == 0;
        if rests && (waited >= HANDSHAKE_WAIT || !self.is_shaking_hands()) {
            self.let_successor_in(layout);
        }
    }

    /// Whether a TLS handshake is under way.
    fn is_shaking_hands(&mut self) -> bool {
        let ids = self.pooler.connections();
        let mut found = ids.into_iter().filter_map(|id| {
            let connection = self.connections.get(id)?;
            connection.tls.as_ref().map(|tls| !tls.is_secured())
        });
        found.any(|shakes| shakes)
    }

    fn refuse_successor(&mut self, why: &str) {
        if let Some(successor) = self.succession.successor.take() {
            let text = format!("process {} does not take over: {why}", successor.pid);
            self.log.write(LogLevel::Warning, &text);
            Channel::refuse(successor.stream, HELLO_WAIT, why);
        }
        self.accepting.hold(false);
    }

    fn let_successor_in(&mut self, layout: u64) {
        self.read_inbox();
        self.settle();
        let Some(successor) = self.succession.successor.take() else {
            return;
        };
        let pid = successor.pid;
        let (goes_on, for_successor) = match UnixStream::pair() {
            Ok(pair) => pair,
            Err(e) => return self.keeps_all(pid, &e),
        };
        match self.hand_over(successor, layout == LAYOUT, &for_successor) {
            Ok(Some(kept)) => {
                let text = format!("disko over, going background: process {pid} has taken over all connections");
                self.log.write(LogLevel::Log, &text);
                self.let_go(pid, kept);
            }
            Ok(None) => {
                let text = format!(
                    "process {pid} has taken over the listening sockets; it is of another version, so this process serves its \
                     clients until they end"
                );
                self.log.write(LogLevel::Log, &text);
                self.service_manager.main_process_is(pid);
                self.accepting.give_away(self.poll.registry());
                self.succession.give_away(self.poll.registry());
                self.pooler.handle_command(self.now, Command::ShutdownWaitForClients);
                self.settle();
            }
            Err(e) => {
                // The byte is written before anything changes here. The pair is empty, so the write cannot fail.
                let _ = (&goes_on).write_all(&[1]);
                return self.keeps_all(pid, &e);
            }
        }
        self.accepting.hold(false);
    }

    fn keeps_all(&mut self, pid: i32, error: &io::Error) {
        let text = format!("process {pid} has not taken over: {error}; this process goes on");
        self.log.write(LogLevel::Warning, &text);
        self.accepting.hold(false);
    }

    /// Sends everything and waits until the other process is ready. If that fails, nothing has changed here. If
    /// connections are sent, those with TLS stay here. The other process reads from `goes_on` whether this one has
    /// resumed service, even after this one has ended.
    fn hand_over(&mut self, successor: Successor, whole: bool, goes_on: &UnixStream) -> io::Result<Option<Vec<Kept>>> {
        let mut channel = Channel::new(successor.stream, ANSWER_WAIT)?.within(SENDING_MAX);
        let (mut lines, mut sockets) = self.accepting.description();
        if let Some(gate) = &self.succession.gate {
            lines.push_str("gate\n");
            sockets.push(gate.socket.as_fd());
        }
        channel.send(Kind::Listeners, lines.as_bytes(), &sockets)?;
        let kept = match whole {
            true => self.send_state(&mut channel)?,
            false => Vec::new(),
        };
        channel.send(Kind::End, &[], &[goes_on.as_fd()])?;
        let answer = channel.receive()?.kind;
        let with_connections = match answer {
            Kind::Ready if whole => true,
            Kind::ReadyToListen => false,
            _ => return Err(io::Error::other("it does not answer as pgweir does")),
        };
        channel.send(Kind::Go, &[], &[])?;
        Ok(with_connections.then_some(kept))
    }

    fn send_state(&mut self, channel: &mut Channel) -> io::Result<Vec<Kept>> {
        self.connections.send_queued();
        let (notify_socket, watchdog_us) = self.service_manager.for_successor.clone();
        let clock = Clock {
            now: self.now,
            monotonic_us: monotonic_us() - self.since_look_at_clock_us(),
            notify_socket,
            watchdog_us,
            auth_users: self.settings.holdings.users,
            databases: self.settings.holdings.databases,
            login_lines: self.settings.holdings.lines.clone(),
        };
        channel.send(Kind::Clock, &to_bytes(&clock), &[])?;
        channel.send(Kind::State, &self.pooler.freeze(), &[])?;
        let mut kept = Vec::new();
        for ids in self.pooler.connections().chunks(BATCH) {
            self.send_connections(channel, ids, &mut kept)?;
        }
        Ok(kept)
    }

    /// Sends one message of connections. For a TLS connection the other process gets one end of a pair of sockets.
    fn send_connections(
        &mut self,
        channel: &mut Channel,
        ids: &[ConnectionId],
        kept: &mut Vec<Kept>,
    ) -> io::Result<()> {
        let (mut records, mut raw, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        for &id in ids {
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            let mut record = ConnectionRecord {
                id,
                is_unix: connection.facts.has(Facts::UNIX),
                kept: connection.kept.clone(),
                pending: connection.pending.waiting().to_vec(),
                relayed: None,
            };
            match &connection.tls {
                None => {
                    raw.push(connection.transport.fd());
                    record.relayed = self.connections.relayed.get(&id).cloned();
                }
                Some(tls) if tls.is_secured() => {
                    // The bytes that wait for the socket are encrypted records.
                    record.pending = Vec::new();
                    record.is_unix = true;
                    record.relayed = RelayedPeer::of(&connection.transport, tls.host());
                    let (here, there) = UnixStream::pair()?;
                    here.set_nonblocking(true)?;
                    there.set_nonblocking(true)?;
                    raw.push(there.as_raw_fd());
                    pairs.push(there);
                    kept.push((id, here.into()));
                }
                Some(_) => continue,
            }
            records.push(record);
        }
        let descriptors = borrowed(&raw);
        channel.send(Kind::Connections, &to_bytes(&records), &descriptors)
    }

    /// The other process has everything. This process keeps only the connections whose bytes it carries.
    fn let_go(&mut self, pid: i32, kept: Vec<Kept>) {
        self.service_manager.main_process_is(pid);
        self.succession.give_away(self.poll.registry());
        self.accepting.give_away(self.poll.registry());
        for (id, plain) in kept {
            if let Some(connection) = self.connections.remove(id) {
                self.add_relay(Relay::new(id, connection, plain));
            }
        }
        for id in self.pooler.connections() {
            if let Some(connection) = self.connections.remove(id) {
                // The other process keeps the socket open, so its registration here must be removed.
                let fd = connection.transport.fd();
                let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
            }
        }
        self.connecting.clear();
        self.succession.is_over = true;
    }
}

/// Descriptors of sockets that the caller owns until they are sent.
#[expect(unsafe_code, reason = "sockets of many owners go into one message")]
fn borrowed(raw: &[i32]) -> Vec<BorrowedFd<'_>> {
    // SAFETY: every number is that of a socket that lives in `Connections` or in the caller's list of pairs.
    raw.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect()
}
