//! A driver of the core, and the network around it.
//!
//! It keeps the contract of `pgweir_core::Pooler` exactly, as the runtime does, and fails if the core does not keep its
//! side. The checks:
//!
//! - after every `handle_*` call: parts are within their source; bytes of a client go to a server, and bytes of a
//!   server to a client; nothing is written to a closed connection; what is written is a sequence of messages
//!   ([`crate::framing`]); requests name open connections, and come to an end;
//! - after every move: links are the same from both ends and join open connections; no pool has more servers than its
//!   size and reserve, no database more than its limit; no complete message is left unread without a reason;
//! - at the end: without clients there are no links, and no more servers are asked for.

use crate::client::Client;
use crate::framing::Direction;
use crate::handshakes::Handshake;
use crate::server::Server;
use pgweir_auth::ScramKeyCache;
use pgweir_config::Config;
use pgweir_core::{
    Accepted, Address, CancelEnd, Command, Connected, ConnectionId, OrderId, Part, Pooler, ReloadOutcome, Request,
    ServerId, Source, Surroundings, Time, Verification, Verified, WallClock,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The pooler's user id; a Unix-domain peer with the same id may be an administrator.
const OWN_UID: u32 = 1000;

/// More requests than any single move can cause.
const REQUESTS_PER_MOVE_MAX: usize = 20_000;

/// The longest message that the core may ask for completely, and the most bytes that are kept for a connection.
const KEPT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// After this many rounds all answers have come. A new server takes five of them, and each segment of a long pipeline
/// may take one.
const ROUNDS_MAX: usize = 1000;

/// The core, its driver and the peers.
pub struct World {
    pub(crate) pooler: Pooler,
    pub(crate) now: Time,
    pub clients: Vec<Client>,
    pub servers: Vec<Server>,
    /// Connects and cancels that have not ended.
    pub connects: Vec<ServerId>,
    pub cancels: Vec<ServerId>,
    pub reloads: Vec<Option<OrderId>>,
    /// Connections whose TLS handshake is under way.
    pub handshakes: Vec<ConnectionId>,
    pub listening: bool,
    /// The core has asked for the end of the process.
    pub exited: bool,
    requests: VecDeque<Request>,
    pub(crate) places: HashMap<ConnectionId, usize>,
    /// A Close has been requested and not been carried out.
    closing: HashSet<ConnectionId>,
    pub cache: ScramKeyCache,
    /// Print what happens to standard error.
    talks: bool,
}

/// If it is set, a story is printed while it happens, to examine a failure.
const TALK_VARIABLE: &str = "PGWEIR_FUZZ_TELL";

impl World {
    pub fn new(config: Arc<Config>) -> Self {
        let surroundings = Surroundings {
            seed: [7; 32],
            wall: WallClock::default(),
            own_uid: OWN_UID,
            host_name: "here".into(),
            open_files_max: 1024,
        };
        let mut world = World {
            pooler: Pooler::new(config, surroundings, Time(0)),
            now: Time(0),
            clients: Vec::new(),
            servers: Vec::new(),
            connects: Vec::new(),
            cancels: Vec::new(),
            reloads: Vec::new(),
            handshakes: Vec::new(),
            listening: true,
            exited: false,
            requests: VecDeque::new(),
            places: HashMap::new(),
            closing: HashSet::new(),
            cache: ScramKeyCache::new(64),
            talks: std::env::var_os(TALK_VARIABLE).is_some(),
        };
        world.settle();
        world
    }

    /// A client connects; `unix`: as the pooler's user over a Unix-domain socket. Returns its place among `clients`.
    pub fn accept(&mut self, unix: bool) -> usize {
        let accepted = if unix {
            let address = Address::Unix { port: 6432, pid: None };
            Accepted {
                peer: address,
                local: address,
                peer_uid: Some(OWN_UID),
            }
        } else {
            Accepted {
                peer: Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 40_000))),
                local: Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 6432))),
                peer_uid: None,
            }
        };
        let id = self.pooler.handle_accept(self.now, accepted);
        let place = self.clients.len();
        let earlier = self.places.insert(id.into(), place);
        assert_eq!(earlier, None, "{id} is given twice");
        self.clients.push(Client::new(id));
        self.settle();
        place
    }

    /// The driver reads up to `most` bytes of a client, if it may.
    pub fn read_client(&mut self, place: usize, most: usize) {
        let client = &mut self.clients[place];
        if !client.alive || client.securing || client.outgoing.is_empty() || !self.pooler.may_read(client.id.into()) {
            return;
        }
        let most = most.min(client.outgoing.len());
        let read: Vec<u8> = client.outgoing.drain(..most).collect();
        self.pass(self.clients[place].id.into(), &read);
        self.do_requests();
    }

    /// The driver reads up to `most` bytes of a server.
    pub fn read_server(&mut self, place: usize, most: usize) {
        let server = &mut self.servers[place];
        if !server.alive || !server.connected || server.securing || server.outgoing.is_empty() {
            return;
        }
        let most = most.min(server.outgoing.len());
        let read: Vec<u8> = server.outgoing.drain(..most).collect();
        self.pass(self.servers[place].id.into(), &read);
        self.do_requests();
    }

    pub fn client_closes(&mut self, place: usize) {
        let client = &mut self.clients[place];
        if client.alive {
            client.alive = false;
            self.handshakes
                .retain(|securing| *securing != self.clients[place].id.into());
            self.say(|| format!("{} closes", self.clients[place].id));
            self.pooler.handle_client_closed(self.now, self.clients[place].id);
            self.settle();
        }
    }

    pub fn server_closes(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if server.alive && server.connected {
            server.alive = false;
            self.handshakes
                .retain(|securing| *securing != self.servers[place].id.into());
            self.say(|| format!("{} closes", self.servers[place].id));
            self.pooler.handle_server_closed(self.now, self.servers[place].id);
            self.settle();
        }
    }

    /// A pending connect succeeds or fails.
    pub fn finish_connect(&mut self, which: usize, succeeds: bool) {
        let id = self.connects.swap_remove(which);
        let place = self.places[&ConnectionId::Server(id)];
        if succeeds {
            self.servers[place].connected = true;
            let remote = Address::Tcp(SocketAddr::from(([10, 0, 0, 1], self.servers[place].port())));
            let local = Address::Tcp(SocketAddr::from(([10, 0, 0, 9], 50_000)));
            self.pooler
                .handle_server_connected(self.now, id, Connected { remote, local });
        } else {
            self.servers[place].alive = false;
            self.pooler
                .handle_server_connect_failed(self.now, id, "connection refused");
        }
        self.settle();
    }

    pub fn finish_cancel(&mut self, which: usize) {
        let id = self.cancels.swap_remove(which);
        self.pooler.handle_cancel_finished(self.now, id, CancelEnd::Over);
        self.settle();
    }

    pub fn finish_reload(&mut self, which: usize, outcome: ReloadOutcome) {
        let by = self.reloads.swap_remove(which);
        self.pooler.handle_reload(self.now, by, outcome);
        self.settle();
    }

    pub fn command(&mut self, command: Command) {
        self.pooler.handle_command(self.now, command);
        self.settle();
    }

    /// Time passes, and the core is called, whether it has asked for that or not.
    pub fn pass_time(&mut self, time: Duration) {
        self.now = self.now + time;
        assert!(
            self.pooler.poll_timeout().is_some(),
            "the core wants to be woken for its rounds"
        );
        self.pooler.handle_timeout(self.now);
        self.settle();
    }

    /// Everything on its way arrives, and servers answer well, until nothing happens any more.
    pub fn come_to_rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            while !self.connects.is_empty() {
                self.finish_connect(0, true);
                moved = true;
            }
            while !self.cancels.is_empty() {
                self.finish_cancel(0);
                moved = true;
            }
            while !self.handshakes.is_empty() {
                self.finish_handshake(0, Handshake::Named("alice"));
                moved = true;
            }
            for place in 0..self.servers.len() {
                while self.servers[place].alive && self.servers[place].owes() {
                    self.servers[place].answer_well(&mut self.cache);
                    moved = true;
                }
                moved |= self.servers[place].alive && !self.servers[place].outgoing.is_empty();
                self.read_server(place, usize::MAX);
            }
            for place in 0..self.clients.len() {
                let waiting = self.clients[place].outgoing.len();
                self.read_client(place, usize::MAX);
                moved |= self.clients[place].outgoing.len() != waiting;
            }
            if !moved || self.exited {
                return;
            }
        }
        panic!("the pooler and its peers talk for ever");
    }

    /// Prints a line of the story, if that is wanted.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.talks {
            eprintln!("{}", line());
        }
    }

    /// The driver passes to the core the bytes that it has kept for a connection and those that it has read, and keeps
    /// those that are not consumed.
    fn pass(&mut self, id: ConnectionId, read: &[u8]) {
        let place = self.places[&id];
        let mut input = match id {
            ConnectionId::Client(_) => std::mem::take(&mut self.clients[place].kept),
            ConnectionId::Server(_) => std::mem::take(&mut self.servers[place].kept),
        };
        input.extend_from_slice(read);
        self.say(|| format!("{} says {}", name(id), shown(&input)));
        let consumed = match id {
            ConnectionId::Client(id) => self.pooler.handle_client_bytes(self.now, id, &input),
            ConnectionId::Server(id) => self.pooler.handle_server_bytes(self.now, id, &input),
        };
        assert!(
            consumed <= input.len(),
            "{consumed} of {} bytes are consumed",
            input.len()
        );
        self.write_outbox(Some(id), &input);
        input.drain(..consumed);
        assert!(
            input.len() <= KEPT_BYTES_MAX,
            "{} bytes are left to the driver",
            input.len()
        );
        match id {
            ConnectionId::Client(_) => self.clients[place].kept = input,
            ConnectionId::Server(_) => self.servers[place].kept = input,
        }
        self.take_requests();
    }

    /// Follows every `handle_*` call without input.
    pub(crate) fn settle(&mut self) {
        self.write_outbox(None, &[]);
        self.take_requests();
        self.do_requests();
        while self.pooler.awaits_turn_end() {
            self.pooler.handle_turn_end(self.now);
            self.write_outbox(None, &[]);
            self.take_requests();
            self.do_requests();
        }
    }

    /// Writes the core's output; `from` is the connection that `input` comes from.
    fn write_outbox(&mut self, from: Option<ConnectionId>, input: &[u8]) {
        let parts: Vec<Part> = self.pooler.outbox().parts().to_vec();
        for part in parts {
            let length = match part.source {
                Source::Input => input.len(),
                Source::Arena => self.pooler.outbox().arena().len(),
            };
            assert!(
                part.start < part.end && part.end as usize <= length,
                "{part:?} does not lie within {length} bytes"
            );
            let bytes = self.pooler.outbox().bytes(&part, input).to_vec();
            self.say(|| format!("  {} gets {} ({:?})", name(part.to), shown(&bytes), part.source));
            if part.source == Source::Input {
                let crosses = matches!(
                    (from, part.to),
                    (Some(ConnectionId::Client(_)), ConnectionId::Server(_))
                        | (Some(ConnectionId::Server(_)), ConnectionId::Client(_))
                );
                assert!(crosses, "bytes of {from:?} are passed on to {:?}", part.to);
            }
            let Some(&place) = self.places.get(&part.to) else {
                panic!("{part:?} is for a connection that never was");
            };
            assert!(self.is_alive(part.to), "{part:?} is for a connection that is gone");
            assert!(
                !self.closing.contains(&part.to),
                "{part:?} is for a connection that was closed before"
            );
            match part.to {
                ConnectionId::Client(_) => {
                    let client = &mut self.clients[place];
                    let messages = client.framing.push(Direction::ToClient, part.source, from, &bytes);
                    client.hear(messages, &mut self.cache);
                }
                ConnectionId::Server(_) => {
                    let server = &mut self.servers[place];
                    assert!(server.connected, "{part:?} is for a socket that is not open");
                    let messages = server.framing.push(Direction::ToServer, part.source, from, &bytes);
                    server.hear(messages);
                }
            }
        }
        self.pooler.outbox().clear();
    }

    /// Takes over the core's requests. The contract is to carry them out in this order, after earlier ones.
    fn take_requests(&mut self) {
        while let Some(request) = self.pooler.poll_request() {
            self.say(|| format!("  {request:?}"));
            match &request {
                Request::Connect { server, endpoint } => {
                    let place = self.servers.len();
                    let earlier = self.places.insert((*server).into(), place);
                    assert_eq!(earlier, None, "{server} is given twice");
                    self.servers.push(Server::new(*server, endpoint.clone()));
                }
                Request::Cancel { server, key } => {
                    let id = ConnectionId::Server(*server);
                    assert!(
                        self.is_alive(id) && !self.closing.contains(&id),
                        "a cancel for {server}, which is gone"
                    );
                    let server = &self.servers[self.places[&id]];
                    assert!(server.connected, "a cancel for a socket that is not open");
                    assert!(
                        !server.sound || server.key.as_ref() == Some(key),
                        "a cancel with a wrong key"
                    );
                }
                Request::Close(id) => self.is_closing(*id),
                Request::Abort(id) => self.is_closing((*id).into()),
                Request::Resume(id) => assert!(self.places.contains_key(id), "{id:?} never was, and is resumed"),
                _ => {}
            }
            self.requests.push_back(request);
        }
        if let Err(wrong) = self.pooler.check_invariants() {
            panic!("what the core keeps twice: {wrong}");
        }
    }

    fn is_closing(&mut self, id: ConnectionId) {
        assert!(self.is_alive(id), "{id:?}, which is gone, is closed");
        assert!(self.closing.insert(id), "{id:?} is closed twice");
    }

    fn do_requests(&mut self) {
        let mut done = 0;
        while let Some(request) = self.requests.pop_front() {
            done += 1;
            assert!(done < REQUESTS_PER_MOVE_MAX, "requests without end: {request:?}");
            match request {
                Request::Connect { server, .. } => self.connects.push(server),
                Request::Cancel { server, .. } => self.cancels.push(server),
                Request::Close(id) => self.close(id),
                Request::Abort(id) => self.close(id.into()),
                Request::Resume(id) => {
                    if self.is_alive(id) && !self.handshakes.contains(&id) {
                        self.pass(id, &[]);
                    }
                }
                Request::Log { .. } | Request::Configure(_) | Request::Status(_) => {}
                Request::Reload { by } => self.reloads.push(by),
                Request::TryTls(change) => {
                    let _ = self.pooler.handle_tls_tried(self.now, *change, Ok(()));
                    self.write_outbox(None, &[]);
                    self.take_requests();
                }
                Request::SecureClient { client, direct } => self.secure_client(client, direct),
                Request::SecureServer { server, .. } => self.secure_server(server),
                Request::Verify { asker, question } => match *question {
                    Verification::Keys(derivation) => {
                        let answer = Verified::Keys(derivation.derive());
                        self.pooler.handle_verified(self.now, asker, answer);
                        self.write_outbox(None, &[]);
                        self.take_requests();
                    }
                    _ => unreachable!("no configuration of the stories asks others"),
                },
                Request::ReadBeforeCancel { by, .. } => {
                    self.pooler.handle_read_before_cancel(self.now, by, true);
                    self.write_outbox(None, &[]);
                    self.take_requests();
                }
                Request::PassOn { .. } => unreachable!("no configuration of the stories has peers"),
                Request::StopListening => self.listening = false,
                Request::Exit => self.exited = true,
            }
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.closing.remove(&id);
        self.handshakes.retain(|securing| *securing != id);
        let place = self.places[&id];
        match id {
            ConnectionId::Client(_) => self.clients[place].alive = false,
            ConnectionId::Server(server) => {
                self.servers[place].alive = false;
                self.connects.retain(|s| *s != server);
            }
        }
    }

    pub(crate) fn is_alive(&self, id: ConnectionId) -> bool {
        let Some(&place) = self.places.get(&id) else {
            return false;
        };
        match id {
            ConnectionId::Client(_) => self.clients[place].alive,
            ConnectionId::Server(_) => self.servers[place].alive,
        }
    }

    /// All clients leave; what the core keeps for them must go, too.
    pub fn end(&mut self) {
        for place in 0..self.clients.len() {
            self.client_closes(place);
        }
        self.check();
        self.come_to_rest();
        self.pass_time(Duration::from_secs(60));
        self.come_to_rest();
        let servers = self.servers.len();
        self.pass_time(Duration::from_secs(60));
        assert_eq!(
            self.servers.len(),
            servers,
            "a server is asked for although nobody is there"
        );
        for server in &self.servers {
            assert_eq!(
                self.pooler.linked(server.id.into()),
                None,
                "{} is linked to nobody",
                server.id
            );
        }
        for place in 0..self.servers.len() {
            self.server_closes(place);
        }
        self.check();
    }
}

fn name(id: ConnectionId) -> String {
    match id {
        ConnectionId::Client(id) => id.to_string(),
        ConnectionId::Server(id) => id.to_string(),
    }
}

fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 300;
    let dots = if bytes.len() > SHOWN_MAX { "..." } else { "" };
    format!("\"{}\"{dots}", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}
