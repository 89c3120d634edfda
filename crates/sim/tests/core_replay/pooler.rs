//! A pooler whose clients and servers play a recording, in whole pieces or byte by byte.

use pgweir_core::{
    Accepted, Address, CancelEnd, ClientId, Connected, ConnectionId, Pooler, Request, ServerId, Surroundings, Time,
    WallClock,
};
use pgweir_sim::transcript::{Line, split_messages};
use pgweir_wire::{CancelKey, StartupPacket};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    Whole,
    Bytes,
}

pub struct Replay {
    pub pooler: Pooler,
    pub pieces: Pieces,
    pub now: Time,
    pub clients: BTreeMap<u32, ClientId>,
    pub keys: BTreeMap<u32, CancelKey>,
    /// Bytes that each connection has got and the test has not looked at.
    pub got: HashMap<ConnectionId, Vec<u8>>,
    pub kept: HashMap<ConnectionId, Vec<u8>>,
    pub connects: VecDeque<ServerId>,
    pub login: Vec<u8>,
    pub cancels: Vec<ServerId>,
    pub closed: Vec<ConnectionId>,
}

impl Replay {
    pub fn new(mode: &str, pieces: Pieces) -> Self {
        let ini = format!(
            "[databases]\npostgres = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n\
             auth_file = users\npool_mode = {mode}\ndeferred_begin = 0\nserver_reset_query =\nsession_state = pgbouncer\n\
             ignore_startup_parameters = options, statement_timeout\nserver_tls_sslmode = disable\n"
        );
        let files = |name: &str| -> std::io::Result<Vec<u8>> {
            match name {
                "ini" => Ok(ini.clone().into_bytes()),
                _ => Ok(b"\"postgres\" \"\"\n".to_vec()),
            }
        };
        let config = pgweir_config::load("ini", &files).expect("a good configuration").config;
        let surroundings = Surroundings {
            seed: [7; 32],
            wall: WallClock { unix_us: 0 },
            own_uid: 0,
            host_name: "here".into(),
            open_files_max: 100,
        };
        Replay {
            pooler: Pooler::new(Arc::new(config), surroundings, Time(0)),
            pieces,
            now: Time(0),
            clients: BTreeMap::new(),
            keys: BTreeMap::new(),
            got: HashMap::new(),
            kept: HashMap::new(),
            connects: VecDeque::new(),
            login: Vec::new(),
            cancels: Vec::new(),
            closed: Vec::new(),
        }
    }

    pub fn give(&mut self, id: ConnectionId, bytes: &[u8]) {
        match self.pieces {
            Pieces::Whole => self.give_piece(id, bytes),
            Pieces::Bytes => bytes.iter().for_each(|b| self.give_piece(id, &[*b])),
        }
    }

    pub fn give_piece(&mut self, id: ConnectionId, bytes: &[u8]) {
        let mut input = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        if !self.pooler.may_read(id) || self.closed.contains(&id) {
            self.kept.insert(id, input);
            return;
        }
        let consumed = match id {
            ConnectionId::Client(client) => self.pooler.handle_client_bytes(self.now, client, &input),
            ConnectionId::Server(server) => self.pooler.handle_server_bytes(self.now, server, &input),
        };
        self.settle(&input);
        self.kept.insert(id, input.split_off(consumed));
        self.requests();
    }

    pub fn settle(&mut self, input: &[u8]) {
        let outbox = self.pooler.outbox();
        for part in outbox.parts() {
            self.got
                .entry(part.to)
                .or_default()
                .extend_from_slice(outbox.bytes(part, input));
        }
        outbox.clear();
    }

    pub fn requests(&mut self) {
        self.settle(&[]);
        while let Some(request) = self.pooler.poll_request() {
            match request {
                Request::Connect { server, .. } => self.connects.push_back(server),
                Request::Cancel { server, .. } => self.cancels.push(server),
                Request::Close(id) => self.closed.push(id),
                Request::Abort(id) => self.closed.push(id.into()),
                Request::Resume(id) => self.give_piece(id, &[]),
                _ => {}
            }
        }
    }

    pub fn address() -> Address {
        Address::Unix { port: 1, pid: None }
    }

    pub fn accept(&mut self) -> ClientId {
        let accepted = Accepted {
            peer: Self::address(),
            local: Self::address(),
            peer_uid: None,
        };
        let id = self.pooler.handle_accept(self.now, accepted);
        self.requests();
        id
    }

    /// Logs a client in. Every server that it needs logs in as in the recording.
    pub fn log_in(&mut self, connection: u32, startup: &[u8], login: &[u8]) {
        let id = self.accept();
        self.clients.insert(connection, id);
        self.login = login.to_vec();
        self.give(id.into(), startup);
        self.connect_servers();
        let answer = self.got.remove(&id.into()).unwrap_or_default();
        let messages = split_messages(&answer);
        assert_eq!(messages.last(), Some(&&b"Z\0\0\0\x05I"[..]), "the client is logged in");
        for message in messages {
            if message[0] == b'K' {
                self.keys.insert(connection, CancelKey::read(&message[5..]).unwrap());
            }
        }
    }

    /// Logs in the servers that were asked for, as in the recording.
    pub fn connect_servers(&mut self) {
        while let Some(server) = self.connects.pop_front() {
            let connected = Connected {
                remote: Self::address(),
                local: Self::address(),
            };
            self.pooler.handle_server_connected(self.now, server, connected);
            self.requests();
            self.got.remove(&server.into());
            let login = self.login.clone();
            self.give(server.into(), &login);
        }
    }

    /// The bytes that the client's server has got since the last look.
    pub fn server_got(&mut self, client: ConnectionId) -> Vec<u8> {
        let server = self.pooler.linked(client);
        server.and_then(|s| self.got.remove(&s)).unwrap_or_default()
    }

    /// The client's server sends some lines.
    pub fn answer(&mut self, client: ConnectionId, lines: &[Line]) {
        if let Some(server) = self.pooler.linked(client) {
            self.give(server, &bytes_of(lines));
            self.connect_servers();
        }
    }

    pub fn cancel(&mut self, of: u32) {
        let id = self.accept();
        let mut packet = Vec::new();
        StartupPacket::write_cancel(&mut packet, &self.keys[&of]);
        self.give(id.into(), &packet);
        for server in std::mem::take(&mut self.cancels) {
            assert_eq!(self.pooler.linked(self.clients[&of].into()), Some(server.into()));
            self.pooler.handle_cancel_finished(self.now, server, CancelEnd::Over);
            self.requests();
        }
    }
}

pub fn bytes_of(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.bytes().unwrap()).collect()
}
