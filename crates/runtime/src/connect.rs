//! Opening sockets to servers.

use crate::connection::{Connection, Facts};
use crate::dns::{Found, LookUp};
use crate::event_loop::EventLoop;
use crate::log::Log;
use crate::settings::TcpSettings;
use crate::socket::{self, SocketAddress};
use crate::timers::Timer;
use crate::token::Subject;
use crate::transport::Transport;
use mio::Interest;
use mio::event::Event;
use mio::unix::SourceFd;
use pgweir_core::{Address, Connected, ConnectionId, Endpoint, LogLevel, ServerId};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// What the core is told when no address could be connected to. The wording is PgBouncer's, because log watchers look
/// for it.
const CONNECT_FAILED: &str = "connect failed";

/// What the core is told when the name of a server has no address.
const LOOK_UP_FAILED: &str = "server DNS lookup failed";

/// A server whose socket is not open yet. The core decides how long this may take, and then closes the server.
///
/// The system asks a host that does not answer again, but at longer and longer intervals. So a second attempt is made
/// beside the first one each second, at the next address. The first one is kept: the host may be far away.
#[derive(Debug)]
pub(crate) struct Connecting {
    endpoint: Endpoint,
    /// Addresses that have not been tried yet, and those that have not answered in time.
    addresses: VecDeque<SocketAddress>,
    /// The attempts under way: the first one, and the latest one beside it.
    attempts: Vec<(OwnedFd, SocketAddress)>,
}

/// Outcome of one attempt.
enum Attempt {
    /// An event will report the outcome.
    UnderWay,
    /// The socket is open.
    Open,
    /// A Unix-domain socket whose queue is full.
    Later,
}

impl EventLoop {
    /// Begins to open a socket for `server`. The core is told the outcome once.
    pub(crate) fn connect(&mut self, server: ServerId, endpoint: Endpoint) {
        let connecting = Connecting {
            endpoint,
            addresses: VecDeque::new(),
            attempts: Vec::new(),
        };
        let endpoint = self
            .connecting
            .entry(server)
            .insert_entry(connecting)
            .get()
            .endpoint
            .clone();
        match endpoint {
            Endpoint::Unix { path, .. } => match SocketAddress::unix(&path) {
                Ok(address) => self.try_addresses(server, VecDeque::from([address])),
                Err(e) => self.connect_failed(server, &path, &e),
            },
            Endpoint::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(address) => self.try_hosts(server, &[address], port),
                Err(_) => match self.resolver.look_up(&host, self.now) {
                    LookUp::Known(addresses) => self.try_hosts(server, &addresses, port),
                    LookUp::Failed => self.fail(server, LOOK_UP_FAILED),
                    LookUp::Asked => {}
                },
            },
        }
    }

    /// The name look-up for which servers wait has ended.
    pub(crate) fn handle_resolved(&mut self, host: &str, addresses: Result<Found, String>) {
        if let Err(why) = &addresses {
            self.log
                .write(LogLevel::Warning, &format!("DNS lookup failed: {host}: {why}"));
        }
        let gone = self.resolver.learn(host, addresses.ok(), self.now);
        self.tell_names(host, &gone);
        let waits = |c: &Connecting| {
            c.attempts.is_empty()
                && c.addresses.is_empty()
                && matches!(&c.endpoint, Endpoint::Tcp { host: h, .. } if h == host)
        };
        let waiting: Vec<_> = self
            .connecting
            .iter()
            .filter(|(_, c)| waits(c))
            .map(|(server, _)| *server)
            .collect();
        for server in waiting {
            let Some(Connecting {
                endpoint: Endpoint::Tcp { port, .. },
                ..
            }) = self.connecting.get(&server)
            else {
                continue;
            };
            let port = *port;
            match self.resolver.look_up(host, self.now) {
                LookUp::Known(addresses) => self.try_hosts(server, &addresses, port),
                LookUp::Failed => self.fail(server, LOOK_UP_FAILED),
                LookUp::Asked => {}
            }
        }
        self.begin_cancels_at(host);
    }

    /// Asks for the serial numbers of the zones of all names, now and then.
    pub(crate) fn check_zones(&mut self) {
        match self.resolver.check_zones() {
            Some(period) => self.timers.set_in(self.now, period, Timer::Zones),
            None => self.timers.set(self.now, Timer::Zones),
        }
    }

    /// The serial number of a zone has been looked up.
    pub(crate) fn handle_serial(&mut self, zone: &str, serial: Result<u32, String>) {
        match serial {
            Ok(serial) => {
                if let Some(before) = self.resolver.learn_serial(zone, serial) {
                    let text = format!("zone '{zone}' serial changed: old={before} new={serial}");
                    self.log.write(LogLevel::Log, &text);
                }
            }
            Err(why) => {
                let text = format!("DNS zone check failed: {zone}: {why}");
                self.log.write(LogLevel::Warning, &text);
            }
        }
        self.tell_names(zone, &[]);
    }

    fn tell_names(&mut self, name: &str, gone: &[IpAddr]) {
        let facts = self.resolver.facts();
        self.pooler.handle_names(self.now, facts, name, gone);
        self.settle();
    }

    fn try_hosts(&mut self, server: ServerId, hosts: &[IpAddr], port: u16) {
        let addresses = hosts
            .iter()
            .map(|host| SocketAddress::Tcp(SocketAddr::new(*host, port)));
        self.timers.set(self.now, Timer::ConnectBeside(server));
        self.try_addresses(server, addresses.collect());
    }

    fn try_addresses(&mut self, server: ServerId, addresses: VecDeque<SocketAddress>) {
        if let Some(connecting) = self.connecting.get_mut(&server) {
            connecting.addresses = addresses;
            self.try_next(server);
        }
    }

    /// Tries the remaining addresses, one after the other, until one more attempt is under way.
    fn try_next(&mut self, server: ServerId) {
        loop {
            let Some(connecting) = self.connecting.get_mut(&server) else {
                return;
            };
            let Some(address) = connecting.addresses.pop_front() else {
                if connecting.attempts.is_empty() {
                    self.fail(server, CONNECT_FAILED);
                }
                return;
            };
            let (socket, outcome) = match attempt(&address, &self.settings.tcp, &mut self.log) {
                Ok(attempt) => attempt,
                Err(e) => {
                    self.log_connect_failure(&address, &e);
                    continue;
                }
            };
            let fd = socket.as_raw_fd();
            let interest = match (&outcome, &address) {
                (Attempt::Later, _) => {
                    connecting.addresses.push_front(address);
                    return self.timers.set(self.now, Timer::ConnectAgain(server));
                }
                // See Connections::unwatch_room.
                (Attempt::Open, SocketAddress::Unix(_)) => Interest::READABLE,
                _ => Interest::READABLE | Interest::WRITABLE,
            };
            let token = Subject::Connection(ConnectionId::Server(server)).token();
            if let Err(e) = self.poll.registry().register(&mut SourceFd(&fd), token, interest) {
                self.log_connect_failure(&address, &e);
                continue;
            }
            connecting.attempts.push((socket, address));
            if let Attempt::Open = outcome {
                let latest = connecting.attempts.len() - 1;
                self.connected(server, latest, interest.is_writable(), false);
            }
            return;
        }
    }

    /// The queue of a Unix-domain socket may have room now.
    pub(crate) fn connect_again(&mut self, server: ServerId) {
        if self.connecting.get(&server).is_some_and(|c| c.attempts.is_empty()) {
            self.try_next(server);
        }
    }

    /// No address has answered for a second: the next one is tried beside the first, in turn.
    pub(crate) fn connect_beside(&mut self, server: ServerId) {
        let Some(connecting) = self.connecting.get_mut(&server) else {
            return;
        };
        if let Some((_, address)) = connecting.attempts.last() {
            connecting.addresses.push_back(address.clone());
            connecting.attempts.truncate(1);
        }
        self.timers.set(self.now, Timer::ConnectBeside(server));
        self.try_next(server);
    }

    pub(crate) fn handle_connecting_event(&mut self, server: ServerId, event: &Event) {
        let Some(connecting) = self.connecting.get_mut(&server) else {
            return;
        };
        let attempts = &mut connecting.attempts;
        // The event may belong to another attempt, also to one that has been given up.
        let is_open = |(socket, _): &(OwnedFd, SocketAddress)| event.is_writable() && socket::is_connected(socket);
        if let Some(place) = attempts.iter().position(is_open) {
            return self.connected(server, place, true, event.is_readable() || event.is_read_closed());
        }
        let error = |place: usize| Some((place, socket::error(&attempts[place].0)?));
        let Some((place, error)) = (0..attempts.len()).find_map(error) else {
            return;
        };
        // Another attempt at the same address would hear the same.
        let (_, address) = attempts.remove(place);
        attempts.retain(|(_, other)| *other != address);
        connecting.addresses.retain(|other| *other != address);
        let none_is_left = attempts.is_empty();
        self.log_connect_failure(&address, &error);
        if none_is_left {
            self.try_next(server);
        }
    }

    /// The socket of the attempt at `place` is open. `reads`: the event that reported it also reported input or an end,
    /// and will not do so again.
    fn connected(&mut self, server: ServerId, place: usize, watches_room: bool, reads: bool) {
        let Some(Connecting {
            mut attempts, endpoint, ..
        }) = self.connecting.remove(&server)
        else {
            return;
        };
        let (socket, address) = attempts.swap_remove(place);
        let unix_port = match endpoint {
            Endpoint::Unix { port, .. } | Endpoint::Tcp { port, .. } => port,
        };
        let remote = match &address {
            SocketAddress::Tcp(address) => Address::Tcp(*address),
            SocketAddress::Unix(_) => Address::Unix {
                port: unix_port,
                pid: None,
            },
        };
        let connected = Connected {
            remote,
            local: socket::local_address(&socket, unix_port),
        };
        let mut connection = Connection::new(Transport::new(socket), server.0.generation);
        if watches_room {
            connection.facts.set(Facts::WATCHES_ROOM);
        }
        if let SocketAddress::Unix(_) = address {
            connection.facts.set(Facts::UNIX);
        }
        let id = ConnectionId::Server(server);
        self.connections.insert(id, connection);
        if reads && let Some(connection) = self.connections.get(id) {
            connection.facts.set(Facts::READABLE);
            self.connections.make_ready(id);
        }
        self.pooler.handle_server_connected(self.now, server, connected);
        self.settle();
    }

    fn connect_failed(&mut self, server: ServerId, address: &str, error: &io::Error) {
        self.log
            .write(LogLevel::Warning, &format!("connect to {address} failed: {error}"));
        self.fail(server, CONNECT_FAILED);
    }

    fn fail(&mut self, server: ServerId, why: &str) {
        self.connecting.remove(&server);
        self.pooler.handle_server_connect_failed(self.now, server, why);
        self.settle();
    }

    fn log_connect_failure(&mut self, address: &SocketAddress, error: &io::Error) {
        let address = match address {
            SocketAddress::Tcp(address) => address.to_string(),
            SocketAddress::Unix(address) => match (address.path(), address.abstract_name()) {
                (Some(path), _) => path.to_string_lossy().into_owned(),
                (_, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
                _ => "unix".to_owned(),
            },
        };
        self.log
            .write(LogLevel::Warning, &format!("connect to {address} failed: {error}"));
    }
}

fn attempt(address: &SocketAddress, tcp: &TcpSettings, log: &mut Log) -> io::Result<(OwnedFd, Attempt)> {
    let socket = socket::open(address)?;
    if let SocketAddress::Tcp(_) = address {
        socket::set_tcp_options(&socket, tcp, log);
    }
    match socket::connect(&socket, address) {
        Ok(()) => Ok((socket, Attempt::Open)),
        Err(Errno::INPROGRESS) => Ok((socket, Attempt::UnderWay)),
        Err(Errno::AGAIN) if matches!(address, SocketAddress::Unix(_)) => Ok((socket, Attempt::Later)),
        Err(e) => Err(e.into()),
    }
}
